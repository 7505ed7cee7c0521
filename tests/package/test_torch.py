"""PyTorch: tensors on the memory of batches, datasets inside DataLoaders, and loaders in Lightning's loop."""

import itertools
import json
import os
import pickle
import subprocess
import sys

import pytest

import stoker

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, IterableDataset  # noqa: E402

PIPE = stoker.range(40).shuffle(seed=3).batch(4)


def values(batches):
    return [batch["value"].tolist() for batch in batches]


def epoch_of(pipe, epoch):
    loader = pipe.loader()
    loader.set_epoch(epoch)
    return values(loader)


def test_batches_are_tensors_in_dicts_or_tuples():
    batch = next(iter(PIPE.loader(format="torch")))
    assert isinstance(batch["value"], torch.Tensor) and batch["value"].dtype == torch.int64
    (x,) = next(iter(PIPE.loader("value", format="torch")))
    assert x.tolist() == batch["value"].tolist()
    x += 1  # its memory is ours to write


def test_pinned_memory_without_cuda_is_a_warning():
    if torch.cuda.is_available():
        (x,) = next(iter(PIPE.torch("value", pin_memory=True)))
        assert x.is_pinned()
        return
    with pytest.warns(stoker.StokerWarning, match="no CUDA"):
        assert values(PIPE.loader(format="torch", pin_memory=True)) == epoch_of(PIPE, 0)


# ---- datasets ----


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("persistent", [False, True])
def test_a_data_loader_gives_each_sample_once_and_every_epoch_another_order(workers, persistent):
    if persistent and not workers:
        pytest.skip("DataLoader wants workers for that")
    dataset = PIPE.dataset()
    assert isinstance(dataset, IterableDataset)
    loader = DataLoader(dataset, batch_size=None, num_workers=workers, persistent_workers=persistent)
    assert len(loader) == 10
    epochs = [values(loader) for _ in range(3)]
    for epoch in epochs:
        assert sorted(itertools.chain(*epoch)) == list(range(40))
    assert len({str(epoch) for epoch in epochs}) == 3
    dataset.set_epoch(1)
    assert values(loader) == epochs[1]
    if workers < 2:
        assert epochs == [epoch_of(PIPE, e) for e in range(3)]


def test_workers_of_ranks_have_as_many_batches_each():
    pipe = stoker.range(41).shuffle(seed=3).batch(4)
    parts = []
    for rank in range(2):
        loader = DataLoader(pipe.dataset(rank=rank, world=2), batch_size=None, num_workers=2)
        parts.append(list(itertools.chain(*values(loader))))
    assert len(parts[0]) == len(parts[1]) == 22
    assert set(parts[0]) | set(parts[1]) == set(range(41))


def test_a_shard_of_its_own_cannot_be_shared_among_workers():
    dataset = stoker.range(40).shard(count=2, index=0).batch(4).dataset()
    assert len(values(DataLoader(dataset, batch_size=None))) == 5
    with pytest.raises(ValueError, match="use num_workers=0"):
        values(DataLoader(dataset, batch_size=None, num_workers=2))


def test_datasets_are_made_when_they_are_right():
    with pytest.raises(ValueError, match=r"put \.batch"):
        stoker.range(3).dataset()
    with pytest.raises(TypeError, match="no option"):
        PIPE.dataset(thread=1)
    with pytest.raises(TypeError, match="not known"):
        len(stoker.range(9).filter("value > 3").batch(2).dataset())
    (x,) = next(iter(PIPE.dataset("value")))
    assert x.shape == (4,)


def test_datasets_pickle_with_their_place():
    dataset = PIPE.dataset()
    loop = iter(dataset)
    values(itertools.islice(loop, 3))
    again = pickle.loads(pickle.dumps(dataset))
    assert values(again) == values(loop)
    assert values(again) == epoch_of(PIPE, 1)


def test_datasets_save_and_load_their_place():
    dataset = PIPE.dataset()
    values(dataset)
    loop = iter(dataset)
    values(itertools.islice(loop, 3))
    state = json.loads(json.dumps(dataset.state_dict()))
    rest = values(loop)
    again = PIPE.dataset()
    again.load_state_dict(state)
    assert again.state_dict() == state
    assert values(again) == rest
    assert values(again) == epoch_of(PIPE, 2)
    fresh = PIPE.dataset()
    assert fresh.state_dict()["epoch"] == 0


@pytest.mark.parametrize("workers", [0, 2])
def test_stateful_data_loaders_go_on_where_they_were(workers):
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader

    def make():
        return stateful(PIPE.dataset(), batch_size=None, num_workers=workers)

    loader = make()
    loop = iter(loader)
    values(itertools.islice(loop, 3))
    state = loader.state_dict()
    rest = values(loop)
    again = make()
    again.load_state_dict(state)
    assert values(again) == rest


# ---- single samples ----


@pytest.mark.parametrize("pipe", [PIPE, stoker.range(40).shuffle(seed=3)], ids=["batched", "not batched"])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_loader_may_make_the_batches(pipe, workers):
    dataset = pipe.dataset(samples=True)
    assert len(dataset) == 40
    loader = DataLoader(dataset, batch_size=6, num_workers=workers)
    assert len(loader) == 7
    epochs = [list(itertools.chain(*values(loader))) for _ in range(2)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(40))
    if not workers:
        assert epochs == [list(itertools.chain(*epoch_of(PIPE, e))) for e in range(2)]


def test_samples_are_single_and_keep_their_place():
    dataset = PIPE.dataset("value", samples=True)
    loop = iter(dataset)
    (x,) = next(loop)
    assert x.shape == ()
    state = json.loads(json.dumps(dataset.state_dict()))
    rest = [int(x) for (x,) in loop]
    again = PIPE.dataset("value", samples=True)
    again.load_state_dict(state)
    assert [int(x) for (x,) in again] == rest and len(rest) == 39


def test_batches_are_not_made_of_batches():
    for workers in (0, 2):
        with pytest.raises(TypeError, match="samples=True"):
            next(iter(DataLoader(PIPE.dataset(), batch_size=4, num_workers=workers)))
    mixed = stoker.source({"x": torch.zeros(8, 4, 4, 3), "y": torch.zeros(8, 2)}).batch(4).mixup("x", "y")
    for pipe in (mixed, PIPE.map(lambda batch: {}, name="all")):
        with pytest.raises(ValueError, match="works on finished batches"):
            pipe.dataset(samples=True)


def test_a_shard_that_is_not_known_is_not_let_pass():
    """What accelerate has is in tests/frameworks; this one is of a version that has other names."""
    from stoker._within import take_over

    class IterableDatasetShard(IterableDataset):
        def __init__(self, dataset):
            self.dataset, self.num_processes = dataset, 2

        def __iter__(self):
            yield from self.dataset

    shard = IterableDatasetShard(PIPE.dataset("value"))
    with pytest.raises(RuntimeError, match="has no process_index: this version is not known"):
        take_over(shard)
    assert len(list(shard)) == 10, "one that is not accelerate's is left alone"
    IterableDatasetShard.__module__ = "accelerate.data_loader"
    with pytest.raises(RuntimeError, match="this version is not known"):
        list(shard)
    shard.process_index, shard.batch_size, shard.split_batches = 0, 1, False
    with pytest.raises(RuntimeError, match="takes a part of this rank's part"):
        list(shard)
    assert len(list(IterableDatasetShard(PIPE.dataset("value", shard=False)))) == 10


# ---- what a loader has of a DataLoader ----


def test_a_part_of_a_loaders_dataset():
    loader = PIPE.loader("value", format="torch")
    part = torch.utils.data.Subset(loader.dataset, range(30, 40))
    (x,) = next(iter(DataLoader(part, batch_size=10)))
    assert x.tolist() == list(itertools.chain(*epoch_of(PIPE, 0)))[30:]
    assert isinstance(loader.sampler, torch.utils.data.Sampler) and len(loader.sampler) == 40
    x, y = [value for (value,) in loader.dataset][:2]
    assert isinstance(x, torch.Tensor) and x.shape == ()


# ---- distributed ----

RANK_CODE = """
import json, sys
import torch.distributed as dist
import stoker
rank, file = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method="file://" + file, rank=rank, world_size=2)
loader = stoker.range(21).shuffle(seed=5).batch(3).torch()
print(json.dumps([[b["value"].tolist() for b in loader] for _ in range(2)]))
"""


def test_an_initialised_process_group_is_honoured(tmp_path):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-c", RANK_CODE]
    children = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "store")], env=env, stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    parts = [json.loads(child.communicate(timeout=100)[0]) for child in children]
    for epoch in range(2):
        a, b = (list(itertools.chain(*part[epoch])) for part in parts)
        assert len(a) == len(b) == 11
        assert set(a) | set(b) == set(range(21))
        assert len(set(a) & set(b)) == 1


# ---- Lightning ----


def test_lightning_takes_a_loader_as_it_is(tmp_path):
    lightning = pytest.importorskip("lightning.pytorch")

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.seen = []

        def training_step(self, batch, index):
            self.seen.append(batch["value"].tolist())
            return self.layer(batch["value"].float()[:, None]).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.0)

    model = Model()
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False
    )
    trainer.fit(model, PIPE.loader(format="torch"))
    assert model.seen == epoch_of(PIPE, 0) + epoch_of(PIPE, 1)


def test_bfloat16_tensors_stay_what_they_are():
    ones = torch.ones(2, dtype=torch.bfloat16)
    mapped = stoker.range(4).map(lambda sample: {"x": ones * float(sample["value"])}).batch(4)
    rows = stoker.source({"x": torch.arange(4).to(torch.bfloat16)[:, None].repeat(1, 2)}).batch(4)
    items = stoker.source([{"x": ones * i} for i in range(4)]).batch(4)
    for pipe in (mapped, rows, items):
        x = next(iter(pipe.torch("x")))[0]
        assert x.dtype is torch.bfloat16
        assert x.tolist() == [[i, i] for i in range(4)]


def test_a_dataset_says_what_it_is():
    assert repr(PIPE.dataset()) == f"<stoker.torch.Dataset of {PIPE!r}, format='torch'>"


def test_a_dataset_made_anew_in_each_epoch_is_told(recwarn):
    pipe = stoker.range(20).shuffle(seed=9).batch(4)
    for _ in range(2):
        list(torch.utils.data.DataLoader(pipe.dataset("value"), batch_size=None))
    assert sum("begins with epoch 0 once more" in str(w.message) for w in recwarn) == 1
