#!/usr/bin/env python3
"""Inflate files with Python's gzip module and print the time: gzip_inflate.py FILE..."""
import gzip
import json
import sys
import time


def main():
    start, size = time.perf_counter(), 0
    for path in sys.argv[1:]:
        with gzip.open(path) as f:
            while block := f.read(1 << 20):
                size += len(block)
    print(json.dumps({"seconds": time.perf_counter() - start, "bytes": size}))


if __name__ == "__main__":
    main()
