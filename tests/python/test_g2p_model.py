#!/usr/bin/env python3
"""Models of g2p against NumPy: g2p_en's original on the 12,000 words of g014b2b, and our own kind: test_g2p_model.py BUILD_DIR"""
import os
import re
import subprocess
import sys

import runlib

try:
    import numpy as np
except ImportError:
    print("no numpy")
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.environ.get("STOKER_G2P_DATA", os.path.join(ROOT, "..", "shared", "data", "g2p"))
CHECKPOINT = os.path.join(DATA, "checkpoint20.npz")
OWN = os.path.join(ROOT, "models", "g2p", "en_us.npz")
INT8_DIFFER_MAX = 0.02
OWN_AGREE_MIN = 0.999
SIDE = 4  # letters to each side that a model may look at

VOWELS = {"AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW"}
SOUNDS = ("AA AE AH AO AW AY B CH D DH EH ER EY F G HH IH IY JH K L M N NG OW OY P R S SH T TH UH UW V W Y Z ZH").split()
PHONEMES = [name for sound in SOUNDS
            for name in ([sound] if sound == "UW" else []) + ([sound + s for s in "012"] if sound in VOWELS else [sound])]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Original:
    """The loop of g2p_en 2, one word at a time, as its authors wrote it down."""
    GRAPHEMES = ["<pad>", "<unk>", "</s>"] + list("abcdefghijklmnopqrstuvwxyz")
    SYMBOLS = ["<pad>", "<unk>", "<s>", "</s>"] + PHONEMES

    def __init__(self, path):
        with np.load(path) as arrays:
            self.__dict__.update({name: arrays[name] for name in arrays.files})
        self.ids = {g: i for i, g in enumerate(self.GRAPHEMES)}

    @staticmethod
    def cell(x, h, w_ih, w_hh, b_ih, b_hh):
        ih = np.matmul(x, w_ih.T) + b_ih
        hh = np.matmul(h, w_hh.T) + b_hh
        split = ih.shape[-1] * 2 // 3
        r, z = np.split(sigmoid(ih[:, :split] + hh[:, :split]), 2, -1)
        n = np.tanh(ih[:, split:] + r * hh[:, split:])
        return (1 - z) * n + z * h

    def predict(self, word):
        letters = [self.ids.get(c, self.ids["<unk>"]) for c in list(word) + ["</s>"]]
        h = np.zeros((1, self.enc_w_hh.shape[1]), np.float32)
        for x in np.take(self.enc_emb, np.expand_dims(letters, 0), axis=0).transpose(1, 0, 2):
            h = self.cell(x, h, self.enc_w_ih, self.enc_w_hh, self.enc_b_ih, self.enc_b_hh)
        x = np.take(self.dec_emb, [2], axis=0)
        said = []
        for _ in range(20):
            h = self.cell(x, h, self.dec_w_ih, self.dec_w_hh, self.dec_b_ih, self.dec_b_hh)
            best = int((np.matmul(h, self.fc_w.T) + self.fc_b).argmax())
            if best == 3:
                break
            said.append(best)
            x = np.take(self.dec_emb, [best], axis=0)
        return " ".join(self.SYMBOLS[i] for i in said)


class Aligned:
    """Our own kind: a chunk of phonemes for each letter."""

    def __init__(self, path):
        with np.load(path) as arrays:
            stored = {name: arrays[name] for name in arrays.files}
        self.letters = {int(c): i + 2 for i, c in enumerate(stored["letters"])}
        self.chunks = stored["chunks"].tobytes().decode().split("\n")
        self.w = {}
        for name, w in stored.items():
            self.w[name] = w.astype(np.float32)
            if name + "_scale" in stored:
                self.w[name] *= stored[name + "_scale"][..., None]

    def inputs(self, name, ids):
        """The rows of letters around each place, and of pairs where the model has them."""
        table = self.w[name + "_in"]
        places = self.w.get(name + "_at", np.arange(len(table)) - len(table) // 2).astype(int)
        padded = [0] * SIDE + ids + [0] * SIDE
        rows = [sum(table[i][padded[t + at + SIDE]] for i, at in enumerate(places)) for t in range(len(ids))]
        if name + "_pairs" in self.w:
            side = int(self.w[name + "_pairs_at"][0]) + SIDE
            rows = [row + self.w[name + "_pairs"][ids[t]][padded[t + side]] for t, row in enumerate(rows)]
        return rows

    @staticmethod
    def cell(x, h, w_hh, b_hn):
        units = len(h)
        u = w_hh @ h
        r = sigmoid(x[:units] + u[:units])
        z = sigmoid(x[units:2 * units] + u[units:2 * units])
        n = np.tanh(x[2 * units:] + r * (u[2 * units:] + b_hn))
        return (1 - z) * n + z * h

    def states(self, name, ids, backward):
        w_hh, b_hn = self.w[name + "_hh"], self.w[name + "_hn"]
        h, states = np.zeros(len(b_hn), np.float32), []
        inputs = self.inputs(name, ids)
        for x in reversed(inputs) if backward else inputs:
            h = self.cell(x, h, w_hh, b_hn)
            states.append(h)
        return states[::-1] if backward else states

    def predict(self, word):
        ids = [self.letters.get(c, 1) for c in word.encode()]
        inputs = np.array(self.inputs("dec", ids))
        inputs += np.array(self.states("bwd", ids, True)) @ self.w["dec_bwd"].T
        if "fwd_hh" in self.w:
            inputs += np.array(self.states("fwd", ids, False)) @ self.w["dec_fwd"].T
        w_hh, b_hn, previous = self.w["dec_hh"], self.w["dec_hn"], self.w["dec_prev"]
        w, b = self.w["out_w"], self.w["out_b"]
        h, chunk, said = np.zeros(len(b_hn), np.float32), len(b), []
        for x in inputs:
            h = self.cell(x + previous[chunk], h, w_hh, b_hn)
            chunk = int((w @ h + b).argmax())
            said += self.chunks[chunk].split()
        return " ".join(said)


def make_aligned(path, seed, window, backward, forward, decoder, classes, stored, pairs=0):
    """A model with random weights, stored as float32, float16 or int8."""
    rng = np.random.default_rng(seed)
    letters = b"abcdefghijklmnopqrstuvwxyz'"
    ids = len(letters) + 2
    chunks = [""] + [" ".join(rng.choice(PHONEMES, size=rng.integers(1, 4))) for _ in range(classes - 1)]
    arrays = {}

    def add(name, *shape):
        arrays[name] = (rng.standard_normal(shape) * (2 / np.sqrt(shape[-1]) if name[-2:] == "hh" else 1)).astype(np.float32)

    for name, units in (("bwd", backward), ("fwd", forward)):
        if units:
            add(name + "_in", window, ids, 3 * units)
            add(name + "_hh", 3 * units, units)
            add(name + "_hn", units)
            add("dec_" + name, 3 * decoder, units)
    add("dec_in", window, ids, 3 * decoder)
    add("dec_prev", classes + 1, 3 * decoder)
    add("dec_hh", 3 * decoder, decoder)
    add("dec_hn", decoder)
    add("out_w", classes, decoder)
    for name, units in (("bwd", backward), ("fwd", forward), ("dec", decoder)):
        if pairs and units:
            add(name + "_pairs", ids, ids, 3 * units)
    add("out_b", classes)
    for name, array in list(arrays.items()):
        if array.ndim > 1 and stored == "float16":
            arrays[name] = array.astype(np.float16)
        elif array.ndim > 1 and stored == "int8":
            arrays[name + "_scale"] = np.abs(array).max(-1) / np.float32(127)
            arrays[name] = np.rint(array / arrays[name + "_scale"][..., None]).astype(np.int8)
    for name in ("bwd_pairs", "fwd_pairs", "dec_pairs"):
        if name in arrays:
            places = rng.permutation(np.arange(-SIDE, SIDE + 1))[:window]
            arrays[name + "_at"], arrays[name[:4] + "at"] = np.array([pairs], np.int8), places.astype(np.int8)
    np.savez(path, letters=np.frombuffer(letters, np.uint8), chunks=np.frombuffer("\n".join(chunks).encode(), np.uint8), **arrays)


def ask(program, words, *options):
    """What the program says to each word, all of them at once."""
    done = subprocess.run([program, "g2p", "--literal", *options], input="\n".join(words) + "\n", capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [line[0] for line in lines] == list(words), "words are missing or out of order"
    # A word about which a model says nothing is spelled, or has no letter at all.
    return ["" if line[1] == "<unk>" or "spelled" in "".join(line[2:]) else line[1] for line in lines]


def differing(found, wanted, words):
    return ["%s: %s, wanted %s" % (w, a, b) for w, a, b in zip(words, found, wanted) if a != b]


def read_words():
    with open(os.path.join(DATA, "g014b2b.words"), encoding="ascii") as f:
        return f.read().lower().split()


def make_words(seed, count, longest):
    rng = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz'"))
    return ["a" + "".join(rng.choice(letters, size=rng.integers(0, longest))) for _ in range(count)]


def test_original_gives_the_same_in_fp32_and_nearly_in_int8(program, _):
    if not os.path.exists(CHECKPOINT):
        print("no %s: g2p_en's own model is not compared" % CHECKPOINT)
        return
    words = read_words()
    original = Original(CHECKPOINT)
    assert original.predict("aardvark") == "AA1 R D V AA2 R K"
    wanted = [original.predict(word) for word in words]
    differ = differing(ask(program, words, "--model", CHECKPOINT, "--precision", "fp32"), wanted, words)
    print("g2p_en, fp32: %d of %d words differ from NumPy" % (len(differ), len(words)))
    assert not differ, differ[:5]
    differ = differing(ask(program, words, "--model", CHECKPOINT, "--precision", "int8"), wanted, words)
    print("g2p_en, int8: %d of %d words differ from NumPy (%.2f %%)" % (len(differ), len(words), 100 * len(differ) / len(words)))
    assert len(differ) <= INT8_DIFFER_MAX * len(words), differ[:5]


def test_own_model_agrees_with_numpy(program, _):
    if not os.path.exists(OWN) or not os.path.exists(DATA):
        print("no %s or no words in %s: the trained model is not compared" % (OWN, DATA))
        return
    words = read_words()
    aligned = Aligned(OWN)
    wanted = [aligned.predict(word) for word in words]
    differ = differing(ask(program, words, "--model", OWN, "--precision", "fp32"), wanted, words)
    print("own model, fp32: %d of %d words differ from NumPy" % (len(differ), len(words)))
    assert len(differ) <= (1 - OWN_AGREE_MIN) * len(words), differ[:5]
    differ = differing(ask(program, words, "--model", OWN, "--precision", "int8"), wanted, words)
    print("own model, int8: %d of %d words differ from NumPy (%.2f %%)" % (len(differ), len(words), 100 * len(differ) / len(words)))
    assert len(differ) <= INT8_DIFFER_MAX * len(words), differ[:5]


def test_random_models_of_every_shape_agree_with_numpy(program, directory):
    words = make_words(1, 450, 12) + make_words(2, 50, 200)
    shapes = [(1, 16, 0, 16, 9, 0), (3, 40, 0, 33, 70, 1), (2, 24, 17, 50, 130, -1), (9, 96, 96, 96, 128, 0), (1, 7, 1, 5, 2, 4)]
    for seed, (window, backward, forward, decoder, classes, pairs) in enumerate(shapes):
        for stored in "float32", "float16", "int8":
            path = os.path.join(directory, "model.npz")
            make_aligned(path, seed, window, backward, forward, decoder, classes, stored, pairs)
            aligned = Aligned(path)
            wanted = [aligned.predict(word) for word in words]
            differ = differing(ask(program, words, "--model", path, "--precision", "fp32"), wanted, words)
            assert len(differ) <= (1 - OWN_AGREE_MIN) * len(words), (window, backward, forward, decoder, pairs, stored, differ[:5])


def test_one_word_gives_what_many_give(program, directory):
    path = os.path.join(directory, "model.npz")
    make_aligned(path, 7, 3, 48, 0, 48, 60, "int8")
    words = make_words(3, 300, 90)
    together = ask(program, words, "--model", path, "--precision", "int8")
    for i in range(0, len(words), 30):
        assert ask(program, words[i:i + 1], "--model", path, "--precision", "int8") == together[i:i + 1]


def test_shipped_model_errs_in_less_than_30_percent_of_the_test_words(program, _):
    if not os.path.exists(os.path.join(DATA, "g014b2b.words")):
        print("no words in %s: error rates are not measured" % DATA)
        return
    script = os.path.join(os.path.dirname(OWN), "evaluate.py")
    out = subprocess.run([sys.executable, "-B", script, DATA, program], capture_output=True, text=True, timeout=150, check=True).stdout
    print(out)
    rates = [float(rate) for rate in re.findall(r"WER +([0-9.]+) %", out)]
    assert len(rates) == 4 and 20 < rates[0] < 30 and rates[1] < 26, rates
    assert rates[2] < 60, rates


if __name__ == "__main__":
    sys.exit(runlib.main(globals(), lambda test, program, directory: test(program, directory)))
