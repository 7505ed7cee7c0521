"""The command `stoker` of an installed package, also as `python -m stoker`: it becomes the program."""

from __future__ import annotations

import os
import signal
import sys

from ._program import program_path


def main() -> None:
    """Run the program in place of this process, so arguments, signals and the exit code are its own."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these, and what is ignored stays so
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(program_path(), ["stoker", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"stoker: {error}")


if __name__ == "__main__":
    main()
