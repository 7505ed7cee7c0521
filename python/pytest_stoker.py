"""The pytest plugin of Stoker: benchmarks in tests, in turns, with the fixture `stoker_bench`.

It lies outside of the package, and imports it when a benchmark runs: pytest reads this file at every start, wherever
Stoker is installed.
"""

from __future__ import annotations

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker._pytest_bench import Bench, Mode

__all__ = ["Bench", "stoker_bench"]

_MEASURE = ("measure", "against", "build", "json", "rounds", "fail_over")
_mode_key = pytest.StashKey["Mode"]()


def __getattr__(name: str) -> object:
    if name != "Bench":
        raise AttributeError(f"module 'pytest_stoker' has no attribute {name!r}")
    from stoker._pytest_bench import Bench

    return Bench


def _percent(text: str) -> float:
    """5% and 0.05 are the same."""
    import argparse

    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = -1
    if not 0 <= value < 10:
        raise argparse.ArgumentTypeError(f"found {text!r}, wanted a share such as 5% or 0.05")
    return value


def _count(text: str) -> int:
    import argparse

    value = int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0
    if not 1 <= value <= 100_000:
        raise argparse.ArgumentTypeError(f"found {text!r}, wanted 1 to 100000")
    return value


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("stoker", "benchmarks in turns (stoker)")
    add = group.addoption
    add(
        "--stoker", action="store_true", dest="stoker_measure",
        help="measure what tests give to stoker_bench (default: it is called once). The options below imply it",
    )  # fmt: skip
    add("--stoker-only", action="store_true", help="leave out tests that do not use stoker_bench")
    add(
        "--stoker-rounds", type=_count, metavar="N",
        help="rounds of each benchmark (default: 12 to 50, as many as fit; with --stoker-against 12 or more)",
    )  # fmt: skip
    add("--stoker-json", metavar="FILE", help="write all runs, for `stoker bench compare` and `stoker bench convert`")
    add(
        "--stoker-against", metavar="REV",
        help="compare with that commit: each round is two fresh processes, which run every benchmark in turns",
    )  # fmt: skip
    add("--stoker-build", metavar="CMD", help="run in the checkout of --stoker-against first")
    add(
        "--stoker-fail-over", type=_percent, metavar="PERCENT",
        help="a test fails when it is slower than REV by verdict, and by more than this",
    )  # fmt: skip
    add("--stoker-strict", action="store_true", help="inconclusive is a failure too (default: a note at the end)")
    add("--stoker-serve", type=int, metavar="FD", help=_suppressed())


def _suppressed() -> str:
    """The word by which argparse leaves an option out of its help."""
    import argparse

    return argparse.SUPPRESS


def _mode(config: pytest.Config) -> Mode:
    mode = config.stash.get(_mode_key, None)
    if mode is None:
        from stoker._pytest_bench import Once

        mode = config.stash[_mode_key] = Once()
    return mode


def _check(config: pytest.Config) -> None:
    option = config.option
    if config.getoption("numprocesses", None) or config.getoption("tx", None):
        raise pytest.UsageError(
            "--stoker measures, and pytest-xdist runs tests at the same time, which disturb each other: "
            "leave -n out, or add -n 0"
        )
    for name in ("fail_over", "build"):
        if getattr(option, f"stoker_{name}") is not None and option.stoker_against is None:
            raise pytest.UsageError(
                f"--stoker-{name.replace('_', '-')} needs --stoker-against REV, the commit to compare with; "
                "a test that compares functions itself says assert found.not_slower(by=0.05)"
            )


def pytest_configure(config: pytest.Config) -> None:
    option = config.option
    if option.stoker_serve is not None:
        from stoker._pytest_serve import Serve

        mode: Mode = Serve(option.stoker_serve)
    elif any(getattr(option, f"stoker_{name}") not in (None, False) for name in _MEASURE):
        _check(config)
        if option.stoker_against is not None:
            from stoker._pytest_against import Against

            mode = Against(config)
        else:
            from stoker._pytest_bench import Here

            mode = Here(config)
    else:
        return  # of a fixture that nobody may ask for
    config.stash[_mode_key] = mode
    config.pluginmanager.register(mode, "stoker-mode")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.option.stoker_only:
        return
    kept: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        (kept if "stoker_bench" in getattr(item, "fixturenames", ()) else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = kept


@pytest.fixture
def stoker_bench(request: pytest.FixtureRequest) -> Bench:
    """Measures a function: stoker_bench(f, x), or several in turns: stoker_bench.compare(f, g, args=[x])."""
    from stoker._pytest_bench import Bench

    return Bench(request.node, _mode(request.config))
