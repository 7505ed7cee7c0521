#!/usr/bin/env python3
"""Adds up the results of test runs and prints "N passed, N failed, N skipped":
summarize.py [--extra-skipped N] BUILD_DIR...

A test program that counts its own cases (cmocka, unittest, or a line like the one above) adds those; any other adds one.
"""
import glob
import json
import os
import re
import sys

CMOCKA = re.compile(r"\[ +(PASSED|FAILED|SKIPPED) +\] (\d+) test")
OWN = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.M)
UNITTEST = re.compile(r"^Ran (\d+) tests? in", re.M)
UNITTEST_PARTS = re.compile(r"(failures|errors|skipped|unexpected successes)=(\d+)")
PASSED = ("OK", "EXPECTEDFAIL")


def count_cmocka(output):
    counts = {"PASSED": 0, "FAILED": 0, "SKIPPED": 0}
    for word, number in CMOCKA.findall(output):
        counts[word] += int(number)
    return counts["PASSED"], counts["FAILED"], counts["SKIPPED"]


def count(test):
    """Cases of one test program that passed, failed and were skipped."""
    output = (test.get("stdout") or "") + "\n" + (test.get("stderr") or "")
    result = test["result"]
    if result == "SKIP":
        return 0, 0, 1
    own, ran = OWN.findall(output), UNITTEST.search(output)
    if own:
        passed, failed, skipped = (int(n or 0) for n in own[-1])
    elif CMOCKA.search(output):
        passed, failed, skipped = count_cmocka(output)
    elif ran:
        parts = dict(UNITTEST_PARTS.findall(output))
        skipped = int(parts.pop("skipped", 0))
        failed = sum(int(n) for n in parts.values())
        passed = int(ran.group(1)) - failed - skipped
    else:
        passed, failed, skipped = 1, 0, 0
        if result not in PASSED:
            passed = 0
    if result not in PASSED and not failed:
        failed = 1  # died after its last case, or before its first
    return passed, failed, skipped


def main():
    arguments = sys.argv[1:]
    extra = 0
    if arguments[:1] == ["--extra-skipped"]:
        extra, arguments = int(arguments[1]), arguments[2:]
    totals = [0, 0, extra]
    broken = []
    for directory in arguments:
        logs = glob.glob(os.path.join(directory, "meson-logs", "testlog*.json"))
        if not logs:
            broken.append(f"{directory}: no test results")
        for log in logs:
            with open(log, encoding="utf-8", errors="replace") as f:
                tests = [json.loads(line) for line in f if line.strip()]
            for test in tests:
                found = count(test)
                totals = [a + b for a, b in zip(totals, found)]
                if found[1]:
                    broken.append(f"{directory}: {test['name']}: {test['result']}")
    for line in broken:
        print(line)
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    sys.exit(1 if broken or not totals[0] else 0)


if __name__ == "__main__":
    main()
