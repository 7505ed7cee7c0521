"""Types of the package and of programs that use it, as mypy and pyright see them."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import stoker

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = pathlib.Path(stoker.__file__).resolve().parent  # of the sources, where the build has links to them
STUBTEST = (
    "--ignore-missing-stub",
    "--ignore-disjoint-bases",
    "--ignore-unused-allowlist",
    "--allowlist",
    "../allowed",
)
# Where the stub is right all the same: a method that Python makes of the buffer slots from 3.12 on, and attributes that
# are None in the class but never in an exception.
ALLOWED = ("stoker._core.Column.__buffer__", "stoker._core.Error.message", "stoker._core.Error.status")
PROGRAMS = ("typed_example.py", "typed_mistakes.py")
# Modules of other people, which the package imports where it is asked for them.
OTHERS = ["jax", "ml_dtypes", "pandas", "polars", "pyarrow", "tensorflow"]
TORCH_DATA = """
from typing import Any, Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)

class IterableDataset(Generic[T_co]): ...

def __getattr__(name: str) -> Any: ...
"""


def copy_all(place: pathlib.Path) -> None:
    """The package and the programs, where nothing else lies and no tool takes them for installed ones.

    With stand-ins for the types of PyTorch, so that the outcome does not depend on what is installed.
    """
    data = place / "typings" / "torch" / "utils" / "data"
    data.mkdir(parents=True)
    for folder in data.parents[1], data.parent:
        (folder / "__init__.pyi").write_text("from typing import Any\n\ndef __getattr__(name: str) -> Any: ...\n")
    (data / "__init__.pyi").write_text(TORCH_DATA)
    shutil.copytree(PACKAGE, place / "stoker", ignore=shutil.ignore_patterns("*.so", "bin", "libexec", "__pycache__"))
    shutil.copy(PACKAGE.parent / "pytest_stoker.py", place)
    for name in PROGRAMS:
        shutil.copy(HERE / name, place)


def run(place: pathlib.Path, *command: object, cwd: str = ".") -> subprocess.CompletedProcess[str]:
    env = dict(os.environ, MYPYPATH=f"{place}{os.pathsep}{place / 'typings'}")
    words = [str(word) for word in command]
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=place / cwd, env=env, text=True, capture_output=True, check=False
    )


@pytest.fixture(scope="module")
def mypy_place(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """With a configuration, and a cache that the tests share."""
    pytest.importorskip("mypy")
    place = tmp_path_factory.mktemp("mypy")
    copy_all(place)
    (place / "away").mkdir()
    (place / "allowed").write_text("\n".join(ALLOWED) + "\n")
    missing = "".join(f"[mypy-{name}.*]\nignore_missing_imports = True\nfollow_imports = skip\n" for name in OTHERS)
    (place / "mypy.ini").write_text(f"[mypy]\nstrict = True\npython_version = 3.10\n{missing}")
    return place


def pyright(place: pathlib.Path, *names: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("pyright")
    copy_all(place)
    rules = {"reportMissingImports": "none", "reportMissingModuleSource": "none"}
    config = {"include": names, "exclude": [], "pythonVersion": "3.10", "typeCheckingMode": "basic", **rules}
    (place / "pyrightconfig.json").write_text(json.dumps(config))
    done = run(place, "pyright", "--pythonpath", sys.executable)
    if done.returncode > 1:
        pytest.skip(f"pyright does not start here: {done.stderr.strip()[-200:]}")
    return done


def mistakes(path: pathlib.Path) -> set[int]:
    return {number for number, line in enumerate(path.read_text().splitlines(), 1) if line.endswith("# mistake")}


def test_mypy_finds_nothing_in_the_package(mypy_place: pathlib.Path) -> None:
    done = run(mypy_place, "mypy", "-p", "stoker", "-m", "pytest_stoker")
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_understands_a_program(mypy_place: pathlib.Path) -> None:
    done = run(mypy_place, "mypy", "typed_example.py")
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_finds_mistakes_of_programs(mypy_place: pathlib.Path) -> None:
    done = run(mypy_place, "mypy", "typed_mistakes.py")
    found = {int(number) for number in re.findall(r"typed_mistakes\.py:(\d+): error", done.stdout)}
    assert found == mistakes(HERE / "typed_mistakes.py"), done.stdout


@pytest.mark.parametrize("module", ["stoker._ops", "stoker._core"])
def test_stubs_are_what_the_modules_have(module: str, mypy_place: pathlib.Path) -> None:
    # Not beside the copy, which has no extension module: this one imports.
    done = run(
        mypy_place, "mypy.stubtest", module, "--mypy-config-file", mypy_place / "mypy.ini", *STUBTEST, cwd="away"
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_pyright_finds_nothing_in_the_package(tmp_path: pathlib.Path) -> None:
    done = pyright(tmp_path, "stoker", "pytest_stoker.py")
    assert done.returncode == 0, done.stdout


def test_pyright_understands_a_program_and_finds_mistakes(tmp_path: pathlib.Path) -> None:
    done = pyright(tmp_path, *PROGRAMS)
    found = {(name, int(number)) for name, number in re.findall(r"(\w+)\.py:(\d+):\d+ - error", done.stdout)}
    assert found == {("typed_mistakes", number) for number in mistakes(HERE / "typed_mistakes.py")}, done.stdout
