"""What is in the wheel, and what an import of it costs."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import zipfile

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


def test_the_wheel_installs_where_glibc_is_2_34(wheel: pathlib.Path) -> None:
    spec = importlib.util.spec_from_file_location("wheel_check", ROOT / "scripts" / "wheel_check.py")
    assert spec and spec.loader
    check = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(check)
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
