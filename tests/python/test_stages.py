"""Which stage of the input is slow: tf.data as TensorFlow 2 writes it, worker processes, and what runs in the wait."""
import json
import os
import subprocess
import sys

import runlib
import tracelib
from tracelib import HOST, MAIN, STEP_US, iterator, meta, slice_

REAL = os.environ.get("STOKER_REPRO_TRACES") or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "shared", "data", "repro", "traces")


def diagnose(program, directory, *traces):
    """The JSON object for files of events; those that are text are files already."""
    paths = []
    for number, events in enumerate(traces):
        paths.append(events if isinstance(events, str) else os.path.join(directory, "trace%d.json" % number))
        if not isinstance(events, str):
            tracelib.write(paths[-1], events)
    result = subprocess.run([program, "diagnose", "--no-cache", "-q", "--json", *paths], capture_output=True,
                            timeout=100)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def shares(found):
    return {row["path"]: round(row["share"], 2) for row in found["stage"]["all"]}


def real(*names):
    """Paths of real files, or nothing where they are not at hand."""
    paths = [os.path.join(REAL, name) for name in names]
    if all(os.path.exists(path) for path in paths):
        return paths
    print("skipped: no %s in %s" % (", ".join(names), REAL))
    return None


# ---- tf.data ----

def train_steps(steps=20):
    events = [meta("process_name", HOST, 0, name="/host:CPU"), meta("thread_name", HOST, MAIN, name="python"),
              meta("thread_name", HOST, 2, name="tf_data_iterator_resource/12"),
              meta("thread_name", HOST, 3, name="python")]
    return events + [slice_("train", i * STEP_US, STEP_US, HOST, MAIN, step_num=i) for i in range(steps)]


def test_names_that_hold_the_path_give_the_same(program, directory):
    short, long = (diagnose(program, directory, tracelib.tensorflow(0.4, long_names=names)) for names in (False, True))
    for found in (short, long):
        assert found["stage"]["name"] == "ParallelMapV2" and found["stage"]["kind"] == "tf_data", found["stage"]
        assert found["stage"]["path"] == "Iterator::Root::Prefetch::ParallelMapV2", found["stage"]
    assert shares(short) == shares(long), (short["stage"], long["stage"])
    assert short["stage"]["p50_ns"] == long["stage"]["p50_ns"] > 0, (short["stage"], long["stage"])


def test_who_prefetches_for_nobody_is_no_wait(program, directory):
    events = train_steps()
    for i in range(20):
        events.append(slice_("MatMul", i * STEP_US, STEP_US, HOST, MAIN))
        events.append(iterator(["Root", "Prefetch", "Map"], i * STEP_US, 0.9 * STEP_US, HOST, 2))
    found = diagnose(program, directory, events)
    assert found["input_percent"] == 0 and found["verdict"] == "not_input_bound", found
    assert found["stage"] is None, found["stage"]


def test_a_root_waits_where_no_op_is_around_it(program, directory):
    events = train_steps()
    for i in range(20):
        events.append(iterator(["Root"], i * STEP_US, 0.3 * STEP_US, HOST, MAIN))
        events.append(iterator(["Root", "Map"], i * STEP_US, 0.3 * STEP_US, HOST, MAIN))
        events.append(slice_("MatMul", (i + 0.3) * STEP_US, 0.7 * STEP_US, HOST, MAIN))
    found = diagnose(program, directory, events)
    assert abs(found["input_percent"] - 30) < 0.1 and found["stage"]["name"] == "Map", found


def test_another_thread_and_its_pipeline_do_not_count(program, directory):
    events = train_steps()
    for i in range(20):
        ts = i * STEP_US
        for tid, dur, pipeline, slow in ((MAIN, 0.5, 0, "Map"), (3, 0.9, 1, "Filter")):
            events.append(slice_("IteratorGetNextOp::DoCompute", ts, dur * STEP_US, HOST, tid))
            events.append(iterator(["Root"], ts, dur * STEP_US, HOST, tid, pipeline=pipeline))
            events.append(iterator(["Root", slow], ts, dur * STEP_US, HOST, tid, pipeline=pipeline))
        events.append(slice_("MatMul", ts + 0.5 * STEP_US, 0.5 * STEP_US, HOST, MAIN))
    found = diagnose(program, directory, events)
    assert abs(found["input_percent"] - 50) < 0.1, found["input_percent"]
    assert shares(found) == {"Iterator::Root::Map": 1}, found["stage"]


def test_elements_of_an_interleave_are_one_stage_and_inputs_of_a_zip_are_not(program, directory):
    events = train_steps()
    for i in range(20):
        ts = i * STEP_US
        events.append(slice_("IteratorGetNext", ts, 0.5 * STEP_US, HOST, MAIN))
        for path in (["Root"], ["Root", "Zip"], ["Root", "Zip[0]", "ParallelInterleaveV4"]):
            events.append(iterator(path, ts, 0.4 * STEP_US, HOST, MAIN))
        for element in range(4):  # at once, on threads of their own
            path = ["Root", "Zip[0]", "ParallelInterleaveV4[%d]" % element, "TFRecord"]
            events.append(iterator(path, ts, 0.4 * STEP_US, HOST, 10 + element))
        events.append(iterator(["Root"], ts + 0.4 * STEP_US, 0.1 * STEP_US, HOST, MAIN))
        events.append(iterator(["Root", "Zip"], ts + 0.4 * STEP_US, 0.1 * STEP_US, HOST, MAIN))
        events.append(iterator(["Root", "Zip[1]", "TFRecord"], ts + 0.4 * STEP_US, 0.1 * STEP_US, HOST, MAIN))
    found = diagnose(program, directory, events)
    rows = [(row["name"], round(row["share"], 3)) for row in found["stage"]["all"]]
    assert rows == [("TFRecord", 0.8), ("TFRecord", 0.2)], found["stage"]
    assert found["stage"]["calls"] == 80, found["stage"]


def test_circles_of_ids_end(program, directory):
    events = train_steps()
    for i in range(20):
        ts = i * STEP_US
        events.append(slice_("IteratorGetNext", ts, 0.5 * STEP_US, HOST, MAIN))
        for name, own, parent in (("Map", "1", "2"), ("Batch", "2", "1"), ("Root", "3", ""), ("Skip", "4", "3")):
            events.append(slice_("Iterator::" + name, ts, 0.5 * STEP_US, HOST, MAIN, id=own, parent_id=parent))
    found = diagnose(program, directory, events)
    assert found["stage"]["name"] == "Skip", found["stage"]


def test_real_files_of_tensorflow(program, directory):
    for name, input_percent in (("tf221_in_sleep.xplane.pb", 93.4), ("tfdata_short_names.json", 90)):
        paths = real(name)
        if paths:
            found = diagnose(program, directory, *paths)
            assert abs(found["input_percent"] - input_percent) < 0.1, found["input_percent"]
            assert found["stage"]["name"] == "Map" and found["stage"]["share"] > 0.95, found["stage"]
    paths = real("tfdata_background_only.json")
    if paths:
        assert diagnose(program, directory, *paths)["input_percent"] == 0


# ---- worker processes ----

PY, SITE, LIB = "/home/u/train.py", "/venv/lib/python3.11/site-packages/torch/utils/data/", "/usr/lib/python3.11/"
POOL = LIB + "multiprocessing/"
LOOP = [("<module>", PY, 50), ("DataLoader.__iter__", SITE + "dataloader.py", 1),
        ("Popen._launch", POOL + "popen_fork.py", 71),
        ("BaseProcess._bootstrap", POOL + "process.py", 314), ("_worker_loop", SITE + "_utils/worker.py", 302)]
FETCH = LOOP + [("_MapDatasetFetcher.fetch", SITE + "_utils/fetch.py", 52), ("DS.__getitem__", PY, 12)]
GET = LOOP + [("Queue.get", POOL + "queues.py", 113), ("_ConnectionBase.poll", POOL + "connection.py", 257)]
FEED = [("Thread._bootstrap", LIB + "threading.py", 1), ("Queue._feed", POOL + "queues.py", 2),
        ("Condition.wait", LIB + "threading.py", 3)]
SHARE = [("Thread._bootstrap", LIB + "threading.py", 1), ("_ResourceSharer._serve", POOL + "resource_sharer.py", 2),
         ("socket.accept", LIB + "socket.py", 3)]


class Spy:
    """py-spy's chrometrace: samples as begins and ends. It goes by thread ids alone, which forked processes share."""

    def __init__(self):
        self.events, self.open = [], {}

    def sample(self, ts, pid, tid, frames):
        frames = [('process %d:"python train.py"' % pid, "", 0)] + frames
        before = self.open.get(tid, [])
        same = 0
        while same < min(len(before), len(frames)) and before[same] == frames[same]:
            same += 1
        for phase, some in (("E", before[same:][::-1]), ("B", frames[same:])):
            for name, file, line in some:
                self.events.append({"ph": phase, "name": name, "cat": "py-spy", "pid": pid, "tid": tid, "ts": ts,
                                    "args": {"filename": file, "line": line}})
        self.open[tid] = frames


def test_sampled_workers_name_the_function_that_the_user_wrote(program, directory):
    spy = Spy()
    for i in range(400):
        ts = i * 1000
        spy.sample(ts, HOST, 1, [("<module>", PY, 60), ("next", SITE + "dataloader.py", 9),
                                 ("wait", LIB + "threading.py", 3)])
        for worker in range(2):
            spy.sample(ts + 300 * (worker + 1), 900 + worker, 1, FETCH if i % 4 else GET)
            spy.sample(ts + 300 * (worker + 1), 900 + worker, 2, FEED)
            spy.sample(ts + 300 * (worker + 1), 900 + worker, 3, SHARE)
    found = diagnose(program, directory, tracelib.kineto(0.5), spy.events)
    stage = found["stage"]
    assert stage["kind"] == "worker_processes" and stage["name"] == "DS.__getitem__", stage
    assert stage["file"] == PY and stage["line"] == 12 and stage["share"] > 0.99, stage
    text = subprocess.run([program, "diagnose", "--no-cache", os.path.join(directory, "trace0.json"),
                           os.path.join(directory, "trace1.json")], capture_output=True, timeout=100)
    assert b"Most of it in DS.__getitem__ (train.py:12)." in text.stdout, text.stdout
    assert b"end without a begin" not in text.stderr, text.stderr  # they found those of their process


def test_own_functions_of_one_name_in_two_files_are_two(program, directory):
    spy = Spy()
    for i in range(300):
        frames = [("load", "/home/u/%s.py" % ("images" if i % 3 else "sounds"), 7)]
        spy.sample(i * 1000, 900, 1, LOOP + frames)
    found = diagnose(program, directory, tracelib.kineto(0.5), spy.events)
    assert [(os.path.basename(row["file"]), round(row["share"], 1)) for row in found["stage"]["all"]] == \
        [("images.py", 0.7), ("sounds.py", 0.3)], found["stage"]


def worker(name, more=()):
    events = [meta("process_name", 900, 0, name="worker")]
    for i in range(80):
        events.append(slice_(name, i * STEP_US / 2, 0.3 * STEP_US, 900, 900))
        events += [slice_(other, (i + 0.6) * STEP_US / 2, 0.2 * STEP_US, 900, 900) for other in more]
    return events


def test_whole_words_sound_idle(program, directory):
    for name in ("select_model", "Waiter.serve_all", "joined", "blocks.load", "queues_of_images"):
        idle = ("selectors.select", "wait_for_order", "worker idle", "Queue.get.recv", "sock.accept", "Lock.acquire")
        found = diagnose(program, directory, tracelib.kineto(0.5), worker(name, idle))
        assert found["stage"]["name"] == name, (name, found["stage"])
        assert len(found["stage"]["all"]) == 1, (name, found["stage"])


def test_a_stray_process_is_no_worker(program, directory):
    events = tracelib.kineto(0.5, workers=0)
    plain = diagnose(program, directory, events)
    assert plain["stage"]["kind"] == "inside_wait", plain["stage"]
    overhead = slice_("Buffer Flush", 5, 4, -1, 0, "overhead")
    brief = slice_("hook", 5, 4, 4000, 0)  # 4 us of somebody
    for stray in (overhead, dict(overhead, dur=90000), brief):
        found = diagnose(program, directory, events + [stray])
        for key in ("stage", "what_if", "what_to_do", "input_percent"):
            assert found[key] == plain[key], (stray, key, found[key], plain[key])


def test_real_files_of_workers(program, directory):
    paths = real("in_w2.json.gz", "w2_spy.json.gz")
    if paths:
        stage = diagnose(program, directory, *paths)["stage"]
        assert stage["name"] == "DS.__getitem__" and stage["share"] > 0.9, stage
    paths = real("buffer_flush.json", "buffer_flush_without.json")
    if paths:
        with_it, without = (diagnose(program, directory, path) for path in paths)
        assert with_it["stage"] == without["stage"] and with_it["what_if"] == without["what_if"], with_it


# ---- inside the wait ----

def stacked(inner, steps=20):
    """torch.profiler with stacks: an annotation begins inside of the call that begins it, so it is on a second lane."""
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    events = []
    for i in range(steps):
        ts = i * STEP_US
        events.append(slice_("ProfilerStep#%d" % (i + 1), ts, STEP_US, HOST, HOST, "user_annotation"))
        for function, start, dur in (("train.py(30): <module>", 0, STEP_US),
                                     ("torch/utils/data/dataloader.py(720): __next__", 1, 8002),
                                     ("torch/autograd/profiler.py(941): __enter__", 2, 10)) + inner:
            events.append(slice_(function, ts + start, dur, HOST, HOST, "python_function"))
        events.append(slice_(name, ts + 8, 7990, HOST, HOST, "user_annotation"))
        events.append(slice_("aten::addmm", ts + 8500, 1500, HOST, HOST, "cpu_op"))
    return events


def test_lanes_of_the_waiting_thread_are_one_stack(program, directory):
    inner = (("torch/utils/data/_utils/fetch.py(54): <listcomp>", 100, 7800), ("train.py(12): __getitem__", 200, 7600),
             ("train.py(4): decode", 300, 6000), ("<built-in function sleep>", 400, 5000),
             ("PIL/Image.py(900): convert", 6500, 1000))
    found = diagnose(program, directory, stacked(inner))
    rows = [(row["name"], row.get("file"), round(row["share"], 2)) for row in found["stage"]["all"][:2]]
    assert rows == [("decode", "train.py", 0.75), ("__getitem__", "train.py", 0.2)], found["stage"]
    assert abs(sum(row["share"] for row in found["stage"]["all"]) - 1) < 0.001, found["stage"]
    assert abs(sum(row["self_ns"] for row in found["stage"]["all"]) - 20 * 8.002e6) < 1e5, found["stage"]


def test_a_loader_that_waits_for_workers_says_nothing(program, directory):
    inner = (("multiprocessing/queues.py(98): get", 100, 7800),
             ("multiprocessing/connection.py(390): _recv", 200, 7600), ("<built-in function read>", 300, 7400))
    found = diagnose(program, directory, stacked(inner))
    stage = found["stage"]
    assert stage["path"].startswith("enumerate(DataLoader)") and stage["share"] > 0.98, stage
    assert any("nothing inside that says why" in line for line in found["evidence"]), found["evidence"]


def test_library_code_is_named_where_nobody_wrote_any(program, directory):
    inner = (("datasets/arrow_dataset.py(2800): __getitems__", 100, 7800),
             ("<built-in method slice of T object at 0x1f>", 200, 7000))
    stage = diagnose(program, directory, stacked(inner))["stage"]
    assert stage["name"] == "__getitems__" and stage["file"] == "datasets/arrow_dataset.py", stage


def test_real_files_with_stacks(program, directory):
    paths = real("in_w2_stack.json.gz")
    if paths:
        stage = diagnose(program, directory, *paths)["stage"]
        assert stage["path"].startswith("enumerate(DataLoader)#_Multi") and stage["share"] > 0.9, stage


if __name__ == "__main__":
    sys.exit(runlib.main(globals(), lambda test, program, directory: test(program, directory)))
