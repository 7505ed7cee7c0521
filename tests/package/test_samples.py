"""Samples of a pipeline: their number, one by its place, names of classes, a look at them; what a loader has of a DataLoader."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys

import numpy as np
import pytest

import stoker

ROWS = stoker.source({"x": np.arange(20, dtype=np.float32).reshape(10, 2), "y": np.arange(10)})
PIPE = stoker.range(10).shuffle(seed=3).batch(4)


@pytest.fixture
def photos(tmp_path):
    images = np.broadcast_to(np.arange(12, dtype=np.uint8)[:, None, None, None] * 20, (12, 8, 10, 3))
    rows = stoker.source({"image": np.ascontiguousarray(images), "label": np.arange(12) % 3})
    rows.encode_png("image").write_image_folder("photos", "image", "label", classes=["owl", "fox", "cat"]).run()
    return "photos"


# ---- count ----


@pytest.mark.parametrize(
    "pipe, count",
    [
        (stoker.range(10), 10),
        (PIPE, 10),
        (stoker.range(10).batch(4, drop_last=True), 10),
        (stoker.range(10).take(7).batch(4).repeat(3).prefetch(2), 7),
        (stoker.range(10).repeat(3).batch(4), 30),
        (stoker.range(10).batch(4).repeat(), 10),
        (stoker.range(0).batch(4), 0),
        (stoker.range(10).shard().batch(2), 10),
        (stoker.range(10).shard(count=2, index=0).batch(2), 5),
    ],
    ids=str,
)
def test_samples_of_an_epoch_are_counted_before_batching(pipe, count, monkeypatch):
    assert pipe.count() == count
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert pipe.count() == count


@pytest.mark.parametrize(
    "pipe, why",
    [
        (stoker.range(10).filter("value > 3").batch(2), "filter"),
        (stoker.range(10).repeat().batch(2), "repeats without an end"),
        (stoker.source(lambda: iter([{"x": 1}])).batch(2), "stream"),
        (stoker.range(10).batch(2).take(3), r"take\(count=3\) stands behind batch"),
        (stoker.range(10).options(on_error="skip"), "left out"),
    ],
    ids=str,
)
def test_a_count_that_nobody_knows_says_why(pipe, why):
    with pytest.raises(TypeError, match=why):
        pipe.count()
    with pytest.raises(TypeError):
        len(pipe)


def test_a_sink_counts_what_comes_to_it():
    assert ROWS.write_tfrecord("out.tfrecord").count() == 10


# ---- one sample ----


def test_a_sample_by_its_place_in_epoch_0():
    order = [int(v) for batch in PIPE for v in batch["value"]]
    assert [int(PIPE[i]["value"]) for i in range(-10, 10)] == order * 2
    assert [int(stoker.range(10).shuffle(seed=3)[np.int64(i)]["value"]) for i in range(10)] == order
    sample = ROWS.batch(3)[4]
    assert sample["x"].tolist() == [8, 9] and sample["x"].dtype == np.float32
    assert sample["x"].base is None, "a copy: no batch is kept for it"
    assert sample["y"] == 4


def test_samples_past_the_end_and_parts():
    for index in (10, 99, -11):
        with pytest.raises(IndexError):
            PIPE[index]
    for index in (slice(3), "value", None, 1.5):
        with pytest.raises(TypeError, match=r"skip\(n\)\.take\(m\)"):
            PIPE[index]


def test_a_sample_behind_a_filter_of_a_stream_and_of_varying_length():
    assert stoker.range(10).filter("value > 3")[2]["value"] == 6
    stream = stoker.source(lambda: ({"text": f"line {i}"} for i in range(5)))
    assert stream.batch(2)[3] == {"text": b"line 3"}
    ragged = stoker.source([{"n": np.arange(i)} for i in range(4)], n="int64[]").batch(4)
    assert ragged[3]["n"].tolist() == [0, 1, 2]
    assert ragged[0]["n"].tolist() == []


def test_all_ranks_see_the_same_sample(monkeypatch):
    first = [int(PIPE[i]["value"]) for i in range(10)]
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert [int(PIPE[i]["value"]) for i in range(10)] == first


# ---- classes ----


def test_classes_are_those_of_the_labels(photos, tmp_path):
    pipe = stoker.image_folder(photos).shuffle(seed=1).batch(4)
    assert pipe.classes == ["cat", "fox", "owl"]
    own = stoker.image_folder(photos, classes=["owl", "cat"])
    assert own.decode_image("image").batch(2).classes == ["owl", "cat"]
    (tmp_path / "names").write_text("fox\nowl\n")
    assert stoker.image_folder(photos, classes=str(tmp_path / "names")).classes == ["fox", "owl"]
    for sample in (own[i] for i in range(8)):
        assert sample["path"].decode().split("/")[0] == own.classes[sample["label"]]
    assert not hasattr(PIPE, "classes")
    with pytest.raises(AttributeError, match="range has no names of classes"):
        PIPE.classes  # noqa: B018


# ---- a look ----


def test_pictures_are_shown_as_a_sheet(photos):
    folder = stoker.image_folder(photos)
    small = folder.show(3)
    assert small._repr_png_().startswith(b"\x89PNG") and small.count == 3
    floats = folder.decode_image("image").center_crop("image", 8, 8).cast(image="float32").layout("image", "CHW")
    sheet = floats.batch(4).show(columns=4, zoom=2)
    assert repr(sheet).startswith("<stoker sheet: 12 pictures of field 'image'")
    sheet.save("sheet.png")
    shown = stoker.source({"png": [open("sheet.png", "rb").read()]}).decode_image("png")[0]["png"]
    assert shown.shape[1] >= 4 * 8 * 2
    assert stoker.range(3).show()._repr_html_().count("<tr>") == 4


def test_other_samples_are_shown_as_a_table():
    pipe = stoker.source({"x": np.arange(20, dtype=np.float32).reshape(2, 10), "name": [b"<b>", b"two"]})
    table = pipe.batch(2).show()
    assert "float32[10]: 0 1 2 3 4 5 ..." in str(table)
    assert "<b>" not in table._repr_html_() and "&lt;b&gt;" in table._repr_html_()
    table.save("table.html")
    assert "two" in open("table.html").read()
    with pytest.raises(ValueError, match="n: wanted at least 1"):
        pipe.show(0)


# ---- what a loader has of a DataLoader ----


def test_a_loader_has_what_scripts_ask_of_it(photos):
    loader = stoker.image_folder(photos).shuffle(seed=1).batch(5, drop_last=True).loader("path", "label")
    assert (loader.batch_size, loader.drop_last, loader.num_workers, loader.pin_memory) == (5, True, 0, False)
    assert len(loader) == 2 and len(loader.dataset) == 12 and len(loader.sampler) == 12
    assert loader.dataset.pipeline is loader.pipeline
    assert loader.dataset.classes == ["cat", "fox", "owl"]
    assert loader.dataset.class_to_idx == {"cat": 0, "fox": 1, "owl": 2}
    path, label = loader.dataset[-1]
    assert path.decode().split("/")[0] == loader.dataset.classes[label]
    assert [label for _, label in loader.dataset] == [loader.dataset[i][1] for i in range(12)]
    assert not hasattr(PIPE.loader().dataset, "classes")
    for text in ("batch(5, true)", "batch(drop_last=true, size=5)", "batch( 0x5 , pad = false, drop_last = true)"):
        loader = stoker.pipeline("range(10) | " + text).loader()
        assert (loader.batch_size, loader.drop_last) == (5, True)


@pytest.mark.parametrize("format", ["numpy", "dlpack", "jax"])
def test_samples_of_a_loaders_dataset_have_its_format(format):
    if format == "jax":
        pytest.importorskip("jax")
    dataset = ROWS.batch(4).loader("x", format=format).dataset
    assert [np.asarray(x).tolist() for (x,) in dataset] == [[2 * i, 2 * i + 1] for i in range(10)]
    assert np.asarray(dataset[3][0]).tolist() == [6, 7]


def test_lengths_of_ranks():
    pipe = stoker.range(11)
    for uneven, longest in (("pad", 6), ("keep", 6), ("drop", 5)):
        for rank in range(2):
            loader = pipe.shard(uneven=uneven).batch(2).loader(rank=rank, world=2)
            assert len(loader.sampler) == longest and len(loader.dataset) == 11


def test_a_sampler_sets_the_epoch_of_a_loop():
    loader, other = PIPE.loader("value"), PIPE.loader("value")
    loader.sampler.set_epoch(4)
    other.set_epoch(4)
    assert [v.tolist() for (v,) in loader] == [v.tolist() for (v,) in other]
    double = PIPE.loader(epochs=2)
    double.sampler.set_epoch(3)
    assert double.epoch == 6
    endless = PIPE.repeat().loader()
    endless.sampler.set_epoch(3)
    assert endless.epoch == 0
    with pytest.raises(TypeError, match="loop over the loader"):
        iter(loader.sampler)


def test_batches_by_their_place():
    """What accelerate's skip_first_batches asks for, by a DataLoader of its own."""
    loader = PIPE.loader("value")
    loader.set_epoch(2)
    whole = [v.tolist() for (v,) in loader]
    loader.set_epoch(2)
    dataset, places = loader.dataset, iter(loader.batch_sampler)
    assert len(loader.batch_sampler) == 3 and loader.batch_sampler.batch_size == 4
    next(places)
    rest = []
    with pytest.raises(StopIteration):
        for place in places:
            rest.append(loader.collate_fn(dataset.__getitems__(place))[0].tolist())
    assert rest == whole[1:]
    assert [int(v) for (v,) in dataset.__getitems__([1, 0])] == [int(PIPE[1]["value"]), int(PIPE[0]["value"])]


def test_a_loader_with_a_known_count_pickles():
    loader = PIPE.loader("value")
    assert len(loader.dataset) == 10
    assert len(pickle.loads(pickle.dumps(loader)).dataset) == 10


# ---- at exit ----

OPEN_LOOPS = {
    "iterator": "loader = pipe.loader('value'); loop = iter(loader); next(loop)",
    "in a cycle": "loop = iter(pipe.loader('value')); next(loop); cycle = [loop]; cycle.append(cycle)",
    "exception": "loop = iter(pipe.loader('value')); next(loop); raise SystemExit(0)",
    # Held by a module that is older than ours and that something in C keeps: it is cleared when ours has no names left.
    "in an old module": (
        "import ctypes; held.loop = iter(pipe.loader('value')); next(held.loop)\n"
        "ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))"
    ),
}


@pytest.mark.parametrize("torch", [False, True])
@pytest.mark.parametrize("code", OPEN_LOOPS.values(), ids=list(OPEN_LOOPS))
def test_a_loop_that_is_open_at_exit_says_nothing(code, torch):
    if torch:
        pytest.importorskip("torch")
    head = f"import {'torch' if torch else 'json'} as held\nimport stoker\npipe = stoker.range(1000).batch(4)\n"
    if torch:
        code = code.replace("'value'", "'value', format='torch'")
    done = subprocess.run([sys.executable, "-c", head + code], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_places_of_a_loop_do_not_run_over():
    """A plain walk over the sampler has no end of its own: the dataset ends it."""
    places = list(itertools.islice(PIPE.loader().batch_sampler, 5))
    assert [place.number for place in places] == [0, 1, 2, 3, 4]
