#!/usr/bin/env python3
"""Output that is only half there is an error: allocations that fail one after the other, a full disk, a closed pipe.

Usage: test_printing.py BUILD_DIR. Each run either prints all of what it prints else, with exit code 0, or ends with another
code and a message. STOKER_TORTURE=1 tries every allocation of every command, else every so many of them.
"""
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.path.join(SOURCE, "tests", "data")
TORTURE = bool(os.environ.get("STOKER_TORTURE"))
TRIALS = 10**9 if TORTURE else 40  # of each command
PIPELINE = 'range(100) | filter("value % 3 == 0") | shuffle(seed=1) | batch(4) | repeat(2) | print'


def commands(folder):
    """Name, and arguments of what prints the same every time."""
    trace = os.path.join(folder, "a.json")
    other = os.path.join(folder, "b.json")
    data = os.path.join(folder, "a.tfrecord")
    log = os.path.join(folder, "PERF.md")
    return {
        "plan": ["plan", "-e", PIPELINE],
        "ops": ["ops"],
        "ops of one": ["ops", "shuffle"],
        "ops as JSON": ["ops", "--json"],
        "inspect": ["inspect", data],
        "inspect a tar": ["inspect", os.path.join(folder, "a.tar")],
        "inspect text": ["inspect", os.path.join(folder, "a.txt")],
        "top": ["top", "--no-cache", trace],
        "top as JSON": ["top", "--no-cache", "--json", trace],
        "top as CSV": ["top", "--no-cache", "--format", "csv", trace],
        "sql": ["sql", trace, "--no-cache", "-q", "select name, count(*) n, sum(dur) d from slice group by name order by name"],
        "sql as CSV": ["sql", trace, "--no-cache", "--format", "csv", "-q", "select name, ts from slice order by ts"],
        "diagnose": ["diagnose", "--no-cache", trace],
        "diagnose as JSON": ["diagnose", "--no-cache", "--json", trace],
        "diff": ["diff", "--no-cache", trace, other],
        "diff as JSON": ["diff", "--no-cache", "--json", trace, other],
        "export": ["export", "--no-cache", "--to", "csv", "--force", trace, os.path.join(folder, "out")],
        "convert": ["convert", "--no-cache", trace, "--to", "chrome", "-o", "-"],
        "convert to Perfetto": ["convert", "--no-cache", trace, "--to", "perfetto", "-o", "-"],
        "convert to NDJSON": ["convert", "--no-cache", trace, "--to", "ndjson", "-o", "-"],
        "bench history": ["bench", "history", log],
        "help": ["help", "run"],
        "man page": ["help", "--man"],
        "completion": ["completion", "bash"],
        "run": ["run", "-q", "-e", PIPELINE, "--threads", "1", "--no-index-cache"],
    }


class Printing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stoker = os.path.join(BUILD, "stoker")
        cls.library = os.path.join(BUILD, "tests", "libfaults.so")
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        for name, step in (("a", "300us"), ("b", "500us")):
            cls.run_well(["run", "-q", "-e", "range(2000) | batch(10)", "--step-time", step, "--trace", f"{cls.folder}/{name}.json"])
        cls.run_well(["run", "-q", "-e", f'range(300) | batch(10) | write_tfrecord("{cls.folder}/a.tfrecord")'])
        cls.run_well(["run", "-q", "-e", f'range(30) | batch(10) | write_webdataset("{cls.folder}/a.tar")'])
        with open(f"{cls.folder}/a.txt", "w", encoding="utf-8") as out:
            out.write("one\ntwo\nthree\n" * 30)
        for name in ("PERF.md", "PERF.csv"):
            shutil.copy(os.path.join(DATA, "bench_log", name), cls.folder)

    @classmethod
    def run_well(cls, arguments):
        done = subprocess.run([cls.stoker, *arguments], capture_output=True)
        assert done.returncode == 0, (arguments, done)
        return done

    def with_fault(self, arguments, fault, log):
        env = {**os.environ, "LD_PRELOAD": self.library, "STOKER_FAULT": fault, "STOKER_FAULT_LOG": log}
        return subprocess.run([self.stoker, *arguments], capture_output=True, env=env, timeout=120)

    def calls_of(self, arguments):
        log = os.path.join(self.folder, "calls")
        self.with_fault(arguments, "malloc:ENOMEM:after=1000000000", log)
        with open(log, encoding="utf-8") as text:
            return int(text.read().split()[1])

    def one(self, name, arguments, wanted, n):
        """None when it is as it should be, else what is wrong."""
        log = os.path.join(self.folder, f"log-{n}")
        done = self.with_fault(arguments, f"malloc:ENOMEM:after={n}", log)
        if os.path.exists(log):
            os.remove(log)
        if done.returncode < 0:
            return f"{name}, allocation {n}: signal {-done.returncode}: {done.stderr[-300:]!r}"
        if done.returncode == 0 and done.stdout != wanted:
            return f"{name}, allocation {n}: exit 0, but prints {len(done.stdout)} bytes, wanted {len(wanted)}"
        if done.returncode and not done.stderr.strip():
            return f"{name}, allocation {n}: exit {done.returncode} without a message"
        return None

    def test_every_failed_allocation_is_told(self):
        wrong, tried = [], 0
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for name, arguments in commands(self.folder).items():
                wanted = self.run_well(arguments).stdout
                calls = self.calls_of(arguments)
                places = range(0, calls, max(1, calls // TRIALS))
                tried += len(places)
                found = list(filter(None, pool.map(lambda n: self.one(name, arguments, wanted, n), places)))
                print(f"{name}: {calls} allocations, {len(places)} tried, {len(found)} wrong", file=sys.stderr)
                wrong += found
        self.assertGreater(tried, 400)
        self.assertEqual(wrong, [], "\n".join(wrong))

    def test_a_full_disk_is_told(self):
        for name, arguments in commands(self.folder).items():
            if name == "export":
                continue  # prints nothing
            with self.subTest(name), open("/dev/full", "wb") as full:
                done = subprocess.run([self.stoker, *arguments], stdout=full, stderr=subprocess.PIPE)
                self.assertEqual(done.returncode, 1, done)
                self.assertIn(b"standard output: No space left on device", done.stderr)

    def test_a_closed_pipe_ends_the_program_quietly(self):
        for name, arguments in commands(self.folder).items():
            if name == "export":
                continue
            with self.subTest(name):
                reader, writer = os.pipe()
                os.close(reader)
                done = subprocess.run([self.stoker, *arguments], stdout=writer, stderr=subprocess.PIPE)
                os.close(writer)
                self.assertEqual(done.returncode, 141, done)


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(1))
    unittest.main()
