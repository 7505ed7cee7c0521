#!/usr/bin/env python3
"""Memory snapshots of PyTorch, as Python pickles them in every protocol; Python works out the figures to compare with.

Usage: python3 tests/python/test_snapshot.py BUILD_DIR
Standard library only. Prints "N passed, N failed"; the exit status is 1 when a test failed.
"""
import collections
import glob
import gzip
import json
import os
import pickle
import random
import subprocess
import sys

import runlib

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "traces", "snapshot")
EPOCH_US = 1794816000000000
NOISE = ("unwind::unwind", "CapturedTraceback::gather", "gather_with_cpp", "_start", "__libc_start_main", "PyEval_",
         "PyObject_", "PyFunction_")
NOISE_FILES = ("core/boxing", "/Register", "/Redispatch", "pythonrun.c", "Modules/main.c", "Objects/call.c",
               "Objects/methodobject.c", "pycore_ceval.h", "ceval.c", "cpython/abstract.h")


# ---- snapshots ----

def made(seed=1, steps=400, devices=1, stacks=True, times=True, before=5):
    """A caching allocator that is watched for a while: what _snapshot() would give."""
    draw = random.Random(seed)
    frames = [{"name": "f%d" % i, "filename": "dir/m%d.py" % (i % 7), "line": i + 1} for i in range(40)]
    inner = [{"name": "torch::unwind::unwind()", "filename": "??", "line": 0},
             {"name": "c10::cuda::CUDACachingAllocator::malloc(unsigned long)", "filename": "", "line": 0}]
    traces, segments, annotations = [], [], []
    now = EPOCH_US
    for device in range(devices):
        address, live, events = 0x7f0000000000 + (device << 40), {}, []
        free = [address + i * 1024 for i in range(200)]

        def entry(action, addr, size, stack):
            e = {"action": action, "addr": addr, "size": size, "stream": 0, "frames": stack, "user_metadata": ""}
            if times:
                e["time_us"] = now
            events.append(e)

        def stack_of():
            top = draw.randrange(30)
            return inner + [frames[k] for k in range(top + draw.randrange(1, 9), top, -1)] if stacks else []

        for _ in range(before):
            live[free.pop()] = (draw.randrange(1, 1000), [])
        reserved = 2 << 20
        for i in range(steps):
            now += draw.randrange(0, 30)
            if i % 100 == 50:
                entry("segment_alloc", address + reserved, 1 << 20, stack_of())
                reserved += 1 << 20
            if i % 100 == 90:
                reserved -= 1 << 20
                entry("segment_free", address + reserved, 1 << 20, [])
            if not free or (live and draw.random() < 0.48):
                addr = draw.choice(sorted(live))
                size, _ = live.pop(addr)
                entry("free_requested", addr, size, stack_of())
                entry("free_completed", addr, size, stack_of())
                free.append(addr)
            else:
                addr, size, stack = free.pop(draw.randrange(len(free))), draw.randrange(1, 1000), stack_of()
                live[addr] = (size, stack)
                entry("alloc", addr, size, stack)
        if steps:
            events.append({"action": "oom", "device_free": 77, "size": 1 << 44, "stream": 0, "frames": stack_of(),
                           "time_us": now})
            annotations += [{"stage": "START", "name": "forward", "device": device, "time_us": EPOCH_US},
                            {"stage": "END", "name": "forward", "device": device, "time_us": EPOCH_US + 100}]
        blocks = [{"address": a, "size": 1024, "requested_size": s, "state": "active_allocated", "frames": f}
                  for a, (s, f) in sorted(live.items())]
        if blocks:
            blocks[-1]["state"] = "active_pending_free"
        blocks += [{"address": a, "size": 1024, "requested_size": 5, "state": "inactive", "frames": []} for a in free]
        segments.append({"device": device, "address": address, "total_size": reserved, "allocated_size": 0,
                         "active_size": 0, "stream": 0, "segment_type": "small", "segment_pool_id": (0, 0),
                         "is_expandable": False, "frames": [], "blocks": blocks})
        traces.append(events)
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "a:b", "max_split_size": -1, "garbage_collection_threshold": 0.5,
                "expandable_segments": False, "roundup_power2_divisions": {"1": 0}}
    return {"segments": segments, "device_traces": traces, "allocator_settings": settings,
            "external_annotations": annotations}


def stack_of(frames):
    """As PyTorch's viewer shows it, outermost first, without the allocator itself at the inner end."""
    def is_noise(f):
        return any(n in f["name"] for n in NOISE) or any(n in f["filename"] for n in NOISE_FILES)
    rest = list(frames)
    while rest and (is_noise(rest[0]) or "CachingAllocator" in rest[0]["name"]):
        rest.pop(0)
    return tuple((f["name"], "" if f["filename"] == "??" else f["filename"], f["line"])
                 for f in reversed(rest) if not is_noise(f))


def judge(snapshot, device):
    """Levels backwards from the end, and what is held at the peak by stack."""
    segments = [s for s in snapshot["segments"] if s["device"] == device]
    events = snapshot["device_traces"][device] if device < len(snapshot["device_traces"]) else []
    active = [b for s in segments for b in s["blocks"] if b["state"].startswith("active")]
    level = sum(b["requested_size"] for b in active)
    levels = [level]
    for e in reversed(events):
        if e["action"] in ("alloc", "free_completed"):
            level += e["size"] if e["action"] == "free_completed" else -e["size"]
            levels.append(level)
    levels.reverse()
    reserved = sum(s["total_size"] for s in segments)
    steps = [e["size"] if e["action"] in ("segment_alloc", "segment_map") else -e["size"] for e in events
             if e["action"].startswith("segment_")]
    reserve_levels = [reserved - sum(steps[i:]) for i in range(len(steps) + 1)]
    held, at_peak, count = {}, None, 0
    known = {e["addr"] for e in events if e["action"] == "alloc"}
    for e in events:
        if e["action"] == "free_completed" and e["addr"] not in held and e["addr"] not in known:
            held[e["addr"]] = (e["size"], ("(before the history)",))
    freed = set()
    for e in events:  # frees whose allocation is not in the history, also of addresses that are used again later
        if e["action"] == "alloc":
            freed.add(e["addr"])
        elif e["action"] == "free_completed":
            if e["addr"] not in freed:
                held[e["addr"]] = (e["size"], ("(before the history)",))
            freed.add(e["addr"])
    last = {}
    for e in events:
        if e["action"] in ("alloc", "free_completed"):
            last[e["addr"]] = e["action"]
    for b in active:
        if last.get(b["address"]) != "alloc":
            held[(b["address"], "old")] = (b["requested_size"], stack_of(b["frames"]) or ("(before the history)",))
    peak = max(levels)
    for i, value in enumerate(levels):
        if value == peak and at_peak is None:
            at_peak = i
    for e in events:
        if count == at_peak:
            break
        if e["action"] == "alloc":
            held[e["addr"]] = (e["size"], stack_of(e["frames"]) or ("(no stack)",))
            count += 1
        elif e["action"] == "free_completed":
            held.pop(e["addr"])
            count += 1
    by_stack = collections.Counter()
    for size, stack in held.values():
        by_stack[stack] += size
    assert sum(by_stack.values()) == peak
    totals = collections.Counter()
    for e in events:
        if e["action"] == "alloc":
            totals[stack_of(e["frames"]) or ("(no stack)",)] += e["size"]
    return {"levels": levels if events else [], "reserved": reserve_levels if events else [], "held": by_stack,
            "totals": totals}


# ---- what stoker says ----

def run(program, *arguments, code=0):
    done = subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=170, check=False)
    assert done.returncode == code, (arguments, done.returncode, done.stderr.decode())
    return done.stdout.decode(), done.stderr.decode()


def query(program, path, sql):
    return json.loads(run(program, "sql", path, "--no-cache", "--json", "-q", sql)[0])


def read(program, path, device):
    """The same shape as what judge() gives."""
    counters = query(program, path, "SELECT t.name AS name, value FROM counter c JOIN counter_track t ON "
                                    "t.id = c.track_id JOIN process p USING (upid) WHERE p.name = 'GPU %d' "
                                    "ORDER BY c.id" % device)
    levels = {"allocated": [], "reserved": []}
    for row in counters:
        levels[row["name"].split(",")[0]].append(int(row["value"]))
    frames = {r["id"]: r for r in query(program, path, "SELECT * FROM frame")}
    sites = {r["id"]: r for r in query(program, path, "SELECT * FROM callsite")}

    def stack(site):
        out = []
        while site is not None:
            f = frames[sites[site]["frame_id"]]
            out.append((f["name"], f["source_file"] or "", f["line_number"] or 0))
            site = sites[site]["parent_id"]
        return tuple(out[0][:1]) if len(out) == 1 and out[0][0].startswith("(") else tuple(reversed(out))
    held, totals = collections.Counter(), collections.Counter()
    samples = query(program, path, "SELECT s.callsite_id AS site, s.weight AS weight, t.unit AS unit, th.name AS name "
                                   "FROM sample s JOIN track t ON t.id = s.track_id JOIN thread th ON th.utid = t.utid")
    for row in samples:
        if row["name"].startswith("GPU %d " % device):
            (held if row["unit"] == "bytes" else totals)[stack(row["site"])] += row["weight"]
    return {"levels": levels["allocated"], "reserved": levels["reserved"], "held": held, "totals": totals}


def without_repeats(levels):
    """Levels at the ends are told again where nothing changed."""
    return [x for i, x in enumerate(levels) if i == 0 or levels[i - 1] != x]


def check(program, path, snapshot):
    devices = max([len(snapshot["device_traces"])] + [s["device"] + 1 for s in snapshot["segments"]])
    for device in range(devices):
        wanted, found = judge(snapshot, device), read(program, path, device)
        assert found["levels"] == wanted["levels"], (path, device)
        assert without_repeats(found["reserved"]) == without_repeats(wanted["reserved"]), (path, device)
        if not wanted["levels"]:
            rename = {("(before the history)",): ("(no stack)",)}
            wanted["held"] = collections.Counter({rename.get(k, k): v for k, v in wanted["held"].items()})
        assert +found["held"] == +wanted["held"], (path, device)
        assert +found["totals"] == +wanted["totals"], (path, device)


def dump(directory, value, protocol=4, name="snap.pickle"):
    path = os.path.join(directory, name)
    with open(path, "wb") as f:
        pickle.dump(value, f, protocol=protocol)
    return path


# ---- tests ----

def test_every_protocol_gives_the_figures_of_python(program, directory):
    snapshot = made()
    for protocol in range(6):
        check(program, dump(directory, snapshot, protocol), snapshot)


def test_many_snapshots_and_devices(program, directory):
    for seed in range(1, 7):
        snapshot = made(seed, steps=150 * seed, devices=1 + seed % 3, stacks=seed != 4, before=seed * 3)
        check(program, dump(directory, snapshot), snapshot)


def test_lists_longer_than_a_batch(program, directory):
    for steps in (450, 500, 1000, 2100):
        snapshot = made(steps, steps=steps)
        check(program, dump(directory, snapshot), snapshot)


def test_without_times_entries_are_counted(program, directory):
    snapshot = made(times=False)
    for e in snapshot["device_traces"][0]:
        e.pop("time_us", None)
    path = dump(directory, snapshot)
    check(program, path, snapshot)
    names = query(program, path, "SELECT DISTINCT name FROM counter_track ORDER BY 1")
    assert [n["name"] for n in names] == ["allocated, by number of the entry", "reserved, by number of the entry"]


def test_without_history_there_are_blocks_alone(program, directory):
    snapshot = made(steps=0)
    path = dump(directory, snapshot)
    check(program, path, snapshot)
    assert query(program, path, "SELECT count(*) AS n FROM counter")[0]["n"] == 0
    assert "a snapshot of memory" in run(program, "diagnose", path)[0]
    check(program, dump(directory, snapshot["segments"]), snapshot)


def test_dicts_of_other_classes(program, directory):
    snapshot = made(steps=60)
    other = collections.OrderedDict(snapshot)
    other["device_traces"] = [[collections.defaultdict(list, e) for e in t] for t in snapshot["device_traces"]]
    for protocol in range(6):
        check(program, dump(directory, other, protocol), snapshot)


def test_instants_annotations_and_settings(program, directory):
    path = dump(directory, made())
    rows = query(program, path, "SELECT name, category, dur, extract_arg(arg_set_id, 'size') AS size, "
                                "extract_arg(arg_set_id, 'device_free') AS free FROM slice ORDER BY name")
    assert [(r["name"], r["size"], r["free"]) for r in rows] == [("forward", None, None), ("oom", 1 << 44, 77)]
    assert rows[0]["dur"] == 100000
    facts = {r["key"]: r["value"] for r in query(program, path, "SELECT key, value FROM fact")}
    assert facts["allocator_settings.PYTORCH_CUDA_ALLOC_CONF"] == "a:b"
    assert facts["allocator_settings.expandable_segments"] == "false"
    assert facts["allocator_settings.max_split_size"] == "-1"


def test_flame_graph_is_what_is_held_at_the_peak(program, directory):
    snapshot = made()
    path, target = dump(directory, snapshot), os.path.join(directory, "x.collapsed")
    run(program, "convert", "--no-cache", path, "-o", target)
    wanted = judge(snapshot, 0)["held"]
    total = 0
    with open(target, encoding="utf-8") as f:
        for line in f:
            stack, size = line.rsplit(" ", 1)
            total += int(size)
            assert stack.startswith("GPU_0_memory_held_at_the_peak;"), stack
    assert total == sum(wanted.values())


def test_cut_files_give_what_they_have(program, directory):
    snapshot = made()
    whole = pickle.dumps(snapshot, protocol=4)
    path = os.path.join(directory, "cut.pickle")
    kept = []
    for size in range(len(whole) // 4, len(whole) - 400, len(whole) // 7):
        with open(path, "wb") as f:
            f.write(whole[:size])
        assert "cut off at the end of the file" in run(program, "top", "--no-cache", path)[1]
        kept.append(query(program, path, "SELECT count(*) AS n FROM counter")[0]["n"])
    assert kept == sorted(kept) and kept[-1] > 100, kept


def test_diff_compares_what_was_held_alone(program, directory):
    """Held and allocated bytes are two units: their sum would be nothing at all."""
    paths = []
    for seed in (1, 2):
        snapshot = made(seed, steps=300, stacks=True)
        snapshot.pop("external_annotations", None)  # slices would be compared in place of samples
        paths.append(os.path.join(directory, "snap%d.pickle" % seed))
        with open(paths[-1], "wb") as f:
            pickle.dump(snapshot, f)
    report = json.loads(run(program, "diff", *paths, "--json", "--no-cache")[0])
    for side, path in zip(("before", "after"), paths):
        held = query(program, path, "SELECT sum(weight) AS n FROM sample WHERE unit = 'bytes'")[0]["n"]
        rows = report["rows"]
        found = sum(row[side]["self"] for row in rows if row[side] and row[side]["self"])
        assert found == held and {row["unit"] for row in rows} == {"bytes"}, (found, held)


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, ("touch '%s'" % self.path,)


def test_other_pickles_are_refused_in_one_sentence(program, directory):
    mark = os.path.join(directory, "it-ran")
    cases = [(Evil(mark), "by calling posix.system"), ([1, 2, 3], "not a memory snapshot"), ({"a": 1}, "not a memory"),
             (3.5, "not a memory snapshot"), ({"segments": 1, "device_traces": Evil(mark)}, "no events in it")]
    for value, says in cases:
        for protocol in range(2, 6):
            path = dump(directory, value, protocol)
            errors = run(program, "top", "--no-cache", path, code=1)[1]
            assert says in errors and errors.count("\n") == 1, errors
    assert not os.path.exists(mark)


def test_hostile_pickles_end_soon(program, directory):
    path = os.path.join(directory, "bad.pickle")
    cases = {
        "lists in lists": b"\x80\x02" + b"]" * 3000000,
        "marks": b"\x80\x02" + b"(" * 3000000,
        "values": b"\x80\x02](" + b"N" * 3000000 + b"e.",
        "memo": b"\x80\x02Nr\xff\xff\xff\xff.",
        "length": b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fx",
        "doubling": b"\x80\x04]\x94" + b"".join(b"](h%ch%ce\x94" % (i % 255, i % 255) for i in range(200)) + b".",
        "fx": b"\x80\x04}(\x8c\x08segments](" + b"}(\x8c\x06blocks]\x8c\x0atotal_sizeK\x01u" * 50000 + b"eu.",
    }
    for name, data in cases.items():
        with open(path, "wb") as f:
            f.write(data)
        done = subprocess.run([program, "top", "--no-cache", path], capture_output=True, timeout=60, check=False)
        assert done.returncode in (0, 1), (name, done.returncode)


def test_memory_cap_changes_nothing(program, directory):
    snapshot = made(3, steps=3000)
    path = dump(directory, snapshot)
    plain = run(program, "top", "--no-cache", "--format", "csv", path)[0]
    assert run(program, "top", "--no-cache", "--memory", "64k", "--format", "csv", path)[0] == plain


def test_snapshots_of_a_real_gpu(program, directory):
    """Written by PyTorch 2.13 on an H200; the sum of what was asked for is that of torch.cuda.memory_stats()."""
    paths = sorted(glob.glob(os.path.join(DATA, "*.pickle.gz")))
    assert len(paths) >= 3
    for path in paths:
        with gzip.open(path) as f:
            snapshot = pickle.load(f)
        check(program, path, snapshot)
        assert read(program, path, 0)["levels"][-1] == 95543676


if __name__ == "__main__":
    sys.exit(runlib.main(dict(globals()), lambda test, program, directory: test(program, directory)))
