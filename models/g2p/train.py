#!/usr/bin/env python3
"""Trains the model that Stoker ships.

    python data.py FOLDER data.npz                      letters and chunks of the training words
    python train.py teacher data.npz t1.pt --seed 1     several large ones (--kind lstm | attention)
    python train.py label data.npz made-up.pt t*.pt     words made up by a letter model, pronounced by all teachers together
    python train.py student data.npz s.pt made-up.pt    the small one, from both
    python train.py export data.npz s.pt en_us.npz      8-bit weights
    python train.py test data.npz FILE.pt...            error rates on the test words, for the report only

Everything but `test` uses the training part alone; one word in 30 of it is held out to choose by. Test words are never
made up: `label` throws them away. `all.sh` runs the steps.
"""
import argparse
import copy
import math
import time

import numpy as np
import torch
from torch.nn import functional

from data import FIRST_LETTER, LETTERS, OUTSIDE, UNKNOWN
from nets import LETTER_IDS, LetterModel, Student, Teacher, decode_together, starts
from rates import distance, plain

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
KEEP = 8


# ---- data ----

class Words:
    """Words of the training part on the device, by length."""

    def __init__(self, path):
        file = np.load(path)
        self.chunks = [str(c) for c in file["chunks"]]
        self.classes = len(self.chunks)
        self.test = list(zip(map(str, file["test"]), map(str, file["reference"])))
        letters, labels = torch.from_numpy(file["letters"]), torch.from_numpy(file["labels"])
        lengths = (letters != 0).sum(1)
        held = torch.arange(len(letters)) % 30 == 7
        self.train = by_length(letters, lengths, ~held, labels)
        self.held = by_length(letters, lengths, held, labels)

    def phones(self, chunks):
        return [" ".join(self.chunks[c] for c in row if c) for row in chunks.tolist()]


def by_length(letters, lengths, chosen, *others):
    parts = {}
    for n in lengths.unique().tolist():
        at = chosen & (lengths == n)
        if at.any():
            parts[n] = [x[at][:, :n].to(DEVICE) for x in (letters, *others)]
    return parts


class Sampler:
    """Random batches of equal length, lengths as often as they occur."""

    def __init__(self, parts):
        self.parts = parts
        self.lengths = list(parts)
        counts = np.array([len(parts[n][0]) for n in self.lengths], float)
        self.share = counts / counts.sum()
        self.random = np.random.default_rng(torch.initial_seed() % 2**32)

    def draw(self, size, length=None):
        n = length or int(self.random.choice(self.lengths, p=self.share))
        part = self.parts.get(n)
        if part is None:
            return n, None
        rows = torch.randint(len(part[0]), (min(size, 4 * len(part[0])),), device=DEVICE)
        return n, [x[rows] for x in part]


# ---- measuring ----

def error_rates(found, wanted):
    """Word and phoneme error in percent, with stress and without."""
    rates = []
    for strip in (False, True):
        wrong = edits = total = 0
        for f, w in zip(found, wanted):
            f, w = f.split(), w.split()
            if strip:
                f, w = plain(f), plain(w)
            wrong += f != w
            edits += distance(f, w)
            total += len(w)
        rates += [100 * wrong / len(wanted), 100 * edits / total]
    return rates


@torch.no_grad()
def held_out_error(models, words):
    for m in models:
        m.eval()
    wrong = total = 0
    for letters, labels in words.held.values():
        found = words.phones(decode_together(models, letters.long())[0])
        wrong += sum(f != w for f, w in zip(found, words.phones(labels)))
        total += len(found)
    return 100 * wrong / total


@torch.no_grad()
def spell(models, words, spellings):
    """Phonemes of words, in their order."""
    found = {}
    for n in sorted({len(s) for s in spellings}):
        same = [s for s in spellings if len(s) == n]
        ids = torch.tensor([[LETTERS.index(c) + FIRST_LETTER for c in s] for s in same], device=DEVICE)
        found.update(zip(same, words.phones(decode_together(models, ids)[0])))
    return [found[s] for s in spellings]


# ---- training ----

class Average:
    """The running mean of a model's weights, which is what is kept."""

    def __init__(self, model):
        self.model = copy.deepcopy(model).eval()
        self.steps = 0

    def add(self, model, decay):
        self.steps += 1
        decay = min(decay, self.steps / (self.steps + 10))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.model.parameters()), list(model.parameters()), 1 - decay)


def train(model, words, loss_of, options, decay):
    """Until the time is up: the learning rate falls along a cosine of the time used."""
    model.to(DEVICE).train()
    average = Average(model)
    groups = [{"params": list(model.parameters()), "weight_decay": options.weight_decay}]
    adam = torch.optim.AdamW(groups, lr=options.rate, betas=(0.9, 0.98), fused=DEVICE == "cuda")
    start = last = time.time()
    step = 0
    while True:
        if step % 10 == 0:
            done = min((time.time() - start) / options.seconds, 1.0)
        if done >= 1.0:
            break
        adam.param_groups[0]["lr"] = options.rate * min(1, (step + 1) / 300) * (0.5 + 0.5 * math.cos(math.pi * done) + 1e-3)
        loss = loss_of(model)
        adam.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        average.add(model, decay)
        step += 1
        if time.time() - last > options.report:
            last = time.time()
            print(f"{options.out} {last - start:.0f} s, step {step}, loss {loss.item():.4f}, held-out words wrong "
                  f"{held_out_error([average.model], words):.2f} %", flush=True)
    print(f"{options.out} done: step {step}, held-out words wrong {held_out_error([average.model], words):.2f} %", flush=True)
    return average.model


def train_teacher(options):
    words = Words(options.data)
    torch.manual_seed(options.seed)
    model = Teacher(words.classes, options.kind, options.units, options.dropout)
    sampler = Sampler(words.train)

    def loss_of(m):
        _, (letters, labels) = sampler.draw(options.batch)
        labels = labels.long()
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
            logits = m(letters.long(), starts(labels, words.classes))
        return functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), label_smoothing=0.1)

    model = train(model, words, loss_of, options, 0.9995)
    torch.save({"teacher": {"kind": options.kind, "units": options.units}, "state": model.half().state_dict()}, options.out)


def load(path, classes):
    saved = torch.load(path, map_location=DEVICE)
    model = Teacher(classes, **saved["teacher"]) if "teacher" in saved else Student(classes, **saved["student"])
    model.load_state_dict({k: v.float() for k, v in saved["state"].items()})
    return model.to(DEVICE).eval()


def make_up(words, count, options):
    """Words from a letter model of the training part, test words left out, each once."""
    model = LetterModel().to(DEVICE).train()
    adam = torch.optim.AdamW(model.parameters(), lr=2e-3)
    sampler = Sampler(words.train)
    start = time.time()
    while time.time() - start < options.letter_seconds:
        _, (letters, _) = sampler.draw(1024)
        letters = letters.long()
        given, wanted = functional.pad(letters, (1, 0)), functional.pad(letters, (0, 1))
        loss = functional.cross_entropy(model(given)[0].flatten(0, 1), wanted.flatten())
        adam.zero_grad()
        loss.backward()
        adam.step()
    print(f"letter model: loss {loss.item():.3f}", flush=True)
    model.eval()
    longest = 20
    never = {word for word, _ in words.test}
    seen = set()
    with torch.no_grad():
        while len(seen) < count:
            previous = torch.zeros(min(65536, count), 1, dtype=torch.long, device=DEVICE)
            state, columns = None, []
            for _ in range(longest + 1):
                logits, state = model(previous, state)
                logits[:, :, 1] = -1e9
                previous = logits[:, 0].softmax(-1).multinomial(1)
                columns.append(previous)
            ids = torch.cat(columns, 1)
            ends = (ids == 0).int().argmax(1)
            for row, end in zip(ids.cpu().numpy().astype(np.uint8), ends.tolist()):
                if end > 0:
                    seen.add(row[:end].tobytes())
    by_size = {}
    for w in sorted(seen - {bytes(LETTERS.index(c) + FIRST_LETTER for c in word) for word in never}):
        by_size.setdefault(len(w), []).append(w)
    return by_size


def label(options):
    """Made-up words and the training words, pronounced by all teachers together."""
    words = Words(options.data)
    torch.manual_seed(1)
    models = [load(path, words.classes) for path in options.teachers]
    print(f"{len(models)} teachers together: held-out words wrong {held_out_error(models, words):.2f} %", flush=True)
    made = make_up(words, options.count, options)
    print(f"{sum(map(len, made.values()))} words made up", flush=True)
    parts = {}
    for n, same in made.items():
        letters = torch.from_numpy(np.frombuffer(b"".join(same), np.uint8).reshape(-1, n).copy())
        rows = []
        for at in range(0, len(letters), 32768):
            block = letters[at:at + 32768].to(DEVICE)
            with torch.no_grad(), torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
                chunks, (p, k) = decode_together(models, block.long(), KEEP)
            rows.append((block.cpu(), chunks.byte().cpu(), p.half().cpu(), k.byte().cpu()))
        parts[n] = [torch.cat(x) for x in zip(*rows)]
    torch.save(parts, options.out)
    print("labelled", flush=True)


def soft_loss(logits, p, k):
    """Cross-entropy with the teachers' largest probabilities."""
    p = p.float()
    p = p / p.sum(-1, keepdim=True)
    return -(functional.log_softmax(logits.float(), -1).gather(-1, k.long()) * p).sum(-1).mean()


def train_student(options):
    words = Words(options.data)
    torch.manual_seed(options.seed)
    model = Student(words.classes, options.backward_units, options.units, options.width, options.forward_units,
                    options.pairs)
    if options.start:
        model = load(options.start, words.classes)
    real, made = Sampler(words.train), None
    if options.made_up:
        parts = torch.load(options.made_up, map_location=DEVICE)
        made = Sampler({n: parts[n] for n in parts})

    def loss_of(m):
        n, extra = made.draw(options.batch) if made else (None, None)
        n, batch = real.draw(options.batch // (4 if made else 1), n)
        loss = 0.0
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda" and options.half):
            if batch:
                letters, labels = batch[0].long(), batch[1].long()
                logits = m(letters, starts(labels, words.classes))
                loss = functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), label_smoothing=options.smooth)
                loss = loss * (options.real_share if extra else 1.0)
            if extra:
                letters, chunks, p, k = extra
                logits = m(letters.long(), starts(chunks.long(), words.classes))
                loss = loss + (1 - options.real_share) * soft_loss(logits, p, k)
        return loss

    model = train(model, words, loss_of, options, 0.9998)
    torch.save({"student": model.shape, "state": model.state_dict()}, options.out)


def test(options):
    words = Words(options.data)
    models = [load(path, words.classes) for path in options.files]
    known = [(w, r) for w, r in words.test if r]
    rates = error_rates(spell(models, words, [w for w, _ in known]), [r for _, r in known])
    print(f"held-out words wrong {held_out_error(models, words):.2f} %")
    print("%d test words: WER %.2f %%, PER %.2f %%; without stress WER %.2f %%, PER %.2f %%" % (len(known), *rates))


# ---- the file that is shipped ----

def rows_int8(matrix):
    """Rows of 8-bit numbers and a factor for each."""
    scale = np.abs(matrix).max(-1) / 127
    scale[scale == 0] = 1 / 127
    return np.rint(matrix / scale[..., None]).astype(np.int8), scale.astype(np.float32)


class Export:
    """Arrays of the file: everything that meets letters or chunks is multiplied out into tables."""

    def __init__(self, model, words, classes):
        self.model, self.words, self.classes = model, words, classes
        self.state = {k: v.double().numpy() for k, v in model.state_dict().items()}
        self.arrays = {}

    def put(self, name, matrix):
        self.arrays[name], self.arrays[name + "_scale"] = rows_int8(matrix)

    def gru(self, name, gru, window, pairs):
        """The recurrent weights of a GRU, and its tables of letters around the place."""
        width, state = self.model.width, self.state
        units = state[gru + ".weight_hh_l0"].shape[1]
        matrix = state[gru + ".weight_ih_l0"]
        rows = state[window + ".rows.weight"].reshape(width, LETTER_IDS, -1)
        tables = np.einsum("wle,gwe->wlg", rows, matrix[:, :32 * width].reshape(3 * units, width, -1))
        tables[:, UNKNOWN] = 0  # never trained
        bias = state[gru + ".bias_ih_l0"].copy()
        bias[:2 * units] += state[gru + ".bias_hh_l0"][:2 * units]
        offsets = list(range(-(width // 2), width // 2 + 1))
        if self.model.pairs:
            offsets = self.pairs(name, pairs, matrix[:, 32 * width:32 * width + self.model.shape["pairs"]], tables, bias)
        else:
            tables[width // 2] += bias
        self.put(name + "_in", np.stack([tables[o + width // 2] for o in offsets]))
        self.arrays[name + "_at"] = np.array(offsets, np.int8)
        self.put(name + "_hh", state[gru + ".weight_hh_l0"])
        self.arrays[name + "_hn"] = state[gru + ".bias_hh_l0"][2 * units:].astype(np.float32)

    def pairs(self, name, pairs, matrix, tables, bias):
        """A table for each letter and its neighbour takes in the tables of both alone; the offsets that are left."""
        side = -1 if getattr(self.model, pairs).before else 1
        middle = len(tables) // 2
        both = (self.state[pairs + ".rows.weight"] @ matrix.T).reshape(LETTER_IDS, LETTER_IDS, -1)
        both[~self.seen_pairs(side)] = 0  # never trained
        both += tables[middle][:, None] + tables[middle + side][None, :] + bias
        both[OUTSIDE] = 0  # never looked up
        self.put(name + "_pairs", both)
        self.arrays[name + "_pairs_at"] = np.array([side], np.int8)
        return [o for o in range(-middle, middle + 1) if o not in (0, side)]

    def seen_pairs(self, side):
        seen = np.zeros((LETTER_IDS, LETTER_IDS), bool)
        for letters, _ in self.words.train.values():
            x = letters.cpu().numpy()
            padded = np.pad(x, ((0, 0), (1, 1)))
            seen[x, padded[:, :-2] if side < 0 else padded[:, 2:]] = True
        return seen

    def write(self, path):
        shape, decoder = self.model.shape, self.state["decoder.weight_ih_l0"]
        self.gru("bwd", "backward_gru", "letters_backward", "pairs_backward")
        self.gru("dec", "decoder", "letters", "pairs")
        if shape["forward_units"]:
            self.gru("fwd", "forward_gru", "letters_backward", "pairs_backward")
        at = 32 * shape["width"] + shape.get("pairs", 0)
        for name, units in (("dec_bwd", shape["backward_units"]), ("dec_fwd", shape["forward_units"])):
            if units:
                self.put(name, decoder[:, at:at + units])
                at += units
        # The rarest chunks are the last ones; the start mark stays.
        kept = list(range(self.classes)) + [self.model.classes]
        self.put("dec_prev", self.state["chunks.weight"][kept] @ decoder[:, at:].T)
        self.put("out_w", self.state["out.weight"][:self.classes])
        self.arrays["out_b"] = self.state["out.bias"][:self.classes].astype(np.float32)
        self.arrays["letters"] = np.frombuffer(LETTERS.encode(), np.uint8)
        self.arrays["chunks"] = np.frombuffer("".join(c + "\n" for c in self.words.chunks[:self.classes]).encode(), np.uint8)
        np.savez(path, **self.arrays)
        print(f"{path}: {sum(a.nbytes for a in self.arrays.values())} bytes of weights")


def export(options):
    words = Words(options.data)
    Export(load(options.student, words.classes).cpu(), words, options.classes or words.classes).write(options.out)


def main():
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(required=True)

    def command(name, function):
        c = commands.add_parser(name)
        c.set_defaults(function=function)
        c.add_argument("data")
        return c

    def training(c, rate, batch):
        c.add_argument("--seed", type=int, default=1)
        c.add_argument("--seconds", type=float, default=300)
        c.add_argument("--report", type=float, default=60, help="seconds between looks at the held-out words")
        c.add_argument("--rate", type=float, default=rate)
        c.add_argument("--batch", type=int, default=batch)
        c.add_argument("--weight-decay", type=float, default=0.01)

    c = command("teacher", train_teacher)
    c.add_argument("out")
    c.add_argument("--kind", choices=["lstm", "attention"], default="lstm")
    c.add_argument("--units", type=int, default=512)
    c.add_argument("--dropout", type=float, default=0.35)
    training(c, 1e-3, 1024)
    c = command("label", label)
    c.add_argument("out")
    c.add_argument("teachers", nargs="+")
    c.add_argument("--count", type=int, default=5_000_000)
    c.add_argument("--letter-seconds", type=float, default=25)
    c = command("student", train_student)
    c.add_argument("out")
    c.add_argument("made_up", nargs="?")
    c.add_argument("--start", help="go on from this one")
    c.add_argument("--units", type=int, default=112)
    c.add_argument("--backward-units", type=int, default=112)
    c.add_argument("--forward-units", type=int, default=0)
    c.add_argument("--pairs", type=int, default=0, help="size of vectors for pairs of letters")
    c.add_argument("--width", type=int, default=5)
    c.add_argument("--smooth", type=float, default=0.05)
    c.add_argument("--real-share", type=float, default=0.3)
    c.add_argument("--half", action="store_true")
    training(c, 2e-3, 8192)
    c = command("export", export)
    c.add_argument("student")
    c.add_argument("out")
    c.add_argument("--classes", type=int, help="only so many chunks, the most frequent ones")
    c = command("test", test)
    c.add_argument("files", nargs="+")
    options = top.parse_args()
    options.function(options)


if __name__ == "__main__":
    main()
