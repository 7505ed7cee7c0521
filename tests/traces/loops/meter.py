"""Times a training loop from inside: how much of each step goes into fetching data, by time.perf_counter()."""
import json
import multiprocessing
import os
import statistics
import sys
import time


class Meter:
    """start(), the fetch, fetched(), the work, stop(): once for each step. Other fetches: fetching(), fetched().

    `work.value` is how many seconds a step works without its fetches, lately. Fetches that last a multiple of it are
    the same share of a step however busy the machine is; worker processes see it too.
    """

    def __init__(self):
        self.steps = []  # [start, seconds of fetching, stop]
        self.began = 0.0
        self.work = multiprocessing.RawValue("d", 0.05)

    def start(self):
        self.began = time.perf_counter()
        self.steps.append([self.began, 0.0, None])

    def fetching(self):
        self.began = time.perf_counter()

    def fetched(self):
        self.steps[-1][1] += time.perf_counter() - self.began

    def stop(self):
        self.steps[-1][2] = time.perf_counter()
        self.work.value = statistics.median(stop - start - wait for start, wait, stop in self.steps[-3:])

    def write(self, first=0, count=None):
        """Of the steps that were profiled; standard output is for nothing else."""
        steps = self.steps[first:None if count is None else first + count]
        line = json.dumps([[start, wait, stop - start] for start, wait, stop in steps])
        sys.stdout.write(line + "\n")  # at once: ranks share it
        sys.stdout.flush()


def part(share):
    """How many times the work a fetch must last to be that share of the step."""
    return share / (1 - share)


def run_until_stopped(meter, step):
    """Steps until there is a file "stop"; says when they have become regular."""
    for _ in range(10):
        step()
    print("ready", flush=True)
    while not os.path.exists("stop"):
        step()
    meter.write()
