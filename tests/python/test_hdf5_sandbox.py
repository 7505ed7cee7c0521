#!/usr/bin/env python3
"""What code inside of stoker-hdf5 cannot do: a filter that libhdf5 loads tries all of it.

Usage: test_hdf5_sandbox.py BUILD_DIR [PART_OF_A_NAME...]
Needs h5py (tests/python/requirements.txt) and a kernel with seccomp; else it is skipped. Prints "N passed, N failed".
"""
import os
import re
import shutil
import subprocess
import sys

try:
    import h5py
    import numpy
except ImportError as missing:
    print("skipped: %s; scripts/deps.sh test installs it" % missing)
    sys.exit(77)

import hdf5lib

FILTER, ROWS = 32042, 24  # the number that hdf5_plugin.c has
FAR = 200  # a descriptor that the helper does not come to by itself
ALLOWED = ("use_what_is_allowed", "soft_failures", "no_inherited")
# What each is stopped at, as it is told. By x86-64's own calls, or by those that all CPUs have.
STOPPED = {
    "talk": "socket",
    "talk_inet": "socket",
    "run_program": "execve",
    "make_process": "clone|fork",
    "write_file": "open for writing",
    "append_file": "open for writing",
    "make_file": "open for writing",
    "make_file_the_old_way": "open for writing",
    "cut_file": "open for writing",
    "cut_by_name": "truncate",
    "remove_file": "unlink",
    "rename_file": "rename",
    "link_file": "link",
    "make_directory": "mkdir",
    "change_mode": "chmod",
    "kill_parent": "kill",
    "kill_parent_thread": "kill",
    "trace_parent": "ptrace",
    "read_parent": "process_vm_readv",
}
# posix_spawn blocks signals as well: the kernel ends the process then, and no handler names the call.
STOPPED_SILENTLY = ("spawn_program", "talk_with_signals_blocked")
X86_64 = ("talk_by_x32_number", "write_by_32_bit_number")


class Attack:
    """A file whose rows have to pass the filter, one without, and what the filter is after."""

    def __init__(self, session):
        self.session = session
        self.plugins, self.victim, self.fresh = (session.path(name) for name in ("plugins", "victim", "fresh"))
        self.bad, self.good = session.path("bad.h5"), session.path("good.h5")
        os.mkdir(self.plugins)
        plugin = os.path.join(session.build, "tests", "hdf5_plugin.so")
        shutil.copy(plugin, os.path.join(self.plugins, "libmisbehaves.so"))  # libhdf5 goes by these names
        with open(self.victim, "w", encoding="ascii") as file:
            file.write("as it is")
        os.chmod(self.victim, 0o600)
        for path, filters in ((self.bad, [("id", FILTER, (1,))]), (self.good, [("gzip", 1)])):
            with hdf5lib.Maker(path, rows=ROWS) as m:
                found = m.make("x", "<i4", (ROWS,), (8,), filters=filters)
                for start in range(0, ROWS, 8):
                    block = numpy.arange(start, start + 8, dtype="<i4")
                    if path == self.bad:  # the filter leaves values as they are
                        found.id.write_direct_chunk((start,), block.tobytes(), 0)
                    else:
                        found[start : start + 8] = block

    def run(self, action, *files, words=(), **more):
        env = dict(os.environ, HDF5_PLUGIN_PATH=self.plugins, STOKER_TEST_ACTION=action, STOKER_TEST_VICTIM=self.victim,
                   STOKER_TEST_FRESH=self.fresh)
        pipeline = 'hdf5(%s, x="/x") | batch(%d) | print' % (str(list(files)).replace("'", '"'), ROWS)
        command = [self.session.program, "run", "-q", "-e", pipeline, *words]
        env.update(more.pop("env", {}))
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False, **more)

    def is_unharmed(self):
        with open(self.victim, encoding="ascii") as file:
            text = file.read()
        found = os.stat(self.victim)
        same = text == "as it is" and found.st_mode & 0o777 == 0o600 and found.st_nlink == 1
        return same and not os.path.exists(self.fresh)


def check_sandbox(session):
    ask = [os.path.join(session.build, "libexec", "stoker-hdf5"), "--version"]
    told = subprocess.run(ask, capture_output=True, text=True, check=True).stdout
    if "sandbox: seccomp" not in told or "no sandbox" in told:
        raise hdf5lib.Skip(told.strip())


def test_the_filter_does_nothing_by_itself(session):
    """Without an action the file is read: what stops the others is not the plug-in."""
    check_sandbox(session)
    attack = Attack(session)
    done = attack.run("use_what_is_allowed", attack.bad)
    assert done.returncode == 0, done.stderr
    assert "%d" % (ROWS - 1) in done.stdout, done.stdout


def test_each_is_stopped_and_named(session):
    check_sandbox(session)
    attack = Attack(session)
    for action, name in STOPPED.items():
        done = attack.run(action, attack.bad)
        assert done.returncode == 1, (action, done)
        wanted = r"stopped by the sandbox on this file: system call \d+ \((%s)\)" % name
        assert re.search(wanted, done.stderr), (action, done.stderr)
        assert attack.bad in done.stderr and "/x" in done.stderr, (action, done.stderr)
        assert attack.is_unharmed(), action


def test_no_trick_goes_past_it(session):
    check_sandbox(session)
    attack = Attack(session)
    for action in STOPPED_SILENTLY:
        done = attack.run(action, attack.bad)
        assert done.returncode == 1 and "stopped by the sandbox on this file" in done.stderr, (action, done)
        assert attack.bad in done.stderr and attack.is_unharmed(), (action, done.stderr)
    for action in X86_64 if os.uname().machine == "x86_64" else ():
        done = attack.run(action, attack.bad)  # a kernel without 32-bit programs has its own way to say no
        assert done.returncode == 1 and re.search("sandbox on this file|crashed", done.stderr), (action, done)
    attack.run("write_with_own_handler", attack.bad)
    assert attack.is_unharmed()


def test_the_run_goes_on_with_other_files(session):
    check_sandbox(session)
    attack = Attack(session)
    for threads in ("1", "4"):
        done = attack.run("talk", attack.bad, attack.good, words=["--on-error", "skip", "--threads", threads, "--json"])
        assert done.returncode == 0, done.stderr
        assert '"samples":%d' % ROWS in done.stdout and '"skipped":%d' % ROWS in done.stdout, done.stdout


def test_libraries_get_what_they_need(session):
    """Files to be read, memory, a thread; and a failure, not an end, for what they can do without."""
    check_sandbox(session)
    attack = Attack(session)
    left_open = os.open(attack.victim, os.O_RDWR)
    try:
        os.dup2(left_open, FAR)
        for action in ALLOWED:
            done = attack.run(action, attack.bad, env={"STOKER_TEST_FD": str(FAR)}, pass_fds=[FAR])
            assert done.returncode == 0, (action, done.stderr)
            assert attack.is_unharmed(), action
    finally:
        os.close(left_open)
        os.close(FAR)


def test_a_crash_is_a_crash(session):
    """abort() sends itself a signal, which is allowed."""
    attack = Attack(session)
    done = attack.run("abort", attack.bad)
    assert done.returncode == 1 and "crashed (signal 6)" in done.stderr, done


def test_what_is_written_is_what_was_asked_for(session):
    """A file is made before the sandbox, and filled inside of it."""
    check_sandbox(session)
    made = session.path("made.h5")
    pipeline = 'range(1000) | batch(10) | write_hdf5("%s", chunk=64)' % made
    done = subprocess.run([session.program, "run", "-q", "-e", pipeline], capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 0, done.stderr
    with h5py.File(made) as file:
        assert file["value"][:].tolist() == list(range(1000))


if __name__ == "__main__":
    sys.exit(hdf5lib.main([(test.__name__, test) for test in hdf5lib.tests_of(sys.modules[__name__])]))
