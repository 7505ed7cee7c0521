"""The split, the pronunciations, and which letter says which phonemes.

Words come from the training part of the g014b2b split, their pronunciations (with stress, the first one listed) from
CMUdict. Each letter of a word is given a chunk of 0 to 2 phonemes: expectation maximisation over p(chunk | letter), then
the most likely path that uses only the chunks of a small inventory.
"""
import argparse
import collections
import os

import numpy as np

from rates import read_cmudict

LETTERS = "abcdefghijklmnopqrstuvwxyz'"
OUTSIDE, UNKNOWN, FIRST_LETTER = 0, 1, 2
NEVER = -1e9


def read_split(folder):
    """Training words with pronunciations, and the test words."""
    listed = read_cmudict(os.path.join(folder, "cmudict.dict"))
    cmudict = {word: tuple(pronunciations[0]) for word, pronunciations in listed.items()}
    train = {}
    with open(os.path.join(folder, "g014b2b.train"), encoding="ascii") as lines:
        for line in lines:
            word = line.split("\t")[0].lower()
            if word in cmudict and all(c in LETTERS for c in word):
                train[word] = cmudict[word]
    with open(os.path.join(folder, "g014b2b.words"), encoding="ascii") as lines:
        test = [line.strip().lower() for line in lines]
    return train, test, cmudict


def letter_ids(word):
    return [LETTERS.index(c) + FIRST_LETTER if c in LETTERS else UNKNOWN for c in word]


class Group:
    """Words of one length with pronunciations of one length, aligned together."""

    def __init__(self, pairs, number):
        self.pairs = pairs
        self.letters = np.array([letter_ids(word) for word, _ in pairs])
        self.phones = np.array([[number[p.rstrip("012")] for p in phones] for _, phones in pairs])

    def scores(self, log_p):
        """For chunk lengths 0, 1, 2: the score of letter t saying the phonemes that end before j; [words, n, m + 1]."""
        count, n = self.letters.shape
        m = self.phones.shape[1]
        letters = self.letters[:, :, None]
        out = np.full((3, count, n, m + 1), NEVER)
        out[0] = log_p[0][letters]
        out[1][:, :, 1:] = log_p[1][letters, self.phones[:, None, :]]
        if m > 1:
            out[2][:, :, 2:] = log_p[2][letters, self.phones[:, None, :-1], self.phones[:, None, 1:]]
        return out


def shifted(scores, by):
    out = np.full_like(scores, NEVER)
    out[:, by:] = scores[:, :scores.shape[1] - by]
    return out


def expected_counts(group, log_p, counts):
    """One expectation step; returns the log-likelihood."""
    s = group.scores(log_p)
    _, count, n, width = s.shape
    ahead = np.full((n + 1, count, width), NEVER)
    ahead[0, :, 0] = 0
    for t in range(n):
        ahead[t + 1] = np.logaddexp.reduce([shifted(ahead[t], k) + s[k][:, t] for k in range(3)])
    back = np.full((n + 1, count, width), NEVER)
    back[n, :, -1] = 0
    for t in range(n - 1, -1, -1):
        parts = []
        for k in range(3):
            reached = back[t + 1] + s[k][:, t]
            moved = np.full_like(reached, NEVER)
            moved[:, :width - k] = reached[:, k:]
            parts.append(moved)
        back[t] = np.logaddexp.reduce(parts)
    total = ahead[n, :, -1]
    good = total > NEVER / 2
    for t in range(n):
        letter = group.letters[:, t]
        for k in range(3):
            p = np.exp(shifted(ahead[t], k) + s[k][:, t] + back[t + 1] - total[:, None]) * good[:, None]
            if k == 0:
                np.add.at(counts[0], letter, p.sum(1))
            elif k == 1:
                np.add.at(counts[1], (letter[:, None], group.phones), p[:, 1:])
            elif width > 2:
                np.add.at(counts[2], (letter[:, None], group.phones[:, :-1], group.phones[:, 1:]), p[:, 2:])
    return total[good].sum()


def best_path(group, scores):
    """Chunk lengths of each letter of each word; None for words that have no path."""
    _, count, n, width = scores.shape
    best = np.full((count, width), NEVER)
    best[:, 0] = 0
    taken = np.zeros((n, count, width), np.int8)
    for t in range(n):
        options = np.stack([shifted(best, k) + scores[k][:, t] for k in range(3)])
        taken[t] = options.argmax(0)
        best = options.max(0)
    paths = []
    for i in range(count):
        if best[i, -1] < NEVER / 2:
            paths.append(None)
            continue
        j, lengths = width - 1, []
        for t in range(n - 1, -1, -1):
            lengths.append(int(taken[t, i, j]))
            j -= lengths[-1]
        paths.append(lengths[::-1])
    return paths


def cut(phones, lengths):
    at, chunks = 0, []
    for length in lengths:
        chunks.append(" ".join(phones[at:at + length]))
        at += length
    return chunks


def groups_of(train, number):
    by_shape = collections.defaultdict(list)
    for word, phones in train.items():
        if len(phones) <= 2 * len(word):
            by_shape[len(word), len(phones)].append((word, phones))
    return [Group(pairs, number) for pairs in by_shape.values()]


def fit(groups, phone_count, rounds):
    letter_count = len(LETTERS) + FIRST_LETTER
    log_p = [np.full(letter_count, -2.0), np.full((letter_count, phone_count), -4.0),
             np.full((letter_count, phone_count, phone_count), -9.0)]
    for i in range(rounds):
        counts = [np.zeros_like(p) for p in log_p]
        likelihood = sum(expected_counts(group, log_p, counts) for group in groups)
        total = counts[0] + counts[1].sum(1) + counts[2].sum((1, 2)) + 1e-9
        with np.errstate(divide="ignore"):
            log_p = [np.maximum(np.log(c / total.reshape((-1,) + (1,) * (c.ndim - 1))), -30.0) for c in counts]
        # Two phonemes from one letter must earn it: without this, neighbours of silent letters swallow everything.
        log_p[2] -= 1.0
        print(f"alignment round {i + 1}: log-likelihood {likelihood:.0f}", flush=True)
    return log_p


def inventory(aligned, size):
    count = collections.Counter(chunk for chunks in aligned.values() for chunk in chunks)
    single = sorted(c for c in count if c and " " not in c)
    double = [c for c, _ in count.most_common() if " " in c][:size - 1 - len(single)]
    return [""] + single + double


def align(train, size, rounds):
    phones = sorted({p.rstrip("012") for pron in train.values() for p in pron})
    number = {p: i for i, p in enumerate(phones)}
    groups = groups_of(train, number)
    log_p = fit(groups, len(phones), rounds)
    aligned, chunks = {}, None
    for restricted in (False, True):
        if restricted:
            chunks = inventory(aligned, size)
            # Pairs outside the inventory are forbidden, with stress where it matters below.
            allowed = {tuple(p.rstrip("012") for p in c.split()) for c in chunks if " " in c}
            for a in phones:
                for b in phones:
                    if (a, b) not in allowed:
                        log_p[2][:, number[a], number[b]] = NEVER
        aligned = {}
        for group in groups:
            for (word, pron), path in zip(group.pairs, best_path(group, group.scores(log_p))):
                if path is not None:
                    aligned[word] = cut(pron, path)
    known = set(chunks)
    fits = {w: c for w, c in aligned.items() if all(x in known for x in c)}
    return fits, chunks


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("folder", help="with cmudict.dict, g014b2b.train and g014b2b.words")
    args.add_argument("out", help=".npz")
    args.add_argument("--classes", type=int, default=128)
    args.add_argument("--rounds", type=int, default=8)
    options = args.parse_args()
    train, test, cmudict = read_split(options.folder)
    aligned, chunks = align(train, options.classes, options.rounds)
    number = {c: i for i, c in enumerate(chunks)}
    words = sorted(aligned)
    width = max(map(len, words))
    letters = np.zeros((len(words), width), np.uint8)
    labels = np.zeros((len(words), width), np.uint8)
    for i, word in enumerate(words):
        letters[i, :len(word)] = letter_ids(word)
        labels[i, :len(word)] = [number[c] for c in aligned[word]]
    np.savez_compressed(options.out, letters=letters, labels=labels, words=np.array(words), chunks=np.array(chunks),
                        test=np.array(test), reference=np.array([" ".join(cmudict.get(w, ())) for w in test]))
    print(f"{len(train)} training words, {len(aligned)} aligned with {len(chunks)} chunks")


if __name__ == "__main__":
    main()
