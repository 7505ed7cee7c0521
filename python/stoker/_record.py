"""Recording of a training: steps, spans and counters of the loop, beside the spans of the engine."""

from __future__ import annotations

import _thread
import os

from . import _core
from ._text import parse_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, SupportsFloat, TypeVar

    Function = TypeVar("Function", bound=Callable[..., Any])

_NOT_PLAIN = 0x20 | 0x80 | 0x200  # generators, coroutines, asynchronous generators: bits of co_flags
_MOST_SPANS = 1024

_lock = _thread.allocate_lock()
_recorder: _core.Recorder | None = None  # takes the marks; None: nobody records
_recording: Recording | None = None  # guarded by _lock
_next_step = 0
_at_exit = False


def active() -> _core.Recorder | None:
    """What runs that are opened now record to."""
    return _recorder


class Recording:
    """A recording to a file: a context manager, or `start` and `stop`. Made by `stoker.record`."""

    __slots__ = ("path", "stats", "_options", "_recorder")

    path: str
    stats: dict[str, int] | None  # events_written, _lost and _dropped, bytes_written; None before the end
    _recorder: _core.Recorder | None

    def __init__(self, path: str, options: dict[str, Any]) -> None:
        self.path = path
        self.stats = None
        self._options = options
        self._recorder = None

    def start(self) -> Recording:
        """Begin to record. There is one recording at a time."""
        global _recorder, _recording, _next_step
        with _lock:
            if self._recorder is not None:
                raise RuntimeError(f"the recording to {self.path!r} was started already; make another one")
            if _recording is not None:
                raise RuntimeError(f"a recording to {_recording.path!r} is under way; there is one at a time")
            self._recorder = _core.Recorder(self.path, **self._options)
            _stop_at_exit()
            _next_step = 0
            _recording, _recorder = self, self._recorder
        return self

    def stop(self) -> dict[str, int]:
        """End the recording and finish the file; gives the stats. Again: the same."""
        if self._recorder is None:
            raise RuntimeError(f"the recording to {self.path!r} was not started")
        self._leave()
        first = self.stats is None
        self.stats = self._recorder.stop()
        if first and self.stats["events_dropped"] and not self._options["last"]:
            import warnings

            warnings.warn(
                f"the recording to {self.path!r} is full at {self.stats['bytes_written']} bytes: "
                f"{self.stats['events_dropped']} events of the rest were not recorded; last= keeps the last part, "
                "limit= sets another limit",
                RuntimeWarning,
                stacklevel=2,
            )
        return self.stats

    @property
    def active(self) -> bool:
        """Whether marks go to it now."""
        return _recording is self

    def __enter__(self) -> Recording:
        try:
            return self.start()
        except BaseException:  # a Ctrl-C behind the start, say: no end of the block would stop it
            self._leave()
            raise

    def _leave(self) -> None:
        """Marks go to it no more."""
        global _recorder, _recording
        with _lock:
            if _recording is self:
                _recorder = _recording = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        except _core.Error as failure:
            if kind is None:
                raise
            import warnings  # the error of the block is what matters

            warnings.warn(f"the recording to {self.path!r} is not whole: {failure}", RuntimeWarning, stacklevel=2)

    def __repr__(self) -> str:
        state = "active" if self.active else "ended" if self.stats is not None else "not started"
        return f"<stoker.Recording: {self.path!r}, {state}>"


def record(
    path: str | os.PathLike[str],
    *,
    memory: int | str = "16M",
    process: str | None = None,
    limit: int | str | None = None,
    last: int | str | None = None,
) -> Recording:
    """Record what pipelines and the training loop do to a trace file.

    The ending of `path` says how: .pftrace or .perfetto-trace for Perfetto, .json or .json.gz for Chrome's format.
    Runs that are open already go on in the recording with their next batch. The file is whole when the block ends, also
    by an exception, and when the program ends in the middle of it.

    memory: the most that the recorder takes, whatever the length of the run; events that do not fit are counted
    process: the name of this process in the trace
    limit: from this size of the file on, events are counted only, and a warning says so; "1G" unless told
    last: keep the last part instead, in a file of at most this size, such as "64M"

        with stoker.record("run.pftrace"):
            for batch in loader:
                stoker.step()
                with stoker.span("forward"):
                    ...
    """
    options: dict[str, Any] = {"process": process}
    for name, value in (("memory", memory), ("limit", limit), ("last", last)):
        try:
            options[name] = 0 if value is None and name != "memory" else parse_size(value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"record: {name}: {error}") from None
    if process is not None and not isinstance(process, str):
        raise TypeError(f"record: process: wanted a str or None, found {process!r}")
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"record: path: wanted a str or a path, found {path!r}")
    return Recording(text, options)


def _stop_at_exit() -> None:
    global _at_exit
    if _at_exit:
        return
    _at_exit = True
    import atexit

    atexit.register(_finish)


def _finish() -> None:
    recording = _recording
    if recording is not None:
        recording.stop()


def _forget_after_fork() -> None:
    """In a forked child: the recording is the parent's, and the lock may be held by a thread that is not here."""
    global _lock, _recorder, _recording
    _lock = _thread.allocate_lock()
    _recorder = _recording = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


# ---- marks ----


class _Step:
    """What `step` gives: as a context manager it ends the step with the block."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        recorder = _recorder
        if recorder is not None:
            recorder.step_end()


_STEP = _Step()


def step(number: int | None = None) -> _Step:
    """Begin a training step, which lasts until the next one of this thread; without a number, the one after the last.

    `with stoker.step():` ends it with the block. Without a recording it does nothing.
    """
    global _next_step
    recorder = _recorder
    if recorder is not None:
        if number is None:
            number = _next_step
        recorder.step(number)
        _next_step = number + 1
    return _STEP


class Span:
    """A named part of the loop, as a context manager or a decorator, any number of times. Made by `stoker.span`."""

    __slots__ = ("name",)

    name: str

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        recorder = _recorder
        if recorder is not None:
            recorder.span_begin(self.name)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        recorder = _recorder
        if recorder is not None:
            recorder.span_end()

    def __call__(self, function: Function) -> Function:
        code = getattr(function, "__code__", None)
        if not callable(function):
            raise TypeError(f"span({self.name!r}): wanted a function to decorate, found {function!r}")
        if code is not None and code.co_flags & _NOT_PLAIN:
            raise TypeError(
                f"span({self.name!r}): {function!r} is a generator or a coroutine, which runs in pieces, while spans "
                "nest: use `with` around the pieces"
            )
        import functools

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]

    def __repr__(self) -> str:
        return f"stoker.span({self.name!r})"


_spans: dict[str, Span] = {}  # a span has no state: one for each name is enough, and spares making it each time


def span(name: str) -> Span:
    """A span of the calling thread, for `with stoker.span("forward"):` or `@stoker.span("forward")`.

    Spans nest, thread by thread. Without a recording it does nothing.
    """
    found = _spans.get(name)
    return found if found is not None else _new_span(name)


def _new_span(name: str) -> Span:
    if not isinstance(name, str):
        advice = f'; write @stoker.span("{getattr(name, "__name__", "name")}")' if callable(name) else ""
        raise TypeError(f"span: wanted a name, found {name!r}{advice}")
    if len(_spans) >= _MOST_SPANS:  # names with numbers in them
        _spans.clear()
    made = _spans[name] = Span(name)
    return made


def counter(name: str, value: SupportsFloat) -> None:
    """Record a value, such as a loss, under a name. Without a recording it does nothing."""
    recorder = _recorder
    if recorder is not None:
        recorder.counter(name, value)
