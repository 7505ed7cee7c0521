"""A JAX training loop with a loader of one's own, under jax.profiler, whose Python tracer is on."""
import argparse
import contextlib
import glob
import shutil
import time
import zlib

import jax
import jax.numpy as jnp
import numpy as np

from meter import Meter, part, run_until_stopped

WARMUP, BATCH, FEATURES = 4, 16, 1024
PACKED = zlib.compress(bytes(range(256)) * 4096, 1)


def loss(weights, x):
    for w in weights:
        x = jax.nn.relu(x @ w)
    return jnp.mean((x - 1) ** 2)


@jax.jit
def update(weights, x):
    for _ in range(4):
        weights = [w - 0.001 * g for w, g in zip(weights, jax.grad(loss)(weights, x))]
    return weights


class Rows:
    def __init__(self, work, factor, busy):
        self.work, self.factor, self.busy = work, factor, busy

    def load_batch(self):
        seconds = self.factor * self.work.value
        if self.busy:
            until = time.perf_counter() + seconds
            while time.perf_counter() < until:
                zlib.decompress(PACKED)
        else:
            time.sleep(seconds)
        return np.ones((BATCH, FEATURES), np.float32)

    def batches(self):
        while True:
            yield jax.device_put(self.load_batch())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", help="without it, train until told to stop: for a profiler that looks on from outside")
    parser.add_argument("--share", type=float, required=True)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--span", help="name of the span around the fetch")
    parser.add_argument("--busy", action="store_true", help="the loader computes, it does not sleep")
    parser.add_argument("--marks", action="store_true")
    parser.add_argument("--generator", action="store_true", help="with jax.device_put in a generator")
    args = parser.parse_args()
    meter = Meter()
    rng = np.random.default_rng(1)
    shapes = ((FEATURES, 2048), (2048, 2048), (2048, 10))
    weights = [jnp.asarray(rng.normal(0, 0.03, shape), jnp.float32) for shape in shapes]
    rows = Rows(meter.work, part(args.share), args.busy)
    batches = rows.batches()

    def step():
        nonlocal weights
        meter.start()
        with jax.profiler.TraceAnnotation(args.span) if args.span else contextlib.nullcontext():
            x = next(batches) if args.generator else rows.load_batch()
        meter.fetched()
        weights = jax.block_until_ready(update(weights, x))
        meter.stop()

    for _ in range(WARMUP):
        step()
    if not args.out:
        run_until_stopped(meter, step)
        return
    jax.profiler.start_trace("logs")
    for i in range(args.steps):
        mark = jax.profiler.StepTraceAnnotation("train", step_num=i) if args.marks else contextlib.nullcontext()
        with mark:
            step()
    jax.profiler.stop_trace()
    shutil.copy(glob.glob("logs/plugins/profile/*/*.xplane.pb")[0], args.out)
    shutil.rmtree("logs")
    meter.write(WARMUP, args.steps)


if __name__ == "__main__":
    main()
