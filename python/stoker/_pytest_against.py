"""pytest --stoker-against: the benchmarks of these tests with the code of another commit, in turns with this one.

Before the tests, each round starts two fresh processes, one in a checkout of the commit and one in this tree. Both
come to each benchmark, and then run it in turns, burst by burst, while the other one waits. A process keeps for its life
what it drew by chance: addresses, the seed of its hashes, the state of its heap. So the round, and not the burst, is what
counts: one ratio from each two processes. The seed of the hashes is the same on both sides of a round.

Both sides run the test files of this tree, so that both are asked the same: they are copied over those of the checkout,
with the conftest.py files above them. All else there is the commit's.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

import pytest

from ._pytest_bench import Here
from ._pytest_report import gathered
from ._pytest_serve import Gone, Wire

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ._pytest_bench import Bench, Timer
    from .bench import Pair

LEAST_ROUNDS = 12  # unless told
# Of each side in a round; the median counts, so that one that another process interrupts does no harm.
LEAST_BURSTS, MOST_BURSTS = 5, 25
BURST_S = 0.003  # about
USUAL_EFFECT = 0.02  # of the program
# Not that of the script, which is no place for imports: the paths are given.
START = "import sys; del sys.path[0]; import pytest; sys.exit(pytest.main(sys.argv[1:]))"
NOT_THERE = ("--pdb", "--trace")  # nobody sits at their terminal


class Against(Here):
    """The mode of tests whose benchmarks were measured before."""

    def __init__(self, config: pytest.Config) -> None:
        super().__init__(config)
        self._revision: str = config.option.stoker_against
        self._fail_over: float | None = config.option.stoker_fail_over
        self._pairs: dict[str, Pair] = {}
        if self._fail_over is not None and self._fail_over < USUAL_EFFECT:
            self.report.min_effect = max(self._fail_over, 1e-4)

    def measure(self, bench: Bench, name: str, timer: Timer, rounds: int | None) -> Any:
        __tracebackhide__ = True
        given = timer.call()
        pair = self._pairs.get(name)
        if pair and self._fail_over is not None:
            answer = pair.not_slower(max(self._fail_over, pair.min_effect), self.strict)
            if not answer:
                pytest.fail(f"stoker: {answer.reason}", pytrace=False)
        return given

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        if self.config.option.collectonly or session.testsfailed:
            return
        items = [item for item in session.items if "stoker_bench" in getattr(item, "fixturenames", ())]
        if not items:
            return
        with Checkout(self.config, self._revision, items) as checkout:
            rounds = Rounds(checkout, self.config, [item.nodeid for item in items])
            rounds.run(self.rounds or usual_rounds(len(items)))
        self._judge(rounds, checkout.label)

    def _judge(self, rounds: Rounds, label: str) -> None:
        from .bench import Pair

        self.report.seed = rounds.seed
        self.report.notes += rounds.notes
        for name, (before, after) in rounds.times.items():
            self.report.add([f"{name} @{label}", name], [before, after], {})
        self.report.commit, self.report.groups_there = label, self.report.groups
        alone = {name: f"not compared: {why}" for name, why in rounds.alone.items() if why}
        self.report.notes += gathered(alone)
        if not rounds.times and self.report.notes:
            raise pytest.UsageError(f"--stoker-against: no benchmark ran in both: {'; '.join(self.report.notes)}")
        if not rounds.times:
            return
        result = self.report.result()
        for figures in result["comparisons"]:
            names = {"a": label, "b": "this tree"}
            self._pairs[figures["b"]] = Pair(figures | names, result["min_effect"])


def usual_rounds(benchmarks: int) -> int:
    """More with many benchmarks, which share the risk of a false alarm: the fewest that can give verdicts, and four."""
    import math

    return max(LEAST_ROUNDS, 4 + math.ceil(math.log2(40 * benchmarks)))


# ---- the other commit ----


class Checkout:
    """The other commit, in a directory of its own, with the tests of this tree; gone at the end."""

    def __init__(self, config: pytest.Config, revision: str, items: Sequence[pytest.Item]) -> None:
        self._config = config
        self._here = str(config.rootpath)
        self.top = os.path.realpath(self._git("rev-parse", "--show-toplevel"))
        if not revision or revision.startswith("-"):
            raise pytest.UsageError(f"--stoker-against: found {revision!r}, wanted a commit such as HEAD~1 or main")
        try:  # in two steps, since ":/words" takes all that follows as words
            found = self._git("rev-parse", "--verify", "--end-of-options", revision)
            self._commit = self._git("rev-parse", "--verify", f"{found}^{{commit}}")
        except pytest.UsageError as error:
            raise pytest.UsageError(f"--stoker-against: cannot find the commit {revision!r} ({error})") from None
        self.label = "".join(c if c.isprintable() else "?" for c in revision)
        self._tests = {os.path.realpath(item.path) for item in items}
        self.own = {os.path.join(self.top, name) for name in self._listed()}
        self.place = ""

    def _git(self, *words: str, cwd: str | None = None) -> str:
        left_out = ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_PREFIX")  # of a hook that runs us
        env = {key: value for key, value in os.environ.items() if key not in left_out}
        env.update(GIT_TERMINAL_PROMPT="0")
        command = ["git", "-c", "core.hooksPath=/dev/null", *words]
        try:
            done = subprocess.run(
                command, cwd=cwd or self._here, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL
            )
        except FileNotFoundError:
            raise pytest.UsageError("--stoker-against needs the program git, which was not found") from None
        if done.returncode != 0:
            words_of = done.stderr.strip()[-300:] or f"git ended with {done.returncode}"
            raise pytest.UsageError(f"--stoker-against: git {words[0]}: {words_of}")
        return done.stdout.rstrip("\n")

    def _listed(self) -> list[str]:
        """Tracked files of this tree: not those of an environment that was made inside of it."""
        text = self._git("ls-files", "-z", "--cached", cwd=self.top)
        return [name for name in text.split("\0") if name]

    def __enter__(self) -> Checkout:
        self.place = os.path.realpath(tempfile.mkdtemp(prefix="stoker-against-"))
        try:
            self._fill()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    @property
    def root(self) -> str:
        return os.path.join(self.place, "tree")

    def _fill(self) -> None:
        self._git("worktree", "add", "--quiet", "--detach", "--force", self.root, self._commit)
        if os.path.exists(os.path.join(self.root, ".gitmodules")):
            self._git("submodule", "--quiet", "update", cwd=self.root)
        for path in sorted(self._tests | set(self._conftests())):
            self._overlay(path)
        build = self._config.option.stoker_build
        if build:
            done = subprocess.run(build, shell=True, cwd=self.there(self._here), stdin=subprocess.DEVNULL)
            if done.returncode != 0:
                raise pytest.UsageError(f"--stoker-build: {build!r} ended with {done.returncode} at {self.label}")

    def _conftests(self) -> Iterable[str]:
        for path in self._tests:
            folder = os.path.dirname(path)
            while within(folder, self.top):
                if os.path.isfile(os.path.join(folder, "conftest.py")):
                    yield os.path.join(folder, "conftest.py")
                folder = os.path.dirname(folder)

    def _overlay(self, path: str) -> None:
        if not within(path, self.top):
            raise pytest.UsageError(f"--stoker-against: the test {path} is not in the repository {self.top}")
        target = self.there(path)
        folder = os.path.dirname(target)
        os.makedirs(folder, exist_ok=True)
        if not within(os.path.realpath(folder), self.root):  # a link of the commit, to anywhere
            raise pytest.UsageError(f"--stoker-against: at {self.label}, {folder} is a link that leaves the checkout")
        if os.path.lexists(target):
            os.unlink(target)
        shutil.copyfile(path, target)

    def _remove(self) -> None:
        try:
            self._git("worktree", "remove", "--force", "--force", self.root)
        except pytest.UsageError:
            pass  # never added; what is there goes below
        shutil.rmtree(self.place, ignore_errors=True)
        if os.path.isdir(os.path.join(self._git("rev-parse", "--absolute-git-dir"), "worktrees")):
            self._git("worktree", "prune")

    def there(self, path: str) -> str:
        """The same place in the checkout."""
        real = os.path.realpath(path)
        return os.path.normpath(os.path.join(self.root, os.path.relpath(real, self.top)))

    # ---- imports ----

    def paths(self) -> list[str]:
        """Where this process finds the modules of this tree, in the order of its search."""
        found = [os.path.realpath(path or os.getcwd()) for path in sys.path]
        found = [path for path in found if within(path, self.top) and self._is_own(path)]
        for name, module in list(sys.modules.items()):
            if "." not in name:
                found += self._place_of(module)
            if name.startswith("__editable__"):  # of setuptools: name -> path of the package
                for path in dict(getattr(module, "MAPPING", {})).values():
                    found.append(os.path.realpath(os.path.dirname(str(path))))
        return [path for path in dict.fromkeys(found) if within(path, self.top)]

    def _is_own(self, folder: str) -> bool:
        """Whether files of the repository lie there."""
        return any(path.startswith(folder + os.sep) for path in self.own)

    def _place_of(self, module: object) -> list[str]:
        path = getattr(module, "__file__", None)
        if not isinstance(path, str) or os.path.realpath(path) not in self.own:
            return []
        folder = os.path.dirname(os.path.realpath(path))
        return [os.path.dirname(folder) if os.path.basename(path).startswith("__init__.") else folder]

    def check_modules(self, modules: Sequence[str], notes: list[str]) -> None:
        """Whether that side ran its own code: else both were the same."""
        real = [os.path.realpath(path) for path in modules]
        mixed = [path for path in real if path in self.own]
        if mixed:
            names = ", ".join(os.path.relpath(path, self.top) for path in mixed[:3])
            more = f" and {len(mixed) - 3} more" if len(mixed) > 3 else ""
            raise pytest.UsageError(
                f"--stoker-against: the processes of {self.label} imported files of this tree ({names}{more}), so the "
                "figures are not those of that commit; an installed package that points to this tree does that"
            )
        tests = {self.there(path) for path in self._tests | set(self._conftests())}
        if not any(within(path, self.root) and path not in tests for path in real):
            notes.append(
                f"nothing but tests was imported from the checkout of {self.label}: both sides ran the same code, "
                "unless the tests hold it, or start it. Is the package installed without -e?"
            )


def within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


# ---- processes ----


class Side:
    """A process that serves, in one of the trees."""

    def __init__(self, command: Sequence[str], cwd: str, env: dict[str, str]) -> None:
        ours, theirs = socket.socketpair()
        self._log = tempfile.TemporaryFile()
        self.wire = Wire(ours)
        with theirs:
            self._process = subprocess.Popen(
                [*command, f"--stoker-serve={theirs.fileno()}"],
                cwd=cwd, env=env, pass_fds=[theirs.fileno()], start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def receive(self) -> dict[str, Any]:
        try:
            return self.wire.receive()
        except Gone:
            raise Gone(self._last_words()) from None

    def _last_words(self) -> str:
        code = self._process.wait()
        self._log.seek(0)
        lines = [line for line in self._log.read()[-4000:].decode(errors="replace").splitlines() if line.strip()]
        return f"pytest ended with {code}: {' / '.join(lines[-3:])}"

    def close(self) -> None:
        """Ends it, wherever it is."""
        self.wire.close()
        try:
            self._process.wait(0.5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


class Rounds:
    """Rounds of two processes, the other commit's first."""

    def __init__(self, checkout: Checkout, config: pytest.Config, nodeids: Sequence[str]) -> None:
        self._checkout = checkout
        self._config = config
        self._nodeids = nodeids
        self.seed = random.SystemRandom().randrange(1, 1_000_000)
        self._random = random.Random(self.seed)
        self.times: dict[str, tuple[list[float | None], list[float | None]]] = {}
        self.alone: dict[str, str] = {}  # tests without a partner, and why; "": they compare functions themselves
        self.notes: list[str] = []
        self._bursts = LEAST_BURSTS
        self._done = 0

    def run(self, rounds: int) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        label, count = self._checkout.label, len(self._nodeids)
        if terminal:
            tests = f"{count} test{'s' if count != 1 else ''} with benchmarks"
            terminal.write_line(f"stoker: {tests} in turns with {label}, {rounds} rounds of two processes")
        for number in range(rounds):
            if terminal and terminal.isatty:
                terminal.rewrite(f"stoker: round {number + 1} of {rounds}", erase=True)
            modules = self._round()
            if number == 0:  # no use to go on, if they are not the commit's
                self._checkout.check_modules(modules, self.notes)
            self._done += 1
        for name in [name for name, pair in self.times.items() if all(value is None for value in pair[0])]:
            del self.times[name]
        if terminal and terminal.isatty:
            terminal.rewrite("", erase=True)

    def _round(self) -> list[str]:
        """Files of the modules that the other commit's side imported."""
        env = dict(os.environ, PYTHONHASHSEED=str(self._random.randrange(1, 1 << 32)))
        sides: list[Side] = []
        began = time.monotonic()
        try:
            self._start(sides, env)
            if self._done == 0:  # measuring takes about as long as starting, at least
                fitting = int((time.monotonic() - began) / (2 * BURST_S * len(self._nodeids)))
                self._bursts = max(LEAST_BURSTS, min(MOST_BURSTS, fitting))
            for nodeid, following in zip(self._nodeids, [*self._nodeids[1:], None], strict=True):
                if nodeid not in self.alone:
                    self._item(sides, nodeid, None if following in self.alone else following)
            sides[0].wire.send({"do": "end"})
            return [str(path) for path in sides[0].receive()["modules"]]
        except Gone as gone:
            raise pytest.UsageError(f"--stoker-against: {gone}") from None
        finally:
            for side in sides:
                side.close()

    def _start(self, sides: list[Side], env: dict[str, str]) -> None:
        """One after the other, so that neither collects while the other one does."""
        cwd = str(self._config.invocation_params.dir)
        if not within(os.path.realpath(cwd), self._checkout.top):
            raise pytest.UsageError(f"--stoker-against: start pytest in the repository {self._checkout.top}")
        here = self._checkout.paths()
        rest = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]
        rest = [os.path.realpath(os.path.join(cwd, path)) for path in rest]
        for place in (0, 1):
            paths = [self._checkout.there(path) for path in here] if place == 0 else here
            others = [path for path in rest if path not in here]
            search = os.pathsep.join([*filter(os.path.isdir, paths), *others])
            env_of = {**env, "PYTHONPATH": search}
            folder = self._checkout.there(cwd) if place == 0 else cwd
            if not os.path.isdir(folder):
                raise pytest.UsageError(f"--stoker-against: {self._checkout.label} has no directory {folder}")
            sides.append(Side(self._command(place), folder, env_of))
            told = sides[-1].receive()
            self._missing(told, place)

    def _missing(self, told: dict[str, Any], place: int) -> None:
        """Tests that this side does not have, so that neither is asked for them."""
        where = self._checkout.label if place == 0 else "this tree"
        found = set(told["items"])
        for nodeid in self._nodeids:
            if nodeid not in found:
                why = next((text for name, text in told["errors"].items() if nodeid.startswith(name)), "")
                self.alone.setdefault(nodeid, f"it cannot be collected at {where}" + (f": {why}" if why else ""))

    def _command(self, place: int) -> list[str]:
        config, checkout = self._config, self._checkout
        words = [str(word) for word in config.invocation_params.args if str(word) not in NOT_THERE]
        root = str(config.rootpath)
        temporary = os.path.join(checkout.place, f"tmp-{place}")
        more = [f"--rootdir={root}", f"--basetemp={temporary}", "-o", f"cache_dir={checkout.place}/cache-{place}"]
        if config.getoption("xmlpath", None):
            more.append(f"--junit-xml={os.path.join(checkout.place, 'unwanted.xml')}")
        if config.pluginmanager.hasplugin("_cov"):
            more.append("--no-cov")
        if place == 0:
            words = [self._elsewhere(word) for word in words]
            more[0] = f"--rootdir={checkout.there(root)}"
        return [sys.executable, "-c", START, *words, *more]

    def _elsewhere(self, word: str) -> str:
        """An argument with a path into this tree, as in --rootdir=/home/me/project."""
        head, equals, path = word.partition("=") if word.startswith("-") else ("", "", word)
        name, colons, rest = path.partition("::")
        if not os.path.isabs(name) or not within(os.path.realpath(name), self._checkout.top):
            return word
        return f"{head}{equals}{self._checkout.there(name)}{colons}{rest}"

    # ---- one test ----

    def _item(self, sides: Sequence[Side], nodeid: str, following: str | None) -> None:
        """A side answers with its first benchmark, or with the end; only then does the other one begin."""
        at = [ask(side, {"item": nodeid, "next": following}) for side in sides]
        before = len(self.times)
        while all("ready" in message for message in at):
            at = self._in_turns(sides, str(at[1]["ready"]))
        for place, side in enumerate(sides):
            while "ready" in at[place]:  # without a partner
                at[place] = ask(side, {"do": "go on"})
            if at[place]["finished"] != "passed" and self._done == 0:
                self._failed(nodeid, place, at[place], compared=len(self.times) > before)

    def _failed(self, nodeid: str, place: int, message: dict[str, Any], compared: bool) -> None:
        word = {"failed": "fails", "skipped": "is skipped"}[message["finished"]]
        where = f"at {self._checkout.label}" if place == 0 else "in this tree"
        why = f"it {word} {where}: {message['why']}"
        if message["compares"] and message["finished"] == "skipped":
            self.alone.setdefault(nodeid, "")
        elif compared:
            self.notes.append(f"{nodeid}: {why}")
        else:
            self.alone.setdefault(nodeid, why)

    def _in_turns(self, sides: Sequence[Side], name: str) -> list[dict[str, Any]]:
        """Bursts of both, one after the other. Gives what the sides say next."""
        order = [0, 1] if self._random.random() < 0.5 else [1, 0]
        values: tuple[list[float], list[float]] = ([], [])
        left = 1  # of the warm-up, which is not counted
        told: list[dict[str, Any]] = [{}, {}]
        while left:
            for place in order:
                told[place] = ask(sides[place], {"do": "time"})
                if "seconds" not in told[place]:  # it raised an exception, and the test is over
                    told[1 - place] = ask(sides[1 - place], {"do": "go on"})
                    return told
                values[place].append(float(told[place]["seconds"]))
            order.reverse()
            if len(values[0]) == 1:
                short = all(int(message["bursts"]) > 1 for message in told)
                left = 1 + (self._bursts if short else 1)
            left -= 1
        self._keep(name, statistics.median(values[0][1:]), statistics.median(values[1][1:]))
        return [ask(side, {"do": "go on"}) for side in sides]

    def _keep(self, name: str, before: float, after: float) -> None:
        for values, value in zip(self.times.setdefault(name, ([], [])), (before, after), strict=True):
            values += [None] * (self._done - len(values))  # rounds in which it failed
            values.append(value)


def ask(side: Side, message: dict[str, Any]) -> dict[str, Any]:
    side.wire.send(message)
    return side.receive()
