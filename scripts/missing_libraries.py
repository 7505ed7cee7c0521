#!/usr/bin/env python3
"""What meson.build says about libraries that it did not find, and how to get them: missing_libraries.py NAME..."""

import pathlib
import sys

TABLE = pathlib.Path(__file__).resolve().parent / "libraries.txt"


def packages():
    """Package of Debian and Ubuntu by the name that a build looks for."""
    rows = (line.split() for line in TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return {name: package for name, package, _ in rows}


def main():
    known, missing = packages(), sys.argv[1:]
    unknown = [name for name in missing if name not in known]
    if unknown:
        sys.exit(f"missing_libraries.py: not in {TABLE.name}: {' '.join(unknown)}")
    print(f"missing: {', '.join(missing)}")
    print(f"on Debian and Ubuntu: apt-get install {' '.join(known[name] for name in missing)}")
    print("elsewhere: the packages that have the headers of these libraries")


if __name__ == "__main__":
    main()
