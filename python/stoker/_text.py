"""From Python values to the text of an op, as the engine reads it."""

from __future__ import annotations

import operator
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    # Name, kind (as `stoker ops --json` has it), value and default of an option; `...`: it must be given.
    Option = tuple[str, str, object, object]

_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_NAME = _LETTERS | frozenset("0123456789")
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", '"': '\\"'}
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_DTYPES = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 bytes".split()
)
# Options that name files, in which `~` is the home directory.
_PATHS = frozenset(("lexicon", "model", "only", "path", "paths", "schema"))
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1


def is_name(text: str) -> bool:
    """Whether the engine reads it as one name, without quotes."""
    return bool(text) and text[0] in _LETTERS and _NAME.issuperset(text) and text not in ("true", "false")


def quoted(text: str) -> str:
    """A string of the pipeline language. Bytes of paths that are no UTF-8 come as surrogates, and go as \\xNN."""
    out = ['"']
    for c in text:
        code = ord(c)
        if c in _ESCAPES:
            out.append(_ESCAPES[c])
        elif code == 0:
            raise ValueError("it holds a NUL character")
        elif code < 0x20 or code == 0x7F:
            out.append(f"\\x{code:02x}")
        elif 0xDC80 <= code <= 0xDCFF:
            out.append(f"\\x{code - 0xDC00:02x}")
        elif 0xD800 <= code <= 0xDFFF:
            raise ValueError(f"it holds U+{code:04X}, half of a character")
        else:
            out.append(c)
    out.append('"')
    return "".join(out)


def parse_size(value: object) -> int:
    """Bytes of 4096, "256M", "1.5 GiB"; ValueError or TypeError for anything else."""
    if not isinstance(value, str):
        size = whole(value)
        if size < 0:
            raise ValueError(f"wanted a size of at least 0, found {size}")
        return size
    text = value.strip()
    end = len(text)
    while end and text[end - 1].isalpha():
        end -= 1
    unit = text[end:].upper().removesuffix("B").removesuffix("I")
    number = text[:end].rstrip()
    plain = number.replace(".", "", 1)
    if unit not in _UNITS or not (plain.isascii() and plain.isdigit()):
        raise ValueError(f'wanted a size such as 4096 or "256M", found {value!r}')
    size = int(float(number) * _UNITS[unit]) if "." in number else int(number) * _UNITS[unit]
    if size > _INT_MAX:
        raise ValueError(f"wanted a size of at most 2**63 - 1 bytes, found {value!r}")
    return size


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was meant, perhaps."""
    import difflib

    return next(iter(difflib.get_close_matches(name, list(known), 1)), None)


def is_bool(value: object) -> bool:
    """True, False, or NumPy's."""
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool") and hasattr(value, "dtype")


def whole(value: object) -> int:
    """A number that counts: no bool, no fraction."""
    if is_bool(value) or isinstance(value, (str, bytes)):
        raise TypeError(f"wanted a whole number, found {value!r}")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        if not (isinstance(value, float) and value.is_integer()):
            raise TypeError(f"wanted a whole number, found {value!r}") from None
        number = int(value)
    if not _INT_MIN <= number <= _INT_MAX:
        raise ValueError(f"wanted a number of 64 bits, found {number}")
    return number


def _int(value: object) -> str:
    if isinstance(value, str) and is_name(value):
        return value  # a choice such as window="auto"; the engine knows which there are
    return str(whole(value))


def _float(value: object) -> str:
    if is_bool(value) or isinstance(value, (str, bytes)):
        raise TypeError(f"wanted a number, found {value!r}")
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TypeError(f"wanted a number, found {value!r}") from None
    except OverflowError:
        raise ValueError("wanted a number that a float can hold, found a larger one") from None
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError(f"wanted a finite number, found {number}")
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def _bool(value: object) -> str:
    if not is_bool(value):
        raise TypeError(f"wanted True or False, found {value!r}")
    return "true" if value else "false"


def _word(value: object) -> str:
    """The text of a string or path."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, bytes):
        value = os.fsdecode(value)
    if not isinstance(value, str):
        raise TypeError(f"wanted a string, found {value!r}")
    return value


def _string(value: object) -> str:
    return quoted(_word(value))


def _path(value: object) -> str:
    return quoted(os.path.expanduser(_word(value)))


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"wanted a name, found {value!r}")
    if not value:
        raise ValueError("wanted a name, found an empty text")
    return value if is_name(value) else quoted(value)


def _size(value: object) -> str:
    size = parse_size(value)
    return value if isinstance(value, str) and value.isalnum() and value[0].isdigit() else str(size)


def _items(value: object) -> list[object]:
    """One item, or those of sequences in it: paths may be given as a("x", "y"), a(["x", "y"]) or both."""
    if isinstance(value, (str, bytes, os.PathLike)):
        return [value]
    try:
        items = iter(value)  # type: ignore[call-overload]
    except TypeError:
        return [value]
    return [inner for item in items for inner in _items(item)]


def _numbers(value: object) -> str:
    tolist = getattr(value, "tolist", None)
    if tolist is not None:
        value = tolist()
    if isinstance(value, (str, bytes)):
        raise TypeError(f"wanted numbers, found {value!r}")
    return "[" + ", ".join(_float(x) for x in _items(value)) + "]"


_WRITERS: dict[str, Callable[[object], str]] = {
    "int": _int,
    "float": _float,
    "bool": _bool,
    "string": _string,
    "enum": _name,
    "size": _size,
    "numbers": _numbers,
    "field": _name,
}


def _closes(text: str) -> bool:
    """Whether brackets and quotes close, the last one at the very end, with no comment and nothing between them."""
    depth, quote, i = 0, "", 0
    while i < len(text):
        c = text[i]
        if quote:
            if c == "\\":
                i += 1
            elif c == quote:
                quote = ""
        elif c in "\"'":
            quote = c
        elif c in "#|\n\r":
            return False
        elif c in "[(":
            depth += 1
        elif c in "])":
            depth -= 1
            if depth < 0 or (depth == 0 and i + 1 < len(text) and text[i + 1 :].lstrip()[:1] != "("):
                return False
        elif depth == 0:
            return False
        i += 1
    return depth == 0 and not quote and i == len(text)


def _is_type(text: str) -> bool:
    """float32, float32[8], int64(from="a/b")."""
    end = 0
    while end < len(text) and text[end] in _NAME:
        end += 1
    rest = text[end:].strip()
    return text[:end] in _DTYPES and (not rest or (rest[0] in "[(" and _closes(rest)))


def _type(value: object) -> str:
    """A type as it is; anything else, such as the name of another field, as a string."""
    if not isinstance(value, str):
        raise TypeError(f'wanted a text such as "float32[8]", found {value!r}')
    text = value.strip()
    return text if _is_type(text) else quoted(value)


def _fields(value: object, write: Callable[[object], str]) -> list[str]:
    if not isinstance(value, dict):
        raise TypeError(f"wanted a dict of field names, found {value!r}")
    out = []
    for name, text in value.items():
        try:
            out.append(f"{_name(name)}={write(text)}")
        except (TypeError, ValueError) as e:
            raise type(e)(f"{name}: {e}") from None
    return out


def _option(name: str, kind: str, value: object, default: object, first: bool) -> list[str]:
    """The arguments that an option becomes; none when it has its default."""
    if kind in ("args", "texts"):
        return _fields(value or {}, _type if kind == "args" else _string)
    if value is None and name == "seed":
        raise ValueError(
            "wanted a number: an order that is drawn anew would be another one on each rank and after a resume; draw a "
            "seed yourself, random.randrange(2**31), and give it to all ranks"
        )
    if value is None or value is ...:
        if default is ...:
            raise TypeError(f"wanted a value, found {value!r}")
        return []
    if kind in ("strings", "fields"):
        write = _name if kind == "fields" else _path if name in _PATHS else _string
        items = [write(x) for x in _items(value)]
        if not items and default is ...:
            raise ValueError("wanted at least one, found none")
        # Only the first option can go by position, all others would be taken for it.
        if first or not items:
            return items
        # A list of one and a single word may mean different things: the name of a class, and a file with names.
        single = isinstance(value, (str, bytes, os.PathLike))
        return [f"{name}={items[0]}" if single else f"{name}=[{', '.join(items)}]"]
    text = _path(value) if kind == "string" and name in _PATHS else _WRITERS[kind](value)
    if default is not None and default is not ... and text == _WRITERS[kind](default):
        return []
    return [f"{name}={text}"]


def call_text(op: str, options: Iterable[Option]) -> str:
    """The text of one op: `shuffle(seed=42)`. Options that have their default are left out."""
    arguments: list[str] = []
    for i, (name, kind, value, default) in enumerate(options):
        try:
            arguments += _option(name, kind, value, default, i == 0)
        except (TypeError, ValueError) as e:
            raise type(e)(f"{op}: {name}: {e}") from None
    return f"{op}({', '.join(arguments)})"


def options_of(op: str, table: Sequence[Mapping[str, object]], values: Mapping[str, object]) -> list[Option]:
    """Options as call_text takes them, by the op's table and values by name; those left over are fields."""
    left = dict(values)
    out: list[Option] = []
    rest: str | None = None
    for row in table:
        name, kind = str(row["name"]), str(row["kind"])
        if kind == "args":
            rest = name
            continue
        default = ... if row["required"] else row["default"]
        key = name if name in left else name + "_" if name + "_" in left else None
        out.append((name, kind, left.pop(key) if key else None if default is ... else default, default))
    if rest is not None:
        out.append((rest, "args", left, None))
    elif left:
        known = ", ".join(str(row["name"]) for row in table) or "none"
        raise TypeError(f"{op} has no option {next(iter(left))!r}; it takes {known}")
    return out
