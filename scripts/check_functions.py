#!/usr/bin/env python3
"""Fails on functions of more than 100 lines. Relies on the braces of a function standing in the first column."""
import re

import lintlib

LIMIT = 100
NAME = re.compile(r"([A-Za-z_]\w*)\s*\(")


def check(path):
    lines = lintlib.without_comments_and_strings(lintlib.read(path)).split("\n")
    start, name = None, "?"
    for number, line in enumerate(lines, 1):
        if line.startswith("{"):
            start = number
            head = [text for text in lines[max(0, number - 5):number - 1] if NAME.match(text) or NAME.search(text)]
            name = NAME.search(head[-1]).group(1) if head else "?"
        elif line.startswith("}") and start:
            length = number - start - 1
            if length > LIMIT:
                yield f"{path}:{start}: {name} has {length} lines, wanted at most {LIMIT}"
            start = None


def main():
    problems = []
    for path in lintlib.files("src", "libexec", "cli", "python", "examples", "tests", "bench", endings=(".c",)):
        problems += check(path)
    lintlib.report(problems, "functions")


if __name__ == "__main__":
    main()
