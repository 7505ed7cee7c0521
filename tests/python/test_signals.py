#!/usr/bin/env python3
"""One SIGTERM or Ctrl-C ends every command, also in open() and read() of a pipe: test_signals.py BUILD_DIR"""
import json
import os
import signal
import subprocess
import sys
import time

import runlib

# Long after the two seconds of grace, long before anybody would wait for it.
HANGS_AFTER_S = 60
INTERRUPTED = 130


class Command:
    """A command, with the name of the pipe that it is to hang in."""

    def __init__(self, program, directory, *words, stdin=subprocess.DEVNULL):
        self.pipe = os.path.join(directory, "pipe.json")
        if not os.path.exists(self.pipe):
            os.mkfifo(self.pipe)
        self.process = subprocess.Popen([program, *(w.replace("PIPE", self.pipe) for w in words)], cwd=directory, stdin=stdin,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def sleeps(self):
        """Once all of its threads wait for something."""
        for _ in range(2000):
            states = set()
            if self.process.poll() is not None:
                raise AssertionError(f"{self.process.args} ended by itself: {self.process.communicate()}")
            for task in os.listdir(f"/proc/{self.process.pid}/task"):
                try:
                    with open(f"/proc/{self.process.pid}/task/{task}/stat") as f:
                        states.add(f.read().rsplit(")", 1)[1].split()[0])
                except FileNotFoundError:
                    pass
            if states == {"S"}:
                return
            time.sleep(0.005)
        raise AssertionError(f"{self.process.args} does not come to rest")

    def end(self, number):
        """Sends one signal; gives the exit status and what it said."""
        self.process.send_signal(number)
        try:
            out, err = self.process.communicate(timeout=HANGS_AFTER_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise AssertionError(f"signal {number} did not end it") from None
        return self.process.returncode, out, err


COMMANDS = [
    ["run", "-e", 'text("PIPE") | batch(2)'],
    ["run", "-e", 'tfrecord("PIPE") | shuffle(buffer=10) | batch(2)'],
    ["run", "-e", 'webdataset("PIPE") | batch(2)', "--on-error", "skip"],
    ["run", "PIPE"],
    ["run", "-e", 'range(10) | batch(2)', "--trace", "PIPE"],
    ["plan", "PIPE"],
    ["plan", "-e", 'text("words.txt") | g2p(text, lexicon="PIPE")'],
    ["inspect", "PIPE"],
    ["inspect", "--verify", "--json", "PIPE"],
    ["top", "PIPE"],
    ["diagnose", "PIPE"],
    ["sql", "PIPE", "select 1"],
    ["convert", "PIPE", "-o", "out.pftrace"],
    ["merge", "-o", "out.json", "PIPE", "words.txt"],
    ["export", "--to", "csv", "PIPE", "out"],
    ["diff", "PIPE", "PIPE"],
    ["g2p", "--lexicon", "PIPE", "word"],
    ["bench", "--suite", "PIPE"],
]
STDIN = [["run", "-e", 'text("-") | batch(2)'], ["run", "-"], ["inspect", "-"], ["top", "-"], ["convert", "-", "-o", "out.pftrace"], ["g2p"]]


def is_ended(code, number):
    """By itself, or by a signal that it never caught."""
    return code in (INTERRUPTED, -number)


def test_one_signal_ends_a_command_that_waits_for_a_writer(program, directory):
    with open(os.path.join(directory, "words.txt"), "w") as f:
        f.write("a word\n")
    for words in COMMANDS:
        for number in (signal.SIGTERM, signal.SIGINT):
            command = Command(program, directory, *words)
            command.sleeps()
            code, out, err = command.end(number)
            assert is_ended(code, number), f"{words}, signal {number}: {code}, {out}{err}"
            assert "left what did not end" not in err, f"{words}: waited for: {err}"
            assert sorted(os.listdir(directory)) == ["pipe.json", "words.txt"], f"{words} left {os.listdir(directory)}"


def test_one_signal_ends_a_command_that_reads_a_pipe(program, directory):
    with open(os.path.join(directory, "words.txt"), "w") as f:
        f.write("a word\n")
    for words in COMMANDS:
        for number in (signal.SIGTERM, signal.SIGINT):
            command = Command(program, directory, *words)
            if "--trace" in words:
                continue
            writer = os.open(command.pipe, os.O_RDWR)  # does not wait for the reader
            os.write(writer, b"# the first line\n")
            command.sleeps()
            code, out, err = command.end(number)
            os.close(writer)
            os.unlink(command.pipe)
            assert is_ended(code, number), f"{words}, signal {number}: {code}, {out}{err}"
            assert "left what did not end" not in err, f"{words}: waited for: {err}"


def test_one_signal_ends_a_command_that_reads_standard_input(program, directory):
    for words in STDIN:
        for number in (signal.SIGTERM, signal.SIGINT):
            reader, writer = os.pipe()  # kept open: an end of the input would end the command
            command = Command(program, directory, *words, stdin=reader)
            os.write(writer, b"a word")
            command.sleeps()
            code, out, err = command.end(number)
            os.close(reader)
            os.close(writer)
            assert is_ended(code, number), f"{words}, signal {number}: {code}, {out}{err}"
            assert "left what did not end" not in err, f"{words}: waited for: {err}"


def test_one_sigterm_writes_the_checkpoint_of_a_run_that_waits(program, directory):
    """What was handed over is printed and in the checkpoint; the rest comes after the resume, once."""
    words = ["run", "-q", "-e", 'text("PIPE") | batch(4) | print']
    command = Command(program, directory, *words, "--checkpoint", "run.ck", "--threads", "2")
    lines = [f"line {i}" for i in range(4000)]
    with open(command.pipe, "w") as pipe:
        pipe.write("".join(line + "\n" for line in lines[:2000]))
        pipe.flush()
        time.sleep(0.5)
        command.sleeps()
        code, out, _ = command.end(signal.SIGTERM)
    assert code == INTERRUPTED
    assert len(out.splitlines()) > 200, f"only {len(out.splitlines())} of 2000 lines were printed"
    resumed = Command(program, directory, *words, "--resume", "run.ck")
    with open(resumed.pipe, "w") as pipe:
        pipe.write("".join(line + "\n" for line in lines))
    rest, _ = resumed.process.communicate(timeout=HANGS_AFTER_S)
    got = [json.loads(line)["text"] for line in (out + rest).splitlines()]
    assert resumed.process.returncode == 0
    assert got == lines, f"{len(got)} lines, wanted {len(lines)}"


def test_a_late_writer_is_waited_for(program, directory):
    """A pipe that is opened without waiting must not look empty."""
    command = Command(program, directory, "run", "-q", "-e", 'text("PIPE") | batch(10) | print')
    command.sleeps()
    time.sleep(0.3)
    with open(command.pipe, "w") as pipe:
        time.sleep(0.2)
        pipe.write("a\n")
        pipe.flush()
        time.sleep(0.2)
        pipe.write("b\n")
    out, err = command.process.communicate(timeout=HANGS_AFTER_S)
    assert command.process.returncode == 0 and out.count("\n") == 2, f"{out}{err}"


def test_one_signal_ends_a_pattern_that_takes_long(program, directory):
    for i in range(60):
        os.mkdir(os.path.join(directory, str(i)))
    pattern = "*/../" * 5 + "*/x"
    for words in (["run", "-e", f'text("{pattern}") | batch(2)'], ["plan", "-e", f'text("{pattern}") | batch(2)'], ["inspect", pattern],
                  ["top", pattern]):
        command = Command(program, directory, *words)
        time.sleep(0.3)
        code, out, err = command.end(signal.SIGTERM)
        assert is_ended(code, signal.SIGTERM), f"{words}: {code}, {out}{err}"
        assert "left what did not end" not in err, f"{words}: {err}"


def test_the_first_process_of_a_container_ends_by_sigterm(program, directory):
    """It has no default for signals: `docker stop` on `stoker inspect` of a pipe would kill it after 10 s."""
    unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode:
        print("no namespaces here: the test with process 1 was left out")
        return
    os.mkfifo(os.path.join(directory, "pipe"))
    for words in (["inspect", "pipe"], ["run", "-e", 'text("pipe") | batch(2)'], ["plan", "pipe"]):
        outer = subprocess.Popen([*unshare, program, *words], cwd=directory, stderr=subprocess.DEVNULL)
        child = inner = None
        for _ in range(400):
            time.sleep(0.01)
            children = open(f"/proc/{outer.pid}/task/{outer.pid}/children").read().split()
            child = int(children[0]) if children else None
            if child and os.readlink(f"/proc/{child}/exe") == os.path.realpath(program):
                inner = child
                break
        assert inner, f"{words}: the program did not start"
        time.sleep(0.3)
        os.kill(inner, signal.SIGTERM)
        try:
            assert outer.wait(HANGS_AFTER_S) == INTERRUPTED, f"{words}: {outer.returncode}"
        except subprocess.TimeoutExpired:
            outer.kill()  # and the command with it
            raise


if __name__ == "__main__":
    sys.exit(runlib.main(globals(), lambda test, program, directory: test(program, directory)))
