"""One side of --stoker-against: a pytest that runs the tests it is told to, and times their benchmarks when asked.

Both ends of a socket say lines of JSON. In order:

    here    {"items": [nodeid, ...], "errors": {nodeid: text}}      after collection
    there   {"item": nodeid, "next": nodeid or null}                run this test; fixtures of the next one stay
    here    {"ready": name}                                         the test has come to a benchmark
    there   {"do": "time"}                                          one burst
    here    {"seconds": x, "bursts": n}
    there   {"do": "go on"}                                         the test goes on to its next benchmark, or its end
    here    {"finished": outcome, "why": text, "compares": bool}    it compared functions itself: not done here
    there   {"do": "end"}
    here    {"modules": [path, ...]}                                what was imported, by file

The end of the socket ends the process.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import TYPE_CHECKING, Any

import pytest

from ._pytest_bench import Mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from . import bench
    from ._pytest_bench import Bench, Timer

MOST_BYTES = 1 << 26  # of one message


class Gone(Exception):
    """The other side has ended."""


class Wire:
    """One end of the socket."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._file = end.makefile("rb")

    def send(self, message: dict[str, Any]) -> None:
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise Gone(str(error)) from error

    def receive(self) -> dict[str, Any]:
        try:
            line = self._file.readline(MOST_BYTES)
        except OSError as error:
            raise Gone(str(error)) from error
        if not line.endswith(b"\n"):
            raise Gone("it has ended")
        found = json.loads(line)
        assert isinstance(found, dict)
        return found

    def close(self) -> None:
        self._file.close()
        self._socket.close()


class Serve(Mode):
    """Told by the other side of the socket."""

    def __init__(self, fd: int) -> None:
        self._wire = Wire(socket.socket(fileno=fd))
        self._errors: dict[str, str] = {}
        self._outcome, self._why = "passed", ""
        self._compares = False

    def compare(self, name: str, functions: Sequence[Timer], options: dict[str, Any]) -> bench.Comparison:
        self._compares = True
        return super().compare(name, functions, options)

    def measure(self, bench: Bench, name: str, timer: Timer, rounds: int | None) -> Any:
        given = timer.call()
        self._tell({"ready": name})
        while self._ask() == "time":
            seconds = timer.burst()
            self._tell({"seconds": seconds, "bursts": timer.bursts})
        return given

    def _tell(self, message: dict[str, Any]) -> None:
        try:
            self._wire.send(message)
        except Gone as gone:
            pytest.exit(f"stoker: {gone}", returncode=1)

    def _receive(self) -> dict[str, Any]:
        try:
            return self._wire.receive()
        except Gone as gone:
            pytest.exit(f"stoker: {gone}", returncode=1)

    def _ask(self) -> str:
        return str(self._receive()["do"])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._errors[report.nodeid] = last_words(report.longreprtext)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed and self._outcome == "passed":
            skipped = report.longrepr if isinstance(report.longrepr, tuple) else None  # path, line, reason
            self._outcome = report.outcome
            self._why = skipped[2] if skipped else last_words(report.longreprtext)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        self._tell({"items": list(items), "errors": self._errors})
        while "item" in (message := self._receive()):
            self._outcome, self._why, self._compares = "passed", "", False
            item, following = items[message["item"]], items.get(message["next"] or "")
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            self._tell({"finished": self._outcome, "why": self._why, "compares": self._compares})
        self._tell({"modules": files_of_modules()})
        return True


def last_words(text: str) -> str:
    """The line that says what went wrong: pytest marks it with an E."""
    lines = [line for line in text.splitlines() if line.strip()]
    marked = [line[1:].strip() for line in lines if line.startswith("E ")]
    return (marked or [line.strip() for line in lines[-1:]] or [""])[-1][:300]


def files_of_modules() -> list[str]:
    found = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return sorted(os.path.abspath(path) for path in found if isinstance(path, str))
