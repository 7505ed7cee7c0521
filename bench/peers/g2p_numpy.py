"""g2p in NumPy: g2p_en's own loop, and the same net in batches with tables, as one would write it for speed."""
import argparse
import os
import sys

import g2p_common as common
import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# ---- the original ----

def cell(x, h, w_ih, w_hh, b_ih, b_hh):
    """g2p_en's: both products in each step, for one word."""
    by_input = np.matmul(x, w_ih.T) + b_ih
    by_state = np.matmul(h, w_hh.T) + b_hh
    units = h.shape[-1]
    rz = sigmoid(by_input[:, :2 * units] + by_state[:, :2 * units])
    r, z = np.split(rz, 2, -1)
    n = np.tanh(by_input[:, 2 * units:] + r * by_state[:, 2 * units:])
    return (1 - z) * n + z * h


def original(weights, batch):
    if batch != 1:
        raise SystemExit("g2p_numpy.py: g2p_en takes one word at a time")
    enc = [weights["enc_" + name] for name in ("w_ih", "w_hh", "b_ih", "b_hh")]
    dec = [weights["dec_" + name] for name in ("w_ih", "w_hh", "b_ih", "b_hh")]

    def predict_word(word):
        ids = common.letters(word)
        x = np.take(weights["enc_emb"], np.expand_dims(ids, 0), axis=0)
        h = np.zeros((1, enc[1].shape[1]), np.float32)
        for t in range(len(ids)):
            h = cell(x[:, t, :], h, *enc)
        found = []
        x = np.take(weights["dec_emb"], [common.START], axis=0)
        for _ in range(common.MOST_STEPS):
            h = cell(x, h, *dec)
            logits = np.matmul(h, weights["fc_w"].T) + weights["fc_b"]
            best = logits.argmax()
            if best == common.END:
                break
            found.append(int(best))
            x = np.take(weights["dec_emb"], [best], axis=0)
        return found
    return lambda words: [predict_word(word) for word in words]


# ---- batches ----

def tabulated(weights, which):
    """A row for each letter or phoneme: its part of the gates, with the biases that can be added beforehand."""
    table = weights[which + "_emb"] @ weights[which + "_w_ih"].T + weights[which + "_b_ih"]
    b_hh = weights[which + "_b_hh"]
    units = len(b_hh) // 3
    table[:, :2 * units] += b_hh[:2 * units]
    return table, np.ascontiguousarray(weights[which + "_w_hh"].T), b_hh[2 * units:]


def step(x, h, w, b_n):
    """x: rows of the table. h is changed in place."""
    units = h.shape[1]
    gates = h @ w
    rz = x[:, :2 * units]
    rz += gates[:, :2 * units]
    np.negative(rz, out=rz)
    np.exp(rz, out=rz)
    rz += 1
    np.reciprocal(rz, out=rz)
    n = gates[:, 2 * units:]
    n += b_n
    n *= rz[:, :units]
    n += x[:, 2 * units:]
    np.tanh(n, out=n)
    h -= n
    h *= rz[:, units:]
    h += n


def batched(weights, batch):
    """Longest word first: those that still have letters are the first rows; in the decoder finished words leave."""
    enc_table, enc_w, enc_b = tabulated(weights, "enc")
    dec_table, dec_w, dec_b = tabulated(weights, "dec")
    fc_w, fc_b = np.ascontiguousarray(weights["fc_w"].T), weights["fc_b"]

    def predict(words):
        ids, lengths = common.padded(words)
        order = np.argsort(-lengths, kind="stable")
        ids, lengths = ids[order], lengths[order]
        h = np.zeros((len(words), enc_w.shape[0]), np.float32)
        for t in range(lengths[0]):
            alive = int(np.searchsorted(-lengths, -t, side="left"))
            step(enc_table[ids[:alive, t]], h[:alive], enc_w, enc_b)
        found = [[] for _ in words]
        last = np.full(len(words), common.START)
        for _ in range(common.MOST_STEPS):
            step(dec_table[last], h, dec_w, dec_b)
            last = (h @ fc_w + fc_b).argmax(axis=1)
            going = last != common.END
            if not going.all():
                h, last, order = h[going], last[going], order[going]
                if not len(last):
                    break
            for word, phoneme in zip(order.tolist(), last.tolist()):
                found[word].append(phoneme)
        return found
    return predict


VARIANTS = {"original": original, "batched": batched}


# ---- files for the others ----

def prepare(model, words, folder):
    """words.tsv with the original's answers, and the weights as raw floats for the steps in C."""
    weights = common.load(model)
    with open(words, encoding="ascii") as f:
        listed = f.read().split()
    predict = original(weights, 1)
    with open(os.path.join(folder, "words.tsv"), "w", encoding="ascii") as f:
        f.writelines(f"{word}\t{common.text(predict([word])[0])}\n" for word in listed)
    with open(os.path.join(folder, "weights.f32"), "wb") as f:
        f.writelines(weights[name].astype("<f4").tobytes() for name in common.WEIGHTS)


def main():
    if sys.argv[1:2] == ["prepare"]:
        parser = argparse.ArgumentParser(description=prepare.__doc__)
        for name in ("model", "words", "folder"):
            parser.add_argument(name)
        return prepare(**vars(parser.parse_args(sys.argv[2:])))
    return common.main(__doc__, f"NumPy {np.__version__}", VARIANTS)


if __name__ == "__main__":
    sys.exit(main())
