"""What counts as a mistake."""


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
