"""What the benchmark scripts share: places, runs of contestants, and the suite file that `stoker bench` measures.

A script makes data, picks the fastest variant of each peer, checks that the answers are equal and describes its
comparisons; `stoker bench` takes the turns, does the statistics and writes the tables. A contestant is a command that
prints one JSON object as its last line.
"""
import argparse
import collections
import glob
import json
import os
import shlex
import shutil
import subprocess
import sys

# Commands have paths from the root, so that they can be read and run by hand.
os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = "build/bench-data"
TOOLS = "build/bench"
STOKER = "build/cli/stoker"
PEERS = "bench/peers"
PAGE = "docs/performance.md"

MIB = 1 << 20
# A round in which others took more of the machine's time than this is taken again.
QUIET = "3%"
THREADS = 2
# Unit and direction of what contestants print; wall is measured from outside.
METRICS = {"wall": ("s", False), "samples_per_s": ("samples/s", True), "mb_per_s": ("MB/s", True), "seconds": ("s", False),
           "first_batch_s": ("s", False), "bytes": ("bytes", False), "peak_bytes": ("bytes", False),
           "beyond_bytes": ("bytes", False), "peak_buffer_bytes": ("bytes", False)}


class Failed(Exception):
    """A contestant did not run, or did something else."""


# A contestant: what it is called in the table, and its command as a list of words.
Side = collections.namedtuple("Side", "title command")


# ---- contestants ----

def run_json(command):
    """The last object that it prints."""
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise Failed(f"{shlex.join(command)[:200]}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def python_of(venv):
    return os.path.join(venv, "bin", "python")


def peer(venv, script, *more):
    return [python_of(venv), os.path.join(PEERS, script), *map(str, more)]


def stoker_command(text, threads, *more):
    return [STOKER, "run", "-e", text, "--threads", str(threads), "--json", "--quiet", "--cache-dir",
            os.path.join(DATA, "index"), *more]


def checked(command, threads):
    """Runs it once, which also makes indexes and fills the page cache."""
    out = run_json(command)
    if out["end"] not in ("complete", "steps done") or out["skipped"] or out["threads"] != threads:
        raise Failed(f"stoker ended with {out}")
    return out


def stoker(title, text, threads, *more):
    command = stoker_command(text, threads, *more)
    checked(command, threads)
    return Side(title, command)


def stoker_for(title, text, threads, count, seconds, check=None):
    """A run of about so many seconds: {times} in the text becomes the number of epochs, of `count` samples each."""
    times = 1
    at = lambda: stoker_command(text.replace("{times}", str(times)), threads)
    checked(at(), threads)
    for share in (0.3, 1):
        out = checked(at(), threads)
        if check:
            check(out, times)
        times = max(1, round(share * seconds * out["samples_per_s"] / count))
    return Side(title, at())


def fastest(commands, metric="samples_per_s", tries=2):
    """Name of the best and {name: JSON of its best run}: noise must not choose a slower variant for a peer."""
    best = max if METRICS[metric][1] else min
    of = lambda out: out[metric]
    found = {name: best((run_json(command) for _ in range(tries)), key=of) for name, command in commands.items()}
    return best(found, key=lambda name: found[name][metric]), found


def same(what, mine, theirs):
    if mine != theirs:
        raise Failed(f"{what}: the answers differ: Stoker has {mine}, the other {theirs}")


# ---- data ----

def made(path, make):
    """The path, made when it is missing; half of it never stays."""
    if not os.path.exists(path):
        part = path + ".part"
        if os.path.isdir(part):
            shutil.rmtree(part)
        make(part)
        os.rename(part, path)
    return path


def files(folder, pattern="*"):
    return sorted(glob.glob(os.path.join(folder, pattern)))


# ---- the suite ----

def quoted(text):
    """A basic string of TOML: as in JSON, but DEL is not allowed either."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_value(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[\n" + "".join(f"    {toml_value(v)},\n" for v in value) + "]"
    return quoted(value) if isinstance(value, str) else repr(value)


def toml_lines(table):
    return [f"{key} = {toml_value(value)}" for key, value in table.items() if value is not None]


def metric_keys(name):
    unit, higher = METRICS[name]
    return {"metric": name, "unit": unit, "higher_is_better": higher}


def shell(command):
    return command if isinstance(command, str) else shlex.join(command)


class Suite:
    """Comparisons and limits in the order of the table; the words of `stoker bench`'s suite files."""

    def __init__(self, section, title, rounds, metric="samples_per_s"):
        self.section, self.title, self.rounds, self.metric, self.entries, self.notes = section, title, rounds, metric, [], []

    def add(self, kind, table, metric, target):
        if metric and metric != self.metric:
            table |= metric_keys(metric)
        limit, value = target if isinstance(target, tuple) else ("at_least", target)
        self.entries.append((kind, table | {limit: value}))
        print("  " + table["name"], flush=True)

    def compare(self, name, a, b, target=None, metric=None, **more):
        """How many times as good a is as b; target: the least."""
        self.add("compare", {"name": name, "a": shell(a.command), "b": shell(b.command), "a_name": a.title,
                             "b_name": b.title, **more}, metric, target)

    def measure(self, name, command, metric, target=None, **more):
        """target: ("at_most", 5) or ("at_least", 5), in the unit of the metric."""
        self.add("measure", {"name": name, "command": shell(command), **more}, metric, target)

    def note(self, text):
        self.notes.append(text)
        print("  " + text, flush=True)

    def text(self):
        """No warm-up: every command has run before, to be checked."""
        lines = toml_lines({"title": self.title, "rounds": self.rounds, "warmup": 0, "quiet": QUIET,
                            **metric_keys(self.metric), "notes": self.notes})
        for kind, table in self.entries:
            lines += ["", f"[[{kind}]]", *toml_lines(table)]
        return "\n".join(lines) + "\n"

    def write(self):
        os.makedirs(TOOLS, exist_ok=True)
        path = os.path.join(TOOLS, self.section + ".toml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(self.text())
        return path

    def run(self, into_page):
        """Measures; returns the exit code."""
        command = [STOKER, "bench", "--suite", self.write()]
        if into_page:
            command += ["--into", PAGE, "--section", self.section]
        print(shlex.join(command), flush=True)
        with subprocess.Popen(command) as process:
            while True:
                try:
                    return process.wait()
                except KeyboardInterrupt:
                    pass  # it was told, too, and reports what is finished


# ---- the command line ----

def load():
    with open("/proc/loadavg", encoding="ascii") as f:
        return f.read().split()[0]


def arguments(doc, works, rounds, options=None):
    """options: adds arguments of its own to the parser."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(works)}; all unless told")
    parser.add_argument("--rounds", type=int, default=rounds,
                        help=f"runs of each contestant ({rounds}); below 6 nothing can be said with 95 %% confidence")
    parser.add_argument("--quick", action="store_true", help="small sets, short and 3 rounds: to see that it works")
    parser.add_argument("--dry-run", action="store_true", help="write the suite file, and do not measure")
    if options:
        options(parser)
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in works]
    if unknown or args.rounds < 1:
        parser.error(f"no benchmark '{unknown[0]}'" if unknown else "wants 1 or more rounds")
    if args.quick:
        args.rounds = min(args.rounds, 3)
    return args


def main(suite, works, args):
    """Describes the works, measures them, and writes the page when all of them ran as they should."""
    suite.note(f"load before the run: {load()}")
    try:
        for name in args.names or works:
            print(f"{name}: {works[name].__doc__ or ''}".rstrip(": "), flush=True)
            works[name](suite, args)
        if args.dry_run:
            print(suite.write())
            return 0
        return suite.run(into_page=not args.names and not args.quick)
    except Failed as e:
        print(f"{os.path.basename(sys.argv[0])}: {e}", file=sys.stderr)
        return 1
