#!/usr/bin/env python3
"""Run the image benchmarks: Stoker, other systems and bare C loops by turns; bench/images.sh builds what they need.

In each round every contestant of a work runs once, in random order. The figures are ratios within a round: their
median, with the least and the greatest. A complete run writes its tables into docs/performance.md.
"""
import argparse
import glob
import json
import os
import random
import resource
import statistics
import subprocess
import sys

import run

PEERS = os.path.join(run.ROOT, "bench", "peers")
BEGIN, END = "<!-- images -->", "<!-- end images -->"
THREADS = 2

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


class Rate:
    """One measurement: samples per second, and CPU seconds per 1,000 samples."""

    def __init__(self, per_s, cpu):
        self.per_s, self.cpu = per_s, cpu


# ---- contestants ----

def data_folder(quick):
    folder = os.path.join(run.DATA, "images-quick" if quick else "images")
    if not os.path.isdir(folder):
        python = os.path.join(run.ROOT, ".venv-peers-data", "bin", "python")
        if not os.path.exists(python):
            raise run.Failed(f"the pictures cannot be made: {reason('data') or '.venv-peers-data is missing'}")
        subprocess.check_call([python, os.path.join(run.ROOT, "bench", "make_images.py"), folder]
                              + (["--quick"] if quick else []))
    return folder


def set_files(folder, name):
    return sorted(glob.glob(os.path.join(folder, name + "-*.tfrecord")))


def reason(name):
    """Why a peer is not there, or None."""
    path = os.path.join(run.TOOLS, name + ".reason")
    if os.path.exists(path):
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read().strip()
    if name in SYSTEMS and not os.path.exists(os.path.join(run.ROOT, SYSTEMS[name][1], "bin", "python")):
        return f"{SYSTEMS[name][1]} is missing; bench/images.sh makes it"
    return None


class Stoker:
    def __init__(self, work, folder, seconds, threads=THREADS):
        self.work, self.folder, self.threads = work, folder, threads
        with open(os.path.join(folder, "sets.json"), encoding="utf-8") as f:
            self.count = json.load(f)["sets"][work["set"]]["count"]
        self.times = 1
        # The first run makes the index and warms the page cache, the second one finds how much there is to do.
        self.once()
        self.times = max(1, round(0.3 * seconds * self.once().per_s / self.count))
        self.times = max(1, round(seconds * self.once().per_s / self.count))

    def once(self):
        text = f'tfrecord("{self.folder}/{self.work["set"]}-*.tfrecord") | {self.work["text"]}'
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        out = run.stoker(text.replace("{times}", str(self.times)), self.threads)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Rate(out["samples_per_s"], 1000 * cpu / out["samples"])


class Loop:
    def __init__(self, work, folder, seconds):
        program = os.path.join(run.TOOLS, work["loop"])
        self.command = [program, str(THREADS), str(seconds), *set_files(folder, work["set"])]

    def once(self):
        out = run.run_json(self.command)
        return Rate(out["images_per_s"], out["cpu_s_per_1000"])


class Peer:
    def __init__(self, name, work, folder, seconds, bench):
        self.name, self.work, self.folder, self.seconds = name, work, folder, seconds
        variants = SYSTEMS[name][2]
        rates = {variant: self.trial(variant, min(seconds, 3)) for variant in variants}
        self.variant = max(rates, key=lambda v: rates[v]["samples_per_s"])
        self.version = rates[self.variant]["version"]
        if len(variants) > 1:
            bench.note(f"{work['title']}, {self.version}, samples/s by variant: "
                       + ", ".join(f"{v} {rates[v]['samples_per_s']:,.0f}" for v in variants))

    def trial(self, variant, seconds):
        """The best of up to three runs, one if it was quiet: noise must not choose a slower variant for a peer."""
        tried = []
        while len(tried) < 3:
            others = run.Others()
            tried.append(self.measure(variant, seconds))
            if others.share() <= run.QUIET:
                break
        return max(tried, key=lambda out: out["samples_per_s"])

    def measure(self, variant, seconds):
        python = os.path.join(run.ROOT, SYSTEMS[self.name][1], "bin", "python")
        out = run.run_json([python, os.path.join(PEERS, f"images_{self.name}.py"), "--data", self.folder, "--work",
                            self.work["set"], "--variant", variant, "--seconds", str(seconds)])
        made, wanted = out["values_per_sample"], self.work["pixels"]
        if made != wanted:
            raise run.Failed(f"{self.name} makes {made} values per sample, wanted {wanted}")
        return out

    def once(self):
        out = self.measure(self.variant, self.seconds)
        return Rate(out["samples_per_s"], out["cpu_s_per_1000"])


# ---- rounds ----

class Images(run.Bench):
    def __init__(self, rounds, quick, everything):
        super().__init__(rounds, quick)
        self.everything, self.figures = everything, []
        self.seconds = 2 if quick else 5
        self.order, self.patience = random.Random(1), 0

    def take(self, contestant):
        """One measurement, taken again when others were busy meanwhile, as long as there is patience."""
        while True:
            others = run.Others()
            rate = contestant.once()
            if others.share() <= run.QUIET:
                return rate
            if self.patience == 0:
                self.disturbed += 1
                return rate
            self.patience -= 1
            self.retaken += 1

    def by_turns(self, contestants):
        """{name: [rate of each round]}; every contestant once in a round, in random order."""
        out = {name: [] for name in contestants}
        self.patience = self.rounds * len(contestants)
        for _ in range(self.rounds):
            names = list(contestants)
            self.order.shuffle(names)
            for name in names:
                out[name].append(self.take(contestants[name]))
        return out

    def figure(self, work, who, rates):
        rate = statistics.median(r.per_s for r in rates)
        cpu = statistics.median(r.cpu for r in rates)
        self.figures.append((work, who, f"{rate:,.0f}", f"{cpu:.3g}"))

    def compare(self, name):
        work, folder = WORKS[name], data_folder(self.quick)
        self.note(f"{work['title']}: {work['about']}")
        contestants, titles = {"stoker": Stoker(work, folder, self.seconds)}, {"stoker": "Stoker, 2 threads"}
        if work.get("scaling"):
            contestants["one"], titles["one"] = Stoker(work, folder, self.seconds, 1), "Stoker, 1 thread"
        if work.get("shuffle"):
            # The loop takes its pictures as they come, so it is compared with a run that does the same.
            ordered = work | {"text": work["text"].replace(work["shuffle"], "")}
            contestants["ordered"], titles["ordered"] = Stoker(ordered, folder, self.seconds), "Stoker, 2 threads, in order"
        targets = dict(work["targets"])
        if self.everything:
            targets |= {peer: None for peer in work.get("more", []) if peer not in targets}
        for other in targets:
            title = work["loop_title"] if other == "loop" else SYSTEMS[other][0]
            missing = reason(other)
            try:
                if missing:
                    raise run.Failed(missing)
                contestants[other] = (Loop(work, folder, self.seconds) if other == "loop"
                                      else Peer(other, work, folder, self.seconds, self))
            except run.Failed as e:
                self.row(f"{work['title']} / {title}", "not measured")
                self.note(f"{work['title']}: no figure for {title}: {str(e).strip().splitlines()[-1]}")
                continue
            version = getattr(contestants[other], "version", "")
            titles[other] = f"{title} ({version})" if version else title
        rates = self.by_turns(contestants)
        ratios = lambda a, b: [x.per_s / y.per_s for x, y in zip(rates[a], rates[b])]
        for other in targets:
            if other not in rates:
                continue
            target = targets[other]
            if other == "loop" and "ordered" in rates:
                self.ratio_row(f"{work['title']}, in order / {titles[other]}", ratios("ordered", other), target)
                target = None
            self.ratio_row(f"{work['title']}{', shuffled' if 'ordered' in rates else ''} / {titles[other]}",
                           ratios("stoker", other), target)
        if "one" in rates:
            self.ratio_row(f"{work['title']}: 2 threads / 1 thread", ratios("stoker", "one"), work["scaling"])
        for other in contestants:
            self.figure(work["title"], titles[other], rates[other])


    # ---- the report ----

    def write_page(self, before, begin, end, heading):
        with open(run.PAGE, encoding="utf-8") as f:
            text = f.read()
        if begin not in text:
            text += f"\n## {heading}\n{begin}\n{end}\n"
        head, rest = text.split(begin, 1)
        tail = rest.split(end, 1)[1]
        notes = "".join(f"- {note}\n" for note in self.notes)
        middle = (f"{begin}\nMachine: {run.machine()}. Load before the run: {before}. Rounds: {self.rounds}.\n\n"
                  f"{run.table(self.rows)}\n\n{figure_table(self.figures)}\n\n{notes}{end}")
        with open(run.PAGE, "w", encoding="utf-8") as f:
            f.write(head + middle + tail)

    def finish(self, before, begin, end, heading, write):
        """Prints the tables; `write`: puts them on the page, too."""
        if self.retaken or self.disturbed:
            self.note(f"others took more than {100 * run.QUIET:.0f} % of the machine's time in some measurements: "
                      f"{self.retaken} were taken again, {self.disturbed} are in the figures, for want of quiet")
        print()
        run.print_table(self.rows)
        print()
        for work, who, rate, cpu in self.figures:
            print(f"{work:22} {rate:>10} samples/s  {cpu:>8} CPU-s per 1,000  {who}")
        if write:
            self.write_page(before, begin, end, heading)


def figure_table(figures):
    head = ("work", "who", "samples/s", "CPU-seconds per 1,000 samples")
    lines = ["| " + " | ".join(head) + " |", "|---|---|---|---|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in figures])


def set_note(folder):
    with open(os.path.join(folder, "sets.json"), encoding="utf-8") as f:
        about = json.load(f)
    sets = ", ".join(f"{name} {s['count']:,} x {s['mean_bytes'] / 1000:,.1f} kB" for name, s in about["sets"].items())
    return f"pictures, from {len(about['photographs'])} photographs: {sets}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(WORKS)}; all unless told")
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each contestant (7)")
    parser.add_argument("--quick", action="store_true", help="small sets, short and 3 rounds: to see that it works")
    parser.add_argument("--all", action="store_true", help="peers also where there is no target")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in WORKS]
    if unknown or args.rounds < 1:
        parser.error(f"no work '{unknown[0]}'" if unknown else "wants 1 or more rounds")
    bench = Images(min(args.rounds, 3) if args.quick else args.rounds, args.quick, args.all)
    before = run.load()
    print(f"{run.machine()}; load {before}", flush=True)
    try:
        bench.note(set_note(data_folder(args.quick)))
        for name in args.names or WORKS:
            print(name, flush=True)
            bench.compare(name)
    except run.Failed as e:
        print(f"images.py: {e}", file=sys.stderr)
        return 1
    bench.finish(before, BEGIN, END, "Images", write=not args.names and not args.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
