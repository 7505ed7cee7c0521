"""A real training: a small CNN that learns to tell pictures apart, the same again, and after an interruption."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import stoker

torch = pytest.importorskip("torch")

CLASSES = 3
COUNT = 192
SIZE = 12
BATCH = 16
STEPS = COUNT // BATCH  # in an epoch


def picture(i: int) -> np.ndarray:
    """Stripes from left to right, from top to bottom, or a disc, in noise."""
    rng = np.random.default_rng(i)
    y, x = np.mgrid[:20, :20]
    shapes = [np.sin(x), np.sin(y), np.hypot(x - 10, y - 10) < 6]
    shade = 90.0 + 60 * shapes[i % CLASSES]
    return np.clip(shade[..., None] + rng.normal(0, 25, (20, 20, 3)), 0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("pictures")
    images = np.stack([picture(i) for i in range(COUNT)])
    labels = np.arange(COUNT) % CLASSES
    source = stoker.source({"image": images, "label": labels})
    for ending, encoded in (("png", source.encode_png("image")), ("jpg", source.encode_jpeg("image"))):
        half = encoded.skip(COUNT // 2) if ending == "png" else encoded.take(COUNT // 2)
        half.write_tfrecord(place / f"{ending}.tfrecord").run()
    return str(place / "*.tfrecord")


def pipeline(path: str) -> stoker.Pipeline:
    return (
        stoker.tfrecord(path)
        .shuffle(seed=42)
        .parse(image="bytes", label="int64")
        .decode_image("image")
        .random_resized_crop("image", SIZE, SIZE, scale=[0.6, 1])
        .random_flip("image")
        .normalize("image", mean=[0.5] * 3, std=[0.25] * 3, scale=255)
        .layout("image", "CHW")
        .batch(BATCH, drop_last=True)
    )


class Training:
    """The model, its optimizer, and the losses so far."""

    def __init__(self) -> None:
        torch.manual_seed(7)
        torch.set_num_threads(1)
        self.model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Flatten(),
            torch.nn.Linear(8 * (SIZE // 2 - 1) ** 2, CLASSES),
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.losses: list[float] = []

    def step(self, x, y) -> None:
        loss = torch.nn.functional.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())

    def run(self, loader, epochs: int, stop_at: int = -1) -> bool:
        """False: stopped after that many steps."""
        for _ in range(epochs):
            for x, y in loader:
                self.step(x, y)
                if len(self.losses) == stop_at:
                    return False
        return True

    def save(self, loader, path: pathlib.Path) -> None:
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        torch.save({**state, "losses": self.losses, "loader": loader.state_dict()}, path)

    def load(self, loader, path: pathlib.Path) -> None:
        state = torch.load(path)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.losses = state["losses"]
        loader.load_state_dict(state["loader"])


def losses_of(path: str, epochs: int, **options) -> list[float]:
    training = Training()
    training.run(pipeline(path).loader("image", "label", format="torch", **options), epochs)
    return training.losses


def test_the_loss_falls(pictures):
    losses = losses_of(pictures, 8)
    assert len(losses) == 8 * STEPS
    assert np.mean(losses[-STEPS:]) < 0.3 * np.mean(losses[:STEPS])


def test_the_same_seed_gives_the_same_losses(pictures):
    one = losses_of(pictures, 3)
    assert losses_of(pictures, 3) == one
    for threads in (1, 2, 5):
        assert losses_of(pictures, 3, threads=threads) == one
    assert losses_of(pictures, 3, persistent=False) == one
    assert losses_of(pictures, 3, seed=1) != one
    whole = Training()
    whole.run(pipeline(pictures).torch("image", "label", epochs=3), 1)
    assert whole.losses == one


@pytest.mark.parametrize("stop_at", [1, STEPS - 1, STEPS, STEPS + 5, 3 * STEPS - 1])
def test_an_interrupted_training_goes_on_with_the_same_losses(pictures, tmp_path, stop_at):
    wanted = losses_of(pictures, 3)
    file = tmp_path / "state.pt"
    loader = pipeline(pictures).loader("image", "label", format="torch")
    training = Training()
    training.run(loader, 3, stop_at)
    training.save(loader, file)
    for threads in (1, 3):
        loader = pipeline(pictures).loader("image", "label", format="torch", threads=threads)
        again = Training()
        again.load(loader, file)
        again.run(loader, 3 - (stop_at - 1) // STEPS)
        assert again.losses == wanted


def test_an_interrupted_training_goes_on_in_another_process(pictures, tmp_path):
    wanted = losses_of(pictures, 3)
    file = tmp_path / "state.pt"
    loader = pipeline(pictures).loader("image", "label", format="torch")
    training = Training()
    training.run(loader, 3, STEPS + 4)
    training.save(loader, file)
    code = f"""if 1:
        import json, sys
        sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
        from test_train import Training, pipeline
        loader = pipeline({pictures!r}).loader("image", "label", format="torch", threads=4)
        training = Training()
        training.load(loader, {str(file)!r})
        training.run(loader, 2)
        print(json.dumps(training.losses))
    """
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=100)
    assert out.returncode == 0, out.stderr
    assert json.loads(out.stdout) == wanted
