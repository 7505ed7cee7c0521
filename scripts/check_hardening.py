#!/usr/bin/env python3
"""Fails when a program or library was built without what keeps a mistake in it small: check_hardening.py FILE...

Asks readelf: position independent, no stack or segment that can be written and executed, no relocation of code,
relocations read-only, library directories beside the file alone. Of what we compile ourselves also everything bound
before main, the stack protector, checked functions of libc, and shadow stacks on x86-64. 77 says that there is no
readelf.
"""
import re
import shutil
import subprocess
import sys

LOAD = re.compile(r"^\s*(LOAD|GNU_STACK|GNU_RELRO)\s+(?:0x\S+\s+){5}([R ][W ][E ])", re.M)
TAG = re.compile(r"\((RPATH|RUNPATH)\).*\[(.*)\]")
CHECKED = re.compile(r"\bUND __\w+_chk\b")


def readelf(*words):
    return subprocess.run(["readelf", "-W", *words], check=True, capture_output=True, text=True).stdout


def layout_problems(path, places=()):
    """What holds for every file, also those of the distribution. `places`: of libraries, besides $ORIGIN."""
    head, segments, dynamic = readelf("-h", path), LOAD.findall(readelf("-l", path)), readelf("-d", path)
    if not re.search(r"Type:\s+DYN", head):
        yield "is at a fixed address, wanted a position independent one (-fPIE -pie)"
    stacks = [flags for kind, flags in segments if kind == "GNU_STACK"]
    if not stacks or any("E" in flags for flags in stacks):
        yield "has an executable stack (-z noexecstack)"
    if any("W" in flags and "E" in flags for _, flags in segments):
        yield "has a segment that can be written and executed"
    if not any(kind == "GNU_RELRO" for kind, _ in segments):
        yield "has relocations that stay writable (-z relro)"
    if "TEXTREL" in dynamic:
        yield "relocates its code"
    for tag, found in TAG.findall(dynamic):
        for place in found.split(":"):
            if not any(f"{place}/".startswith(f"{allowed}/") for allowed in ("$ORIGIN", *places)):
                yield f"looks for libraries in {place} ({tag}), wanted $ORIGIN alone"


def has_note(path, name):
    return name in readelf("-n", path)


def own_problems(path, small=False, places=()):
    """What holds for files that we compile. One that is `small` may have nothing that needs protection."""
    yield from layout_problems(path, places)
    dynamic, symbols = readelf("-d", path), readelf("--dyn-syms", path)
    if not re.search(r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*\bNOW\b", dynamic):
        yield "binds functions when they are called (-z now)"
    if not small and "UND __stack_chk_fail" not in symbols:
        yield "has no stack protector (-fstack-protector-strong)"
    if not small and not [s for s in CHECKED.findall(symbols) if "stack" not in s]:
        yield "calls no checked function of libc (-D_FORTIFY_SOURCE)"
    if "X86-64" in readelf("-h", path) and not has_note(path, "SHSTK"):
        yield "has no note on shadow stacks (-fcf-protection, -z shstk)"


def main():
    if not shutil.which("readelf"):
        print("skipped: there is no readelf")
        return 77
    found = [(path, problem) for path in sys.argv[1:] for problem in own_problems(path)]
    for path, problem in found:
        print(f"{path}: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
