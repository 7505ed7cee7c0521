#!/usr/bin/env python3
"""Every writer under every fault: kill -9, a full disk, calls that fail, no memory. Prints a table of what came of it.

Usage: run.py BUILD_DIR [--short] [--seed N] [--only TEXT]

What must hold after each trial (docs/guide/errors.md, "Output"; SECURITY.md):
  - what can be seen is the old output or the new one, whole; lists and traces may end early
  - exit code 0 means the new one; another code comes with a message, and no signal ends the program
  - nothing else can be seen; after kill -9, or without memory or descriptors, hidden names may be left, else not even these
  - the next run works, and leaves nothing but its output
"""
import argparse
import collections
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import writers  # noqa: E402

# By column of the table: faults of tests/torture/faults.c, with NUMBER for which call fails. "kill" and "full" are others.
FAULTS = {
    "EIO": ["write:EIO:path=out:after=NUMBER", "pwrite:EIO:path=out:after=NUMBER", "fsync:EIO:path=out",
            "rename:EIO:path=out", "open:EACCES:path=out:after=NUMBER", "close:EIO:path=out:after=NUMBER"],
    "ENOSPC": ["write:ENOSPC:path=out:after=NUMBER:count=0", "pwrite:ENOSPC:path=out:after=NUMBER:count=0",
               "fsync:ENOSPC:path=out", "write:EDQUOT:path=out:count=0"],
    "EINTR": ["write:EINTR:path=out:after=NUMBER", "pwrite:EINTR:path=out:after=NUMBER", "read:EINTR:after=NUMBER:count=3",
              "pread:EINTR:after=NUMBER:count=3", "fsync:EINTR:path=out"],
    "short": ["write:short:path=out:count=0", "pwrite:short:path=out:count=0", "read:short:count=0", "pread:short:count=0"],
    "EMFILE": ["open:EMFILE:path=out:after=NUMBER:count=0", "open:ENFILE:after=NUMBER:count=2"],
    "memory": ["malloc:ENOMEM:after=ANY", "malloc:ENOMEM:after=ANY:count=0"],
}


class Wrong(Exception):
    pass


def visible(out):
    """Names that somebody who looks for data would find, and hidden ones, also beside the directory."""
    seen, hidden = [], [name for name in os.listdir(os.path.dirname(out)) if name.startswith(".out")]
    for top, folders, files in os.walk(out):
        for name in [*folders, *files]:
            path = os.path.relpath(os.path.join(top, name), out)
            (hidden if any(part.startswith(".") for part in path.split(os.sep)) else seen).append(path)
    return sorted(seen), sorted(hidden)


class Bench:
    """One writer with its input, the output of a run of each kind, and trials."""

    def __init__(self, writer, stoker, library, folder):
        self.writer, self.stoker, self.library, self.folder = writer, stoker, library, folder
        self.out = os.path.join(folder, "out")
        self.env = {**os.environ, "HOME": folder, "XDG_CACHE_HOME": os.path.join(folder, "cache"), "TMPDIR": folder}
        writer.prepare(folder, stoker)
        self.old = os.path.join(folder, "kept-old")
        self.reset(False)
        if writer.replaces:
            self.run_well(False)
        shutil.copytree(self.out, self.old)
        self.old_state = writer.check(stoker, self.out)
        self.reset()
        begin = time.monotonic()
        self.run_well(True)
        self.seconds = time.monotonic() - begin
        self.names = visible(self.out)[0]
        self.new_state = writer.check(stoker, self.out)
        self.allocations = self.count("malloc:ENOMEM:after=1000000000")
        self.writes = max(1, self.count("write:EIO:path=out:after=1000000000"))

    def reset(self, with_old=True):
        shutil.rmtree(self.out, ignore_errors=True)
        for name in visible(self.out)[1]:
            shutil.rmtree(os.path.join(self.folder, name), ignore_errors=True)
        if with_old:
            shutil.copytree(self.old, self.out)
        else:
            os.mkdir(self.out)

    def start(self, new, env, **options):
        name = self.writer.input(new) if hasattr(self.writer, "input") else None
        source = open(os.path.join(self.folder, name), "rb") if name else subprocess.DEVNULL
        try:
            return subprocess.Popen([self.stoker, *self.writer.command(new)], cwd=self.folder, env=env, stdin=source, **options)
        finally:
            if name:
                source.close()

    def run(self, new, env=None):
        started = self.start(new, env or self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            _, said = started.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            started.kill()
            started.communicate()
            raise Wrong("hangs") from None
        return started.returncode, said.decode(errors="replace")

    def run_well(self, new):
        code, said = self.run(new)
        if code:
            raise Wrong(f"a run without any fault ends with {code}: {said}")

    def with_fault(self, fault):
        log = os.path.join(self.folder, "fault-log")
        return {**self.env, "LD_PRELOAD": self.library, "STOKER_FAULT": fault, "STOKER_FAULT_LOG": log}, log

    def count(self, fault):
        self.reset()
        env, log = self.with_fault(fault)
        self.run(True, env)
        with open(log, encoding="utf-8") as lines:
            return int(lines.read().split()[1])

    def check(self, killed, code):
        """What is there after a trial."""
        seen, hidden = visible(self.out)
        strays = [name for name in seen if name not in self.names and not os.path.isdir(os.path.join(self.out, name))]
        before = [os.path.relpath(os.path.join(t, n), self.old) for t, _, names in os.walk(self.old) for n in names]
        strays = [name for name in strays if name not in before]
        if strays:
            raise Wrong(f"left for all to see: {strays[:3]}")
        if hidden and not killed:
            raise Wrong(f"left, hidden: {hidden[:3]}")
        try:
            state = self.writer.check(self.stoker, self.out)
        except Exception as failure:
            raise Wrong(f"not whole: {type(failure).__name__}: {str(failure)[:300]}") from failure
        if self.writer.grows:
            return
        if state not in ("", self.old_state, self.new_state):
            raise Wrong("neither the old output nor the new one")
        if state == "" and self.old_state:
            raise Wrong("the old output is gone, and no new one is there")
        if code == 0 and state != self.new_state:
            raise Wrong("exit code 0 without the new output")

    def run_next(self):
        if not self.writer.replaces:
            shutil.rmtree(os.path.join(self.out, "set"), ignore_errors=True)  # of a run that was whole: it wants a free place
        self.run_well(True)

    def check_next(self):
        self.run_next()
        hidden = visible(self.out)[1]
        if hidden:  # a child of the killed one may have been alive still, and have held its lock
            time.sleep(1)
            self.run_next()
            hidden = visible(self.out)[1]
        if hidden:
            raise Wrong(f"the next run leaves {hidden[:3]}")
        if self.writer.check(self.stoker, self.out) != self.new_state:
            raise Wrong("the next run does not give the new output")

    def trial(self, killed, code, said, may_leave=False):
        """`may_leave`: hidden names too, as after a kill."""
        if not killed and code < 0:
            raise Wrong(f"signal {-code}: {said[-200:]}")
        if code > 0 and not said.strip():
            raise Wrong(f"exit code {code} without a message")
        self.check(killed or may_leave, code)
        self.check_next()
        return "right" if code == 0 else "killed" if killed else "refused"

    def fault(self, fault):
        """None: no call was there to fail."""
        self.reset()
        env, log = self.with_fault(fault)
        code, said = self.run(True, env)
        if os.path.exists(log):
            with open(log, encoding="utf-8") as lines:
                faults = int(lines.read().split()[3])
            os.remove(log)
            if not faults:
                return None
        # To remove a directory takes memory and a descriptor: when there are none, the next run has to do it.
        none_left = "EMFILE" in fault or "ENFILE" in fault or (fault.startswith("malloc:") and "count=0" in fault)
        return self.trial(False, code, said, may_leave=none_left)

    def kill(self, seconds):
        self.reset()
        run = self.start(True, self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            code = run.wait(seconds)
        except subprocess.TimeoutExpired:
            run.send_signal(signal.SIGKILL)
            code = run.wait()
        return self.trial(code < 0, code if code >= 0 else -9, "killed")


def full_disk(bench, size):
    """A file system of so many bytes in place of "out"; None where it cannot be mounted."""
    bench.reset(False)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", bench.out], capture_output=True)
    if mounted.returncode:
        return None
    left = os.path.join(bench.folder, "left")
    try:
        shutil.copytree(bench.old, bench.out, dirs_exist_ok=True)
        code, said = bench.run(True)
        shutil.copytree(bench.out, left)
    except shutil.Error:
        return None  # what lay there before does not fit either
    finally:
        subprocess.run(["umount", bench.out], check=True)
    shutil.rmtree(bench.out)
    os.rename(left, bench.out)
    return bench.trial(False, code, said)


def trials(bench, column, short, randomly):
    """Functions that make one trial each."""
    if column == "kill":
        for _ in range(2 if short else 25):
            seconds = randomly.uniform(0, bench.seconds * 1.1)
            yield f"kill after {seconds:.3f} s", lambda s=seconds: bench.kill(s)
    elif column == "full":
        for size in ("64k",) if short else ("16k", "64k", "256k", "1m"):
            yield f"a disk of {size}", lambda s=size: full_disk(bench, s)
    else:
        faults = FAULTS[column]
        for fault in randomly.sample(faults, min(2, len(faults))) if short else faults:
            for _ in range(1 if short else 12 if "ANY" in fault else 6 if "NUMBER" in fault else 1):
                text = fault.replace("NUMBER", str(randomly.randrange(bench.writes + 1)))
                text = text.replace("ANY", str(randomly.randrange(max(1, bench.allocations))))
                yield text, lambda f=text: bench.fault(f)


COLUMNS = ["kill", "full", *FAULTS]


def torture(writer, stoker, library, short, randomly, wrong):
    """A row of the table: counts by column."""
    row = {}
    with tempfile.TemporaryDirectory(prefix="stoker-torture-") as folder:
        try:
            bench = Bench(writer, stoker, library, folder)
        except Wrong as failure:
            wrong.append(f"{writer.name}: {failure}")
            return {"kill": collections.Counter(tried=1, wrong=1)}
        for column in COLUMNS:
            counts = row[column] = collections.Counter()
            for name, trial in trials(bench, column, short, randomly):
                try:
                    result = trial()
                    if result:
                        counts["tried"] += 1
                        counts[result] += 1
                except Wrong as failure:
                    counts["tried"] += 1
                    counts["wrong"] += 1
                    wrong.append(f"{writer.name}: {name}: {failure}")
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--short", action="store_true", help="a few trials of each kind")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100000, help="which moments and calls (default: the time)")
    parser.add_argument("--only", default="", help="writers whose name has this in it")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    stoker, library = os.path.join(build, "stoker"), os.path.join(build, "tests", "libfaults.so")
    if not os.path.exists(library):
        print(f"skipped: there is no {library}, which builds with sanitizers do not have")
        sys.exit(77)
    randomly, wrong = random.Random(options.seed), []
    print(f"seed {options.seed}; tried: right + refused + killed, !wrong; -: no such call, or not possible here\n")
    print(f"{'writer':<28}" + "".join(f"{name:>14}" for name in COLUMNS))
    total = collections.Counter()
    for writer in writers.writers():
        if options.only not in writer.name:
            continue
        row = torture(writer, stoker, library, options.short, randomly, wrong)
        cells = []
        for column in COLUMNS:
            c = row.get(column, {})
            total.update(c)
            parts = "+".join(str(c[k]) for k in ("right", "refused", "killed")) if c else ""
            cells.append(f"{c['tried']}: {parts}" + (f" !{c['wrong']}" if c["wrong"] else "") if c and c["tried"] else "-")
        print(f"{writer.name:<28}" + "".join(f"{cell:>14}" for cell in cells), flush=True)
    print(f"\n{total['tried']} tried: {total['right']} right, {total['refused']} refused, {total['killed']} killed, "
          f"{total['wrong']} wrong")
    for line in wrong:
        print("WRONG " + line)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
