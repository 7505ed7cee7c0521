#!/usr/bin/env python3
"""Run the g2p benchmarks: words to phonemes on one core, Stoker against NumPy, PyTorch and ONNX Runtime; bench/g2p.sh
builds what they need.

Writes build/bench/g2p.toml and build/bench/g2p-ladder.toml, which `stoker bench` measures. A complete run also writes
the tables and the chart into docs.
"""
import collections
import functools
import json
import os
import random
import re
import shlex
import subprocess
import sys

import suitelib as lib

SOURCE = os.environ.get("STOKER_G2P_DATA", "../shared/data/g2p")
CHECKPOINT, CMUDICT, TEST_WORDS = (os.path.join(SOURCE, name)
                                   for name in ("checkpoint20.npz", "cmudict.dict", "g014b2b.words"))
FOLDER = os.path.join(lib.DATA, "g2p")
CHART = "docs/img/g2p-ladder.svg"
LADDER = "g2p-ladder"
# Fewer say nothing with 95 % confidence about nine steps at once.
LADDER_ROUNDS = 10
# Every contestant gets one core and so much memory.
LIMITS = {"cpus": 1, "memory": "4G"}
BATCH = 64
# One word at a time goes over the first words, an eighth of them with the same lengths; batches go over all.
PART = 8
lib.METRICS["words_per_s"] = ("words/s", True)

# Peers: environment, script, and variants by precision, of which the fastest is taken.
Peer = collections.namedtuple("Peer", "title venv script exact int8")
PEERS = {
    "torch": Peer("PyTorch", ".venv-peers-torch", "g2p_torch.py", ["eager", "script", "compile"],
                  ["int8", "int8 script"]),
    "onnx": Peer("ONNX Runtime", ".venv-peers-g2p", "g2p_onnx.py",
                 ["loop", "loop matmul", "all matmul", "steps", "steps matmul", "binding", "binding matmul"],
                 ["loop int8", "all int8", "steps int8"]),
}
NUMPY = Peer("NumPy", ".venv-peers-g2p", "g2p_numpy.py", ["original"], [])
# The least share of answers that must be the original's. The 8-bit forms of the peers are coarser than ours.
EXACT, NEARLY, PEERS_INT8 = 0.999, 0.97, 0.93

Found = collections.namedtuple("Found", "title command out")


# ---- data ----

def make_words(path):
    """The test words in lower case with the original's answers, and its weights as raw floats."""
    with open(TEST_WORDS, encoding="ascii") as f:
        words = sorted({line.strip().lower() for line in f} - {""}, key=lambda w: (len(w), w))
    draw = random.Random(7)
    first, rest = words[::PART], [w for i, w in enumerate(words) if i % PART]
    draw.shuffle(first)
    draw.shuffle(rest)
    os.makedirs(path)
    listed = os.path.join(path, "words.txt")
    with open(listed, "w", encoding="ascii") as f:
        f.write("\n".join(first + rest) + "\n")
    subprocess.check_call(pinned(lib.peer(NUMPY.venv, NUMPY.script, "prepare", CHECKPOINT, listed, path)))


# The most frequent words of English; the others follow by length and chance.
FREQUENT = """the of and to a in that is was he for it with as his on be at by this had not are but from or have an
they which one you were her all she there would their we him been has when who will more no if out so said what up its
about into than them can only other new some could time these two may then do first any my now such like our over man
me even most made after also did many before must through""".split()


def dictionary():
    """{word: number of phonemes of its first pronunciation} for plain words; without a vowel they are abbreviations."""
    found = {}
    with open(CMUDICT, encoding="utf-8") as f:
        for line in f:
            word, *phonemes = line.split("#")[0].split()
            plain = re.fullmatch(r"[a-z]+('[a-z]+)*", word) and re.search("[aeiouy]", word)
            if plain and (len(word) > 1 or word == "a"):
                found[word] = len(phonemes)
    return found


def sentence(draw, more):
    """Words and marks of one line. Marks stand behind long words: "no." and "a," would not be read as words."""
    words = [more() for _ in range(draw.randint(4, 30))]
    for at in (0, -1):
        while len(words[at]) < 7:
            words[at] = more()
    pieces = [word + "," * (draw.random() < 0.1 and len(word) > 4) for word in words[:-1]]
    return words, " ".join([*pieces, words[-1]]).capitalize() + draw.choice(".....?!")


def make_text(path, count):
    """Running text whose words are as frequent as Zipf's law has it, and what is in it."""
    sizes, draw = dictionary(), random.Random(11)
    rest = sorted(set(sizes) - set(FREQUENT))
    rest.sort(key=lambda word: len(word) + 8 * draw.random())
    ranked = [word for word in FREQUENT if word in sizes] + rest
    sums, total = [], 0
    for rank in range(len(ranked)):
        total += 1 / (rank + 2.7)
        sums.append(total)
    stock = iter(())

    def more():
        nonlocal stock
        word = next(stock, None)
        if word is None:
            stock = iter(draw.choices(ranked, cum_weights=sums, k=100_000))
            word = next(stock)
        return word
    words = phonemes = 0
    os.makedirs(path)
    with open(os.path.join(path, "text.txt"), "w", encoding="ascii") as f:
        while words < count:
            drawn, line = sentence(draw, more)
            words, phonemes = words + len(drawn), phonemes + sum(sizes[word] for word in drawn)
            f.write(line + "\n")
    with open(os.path.join(path, "about.json"), "w", encoding="ascii") as f:
        json.dump({"words": words, "phonemes": phonemes}, f)


def words_file():
    return os.path.join(lib.made(os.path.join(FOLDER, "words"), make_words), "words.tsv")


def words_count():
    with open(words_file(), encoding="ascii") as f:
        return sum(1 for _ in f)


def text_file(args):
    """Path, and what it must give."""
    count = 100_000 if args.quick else 2_000_000
    folder = lib.made(os.path.join(FOLDER, f"text-{count}"), lambda path: make_text(path, count))
    with open(os.path.join(folder, "about.json"), encoding="ascii") as f:
        return os.path.join(folder, "text.txt"), json.load(f)


# ---- contestants ----

def pinned(command):
    """For runs outside of `stoker bench`, which sets limits itself."""
    return ["taskset", "-c", str(max(os.sched_getaffinity(0))), *command]


def seconds_of(args):
    return 0.5 if args.quick else 2


def part(args, batch):
    """How many of the words are used; 0: all."""
    few = words_count() // PART
    return few // 3 if args.quick else few if batch == 1 else 0


def how(batch):
    return "one word" if batch == 1 else f"batch {batch}"


def checked(title, command, least):
    """Runs it once; its answers must be those of the original, nearly."""
    out = lib.run_json(pinned(command))
    if out["equal"] < least:
        raise lib.Failed(f"{title}: only {out['equal']:.2%} of {out['checked']} answers are the original's, "
                         f"wanted {least:.1%}")
    return Found(title, command, out)


def stoker(title, args, batch, *options, least=0.0):
    command = [os.path.join(lib.TOOLS, "g2p_words"), *options, "--batch", str(batch), "--count", str(part(args, batch)),
               "--seconds", str(seconds_of(args)), words_file()]
    return checked(f"Stoker, {title}, {how(batch)}", command, least)


@functools.cache
def en_int8(args, batch):
    return stoker("g2p_en's net, int8", args, batch, "--model", CHECKPOINT, least=NEARLY)


@functools.cache
def en_fp32(args, batch):
    return stoker("g2p_en's net, fp32", args, batch, "--fp32", "--model", CHECKPOINT, least=EXACT)


@functools.cache
def shipped(args, batch):
    return stoker("its own model", args, batch)


@functools.cache
def step_in_c(args, name):
    command = [os.path.join(lib.TOOLS, "g2p_steps"), name, os.path.join(os.path.dirname(words_file()), "weights.f32"),
               words_file(), str(part(args, 1)), str(seconds_of(args))]
    return checked(f"C, {name}", command, EXACT)


def peer_command(peer, variant, args, batch):
    return lib.peer(peer.venv, peer.script, "--model", CHECKPOINT, "--words", words_file(), "--count",
                    part(args, batch), "--batch", batch, "--variant", variant, "--seconds", seconds_of(args))


@functools.cache
def numpy(args, variant, batch):
    out = checked(f"NumPy, {variant}", peer_command(NUMPY, variant, args, batch), EXACT)
    what = "g2p_en's loop" if variant == "original" else "with tables and finished words leaving"
    return out._replace(title=f"{out.out['version']} with OpenBLAS, {what}, {how(batch)}")


def reason(name):
    """Why a peer is not there, or None."""
    path = os.path.join(lib.TOOLS, {"onnx": "g2p"}.get(name, name) + ".reason")
    if os.path.exists(path):
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read().strip()
    if os.path.exists(lib.python_of(PEERS[name].venv)):
        return None
    return f"{PEERS[name].venv} is missing; bench/g2p.sh makes it"


@functools.cache
def peer(name, args, batch, int8=False):
    """The fastest of its variants, and a line about all of them."""
    p, least = PEERS[name], PEERS_INT8 if int8 else EXACT
    missing = reason(name)
    if missing:
        raise lib.Failed(missing)
    commands = {variant: peer_command(p, variant, args, batch) for variant in (p.int8 if int8 else p.exact)}
    found, failed = {}, []
    for variant, command in commands.items():
        try:
            runs = [checked(f"{p.title}, {variant}", command, least) for _ in range(1 if args.quick else 2)]
        except lib.Failed as e:
            failed.append(f"{variant} ({str(e).strip().splitlines()[-1]})")
            continue
        found[variant] = max(runs, key=lambda run: run.out["words_per_s"])
    if not found:
        raise lib.Failed("; ".join(failed))
    best = max(found, key=lambda variant: found[variant].out["words_per_s"])
    version, kind = found[best].out["version"], "8-bit weights" if int8 else "fp32"
    note = (f"{version}, {kind}, {how(batch)}, words/s by variant: "
            + ", ".join(f"{v} {f.out['words_per_s']:,.0f}" for v, f in found.items())
            + f"; the fastest takes part, {found[best].out['equal']:.2%} of its answers are the original's")
    if failed:
        note += "; did not run: " + ", ".join(failed)
    return Found(f"{version} '{best}', {kind}, {how(batch)}", found[best].command, note)


# ---- works ----

class Rows:
    """Rows of the table; a peer that cannot run leaves a note."""

    def __init__(self, suite, args):
        self.suite, self.args, self.told = suite, args, set()

    def tell(self, text):
        if text not in self.told:
            self.told.add(text)
            self.suite.note(text)

    def compare(self, mine, other, target=None):
        """other: a function, since it may fail."""
        try:
            side = other()
        except lib.Failed as e:
            self.tell(f"no figure beside '{mine.title}': {str(e).strip().splitlines()[-1]}")
            return
        if isinstance(side.out, str):
            self.tell(side.out)
        self.suite.compare(f"{mine.title.removeprefix('Stoker, ')} / {side.title.removeprefix('Stoker, ')}", mine, side,
                           target, **LIMITS)

    def peers(self, mine, batch, target):
        """target: of ONNX Runtime in fp32; the others are shown."""
        args = self.args
        self.compare(mine, lambda: peer("onnx", args, batch), target)
        self.compare(mine, lambda: peer("onnx", args, batch, True))
        self.compare(mine, lambda: peer("torch", args, batch))
        self.compare(mine, lambda: peer("torch", args, batch, True))


def equal_note(rows, found):
    rows.tell(f"{found.title}: {found.out['equal']:.2%} of {found.out['checked']:,} answers are the original's")


@functools.cache
def limit(args, what, title):
    """What the chip allows: the bytes, or the products, of a word and nothing else."""
    command = [os.path.join(lib.TOOLS, "g2p_limit"), what, words_file(), str(seconds_of(args))]
    return Found(title, command, lib.run_json(pinned(command)))


def one(suite, args):
    """one word at a time, with the weights of g2p_en"""
    rows = Rows(suite, args)
    fp32, int8 = en_fp32(args, 1), en_int8(args, 1)
    equal_note(rows, fp32)
    equal_note(rows, int8)
    rows.compare(fp32, lambda: numpy(args, "original", 1), 10)
    rows.compare(fp32, lambda: peer("onnx", args, 1), 6.5)
    rows.compare(int8, lambda: numpy(args, "original", 1), 48)
    rows.peers(int8, 1, 30)
    rows.compare(fp32, lambda: limit(args, "read32", "bare loop that reads its fp32 weights"))
    rows.compare(int8, lambda: limit(args, "read8", "bare loop that reads its int8 weights"))


def batches(suite, args):
    """64 words at a time, with the weights of g2p_en"""
    rows = Rows(suite, args)
    fp32, int8 = en_fp32(args, BATCH), en_int8(args, BATCH)
    equal_note(rows, fp32)
    equal_note(rows, int8)
    rows.compare(int8, lambda: numpy(args, "batched", BATCH), 11)
    rows.peers(int8, BATCH, 14)
    rows.compare(fp32, lambda: peer("onnx", args, BATCH))
    rows.compare(int8, lambda: limit(args, "multiply8", "bare loop of its 8-bit products"))


def own(suite, args):
    """the model in the library"""
    rows = Rows(suite, args)
    rows.compare(shipped(args, 1), lambda: en_int8(args, 1), 3)
    rows.compare(shipped(args, BATCH), lambda: shipped(args, 1))


def text(suite, args):
    """running text, all of whose words are in the lexicon"""
    path, about = text_file(args)
    command = [os.path.join(lib.TOOLS, "g2p_words"), "--lexicon", CMUDICT, "--seconds", str(seconds_of(args)), "--text",
               path]
    bare = [os.path.join(lib.TOOLS, "g2p_split"), path, str(seconds_of(args))]
    out = lib.run_json(pinned(command))
    for key in ("text_words", "from_lexicon"):
        lib.same(f"running text: {key}", out[key], about["words"])
    lib.same("running text: phonemes", out["phonemes"], about["phonemes"])
    lib.same("running text: words", out["text_words"], lib.run_json(pinned(bare))["text_words"])
    title = f"running text with CMUdict as lexicon, {about['words'] / 1e6:.1f} million words, {out['marks']:,} marks"
    suite.measure(title, command, "words_per_s", ("at_least", 1e6), **LIMITS)
    suite.compare("running text with lexicon / bare loop that splits and hashes",
                  lib.Side("Stoker, text with lexicon", command),
                  lib.Side("bare loop that splits and hashes", bare), **LIMITS)


# ---- the ladder ----

def ladder_steps(args):
    """Triples of name, note and command, from g2p_en's loop to what the library does."""
    def of(name, note, make):
        try:
            steps.append((name, note, make().command))
        except lib.Failed as e:
            print(f"  without {name}: {str(e).strip().splitlines()[-1]}", flush=True)
    steps = []
    of("NumPy, g2p_en's loop", "one word at a time, as all steps up to int8; fp32", lambda: numpy(args, "original", 1))
    of("PyTorch", "nn.GRU and nn.GRUCell, the fastest fp32 variant", lambda: peer("torch", args, 1))
    of("ONNX Runtime", "GRU nodes in a graph, the fastest fp32 variant", lambda: peer("onnx", args, 1))
    of("plain C", "the same loops, vectorised by the compiler (-O3 -march=native -ffast-math)",
       lambda: step_in_c(args, "plain"))
    of("tables", "products of embeddings and input weights are looked up: half of the arithmetic, same results",
       lambda: step_in_c(args, "tables"))
    of("packed fp32", "the library: gates side by side, cell in registers", lambda: en_fp32(args, 1))
    of("int8", "8-bit weights and states: a quarter of the bytes; about 1 % of answers differ",
       lambda: en_int8(args, 1))
    of(f"int8, batch {BATCH}", "weights are read once for many words", lambda: en_int8(args, BATCH))
    of("own model, one word", "another, smaller net, trained for this; not the same answers", lambda: shipped(args, 1))
    of(f"own model, batch {BATCH}", "the same model", lambda: shipped(args, BATCH))
    return steps


def write_ladder(args):
    rounds = args.rounds if args.quick else max(args.rounds, LADDER_ROUNDS)
    lines = lib.toml_lines({"title": "Words to phonemes on one core, words per second",
                            **lib.metric_keys("words_per_s"), "rounds": rounds, "warmup": 0,
                            "quiet": None if args.quick else lib.QUIET, **LIMITS})
    for name, note, command in ladder_steps(args):
        lines += ["", "[[step]]", *lib.toml_lines({"name": name, "note": note, "command": shlex.join(command)})]
    os.makedirs(lib.TOOLS, exist_ok=True)
    path = os.path.join(lib.TOOLS, LADDER + ".toml")
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
    return path


def run_ladder(args):
    path = write_ladder(args)
    if args.dry_run:
        print(path)
        return 0
    command = [lib.STOKER, "bench", "--ladder", path]
    if not args.quick:
        command += ["--svg", CHART, "--into", lib.PAGE, "--section", LADDER]
    print(shlex.join(command), flush=True)
    return subprocess.call(command)


def main():
    works = {"one": one, "batches": batches, "own": own, "text": text}
    args = lib.arguments(__doc__, [*works, "ladder"], rounds=8)
    args = collections.namedtuple("Arguments", vars(args))(**{**vars(args), "names": tuple(args.names)})
    missing = [path for path in (CHECKPOINT, CMUDICT, TEST_WORDS) if not os.path.exists(path)]
    missing += [path for path in [lib.python_of(NUMPY.venv)] if not os.path.exists(path)]
    if missing:
        print(f"g2p.py: {missing[0]} is missing; bench/README.md tells where it comes from", file=sys.stderr)
        return 1
    status, named = 0, [name for name in args.names if name != "ladder"]
    if named or not args.names:
        suite = lib.Suite("g2p", "g2p", args.rounds, "words_per_s")
        suite.note(f"{words_count():,} test words of g014b2b, one by one a part of {part(args, 1):,} with the same "
                   "lengths; on one core with 4 GB, one thread; peers' batches are sorted by length as a whole, "
                   "Stoker's are not")
        status = lib.main(suite, works, args._replace(names=tuple(named)))
    if "ladder" in args.names or not args.names:
        try:
            status = run_ladder(args) or status
        except lib.Failed as e:
            print(f"g2p.py: {e}", file=sys.stderr)
            return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
