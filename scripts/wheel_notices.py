#!/usr/bin/env python3
"""Puts the copyright notices of the libraries inside a wheel into it, as their licences ask: wheel_notices.py WHEEL"""

import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

# Linked statically, so nothing in the wheel names them.
STATIC = ["libhdf5-dev"]


def bundled(directory):
    """Packages of the distribution whose libraries auditwheel copied, by its own list of materials."""
    names = set()
    for path in glob.glob(os.path.join(directory, "*.dist-info", "sboms", "*.json")):
        with open(path, encoding="utf-8") as file:
            parts = json.load(file)["components"]
        names |= {part["name"] for part in parts if part.get("purl", "").startswith("pkg:deb/")}
    return names


def main():
    wheel = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(
            [sys.executable, "-m", "wheel", "unpack", "-d", work, wheel], check=True, stdout=subprocess.DEVNULL
        )
        (root,) = glob.glob(os.path.join(work, "*"))
        (info,) = glob.glob(os.path.join(root, "*.dist-info"))
        names = bundled(root)
        libraries = glob.glob(os.path.join(root, "*.libs", "*"))
        missing = []
        for name in sorted(names | set(STATIC)):
            notice = os.path.join("/usr/share/doc", name, "copyright")
            if os.path.exists(notice):
                shutil.copy(notice, os.path.join(info, "licenses", name + ".txt"))
            else:
                missing.append(notice)
        if missing or (libraries and not names):
            print(
                f"wheel_notices.py: no notice for some of {len(libraries)} libraries; missing: {missing}",
                file=sys.stderr,
            )
        subprocess.run(
            [sys.executable, "-m", "wheel", "pack", "-d", os.path.dirname(wheel), root],
            check=True,
            stdout=subprocess.DEVNULL,
        )


if __name__ == "__main__":
    main()
