#!/usr/bin/env python3
"""Write the TFRecord fixtures in tests/data/tf with TensorFlow, and what TensorFlow reads back from them as JSON.

The outputs are committed; run this again only to change them. TensorFlow comes from PyPI into a virtual environment
(.venv-peers at the root of the repository, not committed), which is made when it is missing. Running it twice gives
the same bytes.

For every FILE.tfrecord* there is FILE.tfrecord*.json:
  {"tensorflow": VERSION, "features": {NAME: SPEC}, "records": [{NAME: VALUE}]}
SPEC is {"type": "float32|int64|bytes", "shape": [] | [n] | null (variable length), "default": D, "sequence": true}.
VALUE is nested as the shape says. A float is a text for float.fromhex() ("nan", "inf", "-inf"), a bytes value is
base64, an int64 is a number.
"""
import argparse
import base64
import json
import os
import random
import re
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

EXAMPLE_FEATURES = {
    "x": {"type": "float32", "shape": [4]},
    "label": {"type": "int64", "shape": []},
    "name": {"type": "bytes", "shape": []},
    "image/encoded": {"type": "bytes", "shape": []},
    "y": {"type": "int64", "shape": [], "default": -1},
    "w": {"type": "float32", "shape": [2], "default": 0.5},
    "box": {"type": "int64", "shape": [4], "default": 7},
    "tags": {"type": "bytes", "shape": None},
    "ids": {"type": "int64", "shape": None},
    "scores": {"type": "float32", "shape": None},
}
SEQUENCE_FEATURES = {
    "length": {"type": "int64", "shape": []},
    "speaker": {"type": "bytes", "shape": [], "default": "nobody"},
    "frames": {"type": "float32", "shape": [2], "sequence": True},
    "tokens": {"type": "int64", "shape": [], "sequence": True},
    "words": {"type": "bytes", "shape": [], "sequence": True},
    "pairs": {"type": "int64", "shape": [2], "sequence": True},
}
UNUSUAL_FEATURES = {
    "f": {"type": "float32", "shape": None},
    "i": {"type": "int64", "shape": None},
    "b": {"type": "bytes", "shape": None},
    "": {"type": "int64", "shape": [], "default": 0},
}

FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, 1e-45, 1.17549435e-38, 3.4028235e38, -3.4028235e38, 16777216.0, 16777217.0,
          float("nan"), float("inf"), float("-inf"), 1 / 3, 2.5e-8, 123456.789]
INTS = [0, 1, -1, 127, 128, 16383, 16384, 2**31 - 1, -2**31, 2**32, 2**53 + 1, 2**56 - 1, 2**56, 2**63 - 1, -2**63]
NAMES = [b"plain", "grüße".encode(), "日本語 🚂".encode(), b"", b"\xff\xfe\x00binary", b"nul\x00inside",
         b'quote " and \\ and /', b"line\nbreak\ttab\x01\x1f\x7f", "\u2028\u2029\ufeff".encode(), b"\xed\xa0\x80",
         b"\xc0\xaf", b"cut \xe2\x82"]


def reexec_in_venv(venv):
    """Goes on with the interpreter of the virtual environment, made first when it is missing."""
    python = os.path.join(venv, "bin", "python")
    if os.path.abspath(sys.prefix) == os.path.abspath(venv):
        return
    if not os.path.exists(python):
        subprocess.check_call([sys.executable, "-m", "venv", venv])
    if subprocess.call([python, "-c", "import importlib.util as u, sys; sys.exit(not u.find_spec('tensorflow'))"]):
        subprocess.check_call([python, "-m", "pip", "install", "-q", "tensorflow-cpu"])
    os.execv(python, [python] + sys.argv)


def float_feature(tf, values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def int_feature(tf, values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def bytes_feature(tf, values):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def make_example(tf, rng, i):
    features = {
        "x": float_feature(tf, [FLOATS[(4 * i + k) % len(FLOATS)] for k in range(4)]),
        "label": int_feature(tf, [INTS[i % len(INTS)]]),
        "name": bytes_feature(tf, [NAMES[i % len(NAMES)]]),
        "image/encoded": bytes_feature(tf, [rng.randbytes(rng.choice([0, 1, 126, 127, 128, 129, 300]))]),
        "unused": float_feature(tf, [float(i)] * (i % 5)),
    }
    if i % 3:
        features["y"] = int_feature(tf, [i * 1000003])
    if i % 4 == 1:
        features["y"] = tf.train.Feature()  # there, but without a list: TensorFlow takes the default
    if i % 5 != 2:
        features["w"] = float_feature(tf, [i / 7, -i / 7])
    if i % 2:
        features["box"] = int_feature(tf, [rng.randrange(-300, 300) for _ in range(4)])
    if i % 4:
        features["tags"] = bytes_feature(tf, [rng.choice(NAMES) for _ in range(i % 6)])
    if i % 7 != 3:
        features["ids"] = int_feature(tf, [rng.choice(INTS + [5] * 15) for _ in range(rng.choice([0, 1, 2, 9, 40]))])
    elif i % 2:
        features["ids"] = tf.train.Feature()
    if i % 6:
        features["scores"] = float_feature(tf, [rng.choice(FLOATS) for _ in range(rng.choice([0, 1, 3, 33]))])
    return tf.train.Example(features=tf.train.Features(feature=features))


def make_sequence(tf, rng, i):
    context = {"length": int_feature(tf, [i % 9])}
    if i % 4 != 2:
        context["speaker"] = bytes_feature(tf, [NAMES[i % len(NAMES)]])
    steps = range(i % 9)
    lists = {
        "frames": [float_feature(tf, [k + i / 8, rng.choice(FLOATS)]) for k in steps],
        "tokens": [int_feature(tf, [rng.choice(INTS)]) for _ in steps],
        "words": [bytes_feature(tf, [rng.choice(NAMES)]) for _ in range((i + 2) % 4)],
        "pairs": [int_feature(tf, [k, -k]) for k in range(i % 3)],
    }
    if i % 5 == 4:
        del lists["pairs"]  # no such list at all: no steps
    lists = {name: tf.train.FeatureList(feature=values) for name, values in lists.items()}
    return tf.train.SequenceExample(context=tf.train.Features(feature=context),
                                    feature_lists=tf.train.FeatureLists(feature_list=lists))


def field(number, payload):
    """A length-delimited protobuf field of less than 128 bytes."""
    assert len(payload) < 128
    return bytes([number << 3 | 2, len(payload)]) + payload


def entry(name, kind, payload):
    return field(1, field(1, name) + field(2, field(kind, payload)))


def make_unusual():
    """Valid encodings that no writer emits. Protobuf says what they mean; parse_example refuses some of them."""
    one, two = struct.pack("<f", 1.0), struct.pack("<f", 2.0)
    plain = entry(b"i", 3, field(1, b"\x05"))
    return [
        b"",
        field(1, b""),
        field(1, entry(b"f", 2, b"\x0d" + one + b"\x0d" + two)),                       # unpacked floats
        field(1, entry(b"f", 2, b"\x0d" + one + field(1, two + one) + b"\x0d" + two)),  # packed and unpacked
        field(1, entry(b"i", 3, b"\x08\x01\x08\xac\x02")),                             # unpacked int64
        field(1, entry(b"i", 3, b"\x08\x01" + field(1, b"\x02\x03") + b"\x08\x04")),
        field(1, entry(b"i", 3, field(1, b"\x85\x80\x00\x06"))),                       # varint with padding
        field(1, entry(b"i", 3, field(1, b"\x01") + field(1, b"\x02"))),               # two packed runs
        field(1, entry(b"i", 3, field(1, b""))),                                       # an empty packed run
        field(1, plain + entry(b"i", 3, field(1, b"\x06"))),                           # the same name twice
        field(1, plain) + field(1, entry(b"b", 1, field(1, b"z"))),                    # features twice
        field(1, plain) + field(1, entry(b"i", 3, field(1, b"\x07"))),
        field(1, entry(b"", 3, field(1, b"\x09"))),                                    # the empty name
        b"\x78\x96\x01" + field(1, plain) + field(15, b"zz"),                         # unknown fields around
        field(1, b"\x79" + bytes(8) + plain + b"\x7d" + bytes(4)),
        field(1, entry(b"b", 1, field(1, b"") + field(1, b"q") + field(1, b""))),
        field(1, field(1, field(2, field(3, field(1, b"\x08"))) + field(1, b"i"))),     # the value before the key
        field(1, field(1, field(2, field(3, field(1, b"\x0b"))))),                     # no key: the empty name
        field(1, field(1, field(1, b"i"))),                                            # no value
        field(1, field(1, field(1, b"i") + field(2, field(2, field(1, one)) + field(3, field(1, b"\x0c"))))),
        b"\x8a\x00\x8d\x80\x00" + b"\x0a\x8a\x00" + plain[2:],                       # tags and lengths with padding
    ]


def write_records(tf, path, records, compression=""):
    with tf.io.TFRecordWriter(path, options=tf.io.TFRecordOptions(compression_type=compression)) as writer:
        for record in records:
            writer.write(record)


def spec_of(tf, spec):
    dtype = {"float32": tf.float32, "int64": tf.int64, "bytes": tf.string}[spec["type"]]
    if spec.get("sequence"):
        return tf.io.FixedLenSequenceFeature(spec["shape"], dtype, allow_missing=True)
    if spec["shape"] is None:
        return tf.io.RaggedFeature(dtype)
    default = spec.get("default")
    if default is not None and spec["shape"]:
        default = [default] * spec["shape"][0]
    return tf.io.FixedLenFeature(spec["shape"], dtype, default_value=default)


def plain_value(tensor):
    value = tensor.numpy()
    return value if isinstance(value, bytes) else value.tolist()


def to_json(value, kind):
    if isinstance(value, list):
        return [to_json(v, kind) for v in value]
    if kind == "float32":
        return re.sub(r"\.?0*p", "p", value.hex())
    return base64.b64encode(value).decode() if kind == "bytes" else value


def read_protobuf(tf, record, features):
    """All features by TensorFlow's protobuf classes."""
    found = tf.train.Example.FromString(record).features.feature
    values = {}
    for name, spec in features.items():
        values[name] = [] if spec["shape"] is None else spec["default"]
        kind = found[name].WhichOneof("kind") if name in found else None
        if kind:
            values[name] = list(getattr(found[name], kind).value)
            if spec["shape"] == []:
                values[name] = values[name][0]
    return values


def write_expected(tf, path, features, compression="", protobuf=False):
    """Reads the file back with TensorFlow alone."""
    context = {n: spec_of(tf, s) for n, s in features.items() if not s.get("sequence")}
    sequence = {n: spec_of(tf, s) for n, s in features.items() if s.get("sequence")}
    records = []
    for record in tf.data.TFRecordDataset(path, compression_type=compression):
        if protobuf:
            parsed = read_protobuf(tf, record.numpy(), features)
            records.append({n: to_json(parsed[n], features[n]["type"]) for n in features})
            continue
        if sequence:
            parsed, lists = tf.io.parse_single_sequence_example(record, context, sequence)
            parsed.update(lists)
        else:
            parsed = tf.io.parse_single_example(record, context)
        records.append({n: to_json(plain_value(parsed[n]), features[n]["type"]) for n in features})
    with open(path + ".json", "w", encoding="utf-8") as out:
        head = {"tensorflow": tf.__version__, "features": features}
        out.write(json.dumps(head, sort_keys=True)[:-1] + ', "records": [\n')
        out.write(",\n".join(json.dumps(r, sort_keys=True, separators=(",", ":")) for r in records) + "\n]}\n")
    return len(records)


def write_seeds(directory, examples, sequences, unusual):
    os.makedirs(directory, exist_ok=True)
    seeds = {"example-%d" % i: examples[i] for i in (0, 1, 9)}
    seeds.update({"sequence-%d" % i: sequences[i] for i in (0, 3, 8)})
    seeds.update({"unusual-%02d" % i: record for i, record in enumerate(unusual) if record})
    for name, data in seeds.items():
        with open(os.path.join(directory, name), "wb") as out:
            out.write(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=os.path.join(HERE, "tf"),
                        help="directory of the outputs (default: tests/data/tf)")
    parser.add_argument("--seeds", default=os.path.join(ROOT, "tests", "fuzz", "corpus", "fuzz_example"),
                        help="directory of the fuzz seeds made from the same records")
    parser.add_argument("--venv", default=os.path.join(ROOT, ".venv-peers"),
                        help="virtual environment with TensorFlow, made when missing (default: .venv-peers)")
    args = parser.parse_args()
    reexec_in_venv(args.venv)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    os.makedirs(args.out, exist_ok=True)
    rng = random.Random(20240501)
    examples = [make_example(tf, rng, i).SerializeToString(deterministic=True) for i in range(40)]
    sequences = [make_sequence(tf, rng, i).SerializeToString(deterministic=True) for i in range(27)]
    unusual = make_unusual()
    for name, records, features, compression in [
        ("example.tfrecord", examples, EXAMPLE_FEATURES, ""),
        ("example.tfrecord.gz", examples[:20], EXAMPLE_FEATURES, "GZIP"),
        ("example.tfrecord.zlib", examples[15:35], EXAMPLE_FEATURES, "ZLIB"),
        ("sequence.tfrecord", sequences, SEQUENCE_FEATURES, ""),
        ("unusual.tfrecord", unusual, UNUSUAL_FEATURES, ""),
    ]:
        path = os.path.join(args.out, name)
        write_records(tf, path, records, compression)
        count = write_expected(tf, path, features, compression, protobuf=records is unusual)
        print("%s: %d records, %d bytes" % (name, count, os.path.getsize(path)))
    write_seeds(args.seeds, examples, sequences, unusual)


if __name__ == "__main__":
    main()
