#!/usr/bin/env python3
"""Train a ResNet on a GPU and tell how long the GPU waited for data: Stoker, PyTorch's DataLoader, and one batch over and over.

python gpu_train.py --records 'D/jpeg500-*.tfrecord' --folder D/jpeg500 [--rounds 3] [--seconds 15] [--models resnet18 resnet50]

Each contestant is a process of its own, in turns. JPEGs of 500x375 to 224x224 (random_resized_crop, flip, normalize), batches
of 256, bfloat16 autocast, channels_last. Both loaders give float32 batches in pinned memory, copied without blocking, and
use all cores. The GPU waits when no work is queued: wall time less the time between CUDA events around each step. "limit"
trains on one batch that stays on the GPU: what the GPU could do. Prints JSON lines, then a table in Markdown.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

MEAN, STD = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]
BATCH = 256
TITLES = {"stoker": "Stoker, `.torch(pin_memory=True)`", "dataloader": "DataLoader, one worker per core, torchvision v2",
          "limit": "one batch that stays on the GPU"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", required=True)
    parser.add_argument("--folder", required=True, help="the same pictures as files, for DataLoader; made when missing")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--models", nargs="+", default=["resnet18", "resnet50"])
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="of DataLoader; one per core unless told")
    parser.add_argument("--one", nargs=2, metavar=("LOADER", "MODEL"), help="run one contestant in this process")
    return parser.parse_args()


# ---- contestants ----

def stoker_batches(args):
    import stoker

    pipe = (stoker.tfrecord(args.records).shuffle(seed=1).parse(image="bytes", label="int64").decode_image("image")
            .random_resized_crop("image", 224, 224).random_flip("image").normalize("image", mean=MEAN, std=STD)
            .layout("image", "CHW").batch(BATCH, drop_last=True).repeat())
    return iter(pipe.torch("image", "label", pin_memory=True, threads=os.cpu_count(), memory="8G", cache_dir=None))


def dataloader_batches(args):
    import torch
    import torchvision
    from torchvision.transforms import v2

    def load(path):
        return torchvision.io.decode_image(torchvision.io.read_file(path), torchvision.io.ImageReadMode.RGB)

    transform = v2.Compose([v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(),
                            v2.ToDtype(torch.float32, scale=True),
                            v2.Normalize([x / 255 for x in MEAN], [x / 255 for x in STD], inplace=True)])
    class Endless(torch.utils.data.Sampler):
        """All indices in random order, again and again: no pause between epochs, all workers busy."""

        def __iter__(self):
            while True:
                yield from torch.randperm(len(dataset)).tolist()

    dataset = torchvision.datasets.ImageFolder(args.folder, transform, loader=load)
    loader = torch.utils.data.DataLoader(dataset, BATCH, sampler=Endless(), drop_last=True, num_workers=args.workers,
                                         pin_memory=True, persistent_workers=True, prefetch_factor=4)
    return iter(loader)


def limit_batches(args):
    import torch

    batch = torch.randn(BATCH, 3, 224, 224, device="cuda"), torch.randint(0, 8, (BATCH,), device="cuda")
    while True:
        yield batch


def train(batches, model_name, seconds):
    """Steps for `seconds` after a warm-up; returns figures."""
    import torch
    import torchvision

    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    model = getattr(torchvision.models, model_name)(num_classes=1000).cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss_of = torch.nn.CrossEntropyLoss()
    events, waits, begin, steps = [], 0.0, None, 0
    warm_until = None
    while True:
        asked = time.perf_counter()
        images, labels = next(batches)
        got = time.perf_counter()
        warm_until = warm_until or got + 6
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        images = images.cuda(non_blocking=True).to(memory_format=torch.channels_last)
        labels = labels.cuda(non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = loss_of(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        end.record()
        if begin is None:
            if got > warm_until and steps > 20:
                torch.cuda.synchronize()
                begin = time.perf_counter()
                steps = 0
            steps += 1
            continue
        waits += got - asked
        events.append((start, end))
        # As a loop that looks at its loss now and then: the host must not run away from the GPU.
        if len(events) % 4 == 0:
            loss.item()
        if time.perf_counter() - begin > seconds:
            break
    torch.cuda.synchronize()
    wall = time.perf_counter() - begin
    busy = sum(a.elapsed_time(b) for a, b in events) / 1000
    return {"images_per_s": len(events) * BATCH / wall, "gpu_wait": max(0.0, 1 - busy / wall), "loop_wait": waits / wall,
            "steps": len(events), "loss": float(loss), "device": torch.cuda.get_device_name(),
            "torch": torch.__version__}


# ---- all of them ----

def make_folder(args):
    """The pictures of the records as files, for the peer."""
    import stoker

    if not os.path.isdir(args.folder):
        stoker.tfrecord(args.records).parse(image="bytes", label="int64").batch(64).write_image_folder(args.folder).run()


def table(results, models):
    lines = ["| model | loader | images/s | GPU waited | loop waited for a batch | runs |", "|---|---|---|---|---|---|"]
    for model in models:
        for name, title in TITLES.items():
            runs = results[name, model]
            mid = {key: statistics.median(r[key] for r in runs) for key in ("images_per_s", "gpu_wait", "loop_wait")}
            low, high = min(r["gpu_wait"] for r in runs), max(r["gpu_wait"] for r in runs)
            lines.append(f"| {model} | {title} | {mid['images_per_s']:,.0f} | {mid['gpu_wait']:.1%} ({low:.1%} to {high:.1%}) | "
                         f"{mid['loop_wait']:.1%} | {len(runs)} |")
    return "\n".join(lines)


def main():
    args = arguments()
    if args.one:
        batches = {"stoker": stoker_batches, "dataloader": dataloader_batches, "limit": limit_batches}[args.one[0]](args)
        print(json.dumps(train(batches, args.one[1], args.seconds)), flush=True)
        os._exit(0)
    make_folder(args)
    results = {}
    for turn in range(args.rounds):
        for model in args.models:
            names = list(TITLES)
            for name in names if turn % 2 == 0 else reversed(names):
                command = [sys.executable, __file__, *sys.argv[1:], "--one", name, model]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    print(f"{name} {model}: exit code {done.returncode}\n{done.stderr[-3000:]}", file=sys.stderr)
                    return 1
                out = json.loads(done.stdout.strip().splitlines()[-1])
                print(json.dumps({"loader": name, "model": model} | out), flush=True)
                results.setdefault((name, model), []).append(out)
    print(table(results, args.models))
    return 0


if __name__ == "__main__":
    sys.exit(main())
