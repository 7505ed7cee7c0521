#!/usr/bin/env python3
"""stoker g2p and the op from end to end, with lexicons made here. test_g2p_cli.py BUILD_DIR

The words that are compared all stand in a lexicon, so that nothing here depends on what the model was taught.
"""
import json
import os
import pty
import random
import re
import select
import signal
import subprocess
import sys
import time

import runlib

PHONEMES = "AA0 AA1 AA2 AE1 AH0 B CH D DH EH1 ER0 F G HH IY1 JH K L M N NG OW1 P R S SH T TH UW1 V W Y Z ZH".split()
DATA = os.environ.get("STOKER_G2P_DATA") or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "shared", "data", "g2p")


class Stoker:
    def __init__(self, program, directory):
        self.program, self.directory = program, directory
        self.env = dict(os.environ, XDG_CACHE_HOME=os.path.join(directory, "cache"))

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return self.path(name)

    def run(self, *arguments, code=0, data=b""):
        done = subprocess.run([self.program] + list(arguments), input=data, capture_output=True, env=self.env,
                              timeout=100, cwd=self.directory)
        assert done.returncode == code, (arguments, done.returncode, done.stderr.decode("utf-8", "replace")[-2000:])
        self.errors = done.stderr.decode("utf-8", "replace")
        return done.stdout.decode()

    def start(self, *arguments, **options):
        return subprocess.Popen([self.program] + list(arguments), env=self.env, cwd=self.directory, **options)


def call(test, program, directory):
    test(Stoker(program, directory))


def make_words(count, seed=1):
    """Different words of letters alone, that are neither short nor abbreviations; each with phonemes."""
    draw = random.Random(seed)
    words = {}
    while len(words) < count:
        word = "q" + "".join(draw.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(draw.randint(5, 14)))
        words[word] = " ".join(draw.choice(PHONEMES) for _ in range(draw.randint(1, 12)))
    return words


def dictionary(words):
    return "".join("%s  %s\n" % item for item in words.items())


def make_lines(words, count, seed=2):
    draw = random.Random(seed)
    names = list(words)
    lines = []
    for _ in range(count):
        size = draw.choice([0, 1, 3, 8, 8, 20]) if draw.random() < 0.99 else 3000
        lines.append([draw.choice(names) for _ in range(size)])
    return lines


def test_every_word_of_many_blocks_is_found(stoker):
    words = make_words(3000)
    stoker.write("x.dict", dictionary(words))
    lines = make_lines(words, 4000)
    text = "\n".join(" ".join(line) for line in lines).encode()
    assert len(text) > 5 * 65536  # several blocks
    found = stoker.run("g2p", "-q", "--lexicon", "x.dict", data=text)
    assert found == "".join("%s\t%s\n" % (word, words[word]) for line in lines for word in line)
    assert stoker.errors == ""
    found = stoker.run("g2p", "-l", "x.dict", "--format", "lines", data=text)
    assert found == "".join(" | ".join(words[word] for word in line) + "\n" for line in lines)
    count = sum(map(len, lines))
    assert re.match(r"%s words in [\d.]+ s, [\d,.]+ words/s; 100\.0 %% from the lexicon$" % format(count, ","),
                    stoker.errors.strip()), stoker.errors
    rows = [json.loads(line) for line in stoker.run("g2p", "-q", "-l", "x.dict", "-f", "json", data=text).splitlines()]
    assert [row["line"] for row in rows] == list(range(1, len(lines) + 1))
    for row, line in zip(rows, lines):
        assert [token["phonemes"] for token in row["tokens"]] == [words[word].split() for word in line]


def test_overlays_and_variants_are_as_python_reads_them(stoker):
    base, own = make_words(500), make_words(60, seed=9)
    own.update({word: "B AA1" for word in list(base)[::7]})
    variants = {word: "D UW1" for word in list(base)[::5]}
    stoker.write("base.dict", dictionary(base) + "".join("%s(2) %s\n" % item for item in variants.items()))
    stoker.write("own.dict", dictionary(own))
    wanted = []
    for word in sorted({**base, **own}):
        wanted.append("%s\t%s" % (word, own.get(word, base.get(word))))
        if word in variants and word not in own:
            wanted.append("%s(2)\t%s" % (word, variants[word]))
    found = stoker.run("g2p", "-q", "-l", "base.dict", "-l", "own.dict", "--variants",
                       data="\n".join(sorted({**base, **own})).encode())
    assert found.splitlines() == wanted
    upside_down = stoker.run("g2p", "-q", "-l", "own.dict", "-l", "base.dict", *list(base))
    assert upside_down == "".join("%s\t%s\n" % item for item in base.items())


def test_words_that_no_lexicon_has_are_flagged_and_counted(stoker):
    words = make_words(50)
    names = list(words)
    stoker.write("x.dict", dictionary({name: words[name] for name in names[:40]}))
    found = stoker.run("g2p", "-l", "x.dict", data="\n".join(names).encode()).splitlines()
    assert [line.split("\t")[0] for line in found] == names
    flags = [(line.split("\t") + ["", ""])[2].split(",") for line in found]
    assert ["oov" in f for f in flags] == [False] * 40 + [True] * 10
    assert "10 in no lexicon" in stoker.errors and "80.0 % from the lexicon" in stoker.errors
    without = stoker.run("g2p", "-q", *names)
    assert "oov" not in without and len(without.splitlines()) == 50


def test_the_op_gives_what_the_program_gives(stoker):
    words = make_words(300)
    stoker.write("x.dict", dictionary(words))
    lines = make_lines(words, 500)
    text = "".join(", ".join(line) + ".\n" if k % 3 else " ".join(line) + "\n" for k, line in enumerate(lines))
    text += "some words that no lexicon has, 42 of them\n"
    stoker.write("t.txt", text)
    names = stoker.run("g2p", "-q", "-l", "x.dict", "-f", "lines", data=text.encode()).splitlines()
    op = stoker.run("run", "-q", "-e", 'text("t.txt") | g2p(text, to=text, lexicon="x.dict", oov=n) | print')
    rows = [json.loads(line) for line in op.splitlines()]
    assert [row["text"] for row in rows] == names
    assert all(row["n"] == 0 for row in rows[:-1]) and rows[-1]["n"] > 0
    numbers = stoker.run("g2p", "-q", "-l", "x.dict", "-f", "lines", "--ids", data=text.encode()).splitlines()
    op = stoker.run("run", "-q", "--threads", "3", "-e",
                    'text("t.txt") | g2p(text, lexicon="x.dict") | batch(64) | print')
    rows = [json.loads(line) for line in op.splitlines()]
    assert [row["text"] for row in rows] == [[int(x) for x in line.split()] for line in numbers]
    symbols = dict(line.split("\t") for line in stoker.run("g2p", "--symbols").splitlines())
    assert [" ".join(symbols[x] for x in line.split()) for line in numbers] == names


def test_a_program_that_asks_line_by_line_is_answered(stoker):
    words = make_words(20)
    stoker.write("x.dict", dictionary(words))
    process = stoker.start("g2p", "-q", "-l", "x.dict", "-f", "lines", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        for word, phonemes in words.items():
            process.stdin.write(word.encode() + b"\n")
            process.stdin.flush()
            assert select.select([process.stdout], [], [], 60)[0], "no answer"
            assert process.stdout.readline().decode() == phonemes + "\n"
        process.stdin.close()
        assert process.wait(60) == 0 and process.stdout.read() == b""
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_an_interrupt_leaves_no_file(stoker):
    stoker.write("x.dict", "big B IY1 G\n")
    process = stoker.start("g2p", "-l", "x.dict", "-o", "out.txt", stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        process.stdin.write(b"big\n" * 1000)
        process.stdin.flush()
        end = time.monotonic() + 60
        while not [name for name in os.listdir(stoker.directory) if name.startswith(".out.txt.")]:
            assert time.monotonic() < end, "no file was begun"
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert not [name for name in os.listdir(stoker.directory) if "out.txt" in name]
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stderr.close()


def open_when_read(path):
    """The writing end of a pipe, once somebody reads it."""
    end = time.monotonic() + 60
    while True:
        try:
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            assert time.monotonic() < end, "nobody reads it"
            time.sleep(0.02)


def test_an_interrupt_ends_it_while_a_lexicon_is_read(stoker):
    os.mkfifo(stoker.path("pipe"))
    process = stoker.start("g2p", "-l", "pipe", "big")
    try:
        writer = open_when_read(stoker.path("pipe"))
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == -signal.SIGINT
        os.close(writer)
    finally:
        process.kill()
        process.wait()


def test_symbols_go_to_a_file_as_well(stoker):
    assert stoker.run("g2p", "--symbols", "-o", "symbols.txt") == ""
    with open(stoker.path("symbols.txt"), encoding="ascii") as file:
        assert file.read() == stoker.run("g2p", "--symbols")


def test_a_reader_that_goes_away_ends_it(stoker):
    stoker.write("x.dict", "big B IY1 G\n")
    text = stoker.write("t.txt", "big big big\n" * 200000)
    with open(text, "rb") as file:
        process = stoker.start("g2p", "-q", "-l", "x.dict", stdin=file, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr.read() == b""
        process.stderr.close()


def read_terminal(descriptor):
    data = b""
    while True:
        try:
            piece = os.read(descriptor, 65536)
        except OSError:  # the other side is closed
            return data
        if not piece:
            return data
        data += piece


def test_nothing_of_the_input_reaches_a_terminal_raw(stoker):
    stoker.write("x.dict", "big B IY1 G\n")
    evil = b"big \x1b[31m\x1b]0;title\x07 \xc2\x9b31m \xff\xfe \xe2\x80\xae\xd0\xbc \xd0\xbc\x08\n"
    for form in ("words", "lines", "json"):
        mine, other = pty.openpty()
        process = stoker.start("g2p", "-q", "-l", "x.dict", "-f", form, stdin=subprocess.PIPE, stdout=other)
        os.close(other)
        process.stdin.write(evil)
        process.stdin.close()
        shown = read_terminal(mine)
        os.close(mine)
        assert process.wait(60) == 0
        text = shown.decode("utf-8")  # valid, and no control character but the ends of lines
        assert not re.search("[\x00-\x09\x0b\x0c\x0e-\x1f\x7f\x80-\x9f\u202e]", text), (form, text)
        assert "big" in text or form == "lines"


def peak_bytes(stoker, path):
    with open(path, "rb") as file:
        process = stoker.start("g2p", "-q", "-l", "x.dict", "-f", "lines", stdin=file, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss * 1024


def test_memory_does_not_grow_with_the_input(stoker):
    stoker.write("x.dict", "big B IY1 G\n")
    small, large = stoker.write("s.txt", "big " * 700000), stoker.write("l.txt", "big " * 8000000)
    assert peak_bytes(stoker, large) < peak_bytes(stoker, small) + (24 << 20)


def test_any_bytes_give_an_answer(stoker):
    draw = random.Random(5)
    stoker.write("x.dict", "big B IY1 G\n")
    for size in (1, 100, 70000):
        data = bytes(draw.choice(b"ab \n\t'.,$5\xc3\xa9\xff\x00\xe2Q-") for _ in range(size))
        lines = stoker.run("g2p", "-q", "-l", "x.dict", "-f", "json", data=data).splitlines()
        assert len(lines) == data.count(b"\n") + (not data.endswith(b"\n"))
        for line in lines:
            for token in json.loads(line)["tokens"]:
                assert token["from"] in ("lexicon", "common", "model", "letters", "mark", "none")


def test_cmudict_comes_back_as_it_is(stoker):
    path = os.path.join(DATA, "cmudict.dict")
    if not os.path.exists(path):
        print("test_cmudict_comes_back_as_it_is: no %s, left out" % path)
        return
    first = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            word, *phonemes = line.split("#")[0].split()
            first.setdefault(re.sub(r"\(\d+\)$", "", word), " ".join(phonemes))
    plain = [word for word in first if re.fullmatch("[a-z]{5,}", word)]
    found = stoker.run("g2p", "-q", "-l", path, data="\n".join(plain).encode())
    wanted = ["%s\t%s" % (word, first[word]) for word in plain]
    assert found.splitlines() == wanted, [x for x in zip(found.splitlines(), wanted) if x[0] != x[1]][:5]


if __name__ == "__main__":
    sys.exit(runlib.main(dict(globals()), call))
