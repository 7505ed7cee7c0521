"""The code of the docs is run: every python block of README.md and docs/guide, and the programs of examples/python.

The blocks of a page are run in order, in one namespace and in an empty directory: what they read, a block before them
has made. Where a page changes the code of another library into ours, two blocks are marked and run on their own, behind
the page's block that makes the data, and what their loops gave to `step` is compared:

    <!-- run: data -->
    <!-- run: before NAME -->
    <!-- run: after NAME, equal, in order -->

Behind the name stands how alike they are. Always: as many samples, the same types, the same set of labels and of
shapes. `equal`: every sample of the one is one of the other; `near`: but for rounding, as decoders and resizes differ;
`in order`: at the same place. Where Keras runs the loop, `history` (epochs and steps) and `score` (a loss) are
compared. A block that needs a library that is not there is skipped.

What a block prints is compared with its comments `# -> TEXT`, line by line, where it has any; `...` stands for any
text.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import os
import pathlib
import re
import subprocess
import sys
import types
import warnings
from typing import Any, NamedTuple

import pytest

np = pytest.importorskip("numpy")
stoker = pytest.importorskip("stoker")

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "python"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
BLOCK = re.compile(r"^(?:<!-- run: ([^\n]*?) -->\n\n?)?```py(?:thon)?\n(.*?)^```$", re.M | re.S)
SHOWN = re.compile(r"# -> (.*)$", re.M)
SCRIPT = re.compile(r"^\$ python3 (examples/\S+\.py) (\S+)$", re.M)  # a command of a console block that makes files
FORMATS = ("torch", "jax", "tensorflow")  # methods of pipelines that import a library of that name
TIMEOUT_S = 300


class Block(NamedTuple):
    page: str
    line: int  # of the first line of the code
    mark: str  # "", or what stands behind "run:"
    code: str


def blocks_of(path: pathlib.Path) -> list[Block]:
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(ROOT).as_posix()
    return [
        Block(name, text.count("\n", 0, match.start(2)) + 1, match[1] or "", match[2]) for match in BLOCK.finditer(text)
    ]


ALL = [block for page in PAGES for block in blocks_of(page)]
PLAIN = [block for block in ALL if block.mark in ("", "data")]
PAIRS: dict[tuple[str, str], dict[str, Block]] = {}
for _block in ALL:
    if _block.mark not in ("", "data"):
        _match = re.fullmatch(r"(before|after) ([a-z-]+)(?:,.*)?", _block.mark)
        assert _match, f"{_block.page}:{_block.line}: run: {_block.mark!r}"
        PAIRS.setdefault((_block.page, _match[2]), {})[_match[1]] = _block


def place_of(block: Block) -> str:
    return f"{block.page}:{block.line}"


# ---- what blocks need ----


def modules_of(code: str) -> list[str]:
    """Modules that code imports, and those of the formats that it asks pipelines for."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FORMATS:
            found.append(node.func.attr)
        elif isinstance(node, ast.keyword) and node.arg == "format" and isinstance(node.value, ast.Constant):
            found += [name for name in FORMATS if name == node.value.value]
    return found


def skip_without(code: str) -> None:
    for name in modules_of(code):
        if importlib.util.find_spec(name.split(".")[0]) is None:
            pytest.skip(f"needs {name}")


# ---- running blocks ----


def as_rows(tensor: Any) -> list[Any]:
    """The rows of a batch of any library, as arrays that are their own."""
    if hasattr(tensor, "to_list") and not hasattr(tensor, "shape"):
        return [np.array(row) for row in tensor.to_list()]
    if type(tensor).__name__ == "RaggedTensor":
        return [np.array(row) for row in tensor.to_list()]
    return list(np.array(tensor))


class Recorded:
    """Stands for the training step of the pages; keeps what it was given, sample by sample."""

    def __init__(self) -> None:
        self.samples: list[tuple[Any, ...]] = []
        self.calls = 0

    def __call__(self, *tensors: Any) -> None:
        self.samples += zip(*[as_rows(tensor) for tensor in tensors], strict=True)
        self.calls += 1


class Page:
    """A module that blocks are run in, and an empty directory."""

    def __init__(self, name: str, place: pathlib.Path, names: dict[str, Any]) -> None:
        self.module = types.ModuleType(name)
        self.module.__dict__.update(names)
        sys.modules[name] = self.module  # pickled functions are found by it
        self.place = place / "work"
        self.place.mkdir()
        self.outcomes: dict[int, BaseException | None] = {}

    def run(self, block: Block) -> None:
        """Runs a block; compares what it printed with what it shows."""
        code = compile("\n" * (block.line - 1) + block.code, str(ROOT / block.page), "exec")
        printed = io.StringIO()
        before = os.getcwd()
        os.chdir(self.place)
        try:
            with contextlib.redirect_stdout(printed), warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                exec(code, self.module.__dict__)
        finally:
            os.chdir(before)
        check_output(block, printed.getvalue())

    def run_to(self, wanted: Block) -> None:
        """Runs what comes before on the page, once, and raises what `wanted` raises."""
        for block in PLAIN:
            if block.page != wanted.page or block.line > wanted.line or block.line in self.outcomes:
                continue
            try:
                skip_without(block.code)
                self.run(block)
                self.outcomes[block.line] = None
            except (Exception, pytest.skip.Exception) as exception:
                self.outcomes[block.line] = exception
        outcome = self.outcomes[wanted.line]
        if outcome is not None:
            raise outcome


def check_output(block: Block, printed: str) -> None:
    shown = SHOWN.findall(block.code)
    if not shown:
        return
    found = [line.rstrip() for line in printed.splitlines()]
    pattern = "\n".join(".*".join(re.escape(part) for part in line.rstrip().split("...")) for line in shown)
    assert re.fullmatch(pattern, "\n".join(found)), f"shown:\n{chr(10).join(shown)}\nfound:\n{printed}"


def stand_ins(page: str) -> dict[str, Any]:
    """What readers have, to whose training a page adds lines."""
    names: dict[str, Any] = {}
    if page.endswith("/traces.md"):
        names.update(rank=0, loader=range(40), dataset=range(40), train_step=lambda batch: None)
        if importlib.util.find_spec("tensorflow") is not None:
            names["tf"] = LazyModule("tensorflow")
    return names


def run_scripts(page: str, place: pathlib.Path) -> None:
    """Runs the programs of examples/ that a page calls to make files."""
    for script, argument in SCRIPT.findall((ROOT / page).read_text(encoding="utf-8")):
        subprocess.run([sys.executable, str(ROOT / script), argument], cwd=place, check=True, timeout=TIMEOUT_S)


class LazyModule:
    """A module that is imported when it is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


# ---- tests ----


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Page]:
    names = sorted({block.page for block in PLAIN})
    made = {name: Page(f"guide_{i}", tmp_path_factory.mktemp("page"), stand_ins(name)) for i, name in enumerate(names)}
    for name, page in made.items():
        run_scripts(name, page.place)
    return made


@pytest.mark.parametrize("block", PLAIN, ids=place_of)
def test_a_block_runs_and_prints_what_it_shows(block: Block, pages: dict[str, Page]) -> None:
    if "tf.profiler" in block.code:
        pytest.importorskip("tensorflow")
    pages[block.page].run_to(block)


@pytest.mark.parametrize("pair", list(PAIRS), ids=lambda pair: f"{pair[0]}:{pair[1]}")
def test_before_and_after_give_the_same(pair: tuple[str, str], tmp_path: pathlib.Path) -> None:
    """The new code always runs; the old code where its libraries are there, and then both are compared."""
    blocks = PAIRS[pair]
    assert set(blocks) == {"before", "after"}, f"{pair[1]} has no counterpart"
    skip_without(blocks["after"].code)
    new = run_alone(blocks["after"], tmp_path)
    assert new.calls > 0, "the block gives nothing to step"
    skip_without(blocks["before"].code)
    old = run_alone(blocks["before"], tmp_path)
    compare(old, new, blocks["after"].mark)


def run_alone(block: Block, tmp_path: pathlib.Path) -> Recorded:
    step = Recorded()
    which, name = block.mark.split(",")[0].split()
    place = tmp_path / which
    place.mkdir()
    page = Page(f"guide_{which}_{name.replace('-', '_')}", place, {})
    for first in ALL:
        if first.page == block.page and first.mark == "data":
            page.run(first)
    page.module.__dict__["step"] = step
    page.run(block)
    add_keras_results(step, page.module)
    return step


def add_keras_results(step: Recorded, module: types.ModuleType) -> None:
    """Where Keras runs the loop: epochs and steps that it made, and a loss that it found."""
    if hasattr(module, "history"):
        step(np.array([len(module.history.epoch)]), np.array([int(module.model.optimizer.iterations)]))
    if hasattr(module, "score"):
        step(np.array([module.score]))


def compare(old: Recorded, new: Recorded, mark: str) -> None:
    assert len(new.samples) == len(old.samples)
    for place, (mine, theirs) in enumerate(zip(zip(*new.samples), zip(*old.samples), strict=True)):
        assert {row.dtype for row in mine} == {row.dtype for row in theirs}, place
        assert {row.shape for row in mine} == {row.shape for row in theirs}, place
        if mine[0].ndim == 0 and mine[0].dtype.kind in "iu":
            assert sorted(mine) == sorted(theirs), place
    if "equal" in mark or "near" in mark:
        compare_values(old, new, "near" in mark, "in order" in mark)


def compare_values(old: Recorded, new: Recorded, near: bool, in_order: bool) -> None:
    """Finds a sample of the old code for each one of the new code."""
    numbers = [np.asarray(row, np.float64) for sample in old.samples for row in sample if row.dtype.kind == "f"]
    span = max((row.max() - row.min() for row in numbers), default=0)
    largest = max((abs(row).max() for row in numbers), default=0)
    allowed = max(0.02 * span, 1e-5 * largest) if near else 0
    left = list(old.samples)
    for place, sample in enumerate(new.samples):
        distances = [distance(sample, other) for other in (left[:1] if in_order else left)]
        best = int(np.argmin(distances))
        assert distances[best] <= allowed, f"sample {place} is {distances[best]:g} off, allowed is {allowed:g}"
        left.pop(best)


def distance(a: tuple[Any, ...], b: tuple[Any, ...]) -> float:
    """Mean difference of the fields that differ most; infinite where whole numbers or texts differ."""
    worst = 0.0
    for x, y in zip(a, b, strict=True):
        if x.shape != y.shape or (x.dtype.kind != "f" and not np.array_equal(x, y)):
            return float("inf")
        if x.dtype.kind == "f" and x.size:
            worst = max(worst, float(np.abs(x.astype(np.float64) - y).mean()))
    return worst


def test_the_pages_have_code() -> None:
    pages = {block.page for block in ALL}
    assert {"README.md", "docs/guide/python.md"} <= pages
    assert len(PAIRS) >= 20
    for page in ("from-tf-data", "from-pytorch-dataloader", "from-hdf5-keras"):
        assert sum(name.endswith(f"/{page}.md") for name, _ in PAIRS) >= 4, page


# ---- what the pages say beside their code ----


def test_lightning_goes_on_in_the_middle_of_an_epoch(tmp_path: pathlib.Path) -> None:
    lightning = pytest.importorskip("pytorch_lightning")
    torch = pytest.importorskip("torch")
    pipe = stoker.range(400).shuffle(seed=1).batch(50)
    seen: list[list[int]] = []

    class Model(lightning.LightningModule):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def training_step(self, batch: Any, number: int) -> Any:
            seen.append(batch["value"].tolist())
            return self.layer(batch["value"].float()[:, None]).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-6)

    class Save(lightning.Callback):  # type: ignore[name-defined,misc]
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if trainer.global_step == 11:
                trainer.save_checkpoint(tmp_path / "middle.ckpt")

    def fit(path: pathlib.Path | None, *callbacks: Any) -> list[list[int]]:
        seen.clear()
        trainer = lightning.Trainer(
            max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False, callbacks=list(callbacks),
        )  # fmt: skip
        trainer.fit(Model(), pipe.loader(format="torch"), ckpt_path=path)
        return list(seen)

    whole = fit(None, Save())
    assert len(whole) == 16
    assert fit(tmp_path / "middle.ckpt") == whole[11:]


def test_tensors_of_tensorflow_share_the_memory_of_the_batch() -> None:
    pytest.importorskip("tensorflow")
    from stoker import _core
    from stoker._convert import converter

    run = _core.Run("range(100000) | batch(100000)")  # small columns are copies
    batch = run.next()
    assert batch is not None
    tensor = converter("tensorflow", (), False)(batch)["value"]
    np.asarray(batch.column("value"))[0] = 99
    assert int(tensor[0]) == 99


# ---- programs ----


def run_example(name: str, place: pathlib.Path, *arguments: str) -> str:
    skip_without((EXAMPLES / name).read_text(encoding="utf-8"))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=place, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def losses_of(text: str) -> list[str]:
    return re.findall(r"^epoch \d+ step \d+ loss \S+$", text, re.M)


def test_the_torch_example_goes_on_with_the_same_losses(tmp_path: pathlib.Path) -> None:
    def train(*arguments: str) -> list[str]:
        return losses_of(run_example("train_torch.py", tmp_path, "--epochs", "2", "--checkpoint", *arguments))

    whole = train("a.pt")
    first = train("b.pt", "--stop-after", "13")
    rest = train("b.pt")
    assert len(first) == 13
    assert len(whole) > 20
    assert first + rest == whole


def test_the_torch_example_records_a_trace_that_the_other_example_reads(tmp_path: pathlib.Path) -> None:
    run_example("train_torch.py", tmp_path, "--epochs", "1", "--checkpoint", "c.pt", "--record", "run.pftrace")
    told = run_example("explore_trace.py", tmp_path, "run.pftrace")
    assert "forward" in told and "backward" in told
    assert (tmp_path / "diagnosis.html").read_text(encoding="utf-8").count("<") > 3


def test_the_keras_example_trains(tmp_path: pathlib.Path) -> None:
    told = run_example("train_keras_hdf5.py", tmp_path, "--epochs", "2")
    accuracy = re.findall(r"accuracy (\d\.\d+)", told)
    assert len(accuracy) == 2 and float(accuracy[-1]) > 0.5
