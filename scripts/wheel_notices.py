#!/usr/bin/env python3
"""Puts the copyright notices of all that is inside a wheel into it, as their licences ask, and completes its list of
materials: wheel_notices.py WHEEL BUILD_DIR

auditwheel lists the packages of the libraries that it copied, as far as it finds them. What it does not see is added:
libraries that were linked statically, by the maps that the linker left in the build directory. Every part gets the
files that came of it, its licences and the place of its notice.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

NOTICES = "/usr/share/doc"
# Archives whose members became part of a program: "Archive member included to satisfy reference by file (symbol)".
MEMBER = re.compile(r"^(/\S+\.a)\(", re.M)
LICENSE = re.compile(r"^License:[ \t]*(\S.*?)\s*$", re.M)


def package_of(pattern):
    """The distribution's package that has a file, by its path or the end of it, with its version; None: no package."""
    done = subprocess.run(["dpkg", "-S", pattern], check=False, capture_output=True, text=True)
    names = {line.split(":")[0] for line in done.stdout.splitlines()}
    if len(names) != 1:
        return None
    (name,) = names
    ask = ["dpkg-query", "--show", "--showformat", "${Version}", name]
    return name, subprocess.run(ask, check=True, capture_output=True, text=True).stdout.split("\n")[0]


def shared_parts(root):
    """(file in the wheel, package) of each library that auditwheel copied. It put a digest into its name."""
    for path in sorted(glob.glob(os.path.join(root, "*.libs", "*"))):
        name = re.sub(r"-[0-9a-f]{8}(?=\.so)", "", os.path.basename(path))
        # Some are links in the distribution, and keep the name that they are asked for by.
        yield os.path.relpath(path, root), package_of(f"*/{name}") or package_of(f"*/{name}.*")


def static_parts(build):
    """(program or module, archive, package) of each archive that a linker took members of."""
    for path in sorted(glob.glob(os.path.join(build, "*", "link.map"))):
        with open(path, encoding="utf-8", errors="replace") as file:
            head = file.read().partition("\nMemory Configuration")[0]
        for archive in sorted({os.path.realpath(found) for found in MEMBER.findall(head)}):
            yield os.path.basename(os.path.dirname(path)), archive, package_of(archive) or package_of(f"*{archive[4:]}")


def licenses(package):
    """Names of licences, by the distribution's list; empty where it has the text alone."""
    with open(os.path.join(NOTICES, package, "copyright"), encoding="utf-8", errors="replace") as file:
        return sorted(set(LICENSE.findall(file.read())))


def new_component(package, version):
    purl = f"pkg:deb/debian/{package}@{urllib.parse.quote(version, safe='')}"
    return {"type": "library", "bom-ref": purl, "name": package, "version": version, "purl": purl}


def complete(part, info, property_name, value):
    """Adds to a component where it is, what it may be used for, and the notice."""
    properties = part.setdefault("properties", [])
    properties.append({"name": f"stoker:{property_name}", "value": value})
    notice = f"licenses/{part['name']}.txt"
    if not any(p["value"] == notice for p in properties):
        shutil.copy(os.path.join(NOTICES, part["name"], "copyright"), os.path.join(info, notice))
        properties.append({"name": "stoker:notice", "value": notice})
        names = licenses(part["name"]) or [f"see {notice}"]
        part["licenses"] = [{"license": {"name": name}} for name in names]


def add_parts(bom, info, found):
    """found: (property, value, package). Returns what nobody could be found for."""
    parts = {part["name"]: part for part in bom["components"]}
    own = bom["metadata"]["component"]["bom-ref"]
    needs = next(entry for entry in bom["dependencies"] if entry["ref"] == own)
    missing = []
    for property_name, value, package in found:
        if not package or not os.path.exists(os.path.join(NOTICES, package[0], "copyright")):
            missing.append(value)
            continue
        if package[0] not in parts:
            parts[package[0]] = new_component(*package)
            bom["components"].append(parts[package[0]])
            bom["dependencies"].append({"ref": parts[package[0]]["bom-ref"]})
            needs["dependsOn"].append(parts[package[0]]["bom-ref"])
        complete(parts[package[0]], info, property_name, value)
    return missing


def write_materials(root, build):
    (info,) = glob.glob(os.path.join(root, "*.dist-info"))
    (path,) = glob.glob(os.path.join(info, "sboms", "*.json"))
    with open(path, encoding="utf-8") as file:
        bom = json.load(file)
    found = [("file", name, package) for name, package in shared_parts(root)]
    linked = list(static_parts(build))
    found += [("linked-into", f"{place}: {os.path.basename(archive)}", package) for place, archive, package in linked]
    missing = add_parts(bom, info, found)
    if missing or not linked:
        sys.exit(f"wheel_notices.py: no package, or no notice, for {missing or 'what is linked statically'}")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(bom, file, indent=1)


def main():
    wheel, build = os.path.abspath(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as work:
        tool = [sys.executable, "-m", "wheel"]
        subprocess.run([*tool, "unpack", "-d", work, wheel], check=True, stdout=subprocess.DEVNULL)
        (root,) = glob.glob(os.path.join(work, "*"))
        write_materials(root, build)
        pack = [*tool, "pack", "-d", os.path.dirname(wheel), root]
        subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
