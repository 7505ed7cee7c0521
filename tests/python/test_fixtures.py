#!/usr/bin/env python3
"""Reads the TFRecords that TensorFlow wrote (tests/data/tf) with the program, and compares every value.

Usage: python3 tests/python/test_fixtures.py BUILD_DIR
Standard library only. Prints "N passed, N failed"; the exit status is 1 when a test failed.
"""
import base64
import json
import math
import os
import re
import struct
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = "tests/data/tf/"


class Number(str):
    """A JSON number as it was written."""


def run(program, pipeline):
    command = [program, "run", "-e", pipeline, "--quiet"]
    return subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)


def samples(program, pipeline):
    result = run(program, pipeline)
    errors = result.stderr.decode("utf-8", "replace")
    assert result.returncode == 0, "exit status %d for %s: %s" % (result.returncode, pipeline, errors)
    lines = result.stdout.decode("utf-8").split("\n")
    assert lines.pop() == "", "the last line does not end with a newline"
    return [json.loads(line, parse_float=Number, parse_int=Number) for line in lines]


def literal(value):
    return json.dumps(value)


def field_name(feature):
    return re.sub(r"\W", "_", feature)


def field_text(feature, spec):
    """One argument of parse(): NAME=TYPE[SHAPE](OPTIONS)."""
    shape = "[]" if spec["shape"] is None else "".join("[%d]" % n for n in spec["shape"])
    options = []
    if field_name(feature) != feature:
        options.append("from=" + literal(feature))
    if "default" in spec:
        options.append("default=" + literal(spec["default"]))
    if spec.get("sequence"):
        options.append("sequence=true")
    return "%s=%s%s%s" % (field_name(feature), spec["type"], shape, "(%s)" % ", ".join(options) if options else "")


def float32_bits(x):
    try:
        return struct.pack("<f", x)
    except OverflowError:
        return None


def digits_of(text):
    return len(re.sub(r"[eE].*$", "", text).replace("-", "").replace(".", "").strip("0"))


def check_float(found, want, where):
    x = float.fromhex(want)
    if math.isnan(x):
        assert found == "NaN" and not isinstance(found, Number), "%s: found %r, wanted \"NaN\"" % (where, found)
        return
    if math.isinf(x):
        text = "Infinity" if x > 0 else "-Infinity"
        assert found == text and not isinstance(found, Number), "%s: found %r, wanted %r" % (where, found, text)
        return
    assert isinstance(found, Number), "%s: found %r, wanted the number %r" % (where, found, x)
    assert float32_bits(float(found)) == float32_bits(x), "%s: found %s, wanted %r" % (where, found, x)
    shortest = next(n for n in range(1, 10) if float32_bits(float("%.*g" % (n, x))) == float32_bits(x))
    assert digits_of(found) <= shortest, "%s: %s has more than %d digits" % (where, found, shortest)


def check_bytes(found, want, where):
    data = base64.b64decode(want)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = {"base64": want}
    assert found == text and not isinstance(found, Number), "%s: found %r, wanted %r" % (where, found, text)


def check_value(found, want, kind, where):
    if isinstance(want, list):
        assert isinstance(found, list), "%s: found %r, wanted a list" % (where, found)
        assert len(found) == len(want), "%s: found %d values, wanted %d" % (where, len(found), len(want))
        for i, value in enumerate(want):
            check_value(found[i], value, kind, "%s[%d]" % (where, i))
    elif kind == "float32":
        check_float(found, want, where)
    elif kind == "bytes":
        check_bytes(found, want, where)
    else:
        whole = isinstance(found, Number) and re.fullmatch(r"-?\d+", found)
        assert whole and int(found) == want, "%s: found %r, wanted %d" % (where, found, want)


def check_file(program, name):
    with open(os.path.join(ROOT, DATA, name + ".json"), encoding="utf-8") as stream:
        expected = json.load(stream)
    # A feature with an empty name cannot be asked for: an empty `from` means the name of the field.
    features = {n: s for n, s in expected["features"].items() if n}
    fields = ", ".join(field_text(n, s) for n, s in features.items())
    found = samples(program, "tfrecord(%s) | parse(%s) | print" % (literal(DATA + name), fields))
    assert len(found) == len(expected["records"]), \
        "%s: found %d records, wanted %d" % (name, len(found), len(expected["records"]))
    for i, record in enumerate(expected["records"]):
        assert list(found[i]) == [field_name(n) for n in features], \
            "%s: record %d has the fields %s" % (name, i, list(found[i]))
        for feature, spec in features.items():
            where = "%s: record %d: %s" % (name, i, feature)
            check_value(found[i][field_name(feature)], record[feature], spec["type"], where)


def check_refused(program, name, parse, *words):
    result = run(program, "tfrecord(%s) | parse(%s) | print" % (literal(DATA + name), parse))
    errors = result.stderr.decode("utf-8", "replace")
    assert result.returncode not in (0, -11, -6), "exit status %d for parse(%s)" % (result.returncode, parse)
    for word in words:
        assert word in errors, "parse(%s): wanted %r in the error, found %r" % (parse, word, errors)


def test_plain(program):
    check_file(program, "example.tfrecord")


def test_gzip(program):
    check_file(program, "example.tfrecord.gz")


def test_zlib(program):
    check_file(program, "example.tfrecord.zlib")


def test_sequence(program):
    check_file(program, "sequence.tfrecord")


def test_unusual_encodings(program):
    check_file(program, "unusual.tfrecord")


def test_all_compressions_in_one_pipeline(program):
    pipeline = "tfrecord([%s]) | parse(label=int64) | print" % ", ".join(
        literal(DATA + n) for n in ("example.tfrecord", "example.tfrecord.gz", "example.tfrecord.zlib"))
    found = samples(program, pipeline)
    want = []
    for name in ("example.tfrecord", "example.tfrecord.gz", "example.tfrecord.zlib"):
        with open(os.path.join(ROOT, DATA, name + ".json"), encoding="utf-8") as stream:
            want += [r["label"] for r in json.load(stream)["records"]]
    labels = [int(s["label"]) for s in found]
    assert labels == want, "found the labels %s, wanted %s" % (labels, want)


def test_missing_feature_is_refused(program):
    check_refused(program, "example.tfrecord", "y=int64", "example.tfrecord", "record 0", "y", "is missing, wanted 1")


def test_wrong_type_is_refused(program):
    check_refused(program, "example.tfrecord", "label=float32", "record 0", "label", "is int64, wanted float")


def test_wrong_count_is_refused(program):
    check_refused(program, "example.tfrecord", "x=float32[3]", "record 0", "x", "has 4 values, wanted 3")


def test_variable_lists_inside_a_sequence_are_refused(program):
    check_refused(program, "sequence.tfrecord", "tokens=int64[](sequence=true)", "tokens")


def main():
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip())
        return 2
    program = os.path.abspath(os.path.join(sys.argv[1], "stoker"))
    passed = failed = 0
    for name, test in list(globals().items()):
        if not name.startswith("test_"):
            continue
        try:
            test(program)
            passed += 1
        except (AssertionError, OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
            failed += 1
            print("FAILED %s: %s" % (name, error))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
