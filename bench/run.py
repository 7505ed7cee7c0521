#!/usr/bin/env python3
"""Run the benchmarks of reading, parsing and the engine; bench/run.sh builds what they need and calls this.

Writes build/bench/read.toml, which `stoker bench` measures. A complete run also writes the table into
docs/performance.md.
"""
import gzip
import json
import os
import shutil
import subprocess
import sys
import time

import suitelib as lib

VENV = ".venv-peers"
BLOCKS = [lib.MIB // 4, lib.MIB // 2, lib.MIB, 4 * lib.MIB]
# As in make_set.c.
FLOAT_COUNTS = [1, 1, 2, 3, 4, 6, 8, 10, 13, 16]
INT_COUNTS = [1, 1, 1, 2, 2, 3, 4, 4]
# Name: files, records in each, bytes of a record; the second one of each is for --quick.
SETS = {
    "1k": [(16, 32768, 1024), (4, 16384, 1024)],
    "100k": [(16, 328, 102400), (4, 164, 102400)],
    "example": [(4, 65536, "example"), (2, 32768, "example")],
    "start": [(64, 1000, 1024), (64, 1000, 1024)],
}


# ---- data ----

def data_set(name, args):
    """Makes the set unless it is there; returns its files. The folder's name tells what is in it."""
    count, records, size = SETS[name][args.quick]

    def make(path):
        os.makedirs(path)
        subprocess.check_call([os.path.join(lib.TOOLS, "make_set"), path, str(count), str(records), str(size)])
    return lib.files(lib.made(os.path.join(lib.DATA, f"{count}x{records}x{size}"), make), "*.tfrecord")


def gzip_files(args):
    def make(path):
        os.makedirs(path)
        for name in data_set("example", args)[:2]:
            with open(name, "rb") as f, gzip.open(os.path.join(path, os.path.basename(name)), "wb", 6) as g:
                shutil.copyfileobj(f, g, lib.MIB)
    return lib.files(lib.made(os.path.join(lib.DATA, f"gzip-{'quick' if args.quick else 'full'}"), make))


def source(files):
    return f'tfrecord("{os.path.dirname(files[0])}/*.tfrecord")'


def parse_op():
    shape = lambda n: "" if n == 1 else f"[{n}]"
    fields = [f"float_{i:02}=float32{shape(n)}" for i, n in enumerate(FLOAT_COUNTS)]
    fields += [f"int_{i:02}=int64{shape(n)}" for i, n in enumerate(INT_COUNTS)]
    return f"parse({', '.join(fields + ['bytes_00=bytes', 'bytes_01=bytes'])})"


def parse_text(args, times):
    return f"{source(data_set('example', args))} | repeat({times}) | {parse_op()} | batch(256)"


# ---- benchmarks ----

def loop(way, block, times, files):
    return [os.path.join(lib.TOOLS, "read_loop"), way, str(block), str(times), *files]


def bench_read(suite, args):
    """read, CRC and batch on one thread, against a bare loop"""
    for name, batch, times in (("1k", 256, 8), ("100k", 32, 8)):
        files = data_set(name, args)
        mine = lib.stoker("Stoker, 1 thread", f"{source(files)} | repeat({times}) | batch({batch})", 1)
        for way, target in (("sse4.2", 0.7), ("avx512", None)):
            try:
                block, _ = lib.fastest({block: loop(way, block, 2, files) for block in BLOCKS}, tries=3)
            except lib.Failed:
                suite.note(f"read {name}: this CPU has no {way}")
                continue
            other = lib.Side(f"bare loop with {way}, blocks of {block // 1024} KiB", loop(way, block, times, files))
            suite.compare(f"read + CRC + batch, records of {name[:-1]} KiB, 1 thread / {other.title}", mine, other, target)


def stoker_sums(files):
    text = f"{source(files)} | parse(float_09=float32[16], int_07=int64[4]) | batch(256) | print"
    command = [x for x in lib.stoker_command(text, 2) if x != "--json"]
    out = {"float_09": 0.0, "int_07": 0}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            for key, values in json.loads(line).items():
                out[key] += sum(values)
    return out


def bench_parse(suite, args):
    """20-feature Examples into batches of 256 on two cores, against tf.data"""
    if not os.path.exists(lib.python_of(VENV)):
        suite.note("parse: TensorFlow is missing, see bench/peers/README.md")
        return
    files = data_set("example", args)
    theirs = lib.run_json(lib.peer(VENV, "tfdata.py", "--sums", *files))
    lib.same("parse: sums", stoker_sums(files), theirs["sums"])
    variants = ["plain", "parallel_reads", "interleave", "parse_dataset"]
    _, found = lib.fastest({v: lib.peer(VENV, "tfdata.py", "--variant", v, *files) for v in variants})
    rates = {v: found[v]["samples_per_s"] for v in variants}
    suite.note("tf.data, samples/s by variant: " + ", ".join(f"{v} {rates[v]:,.0f}" for v in variants))
    asked = max((v for v in variants if v != "parse_dataset"), key=rates.get)
    mine = lib.stoker("Stoker, 2 threads", parse_text(args, 10), 2)
    for variant, target in ((asked, 10), ("parse_dataset", None)):
        other = lib.Side(f"tf.data {theirs['tensorflow']} '{variant}'",
                         lib.peer(VENV, "tfdata.py", "--variant", variant, "--epochs", "1" if args.quick else "2", *files))
        suite.compare(f"parse 20 features, batches of 256, 2 threads / {other.title}", mine, other, target)


def bench_scaling(suite, args):
    """two threads against one"""
    two, one = (lib.stoker(title, parse_text(args, 12), n) for title, n in (("2 threads", 2), ("1 thread", 1)))
    suite.compare("parse 20 features, 2 threads / 1 thread", two, one, 1.85)


def bench_trace(suite, args):
    """tracing on against off"""
    trace = os.path.join(lib.DATA, "trace.pftrace")
    for work, text in (("parse 20 features, 2 threads", parse_text(args, 16)),
                       ("read records of 1 KiB, 2 threads", f"{source(data_set('1k', args))} | repeat(16) | batch(256)")):
        suite.compare(f"{work}, traced / not traced", lib.stoker("traced", text, 2, "--trace", trace),
                      lib.stoker("not traced", text, 2), 0.98)


def bench_start(suite, args):
    """first batch of an indexed set"""
    path = os.path.join(lib.TOOLS, "start.stoker")
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"{source(data_set('start', args))} | shuffle(seed=1) | batch(32)\n")
    # A file, so that no shell is needed to start it.
    command = [lib.STOKER, "run", path, "--threads", "2", "--json", "--quiet", "--cache-dir",
               os.path.join(lib.DATA, "index"), "--steps", "1"]
    lib.checked(command, 2)
    for metric, what in (("first_batch_s", "to the first batch"),
                         ("wall", "to the first batch and the end, seen from outside")):
        suite.measure(f"from process start {what}, 64 indexed files, shuffled", command, metric, ("at_most", 0.02), rounds=20)


def rss_bytes(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            for line in f:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0


def watched(command):
    """Runs it and looks at its memory; returns its JSON and the RSS samples."""
    rss = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            rss.append(rss_bytes(process.pid))
            time.sleep(0.02)
        out = process.stdout.read()
    if process.returncode != 0:
        raise lib.Failed(f"{' '.join(command)[:200]}: exit code {process.returncode}")
    return json.loads(out), [x for x in rss if x]


def bench_memory(suite, args):
    """20 GB of records in a budget of 256 MiB"""
    small, large = data_set("1k", args), data_set("100k", args)
    times = 40
    works = [
        ("records of 1 KiB, in order", f"{source(small)} | repeat({times}) | batch(256)", []),
        ("records of 1 KiB, shuffled", f"{source(small)} | shuffle(seed=1) | repeat({times}) | batch(256)", []),
        ("records of 100 KiB, shuffled, prefetch(200), a consumer slower than the reader",
         f"{source(large)} | shuffle(seed=1) | repeat({times}) | batch(32) | prefetch(200)", ["--step-time", "2ms"]),
    ]
    for work, text, more in works:
        command = lib.stoker_command(text, 2, "--memory", "256M", *more)
        out, rss = watched(command)
        title = f"{out['bytes_read'] / 1e9:.1f} GB of {work}, --memory 256M"
        suite.measure(f"{title}: buffers at their peak", command, "peak_buffer_bytes", ("at_most", 256 * lib.MIB))
        # Flat: the second half of the run, until it begins to end, takes at most 4 MiB more than the first did.
        settled = rss[len(rss) // 2: len(rss) * 19 // 20] or rss[-1:]
        growth = max(settled) - max(rss[: len(rss) // 2 + 1])
        suite.note(f"{title}: RSS in the second half of a run {min(settled) / lib.MIB:.1f} to {max(settled) / lib.MIB:.1f} "
                   f"MiB, wanted flat: {'ok' if growth <= 4 * lib.MIB else 'MISSED'}")


def bench_shuffle(suite, args):
    """random order against file order"""
    for name, batch, times in (("1k", 256, 4), ("100k", 32, 8)):
        files = data_set(name, args)
        plain = lib.stoker("in order", f"{source(files)} | repeat({times}) | batch({batch})", 2)
        mixed = lib.stoker("shuffled", f"{source(files)} | shuffle(seed=1) | repeat({times}) | batch({batch})", 2)
        suite.compare(f"records of {name[:-1]} KiB, 2 threads, shuffled / in order", mixed, plain)


def bench_gzip(suite, args):
    """compressed records, against Python's gzip"""
    files = gzip_files(args)
    text = f"{source(files)} | interleave(cycle={len(files)}) | batch(256)"
    one, two = lib.stoker("Stoker, 1 thread", text, 1), lib.stoker("Stoker, 2 threads", text, 2)
    python = lib.Side("Python's gzip, which inflates only",
                      ["python3", os.path.join(lib.PEERS, "gzip_inflate.py"), *files])
    suite.compare(f"gzip: inflate + CRC + batch, 1 thread / {python.title}", one, python, metric="seconds")
    suite.compare(f"gzip: {len(files)} files in turn, 2 threads / 1 thread", two, one)


BENCHES = {"read": bench_read, "parse": bench_parse, "scaling": bench_scaling, "trace": bench_trace,
           "start": bench_start, "memory": bench_memory, "shuffle": bench_shuffle, "gzip": bench_gzip}


if __name__ == "__main__":
    ARGS = lib.arguments(__doc__, BENCHES, rounds=7)
    sys.exit(lib.main(lib.Suite("read", "Reading, parsing and the engine", ARGS.rounds), BENCHES, ARGS))
