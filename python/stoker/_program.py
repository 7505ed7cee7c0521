"""The program `stoker`, which lies in the package with all that it needs."""

from __future__ import annotations

import os


def program_path() -> str:
    """Where the program is; an error says what to do when it is missing."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "stoker")
    if not os.access(path, os.X_OK):
        what = "cannot be run" if os.path.exists(path) else "is missing"
        raise FileNotFoundError(f"{path} {what}; it belongs to the package stoker: install that again")
    return path
