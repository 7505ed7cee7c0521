"""What must work with every Python, without pytest: smoke.py. NumPy may be missing."""

from __future__ import annotations

import importlib.util
import pathlib
import subprocess
import sys

import stoker

HAVE_NUMPY = importlib.util.find_spec("numpy") is not None


def check(found: object, wanted: object) -> None:
    if found != wanted:
        sys.exit(f"found {found!r}, wanted {wanted!r}")


def values(pipe: stoker.Pipeline, **options: object) -> list[int]:
    """All of the field `value`, whether NumPy is there or not."""
    form = "numpy" if HAVE_NUMPY else "dlpack"
    with pipe.loader(format=form, **options) as loader:
        return [int(x) for batch in loader for x in batch["value"].tolist()]


def batches_and_files() -> None:
    check(values(stoker.range(10).batch(4)), list(range(10)))
    shuffled = values(stoker.range(1000).shuffle(seed=3).batch(64))
    check(sorted(shuffled), list(range(1000)))
    check(shuffled == sorted(shuffled), False)
    stoker.range(100).write_tfrecord("out/part-%05d", shards=3).run()
    back = stoker.tfrecord("out/part-*").parse(value="int64").batch(7)
    check(sorted(values(back)), list(range(100)))


def hdf5_by_the_helper_program() -> None:
    stoker.range(100).write_hdf5("numbers.h5", gzip=4).run()
    check(values(stoker.hdf5("numbers.h5", value="/value").batch(9)), list(range(100)))
    helper = pathlib.Path(stoker.__file__).parent / "libexec" / "stoker-hdf5"
    check(helper.exists(), True)


def state_and_errors() -> None:
    loader = stoker.range(100).shuffle(seed=1).batch(10).loader(format="dlpack")
    whole = [batch["value"].tolist() for batch in loader]
    loader = stoker.range(100).shuffle(seed=1).batch(10).loader(format="dlpack")
    first = []
    for batch in loader:
        first.append(batch["value"].tolist())
        if len(first) == 4:
            break
    again = stoker.range(100).shuffle(seed=1).batch(10).loader(format="dlpack")
    again.load_state_dict(loader.state_dict())
    check(first + [batch["value"].tolist() for batch in again], whole)
    try:
        values(stoker.tfrecord("missing.tfrecord").batch(4))
    except stoker.Error as error:
        check("missing.tfrecord" in str(error), True)
    else:
        sys.exit("a missing file is no error")


def functions() -> None:
    if HAVE_NUMPY:
        check(values(stoker.range(5).map(lambda s: {"value": s["value"] * 2}).batch(2)), [0, 2, 4, 6, 8])


def missing_numpy() -> None:
    if HAVE_NUMPY:
        return
    try:
        stoker.range(5).batch(2).first()
    except ModuleNotFoundError as error:
        check("need the package numpy: pip install numpy; pipe.dlpack()" in str(error), True)
    else:
        sys.exit("NumPy is missing, and that is no error")


def words() -> None:
    check(stoker.g2p("cat"), ["K", "AE1", "T"])


def command() -> None:
    words = [str(pathlib.Path(sys.executable).parent / "stoker"), "inspect", "numbers.h5"]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    check("/value" in done.stdout, True)


def main() -> None:
    for part in batches_and_files, hdf5_by_the_helper_program, state_and_errors, functions, missing_numpy, words, command:
        part()
    print(
        f"stoker {stoker.__version__} works with Python {sys.version.split()[0]}"
        + ("" if HAVE_NUMPY else ", without NumPy")
    )


if __name__ == "__main__":
    main()
