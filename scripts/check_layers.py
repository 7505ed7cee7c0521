#!/usr/bin/env python3
"""Fails on an include that points upwards. The table is the one of ARCHITECTURE.md."""
import os
import re

import lintlib

# What each directory may include besides itself, libc and <stoker/...>: directories of src/, or single headers of them.
MAY_USE = {
    "include/stoker": [],
    "src/base": [],
    "src/kernels": ["base"],
    "src/formats": ["base", "kernels"],
    "src/g2p": ["base", "kernels", "formats"],
    "src/trace": ["base"],
    "src/engine": ["base", "trace"],
    "src/ops": ["base", "formats", "kernels", "engine/op.h", "engine/expr.h"],
    "src/stats": ["base"],
    "src/analyze": ["base", "trace", "stats"],
    "src/bench": ["base", "stats"],
    "src": ["base", "kernels", "formats", "trace", "engine", "ops"],
    "libexec": ["base", "formats/hdf5_wire.h", "formats/hdf5_filter.h"],
    "cli": ["base", "formats", "trace", "stats", "analyze", "bench"],
    "examples": [],
    "python/src": [],
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def check(path):
    directory = os.path.dirname(path)
    if directory not in MAY_USE:
        yield f"{path}: directory {directory} is not in the table of scripts/check_layers.py"
        return
    own = directory[len("src/"):] if directory.startswith("src/") else directory
    allowed = MAY_USE[directory]
    text = lintlib.read(path)
    for match in INCLUDE.finditer(text):
        quote, target = match.groups()
        line = text.count("\n", 0, match.start(2)) + 1
        if quote == "<" or target.startswith("stoker/"):
            continue
        layer = os.path.dirname(target)
        if layer == own and layer:
            continue
        if not layer and directory in ("cli", "examples", "libexec", "python/src", "src"):
            continue
        if not layer:
            yield f'{path}:{line}: "{target}" is written without its directory, wanted "{own}/{target}"'
        elif layer not in allowed and target not in allowed:
            yield f'{path}:{line}: {directory} may not include "{target}", only {", ".join(allowed) or "itself"}'


def main():
    problems = []
    for path in lintlib.files("include", "src", "libexec", "cli", "examples", "python"):
        problems += check(path)
    lintlib.report(problems, "layers")


if __name__ == "__main__":
    main()
