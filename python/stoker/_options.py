"""Options of runs: checked, put together, and made into what the engine takes."""

from __future__ import annotations

import os
import sys

from ._text import is_bool, nearest, parse_size, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Literal, TypedDict

    Progress = Callable[[str, int, int], "bool | None"]
    Format = Literal["numpy", "torch", "jax", "tensorflow", "dlpack"]

    class RunOptions(TypedDict, total=False):
        """Options of a run; Pipeline.options says what each one does."""

        threads: int
        memory: int | str
        seed: int
        rank: int | None
        world: int | None
        shard: bool
        cache_dir: str | os.PathLike[str] | None
        on_error: Literal["stop", "skip", "quarantine"]
        max_errors: int
        quarantine: str | os.PathLike[str] | None
        exact: bool
        progress: Progress | bool | None


DEFAULTS: dict[str, Any] = {
    "threads": 0,
    "memory": 0,
    "seed": 0,
    "rank": None,
    "world": None,
    "shard": True,
    "cache_dir": "auto",
    "on_error": "stop",
    "max_errors": 0,
    "quarantine": None,
    "exact": False,
    "progress": None,
}
_ON_ERROR = ("stop", "skip", "quarantine")
# What other loaders call things, or have as options where there are ops here.
_ELSEWHERE = {
    "num_workers": "threads=N is the number of threads; there are no worker processes, but for map(fn, processes=n)",
    "workers": "threads=N is the number of threads; there are no worker processes, but for map(fn, processes=n)",
    "persistent_workers": "pipe.loader(persistent=True) is it, and the default there",
    "batch_size": "the pipeline says it: pipe.batch(n)",
    "drop_last": "the pipeline says it: pipe.batch(n, drop_last=True)",
    "shuffle": "the pipeline says it: pipe.shuffle(seed=0), before .batch(n)",
    "prefetch": "batches are made ahead as far as the memory budget allows; pipe.prefetch(n) limits it",
    "prefetch_factor": "batches are made ahead as far as the memory budget allows; pipe.prefetch(n) limits it",
    "collate_fn": "the pipeline says it: pipe.batch(n, pad=True), and pipe.batch(n).map(fn)",
    "transform": "the pipeline says it: ops, and pipe.map(fn)",
    "world_size": "did you mean 'world'?",
    "num_threads": "did you mean 'threads'?",
}


def _check_whole(name: str, value: object, most: int) -> int:
    try:
        number = whole(value)
    except (TypeError, ValueError) as e:
        raise type(e)(f"{name}: {e}") from None
    if not 0 <= number <= most:
        raise ValueError(f"{name}: wanted a number in 0..{most}, found {number}")
    return number


def _check_path(name: str, value: object) -> str:
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise TypeError(f"{name}: wanted a path, found {value!r}")
    path = os.fsdecode(value)
    if not path or "\0" in path:
        raise ValueError(f"{name}: wanted a path, found {path!r}")
    return path


def _check(name: str, value: object) -> Any:
    if name == "threads":
        return _check_whole(name, value, 1024)
    if name in ("seed", "max_errors"):
        return _check_whole(name, value, (1 << 63) - 1)
    if name in ("rank", "world"):
        return None if value is None else _check_whole(name, value, 1 << 24)
    if name == "memory":
        try:
            return parse_size(value)
        except (TypeError, ValueError) as e:
            raise type(e)(f"memory: {e}") from None
    if name in ("shard", "exact"):
        if not is_bool(value):
            raise TypeError(f"{name}: wanted True or False, found {value!r}")
        return bool(value)
    if name in ("cache_dir", "quarantine"):
        return None if value is None else _check_path(name, value)
    if name == "on_error" and value not in _ON_ERROR:
        raise ValueError(f"on_error: wanted one of {', '.join(_ON_ERROR)}, found {value!r}")
    if name == "progress" and not (value is None or is_bool(value) or callable(value)):
        raise TypeError(f"progress: wanted True or a function, found {value!r}")
    return value


def _instead(name: str) -> str:
    """What to write in place of an option that does not exist."""
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    near = nearest(name, DEFAULTS)
    return f"did you mean {near!r}?" if near else f"wanted some of {', '.join(DEFAULTS)}"


def check_options(options: Mapping[str, object]) -> dict[str, Any]:
    """The options given, checked; TypeError names one that does not exist."""
    out = {}
    for name, value in options.items():
        if name not in DEFAULTS:
            raise TypeError(f"there is no option {name!r}; {_instead(name)}")
        out[name] = _check(name, value)
    if out.get("quarantine") is not None and "on_error" not in out:
        out["on_error"] = "quarantine"
    return out


def cache_dir(value: str | None) -> str | None:
    """The directory for indexes: "auto" is the one that the program `stoker` takes."""
    if value != "auto":
        return value
    base, tail = os.environ.get("XDG_CACHE_HOME", ""), "/stoker"
    if not base.startswith("/"):
        base, tail = os.environ.get("HOME", ""), "/.cache/stoker"
    return base + tail if base.startswith("/") else None


def _number_of(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"environment variable {name}: wanted a whole number, found {text!r}") from None


def rank_and_world(rank: int | None, world: int | None) -> tuple[int, int]:
    """As given, else of torchrun's variables, else of torch.distributed; (0, 0): not distributed."""
    if (rank is None) != (world is None):
        raise ValueError(f"rank and world go together: found rank={rank}, world={world}")
    origin = "rank and world"
    if rank is None or world is None:
        texts = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
        if texts[0] is not None and texts[1] is not None:
            rank, world = _number_of("RANK", texts[0]), _number_of("WORLD_SIZE", texts[1])
            origin = "environment variables RANK and WORLD_SIZE"
        else:
            rank, world = _torch_rank()
            if not world and (texts[1] or "").isdigit() and int(texts[1] or 0) > 1:
                from ._watch import warn

                warn(
                    f"WORLD_SIZE is {texts[1]}, but RANK is not set: this process reads all samples; set both, or "
                    "give rank= and world=",
                    stacklevel=6,
                )
    if world and not 0 <= rank < world:
        raise ValueError(f"{origin}: wanted a rank in 0..{world - 1}, found {rank}")
    return rank, world


def local_world(world: int) -> int:
    """Ranks on this host, as torchrun tells; 0: not known."""
    text = os.environ.get("LOCAL_WORLD_SIZE", "")
    return min(int(text), world) if world > 1 and text.isascii() and text.isdigit() else 0


def _torch_rank() -> tuple[int, int]:
    # Never imported for this: who has initialised it has imported it.
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 0, 0
    return distributed.get_rank(), distributed.get_world_size()


class ProgressLine:
    """One line on standard error that is written over, and wiped at the end."""

    def __init__(self) -> None:
        self._width = 0
        self._last = 0.0

    def __call__(self, what: str, done: int, total: int) -> bool:
        import time

        now = time.monotonic()
        if now - self._last >= 0.1:
            self._last = now
            share = f"{100 * done / total:.0f} % of {total:,}" if total > 0 else f"{done:,}"
            self.write(f"{what}: {share}")
        return True

    def write(self, text: str) -> None:
        text = "".join(c if c.isprintable() else "?" for c in text)
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)

    def wipe(self) -> None:
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()
            self._width = 0


def progress_call(progress: Progress | bool | None) -> Callable[[str, int, int], bool] | None:
    """As the engine calls it: a function that gives nothing back goes on."""
    if progress is None or progress is False:
        return None
    if progress is True:
        return ProgressLine()
    call: Progress = progress

    def tell(what: str, done: int, total: int) -> bool:
        return call(what, done, total) is not False

    return tell
