"""The workflows of examples/ci are run, step by step, in a repository with an origin: what people copy works.

Steps that `use` an action are not: what they bring (a checkout, a Python) is here already.
"""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
from typing import Any

import pytest

import stoker

yaml = pytest.importorskip("yaml")

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECIPES = sorted((ROOT / "examples" / "ci").glob("*.yml"))
GUIDE = ROOT / "docs" / "guide" / "benchmarks.md"
INSTALLED = any(point.name == "stoker" for point in importlib.metadata.entry_points(group="pytest11"))
TIMEOUT_S = 120
SHORT, LONG = "#!/bin/sh\nexec sleep 0.01\n", "#!/bin/sh\nexec sleep 0.05\n"


def load(path: pathlib.Path) -> dict[Any, Any]:
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


class Runner:
    """A clone with a pull request checked out, and the programs of a runner."""

    def __init__(self, place: pathlib.Path, build: pathlib.Path) -> None:
        self.place = place
        self.work = place / "work"
        self.out = place / "out"
        programs = place / "bin"
        programs.mkdir()
        plugin = "" if INSTALLED else "-p pytest_stoker"
        self.program(programs / "pip", f'echo "$@" >> "{place}/installed"')
        self.program(programs / "stoker", f'exec "{build}/stoker" "$@"')
        self.program(programs / "pytest", f'exec "{sys.executable}" -m pytest -p no:cacheprovider {plugin} "$@"')
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("GIT_", "PYTEST_", "STOKER_"))}
        self.env = {
            **kept,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "HOME": str(place),
            "GITHUB_STEP_SUMMARY": str(place / "summary"),
            "GITHUB_SHA": "0123abcd",
            "GIT_CONFIG_GLOBAL": os.devnull,
        }

    @staticmethod
    def program(path: pathlib.Path, text: str) -> None:
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def shell(self, script: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-e", "-c", script], cwd=self.work, env={**self.env, **env}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT_S,
        )  # fmt: skip

    def commit(self, name: str, text: str) -> None:
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        identity = "git -c user.name=toy -c user.email=toy@localhost"
        done = self.shell(f"git add --all && {identity} commit --quiet -m {name}")
        assert done.returncode == 0, done.stdout

    def start(self, files: dict[str, str]) -> None:
        """main on the origin, and a branch of it here."""
        self.work.mkdir()
        done = self.shell("git init --quiet --bare ../origin.git && git init --quiet -b main . && "
                          "git remote add origin ../origin.git")  # fmt: skip
        assert done.returncode == 0, done.stdout
        for name, text in files.items():
            self.commit(name, text)
        done = self.shell("git push --quiet origin main && git checkout --quiet -b feature")
        assert done.returncode == 0, done.stdout

    def run(self, recipe: dict[Any, Any], job: str, **stand_ins: str) -> tuple[int, str]:
        """Runs the steps of a job as a runner does: exit code of the first that failed, and all that was said."""
        failed, said = 0, ""
        for step in recipe["jobs"][job]["steps"]:
            if "run" not in step or (failed and step.get("if") != "always()"):
                continue
            env = {**recipe["env"], **step.get("env", {}), "OUT": str(self.out), **stand_ins}
            env = {key: str(value).replace("${{ github.base_ref }}", "main") for key, value in env.items()}
            assert "${{" not in step["run"] and not any("${{" in value for value in env.values()), step
            done = self.shell(step["run"], **env)
            said += done.stdout
            failed = failed or done.returncode
        return failed, said


@pytest.fixture
def runner(tmp_path: pathlib.Path, build: pathlib.Path) -> Runner:
    if not shutil.which("git"):
        pytest.skip("needs git")
    place = tmp_path / "runner"
    place.mkdir()
    return Runner(place, build)


COMMANDS = ROOT / "examples" / "ci" / "benchmarks.yml"
TESTS = ROOT / "examples" / "ci" / "benchmarks-pytest.yml"


@pytest.mark.parametrize("app, code", [(SHORT + "# as before\n", 0), (LONG, 3)])
def test_a_pull_request_is_compared_with_its_base(runner: Runner, app: str, code: int) -> None:
    runner.start({"app.in": SHORT, ".gitignore": "/app\n"})
    runner.commit("app.in", app)
    failed, said = runner.run(load(COMMANDS), "compare", BUILD="cp app.in app", COMMAND="./app")
    assert failed == code, said
    assert sorted(path.name for path in runner.out.iterdir()) == ["medians.json", "runs.json", "runs.svg", "summary.md"]
    summary = (runner.place / "summary").read_text()
    assert "verdict" in summary and ("| B is slower" in summary) == (code == 3), summary


def test_a_log_grows_by_a_row_each_night(runner: Runner) -> None:
    runner.start({"app": SHORT})
    for night in (1, 2):
        failed, said = runner.run(load(COMMANDS), "log", BUILD="true", COMMAND="./app")
        assert failed == 0, said
        rows = runner.shell("git -C ../origin.git show bench-log:PERF.csv").stdout.splitlines()
        assert len(rows) == 1 + night and rows[0].startswith("time,commit,"), rows
        names = runner.shell("git -C ../origin.git ls-tree --name-only bench-log").stdout.split()
        assert names == ["PERF.csv", "PERF.md", "PERF.svg"]
        runner.shell("git worktree remove --force ../bench-log && git branch -D bench-log")  # as on a fresh runner


@pytest.mark.parametrize("times, code", [(1, 0), (20, 1)])
def test_tests_are_compared_with_those_of_the_base(runner: Runner, times: int, code: int) -> None:
    code_of = "def work():\n    return [sum(range(200)) for _ in range({})]\n"
    test = "import toy\ndef test_work(stoker_bench): stoker_bench(toy.work)\ndef test_other(): assert 0\n"
    runner.start({"toy.py": code_of.format(1), "conftest.py": "", "tests/test_toy.py": test})
    runner.commit("toy.py", code_of.format(times) + "# changed\n")
    failed, said = runner.run(load(TESTS), "compare", PYTEST_ADDOPTS="--stoker-rounds=6")
    assert failed == code, said
    assert "1 deselected" in said and "test_work" in (runner.place / "summary").read_text()
    assert sorted(path.name for path in runner.out.iterdir()) == ["runs.json", "runs.svg", "summary.md"]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_recipes_are_safe_and_of_this_version(path: pathlib.Path) -> None:
    recipe = load(path)
    text = path.read_text(encoding="utf-8")
    assert recipe["permissions"] == {"contents": "read"}
    assert "pull_request_target" not in text
    assert f"stoker-{stoker.__version__}-cp310-abi3-" in recipe["env"]["STOKER"]
    for job in recipe["jobs"].values():
        assert job["timeout-minutes"] <= 60
        for step in job["steps"]:
            assert "${{" not in step.get("run", ""), "what comes from outside goes through the environment"
            assert "uses" not in step or re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"])


def test_actionlint_finds_nothing() -> None:
    """`make bench-check` installs it."""
    program = shutil.which("actionlint")
    if not program:
        pytest.skip("needs actionlint")
    done = subprocess.run([program, "-no-color", *map(str, RECIPES)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_guide_shows_what_the_files_say() -> None:
    shown = re.findall(r"<!-- from (examples/ci/\S+) -->\n\n```yaml\n(.*?)^```$", GUIDE.read_text("utf-8"), re.M | re.S)
    assert {name for name, _ in shown} == {f"examples/ci/{path.name}" for path in RECIPES}
    for name, block in shown:
        text = (ROOT / name).read_text(encoding="utf-8")
        assert textwrap.indent(block, "      ") in text, f"{name} has no such lines:\n{block}"
