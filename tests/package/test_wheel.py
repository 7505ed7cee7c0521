"""What is in the wheel, and what an import of it costs."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import types
import zipfile
from typing import Any

import pytest

import stoker

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What an import must not bring along: libraries, and the slow half of Python's own.
HEAVY = (
    "numpy",
    "torch",
    "jax",
    "tensorflow",
    "pyarrow",
    "pandas",
    "polars",
    "inspect",
    "dataclasses",
    "typing",
    "json",
    "logging",
    "asyncio",
    "multiprocessing",
    "importlib.metadata",
)
PROGRAMS = ("stoker/bin/stoker", "stoker/libexec/stoker-hdf5")
ASK = "before = set(sys.modules); import stoker; print(*sorted(set(sys.modules) - before))"
ROUNDS = 7


def test_the_wheel_is_for_every_python_from_3_10_on(wheel: pathlib.Path) -> None:
    assert re.fullmatch(
        rf"stoker-{re.escape(stoker.__version__)}-cp310-abi3-manylinux_2_\d+_\w+\.whl", wheel.name
    ), wheel.name
    with zipfile.ZipFile(wheel) as archive:
        (info,) = (name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
        assert b"Root-Is-Purelib: false" in archive.read(info)
        metadata = archive.read(info.replace("WHEEL", "METADATA")).decode()
    assert f"\nVersion: {stoker.__version__}\n" in metadata
    assert "\nRequires-Python: >=3.10\n" in metadata
    needs = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:")]
    assert all("; extra ==" in line for line in needs), needs


def wheel_check() -> types.ModuleType:
    """scripts/wheel_check.py, which imports its neighbours."""
    spec = importlib.util.spec_from_file_location("wheel_check", ROOT / "scripts" / "wheel_check.py")
    assert spec and spec.loader
    check = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        spec.loader.exec_module(check)
    finally:
        sys.path.pop(0)
    return check


def test_the_wheel_installs_where_glibc_is_2_34(wheel: pathlib.Path) -> None:
    check = wheel_check()
    assert list(check.glibc_problems(str(wheel), 34)) == []
    # And the check sees what there is: this symbol came with 2.34.
    older = list(check.glibc_problems(str(wheel), 33))
    assert any("pthread_create wants glibc 2.34, promised is 2.33" in problem for problem in older), older
    assert any("the tag is 'manylinux_2_34_" in problem for problem in older), older


def test_the_wheel_has_the_package_and_nothing_else(wheel: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        programs = [archive.getinfo(name) for name in PROGRAMS]
    own = {
        f"stoker/{path.name}"
        for path in (ROOT / "python" / "stoker").iterdir()
        if path.suffix in (".py", ".pyi", ".typed")
    }
    inside = {name for name in names if name.startswith("stoker/")}
    assert inside == own | {"stoker/_core.abi3.so", *PROGRAMS}
    outside = {name for name in names - inside if not name.startswith(f"stoker-{stoker.__version__}.dist-info/")}
    outside.remove("pytest_stoker.py")  # not in the package, so that pytest reads it without importing that
    assert all(re.fullmatch(r"stoker\.libs/lib[\w.+-]+\.so[.\d]*", name) for name in outside), outside
    for program in programs:
        assert program.external_attr >> 16 & 0o111, f"{program.filename} must be executable"


def test_pytest_finds_the_plugin_of_the_wheel(wheel: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Installed into a place of its own: by the entry point, without an option."""
    place, tests = tmp_path / "installed", tmp_path / "tests"
    tests.mkdir()
    (tests / "test_it.py").write_text("def test_it(stoker_bench): assert stoker_bench(sum, [1, 2]) == 3\n")
    install = ["pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--no-index", "--target", str(place)]
    env = dict(os.environ, PYTHONPATH=str(place))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", *words]
        return subprocess.run(command, cwd=tests, env=env, capture_output=True, text=True, check=False)

    assert run(*install, str(wheel)).returncode == 0
    done = run("pytest", "--stoker-rounds", "3", "--stoker-json", "runs.json")
    assert done.returncode == 0 and "stoker: benchmarks" in done.stdout, done.stdout + done.stderr
    without = run("pytest", "-p", "no:stoker")
    assert "fixture 'stoker_bench' not found" in without.stdout, without.stdout


def test_bundled_libraries_bring_their_notices(wheel: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        notices = [name for name in names if ".dist-info/licenses/" in name and name.endswith(".txt")]
        assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
        assert all(b"opyright" in archive.read(name) for name in notices)
    libraries = [name for name in names if name.startswith("stoker.libs/")]
    assert len(notices) >= len(libraries), (notices, libraries)  # libhdf5 is inside of the helper program


def materials(wheel: pathlib.Path) -> dict[str, dict[str, Any]]:
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (name for name in archive.namelist() if ".dist-info/sboms/" in name)
        return {part["name"]: part for part in json.loads(archive.read(path))["components"]}


def test_every_binary_of_the_wheel_is_hardened(wheel: pathlib.Path) -> None:
    if not shutil.which("readelf"):
        pytest.skip("there is no readelf")
    check = wheel_check()
    names = {name for name, _ in check.binaries(str(wheel))}
    assert {"stoker/_core.abi3.so", *PROGRAMS} <= names, names
    assert list(check.hardening_problems(str(wheel))) == []


def test_all_that_is_inside_is_in_the_list_of_materials(wheel: pathlib.Path) -> None:
    assert list(wheel_check().material_problems(str(wheel))) == []
    parts = materials(wheel)
    with zipfile.ZipFile(wheel) as archive:
        libraries = {name for name in archive.namelist() if name.startswith("stoker.libs/")}
    listed = {p["value"] for part in parts.values() for p in part.get("properties", []) if p["name"] == "stoker:file"}
    assert listed == libraries
    # By the program itself: the version that is inside of it, and that nothing of it is loaded.
    with zipfile.ZipFile(wheel) as archive:
        inside = archive.read("stoker/libexec/stoker-hdf5")
    version = re.search(rb"HDF5 library version: (\d+\.\d+\.\d+)", inside)
    assert version, "no version of libhdf5 in the helper"
    (hdf5,) = (part for name, part in parts.items() if name.startswith("libhdf5"))
    assert hdf5["version"].startswith(version[1].decode()), (hdf5, version)
    assert any("BSD" in entry["license"]["name"] for entry in hdf5["licenses"]), hdf5


def test_what_is_missing_in_the_list_of_materials_is_seen(wheel: pathlib.Path, tmp_path: pathlib.Path) -> None:
    poorer = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as archive, zipfile.ZipFile(poorer, "w") as out:
        for name in archive.namelist():
            data = archive.read(name)
            if ".dist-info/sboms/" in name:
                bom = json.loads(data)
                bom["components"] = [p for p in bom["components"] if p["name"] not in ("libzstd1", "libhdf5-dev")]
                data = json.dumps(bom).encode()
            out.writestr(name, data)
    found = "\n".join(wheel_check().material_problems(str(poorer)))
    assert "libzstd" in found and "libhdf5, which is inside" in found, found


def test_only_the_init_function_is_exported() -> None:
    from stoker import _core

    out = subprocess.run(
        ["nm", "-D", "--defined-only", _core.__file__], check=True, capture_output=True, text=True
    ).stdout
    assert [line.split()[-1] for line in out.splitlines()] == ["PyInit__core"]


def fresh(*command: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter, with the package where this one has it."""
    env = dict(os.environ, PYTHONPATH=str(pathlib.Path(stoker.__file__).parents[1]))
    return subprocess.run([sys.executable, *command], check=True, capture_output=True, text=True, env=env)


def test_the_import_loads_little() -> None:
    loaded = fresh("-c", f"import sys; {ASK}").stdout.split()
    assert "stoker._core" in loaded
    heavy = [name for name in loaded if name in HEAVY or name.split(".")[0] in HEAVY]
    assert not heavy, heavy
    others = [name for name in loaded if not name.startswith("stoker")]
    assert len(others) <= 10, others
    assert len(loaded) - len(others) <= 15, loaded


def test_the_time_of_the_import_is_told() -> None:
    """The promise is less than 50 ms; times are shown, not judged."""
    times = []
    for _ in range(ROUNDS):
        log = fresh("-X", "importtime", "-c", "import stoker").stderr
        line = next(line for line in log.splitlines() if re.search(r"\|\s+stoker$", line))
        times.append(int(line.split("|")[1]))
    assert len(times) == ROUNDS and min(times) > 0
    print(
        f"\nimport stoker: {min(times) / 1000:.1f} ms at best, {sorted(times)[ROUNDS // 2] / 1000:.1f} ms in the middle"
    )
