#!/usr/bin/env python3
"""Reads recorded traces with readers that are not ours: Perfetto's own protobuf schema, and Python's json.

Usage: test_trace.py BUILD_DIR. Needs the packages "perfetto" (for its schema; no binary is fetched) and "protobuf".
"""
import collections
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback

try:
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb
except ImportError as missing:
    print(f"skipped: {missing} (wanted the PyPI packages perfetto and protobuf)")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

Slice = collections.namedtuple("Slice", "track name category start end depth args parent")
CLEARED = pb.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
NEEDS = pb.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE


class Trace:
    """What Perfetto's trace_processor makes of a file: a stable sort by time, then one stack for each track."""

    def __init__(self, data):
        self.packets = pb.Trace.FromString(data).packet
        self.tracks, self.slices, self.counters, self.instants = {}, [], collections.defaultdict(list), []
        self.process = self.clocks = None
        interned, events, cleared, sequences = {}, [], False, set()
        for packet in self.packets:
            sequences.add(packet.trusted_packet_sequence_id)
            if packet.sequence_flags & CLEARED:
                assert packet.trace_packet_defaults.timestamp_clock_id == pb.BUILTIN_CLOCK_MONOTONIC
                interned, cleared = {}, True
            if packet.sequence_flags & NEEDS:
                assert cleared, "state used before it was cleared"
            for kind in ("event_names", "event_categories", "debug_annotation_names"):
                for entry in getattr(packet.interned_data, kind):
                    assert (kind, entry.iid) not in interned, "interned twice"
                    interned[kind, entry.iid] = entry.name
            if packet.HasField("clock_snapshot"):
                self.clocks = {c.clock_id: c.timestamp for c in packet.clock_snapshot.clocks}
                assert packet.clock_snapshot.primary_trace_clock == pb.BUILTIN_CLOCK_MONOTONIC
            if packet.HasField("track_descriptor"):
                self.add_track(packet.track_descriptor)
            if packet.HasField("track_event"):
                assert packet.HasField("timestamp") and packet.track_event.track_uuid in self.tracks
                events.append((packet.timestamp, packet.track_event, interned))
        assert len(sequences) == 1 and 0 not in sequences
        self.replay(sorted(events, key=lambda e: e[0]))

    def add_track(self, track):
        assert self.tracks.get(track.uuid, track) == track, "track declared again as another one"
        if track.HasField("process"):
            self.process = track.process
        else:
            assert track.parent_uuid in self.tracks, "parent comes after child"
        self.tracks[track.uuid] = track

    def name_of(self, uuid):
        track = self.tracks[uuid]
        return track.thread.thread_name if track.HasField("thread") else track.name

    def replay(self, events):
        stacks = collections.defaultdict(list)
        for at, event, interned in events:
            stack = stacks[event.track_uuid]
            if event.type == pb.TrackEvent.TYPE_SLICE_BEGIN:
                args = {interned["debug_annotation_names", a.name_iid]: a.int_value for a in event.debug_annotations}
                categories = [interned["event_categories", i] for i in event.category_iids]
                stack.append((interned["event_names", event.name_iid], categories[0], at, args))
            elif event.type == pb.TrackEvent.TYPE_SLICE_END:
                assert stack, f"an end without a begin at {at}"
                name, category, start, args = stack.pop()
                parent = stack[-1][0] if stack else None
                track = self.name_of(event.track_uuid)
                self.slices.append(Slice(track, name, category, start, at, len(stack), args, parent))
            elif event.type == pb.TrackEvent.TYPE_COUNTER:
                assert self.tracks[event.track_uuid].HasField("counter")
                self.counters[self.name_of(event.track_uuid)].append(event.double_counter_value)
            elif event.type == pb.TrackEvent.TYPE_INSTANT:
                values = {a.name: getattr(a, a.WhichOneof("value")) for a in event.debug_annotations}
                self.instants.append((event.name, values))
        assert not any(stacks.values()), "a slice without an end"


def row_of(name):
    """Slices that do not nest stand on rows of their own beside the track."""
    return name.split(" (overlap ")[0]


def find_writer(build):
    for place in ("tests/python", "tests", "."):
        path = os.path.join(build, place, "trace_writer")
        if os.path.exists(path):
            return path
    raise AssertionError(f"no trace_writer under {build}")


def record(build, folder, name):
    path = os.path.join(folder, name)
    out = subprocess.run([find_writer(build), path], check=True, capture_output=True, text=True).stdout
    wanted = json.loads(out)
    assert wanted["events_lost"] == 0 and wanted["bytes_written"] == os.path.getsize(path)
    return path, wanted


def check_marks(slices):
    steps = [s for s in slices if s.track == "steps"]
    assert [s.args["step"] for s in sorted(steps, key=lambda s: s.start)] == list(range(100))
    assert {s.category for s in steps} == {"step"} and {s.name for s in steps} == {"step"}
    spans = collections.Counter((s.name, s.parent) for s in slices if s.category == "span")
    assert spans == {("train", None): 100, ("forward", "train"): 100}, spans


def test_perfetto_schema_reads_every_slice(build, folder):
    path, wanted = record(build, folder, "a.pftrace")
    trace = Trace(open(path, "rb").read())
    assert trace.process.process_name == 'trace "writer"' and trace.process.pid > 0
    threads = {t.thread.thread_name for t in trace.tracks.values() if t.HasField("thread")}
    assert "worker 0" in {trace.name_of(u) for u in trace.tracks} and threads
    assert set(trace.clocks) >= {pb.BUILTIN_CLOCK_MONOTONIC, pb.BUILTIN_CLOCK_REALTIME}
    found = collections.Counter()
    for s in trace.slices:
        if s.category == "op":
            assert 0 <= -s.args["index"] - s.start <= 1, s
            found[row_of(s.track), s.name, -s.args["index"], s.end] += 1
            assert s.args["bytes"] == s.end + s.args["index"]
    assert found == collections.Counter((s["track"], s["name"], s["start"], s["end"]) for s in wanted["slices"])
    units = [s for s in trace.slices if s.track == "worker 0"]
    parents = collections.Counter((s.name, s.parent) for s in units)
    # On a slow machine the writer may have written some ops long before their unit, which then stands on another row.
    assert parents["epoch", None] == 1 and all(parents[op, "unit"] == parents["unit", "epoch"] >= 1900
                                               for op in ("read", "parse", "cast")), parents
    check_marks(trace.slices)
    assert trace.counters == {"loss": [100.0 / (i + 1) for i in range(100)]}


def test_perfetto_totals_are_exact(build, folder):
    path, wanted = record(build, folder, "b.perfetto-trace")
    trace = Trace(open(path, "rb").read())
    totals = {(a["track"], a["name"]): a for name, a in trace.instants if name == "total"}
    want = collections.defaultdict(lambda: [0, 0])
    for s in wanted["slices"]:
        want[s["track"], s["name"]][0] += 1
        want[s["track"], s["name"]][1] += s["end"] - s["start"]
    for key, (count, ns) in want.items():
        assert (totals[key]["count"], totals[key]["total_ns"], totals[key]["lost"]) == (count, ns, 0), key
    assert totals["main", "train"]["count"] == 100
    assert ("summary", {"events_written": wanted["events_written"], "events_lost": 0}) in trace.instants


def test_perfetto_file_cut_anywhere_reads_to_the_last_whole_packet(build, folder):
    path, _ = record(build, folder, "c.pftrace")
    data = open(path, "rb").read()
    starts, at = [], 0
    while at < len(data):  # Trace is nothing but its field 1: 0x0a, size, packet
        starts.append(at)
        assert data[at] == 0x0A
        at, size, shift = at + 1, 0, 0
        while True:
            size |= (data[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 0x80:
                break
        at += size
    assert at == len(data)
    for cut in range(0, len(data), len(data) // 40):
        whole = max(s for s in starts if s <= cut)
        assert len(pb.Trace.FromString(data[:whole]).packet) == starts.index(whole)


def read_chrome(text):
    trace = json.loads(text)
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    return trace, names


def check_chrome(text, wanted):
    trace, names = read_chrome(text)
    assert trace["displayTimeUnit"] == "ms"
    events = trace["traceEvents"]
    found = collections.Counter()
    for e in events:
        if e["ph"] == "X" and e["cat"] == "op":
            start, duration = round(e["ts"] * 1000), round(e["dur"] * 1000)
            assert start == -e["args"]["index"] and duration == e["args"]["bytes"]
            found[row_of(names[e["pid"], e["tid"]]), e["name"], start, start + duration] += 1
    assert found == collections.Counter((s["track"], s["name"], s["start"], s["end"]) for s in wanted["slices"])
    assert [e["args"]["step"] for e in events if e["ph"] == "X" and e["cat"] == "step"] == list(range(100))
    assert [e["args"]["value"] for e in events if e["ph"] == "C"] == [100.0 / (i + 1) for i in range(100)]
    totals = {(e["args"]["track"], e["args"]["name"]): e["args"] for e in events if e["name"] == "stoker_total"}
    assert totals["worker 0", "unit"]["count"] == 2000
    assert events[-1]["name"] == "stoker_summary" and events[-1]["args"]["events_written"] == wanted["events_written"]


def test_chrome_json_reads_every_slice(build, folder):
    path, wanted = record(build, folder, "d.json")
    check_chrome(open(path, encoding="utf-8").read(), wanted)


def test_chrome_gzip_reads_every_slice(build, folder):
    path, wanted = record(build, folder, "e.json.gz")
    check_chrome(gzip.open(path, "rt", encoding="utf-8").read(), wanted)


def test_chrome_file_cut_anywhere_is_whole_to_its_last_line(build, folder):
    path, _ = record(build, folder, "f.json")
    text = open(path, encoding="utf-8").read()
    for cut in range(200, len(text) - 4, len(text) // 20):
        lines = text[:cut].rpartition("\n")[0].rstrip(",")
        assert len(json.loads(lines + "]}")["traceEvents"]) == lines.count("\n")


def run_stoker(build, folder, name, text="range(1000) | batch(10)", *options):
    path = os.path.join(folder, name)
    subprocess.run([os.path.join(build, "stoker"), "run", "-e", text, "--trace", path, "--quiet", *options], check=True,
                   capture_output=True)
    return path


def test_stoker_run_trace_has_workers_and_steps(build, folder):
    path = run_stoker(build, folder, "run.pftrace", "range(1000) | batch(10)", "--step-time", "1ms")
    trace = Trace(open(path, "rb").read())
    assert any(trace.name_of(u).startswith("worker ") for u in trace.tracks)
    names = collections.Counter(s.name for s in trace.slices)
    assert sum(s.category == "step" for s in trace.slices) >= 90, names


def test_stoker_run_trace_has_ops_and_waits_of_the_consumer(build, folder):
    # Without steps the consumer is faster than the workers, so that it waits; what takes under a microsecond is not shown.
    trace = Trace(open(run_stoker(build, folder, "fast.pftrace", "range(1000000) | batch(50000)"), "rb").read())
    names = collections.Counter(s.name for s in trace.slices)
    assert names["range"] > 0, names
    assert any(s.category == "wait" and not s.track.startswith("worker ") for s in trace.slices), names


def test_stoker_run_chrome_trace_is_json(build, folder):
    trace, _ = read_chrome(gzip.open(run_stoker(build, folder, "run.json.gz", "range(1000) | batch(10)", "--step-time", "1ms"), "rt", encoding="utf-8").read())
    assert sum(e["ph"] == "X" and e["cat"] == "step" for e in trace["traceEvents"]) >= 90


LONG = "range(100000000) | batch(50)"  # with steps of 20 us: some 4 MB of trace in a second


def read_any(path):
    """Number of slices, by readers that are not ours; a file that was cut off is read up to its last whole event."""
    data = open(path, "rb").read()
    if path.endswith(".pftrace"):
        return len(Trace(data).slices), data
    text = (gzip.decompress(data) if path.endswith(".gz") else data).decode()
    return sum(e["ph"] == "X" for e in json.loads(text)["traceEvents"]), data


def questions(build, path):
    """What our own commands make of it: exit codes, and the number of slices."""
    stoker = os.path.join(build, "stoker")
    diagnosis = subprocess.run([stoker, "diagnose", path], capture_output=True, text=True)
    assert diagnosis.returncode == 0 and "steps, from the markers" in diagnosis.stdout, diagnosis
    count = subprocess.run([stoker, "sql", path, "--no-cache", "--format", "csv", "-q", "select count(*) n from slice"],
                           capture_output=True, text=True)
    assert count.returncode == 0, count
    return int(count.stdout.split()[1]), diagnosis.stderr


def run_limited(build, folder, name, *options):
    path = os.path.join(folder, name)
    done = subprocess.run([os.path.join(build, "stoker"), "run", "-e", LONG, "--steps", "100000", "--step-time", "20us",
                           "--json", "--trace", path, *options], capture_output=True, text=True)
    assert done.returncode == 0, done
    figures = json.loads(done.stdout)
    assert figures["trace_events_dropped"] > 1000 and os.listdir(folder) == [name]
    return path, figures, done.stderr


def test_stoker_run_trace_stops_at_its_limit(build, folder):
    for name in ("a.pftrace", "a.json", "a.json.gz"):
        path, figures, told = run_limited(build, folder, name, "--trace-limit", "1M")
        assert "warning: the trace is full at " in told and "events of the rest were not recorded" in told, told
        slices, data = read_any(path)
        assert 2**19 < len(data) < 2**20 + 2**16, len(data)
        ours, notes = questions(build, path)
        assert ours == slices <= figures["trace_events"] and "by the limit on its file's size" in notes
        os.remove(path)


def test_stoker_run_keeps_the_last_part_of_a_trace(build, folder):
    for name in ("a.pftrace", "a.json", "a.json.gz"):
        path, figures, told = run_limited(build, folder, name, "--trace-last", "1M")
        assert "the last part: " in told and "warning" not in told, told
        slices, data = read_any(path)
        assert 2**19 < len(data) <= 2**20, len(data)
        ours, notes = questions(build, path)
        assert ours == slices <= figures["trace_events"] and "by the limit on its file's size" in notes
        if name == "a.pftrace":
            steps = [s.args["step"] for s in Trace(data).slices if s.category == "step"]
            assert min(steps) > 10000 and (max(steps) == 99999 or figures["trace_events_lost"]), (min(steps), max(steps))
        os.remove(path)


def whole_part(path):
    """The bytes of a trace that was cut off, up to its last whole packet or line."""
    data = open(path, "rb").read()
    if not path.endswith(".pftrace"):
        return data[:data.rindex(b"\n")].rstrip(b",") + b"]}"
    at = whole = 0
    while at < len(data):
        whole, at, size, shift = at, at + 1, 0, 0
        while at < len(data):
            size |= (data[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 0x80:
                break
        at += size
    return data if at == len(data) else data[:whole]


def test_stoker_run_that_is_killed_leaves_the_last_part(build, folder):
    random.seed(7)
    rounds = 60 if os.environ.get("STOKER_TORTURE") else 8
    rolled = 0
    for i in range(rounds):
        name = ("a.pftrace", "a.json")[i % 2]
        path = os.path.join(folder, name)
        run = subprocess.Popen([os.path.join(build, "stoker"), "run", "-q", "-e", LONG, "--step-time", "20us", "--trace", path,
                                "--trace-last", "1M"], stdout=subprocess.DEVNULL)
        time.sleep(random.uniform(0.2, 2.0))
        run.kill()
        run.wait()
        # What lay beside it for a moment may be there still, under a name that no pattern takes for data.
        assert all(n in ("a.pftrace", "a.json") or n.startswith(".") for n in os.listdir(folder)), os.listdir(folder)
        assert os.path.getsize(path) <= 2**20
        data = whole_part(path)
        if name == "a.pftrace":
            packets = pb.Trace.FromString(data).packet
            assert packets[0].sequence_flags & CLEARED
            steps = [a.int_value for p in packets for a in p.track_event.debug_annotations]
        else:
            steps = [e["args"]["step"] for e in json.loads(data)["traceEvents"] if e.get("cat") == "step"]
        rolled += bool(steps) and steps[0] > 10000
        top = subprocess.run([os.path.join(build, "stoker"), "top", path], capture_output=True, text=True)
        assert top.returncode == 0 and "step" in top.stdout, top
    assert rolled, "no run was long enough"


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: test_trace.py BUILD_DIR")
    build, counts = sys.argv[1], collections.Counter()
    for name, test in list(globals().items()):
        if not name.startswith("test_"):
            continue
        if name.startswith("test_stoker_") and not os.path.exists(os.path.join(build, "stoker")):
            print(f"skipped: {name}: there is no {build}/stoker")
            counts["skipped"] += 1
            continue
        try:
            with tempfile.TemporaryDirectory() as folder:
                test(build, folder)
            counts["passed"] += 1
        except Exception as failure:  # a failed test must not hide the others
            line = traceback.extract_tb(failure.__traceback__)[-1]
            print(f"FAILED {name}: line {line.lineno}: {line.line}: {type(failure).__name__}: {failure}")
            counts["failed"] += 1
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    print(f"{counts['passed']} passed, {counts['failed']} failed{skipped}")
    sys.exit(1 if counts["failed"] else 0)


if __name__ == "__main__":
    main()
