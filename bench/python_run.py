#!/usr/bin/env python3
"""A loop over a pipeline by the Python package: what `stoker run` does, in Python. Prints one JSON object.

python_run.py --text PIPELINE [--format torch] [--threads 2] [--index DIR] [--values FIELD]   the whole run
python_run.py --text PIPELINE --first                           from `import stoker` to the first batch

With --preload the modules named are imported before the clock starts: what a training program has loaded anyway.
"""
import argparse
import importlib
import json
import os
import resource
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", required=True)
    parser.add_argument("--format", default="torch")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--index", help="folder of indexes")
    parser.add_argument("--preload", nargs="*", default=[], metavar="MODULE")
    parser.add_argument("--first", action="store_true", help="stop at the first batch")
    return parser.parse_args()


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def rows(batch):
    first = next(iter(batch.values()))
    return len(first)


def whole(pipe, args):
    """From the first batch asked for to the end of the data, as the program's own figure."""
    loader = pipe.loader(format=args.format, persistent=False, threads=args.threads, cache_dir=args.index)
    cpu = cpu_seconds()
    begin = time.perf_counter()
    samples = batches = 0
    for batch in loader:
        samples += rows(batch)
        batches += 1
    seconds = time.perf_counter() - begin
    cpu = cpu_seconds() - cpu
    return {"samples_per_s": samples / seconds, "cpu_per_1000": 1000 * cpu / samples, "samples": samples,
            "batches": batches, "seconds": seconds}


def main():
    args = arguments()
    for module in args.preload:
        importlib.import_module(module)
    begin = time.perf_counter()
    import stoker

    pipe = stoker.pipeline(args.text)
    if args.first:
        loader = pipe.loader(format=args.format, persistent=False, threads=args.threads, cache_dir=args.index)
        batch = next(iter(loader))
        out = {"first_batch_s": time.perf_counter() - begin, "samples": rows(batch)}
    else:
        out = whole(pipe, args)
    print(json.dumps(out | {"version": stoker.__version__, "threads": args.threads}), flush=True)
    os._exit(0)  # the figure is out; what is still being prepared ahead need not be finished


if __name__ == "__main__":
    main()
