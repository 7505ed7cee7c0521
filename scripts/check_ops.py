#!/usr/bin/env python3
"""Fails on an op that is not listed, is listed without a file, or has no test."""
import os
import re

import lintlib


def listed():
    path = "src/ops/meson.build"
    if not os.path.exists(os.path.join(lintlib.ROOT, path)):
        return []
    match = re.search(r"^op_names = \[(.*?)\]", lintlib.read(path), re.M | re.S)
    return re.findall(r"'([^']*)'", match.group(1)) if match else []


def main():
    names = listed()
    problems = []
    if names != sorted(set(names)):
        problems.append("src/ops/meson.build: op_names is not sorted, or names one twice")
    in_tree = {os.path.basename(p)[len("op_"):-len(".c")] for p in lintlib.files("src/ops") if "/op_" in p and p.endswith(".c")}
    for name in sorted(in_tree - set(names)):
        problems.append(f"src/ops/op_{name}.c: not in op_names of src/ops/meson.build")
    for name in names:
        path, test = f"src/ops/op_{name}.c", f"tests/ops/test_{name}.c"
        if name not in in_tree:
            problems.append(f"{path}: in op_names, but there is no such file")
        elif not re.search(rf"^const stk_op stk__op_{name} = ", lintlib.read(path), re.M):
            problems.append(f"{path}: wanted a descriptor `const stk_op stk__op_{name} = `")
        if not os.path.exists(os.path.join(lintlib.ROOT, test)):
            problems.append(f"{test}: missing, every op has a test")
    lintlib.report(problems, f"ops ({len(names)} listed)")


if __name__ == "__main__":
    main()
