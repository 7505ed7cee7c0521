"""Ops as methods: all of the registry, with what the registry says, and examples that run."""

from __future__ import annotations

import inspect
import json
import keyword
import pathlib
import re
import subprocess
import sys
import textwrap
from typing import Any

import pytest

import stoker
from stoker import _core, _ops

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPS: list[dict[str, Any]] = [op for op in json.loads(_core.ops_json()) if op["group"] != "python"]
NAMES = [op["name"] for op in OPS]
EXAMPLE = re.compile(r"^Example::\n\n((?:    .*\n?)+)", re.M)


def method(op: dict[str, Any]) -> Any:
    return getattr(_ops if op["role"] == "source" else _ops.PipelineOps, op["name"], None)


def example(op: dict[str, Any]) -> str:
    found = EXAMPLE.search(inspect.getdoc(method(op)) or "")
    assert found, f"{op['name']} has no example"
    return textwrap.dedent(found[1])


def test_the_generated_files_are_what_the_registry_says(build: pathlib.Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "gen_python.py", build, "--check"],
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_check_of_the_generated_files_can_fail(build: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "python" / "stoker").mkdir(parents=True)
    script = tmp_path / "scripts" / "gen_python.py"
    script.write_bytes((ROOT / "scripts" / "gen_python.py").read_bytes())
    for name in "_ops.py", "_ops.pyi":
        text = (ROOT / "python" / "stoker" / name).read_text(encoding="utf-8")
        (tmp_path / "python" / "stoker" / name).write_text(text.replace("seed: int", "sead: int"), encoding="utf-8")
    done = subprocess.run([sys.executable, script, build, "--check"], text=True, capture_output=True, check=False)
    assert done.returncode != 0 and "_ops.py and _ops.pyi" in done.stderr


@pytest.mark.parametrize("op", OPS, ids=NAMES)
def test_every_op_is_a_method_with_its_options(op: dict[str, Any]) -> None:
    function = method(op)
    assert function is not None, f"{op['name']} is not there: run scripts/gen_python.py"
    assert (inspect.getdoc(function) or "").startswith(op["summary"].split("\n")[0][:40])
    signature = inspect.signature(function)
    names = [name.rstrip("_") for name in signature.parameters if name not in ("self", "unnamed")]
    assert sorted(names) == sorted(option["name"] for option in op["options"])
    for option in op["options"]:
        parameter = signature.parameters[option["name"] + ("_" if keyword.iskeyword(option["name"]) else "")]
        free = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        assert free or (parameter.default is parameter.empty) == option["required"]
        if not option["required"] and not free:
            assert parameter.default == option["default"]
        assert parameter.annotation is not parameter.empty


def test_sources_are_functions_of_the_package() -> None:
    for op in OPS:
        assert (op["name"] in _ops.SOURCES) == (op["role"] == "source")
        if op["role"] == "source":
            assert getattr(stoker, op["name"]) is method(op)


def test_help_shows_the_signature() -> None:
    assert str(inspect.signature(stoker.Pipeline.skip)) == "(self, count: 'int') -> 'Pipeline'"
    assert "seed of the permutation" in (stoker.Pipeline.shuffle.__doc__ or "")


@pytest.mark.parametrize("op", OPS, ids=NAMES)
def test_the_example_says_the_same_as_that_of_the_registry(op: dict[str, Any]) -> None:
    pipe = eval(example(op), {"stoker": stoker})
    assert isinstance(pipe, stoker.Pipeline)
    wanted = [name for name, *_ in _core.text_ops(op["example"])]
    assert [name for name, *_ in _core.text_ops(str(pipe))] == wanted


def examples_without_files() -> list[dict[str, Any]]:
    return [op for op in OPS if op["example"].startswith("range(") and op["role"] != "sink"]


@pytest.mark.parametrize("op", examples_without_files(), ids=lambda op: op["name"])
def test_examples_that_need_no_files_run(op: dict[str, Any]) -> None:
    pipe = eval(example(op), {"stoker": stoker})
    if op["role"] == "source":
        assert pipe.run()
        return
    rows = sum(len(next(iter(batch.values()))) for batch in pipe.numpy())
    assert rows > 0


@pytest.mark.parametrize(
    "op", [op for op in OPS if op["role"] == "sink" and op["example"].startswith("range(")], ids=lambda op: op["name"]
)
def test_examples_of_sinks_write(op: dict[str, Any], tmp_path: pathlib.Path) -> None:
    pathlib.Path("out").mkdir()
    eval(example(op), {"stoker": stoker}).run()
    files = [path for path in pathlib.Path("out").rglob("*") if path.is_file()]
    assert bool(files) == op["name"].startswith("write_")


def test_a_seed_goes_by_name() -> None:
    pipe = stoker.range(4)
    with pytest.raises(TypeError, match="shuffle: write seed=1000: a number alone could be meant as a size of a buffer"):
        pipe.shuffle(1000)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="seed: wanted a number: .*random.randrange"):
        pipe.shuffle(seed=None)  # type: ignore[arg-type]


def test_the_seed_of_the_run_changes_orders_that_are_drawn_anew() -> None:
    def order(pipe: stoker.Pipeline, seed: int) -> list[int]:
        return [v for b in pipe.batch(50).loader(seed=seed) for v in b["value"].tolist()]

    drawn, fixed = stoker.range(50).shuffle(seed=1), stoker.range(50).shuffle(seed=1, reshuffle=False)
    assert order(drawn, 0) != order(drawn, 5) and order(drawn, 5) == order(drawn, 5)
    assert order(fixed, 0) == order(fixed, 5)
