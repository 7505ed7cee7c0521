"""Python functions in processes: the same bytes as without, failures, and no process that stays behind."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import pathlib
import pickle
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import stoker
from stoker import _core
from stoker._processes import check_processes, cores

np = pytest.importorskip("numpy")

pytestmark = pytest.mark.forks

DTYPES = "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64".split()


def plain(value: Any) -> Any:
    """Any column as lists of (type, bytes)."""
    if hasattr(value, "dtype") and value.dtype != object:
        return str(value.dtype), value.shape, value.tobytes()
    return [plain(x) if hasattr(x, "dtype") else list(x) if isinstance(x, (list, np.ndarray)) else x for x in value]


def batches(pipe: stoker.Pipeline, **options: Any) -> list[dict[str, Any]]:
    return [{name: plain(column) for name, column in b.items()} for b in pipe.numpy(**options)]


def pids_of(loader: stoker.Loader) -> list[int]:
    return [pid for pool in loader._passes.runs.pools._pools.values() for pid in pool.pids]


def is_there(pid: int) -> bool:
    """Also a zombie is."""
    return os.path.exists(f"/proc/{pid}")


def children() -> set[int]:
    """Processes that this one has started, zombies too."""
    found = set()
    for place in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[1]) == os.getpid():
            found.add(int(place.parent.name))
    return found


def wait_gone(pids: list[int], seconds: float = 10) -> bool:
    until = time.monotonic() + seconds
    while any(is_there(pid) for pid in pids) and time.monotonic() < until:
        time.sleep(0.01)
    return not any(is_there(pid) for pid in pids)


# ---- what comes out ----


def many(s: dict[str, Any], rng: Any) -> dict[str, Any]:
    i = int(s["value"])
    return {
        "value": s["value"] * 3 + rng.integers(1000),
        "fixed": rng.random((2, 3), dtype=np.float32),
        "ragged": np.arange(i % 5, dtype=np.int16),
        "wide": np.ones((i % 3, i % 4 + 1, 2), np.uint8) * i,
        "flag": bool(i % 2),
        "text": "ä" * (i % 7),
        "words": [b"a" * (i % 3), b"", str(i)],
        "list": [b"x" * k for k in range(i % 4)],
        "half": np.full(2, i, np.uint16),
        "rounded": 0.1,
        "listed": [0.5, i],
    }


MANY = {
    "value": "int64",
    "fixed": "float32[2,3]",
    "ragged": "int16[]",
    "wide": "uint8[?,?,2]",
    "flag": "bool",
    "text": "bytes",
    "words": "bytes[3]",
    "list": "bytes[]",
    "half": "bfloat16[2]",
    "rounded": "float32",
    "listed": "float64[2]",
}


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("threads", [0, 1, 4])
def test_values_of_every_kind_are_those_without_processes(processes: int, threads: int) -> None:
    source = stoker.range(50).shuffle(seed=3)
    want = batches(source.map(many, **MANY).batch(8), seed=5)
    assert batches(source.map(many, processes=processes, **MANY).batch(8), seed=5, threads=threads) == want


def test_what_a_function_gets_goes_in_as_it_is() -> None:
    rows = [
        {"text": f"t{i}", "parts": [b"a", b"bc" * i], "x": np.arange(i * 3, dtype=np.float32).reshape(i, 3), "n": i}
        for i in range(12)
    ]

    def tell(s: dict[str, Any]) -> dict[str, Any]:
        assert s["x"].flags.writeable and s["x"].flags.owndata
        s["x"][:] = -1  # it is the function's own
        return {"kinds": repr({k: (type(v).__name__, getattr(v, "dtype", None)) for k, v in s.items()}), "s": str(s)}

    source = stoker.source(rows, parts="bytes[]", x="float32[?,3]").map(tell, kinds="bytes", s="bytes")
    both = [batches(source.batch(4))]
    source = stoker.source(rows, parts="bytes[]", x="float32[?,3]").map(tell, processes=2, kinds="bytes", s="bytes")
    both.append(batches(source.batch(4)))
    assert both[0] == both[1]


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_every_dtype_goes_in_and_comes_out(dtype: str) -> None:
    data = np.arange(24).reshape(4, 2, 3).astype("uint16" if dtype == "bfloat16" else dtype)
    pipe = stoker.source({"a": data}, a=f"{dtype}[2,3]").map(
        lambda s: {"b": s["a"], "c": s["a"][0, 1]}, processes=2, b=f"{dtype}[2,3]", c=dtype
    )
    out = next(iter(pipe.batch(4).numpy()))
    assert out["b"].tobytes() == data.tobytes() and out["c"].tobytes() == data[:, 0, 1].tobytes()


def test_samples_of_many_megabytes_go_through_memory_that_grows() -> None:
    sizes = [10, 3_000_000, 5, 9_000_000, 70_000, 1]
    pipe = stoker.source({"n": np.array(sizes)}).map(
        lambda s: {"x": np.full(s["n"], s["n"] % 251, np.uint8), "b": b"q" * int(s["n"])},
        processes=1,
        x="uint8[]",
        b="bytes",
    )
    pipe = pipe.map(lambda s: {"sum": int(s["x"].sum()), "size": len(s["b"])}, processes=1, sum="int64", size="int64")
    out = next(iter(pipe.batch(6).numpy()))
    assert out["size"].tolist() == sizes and out["sum"].tolist() == [n * (n % 251) for n in sizes]
    assert [len(x) for x in out["x"]] == sizes


def test_fields_that_nothing_uses_are_not_made() -> None:
    pipe = stoker.range(6).map(lambda s: {"x": 1, "y": s["value"]}, processes=2, x="int64", y="int64").select("y")
    assert batches(pipe.batch(6)) == [{"y": ("int64", (6,), np.arange(6).tobytes())}]


def test_a_function_may_return_nothing_and_types_may_be_learnt() -> None:
    pipe = stoker.range(6).map(lambda s: {}, processes=2).map(lambda s: {"x": s["value"] / 2}, processes=2)
    assert pipe.fields()["x"] == "float64"
    assert np.concatenate([b["x"] for b in pipe.batch(4)]).tolist() == [0, 0.5, 1, 1.5, 2, 2.5]


def test_lambdas_closures_and_objects_are_called() -> None:
    class Adds:
        def __call__(self, s: dict[str, Any]) -> dict[str, Any]:
            return {"x": s["x"] + 1}

    by = 10
    pipe = stoker.range(4).map(lambda s: {"x": s["value"] * by}, processes=2).map(Adds(), processes=1)
    assert next(iter(pipe.batch(4)))["x"].tolist() == [1, 11, 21, 31]


def test_the_first_batch_is_that_of_a_loop() -> None:
    pipe = stoker.range(8).map(lambda s: {"x": random.random(), "p": os.getpid()}, processes=2).batch(4)
    first, looped = pipe.first(), next(iter(pipe))
    assert first["x"].tolist() == looped["x"].tolist() and os.getpid() not in first["p"]


def test_filters_streams_and_caches_work_with_it() -> None:
    def stream() -> Any:
        return ({"v": i} for i in range(30))

    def work(s: dict[str, Any], rng: Any) -> dict[str, Any]:
        return {"w": int(s["v"]) + int(rng.integers(100)), "keep": int(s["v"]) % 3}

    types = {"w": "int64", "keep": "int64"}
    for make in (
        lambda p: stoker.source(stream, v="int64").map(work, processes=p, **types).filter("keep == 1").batch(4),
        lambda p: stoker.range(30).rename(v="value").map(work, processes=p, **types).cache().batch(7),
    ):
        assert batches(make(2), epochs=2) == batches(make(0), epochs=2)


# ---- random numbers ----


def draw(s: dict[str, Any]) -> dict[str, Any]:
    return {"a": random.random(), "b": np.random.random(), "c": np.random.randint(1 << 30)}


def test_global_generators_depend_on_the_sample_alone() -> None:
    def values(processes: int, **options: Any) -> list[Any]:
        return batches(stoker.range(40).map(draw, processes=processes).batch(8), **options)

    want = values(1, seed=1)
    assert values(3, seed=1) == want and values(2, seed=1, threads=1) == want and values(2, seed=2) != want
    drawn = np.frombuffer(b"".join(b["a"][2] for b in want))
    assert len(set(drawn.tolist())) == 40  # no two samples have the same numbers


def test_global_generators_differ_by_epoch_and_leave_those_of_the_program_alone() -> None:
    random.seed(5)
    want = [random.random() for _ in range(3)]
    random.seed(5)
    got = batches(stoker.range(8).map(draw, processes=2, a="float64", b="float64", c="int64").batch(8), epochs=2)
    assert [random.random() for _ in range(3)] == want and got[0]["a"] != got[1]["a"]


def test_torch_is_seeded_and_has_one_thread() -> None:
    torch = pytest.importorskip("torch")

    def work(s: dict[str, Any]) -> dict[str, Any]:
        return {"x": torch.rand(3), "threads": torch.get_num_threads()}

    pipe = stoker.range(12).map(work, processes=1, x="float32[3]", threads="int64").batch(4)
    want = batches(pipe)
    again = stoker.range(12).map(work, processes=3, x="float32[3]", threads="int64").batch(4)
    assert batches(again) == want and all(b["threads"][2] == np.ones(4, np.int64).tobytes() for b in want)


# ---- loaders: epochs, places, life ----


def with_pid(s: dict[str, Any], rng: Any) -> dict[str, Any]:
    return {"x": s["value"] + rng.integers(1 << 40), "pid": os.getpid()}


PID = {"x": "int64", "pid": "int64"}


@pytest.mark.parametrize("persistent", [True, False])
def test_epochs_have_the_same_processes(persistent: bool) -> None:
    loader = stoker.range(64).map(with_pid, processes=2, **PID).batch(4).loader(persistent=persistent)
    seen = []
    for _ in range(3):
        list(loader)
        seen.append(pids_of(loader))
    assert seen[0] == seen[1] == seen[2] and len(seen[0]) == 2
    loader.close()
    assert not any(is_there(pid) for pid in seen[0])
    assert len({int(p) for b in loader for p in b["pid"]} & set(seen[0])) == 0  # new ones
    loader.close()


def test_a_saved_place_goes_on_with_another_number_of_processes() -> None:
    def pipe(processes: int) -> stoker.Pipeline:
        return stoker.range(40).shuffle(seed=1).map(with_pid, processes=processes, **PID).select("x").batch(4)

    whole = [b["x"].tolist() for b in pipe(0).loader(epochs=2)]
    for saver, goer in ((2, 1), (0, 3), (2, 0)):
        loader = pipe(saver).loader(epochs=2)
        loop = iter(loader)
        begun = [next(loop)["x"].tolist() for _ in range(7)]
        state = loader.state_dict()
        loader.close()
        other = pipe(goer).loader(epochs=2)
        other.load_state_dict(state)
        assert begun + [b["x"].tolist() for b in other] == whole
        other.close()


def test_a_loop_that_is_left_in_the_middle_leaves_the_processes_for_the_next() -> None:
    def slow(s: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.02)
        return {"x": s["value"]}

    loader = stoker.range(40).map(slow, processes=2, x="int64").batch(4).loader()
    for _ in range(3):
        for b in loader:
            break
    pids = pids_of(loader)
    assert [x for b in loader for x in b["x"]] == list(range(40)) and pids_of(loader) == pids
    loader.close()


def test_dropping_a_loader_ends_its_processes() -> None:
    loader = stoker.range(64).map(with_pid, processes=2, **PID).batch(4).loader()
    loop = iter(loader)
    next(loop)
    pids = pids_of(loader)
    assert len(pids) == 2 and all(is_there(pid) for pid in pids)
    del loop, loader
    gc.collect()
    assert not any(is_there(pid) for pid in pids)


def test_a_plain_loop_leaves_no_process() -> None:
    pids: set[int] = set()
    for b in stoker.range(64).map(with_pid, processes=2, **PID).batch(4):
        pids |= set(b["pid"].tolist())
    assert pids and wait_gone(list(pids))


def test_two_loaders_at_once_have_processes_of_their_own() -> None:
    pipe = stoker.range(32).map(with_pid, processes=2, **PID).batch(4)
    one, two = pipe.loader(), pipe.loader()
    seen: list[set[int]] = [set(), set()]
    for a, b in zip(one, two):
        assert a["x"].tolist() == b["x"].tolist()
        seen[0] |= set(a["pid"].tolist())
        seen[1] |= set(b["pid"].tolist())
    assert not seen[0] & seen[1]
    first = pids_of(one)
    one.close()
    assert wait_gone(first) and len([1 for _ in two]) == 8
    two.close()


def test_a_pipeline_with_processes_can_be_pickled() -> None:
    pipe = stoker.range(20).map(many, processes=2, **MANY).batch(4)
    again = pickle.loads(pickle.dumps(pipe))
    assert again._functions[0].processes == 2 and batches(again) == batches(pipe)
    loader = pipe.loader()
    next(iter(loader))
    assert len(list(pickle.loads(pickle.dumps(loader)))) == 4  # goes on behind the first batch
    loader.close()


def test_a_loop_in_another_thread_works_and_outlives_it() -> None:
    loader = stoker.range(32).map(with_pid, processes=2, **PID).batch(4).loader()
    got: list[Any] = []
    worker = threading.Thread(target=lambda: got.extend(loader))
    worker.start()
    worker.join()
    pids = pids_of(loader)
    time.sleep(0.1)
    assert len(got) == 8 and all(is_there(pid) for pid in pids) and len(list(loader)) == 8
    loader.close()


def test_a_forked_child_of_the_program_opens_its_own() -> None:
    loader = stoker.range(16).map(with_pid, processes=2, **PID).batch(4).numpy()
    want = [b["x"].tolist() for b in loader]
    pids = pids_of(loader)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            loader.load_state_dict({"stoker": 1, "state": None, "epoch": 0, "batches": 0})
            got = list(loader)
            theirs = {int(p) for b in got for p in b["pid"]}
            code = 0 if [b["x"].tolist() for b in got] == want and not theirs & set(pids) else 2
            loader.close()
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert all(is_there(pid) for pid in pids) and len(list(loader)) == 4
    loader.close()
    assert not any(is_there(pid) for pid in pids)


def test_run_ends_its_processes() -> None:
    before = children()
    stats = stoker.range(20).map(with_pid, processes=2, **PID).batch(4).run()
    assert stats["samples"] == 20 and children() == before


def test_the_recording_has_spans_of_the_function(tmp_path: pathlib.Path) -> None:
    def very_special_work(s: dict[str, Any]) -> dict[str, Any]:
        return {"x": sum(range(2000))}

    path = tmp_path / "t.pftrace"
    with stoker.record(path):
        for _ in stoker.range(400).map(very_special_work, processes=2).batch(10):
            pass
    assert b"very_special_work" in path.read_bytes()


# ---- failures ----


class Special(Exception):
    def __init__(self, text: str, number: int) -> None:
        super().__init__(text, number)


class Stubborn(Exception):
    def __reduce__(self) -> Any:
        raise RuntimeError("not me")


def raiser(error: Callable[[], BaseException]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def deep_inside(s: dict[str, Any]) -> dict[str, Any]:
        if s["value"] == 7:
            raise error()
        return {"x": 1}

    return deep_inside


@pytest.mark.parametrize(
    "error",
    [
        lambda: ValueError("seven is bad"),
        lambda: KeyError("name"),
        lambda: Special("two", 2),
        lambda: Stubborn("cannot be pickled"),
        lambda: type("Local", (Exception,), {})("its class is nowhere"),
        lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        lambda: MemoryError("much"),
    ],
)
def test_an_exception_is_that_without_processes_with_its_traceback(error: Callable[[], BaseException]) -> None:
    caught = []
    for processes in (0, 2):
        with pytest.raises(stoker.Error) as e:
            list(stoker.range(10).map(raiser(error), processes=processes, x="int64").batch(2))
        caught.append(e.value)
    here, there = caught
    assert type(here) is type(there) and str(here) == str(there)
    assert (here.op, here.field, here.message) == (there.op, there.field, there.message)
    cause = there.__cause__
    assert cause is not None and str(cause) == str(error()) and type(cause).__name__ == type(error()).__name__
    text = str(cause.__cause__)
    assert "deep_inside" in text and "raise error()" in text and "Traceback" in text


@pytest.mark.parametrize(
    "declared, value",
    [
        ("float32[3]", np.zeros(4, np.float32)),
        ("float32", 1e300),
        ("uint8", -1),
        ("int64", 1.5),
        ("float32", "text"),
        ("float32", None),
        ("bytes", 5),
        ("bytes[2]", [b"a"]),
        ("bytes", "\udc80"),
    ],
)
def test_a_value_that_does_not_fit_says_the_same(declared: str, value: Any) -> None:
    texts = []
    for processes in (0, 1):
        with pytest.raises(stoker.Error) as e:
            list(stoker.range(3).map(lambda s: {"x": value}, name="fit", processes=processes, x=declared).batch(1))
        assert e.value.op == "fit" and e.value.field == "x"
        texts.append(str(e.value))
    assert texts[0] == texts[1]


def test_wrong_fields_say_the_same() -> None:
    for result in (None, [1], {"y": 1}, {"x": 1, "y": 2}):
        texts = []
        for processes in (0, 1):
            with pytest.raises(stoker.Error) as e:
                list(stoker.range(3).map(lambda s: result, processes=processes, x="int64").batch(1))
            texts.append(str(e.value))
        assert texts[0] == texts[1]


def test_the_lowest_row_is_told_and_the_loader_goes_on() -> None:
    def work(s: dict[str, Any]) -> dict[str, Any]:
        if s["value"] >= 5 and not os.path.exists("fixed"):
            raise ValueError(f"row {s['value']}")
        return {"x": s["value"]}

    loader = stoker.range(40).map(work, processes=3, x="int64").batch(10).loader()
    for _ in range(3):
        with pytest.raises(stoker.Error, match="row 5"):
            list(loader)
    pids = pids_of(loader)
    pathlib.Path("fixed").touch()
    assert len(list(loader)) == 4 and pids_of(loader) == pids
    loader.close()


def test_a_process_that_is_killed_is_told() -> None:
    def work(s: dict[str, Any]) -> dict[str, Any]:
        if s["value"] == 20 and not os.path.exists("fixed"):
            os.kill(os.getpid(), signal.SIGKILL)
        return {"x": s["value"]}

    loader = stoker.range(40).map(work, processes=2, x="int64").batch(4).loader()
    with pytest.raises(stoker.Error, match=r"work: process \d+, .*killed by signal 9 \(Killed; was it out of mem"):
        list(loader)
    pathlib.Path("fixed").touch()
    assert len(list(loader)) == 10 and len(pids_of(loader)) == 2  # the one that is missing was started
    loader.close()


def segfault() -> None:
    faulthandler.disable()  # of pytest, which would write much
    ctypes.string_at(0)


@pytest.mark.parametrize(
    "end, text",
    [
        (lambda: os._exit(3), "ended with exit code 3"),
        (segfault, r"killed by signal 11 \(Segmentation fault\)"),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), r"killed by signal 15"),
        (lambda: os.closerange(3, 256), "process"),
    ],
)
def test_a_process_that_ends_is_told(end: Callable[[], Any], text: str) -> None:
    def work(s: dict[str, Any]) -> dict[str, Any]:
        if s["value"] == 9:
            end()
        return {"x": 1}

    for on_error in ("stop", "skip"):
        with pytest.raises(stoker.Error, match=text) as e:
            list(stoker.range(40).map(work, processes=2, x="int64").batch(4).numpy(on_error=on_error))
        assert e.value.op == "work"


def test_a_process_that_is_killed_from_outside_is_told() -> None:
    loader = stoker.range(4000).map(with_pid, processes=2, **PID).batch(4).loader()
    loop = iter(loader)
    next(loop)
    os.kill(pids_of(loader)[0], signal.SIGKILL)
    with pytest.raises(stoker.Error, match="killed by signal 9"):
        list(loop)
    loader.close()


def test_a_grandchild_that_keeps_the_socket_does_not_hide_a_death() -> None:
    def work(s: dict[str, Any]) -> dict[str, Any]:
        if s["value"] == 3:
            child = os.fork()
            if child == 0:
                time.sleep(3)
                os._exit(0)
            os._exit(4)
        return {"x": 1}

    with pytest.raises(stoker.Error, match="exit code 4"):
        list(stoker.range(8).map(work, processes=1, x="int64").batch(2))


# ---- closing, signals, the end of the program ----


def wait_hung() -> None:
    """Until a function has come to the place where it hangs."""
    until = time.monotonic() + 30
    while not os.path.exists("hung") and time.monotonic() < until:
        time.sleep(0.01)
    assert os.path.exists("hung")


def test_closing_while_functions_hang_ends_them() -> None:
    def hang(s: dict[str, Any]) -> dict[str, Any]:
        if s["value"] >= 100:
            pathlib.Path("hung").touch()
            while True:
                pass
        return {"x": 1}

    loader = stoker.range(200).map(hang, processes=2, x="int64").batch(16).loader()
    loop = iter(loader)
    next(loop)
    wait_hung()
    pids = pids_of(loader)
    loader.close()
    assert len(pids) == 2 and not any(is_there(pid) for pid in pids)


def run_script(text: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(text)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


HANGS = """
    import os, sys, time, stoker
    def hang(s):
        if s["value"] >= 100:
            open("hung", "w").close()
            {how}
        return {{"x": os.getpid()}}
    loader = stoker.range(200).map(hang, processes=2, x="int64").batch(16).loader()
    loop = iter(loader)
    next(loop)
    while not os.path.exists("hung"):
        time.sleep(0.01)
    print(*[p for pool in loader._passes.runs.pools._pools.values() for p in pool.pids], flush=True)
"""


@pytest.mark.parametrize(
    "how", ["while True: pass", "time.sleep(1000)", "import ctypes; ctypes.PyDLL(None).sleep(1000)"]
)
def test_killing_the_program_ends_its_processes(how: str) -> None:
    before = set(os.listdir("/dev/shm"))
    program = run_script(HANGS.format(how=how) + "    time.sleep(1000)\n")
    assert program.stdout is not None
    pids = [int(pid) for pid in program.stdout.readline().split()]
    assert len(pids) == 2
    program.kill()
    program.communicate()
    assert wait_gone(pids)
    assert set(os.listdir("/dev/shm")) <= before


def test_ctrl_c_comes_through_while_a_function_hangs() -> None:
    body = """
    try:
        list(loop)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    """
    program = run_script(HANGS.format(how="time.sleep(1000)") + body, start_new_session=True)
    assert program.stdout is not None
    pids = [int(pid) for pid in program.stdout.readline().split()]
    time.sleep(0.3)
    os.killpg(program.pid, signal.SIGINT)  # as a terminal does: to all of them
    out, err = program.communicate(timeout=20)
    assert out == "interrupted\n" and program.returncode == 0, err
    assert "Traceback" not in err and wait_gone(pids)


@pytest.mark.parametrize("how", ["pass", "while True: pass"])
def test_a_program_that_closes_nothing_ends(how: str) -> None:
    program = run_script(HANGS.format(how=how))
    out, err = program.communicate(timeout=20)
    assert program.returncode == 0 and not err and wait_gone([int(pid) for pid in out.split()])


def test_what_is_printed_comes_out_once() -> None:
    program = run_script(
        """
        import stoker
        print("before", end=" ")
        def say(s):
            print(f"sample {s['value']}\\n", end="")  # in one piece, whatever the buffer
            return {}
        list(stoker.range(6).map(say, processes=2, name="say").batch(2))
        print("after")
        """
    )
    out, err = program.communicate(timeout=20)
    assert not err and program.returncode == 0
    words = out.replace("\n", " ").split()
    assert words.count("before") == 1 and words.count("after") == 1
    # The first is said once more by the call that learns the types.
    assert sorted(words[k + 1] for k, w in enumerate(words) if w == "sample") == list("0012345")


def test_a_module_without_a_guard_and_handlers_of_the_program_do_no_harm() -> None:
    program = run_script(
        """
        import os, signal, stoker
        signal.signal(signal.SIGTERM, lambda *_: open("handled", "w"))
        def work(s):
            if s["value"] == 3:
                os.kill(os.getpid(), signal.SIGTERM)
            return {}
        try:
            list(stoker.range(6).map(work, processes=2).batch(2))
        except stoker.Error as e:
            print(e)
        print(os.path.exists("handled"))
        """
    )
    out, err = program.communicate(timeout=20)
    assert "killed by signal 15" in out and out.endswith("False\n") and not err


def test_no_warning_of_fork_and_threads() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # Python's own, from 3.12 on
        other = iter(stoker.range(1000).map(lambda s: {}).batch(2))  # threads that run meanwhile
        next(other)
        assert len(list(stoker.range(8).map(lambda s: {}, processes=2).batch(2))) == 4


# ---- options ----


@pytest.mark.parametrize("wrong", [-1, 1.5, "many", 100_000, b"2"])
def test_a_wrong_number_of_processes_says_what_is_wanted(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"map 'lambda': processes: wanted a number in 0\.\.1024, or \"auto\", found"):
        stoker.range(3).map(lambda s: {}, processes=wrong)


def test_auto_is_a_process_for_each_core() -> None:
    assert check_processes("auto", "map") == cores() >= 1
    alone = cores()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCAL_WORLD_SIZE", "2")  # ranks of a host share its cores
        assert check_processes("auto", "map") == max(1, alone // 2)
    assert check_processes(None, "map") == 0 and check_processes(np.int64(2), "map") == 2


def test_behind_batch_there_are_none() -> None:
    with pytest.raises(ValueError, match="behind batch the loop itself calls it.*before .batch"):
        stoker.range(3).batch(2).map(lambda b: b, processes=2)


def test_a_run_has_threads_for_all_processes_unless_it_says_how_many() -> None:
    pipe = stoker.range(8).map(lambda s: {}, processes=cores() + 1).batch(2)
    loader = pipe.loader()
    next(iter(loader))
    assert loader.stats()["threads"] == 2 * (cores() + 1)
    loader.close()
    loader = pipe.loader(threads=1)
    next(iter(loader))
    assert loader.stats()["threads"] == 1
    loader.close()


def test_looking_at_a_pipeline_starts_no_process() -> None:
    before = children()
    pipe = stoker.range(8).map(lambda s: {"x": 1}, processes=2, x="int64").batch(2)
    loader = pipe.loader()
    assert len(loader) == 4 and "x" in pipe.fields() and "lambda" in pipe.explain()
    assert pids_of(loader) == [] and children() == before


def test_the_memory_that_is_shared_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = stoker.range(64).map(lambda s: {"x": np.zeros(1 << 18, np.uint8)}, processes=8, x="uint8[262144]").batch(1)
    with pytest.raises(stoker.BudgetError):
        list(pipe.numpy(memory=1 << 20, threads=1))
    assert len(list(pipe.numpy(memory=1 << 26, threads=1))) == 64


def test_without_a_lock_threads_call_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    loader = stoker.range(16).map(with_pid, processes=2, **PID).batch(4).loader()
    assert {int(p) for b in loader for p in b["pid"]} == {os.getpid()} and pids_of(loader) == []
    loader.close()


def test_a_pool_has_a_number() -> None:
    with pytest.raises(ValueError, match=r"wanted 1\.\.1024, found 0"):
        _core.Pool(0)
    pool = _core.Pool(2)
    assert pool.pids == [] and pool.ours
    pool.close()
    pool.close()


@pytest.mark.memory
def test_memory_of_the_program_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def resident() -> int:
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096

    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    pipe = stoker.range(50).map(many, processes=2, **MANY).batch(5)
    for _ in range(5):
        batches(pipe)
    before, files = resident(), descriptors()
    for _ in range(20):
        batches(pipe)
    assert descriptors() == files and resident() - before < 8 << 20


def test_advice_names_processes() -> None:
    def slow(s: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.02)
        return {}

    with pytest.warns(stoker.StokerWarning, match=r"map 'slow' is the bottleneck.*processes=n"):
        list(stoker.range(60).map(slow).batch(4))
    with pytest.warns(stoker.StokerWarning, match=r"map 'slow' is the bottleneck.*it has 1 process:"):
        list(stoker.range(60).map(slow, processes=1).batch(4))
