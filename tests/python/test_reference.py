#!/usr/bin/env python3
"""docs/reference/ops.md is what the registry says now, and the example of every op runs: test_reference.py BUILD_DIR"""
import json
import shlex
import sys
import unittest

import doclib

BUILD = doclib.build_dir()
sys.path.insert(0, str(doclib.ROOT / "scripts"))
import gen_reference  # noqa: E402


def all_ops(place, *plugins):
    done = place.run("build/stoker ops --json " + " ".join(f"--plugin {p}" for p in plugins))
    assert done.returncode == 0, done.stdout
    return json.loads(done.stdout)


def make_pictures(test, place):
    """Three classes of pictures as the examples have them: as folders, and as a tar file."""
    made = "pictures(60, width=64, height=48) | filter(\"label < 3\") | encode_png(image) | "
    for sink in ("write_image_folder(\"d/photos\")", "write_image_folder(\"d/pictures\")",
                 "write_webdataset(\"d/a.tar\", image=\"png\", label=\"cls\")"):
        done = place.run(f"build/stoker run -q --plugin build/examples/op_pictures.so -e {shlex.quote(made + sink)}")
        test.assertEqual(done.returncode, 0, done.stdout)


class Reference(unittest.TestCase):
    maxDiff = None

    def test_page_is_what_the_registry_says(self):
        with doclib.Place(BUILD) as place:
            wanted = gen_reference.page(all_ops(place))
        found = (doclib.ROOT / "docs/reference/ops.md").read_text(encoding="utf-8")
        self.assertEqual(found, wanted, "run: python3 scripts/gen_reference.py build > docs/reference/ops.md")

    def test_every_op_has_an_example_that_names_it(self):
        with doclib.Place(BUILD) as place:
            for op in all_ops(place):
                with self.subTest(op=op["name"]):
                    self.assertIn(op["name"], op["example"] or "")

    def test_every_example_runs(self):
        plugins = ("build/examples/op_blobs.so", "build/examples/op_negate.so")
        with doclib.Place(BUILD) as place:
            place.make_blobs("d/part-%05d.tfrecord")
            make_pictures(self, place)
            made = "blobs(600) | rename(features=x, labels=y) | select(features, labels) | write_hdf5(\"d/train.h5\", chunk=64, gzip=4)"
            done = place.run(f"build/stoker run -q --plugin build/examples/op_blobs.so -e {shlex.quote(made)}")
            self.assertEqual(done.returncode, 0, done.stdout)
            (place.path / "words.txt").write_text("a\nb\nc\n")
            for op in all_ops(place, *plugins):
                with self.subTest(op=op["name"]):
                    load = " ".join(f"--plugin {p}" for p in plugins)
                    done = place.run(f"build/stoker run -q {load} -e {shlex.quote(op['example'])}")
                    self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
