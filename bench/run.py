#!/usr/bin/env python3
"""Run Stoker's benchmarks and print one table; bench/run.sh builds what they need and calls this.

Each figure is a ratio of two contestants measured in turns (A B, B A, A B ...) in the same run: the median over the
rounds, with the least and the greatest. A complete run also writes the table into docs/performance.md.
"""
import argparse
import glob
import gzip
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.path.join(ROOT, "build", "bench-data")
TOOLS = os.path.join(ROOT, "build", "bench")
STOKER = os.path.join(ROOT, "build", "cli", "stoker")
PEER_PYTHON = os.path.join(ROOT, ".venv-peers", "bin", "python")
PAGE = os.path.join(ROOT, "docs", "performance.md")
BEGIN, END = "<!-- begin: written by bench/run.py -->", "<!-- end -->"

MIB = 1 << 20
# A round in which others took more of the machine's time than this is taken again.
QUIET = 0.03
BLOCKS = [MIB // 4, MIB // 2, MIB, 4 * MIB]
# As in make_set.c.
FLOAT_COUNTS = [1, 1, 2, 3, 4, 6, 8, 10, 13, 16]
INT_COUNTS = [1, 1, 1, 2, 2, 3, 4, 4]
# Name: files, records in each, bytes of a record; the second line of each is for --quick.
SETS = {
    "1k": [(16, 32768, 1024), (4, 16384, 1024)],
    "100k": [(16, 328, 102400), (4, 164, 102400)],
    "example": [(4, 65536, "example"), (2, 32768, "example")],
    "start": [(64, 1000, 1024), (64, 1000, 1024)],
}


class Failed(Exception):
    """A contestant did not run."""


class Others:
    """How much of the machine's time others took since this was made; hypervisors count as others."""

    def __init__(self):
        self.start = self.now()

    @staticmethod
    def now():
        with open("/proc/stat", encoding="ascii") as f:
            user, nice, system, _, _, irq, softirq, steal = map(int, f.readline().split()[1:9])
        whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        own = sum(sum(resource.getrusage(who)[:2]) for who in whose)
        return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK") - own, time.monotonic()

    def share(self):
        busy, at = (b - a for a, b in zip(self.start, self.now()))
        return busy / at / os.cpu_count()


class Bench:
    def __init__(self, rounds, quick):
        self.rounds, self.quick, self.rows, self.notes, self.retaken, self.disturbed = rounds, quick, [], [], 0, 0

    def row(self, work, figure, spread="", target="", ok=None):
        self.rows.append((work, figure, spread, target, "" if ok is None else "ok" if ok else "MISSED"))
        print("  ".join(x for x in self.rows[-1] if x), flush=True)

    def ratio_row(self, work, ratios, target=None):
        median = statistics.median(ratios)
        digits = 1 if median >= 10 else 2 if median < 0.95 or median > 1.05 else 3
        show = lambda x: f"{x:.{digits}f}"
        self.row(work, show(median), f"{show(min(ratios))} to {show(max(ratios))}",
                 f"at least {target}" if target else "", median >= target if target else None)

    def note(self, text):
        self.notes.append(text)
        print("  " + text, flush=True)

    def ratios(self, a, b):
        """Rates of a over rates of b, in turns. A and b return something per second."""
        out, disturbed = [], []
        while len(out) < self.rounds and len(disturbed) < 2 * self.rounds:
            others = Others()
            if len(out) % 2 == 0:
                rate_a, rate_b = a(), b()
            else:
                rate_b, rate_a = b(), a()
            (out if others.share() <= QUIET else disturbed).append(rate_a / rate_b)
        missing = self.rounds - len(out)
        self.retaken += len(disturbed) - missing
        self.disturbed += missing
        return out + disturbed[:missing]


# ---- contestants ----

def run_json(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)[:200]}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def stoker_command(text, threads, *more):
    return [STOKER, "run", "-e", text, "--threads", str(threads), "--json", "--quiet", "--cache-dir",
            os.path.join(DATA, "index"), *more]


def stoker(text, threads, *more):
    out = run_json(stoker_command(text, threads, *more))
    if out["end"] not in ("complete", "steps done") or out["skipped"] or out["threads"] != threads:
        raise Failed(f"stoker ended with {out}")
    return out


def stoker_rate(text, threads, *more):
    return lambda: stoker(text, threads, *more)["samples_per_s"]


def loop_rate(way, block, times, files):
    def once():
        out = run_json([os.path.join(TOOLS, "read_loop"), way, str(block), str(times), *files])
        return out["records"] / out["seconds"]
    return once


def tfdata(files, *options):
    return run_json([PEER_PYTHON, os.path.join(ROOT, "bench", "peers", "tfdata.py"), *options, *files])


# ---- data ----

def data_set(name, quick):
    """Makes the set unless it is there; returns its files. The folder's name tells what is in it."""
    files, count, size = SETS[name][quick]
    folder = os.path.join(DATA, f"{files}x{count}x{size}")
    if not os.path.isdir(folder):
        part = folder + ".part"
        shutil.rmtree(part, ignore_errors=True)
        os.makedirs(part)
        subprocess.check_call([os.path.join(TOOLS, "make_set"), part, str(files), str(count), str(size)])
        os.rename(part, folder)
    return sorted(glob.glob(os.path.join(folder, "*.tfrecord")))


def source(files):
    return f'tfrecord("{os.path.dirname(files[0])}/*.tfrecord")'


def parse_op():
    shape = lambda n: "" if n == 1 else f"[{n}]"
    fields = [f"float_{i:02}=float32{shape(n)}" for i, n in enumerate(FLOAT_COUNTS)]
    fields += [f"int_{i:02}=int64{shape(n)}" for i, n in enumerate(INT_COUNTS)]
    return f"parse({', '.join(fields + ['bytes_00=bytes', 'bytes_01=bytes'])})"


def parse_text(bench, times):
    return f"{source(data_set('example', bench.quick))} | repeat({times}) | {parse_op()} | batch(256)"


# ---- benchmarks ----

def best_block(way, files):
    rates = {block: statistics.median(loop_rate(way, block, 2, files)() for _ in range(5)) for block in BLOCKS}
    return max(rates, key=rates.get)


def bench_read(bench):
    """read, CRC and batch on one thread, against a bare loop"""
    for name, batch, times in (("1k", 256, 8), ("100k", 32, 8)):
        files = data_set(name, bench.quick)
        text = f"{source(files)} | repeat({times}) | batch({batch})"
        stoker(text, 1)
        for way, target in (("sse4.2", 0.7), ("avx512", None)):
            try:
                block = best_block(way, files)
            except Failed:
                bench.note(f"read {name}: this CPU has no {way}")
                continue
            ratios = bench.ratios(stoker_rate(text, 1), loop_rate(way, block, times, files))
            bench.ratio_row(f"read + CRC + batch, records of {name[:-1]} KiB, 1 thread / bare loop with {way}, "
                            f"blocks of {block // 1024} KiB", ratios, target)


def stoker_sums(files):
    text = f"{source(files)} | parse(float_09=float32[16], int_07=int64[4]) | batch(256) | print"
    command = [x for x in stoker_command(text, 2) if x != "--json"]
    out = {"float_09": 0.0, "int_07": 0}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            for key, values in json.loads(line).items():
                out[key] += sum(values)
    return out


def bench_parse(bench):
    """20-feature Examples into batches of 256 on two cores, against tf.data"""
    if not os.path.exists(PEER_PYTHON):
        bench.note("parse: TensorFlow is missing, see bench/peers/README.md")
        return
    files = data_set("example", bench.quick)
    theirs = tfdata(files, "--sums")
    mine = stoker_sums(files)
    if mine != theirs["sums"]:
        raise Failed(f"the sums differ: Stoker has {mine}, tf.data {theirs['sums']}")
    variants = ["plain", "parallel_reads", "interleave", "parse_dataset"]
    rates = {}
    for variant in variants:
        out = tfdata(files, "--variant", variant)
        rates[variant] = out["samples"] / out["seconds"]
    asked = max((v for v in variants if v != "parse_dataset"), key=rates.get)
    bench.note("tf.data, samples/s by variant: " + ", ".join(f"{v} {rates[v]:,.0f}" for v in variants))

    def peer(variant):
        def once():
            out = tfdata(files, "--variant", variant, "--epochs", "1" if bench.quick else "2")
            return out["samples"] / out["seconds"]
        return once

    mine = stoker_rate(parse_text(bench, 10), 2)
    mine()
    for variant, target in ((asked, 10), ("parse_dataset", None)):
        bench.ratio_row(f"parse 20 features, batches of 256, 2 threads / tf.data {theirs['tensorflow']} "
                        f"'{variant}'", bench.ratios(mine, peer(variant)), target)


def bench_scaling(bench):
    """two threads against one"""
    text = parse_text(bench, 12)
    stoker(text, 2)
    bench.ratio_row("parse 20 features, 2 threads / 1 thread",
                    bench.ratios(stoker_rate(text, 2), stoker_rate(text, 1)), 1.85)


def bench_trace(bench):
    """tracing on against off"""
    trace = os.path.join(DATA, "trace.pftrace")
    files = data_set("1k", bench.quick)
    for work, text in (("parse 20 features, 2 threads", parse_text(bench, 16)),
                       ("read records of 1 KiB, 2 threads", f"{source(files)} | repeat(16) | batch(256)")):
        stoker(text, 2)
        ratios = bench.ratios(stoker_rate(text, 2, "--trace", trace), stoker_rate(text, 2))
        bench.ratio_row(f"{work}, traced / not traced", ratios, 0.98)
    os.remove(trace)


def bench_start(bench):
    """first batch of an indexed set"""
    text = f"{source(data_set('start', bench.quick))} | shuffle(seed=1) | batch(32)"
    stoker(text, 2, "--steps", "1")
    inside, outside = [], []
    for _ in range(20):
        start = time.perf_counter()
        inside.append(1000 * stoker(text, 2, "--steps", "1")["first_batch_s"])
        outside.append(1000 * (time.perf_counter() - start))
    for what, times in (("to the first batch", inside), ("to the first batch and the end, seen from outside", outside)):
        median = statistics.median(times)
        bench.row(f"from process start {what}, 64 indexed files, shuffled, 20 runs", f"{median:.1f} ms",
                  f"{min(times):.1f} to {max(times):.1f} ms", "at most 20 ms", max(times) <= 20)


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
        raise Failed(f"{' '.join(command)[:200]}: exit code {process.returncode}")
    return json.loads(out), [x for x in rss if x]


def bench_memory(bench):
    """20 GB of records in a budget of 256 MiB"""
    small, large = data_set("1k", bench.quick), data_set("100k", bench.quick)
    times = 40
    works = [
        ("records of 1 KiB, in order", f"{source(small)} | repeat({times}) | batch(256)", []),
        ("records of 1 KiB, shuffled", f"{source(small)} | shuffle(seed=1) | repeat({times}) | batch(256)", []),
        ("records of 100 KiB, shuffled, prefetch(200), a consumer slower than the reader",
         f"{source(large)} | shuffle(seed=1) | repeat({times}) | batch(32) | prefetch(200)", ["--step-time", "2ms"]),
    ]
    for work, text, more in works:
        out, rss = watched(stoker_command(text, 2, "--memory", "256M", *more))
        # Flat: the second half of the run, until it begins to end, takes at most 4 MiB more than the first did.
        settled = rss[len(rss) // 2: len(rss) * 19 // 20]
        growth = max(settled) - max(rss[: len(rss) // 2 + 1])
        peak = out["peak_buffer_bytes"]
        bench.row(f"{out['bytes_read'] / 1e9:.1f} GB of {work}, --memory 256M: buffers at their peak",
                  f"{peak / MIB:.1f} MiB", "", "under 256 MiB", peak < 256 * MIB)
        bench.row("the same run: RSS in the second half", f"{max(settled) / MIB:.1f} MiB",
                  f"{min(settled) / MIB:.1f} to {max(settled) / MIB:.1f} MiB", "flat", growth <= 4 * MIB)


def bench_shuffle(bench):
    """random order against file order"""
    for name, batch, times in (("1k", 256, 4), ("100k", 32, 8)):
        files = data_set(name, bench.quick)
        plain = f"{source(files)} | repeat({times}) | batch({batch})"
        shuffled = f"{source(files)} | shuffle(seed=1) | repeat({times}) | batch({batch})"
        stoker(plain, 2)
        bench.ratio_row(f"records of {name[:-1]} KiB, 2 threads, shuffled / in order",
                        bench.ratios(stoker_rate(shuffled, 2), stoker_rate(plain, 2)))


def gzip_files(bench):
    folder = os.path.join(DATA, f"gzip-{'quick' if bench.quick else 'full'}")
    if not os.path.isdir(folder):
        shutil.rmtree(folder + ".part", ignore_errors=True)
        os.makedirs(folder + ".part")
        for path in data_set("example", bench.quick)[:2]:
            with open(path, "rb") as f, gzip.open(os.path.join(folder + ".part", os.path.basename(path)), "wb", 6) as g:
                shutil.copyfileobj(f, g, MIB)
        os.rename(folder + ".part", folder)
    return sorted(glob.glob(os.path.join(folder, "*")))


PYTHON_GZIP = """
import gzip, sys, time
start, size = time.perf_counter(), 0
for path in sys.argv[1:]:
    with gzip.open(path) as f:
        while block := f.read(1 << 20):
            size += len(block)
print('{"seconds": %r, "bytes": %d}' % (time.perf_counter() - start, size))
"""


def bench_gzip(bench):
    """compressed records, against Python's gzip"""
    files = gzip_files(bench)
    text = f"{source(files)} | interleave(cycle={len(files)}) | batch(256)"
    out = stoker(text, 1)
    plain = sum(os.path.getsize(p) for p in data_set("example", bench.quick)[:2])

    def python():
        return plain / run_json([sys.executable, "-c", PYTHON_GZIP, *files])["seconds"]

    def mine(threads):
        return lambda: plain / stoker(text, threads)["seconds"]

    assert out["samples"] > 0
    bench.ratio_row("gzip: inflate + CRC + batch, 1 thread / Python's gzip, which inflates only",
                    bench.ratios(mine(1), python))
    bench.ratio_row(f"gzip: {len(files)} files in turn, 2 threads / 1 thread", bench.ratios(mine(2), mine(1)))


BENCHES = {"read": bench_read, "parse": bench_parse, "scaling": bench_scaling, "trace": bench_trace,
           "start": bench_start, "memory": bench_memory, "shuffle": bench_shuffle, "gzip": bench_gzip}


# ---- the report ----

def cpu_model():
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
        for line in f:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def machine():
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return f"{cpu_model()}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB, Linux {platform.release()}"


def load():
    with open("/proc/loadavg", encoding="ascii") as f:
        return f.read().split()[0]


def table(rows):
    head = ("work", "median", "least to greatest", "target", "")
    lines = ["| " + " | ".join(head) + " |", "|---|---|---|---|---|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def print_table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def write_page(bench, before):
    with open(PAGE, encoding="utf-8") as f:
        text = f.read()
    head, rest = text.split(BEGIN, 1)
    tail = rest.split(END, 1)[1]
    notes = "".join(f"- {note}\n" for note in bench.notes)
    middle = (f"{BEGIN}\nMachine: {machine()}. Load before the run: {before}. Rounds: {bench.rounds}.\n\n"
              f"{table(bench.rows)}\n\n{notes}{END}")
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write(head + middle + tail)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHES)}; all unless told")
    parser.add_argument("--rounds", type=int, default=7, help="pairs of runs behind each ratio (7)")
    parser.add_argument("--quick", action="store_true", help="small sets and 3 rounds: to see that it works")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in BENCHES]
    if unknown or args.rounds < 1:
        parser.error(f"no benchmark '{unknown[0]}'" if unknown else "wants 1 or more rounds")
    bench = Bench(min(args.rounds, 3) if args.quick else args.rounds, args.quick)
    before = load()
    print(f"{machine()}; load {before}", flush=True)
    try:
        for name in args.names or BENCHES:
            print(f"{name}: {BENCHES[name].__doc__}", flush=True)
            BENCHES[name](bench)
    except Failed as e:
        print(f"run.py: {e}", file=sys.stderr)
        return 1
    if bench.retaken or bench.disturbed:
        bench.note(f"other processes took more than {100 * QUIET:.0f} % of the machine's time in some rounds: "
                   f"{bench.retaken} were taken again, {bench.disturbed} are in the figures, for want of quiet")
    print()
    print_table(bench.rows)
    if not args.names and not args.quick:
        write_page(bench, before)
    return 0


if __name__ == "__main__":
    sys.exit(main())
