"""Runs: errors, waits, threads, forks, memory, and the end of the interpreter."""

from __future__ import annotations

import copy
import gc
import json
import os
import pathlib
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

import stoker
from stoker import _core
from stoker._runs import Runs

MARGIN = 60  # seconds after which something hangs


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    """A process of its own that runs the code."""
    package = str(pathlib.Path(stoker.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])}
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(code), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def outcome(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=MARGIN)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"it hangs; it said {out!r} and {err!r}")
    return process.returncode, out, err


def values(run: _core.Run) -> list[int]:
    got: list[int] = []
    while (batch := run.next()) is not None:
        got += batch.column("value").tolist()
    return got


# ---- what a run gives ----


def test_a_run_gives_all_batches_then_none() -> None:
    run = _core.Run("range(10) | batch(4)", threads=2)
    assert values(run) == list(range(10))
    assert run.next() is None
    stats = run.stats()
    assert (stats["samples"], stats["batches"], stats["total_batches"], stats["threads"]) == (10, 3, 3, 2)
    assert {"epoch_batches", "consumer_wait_ns", "peak_buffer_bytes", "budget_bytes"} <= set(stats)
    assert all(type(value) is int for value in stats.values())
    names = [name for name, _, _ in run.op_stats()]
    assert "batch" in names
    assert "batch(4)" in run.explain()
    assert isinstance(json.loads(run.explain_json()), dict)
    assert not run.has_sink()


def test_a_run_goes_on_from_its_state() -> None:
    run = _core.Run("range(100) | shuffle(seed=1) | batch(10)", threads=1)
    for _ in range(3):
        run.next()
    state = run.state()
    assert len(state) < 4096
    rest = values(run)
    again = _core.Run("range(100) | shuffle(seed=1) | batch(10)", threads=2, resume=state)
    assert values(again) == rest and len(rest) == 70
    with pytest.raises(stoker.MismatchError):
        _core.Run("range(101) | shuffle(seed=1) | batch(10)", resume=state)


def test_sinks_publish_what_was_consumed_at_finish() -> None:
    out = pathlib.Path("out.tfrecord")
    run = _core.Run(f'range(6) | batch(4) | write_tfrecord("{out}")')
    assert run.has_sink()
    while (batch := run.next()) is not None:
        run.consume(batch)
    assert not out.exists()
    run.finish()
    assert out.exists()
    with pytest.raises(TypeError, match="a Batch is wanted"):
        run.consume("text")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="of another run"):
        run.consume(_core.Run("range(30) | batch(10)").next())  # type: ignore[arg-type]


def test_sinks_publish_nothing_when_the_run_is_closed_before() -> None:
    run = _core.Run('range(6) | batch(4) | write_tfrecord("out.tfrecord")')
    batch = run.next()
    assert batch is not None
    run.consume(batch)
    run.close()
    assert os.listdir() == []


def test_the_registry_is_that_of_the_program(build: pathlib.Path) -> None:
    listed = subprocess.run([build / "stoker", "ops", "--json"], stdout=subprocess.PIPE, check=True).stdout
    assert json.loads(_core.ops_json()) == json.loads(listed)
    more = {op["name"]: op["group"] for op in json.loads(_core.ops_json(python=True))}
    assert more["python_map"] == more["python_source"] == "python"


def test_the_ops_of_a_text_are_found_with_their_places() -> None:
    text = 'text("größe.txt") | what_is_this(1)\n| batch(2)'
    found = _core.text_ops(text)
    assert [(name, role) for name, role, _, _ in found] == [
        ("text", "source"),
        ("what_is_this", ""),
        ("batch", "batch"),
    ]
    assert [text[begin:end] for _, _, begin, end in found] == ['text("größe.txt")', "what_is_this(1)", "batch(2)"]
    with pytest.raises(stoker.InvalidError) as caught:
        _core.text_ops("range(3")
    assert caught.value.line == 1
    with pytest.raises(ValueError):
        _core.text_ops("range(3)\0| batch(2)")


def test_plug_ins_add_ops_and_open_runs_go_on(build: pathlib.Path) -> None:
    plugin = next(iter(sorted(build.glob("examples/*negate*.so"))), None)
    if plugin is None:
        pytest.skip("needs the example plug-in")
    before = _core.Run("range(4) | batch(2)")
    assert "negate" in _core.load_plugin(str(plugin))
    assert values(before) == [0, 1, 2, 3]
    assert [name for name, _, _, _ in _core.text_ops("range(3) | negate(value)")] == ["range", "negate"]
    with pytest.raises(stoker.InvalidError):
        _core.load_plugin(str(plugin))
    with pytest.raises(stoker.Error):
        _core.load_plugin("nothing.so")


# ---- errors ----


def test_errors_tell_what_and_where() -> None:
    with pytest.raises(stoker.InvalidError) as caught:
        _core.Run("range(10) | bitch(3)")
    error = caught.value
    assert isinstance(error, stoker.Error) and isinstance(error, ValueError)
    assert (error.status, error.line, error.column) == ("INVALID", 1, 13)
    assert error.message == "unknown op 'bitch'; did you mean 'batch'?"
    assert str(error) == f"line 1, column 13: {error.message}"
    assert (error.file, error.offset, error.record, error.field) == (None, None, None, None)


def test_errors_about_data_name_file_record_and_op(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "broken.tfrecord"
    path.write_bytes(b"\x05\0\0\0\0\0\0\0" + b"wrong" * 10)
    with pytest.raises(stoker.CorruptError) as caught:
        values(_core.Run(f'tfrecord("{path}") | batch(2)'))
    assert caught.value.file == str(path) and caught.value.op == "tfrecord"
    assert str(path) in str(caught.value)
    with pytest.raises(OSError) as missing:
        _core.Run(f'text("{tmp_path}/nothing.txt") | batch(2)')
    assert isinstance(missing.value, (stoker.ReadError, stoker.InvalidError))


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("InvalidError", ValueError),
        ("ReadError", OSError),
        ("CorruptError", ValueError),
        ("BudgetError", MemoryError),
        ("CancelledError", Exception),
        ("UnsupportedError", NotImplementedError),
        ("MismatchError", ValueError),
        ("LimitError", Exception),
        ("UnfitError", ValueError),
        ("ForkError", RuntimeError),
    ],
)
def test_every_kind_of_error_can_be_pickled_and_copied(name: str, base: type[BaseException]) -> None:
    kind = getattr(stoker, name)
    assert issubclass(kind, stoker.Error) and issubclass(kind, base)
    assert kind.__module__ == "stoker"
    error = kind("what went wrong")
    assert error.file is None and error.status is None
    error.file, error.record = "d/x", 7
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind and again.args == ("what went wrong",)
        assert (again.file, again.record) == ("d/x", 7)


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"threads": -1}, ValueError, "threads must be 0 or more, not -1"),
        ({"memory": -5}, ValueError, "memory must be 0 or more"),
        ({"seed": -1}, OverflowError, None),
        ({"seed": 2**64}, OverflowError, None),
        ({"on_error": "ignore"}, ValueError, "'stop', 'skip' or 'quarantine', not 'ignore'"),
        ({"cache_dir": 3}, TypeError, "cache_dir must be a str or None"),
        ({"cache_dir": "a\0b"}, ValueError, "cache_dir has a NUL"),
        ({"rank": 3, "world": 2}, stoker.InvalidError, "rank must be in 0..1"),
        ({"resume": "nonsense"}, stoker.Error, None),
        ({"recorder": 3}, TypeError, None),
        ({"functions": 3}, TypeError, None),
        ({"nothing": 3}, TypeError, "nothing"),
    ],
)
def test_wrong_options_are_told(options: dict[str, Any], kind: type[Exception], text: str | None) -> None:
    with pytest.raises(kind, match=text):
        _core.Run("range(4) | batch(2)", **options)


def test_exceptions_of_functions_are_the_cause() -> None:
    def wrong(sample: dict[str, Any]) -> dict[str, Any]:
        if sample["value"] == 7:
            raise LookupError("seven is missing")
        return {}

    run = Runs(stoker.range(20).map(wrong).batch(2), {"threads": 2}).open()
    with pytest.raises(stoker.Error, match="seven is missing") as caught:
        values(run)
    assert isinstance(caught.value.__cause__, LookupError)
    assert caught.value.__cause__.__traceback__ is not None


def test_messages_are_handed_over_once(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("a\nb\n")
    run = _core.Run(f'text("{path}") | batch(1)')
    assert all(level in ("info", "warning") and text for level, text in run.messages())
    assert run.messages() == []


# ---- waits ----


def test_cancel_from_another_thread_ends_a_wait() -> None:
    event = threading.Event()

    def slow() -> Iterator[int]:
        yield 1
        event.wait()
        yield 2

    run = Runs(stoker.source(slow, value="int64").batch(2), {"threads": 1}).open()
    timer = threading.Timer(0.2, run.cancel)
    timer.start()
    with pytest.raises(stoker.CancelledError):
        run.next()
    event.set()
    run.close()


def test_progress_at_open_can_be_watched_and_stopped() -> None:
    seen: list[tuple[str, int, int]] = []
    path = pathlib.Path("many.tfrecord")
    writer = _core.Run(f'range(2000) | batch(100) | write_tfrecord("{path}")')
    while (batch := writer.next()) is not None:
        writer.consume(batch)
    writer.finish()

    def watch(what: str, done: int, total: int) -> bool:
        seen.append((what, done, total))
        return True

    run = _core.Run(f'tfrecord("{path}") | shuffle() | batch(10)', progress=watch)
    assert run.next() is not None
    if not seen:
        pytest.skip("the index was ready before anything was told")
    assert all(isinstance(what, str) and done <= total for what, done, total in seen)

    def interrupt(what: str, done: int, total: int) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _core.Run(f'tfrecord("{path}") | shuffle() | batch(10)', progress=interrupt)
    with pytest.raises(stoker.CancelledError):
        _core.Run(f'tfrecord("{path}") | shuffle() | batch(10)', progress=lambda *call: False)


WAITING = """
    import os, sys, time
    from stoker import _core
    os.mkfifo("endless")
    writer = os.open("endless", os.O_RDWR)  # so that reading waits for ever
    run = _core.Run('text("endless") | batch(2)')
"""


def test_a_named_pipe_is_read_as_it_is_written() -> None:
    os.mkfifo("pipe")
    lines = [f"line {i}" for i in range(1000)]
    writer = threading.Thread(target=lambda: pathlib.Path("pipe").write_text("\n".join(lines)), daemon=True)
    writer.start()
    run = _core.Run('text("pipe") | batch(7)', threads=2)
    got: list[bytes] = []
    while (batch := run.next()) is not None:
        got += batch.column("text").tolist()
    run.close()
    writer.join(MARGIN)
    assert [text.decode() for text in got] == lines


@pytest.mark.parametrize("place", ["next", "exit"])
def test_ctrl_c_ends_a_wait_for_data(place: str) -> None:
    code = (
        WAITING
        + {
            "next": """
    print("waiting", flush=True)
    try:
        run.next()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        os._exit(7)
""",
            "exit": """
    print("waiting", flush=True)
    run.next()
""",
        }[place]
    )
    process = python(code)
    assert process.stdout is not None and process.stdout.readline() == "waiting\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    code_, out, err = outcome(process)
    if place == "next":
        assert (code_, out) == (7, "interrupted\n"), err
    else:
        assert code_ in (-signal.SIGINT, 130) and "KeyboardInterrupt" in err


def test_a_loop_goes_on_after_ctrl_c() -> None:
    pytest.importorskip("numpy")
    process = python("""
        import os, signal, threading
        import stoker
        from stoker._runs import Runs
        event = threading.Event()
        def items():
            event.wait()
            yield 5
        run = Runs(stoker.source(items, value="int64").batch(1), {}).open()
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            run.next()
        except KeyboardInterrupt:
            print("interrupted")
        event.set()
        print(run.next().column(0).tolist(), run.next())
        """)
    code, out, err = outcome(process)
    assert (code, out) == (0, "interrupted\n[5] None\n"), err


def test_other_threads_run_while_one_waits() -> None:
    event = threading.Event()

    def slow() -> Iterator[int]:
        event.wait()  # set by a thread that needs the GIL
        yield 1

    run = Runs(stoker.source(slow, value="int64").batch(1), {"threads": 1}).open()
    thread = threading.Thread(target=event.set)
    threading.Timer(0.1, thread.start).start()
    assert values(run) == [1]


def test_threads_may_call_next_together() -> None:
    run = _core.Run("range(20000) | batch(7)", threads=2)
    got: list[list[int]] = [[] for _ in range(4)]
    threads = [threading.Thread(target=lambda mine=mine: mine.extend(values(run))) for mine in got]
    for thread in threads:
        thread.start()
    states = [run.state() for _ in range(20)]
    assert all(run.stats()["threads"] == 2 for _ in range(20)) and states
    for thread in threads:
        thread.join()
    assert sorted(sum(got, [])) == list(range(20000))


# ---- memory ----


def resident() -> int:
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_hoarding_is_told_and_can_be_undone() -> None:
    run = _core.Run("range(10000000) | batch(10000)", memory=4 << 20, threads=2)
    heap = []
    with pytest.raises(stoker.BudgetError, match="holds") as caught:
        while True:
            heap.append(run.next())
    assert isinstance(caught.value, MemoryError)
    assert len(heap) == run.held > 0
    assert run.stats()["peak_buffer_bytes"] <= 4 << 20
    del heap[0]
    assert run.next() is not None
    heap.clear()
    assert run.held == 0
    for _ in range(100):
        assert run.next() is not None


@pytest.mark.memory
def test_memory_stays_flat_over_many_batches() -> None:
    run = _core.Run("range(100000) | batch(1)", threads=2)
    after_a_while = total = 0
    while (batch := run.next()) is not None:
        total += len(memoryview(batch.column(0))) + len(batch.columns())
        batch.column(0).__dlpack__()
        if batch.index == 10000:
            after_a_while = resident()
    assert total == 200000
    assert resident() - after_a_while < 16 << 20


@pytest.mark.memory
def test_runs_that_are_dropped_leave_nothing_behind() -> None:
    def one() -> None:
        run = _core.Run("range(1000) | batch(10)", threads=2)
        run.next()
        with pytest.raises(stoker.InvalidError):
            _core.Run("range(3) | nothing()")

    for _ in range(50):
        one()
    before, threads, tasks = resident(), threading.active_count(), len(os.listdir("/proc/self/task"))
    for _ in range(300):
        one()
    assert resident() - before < 16 << 20
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/task")) < tasks + 20


def test_a_cycle_through_an_exception_is_collected() -> None:
    class Loop:
        pass

    def wrong(sample: dict[str, Any]) -> dict[str, Any]:
        raise LookupError("no")

    loop = Loop()
    loop.run = Runs(stoker.range(20).map(wrong, y="int64").batch(2), {}).open()  # type: ignore[attr-defined]
    try:
        loop.run.next()  # type: ignore[attr-defined]
    except stoker.Error as error:
        loop.error = error  # type: ignore[attr-defined]
    gone = weakref.ref(loop)
    del loop
    gc.collect()
    assert gone() is None


# ---- closing ----


def test_a_closed_run_keeps_its_numbers_and_batches() -> None:
    run = _core.Run("range(10) | batch(4)")
    batch = run.next()
    assert batch is not None
    state = run.state()
    assert not run.closed
    run.close()
    run.close()
    assert run.closed and run.held == 1
    assert batch.column(0).tolist() == [0, 1, 2, 3]
    assert run.state() == state and run.stats()["batches"] == 1 and "batch(4)" in run.explain()
    with pytest.raises(stoker.CancelledError):
        run.next()
    del batch
    assert run.held == 0


def test_close_in_the_middle_of_a_wait_ends_it() -> None:
    run = _core.Run("range(100000000) | batch(10)", threads=2)
    failed: list[BaseException] = []

    def loop() -> None:
        try:
            while run.next() is not None:
                pass
        except stoker.CancelledError as error:
            failed.append(error)

    threads = [threading.Thread(target=loop) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    run.close()
    for thread in threads:
        thread.join()
    assert len(failed) == 3


def test_a_run_may_go_away_inside_a_function_that_it_calls() -> None:
    holder: list[Any] = []
    dropped = threading.Event()

    def drop(sample: dict[str, Any]) -> dict[str, Any]:
        holder.clear()
        gc.collect()
        dropped.set()
        return {"y": 1}

    holder.append(Runs(stoker.range(1000).map(drop, y="int64").batch(10), {"threads": 2}).open())
    assert dropped.wait(MARGIN)


# ---- forks ----


@pytest.mark.forks
def test_a_child_gets_a_clear_error_and_the_parent_goes_on() -> None:
    process = python("""
        import os, sys
        import stoker
        from stoker import _core
        run = _core.Run("range(1000) | batch(10)", threads=2)
        batch = run.next()
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            assert batch.column(0).tolist() == list(range(10))  # what was there can be read
            for call in (run.next, run.state, run.stats, run.finish, run.explain):
                try:
                    call()
                except stoker.ForkError as error:
                    assert f"in process {os.getppid()}" in str(error), error
                else:
                    raise SystemExit("no error")
            run.close()
            del batch, run
            own = _core.Run("range(30) | batch(10)")  # its own runs work
            total = 0
            while (batch := own.next()) is not None:
                total += sum(batch.column(0).tolist())
            assert total == sum(range(30))
            sys.exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
        total = sum(batch.column(0).tolist())
        while (batch := run.next()) is not None:
            total += sum(batch.column(0).tolist())
        assert total == sum(range(1000))
        print("fine")
        """)
    code, out, err = outcome(process)
    assert (code, out) == (0, "fine\n") and "Error" not in err, err


@pytest.mark.forks
def test_a_fork_in_the_middle_of_work_leaves_both_sides_well() -> None:
    process = python("""
        import os, sys, threading
        from stoker import _core
        runs = [_core.Run("range(10000000) | shuffle() | batch(10)", threads=2) for _ in range(2)]
        stop = threading.Event()
        def loop(run):
            while not stop.is_set():
                run.next()
        threads = [threading.Thread(target=loop, args=(run,)) for run in runs]
        for t in threads:
            t.start()
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                del runs, threads
                _core.Run("range(30) | batch(10)").next()
                sys.exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        stop.set()
        for t in threads:
            t.join()
        print("fine")
        """)
    code, out, err = outcome(process)
    assert (code, out) == (0, "fine\n"), err


# ---- the end of the interpreter ----


@pytest.mark.parametrize(
    "code",
    [
        "run = _core.Run('range(100000000) | batch(10)'); run.next()",
        "run = _core.Run('range(100000000) | batch(10)'); batch = run.next(); view = memoryview(batch.column(0))",
        "sys.keep = _core.Run('range(100000000) | batch(10)'); sys.batch = sys.keep.next()",
        "sys.keep = Runs(stoker.range(10**8).map(lambda s: {'y': 1}, y='int64').batch(10), {}).open(); sys.keep.next()",
        "sys.keep = Runs(stoker.source(endless, value='int64').batch(10), {}).open(); sys.keep.next()",
        "it = iter(stoker.range(10**8).map(slow, y='int64').batch(2).numpy()); next(it)",
        "threading.Thread(target=forever, daemon=True).start(); time.sleep(0.2)",
        "sys.keep = [_core.Run('range(100000000) | batch(10)') for _ in range(8)]; 1 / 0",
    ],
)
def test_the_interpreter_ends_with_runs_that_are_open(code: str) -> None:
    pytest.importorskip("numpy")
    process = python(f"""
        import sys, threading, time
        import stoker
        from stoker import _core
        from stoker._runs import Runs
        def endless():
            i = 0
            while True:
                i += 1
                yield i
        def slow(sample):
            time.sleep(0.05)
            return {{"y": 1}}
        def forever():
            for batch in stoker.range(10**9).map(lambda s: {{}}).batch(10).numpy():
                pass
        {code}
        """)
    returned, out, err = outcome(process)
    assert returned == (1 if "1 / 0" in code else 0), err
    assert "Fatal" not in err and "Segmentation" not in err, err
    if "1 / 0" not in code:
        assert err == ""


def test_no_run_is_opened_while_the_interpreter_goes_away() -> None:
    process = python("""
        import atexit, sys
        def late():
            from stoker import _core
            try:
                _core.Run("range(10) | batch(2)")
            except RuntimeError as error:
                print(error)
        atexit.register(late)  # runs after the hook of the package, which is registered later
        import stoker
        """)
    code, out, err = outcome(process)
    assert (code, out) == (0, "no pipeline can be opened while the interpreter shuts down\n"), err


def test_a_worker_that_never_ends_does_not_keep_the_interpreter() -> None:
    process = python(WAITING + '    print("opened", flush=True)\n    sys.keep = run\n')
    code, out, err = outcome(process)
    assert (code, out) == (0, "opened\n"), err


# ---- pinned memory ----


def test_pinned_memory_needs_cuda() -> None:
    code = """
        from stoker import _core
        try:
            _core.Run("range(10) | batch(2)", pinned=True)
        except RuntimeError as error:
            print(error)
    """
    returned, out, err = outcome(python(code))
    assert returned == 0 and "no libcudart.so is loaded in this process" in out, err


CUDART = """
#include <stdlib.h>
int blocks, device_set = -1;
int cudaHostAlloc(void **out, size_t size, unsigned flags)
{
    blocks++;
    return posix_memalign(out, 4096, size) ? 2 : 0;
}
int cudaFreeHost(void *p)
{
    blocks--;
    free(p);
    return 0;
}
int cudaGetDevice(int *out)
{
    *out = 3;
    return 0;
}
int cudaSetDevice(int device)
{
    device_set = device;
    return 0;
}
"""


def test_pinned_batches_come_from_the_cudart_of_the_process() -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler for a library that stands for CUDA")
    pathlib.Path("cudart.c").write_text(CUDART)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", "libcudart.so.99", "cudart.c"], check=True)
    code = """
        import ctypes, gc
        cuda = ctypes.CDLL("./libcudart.so.99")
        from stoker import _core
        run = _core.Run("range(1000) | batch(10)", pinned=True, threads=2)
        batch = run.next()
        blocks = ctypes.c_int.in_dll(cuda, "blocks")
        print(blocks.value > 0, ctypes.c_int.in_dll(cuda, "device_set").value, batch.column(0).pointer % 4096)
        run.close()
        print(blocks.value > 0, batch.column(0).tolist()[:3])
        del run, batch
        print(blocks.value)
    """
    returned, out, err = outcome(python(code))
    assert (returned, out) == (0, "True 3 0\nTrue [0, 1, 2]\n0\n"), err


class Event:
    """Stands for an event of CUDA."""

    def __init__(self) -> None:
        self.come = False

    def query(self) -> bool:
        return self.come

    def synchronize(self) -> None:
        self.come = True


def test_dropped_batches_wait_for_the_work_queued_before() -> None:
    events: list[Event] = []

    def fence() -> Event:
        events.append(Event())
        return events[-1]

    run = _core.Run("range(1000) | batch(10)")
    run._fence(fence)
    batch = run.next()
    del batch
    assert run.held == 1 and events == []  # dropped, not yet given back
    second = run.next()
    assert run.held == 2 and len(events) == 1  # behind an event now
    events[0].come = True
    third = run.next()
    assert run.held == 2 and len(events) == 1
    del second, third
    run.close()
    assert run.held == 0 and all(event.come for event in events)


def test_parked_batches_are_waited_for_when_the_budget_is_full() -> None:
    events: list[Event] = []

    def fence() -> Event:
        events.append(Event())
        return events[-1]

    run = _core.Run("range(10000000) | batch(10000)", memory=4 << 20, threads=1)
    for _ in range(200):
        batch = run.next()
        assert batch is not None
        batch._fence(fence)
    assert any(event.come for event in events)


def test_an_exception_of_the_fence_comes_out_of_next() -> None:
    def fence() -> Event:
        raise LookupError("no stream")

    run = _core.Run("range(1000) | batch(10)")
    run._fence(fence)
    run.next()
    with pytest.raises(LookupError, match="no stream"):
        run.next()
    run.close()
    assert run.held == 0


# ---- the recorder ----


def test_a_run_keeps_its_recorder() -> None:
    recorder = _core.Recorder("run.json")
    run = _core.Run("range(100) | batch(10)", recorder=recorder)
    recorder.stop()
    del recorder
    gc.collect()
    assert values(run) == list(range(100))
    run.close()
    assert json.loads(pathlib.Path("run.json").read_text())


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python refuses to import it there")
def test_a_subinterpreter_is_told_that_it_cannot_open_a_run() -> None:
    """In a process of its own: once there was a second interpreter, PyGILState_Check tells nothing any more."""
    pytest.importorskip("_xxsubinterpreters")
    inner = f"""
import sys
sys.path[:] = {sys.path!r}
from stoker import _core
try:
    _core.Run("range(10) | batch(5)")
except RuntimeError as error:
    assert "main interpreter" in str(error)
else:
    raise AssertionError("it was opened")
"""
    outer = f"""
import _xxsubinterpreters as interpreters
one = interpreters.create()
interpreters.run_string(one, {inner!r})
interpreters.destroy(one)
"""
    subprocess.run([sys.executable, "-c", outer], check=True, timeout=100)
