"""Pipelines: what becomes of Python values, and what can be asked of a pipeline without a loop."""

import os
import pathlib
import pickle
import sys

import numpy as np
import pytest

import stoker
from stoker._text import call_text, parse_size, quoted


def test_ops_become_text_with_one_op_per_line():
    pipe = (
        stoker.tfrecord("d/*.tfrecord")
        .shuffle(seed=42)
        .parse(image="bytes", label='int64(from="a/b")', box="float32[?, 4]")
        .batch(256, drop_last=True)
    )
    assert str(pipe) == (
        'tfrecord("d/*.tfrecord")\n'
        "| shuffle(seed=42)\n"
        '| parse(image=bytes, label=int64(from="a/b"), box=float32[?, 4])\n'
        "| batch(size=256, drop_last=true)"
    )
    assert repr(pipe) == "<stoker.Pipeline: 4 ops: tfrecord | shuffle | parse | batch>"


def test_options_with_their_default_are_left_out():
    assert str(stoker.range(10, start=0, step=1).shuffle(seed=0, reshuffle=True)) == "range(stop=10)\n| shuffle()"


def test_the_text_of_a_pipeline_reads_back_the_same():
    pipe = stoker.range(10).filter('value != 3 and value < "9"[0]'.replace('"9"[0]', "9")).batch(3)
    assert str(stoker.pipeline(str(pipe))) == str(pipe)


def test_a_pipeline_can_be_the_start_of_several():
    start = stoker.range(10)
    one, two = start.batch(2), start.batch(5)
    assert str(start) == "range(stop=10)"
    assert (len(one.numpy()), len(two.numpy())) == (5, 2)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("int", 3, "3"),
        ("int", np.int32(-3), "-3"),
        ("int", 4.0, "4"),
        ("int", "auto", "auto"),
        ("float", 0.1, "0.1"),
        ("float", 2, "2"),
        ("float", np.float64(1e-7), "1e-07"),
        ("float", 1e300, "1e+300"),
        ("bool", np.True_, "true"),
        ("string", 'a"\\\n\x01é', '"a\\"\\\\\\n\\x01é"'),
        ("string", pathlib.Path("a/b"), '"a/b"'),
        ("string", b"a\xff", '"a\\xff"'),
        ("enum", "CHW", "CHW"),
        ("size", "256M", "256M"),
        ("size", 4096, "4096"),
        ("numbers", np.array([0.5, 1]), "[0.5, 1]"),
        ("numbers", (1, 2.5), "[1, 2.5]"),
        ("numbers", 3, "[3]"),
        ("field", "image", "image"),
        ("field", "true", '"true"'),
        ("field", "a b", '"a b"'),
    ],
)
def test_values_are_written_as_the_engine_reads_them(kind, value, text):
    assert call_text("op", [("first", "int", 1, 1), ("x", kind, value, ...)]) == f"op(x={text})"


@pytest.mark.parametrize(
    ("kind", "value", "error"),
    [
        ("int", True, TypeError),
        ("int", 1.5, TypeError),
        ("int", "a b", TypeError),
        ("int", 1 << 63, ValueError),
        ("float", float("nan"), ValueError),
        ("float", float("-inf"), ValueError),
        ("float", 10**400, ValueError),
        ("float", "1", TypeError),
        ("bool", 1, TypeError),
        ("string", "a\0b", ValueError),
        ("string", "\ud800", ValueError),
        ("string", 5, TypeError),
        ("size", -1, ValueError),
        ("size", "12X", ValueError),
        ("numbers", [1, float("nan")], ValueError),
        ("numbers", "12", TypeError),
        ("field", 5, TypeError),
        ("field", "", ValueError),
        ("fields", [], ValueError),
        ("args", {"x": 5}, TypeError),
        ("int", None, TypeError),
    ],
)
def test_a_wrong_value_names_op_and_option(kind, value, error):
    with pytest.raises(error, match="^op: x: "):
        call_text("op", [("x", kind, value, ...)])


def test_lists_go_by_position_only_in_the_first_place():
    paths = ("strings", [["a", pathlib.Path("b")], "c"])
    assert call_text("op", [("paths", *paths, ...)]) == 'op("a", "b", "c")'
    assert call_text("op", [("n", "int", 1, 1), ("paths", *paths, None)]) == 'op(paths=["a", "b", "c"])'


@pytest.mark.parametrize(
    ("text", "size"), [("256M", 256 << 20), ("1.5 GiB", 3 << 29), ("12", 12), (7, 7), ("2kb", 2048)]
)
def test_sizes_are_read(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "value",
    [
        'int64) | write_tfrecord("x"',
        "int64, y=float32",
        "int64 # ",
        "int64\n",
        'int64(from="a") | drop(x',
        'int64(from="a")(',
        "float32[2] | take(1",
        '"a") | take(1',
        "int64()[",
        "bytes(from='",
    ],
)
def test_a_type_text_cannot_bring_in_anything_else(value):
    """It comes out as one op, in which the text is a type of one field or a mere string."""
    try:
        pipe = stoker.tfrecord("a").parse(x=value)
    except ValueError:
        return
    ops = stoker._core.text_ops(str(pipe))
    assert [op[0] for op in ops] == ["tfrecord", "parse"]
    last = str(pipe).split("| ", 1)[1]
    assert last in (f"parse(x={quoted(value)})", f"parse(x={value.strip()})")
    assert last == f"parse(x={quoted(value)})" or "," not in value


def test_fields_with_other_characters_and_keywords_are_quoted():
    pipe = stoker.tfrecord("a").parse(**{"image/encoded": "bytes", "class": "int64", "true": "int64"})
    assert str(pipe).endswith('| parse("image/encoded"=bytes, class=int64, "true"=int64)')


def test_any_op_goes_by_name():
    pipe = stoker.range(10).op("shuffle", seed=3).op("rename", number="value").op("batch", size=4)
    assert str(pipe) == 'range(stop=10)\n| shuffle(seed=3)\n| rename(number="value")\n| batch(size=4)'
    assert pipe.first()["number"].shape == (4,)
    with pytest.raises(ValueError, match="did you mean 'shuffle'"):
        pipe.op("shufle")
    with pytest.raises(TypeError, match="no option 'sed'; it takes seed"):
        pipe.op("shuffle", sed=1)
    with pytest.raises(TypeError, match="batch: size: wanted a value"):
        stoker.range(10).op("batch")


def test_python_ops_cannot_be_written_by_hand():
    with pytest.raises(ValueError, match="python_map cannot be written"):
        stoker.pipeline('range(3) | python_map(__index=0, __name="f")')
    with pytest.raises(ValueError, match="there is no op 'python_map'"):
        stoker.range(3).op("python_map")


def test_mistakes_in_a_text_tell_line_and_column():
    with pytest.raises(stoker.InvalidError) as caught:
        stoker.pipeline("range(3)\n| batch(2")
    assert caught.value.line == 2
    with pytest.raises(stoker.InvalidError, match="value") as caught:
        stoker.range(3).select("nothing").batch(2).first()
    assert (caught.value.line, caught.value.op) == (2, "select")


def test_pipelines_are_read_from_files(tmp_path):
    file = tmp_path / "numbers.stoker"
    file.write_text("# numbers\nrange(7) # seven\n | batch(2)\n")
    assert str(stoker.load(file)) == "range(7)\n| batch(2)"
    file.write_bytes(b"range(\xff)")
    with pytest.raises(ValueError, match="UTF-8, found byte 0xff at 6"):
        stoker.load(file)
    file.write_bytes(b" " * (2 << 20))
    with pytest.raises(ValueError, match="more than"):
        stoker.load(file)


def test_texts_beyond_ascii_keep_their_places(tmp_path):
    pipe = stoker.pipeline('text("é/ü.txt") | rename(grün=line) | take(3)'.replace("grün=line", '"grün"=line'))
    assert str(pipe) == 'text("é/ü.txt")\n| rename("grün"=line)\n| take(3)'


def test_first_fields_and_explain_look_without_a_loop():
    pipe = stoker.range(10).batch(4)
    assert pipe.first()["value"].tolist() == [0, 1, 2, 3]
    assert [x.tolist() for x in pipe.first("value")] == [[0, 1, 2, 3]]
    assert pipe.fields() == {"value": "int64"}
    assert stoker.range(10).fields() == {"value": "int64"}
    assert "batch(size=4)  -> 3 batches" in pipe.explain()
    with pytest.raises(ValueError, match="no batch"):
        stoker.range(0).batch(4).first()


def test_loops_need_a_batch_and_no_sink(tmp_path):
    with pytest.raises(ValueError, match=r"put \.batch\(n\) at the end"):
        next(iter(stoker.range(3)))
    with pytest.raises(ValueError, match=r"ends in write_tfrecord, which takes the batches: use \.run\(\)"):
        stoker.range(3).write_tfrecord(tmp_path / "a.tfrecord").numpy()
    with pytest.raises(ValueError, match="batch cannot stand behind discard"):
        stoker.range(3).discard().batch(2)


def test_a_pipeline_is_a_loop_over_numpy_arrays():
    assert [b["value"].tolist() for b in stoker.range(5).batch(2)] == [[0, 1], [2, 3], [4]]


def test_run_writes_and_publishes(tmp_path):
    path = tmp_path / "a.tfrecord"
    stats = stoker.range(100).write_tfrecord(path).run()
    assert (stats["samples"], path.exists()) == (100, True)
    assert stats["seconds"] > 0
    read = stoker.tfrecord(path).parse(value="int64").batch(100).first()
    assert read["value"].tolist() == list(range(100))


def test_a_run_that_fails_leaves_no_file(tmp_path):
    def fail(what, done, total):
        raise KeyboardInterrupt

    place = tmp_path / "out"
    place.mkdir()
    pipe = stoker.range(100000).batch(10).write_tfrecord(place / "a.tfrecord")
    with pytest.raises(KeyboardInterrupt):
        pipe.run(progress=fail)
    with pytest.raises(stoker.CancelledError):
        pipe.run(progress=lambda what, done, total: done < 5)
    assert list(place.iterdir()) == []


def test_progress_is_told_and_can_be_a_line(tmp_path, capsys):
    seen = []
    stoker.range(100).batch(10).discard().run(progress=lambda *told: seen.append(told))
    assert seen[-1] == ("batches", 10, 10)
    stoker.range(100).batch(10).discard().run(progress=True)
    err = capsys.readouterr().err
    assert "batches: " in err and err.endswith("\r")


def test_options_of_runs_are_checked():
    pipe = stoker.range(10).batch(2)
    for options, error, text in [
        ({"thread": 2}, TypeError, "no option 'thread'"),
        ({"threads": -1}, ValueError, "threads: wanted a number in 0"),
        ({"threads": True}, TypeError, "threads: wanted a whole number"),
        ({"memory": "much"}, ValueError, "memory: wanted a size"),
        ({"on_error": "ignore"}, ValueError, "on_error: wanted one of stop"),
        ({"quarantine": ""}, ValueError, "quarantine: wanted a path"),
        ({"exact": 1}, TypeError, "exact: wanted True or False"),
        ({"progress": 5}, TypeError, "progress: wanted True or a function"),
    ]:
        with pytest.raises(error, match=text):
            pipe.options(**options)
    with pytest.raises(ValueError, match="go together"):
        pipe.numpy(on_error="quarantine")
    with pytest.raises(ValueError, match="rank and world go together"):
        next(iter(pipe.numpy(rank=1)))


def test_options_of_a_loop_win_over_those_of_the_pipeline():
    pipe = stoker.range(10).batch(2).options(threads=2, seed=5)
    loader = pipe.numpy(threads=1)
    assert (loader._passes.runs.options["threads"], loader._passes.runs.options["seed"]) == (1, 5)
    list(loader)
    assert loader.stats()["threads"] == 1


def test_indexes_are_kept_where_the_program_keeps_them(tmp_path, monkeypatch):
    path = tmp_path / "a.tfrecord"
    stoker.range(1000).write_tfrecord(path).run()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    pipe = stoker.tfrecord(path).batch(10)
    pipe.options(cache_dir=None).first()
    assert not (tmp_path / "cache").exists()
    pipe.first()
    assert list((tmp_path / "cache" / "stoker").rglob("*"))


def square(sample):
    return {"value": sample["value"] ** 2}


def test_pipelines_pickle_with_functions_by_reference():
    pipe = stoker.range(5).map(square, value="int64").batch(5).options(threads=1)
    again = pickle.loads(pickle.dumps(pipe))
    assert str(again) == str(pipe)
    assert again.first()["value"].tolist() == [0, 1, 4, 9, 16]
    assert again._options == {"threads": 1}


def test_a_pipeline_shows_itself_escaped():
    html = stoker.text("<b>&.txt")._repr_html_()
    assert "<b>" not in html and "&lt;b&gt;&amp;.txt" in html


def test_the_import_brings_no_heavy_modules():
    heavy = ("numpy", "torch", "json", "inspect", "typing", "dataclasses")
    code = f"import sys, stoker; print([m for m in {heavy} if m in sys.modules])"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    import subprocess

    out = subprocess.run([sys.executable, "-S", "-c", code], env=env, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_everything_that_is_named_is_there():
    for name in stoker.__all__:
        assert getattr(stoker, name) is not None, name
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        stoker.nothing
    assert set(stoker.__all__) <= set(dir(stoker))


def test_ops_of_plugins_go_by_name(build):
    """In a process of its own, since a plug-in stays loaded."""
    import subprocess

    plugin = build / "examples" / "op_negate.so"
    code = f"""if 1:
        import stoker
        names = stoker.load_plugin({str(plugin)!r})
        pipe = stoker.range(4).op("negate", field="value").batch(4)
        print(names, str(pipe).splitlines()[1], pipe.first()["value"].tolist())
    """
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "['add_noise', 'negate'] | negate(field=value) [0, -1, -2, -3]"


def test_help_and_star_imports_need_no_torch():
    """In a process of its own, where torch cannot be imported."""
    import subprocess

    code = """if 1:
        import pydoc, sys
        sys.modules["torch"] = None
        import stoker
        from stoker import *
        print("stoker.tfrecord" in pydoc.render_doc(stoker) or "tfrecord(" in pydoc.render_doc(stoker))
        print(hasattr(stoker, "torch"))
        try:
            stoker.torch
        except AttributeError as error:
            print(error)
    """
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert out.stdout.splitlines() == [
        "True",
        "False",
        "stoker.torch needs the package 'torch', which is not installed",
    ]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("thread", "did you mean 'threads'"),
        ("num_workers", "threads=N is the number of threads"),
        ("batch_size", r"pipe\.batch\(n\)"),
        ("shuffle", r"pipe\.shuffle"),
        ("quite_else", "wanted some of threads, memory"),
    ],
)
def test_options_that_do_not_exist_say_what_is_meant(name, advice):
    with pytest.raises(TypeError, match=f"there is no option '{name}'; .*{advice}"):
        stoker.range(4).batch(2).numpy(**{name: 2})


def test_a_field_that_is_not_there_names_the_nearest():
    with pytest.raises(KeyError, match=r"no field 'valeu' \(did you mean 'value'\?\); the pipeline gives value"):
        list(stoker.range(4).batch(2).numpy("valeu"))
    with pytest.raises(KeyError, match=r"no field 'dubble' \(did you mean 'double'\?\); the pipeline gives value, double"):
        list(stoker.range(4).batch(2).map(lambda b: {"double": b["value"] * 2}).numpy("dubble"))
