"""The command `stoker` that the package brings: it becomes the program itself."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

import stoker
from stoker import _program

PLACE = str(pathlib.Path(stoker.__file__).parents[1])
MODULE = [sys.executable, "-m", "stoker"]
ENDLESS = ["run", "-q", "-e", "range(1000) | repeat() | batch(1)"]


def run(*words: str, command: list[str] = MODULE) -> subprocess.CompletedProcess[str]:
    env = dict(os.environ, PYTHONPATH=PLACE)
    return subprocess.run([*command, *words], check=False, capture_output=True, text=True, env=env)


def test_the_command_is_installed() -> None:
    path = pathlib.Path(sys.executable).parent / "stoker"
    if os.environ.get("STOKER_PACKAGE") == "build" or not path.exists():
        pytest.skip("the package is not installed here")
    done = run("--version", command=[str(path)])
    assert (done.returncode, done.stdout, done.stderr) == (0, f"stoker {stoker.__version__}\n", "")


def test_arguments_go_through_as_they_are() -> None:
    done = run("run", "-q", "-e", "range(3)\n| batch(2) | print")
    assert (done.returncode, done.stdout) == (0, '{"value":0}\n{"value":1}\n{"value":2}\n'), done.stderr
    assert "unknown command 'two words'" in run("two words").stderr
    assert "unknown command ''" in run("").stderr


def test_exit_codes_go_through() -> None:
    assert run("--version").returncode == 0
    assert run("inspect", "missing.tfrecord").returncode == 1
    assert run("nonsense").returncode == 2


def test_the_program_finds_the_helper_for_hdf5() -> None:
    stoker.range(10).write_hdf5("numbers.h5").run()
    done = run("inspect", "numbers.h5")
    assert done.returncode == 0, done.stderr
    assert "/value" in done.stdout


def status_line(child: subprocess.Popen[bytes], name: str) -> str:
    lines = pathlib.Path(f"/proc/{child.pid}/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith(name + ":"))


def wait_for_program(child: subprocess.Popen[bytes]) -> None:
    """Until the process has become the program, and handles signals."""
    for _ in range(600):
        exe = os.path.realpath(f"/proc/{child.pid}/exe")
        caught = int(status_line(child, "SigCgt"), 16)
        if exe == os.path.realpath(_program.program_path()) and caught >> (signal.SIGINT - 1) & 1:
            return
        time.sleep(0.05)
    pytest.fail("the command did not become the program")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_reach_the_program(number: signal.Signals) -> None:
    direct = subprocess.Popen([_program.program_path(), *ENDLESS], stderr=subprocess.DEVNULL)
    child = subprocess.Popen([*MODULE, *ENDLESS], stderr=subprocess.DEVNULL, env=dict(os.environ, PYTHONPATH=PLACE))
    codes = []
    for process in direct, child:
        wait_for_program(process)
        process.send_signal(number)
        codes.append(process.wait(timeout=60))
    assert codes[0] == codes[1] != 0, codes


def test_no_signal_is_ignored_that_the_program_does_not_ignore_itself() -> None:
    """Python ignores two, and a new program would inherit that."""
    ignored = []
    env = dict(os.environ, PYTHONPATH=PLACE)
    for command in [_program.program_path()], MODULE:
        child = subprocess.Popen([*command, *ENDLESS], stderr=subprocess.DEVNULL, env=env)
        wait_for_program(child)
        ignored.append(status_line(child, "SigIgn"))
        child.kill()
        child.wait()
    assert ignored[0] == ignored[1]


def test_a_missing_program_is_told_in_one_sentence(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_program, "__file__", str(tmp_path / "_program.py"))
    with pytest.raises(FileNotFoundError, match="bin/stoker is missing; it belongs to the package stoker"):
        _program.program_path()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "stoker").write_text("")
    with pytest.raises(FileNotFoundError, match="bin/stoker cannot be run"):
        _program.program_path()


def test_the_start_of_the_command_is_told() -> None:
    """Times are shown, not judged."""
    times: dict[str, list[float]] = {"the program": [], "the command": []}
    for _ in range(7):
        for name, command in ("the program", [_program.program_path()]), ("the command", MODULE):
            begin = time.perf_counter()
            assert run("--version", command=command).returncode == 0
            times[name].append(1000 * (time.perf_counter() - begin))
    for name, ms in times.items():
        print(f"\n{name}: {min(ms):.0f} ms at best, {sorted(ms)[3]:.0f} ms in the middle", end="")
