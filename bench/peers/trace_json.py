#!/usr/bin/env python3
"""Parse a trace with Python's json and print the time: trace_json.py FILE [--no-gc]."""
import argparse
import gc
import json
import platform
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--no-gc", action="store_true", help="without the garbage collector, which only costs time here")
    args = parser.parse_args()
    with open(args.file, encoding="utf-8") as f:
        text = f.read()
    if args.no_gc:
        gc.disable()
    before, start = time.process_time(), time.perf_counter()
    trace = json.loads(text)
    seconds, cpu = time.perf_counter() - start, time.process_time() - before
    events = len(trace["traceEvents"])
    print(json.dumps({"events": events, "seconds": seconds, "cpu_s": cpu, "cpu_per_1000": 1000 * cpu / events,
                      "version": f"Python {platform.python_version()}"}))


if __name__ == "__main__":
    main()
