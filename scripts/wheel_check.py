#!/usr/bin/env python3
"""Fails when a wheel is too large, wants a newer glibc than we promise, uses what the limited API of its tag does not
have, has a binary without hardening, or a library that its list of materials does not name: wheel_check.py WHEEL"""
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile

import check_hardening

MAX_BYTES = 8 << 20
# That of RHEL 9 and Amazon Linux 2023. Debian 12's own libraries, which are in the wheel, want 2.34 for pthread_create.
GLIBC = 34
# Added to the limited API in 3.11 as they were: 3.10 exports them with the same arguments and the same Py_buffer, of
# which python/src/compat.h has a copy. The smoke test runs with a real 3.10.
ALLOWED = {"PyBuffer_Release", "PyObject_CheckBuffer", "PyObject_GetBuffer"}
NEWER = re.compile(r"(\S+)@GLIBC_2\.(\d+)")


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def binaries(wheel):
    """(name in the wheel, path of a copy) of each program and library."""
    with tempfile.TemporaryDirectory() as place, zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            path = archive.extract(name, place)
            if not os.path.isdir(path) and is_elf(path):
                yield name, path


def newer_symbols(wheel, most):
    """What of the wheel wants a glibc above 2.`most`: (file, minor version, symbol)."""
    for name, path in binaries(wheel):
        done = subprocess.run(["nm", "-D", "--undefined-only", path], capture_output=True, text=True, check=True)
        for symbol, minor in NEWER.findall(done.stdout):
            if int(minor) > most:
                yield name, int(minor), symbol


def glibc_problems(wheel, most=GLIBC):
    """By the symbols, and by the tag, which is what pip looks at."""
    for name, minor, symbol in newer_symbols(wheel, most):
        yield f"{name}: {symbol} wants glibc 2.{minor}, promised is 2.{most}"
    tag = re.search(r"-manylinux_2_(\d+)_\w+\.whl$", wheel)
    if not tag or int(tag[1]) > most:
        found = os.path.basename(wheel).rpartition("-")[2]
        yield f"the tag is '{found}', wanted manylinux_2_{most} or lower; Debian 12 makes that, as in docker/Dockerfile"


def api_problems(wheel):
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


def hardening_problems(wheel):
    """Our own files have all of it; the distribution's libraries are as it built them."""
    for name, path in binaries(wheel):
        own = name.startswith("stoker/")
        for problem in check_hardening.own_problems(path) if own else check_hardening.layout_problems(path):
            yield f"{name} {problem}"


def material_problems(wheel):
    """Every library that lies in the wheel or was linked statically has a version, licences and a notice."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (path,) = (name for name in names if re.search(r"\.dist-info/sboms/.*\.json$", name))
        parts = json.loads(archive.read(path))["components"]
    info, listed, static = path.partition("/")[0], set(), set()
    for part in (part for part in parts if part["purl"].startswith("pkg:deb/")):
        told = [(entry["name"], entry["value"]) for entry in part.get("properties", [])]
        listed |= {value for name, value in told if name == "stoker:file"}
        static |= {part["name"] for name, value in told if name == "stoker:linked-into"}
        notices = [value for name, value in told if name == "stoker:notice"]
        if not part["version"] or not part.get("licenses") or [n for n in notices if f"{info}/{n}" in names] == []:
            yield f"{part['name']}: no version, licence or notice in {path}"
    for name in sorted(name for name in names if ".libs/" in name and name not in listed):
        yield f"{name} is not in {path}"
    if not any(name.startswith("libhdf5") for name in static):
        yield f"libhdf5, which is inside of stoker-hdf5, is not in {path}"


def problems(wheel):
    size = os.path.getsize(wheel)
    if size > MAX_BYTES:
        yield f"{size} bytes, wanted at most {MAX_BYTES}"
    yield from glibc_problems(wheel)
    yield from api_problems(wheel)
    yield from hardening_problems(wheel)
    yield from material_problems(wheel)


def main():
    wheel = sys.argv[1]
    found = list(problems(wheel))
    for problem in found:
        print(f"{os.path.basename(wheel)}: {problem}", file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
