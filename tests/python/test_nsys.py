#!/usr/bin/env python3
"""Reading of Nsight Systems' SQLite exports: what becomes of each table, verdicts, damage, hostile databases."""
import glob
import gzip
import json
import os
import shutil
import sqlite3
import subprocess
import sys

import nsyslib
import runlib

REAL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../shared/data/nsys")


def run(program, *args, stdin=None):
    return subprocess.run([program, *args], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120,
                          check=False)


def ask(program, path, query):
    done = run(program, "sql", "--no-cache", path, "--format", "json", "-q", query)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def notes(program, path):
    return {row["reason"]: row["count"] for row in ask(program, path, "SELECT reason, count FROM note")}


def diagnose(program, path):
    done = run(program, "diagnose", "--no-cache", "--json", path)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def small(directory, new=True):
    e = nsyslib.Export(os.path.join(directory, "small.sqlite"), new)
    e.names()
    e.range(1000, 90_000, "outer", registered=True)
    e.range(2000, 50_000, "aten::add, seq = 3, op_id = 12, sizes = [[2, 2]]", uint64Value=77)
    e.range(3000, None, "mark", kind=34)
    e.range(4000, 80_000, "beside", kind=60, domain=3)
    e.range(0, None, "NCCL", kind=75, domain=3)
    e.range(95_000, None, "open at the end")
    e.kernel(10_000, 20_000, "gemm<float>(int)", launch=5_000)
    e.call(21_000, 22_000, "cuLaunchKernelEx", driver=True, correlation=900)
    for k in range(3):  # a graph: one launch, three kernels
        e.kernel(30_000 + k * 1000, 30_900 + k * 1000, "node(int)", correlation=900)
    e.copy(40_000, 45_000, launch=38_000)
    e.row("CUPTI_ACTIVITY_KIND_MEMSET", start=46_000, end=46_500, contextId=1, streamId=7, bytes=64, memKind=2, correlationId=5,
          globalPid=nsyslib.global_pid())
    e.row("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", start=10_000, end=60_000, contextId=1, streamId=0xffffffff, syncType=4,
          globalPid=nsyslib.global_pid())
    e.row("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start=50_000, end=51_000, contextId=1, streamId=8, graphId=4,
          globalPid=nsyslib.global_pid())
    e.os_call(60_000, 70_000, "read")
    e.row("SCHED_EVENTS", start=5, cpu=1)
    e.row("SCHED_EVENTS", start=6, cpu=1)
    for i, (symbol, module) in enumerate([("leaf", "libc.so"), ("main", "python")]):
        e.row("SAMPLING_CALLCHAINS", id=1, symbol=e.string(symbol), module=e.string(module), stackDepth=i)
    e.row("COMPOSITE_EVENTS", id=1, start=7000, globalTid=nsyslib.global_tid())
    e.row("TARGET_INFO_GPU_METRICS", typeId=4294967296, typeName="GPU", metricId=2, metricName="SM Active [%]", sourceId=1)
    e.row("GPU_METRICS", timestamp=8000, typeId=4294967296, metricId=2, value=55)
    e.row("DIAGNOSTIC_EVENT", timestamp=1, severity=3, text="events were lost")
    return e.close()


def test_what_becomes_of_the_tables(program, directory):
    path = small(directory)
    rows = ask(program, path, "SELECT s.name, s.category, s.ts, s.dur, s.depth, s.thread_name, s.process_name, p.name AS parent "
               "FROM slice s LEFT JOIN slice p ON p.id = s.parent_id WHERE NOT s.is_instant")
    found = {row["name"]: row for row in rows}
    kernel = found["gemm<float>(int)"]
    assert (kernel["category"], kernel["ts"], kernel["dur"]) == ("kernel", 10_000, 10_000), kernel
    assert (kernel["thread_name"], kernel["process_name"]) == ("stream 7", "NVIDIA H200"), kernel
    assert found["Memcpy HtoD (Pinned -> Device)"]["category"] == "gpu_memcpy"
    assert found["Memset (Device)"]["category"] == "gpu_memset"
    assert found["Context Sync"]["category"] == "cuda_sync"
    assert found["CUDA graph 4"]["thread_name"] == "stream 8"
    launch = found["cudaLaunchKernel"]
    assert (launch["category"], launch["parent"], launch["thread_name"]) == ("cuda_runtime", "aten::add", "pt_main_thread")
    assert launch["process_name"] == "python3"
    assert found["cuLaunchKernelEx"]["category"] == "cuda_driver"
    assert found["outer"]["category"] == "user_annotation" and found["aten::add"]["parent"] == "outer"
    assert (found["read"]["category"], found["read"]["parent"]) == ("os_runtime", "outer")
    assert found["beside"]["thread_name"] is None  # ranges that cross threads have rows of their own
    assert ask(program, path, "SELECT name, ts FROM slice WHERE is_instant") == [{"name": "mark", "ts": 3000}]
    assert ask(program, path, "SELECT name FROM slice WHERE is_unfinished") == [{"name": "open at the end"}]
    assert notes(program, path) == {"unknown_kind": 2, "no_end": 1, "no_flow_start": 1}, notes(program, path)


def test_args(program, directory):
    path = small(directory)

    def args(name):
        rows = ask(program, path, "SELECT a.key, coalesce(a.string_value, a.int_value) AS value FROM slice s JOIN args a ON "
                   f"a.arg_set_id = s.arg_set_id WHERE s.name = '{name}'")
        return {row["key"]: row["value"] for row in rows}

    assert args("gemm<float>(int)") == {"grid": "[16,2,1]", "block": "[256,1,1]", "registers per thread": 32,
                                        "shared memory": 1048, "correlation": 1}, args("gemm<float>(int)")
    assert args("aten::add") == {"details": "seq = 3, op_id = 12, sizes = [[2, 2]]", "payload": 77}
    assert args("beside") == {"domain": "NCCL"}
    assert args("Memcpy HtoD (Pinned -> Device)")["bytes"] == 1 << 20


def test_arrows_from_launches(program, directory):
    arrows = ask(program, small(directory), "SELECT a.name AS out, b.name AS 'in', b.ts FROM flow f JOIN slice a ON a.id = "
                 "f.slice_out JOIN slice b ON b.id = f.slice_in ORDER BY b.ts")
    found = [(row["out"], row["in"], row["ts"]) for row in arrows]
    assert found == [("cudaLaunchKernel", "gemm<float>(int)", 10_000), ("cuLaunchKernelEx", "node(int)", 30_000),
                     ("cuLaunchKernelEx", "node(int)", 31_000), ("cuLaunchKernelEx", "node(int)", 32_000),
                     ("cudaMemcpyAsync", "Memcpy HtoD (Pinned -> Device)", 40_000)], found


def test_samples_counters_facts_clock(program, directory):
    path = small(directory)
    done = run(program, "convert", "--no-cache", path, "--to", "collapsed", "-o", "-")
    assert b"outer" in done.stdout, done
    assert ask(program, path, "SELECT count(*) AS n FROM sample") == [{"n": 1}]
    frames = ask(program, path, "SELECT f.name, f.module FROM callsite c JOIN frame f ON f.id = c.frame_id ORDER BY c.depth")
    assert frames == [{"name": "main", "module": "python"}, {"name": "leaf", "module": "libc.so"}], frames
    assert ask(program, path, "SELECT t.name, c.value FROM counter c JOIN track t ON t.id = c.track_id") == [
        {"name": "GPU 0: SM Active [%]", "value": 55}]
    facts = {row["key"]: row["value"] for row in ask(program, path, "SELECT key, value FROM fact")}
    assert facts == {"version": "2025.3.1.0", "hostname": "node7", "GPU 0": "NVIDIA H200, 132 SMs, 153600 MiB",
                     "diagnostic": "events were lost"}, facts
    done = run(program, "convert", "--no-cache", path, "-o", os.path.join(directory, "out.json"))
    assert done.returncode == 0 and b"secret" not in open(os.path.join(directory, "out.json"), "rb").read()


def test_realtime(program, directory):
    path = small(directory)
    assert ask(program, path, "SELECT realtime_ns FROM file") == [{"realtime_ns": 1753636200399193063}]
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PARAM_TIME_NORMALIZE', 'true')")
    assert ask(program, path, "SELECT realtime_ns FROM file") == [{"realtime_ns": 0}]


def test_old_export(program, directory):
    path = small(directory, new=False)
    names = {row["name"] for row in ask(program, path, "SELECT name FROM slice WHERE NOT is_instant")}
    assert {"gemm<float>(int)", "cudaLaunchKernel", "outer", "Memcpy HtoD (Pinned -> Device)"} <= names, names
    assert ask(program, path, "SELECT DISTINCT process_name AS p FROM slice WHERE thread_name = 'pt_main_thread'") == [
        {"p": "pt_main_thread"}]  # no table of processes
    assert ask(program, path, "SELECT realtime_ns FROM file") == [{"realtime_ns": None}]


def test_columns_that_are_missing(program, directory):
    """Nothing but names and times."""
    path = os.path.join(directory, "few.sqlite")
    with sqlite3.connect(path) as db:
        db.executescript("CREATE TABLE StringIds(id INTEGER, value TEXT); INSERT INTO StringIds VALUES (-7, 'k'), (1 << 40, 'c');"
                         "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end, shortName);"
                         "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 5, -7), (NULL, 5, -7), (6, 'x', -7), (9, 7, 99);"
                         "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start, end, nameId);"
                         "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (0, 1, 1 << 40);"
                         "CREATE TABLE NVTX_EVENTS(start, end, text); INSERT INTO NVTX_EVENTS VALUES (0, 9, 'r'), (3, NULL, 'm')")
    db.close()
    rows = ask(program, path, "SELECT name, dur, is_instant FROM slice ORDER BY name, ts")
    assert [(r["name"], r["dur"], r["is_instant"]) for r in rows] == [
        ("(unnamed)", 0, 0), ("c", 1, 0), ("k", 4, 0), ("m", 0, 1), ("r", 9, 0)], rows
    assert notes(program, path) == {"no_time": 2, "bad_reference": 1, "negative_duration": 1}, notes(program, path)


def test_several_processes(program, directory):
    """Two ranks in one report, each with GPU 0 as its only device: physical GPUs 2 and 3; a third without a table."""
    e = nsyslib.Export(os.path.join(directory, "ranks.sqlite"))
    for pid, gpu in ((100, 2), (200, 3)):
        e.row("TARGET_INFO_CUDA_DEVICE", gpuId=gpu, cudaId=0, pid=pid)
        e.call(10, 20, "cudaLaunchKernel_v7000", tid=pid, pid=pid, correlation=1)
        e.kernel(30, 40, f"k{pid}", pid=pid, correlation=1)
    for pid in (300, 400):
        e.kernel(30, 40, f"k{pid}", pid=pid, correlation=2)
    path = e.close()
    rows = ask(program, path, "SELECT s.name, t.label FROM slice s JOIN track t ON t.id = s.track_id WHERE category = 'kernel'")
    assert {row["name"]: row["label"] for row in rows} == {
        "k100": "GPU 2: stream 7", "k200": "GPU 3: stream 7", "k300": "GPU 0: stream 7", "k400": "GPU 0 of 400: stream 7"}, rows
    arrows = ask(program, path, "SELECT a.pid, b.name FROM flow f JOIN slice a ON a.id = f.slice_out JOIN slice b ON b.id = "
                 "f.slice_in ORDER BY 1")
    assert arrows == [{"pid": 100, "name": "k100"}, {"pid": 200, "name": "k200"}], arrows


def test_verdict_with_a_range(program, directory):
    """The share that was put in comes out, whatever the version."""
    for new in (True, False):
        for share in (0.6, 0.02):
            path = nsyslib.training(os.path.join(directory, "t.sqlite"), new=new, share=share)
            found = diagnose(program, path)
            assert found["verdict"] == ("highly_input_bound" if share > 0.5 else "not_input_bound"), (new, share, found["verdict"])
            assert abs(found["input_percent"] - 100 * share) < 2, (share, found["input_percent"])


def test_verdict_without_a_range(program, directory):
    """Only kernels that are missing while the main thread waits: told as time without events, with the call."""
    path = nsyslib.training(os.path.join(directory, "t.sqlite"), wait="osrt", share=0.6)
    found = run(program, "diagnose", "--no-cache", path).stdout.decode()
    assert "main thread: sem_wait" in found, found
    assert "meanwhile: poll" not in found and "kernel launch" in found, found
    assert "has no event at all" in found, found


def test_polls_are_no_steps(program, directory):
    """A thread that polls is the most regular thing of a report."""
    found = diagnose(program, nsyslib.training(os.path.join(directory, "t.sqlite"), marker=None, share=0.3))
    assert found["marker"] != "poll", found["marker"]
    assert abs(found["median_step_ns"] - 10_000_000) < 100_000, found


def test_numbered_ranges_are_steps(program, directory):
    """As people write them; a range of another name around or inside changes nothing."""
    for marker, told in (("step 12{}", "step"), ("iteration{}", "iteration"), ("Iter {}", "Iter"), ("batch: {}", "batch:"),
                         ("train_step_{}", "train_step_")):
        path = nsyslib.training(os.path.join(directory, "t.sqlite"), marker=marker)
        with sqlite3.connect(path) as db:  # "train" would be a marker of XProf's, without the wait
            db.execute("INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid) SELECT end, end + 1000000, 59, 'train', "
                       "globalTid FROM NVTX_EVENTS WHERE text = 'data'")
        db.close()
        found = diagnose(program, path)
        assert (found["steps"], found["marker"], found["steps_from"]) == (40, told, "markers"), (marker, found)
        assert abs(found["input_percent"] - 60) < 2, (marker, found["input_percent"])


def test_batches_of_workers_are_no_steps(program, directory):
    """A worker process that numbers its batches launches nothing."""
    path = nsyslib.training(os.path.join(directory, "t.sqlite"), marker="step {}")
    with sqlite3.connect(path) as db:
        for i in range(500):
            db.execute("INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid) VALUES (?, ?, 59, ?, ?)",
                       (1_000_000_000 + i * 700_000, 1_000_000_000 + i * 700_000 + 600_000, f"batch {i}",
                        nsyslib.global_tid(9000, 9000)))
    db.close()
    found = diagnose(program, path)
    assert (found["steps"], found["marker"], len(found["ranks"])) == (40, "step", 1), found


def test_packed_and_piped(program, directory):
    path = nsyslib.training(os.path.join(directory, "t.sqlite"))
    wanted = run(program, "top", "--no-cache", path).stdout
    assert wanted
    with open(path, "rb") as file, gzip.open(path + ".gz", "wb") as packed:
        shutil.copyfileobj(file, packed)
    assert run(program, "top", "--no-cache", path + ".gz").stdout == wanted
    # past the cap the bytes go to a temporary file
    assert run(program, "top", "--no-cache", "--memory", "64K", "--temp-dir", directory, path + ".gz").stdout == wanted
    with open(path, "rb") as file:
        assert run(program, "top", "--no-cache", "-", stdin=file).stdout == wanted
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as cat:
        assert run(program, "top", "--no-cache", "-", stdin=cat.stdout).stdout == wanted
    assert not [name for name in os.listdir(directory) if "-journal" in name or "-wal" in name or "-shm" in name]


def test_cut_off(program, directory):
    """What is there is read: half of the pages give about half of the events, and a note."""
    path = nsyslib.training(os.path.join(directory, "t.sqlite"), steps=400)
    whole = ask(program, path, "SELECT count(*) AS n FROM slice")[0]["n"]
    os.truncate(path, os.path.getsize(path) // 2)
    left = ask(program, path, "SELECT count(*) AS n FROM slice")[0]["n"]
    assert 0.2 * whole < left < 0.8 * whole, (whole, left)
    assert notes(program, path)["truncated"] == 1
    os.truncate(path, 3000)
    done = run(program, "top", "--no-cache", path)
    assert done.returncode == 1 and b"damaged" in done.stderr, done


def test_damaged_page(program, directory):
    """The rows before and behind a page that makes no sense are read."""
    path = nsyslib.training(os.path.join(directory, "t.sqlite"), steps=2000, background=False, marker=None)
    with sqlite3.connect(path) as db:
        pages = [row[0] for row in db.execute("SELECT pageno FROM dbstat WHERE name = 'OSRT_API' AND pagetype = 'leaf' ORDER "
                                              "BY path")] if has_dbstat(db) else None
    db.close()
    if not pages:
        return print("  (SQLite without dbstat: skipped)")
    with open(path, "r+b") as file:
        file.seek((pages[len(pages) // 2] - 1) * 4096)
        file.write(b"\xff" * 4096)
    count = ask(program, path, "SELECT count(*) AS n FROM slice WHERE category = 'os_runtime'")[0]["n"]
    assert 2000 * (1 - 1.5 / len(pages)) <= count < 2000, (count, len(pages))
    assert notes(program, path)["syntax"] >= 1


def has_dbstat(db):
    try:
        db.execute("SELECT 1 FROM dbstat LIMIT 1")
        return True
    except sqlite3.Error:
        return False


def test_hostile(program, directory):
    """Views, virtual tables, generated columns and triggers of a file are not run."""
    path = os.path.join(directory, "hostile.sqlite")
    with sqlite3.connect(path) as db:
        db.executescript("""
            CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT); INSERT INTO StringIds VALUES (1, 'real');
            CREATE VIEW OSRT_API AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
                SELECT i AS start, i + 1 AS end, 0 AS globalTid, 1 AS nameId FROM n;
            CREATE VIRTUAL TABLE CUDNN_EVENTS USING fts5(start, end, nameId);
            CREATE TABLE CUBLAS_EVENTS(start INTEGER, end INTEGER GENERATED ALWAYS AS (length(zeroblob(1000000000))),
                nameId INTEGER); INSERT INTO CUBLAS_EVENTS(start, nameId) VALUES (1, 1);
            CREATE TABLE NVTX_EVENTS(start INTEGER, end INTEGER, text TEXT);
            INSERT INTO NVTX_EVENTS VALUES (1, 2, char(27) || '[31m');
            CREATE TABLE "a""; DROP TABLE x; --" (start INTEGER);
            INSERT INTO "a""; DROP TABLE x; --" VALUES (1)""")
    db.close()
    done = run(program, "top", "--no-cache", path)
    assert done.returncode == 0 and b"\x1b" not in done.stdout + done.stderr, done
    rows = ask(program, path, "SELECT name, category FROM slice")
    assert rows == [{"name": "\x1b[31m", "category": "user_annotation"}], rows
    found = notes(program, path)
    assert found.get("no_time") == 1 and found.get("unknown_kind") == 1, found


def test_other_databases(program, directory):
    """What is no export is told what it is."""
    path = nsyslib.training(os.path.join(directory, "t.sqlite"), steps=5)
    own = os.path.join(directory, "own.sqlite")
    assert run(program, "convert", "--no-cache", path, "-o", own).returncode == 0
    done = run(program, "top", "--no-cache", own)
    assert done.returncode == 1 and b"that Stoker wrote" in done.stderr, done
    other = os.path.join(directory, "other.db")
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE users(name TEXT)")
    db.close()
    done = run(program, "top", "--no-cache", other)
    assert done.returncode == 1 and b"without tables of Nsight Systems" in done.stderr, done
    with sqlite3.connect(other) as db:
        db.executescript("CREATE TABLE slice(ts INTEGER); CREATE TABLE thread(tid INTEGER)")
    db.close()
    assert b"Perfetto" in run(program, "top", "--no-cache", other).stderr


def test_real_exports(program, directory):
    """Counts against SQLite's own, where there are files of others."""
    paths = sorted(glob.glob(os.path.join(REAL, "*.sqlite")))
    if not paths:
        return print("  (no exports in shared/data/nsys: skipped)")
    for path in paths:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
            tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            wanted = {}
            for table, category in (("CUPTI_ACTIVITY_KIND_KERNEL", "kernel"), ("CUPTI_ACTIVITY_KIND_MEMCPY", "gpu_memcpy"),
                                    ("OSRT_API", "os_runtime")):
                if table in tables:
                    wanted[category] = db.execute(f"SELECT count(*), coalesce(sum(end - start), 0) FROM {table}").fetchone()
        rows = ask(program, path, "SELECT category, count(*) AS n, sum(dur) AS ns FROM slice WHERE name NOT LIKE 'CUDA graph%' "
                   "GROUP BY category")
        found = {row["category"]: (row["n"], row["ns"]) for row in rows}
        for category, figures in wanted.items():
            assert found.get(category, (0, 0)) == figures, (path, category, found, figures)
        assert run(program, "diagnose", "--no-cache", path).returncode == 0, path


if __name__ == "__main__":
    sys.exit(runlib.main(globals(), lambda test, program, directory: test(program, directory)))
