#!/usr/bin/env python3
"""Error rates of `stoker g2p` on words that its model has not seen, against CMUdict. Reporting only: nothing is chosen by them.

    evaluate.py FOLDER STOKER [OPTION OF stoker g2p]...

FOLDER has cmudict.dict and the g014b2b split (g014b2b.train, g014b2b.words). Three sets of words: the 12,000 test words of
the split; those of today's CMUdict that are in neither part of it; and, with --old FILE (a CMUdict 0.7a), those added
since. WER: words with any mistake; PER: phonemes inserted, left out or changed, against the first pronunciation listed.
"""
import os
import re
import subprocess
import sys

from rates import distance, plain, read_cmudict


def words_of(path):
    with open(path, encoding="latin-1") as lines:
        return [line.split("\t")[0].strip().lower() for line in lines]


def pronounce(command, words):
    out = subprocess.run([*command, "--literal", "--no-common", "--quiet"], input="".join(w + "\n" for w in words), text=True, check=True,
                         stdout=subprocess.PIPE).stdout.splitlines()
    found = [line.split("\t") for line in out]
    assert [f[0] for f in found] == words, "other words came back than were given"
    return [f[1].split() for f in found]


def report(name, words, found, listed):
    print(f"{name}: {len(words)} words")
    for label, form in (("with stress", lambda p: p), ("without", plain)):
        first = any_ = edits = total = 0
        for word, f in zip(words, found):
            prons = [form(p) for p in listed[word]]
            f = form(f)
            first += f != prons[0]
            any_ += f not in prons
            edits += distance(f, prons[0])
            total += len(prons[0])
        n = len(words)
        print(f"  {label:11}  WER {100 * first / n:5.2f} % (any listed pronunciation {100 * any_ / n:5.2f} %)  "
              f"PER {100 * edits / total:5.2f} %")


def main():
    arguments = sys.argv[1:]
    old = None
    if "--old" in arguments:
        at = arguments.index("--old")
        old = arguments[at + 1]
        del arguments[at:at + 2]
    if len(arguments) < 2:
        sys.exit(__doc__)
    folder, command = arguments[0], [arguments[1], "g2p", *arguments[2:]]
    listed = read_cmudict(os.path.join(folder, "cmudict.dict"))
    test = words_of(os.path.join(folder, "g014b2b.words"))
    split = set(test) | set(words_of(os.path.join(folder, "g014b2b.train")))
    sets = [("test words of g014b2b", [w for w in test if w in listed])]
    later = [w for w in listed if w not in split and re.fullmatch("[a-z]+", w)]
    sets.append(("in CMUdict, not in the split", later))
    if old:
        known = read_cmudict(old)
        sets.append(("added after 0.7a, not in the split", [w for w in later if w not in known]))
    for name, words in sets:
        report(name, words, pronounce(command, words), listed)
    missing = sum(w not in listed for w in test)
    print(f"{missing} test words are no longer in CMUdict and are left out")


if __name__ == "__main__":
    main()
