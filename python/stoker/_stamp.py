"""What Python functions and objects are known by, for cache files: code and values, not names."""

from __future__ import annotations

import hashlib
import io
import itertools
import os
import pickle
import sys
import time
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_counter = itertools.count()


class _Hash(io.RawIOBase):
    """A file that keeps only the hash of what is written to it."""

    def __init__(self) -> None:
        self.hash = hashlib.blake2b(digest_size=8)

    def write(self, data: Any) -> int:
        self.hash.update(data)
        return len(data)


def _is_library(module: str | None) -> bool:
    """Whether its code comes with Python or was installed: it is known by its version."""
    top = (module or "").partition(".")[0]
    if top in sys.stdlib_module_names and top != "__main__":
        return True
    path = getattr(sys.modules.get(top), "__file__", None) or ""
    return "site-packages" in path or "dist-packages" in path or top == "stoker"


def _library(module: str | None) -> tuple[str, str]:
    name = module or ""
    return name, str(getattr(sys.modules.get(name.partition(".")[0]), "__version__", ""))


def _code(code: types.CodeType) -> tuple[Any, ...]:
    """The code without the lines it stands in."""
    consts = tuple(
        _code(c) if isinstance(c, types.CodeType) else repr(sorted(c, key=repr)) if isinstance(c, frozenset) else repr(c)
        for c in code.co_consts
    )
    return code.co_code, consts, code.co_names, code.co_varnames, code.co_freevars


def _names(code: types.CodeType) -> set[str]:
    found = set(code.co_names)
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            found |= _names(c)
    return found


class _Pickler(pickle.Pickler):
    """Pickles functions and classes by what they do; only the hash of it is kept, so nothing must be read back."""

    def __init__(self, file: Any, seen: set[int]) -> None:
        super().__init__(file, protocol=4)
        self._seen = seen

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, types.ModuleType):
            return tuple, (_library(obj.__name__),)
        if isinstance(obj, types.FunctionType):
            return tuple, (self._function(obj),)
        if isinstance(getattr(obj, "__wrapped__", None), types.FunctionType):  # functools.lru_cache, say
            return tuple, (self._function(obj.__wrapped__),)
        if isinstance(obj, types.CodeType):
            return tuple, (_code(obj),)
        if isinstance(obj, types.CellType):
            return tuple, ((obj.cell_contents,) if _filled(obj) else (),)
        if isinstance(obj, type) and not _is_library(obj.__module__):
            return tuple, (self._class(obj),)
        return NotImplemented

    def _function(self, fn: types.FunctionType) -> tuple[Any, ...]:
        if _is_library(fn.__module__):
            return (*_library(fn.__module__), fn.__qualname__)
        if id(fn) in self._seen:
            return (fn.__qualname__,)
        self._seen.add(id(fn))
        used = sorted(_names(fn.__code__) & fn.__globals__.keys())
        values = tuple((name, _digest_of_global(fn.__globals__[name], self._seen)) for name in used)
        return _code(fn.__code__), fn.__defaults__, fn.__kwdefaults__, fn.__closure__, values

    def _class(self, cls: type) -> tuple[Any, ...]:
        if id(cls) in self._seen:
            return (cls.__qualname__,)
        self._seen.add(id(cls))
        body = tuple((k, v) for k, v in sorted(vars(cls).items()) if isinstance(v, (types.FunctionType, int, float, str)))
        return cls.__qualname__, body, cls.__bases__


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True


def _digest(obj: Any, seen: set[int]) -> bytes:
    file = _Hash()
    _Pickler(file, seen).dump(obj)
    return file.hash.digest()


def _digest_of_global(obj: Any, seen: set[int]) -> bytes:
    """A global that cannot be pickled, an open file or a logger say, counts by its type."""
    try:
        return _digest(obj, seen)
    except Exception:
        return f"{type(obj).__module__}.{type(obj).__qualname__}".encode()


def stamp(obj: Any) -> int:
    """64 bits that change when the function or object does. What cannot be pickled is never the same again."""
    try:
        digest = _digest(obj, set())
    except Exception:
        digest = hashlib.blake2b(f"{os.getpid()} {time.time_ns()} {next(_counter)}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
