#!/usr/bin/env python3
"""Golden tests of the program: runs cases/*.sh and compares output, messages and exit code.

A case NAME.sh is run by bash in a fresh directory, with STOKER set to the program and TESTDATA to tests/data.
  NAME.stdout       what it must print, byte for byte (no file: nothing)
  NAME.stderr.glob  a pattern for each line on standard error, as fnmatch takes them (no file: nothing)
  NAME.exit         its exit code (no file: 0)
--update writes these files from what is seen; patterns that still match are kept.
"""

import argparse
import difflib
import fnmatch
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CASES = HERE / "cases"
KEPT_VARIABLES = ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS", "LD_LIBRARY_PATH")
TIMEOUT_S = 120


def run_case(script, stoker):
    """Returns stdout, stderr and exit code."""
    with tempfile.TemporaryDirectory(prefix="stoker-cli-") as directory:
        env = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        env.update(
            STOKER=str(stoker),
            TESTDATA=str(HERE.parent / "data"),
            HOME=directory,
            XDG_CACHE_HOME=directory + "/cache",
            LC_ALL="C.UTF-8",
            PYTHONDONTWRITEBYTECODE="1",
        )
        work = pathlib.Path(directory) / "work"
        work.mkdir()
        try:
            done = subprocess.run(
                ["bash", str(script)],
                cwd=work,
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "", f"no end within {TIMEOUT_S} s\n", -1
    return done.stdout.decode(errors="backslashreplace"), done.stderr.decode(errors="backslashreplace"), done.returncode


def read(path, default=""):
    return path.read_text(encoding="utf-8") if path.exists() else default


def stderr_matches(text, patterns):
    lines, patterns = text.splitlines(), patterns.splitlines()
    return len(lines) == len(patterns) and all(map(fnmatch.fnmatchcase, lines, patterns))


def pattern_of(line):
    """The line itself, with figures that differ from run to run left open."""
    line = re.sub(r"([*?\[])", r"[\1]", line)
    return re.sub(r"\d[\d,.]*(?= (s|%|samples/s|MB/s|[KMG]iB|B)\b|\s%)", "*", line)


def diff(what, wanted, found):
    lines = difflib.unified_diff(
        wanted.splitlines(), found.splitlines(), f"wanted {what}", f"found {what}", lineterm="", n=2
    )
    return "\n".join("    " + line for line in lines)


def compare(name, stdout, stderr, code):
    """What differs from the files of the case, as text; empty when nothing does."""
    problems = []
    wanted_stdout = read(CASES / f"{name}.stdout")
    if stdout != wanted_stdout:
        problems.append(diff("stdout", wanted_stdout, stdout))
    patterns = read(CASES / f"{name}.stderr.glob")
    if not stderr_matches(stderr, patterns):
        problems.append(diff("stderr", patterns, stderr))
    wanted_code = int(read(CASES / f"{name}.exit", "0"))
    if code != wanted_code:
        problems.append(f"    exit code {code}, wanted {wanted_code}")
    return "\n".join(problems)


def write(path, text):
    if text:
        path.write_text(text, encoding="utf-8")
    elif path.exists():
        path.unlink()


def update(name, stdout, stderr, code):
    write(CASES / f"{name}.stdout", stdout)
    write(CASES / f"{name}.exit", f"{code}\n" if code else "")
    patterns = CASES / f"{name}.stderr.glob"
    if not stderr_matches(stderr, read(patterns)):
        write(patterns, "".join(pattern_of(line) + "\n" for line in stderr.splitlines()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stoker", type=pathlib.Path, help="the program")
    parser.add_argument("cases", nargs="*", help="names of cases (default: all)")
    parser.add_argument("--update", action="store_true", help="write what is seen as what is wanted")
    args = parser.parse_intermixed_args()
    scripts = [CASES / f"{name}.sh" for name in args.cases] or sorted(CASES.glob("*.sh"))
    if not scripts:
        sys.exit(f"no cases in {CASES}")
    passed = failed = 0
    for script in scripts:
        result = run_case(script, args.stoker.resolve())
        if args.update:
            update(script.stem, *result)
        problems = compare(script.stem, *result)
        if problems:
            failed += 1
            print(f"FAILED {script.stem}\n{problems}")
        else:
            passed += 1
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
