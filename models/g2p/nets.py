"""The networks: large teachers and the small student that is shipped.

All of them give each letter one chunk of phonemes, from the first letter to the last, knowing the whole word and the
chunks given so far. Batches hold words of one length: nothing is padded.
"""
import torch
from torch import nn
from torch.nn import functional

from data import FIRST_LETTER, LETTERS

LETTER_IDS = len(LETTERS) + FIRST_LETTER


class Window(nn.Module):
    """Letters around each place, `width` of them, as one vector: a sum of table rows once a matrix is behind it."""

    def __init__(self, width, size):
        super().__init__()
        self.width, self.size = width, size
        self.rows = nn.Embedding(width * LETTER_IDS, size)

    def forward(self, letters):
        side = self.width // 2
        around = functional.pad(letters, (side, side)).unfold(1, self.width, 1)
        offsets = torch.arange(self.width, device=letters.device) * LETTER_IDS
        return self.rows(around + offsets).flatten(2)


class Pairs(nn.Module):
    """Each letter together with its neighbour on one side: a row of a table."""

    def __init__(self, before, size):
        super().__init__()
        self.before = before
        self.rows = nn.Embedding(LETTER_IDS * LETTER_IDS, size)

    def forward(self, letters):
        if self.before:
            neighbour = functional.pad(letters[:, :-1], (1, 0))
        else:
            neighbour = functional.pad(letters[:, 1:], (0, 1))
        return self.rows(letters * LETTER_IDS + neighbour)


class Speller(nn.Module):
    """What both have in common: teacher forcing, greedy decoding."""

    def begin(self, letters):
        raise NotImplementedError

    def step(self, inputs, previous, state):
        raise NotImplementedError

    def decode(self, letters):
        """Greedy; chunks [words, letters]."""
        return decode_together([self], letters)[0]


def decode_together(models, letters, keep=0):
    """Greedy decoding by the mean of the models' probabilities; also the `keep` largest of these, with their classes."""
    count, length = letters.shape
    inputs = [m.begin(letters) for m in models]
    states = [None] * len(models)
    previous = torch.full((count,), models[0].classes, dtype=torch.long, device=letters.device)
    chunks, tops = [], []
    for t in range(length):
        mean = 0
        for i, m in enumerate(models):
            logits, states[i] = m.step(inputs[i][:, t:t + 1], previous[:, None], states[i])
            mean = mean + logits[:, 0].float().softmax(-1)
        previous = mean.argmax(-1)
        chunks.append(previous)
        if keep:
            tops.append((mean / len(models)).topk(keep, -1))
    top = tuple(torch.stack([getattr(x, a) for x in tops], 1) for a in ("values", "indices")) if keep else None
    return torch.stack(chunks, 1), top


def starts(labels, classes):
    """The chunk before each chunk; the first one's is the start mark."""
    return functional.pad(labels[:, :-1], (1, 0), value=classes)


class Teacher(Speller):
    def __init__(self, classes, kind="lstm", units=512, dropout=0.35):
        super().__init__()
        self.classes, self.kind = classes, kind
        self.window = Window(5, 96)
        self.drop = nn.Dropout(dropout)
        if kind == "lstm":
            self.encoder = nn.LSTM(480, units, 3, bidirectional=True, batch_first=True, dropout=dropout)
            encoded = 2 * units
        else:
            encoded = 480
            self.places = nn.Embedding(64, encoded)
            self.ends = nn.Embedding(64, encoded)
            layer = nn.TransformerEncoderLayer(encoded, 8, 4 * encoded, dropout * 0.5, batch_first=True, norm_first=True)
            self.encoder = nn.TransformerEncoder(layer, 5, norm=nn.LayerNorm(encoded), enable_nested_tensor=False)
        self.chunks = nn.Embedding(classes + 1, 128)
        self.decoder = nn.LSTM(encoded + 128, units, 1, batch_first=True)
        self.out = nn.Linear(units + encoded, classes)

    def begin(self, letters):
        x = self.window(letters)
        if self.kind == "lstm":
            return self.drop(self.encoder(self.drop(x))[0])
        place = torch.arange(letters.shape[1], device=letters.device).clamp(max=63)
        return self.drop(self.encoder(self.drop(x + self.places(place) + self.ends(place.flip(0)))))

    def step(self, inputs, previous, state):
        h, state = self.decoder(torch.cat([inputs, self.drop(self.chunks(previous))], -1), state)
        return self.out(torch.cat([self.drop(h), inputs], -1)), state

    def forward(self, letters, previous):
        return self.step(self.begin(letters), previous, None)[0]


class Student(Speller):
    """A backward GRU over the letters, then a forward GRU over its states, the letters and the chunks given."""

    def __init__(self, classes, backward_units=96, units=96, width=5, forward_units=0, pairs=0):
        super().__init__()
        self.classes, self.width = classes, width
        self.shape = dict(backward_units=backward_units, units=units, width=width, forward_units=forward_units, pairs=pairs)
        self.letters_backward, self.letters = Window(width, 32), Window(width, 32)
        self.pairs_backward, self.pairs = (Pairs(True, pairs), Pairs(False, pairs)) if pairs else (None, None)
        self.backward_gru = nn.GRU(32 * width + pairs, backward_units, batch_first=True)
        self.forward_gru = nn.GRU(32 * width + pairs, forward_units, batch_first=True) if forward_units else None
        self.chunks = nn.Embedding(classes + 1, 96)
        self.decoder = nn.GRU(32 * width + pairs + backward_units + forward_units + 96, units, batch_first=True)
        self.out = nn.Linear(units, classes)

    def begin(self, letters):
        x, y = self.letters_backward(letters), self.letters(letters)
        if self.pairs:
            x, y = torch.cat([x, self.pairs_backward(letters)], -1), torch.cat([y, self.pairs(letters)], -1)
        parts = [y, self.backward_gru(x.flip(1))[0].flip(1)]
        if self.forward_gru:
            parts.append(self.forward_gru(x)[0])
        return torch.cat(parts, -1)

    def step(self, inputs, previous, state):
        h, state = self.decoder(torch.cat([inputs, self.chunks(previous)], -1), state)
        return self.out(h), state

    def forward(self, letters, previous):
        return self.step(self.begin(letters), previous, None)[0]


class LetterModel(nn.Module):
    """Makes up words that look like those of the training part."""

    def __init__(self, units=512):
        super().__init__()
        self.letters = nn.Embedding(LETTER_IDS, 64)
        self.gru = nn.GRU(64, units, 2, batch_first=True, dropout=0.3)
        self.out = nn.Linear(units, LETTER_IDS)

    def forward(self, letters, state=None):
        h, state = self.gru(self.letters(letters), state)
        return self.out(h), state
