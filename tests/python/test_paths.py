#!/usr/bin/env python3
"""Patterns for files against the C library's glob(3), on random trees, and braces against bash: test_paths.py BUILD_DIR"""
import ctypes
import fnmatch
import locale
import os
import random
import re
import shutil
import subprocess
import sys

import runlib

SEED = 20260401
TREES = 12
PATTERNS = 500  # of each tree
BRACES = 400

# Names that patterns could take for their own signs.
NAMES = ["a", "b", "ab", "ba", "aab", "abab", "a1", "a-b", "a.tar", "b.tar", ".a", ".b.tar", "..a", "[a]", "a[", "]", "a]b",
         "*", "a*b", "?", "\\", "a\\b", "^a", "!a", "A", "B1", "a b", "{a,b}", "1", "10", "-", "x:y", "~", "_"]
PIECES = ["a", "b", "1", "A", ".", "*", "*", "*", "?", "?", "**", "[ab]", "[!a]", "[^b]", "[a-c]", "[]]", "[]a-]", "[!]a]", "[[:alpha:]]",
          "[[:digit:][:upper:]]", "[[:nothing:]]", "[[:punct:]]", "[[.a.]]", "[[=b=]]", "[", "]", "[a", "\\*", "\\?", "\\[", "\\\\", "\\a",
          "-", "[--9]", "[a-]", "[*]", "[?]", "[z-a]", "!", "^", "~", " ", ":"]


class Glob(ctypes.Structure):
    """The head of glob_t on Linux, with room behind it."""
    _fields_ = [("count", ctypes.c_size_t), ("paths", ctypes.POINTER(ctypes.c_char_p)), ("rest", ctypes.c_byte * 256)]


LIBC = ctypes.CDLL(None, use_errno=True)


def judge(pattern):
    """What glob(3) finds, without '.' and '..', by bytes."""
    found = Glob()
    GLOB_NOSORT, GLOB_NOMATCH = 4, 3
    code = LIBC.glob(os.fsencode(pattern), GLOB_NOSORT, None, ctypes.byref(found))
    assert code in (0, GLOB_NOMATCH), f"glob of {pattern!r} gives {code}"
    paths = [found.paths[i] for i in range(found.count)]
    LIBC.globfree(ctypes.byref(found))
    if pattern.endswith("/"):  # for glob(3) a hint, for us what is meant
        paths = [path.rstrip(b"/") + b"/" for path in paths if os.path.isdir(path)]
    return sorted(path for path in paths if not passes_dots(path, os.fsencode(pattern)))


def passes_dots(path, pattern):
    """Whether a wildcard stands for '.' or '..' here: ours never does, as in newer shells."""
    parts = zip([p for p in path.split(b"/") if p], [p for p in pattern.split(b"/") if p])
    return any(part in (b".", b"..") and part != wild for part, wild in parts)


def make_tree(random_, root, depth=0):
    for name in random_.sample(NAMES, random_.randint(2, 9)):
        path = os.path.join(root, name)
        kind = random_.random()
        if kind < 0.45 and depth < 3:
            os.mkdir(path)
            make_tree(random_, path, depth + 1)
        elif kind < 0.55:
            os.symlink(random_.choice(["nowhere", ".", "..", name, "a"]), path)
        else:
            open(path, "w").close()


def make_component(random_):
    if random_.random() < 0.12:
        return random_.choice(["..", ".", "a", "b", "*"])
    if random_.random() < 0.6:  # near a name, so that some of them match
        name = random_.choice(NAMES)
        at = random_.randrange(len(name))
        return name[:at] + random_.choice(PIECES) + name[at + random_.randint(0, 1):]
    return "".join(random_.choice(PIECES) for _ in range(random_.randint(1, 5)))


def make_pattern(random_):
    slash = [random_.choice(["/"] * 8 + ["//"]) for _ in range(4)]
    parts = [make_component(random_) for _ in range(random_.choice([1, 1, 1, 1, 2, 2, 3, 4]))]
    text = "".join(part + between for part, between in zip(parts, slash))[:-1]
    return text + random_.choice([""] * 6 + ["/"])


def ours(build, patterns, directory):
    text = b"".join(os.fsencode(p) + b"\0" for p in patterns)
    out = subprocess.run([os.path.join(build, "tests/paths_tool")], input=text, cwd=directory, capture_output=True, check=True).stdout
    lists = out.split(b"\0\0")[:-1] if out.endswith(b"\0\0") else []
    return [one.split(b"\0") for one in lists]


def looked_for(pattern, directory):
    """A name that is there, or has no signs, stands for itself; braces are not glob's; a backslash wants something to stand before."""
    lone = re.search(r"(?<!\\)(\\\\)*\\(/|$)", pattern)
    wild = any(c in pattern for c in "*?[") and not any(c in pattern for c in "{}") and pattern[0] != "~" and "://" not in pattern
    return wild and not lone and not os.path.exists(os.path.join(directory, pattern))


def one_slash(paths):
    """glob(3) keeps some of "a//b" and not others."""
    return sorted(re.sub(b"/+", b"/", path) for path in paths)


def check_tree(build, seed, directory):
    random_ = random.Random(seed)
    make_tree(random_, directory)
    patterns = [p for p in (make_pattern(random_) for _ in range(PATTERNS)) if looked_for(p, directory)]
    before = os.getcwd()
    os.chdir(directory)
    wanted = [judge(p) for p in patterns]
    os.chdir(before)
    hits = 0
    for pattern, want, got in zip(patterns, wanted, ours(build, patterns, directory), strict=True):
        hits += bool(want)
        if not want:
            assert len(got) == 1 and got[0].startswith(b"!no file matches"), f"tree {seed}, {pattern!r}: {got}, wanted none"
        else:
            assert got == sorted(got) and one_slash(got) == one_slash(want), f"tree {seed}, {pattern!r}:\n{got}\nwanted\n{want}"
    return hits, len(patterns)


def test_wildcards_are_those_of_glob(build, directory):
    locale.setlocale(locale.LC_ALL, "C")
    hits = count = 0
    for i in range(TREES):
        root = os.path.join(directory, str(i))
        os.mkdir(root)
        some, of = check_tree(build, SEED + i, root)
        hits, count = hits + some, count + of
    assert hits > count // 20, f"only {hits} of {count} patterns match anything"
    print(f"{count} patterns as glob(3) has them, {hits} of them with matches")


def test_characters_are_those_of_utf8(build, directory):
    """glob(3) takes bytes as well where characters do not match; ours has the characters of Python's fnmatch."""
    names = ["é", "aé", "éb", "漢字", "a漢", "e", "ab", "ü", "a😀b"]
    for name in names:
        open(os.path.join(directory, name), "w").close()
    patterns = ["?", "??", "a?", "?b", "a?b", "[é]", "[é]?", "[à-ü]", "[!a]", "[!a]?", "*[字漢]", "*漢*", "???*", "a[!e]", "[一-龥]*"]
    for pattern, got in zip(patterns, ours(build, patterns, directory), strict=True):
        want = sorted(os.fsencode(n) for n in names if fnmatch.fnmatchcase(n, pattern)) or [b"!no file matches '" + pattern.encode() + b"'"]
        assert got == want, f"{pattern}: {got}, wanted {want}"


def make_braces(random_, depth=0):
    out = ""
    for _ in range(random_.randint(1, 3)):
        kind = random_.random()
        if kind < 0.4 or depth > 1:
            out += random_.choice("abcxyz.-")
        elif kind < 0.6:
            out += "{%s..%s%s}" % (random_.choice(["0", "3", "007", "-2", "10"]), random_.choice(["1", "5", "012", "-04"]),
                                  random_.choice(["", "", "..2"]))
        elif kind < 0.9:
            out += "{" + ",".join(make_braces(random_, depth + 1) for _ in range(2)) + "}"
        else:
            out += random_.choice(["{", "}", "{a}", "{}", ",", "{1..}"])
    return out


def test_braces_are_those_of_bash(build, directory):
    if not shutil.which("bash"):
        print("no bash to compare braces with")
        return
    random_ = random.Random(SEED)
    patterns = [p for p in ("x" + make_braces(random_) for _ in range(BRACES)) if bash_reads_alike(p)]
    script = "set -f\n" + "".join(f"printf '%s\\0' {p}; printf '\\0'\n" for p in patterns)
    out = subprocess.run(["bash", "-c", script], capture_output=True, cwd=directory, check=True).stdout
    wanted = [one.split(b"\0") for one in out.split(b"\0\0")[:-1]]
    for pattern, want, got in zip(patterns, wanted, ours(build, patterns, directory), strict=True):
        assert got == want, f"{pattern!r}: {got[:9]}, bash has {want[:9]}"
    print(f"{len(patterns)} patterns with braces as bash has them")


def bash_reads_alike(pattern):
    """Where braces do not pair up, bash goes its own ways; a step down from a higher number is written without a sign here."""
    depth = 0
    for c in pattern:
        depth += (c == "{") - (c == "}")
        if depth < 0:
            return False
    return depth == 0 and "{}" not in pattern


def test_hostile_texts_are_refused(build, directory):
    """Texts that crashed, and that hung; patterns that go up and down for ever."""
    for i in range(60):
        os.mkdir(os.path.join(directory, str(i)))
    for text, say in [("{" * 4000 + "a,b" + "}" * 4000, None), ("{a,b}" * 30, "more than 1000000 names"),
                      ("{a," * 4000 + "}" * 4000, "nested more than 100 deep"), ("{" * 1000000, None),
                      ("{a,b}" * 200000, "more than 1000000 names"), ("{0..99999}" + "x" * 4000, "take more than 256 MiB"),
                      ("*/../" * 5 + "*/x", "takes too long to expand"), ("*/../" * 700 + "*", "take more than 256 MiB"),
                      ("/proc/*/task/*/fd/*/../*/../*/../*/x", "expand"), ("*a" * 2000 + "b", None)]:
        got = subprocess.run([os.path.join(build, "tests/paths_tool")], input=text.encode() + b"\0", capture_output=True, cwd=directory,
                             timeout=150)
        assert got.returncode == 0, f"{text[:60]}: ended with {got.returncode}"
        assert not say or say.encode() in got.stdout, f"{text[:60]}: {got.stdout[:300]!r}, wanted '{say}'"


if __name__ == "__main__":
    sys.exit(runlib.main(globals(), lambda test, program, directory: test(os.path.dirname(program), directory)))
