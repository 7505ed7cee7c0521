#!/usr/bin/env python3
"""What a build says where libraries are missing: all of them at once, and how to get them: test_dependencies.py BUILD_DIR"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "scripts" / "libraries.txt"
# Meson finds these by their headers too, where they are installed.
WITHOUT_PKG_CONFIG = {"zlib", "gif_lib.h", "szlib.h"}


def table():
    rows = [line.split() for line in TABLE.read_text().splitlines() if not line.startswith("#")]
    return {name: (package, kind) for name, package, kind in rows}


def configure(*options):
    """What Meson says where pkg-config knows nothing and there is no CMake to ask."""
    env = dict(os.environ, PKG_CONFIG_LIBDIR="/nowhere", PKG_CONFIG_PATH="/nowhere", CMAKE="/nowhere/cmake")
    with tempfile.TemporaryDirectory(prefix="stoker-deps-") as place:
        done = subprocess.run(
            ["meson", "setup", place, str(ROOT), *options], check=False, capture_output=True, text=True, env=env
        )
    assert done.returncode != 0, done.stdout
    return done.stdout


def check(kinds, *options):
    rows, told = table(), configure(*options)
    missing = re.search(r"missing: (.*)", told)
    install = re.search(r"apt-get install (.*)", told)
    assert missing and install, told
    wanted = {name for name, (_, kind) in rows.items() if kind in kinds}
    names = set(missing[1].split(", "))
    assert wanted - WITHOUT_PKG_CONFIG <= names <= wanted, (names, wanted)
    assert set(install[1].split()) == {rows[name][0] for name in names}, told


def check_image():
    """What the image copies before the rest is there, and is all that deps.sh names."""
    image = (ROOT / "docker" / "Dockerfile").read_text()
    copied = {name for line in re.findall(r"COPY ((?:scripts|python)/.*) \S+/$", image, re.M) for name in line.split()}
    assert all((ROOT / name).is_file() for name in copied), copied
    script = (ROOT / "scripts" / "deps.sh").read_text()
    wanted = {"scripts/deps.sh", "python/requirements-wheel.txt", *re.findall(r"< (scripts/\S+)", script)}
    assert copied == wanted, (copied, wanted)


def main():
    if not shutil.which("meson"):
        print("skipped: there is no meson")
        return 77
    check({"build", "tests"})
    check({"build"}, "-Dtests=false")
    check({"build"}, "-Dpython=only")
    check_image()
    print("4 passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
