#!/usr/bin/env python3
"""Fails on tabs in C, white space at line ends, a missing newline at the end, and C files without an opening comment."""
import lintlib

C = (".c", ".h")
OTHERS = (".py", ".sh", ".md", ".build", ".txt", ".yml", ".toml", ".stoker")


def check(path):
    text = lintlib.read(path)
    is_c = path.endswith(C)
    if text and not text.endswith("\n"):
        yield f"{path}: no newline at the end"
    if is_c and not text.startswith("/*"):
        yield f"{path}:1: wanted a comment that says in one sentence what the file is for"
    for number, line in enumerate(text.split("\n"), 1):
        if is_c and "\t" in line:
            yield f"{path}:{number}: tab, wanted spaces"
        if line != line.rstrip():
            yield f"{path}:{number}: white space at the end of the line"


def main():
    problems = []
    everywhere = ("include", "src", "libexec", "cli", "examples", "tests", "bench", "python", "scripts", "docs")
    for path in lintlib.files(*everywhere, endings=C + OTHERS):
        if not path.startswith(("tests/fuzz/corpus/", "tests/data/", "tests/cli/cases/")):
            problems += check(path)
    for path in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "meson.build"):
        try:
            problems += check(path)
        except FileNotFoundError:
            pass
    lintlib.report(problems, "text")


if __name__ == "__main__":
    main()
