#!/usr/bin/env python3
"""Run the benchmarks of the Python package; bench/python.sh builds what they need.

Writes build/bench/python.toml, which `stoker bench` measures. A complete run also writes the tables into
docs/performance.md.
"""
import os
import sys

import images
import run
import suitelib as lib

PACKAGE = "build/python"
VENV = ".venv-peers-torch"


def contestant(title, text, *more):
    """The loop in Python: the interpreter that has torch, the package of the build."""
    command = ["env", f"PYTHONPATH={PACKAGE}", lib.python_of(VENV), "bench/python_run.py", "--threads", str(lib.THREADS),
               "--index", os.path.join(lib.DATA, "index"), "--text", text, *more]
    lib.run_json(command)
    return lib.Side(title, command)


def text_of(side):
    """The pipeline of a command of `stoker run`."""
    return side.command[side.command.index("-e") + 1]


# ---- works ----

def bench_loop(suite, args):
    """a loop in Python against the program's own run of the same pipeline"""
    sides = [(work["title"], "torch", images.stoker("stoker run", work, args))
             for work in (images.WORKS["cifar"], images.WORKS["jpeg500"])]
    parse = run.parse_text(args, 3 if args.quick else 12)
    for size in (256, 4096):
        sides.append((f"parse 20 features, batches of {size:,}", "numpy",
                      lib.stoker("stoker run", parse.replace("batch(256)", f"batch({size})"), lib.THREADS)))
    records = f"{run.source(run.data_set('100k', args))} | repeat({2 if args.quick else 20}) | batch(32)"
    sides.append(("read records of 100 KiB", "dlpack", lib.stoker("stoker run", records, lib.THREADS)))
    for title, form, program in sides:
        mine = contestant(f"Python, .{form}()", text_of(program), "--format", form, "--preload", "torch", "numpy")
        lib.same(f"{title}: samples", lib.run_json(mine.command)["samples"], lib.run_json(program.command)["samples"])
        suite.compare(f"{title}: Python loop, .{form}() / stoker run", mine, program, 0.97)


def bench_images(suite, args):
    """the image pipelines from Python, against other loaders in Python"""
    for name in ("cifar", "jpeg500"):
        work = images.WORKS[name]
        mine = contestant("Stoker from Python, .torch(), 2 threads", text_of(images.stoker("", work, args)),
                          "--preload", "torch", "numpy")
        for other in ("torch", "tfdata"):
            try:
                side = images.peer(other, work, args, suite)
            except lib.Failed as e:
                suite.note(f"{work['title']}: no figure for {other}: {str(e).strip().splitlines()[-1]}")
                continue
            suite.compare(f"{work['title']} from Python / {side.title}", mine, side, work["targets"][other])


def bench_first(suite, args):
    """from the import to the first batch, against a DataLoader with workers"""
    for name in ("cifar", "jpeg500"):
        work = images.WORKS[name]
        folder, _ = images.data_folder(args)
        text = f'tfrecord("{folder}/{work["set"]}-*.tfrecord") | {work["text"].replace("{times}", "1")}'
        theirs = lib.peer(VENV, "first_batch_torch.py", "--data", folder, "--work", name)
        for about, preload, more, form in (
                ("torch loaded before", ["--preload", "torch", "numpy"], [], "torch"),
                ("imports counted", [], ["--import"], "numpy")):
            mine = contestant(f"import stoker to the first batch, .{form}()", text, "--first", "--format", form, *preload)
            lib.run_json(theirs + more)
            suite.compare(f"{work['title']}, time to the first batch, {about}: DataLoader, 2 workers / Stoker",
                          mine, lib.Side("PyTorch DataLoader, 2 workers, to the first batch", theirs + more), 10,
                          metric="first_batch_s")


def main():
    works = {"loop": bench_loop, "images": bench_images, "first": bench_first}
    args = lib.arguments(__doc__, works, rounds=8)
    suite = lib.Suite("python", "Python", args.rounds)
    if not os.path.isdir(PACKAGE):
        print(f"python.py: {PACKAGE} is missing; make build makes it", file=sys.stderr)
        return 1
    return lib.main(suite, works, args)


if __name__ == "__main__":
    sys.exit(main())
