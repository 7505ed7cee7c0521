#!/usr/bin/env python3
"""Run the image benchmarks: Stoker against other systems and bare C loops; bench/images.sh builds what they need.

Writes build/bench/images.toml, which `stoker bench` measures. A complete run also writes the tables into
docs/performance.md.
"""
import json
import os
import subprocess
import sys

import suitelib as lib

CIFAR = ("shuffle(seed=1) | repeat({times}) | parse(image=bytes, label=int64) | decode_image(image) | "
         "pad(image, 4, mode=reflect) | random_crop(image, 32, 32) | random_flip(image) | "
         "random_rotate(image, degrees=10) | "
         "normalize(image, mean=[125.3, 123.0, 113.9], std=[63.0, 62.1, 66.7]) | cutout(image, 8, 8) | batch(512)")
JPEG = ("repeat({times}) | parse(image=bytes, label=int64) | decode_image(image) | "
        "random_resized_crop(image, 224, 224) | random_flip(image) | "
        "normalize(image, mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375]) | "
        "layout(image, CHW) | batch({batch})")
PNG = "repeat({times}) | parse(image=bytes) | decode_image(image) | batch(8)"

# Peers: environment and variants, of which the fastest is taken.
SYSTEMS = {
    "tfdata": ("tf.data with AUTOTUNE", ".venv-peers", ["batch", "vector", "sample"]),
    "torch": ("PyTorch DataLoader, 2 workers, torchvision v2", ".venv-peers-torch", ["tensor", "pil"]),
    "dali": ("DALI's CPU pipeline, 2 threads", ".venv-peers-dali", ["tfrecord"]),
    "ffcv": ("FFCV, 2 workers", ".venv-peers-torch", ["jpg"]),
}
# Work: its name in the table, what it is, the set, Stoker's pipeline, the values of a sample, the bare loop and what it
# is called, the least ratio for each contestant (None: shown without a target) and for 2 threads to 1; `more` run with
# --all.
WORKS = {
    "cifar": {"title": "CIFAR pipeline",
              "about": "PNG 32x32 in TFRecord, shuffled (peers: over a buffer); pad 4, crop 32, flip, rotate 10, normalize, "
                       "cutout 8; batch 512",
              "set": "cifar", "text": CIFAR, "pixels": 32 * 32 * 3, "loop": "cifar_loop",
              "loop_title": "bare C loop of the same kernels, data in memory, 2 threads",
              "shuffle": "shuffle(seed=1) | ",
              "targets": {"tfdata": 10, "torch": 20, "dali": 3, "loop": 0.8}, "scaling": 1.85},
    "jpeg500": {"title": "JPEG 500x375 to 224",
                "about": "JPEG 500x375 in TFRecord; random_resized_crop 224, flip, normalize, CHW float32; batch 256",
                "set": "jpeg500", "text": JPEG.replace("{batch}", "256"), "pixels": 224 * 224 * 3, "loop": "jpeg_loop",
                "loop_title": "plain full decode with libjpeg-turbo, data in memory, 2 threads",
                "targets": {"loop": 1.3, "torch": 3, "dali": 1.5, "ffcv": 1.5, "tfdata": None}, "scaling": 1.85},
    "jpeg2000": {"title": "JPEG 2000x1500 to 224",
                 "about": "JPEG 2000x1500 in TFRecord; random_resized_crop 224, flip, normalize, CHW float32; batch 32",
                 "set": "jpeg2000", "text": JPEG.replace("{batch}", "32"), "pixels": 224 * 224 * 3, "loop": "jpeg_loop",
                 "loop_title": "plain full decode with libjpeg-turbo, data in memory, 2 threads",
                 "targets": {"loop": 3}, "more": ["tfdata", "torch", "dali", "ffcv"]},
    "png500": {"title": "PNG 500x375 decode", "about": "PNG 500x375 in TFRecord, decoded to RGB; batch 8",
               "set": "png500", "text": PNG, "loop": "png_loop",
               "loop_title": "libpng with zlib, data in memory, 2 threads", "targets": {"loop": 1.7}},
}


# ---- data and peers ----

def reason(name):
    """Why a peer is not there, or None."""
    path = os.path.join(lib.TOOLS, name + ".reason")
    if os.path.exists(path):
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read().strip()
    if name in SYSTEMS and not os.path.exists(lib.python_of(SYSTEMS[name][1])):
        return f"{SYSTEMS[name][1]} is missing; bench/images.sh makes it"
    return None


def data_folder(args):
    folder = os.path.join(lib.DATA, "images-quick" if args.quick else "images")
    if not os.path.isdir(folder):
        python = lib.python_of(".venv-peers-data")
        if not os.path.exists(python):
            raise lib.Failed(f"the pictures cannot be made: {reason('data') or '.venv-peers-data is missing'}")
        subprocess.check_call([python, "bench/make_images.py", folder] + (["--quick"] if args.quick else []))
    with open(os.path.join(folder, "sets.json"), encoding="utf-8") as f:
        return folder, json.load(f)


def seconds_of(args):
    return 2 if args.quick else 5


def stoker(title, work, args, threads=lib.THREADS):
    folder, about = data_folder(args)
    text = f'tfrecord("{folder}/{work["set"]}-*.tfrecord") | {work["text"]}'
    return lib.stoker_for(title, text, threads, about["sets"][work["set"]]["count"], seconds_of(args))


def loop(work, args):
    folder, _ = data_folder(args)
    command = [os.path.join(lib.TOOLS, work["loop"]), str(lib.THREADS), str(seconds_of(args)),
               *lib.files(folder, work["set"] + "-*.tfrecord")]
    lib.run_json(command)
    return lib.Side(work["loop_title"], command)


def peer(name, work, args, suite):
    """The fastest of its variants."""
    title, venv, variants = SYSTEMS[name]
    missing = reason(name)
    if missing:
        raise lib.Failed(missing)

    def command(variant, seconds):
        return lib.peer(venv, f"images_{name}.py", "--data", data_folder(args)[0], "--work", work["set"], "--variant",
                        variant, "--seconds", seconds)
    best, found = lib.fastest({v: command(v, min(seconds_of(args), 3)) for v in variants})
    for out in found.values():
        if out["values_per_sample"] != work["pixels"]:
            raise lib.Failed(f"{name} makes {out['values_per_sample']} values per sample, wanted {work['pixels']}")
    version = found[best]["version"]
    if len(variants) > 1:
        suite.note(f"{work['title']}, {version}, samples/s by variant: "
                   + ", ".join(f"{v} {found[v]['samples_per_s']:,.0f}" for v in variants))
    return lib.Side(f"{title} ({version})", command(best, seconds_of(args)))


# ---- works ----

def others(work, args, suite):
    """Pairs of a contestant's name and its side, without those that cannot run; the notes tell why."""
    more = [name for name in work.get("more", []) if name not in work["targets"]] if args.all else []
    for name in [*work["targets"], *more]:
        try:
            yield name, loop(work, args) if name == "loop" else peer(name, work, args, suite)
        except lib.Failed as e:
            title = work["loop_title"] if name == "loop" else SYSTEMS[name][0]
            suite.note(f"{work['title']}: no figure for {title}: {str(e).strip().splitlines()[-1]}")


def compare(name, suite, args):
    work = WORKS[name]
    title = work["title"]
    suite.note(f"{title}: {work['about']}")
    mine, ordered = stoker("Stoker, 2 threads", work, args), None
    if work.get("shuffle"):
        # The loop takes its pictures as they come, so it is compared with a run that does the same.
        plain = work | {"text": work["text"].replace(work["shuffle"], "")}
        ordered = stoker("Stoker, 2 threads, in order", plain, args)
    for other, side in others(work, args, suite):
        target = work["targets"].get(other)
        if other == "loop" and ordered:
            suite.compare(f"{title}, in order / {side.title}", ordered, side, target)
            target = None
        suite.compare(f"{title}{', shuffled' if ordered else ''} / {side.title}", mine, side, target)
    if work.get("scaling"):
        suite.compare(f"{title}: 2 threads / 1 thread", mine, stoker("Stoker, 1 thread", work, args, 1), work["scaling"])


def set_note(args):
    _, about = data_folder(args)
    sets = ", ".join(f"{name} {s['count']:,} x {s['mean_bytes'] / 1000:,.1f} kB" for name, s in about["sets"].items())
    return f"pictures, from {len(about['photographs'])} photographs: {sets}"


def main():
    works = {name: lambda suite, args, name=name: compare(name, suite, args) for name in WORKS}
    args = lib.arguments(__doc__, works, rounds=6, options=lambda parser: parser.add_argument(
        "--all", action="store_true", help="peers also where there is no target"))
    suite = lib.Suite("images", "Images", args.rounds)
    try:
        suite.note(set_note(args))
    except lib.Failed as e:
        print(f"images.py: {e}", file=sys.stderr)
        return 1
    return lib.main(suite, works, args)


if __name__ == "__main__":
    sys.exit(main())
