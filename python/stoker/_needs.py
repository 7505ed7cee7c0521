"""Packages of others, imported when somebody asks for what they give; a missing one is told in one sentence."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def library(name: str, what: str, instead: str = "") -> Any:
    """The module of that name. `what` needs it, as in "batches as NumPy arrays need"; `instead` is another way."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:  # it is there, and misses something itself
            raise
        advice = f"; {instead}" if instead else ""
        message = f"{what} the package {name}: pip install {name}{advice}"
    raise ModuleNotFoundError(message, name=name)
