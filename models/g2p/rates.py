"""The dictionary that answers are held against, and what counts as a mistake."""
import re


def read_cmudict(path):
    """Word to its pronunciations, as they are listed."""
    listed = {}
    with open(path, encoding="latin-1") as lines:
        for line in lines:
            fields = line.split("#")[0].split()
            if len(fields) > 1 and not line.startswith(";;;"):
                listed.setdefault(re.sub(r"\(\d+\)$", "", fields[0].lower()), []).append(fields[1:])
    return listed


def distance(a, b):
    """The fewest phonemes inserted, left out or changed that make b of a."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def plain(phones):
    """Without stress."""
    return [p.rstrip("012") for p in phones]
