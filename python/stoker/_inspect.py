"""What is in data files, and the line of Python that reads them: `stoker inspect` as an object."""

from __future__ import annotations

import keyword
import os
import re

from . import _core
from ._program import program_path
from ._show import escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    Path = str | os.PathLike[str]

# Exceptions by the status that the program tells.
_ERRORS: dict[str, type[_core.Error]] = {
    "INVALID": _core.InvalidError,
    "IO": _core.ReadError,
    "CORRUPT": _core.CorruptError,
    "BUDGET": _core.BudgetError,
    "NOMEM": _core.BudgetError,
    "UNSUPPORTED": _core.UnsupportedError,
}
_SOURCES = {"tfrecord": "tfrecord", "tar": "webdataset", "hdf5": "hdf5", "text": "text", "image_folder": "image_folder"}
_TYPE = re.compile(r"(\w+)(\[\d*\])?(\(.*\))?")  # of parse: int64[4](from="a/b")
_MEMBER = re.compile(r'(\w+)\(from="(.*?)"(, default=[^)]*)?\)')  # of webdataset: int64(from="cls", default=0)
_GENERAL = ("int64", "float32", "bytes")  # what one of them can be read as, all that stand after it can too


class Inspection:
    """What was found in files. Prints as `stoker inspect` does, and has the line of Python that reads them."""

    __slots__ = ("_files", "_pages", "_lines", "_notes")

    def __init__(self, paths: Sequence[str], files: Sequence[dict[str, Any]]) -> None:
        self._pages = [str(file["page"]).rstrip("\n") for file in files]
        self._files = [{key: value for key, value in file.items() if key != "page"} for file in files]
        self._notes = [
            f"{file['file']}: {line}" if len(files) > 1 else str(line)
            for file in files
            for line in (*file["left_out"], *file["notes"])
        ]
        self._lines = _lines(paths, self._files, self._notes)

    @property
    def python(self) -> str:
        """The Python that reads the files: one line, or where they are of several formats, one for each."""
        return "\n".join(self._lines)

    @property
    def json(self) -> list[dict[str, Any]]:
        """All that was found, a dict for each file with the keys of `stoker inspect --json`."""
        return self._files

    @property
    def notes(self) -> list[str]:
        """What that line leaves out, with the reason, and what may go wrong with it."""
        return list(self._notes)

    @property
    def bad(self) -> int:
        """Records and stretches of files that are damaged. Only `verify=True` looks at all of them."""
        return sum(file.get("bad") or 0 for file in self._files)

    def __str__(self) -> str:
        return "\n\n".join([*self._pages, "in Python\n" + "\n".join("  " + line for line in self._lines)])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        text = "\n".join(map(escape, "\n\n".join(self._pages).split("\n")))
        code = "\n".join(map(escape, self._lines))
        return f"<div><pre>{text}</pre><div>In Python:</div><pre><code>{code}</code></pre></div>"


# ---- the line of Python ----


def _literal(text: str) -> str:
    """As Python writes it, in double quotes where that needs no escapes."""
    plain = repr(text)
    return plain if '"' in text or plain[0] == '"' else f'"{plain[1:-1]}"'


def _arguments(fields: dict[str, str]) -> list[str]:
    words = [f"{name}={_literal(value)}" for name, value in fields.items() if not keyword.iskeyword(name)]
    others = [f"{_literal(name)}: {_literal(value)}" for name, value in fields.items() if keyword.iskeyword(name)]
    return [*words, f"**{{{', '.join(others)}}}"] if others else words


def _line(format: str, paths: Sequence[str], fields: dict[str, str]) -> str:
    files = [_literal(path) for path in paths]
    if format != "tfrecord":
        return f"stoker.{_SOURCES[format]}({', '.join([*files, *_arguments(fields)])})"
    parse = f".parse({', '.join(_arguments(fields))})" if fields else ""
    return f"stoker.tfrecord({', '.join(files)}){parse}"


def _lines(paths: Sequence[str], files: Sequence[dict[str, Any]], notes: list[str]) -> list[str]:
    """A line for each format; notes get what files of one format disagree about."""
    formats = dict.fromkeys(str(file["format"]) for file in files)
    lines = []
    for format in formats:
        same = [file for file in files if file["format"] == format]
        # Patterns stay what they are, unless they give files of other formats too.
        names = paths if len(formats) == 1 else [str(file["file"]) for file in same]
        lines.append(_line(format, names, _merged(format, same, notes)))
    return lines


def _merged(format: str, files: Sequence[dict[str, Any]], notes: list[str]) -> dict[str, str]:
    """Fields that read all of the files. An empty file says nothing of what the others should have."""
    tables = [
        {field["name"]: field["value"] for field in file["fields"]} for file in files if file.get("looked_at", 1) > 0
    ]
    fields: dict[str, str] = {}
    for name in dict.fromkeys(name for table in tables for name in table):
        values = [table.get(name) for table in tables]
        found = list(dict.fromkeys(value for value in values if value is not None))
        one = found[0] if len(found) == 1 and None not in values else _MERGE[format](found, None in values)
        if one is not None:
            fields[name] = one
            continue
        where = "in all files" if len(found) > 1 else "in some files only"
        notes.append(f"left out of the line: {name}, which is {' and '.join(found)} {where}")
    return fields


def _merge_types(found: Sequence[str], missing: bool) -> str | None:
    """Types of parse that differ in shape become a list, and so does what a file does not have."""
    parts = [match.groups() for match in map(_TYPE.fullmatch, found) if match]
    if len(parts) < len(found) or len({(dtype, options) for dtype, _, options in parts}) > 1:
        return None
    dtype, _, options = parts[0]
    if options and "sequence=true" in options:  # it is empty where it is missing
        return found[0] if len(found) == 1 else None
    return f"{dtype}[]{options or ''}"


def _merge_members(found: Sequence[str], missing: bool) -> str | None:
    """Members of archives become what all of them can be read as, and have a default where one has none."""
    parts = [match.groups() for match in map(_MEMBER.fullmatch, found) if match]
    if len(parts) < len(found):
        return None
    dtype = max((dtype for dtype, _, _ in parts), key=_GENERAL.index)
    extensions = ";".join(dict.fromkeys(extension for _, names, _ in parts for extension in names.split(";")))
    default = f", default={0 if dtype != 'bytes' else chr(34) * 2}"
    return f'{dtype}(from="{extensions}"{default if missing or any(part[2] for part in parts) else ""})'


def _merge_nothing(found: Sequence[str], missing: bool) -> str | None:
    return None


_MERGE = {"tfrecord": _merge_types, "tar": _merge_members, "hdf5": _merge_nothing}


# ---- the call ----


def _flat(paths: Iterable[Path | Iterable[Path]]) -> list[str]:
    found: list[str] = []
    for path in paths:
        found += [os.fspath(path)] if isinstance(path, (str, os.PathLike)) else _flat(path)
    return found


def _raise(file: dict[str, Any]) -> None:
    error = file["error"]
    kind = _ERRORS.get(error["status"], _core.Error)
    exception = kind(error["message"])
    exception.status, exception.message, exception.file = error["status"], error["message"], file["file"]
    raise exception


def inspect(
    *paths: Path | Iterable[Path], verify: bool = False, records: int | None = 1000, limit: int | None = 100
) -> Inspection:
    """Look into TFRecord, tar, HDF5 and text files and folders of pictures, and say how to read them.

        found = stoker.inspect("data/*.tfrecord")
        print(found)            # records, sizes, features
        print(found.python)     # stoker.tfrecord("data/*.tfrecord").parse(image="bytes", label="int64")

    A file that cannot be read is an error; one that is damaged is not, and `bad` says so.

    Args:
        paths: files, directories, or patterns such as "data/*.tfrecord".
        verify: read everything, and check every CRC, header and chunk.
        records: look at the features or members of so many records of each file; None: of all.
        limit: features and bad places that the text lists of each file; None: all.
    """
    import json
    import subprocess

    names = _flat(paths)
    if not names:
        raise TypeError("inspect: wanted one or more paths, found none")
    if "-" in names:
        raise ValueError("inspect: '-' is standard input, which belongs to this program; wanted files")
    for name, value in (("records", records), ("limit", limit)):
        if value is not None and value < 1:
            raise ValueError(f"inspect: {name} must be 1 or more, or None for all, found {value}")
    options = ["--json", f"--records={records or 0}", f"--limit={limit or 0}", *(["--verify"] if verify else [])]
    command = [program_path(), "inspect", *options, "--", *names]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    try:
        files = json.loads(done.stdout.decode(errors="replace"))
    except ValueError:
        said = done.stderr.decode(errors="replace").strip()
        raise _core.Error(f"stoker inspect ended with {done.returncode}: {said or 'no message'}") from None
    for file in files:
        if "error" in file:
            _raise(file)
    return Inspection(names, files)
