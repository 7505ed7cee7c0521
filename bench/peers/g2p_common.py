"""What the g2p peers share: the words, the numbers of letters and phonemes, the clock, and the check of the answers."""
import argparse
import json
import os
import time

# Before NumPy, PyTorch or ONNX Runtime are imported: all contestants have one thread.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402

# The numbers of g2p_en: 0 padding, 1 unknown, 2 end, then a to z.
LETTER_END, LETTER_UNKNOWN = 2, 1
START, END, MOST_STEPS = 2, 3, 20
VOWELS = {v: [v + s for s in "012"] for v in "AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW".split()}
PHONEMES = ["<pad>", "<unk>", "<s>", "</s>"]
for symbol in ("AA AE AH AO AW AY B CH D DH EH ER EY F G HH IH IY JH K L M N NG OW OY P R S SH T TH UH UW V W Y Z ZH"
               .split()):
    PHONEMES += (["UW"] if symbol == "UW" else []) + VOWELS.get(symbol, [symbol])
WEIGHTS = ["enc_emb", "enc_w_ih", "enc_w_hh", "enc_b_ih", "enc_b_hh", "dec_emb", "dec_w_ih", "dec_w_hh", "dec_b_ih",
           "dec_b_hh", "fc_w", "fc_b"]


def letters(word):
    return [ord(c) - ord("a") + 3 if "a" <= c <= "z" else LETTER_UNKNOWN for c in word] + [LETTER_END]


def padded(words):
    """Letters of words as a matrix of int64, and their lengths; the end mark stands in both."""
    ids = [letters(word) for word in words]
    lengths = np.array([len(i) for i in ids], np.int64)
    out = np.zeros((len(ids), int(lengths.max())), np.int64)
    for row, i in zip(out, ids):
        row[:len(i)] = i
    return out, lengths


def until_end(row):
    """The phonemes of a row of numbers, without the end mark and what comes behind it."""
    row = list(row)
    return row[:row.index(END)] if END in row else row


def text(ids):
    return " ".join(PHONEMES[i] for i in ids)


def load(path):
    with np.load(path) as file:
        return {name: file[name] for name in WEIGHTS}


def read_words(path, count):
    """Pairs of a word and its phonemes by the original, which are None where the file has none."""
    with open(path, encoding="ascii") as f:
        rows = [line.rstrip("\n").split("\t") for line in f]
    return [(row[0], row[1] if len(row) > 1 else None) for row in rows[:count or None]]


def calls_of(words, batch):
    """Batches have words of about the same length: the list is sorted as a whole."""
    if batch > 1:
        words = sorted(words, key=lambda w: len(w[0]))
    return [words[i:i + batch] for i in range(0, len(words), batch)]


def check(predict, calls, least_seconds):
    """Warms up; the share of answers that are the original's, and how many were looked at."""
    sample = calls[::max(1, len(calls) // (256 if len(calls[0]) == 1 else 16))]
    start, equal, seen = time.perf_counter(), 0, 0
    while not seen or time.perf_counter() - start < least_seconds:
        answers = [(predict([w for w, _ in call]), call) for call in sample]
        equal = sum(text(ids) == wanted for out, call in answers for ids, (_, wanted) in zip(out, call))
        seen = sum(len(call) for call in sample)
    return equal / seen, seen


def measure(predict, calls, seconds):
    """Whole passes over the words, so that every contestant has the same ones."""
    plain = [[w for w, _ in call] for call in calls]
    count, cpu, start = 0, time.process_time(), time.perf_counter()
    while True:
        for call in plain:
            count += len(predict(call))
        took = time.perf_counter() - start
        if took >= seconds:
            return count, took, time.process_time() - cpu


def main(doc, version, variants, argv=None):
    """variants: {name: function of the weights and the size of batches that gives predict(words) -> lists of ids}"""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--model", required=True, help="checkpoint20.npz")
    parser.add_argument("--words", required=True, help="lines of a word, a tab and its phonemes by the original")
    parser.add_argument("--count", type=int, default=0, help="only the first so many words")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--variant", choices=list(variants), default=next(iter(variants)))
    parser.add_argument("--seconds", type=float, default=2)
    args = parser.parse_args(argv)
    predict = variants[args.variant](load(args.model), args.batch)
    calls = calls_of(read_words(args.words, args.count), args.batch)
    equal, checked = check(predict, calls, 0.3)
    words, seconds, cpu = measure(predict, calls, args.seconds)
    print(json.dumps({"words_per_s": words / seconds, "words": words, "seconds": seconds,
                      "cpu_per_1000": cpu / words * 1e3, "batch": args.batch, "variant": args.variant,
                      "equal": equal, "checked": checked,
                      "version": version}))
