#!/usr/bin/env python3
"""Makes small traces to try the commands on: make_traces.py [DIRECTORY]

rank0.json.gz, rank1.json.gz  two ranks of a training, as PyTorch's profiler writes them. Rank 0 waits for data, and
                              rank 1 for rank 0; the clock of rank 1 is 11.56 s ahead
worker0.json                  what a DataLoader worker of rank 0 does meanwhile
faster.json.gz                rank 0 after its worker was made faster
tf.json.gz                    a training with tf.data, as TensorFlow's profiler shows it
snap.pickle                   a snapshot of a GPU's memory, as PyTorch dumps it

The figures are made up, and are the same each time.
"""
import gzip
import json
import pathlib
import pickle
import random
import sys
import zlib

STEPS = 20
US = 1000  # times here are whole ns
WAIT = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
LAYERS = ["conv2d", "batch_norm", "relu", "linear"] * 2


def event(name, category, ts, dur, pid, tid, **more):
    return {"ph": "X", "name": name, "cat": category, "ts": ts / US, "dur": dur / US, "pid": pid, "tid": tid, **more}


def flow(phase, number, ts, pid, tid):
    return {"ph": phase, "bp": "e", "name": "ac2g", "cat": "ac2g", "id": number, "ts": ts / US, "pid": pid, "tid": tid}


def named(kind, pid, tid, name):
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def layers(rng, ts, first_id):
    """The events of forward and backward: launches of the host and the kernels that they start. And when these end."""
    events, free = [], 0
    for number, name in enumerate(LAYERS, first_id):
        start, dur = max(free, ts + 40 * US), rng.randrange(2000 * US, 2400 * US)
        events += [event("aten::" + name, "cpu_op", ts, 500 * US, 1, 1),
                   event("cudaLaunchKernel", "cuda_runtime", ts + 20 * US, 12 * US, 1, 1, args={"correlation": number}),
                   flow("s", number, ts + 20 * US, 1, 1),
                   event(name + "_kernel", "kernel", start, dur, 0, 7, args={"correlation": number, "stream": 7}),
                   flow("f", number, start, 0, 7)]
        ts, free = ts + 700 * US, start + dur
    return events, free


def training(rank=0, wait_us=10000, ahead_ns=0, seed=1, ends=None):
    """One rank. Each step waits for its batch, runs the layers and ends with an all-reduce, at `ends` if given."""
    rng = random.Random(seed)
    events = [named("process_name", 1, 0, "python train.py"), named("thread_name", 1, 1, "main"),
              named("process_name", 0, 0, "GPU 0"), named("thread_name", 0, 7, "stream 7")]
    ts = 1000 * US
    found = []
    for step in range(STEPS):
        wait = rng.randrange(900 * wait_us, 1100 * wait_us)
        work, free = layers(rng, ts + wait, 100 * step)
        end = (ends[step] if ends else free + 1500 * US) + rng.randrange(20 * US)
        events += [event(f"ProfilerStep#{step}", "user_annotation", ts, end - ts, 1, 1),
                   event(WAIT, "user_annotation", ts, wait, 1, 1), *work,
                   event("ncclDevKernel_AllReduce_Sum_f32", "kernel", free, end - free, 0, 7, args={"stream": 7})]
        found.append(end)
        ts = end
    for e in events:
        if "ts" in e:
            e["ts"] += ahead_ns / US
    info = {"backend": "nccl", "rank": rank, "world_size": 2}
    return {"schemaVersion": 1, "distributedInfo": info, "traceEvents": events}, found


def worker(seed=2):
    """A DataLoader worker that never rests: reads, decodes and augments the samples of a batch, then collates them."""
    rng = random.Random(seed)
    events = [named("process_name", 2, 0, "DataLoader worker 0"), named("thread_name", 2, 2, "worker 0")]
    ts = 1000 * US
    for _ in range(STEPS):
        for name, mean_us in ("read", 3000), ("decode", 18000), ("augment", 6000), ("collate", 2000):
            dur = rng.randrange(950 * mean_us, 1050 * mean_us)
            events.append(event(name, "data", ts, dur, 2, 2))
            ts += dur
    return {"traceEvents": events}


def iterator(path, ts, dur):
    """A call of an iterator as TensorFlow 2 writes it: a short name, and args that say where it stands."""
    args = {"id": str(zlib.crc32("::".join(path).encode()))}
    if len(path) > 1:
        args["parent_id"] = str(zlib.crc32("::".join(path[:-1]).encode()))
        args["long_name"] = "::".join(["Iterator"] + path)
    return event("Iterator::" + path[-1], "", ts, dur, 1, 1, args=args)


def tensorflow(seed=3):
    """Steps whose input pipeline lists its files anew for every batch."""
    rng = random.Random(seed)
    events = [named("process_name", 1, 0, "/host:CPU"), named("thread_name", 1, 1, "python3"),
              named("process_name", 2, 0, "/device:GPU:0"), named("thread_name", 2, 7, "Stream #7(Compute)")]
    ts = 1000 * US
    for step in range(STEPS):
        listing, reading = rng.randrange(6000 * US, 6800 * US), rng.randrange(900 * US, 1100 * US)
        waiting, computing = listing + reading + 300 * US, rng.randrange(15000 * US, 15500 * US)
        events += [event("train", "", ts, waiting + computing + 100 * US, 1, 1, args={"step_num": step}),
                   event("IteratorGetNext", "", ts, waiting, 1, 1),
                   iterator(["Root"], ts, waiting),
                   iterator(["Root", "Map"], ts + 50 * US, waiting - 100 * US),
                   iterator(["Root", "Map", "MatchingFiles"], ts + 100 * US, listing),
                   iterator(["Root", "Map", "TFRecord"], ts + 100 * US + listing, reading),
                   event("conv2d", "", ts + waiting, computing, 2, 7)]
        ts += waiting + computing + 200 * US
    return {"displayTimeUnit": "ns", "traceEvents": events}


def snapshot(steps=5):
    """What torch.cuda.memory._snapshot() gives after some steps: weights that stay, activations that come and go."""
    def stack(*places):
        return [{"name": name, "filename": file, "line": line} for name, file, line in places]
    main_place = ("main", "train.py", 80)
    weights = stack(("__init__", "torch/nn/modules/linear.py", 106), ("build", "model.py", 12), main_place)
    forward = stack(("linear", "torch/nn/functional.py", 2125), ("forward", "model.py", 30), ("step", "train.py", 41),
                    main_place)
    now, trace, blocks = 1700000000000000, [], []

    def entry(action, addr, mib, frames):
        trace.append({"action": action, "addr": addr, "size": mib << 20, "stream": 0, "time_us": now, "frames": frames})
    entry("segment_alloc", 1 << 40, 512, weights)
    for i in range(4):
        entry("alloc", (1 << 40) + (i * 32 << 20), 32, weights)
        blocks.append({"address": (1 << 40) + (i * 32 << 20), "size": 32 << 20, "requested_size": 32 << 20,
                       "state": "active_allocated", "frames": weights})
    for _ in range(steps):
        for action in "alloc", "free_completed":
            for i in range(4, 10):
                now += 500
                entry(action, (1 << 40) + (i * 32 << 20), 24, forward)
    segment = {"device": 0, "address": 1 << 40, "total_size": 512 << 20, "stream": 0, "frames": weights, "blocks": blocks}
    return {"segments": [segment], "device_traces": [trace]}


def write(path, trace):
    text = json.dumps(trace).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def main():
    directory = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    directory.mkdir(parents=True, exist_ok=True)
    slow, ends = training()
    write(directory / "rank0.json.gz", slow)
    write(directory / "rank1.json.gz", training(1, wait_us=2000, ahead_ns=11_560_000_000, seed=5, ends=ends)[0])
    write(directory / "faster.json.gz", training(wait_us=1000, seed=4)[0])
    write(directory / "worker0.json", worker())
    write(directory / "tf.json.gz", tensorflow())
    (directory / "snap.pickle").write_bytes(pickle.dumps(snapshot(), protocol=4))


if __name__ == "__main__":
    main()
