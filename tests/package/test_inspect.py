"""stoker.inspect: what is in files, and the line of Python that reads them."""

from __future__ import annotations

import io
import pathlib
import struct
import tarfile

import pytest

import stoker

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "data" / "tf"
np = pytest.importorskip("numpy")


def samples(line: str) -> list[dict[str, object]]:
    """What the proposed line gives, sample by sample."""
    pipe: stoker.Pipeline = eval(line, {"stoker": stoker})
    return [
        {name: value[0].tolist() if hasattr(value[0], "tolist") else value[0] for name, value in batch.items()}
        for batch in pipe.batch(1)
    ]


def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def write_numbers(path: str, count: int) -> None:
    stoker.range(count).write_tfrecord(path).run()


# ---- a line for every format ----


def test_tfrecord() -> None:
    write_numbers("a.tfrecord", 5)
    found = stoker.inspect("a.tfrecord")
    assert found.python == 'stoker.tfrecord("a.tfrecord").parse(value="int64")'
    assert [sample["value"] for sample in samples(found.python)] == [0, 1, 2, 3, 4]
    assert found.json[0]["records"] == 5 and found.json[0]["format"] == "tfrecord"
    assert "page" not in found.json[0]
    assert found.notes == [] and found.bad == 0


@pytest.mark.parametrize("name", ["example.tfrecord", "example.tfrecord.gz", "sequence.tfrecord"])
def test_tfrecords_of_tensorflow(name: str) -> None:
    found = stoker.inspect(FIXTURES / name)
    assert len(samples(found.python)) == found.json[0]["records"]


def test_records_that_are_no_examples_are_told() -> None:
    found = stoker.inspect(FIXTURES / "unusual.tfrecord")
    assert any("are no Examples, and parse fails there" in note for note in found.notes)


def test_webdataset() -> None:
    with tarfile.open("a.tar", "w") as archive:
        for i in range(3):
            add(archive, f"{i}.jpg", b"J" * i)
            add(archive, f"{i}.cls", b"%d" % i)
            if i:
                add(archive, f"{i}.class", b"text")
    found = stoker.inspect("a.tar")
    assert found.python == (
        'stoker.webdataset("a.tar", image=\'bytes(from="jpg")\', label=\'int64(from="cls")\', '
        '**{"class": \'bytes(from="class", default="")\'})'
    )
    read = samples(found.python)
    assert [sample["label"] for sample in read] == [0, 1, 2]
    assert [sample["class"] for sample in read] == [b"", b"text", b"text"]
    assert found.notes == ["class (in 2 of 3) is missing in some samples, which get the default"]


def test_hdf5() -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File("a.h5", "w") as file:
        file["x"] = np.arange(12.0).reshape(6, 2)
        file["deep/lambda"] = np.arange(6)
        file["paths"] = np.arange(6)
        file["few"] = np.arange(2)
    found = stoker.inspect("a.h5")
    assert found.python == (
        'stoker.hdf5("a.h5", paths_="/paths", x="/x", **{"lambda": "/deep/lambda"})'
    ), found.python
    read = samples(found.python)
    assert [sample["lambda"] for sample in read] == list(range(6)) == [sample["paths_"] for sample in read]
    assert read[5]["x"] == [10, 11]
    assert found.notes == ["/few: has 2 rows, those of one line must have as many (6)"]


def test_text() -> None:
    pathlib.Path("it's a \"text\".txt").write_text("one\ntwo\n")
    found = stoker.inspect("it's a \"text\".txt")
    assert [sample["text"] for sample in samples(found.python)] == [b"one", b"two"]
    assert found.json[0]["format"] == "text"


def test_folder_of_pictures() -> None:
    for name in ("p/cat/1.jpg", "p/dog/1.png", "p/dog/2.png"):
        pathlib.Path(name).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(name).write_bytes(name.encode())
    found = stoker.inspect("p")
    assert found.python == 'stoker.image_folder("p")'
    assert [sample["label"] for sample in samples(found.python)] == [0, 1, 1]
    assert found.json[0]["classes"] == [{"name": "cat", "pictures": 1}, {"name": "dog", "pictures": 2}]


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def message(number: int, data: bytes) -> bytes:
    """A field of a protobuf message; of up to 16383 bytes."""
    return bytes([number << 3 | 2, len(data) & 127 | 128, len(data) >> 7]) + data


def test_names_that_are_no_names_of_python() -> None:
    names = [b"a b", b"a_b", b"9", b'q"q', b"it's", b"new\nline", b"\x1b[31m", b"\xff\xfe", "\u202e".encode()]
    names += [b"class", b"true", b"schema", b"record", b"self", b""]
    value = message(3, message(1, b"\x07"))
    record = message(1, b"".join(message(1, message(1, name) + message(2, value)) for name in names))
    size = struct.pack("<Q", len(record))
    pathlib.Path("names.tfrecord").write_bytes(size + masked(size) + record + masked(record))
    found = stoker.inspect("names.tfrecord")
    (sample,) = samples(found.python)
    assert list(sample.values()) == [7] * len(names), found.python
    assert sample.keys() >= {"a_b", "class", "self"} and found.python.isprintable()


# ---- several files ----


def test_a_pattern_stays_a_pattern() -> None:
    stoker.range(10).write_tfrecord("part-%05d", shards=3).run()
    found = stoker.inspect("part-*")
    assert found.python == 'stoker.tfrecord("part-*").parse(value="int64")'
    assert sorted(sample["value"] for sample in samples(found.python)) == list(range(10))  # type: ignore[type-var]
    assert len(found.json) == 3


def test_files_that_differ_get_a_line_that_reads_all() -> None:
    stoker.source({"x": np.zeros((2, 4), np.float32), "only": np.arange(2)}).write_tfrecord("a.tfrecord").run()
    stoker.source({"x": np.ones((2, 7), np.float32)}).write_tfrecord("b.tfrecord").run()
    found = stoker.inspect(["a.tfrecord"], pathlib.Path("b.tfrecord"))
    assert found.python == 'stoker.tfrecord("a.tfrecord", "b.tfrecord").parse(only="int64[]", x="float32[]")'
    assert [len(sample["x"]) for sample in samples(found.python)] == [4, 4, 7, 7]  # type: ignore[arg-type]


def test_types_that_differ_are_left_out_and_told() -> None:
    stoker.source({"x": np.zeros(2, np.float32), "y": np.arange(2)}).write_tfrecord("a.tfrecord").run()
    stoker.source({"x": np.arange(2), "y": np.arange(2)}).write_tfrecord("b.tfrecord").run()
    found = stoker.inspect("a.tfrecord", "b.tfrecord")
    assert found.python == 'stoker.tfrecord("a.tfrecord", "b.tfrecord").parse(y="int64")'
    assert found.notes == ["left out of the line: x, which is float32 and int64 in all files"]


def test_archives_that_differ_get_defaults() -> None:
    for path, members in ("a.tar", {"jpg": b"J", "cls": b"1"}), ("b.tar", {"png": b"P", "cls": b"0.5", "w": b"7"}):
        with tarfile.open(path, "w") as archive:
            for extension, data in members.items():
                add(archive, f"{path}.{extension}".replace(".tar.", "."), data)
    found = stoker.inspect("*.tar")
    read = samples(found.python)
    assert [sample["label"] for sample in read] == [1, 0.5]
    assert [sample["w"] for sample in read] == [0, 7]
    assert [sample["image"] for sample in read] == [b"J", b"P"]


def test_formats_have_a_line_each() -> None:
    write_numbers("d.tfrecord", 2)
    stoker.range(2).write_hdf5("d.h5").run()
    assert stoker.inspect("d.*").python.split("\n") == [
        'stoker.hdf5("d.h5", value="/value")',
        'stoker.tfrecord("d.tfrecord").parse(value="int64")',
    ]


# ---- what it says ----


def test_what_was_not_looked_at_is_told() -> None:
    write_numbers("a.tfrecord", 20)
    (note,) = stoker.inspect("a.tfrecord", records=5).notes
    assert note.startswith("made from the first 5 of 20 records")
    assert stoker.inspect("a.tfrecord", records=None).notes == []


def test_it_prints_as_the_program_does() -> None:
    write_numbers("a.tfrecord", 5)
    found = stoker.inspect("a.tfrecord")
    lines = str(found).split("\n")
    assert lines[0] == "a.tfrecord"
    assert "  to read it   parse(value=int64)" in lines
    assert lines[-2:] == ["in Python", "  " + found.python]
    assert repr(found) == str(found)


def test_notebooks_get_it_escaped() -> None:
    name = "<img src=x>&.txt"
    pathlib.Path(name).write_text("<b>\n")
    html = stoker.inspect(name)._repr_html_()
    assert "<img" not in html and "&lt;img src=x&gt;&amp;.txt" in html
    assert "stoker.text(&quot;&lt;img" in html
    assert "\n  compression" in html


# ---- damage and mistakes ----


def damaged(path: str) -> None:
    data = bytearray((FIXTURES / "example.tfrecord").read_bytes())
    data[2000] ^= 1
    pathlib.Path(path).write_bytes(data)


def test_damage_is_counted() -> None:
    damaged("bad.tfrecord")
    found = stoker.inspect("bad.tfrecord", verify=True)
    assert found.bad == 1 and found.json[0]["bad_places"][0]["message"]
    assert "bad          1" in str(found)


def test_files_that_cannot_be_read_are_errors() -> None:
    with pytest.raises(stoker.ReadError, match="missing.tfrecord: cannot open") as caught:
        stoker.inspect("missing.tfrecord")
    assert caught.value.status == "IO" and caught.value.file == "missing.tfrecord"
    with pytest.raises(stoker.Error, match="no file matches"):
        stoker.inspect("no/*.tfrecord")
    pathlib.Path("page.tfrecord").write_text("<html>404</html>\n")
    with pytest.raises(stoker.CorruptError, match="is no TFRecord file"):
        stoker.inspect("page.tfrecord")


@pytest.mark.parametrize(
    ("paths", "options", "kind", "message"),
    [
        ([], {}, TypeError, "wanted one or more paths"),
        ([[]], {}, TypeError, "wanted one or more paths"),
        (["-"], {}, ValueError, "standard input"),
        (["a"], {"records": 0}, ValueError, "records must be 1 or more, or None for all, found 0"),
        (["a"], {"limit": -1}, ValueError, "limit must be 1 or more"),
    ],
)
def test_mistakes(paths: list[str], options: dict[str, int], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        stoker.inspect(*paths, **options)  # type: ignore[arg-type]


def test_names_of_files_cannot_be_options() -> None:
    write_numbers("./--json.tfrecord", 3)
    found = stoker.inspect("--json.tfrecord")
    assert found.json[0]["records"] == 3
    assert len(samples(found.python)) == 3
