#!/usr/bin/env python3
"""Fails when an inner loop of the GRU kernels keeps vectors on the stack: check_spills.py BUILD_DIR

gcc and clang differ in how many sums they keep in registers, and one that moves to memory halves the speed without any
other sign. Only optimised builds are worth a look; 77 says that there was nothing to look at.
"""
import os
import re
import shutil
import subprocess
import sys

# File, the instruction of its products, and how many of them the largest loop has at least.
KERNELS = {
    "gru_vnni.c": (r"vpdpbusd", 24),
    "gru_avx512.c": (r"vpmaddubsw", 12),
    "gru_fp32_avx512.c": (r"vfmadd\w+ps", 24),
    "gru_avx2.c": (r"vpmaddubsw", 6),
    "gru_fp32_avx2.c": (r"vfmadd\w+ps", 12),
}
FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
LINE = re.compile(r"^\s*([0-9a-f]+):\s+(.*?)\s*$")
JUMP = re.compile(r"^(?:bnd )?j\w+\s+([0-9a-f]+)\b")
# What multiplies states takes them from memory to all lanes; the other loops only have constants.
BROADCAST = re.compile(r"v\w*broadcast\w+\s+[^%]*\(%(?!rip)|\{1to\d+\}")
VECTOR = re.compile(r"%[yz]mm\d+")


def functions(path):
    """Yields name and [(address, text)] of each function."""
    command = ["objdump", "-d", "--no-show-raw-insn", path]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    name, lines = None, []
    for line in text.split("\n"):
        head = FUNCTION.match(line)
        if head:
            if name:
                yield name, lines
            name, lines = head.group(1), []
            continue
        match = LINE.match(line)
        if match and name:
            lines.append((int(match.group(1), 16), match.group(2)))
    if name:
        yield name, lines


def inner_loops(lines):
    """What stands between a jump backwards and its target, where no other such jump is inside."""
    start = lines[0][0]
    loops = []
    for address, text in lines:
        jump = JUMP.match(text)
        if jump and start <= int(jump.group(1), 16) <= address:
            loops.append((int(jump.group(1), 16), address))
    for first, last in loops:
        if not any((a, b) != (first, last) and first <= a and b <= last for a, b in loops):
            yield [(address, text) for address, text in lines if first <= address <= last]


def stack_pattern(lines):
    """%rbp is the stack only in functions that make a frame of it."""
    framed = any(re.match(r"mov\s+%rsp,%rbp", text) for _, text in lines)
    return re.compile(r"\(%r[sb]p[,)]" if framed else r"\(%rsp[,)]")


def check(path, product, wanted):
    largest, problems = 0, []
    for name, lines in functions(path):
        if not lines:
            continue
        stack = stack_pattern(lines)
        for loop in inner_loops(lines):
            products = sum(1 for _, text in loop if re.match(product, text))
            if not products or not any(BROADCAST.search(text) for _, text in loop):
                continue
            largest = max(largest, products)
            for address, text in loop:
                if VECTOR.search(text) and stack.search(text):
                    problems.append(f"{os.path.basename(path)}: {name} at {address:x}: loop uses the stack: {text}")
    if largest < wanted:
        problems.append(f"{os.path.basename(path)}: the largest loop has {largest} products, wanted {wanted} at least")
    return problems


def objects(build, source):
    for folder, _, files in os.walk(build):
        for file in files:
            if file.endswith(".o") and re.search(rf"(^|[_/-]){re.escape(source)}\.o$", file):
                yield os.path.join(folder, file)


def main():
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        sys.exit("usage: check_spills.py BUILD_DIR")
    if os.uname().machine not in ("x86_64", "amd64") or not shutil.which("objdump"):
        print("skipped: needs x86-64 and objdump")
        sys.exit(77)
    problems = []
    for source, (product, wanted) in KERNELS.items():
        found = list(objects(sys.argv[1], source))
        if not found:
            problems.append(f"{source}: no object file under {sys.argv[1]}")
        for path in found:
            problems += check(path, product, wanted)
    for problem in problems:
        print(problem)
    print(f"spills: {len(problems)} problems")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
