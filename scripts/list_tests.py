#!/usr/bin/env python3
"""Prints the tests in a folder of tests/, one name a line: list_tests.py FOLDER PREFIX ENDING"""
import os
import sys

import lintlib


def main():
    folder, prefix, ending = sys.argv[1:4]
    where = os.path.join(lintlib.ROOT, "tests", folder)
    names = os.listdir(where) if os.path.isdir(where) else []
    for name in sorted(names):
        if name.startswith(prefix) and name.endswith(ending):
            print(name[:-len(ending)])


if __name__ == "__main__":
    main()
