"""Processes that call functions: what they do when they start, and how exceptions come from there."""

from __future__ import annotations

import sys

from . import _core
from ._options import local_world

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_AUTO = "auto"
_MOST = 1024
_RANKS_MOST = 1 << 24


def check_processes(value: object, where: str) -> int:
    """The number of processes that `map` was asked for; 0: none."""
    from ._text import whole

    if value is None:
        return 0
    if value == _AUTO:
        return cores()
    try:
        number = -1 if isinstance(value, str) else whole(value)
    except (TypeError, ValueError):
        number = -1
    if not 0 <= number <= _MOST:
        raise ValueError(f'{where}: processes: wanted a number in 0..{_MOST}, or "auto", found {value!r}')
    return number


def cores() -> int:
    """Cores that this process may use, as the engine counts them: its threads when nobody says how many."""
    run = _core.Run("range(1) | batch(1)", on_demand=True, local_world=local_world(_RANKS_MOST))
    try:
        return run.stats()["threads"]
    finally:
        run.close()


def needed() -> bool:
    """Whether Python runs in one thread at a time, so that processes are of use."""
    enabled: Callable[[], bool] | None = getattr(sys, "_is_gil_enabled", None)
    return enabled is None or enabled()


class Pools:
    """The processes of a pipeline's functions, for all runs of a loader."""

    __slots__ = ("_functions", "_pools")

    def __init__(self, functions: Sequence[Any]) -> None:
        self._functions = functions
        self._pools: dict[int, _core.Pool] = {}

    def most(self) -> int:
        """Calls that can be made at a time."""
        return max((getattr(f, "processes", 0) for f in self._functions), default=0)

    def functions(self) -> tuple[Any, ...]:
        """The functions as a run takes them, with processes behind those that want some."""
        if not needed():
            return tuple(self._functions)
        return tuple(
            f.with_pool(self._pool(i, f.processes)) if getattr(f, "processes", 0) else f
            for i, f in enumerate(self._functions)
        )

    def _pool(self, index: int, count: int) -> _core.Pool:
        pool = self._pools.get(index)
        if pool is None or not pool.ours:  # those of the process that this one was forked from are not for us
            pool = self._pools[index] = _core.Pool(count)
        return pool

    def close(self) -> None:
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            pool.close()


# ---- in the child ----


def flush() -> None:
    """Writes what was printed."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # there is none, or it is closed
            pass


def _reset_signals() -> None:
    """Handlers are those of the program; Ctrl-C goes to all processes, and is its matter."""
    import signal

    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _reset_libraries() -> None:
    """One thread for each process: they are as many as there is work for, and threads do not come along in a fork."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
    cv2 = sys.modules.get("cv2")
    if cv2 is not None:
        cv2.setNumThreads(0)
    util = sys.modules.get("multiprocessing.util")
    if util is not None:  # proxies of managers, say, need a connection of their own
        util._run_after_forkers()


def _make_seed() -> Callable[[int], None]:
    import random

    import numpy as np

    def seed(number: int) -> None:
        """Random numbers of whole libraries depend on the sample alone, not on the process that has it."""
        random.seed(number)
        np.random.seed(number & 0xFFFFFFFF)
        generator = getattr(sys.modules.get("torch"), "default_generator", None)
        if generator is not None:
            generator.manual_seed(number)

    return seed


def begin() -> tuple[Callable[[int], None], Callable[[BaseException], bytes], Callable[[], None]]:
    """Called first in a process that was forked; see op_python_child.c."""
    import gc
    import os

    gc.freeze()  # what the program left as garbage is not to be finished here too, and pages stay shared
    _reset_signals()
    _reset_libraries()
    sys.stdin = open(os.devnull)
    return _make_seed(), pack, flush


# ---- exceptions ----


class RemoteTraceback(Exception):
    """Where an exception was raised in another process, as text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


def pack(exception: BaseException) -> bytes:
    """The exception for another process, with its traceback as text."""
    import os
    import pickle
    import traceback

    lines = traceback.format_exception(type(exception), exception, exception.__traceback__)
    text = f'\n"""\nin process {os.getpid()}:\n{"".join(lines)}"""'
    stand_in = type(exception).__name__, str(exception)
    try:
        whole = pickle.dumps(exception)
        if str(pickle.loads(whole)) != stand_in[1]:
            whole = b""
    except Exception:  # whatever its own methods raise
        whole = b""
    return pickle.dumps((whole, stand_in, text))


def unpack(data: bytes) -> BaseException:
    """The other way round; an exception that cannot be pickled becomes a RuntimeError of the same name."""
    import pickle

    whole, (name, said), text = pickle.loads(data)
    exception: BaseException = type(name, (RuntimeError,), {})(said)
    if whole:
        try:
            exception = pickle.loads(whole)
        except Exception:  # its class is of the other process, say
            pass
    exception.__cause__ = RemoteTraceback(text)
    return exception
