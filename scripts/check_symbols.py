#!/usr/bin/env python3
"""Fails when a shared library exports anything but stk_[a-z]..., or nothing, or misses a public function:
check_symbols.py LIBRARY"""
import re
import subprocess
import sys

import lintlib

# Defined by plug-ins, not by the library.
NOT_OURS = {"stk_plugin_ops"}


def declared():
    """Names of the functions that the public headers mark with STK_API."""
    names = set()
    for path in lintlib.files("include", endings=(".h",)):
        text = lintlib.without_comments_and_strings(lintlib.read(path))
        for declaration in re.findall(r"^STK_API\s([^;{]*);", text, re.M):
            match = re.search(r"\b(stk_\w+)\s*\(", declaration)
            if match:
                names.add(match.group(1))
    return names - NOT_OURS


def main():
    out = subprocess.run(["nm", "-D", "--defined-only", sys.argv[1]], check=True, text=True, capture_output=True).stdout
    exported = {line.split()[-1].split("@")[0] for line in out.splitlines() if line.strip()}
    problems = [f"{name} is exported, only stk_[a-z]... may be" for name in sorted(exported)
                if not re.match(r"stk_[a-z]", name)]
    problems += [f"{name} is declared STK_API in a public header, but not exported" for name in sorted(declared() - exported)]
    problems += [f"{name} is exported, but no public header declares it" for name in sorted(exported - declared())
                 if re.match(r"stk_[a-z]", name)]
    if not exported:
        problems.append("nothing is exported")
    lintlib.report(problems, f"symbols ({len(exported)} exported)")


if __name__ == "__main__":
    main()
