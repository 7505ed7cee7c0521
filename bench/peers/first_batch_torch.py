#!/usr/bin/env python3
"""Time from a PyTorch DataLoader with 2 workers to its first batch; images_common.py tells the arguments.

The dataset, the transforms and the loader are those of images_torch.py. The clock starts when torch, torchvision and
the dataset are loaded already; with --import before any of them is.
"""
import json
import sys
import time

BEGIN = time.perf_counter()
WITH_IMPORT = "--import" in sys.argv


def main():
    if WITH_IMPORT:
        sys.argv.remove("--import")
    import torch

    import images_common as common
    import images_torch as peer

    args = common.arguments(peer.VARIANTS)
    dataset = peer.cifar(args) if args.work == "cifar" else peer.jpeg(args)
    begin = BEGIN if WITH_IMPORT else time.perf_counter()
    loader = torch.utils.data.DataLoader(dataset, args.batch, shuffle=True, drop_last=True, num_workers=common.WORKERS)
    images, _ = next(iter(loader))
    out = {"first_batch_s": time.perf_counter() - begin, "samples": len(images), "version": f"torch {torch.__version__}"}
    print(json.dumps(out), flush=True)


if __name__ == "__main__":
    main()
