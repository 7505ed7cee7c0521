#!/usr/bin/env python3
"""Perfetto and xplane traces, made and judged with the real schemas: Perfetto's own protobufs, and xplane's.

Usage: test_trace_protobuf.py BUILD_DIR. Needs the packages "perfetto" (for its schema; no binary is fetched) and
"protobuf"; exits with 77 when they are missing.
"""
import collections
import json
import os
import random
import subprocess
import sys
import zlib

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb
except ImportError as missing:
    print(f"skipped: {missing} (wanted the PyPI packages perfetto and protobuf)")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(77)

import runlib

CLEARED = pb.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
NEEDS = pb.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
COLUMNS = ("ts", "dur", "name", "category", "pid", "tid", "process", "thread", "depth", "is_instant", "is_unfinished")


class Run:
    """The program, in a directory of its own."""

    def __init__(self, program, directory):
        self.program, self.directory = program, directory

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as f:
            f.write(data)
        return self.path(name)

    def convert(self, *sources, to, code=0):
        done = subprocess.run([self.program, "convert", "--no-cache", *sources, "-o", self.path(to)],
                              capture_output=True, text=True, timeout=120)
        assert done.returncode == code, done.stderr
        self.said = done.stderr
        return self.path(to)

    def rows(self, *sources):
        """The events of files, as the program reads them: a dict from table to rows."""
        out = collections.defaultdict(list)
        with open(self.convert(*sources, to="rows.ndjson"), encoding="utf-8") as f:
            for line in f:
                row = json.loads(line)
                out[row.pop("type")].append(row)
        return out


def call(test, program, directory):
    test(Run(program, directory))


def slices(rows, *columns):
    return [tuple(row[c] for c in columns or ("ts", "dur", "name")) for row in rows["slice"]]


def comparable(rows):
    """What must survive a round trip; numbers of rows and names of files need not."""
    def key(row, names):
        return json.dumps([row.get(n) for n in names] + [row.get("args"), row.get("stack")], sort_keys=True)
    return {
        "slice": sorted(key(r, COLUMNS) for r in rows["slice"]),
        "counter": sorted(key(r, ("ts", "value", "name", "pid", "unit")) for r in rows["counter"]),
        "sample": sorted(key(r, ("ts", "weight", "unit", "pid", "tid", "event")) for r in rows["sample"]),
    }


def check_round_trip(run, source):
    first = run.rows(source)
    copy = run.convert(source, to="copy.pftrace")
    assert pb.Trace.FromString(open(copy, "rb").read()).packet
    second = run.rows(copy)
    for table, wanted in comparable(first).items():
        got = comparable(second)[table]
        assert got == wanted, (table, [x for x in wanted if x not in got][:3], [x for x in got if x not in wanted][:3])
    return first, copy


def packet(trace, **fields):
    p = trace.packet.add()
    p.trusted_packet_sequence_id = fields.pop("sequence", 1)
    for name, value in fields.items():
        setattr(p, name, value)
    return p


def event(trace, ts, kind, track=None, name=None, **fields):
    p = packet(trace, timestamp=ts, **fields)
    p.track_event.type = kind
    if track is not None:
        p.track_event.track_uuid = track
    if name is not None:
        p.track_event.name = name
    return p.track_event


def add_thread(trace, uuid, pid, tid, name, parent=None):
    d = packet(trace).track_descriptor
    d.uuid, d.thread.pid, d.thread.tid, d.thread.thread_name = uuid, pid, tid, name
    if parent:
        d.parent_uuid = parent


def simple_trace():
    trace = pb.Trace()
    packet(trace, sequence_flags=CLEARED)
    d = packet(trace).track_descriptor
    d.uuid, d.process.pid, d.process.process_name = 1, 10, "train"
    add_thread(trace, 2, 10, 11, "main", parent=1)
    return trace


# ---- Perfetto: reading ----

def test_slices_instants_and_tracks(run):
    trace = simple_trace()
    event(trace, 100, BEGIN, 2, "outer")
    event(trace, 150, BEGIN, 2, "inner")
    event(trace, 160, INSTANT, 2, "now")
    event(trace, 170, END, 2)
    event(trace, 200, END, 2)
    child = packet(trace).track_descriptor
    child.uuid, child.parent_uuid, child.static_name = 3, 2, "steps"
    event(trace, 120, BEGIN, 3, "step")
    event(trace, 180, END, 3)
    event(trace, 90, INSTANT, 1, "of the process")
    event(trace, 80, INSTANT, 0, "of all")
    rows = run.rows(run.write("a.pftrace", trace.SerializeToString()))
    got = sorted(slices(rows, "ts", "dur", "name", "depth", "thread", "pid"), key=str)
    assert got == sorted([(100, 100, "outer", 0, "main", 10), (150, 20, "inner", 1, "main", 10),
                          (160, 0, "now", 2, "main", 10), (120, 60, "step", 0, "main", 10),
                          (90, 0, "of the process", 0, "", 10), (80, 0, "of all", 0, "", None)], key=str), got
    check_round_trip(run, run.path("a.pftrace"))


def test_descriptors_may_come_after_their_events(run):
    trace = pb.Trace()
    event(trace, 100, BEGIN, 5, "early")
    event(trace, 120, END, 5)
    event(trace, 100, BEGIN, 6, "child")
    event(trace, 110, END, 6)
    child = packet(trace).track_descriptor
    child.uuid, child.parent_uuid, child.name = 6, 5, "beside"
    add_thread(trace, 5, 10, 11, "late")
    rows = run.rows(run.write("a.pftrace", trace.SerializeToString()))
    got = sorted(slices(rows, "name", "pid", "tid", "thread"))
    assert got == [("child", 10, 11, "late"), ("early", 10, 11, "late")], got


def test_interning_and_cleared_state(run):
    trace = simple_trace()
    lost = packet(trace, sequence=7, timestamp=5, sequence_flags=NEEDS)
    lost.track_event.type, lost.track_event.track_uuid = INSTANT, 2
    for generation, name in enumerate(("first", "second")):
        p = packet(trace, sequence=7, timestamp=100 + generation, sequence_flags=CLEARED | NEEDS)
        p.trace_packet_defaults.track_event_defaults.track_uuid = 2
        texts = (("event_names", name), ("event_categories", "cat " + name), ("debug_annotation_names", "key"))
        for kind, text in texts:
            entry = getattr(p.interned_data, kind).add()
            entry.iid, entry.name = 1, text
        value = p.interned_data.debug_annotation_string_values.add()
        value.iid, value.str = 4, b"interned"
        p.track_event.type, p.track_event.name_iid = INSTANT, 1
        p.track_event.category_iids.append(1)
        p.track_event.categories.append("more")
        arg = p.track_event.debug_annotations.add()
        arg.name_iid, arg.string_value_iid = 1, 4
    rows = run.rows(run.write("a.pftrace", trace.SerializeToString()))
    got = slices(rows, "ts", "name", "category")
    assert got == [(100, "first", "cat first,more"), (101, "second", "cat second,more")], got
    assert all(row["args"] == {"key": "interned"} for row in rows["slice"])
    assert "1: refers to something that is not in the file" in run.said, run.said


def test_args_of_all_types(run):
    trace = simple_trace()
    e = event(trace, 1, INSTANT, 2, "x")
    def arg(name, **fields):
        a = e.debug_annotations.add(name=name)
        for k, v in fields.items():
            setattr(a, k, v)
        return a
    arg("bool", bool_value=True)
    arg("uint", uint_value=5)
    arg("large", uint_value=2**64 - 1)
    arg("int", int_value=-5)
    arg("double", double_value=0.5)
    arg("text", string_value='a "b"\n')
    arg("pointer", pointer_value=255)
    arg("json", legacy_json_value='{"a": [1, 2, {"b": null}]}')
    arg("no json", legacy_json_value='{"a": ')
    d = arg("dict")
    d.dict_entries.add(name="one", int_value=1)
    inner = d.dict_entries.add(name="list")
    inner.array_values.add(string_value="x")
    inner.array_values.add(double_value=1.5)
    inner.array_values.add().dict_entries.add(name="deep", bool_value=False)
    nested = arg("nested").nested_value
    nested.nested_type = pb.DebugAnnotation.NestedValue.DICT
    nested.dict_keys.append("k")
    nested.dict_values.add(int_value=3)
    arg("null")
    rows = run.rows(run.write("a.pftrace", trace.SerializeToString()))
    wanted = {"bool": True, "uint": 5, "large": 2**64 - 1, "int": -5, "double": 0.5, "text": 'a "b"\n',
              "pointer": "0xff", "json": {"a": [1, 2, {"b": None}]}, "no json": '{"a": ',
              "dict": {"one": 1, "list": ["x", 1.5, {"deep": False}]}, "nested": {"k": 3}, "null": None}
    assert rows["slice"][0]["args"] == wanted, rows["slice"][0]["args"]
    check_round_trip(run, run.path("a.pftrace"))


def test_counters(run):
    trace = simple_trace()
    d = packet(trace).track_descriptor
    d.uuid, d.parent_uuid, d.name = 20, 1, "bytes"
    d.counter.unit, d.counter.unit_multiplier, d.counter.is_incremental = 3, 1024, True
    d = packet(trace).track_descriptor
    d.uuid, d.parent_uuid, d.name = 21, 1, "load"
    d.counter.unit_name = "share"
    event(trace, 10, COUNTER, 20).counter_value = 1
    event(trace, 20, COUNTER, 20).counter_value = 2
    event(trace, 30, COUNTER, 21).double_counter_value = 0.25
    e = event(trace, 40, BEGIN, 2, "work")
    e.extra_counter_track_uuids.append(20)
    e.extra_counter_values.append(3)
    e.extra_double_counter_track_uuids.append(21)
    e.extra_double_counter_values.append(0.5)
    event(trace, 50, END, 2)
    path = run.write("a.pftrace", trace.SerializeToString())
    got = [(r["ts"], r["name"], r["value"]) for r in run.rows(path)["counter"]]
    assert sorted(got) == [(10, "bytes", 1024), (20, "bytes", 3072), (30, "load", 0.25), (40, "bytes", 6144),
                           (40, "load", 0.5)], got
    check_round_trip(run, path)


def test_clocks(run):
    """Sequence clock 64: microseconds, each a step from the one before; and a time of the real-time clock."""
    trace = pb.Trace()
    p = packet(trace, sequence_flags=CLEARED)
    p.trace_packet_defaults.timestamp_clock_id = 64
    clocks = p.clock_snapshot.clocks
    clocks.add(clock_id=6, timestamp=1_000_000)
    clocks.add(clock_id=1, timestamp=1_700_000_000_001_000_000)
    clocks.add(clock_id=64, timestamp=500, unit_multiplier_ns=1000, is_incremental=True)
    add_thread(trace, 2, 10, 11, "main")
    event(trace, 10, BEGIN, 2, "a")   # 500 us + 10 us -> 1_010_000
    event(trace, 5, END, 2)           # 1_015_000
    p = packet(trace, timestamp=1_700_000_000_002_000_000, timestamp_clock_id=1)
    p.track_event.type, p.track_event.track_uuid, p.track_event.name = INSTANT, 2, "real"
    p = packet(trace, timestamp=77, timestamp_clock_id=99)
    p.track_event.type, p.track_event.track_uuid, p.track_event.name = INSTANT, 2, "no clock"
    rows = run.rows(run.write("a.pftrace", trace.SerializeToString()))
    assert slices(rows) == [(1_010_000, 5_000, "a"), (2_000_000, 0, "real")], slices(rows)
    assert "1: event without a usable time" in run.said, run.said


def test_legacy_events(run):
    trace = pb.Trace()
    p = packet(trace, sequence_flags=CLEARED)
    p.thread_descriptor.pid, p.thread_descriptor.tid, p.thread_descriptor.reference_timestamp_us = 10, 11, 1000
    p.thread_descriptor.thread_name = "old"
    def legacy(delta, phase, **fields):
        e = packet(trace, sequence_flags=NEEDS).track_event
        e.timestamp_delta_us = delta
        e.name = "n"
        e.legacy_event.phase = ord(phase)
        for k, v in fields.items():
            setattr(e.legacy_event, k, v)
    legacy(5, "X", duration_us=7)       # 1005
    legacy(10, "B")                     # 1015
    legacy(10, "E")                     # 1025
    legacy(0, "b", global_id=3)         # 1025
    legacy(3, "e", global_id=3)         # 1028
    legacy(1, "i")                      # 1029
    legacy(1, "?")
    rows = run.rows(run.write("a.pftrace", trace.SerializeToString()))
    got = sorted(slices(rows, "ts", "dur", "thread"), key=str)
    assert got == sorted([(1005000, 7000, "old"), (1015000, 10000, "old"), (1025000, 3000, ""), (1029000, 0, "old")],
                         key=str), got
    assert "1: event without a known phase" in run.said, run.said


def test_flows(run):
    trace = simple_trace()
    add_thread(trace, 4, 10, 12, "other", parent=1)
    event(trace, 10, BEGIN, 2, "from").flow_ids.append(2**63 + 1)
    event(trace, 20, END, 2)
    event(trace, 30, BEGIN, 4, "over").flow_ids.append(2**63 + 1)
    event(trace, 40, END, 4)
    event(trace, 50, BEGIN, 2, "to").terminating_flow_ids.append(2**63 + 1)
    event(trace, 60, END, 2)
    path = run.write("a.pftrace", trace.SerializeToString())
    first, copy = check_round_trip(run, path)
    def points(rows):
        names = {r["id"]: r["name"] for r in rows["slice"]}
        return sorted((r["ts"], r["phase"], names[r["slice_id"]]) for r in rows["flow"])
    assert points(first) == [(10, "start", "from"), (30, "step", "over"), (50, "end", "to")], first["flow"]
    assert len(set(r["flow"] for r in first["flow"])) == 1
    assert points(run.rows(copy)) == points(first)


def test_compressed_packets(run):
    inner = simple_trace()
    event(inner, 10, BEGIN, 2, "packed")
    event(inner, 20, END, 2)
    trace = pb.Trace()
    trace.packet.add().compressed_packets = zlib.compress(inner.SerializeToString())
    rows = run.rows(run.write("a.pftrace", trace.SerializeToString()))
    assert slices(rows) == [(10, 10, "packed")]
    damaged = bytearray(trace.SerializeToString())
    damaged[-3] ^= 0xff
    run.rows(run.write("b.pftrace", bytes(damaged)))
    assert "1: the compressed data is damaged" in run.said, run.said


def test_samples(run):
    trace = simple_trace()
    p = packet(trace, sequence=3, sequence_flags=CLEARED)
    p.trace_packet_defaults.perf_sample_defaults.timebase.name = "cycles"
    data = p.interned_data
    data.callstacks.add(iid=1, frame_ids=[1, 2])  # before its frames, whose names come last
    data.frames.add(iid=1, function_name_id=1, mapping_id=1)
    data.frames.add(iid=2, rel_pc=0x1234)
    data.mappings.add(iid=1, path_string_ids=[9])
    data.mapping_paths.add(iid=9, str=b"/bin/x")
    data.function_names.add(iid=1, str=b"main")
    for ts in (100, 200):
        p = packet(trace, sequence=3, timestamp=ts, sequence_flags=NEEDS)
        p.perf_sample.pid, p.perf_sample.tid, p.perf_sample.callstack_iid = 10, 11, 1
    path = run.write("a.pftrace", trace.SerializeToString())
    first, _ = check_round_trip(run, path)
    assert [r["ts"] for r in first["sample"]] == [100, 200]
    assert "main" in json.dumps(first["sample"][0]) and "0x1234" in json.dumps(first["sample"][0]), first["sample"]


def test_streaming_profile(run):
    trace = pb.Trace()
    p = packet(trace, sequence_flags=CLEARED)
    p.thread_descriptor.pid, p.thread_descriptor.tid, p.thread_descriptor.reference_timestamp_us = 10, 11, 1000
    p = packet(trace, sequence_flags=NEEDS)
    p.interned_data.function_names.add(iid=1, str=b"f")
    p.interned_data.frames.add(iid=1, function_name_id=1)
    p.interned_data.callstacks.add(iid=1, frame_ids=[1])
    p.streaming_profile_packet.callstack_iid.extend([1, 1, 1])
    p.streaming_profile_packet.timestamp_delta_us.extend([1, 2, 3])
    rows = run.rows(run.write("a.pftrace", trace.SerializeToString()))
    assert [r["ts"] for r in rows["sample"]] == [1_001_000, 1_003_000, 1_006_000], rows["sample"]


def test_unknown_packets_are_counted(run):
    trace = simple_trace()
    bundle = packet(trace).ftrace_events
    for i in range(3):
        bundle.event.add(timestamp=i, pid=1)
    packet(trace).chrome_metadata.background_tracing_metadata.SetInParent()
    event(trace, 1, INSTANT, 2, "kept")
    rows = run.rows(run.write("a.pftrace", trace.SerializeToString()))
    assert len(rows["slice"]) == 1
    assert "4: of a kind that is not used here" in run.said, run.said


def test_totals_of_the_recorder(run):
    trace = simple_trace()
    d = packet(trace).track_descriptor
    d.uuid, d.parent_uuid, d.name = 30, 1, "recorder totals"
    event(trace, 5, INSTANT, 2, "kept")
    def instant(called, **args):
        e = event(trace, 9, INSTANT, 30, called)
        e.categories.append("recorder")
        for k, v in args.items():
            a = e.debug_annotations.add(name=k)
            if isinstance(v, str):
                a.string_value = v
            else:
                a.uint_value = v
    instant("total", track="worker 0", name="decode", count=100, total_ns=5000, lost=4)
    instant("summary", events_written=96, events_lost=6)
    path = run.write("a.pftrace", trace.SerializeToString())
    rows = run.rows(path)
    assert slices(rows) == [(5, 0, "kept")], slices(rows)
    assert "6: events that the recorder says it lost" in run.said, run.said
    copy = run.convert(path, to="copy.pftrace")
    totals = [p.track_event for p in pb.Trace.FromString(open(copy, "rb").read()).packet
              if p.track_event.name in ("total", "summary")]
    assert [{a.name: a.string_value or a.uint_value for a in e.debug_annotations} for e in totals][0] == {
        "track": "worker 0", "name": "decode", "count": 100, "total_ns": 5000, "lost": 4}
    run.rows(copy)
    assert "6: events that the recorder says it lost" in run.said, run.said


# ---- Perfetto: damage ----

def many_packets(count=200):
    trace = simple_trace()
    for i in range(count):
        event(trace, 1000 + 10 * i, BEGIN, 2, "slice %d" % i)
        event(trace, 1005 + 10 * i, END, 2)
    return trace


def test_cut_off_anywhere(run):
    data = many_packets(20).SerializeToString()
    ends = set()  # of packets
    at = 0
    while at < len(data):
        ends.add(at)
        at += 2 + data[at + 1]
    first = min(e for e in ends if sum(1 for other in ends if other <= e) > 4)  # before it there is no event
    refused = run.convert(run.write("a.pftrace", data[:first - 1]), to="rows.ndjson", code=1)
    assert "no event of it can be used" in run.said and not os.path.exists(refused), run.said
    for cut in range(first, len(data), 7):
        rows = run.rows(run.write("a.pftrace", data[:cut]))
        assert ("cut off at the end of the file" in run.said) == (cut not in ends), (cut, run.said)
        whole = sum(1 for e in ends if e <= cut)
        assert len(rows["slice"]) == max(0, (whole - 4 + 1) // 2), (cut, whole, len(rows["slice"]))


def test_resync_behind_damage(run):
    data = many_packets().SerializeToString()
    clean = run.rows(run.write("clean.pftrace", data))
    assert len(clean["slice"]) == 200
    rng = random.Random(1)
    for _ in range(20):
        at = rng.randrange(500, len(data) - 500)
        for damaged in (data[:at] + bytes([255] * 9) + data[at + 9:], data[:at] + data[at + 5:],
                        data[:at] + b"\0" * 40 + data[at:]):
            rows = run.rows(run.write("a.pftrace", damaged))
            kept = sum(1 for r in rows["slice"] if r["name"] and not r["is_unfinished"])
            assert kept >= 180, (at, kept, run.said)
            assert "left out" in run.said or "noted" in run.said, at


# ---- Perfetto: writing ----

def replay(trace):
    """Slices as trace_processor would see them: a stable sort by time, one stack for each track."""
    interned, events, tracks = {}, [], {}
    for p in trace.packet:
        for entry in p.interned_data.event_names:
            interned[entry.iid] = entry.name
        if p.HasField("track_descriptor"):
            tracks[p.track_descriptor.uuid] = p.track_descriptor
        if p.HasField("track_event"):
            events.append((p.timestamp, p.track_event))
    stacks, out = collections.defaultdict(list), []
    for ts, e in sorted(events, key=lambda x: x[0]):
        stack = stacks[e.track_uuid]
        assert not e.track_uuid or e.track_uuid in tracks
        if e.type == BEGIN:
            stack.append((ts, interned[e.name_iid]))
        elif e.type == END:
            start, name = stack.pop()
            out.append((start, ts - start, name, len(stack)))
    assert not any(stacks.values())
    return sorted(out)


def nested(rng, start, end, depth, out):
    at = start
    while at < end and len(out) < 400:
        size = rng.choice((0, 0, 1, rng.randint(1, end - at)))
        out.append((at, size))
        if depth < 6 and size:
            nested(rng, at, at + size, depth + 1, out)
        at += size + rng.choice((0, 0, 1, 3)) if size else 1


def test_begins_and_ends_nest_also_for_equal_times(run):
    for seed in range(10):
        spans = []
        nested(random.Random(seed), 1000, 1200, 0, spans)
        events = [{"ph": "X", "pid": 1, "tid": 2, "ts": ts, "dur": dur, "name": "s%d" % (i % 7), "args": {"i": i}}
                  for i, (ts, dur) in enumerate(spans)]
        path = run.write("a.json", json.dumps({"traceEvents": events}).encode())
        first, copy = check_round_trip(run, path)
        seen = replay(pb.Trace.FromString(open(copy, "rb").read()))
        assert seen == sorted(slices(first, "ts", "dur", "name", "depth")), seed


def test_overlaps_keep_their_lanes(run):
    events = [{"ph": "X", "pid": 1, "tid": 2, "ts": ts, "dur": 10, "name": "k%d" % ts} for ts in (0, 5, 8, 20, 25)]
    events.append({"ph": "M", "pid": 1, "tid": 2, "name": "thread_name", "args": {"name": "stream 7"}})
    path = run.write("a.json", json.dumps({"traceEvents": events}).encode())
    first, copy = check_round_trip(run, path)
    assert len(first["slice"]) == 5
    names = [p.track_descriptor.name for p in pb.Trace.FromString(open(copy, "rb").read()).packet
             if p.track_descriptor.parent_uuid and p.track_descriptor.name]
    assert names == ["stream 7 (overlap 1)", "stream 7 (overlap 2)"], names


def test_pids_of_joined_files_stay_apart(run):
    for name in ("a", "b"):
        run.write(name + ".json", json.dumps([
            {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "rank " + name}},
            {"ph": "X", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "name": name}]).encode())
    copy = run.convert(run.path("a.json"), run.path("b.json"), to="both.pftrace")
    got = sorted(slices(run.rows(copy), "name", "process"))
    assert got == [("a", "rank a"), ("b", "rank b")], got
    pids = [p.track_descriptor.process.pid for p in pb.Trace.FromString(open(copy, "rb").read()).packet
            if p.track_descriptor.HasField("process")]
    assert len(set(pids)) == 2, pids


def test_weights_and_samples_without_time_come_back(run):
    run.write("a.collapsed", b"main;read;decode 17\nmain;step 3\nmain 1\n")
    first, _ = check_round_trip(run, run.path("a.collapsed"))
    assert sorted(r["weight"] for r in first["sample"]) == [1, 3, 17]


# ---- xplane ----

def xplane_classes():
    f = descriptor_pb2.FileDescriptorProto(name="xplane.proto", package="tensorflow.profiler", syntax="proto3")
    types = {"int64": 3, "uint64": 4, "string": 9, "bytes": 12, "double": 1}
    def message(name, fields, oneof=()):
        m = f.message_type.add(name=name)
        if oneof:
            m.oneof_decl.add(name="one")
        for number, label, kind, field in fields:
            x = m.field.add(name=field, number=number, label=3 if label == "*" else 1)
            if field in oneof:
                x.oneof_index = 0
            if kind in types:
                x.type = types[kind]
            else:
                x.type, x.type_name = 11, ".tensorflow.profiler." + kind
    message("XSpace", [(1, "*", "XPlane", "planes"), (2, "*", "string", "errors"), (3, "*", "string", "warnings"),
                       (4, "*", "string", "hostnames")])
    message("XPlane", [(1, "", "int64", "id"), (2, "", "string", "name"), (3, "*", "XLine", "lines"),
                       (4, "*", "EventEntry", "event_metadata"), (5, "*", "StatEntry", "stat_metadata"),
                       (6, "*", "XStat", "stats")])
    message("EventEntry", [(1, "", "int64", "key"), (2, "", "XEventMetadata", "value")])
    message("StatEntry", [(1, "", "int64", "key"), (2, "", "XStatMetadata", "value")])
    message("XLine", [(1, "", "int64", "id"), (10, "", "int64", "display_id"), (2, "", "string", "name"),
                      (11, "", "string", "display_name"), (3, "", "int64", "timestamp_ns"),
                      (9, "", "int64", "duration_ps"),
                      (4, "*", "XEvent", "events")])
    message("XEvent", [(1, "", "int64", "metadata_id"), (2, "", "int64", "offset_ps"),
                       (5, "", "int64", "num_occurrences"), (3, "", "int64", "duration_ps"),
                       (4, "*", "XStat", "stats")], ("offset_ps", "num_occurrences"))
    values = ["double_value", "uint64_value", "int64_value", "str_value", "bytes_value", "ref_value"]
    message("XStat", [(1, "", "int64", "metadata_id"), (2, "", "double", values[0]), (3, "", "uint64", values[1]),
                      (4, "", "int64", values[2]), (5, "", "string", values[3]), (6, "", "bytes", values[4]),
                      (7, "", "uint64", values[5])], values)
    message("XEventMetadata", [(1, "", "int64", "id"), (2, "", "string", "name"), (4, "", "string", "display_name"),
                               (3, "", "bytes", "metadata"), (5, "*", "XStat", "stats"), (6, "*", "int64", "child_id")])
    message("XStatMetadata", [(1, "", "int64", "id"), (2, "", "string", "name"), (3, "", "string", "description")])
    pool = descriptor_pool.DescriptorPool()
    pool.Add(f)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.profiler.XSpace"))


XSpace = xplane_classes()
EPOCH = 1_700_000_000_000_000_000


def metadata(plane, events=(), stats=()):
    for key, name in events:
        plane.event_metadata.add(key=key).value.name = name
    for key, name in stats:
        plane.stat_metadata.add(key=key).value.name = name


def jax_space(base=EPOCH):
    space = XSpace(hostnames=["host-a"])
    host = space.planes.add(id=1, name="/host:CPU")
    line = host.lines.add(id=77, name="python", timestamp_ns=base)
    e = line.events.add(metadata_id=1, offset_ps=0, duration_ps=5_000_400)
    e.stats.add(metadata_id=1, int64_value=3)
    line.events.add(metadata_id=2, offset_ps=1_000_500, duration_ps=1_000_000)
    line.events.add(metadata_id=2, num_occurrences=4, duration_ps=8_000_000)
    metadata(host, [(1, "train"), (2, "IteratorGetNext")], [(1, "step_num")])
    gpu = space.planes.add(id=2, name="/device:GPU:0")
    for name in ("Stream #1", "Stream #2"):  # the same id twice
        line = gpu.lines.add(id=5, name=name, timestamp_ns=base + 100)
        e = line.events.add(metadata_id=9, offset_ps=2_000, duration_ps=7_000)
        e.stats.add(metadata_id=4, ref_value=5)
        e.stats.add(metadata_id=6, double_value=0.5)
        e.stats.add(metadata_id=7, uint64_value=2**63)
        e.stats.add(metadata_id=8, bytes_value=b"\x00\x01")
    metadata(gpu, [(9, "very_long_kernel<int>")],
             [(4, "kind"), (5, "convolution"), (6, "occupancy"), (7, "address"), (8, "proto"), (10, "device")])
    gpu.event_metadata[0].value.display_name = "kernel"
    gpu.event_metadata[0].value.stats.add(metadata_id=6, double_value=0.25)
    gpu.event_metadata[0].value.stats.add(metadata_id=10, str_value="sm_90")
    return space


def test_xplane_events_names_and_stats(run):
    rows = run.rows(run.write("a.xplane.pb", jax_space().SerializeToString()))
    got = slices(rows, "ts", "dur", "name", "process", "thread", "depth")
    assert got[:2] == [(EPOCH, 5000, "train", "/host:CPU", "python", 0),
                       (EPOCH + 1001, 1000, "IteratorGetNext", "/host:CPU", "python", 1)], got
    kernels = [(EPOCH + 102, 7, "kernel", "/device:GPU:0", s) for s in ("Stream #1", "Stream #2")]
    assert [g[:5] for g in got[2:]] == kernels, got
    assert rows["slice"][0]["args"] == {"step_num": 3}
    args = rows["slice"][2]["args"]
    assert args == {"long_name": "very_long_kernel<int>", "device": "sm_90", "kind": "convolution", "occupancy": 0.5,
                    "address": 2**63, "proto": "(2 bytes)"}, args
    assert rows["slice"][2]["tid"] != rows["slice"][3]["tid"]
    assert "4: events that the recorder says it lost" in run.said, run.said
    check_round_trip(run, run.path("a.xplane.pb"))


def snapshot(path):
    packets = pb.Trace.FromString(open(path, "rb").read()).packet
    return [p.clock_snapshot for p in packets if p.HasField("clock_snapshot")][0]


def test_xplane_epoch_gives_the_time_of_day(run):
    copy = run.convert(run.write("a.xplane.pb", jax_space().SerializeToString()), to="copy.pftrace")
    clocks = snapshot(copy).clocks
    assert [(c.clock_id, c.timestamp) for c in clocks] == [(pb.BUILTIN_CLOCK_REALTIME, EPOCH)], clocks
    space = jax_space(base=0)  # from the start of the profile, which one plane tells
    plane = space.planes.add(id=9, name="Task Environment")
    plane.stat_metadata.add(key=1).value.name = "profile_start_time"
    plane.stats.add(metadata_id=1, uint64_value=EPOCH)
    copy = run.convert(run.write("b.xplane.pb", space.SerializeToString()), to="copy.pftrace")
    assert EPOCH in [c.timestamp for c in snapshot(copy).clocks], snapshot(copy)


def test_xplane_cut_off_keeps_whole_events(run):
    space = XSpace()
    plane = space.planes.add(name="/host:CPU")
    line = plane.lines.add(id=1, name="main", timestamp_ns=EPOCH)
    for i in range(50):
        line.events.add(metadata_id=1 + i % 3, offset_ps=i * 1_000_000, duration_ps=500_000)
    metadata(plane, [(i, "op %d" % i) for i in range(1, 4)])
    data = space.SerializeToString()
    before = 51
    for cut in range(len(data) - 1, 60, -37):
        rows = run.rows(run.write("a.xplane.pb", data[:cut]))
        assert "1: cut off at the end of the file" in run.said, (cut, run.said)
        assert len(rows["slice"]) <= before, cut
        before = len(rows["slice"])
    assert 0 < before < 10, before


def test_neither_format_is_taken_for_the_other(run):
    shuffled = XSpace()
    shuffled.planes.add(name="/host:metadata")  # a plane without an id and without lines comes first
    metadata(shuffled.planes[0], [(1, "program")], [(1, "hlo_proto")])
    shuffled.planes.extend(jax_space().planes)
    assert len(run.rows(run.write("a", shuffled.SerializeToString()))["slice"]) == 4
    assert len(run.rows(run.write("b", many_packets(3).SerializeToString()))["slice"]) == 3
    for text in (b"\n{\"traceEvents\":[]}", b"\n\nmain;a 1\n", b"hello\n", b"\n" + b"x" * 200):
        done = subprocess.run([run.program, "convert", "--no-cache", run.write("c", text), "-o", run.path("c.ndjson")],
                              capture_output=True, text=True, timeout=120)
        assert "cut off" not in done.stderr and "recorder" not in done.stderr, (text, done.stderr)


if __name__ == "__main__":
    sys.exit(runlib.main(globals(), call))
