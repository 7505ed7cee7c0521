"""Ctrl-C is KeyboardInterrupt wherever it falls, and the process goes on as if nothing had been."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

import stoker

pytest.importorskip("numpy")

TRIALS = 400 if os.environ.get("STOKER_TORTURE") else 12

# Each trial sets a timer whose signal is a Ctrl-C to Python, then does what it is named after until that comes. The
# handler of a collected object swallows an exception in Python itself, so that a trial may see none: then it ends.
PROGRAM = """
import os, random, signal, sys, threading, time
import numpy as np
import stoker
from stoker import bench

NAME, TRIALS, LONGEST, SEED = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
random.seed(SEED)
signal.signal(signal.SIGALRM, signal.default_int_handler)
os.mkfifo("pipe")
with open("lines.txt", "w") as f:
    f.writelines(f"line {i}\\n" for i in range(5000))
with stoker.record("run.pftrace"):
    for _ in stoker.range(200).batch(4):
        pass

def work(sample):
    return {"y": np.float32(sample["value"])}

def mapped():
    return stoker.range(100).map(work, y="float32").batch(8)

def opening():
    while True:
        loader = mapped().loader(threads=2, persistent=False)
        iter(loader).__next__()

def planning():
    while True:
        mapped().fields()

def loop():
    while True:
        for batch in mapped().loader(threads=2):
            pass

def slow(sample):
    time.sleep(0.01)
    return {}

def function():
    while True:
        for batch in stoker.range(100).map(slow).batch(8).loader(threads=2):
            pass

def items():
    for i in range(1000000):
        time.sleep(0.001)
        yield i

def source():
    while True:
        for batch in stoker.source(items, value="int64").batch(8).loader(threads=1):
            pass

def states():
    loader = stoker.text("lines.txt").shuffle(seed=1).repeat().map(lambda s: {}).batch(8).loader(threads=2)
    while True:
        it = iter(loader)
        for _ in range(3):
            next(it)
        loader.load_state_dict(loader.state_dict())

def pipe_open():
    for batch in stoker.text("pipe").batch(2).loader():
        pass

def pipe_read():
    descriptor = os.open("pipe", os.O_RDWR)
    try:
        os.write(descriptor, b"a line\\n")
        for batch in stoker.text("pipe").batch(2).loader():
            pass
    finally:
        os.close(descriptor)

def pattern():
    for i in range(40):
        os.makedirs(f"deep/{i}", exist_ok=True)
    stoker.text("deep/*/../*/../*/../*/../*/../*/x").batch(2).first()

def lexicon():
    stoker.G2p(["pipe"])

def pronounce():
    g = stoker.G2p()
    while True:
        g("Big dogs ran after 42 blorfs.")

def trace_open():
    stoker.open_trace("pipe")

def query():
    trace = stoker.open_trace("run.pftrace", cache=False)
    while True:
        trace.sql("SELECT count(*) FROM slice a, slice b, slice c")

def record():
    left = stoker._record._recording
    if left:  # a Ctrl-C at the first step of __exit__ leaves any context as it is
        left.stop()
    while True:
        with stoker.record("out.pftrace"):
            for _ in stoker.range(100).batch(4):
                pass

def record_pipe():
    os.path.exists("pipe.json") or os.mkfifo("pipe.json")
    with stoker.record("pipe.json"):
        pass

def compare():
    while True:
        bench.compare(lambda: sum(range(50)), lambda: sum(range(60)), rounds=5)

def usable():
    assert sum(int(b["value"].sum()) for b in stoker.range(100).map(lambda s: {}).batch(10)) == 4950

body, seen = globals()[NAME], 0
for trial in range(TRIALS):
    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0005, LONGEST))
    try:
        body()
    except KeyboardInterrupt:
        seen += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    usable()
print("seen", seen)
"""

# How long after its start the signal comes at the latest, in seconds: in the middle of what is to be hit.
BODIES = {
    "opening": 0.02, "planning": 0.01, "loop": 0.05, "function": 0.2, "source": 0.2, "states": 0.05, "pipe_open": 0.2, "pipe_read": 0.2,
    "pattern": 0.3, "lexicon": 0.2, "pronounce": 0.1, "trace_open": 0.2, "query": 0.3, "record": 0.05, "record_pipe": 0.2, "compare": 0.2,
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_ctrl_c_is_a_keyboard_interrupt(name: str) -> None:
    words = [name, str(TRIALS), str(BODIES[name]), os.environ.get("STOKER_TORTURE_SEED", "1")]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == f"seen {TRIALS}\n", done.stderr[-3000:]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_what_ends_the_program_comes_out_of_a_function_as_itself(kind: type[BaseException], on_error: str) -> None:
    def end(sample: dict[str, object]) -> dict[str, object]:
        if sample["value"] == 50:
            raise kind("enough")
        return {}

    loader = stoker.range(100).map(end).batch(8).loader(threads=2, on_error=on_error)
    with pytest.raises(kind, match="enough"):
        for _ in loader:
            pass


def test_what_ends_the_program_comes_out_of_a_source_as_itself() -> None:
    def items() -> object:
        yield from range(10)
        raise SystemExit(3)

    with pytest.raises(SystemExit) as end:
        list(stoker.source(items, value="int64").batch(4))
    assert end.value.code == 3


def test_what_ends_the_program_comes_out_of_a_process_as_itself(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, stoker\n"
        "def end(sample):\n"
        "    sys.exit('enough')\n"
        "if __name__ == '__main__':\n"
        "    for _ in stoker.range(10).map(end, processes=1).batch(2):\n"
        "        pass\n"
    )
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and done.stderr.strip().endswith("enough"), done.stderr
