"""Names of files as people write them, and what is told when they are wrong."""

from __future__ import annotations

import pathlib

import pytest

import stoker


def lines(place: pathlib.Path, count: int) -> None:
    for i in range(count):
        (place / f"part-{i:03d}.txt").write_text(f"line {i}\n")


def texts(pipe: stoker.Pipeline) -> list[bytes]:
    return [row for batch in pipe.batch(8) for row in batch["text"]]


def test_braces() -> None:
    lines(pathlib.Path(), 12)
    assert texts(stoker.text("part-{008..011}.txt")) == [b"line 8", b"line 9", b"line 10", b"line 11"]
    assert texts(stoker.text("part-{001,000}.txt")) == [b"line 1", b"line 0"]
    with pytest.raises(stoker.ReadError, match="part-012.txt"):
        texts(stoker.text("part-{011..012}.txt"))


def test_home(monkeypatch: pytest.MonkeyPatch) -> None:
    home = pathlib.Path("home").absolute()
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    lines(home, 2)
    assert texts(stoker.text("~/part-*.txt")) == [b"line 0", b"line 1"]
    stoker.text("~/part-000.txt").write_tfrecord("~/out.tfrecord").run()
    assert (home / "out.tfrecord").exists() and not pathlib.Path("~").exists()
    with pytest.raises(stoker.InvalidError, match="wanted the home directory written out"):
        stoker.pipeline('range(3) | write_tfrecord("~/x")').run()


@pytest.mark.parametrize("url", ["gs://b/x", "s3://b/{0..3}.tar", "https://h/x", "hdfs://h/x"])
def test_remote_files_are_named_as_such(url: str) -> None:
    scheme = url.split("//")[0] + "//"
    for source in (stoker.text, stoker.tfrecord, stoker.image_folder):
        with pytest.raises(stoker.UnsupportedError, match=rf"remote files \({scheme}\) are not read; copy or mount"):
            source(url).batch(1).first()
    with pytest.raises(stoker.InvalidError, match=rf"remote files \({scheme}\) are not written"):
        stoker.pipeline("range(3)").write_tfrecord(url).run()


def test_messages_about_files_have_no_place_in_a_text() -> None:
    with pytest.raises(stoker.ReadError) as caught:
        stoker.text("nothing.txt").batch(1).first()
    assert str(caught.value).startswith("nothing.txt: text: cannot open")
    assert caught.value.line == 1
    with pytest.raises(stoker.InvalidError, match="line 2, column 3: unknown op"):
        stoker.pipeline("range(3) | nonsense").run()


def test_a_list_of_one_class_is_a_list() -> None:
    for name in ("cat", "dog"):
        pathlib.Path("pictures", name).mkdir(parents=True)
        pathlib.Path("pictures", name, "1.jpg").write_bytes(b"x")
    pathlib.Path("names").write_text("dog\ncat\n")
    for classes, paths in ((["cat"], [b"cat/1.jpg"]), ("names", [b"dog/1.jpg", b"cat/1.jpg"]), (["dog", "cat"], [b"dog/1.jpg", b"cat/1.jpg"])):
        assert list(stoker.image_folder("pictures", classes=classes).batch(4).first()["path"]) == paths
