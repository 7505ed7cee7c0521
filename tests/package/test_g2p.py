"""Words and text to phonemes: forms, lexicons, threads, fork, memory, mistakes."""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import pickle
import resource
import subprocess
import sys
import threading

import pytest

import stoker

LEXICON = "hello HH AH0 L OW1\nworld W ER1 L D\nthe DH AH0\nx-ray EH1 K S R EY2\n"


@pytest.fixture
def lexicon() -> str:
    pathlib.Path("small.dict").write_text(LEXICON)
    return "small.dict"


def test_a_word_gives_its_phonemes() -> None:
    assert stoker.g2p("aardvark") == ["AA1", "R", "D", "V", "AA2", "R", "K"]
    assert stoker.g2p("AARDVARK") == stoker.g2p("aardvark")


def test_a_list_gives_a_list_for_each_word() -> None:
    words = ["big", "dogs", "aardvark"]
    assert stoker.g2p(words) == [stoker.g2p(word) for word in words]
    assert stoker.g2p(tuple(words)) == stoker.g2p(iter(words)) == stoker.g2p(words)
    assert stoker.g2p([]) == []
    assert stoker.g2p(["42", "!"]) == [["<unk>"], ["<unk>"]]


def test_text_is_given_as_g2p_en_gives_it() -> None:
    found = stoker.G2p()("Big dogs ran.")
    assert found == ["B", "IH1", "G", " ", "D", "AO1", "G", "Z", " ", "R", "AE1", "N", " ", "."]
    assert stoker.g2p("Big dogs ran.") == found


def test_numbers_and_abbreviations_are_spoken_out() -> None:
    assert stoker.g2p("Dr. Smith paid $5.") == stoker.g2p("doctor smith paid five dollars.")
    assert stoker.g2p("42") == stoker.g2p("forty two")


def test_marks_that_g2p_en_leaves_out_are_left_out() -> None:
    assert stoker.g2p('big; (dogs): "ran"') == stoker.g2p("big dogs ran")
    assert stoker.g2p("big, dogs! ran?")[3:5] == [" ", ","]
    assert [token.text for token in stoker.G2p().tokens("big; dogs")] == ["big", ";", "dogs"]


def test_no_text_gives_nothing() -> None:
    assert stoker.g2p("") == stoker.g2p("  \n ") == stoker.g2p("😀") == []


def test_tokens_tell_what_is_known(lexicon: str) -> None:
    tokens = {token.text: token for token in stoker.G2p([lexicon]).tokens("Hello BBC; blorf $5 the Москва 😀")}
    assert tokens["hello"].phonemes == ["HH", "AH0", "L", "OW1"]
    assert tokens["hello"].origin == "lexicon" and not tokens["hello"].oov
    assert tokens["bbc"].spelled and tokens["bbc"].oov and tokens["bbc"].origin == "letters"
    assert tokens[";"].punctuation and tokens[";"].origin == "mark"
    assert tokens["blorf"].oov and tokens["blorf"].origin == "model"
    assert tokens["five"].expanded and not tokens["the"].expanded
    flags = [(token.unknown, token.sign, token.cut) for token in tokens.values() if not token.text]
    assert (False, True, False) in flags
    assert "oov" in repr(tokens["blorf"]) and "B L AO1 R F" in repr(tokens["blorf"])
    assert stoker.G2p([lexicon]).tokens("hello")[0] == tokens["hello"] != tokens["the"]


def test_words_are_taken_as_they_are(lexicon: str) -> None:
    g = stoker.G2p([lexicon])
    assert g.word("x-ray") == ["EH1", "K", "S", "R", "EY2"]
    assert g.words(["hello", "world"]) == [["HH", "AH0", "L", "OW1"], ["W", "ER1", "L", "D"]]
    assert g.word("ltd") != stoker.g2p("ltd")


def test_later_lexicons_hide_earlier_ones(lexicon: str) -> None:
    own = pathlib.Path("own.dict")
    own.write_text("world W ER1 L D Z\n")
    assert stoker.G2p([lexicon, own]).word("world") == ["W", "ER1", "L", "D", "Z"]
    assert stoker.G2p([own, lexicon]).word("world") == ["W", "ER1", "L", "D"]


def test_options_reach_the_model() -> None:
    plain, without = stoker.G2p(), stoker.G2p(common=False)
    assert [token.origin for token in plain.tokens("of")] == ["common"]
    assert [token.origin for token in without.tokens("of")] == ["model"]
    assert stoker.G2p(precision="fp32").word("aardvark") == plain.word("aardvark")
    assert repr(without) == "stoker.G2p(lexicons=[], model=None, precision='int8', common=False)"


def test_the_program_says_the_same(build: pathlib.Path) -> None:
    text = "The quick brown fox paid $5 for 42 aardvarks."
    done = subprocess.run([build / "stoker", "g2p", text], capture_output=True, text=True, check=True)
    shown = [line.split("\t")[:2] for line in done.stdout.splitlines()]
    assert [[token.text, " ".join(token.phonemes)] for token in stoker.G2p().tokens(text)] == shown


def test_halves_of_surrogate_pairs_are_unknown_letters() -> None:
    assert stoker.g2p(["\ud800"]) == [["<unk>"]]
    assert stoker.g2p(["ab\udcffc"])[0] != ["<unk>"]
    assert stoker.G2p().tokens("a \udcff cat")[-1].text == "cat"


def test_nul_is_a_character_like_others() -> None:
    assert stoker.g2p("big\0dogs") != stoker.g2p("big")


def test_the_words_may_change_while_they_are_read() -> None:
    class Odd(list):  # type: ignore[type-arg]
        def __iter__(self):  # type: ignore[no-untyped-def]
            self.clear()
            return iter(["big"])

    assert stoker.G2p()._core.words(Odd(["x"])) == [["B", "IH1", "G"]]


def test_many_threads_share_one() -> None:
    words = [f"{a}{b}{c}" for a in "bcdfg" for b in ("a", "ee", "ou") for c in ("nd", "st", "rk", "lling", "tion")]
    g = stoker.G2p()
    wanted, text = g.words(words), g.tokens(" ".join(words))
    failures: list[object] = []

    def work() -> None:
        for _ in range(30):
            if g.words(words) != wanted or g.tokens(" ".join(words)) != text or g.word(words[3]) != wanted[3]:
                failures.append("differs")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_the_default_is_made_once_by_many_threads() -> None:
    code = """
import threading, stoker, stoker._g2p as module
made = []
class Counted(module.G2p):
    def __init__(self):
        made.append(1)
        super().__init__()
module.G2p = Counted
barrier = threading.Barrier(4)
def work():
    barrier.wait()
    assert stoker.g2p("big") == ["B", "IH1", "G"]
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(made))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


def say(word: str) -> list[str]:
    return stoker.g2p(word)


@pytest.mark.forks
def test_it_works_in_a_forked_child() -> None:
    wanted = stoker.g2p("aardvark")
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(say, ["aardvark"] * 8) == [wanted] * 8


def test_it_is_pickled_by_its_settings(lexicon: str) -> None:
    again = pickle.loads(pickle.dumps(stoker.G2p([lexicon], precision="fp32")))
    assert repr(again) == f"stoker.G2p(lexicons=['{lexicon}'], model=None, precision='fp32', common=True)"
    assert again.word("hello") == ["HH", "AH0", "L", "OW1"]


def test_memory_stays_flat(lexicon: str) -> None:
    g = stoker.G2p()

    def work(times: int) -> int:
        for _ in range(times):
            g.words(["big", "dogs"])
            g.tokens("Big dogs ran, 42 times.")
            with pytest.raises(TypeError):
                g.words(["big", 7])  # type: ignore[list-item]
            stoker.G2p([lexicon]).word("hello")
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = work(200)
    assert work(1000) - before < 4096  # KiB; what is lost per turn would be 8 MiB with 8 KiB


def test_mistakes_are_told(lexicon: str) -> None:
    pathlib.Path("bad.dict").write_text("fine F AY1 N\nbroken B QQ\n")
    with pytest.raises(stoker.Error, match="QQ") as caught:
        stoker.G2p(["bad.dict"])
    assert caught.value.file == "bad.dict"
    with pytest.raises(stoker.ReadError, match="missing.dict"):
        stoker.G2p([lexicon, "missing.dict"])
    with pytest.raises(stoker.Error, match="missing.npz"):
        stoker.G2p(model="missing.npz")
    with pytest.raises(ValueError, match="wanted 'int8' or 'fp32', found 'int4'"):
        stoker.G2p(precision="int4")
    with pytest.raises(TypeError, match="list of paths, found 'small.dict'"):
        stoker.G2p(lexicon)
    with pytest.raises(TypeError):
        stoker.G2p([7])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="found 7"):
        stoker.g2p(7)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="wanted a str or a list of words"):
        stoker.g2p(b"word")  # type: ignore[arg-type,call-overload,unused-ignore]
    with pytest.raises(TypeError, match="wanted a str, found"):
        stoker.g2p(["a", b"b"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="list of words, found the str"):
        stoker.G2p().words("word")
    with pytest.raises(TypeError, match="wanted a str"):
        stoker.G2p()(7)  # type: ignore[arg-type]


def test_paths_may_have_any_bytes() -> None:
    name = os.fsdecode(b"odd-\xff.dict")
    with open(name, "w") as file:
        file.write(LEXICON)
    assert stoker.G2p([name]).word("hello") == ["HH", "AH0", "L", "OW1"]
