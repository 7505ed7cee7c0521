"""stoker diagnose on traces of known input share: verdict, share, stage, gaps and what-if, for each framework."""
import json
import os
import random
import subprocess
import sys

import runlib
import tracelib

SHARES = (0, 4, 6, 19, 21, 60)


def verdict_of(share):
    return "highly_input_bound" if share >= 20 else "moderately_input_bound" if share >= 5 else "not_input_bound"


def run(program, *arguments):
    return subprocess.run([program, "diagnose", "--no-cache", "-q", *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=100)


def diagnose(program, directory, events, *arguments, **more):
    """The JSON object for one file."""
    path = os.path.join(directory, "trace.json")
    tracelib.write(path, events, **more)
    result = run(program, path, "--json", *arguments)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def check_shares(program, directory, make, **expected):
    for share in SHARES:
        found = diagnose(program, directory, make(share / 100))
        assert found["verdict"] == verdict_of(share), (share, found["verdict"], found["input_percent"])
        assert abs(found["input_percent"] - share) < 0.5, (share, found["input_percent"])
        assert abs(sum(part["percent"] for part in found["breakdown"].values()) - 100) < 0.1, found["breakdown"]
        for key, value in expected.items():
            assert found[key] == value, (share, key, found[key])


def test_tensorflow_shares(program, directory):
    check_shares(program, directory, tracelib.tensorflow, steps=40, steps_from="markers", marker="train")


def test_kineto_shares(program, directory):
    check_shares(program, directory, tracelib.kineto, steps=40, steps_from="markers", marker="ProfilerStep#")


def test_a_starved_device_is_input_bound(program, directory):
    """XProf leaves out steps without device work; where that leaves less than half of them, they count."""
    report = diagnose(program, directory, tracelib.tensorflow(1.0))  # kernels of no length
    assert report["steps"] == 40 and report["verdict"] == "highly_input_bound", report
    events = tracelib.tensorflow(0.5, steps=20)
    first = [e for e in events if e["pid"] != 1 or e.get("ts", 0) < tracelib.STEP_US]
    report = diagnose(program, directory, first)  # the device works in the first step only
    assert report["steps"] == 20 and report["verdict"] == "highly_input_bound", report
    assert any("In 19 of the steps the device computes nothing" in line for line in report["evidence"]), report["evidence"]
    most = [e for e in events if e["pid"] != 1 or e.get("ts", 0) < 15 * tracelib.STEP_US]
    report = diagnose(program, directory, most)
    assert report["steps"] == 15, report
    assert any("5 steps left out" in line for line in report["evidence"]), report["evidence"]


def test_markers_on_two_threads_are_one_step(program, directory):
    events = tracelib.kineto(0.3, steps=20)
    again = [dict(e, tid=e["tid"] + 1000) for e in events if e["name"].startswith("ProfilerStep#")]
    report = diagnose(program, directory, events + again)
    assert report["steps"] == 20 and abs(report["input_percent"] - 30) < 0.1, report


def test_kineto_on_cpu_shares(program, directory):
    check_shares(program, directory, lambda share: tracelib.kineto(share, device=False), steps=40, steps_from="markers")


def test_jax_shares(program, directory):
    check_shares(program, directory, tracelib.jax, steps=40, steps_from="markers", marker="train")


def test_recorder_shares(program, directory):
    check_shares(program, directory, tracelib.recorder, steps=40, steps_from="markers", marker="step")


def test_recorder_waits_before_steps_count(program, directory):
    # The first step has no wait: what comes before it is the start of the pipeline.
    check_shares(program, directory, lambda share: tracelib.recorder(share, steps=400, inside=False), steps=400)


def test_inferred_shares(program, directory):
    check_shares(program, directory, lambda share: tracelib.kineto(share, markers=False, rng=random.Random(5)),
                 steps_from="inferred")


def test_tensorflow_without_markers_is_inferred(program, directory):
    found = diagnose(program, directory, tracelib.tensorflow(0.3, markers=False))
    assert found["steps_from"] == "inferred" and found["verdict"] == "highly_input_bound", found
    assert abs(found["input_percent"] - 30) < 0.5, found["input_percent"]
    assert 0.5 < found["confidence"] <= 1, found["confidence"]


def test_input_wait_behind_compute_does_not_count(program, directory):
    events = tracelib.kineto(0.3)
    for step in range(40):  # a second stream computes all the time
        events.append(tracelib.slice_("gemm", step * tracelib.STEP_US, tracelib.STEP_US, 0, 8, "kernel"))
    found = diagnose(program, directory, events)
    assert found["verdict"] == "not_input_bound" and found["input_percent"] < 0.5, found["input_percent"]


def test_input_wait_under_an_all_reduce_counts(program, directory):
    events = tracelib.kineto(0.3)
    for step in range(40):
        ts = step * tracelib.STEP_US
        events.append(tracelib.slice_("ncclKernel_AllReduce", ts, tracelib.STEP_US, 0, 8, "kernel"))
    found = diagnose(program, directory, events)
    assert abs(found["input_percent"] - 30) < 0.5, found["input_percent"]


def test_copies_to_the_device_are_input(program, directory):
    events = tracelib.kineto(0)
    for event in events:
        if event["name"] == "vectorized_add":
            event.update(name="Memcpy HtoD (Pinned -> Device)", cat="gpu_memcpy")
    found = diagnose(program, directory, events)
    assert abs(found["breakdown"]["host_to_device"]["percent"] - 40) < 0.5, found["breakdown"]
    assert found["verdict"] == "highly_input_bound"


def test_time_without_events_is_potentially_input(program, directory):
    known = ("vectorized_add", "Optimizer.step#SGD.step", "train.py(17): <module>")
    events = [e for e in tracelib.kineto(0.01) if e["name"] not in known]
    found = diagnose(program, directory, events)
    assert found["verdict"] == "not_input_bound" and found["potentially_input_bound"], found
    assert found["breakdown"]["other"]["percent"] > 30, found["breakdown"]


def test_time_between_markers_counts(program, directory):
    """XProf does not look at it; a loop that fetches there would look fast."""
    found = diagnose(program, directory, tracelib.tensorflow(0.1, gap=0.25))
    assert abs(found["input_percent"] - 8) < 0.5, found["input_percent"]  # 10 % of 80 %
    assert found["between_percent"] < 0.1, found["between_percent"]
    found = diagnose(program, directory, tracelib.tensorflow(0.1, gap=0.04))
    assert abs(found["input_percent"] - 10) < 0.5, found["input_percent"]  # too little to matter: as XProf has it


def test_stage_of_tf_data_is_the_map_behind_the_prefetch(program, directory):
    found = diagnose(program, directory, tracelib.tensorflow(0.4))
    stage = found["stage"]
    assert stage["kind"] == "tf_data" and stage["name"] == "ParallelMapV2", stage
    assert abs(stage["share"] - 0.8) < 0.02, stage
    assert {row["name"]: round(row["share"], 1) for row in stage["all"]}["TFRecord"] == 0.1, stage
    twice = [w for w in found["what_if"] if w["what"].startswith("ParallelMapV2 twice")]
    assert abs(twice[0]["step_percent"] + 16) < 0.5 and twice[0]["assumption"], found["what_if"]
    assert any("ParallelMapV2" in line for line in found["what_to_do"]), found["what_to_do"]


def timeline(step, start, wait):
    """One file as TensorFlow 1 writes it, where its own names could not be parsed: the op is in args."""
    device = "/job:localhost/replica:0/task:0/device:CPU:0"
    ops = [("IteratorGetNext:IteratorGetNext", 0, wait), ("Iterator::Model", 10, wait - 20),
           ("MatchingFiles:MatchingFiles", 20, 0.7 * wait), ("Iterator::Model::Map", 15, wait - 40),
           ("dense/MatMul:MatMul", wait, 1000 - wait)]
    events = [tracelib.meta("process_name", 1, 0, name=device + " Compute"),
              tracelib.meta("process_name", 2, 0, name=device + " Tensors")]
    for row, (name, ts, dur) in enumerate(ops):
        events.append({"ph": "X", "cat": "Op", "name": "unknown", "pid": 1, "tid": row, "ts": start + ts, "dur": dur,
                       "args": {"name": name, "op": "unknown"}})
    return {"traceEvents": events}


def test_each_timeline_of_tensorflow_1_is_a_step(program, directory):
    """Files come by name, which is not the order of time; MatchingFiles is the last to start within the wait."""
    paths = []
    for step in (0, 100, 900, 1000):
        paths.append(os.path.join(directory, "timeline-%d.json" % step))
        with open(paths[-1], "w", encoding="utf-8") as file:
            json.dump(timeline(step, 1584128411446459 + 2000 * step, 600), file)
    found = json.loads(run(program, *sorted(paths), "--json").stdout)
    assert found["verdict"] == "highly_input_bound" and abs(found["input_percent"] - 60) < 0.1, found
    assert found["steps"] == 4 and len(found["ranks"]) == 1, found
    assert found["stage"]["kind"] == "timeline" and found["stage"]["name"].startswith("MatchingFiles"), found["stage"]
    assert abs(found["stage"]["share"] - 420 / 580) < 0.01, found["stage"]  # of what runs within the wait
    assert {step["number"] for step in found["slowest_steps"]} <= {0, 100, 900, 1000}, found["slowest_steps"]
    assert not any("torch" in line for line in found["what_to_do"]), found["what_to_do"]
    top = subprocess.run([program, "top", "--no-cache", "-q", "--by", "thread", "--json", *paths], stdout=subprocess.PIPE,
                         check=True, timeout=100)
    assert len(json.loads(top.stdout)) == 5, top.stdout  # the files' threads are one each


def test_stage_of_our_recorder_is_the_op(program, directory):
    found = diagnose(program, directory, tracelib.recorder(0.6))
    stage = found["stage"]
    assert stage["kind"] == "ops" and stage["name"] == "decode_image" and stage["workers"] == 2, stage
    assert abs(stage["share"] - 0.8) < 0.02 and stage["utilisation"] > 0.95, stage
    # The workers set the pace: half of 80 % of their work gone takes 40 % off the step.
    assert abs(found["what_if"][0]["step_percent"] + 40) < 0.5, found["what_if"]
    faster = diagnose(program, directory, tracelib.recorder(0.6), "--what-if", "4")
    assert abs(faster["what_if"][0]["step_percent"] + 60) < 0.5, faster["what_if"]


def test_loading_in_the_training_process_is_named(program, directory):
    found = diagnose(program, directory, tracelib.kineto(0.5, workers=0))
    assert found["stage"]["kind"] == "inside_wait" and found["stage"]["name"] == "aten::stack", found["stage"]
    assert any("num_workers=0" in line for line in found["what_to_do"]), found["what_to_do"]


def test_traces_of_workers_name_the_stage(program, directory):
    trainer, worker = os.path.join(directory, "trainer.json"), os.path.join(directory, "worker.json")
    tracelib.write(trainer, tracelib.kineto(0.5))
    events = [tracelib.meta("process_name", 900, 0, name="pt_data_worker")]
    for i in range(80):
        ts = i * tracelib.STEP_US / 2
        events.append(tracelib.slice_("__getitem__", ts, 0.45 * tracelib.STEP_US, 900, 900))
        events.append(tracelib.slice_("Image.open", ts, 0.35 * tracelib.STEP_US, 900, 900))
        events.append(tracelib.slice_("queue.get", ts + 0.46 * tracelib.STEP_US, 0.03 * tracelib.STEP_US, 900, 900))
    tracelib.write(worker, events)
    result = run(program, trainer, worker, "--json")
    found = json.loads(result.stdout)
    assert found["steps"] == 40 and abs(found["input_percent"] - 50) < 0.5, found
    assert found["stage"]["kind"] == "worker_processes" and found["stage"]["name"] == "Image.open", found["stage"]
    assert found["stage"]["utilisation"] > 0.8, found["stage"]


def test_gaps_say_what_ran_meanwhile(program, directory):
    found = diagnose(program, directory, tracelib.kineto(0.3), "--gaps", "3")
    assert len(found["gaps"]) == 3, found["gaps"]
    for gap in found["gaps"]:
        assert gap["of"] == "device" and abs(gap["dur"] - 3e6) < 1e4, gap
        assert "DataLoader" in gap["main"] and gap["wait_share"] > 0.99, gap
    ours = diagnose(program, directory, tracelib.recorder(0.3))
    assert ours["gaps"][0]["of"] == "main_thread" and ours["gaps"][0]["meanwhile"] == "decode_image", ours["gaps"]


def test_ranks_are_told_apart(program, directory):
    paths = []
    for rank, share in enumerate((0.02, 0.4)):
        paths.append(os.path.join(directory, "rank%d.json" % rank))
        tracelib.write(paths[-1], tracelib.kineto(share), distributedInfo={"rank": rank})
    found = json.loads(run(program, *paths, "--json").stdout)
    assert [round(rank["input_percent"]) for rank in found["ranks"]] == [2, 40], found["ranks"]
    assert [rank["worst"] for rank in found["ranks"]] == [False, True], found["ranks"]
    assert abs(found["input_percent"] - 21) < 0.5 and found["steps"] == 80, found


def test_spans_of_users_are_hints_only(program, directory):
    events = []
    for step in range(40):
        ts = step * tracelib.STEP_US
        events.append(tracelib.slice_("data", ts, 0.3 * tracelib.STEP_US, 5, 5))
        events.append(tracelib.slice_("forward", ts + 0.3 * tracelib.STEP_US, 0.7 * tracelib.STEP_US, 5, 5))
    found = diagnose(program, directory, events)
    assert abs(found["input_percent"] - 30) < 1 and found["steps_from"] == "inferred", found
    assert found["confidence"] < 0.7 and any("less certain" in line for line in found["evidence"]), found


def test_noise_gives_no_verdict_and_says_what_to_do(program, directory):
    found = diagnose(program, directory, tracelib.noise())
    assert found["verdict"] == "unknown" and found["steps_from"] == "none" and found["steps"] == 0, found
    assert found["input_percent"] is None and found["reason"] and "prof.step()" in found["what_to_do"][0], found
    path = os.path.join(directory, "trace.json")
    text = run(program, path).stdout.decode()
    assert text.startswith("Unknown: ") and "StepTraceAnnotation" in text, text


def test_text_for_people(program, directory):
    path = os.path.join(directory, "trace.json")
    tracelib.write(path, tracelib.tensorflow(0.34))
    text = run(program, path).stdout.decode()
    assert text.startswith("Input-bound: 34 % of step time waits for data (HIGHLY, threshold 20 %)."), text
    for part in ("40 steps, from the markers", "input wait", "Slowest steps", "ParallelMapV2", "Longest gaps",
                 "What to do", "twice as fast: step -", "assuming that"):
        assert part in text, (part, text)


def test_names_are_escaped(program, directory):
    evil = "evil\x1b[2J\nname\"\\<b>"
    events = tracelib.kineto(0.5, workers=0)
    for event in events:
        if event["name"] == "aten::stack":
            event["name"] = evil
    path = os.path.join(directory, "trace.json")
    tracelib.write(path, events)
    text = run(program, path).stdout
    assert b"\x1b" not in text and b"evil\\x1b" in text, text
    found = json.loads(run(program, path, "--json").stdout)
    assert found["stage"]["name"] == evil, found["stage"]


def test_ranks_of_one_file_have_their_own_devices(program, directory):
    events = tracelib.kineto(0.02, pid=701)
    for event in tracelib.kineto(0.4, pid=702):
        events.append(dict(event, pid=1) if event["pid"] == 0 else event)
    found = diagnose(program, directory, events)
    assert [round(rank["input_percent"]) for rank in found["ranks"]] == [2, 40], found["ranks"]


def test_lightning_steps_start_at_their_fetch(program, directory):
    events = []
    for step in range(40):
        ts = step * tracelib.STEP_US
        events.append(tracelib.slice_("[pl][profile][_TrainingEpochLoop].train_dataloader_next", ts,
                                      0.25 * tracelib.STEP_US, 5, 5, "user_annotation"))
        events.append(tracelib.slice_("[pl][profile]run_training_batch", ts + 0.25 * tracelib.STEP_US,
                                      0.75 * tracelib.STEP_US, 5, 5, "user_annotation"))
        events.append(tracelib.slice_("aten::mm", ts + 0.25 * tracelib.STEP_US, 0.75 * tracelib.STEP_US, 5, 6,
                                      "cpu_op"))
    found = diagnose(program, directory, events)
    assert found["steps_from"] == "markers" and abs(found["input_percent"] - 24.5) < 0.5, found


def test_rows_of_a_device_are_steps_too(program, directory):
    events = [e for e in tracelib.jax(0.3) if e["name"] != "train"]
    found = diagnose(program, directory, events)
    assert found["marker"] == "Steps" and found["steps"] == 40, found
    assert abs(found["input_percent"] - 30) < 0.5, found["input_percent"]


def test_one_step_without_markers_tells_the_share_of_the_trace(program, directory):
    events = tracelib.tensorflow(0.4, steps=1, markers=False)
    found = diagnose(program, directory, events)
    assert found["verdict"] == "unknown" and any("40.0 %" in line for line in found["evidence"]), found


def diagnose_xplane(program, directory, data):
    path = os.path.join(directory, "host.xplane.pb")
    with open(path, "wb") as file:
        file.write(data)
    return path, json.loads(run(program, path, "--json").stdout)


def test_xplane_shares(program, directory):
    for share in SHARES:
        _, found = diagnose_xplane(program, directory, tracelib.xplane(share / 100))
        assert found["verdict"] == verdict_of(share) and found["steps"] == 40, (share, found)
        assert abs(found["input_percent"] - share) < 0.5, (share, found["input_percent"])
    _, found = diagnose_xplane(program, directory, tracelib.xplane(0.1, copy=0.15))
    assert abs(found["input_percent"] - 25) < 0.5, found["input_percent"]


def test_random_steps_equal_xprof(program, directory):
    """The same shares as XProf, where it is installed. Newer ones count the host's events only without a device."""
    try:
        from xprof.convert import raw_to_tool_data
    except ImportError:
        print("without a comparison to XProf: the PyPI package xprof is not installed")
        return
    for seed in range(5):
        folder = os.path.join(directory, str(seed))  # XProf keeps results beside the file
        os.mkdir(folder)
        steps = tracelib.random_steps(random.Random(seed), 22)
        path, _ = diagnose_xplane(program, folder, tracelib.host_plane(steps))
        table = json.loads(raw_to_tool_data.xspace_to_tool_data([path], "input_pipeline_analyzer", {})[0])[1]
        columns = [column["id"] for column in table["cols"]]
        rows = [[cell["v"] for cell in row["c"]] for row in table["rows"]]
        total = {name: sum(row[columns.index(name)] for row in rows)
                 for name in ("infeedTimeMs", "otherTimeMs", "stepTimeMs")}
        # XProf leaves the first and the last step out, which may be cut off.
        _, found = diagnose_xplane(program, directory, tracelib.host_plane(steps[1:-1]))
        assert found["steps"] == len(rows) == 20, (found["steps"], len(rows))
        for ours, name in ((found["input_percent"], "infeedTimeMs"),
                           (found["breakdown"]["other"]["percent"], "otherTimeMs")):
            assert abs(ours - 100 * total[name] / total["stepTimeMs"]) < 0.001, (seed, name, ours, total)


def test_recorded_run_gives_its_steps(program, directory):
    for ending in ("pftrace", "json.gz"):
        path = os.path.join(directory, "run." + ending)
        subprocess.run([program, "run", "-q", "-e", "range(20000) | shuffle(seed=1) | batch(100)", "--step-time",
                        "100us", "--trace", path], check=True, stdout=subprocess.PIPE, timeout=100)
        found = json.loads(run(program, path, "--json").stdout)
        assert found["steps"] == 200 and found["steps_from"] == "markers" and found["marker"] == "step", found
        assert found["stage"]["kind"] == "ops" and found["verdict"] != "unknown", found


def test_usage(program, directory):
    assert run(program).returncode == 2
    assert run(program, os.path.join(directory, "none.json")).returncode == 1


if __name__ == "__main__":
    sys.exit(runlib.main(globals(), lambda test, program, directory: test(program, directory)))
