"""Runs the test_... functions of a file, each with a directory of its own, and prints how many passed."""
import os
import sys
import tempfile
import traceback


def main(names, call):
    """`names` are the file's globals; call(test, program, directory) runs one of them. Returns the exit status."""
    program = os.path.join(os.path.abspath(sys.argv[1]), "stoker")
    failed = passed = 0
    for name, test in sorted(names.items()):
        if not name.startswith("test_"):
            continue
        with tempfile.TemporaryDirectory(prefix="stoker-test-") as directory:
            try:
                call(test, program, directory)
                passed += 1
            except Exception:  # every test is to be run
                failed += 1
                print(name)
                traceback.print_exc(file=sys.stdout)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0
