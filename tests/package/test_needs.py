"""Packages of others that are missing: one sentence says which, and what to do."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

import stoker
from stoker import _needs

BATCHES = (
    "batches as NumPy arrays need the package numpy: pip install numpy; "
    "pipe.dlpack() gives them without, to all that take DLPack"
)


def run_without(missing: str, code: str) -> str:
    """What the last line of an error says, in a process where a package cannot be imported."""
    program = f"import sys; sys.modules[{missing!r}] = None\nimport stoker\npipe = stoker.range(4).batch(2)\n{code}\n"
    env = dict(os.environ, PYTHONPATH=str(pathlib.Path(stoker.__file__).parents[1]))
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, env=env)
    return done.stderr.strip().rpartition("\n")[2] if done.returncode else done.stdout


@pytest.mark.parametrize(
    "code", ["for batch in pipe: pass", "pipe.first()", "list(pipe.numpy())", "for b in pipe.loader(): pass"]
)
def test_batches_without_numpy(code: str) -> None:
    assert run_without("numpy", code) == "ModuleNotFoundError: " + BATCHES


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("stoker.source([1, 2])", "stoker.source takes Python data by NumPy arrays, and needs"),
        ("stoker.range(4).map(lambda s: s)", "functions of map get samples as NumPy arrays, and need"),
        ("pipe.map(lambda s: s)", "functions of map get samples as NumPy arrays, and need"),
    ],
)
def test_functions_without_numpy(code: str, what: str) -> None:
    assert run_without("numpy", code) == f"ModuleNotFoundError: {what} the package numpy: pip install numpy"


@pytest.mark.parametrize(("format", "name"), [("torch", "PyTorch"), ("jax", "JAX"), ("tensorflow", "TensorFlow")])
def test_batches_without_a_framework(format: str, name: str) -> None:
    said = run_without(format, f"list(pipe.{format}())")
    kind = "arrays" if format == "jax" else "tensors"
    assert said == f"ModuleNotFoundError: batches as {name} {kind} need the package {format}: pip install {format}"


def test_dlpack_needs_none() -> None:
    said = run_without("numpy", "print([x for batch in pipe.dlpack() for x in batch['value'].tolist()])")
    assert said == "[0, 1, 2, 3]\n"


def test_a_package_that_misses_something_says_so(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_there.py").write_text("import what_it_wants")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="No module named 'what_it_wants'"):
        _needs.library("half_there", "this needs")
