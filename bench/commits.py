#!/usr/bin/env python3
"""Does `stoker bench --commits` find what became slower, and nothing else? A repository of eight commits, measured N times.

    bench/commits.py [--stoker build/stoker] [--times 20] [-- options for stoker bench]

The program of the repository sorts numbers, in C. Commit 3 makes it sort 8 % more of them, commit 6 10 % more again; the
others change a comment. Every time it is timed anew, with another order; builds are kept. Prints a line for each time
and how often each change was found. Exit code 1 unless all were, and nothing else.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

COUNTS = [200000, 200000, 200000, 216000, 216000, 216000, 237600, 237600]
CHANGES = {3: 0.08, 6: 0.10}

PROGRAM = """/* Commit %d. */
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = %d };
static unsigned numbers[COUNT];

static int order(const void *a, const void *b)
{
    const unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return x < y ? -1 : x > y;
}

int main(void)
{
    unsigned x = 1;
    for (int i = 0; i < COUNT; i++)
        numbers[i] = x = x * 1664525u + 1013904223u;
    qsort(numbers, COUNT, sizeof *numbers, order);
    printf("%%u\\n", numbers[COUNT / 2]);
    return 0;
}
"""


def git(repository, *args):
    subprocess.run(["git", "-c", "user.name=bench", "-c", "user.email=bench@localhost", *args], cwd=repository, check=True)


def make_repository(directory):
    repository = os.path.join(directory, "repository")
    git(directory, "init", "-q", "-b", "main", repository)
    for i, count in enumerate(COUNTS):
        with open(os.path.join(repository, "sort.c"), "w", encoding="utf-8") as file:
            file.write(PROGRAM % (i, count))
        git(repository, "add", "-A")
        git(repository, "commit", "-qm", "sort %d numbers" % count)
    return repository


def measure(stoker, repository, cache, seed, options):
    """The verdicts by commit, and the ratios."""
    command = [stoker, "bench", "--commits", "main~%d..main" % (len(COUNTS) - 1), "--build", "cc -O2 -o sort sort.c",
               "./sort", "--seed", str(seed), "--json", *options]
    done = subprocess.run(command, cwd=repository, env=dict(os.environ, XDG_CACHE_HOME=cache), stdout=subprocess.PIPE,
                          check=True)
    result = json.loads(done.stdout)
    return [commit["benchmarks"][0] for commit in result["commits"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stoker", default="build/stoker", help="the program (default build/stoker)")
    parser.add_argument("--times", type=int, default=20, help="how often (default 20)")
    parser.add_argument("options", nargs="*", help="for stoker bench, after --")
    args = parser.parse_args()
    stoker = shutil.which(args.stoker)
    if not stoker:
        sys.exit("commits.py: there is no program %s" % args.stoker)
    found, invented = dict.fromkeys(CHANGES, 0), 0
    with tempfile.TemporaryDirectory(prefix="stoker-commits-") as directory:
        repository = make_repository(directory)
        for time in range(args.times):
            figures = measure(os.path.abspath(stoker), repository, os.path.join(directory, "cache"), time + 1, args.options)
            words = []
            for i, figure in enumerate(figures[1:], 1):
                changed = figure["verdict"] not in ("equivalent", "inconclusive")
                right = changed and figure["verdict"].startswith("slower") and i in CHANGES
                if right:
                    found[i] += 1
                invented += changed and not right
                words.append("%s%.3f" % ("*" if changed else " ", figure["ratio"]))
            print("%2d  n=%-3d %s" % (time + 1, figures[1]["n"], " ".join(words)), flush=True)
    for i, times in found.items():
        print("commit %d, %g %% more work: found %d of %d times" % (i, 100 * CHANGES[i], times, args.times))
    print("changes that are none: %d of %d" % (invented, args.times * (len(COUNTS) - 1 - len(CHANGES))))
    return 0 if invented == 0 and all(times == args.times for times in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
