"""docs/internals/promises.md names a test for each promise: every one of them must be there."""
import os
import pathlib
import re
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PAGE = os.path.join(ROOT, "docs", "internals", "promises.md")
FOLDERS = ("python", "package", "unit", "ops", "stress")


def find(name):
    """The text of the test file of that name; some names are there in two folders."""
    found = [pathlib.Path(ROOT, "tests", folder, name) for folder in FOLDERS]
    return [path.read_text(encoding="utf-8") for path in found if path.exists()]


def names():
    """(file, test or None) of each test that a row names."""
    with open(PAGE, encoding="utf-8") as page:
        rows = [line for line in page if line.startswith("| ") and "held by" not in line]
    for row in rows:
        held = row.split("|")[2]
        yield row, re.findall(r"`([^`]+)`", held)


class Promises(unittest.TestCase):
    def test_every_row_names_a_test(self):
        count = 0
        for row, tests in names():
            self.assertTrue(tests, row)
            count += len(tests)
        self.assertGreater(count, 50)

    def test_every_test_is_there(self):
        for row, tests in names():
            for test in tests:
                with self.subTest(test=test):
                    if test.startswith("tests/"):
                        self.assertTrue(os.path.exists(os.path.join(ROOT, test)), row)
                        continue
                    file, _, function = test.partition("::")
                    pattern = r"\b%s\(" % re.escape(function)
                    self.assertTrue(any(re.search(pattern, text) for text in find(file)), row)

    def test_long_forms_are_marked(self):
        for row, tests in names():
            long = [t for t in tests if any("STOKER_TORTURE" in text for text in find(t.partition("::")[0]))]
            if row.split("|")[2].count("*"):
                self.assertTrue(long or any("torture" in t for t in tests), row)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
