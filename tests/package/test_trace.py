"""The workbench from Python: traces of all formats, tables with SQL's values, Arrow without copies, and the verdict."""

from __future__ import annotations

import gc
import gzip
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import warnings

import pytest

import stoker

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "traces"
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture(scope="session")
def traces(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The small traces of the guide: rank0.json.gz, worker0.json, tf.json.gz, ..."""
    place = tmp_path_factory.mktemp("traces")
    subprocess.run([sys.executable, ROOT / "examples" / "make_traces.py", place], check=True)
    return place


def write_chrome(path: str, events: list[dict[str, object]]) -> str:
    with open(path, "w") as file:
        json.dump({"traceEvents": events}, file)
    return path


def slice_(name: str, ts: float, dur: float, tid: object = 1, **more: object) -> dict[str, object]:
    return {"ph": "X", "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": tid, **more}


def rich(path: str = "rich.json") -> str:
    """Some of everything: nested, unnamed and unfinished slices, ids that are text, counters, flows, args."""
    events: list[dict[str, object]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "main"}},
        slice_("outer", 0, 100, cat="cpu_op"),
        slice_("inner", 10, 20, args={"bytes": 7}),
        slice_("", 50, 5),
        slice_("kernel", 60, 30, "stream 7", cat="kernel"),
        {"ph": "i", "name": "mark", "ts": 70, "pid": 1, "tid": 1, "s": "t"},
        {"ph": "s", "name": "launch", "id": 1, "ts": 12, "pid": 1, "tid": 1, "cat": "ac2g"},
        {"ph": "f", "name": "launch", "id": 1, "ts": 60, "pid": 1, "tid": "stream 7", "cat": "ac2g", "bp": "e"},
        {"ph": "C", "name": "memory", "ts": 1, "pid": 1, "args": {"MB": 1.5}},
        {"ph": "C", "name": "memory", "ts": 2, "pid": 1, "args": {"MB": 3}},
        {"ph": "B", "name": "open", "ts": 95, "pid": 1, "tid": 2},
    ]
    return write_chrome(path, events)


def both() -> stoker.Trace:
    """Slices and samples in one trace."""
    pathlib.Path("s.collapsed").write_text("main;load;read 7\nmain;train 3\n")
    return stoker.open_trace(rich(), "s.collapsed")


def large(path: str = "large.json", count: int = 30000) -> str:
    return write_chrome(
        path, [slice_(f"name {i % 50}", i * 10, 5 + i % 7, i % 4, cat=f"c{i % 3}") for i in range(count)]
    )


# ---- opening ----


@pytest.mark.parametrize(
    ("path", "format"),
    [
        ("chrome/04_gzip_two_members.json", "chrome"),
        ("chrome/02_dftracer.pfw", "chrome"),
        ("pstats/cprofile.pstats", "pstats"),
        ("speedscope/py-spy.speedscope.json", "speedscope"),
        ("speedscope/py-spy.chrometrace.json", "chrome"),
        ("collapsed/folded.txt", "collapsed"),
        ("collapsed/flamegraph.svg", "flamegraph"),
        ("perf/python-cpu-clock.txt", "perf_script"),
    ],
)
def test_traces_of_all_formats_open(path: str, format: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = stoker.open_trace(DATA / path)
    assert [f for _, f in trace.files] == [format]
    assert trace.files[0][0] == str(DATA / path)
    assert format in repr(trace)
    about = trace.table("trace")
    counts = dict(zip(about.names, about[0]))
    assert counts["slices"] + counts["samples"] + counts["functions"] > 0
    assert len(trace.top()) > 0
    assert len(trace.table("slice")) == counts["slices"]
    assert len(trace.table("sample")) == counts["samples"]


def test_a_trace_says_what_it_is(traces: pathlib.Path) -> None:
    with stoker.open_trace(traces / "rank0.json.gz", traces / "worker0.json") as trace:
        text = repr(trace)
        assert text.startswith("<stoker.Trace: ")
        assert "rank0.json.gz (chrome)" in text and "worker0.json (chrome)" in text
        assert f"{len(trace.table('slice')):,} slices" in text
        assert trace.duration == pytest.approx((trace.end_ns - trace.start_ns) / 1e9)
        assert trace.duration > 0
        assert len(trace.steps()) > 0


def test_what_the_program_records_can_be_asked(build: pathlib.Path) -> None:
    text = "range(1000) | batch(10)"
    subprocess.run([build / "stoker", "run", "-q", "--trace", "run.pftrace", "-e", text], check=True)
    trace = stoker.open_trace("run.pftrace")
    assert trace.files == [("run.pftrace", "perfetto")]
    assert "batch" in " ".join(trace.sql("SELECT DISTINCT name FROM slice WHERE name IS NOT NULL").column(0))


def test_patterns_are_expanded_and_a_file_is_read_once() -> None:
    write_chrome("a-1.json", [slice_("x", 0, 1)])
    write_chrome("a-2.json", [slice_("y", 0, 1)])
    trace = stoker.open_trace("a-*.json", pathlib.Path("a-1.json"))
    assert trace.files == [("a-1.json", "chrome"), ("a-2.json", "chrome")]
    assert sorted(trace.table("slice").column("name")) == ["x", "y"]


def test_files_that_are_no_traces_are_errors() -> None:
    with pytest.raises(stoker.ReadError) as caught:
        stoker.open_trace("nothing.json")
    assert caught.value.file == "nothing.json"
    pathlib.Path("text").write_bytes(b"\x00\x01\x02\x03 nothing that is a trace\n")
    with pytest.raises(stoker.CorruptError, match="chrome"):
        stoker.open_trace("text")
    with pytest.raises(stoker.InvalidError, match="perfetto"):
        stoker.open_trace(rich(), format="nonsense")
    with pytest.raises(TypeError):
        stoker.open_trace()
    with pytest.raises(TypeError):
        stoker.open_trace(["a.json"])  # type: ignore[arg-type]


def test_losses_are_counted_and_warned_of_once() -> None:
    whole = json.dumps({"traceEvents": [slice_(f"n{i}", i, 1) for i in range(100)]})
    pathlib.Path("cut\x1b.json").write_text(whole[:2000])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trace = stoker.open_trace("cut\x1b.json")
    assert [w.category for w in caught] == [stoker.StokerWarning]
    assert "cut off at the end" in str(caught[0].message) and "\x1b" not in str(caught[0].message)
    assert caught[0].filename == __file__
    notes = trace.notes
    assert notes.names == ("path", "reason", "count", "offset", "text", "lost")
    assert ("truncated", 1) in [(row[1], row[5]) for row in notes]


def test_a_whole_file_gives_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(stoker.open_trace(write_chrome("a.json", [slice_("x", 0, 1)])).notes) == 0


def test_progress_is_told_and_can_end_the_reading() -> None:
    path = large()
    calls: list[tuple[str, int, int]] = []
    stoker.open_trace(path, cache=False, progress=lambda *args: calls.append(args))
    assert calls and all(call[0] == path and call[2] == os.path.getsize(path) for call in calls)
    with pytest.raises(stoker.CancelledError):
        stoker.open_trace(path, cache=False, progress=lambda *args: False)
    with pytest.raises(ZeroDivisionError):
        stoker.open_trace(path, cache=False, progress=lambda *args: bool(1 / 0))


def test_the_cache_and_the_memory_cap_change_no_value(tmp_path: pathlib.Path) -> None:
    path = large(count=60000)
    sql = "SELECT name, count(*), sum(dur) FROM slice GROUP BY name ORDER BY name"
    expected = list(stoker.open_trace(path, cache=False).sql(sql))
    assert not (tmp_path / ".cache").exists()
    for _ in range(2):
        assert list(stoker.open_trace(path).sql(sql)) == expected
    assert (tmp_path / ".cache" / "stoker").exists()
    spilled = stoker.open_trace(path, cache=False, memory="1M", temp_dir=tmp_path)
    assert list(spilled.sql(sql)) == expected
    assert spilled.table("slice").column("ts") == stoker.open_trace(path).table("slice").column("ts")


# ---- questions ----


def test_top_is_what_the_program_prints(build: pathlib.Path, traces: pathlib.Path) -> None:
    path = traces / "rank0.json.gz"
    for options in ({}, {"by": "thread"}, {"sort": "self"}, {"pattern": "aten*"}):
        flags = [x for k, v in options.items() for x in ("--" + {"pattern": "like"}.get(k, k), v)]
        out = subprocess.run(
            [build / "stoker", "top", path, "--limit", "5", "--format", "json", "-q", *flags],
            check=True,
            capture_output=True,
        ).stdout
        table = stoker.open_trace(path).top(5, **options)
        assert [dict(zip(table.names, row)) for row in table] == json.loads(out)


def test_top_takes_words_and_says_which(traces: pathlib.Path) -> None:
    trace = stoker.open_trace(traces / "rank0.json.gz")
    assert len(trace.top(3)) == 3
    assert len(trace.top(None)) > 3
    assert trace.top(sort="calls").column("count") == sorted(trace.top(sort="calls").column("count"), reverse=True)
    with pytest.raises(stoker.InvalidError, match="did you mean 'thread'"):
        trace.top(by="thred")
    with pytest.raises(ValueError, match="n: wanted"):
        trace.top(0)


def test_the_verdict_is_what_the_program_prints(build: pathlib.Path, traces: pathlib.Path) -> None:
    paths = [traces / "rank0.json.gz", traces / "worker0.json"]
    out = subprocess.run(
        [build / "stoker", "diagnose", *paths, "-q"], check=True, capture_output=True, text=True
    ).stdout
    verdict = stoker.open_trace(*paths).diagnose()
    assert str(verdict) == out.rstrip("\n")
    assert verdict.verdict == verdict.json["verdict"] == "highly_input_bound"
    assert verdict.input_share == pytest.approx(verdict.json["input_percent"] / 100)
    assert "highly_input_bound" in repr(verdict) and "34.5 %" in repr(verdict)


def test_what_the_user_knows_is_taken(tmp_path: pathlib.Path) -> None:
    """A loop whose fetch nothing marks: the name of its function, of its step, and the rank."""
    events = []
    for step in range(8):
        at = step * 1000
        events.append({"ph": "X", "name": "prepare", "ts": at, "dur": 600, "pid": 1, "tid": 1})
        events.append({"ph": "X", "name": "go", "ts": at + 600, "dur": 400, "pid": 1, "tid": 1})
    path = tmp_path / "loop.json"
    path.write_text(json.dumps(events))
    trace = stoker.open_trace(path)
    told = trace.diagnose(wait="prep*", step="prepare")
    assert told.verdict == "highly_input_bound" and abs((told.input_share or 0) - 0.6) < 0.001
    assert trace.diagnose(wait=["a", "prep*"], step=["prepare"], rank=0).verdict == "highly_input_bound"
    with pytest.raises(stoker.Error, match="no steps of rank 3"):
        trace.diagnose(step="prepare", rank=3)
    with pytest.raises(ValueError, match="rank is -1"):
        trace.diagnose(rank=-1)


def test_the_what_if_takes_a_number(traces: pathlib.Path) -> None:
    trace = stoker.open_trace(traces / "tf.json.gz")
    assert "4 times as fast" in str(trace.diagnose(what_if=4))
    with pytest.raises(stoker.InvalidError, match="0.5"):
        trace.diagnose(what_if=0.5)


def test_a_trace_without_steps_has_no_verdict() -> None:
    verdict = stoker.open_trace(write_chrome("a.json", [slice_("x", 0, 1)])).diagnose()
    assert verdict.verdict == "unknown" and verdict.input_share is None
    assert "Unknown" in verdict._repr_html_()


def test_sql_gives_values_of_all_types() -> None:
    table = both().sql("SELECT 1 AS i, 2.5 AS d, 'é' AS t, x'00ff' AS b, NULL AS n, 4 AS i")
    assert table.names == ("i", "d", "t", "b", "n", "i:1")
    assert table.kinds == ("int64", "double", "text", "bytes", "null", "int64")
    assert table[0] == (1, 2.5, "é", b"\x00\xff", None, 4)


def test_mistakes_in_sql_tell_their_place() -> None:
    trace = both()
    with pytest.raises(stoker.InvalidError, match="no such column: nme") as caught:
        trace.sql("SELECT\n  nme FROM slice")
    assert (caught.value.line, caught.value.column) == (2, 3)
    for query, message in (
        ("SELECT 1; SELECT 2", "another statement"),
        ("", "no statement"),
        ("DROP TABLE slice", "."),
        ("CREATE TABLE x(a)", "wanted one SELECT"),
        ("ATTACH 'x.db' AS x", "not authorized"),
    ):
        with pytest.raises(stoker.InvalidError, match=message):
            trace.sql(query)
    with pytest.raises(ValueError, match="NUL"):
        trace.sql("SELECT 1\0")
    with pytest.raises(TypeError, match="wanted a str"):
        trace.sql(b"SELECT 1")  # type: ignore[arg-type]
    assert not os.path.exists("x.db")


def test_tables_are_listed_and_names_suggested() -> None:
    trace = both()
    tables = trace.tables()
    names = tables.column("name")
    assert {"slice", "track", "thread", "process", "counter", "sample", "file", "note"} <= set(names)
    for name, kind in zip(names, tables.column("kind")):
        if kind != "function":
            assert trace.table(name).names
    with pytest.raises(stoker.InvalidError, match="did you mean 'slice'"):
        trace.table("slicee")


def test_the_code_of_the_guide_runs(traces: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "guide" / "traces.md").read_text()
    blocks = re.findall(r"^```py\n(.*?)^```$", page, re.M | re.S)
    assert len(blocks) == 1 and "open_trace" in blocks[0]
    os.symlink(traces, "traces")
    exec(compile(blocks[0], "traces.md", "exec"), {})
    assert capsys.readouterr().out.startswith("Input-bound: 34.5 %")


# ---- tables ----


def test_rows_and_columns_are_plain_values() -> None:
    table = both().sql("SELECT name, dur FROM slice ORDER BY dur DESC LIMIT 3")
    assert len(table) == 3
    assert list(table) == table[:] == [table[0], table[1], table[2]]
    assert table[0] == ("outer", 100000) == table[-3]
    assert table[::-1][0] == table[2] == table[-1]
    assert table.column("dur") == table.column(1) == table.column(-1) == [100000, 30000, 20000]
    with pytest.raises(IndexError, match="3 rows"):
        table[3]
    with pytest.raises(KeyError, match="nothing"):
        table.column("nothing")
    with pytest.raises(IndexError):
        table.column(2)


def test_own_tables_have_the_values_of_sql() -> None:
    trace = both()
    for name in ("slice", "counter", "sample", "flow"):
        own, asked = trace.table(name), trace.sql(f"SELECT * FROM {name}")
        assert own.names == asked.names
        assert len(own) > 0 and list(own) == list(asked)
        assert [own.column(c) for c in own.names] == [asked.column(c) for c in asked.names]


def test_a_table_prints_its_first_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = stoker.open_trace(large(count=1000))
    text = repr(trace.sql("SELECT id, ts, name FROM slice ORDER BY id"))
    lines = text.split("\n")
    assert lines[0].split() == ["id", "ts", "name"]
    assert len(lines) == 22 and lines[-1] == "... 980 more rows"
    assert lines[1].index("name") == lines[20].index("name")
    assert repr(trace.sql("SELECT id FROM slice WHERE 0")) == "id\n(no rows)"
    assert max(map(len, repr(trace.top()).split("\n")[:20])) <= 120
    assert "more columns: " in repr(trace.top())


def test_text_from_a_trace_cannot_act_on_a_terminal_or_a_page() -> None:
    hostile = "\x1b[31m<script>alert('x')</script>\u202e&\x07\n"
    trace = stoker.open_trace(write_chrome("h.json", [slice_(hostile, 0, 1), slice_("step", 5, 1)]))
    table = trace.sql('SELECT name AS "<b>", dur FROM slice')
    assert table.column(0)[0] == hostile
    for text in (repr(table), table._repr_html_()):
        assert not {"\x1b", "\x07", "\u202e"} & set(text)
    page = table._repr_html_()
    assert "<script" not in page and "<b>" not in page and "&lt;script&gt;" in page


def test_the_verdict_shows_itself_in_a_notebook(traces: pathlib.Path) -> None:
    page = stoker.open_trace(traces / "rank0.json.gz", traces / "worker0.json").diagnose()._repr_html_()
    assert "Highly input-bound" in page and "input wait" in page and "What to do" in page and "decode" in page
    assert "<script" not in page and "http" not in page
    assert page.count("<div") == page.count("</div>") and page.count("<table") == page.count("</table>")


def test_names_in_a_verdict_are_escaped() -> None:
    events = []
    for i in range(10):
        events.append(slice_(f"ProfilerStep#{i}", i * 100, 100, cat="user_annotation"))
        events.append(
            slice_("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", i * 100, 60, cat="user_annotation")
        )
        events.append(slice_("<img src=x onerror=alert(1)>", i * 100 + 5, 50, cat="cpu_op"))
    page = stoker.open_trace(write_chrome("h.json", events)).diagnose()._repr_html_()
    assert "&lt;img" in page and "<img" not in page


# ---- life ----


def test_tables_outlive_the_trace() -> None:
    trace = both()
    tables = [trace.table("slice"), trace.sql("SELECT name FROM slice"), trace.top()]
    trace.close()
    trace.close()
    with pytest.raises(ValueError, match="closed"):
        trace.sql("SELECT 1")
    with pytest.raises(ValueError, match="closed"):
        trace.diagnose()
    assert "rich.json" in repr(trace)
    del trace
    gc.collect()
    assert tables[0].column("name")[0] == "outer"
    assert len(tables[1]) == len(tables[0])


def test_threads_ask_at_once_and_one_may_close() -> None:
    trace = stoker.open_trace(large())
    expected = list(trace.sql("SELECT name, sum(dur) FROM slice GROUP BY name"))
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            for _ in range(5):
                assert list(trace.sql("SELECT name, sum(dur) FROM slice GROUP BY name")) == expected
                assert len(trace.top(3)) == 3
                assert len(trace.table("slice").to_arrow()) == 30000
        except ValueError as e:
            if "closed" not in str(e):
                failures.append(e)
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    threads[0].join()
    trace.close()
    for thread in threads:
        thread.join()
    assert not failures


def test_other_threads_run_while_a_question_is_answered() -> None:
    trace = both()
    done = threading.Event()

    def ask() -> None:
        trace.sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000000) SELECT max(i) FROM n")
        done.set()

    thread = threading.Thread(target=ask)
    thread.start()
    turns = 0
    while not done.is_set():
        turns += 1
    thread.join()
    assert turns > 1000


INTERRUPTED = """
import os, signal, stoker, sys, threading
trace = stoker.open_trace(sys.argv[1])
if sys.argv[2] == "thread":  # its question goes on when the main thread is interrupted
    answers = []
    sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3000000) SELECT max(i) FROM n"
    other = threading.Thread(target=lambda: answers.append(trace.sql(sql)[0]))
    other.start()
print("ready", flush=True)
try:
    trace.sql(sys.argv[3])
except KeyboardInterrupt:
    if sys.argv[2] == "thread":
        other.join()
        assert answers == [(3000000,)], answers
    print("interrupted", trace.sql("SELECT 42")[0][0], flush=True)
"""


@pytest.mark.parametrize("how", ["alone", "thread"])
def test_ctrl_c_ends_a_query_and_the_trace_still_answers(how: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, rich(), how, ENDLESS],
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        # Before the query has begun, it interrupts Python itself, which is no less an end.
        threading.Timer(0.3, process.send_signal, (signal.SIGINT,)).start()
        assert process.communicate(timeout=60)[0] == "interrupted 42\n"
        assert process.returncode == 0
    finally:
        process.kill()


# ---- Arrow ----


def addresses(table: object) -> dict[str, int]:
    """Where the values of each column lie."""
    arrow = table.to_arrow()  # type: ignore[attr-defined]
    out = {}
    for name in arrow.column_names:
        chunk = arrow.column(name).chunk(0)
        array = chunk.indices if hasattr(chunk, "indices") else chunk
        out[name] = array.buffers()[1].address
    return out


def test_arrays_lie_in_the_memory_of_the_trace() -> None:
    pytest.importorskip("pyarrow")
    trace = both()
    first, second = trace.table("slice"), trace.table("slice")
    a, b = addresses(first), addresses(second)
    shared = {name for name in a if a[name] == b[name]}
    assert {"id", "ts", "dur", "track_id", "category", "name", "depth", "parent_id", "arg_set_id"} <= shared
    assert addresses(first) == a  # what was made for an export is not made again
    counter = trace.table("counter")
    shared = {n for n, x in addresses(counter).items() if x == addresses(trace.table("counter"))[n]}
    assert {"ts", "track_id", "value"} <= shared
    dictionaries = [
        first.to_arrow().column(c).chunk(0).dictionary.buffers()[2].address for c in ("name", "thread_name")
    ]
    assert dictionaries[0] == dictionaries[1]


def test_arrow_has_the_values_of_sql() -> None:
    pa = pytest.importorskip("pyarrow")
    trace = both()
    for name in (
        "slice",
        "counter",
        "sample",
        "flow",
        "track",
        "thread",
        "process",
        "file",
        "note",
        "args",
        "step",
        "trace",
    ):
        arrow = trace.to_arrow(name)
        assert isinstance(arrow, pa.Table)
        arrow.validate(full=True)
        asked = trace.table(name) if name == "trace" else trace.sql(f"SELECT * FROM {name}")
        assert list(zip(*(arrow.column(i).to_pylist() for i in range(arrow.num_columns)))) == list(asked)
    types = {f.name: str(f.type) for f in trace.to_arrow().schema}
    assert types["ts"] == types["dur"] == "int64"
    assert types["track_id"] == "uint32" and types["depth"] == "uint16"
    assert types["name"] == "dictionary<values=string, indices=int32, ordered=0>"


def test_results_of_sql_are_arrow_too() -> None:
    pa = pytest.importorskip("pyarrow")
    arrow = (
        both()
        .sql("SELECT 1 AS i, 2.5 AS d, 'é' AS t, x'00ff' AS b, NULL AS n UNION ALL SELECT NULL, 1, '', x'', NULL")
        .to_arrow()
    )
    arrow.validate(full=True)
    assert [str(t) for t in arrow.schema.types] == ["int64", "double", "string", "binary", "null"]
    assert arrow.to_pylist()[0] == {"i": 1, "d": 2.5, "t": "é", "b": b"\x00\xff", "n": None}
    assert arrow.to_pylist()[1] == {"i": None, "d": 1.0, "t": "", "b": b"", "n": None}
    empty = both().sql("SELECT ts, name FROM slice WHERE 0").to_arrow()
    assert empty.num_rows == 0 and [str(t) for t in empty.schema.types] == ["int64", "string"]
    assert pa.record_batch(both().table("slice")).num_rows == len(both().table("slice"))
    assert pa.schema(both().table("slice")).names[1] == "ts"


def test_arrays_outlive_table_and_trace_in_any_thread() -> None:
    pytest.importorskip("pyarrow")
    trace = stoker.open_trace(large())
    expected = trace.table("slice").column("ts")
    arrow = trace.to_arrow()
    ts, name = arrow.column("ts").chunk(0), arrow.column("name").chunk(0)
    trace.close()
    del trace, arrow
    gc.collect()
    held = [ts, name]
    out: list[object] = []

    def use() -> None:
        out.append(held[0].to_pylist() == expected)
        out.append(held[1][7].as_py())
        held.clear()

    del ts, name
    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert out[0] is True and str(out[1]).startswith("name ")


@pytest.mark.memory
def test_capsules_that_nobody_takes_are_released() -> None:
    def resident() -> int:
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    trace = stoker.open_trace(large())
    table = trace.table("slice")
    for round_ in range(2):
        before = resident()
        for _ in range(3000):
            table.__arrow_c_array__()
            table.__arrow_c_stream__()
            table.__arrow_c_schema__()
            trace.sql("SELECT 1")
        if round_:
            assert resident() - before < 4 << 20
    assert len(table) == 30000


def test_pandas_takes_it() -> None:
    pandas = pytest.importorskip("pandas")
    trace = both()
    frame = trace.table("slice").to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["ts"].tolist() == trace.table("slice").column("ts")
    plain = trace.sql("SELECT name, sum(dur) AS dur FROM slice WHERE name IS NOT NULL GROUP BY name")
    assert plain.to_pandas().set_index("name")["dur"].to_dict() == dict(plain)
    if hasattr(frame["name"], "cat"):
        assert set(frame["name"].cat.categories) == {x for x in trace.table("slice").column("name") if x}


def test_pandas_takes_it_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    table = both().table("counter")
    assert table.to_arrow() is table
    assert table.to_pandas()["value"].tolist() == [1.5, 3.0]


def test_polars_takes_it() -> None:
    polars = pytest.importorskip("polars")
    trace = both()
    table = trace.table("slice")
    frame = table.to_polars()
    assert isinstance(frame, polars.DataFrame)
    assert frame.columns == list(table.names)
    assert frame.rows() == list(table)
    totals = frame.group_by(polars.col("name").cast(polars.String)).agg(polars.col("dur").sum())
    assert dict(totals.rows()) == dict(trace.sql("SELECT name, sum(dur) FROM slice GROUP BY name"))


def test_duckdb_asks_it() -> None:
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    trace = both()
    slices = trace.to_arrow()  # noqa: F841: found by its name
    rows = duckdb.sql("SELECT name, sum(dur)::BIGINT FROM slices GROUP BY name").fetchall()
    assert dict(rows) == dict(trace.sql("SELECT name, sum(dur) FROM slice GROUP BY name"))


def test_compressed_traces_give_the_same() -> None:
    path = rich()
    with gzip.open("rich.json.gz", "wb") as file:
        file.write(pathlib.Path(path).read_bytes())
    plain, packed = stoker.open_trace(path), stoker.open_trace("rich.json.gz")
    assert list(plain.table("slice")) == list(packed.table("slice"))
