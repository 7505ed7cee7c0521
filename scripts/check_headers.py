#!/usr/bin/env python3
"""Compiles each public header alone as C17 and C++17, and each inner header alone as C17: check_headers.py CC [CXX]"""
import os
import shutil
import subprocess
import sys

import lintlib

FLAGS = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Iinclude"]
# Feature macros are for the library's own files; public headers must stand without them.
INNER = ["-Isrc", "-D_POSIX_C_SOURCE=200809L", "-D_FILE_OFFSET_BITS=64", "-Wno-unused-parameter"]


def compiles(compiler, language, standard, include, extra=()):
    command = [*compiler, "-x", language, f"-std={standard}", *FLAGS, *extra, "-"]
    done = subprocess.run(command, input=f"#include {include}\ntypedef int some_type;\n", text=True, capture_output=True, cwd=lintlib.ROOT)
    if done.returncode == 0:
        return []
    return [f"{include} as {standard}:\n{done.stderr.rstrip()}"]


def main():
    cc = (sys.argv[1] if len(sys.argv) > 1 else os.environ.get("CC", "cc")).split()
    cxx = (sys.argv[2] if len(sys.argv) > 2 else os.environ.get("CXX", "c++")).split()
    has_cxx = shutil.which(cxx[0]) is not None
    problems, count = [], 0
    for path in lintlib.files("include", endings=(".h",)):
        include = "<" + path[len("include/"):] + ">"
        problems += compiles(cc, "c", "c17", include)
        if has_cxx:
            problems += compiles(cxx, "c++", "c++17", include)
        count += 1
    for path in lintlib.files("src", endings=(".h",)):
        problems += compiles(cc, "c", "c17", '"' + path[len("src/"):] + '"', INNER)
        count += 1
    if not has_cxx:
        print(f"{cxx[0]} is missing: C++ was not tried")
    lintlib.report(problems, f"headers ({count})")


if __name__ == "__main__":
    main()
