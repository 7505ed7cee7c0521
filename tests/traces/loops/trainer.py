"""What the PyTorch loops have in common: a model, a training step, the profiler, options."""
import argparse

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

from meter import run_until_stopped

WAIT, WARMUP = 5, 1  # steps before the profiled ones
BATCH, FEATURES = 8, 1024


class Trainer:
    def __init__(self, wrap=lambda model: model):
        torch.set_num_threads(1)
        torch.manual_seed(1)
        self.model = wrap(nn.Sequential(nn.Linear(FEATURES, 3072), nn.ReLU(), nn.Linear(3072, 3072), nn.ReLU(),
                                        nn.Linear(3072, 10)))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.loss = nn.CrossEntropyLoss()

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = self.loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.item()


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", help="without it, train until told to stop: for a profiler that looks on from outside")
    parser.add_argument("--share", type=float, required=True, help="of a step that the fetch is to take")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--stack", action="store_true", help="with_stack=True")
    parser.add_argument("--no-marks", action="store_true", help="no prof.step()")
    return parser


def start_profiler(args):
    """With marks it begins after WAIT + WARMUP steps; without, the loop starts it itself after as many."""
    plan = None if args.no_marks else schedule(wait=WAIT, warmup=WARMUP, active=args.steps, repeat=1)
    return profile(activities=[ProfilerActivity.CPU], schedule=plan, with_stack=args.stack,
                   on_trace_ready=lambda prof: prof.export_chrome_trace(args.out))


def train(args, meter, step):
    """Calls step() for each step: without marks the first ones run before the profiler starts."""
    if not args.out:
        run_until_stopped(meter, step)
        return
    prof = start_profiler(args)
    if args.no_marks:
        for _ in range(WAIT + WARMUP):
            step()
        with prof:
            for _ in range(args.steps):
                step()
    else:
        with prof:
            for _ in range(WAIT + WARMUP + args.steps):
                step()
                prof.step()
    meter.write(WAIT + WARMUP, args.steps)
