"""The trace workbench: traces and profiles of any format as tables, with SQL, totals and a verdict."""

from __future__ import annotations

import os
from importlib import import_module

from . import _core
from ._needs import library
from ._options import cache_dir, progress_call
from ._show import html_table, text_table, visible
from ._text import parse_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType
    from typing import Any, overload

    Path = str | os.PathLike[str]

_SHOWN = 20  # rows of a table
_NOTES = 5  # kinds of losses in a warning


class Table:
    """Columns of a result: rows as tuples, columns as lists, and all of it for Arrow, pandas and polars.

    pyarrow, polars, DuckDB and other libraries that know Arrow's C interface take it as it is, without a copy:
    `pyarrow.table(t)`, `polars.DataFrame(t)`, `duckdb.sql("SELECT * FROM t")`.
    """

    __slots__ = ("_table", "__weakref__")

    def __init__(self, table: _core.Table) -> None:
        self._table = table

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self._table.names

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of the columns: "int64", "double", "text", "bytes", "dictionary" (text too), or "null"."""
        return self._table.kinds

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        row = self._table.row
        return (row(i) for i in range(len(self._table)))

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, index: int) -> tuple[Any, ...]: ...
        @overload
        def __getitem__(self, index: slice) -> list[tuple[Any, ...]]: ...

    def __getitem__(self, index: int | slice) -> tuple[Any, ...] | list[tuple[Any, ...]]:
        """A row as a tuple, or a list of them for a slice."""
        if isinstance(index, slice):
            return [self._table.row(i) for i in range(*index.indices(len(self._table)))]
        return self._table.row(index)

    def column(self, which: int | str) -> list[Any]:
        """One column by number or name, as a list; what is missing is None."""
        return self._table.column(which)

    def to_arrow(self) -> Any:
        """A `pyarrow.Table` on the same memory; this table itself, which Arrow's users take, without pyarrow."""
        try:
            pyarrow = import_module("pyarrow")
        except ImportError:
            return self
        return pyarrow.RecordBatchReader.from_stream(self).read_all()  # pyarrow.table() would import pandas

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame`. Names become categories, without those that no row has."""
        arrow = self.to_arrow()
        if arrow is self:
            columns = {name: self.column(i) for i, name in enumerate(self.names)}
            return library("pandas", "Table.to_pandas needs").DataFrame(columns)
        frame = arrow.to_pandas()
        for name, kind in zip(self.names, self.kinds):
            if kind == "dictionary":
                frame[name] = frame[name].cat.remove_unused_categories()
        return frame

    def to_polars(self) -> Any:
        """A `polars.DataFrame`."""
        return library("polars", "Table.to_polars needs").DataFrame(self)

    def __arrow_c_schema__(self) -> Any:
        return self._table.__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        return self._table.__arrow_c_array__(requested_schema)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return text_table(self.names, self.kinds, self[:_SHOWN], len(self))

    def _repr_html_(self) -> str:
        return html_table(self.names, self.kinds, self[:_SHOWN], len(self))


def _patterns(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _rank(rank: int | None) -> int:
    if rank is not None and rank < 0:
        raise ValueError(f"rank is {rank}, wanted 0 or more")
    return -1 if rank is None else rank


class Diagnosis:
    """Whether training waits for its input, by how much, where, and what would help; prints as `stoker diagnose`."""

    __slots__ = ("_text", "_json")

    def __init__(self, text: str, json_text: str) -> None:
        import json

        self._text = text
        self._json: dict[str, Any] = json.loads(json_text)

    @property
    def verdict(self) -> str:
        """ "highly_input_bound", "moderately_input_bound", "not_input_bound" or "unknown"."""
        return str(self._json["verdict"])

    @property
    def input_share(self) -> float | None:
        """The share of step time that waits for data, 0 to 1; None when it is not known."""
        percent = self._json["input_percent"]
        return None if percent is None else float(percent) / 100

    @property
    def json(self) -> dict[str, Any]:
        """All that was found, with the keys of `stoker diagnose --json`."""
        return self._json

    def __str__(self) -> str:
        return self._text.rstrip("\n")

    def __repr__(self) -> str:
        share = self.input_share
        waits = "" if share is None else f": {100 * share:.1f} % of step time waits for data"
        return f"<stoker.Diagnosis: {self.verdict}{waits}>"

    def _repr_html_(self) -> str:
        from ._show import html_diagnosis

        return html_diagnosis(self._text.partition("\n")[0], self._json)


class Trace:
    """Files of any trace format as one trace. Made by `open_trace`; any thread may ask it.

    Tables that it gave stay valid when it is closed.
    """

    __slots__ = ("_trace", "_files", "_about", "__weakref__")

    def __init__(self, trace: _core.Trace) -> None:
        self._trace = trace
        files = trace.query("SELECT path, format FROM file")
        self._files: list[tuple[str, str]] = [
            (path or "", format or "") for path, format in zip(files.column(0), files.column(1))
        ]
        about = trace.table("trace")
        self._about: dict[str, int] = dict(zip(about.names, about.row(0)))

    @property
    def files(self) -> list[tuple[str, str]]:
        """The files that were read, with the format of each."""
        return list(self._files)

    @property
    def start_ns(self) -> int:
        """When the first event begins, on the trace's own clock."""
        return self._about["start_ns"]

    @property
    def end_ns(self) -> int:
        """When the last event ends."""
        return self._about["end_ns"]

    @property
    def duration(self) -> float:
        """From the first event to the end of the last one, in seconds."""
        return (self.end_ns - self.start_ns) / 1e9

    @property
    def notes(self) -> Table:
        """What was left out of the files (`lost` is 1) or changed, by reason, with the byte where it happened first."""
        return self.sql(
            'SELECT path, reason, count, note."offset", text, lost FROM note JOIN file ON file.id = file_id'
            " ORDER BY lost DESC, count DESC"
        )

    def top(
        self, n: int | None = 20, *, by: str | None = None, sort: str | None = None, pattern: str | None = None
    ) -> Table:
        """What takes the time: totals per name, as `stoker top` gives them.

        Names that differ in the number after their '#' are one, and what the profiler writes about itself is left out,
        unless `pattern` asks for it.

        Args:
            n: rows at most; None: all.
            by: "name", "thread", "category", "file", "step" or "process".
            sort: "total", "self", "count", "mean", "max" or "name".
            pattern: only names like this, as in "Iterator*".
        """
        if n is not None and n < 0:
            raise ValueError(f"n: wanted a number of rows, found {n}")
        if n == 0:
            raise ValueError("n: wanted a number of rows, found 0; None gives all")
        return Table(self._trace.top(by=by, sort=sort, pattern=pattern, limit=n or 0))

    def sql(self, query: str) -> Table:
        """The answer to one SELECT; `tables()` says what there is to ask.

        trace.sql("SELECT name, sum(dur) / 1e6 AS ms FROM slice GROUP BY name ORDER BY ms DESC LIMIT 10")
        """
        return Table(self._trace.query(query))

    def diagnose(
        self,
        *,
        what_if: float = 2,
        wait: str | Iterable[str] = (),
        step: str | Iterable[str] = (),
        rank: int | None = None,
    ) -> Diagnosis:
        """Whether training waits for its input, and what would help.

        Args:
            what_if: how many times faster a stage is in the what-if.
            wait: names of slices or Python functions that wait for data, as patterns: "*get_batch*".
            step: names of slices that start a step, which lasts until the next one.
            rank: look at this rank alone.
        """
        return Diagnosis(
            *self._trace.diagnose(what_if=what_if, wait=_patterns(wait), step=_patterns(step), rank=_rank(rank))
        )

    def table(self, name: str) -> Table:
        """One of the tables or views that `tables()` lists, whole: "slice", "counter", "sample", ..."""
        return Table(self._trace.table(name))

    def tables(self) -> Table:
        """The tables, views and functions that SQL has."""
        return Table(self._trace.table("tables"))

    def steps(self) -> Table:
        """The training steps, from markers or inferred."""
        return self.table("step")

    def to_arrow(self, name: str = "slice") -> Any:
        """A table as a `pyarrow.Table`; without pyarrow, as an object that Arrow's users take.

        Of slices, counters, samples and flows, times, numbers, names and ids of other tables are not copied.
        """
        return self.table(name).to_arrow()

    def close(self) -> None:
        """End it; tables and arrays that were made stay valid."""
        self._trace.close()

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        files = ", ".join(f"{visible(path)} ({format})" for path, format in self._files[:3])
        if len(self._files) > 3:
            files += f" and {len(self._files) - 3} more"
        names = ("slices", "counters", "samples", "functions")
        counts = ", ".join(f"{self._about[name]:,} {name}" for name in names if self._about[name])
        return f"<stoker.Trace: {files}: {counts or 'nothing'}; {self.duration:.6g} s>"


def _warn_of_losses(trace: Trace) -> None:
    rows = [row for row in trace.notes if row[5] or row[1] == "lost_by_recorder"]
    if not rows:
        return
    from ._watch import warn

    parts = []
    for path, reason, count, offset, text, _ in rows[:_NOTES]:
        what = "the recorder lost" if reason == "lost_by_recorder" else "left out"
        why = "" if reason == "lost_by_recorder" else f": {text}"
        place = "" if offset is None else f" (first at byte {offset})"
        parts.append(f"{visible(path or '')}: {what} {count:,}{why}{place}")
    more = f"; and {len(rows) - _NOTES} more" if len(rows) > _NOTES else ""
    warn(f"not all of the trace is there: {'; '.join(parts)}{more}; Trace.notes has the list", 3)


def _cache_of(cache: bool | Path | None) -> str | None:
    if cache is None or cache is False:
        return None
    return cache_dir("auto") if cache is True else os.fspath(cache)


def open_trace(
    *paths: Path,
    format: str | None = None,
    memory: int | str | None = None,
    cache: bool | Path | None = True,
    temp_dir: Path | None = None,
    progress: Callable[[str, int, int], bool | None] | bool | None = None,
    join_processes: str | None = None,
) -> Trace:
    """Read traces and profiles of any format as one trace.

    Chrome JSON (PyTorch, TensorFlow, VizTracer), Perfetto, XPlane, pstats, speedscope, collapsed stacks and perf script
    are told apart by their content, also compressed with gzip or zstd. A damaged file gives what is good of it, and a
    warning.

        trace = stoker.open_trace("run.json.gz")
        print(trace.diagnose())

    Args:
        paths: files, also as patterns such as "rank*.json.gz".
        format: "chrome", "perfetto", ... when the content misleads.
        memory: cap on columns in memory, as in "512M"; the rest goes to a temporary file.
        cache: whether columns are kept for the next time; a directory: there.
        temp_dir: where the temporary file lies; None: $TMPDIR or /var/tmp.
        progress: called with path, bytes done and bytes in all, False ends the reading; True: a line on standard error.
        join_processes: whether processes of equal id and name in several files are one: "always", "never", or "auto":
            in timelines of TensorFlow 1.
    """
    if not paths:
        raise TypeError("open_trace: wanted one or more paths, found none")
    call = progress_call(progress)
    try:
        opened = _core.Trace(
            [os.fspath(path) for path in paths],
            format=format,
            memory=0 if memory is None else parse_size(memory),
            temp_dir=os.fspath(temp_dir) if temp_dir is not None else os.environ.get("TMPDIR") or None,
            cache_dir=_cache_of(cache),
            progress=call,
            join_processes=join_processes,
        )
    finally:
        wipe = getattr(call, "wipe", None)
        if wipe is not None:
            wipe()
    trace = Trace(opened)
    _warn_of_losses(trace)
    return trace
