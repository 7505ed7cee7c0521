#!/usr/bin/env python3
"""Runs that are stopped by signals, at any moment, and resumed: the same digest, and each bad record once in the list.

Usage: python3 tests/python/test_resume_lists.py BUILD_DIR
Standard library only. Prints "N passed, N failed"; the exit status is 1 when a test failed.
"""
import json
import os
import random
import signal
import struct
import subprocess
import sys
import time

import runlib

RECORDS = 1500
PIPELINE = 'tfrecord("d.tfrecord") | shuffle(seed=1) | batch(4)'
ROUNDS = 6


def damage(path):
    """Damages every third record; gives their numbers."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    at, number, bad = 0, 0, []
    while at < len(data):
        size = struct.unpack_from("<Q", data, at)[0]
        if number % 3 == 1:
            data[at + 12 + size // 2] ^= 0x55
            bad.append(number)
        at, number = at + 12 + size + 4, number + 1
    with open(path, "wb") as file:
        file.write(data)
    return bad


def prepare(program, directory):
    command = [program, "run", "-q", "-e", 'range(%d) | write_tfrecord("d.tfrecord")' % RECORDS]
    subprocess.run(command, cwd=directory, check=True)
    return damage(os.path.join(directory, "d.tfrecord"))


def command_of(program, directory, *more):
    command = [program, "run", "--json", "--digest", "-e", PIPELINE, "--on-error", "quarantine=bad.jsonl", *more]
    return command + ["--resume", "ck"] * os.path.exists(os.path.join(directory, "ck"))


def finish(program, directory):
    """Runs to the end; gives the digest, the count, and the list."""
    result = subprocess.run(command_of(program, directory), cwd=directory, capture_output=True, timeout=120, check=True)
    told = json.loads(result.stdout)
    with open(os.path.join(directory, "bad.jsonl"), encoding="utf-8") as file:
        listed = [json.loads(line)["record"] for line in file]
    return told["digest"], told["quarantined"], listed


def stop_by(program, directory, number):
    """One part of a run that a signal ends, unless it is over before."""
    options = ["--checkpoint", "ck", "--checkpoint-every", random.choice("149"), "--step-time", "0.2ms"]
    with subprocess.Popen(command_of(program, directory, *options), cwd=directory, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as process:
        time.sleep(random.uniform(0.01, 0.1))
        process.send_signal(number)


def signals_leave_each_record_once(program, directory, numbers):
    bad = prepare(program, directory)
    whole = finish(program, directory)
    assert whole[1] == len(bad) and sorted(whole[2]) == bad
    random.seed(1)
    for _ in range(ROUNDS):
        for name in ("ck", "bad.jsonl"):
            if os.path.exists(os.path.join(directory, name)):
                os.unlink(os.path.join(directory, name))
        for _ in range(3):
            stop_by(program, directory, random.choice(numbers))
        assert finish(program, directory) == whole


def test_ctrl_c(program, directory):
    signals_leave_each_record_once(program, directory, [signal.SIGINT])


def test_kill(program, directory):
    signals_leave_each_record_once(program, directory, [signal.SIGKILL])


def test_a_mixture_of_signals(program, directory):
    signals_leave_each_record_once(program, directory, [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])


if __name__ == "__main__":
    sys.exit(runlib.main(globals(), lambda test, *where: test(*where)))
