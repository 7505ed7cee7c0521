"""Passes over a pipeline: which run is open, at which place, and where the next pass begins."""

from __future__ import annotations

import _thread
import os
import sys
import time

from . import _core, _record
from ._batch_maps import make_converter
from ._runs import can_pin, is_stream, next_after_collect
from ._watch import Watch, warn, warn_if_again

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from ._runs import Runs

ENDLESS = "repeat()"


def _interrupt_soon() -> None:
    time.sleep(0.01)  # the finalizer is over by then
    _thread.interrupt_main()


class PassEnd(Exception):
    """The pass has given all its batches."""


class Pass:
    """One loop: from its first epoch on, so far."""

    __slots__ = (
        "start",
        "epochs",
        "world",
        "tail",
        "given",
        "epoch",
        "in_epoch",
        "left",
        "stop",
        "place",
        "active",
        "over",
    )

    def __init__(self, start: int, epochs: int, world: int) -> None:
        self.start = start  # first epoch
        self.epochs = epochs  # 0: without end
        self.world = world
        self.tail = ""  # what stands behind the pipeline's own text in the run
        self.given = 0  # batches, those before a resume included
        self.epoch = -1  # of the last one, and its number in that
        self.in_epoch = 0
        self.left = -1  # batches to come; negative: the run ends by itself, or `stop` ends it
        self.stop: int | None = None  # the first epoch that is not of this pass
        self.place: str | None = None  # of the engine; up to date when no run is open
        self.active = True  # a loop has it
        self.over = False  # it came to its end


def _ended() -> RuntimeError:
    return RuntimeError(
        "this loop was ended: another one over the same loader began, or the loader was closed; "
        "make a loader for each of two loops that are on at the same time"
    )


class Passes:
    """Runs of a pipeline, one at a time, and the passes that they serve."""

    __slots__ = (
        "runs",
        "epochs",
        "persistent",
        "counted",
        "now",
        "run",
        "forced",
        "resume",
        "_inner_repeats",
        "_output",
        "_convert",
        "_pid",
        "_recorder",
        "_taken",
        "_base",
        "_lengths",
        "_watch",
        "_last_stats",
    )

    def __init__(self, runs: Runs, epochs: int, persistent: bool, output: tuple[str, tuple[str, ...], bool]) -> None:
        self.runs = runs
        self.epochs = epochs
        self.persistent = persistent
        self.counted = False  # begins with the epoch that the pipeline's count says, not with 0
        self.now: Pass | None = None  # the pass that is on, or was the last
        self.run: _core.Run | None = None
        self.forced: int | None = None  # epoch that the next pass must begin with
        self.resume: dict[str, Any] | None = None  # place that the next pass must begin at
        self._output = output  # format, fields, pinned memory
        self._convert: Any = None
        # of the run:
        self._pid = 0
        self._recorder: _core.Recorder | None = None
        self._taken = 0  # batches that it has given
        self._base = 0  # what the engine's count of them lacks to that of the pass
        self._lengths: dict[int, int] = {}  # batches in an epoch, by world; -1: not known
        self._watch = Watch(runs.functions, runs.batch_maps)
        self._last_stats: dict[str, Any] = {}  # of the run that was closed last
        repeat, own = runs.take_repeat()
        if repeat is not None:
            if epochs != 1:
                raise ValueError(f"the pipeline ends in its own {own}: wanted epochs=1, found {epochs}")
            self.epochs = repeat
        self._inner_repeats = sum(name == "repeat" for name, _, _ in runs.ops)

    # ---- one loop ----

    def loop(self) -> Iterator[Any]:
        """Begins the next pass."""
        if self.run is not None and self._pid != os.getpid():
            self.run.next()  # raises ForkError
        return self._batches(self._begin())

    def _batches(self, now: Pass, exiting: Callable[[], bool] = sys.is_finalizing) -> Iterator[Any]:
        # Nothing here may hold a batch, which would keep its memory while the next one is waited for.
        try:
            while True:
                yield self._take(now)
        except GeneratorExit:  # the loop was left
            try:
                if not exiting():  # else runs are stopped already, and the names of this module may be gone
                    self._leave(now)
            except KeyboardInterrupt:  # the collector may be closing this, and swallows what is raised here
                _thread.start_new_thread(_interrupt_soon, ())
            raise
        except PassEnd:
            self._finish(now)
        except _core.ForkError:
            raise
        except KeyboardInterrupt:  # who is in a hurry does not wait for workers, which may hang in a read
            self._leave(now, wait=False)
            raise
        except BaseException:
            self._leave(now)
            raise

    def _take(self, now: Pass) -> Any:
        if not now.active:
            raise _ended()
        if now.left == 0:
            raise PassEnd
        if _record.active() is not self._recorder:
            self._follow_recorder(now)
        run = self.run
        if run is None:  # closed meanwhile
            raise _ended()
        try:
            batch = run.next()
        except _core.BudgetError:
            batch = next_after_collect(run)
        if batch is None:
            raise PassEnd
        epoch = batch.epoch
        if epoch == now.epoch:
            now.in_epoch += 1
        elif now.stop is not None and epoch >= now.stop:
            raise PassEnd
        else:
            now.epoch, now.in_epoch = epoch, 0
        self._taken += 1
        now.given += 1
        now.left -= 1
        if now.given >= self._watch.look_at:
            self._watch.look(run, now.given)
        return self._convert(batch, now.in_epoch) if self.runs.batch_maps else self._convert(batch)

    def _begin(self) -> Pass:
        """Makes the pass that comes next, and sees to it that a run is open at its place."""
        now = Pass(self.next_epoch(), self.epochs, self.runs.rank_and_world()[1])
        last, resume = self.now, self.resume
        if last is not None:
            last.active = False
        if resume is not None:
            self._go_back(now, resume)
        elif self._goes_on(last, now):
            assert last is not None and self.run is not None
            now.tail, now.left = last.tail, self._left(now, last.tail)
            self._base = -self.run.stats()["batches"]
            self.now = now
            self._watch.begin(self.run, 0)
        else:
            self._open(now, None)
        if self.counted:
            self.runs.pipeline._count.begin(self.runs.rank_and_world(), now)
        if last is None and now.start == 0 and self.forced is None and resume is None:
            warn_if_again(self.runs)
        self.resume = self.forced = None
        return now

    def _goes_on(self, last: Pass | None, now: Pass) -> bool:
        """Whether the run that is open is where the pass begins."""
        recorder = _record.active()
        if self.run is None or last is None or last.world != now.world or recorder not in (None, self._recorder):
            return False
        if last.over:
            return last.tail == ENDLESS and last.left == 0 and now.start == last.start + last.epochs
        return last.given == 0 and now.start == last.start

    def _go_back(self, now: Pass, state: Mapping[str, Any]) -> None:
        """Opens a run where a saved one was: with its text, so that the engine knows it again."""
        now.start, now.epochs, now.given = state["epoch"], state["epochs"], state["batches"]
        now.epoch, now.in_epoch, now.place = state["last_epoch"], state["in_epoch"], state["state"]
        repeat = state["repeat"]
        now.tail = "" if repeat < 0 else f"repeat({repeat})" if repeat else ENDLESS
        length = state["epoch_batches"] if state["world"] == now.world else -1
        if now.tail == ENDLESS and now.epochs and length >= 0 and length * now.epochs <= now.given:
            self._close_run()  # it was saved at its last batch: there is nothing to open
            self.now, now.left = now, 0
            return
        leaves_out = self.runs.options["on_error"] != "stop"
        if length >= 0 and not leaves_out:
            self._lengths[now.world] = length
        elif now.tail == ENDLESS and now.epochs and leaves_out:  # nobody knows the batches of an epoch: let the run end
            now.tail = f"repeat({now.start + now.epochs})"
        elif now.tail == ENDLESS and now.epochs:  # the ranks that are now have another number of them
            now.stop = now.start + now.epochs
        self._open_there(now, state["world"])

    def _open_there(self, now: Pass, world: int) -> None:
        """At the place of a state of `world` ranks."""
        try:
            self._open(now, now.place)
        except _core.MismatchError as e:
            if world == now.world:
                raise
            raise _core.MismatchError(f"{e}; the state is of world={world}, and this run of world={now.world}") from None

    def _left(self, now: Pass, tail: str) -> int:
        """Batches of an endless run that are still of the pass; -1: something else ends it."""
        if tail != ENDLESS or not now.epochs or now.stop is not None:
            return -1
        return max(self._lengths[now.world] * now.epochs - now.given, 0)

    def _finish(self, now: Pass) -> None:
        """The pass is over; what an endless run has made ready of the next one stays."""
        if not now.active:
            return
        now.active, now.over = False, True
        if self.run is None:
            return
        self._watch.end(self.run)
        if now.tail != ENDLESS or now.left != 0 or not self.persistent:
            self._close_run()

    def _leave(self, now: Pass, wait: bool = True) -> None:
        """The loop was left in the middle, or an error ended it."""
        if now.active:
            now.active = False
            self._close_run(wait)

    # ---- runs ----

    def _open(self, now: Pass, resume: str | None) -> None:
        self._close_run()
        self.now = now
        if self._convert is None:
            self._output = (*self._output[:2], self._output[2] and can_pin())
            self._convert = make_converter(self.runs, *self._output)
        if resume is None:
            now.tail = self._tail(now)
        self._recorder = _record.active()
        self._pid = os.getpid()
        self._taken = 0
        run = self._open_run(now, resume)
        if resume is None:
            self._lengths[now.world] = length = run.stats()["epoch_batches"]
            if length < 0 and now.tail == ENDLESS and now.epochs:  # its end cannot be told from the next epoch
                now.tail = self._tail(now)
                run.close()
                run = self._open_run(now, None)
        elif now.tail == ENDLESS and now.epochs and now.stop is None:
            length = run.stats()["epoch_batches"]  # the state may be that of another rank
            if length >= 0:
                self._lengths[now.world] = length
            else:
                now.stop = now.start + now.epochs
        now.left = self._left(now, now.tail)
        self._base = now.given - run.stats()["batches"]
        self._watch.begin(run, now.given)
        self.run = run
        if not now.active:  # closed meanwhile, by a function of the pipeline or another thread
            self._close_run()

    def _open_run(self, now: Pass, resume: str | None) -> _core.Run:
        return self.runs.open(
            now.tail,
            recorder=self._recorder,
            resume=resume,
            first_epoch=now.start,
            pinned=self._output[2],
            fields=self._output[1],
        )

    def _tail(self, now: Pass) -> str:
        if not now.epochs:
            return ENDLESS
        length = self._lengths.get(now.world)
        countable = length > 0 if length is not None else self.runs.may_count()
        if self.persistent and countable:
            return ENDLESS
        return f"repeat({now.start + now.epochs})" if now.epochs > 1 else ""

    def length(self) -> int:
        """Batches in an epoch; -1: not known."""
        world = self.runs.rank_and_world()[1]
        if world not in self._lengths:
            with self.runs.looking() as run:
                self._lengths[world] = run.stats()["epoch_batches"]
        return self._lengths[world]

    def known_length(self, world: int) -> int:
        return self._lengths.get(world, -1)

    def _follow_recorder(self, now: Pass) -> None:
        """A recording began or ended: a run that does not know it is opened anew, at the same place."""
        run, recorder = self.run, _record.active()
        if run is None:
            raise _ended()
        if recorder is None:
            self._recorder = None  # the run may go on: what it tells a recorder that has stopped is ignored
        elif is_stream(run):
            self._recorder = recorder
            warn(
                "the recording has no spans of this loop's workers: they read a stream, which cannot be opened again "
                "in the middle; begin the recording before the loop",
                stacklevel=4,
            )
        else:
            self._open(now, self.mark()[1])

    def mark(self) -> tuple[Pass | None, str | None, int]:
        """The pass, where it stands as the engine writes it, and the batches it has given; None: at its start or end.

        Also right while another thread, or the code that a signal handler has interrupted, takes a batch.
        """
        while True:
            now, run = self.now, self.run
            if now is None or now.over or now.given == 0:
                return now, None, 0
            if run is None or self._taken == 0:
                return now, now.place, now.given
            count, place = run.stats()["batches"], run.state()
            if run.stats()["batches"] == count and self.now is now and self.run is run:
                return now, place, self._base + count

    def _close_run(self, wait: bool = True) -> None:
        run = self.run
        if run is None:
            return
        if self._pid == os.getpid():
            try:
                if self.now is not None:
                    self.now.place = self.mark()[1]
                self._last_stats = self.stats()
            except _core.Error:
                pass  # what ended the loop is what people must see
        self.run = None
        if wait:
            run.close()
        else:
            run.cancel()  # closes when the last reference to it goes

    def close(self) -> None:
        if self.now is not None:
            self.now.active = False
        self._close_run()
        self.runs.pools.close()

    def stats(self) -> dict[str, Any]:
        run = self.run
        if run is None:
            return self._last_stats
        busy = {label: ns / 1e9 for label, ns in self._watch.busy_ns(run).items()}
        return {**run.stats(), "wait_share": self._watch.wait_share(run), "busy_seconds": busy}

    # ---- which epoch comes next ----

    def next_epoch(self) -> int:
        """The epoch that the next pass begins with."""
        if self.forced is not None:
            return self.forced
        last, count = self.now, self.runs.pipeline._count
        if last is None:
            return count.next(self.runs.rank_and_world()) if self.counted else 0
        own = last.start + last.epochs if last.over else self._epoch_after_leaving(last)
        others = self.counted and count.last is not last
        return max(own, count.next(self.runs.rank_and_world())) if others else own

    def _epoch_after_leaving(self, last: Pass) -> int:
        if last.given == 0:
            return last.start
        if self._inner_repeats == 0:
            return last.epoch + 1
        length = self.known_length(last.world)
        return last.start + ((last.given - 1) // length + 1 if length > 0 else last.epochs or 1)
