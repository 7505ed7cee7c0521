#!/usr/bin/env python3
"""Fails when a wheel is too large, or uses what the limited API of its tag does not have: wheel_check.py WHEEL"""
import json
import os
import subprocess
import sys

MAX_BYTES = 16 << 20
# Added to the limited API in 3.11 as they were: 3.10 exports them with the same arguments and the same Py_buffer, of
# which python/src/compat.h has a copy. The smoke test runs with a real 3.10.
ALLOWED = {"PyBuffer_Release", "PyObject_CheckBuffer", "PyObject_GetBuffer"}


def problems(wheel):
    size = os.path.getsize(wheel)
    if size > MAX_BYTES:
        yield f"{size} bytes, wanted at most {MAX_BYTES}"
    # It fails for the symbols above too, so its report is what counts.
    done = subprocess.run(["abi3audit", "--report", wheel], capture_output=True, text=True, check=False)
    if not done.stdout:
        yield f"abi3audit failed: {done.stderr}"
        return
    (spec,) = json.loads(done.stdout)["specs"].values()
    for module in spec["wheel"]:
        result = module["result"]
        later = set(result["future_abi3_objects"]) - ALLOWED
        if not result["is_abi3"] or result["non_abi3_symbols"] or later:
            yield f"{module['name']}: outside of the limited API: {result['non_abi3_symbols'] + sorted(later)}"
    if not spec["wheel"]:
        yield "no extension module"


def main():
    wheel = sys.argv[1]
    found = list(problems(wheel))
    for problem in found:
        print(f"{os.path.basename(wheel)}: {problem}", file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
