"""The extension module: the engine as it is. People use the package `stoker`."""

from collections.abc import Callable, Sequence
from typing import Any, SupportsFloat, final

__version__: str

# ---- errors: all have the fields below; None where not known ----

class Error(Exception):
    status: str  # "CORRUPT", ...
    message: str  # what was found and what was wanted, without the place
    file: str | None
    offset: int | None
    record: int | None
    field: str | None
    op: str | None
    line: int | None  # of the pipeline text
    column: int | None

class InvalidError(Error, ValueError): ...
class ReadError(Error, OSError): ...  # STK_IO
class CorruptError(Error, ValueError): ...
class FunctionError(InvalidError): ...
class BudgetError(Error, MemoryError): ...  # STK_BUDGET and STK_NOMEM
class CancelledError(Error): ...
class UnsupportedError(Error, NotImplementedError): ...
class MismatchError(Error, ValueError): ...
class UnfitError(Error, ValueError): ...
class LimitError(Error): ...
class ForkError(Error, RuntimeError): ...  # a run that was opened before a fork is used in the child

# ---- ops ----

def ops_json(*, python: bool = False) -> str: ...  # as `stoker ops --json`; plug-ins included, python_map and the like if asked
# (name, dtype, shape) of each field at the end of a text that is planned, not opened; -1: varies
def text_fields(text: str, functions: tuple[object, ...] = ..., /) -> list[tuple[str, str, tuple[int, ...]]]: ...
def text_ops(text: str) -> list[tuple[str, str, int, int]]: ...  # (name, role, begin, end) of each op; InvalidError
def load_plugin(path: str) -> list[str]: ...  # names of the ops that it added

# ---- pipelines ----

@final
class Run:
    """A pipeline that is open. Every wait lets other threads run, and Ctrl-C in."""

    def __new__(
        cls,
        text: str,
        *,
        threads: int = 0,
        memory: int = 0,
        seed: int = 0,
        rank: int = 0,
        world: int = 0,
        cache_dir: str | None = None,
        on_error: str = "stop",  # "stop", "skip", "quarantine"
        max_errors: int = 0,
        quarantine: str | None = None,
        resume: str | None = None,  # what state() gave
        first_epoch: int = 0,
        exact: bool = False,  # only rewrites that are tagged exact
        recorder: Recorder | None = None,
        functions: Sequence[object] = (),  # of python_map and python_source, by number
        pinned: bool = False,  # batches in memory that the CUDA driver knows; needs libcudart loaded in the process
        on_demand: bool = False,
        progress: Callable[[str, int, int], bool] | None = None,  # long work at open; False cancels
        stall_ns: int = 0,  # warn of a worker that is this long on one op; 0: 30 s, negative: never
        shard: str = "written",  # "auto", "keep": ranks share samples where the text has no shard
        local_world: int = 0,  # ranks on this host, which share its cores and memory
        fields: Sequence[str] | None = None,  # that batches hold; None: all
    ) -> Run: ...
    def next(self) -> Batch | None: ...  # None: the end
    def state(self) -> str: ...  # the place behind the last batch that next gave
    def stats(self) -> dict[str, int]: ...  # all of stk_stats by name
    def op_stats(self) -> list[tuple[str, int, int]]: ...  # label, busy ns, samples
    def classes(self) -> list[str]: ...  # what the labels of the source stand for; empty: not known
    def messages(self) -> list[tuple[str, str]]: ...  # ("info" or "warning", text) since the last call
    def explain(self) -> str: ...
    def explain_json(self) -> str: ...
    def has_sink(self) -> bool: ...
    def consume(self, batch: Batch) -> None: ...
    def finish(self) -> None: ...
    def cancel(self) -> None: ...  # any thread: next raises CancelledError
    def close(self) -> None: ...  # stops the workers; batches that are alive stay valid
    # From now on batches that are dropped go back when an event (query, synchronize) that the function makes has come.
    def _fence(self, fence: Callable[[], Any], /) -> None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def held(self) -> int: ...  # batches that are alive

@final
class Pool:
    """Processes that call a function of a pipeline; the run that has it starts them."""

    def __new__(cls, count: int) -> Pool: ...
    def close(self) -> None: ...  # ends them
    @property
    def pids(self) -> list[int]: ...
    @property
    def ours(self) -> bool: ...  # not of a process that this one was forked from

@final
class Batch:
    """One batch. Its memory goes back to the engine when it and everything made from it are gone."""

    rows: int
    index: int
    epoch: int
    names: tuple[str, ...]
    def __len__(self) -> int: ...  # columns
    def column(self, which: int | str) -> Column: ...
    def columns(self) -> list[Column]: ...
    def loose_column(self, number: int, /) -> Column: ...  # on memory of its own where it is small
    def loose_columns(self) -> list[Column]: ...
    def _fence(self, fence: Callable[[], Any], /) -> None: ...  # as Run._fence

@final
class Column:
    """One field of a batch, by the buffer protocol and DLPack; keeps the batch alive."""

    name: str
    dtype: str  # "float32", "bytes", ...
    shape: tuple[int, ...]  # -1: varies (ragged)
    rows: int
    itemsize: int
    nbytes: int
    pointer: int  # address of the first element
    ragged: bool
    padded: bool
    # Ragged: the elements of all rows one after the other; offsets: rows + 1 places in them; row_shapes: int64[rows][ndim - 1] or None
    values: Column  # itself when it is dense
    offsets: Column | None
    row_shapes: Column | None
    def tolist(self) -> list[Any]: ...  # bytes: a bytes object per element, nested by shape; numbers: as NumPy's tolist
    def _put_into(self, array: Any, /) -> Any: ...  # bytes only: fills an array of objects, and returns it
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

# ---- recording ----

@final
class Recorder:
    def __new__(
        cls, path: str, *, memory: int = 0, process: str | None = None, limit: int = 0, last: int = 0
    ) -> Recorder: ...
    def stop(self) -> dict[str, int]: ...  # finishes the file; stk_recorder_stats by name. Again: the same
    @property
    def stopped(self) -> bool: ...
    # Marks of the calling thread; nothing happens when it is stopped, or in a forked child.
    def step(self, number: int, /) -> None: ...
    def step_end(self) -> None: ...
    def span_begin(self, name: str, /) -> None: ...
    def span_end(self) -> None: ...
    def counter(self, name: str, value: SupportsFloat, /) -> None: ...

# ---- workbench ----

@final
class Table:
    """Columns of a result; __arrow_c_array__ and __arrow_c_stream__ hand them over without a copy."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]  # "null", "int64", "double", "text", "bytes", "dictionary"
    def __len__(self) -> int: ...
    def row(self, index: int, /) -> tuple[Any, ...]: ...
    def column(self, which: int | str, /) -> list[Any]: ...
    def __arrow_c_schema__(self) -> Any: ...
    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

@final
class Trace:
    def __new__(
        cls,
        paths: Sequence[str],
        *,
        format: str | None = None,
        memory: int = 0,
        temp_dir: str | None = None,
        cache_dir: str | None = None,
        progress: Callable[[str, int, int], bool] | None = None,
        join_processes: str | None = None,
    ) -> Trace: ...
    def query(self, sql: str, /) -> Table: ...
    def table(self, name: str, /) -> Table: ...
    def top(self, *, by: str | None = None, sort: str | None = None, pattern: str | None = None, limit: int = 0) -> Table: ...
    def diagnose(
        self, *, what_if: float = 0, wait: tuple[str, ...] = (), step: tuple[str, ...] = (), rank: int = -1
    ) -> tuple[str, str]: ...  # text, JSON
    def close(self) -> None: ...

# ---- words and benchmarks ----

@final
class G2p:
    def __new__(
        cls, *, model: str | None = None, precision: str = "int8", lexicons: Sequence[str] = (), common: bool = True
    ) -> G2p: ...
    def word(self, word: str, /) -> list[str]: ...
    def words(self, words: Sequence[str], /) -> list[list[str]]: ...
    def text(self, text: str, /) -> list[tuple[str, list[str], int]]: ...  # token, phonemes, flags

def bench_time(function: Callable[[], object], calls: int = 0, /) -> tuple[float, int]: ...  # seconds of one, calls
def bench_compare(
    functions: Sequence[Callable[[], object]],
    names: Sequence[str],
    *,
    rounds: int = 0,
    warmup: int = 0,
    min_effect: float = 0,
    seed: int = 0,
    calls: Sequence[int] | None = None,  # of each function in one measured run; None: so many that a run takes a while
    progress: Callable[[int, int, float], bool] | None = None,
) -> tuple[str, str]: ...  # report, JSON
