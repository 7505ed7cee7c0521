"""What the lints share: the list of files, comments taken out, one way to report."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

_TOKEN = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)


def files(*directories, endings=(".c", ".h")):
    """Paths below the directories, relative to the root, in order."""
    found = []
    for directory in directories:
        for where, _, names in os.walk(os.path.join(ROOT, directory)):
            for name in names:
                if name.endswith(tuple(endings)):
                    found.append(os.path.relpath(os.path.join(where, name), ROOT))
    return sorted(found)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as f:
        return f.read()


def without_comments_and_strings(text):
    """The same text with the same lines, where comments and literals are blank."""
    return _TOKEN.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def report(problems, what):
    """Prints the problems and ends the program."""
    for problem in problems:
        print(problem)
    print(f"{what}: {len(problems)} problems" if problems else f"{what}: fine")
    sys.exit(1 if problems else 0)
