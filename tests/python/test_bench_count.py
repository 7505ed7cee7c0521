#!/usr/bin/env python3
"""stoker bench --count with real commands: programs that execute a known number of instructions, trees of processes, limits.

Called with the build directory. What needs valgrind is passed over with that reason where it is not installed. The programs
are written here byte by byte, so that the truth is known without asking anybody.
"""
import json
import os
import platform
import shutil
import struct
import subprocess
import sys

import runlib

N = 1000000


class Skip(Exception):
    pass


def need_valgrind():
    if not shutil.which("valgrind"):
        raise Skip("no valgrind")
    if platform.machine() != "x86_64":
        raise Skip("the programs of this test are for x86-64")


def call(program, directory, *args, code=0, **more):
    env = {key: value for key, value in os.environ.items() if not key.startswith(("GIT_", "STOKER_", "PYTHON"))}
    env.update(HOME=directory, LC_ALL="C", XDG_CACHE_HOME=os.path.join(directory, ".cache"), **more)
    done = subprocess.run([program, "bench", "--quiet", *args], cwd=directory, env=env, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=240, text=True, encoding="utf-8", check=False)
    assert done.returncode == code, "exit code %d, wanted %d\n%s%s" % (done.returncode, code, done.stdout, done.stderr)
    return done


def count(program, directory, *args, **more):
    """By valgrind, also on machines that could do better: its counts are exact."""
    args = ["--json", "--rounds", "3", "--warmup", "0", "--count-with", "valgrind", "--count-runs", "2", *args]
    return json.loads(call(program, directory, *args, **more).stdout)


def counts(result):
    return {v["name"]: [x for x in v["measures"]["instructions"] if x is not None] for v in result["variants"]}


def loop(directory, name, n):
    """A program of exactly 2 n + 4 instructions: mov; n times dec, jnz; mov, xor, syscall (exit)."""
    code = b"\x48\xbb" + struct.pack("<Q", n) + b"\x48\xff\xcb\x75\xfb" + b"\xb8\x3c\0\0\0\x31\xff\x0f\x05"
    base, head = 0x400000, 64 + 56
    elf = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, base + head, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, head + len(code), head + len(code), 4096)
    path = os.path.join(directory, name)
    with open(path, "wb") as file:
        file.write(elf + segment + code)
    os.chmod(path, 0o755)
    return 2 * n + 4


def write(directory, name, text):
    with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
        file.write(text)


def read(directory, name):
    with open(os.path.join(directory, name), encoding="utf-8") as file:
        return file.read()


def test_counts_are_the_truth(program, directory):
    need_valgrind()
    truth = {"./a": loop(directory, "a", N), "./b": loop(directory, "b", N + 10000)}
    found = count(program, directory, "./a", "./b")
    assert found["counted"].startswith("cachegrind "), found["counted"]
    for name, wanted in truth.items():
        assert counts(found)[name] == [wanted] * 2, counts(found)
    assert found["metric"]["name"] == "wall" and all(v["n"] == 3 for v in found["variants"])
    assert {"name": "instructions", "unit": "instructions", "higher_is_better": False} in found["metrics"]


def test_one_percent_is_found_at_once(program, directory):
    need_valgrind()
    loop(directory, "a", N)
    loop(directory, "b", N + 10000)
    found = count(program, directory, "--metric", "instructions", "./a", "./b")
    pair = found["comparisons"][0]
    assert pair["verdict"] == "slower" and pair["test"] == "exact" and pair["covered"] is True, pair
    assert abs(pair["ratio"] - 1.01) < 1e-5 and pair["p"] is None and found["min_effect"] == 0.001
    args = ["--metric", "instructions", "--count-with", "valgrind", "--rounds", "3", "./a", "./b"]
    report = call(program, directory, *args).stdout
    assert "verdict: B takes more instructions (exact" in report and "the same in every run" in report, report
    assert "slower" not in report and "faster" not in report, report
    assert "waiting, memory and I/O are not in these counts" in report
    said = call(program, directory, "--fail-over", "0.5%", *args, code=3).stderr
    assert "more instructions by 1 %" in said and "slower" not in said, said
    assert "more instructions" not in call(program, directory, "--fail-over", "5%", *args).stderr
    same = count(program, directory, "--metric", "instructions", "./a", "env -i ./a", "./a ")
    assert same["comparisons"][1]["verdict"] == "equivalent", same["comparisons"]


def test_all_processes_are_counted_once(program, directory):
    need_valgrind()
    one = loop(directory, "a", N)
    write(directory, "script", "#!/bin/sh\n./a\n./a\n")
    os.chmod(os.path.join(directory, "script"), 0o755)
    names = {"once": "./a; :", "twice": "./a; ./a; :", "script": "./script", "exec": "env ./a", "pipe": "./a | ./a"}
    found = count(program, directory, *[x for n, c in names.items() for x in ("--name", n, c)])
    assert found["counted"].startswith("callgrind "), found["counted"]
    got = {name: values[0] for name, values in counts(found).items()}
    assert one <= got["once"] < one + 0.4 * N, got
    assert abs(got["twice"] - got["once"] - one) < 0.01 * one, got
    assert abs(got["script"] - got["twice"]) < 0.3 * N, got
    assert one + 50000 < got["exec"] < one + 0.6 * N, got
    assert 2 * one <= got["pipe"] < 2 * one + 0.6 * N, got


def test_what_a_process_did_before_a_fork_is_not_counted_twice(program, directory):
    need_valgrind()
    write(directory, "f.py", """
import os, sys
x = sum(range(300000))
if sys.argv[1] == "fork":
    for _ in range(3):
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
""")
    found = counts(count(program, directory, "--count-runs", "1", sys.executable + " -S f.py fork",
                         sys.executable + " -S f.py none; :"))
    fork, none = (values[0] for values in found.values())
    assert fork < 1.2 * none, found


def test_python_hashes_alike_in_counting_runs(program, directory):
    need_valgrind()
    write(directory, "s.py", "len(set(map(str, range(20000))))\n")
    found = list(counts(count(program, directory, "--count-runs", "3", sys.executable + " -S s.py")).values())[0]
    assert len(found) == 3 and max(found) - min(found) <= 1e-4 * min(found), found


def test_exit_codes_are_the_commands(program, directory):
    need_valgrind()
    loop(directory, "a", N)
    found = count(program, directory, "--ignore-failure", "./a; exit 3")
    assert list(counts(found).values())[0][0] > 2 * N and found["variants"][0]["exit_codes"] == [3, 3, 3]
    # Fails only when it runs for the third time, which is under valgrind.
    done = count(program, directory, "--rounds", "2", "echo x >>runs; [ $(wc -l <runs) -lt 3 ]")
    assert not list(counts(done).values())[0]
    assert any("were not counted" in n and "under valgrind: exit code 1" in n for n in done["notes"]), done["notes"]
    os.remove(os.path.join(directory, "runs"))
    failed = call(program, directory, "--rounds", "2", "--warmup", "0", "--count-with", "valgrind", "--metric", "instructions",
                  "echo x >>runs; [ $(wc -l <runs) -lt 3 ]", code=1)
    assert "instructions could not be counted" in failed.stderr, failed.stderr


def test_a_timeout_holds_for_counting_runs(program, directory):
    need_valgrind()
    # Asleep only under valgrind, which shows in the environment of what it runs.
    write(directory, "slow", "#!/bin/sh\nif [ -n \"$LD_PRELOAD\" ]; then sleep 60; fi\n")
    found = count(program, directory, "--timeout", "5s", "sh ./slow")
    assert any("took longer than 5 s" in n and "--timeout" in n for n in found["notes"]), found["notes"]
    assert found["variants"][0]["n"] == 3


def test_without_valgrind_times_are_measured(program, directory):
    os.mkdir(os.path.join(directory, "bin"))
    for name in ("true", "sh"):
        os.symlink(shutil.which(name), os.path.join(directory, "bin", name))
    path = os.path.join(directory, "bin")
    found = count(program, directory, "true", PATH=path)
    assert any("apt install valgrind" in n for n in found["notes"]) and found["variants"][0]["n"] == 3
    assert "counted" not in found
    failed = call(program, directory, "--count-with", "valgrind", "--metric", "instructions", "true", PATH=path, code=1)
    assert "instructions cannot be counted" in failed.stderr and "apt install valgrind" in failed.stderr


def test_output_is_not_touched(program, directory):
    need_valgrind()
    shown = call(program, directory, "--show-output", "--rounds", "3", "--warmup", "0", "--count-with", "valgrind",
                 "echo hello; echo there >&2")
    assert shown.stdout.count("hello") == 3 + shown.stdout.count("echo hello"), shown.stdout
    assert shown.stderr.count("there") == 3 and "==" not in shown.stderr, shown.stderr
    found = count(program, directory, "--same-output", "echo a", "echo a; :")
    assert not any(v["withheld"] for v in found["variants"])


def test_hooks_stand_around_counting_runs(program, directory):
    need_valgrind()
    count(program, directory, "--count-runs", "2", "--prepare", "echo p >>log", "--conclude", "echo c >>log", "true", "true ")
    # Three rounds, two counting runs, two variants.
    assert read(directory, "log").split() == ["p", "c"] * 10, read(directory, "log")


def test_every_way_to_compare_counts(program, directory):
    need_valgrind()
    for i in (1, 2):
        loop(directory, "p%d" % i, i * N)
    found = count(program, directory, "-P", "n=1,2", "./p{n}")
    assert [round(x[0] / N) for x in counts(found).values()] == [2, 4]
    write(directory, "s.toml", 'count = true\nrounds = 2\n[[compare]]\nname = "work"\na = "./p1"\nb = "./p2"\n')
    text = call(program, directory, "--suite", "s.toml", "--count-with", "valgrind").stdout
    assert "B/A 2.0000" in text, text
    rows = json.loads(call(program, directory, "--suite", "s.toml", "--count-with", "valgrind", "--json").stdout)["rows"]
    found = counts(rows[0]["result"])
    assert [x[0] for x in found.values()] == [2 * N + 4, 4 * N + 4] and rows[0]["result"]["counted"].startswith("cachegrind"), rows
    write(directory, "m.toml", 'metric = "instructions"\nrounds = 4\n[[measure]]\nname = "work"\ncommand = "./p1"\nat_most = %d\n' % (2 * N + 4))
    text = call(program, directory, "--suite", "m.toml", "--count-with", "valgrind", "--fail-over", "0").stdout
    assert "ok" in text and "M instructions" in text, text
    write(directory, "m.toml", read(directory, "m.toml").replace("at_most = 2", "at_most = 1"))
    call(program, directory, "--suite", "m.toml", "--count-with", "valgrind", "--fail-over", "0", code=3)
    write(directory, "l.toml", 'count = true\nrounds = 2\n[[step]]\nname = "one"\ncommand = "./p2"\n'
          '[[step]]\nname = "two"\ncommand = "./p1"\n[[step]]\nname = "three"\ncommand = "./p2"\n')
    text = call(program, directory, "--ladder", "l.toml", "--count-with", "valgrind").stdout
    assert "B/A 0.5000" in text and "C/B 2.0000" in text, text
    write(directory, "bad.toml", 'count = 3\n[[compare]]\nname = "work"\na = "./p1"\nb = "./p2"\n')
    assert "'count' is 3, wanted true or false" in call(program, directory, "--suite", "bad.toml", code=2).stderr


def test_files_carry_counts(program, directory):
    need_valgrind()
    loop(directory, "a", N)
    loop(directory, "b", 2 * N)
    args = ["--metric", "instructions", "--export", "go=go.txt", "--export", "github=gh.json"]
    for name in "ab":
        write(directory, name + ".json", json.dumps(count(program, directory, *args, "--name", "work", "./" + name)))
    assert " %d instructions" % (4 * N + 4) in read(directory, "go.txt"), read(directory, "go.txt")
    assert json.loads(read(directory, "gh.json"))[0]["unit"] == "instructions"
    call(program, directory, "--rounds", "3", "--count-with", "valgrind", "--export", "google=g.json", "./a")
    assert json.loads(read(directory, "g.json"))["benchmarks"][0]["instructions"] == 2 * N + 4
    done = subprocess.run([program, "bench", "compare", "a.json", "b.json"], cwd=directory, capture_output=True, text=True,
                          timeout=60, check=True)
    assert "B takes more instructions" in done.stdout and "B/A 2.0000" in done.stdout, done.stdout
    call(program, directory, "--rounds", "3", "--count-with", "valgrind", "--metric", "instructions", "--log", "PERF.md", "-m", "x",
         "./b", "./a")
    row = read(directory, "PERF.md").splitlines()[-1]
    assert "fewer" in row and "faster" not in row and "M instructions" in row, row


def test_wrong_calls(program, directory):
    for args, part in ((["--count-with", "abacus"], "--count-with wants hardware or valgrind, found 'abacus'"),
                       (["--count-runs", "0"], "--count-runs wants 1 to"),
                       (["--metric", "instructions", "--width", "3%"], "--width is for times")):
        assert part in call(program, directory, *args, "true", "false", code=2).stderr


def run_test(test, program, directory):
    try:
        test(program, directory)
    except Skip as reason:
        print("%s: passed over: %s" % (test.__name__, reason))


if __name__ == "__main__":
    sys.exit(runlib.main(globals(), run_test))
