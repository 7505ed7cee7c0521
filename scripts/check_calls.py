#!/usr/bin/env python3
"""Fails on what a library must not do: print, end the process, read the environment, allocate past base/mem.h."""
import re

import lintlib

CALLS = re.compile(r"(?<![\w.>])(printf|vprintf|puts|putchar|perror|exit|_exit|_Exit|abort|getenv|secure_getenv|setenv|"
                   r"putenv|system|setlocale|srand|rand)\s*\(")
STREAMS = re.compile(r"(?<![\w.>])(stdout|stderr)\b")
MEMORY = re.compile(r"(?<![\w.>])(malloc|calloc|realloc|free|aligned_alloc|posix_memalign|strdup|strndup)\s*\(")
# A process that was forked may end; the one that called us may not.
FORKED = {"src/bench/launch_child.c": {"_exit"}}


def check(path):
    text = lintlib.without_comments_and_strings(lintlib.read(path))
    for number, line in enumerate(text.split("\n"), 1):
        for match in CALLS.finditer(line):
            if match.group(1) in FORKED.get(path, ()):
                continue
            yield f"{path}:{number}: {match.group(1)}() is not for the library: return a status, use host or FILE * of the caller"
        for match in STREAMS.finditer(line):
            yield f"{path}:{number}: {match.group(1)} belongs to the program"
        if path != "src/base/mem.c":
            for match in MEMORY.finditer(line):
                yield f"{path}:{number}: {match.group(1)}() passes by base/mem.h, use stk__{match.group(1)} or its like"


def main():
    problems = []
    for path in lintlib.files("src"):
        problems += check(path)
    lintlib.report(problems, "calls")


if __name__ == "__main__":
    main()
