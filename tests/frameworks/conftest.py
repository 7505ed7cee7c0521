"""Scripts as people have them, with the real frameworks and real processes; `make test-frameworks` runs them.

Each script of `scripts/` is of our own, in the shape of the one it stands for: the same attributes are asked of the
loader, and the same calls are made. A script leaves what it saw in `seen-RANK.json`.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from helpers import Launch

SCRIPTS = pathlib.Path(__file__).resolve().parent / "scripts"
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
TIMEOUT_S = 300
# A thread of PyTorch that is alive when the interpreter ends does this now and then, with any loader or none.
TORCH_AT_EXIT = "terminate called without an active exception"


@pytest.fixture(autouse=True)
def _own_place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test runs in a directory of its own, with its own cache, and as the only rank."""
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    yield


@pytest.fixture
def launch() -> Launch:
    """Runs a script in one process, or several by torchrun; what each of them saw. `says`: what stderr must hold."""

    def run(script: str, *words: object, processes: int = 1, says: str = "", fails: bool = False) -> list[Any]:
        several = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        command = [sys.executable, *(several if processes > 1 else []), str(SCRIPTS / script), *map(str, words)]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "OMP_NUM_THREADS": "1"}
        for old in pathlib.Path().glob("seen-*.json"):
            old.unlink()
        done = subprocess.run(command, env=env, text=True, capture_output=True, timeout=TIMEOUT_S)
        if done.returncode != 0 and TORCH_AT_EXIT in done.stderr:
            done = subprocess.run(command, env=env, text=True, capture_output=True, timeout=TIMEOUT_S)
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        assert says in done.stderr, done.stdout + done.stderr
        return [] if fails else [json.loads(pathlib.Path(f"seen-{r}.json").read_text()) for r in range(processes)]

    return run


@pytest.fixture
def photos() -> Callable[..., str]:
    """Makes a directory of pictures in three classes; every pixel of picture i has the value i."""

    def make(name: str, count: int) -> str:
        import numpy as np

        import stoker

        images = np.broadcast_to(np.arange(count, dtype=np.uint8)[:, None, None, None], (count, 8, 8, 3))
        rows = stoker.source({"image": np.ascontiguousarray(images), "label": np.arange(count) % 3})
        rows.encode_png("image").write_image_folder(name, "image", "label", classes=["ant", "bee", "cow"]).run()
        return name

    return make
