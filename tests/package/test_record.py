"""Recording from Python: marks, files that are whole whatever happens, fork, threads, memory, cost."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import pathlib
import resource
import subprocess
import sys
import threading
import time
import timeit

import pytest

import stoker
from stoker import _core, _record


def query(build: pathlib.Path, path: str, sql: str) -> list[dict[str, object]]:
    done = subprocess.run(
        [build / "stoker", "sql", "--quiet", "--json", path, "-q", sql], capture_output=True, text=True, check=True
    )
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


def counts(build: pathlib.Path, path: str) -> dict[str, int]:
    rows = query(build, path, "select name, count(*) n from slice group by name")
    return {str(row["name"]): int(str(row["n"])) for row in rows}


def mark(steps: int) -> None:
    for i in range(steps):
        stoker.step()
        with stoker.span("forward"):
            with stoker.span("attention"):
                pass
        stoker.counter("loss", 1 / (i + 1))


@pytest.mark.parametrize("name", ["run.pftrace", "run.json", "run.json.gz", "run.perfetto-trace"])
def test_marks_are_in_the_file(build: pathlib.Path, name: str) -> None:
    with stoker.record(name, process="trainer") as recording:
        mark(10)
    assert recording.path == name and recording.stats is not None
    assert recording.stats["events_written"] == 40 and recording.stats["events_lost"] == 0
    assert recording.stats["bytes_written"] == os.path.getsize(name)
    assert counts(build, name) == {"step": 10, "forward": 10, "attention": 10}
    assert [row["number"] for row in query(build, name, "select number from step order by ts")] == list(range(10))
    values = query(build, name, "select value from counter where name = 'loss' order by ts")
    assert [row["value"] for row in values] == pytest.approx([1 / (i + 1) for i in range(10)])
    above = "select distinct p.name above from slice s join slice p on s.parent_id = p.id where s.name = 'attention'"
    nested = query(build, name, above)
    assert nested == [{"above": "forward"}]
    assert {row["name"] for row in query(build, name, "select name from process")} == {"trainer"}


def test_the_program_shows_it(build: pathlib.Path) -> None:
    with stoker.record("run.pftrace"):
        mark(5)
    done = subprocess.run([build / "stoker", "top", "run.pftrace"], capture_output=True, text=True, check=True)
    assert "forward" in done.stdout and "attention" in done.stdout


def test_nothing_happens_without_a_recording() -> None:
    mark(3)
    with stoker.step(7):
        pass
    assert _record.active() is None


def test_steps_number_themselves_in_each_recording(build: pathlib.Path) -> None:
    for name in ("a.json", "b.json"):
        with stoker.record(name):
            stoker.step()
            stoker.step(100)
            stoker.step()
            with stoker.step():
                pass
            with stoker.step(7):
                pass
        numbers = [row["number"] for row in query(build, name, "select number from step order by ts")]
        assert numbers == [0, 100, 101, 102, 7]


def test_a_step_ends_with_its_block(build: pathlib.Path) -> None:
    with stoker.record("run.json"):
        with stoker.step():
            pass
        with stoker.span("after"):
            pass
    before = "select (select max(ts + dur) from step) <= (select ts from slice where name = 'after') ok"
    rows = query(build, "run.json", before)
    assert rows == [{"ok": 1}]


def test_numbers_of_numpy_are_taken() -> None:
    np = pytest.importorskip("numpy")
    with stoker.record("run.json"):
        stoker.step(np.int64(3))
        stoker.step()
        stoker.counter("loss", np.float32(0.5))
    assert _record._next_step == 5


def test_a_span_decorates_functions(build: pathlib.Path) -> None:
    @stoker.span("work")
    def work(n: int, *, more: int = 0) -> int:
        """What it does."""
        return n + more if n <= 0 else work(n - 1, more=more)

    assert work(1, more=5) == 5 and work.__name__ == "work" and work.__doc__ == "What it does."
    with stoker.record("run.json"):
        assert work(3, more=2) == 2
    assert counts(build, "run.json") == {"work": 4}


def test_a_decorated_function_that_raises_ends_its_span(build: pathlib.Path) -> None:
    @stoker.span("bad")
    def bad() -> None:
        raise ValueError("bad")

    with stoker.record("run.json"):
        with stoker.span("outer"):
            with pytest.raises(ValueError):
                bad()
            with stoker.span("next"):
                pass
    rows = query(build, "run.json", "select name, depth from slice order by ts")
    assert rows == [{"name": "outer", "depth": 0}, {"name": "bad", "depth": 1}, {"name": "next", "depth": 1}]


def test_what_runs_in_pieces_is_not_decorated() -> None:
    async def coroutine() -> None:
        pass

    def generator():  # type: ignore[no-untyped-def]
        yield 1

    for function in (coroutine, generator):
        with pytest.raises(TypeError, match="runs in pieces"):
            stoker.span("x")(function)
    with pytest.raises(TypeError, match="found 7"):
        stoker.span("x")(7)  # type: ignore[type-var]


def test_a_recording_that_begins_within_a_span_is_sound(build: pathlib.Path) -> None:
    recording = stoker.record("run.json")
    with stoker.span("before"):
        recording.start()
        with stoker.span("inside"):
            pass
    with stoker.span("cut"):
        recording.stop()
    assert counts(build, "run.json") == {"inside": 1, "cut": 1}


def test_names_with_numbers_do_not_pile_up() -> None:
    for i in range(5000):
        stoker.span(f"batch {i}")
    assert len(_record._spans) <= _record._MOST_SPANS
    assert stoker.span("forward") is stoker.span("forward")


def test_names_may_have_any_characters(build: pathlib.Path) -> None:
    with stoker.record("run.json"):
        for name in ("é ß 中 😀", '"quoted"', "a\nb\x1b[31m", "x" * 1000):
            with stoker.span(name):
                pass
    names = set(counts(build, "run.json"))
    assert {"é ß 中 😀", '"quoted"'} <= names and len(names) == 4
    assert not any("\x1b" in name or "\n" in name for name in names)


def test_one_recording_at_a_time() -> None:
    with stoker.record("a.json") as first:
        assert first.active
        with pytest.raises(RuntimeError, match="a recording to 'a.json' is under way"):
            with stoker.record("b.json"):
                pass
        with pytest.raises(RuntimeError, match="was started already"):
            first.start()
        stoker.step()
    assert not first.active and not os.path.exists("b.json")
    with stoker.record("b.json"):
        pass
    with pytest.raises(RuntimeError, match="was started already"):
        first.start()


def test_start_and_stop_without_a_block() -> None:
    recording = stoker.record(pathlib.Path("run.json"), memory=2 << 20)
    assert recording.stats is None and "not started" in repr(recording)
    with pytest.raises(RuntimeError, match="was not started"):
        recording.stop()
    assert recording.start() is recording and "active" in repr(recording)
    mark(2)
    stats = recording.stop()
    assert recording.stop() == stats == recording.stats and stats["events_written"] == 8
    assert "ended" in repr(recording)


def test_after_an_exception_the_file_is_whole(build: pathlib.Path) -> None:
    with pytest.raises(ZeroDivisionError):
        with stoker.record("run.json") as recording:
            mark(4)
            with stoker.span("fails"):
                1 // 0
    assert recording.stats is not None and counts(build, "run.json")["fails"] == 1
    json.loads(pathlib.Path("run.json").read_text())
    assert _record.active() is None


@pytest.mark.parametrize("end", ["", "raise KeyError", "raise SystemExit(3)", "import os; os.kill(os.getpid(), 2)"])
def test_when_the_program_ends_the_file_is_whole(build: pathlib.Path, end: str) -> None:
    code = f"import stoker\nstoker.record('run.json').start()\nstoker.step()\nwith stoker.span('x'): pass\n{end}\n"
    subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL, check=False)
    json.loads(pathlib.Path("run.json").read_text())
    assert counts(build, "run.json") == {"step": 1, "x": 1}


def test_what_cannot_be_written_is_told() -> None:
    with pytest.raises(stoker.InvalidError, match="wanted a name that ends in"):
        stoker.record("run.txt").start()
    with pytest.raises(stoker.ReadError, match="missing/run.json"):
        with stoker.record("missing/run.json"):
            pass
    assert _record.active() is None
    with stoker.record("run.json"):  # another one may begin
        pass


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"memory": "lots"}, ValueError, "record: memory: .*'lots'"),
        ({"memory": None}, TypeError, "record: memory"),
        ({"memory": -1}, ValueError, "record: memory"),
        ({"limit": "some"}, ValueError, "record: limit: .*'some'"),
        ({"last": -1}, ValueError, "record: last"),
        ({"process": 7}, TypeError, "process: wanted a str or None, found 7"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        stoker.record("run.json", **options)  # type: ignore[arg-type]


def test_too_little_memory_is_told() -> None:
    with pytest.raises(stoker.InvalidError, match="wanted at least 1048576"):
        stoker.record("run.json", memory=1000).start()


def test_wrong_paths_and_marks_are_refused() -> None:
    with pytest.raises(TypeError):
        stoker.record(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="path: wanted a str"):
        stoker.record(b"run.json")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="wanted a name, found 7"):
        stoker.span(7)  # type: ignore[arg-type]
    with stoker.record("run.json"):
        with pytest.raises(TypeError):
            stoker.step("one")  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            stoker.counter("loss", "high")  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            stoker.counter(7, 1.0)  # type: ignore[arg-type]
        with pytest.raises(OverflowError):
            stoker.step(2**70)
        stoker.step()
    assert _record._next_step == 1


def test_a_full_disk_is_told_at_the_end() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    os.symlink("/dev/full", "run.json")
    with pytest.raises(stoker.ReadError, match="run.json"):
        with stoker.record("run.json"):
            mark(10)
    assert _record.active() is None
    os.unlink("run.json")
    os.symlink("/dev/full", "run.json")
    with pytest.warns(RuntimeWarning, match="is not whole"):
        with pytest.raises(ZeroDivisionError):  # the error of the block is what comes out
            with stoker.record("run.json"):
                mark(10)
                1 // 0


# ---- the object beneath ----


def test_a_recorder_that_is_dropped_finishes_its_file(build: pathlib.Path) -> None:
    recorder = _core.Recorder("run.json")
    recorder.span_begin("x")
    recorder.span_end()
    del recorder
    gc.collect()
    assert counts(build, "run.json") == {"x": 1}


def test_marks_after_stop_do_nothing() -> None:
    recorder = _core.Recorder("run.json")
    assert not recorder.stopped
    stats = recorder.stop()
    for _ in range(100):
        recorder.step(1)
        recorder.span_begin("x")
        recorder.span_end()
        recorder.counter("c", 1.0)
        recorder.step_end()
    assert recorder.stopped and recorder.stop() == stats and stats["events_written"] == 0


def test_a_recorder_takes_its_arguments_by_name() -> None:
    with pytest.raises(TypeError):
        _core.Recorder("run.json", 1 << 20)  # type: ignore[call-arg,misc,unused-ignore]
    with pytest.raises(ValueError, match="-1 bytes"):
        _core.Recorder("run.json", memory=-1)
    with pytest.raises(TypeError, match="a name and a value"):
        _core.Recorder("run.json").counter("x")  # type: ignore[call-arg]


def test_stop_in_many_threads_gives_the_same() -> None:
    recorder = _core.Recorder("run.json")
    for i in range(1000):
        recorder.counter("x", i)
    found: list[dict[str, int]] = []
    threads = [threading.Thread(target=lambda: found.append(recorder.stop())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(stats == found[0] for stats in found) and found[0]["events_written"] == 1000


def test_marks_of_many_threads_are_kept_apart(build: pathlib.Path) -> None:
    def work() -> None:
        for _ in range(200):
            with stoker.span("outer"):
                with stoker.span("inner"):
                    pass

    with stoker.record("run.pftrace") as recording:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        work()
        for thread in threads:
            thread.join()
    assert recording.stats is not None and recording.stats["events_lost"] == 0
    assert counts(build, "run.pftrace") == {"outer": 1000, "inner": 1000}
    stray = "select count(*) n from slice s left join slice p on s.parent_id = p.id "
    stray += "where s.name = 'inner' and p.name is not 'outer'"
    assert query(build, "run.pftrace", stray) == [{"n": 0}]
    assert query(build, "run.pftrace", "select count(distinct utid) n from slice") == [{"n": 5}]


def test_recordings_begin_and_end_while_others_mark() -> None:
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            mark(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for i in range(20):
            with stoker.record(f"{i}.json"):
                mark(5)
            json.loads(pathlib.Path(f"{i}.json").read_text())
    finally:
        done.set()
        for thread in threads:
            thread.join()


# ---- pipelines ----


def test_a_pipeline_records_its_own_spans(build: pathlib.Path) -> None:
    pipe = stoker.range(1000).batch(100)
    with stoker.record("run.pftrace"):
        for _ in pipe.dlpack():
            stoker.step()
    found = counts(build, "run.pftrace")
    assert found["step"] == 10 and found["unit"] > 0


def test_a_run_keeps_its_recorder_alive() -> None:
    recorder = _core.Recorder("run.json")
    run = _core.Run("range(100000) | batch(10)", recorder=recorder)
    assert run.next() is not None
    recorder.stop()
    del recorder
    gc.collect()
    while run.next() is not None:
        pass
    run.close()
    json.loads(pathlib.Path("run.json").read_text())


def test_a_run_wants_a_recorder() -> None:
    with pytest.raises(TypeError, match="wanted a Recorder or None"):
        _core.Run("range(10) | batch(10)", recorder="run.json")  # type: ignore[arg-type]


# ---- fork ----


def in_child(recorder: _core.Recorder | None) -> tuple[bool, bool, int]:
    mark(1000)
    if recorder is None:
        return False, False, 0
    for _ in range(1000):
        recorder.step(1)
        recorder.span_begin("child")
        recorder.span_end()
    return _record.active() is None, recorder.stopped, recorder.stop()["events_written"]


@pytest.mark.forks
def test_marks_in_a_forked_child_do_nothing(build: pathlib.Path) -> None:
    with stoker.record("run.json") as recording:
        mark(5)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                found = in_child(recording._recorder)
                del recording
                gc.collect()
                os.write(write, json.dumps(found).encode())
            finally:
                os._exit(0)
        os.close(write)
        with open(read, "rb") as pipe:
            found = json.loads(pipe.read())
        assert os.waitpid(child, 0)[1] == 0 and found == [True, True, 0]
        mark(5)
    assert counts(build, "run.json") == {"step": 10, "forward": 10, "attention": 10}


@pytest.mark.forks
def test_a_forked_child_that_leaves_the_block_leaves_the_file_alone(build: pathlib.Path) -> None:
    code = """
import os, sys, stoker
with stoker.record("run.json"):
    with stoker.span("before"): pass
    child = os.fork()
    if child == 0:
        sys.exit(0)  # through __exit__ and atexit
    assert os.waitpid(child, 0)[1] == 0
    with stoker.span("after"): pass
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert counts(build, "run.json") == {"before": 1, "after": 1}


def record_in_child(name: str) -> int:
    with stoker.record(name) as recording:
        mark(3)
    assert recording.stats is not None
    return recording.stats["events_written"]


@pytest.mark.forks
def test_a_forked_child_may_record_itself(build: pathlib.Path) -> None:
    with stoker.record("parent.json"):
        mark(2)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(record_in_child, ["one.json", "two.json"]) == [12, 12]
        mark(2)
    assert counts(build, "one.json") == counts(build, "two.json") == {"step": 3, "forward": 3, "attention": 3}
    assert counts(build, "parent.json")["forward"] == 4


# ---- cost ----


def test_a_limit_is_told_and_the_rest_counted(build: pathlib.Path) -> None:
    with pytest.warns(RuntimeWarning, match="is full at .* bytes: .* events of the rest were not recorded"):
        with stoker.record("run.pftrace", limit="1M") as recording:
            for _ in range(40):
                mark(1000)
                time.sleep(0.005)
    stats = recording.stats
    assert stats is not None and stats["events_dropped"] > 1000
    assert stats["events_written"] + stats["events_lost"] + stats["events_dropped"] == 160000
    assert os.path.getsize("run.pftrace") < 2**20 + 2**16
    assert counts(build, "run.pftrace")["step"] < 40000


@pytest.mark.parametrize("name", ["run.pftrace", "run.json.gz"])
def test_the_last_part_is_kept(build: pathlib.Path, name: str) -> None:
    with stoker.record(name, last="1M") as recording:
        for _ in range(100):
            mark(1000)
            time.sleep(0.005)
    stats = recording.stats
    assert stats is not None and stats["events_dropped"] > 1000
    assert stats["events_written"] + stats["events_lost"] + stats["events_dropped"] == 400000
    assert 2**19 < os.path.getsize(name) <= 2**20 and os.listdir(".") == [name]
    numbers = [int(str(row["number"])) for row in query(build, name, "select number from step order by ts")]
    assert numbers[0] > 1000 and numbers[-1] > 90000


def test_a_limit_or_the_last_part() -> None:
    with pytest.raises(stoker.InvalidError, match="both a limit and a last part"):
        stoker.record("run.json", limit="1M", last="1M").start()
    with pytest.raises(stoker.InvalidError, match="wanted at least 1048576"):
        stoker.record("run.json", last=1000).start()


def test_memory_stays_flat_over_many_marks() -> None:
    with stoker.record("run.pftrace", memory="4M"):
        mark(10000)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        mark(200000)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 4096  # KiB; 800,000 events


def test_recordings_leave_nothing_behind() -> None:
    for _ in range(20):
        with stoker.record("run.json", memory="2M"):
            mark(10)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    threads = len(os.listdir("/proc/self/task"))
    for _ in range(100):
        with stoker.record("run.json", memory="2M"):
            mark(10)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8192  # KiB; each has over 1 MiB
    assert len(os.listdir("/proc/self/task")) <= threads


def test_marks_without_a_recording_are_cheap() -> None:
    """Against what does nothing in Python: the same kind of cost, not another."""

    class Nothing:
        def __init__(self, name: str) -> None:
            self.name = name

        def __enter__(self) -> None:
            pass

        def __exit__(self, *error: object) -> None:
            pass

    def least(code: str) -> float:
        return min(timeit.repeat(code, globals={"stoker": stoker, "Nothing": Nothing}, number=20000, repeat=9))

    block = least("with Nothing('forward'): pass")
    assert least("with stoker.span('forward'): pass") < 3 * block
    assert least("stoker.step()") < block
    assert least("stoker.counter('loss', 0.5)") < block


def test_a_span_without_a_name_says_how_to_write_it() -> None:
    with pytest.raises(TypeError, match=r'wanted a name, found <function .*; write @stoker.span\("forward"\)'):

        @stoker.span  # type: ignore[arg-type]
        def forward() -> None:
            pass
