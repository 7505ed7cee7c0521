"""Words and text to phonemes: ARPAbet with stress, as in CMUdict. The model lies inside the library."""

from __future__ import annotations

import _thread
import os

from . import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, overload

# As in stoker/g2p.h.
_PUNCTUATION, _LEXICON, _PREDICTED, _OOV, _SPELLED = 1, 2, 4, 8, 16
_CUT, _EXPANDED, _GUESSED, _COMMON, _SIGN = 32, 64, 128, 256, 512
_DROPPED = frozenset(';:()"')  # marks that g2p_en leaves out


class Token:
    """A word of a text as it is spoken, or a mark."""

    __slots__ = ("text", "phonemes", "flags")

    text: str  # lower case; "" when nothing of it can be read
    phonemes: list[str]
    flags: int

    def __init__(self, text: str, phonemes: list[str], flags: int) -> None:
        self.text = text
        self.phonemes = phonemes
        self.flags = flags

    @property
    def punctuation(self) -> bool:
        """A mark, not a word."""
        return bool(self.flags & _PUNCTUATION)

    @property
    def oov(self) -> bool:
        """Lexicons were given, and none of them has it."""
        return bool(self.flags & _OOV)

    @property
    def spelled(self) -> bool:
        """Letter by letter: "BBC"."""
        return bool(self.flags & _SPELLED)

    @property
    def cut(self) -> bool:
        """Too long for the model: the end is missing."""
        return bool(self.flags & _CUT)

    @property
    def expanded(self) -> bool:
        """Not written like this: part of a number, an amount, an abbreviation."""
        return bool(self.flags & _EXPANDED)

    @property
    def unknown(self) -> bool:
        """Has letters that the model does not know, which were left out."""
        return bool(self.flags & _GUESSED)

    @property
    def sign(self) -> bool:
        """A sign or a picture that is not spoken: no phonemes."""
        return bool(self.flags & _SIGN)

    @property
    def origin(self) -> str:
        """Where the phonemes are from: "lexicon", "common", "model", "letters", "mark" or "none"."""
        flags = self.flags
        if flags & _PUNCTUATION:
            return "mark"
        if flags & _SPELLED:
            return "letters"
        if flags & _LEXICON:
            return "lexicon"
        if flags & _COMMON:
            return "common"
        return "model" if flags & _PREDICTED else "none"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Token):
            return NotImplemented
        return (self.text, self.phonemes, self.flags) == (other.text, other.phonemes, other.flags)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        names = ("punctuation", "oov", "spelled", "cut", "expanded", "unknown", "sign")
        flags = "".join(f", {name}" for name in names if getattr(self, name))
        return f"<stoker.Token {self.text!r}: {' '.join(self.phonemes)}{flags}>"


class G2p:
    """Phonemes by a model and lexicons. Any thread may use it.

    lexicons: files as CMUdict; a word of a later one hides that of an earlier one
    model: a .npz file, g2p_en's checkpoint20.npz or of our own; None: the model in the library
    precision: "int8", which is fast and the same on every CPU, or "fp32"
    common: whether the library's list of common words that no model reads well is used

    Called with a text it gives the list that g2p_en gives, so `from stoker import G2p` can stand for
    `from g2p_en import G2p`:

        >>> stoker.G2p()("Big dogs ran.")
        ['B', 'IH1', 'G', ' ', 'D', 'AO1', 'G', 'Z', ' ', 'R', 'AE1', 'N', ' ', '.']
    """

    __slots__ = ("_core", "_settings")

    _core: _core.G2p
    _settings: tuple[tuple[str, ...], str | None, str, bool]

    def __init__(
        self,
        lexicons: Iterable[str | os.PathLike[str]] = (),
        *,
        model: str | os.PathLike[str] | None = None,
        precision: str = "int8",
        common: bool = True,
    ) -> None:
        if isinstance(lexicons, (str, bytes, os.PathLike)):
            raise TypeError(f"G2p: lexicons: wanted a list of paths, found {lexicons!r}")
        paths = tuple(os.fspath(path) for path in lexicons)
        path = None if model is None else os.fspath(model)
        self._core = _core.G2p(model=path, precision=precision, lexicons=paths, common=common)
        self._settings = (paths, path, precision, common)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, self._settings

    def __call__(self, text: str) -> list[str]:
        """Phonemes of a text with " " between words and marks, as g2p_en gives them; so ; : ( ) " are left out."""
        return _join(self._core.text(text))

    def word(self, word: str) -> list[str]:
        """Phonemes of one word as it is: nothing is split or expanded. What cannot be read is ["<unk>"]."""
        return self._core.word(word)

    def words(self, words: Iterable[str]) -> list[list[str]]:
        """Phonemes of each word, as `word` gives them; many at once are faster."""
        if isinstance(words, str):
            raise TypeError(f"words: wanted a list of words, found the str {words!r}")
        return self._core.words(words if isinstance(words, (list, tuple)) else list(words))

    def tokens(self, text: str) -> list[Token]:
        """Running text word by word, as it is spoken, with what is known about each word."""
        return [Token(*token) for token in self._core.text(text)]

    def __repr__(self) -> str:
        lexicons, model, precision, common = self._settings
        return f"stoker.G2p(lexicons={list(lexicons)!r}, model={model!r}, precision={precision!r}, common={common!r})"


def _again(lexicons: tuple[str, ...], model: str | None, precision: str, common: bool) -> G2p:
    return G2p(lexicons, model=model, precision=precision, common=common)


def _join(tokens: list[tuple[str, list[str], int]]) -> list[str]:
    out: list[str] = []
    for text, phonemes, flags in tokens:
        if not phonemes or (flags & _PUNCTUATION and text in _DROPPED):
            continue
        if out:
            out.append(" ")
        out += phonemes
    return out


_lock = _thread.allocate_lock()
_default: G2p | None = None


def _shared() -> G2p:
    global _default
    if _default is None:
        with _lock:
            if _default is None:
                _default = G2p()
    return _default


def _new_lock() -> None:
    global _lock
    _lock = _thread.allocate_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)  # a thread that is not here may hold it

if TYPE_CHECKING:

    @overload
    def g2p(text: str) -> list[str]: ...  # type: ignore[overload-overlap,unused-ignore]
    @overload
    def g2p(text: Iterable[str]) -> list[list[str]]: ...


def g2p(text: str | Iterable[str]) -> list[str] | list[list[str]]:
    """Phonemes of a word, of running text, or of each word of a list, by the model in the library.

    A str is read as `stoker g2p` reads it: numbers, amounts and abbreviations are spoken out, and " " stands between
    words. Words of a list are taken as they are. `stoker.G2p` takes lexicons, and tells more.

        >>> stoker.g2p("aardvark")
        ['AA1', 'R', 'D', 'V', 'AA2', 'R', 'K']
        >>> stoker.g2p(["big", "dogs"])
        [['B', 'IH1', 'G'], ['D', 'AO1', 'G', 'Z']]
    """
    if isinstance(text, str):
        return _shared()(text)
    if isinstance(text, (bytes, bytearray)) or not hasattr(text, "__iter__"):
        raise TypeError(f"g2p: wanted a str or a list of words, found {text!r}")
    return _shared().words(text)
