"""What the tests of frameworks share."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest

Launch = Callable[..., list[Any]]  # the fixture of conftest.py


def needs(*packages: str) -> None:
    """Skips what needs a package that is not there. Nothing is imported: not all of them get on in one process."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}", allow_module_level=True)
