#!/usr/bin/env python3
"""HDF5 files as other programs write them: PyTables, pandas (fixed format), netCDF-4, and the layout of MATLAB 7.3.

Usage: test_hdf5_makers.py BUILD_DIR [PART_OF_A_NAME...]
Each maker runs in a process of its own, since each brings its own libhdf5; one that is not installed is skipped. What is
read is compared with h5py, to the last bit. Prints "N passed, N failed"; without h5py it is skipped.
"""
import os
import subprocess
import sys

try:
    import h5py
    import numpy
except ImportError as missing:
    print("skipped: %s; scripts/deps.sh test installs it" % missing)
    sys.exit(77)

import hdf5lib
from hdf5lib import Skip, plain

ROWS = 61
MODES = [("batch(7)", 4), ("batch(64)", 1)]
NOT_INSTALLED = 3


# ---- makers: each writes a file; run by name in another process ----

def pytables_numbers(path):
    import tables
    generator = numpy.random.default_rng(1)
    with tables.open_file(path, "w", title="made by PyTables") as file:
        values = generator.integers(-100, 100, (ROWS, 13)).astype("i4")
        file.create_array("/", "array", values, "plain")
        file.create_array("/", "flat", values[:, 0].astype(">f8"))
        file.create_array("/", "strings", numpy.array([b"row %d" % i for i in range(ROWS)]))
        group = file.create_group("/", "compressed")
        for codec in ("zlib", "blosc", "blosc:lz4", "blosc:zstd", "blosc:blosclz", "bzip2"):
            for shuffle in (False, True):
                filters = tables.Filters(complevel=5, complib=codec, shuffle=shuffle, fletcher32=shuffle)
                name = codec.replace(":", "_") + ("_shuffle" if shuffle else "")
                file.create_carray(group, name, obj=values.astype("f4"), filters=filters, chunkshape=(8, 5))
        bits = tables.Filters(complevel=5, complib="blosc:lz4", bitshuffle=True)
        file.create_carray(group, "bitshuffle", obj=values, filters=bits, chunkshape=(10, 13))
        grown = file.create_earray(group, "grown", tables.Float64Atom(), (0, 13), filters=tables.Filters(complevel=1))
        for start in range(0, ROWS, 10):
            grown.append(values[start:start + 10].astype("f8") / 7)
        flags = file.create_earray(group, "flags", tables.BoolAtom(), (0, 3), filters=tables.Filters(complevel=1))
        flags.append(values[:, :3] > 0)
        file.create_carray("/", "half", obj=values.astype("f2"), chunkshape=(8, 13))
        file.create_carray("/", "complex", obj=values.astype("c8"), chunkshape=(8, 13))
        ragged = file.create_vlarray("/", "ragged", tables.Int32Atom(), filters=tables.Filters(complevel=1))
        for i in range(ROWS):
            ragged.append(values[i, :i % 14])


def pytables_table(path):
    import tables

    class Inner(tables.IsDescription):
        x = tables.Float32Col(pos=0)
        y = tables.Int8Col(shape=(2,), pos=1)

    class Row(tables.IsDescription):
        number = tables.Int64Col(pos=0)
        name = tables.StringCol(16, pos=1)
        flag = tables.BoolCol(pos=2)
        matrix = tables.Float64Col(shape=(2, 3), pos=3)
        inner = Inner()
        kind = tables.EnumCol(tables.Enum({"red": 4, "green": 2}), "red", "int32", pos=4)
        z = tables.ComplexCol(itemsize=16, pos=5)

    with tables.open_file(path, "w") as file:
        for name, filters in (("plain", None), ("zlib", tables.Filters(complevel=5, shuffle=True)),
                              ("blosc", tables.Filters(complevel=5, complib="blosc", fletcher32=True))):
            table = file.create_table("/", name, Row, filters=filters, expectedrows=ROWS, chunkshape=(9,))
            for i in range(ROWS):
                row = table.row
                row["number"], row["name"], row["flag"] = i * 10 ** 12, b"n" * (i % 17), i % 3 == 0
                row["matrix"] = numpy.arange(6).reshape(2, 3) * i
                row["inner/x"], row["inner/y"] = i / 8, (i, -i)
                row["kind"], row["z"] = 4 if i % 2 else 2, complex(i, -i)
                row.append()
            table.flush()
            table.cols.number.create_index() if name == "zlib" else None


def pandas_frame():
    import pandas
    generator = numpy.random.default_rng(2)
    return pandas.DataFrame({
        "a": generator.normal(size=ROWS), "b": generator.normal(size=ROWS).astype("f4"), "c": numpy.arange(ROWS),
        "d": numpy.arange(ROWS) % 2 == 0, "e": generator.normal(size=ROWS),
        "when": pandas.date_range("2024-01-01", periods=ROWS, freq="h")})


def pandas_fixed(path):
    import warnings
    warnings.simplefilter("ignore")
    frame = pandas_frame()
    frame.to_hdf(path, key="plain", format="fixed", mode="w")
    frame.to_hdf(path, key="packed", format="fixed", mode="a", complevel=5, complib="zlib")
    frame.to_hdf(path, key="blosc", format="fixed", mode="a", complevel=5, complib="blosc")
    frame["a"].to_hdf(path, key="series", format="fixed", mode="a")


def pandas_table(path):
    import warnings
    warnings.simplefilter("ignore")
    pandas_frame().to_hdf(path, key="frame", format="table", mode="w", complevel=5, complib="zlib")


def netcdf(path):
    import netCDF4
    generator = numpy.random.default_rng(3)
    with netCDF4.Dataset(path, "w", format="NETCDF4") as file:
        for name, size in (("time", None), ("lat", 7), ("lon", 11), ("letters", 9)):
            file.createDimension(name, size)
        file.title = "made by netCDF4"
        group = file.createGroup("grid")
        values = generator.normal(size=(ROWS, 7, 11))
        file.createVariable("time", "f8", ("time",))[:] = numpy.arange(ROWS) / 4
        for code in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"):
            variable = group.createVariable("v_" + code, code, ("time", "lat", "lon"), zlib=True, shuffle=code != "i1",
                                            complevel=4, fletcher32=code == "f4", chunksizes=(10, 4, 5))
            variable.units = "m"
            variable[:] = abs(values * 50).astype(code)
        for order, code in (("big", ">f4"), ("little", "<f4")):
            group.createVariable("endian_" + order, code, ("time", "lat"), endian=order, zlib=True)[:] = values[:, :, 0]
        holes = group.createVariable("holes", "i4", ("time", "lon"), fill_value=-99, chunksizes=(8, 5))
        holes[3:9, 2:4] = 5
        holes[ROWS - 1, 10] = 6
        texts = group.createVariable("texts", str, ("time",))
        texts[:] = numpy.array(["text %d €" % i * (i % 5) for i in range(ROWS)], object)
        letters = numpy.array([list(("row%d" % i).ljust(9, "\0")) for i in range(ROWS)], "S1")
        group.createVariable("chars", "S1", ("time", "letters"), zlib=True)[:] = letters
        netcdf_types(group, values)
        netcdf_codecs(group, numpy.round(values[:, :, 1]))


def netcdf_types(group, values):
    pair = group.createCompoundType(numpy.dtype([("u", "f4"), ("n", "i2", (3,))]), "pair")
    data = numpy.zeros(ROWS, pair.dtype)
    data["u"], data["n"] = values[:, 0, 0], numpy.arange(ROWS)[:, None]
    group.createVariable("pairs", pair, ("time",))[:] = data
    ragged = group.createVLType("i4", "ragged")
    rows = numpy.empty(ROWS, object)
    for i in range(ROWS):
        rows[i] = numpy.arange(i % 9, dtype="i4")
    group.createVariable("sequences", ragged, ("time",))[:] = rows
    kinds = group.createEnumType("u1", "kind", {"a": 0, "b": 1, "missing": 255})
    group.createVariable("kinds", kinds, ("time",), fill_value=255)[:] = numpy.arange(ROWS) % 2



def netcdf_codecs(group, values):
    """Compressors that came later; blosc refuses what does not get smaller, so these values do."""
    for codec in ("zstd", "blosc_lz4", "blosc_zstd", "szip", "bzip2"):
        try:
            variable = group.createVariable("packed_" + codec, "f4", ("time", "lat"), compression=codec, chunksizes=(30, 7))
        except (RuntimeError, ValueError) as error:
            print("netCDF4 does not write %s: %s" % (codec, error))
            continue
        variable[:] = values


def matlab(path):
    """As MATLAB's save -v7.3 lays it out: a user block, arrays by columns, classes as attributes, cells as references."""
    generator = numpy.random.default_rng(4)
    with h5py.File(path, "w", libver=hdf5lib.OLD, userblock_size=512) as file:
        def variable(name, data, kind, **options):
            found = file.create_dataset(name, data=data.T if data.ndim > 1 else data, **options)
            found.attrs["MATLAB_class"] = numpy.bytes_(kind)
            return found

        packed = {"compression": "gzip", "compression_opts": 3}
        variable("x", generator.normal(size=(13, ROWS)), "double", chunks=(8, 13), **packed)
        variable("small", generator.normal(size=(1, ROWS)), "double")
        variable("image", generator.integers(0, 255, (5, 7, ROWS)).astype("u1"), "uint8", chunks=(6, 7, 5), **packed)
        variable("single", generator.normal(size=(4, ROWS)).astype("f4"), "single", chunks=(20, 4), **packed)
        flags = variable("flags", generator.integers(0, 2, (3, ROWS)).astype("u1"), "logical")
        flags.attrs["MATLAB_int_decode"] = numpy.int32(1)
        text = numpy.array([list(("name %d" % i).ljust(8)) for i in range(ROWS)]).view("<u4").astype("u2").reshape(ROWS, 8)
        variable("text", text.T, "char").attrs["MATLAB_int_decode"] = numpy.int32(2)
        pairs = numpy.zeros((2, ROWS), [("real", "<f8"), ("imag", "<f8")])
        pairs["real"], pairs["imag"] = generator.normal(size=(2, ROWS)), 1.0
        variable("complex", pairs, "double", chunks=(30, 2), **packed)
        variable("struct/field", generator.normal(size=(2, ROWS)), "double")
        file["struct"].attrs["MATLAB_class"] = numpy.bytes_("struct")
        references = numpy.empty((1, ROWS), h5py.ref_dtype)
        for i in range(ROWS):
            name = "#refs#/%s" % chr(97 + i % 26) + "a" * (i // 26)
            references[0, i] = variable(name, generator.normal(size=(i % 4 + 1, 1)), "double").ref
        variable("cell", references, "cell")
        nothing = variable("nothing", numpy.zeros(2, "u8"), "double")
        nothing.attrs["MATLAB_empty"] = numpy.uint8(1)
    with open(path, "r+b") as file:
        text = b"MATLAB 7.3 MAT-file, Platform: GLNXA64, Created on: Mon Jan  1 00:00:00 2024 HDF5 schema 1.00 ."
        file.write(text.ljust(116, b" ") + bytes(8) + b"\x00\x02IM")


# ---- comparing ----

def make(session, maker):
    """A file by a maker, in a process of its own."""
    path = session.path(maker.__name__ + (".nc" if maker is netcdf else ".h5"))
    command = [sys.executable, os.path.abspath(__file__), "--make", maker.__name__, path]
    # Makers bring their own plug-ins along.
    others = {name: value for name, value in os.environ.items() if name not in ("HDF5_PLUGIN_PATH", "LD_PRELOAD")}
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False, env=others)
    output = result.stdout.decode("utf-8", "replace")
    if result.returncode == NOT_INSTALLED:
        raise Skip(output.strip())
    assert result.returncode == 0, "%s failed: %s" % (maker.__name__, output)
    if output.strip():
        print("%s: %s" % (maker.__name__, output.strip()))
    return path


def by_rows(path, leave_out):
    """{rows: {dataset: fields}} of a file, by h5py."""
    found = {}
    with h5py.File(path, "r") as file:
        for name in hdf5lib.datasets(file):
            if not any(part in name for part in leave_out):
                fields = dict(hdf5lib.read(file[name], plain(name)))
                found.setdefault(file[name].shape[0] if file[name].shape else 1, {})[name] = fields
    return found


def check(session, path, leave_out=()):
    """Reads all datasets of a file, those with equal numbers of rows together."""
    complaints = []
    for rows, datasets in by_rows(path, leave_out).items():
        source = 'hdf5("%s", %s)' % (path, hdf5lib.arguments(datasets))
        wanted = {name: column for fields in datasets.values() for name, column in fields.items()}
        for ops, threads in MODES:
            found = attempt(session, source, ops, threads, wanted) if rows else []
            if found:
                found = [(name, attempt(session, 'hdf5("%s", %s)' % (path, hdf5lib.arguments([name])), ops, threads, fields))
                         for name, fields in datasets.items()]
                complaints += ["%s, %s: %s" % (name, ops, lines[0]) for name, lines in found if lines]
    assert not complaints, "%s:\n  %s" % (os.path.basename(path), "\n  ".join(complaints))


def attempt(session, source, ops, threads, wanted):
    try:
        return hdf5lib.compare(hdf5lib.run(session.stoker, source, ops, threads), wanted)
    except hdf5lib.pipelib.PipelineError as error:
        return [str(error).splitlines()[0]]


def test_pytables_numbers(session):
    check(session, make(session, pytables_numbers))


def test_pytables_table(session):
    check(session, make(session, pytables_table), leave_out=["_i_zlib"])


def test_pandas_fixed(session):
    check(session, make(session, pandas_fixed))


def test_pandas_table(session):
    check(session, make(session, pandas_table), leave_out=["_i_table"])


def test_netcdf(session):
    check(session, make(session, netcdf))


def test_matlab(session):
    path = make(session, matlab)
    check(session, path, leave_out=["cell"])
    check_references(session, path)


def check_references(session, path):
    """Cells are references: addresses, as they are stored."""
    with h5py.File(path, "r") as file:
        place = file["cell"].id.get_offset()
        count = file["cell"].size
    stored = numpy.fromfile(path, "<u8", count, offset=place)
    found = hdf5lib.run(session.stoker, 'hdf5("%s", cell="/cell")' % path, "batch(7)", 2)
    complaints = hdf5lib.compare(found, {"cell": stored.reshape(ROWS, 1)})
    assert not complaints, complaints


MAKERS = [pytables_numbers, pytables_table, pandas_fixed, pandas_table, netcdf, matlab]


def main():
    if sys.argv[1:2] == ["--make"]:
        try:
            next(m for m in MAKERS if m.__name__ == sys.argv[2])(sys.argv[3])
        except ImportError as error:
            print(error)
            return NOT_INSTALLED
        return 0
    if hdf5lib.hdf5plugin:
        os.environ["HDF5_PLUGIN_PATH"] = hdf5lib.hdf5plugin.PLUGIN_PATH
    return hdf5lib.main([(test.__name__, test) for test in hdf5lib.tests_of(sys.modules[__name__])])


if __name__ == "__main__":
    sys.exit(main())
