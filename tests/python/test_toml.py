#!/usr/bin/env python3
"""Our TOML reader against Python's tomllib, on documents by hand and on thousands of mutated ones: test_toml.py BUILD_DIR"""
import datetime
import json
import math
import os
import random
import subprocess
import sys

import runlib

try:
    import tomllib
except ImportError:
    print("no tomllib (Python 3.11 has it)")
    sys.exit(77)

SEED = 20260101
MUTATIONS = 6000

# Each on its own: what TOML 1.0 takes ...
GOOD = [
    "", "\n", "# only a comment", "# comment\r\n\r\n", "a = 1", "a = 1 # c", "\ta\t=\t1\t", "a=1\r\nb=2\r\n",
    "bare_key-9 = 1", "1234 = 1", "\"quoted key\" = 1", "'literal \\ key' = 1", "\"\" = 1", "'' = 1", "\"a\\u00e9\" = 1",
    "a.b.c = 1", "a . b\t.\tc = 1", "a.\"b.c\".'d' = 1", "3.14159 = 'pi'", "a.b = 1\na.c = 2", "a.b.c = 1\na.d = 2",
    "true = 1\ninf = 2\nnan.true = 3",
    "a = \"\"", "a = ''", "a = \"x\"", "a = 'x\\y'", r'a = "\b\t\n\f\r\"\\\u0041\U0001F600"', "a = \"tab\tin\"",
    'a = """"""', "a = ''''''", 'a = """\nx\ny\n"""', "a = '''\nx\\n\ny'''", 'a = """x\\\n   \n  y"""', 'a = """x\\  \t \n y"""',
    'a = """"x""""', 'a = """""x"""""', "a = ''''x''''", "a = '''''x'''''", 'a = """a"b""c"""', 'a = """\r\nx\r\ny"""',
    'a = """x \\\r\n   y"""', 'a = """\\\n"""', "a = '''a\tb'''", r'a = """\"""" # c', r'a = "\\"', "a = 'é 漢字 😀'",
    "a = 0", "a = -0", "a = +0", "a = +99", "a = -17", "a = 1_000", "a = 1_2_3", "a = 9223372036854775807",
    "a = -9223372036854775808", "a = 0xDEADBEEF", "a = 0xdead_beef", "a = 0o755", "a = 0o0", "a = 0b1101_0110", "a = 0x0",
    "a = 0x00ff", "a = 0x7fffffffffffffff",
    "a = 1.0", "a = -0.01", "a = +1.5", "a = 5e+22", "a = 1e06", "a = -2E-2", "a = 6.626e-34", "a = 224_617.445_991_228",
    "a = 0.0", "a = -0.0", "a = 0e0", "a = 1e1_0", "a = inf", "a = +inf", "a = -inf", "a = nan", "a = +nan", "a = -nan",
    "a = 1e400", "a = 1e-400", "a = 0.1", "a = 123456789012345678901234567890.5",
    "a = true", "a = false", "a=true#x",
    "a = 1979-05-27T07:32:00Z", "a = 1979-05-27T00:32:00-07:00", "a = 1979-05-27T00:32:00.999999-07:00",
    "a = 1979-05-27 07:32:00z", "a = 1979-05-27t07:32:00", "a = 1979-05-27", "a = 07:32:00", "a = 00:32:00.999999",
    "a = 1979-05-27 # c", "a = 1979-05-27  ", "a = [1979-05-27, 07:32:00]", "a = 2024-02-29", "a = 2000-02-29",
    "a = 00:00:00.1234567890123", "a = 1979-05-27 00:32:00+23:59", "a = 9999-12-31T23:59:59Z",
    "a = []", "a = [ ]", "a = [\n]", "a = [1]", "a = [1,]", "a = [1, 2\n, # c\n3,\n]", "a = [[1, 2], ['x'], []]",
    "a = [1, 'x', true, {b = 1}]", "a = [ # c\n# d\n\n1 # e\n]", "a = [[[[[]]]]]", "a = [\"]\", '#']",
    "a = {}", "a = { }", "a = {b = 1}", "a = { b = 1, c = 'x' }", "a = {b.c = 1, b.d = 2}", "a = {b = {c = {}}}",
    "a = {b = [1,\n2]}", "a = {b = '''\n'''}", "a = {\"b\" = 1, 'c' = 2}", "a = {b.c = 1, d = {e.f = 2, e.g = 3}}",
    "a.b = {c = 1}\na.d = 1", "a = [{b = 1}, {b = 2}]", "a = [{}, {}]",
    "[a]", "[ a ]", "[a.b]", "[a . b]", "[\"a.b\".c]", "[a]\nb = 1", "[a] # c", "[a]\n[b]", "[a.b]\n[a]", "[a.b.c]\n[a]\nx = 1",
    "[a]\n[a.b]", "[a.b]\n[a.c]\n[a]", "['']", "[a.'']\nb=1", "[a]\r\nb=1\r\n[b]", "a=1\n[b]\na=1",
    "[fruit]\napple.color = 'red'\napple.taste.sweet = true\n[fruit.apple.texture]\nsmooth = true",
    "[a.b.c]\nz = 9\n[a]\nb.d = 1", "[a.b.c]\nz = 9\n[a]\nb.d = 1\nb.e = 2", "[a]\nb.c = 1\n[a.b.d]\n[a.b.e]",
    "[[a]]", "[[ a ]]", "[[a]]\n[[a]]", "[[a.b]]", "[[a]]\nx = 1\n[a.b]\ny = 2\n[[a]]\n[a.b]\ny = 3", "[[a]]\n[[a.b]]\n[[a.b]]\n[[a]]\n[[a.b]]",
    "[a]\n[[a.b]]", "[[a.b]]\n[a]", "[[a.b]]\n[a]\nc = 1", "[[a]]\nb.c = 1\nb.d = 2\n[[a]]\nb.c = 3", "[[a]]\n[a.b.c]\n[a.b]",
    "[x.y.z.w]\n[x]", "[[a]]\nb = {c = 1}\n[[a]]\nb = 2", "[[a.b]]\n[a]\nc.d = 1", "a = 1\n[b.c]\nd = 2\n[[b.e]]\nf = 3",
]
# ... and what it refuses.
BAD = [
    "a", "a =", "= 1", "a = 1 b = 2", "a 1", "a = = 1", "a == 1", "a.b", "a. = 1", ".a = 1", "a..b = 1", "a.\nb = 1", "a\n= 1",
    "a =\n1", "é = 1", "a b = 1", "a+b = 1", "\"\"\"a\"\"\" = 1", "'''a''' = 1", "\"a = 1", "\"a\nb\" = 1", "a = 1\na = 2",
    "a = 1\n\"a\" = 2", "a = 1\na.b = 2", "a.b = 1\na = 2", "a.b = 1\na.b = 2", "a.b = 1\na.b.c = 2", "a = 1\n'a' = 1", "=", ".", "\"\"",
    "a = \"", "a = '", "a = \"x", "a = 'x", "a = \"x\ny\"", "a = 'x\ny'", 'a = """', "a = '''", 'a = """x""', 'a = """x""""""',
    "a = '''x''''''", r'a = "\x41"', r'a = "\u12"', r'a = "\ud800"', r'a = "\U00110000"', r'a = "\U0000D800"', r'a = "\ "', r'a = "\e"',
    'a = """\\ x"""', 'a = """\\x"""', 'a = "\\\n"', "a = \"x\" y", "a = \"x\"'y'", "a = '''x'''y", r'a = "\u00é0"', r'a = "\U0001F60"',
    "a = 01", "a = -01", "a = 1_", "a = _1", "a = 1__0", "a = 0x", "a = 0xg", "a = +0x1", "a = -0b1", "a = 0b2", "a = 0o8", "a = 0x_1",
    "a = 0x1_", "a = 0X1", "a = 1a", "a = ++1", "a = +", "a = -", "a = 1.", "a = .5", "a = 1.e5", "a = 1e", "a = 1e+", "a = 1.5.6", "a = 01.5",
    "a = 1_.5", "a = 1._5", "a = 1.5_", "a = 1e_5", "a = 1e5_", "a = 1e5.5", "a = Inf", "a = NaN", "a = INF", "a = infinity", "a = 1inf",
    "a = + 1", "a = 1 2", "a = 0_1", "a = 00", "a = +00.5", "a = 0x1.5", "a = 1e5e5", "a = --inf", "a = nan1",
    "a = True", "a = TRUE", "a = truee", "a = tru", "a = yes", "a = null", "a = 'x' + 'y'", "a = bare",
    "a = 1979-5-27", "a = 1979-13-27", "a = 1979-05-32", "a = 1979-02-29", "a = 1900-02-29", "a = 1979-05-27T", "a = 1979-05-27T07",
    "a = 1979-05-27T07:32", "a = 07:32", "a = 24:00:00", "a = 07:61:00", "a = 07:32:61", "a = 07:32:00.", "a = 07:32:00Z",
    "a = 1979-05-27T07:32:00+24:00", "a = 1979-05-27T07:32:00+07", "a = 1979-05-27T07:32:00+0700", "a = 79-05-27", "a = 1979-05-27  07:32:00",
    "a = 1979-05-27T07:32:00ZZ", "a = 1979-00-01", "a = 1979-01-00", "a = 1979-05-27Z", "a = 7:32:00", "a = 2023-02-30",
    "a = 1979-05-27T 07:32:00", "a = 19799-05-27", "a = 1979-05-27T07:32:00-", "a = 1979-05-27T7:32:00",
    "a = [", "a = [1", "a = [1,", "a = ]", "a = [,]", "a = [1,,2]", "a = [1 2]", "a = [,1]", "a = [1]]", "a = [1] 2", "a = [[1]", "a = [1}",
    "a = {", "a = {b", "a = {b = 1", "a = {b = 1,}", "a = {,}", "a = {b = 1,, c = 2}", "a = {b = 1 c = 2}", "a = {b = 1\n}", "a = {\n}",
    "a = {b = 1, b = 2}", "a = {b.c = 1, b = 2}", "a = {b = 1, b.c = 2}", "a = {b = {}, b.c = 1}", "a = {b = [], b.c = 1}", "a = {b = 1} c",
    "a = {b = {c = 1}, b.d = 2}", "a = {b}", "a = {b = 1 # c\n}", "a = {b = 1,\nc = 2}", "a = {b.c = {}, b.c.d = 1}", "a = {1}", "a = {]",
    "a = {b.c = 1, b.c = 2}", "a = {b = 1]",
    "[", "[]", "[a", "[a.]", "[.a]", "[a..b]", "[a]]", "[[a]", "[[a] ]", "[ [a]]", "[[]]", "[a] b", "[a]b = 1", "[a]\n[a]", "[a.b]\n[a]\n[a.b]",
    "a = 1\n[a]", "a = 1\n[a.b]", "a.b = 1\n[a]", "a.b.c = 1\n[a.b]", "[a]\nb = 1\n[a.b]", "[a]\nb.c = 1\n[a.b]", "[a]\nb.c.d = 1\n[a.b.c]",
    "[a.b]\n[a]\nb.c = 1", "[a.b.c]\nz = 9\n[a]\nb.c.t = 1", "[a.b.c.d]\nz = 9\n[a]\nb.c.d.k.t = 1", "[a]\n[[a]]", "[[a]]\n[a]", "[a.b]\n[[a]]",
    "[[a.b]]\n[a.b]", "[a\n]", "[a\n.b]", "a = []\n[[a]]", "a = [{}]\n[[a]]", "a = [{}]\n[a]", "a = [{}]\n[a.b]", "a = {}\n[a]", "a = {}\n[a.b]",
    "a = {}\n[[a]]", "a = {}\na.b = 1", "a = {b = {}}\n[a.b.c]", "a = [{b = 1}]\n[[a.c]]", "a = {b = 1}\na.c = 1", "a.b = {}\na.b.c = 1", "[[a]]\n[a.b]\n[a.b]",
    "[[a.b]]\n[a]\nb.c = 1", "[[a.b]]\n[a]\nb = 1", "[a.b]\n[a]\nb = 1", "[[a]]\nb = 1\n[[a.b]]", "[[a]]\nb = 1\n[a.b]", "a = 1\n[[a]]",
    "[a.b.c]\n[a]\nb.d = 1\n[a.b]", "[a]\nb.c = 1\n[a]\nb.d = 1", "[a]\nb.c = 1\n[x]\n[a.b]", "[=]", "[a=1]", "[a b]", "['a]", "[\"\"\"a\"\"\"]", "[a]\n=1",
    "\ufeffa = 1", "a = 1\rb = 2", "a = 1\r", "# x\x01", "# x\x7f", "a = '\x00'", "a = \"\x1f\"", "a = '''\x08'''", "# x\ry", "a = '''x\ry'''", "\x0c", "a\x0b= 1",
    "a = '\x7f'", "a =\u00a01", "\u3000a = 1",
]
BAD_BYTES = [b"a = '\xff'", b"# \xc0\x80", b"# \xed\xa0\x80", b"a = '\xf4\x90\x80\x80'", b"a = \"\xe2\x82\"", b"\xc3 = 1", b"# \x80"]
# Where we and tomllib differ on purpose.
TAKEN_BY_US = ["a = 23:59:60", "a = 1990-12-31T23:59:60Z", "a = 0000-01-01"]  # RFC 3339 has both
REFUSED_BY_US = ["a = 9223372036854775808", "a = -9223372036854775809", "a = 0x8000000000000000", "\"a\\u0000\" = 1",
                 "a = " + "[" * 65 + "]" * 65, ".".join("a" * 65) + " = 1", "[" + ".".join("a" * 65) + "]"]

TOOL = os.path.join(os.path.abspath(sys.argv[1]), "tests", "toml_tool")


class Special(Exception):
    """A document that one of the two sides may refuse for a reason of its own."""


def convert(documents):
    """What our reader says of each of the documents (bytes without NUL)."""
    out = subprocess.run([TOOL, "--many"], input=b"\0".join(documents), stdout=subprocess.PIPE, timeout=150, check=False)
    lines = out.stdout.decode().splitlines()
    assert len(lines) == len(documents), (len(lines), len(documents))
    return [json.loads(line) for line in lines]


def same(ours, theirs):
    """Is our tree what tomllib read?"""
    if isinstance(ours, list):
        return isinstance(theirs, list) and len(ours) == len(theirs) and all(map(same, ours, theirs))
    if "table" in ours:
        pairs = ours["table"]
        return (isinstance(theirs, dict) and len(pairs) == len(theirs) and
                all(key in theirs and same(value, theirs[key]) for key, value in pairs))
    kind, text = ours["type"], ours["value"]
    if kind == "string":
        return isinstance(theirs, str) and theirs == text
    if kind == "boolean":
        return isinstance(theirs, bool) and theirs == (text == "true")
    if kind == "integer":
        return type(theirs) is int and theirs == int(text)
    if kind == "float":
        if not isinstance(theirs, float):
            return False
        number = float(text)
        return (math.isnan(number) and math.isnan(theirs) or
                number == theirs and math.copysign(1, number) == math.copysign(1, theirs))
    assert kind == "date", ours
    return (isinstance(theirs, (datetime.date, datetime.time)) and
            tomllib.loads("a = " + text)["a"] == theirs)


def check_special(tree):
    """Raises Special for what only we refuse."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if "\0" in key:
                raise Special
            check_special(value)
    elif isinstance(tree, list):
        for value in tree:
            check_special(value)
    elif type(tree) is int and not -2**63 <= tree < 2**63:
        raise Special


def reference(document):
    """tomllib's tree, or None."""
    try:
        text = document.decode()
        tree = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        if any(word in document for word in (b":60", b"0000-")):
            raise Special from None
        return None
    except ValueError:  # an integer of more digits than Python converts
        raise Special from None
    check_special(tree)
    return tree


def compare(documents):
    """Returns how many were taken by both, refused by both, and left out; fails on the first that differs."""
    taken = refused = special = 0
    for document, ours in zip(documents, convert(documents)):
        is_error = isinstance(ours, dict) and "error" in ours
        try:
            theirs = reference(document)
        except Special:
            special += 1
            continue
        if is_error:
            assert theirs is None, f"we refuse {document!r}: {ours}"
            assert ours["error"] and "wanted" in ours["error"], ours
            lines = document.decode(errors="replace").split("\n")
            assert 1 <= ours["line"] <= len(lines), (document, ours)
            assert 1 <= ours["column"] <= len(lines[ours["line"] - 1]) + 1, (document, ours)
            refused += 1
        else:
            assert theirs is not None, f"tomllib refuses {document!r}"
            assert same(ours, theirs), f"{document!r}: {ours} and {theirs}"
            taken += 1
    return taken, refused, special


def mutated(rng, pool):
    """A document made of others: joined, cut, with characters added, removed, doubled and swapped."""
    document = rng.choice(pool)
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        document += "\n" + rng.choice(pool)
    signs = "[]{}.,=#'\"\\\n\r\t _-+0123456789abeExoTZ:éu"
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        at = rng.randrange(len(document) + 1)
        what = rng.randrange(5)
        if what == 0:
            document = document[:at] + rng.choice(signs) + document[at:]
        elif what == 1:
            document = document[:at] + document[at + 1:]
        elif what == 2:
            end = at + rng.randrange(8)
            document = document[:end] + document[at:]
        elif what == 3 and at < len(document):
            document = document[:at] + rng.choice(signs) + document[at + 1:]
        elif what == 4:
            end = at + rng.randrange(6)
            document = document[:at] + document[end:]
    return document


def test_documents_by_hand(program, directory):
    good = [text.encode() for text in GOOD]
    taken, refused, special = compare(good)
    assert (taken, refused, special) == (len(good), 0, 0), (taken, refused, special)
    bad = [text.encode() for text in BAD if "\0" not in text] + BAD_BYTES
    taken, refused, special = compare(bad)
    assert (taken, special) == (0, 0), (taken, refused, special)


def test_differences_are_the_ones_we_know(program, directory):
    for text, ours in zip(TAKEN_BY_US, convert([text.encode() for text in TAKEN_BY_US])):
        assert "error" not in ours, (text, ours)
        try:
            tomllib.loads(text)
            raise AssertionError("tomllib takes " + text)
        except tomllib.TOMLDecodeError:
            pass
    for text, ours in zip(REFUSED_BY_US, convert([text.encode() for text in REFUSED_BY_US])):
        assert "wanted" in ours["error"], (text, ours)
        tomllib.loads(text)


def test_mutated_documents(program, directory):
    rng = random.Random(SEED)
    pool = GOOD + GOOD + [text for text in BAD if "\0" not in text]
    documents = [mutated(rng, pool).encode() for _ in range(MUTATIONS)]
    taken, refused, special = compare(documents)
    # The two sides agree on documents of both kinds, not on one kind alone.
    assert taken > MUTATIONS / 10 and refused > MUTATIONS / 10 and special < MUTATIONS / 20, (taken, refused, special)


def test_program_tells_errors_by_its_status(program, directory):
    good = subprocess.run([TOOL], input=b"a = 1", stdout=subprocess.PIPE, timeout=60, check=False)
    assert good.returncode == 0 and json.loads(good.stdout) == {"table": [["a", {"type": "integer", "value": "1"}]]}
    bad = subprocess.run([TOOL], input=b"a = 1\nb = \0", stdout=subprocess.PIPE, timeout=60, check=False)
    error = json.loads(bad.stdout)
    assert bad.returncode == 1 and (error["line"], error["column"]) == (2, 5) and "0x00" in error["error"], error


if __name__ == "__main__":
    if not os.path.exists(TOOL):
        print("no " + TOOL)
        sys.exit(77)
    sys.exit(runlib.main(dict(globals()), lambda test, program, directory: test(program, directory)))
