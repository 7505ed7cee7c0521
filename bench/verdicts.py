#!/usr/bin/env python3
"""How often is `stoker bench` right? Real runs of programs whose difference is known, on a machine made busy.

    bench/verdicts.py [--stoker build/stoker] [--times 40] [--load N]

Two small programs in C: one computes, one sleeps and now and then sleeps longer. While they are compared, N loops (as
many as there are CPUs unless told) keep the machine busy. Prints a row of verdicts for each question.
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile

PROGRAMS = {
    "busy": """#include <stdlib.h>
int main(int c, char **v)
{
    volatile unsigned x = 1;
    for (long i = 0, n = atol(v[1]); i < n; i++)
        x = x * 1664525u + 1013904223u;
    return c != 2;
}
""",
    # wait MS CHANCE TIMES: sleeps, by that chance so many times as long
    "wait": """#define _GNU_SOURCE
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(int c, char **v)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    srand48(t.tv_nsec ^ getpid());
    for (int i = 0; i < 5; i++)
        drand48();
    const double s = atof(v[1]) / 1e3 * (drand48() < atof(v[2]) ? atof(v[3]) : 1);
    t = (struct timespec){(time_t)s, (long)((s - (long)s) * 1e9)};
    nanosleep(&t, NULL);
    return c != 4;
}
""",
}

# What is asked, rounds, how many times the usual number of sessions, options, both commands.
QUESTIONS = [
    ("the same program, no minimum effect", 20, 5, ["--min-effect", "0%"], "./busy 4000000", "./busy 4000000"),
    ("5 % more work", 12, 1, [], "./busy 4000000", "./busy 4200000"),
    ("5 % more work", 20, 1, [], "./busy 4000000", "./busy 4200000"),
    ("5 % more work, by CPU time", 20, 1, ["--metric", "cpu"], "./busy 4000000", "./busy 4200000"),
    ("10 % longer; 10 % of the runs of both take three times as long", 20, 1, [], "./wait 10 0.1 3", "./wait 11 0.1 3"),
    ("as long, but twice as long in 30 % of its runs", 30, 1, [], "./wait 10 0 1", "./wait 10 0.3 2"),
]


def make_programs(directory):
    for name, text in PROGRAMS.items():
        source = os.path.join(directory, name + ".c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-o", os.path.join(directory, name), source], check=True)


def verdict(stoker, directory, rounds, options, a, b):
    words = [stoker, "bench", "-q", "--json", "--rounds", str(rounds), "-n", "a", "-n", "b", *options, a, b]
    done = subprocess.run(words, cwd=directory, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["comparisons"][0]["verdict"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stoker", default="build/stoker")
    parser.add_argument("--times", type=int, default=40)
    parser.add_argument("--load", type=int, default=os.cpu_count())
    options = parser.parse_args()
    stoker = os.path.abspath(options.stoker)
    with tempfile.TemporaryDirectory() as directory:
        make_programs(directory)
        busy = [subprocess.Popen("while :; do ./busy 20000000; done", shell=True, cwd=directory, start_new_session=True)
                for _ in range(options.load)]
        try:
            print("| what B is | rounds | verdicts |\n|---|---|---|")
            for what, rounds, share, extra, a, b in QUESTIONS:
                times = options.times * share
                found = collections.Counter(verdict(stoker, directory, rounds, extra, a, b) for _ in range(times))
                told = ", ".join("%s %d" % item for item in found.most_common())
                print("| %s | %d | %s of %d |" % (what, rounds, told, times), flush=True)
        finally:
            for process in busy:
                os.killpg(process.pid, 9)


if __name__ == "__main__":
    sys.exit(main())
