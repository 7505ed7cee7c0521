"""Traces with a known share of input wait, in the dialects of TensorFlow, PyTorch, JAX and our recorder."""
import json
import random
import zlib

STEP_US = 10000
HOST, MAIN = 701, 701


def write(path, events, **more):
    with open(path, "w") as file:
        json.dump(dict(more, traceEvents=events), file)


def meta(what, pid, tid, **args):
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}


def slice_(name, ts, dur, pid, tid, cat=None, **args):
    event = {"ph": "X", "name": name, "ts": round(ts, 3), "dur": round(dur, 3), "pid": pid, "tid": tid}
    if cat:
        event["cat"] = cat
    if args:
        event["args"] = args
    return event


def iterator(path, ts, dur, pid, tid, long_names=False, pipeline=0):
    """
    One call, as TensorFlow 2 writes it: the op's name alone, and args that say where it stands; the root has neither
    parent nor long name. With long_names, the whole path is the name and there are no args.
    """
    if long_names:
        return slice_("::".join(["Iterator"] + path), ts, dur, pid, tid)
    args = {"id": str(2**63 + zlib.crc32(repr((path, pipeline)).encode()))}
    if len(path) > 1:
        args["parent_id"] = str(2**63 + zlib.crc32(repr((clean(path[:-1]), pipeline)).encode()))
        args["long_name"] = "::".join(["Iterator"] + path)
    return slice_("Iterator::" + path[-1], ts, dur, pid, tid, **args)


def clean(path):
    """A parent's own path: "Interleave[2]" is what its children call it."""
    return path[:-1] + [path[-1].split("[")[0]]


def iterators(ts, dur, pid, consumer, producer, long_names=False):
    """A root that is blocked in a prefetch, which waits for a map on another thread: 80 % map, 10 % records."""
    path = ["Root", "Prefetch", "ParallelMapV2", "TFRecord"]
    return [iterator(path[:1], ts, dur, pid, consumer, long_names),
            iterator(path[:2], ts, dur, pid, consumer, long_names),
            iterator(path[:3], ts + 0.05 * dur, 0.9 * dur, pid, producer, long_names),
            iterator(path, ts + 0.1 * dur, 0.1 * dur, pid, producer, long_names)]


def tensorflow(share, steps=40, markers=True, gap=0.0, long_names=False):
    """As XProf's trace viewer writes it: markers "train" around the call, IteratorGetNext in it, kernels on a stream."""
    events = [meta("process_name", HOST, 0, name="/host:CPU"), meta("process_name", 1, 0, name="/device:GPU:0"),
              meta("thread_name", HOST, MAIN, name="python"), meta("thread_name", HOST, 2, name="tf_data_prefetch"),
              meta("thread_name", 1, 13, name="Stream #13(Compute)"),
              meta("thread_name", 1, 99, name="TensorFlow Ops")]
    for step in range(steps):
        ts, wait = step * STEP_US * (1 + gap), share * STEP_US
        if markers:
            events.append(slice_("train", ts, STEP_US, HOST, MAIN, step_num=step))
        events.append(slice_("FunctionRun", ts, STEP_US, HOST, MAIN))
        if wait:
            events.append(slice_("IteratorGetNext", ts, wait, HOST, MAIN))
            events += iterators(ts, wait, HOST, MAIN, 2, long_names)
        # An iterator that runs ahead, behind compute: it blocks nobody.
        events.append(iterator(["Root", "Prefetch", "ParallelMapV2"], ts + wait, 0.2 * STEP_US, HOST, 2, long_names))
        events.append(slice_("ExecutorState::Process", ts + wait, 0.1 * STEP_US, HOST, MAIN))
        half = (STEP_US - wait) / 2
        events.append(slice_("volta_sgemm_fp16", ts + wait, half, 1, 13))
        events.append(slice_("ncclAllReduce", ts + wait + half, half, 1, 13))
        events.append(slice_("MatMul", ts, STEP_US, 1, 99))  # a derived row covers everything and means nothing
    return events


def kineto(share, steps=40, markers=True, device=True, workers=2, rng=None, start=0.0, pid=HOST):
    """torch.profiler: ProfilerStep#N lasts until the next, the DataLoader's wait inside; streams are threads of pid 0."""
    loader = "_MultiProcessingDataLoaderIter" if workers else "_SingleProcessDataLoaderIter"
    events = [meta("process_name", pid, 0, name="python"), meta("process_labels", pid, 0, labels="CPU"),
              meta("thread_name", pid, pid, name="thread %d (python)" % pid),
              meta("process_name", 0, 0, name="python"), meta("process_labels", 0, 0, labels="GPU 0"),
              meta("thread_name", 0, 7, name="stream 7 "),
              slice_("PyTorch Profiler (0)", start, steps * STEP_US, "Spans", "PyTorch Profiler", "Trace")]
    ts = start
    for step in range(steps):
        dur = STEP_US * (1 if rng is None else rng.uniform(0.95, 1.05))
        wait = share * dur
        if markers:
            events.append(slice_("ProfilerStep#%d" % (step + 3), ts, dur, pid, pid, "user_annotation"))
        events.append(slice_("train.py(17): <module>", ts, dur, pid, pid, "python_function"))
        if wait:
            events.append(slice_("enumerate(DataLoader)#%s.__next__" % loader, ts, wait, pid, pid, "user_annotation"))
            if not workers:
                events.append(slice_("aten::stack", ts + 0.2 * wait, 0.7 * wait, pid, pid, "cpu_op"))
        work, rest = ts + wait, dur - wait
        events.append(slice_("aten::conv2d", work, 0.3 * rest, pid, pid, "cpu_op"))
        events.append(slice_("Optimizer.step#SGD.step", work + 0.3 * rest, 0.7 * rest, pid, pid, "user_annotation"))
        if device:
            events.append(slice_("cudaLaunchKernel", work, 0.05 * rest, pid, pid, "cuda_runtime", correlation=step))
            events.append(slice_("sm80_xmma_gemm", work, 0.6 * rest, 0, 7, "kernel", correlation=step))
            events.append(slice_("vectorized_add", work + 0.6 * rest, 0.4 * rest, 0, 7, "kernel"))
            events.append(slice_("ProfilerStep#%d" % (step + 3), work, rest, 0, 7, "gpu_user_annotation"))
        else:
            events.append(slice_("aten::addmm", work + 0.3 * rest, 0.7 * rest, pid, pid, "cpu_op"))
        ts += dur
    return events


def jax(share, steps=40):
    """A TPU: StepTraceAnnotation on the host, and XLA ops on the device, whose infeed waits for the host."""
    events = [meta("process_name", HOST, 0, name="/host:CPU"), meta("process_name", 3, 0, name="/device:TPU:0"),
              meta("thread_name", HOST, MAIN, name="python"), meta("thread_name", 3, 1, name="Steps"),
              meta("thread_name", 3, 2, name="XLA Modules"), meta("thread_name", 3, 3, name="XLA Ops")]
    for step in range(steps):
        ts, wait = step * STEP_US, share * STEP_US
        events.append(slice_("train", ts, STEP_US, HOST, MAIN, step_num=step))
        events.append(slice_("$train.py:12 update", ts, STEP_US, HOST, MAIN))
        events.append(slice_("PjitFunction(update)", ts, 0.05 * STEP_US, HOST, MAIN))
        events.append(slice_(str(step), ts, STEP_US, 3, 1))
        events.append(slice_("jit_update(123)", ts, STEP_US, 3, 2))
        if wait:
            events.append(slice_("infeed.1", ts, wait, 3, 3))
        events.append(slice_("fusion.12", ts + wait, (STEP_US - wait) * 0.7, 3, 3))
        events.append(slice_("all-reduce.3", ts + wait + (STEP_US - wait) * 0.7, (STEP_US - wait) * 0.3, 3, 3))
    return events


def recorder(share, steps=40, inside=True):
    """Ours: `inside`: stk_step once per turn of the loop; else as `run --step-time`, the wait before each step."""
    events = [meta("process_name", HOST, HOST, name="stoker"), meta("thread_name", HOST, MAIN, name="consumer"),
              meta("thread_name", HOST, 8388612, name="steps"), meta("thread_name", HOST, 11, name="worker 0"),
              meta("thread_name", HOST, 12, name="worker 1")]
    for step in range(steps):
        ts, wait = 1e6 + step * STEP_US, share * STEP_US
        marked = (ts, STEP_US) if inside else (ts + wait, STEP_US - wait)
        events.append(slice_("step", marked[0], marked[1], HOST, 8388612, "step", step=step))
        if wait:
            events.append(slice_("wait for batch", ts, wait, HOST, MAIN, "wait"))
        busy = max(0.3, min(1.0, 2 * share)) * STEP_US
        for worker in (11, 12):
            events.append(slice_("unit", ts, busy, HOST, worker, "work", rows=100))
            events.append(slice_("parse", ts, 0.2 * busy, HOST, worker, "op"))
            events.append(slice_("decode_image", ts + 0.2 * busy, 0.8 * busy, HOST, worker, "op"))
            if busy < STEP_US:
                events.append(slice_("wait: batches ahead are full", ts + busy, STEP_US - busy, HOST, worker, "wait"))
    return events


def noise(count=400, seed=1):
    """Slices without any period."""
    rng, ts, events = random.Random(seed), 0.0, []
    for i in range(count):
        ts += rng.expovariate(1 / 1000)
        events.append(slice_("request_%s" % rng.choice("abcdefgh"), ts, rng.expovariate(1 / 300), HOST, MAIN))
    return events


# ---- xplane.pb, by hand: the messages that are needed of tsl/profiler/protobuf/xplane.proto ----

def varint(n):
    out = bytearray()
    n &= (1 << 64) - 1
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out + bytes([n]))


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


class Plane:
    """A plane: lines of (name, start_us, dur_us, stats)."""

    def __init__(self, number, name):
        self.number, self.name, self.lines, self.names, self.stats = number, name, [], {}, {}

    def event(self, name, ts, dur, stats):
        out = field(1, self.names.setdefault(name, len(self.names) + 1))
        out += field(2, round(ts * 1e6)) + field(3, round(dur * 1e6))
        for key, value in stats.items():
            stat = field(1, self.stats.setdefault(key, len(self.stats) + 1))
            out += field(4, stat + field(5 if isinstance(value, str) else 4, value))
        return out

    def line(self, number, name, events):
        body = field(1, number) + field(2, name) + field(3, 1700000000000000000)
        for event in sorted(events, key=lambda e: (e[1], -e[2])):
            body += field(4, self.event(*event))
        self.lines.append(body)

    def bytes(self):
        out = field(1, self.number) + field(2, self.name) + b"".join(field(3, line) for line in self.lines)
        for number, names in ((4, self.names), (5, self.stats)):
            for name, key in names.items():
                out += field(number, field(1, key) + field(2, field(1, key) + field(2, name)))
        return out


def xplane(share, steps=40, copy=0.0):
    """TensorFlow on a GPU: each launch has a correlation id that its kernel repeats: XProf groups them to steps by it."""
    host, gpu, main, stream = Plane(1, "/host:CPU"), Plane(2, "/device:GPU:0"), [], []
    for step in range(steps):
        ts, wait, copied = step * STEP_US * 1.01, share * STEP_US, copy * STEP_US
        work = ts + wait + copied
        rest = STEP_US - wait - copied - 10
        main.append(("train", ts, STEP_US, {"step_num": step, "_r": 1}))
        if wait:
            main.append(("IteratorGetNext", ts, wait, {}))
        launch = {"device_id": 0, "context_id": "1"}
        if copied:
            main.append(("MemcpyHToD", ts + wait, 5, dict(launch, correlation_id=2 * step + 1000000)))
            stream.append(("MemcpyHToD", ts + wait, copied, {"correlation_id": 2 * step + 1000000}))
        main.append(("cuLaunchKernel", work, 8, dict(launch, correlation_id=step + 1)))
        stream.append(("volta_sgemm", work, rest, {"correlation_id": step + 1}))
    host.line(1, "python", main)
    gpu.line(14, "Stream #14(Compute)", stream)
    return field(1, host.bytes()) + field(1, gpu.bytes())


def random_steps(rng, count):
    """Steps of nested events with names of all kinds, as lists for host_plane."""
    names = ("IteratorGetNext", "MatMul", "MemcpyHToD", "x:InfeedEnqueueTuple", "EagerExecute: x", "FunctionRun",
             "IteratorGetNextSync", "Conv2D", "ExecutorState::Process", "MemcpyHToH")

    def fill(out, start, end, depth):
        while start < end - 20 and rng.random() < 0.85:
            start += rng.randint(0, (end - start) // 4)
            dur = rng.randint(5, max(6, (end - start) * 7 // 10))
            if start + dur > end:
                return
            out.append((rng.choice(names), start, dur, {}))
            if depth < 3:
                fill(out, start, start + dur, depth + 1)
            start += dur

    steps = []
    for step in range(count):
        ts, dur = step * 11000, rng.randint(8000, 10500)
        steps.append([("train", ts, dur, {"step_num": step, "_r": 1}), ("MatMul", ts + 1, 3, {})])
        fill(steps[-1], ts + 5, ts + dur, 0)
    return steps


def host_plane(steps):
    host = Plane(1, "/host:CPU")
    host.line(1, "python", [event for step in steps for event in step])
    return field(1, host.bytes())
