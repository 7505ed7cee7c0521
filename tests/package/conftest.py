"""What the tests of the package share: a place of their own to work in, and no launcher around them."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAUNCHERS = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "SLURM_PROCID",
    "SLURM_NTASKS",
)

if os.environ.get("STOKER_SANITIZED"):
    # Large libraries that were built without the sanitizer, and do not start or end well under it.
    for name in ("jax", "polars", "duckdb", "torch", "tensorflow"):
        sys.modules[name] = None  # type: ignore[assignment]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With a sanitizer, leaves out what its own allocator spoils."""
    if not os.environ.get("STOKER_SANITIZED"):
        return
    reasons = {
        "forks": "a lock of the sanitizer's allocator may be held for ever in a child of a program with threads",
        "memory": "the sanitizer keeps what is freed for a while",
    }
    for item in items:
        for mark, reason in reasons.items():
            if item.get_closest_marker(mark):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def _own_place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test runs in a directory of its own, with its own cache, and as the only rank."""
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    yield


@pytest.fixture(scope="session")
def build() -> pathlib.Path:
    """The build directory, for what only the program can do; the test is skipped without one."""
    place = pathlib.Path(os.environ.get("STOKER_BUILD", ROOT / "build"))
    if not (place / "stoker").exists():
        pytest.skip(f"needs {place}/stoker")
    return place


@pytest.fixture(scope="session")
def wheel() -> pathlib.Path:
    """The wheel that `make wheel` made; the test is skipped without one."""
    found = sorted((ROOT / "dist").glob("stoker-*.whl"))
    if not found or os.environ.get("STOKER_PACKAGE") == "build":
        pytest.skip("needs dist/*.whl: run `make wheel`")
    return found[-1]


def pytest_report_header() -> str:
    import stoker

    return f"stoker {stoker.__version__} from {pathlib.Path(stoker.__file__).parent}, Python {sys.version.split()[0]}"
