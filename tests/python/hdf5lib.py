"""HDF5 files of every kind, made with h5py, and what they hold: the material of the HDF5 tests."""
import ctypes
import functools
import os
import re
import subprocess
import sys
import tempfile
import traceback
import zlib

import h5py
import numpy
from h5py import h5d, h5p, h5s, h5t, h5z

import pipelib

try:
    import hdf5plugin
except ImportError:
    hdf5plugin = None

ROWS = 61  # no multiple of any chunk
# libhdf5 1.10 must be able to read them; the old format knows v1 B-trees alone, the new one all other chunk indexes.
OLD, NEW = ("earliest", "v110"), ("v110", "v110")
FORMATS = {"old": OLD, "new": NEW}
DONT_FILTER_PARTIAL_CHUNKS = 2


class Skip(Exception):
    pass


# ---- values ----

def numbers(dtype, shape, seed=0, small=False):
    """Numbers of all bit patterns, NaNs and infinities among them; `small` ones compress and survive arithmetic."""
    dtype = numpy.dtype(dtype)
    generator = numpy.random.default_rng([seed, *shape, dtype.itemsize])
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    if small:
        low = 0 if dtype.kind == "u" else -50
        found = generator.integers(low, 100, shape)
        return (found / 8 if dtype.kind == "f" else found).astype(dtype)
    data = generator.integers(0, 256, int(numpy.prod(shape)) * dtype.itemsize, dtype=numpy.uint8)
    return numpy.frombuffer(data.tobytes(), dtype).reshape(shape)


def words(count, longest=20, seed=0, utf8=False):
    """Strings of many lengths, empty ones among them, as bytes."""
    generator = numpy.random.default_rng([seed, count, longest])
    letters = "abcdefghij äöü€𝄞" if utf8 else "abcdefghij klmnopq"
    found = []
    for size in generator.integers(0, longest + 1, count):
        text = "".join(letters[i] for i in generator.integers(0, len(letters), size))
        while len(text.encode()) > longest:
            text = text[:-1]
        found.append(text.encode())
    return found


def fletcher32(data):
    """As libhdf5 computes it: big-endian pairs of bytes."""
    low = high = 0
    for i in range(0, len(data), 2):
        pair = data[i:i + 2] + b"\0" * (i + 2 - len(data) if i + 2 > len(data) else 0)
        low = (low + int.from_bytes(pair, "big")) % 65535
        high = (high + low) % 65535
    # Sums that are multiples of 65535 end as 65535 there, unless all was zero.
    if any(data):
        low, high = low or 65535, high or 65535
    return (high << 16 | low).to_bytes(4, "little")


def shuffled(data, size):
    whole = len(data) // size * size
    planes = numpy.frombuffer(data[:whole], numpy.uint8).reshape(-1, size).T
    return planes.tobytes() + data[whole:]


# ---- filters ----

def plugin(name, **options):
    """A filter of hdf5plugin, to be put into a list of filters."""
    if hdf5plugin is None:
        raise Skip("hdf5plugin is not installed")
    found = getattr(hdf5plugin, name)(**options)
    return ("id", found.filter_id, tuple(found.filter_options))


def add_filter(plist, kind, *values):
    if kind == "gzip":
        plist.set_deflate(*values)
    elif kind == "shuffle":
        plist.set_shuffle()
    elif kind == "fletcher32":
        plist.set_fletcher32()
    elif kind == "szip":
        plist.set_szip({"ec": h5z.SZIP_EC_OPTION_MASK, "nn": h5z.SZIP_NN_OPTION_MASK}[values[0]], values[1])
    elif kind == "scaleoffset":
        plist.set_scaleoffset({"int": h5z.SO_INT, "float": h5z.SO_FLOAT_DSCALE}[values[0]], values[1])
    elif kind == "nbit":
        plist.set_filter(h5z.FILTER_NBIT, h5z.FLAG_OPTIONAL, ())
    elif kind == "lzf":
        plist.set_filter(h5z.FILTER_LZF, h5z.FLAG_OPTIONAL, ())
    elif kind == "id":
        plist.set_filter(values[0], h5z.FLAG_OPTIONAL, values[1])
    else:
        raise ValueError(kind)


def can_write(kind):
    """Whether this h5py can compress with a filter; szip often comes without its encoder."""
    code = getattr(h5z, "FILTER_" + kind.upper())
    return h5z.filter_avail(code) and bool(h5z.get_filter_info(code) & h5z.FILTER_CONFIG_ENCODE_ENABLED)


@functools.lru_cache(maxsize=None)
def library_of_h5py():
    """The libhdf5 that h5py has loaded, for what h5py does not offer."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            path = line.rstrip("\n").split(" ", 5)[-1].strip()
            if re.match(r"libhdf5(_serial)?[-.]", os.path.basename(path)):
                return ctypes.CDLL(path)
    raise Skip("cannot find the libhdf5 of h5py")


def leave_edges_raw(plist):
    """H5Pset_chunk_opts: chunks that reach past the edge are not filtered."""
    function = library_of_h5py().H5Pset_chunk_opts
    function.argtypes = [ctypes.c_int64, ctypes.c_uint]
    if function(plist.id, DONT_FILTER_PARTIAL_CHUNKS) < 0:
        raise Skip("H5Pset_chunk_opts failed")


INDEXES = ["btree1", "single", "implicit", "fixed", "extensible", "btree"]


def index_of(dataset):
    """The kind of chunk index that a dataset has."""
    function, kind = library_of_h5py().H5Dget_chunk_index_type, ctypes.c_int(-1)
    function.argtypes = [ctypes.c_int64, ctypes.POINTER(ctypes.c_int)]
    return INDEXES[kind.value] if function(dataset.id.id, kind) >= 0 else None


def set_fill(plist, value):
    """H5Pset_fill_value; h5py's own stores an address where strings of fixed size are wanted."""
    function = library_of_h5py().H5Pset_fill_value
    function.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_char_p]
    kind = h5t.py_create(value.dtype, logical=True)
    if function(plist.id, kind.id, value.tobytes()) < 0:
        raise Skip("H5Pset_fill_value failed")


# ---- files ----

class Maker:
    """One new file whose datasets all have the same number of rows; `row` holds their numbers."""

    def __init__(self, path, libver=OLD, rows=ROWS, userblock=0, **options):
        self.path, self.rows, self.libver = path, rows, libver
        self.file = h5py.File(path, "w", libver=libver, userblock_size=userblock, **options)
        self.wanted = {}   # what h5py cannot read as it should be
        self.indexes = {}  # dataset: the chunk index that it is there for
        self.file["row"] = numpy.arange(rows)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def numbers(self, dtype, *trailing, **options):
        return numbers(dtype, (self.rows, *trailing), **options)

    def make(self, name, dtype, shape, chunks=None, maxshape=None, filters=(), fill=None, raw_edges=False, layout=None,
             alloc=None, fill_time=None, external=None):
        """An empty dataset with everything that libhdf5 lets one choose; dtype may be one of its own types."""
        plist = h5p.create(h5p.DATASET_CREATE)
        if chunks:
            plist.set_chunk(tuple(chunks))
        elif layout is not None:
            plist.set_layout(layout)
        for chosen in filters:
            add_filter(plist, *((chosen,) if isinstance(chosen, str) else chosen))
        if fill is not None:
            set_fill(plist, numpy.asarray(fill))
        if raw_edges:
            leave_edges_raw(plist)
        if alloc is not None:
            plist.set_alloc_time(alloc)
        if fill_time is not None:
            plist.set_fill_time(fill_time)
        for path, offset, size in external or ():
            plist.set_external(path.encode(), offset, size)
        limits = tuple(h5s.UNLIMITED if m is None else m for m in maxshape) if maxshape else None
        space = h5s.create(h5s.SCALAR) if shape == () else h5s.create_simple(tuple(shape), limits)
        links = h5p.create(h5p.LINK_CREATE)
        links.set_create_intermediate_group(True)
        links.set_char_encoding(h5t.CSET_UTF8)
        type_id = dtype if isinstance(dtype, h5t.TypeID) else h5t.py_create(numpy.dtype(dtype), logical=True)
        return h5py.Dataset(h5d.create(self.file.id, name.encode(), type_id, space, plist, links))

    def add(self, name, data, chunks=None, dtype=None, **options):
        """A dataset with data; returns it."""
        found = self.make(name, data.dtype if dtype is None else dtype, data.shape, chunks, **options)
        if data.size:
            found[...] = data
        return found

    def write_raw(self, dataset, data):
        """Writes bytes as the stored type has them, without conversion."""
        dataset.id.write(h5s.ALL, h5s.ALL, data, dataset.id.get_type())


# ---- what a file holds ----

def plain(name):
    """A path as the name of a field: a _ for each byte that is no letter, digit or _."""
    return re.sub(rb"[^A-Za-z0-9_]", b"_", name.strip("/").encode()).decode()


def as_bytes(array):
    """The same array of bytes objects."""
    found = numpy.empty(array.shape, object)
    for at in numpy.ndindex(array.shape):
        found[at] = bytes(array[at] or b"") if array.dtype.kind in "SO" else array[at].tobytes()
    return found


def columns(name, array, dtype):
    """Fields of an array of rows: pairs of a name and an array; values of variable length come as a list of arrays."""
    if dtype.subdtype:
        dtype = dtype.subdtype[0]
    if dtype.names:
        return [c for member in dtype.names for c in columns(name + "_" + plain(member), array[member], dtype[member])]
    if dtype.kind == "c":
        part = array.real.dtype.newbyteorder("=")
        return [(name + "_r", array.real.astype(part)), (name + "_i", array.imag.astype(part))]
    sequence = h5py.check_vlen_dtype(dtype)
    if h5py.check_string_dtype(dtype) or sequence is None and dtype.kind in "SVOMm":
        return [(name, as_bytes(array))]
    if sequence is not None:
        return [(name, [numpy.asarray(v).astype(numpy.dtype(sequence).newbyteorder("=")) for v in array])]
    return [(name, numpy.ascontiguousarray(array).astype(dtype.newbyteorder("=")))]


def read(dataset, name):
    """The fields of a dataset, by h5py."""
    array = numpy.asarray(dataset[()])
    if dataset.shape == ():
        array = array.reshape((1,) + array.shape)
    return columns(name, array, dataset.dtype)


def datasets(file):
    """Paths of all datasets of an open file, without the slash at the start."""
    found = []
    file.visititems(lambda path, item: found.append(path) if isinstance(item, h5py.Dataset) else None)
    return sorted(found)


def contents(path, wanted=None):
    """{dataset: {field: values}} of a file, fields named as when no names were given."""
    found = {}
    with h5py.File(path, "r") as file:
        for name in datasets(file):
            given = (wanted or {}).get(name)
            pairs = read(file[name], plain(name)) if given is None else [(plain(name), given)]
            found[name] = dict(pairs)
    return found


# ---- comparing ----

def same(found, wanted):
    """None when two columns are equal to the last bit, else what differs."""
    if isinstance(wanted, list):
        if not isinstance(found, list):
            return "is one array of shape %s, wanted values of different lengths" % (found.shape,)
        if len(found) != len(wanted):
            return "has %d rows, wanted %d" % (len(found), len(wanted))
        return next(("row %d: %s" % (i, same(f, w)) for i, (f, w) in enumerate(zip(found, wanted)) if same(f, w)), None)
    if isinstance(found, list):
        return "has rows of different shapes, wanted one array of shape %s" % (wanted.shape,)
    if found.shape != wanted.shape:
        return "has shape %s, wanted %s" % (found.shape, wanted.shape)
    if found.dtype != wanted.dtype:
        return "has type %s, wanted %s" % (found.dtype, wanted.dtype)
    if wanted.dtype == object:
        differ = [at for at in numpy.ndindex(wanted.shape) if found[at] != wanted[at]]
    else:
        if found.tobytes() == wanted.tobytes():
            return None
        bits = numpy.dtype("u%d" % wanted.dtype.itemsize)
        differ = numpy.argwhere(found.view(bits) != numpy.ascontiguousarray(wanted).view(bits)).tolist()
    if not differ:
        return None
    at = tuple(differ[0])
    return "%d of %d values differ, first at %s: %.80r, wanted %.80r" % (len(differ), wanted.size, at, found[at], wanted[at])


def pick(column, rows):
    return [column[r] for r in rows] if isinstance(column, list) else column[rows]


def joined(batches):
    """All rows of batches, by field."""
    found = {}
    for name in batches[0] if batches else ():
        parts = [batch[name] for batch in batches]
        if isinstance(parts[0], list):
            found[name] = [row for part in parts for row in part]
        else:
            found[name] = numpy.concatenate(parts)
    return found


def compare(found, wanted):
    """Complaints about fields that are not as they should be."""
    complaints = []
    if sorted(found) != sorted(wanted):
        complaints.append("fields %s, wanted %s" % (sorted(found), sorted(wanted)))
    for name in sorted(set(found) & set(wanted)):
        difference = same(found[name], wanted[name])
        if difference:
            complaints.append("%s: %s" % (name, difference))
    return complaints


def arguments(names):
    """Field arguments that name datasets."""
    return ", ".join('%s="/%s"' % (plain(n), n.strip("/")) for n in names)


class Stats(ctypes.Structure):
    """stk_stats; the library fills in all of it."""
    _fields_ = [(name, ctypes.c_int64) for name in (
        "samples", "batches", "bytes_read", "consumer_wait_ns", "buffer_bytes", "peak_buffer_bytes", "budget_bytes", "skipped",
        "quarantined", "dropped", "lost_bytes", "cache_hits", "cache_misses")] + [
        ("threads", ctypes.c_int), ("total_batches", ctypes.c_int64), ("ready_batches", ctypes.c_int64),
        ("epoch_batches", ctypes.c_int64), ("held_batches", ctypes.c_int64), ("cache_damaged", ctypes.c_int64)]


class Pipeline:
    """A pipeline that is read step by step, for tests that look at it or change its files meanwhile."""

    def __init__(self, stoker, text, **config):
        self.stoker, self.text, self.library = stoker, text, stoker.library
        self.settings = pipelib.Config(ctypes.sizeof(pipelib.Config), **config)
        self.handle, self.error = ctypes.c_void_p(), pipelib.Error()
        self.check(self.library.stk_pipeline_open(text.encode(), self.settings, self.handle, self.error))

    def check(self, status):
        """True while there is more; a failure is raised with the library's own error in it."""
        try:
            return self.stoker.check(status, self.error, self.text)
        except pipelib.PipelineError as failure:
            failure.error = self.error
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.library.stk_pipeline_close(self.handle)

    def __iter__(self):
        while True:
            batch = self.next()
            if batch is None:
                return
            yield batch

    def next(self):
        """The next batch as a dict of arrays; None after the last."""
        batch = ctypes.POINTER(pipelib.Batch)()
        if not self.check(self.library.stk_pipeline_next(self.handle, batch, self.error)):
            return None
        found = batch.contents
        result = {c.name.decode(): pipelib.array(c, found.rows) for c in (found.columns[i] for i in range(found.column_count))}
        self.library.stk_batch_release(self.handle, batch)
        return result

    def stats(self):
        found = Stats()
        self.library.stk_pipeline_stats.argtypes = [ctypes.c_void_p, ctypes.POINTER(Stats)]
        self.library.stk_pipeline_stats.restype = None
        self.library.stk_pipeline_stats(self.handle, found)
        return found


# What each file is run through: ops, threads, how often each row comes.
SEQUENTIAL = [("batch(1)", 1, 1), ("batch(7)", 4, 1), ("batch(16)", 1, 1), ("batch(64)", 4, 1)]
SHUFFLED = [("shuffle(seed=3) | batch(8)", 4, 1), ("shuffle(seed=3, window=4) | batch(8)", 1, 1),
            ("shuffle(seed=3, window=auto) | repeat(2) | batch(10)", 4, 2)]
MODES = SEQUENTIAL + SHUFFLED


def run(stoker, source, ops, threads, **config):
    return joined(list(stoker.batches("%s | %s" % (source, ops), threads=threads, **config)))


def check_mode(stoker, source, wanted, mode, row="row", **config):
    """Complaints about one run of a pipeline; the field `row` says which row came when."""
    ops, threads, times = mode
    try:
        found = run(stoker, source, ops, threads, **config)
    except pipelib.PipelineError as error:
        return [str(error)]
    rows = len(wanted[row])
    if rows == 0:
        return [] if not found else ["%d rows of a file without rows" % len(found[row])]
    if row not in found:
        return ["no field %s in %s" % (row, sorted(found))]
    order = [int(r) for r in found[row]]
    if sorted(order) != sorted(list(range(rows)) * times):
        return ["%d rows came that are no permutation of %d rows: %s" % (len(order), rows, order[:20])]
    if "shuffle" not in ops and order != list(range(rows)) * times:
        return ["rows out of order: %s" % order[:20]]
    if "shuffle" in ops and rows > 20 and order == sorted(order):
        return ["rows were not shuffled"]
    return compare(found, {name: pick(column, order) for name, column in wanted.items()})


def culprits(stoker, path, wanted, mode, **config):
    """Which datasets of a file fail by themselves."""
    found = []
    for name, fields in wanted.items():
        chosen = {**fields, "row": wanted["row"]["row"]}
        source = 'hdf5("%s", %s)' % (path, arguments([name] if name == "row" else ["row", name]))
        for complaint in check_mode(stoker, source, chosen, mode, **config):
            found.append("%s: %s" % (name, complaint.splitlines()[0]))
    return found


def check_file(stoker, path, wanted, modes=None, **config):
    """
    Runs a file through all modes, all its datasets at once, and raises AssertionError with what is wrong. When something
    is, each dataset is tried alone, so that all that fail are named.
    """
    everything = {field: values for fields in wanted.values() for field, values in fields.items()}
    complaints = []
    for mode in MODES if modes is None else modes:
        found = check_mode(stoker, 'hdf5("%s")' % path, everything, mode, **config)
        if not found:
            continue
        single = culprits(stoker, path, wanted, mode, **config)
        complaints += ["%s, %d threads: %s" % (mode[0], mode[1], line) for line in single or found]
    assert not complaints, "%s: %d complaints:\n  %s" % (os.path.basename(path), len(complaints), "\n  ".join(complaints[:12]))


# ---- the matrix: what is put into files, by subject ----

TRAILING = {1: (), 2: (13,), 3: (5, 7), 4: (3, 4, 5)}
PARTS = {1: (10,), 2: (8, 5), 3: (4, 2, 3), 4: (16, 2, 3, 2)}  # chunks that fit in no dimension
SMALL_INTS = ["|i1", "|u1", "<i2", ">u2", "<u4", ">i4", "<i8", ">u8"]


def layouts(m):
    """Compact, contiguous and chunked, of one to four dimensions."""
    for rank, trailing in TRAILING.items():
        data = m.numbers(["<i4", "<f8", "|u1", ">i2"][rank - 1], *trailing)
        m.add("r%d/compact" % rank, data, layout=h5d.COMPACT)
        m.add("r%d/contiguous" % rank, data, layout=h5d.CONTIGUOUS)
        for label, chunks in (("rows1", (1, *trailing)), ("rows7", (7, *trailing)), ("all", (m.rows, *trailing)),
                              ("parts", PARTS[rank]), ("tiny", (1,) * rank if rank < 3 else (2,) * rank)):
            m.add("r%d/%s" % (rank, label), data, chunks)
            m.add("r%d/%s_gzip" % (rank, label), data, chunks, filters=["shuffle", ("gzip", 1)])


def indexes(m):
    """Every kind of chunk index, with and without filters, whole and with chunks missing."""
    data, many = m.numbers("<i4", 13, small=True), m.numbers("<i2", 40, small=True)
    cube = m.numbers("<u2", 5, 7, small=True)
    kinds = [("single", data, (61, 13), None), ("fixed", data, (2, 5), None), ("fixed_paged", many, (1, 2), None),
             ("fixed_larger", data, (4, 5), (90, 30)), ("extensible", data, (2, 5), (None, 13)),
             ("extensible_larger", data, (2, 5), (None, 30)), ("extensible_1", data, (2, 5), (61, None)),
             ("extensible_1_larger", data, (7, 3), (90, None)), ("extensible_many", many, (1, 2), (None, 40)),
             ("extensible_1_many", many, (1, 2), (61, None)), ("extensible_3d_1", cube, (6, 2, 3), (61, None, 7)),
             ("extensible_3d_2", cube, (6, 2, 3), (90, 9, None)), ("btree", data, (2, 5), (None, None)),
             ("btree_many", many, (1, 2), (None, None)), ("btree_3d", cube, (6, 2, 3), (None, 5, None))]
    for name, values, chunks, limits in kinds:
        for ending, filters in (("", []), ("_gzip", ["shuffle", ("gzip", 4)])):
            m.add(name + ending, values, chunks, maxshape=limits, filters=filters)
            m.indexes[name + ending] = name.split("_")[0] if m.libver == NEW else "btree1"
            sparse = m.make(name + "_sparse" + ending, values.dtype, values.shape, chunks, maxshape=limits, filters=filters,
                            fill=numpy.array(-5).astype(values.dtype))
            for row in range(3, m.rows, 11):
                sparse[row:row + 2, ..., 2:4] = values[row:row + 2, ..., 2:4]
    m.add("implicit", data, (2, 5), alloc=h5d.ALLOC_TIME_EARLY)
    m.add("implicit_larger", data, (4, 5), maxshape=(90, 30), alloc=h5d.ALLOC_TIME_EARLY)
    m.indexes["implicit"] = m.indexes["implicit_larger"] = "implicit" if m.libver == NEW else "btree1"


def resized(m):
    """Datasets that grew, shrank, or both, with what was not written then."""
    for name, filters in (("plain", []), ("gzip", ["shuffle", ("gzip", 4)]), ("sum", ["fletcher32"])):
        for label, first, limits, sizes in (
                ("rows", (20, 13), (None, 13), []), ("rows_fixed", (20, 13), (80, 13), []),
                ("columns", (61, 4), (61, None), []), ("columns_fixed", (61, 4), (61, 30), []),
                ("both", (20, 4), (None, None), []), ("shrunk_rows", (100, 13), (None, 13), []),
                ("shrunk_columns", (61, 30), (61, None), []), ("shrunk", (100, 30), (None, None), []),
                ("shrunk_fixed", (100, 30), (100, 30), []), ("to_and_fro", (100, 30), (None, None), [(30, 6)]),
                ("fro_and_to", (61, 13), (None, 13), [(90, 13), (40, 13), (0, 13), (70, 13)])):
            found = m.make("%s/%s" % (name, label), "<f4", first, (8, 5), maxshape=limits, filters=filters,
                           fill=numpy.float32(-7.5) if name != "sum" else None)
            found[...] = numbers("<f4", first, small=True)
            for size in sizes:
                found.resize(size)
            found.resize((61, 13))
            found[50:55, 1:3] = 4.25
    m.add("wide_chunks", m.numbers("<i2", 13), (100, 40), maxshape=(None, None))
    m.add("wide_chunks_gzip", m.numbers("<i2", 13), (100, 40), maxshape=(None, None), filters=[("gzip", 4)])
    for rank, trailing in TRAILING.items():
        data = m.numbers("<u4", *trailing, small=True)
        for d in range(rank):
            limits = tuple(None if i == d else n for i, n in enumerate(data.shape))
            m.add("unlimited/r%d_%d" % (rank, d), data, PARTS[rank], maxshape=limits, filters=[("gzip", 1)] if d % 2 else [])
        m.add("unlimited/r%d_all" % rank, data, PARTS[rank], maxshape=(None,) * rank)


def filters(m):
    """The filters of libhdf5 and h5py: each, in pairs and triples, and twice."""
    gzip, double = ("gzip", 4), ("gzip", 9)
    sets = {"gzip1": [("gzip", 1)], "gzip4": [gzip], "gzip9": [double], "gzip0": [("gzip", 0)], "shuffle": ["shuffle"],
            "sum": ["fletcher32"], "lzf": ["lzf"], "shuffle_gzip": ["shuffle", gzip],
            "shuffle_gzip_sum": ["shuffle", gzip, "fletcher32"], "sum_gzip": ["fletcher32", gzip],
            "sum_shuffle_gzip": ["fletcher32", "shuffle", gzip], "gzip_twice": [gzip, double],
            "gzip_shuffle": [gzip, "shuffle"], "shuffle_lzf": ["shuffle", "lzf"], "lzf_sum": ["lzf", "fletcher32"],
            "lzf_gzip": ["lzf", gzip], "gzip_lzf": [gzip, "lzf"], "nbit": ["nbit"], "nbit_gzip": ["nbit", gzip],
            "shuffle_twice": ["shuffle", "shuffle"], "sum_twice": ["fletcher32", "fletcher32"],
            "shuffle_gzip_sum_gzip": ["shuffle", gzip, "fletcher32", gzip]}
    for label, chosen in sets.items():
        for dtype in ("|u1", ">i2", "<f4", "<f8"):
            short = numpy.dtype(dtype).name
            m.add("%s/%s" % (label, short), m.numbers(dtype, 13, small=True), (8, 5), filters=chosen)
        m.add("%s/noise" % label, m.numbers("<u4", 3, 5), (10, 3, 2), filters=chosen)
    m.add("odd_sum", m.numbers("|u1", 5), (3, 3), filters=["fletcher32"])
    m.add("shuffled_text", numpy.array(words(m.rows * 3, 5)).astype("S5").reshape(-1, 3),
          (4, 3), filters=["shuffle", gzip])


def coders(m):
    """The filters that know numbers: szip, scale-offset and n-bit."""
    if can_write("szip"):
        for dtype in ("|u1", "|i1", "<i2", ">u2", "<u4", ">i4", "<f4", "<f8", ">f8", "<i8"):
            for mode, pixels in (("ec", 8), ("nn", 16), ("nn", 4), ("ec", 32)):
                name = "szip/%s_%s_%d" % (dtype[1:] + ("b" if dtype[0] == ">" else ""), mode, pixels)
                m.add(name, m.numbers(dtype, 37, small=True), (8, 20), filters=[("szip", mode, pixels)])
        m.add("szip/noise", m.numbers("<u2", 16), (8, 16), filters=[("szip", "nn", 16)])
        m.add("szip/sum", m.numbers("<u2", 16, small=True), (8, 16), filters=[("szip", "nn", 16), "fletcher32"])
    for dtype in SMALL_INTS:
        name = "scaleoffset/%s%s" % (dtype[1:], "b" if dtype[0] == ">" else "")
        data = m.numbers(dtype, 13, small=True)
        m.add(name, data, (8, 5), filters=[("scaleoffset", "int", 0)])
        m.add(name + "_bits", data, (8, 5), filters=[("scaleoffset", "int", 5)])
        m.add(name + "_fill", data, (8, 5), filters=[("scaleoffset", "int", 0)], fill=data[3, 3])
        m.add(name + "_same", data * 0 + 9, (8, 5), filters=[("scaleoffset", "int", 0)])
        m.add(name + "_noise", m.numbers(dtype, 13), (8, 5), filters=[("scaleoffset", "int", 0), ("gzip", 1)])
    for dtype in ("<f4", ">f4", "<f8", ">f8"):
        name = "scaleoffset/%s%s" % (dtype[1:], "b" if dtype[0] == ">" else "")
        data = m.numbers(dtype, 13, small=True) * numpy.dtype(dtype).type(1.0078125)
        for digits in (0, 2, 5):
            m.add("%s_%d" % (name, digits), data.astype(dtype), (8, 5), filters=[("scaleoffset", "float", digits)])
        m.add(name + "_fill", data.astype(dtype), (8, 5), filters=[("scaleoffset", "float", 3)], fill=data[3, 3])
    nbits(m)


def nbits(m):
    """n-bit really packs only what does not use all its bits, and members of compounds."""
    for label, base, precision, offset in (("i4", h5t.STD_I32LE, 17, 3), ("u2b", h5t.STD_U16BE, 11, 0),
                                           ("i8", h5t.STD_I64LE, 33, 20), ("u1", h5t.STD_U8LE, 3, 4)):
        odd = base.copy()
        odd.set_precision(precision)
        odd.set_offset(offset)
        low = -2 ** (precision - 2) if "i" in label else 0
        data = numpy.random.default_rng(precision).integers(low, 2 ** (precision - 2), (m.rows, 13))
        m.add("nbit/" + label, data.astype(odd.dtype), (8, 5), dtype=odd, filters=["nbit"])
        m.add("nbit/%s_gzip" % label, data.astype(odd.dtype), (8, 5), dtype=odd, filters=["nbit", ("gzip", 4)])
    mixed = numpy.dtype([("a", "<i2"), ("b", ">f8", (3,)), ("c", "S3"), ("d", "|u1")], align=True)
    data = numpy.zeros(m.rows, mixed)
    data["a"], data["b"], data["d"] = m.numbers("<i2"), m.numbers("<f8", 3, small=True), m.numbers("|u1")
    data["c"] = words(m.rows, 3)
    m.add("nbit/compound", data, (8,), filters=["nbit"])
    found = m.make("nbit/array", h5t.array_create(h5t.STD_I16BE, (4,)), (m.rows,), (8,), filters=["nbit"])
    m.write_raw(found, m.numbers(">i2", 4, small=True))


def plugins(m):
    """The filters of hdf5plugin that we have too, alone and with others."""
    sets = {"lz4": [plugin("LZ4")], "lz4_small": [plugin("LZ4", nbytes=64)], "zstd": [plugin("Zstd")],
            "zstd_19": [plugin("Zstd", clevel=19)], "shuffle_zstd": ["shuffle", plugin("Zstd", clevel=3)],
            "shuffle_lz4": ["shuffle", plugin("LZ4")], "zstd_sum": [plugin("Zstd"), "fletcher32"],
            "lz4_gzip": [plugin("LZ4"), ("gzip", 1)], "bitshuffle": [plugin("Bitshuffle", cname="none")],
            "bitshuffle_lz4": [plugin("Bitshuffle", cname="lz4")], "bitshuffle_zstd": [plugin("Bitshuffle", cname="zstd")],
            "bitshuffle_lz4_8": [plugin("Bitshuffle", cname="lz4", nelems=8)],
            "bitshuffle_gzip": [plugin("Bitshuffle", cname="none"), ("gzip", 4)],
            "bitshuffle_lz4_sum": [plugin("Bitshuffle", cname="lz4"), "fletcher32"],
            "bitshuffle_zstd_64": [plugin("Bitshuffle", cname="zstd", nelems=64)]}
    for codec in ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"):
        for shuffle in range(3):
            sets["blosc_%s_%d" % (codec, shuffle)] = [plugin("Blosc", cname=codec, clevel=5, shuffle=shuffle)]
    sets["blosc_level0"] = [plugin("Blosc", cname="lz4", clevel=0, shuffle=1)]
    sets["blosc_level9"] = [plugin("Blosc", cname="zstd", clevel=9, shuffle=1)]
    sets["blosc_sum"] = [plugin("Blosc", cname="lz4", clevel=5, shuffle=1), "fletcher32"]
    for label, chosen in sets.items():
        for dtype in ("|u1", "<f4", ">i8"):
            m.add("%s/%s" % (label, numpy.dtype(dtype).name), m.numbers(dtype, 13, small=True), (16, 7), filters=chosen)
        m.add("%s/noise" % label, m.numbers("<u2", 13), (16, 7), filters=chosen)
        m.add("%s/tall" % label, m.numbers("<i4", 50, small=True), (61, 50), filters=chosen)


def large(m):
    """Chunks of many blocks of whatever compressor; they reach past the last row and the last column."""
    sets = {"gzip": ["shuffle", ("gzip", 1)], "lzf": ["shuffle", "lzf"], "offset": [("scaleoffset", "int", 0)],
            "nbit": ["nbit"], "sum": ["fletcher32"]}
    if can_write("szip"):
        sets["szip"] = [("szip", "nn", 16)]
    if hdf5plugin:
        sets.update({"lz4": [plugin("LZ4", nbytes=65536)], "zstd": [plugin("Zstd")], "blosc": [plugin("Blosc", cname="lz4")],
                     "blosc_zstd": [plugin("Blosc", cname="zstd", shuffle=2)],
                     "bitshuffle": [plugin("Bitshuffle", cname="lz4")],
                     "bitshuffle_zstd": [plugin("Bitshuffle", cname="zstd")]})
    data = m.numbers("<i4", 5003, small=True).cumsum(axis=1, dtype="<i4")
    for name, chosen in sets.items():
        m.add(name, data, (40, 3001), filters=chosen)
    m.add("noise", m.numbers("<u4", 5003), (40, 3001), filters=["shuffle", ("gzip", 1)])


def masks(m):
    """Chunks that skip some of their filters, as direct chunk writes and filters that gain nothing leave them."""
    data = m.numbers("<f4", 13, small=True)
    found = m.make("triple", data.dtype, data.shape, (8, 13), filters=["shuffle", ("gzip", 6), "fletcher32"])
    for start in range(0, m.rows, 8):
        mask = start // 8 % 8
        block = numpy.zeros((8, 13), data.dtype)
        block[:len(data[start:start + 8])] = data[start:start + 8]
        stored = block.tobytes()
        stored = stored if mask & 1 else shuffled(stored, 4)
        stored = stored if mask & 2 else zlib.compress(stored, 6)
        stored = stored if mask & 4 else stored + fletcher32(stored)
        found.id.write_direct_chunk((start, 0), stored, mask)
    for label, chosen in (("lzf", ["lzf"]), ("gzip_lzf", [("gzip", 9), "lzf"]), ("shuffle_lzf", ["shuffle", "lzf"])):
        values = m.numbers("<u4", 13)
        values = numpy.where(numpy.arange(m.rows)[:, None] // 10 % 2, values, 7).astype("<u4")
        m.add("optional_" + label, values, (5, 13), filters=chosen)
    for label, chosen in (("edges", (5, 13)), ("parts", (5, 4))):
        unfiltered = m.make("none_" + label, data.dtype, data.shape, chosen, filters=[("gzip", 4)])
        for at in numpy.ndindex(*(-(-n // c) for n, c in zip(data.shape, chosen))):
            start = tuple(i * c for i, c in zip(at, chosen))
            block = numpy.zeros(chosen, data.dtype)
            part = data[tuple(slice(s, s + c) for s, c in zip(start, chosen))]
            block[tuple(slice(0, n) for n in part.shape)] = part
            raw = sum(at) % 2
            unfiltered.id.write_direct_chunk(start, block.tobytes() if raw else zlib.compress(block.tobytes()), raw)


def streams(m):
    """Deflate as other programs write it: stored and fixed blocks, small windows, several blocks, more behind the end."""
    data = m.numbers("<i4", 13, small=True)
    found = m.make("kinds", data.dtype, data.shape, (4, 13), filters=[("gzip", 6)])
    for start in range(0, m.rows, 4):
        block = numpy.zeros((4, 13), data.dtype)
        block[:len(data[start:start + 4])] = data[start:start + 4]
        raw, kind = block.tobytes(), start // 4 % 6
        if kind == 5:
            stored = zlib.compress(raw) + b"behind the end"
        else:
            level, window, strategy = ((0, 15, zlib.Z_DEFAULT_STRATEGY), (6, 15, zlib.Z_FIXED),
                                       (9, 9, zlib.Z_DEFAULT_STRATEGY), (6, 15, zlib.Z_HUFFMAN_ONLY),
                                       (6, 12, zlib.Z_RLE))[kind]
            coder = zlib.compressobj(level, zlib.DEFLATED, window, 9, strategy)
            stored = coder.compress(raw[:100]) + coder.flush(zlib.Z_FULL_FLUSH) + coder.compress(raw[100:]) + coder.flush()
        found.id.write_direct_chunk((start, 0), stored)


def edges(m):
    """Chunks at the edge that were not filtered."""
    for rank, trailing in TRAILING.items():
        data = m.numbers("<f4", *trailing, small=True)
        for label, chosen in (("gzip", [("gzip", 4)]), ("three", ["shuffle", ("gzip", 4), "fletcher32"])):
            m.add("r%d/%s" % (rank, label), data, PARTS[rank], filters=chosen, raw_edges=True)
            m.add("r%d/%s_grows" % (rank, label), data, PARTS[rank], maxshape=(None, *trailing), filters=chosen, raw_edges=True)
            m.add("r%d/%s_fits" % (rank, label), data, (8, *trailing), filters=chosen, raw_edges=True)
    for label, first in (("grown", (20, 4)), ("shrunk", (100, 30))):
        found = m.make(label, "<i2", first, (8, 5), maxshape=(None, None), filters=[("gzip", 4)], raw_edges=True,
                       fill=numpy.int16(3))
        found[...] = numbers("<i2", first, small=True)
        found.resize((61, 13))
        found[58:, 11:] = 77


def fills(m):
    """What was never written, wholly or in part, with and without a fill value."""
    for dtype, fill in (("<i4", 42), (">i4", 42), ("<f8", -1.5), (">f2", 0.5), ("|u1", 255), ("bool", True), ("S4", b"none")):
        short = plain(dtype) + ("b" if dtype[0] == ">" else "")
        value = numpy.array(fill, dtype)
        for label, options in (("contiguous", {}), ("chunked", {"chunks": (8, 3)}), ("whole", {"chunks": (8, 7)}),
                               ("gzip", {"chunks": (8, 3), "filters": ["shuffle", ("gzip", 4)]}),
                               ("early", {"chunks": (8, 3), "alloc": h5d.ALLOC_TIME_EARLY}),
                               ("late", {"chunks": (8, 3), "alloc": h5d.ALLOC_TIME_LATE}),
                               ("place", {"alloc": h5d.ALLOC_TIME_EARLY})):
            m.make("%s/%s" % (short, label), dtype, (m.rows, 7), fill=value, **options)
            m.make("%s/%s_zero" % (short, label), dtype, (m.rows, 7), **options)
            part = m.make("%s/%s_part" % (short, label), dtype, (m.rows, 7), fill=value, **options)
            part[9:20, 2:5] = numpy.zeros((11, 3), dtype)
            part[60, 6] = numpy.zeros((), dtype)
    m.make("text", h5py.string_dtype(), (m.rows,), (8,))
    m.make("text_contiguous", h5py.string_dtype(), (m.rows, 2))
    m.make("text_part", h5py.string_dtype("ascii"), (m.rows,), (8,))[20:25] = [b"a", b"", b"ccc", b"d", b"e" * 50]
    m.make("sequence", h5py.vlen_dtype("<i4"), (m.rows,), (8,))
    pair = numpy.dtype([("a", "<i4"), ("b", ">f4", (2,))])
    m.make("pair", pair, (m.rows,), (8,), fill=numpy.array((7, (1.5, 2.5)), pair))[10:12] = numpy.zeros(2, pair)


def types(m):
    """Numbers of all sizes and both byte orders, and what is built of them."""
    for code in ("i1", "u1", "<i2", ">i2", "<u2", ">u2", "<i4", ">i4", "<u4", ">u4", "<i8", ">i8", "<u8", ">u8", "<f2", ">f2",
                 "<f4", ">f4", "<f8", ">f8", "bool"):
        name = code.strip("<>") + ("b" if code[0] == ">" else "")
        data = m.numbers(code, 3)
        several(m, name, data)
    colours = h5py.enum_dtype({"RED": 0, "GREEN": 1, "BLUE": -42}, basetype="i1")
    several(m, "enum", numpy.array([0, 1, -42] * m.rows, "i1").reshape(-1, 3), colours)
    wide = h5py.enum_dtype({"A": 1, "B": 70000}, basetype=">u4")
    several(m, "wide_enum", numpy.array([1, 70000, 1] * m.rows, ">u4").reshape(-1, 3), wide)
    several(m, "opaque", m.numbers("|u1", 21).view("V7"))
    times = m.numbers("<i8", 2).view("M8[us]")
    several(m, "time", times.astype(h5py.opaque_dtype(times.dtype)))
    several(m, "array", m.numbers("<i4", 3), h5t.array_create(h5t.STD_I32LE, (3,)), rank=1)
    several(m, "matrix", m.numbers(">f4", 2, 2, 3), h5t.array_create(h5t.IEEE_F32BE, (2, 3)), rank=2)
    several(m, "complex64", m.numbers("<f4", 4, small=True).view("<c8"))
    several(m, "complex128b", m.numbers(">f8", 4, small=True).view(">c16"))
    for label, kind, dtype in (("b1", h5t.STD_B8LE, "u1"), ("b2b", h5t.STD_B16BE, ">u2"), ("b4", h5t.STD_B32LE, "<u4"),
                               ("b8b", h5t.STD_B64BE, ">u8")):
        data = m.numbers(dtype, 3)
        found = m.make("bits/" + label, kind, data.shape, (8, 3), filters=[("gzip", 1)])
        m.write_raw(found, data)
        m.wanted["bits/" + label] = data.astype(data.dtype.newbyteorder("="))


def several(m, name, data, dtype=None, rank=None):
    """One array in three layouts; `rank` where the stored type has the last dimensions in it."""
    shape = data.shape[:rank]
    for label, options in (("", {"layout": h5d.CONTIGUOUS}), ("_chunked", {"chunks": (8, *shape[1:])}),
                           ("_gzip", {"chunks": tuple(-(-n // 5) for n in shape), "filters": ["shuffle", ("gzip", 4)]}),
                           ("_compact", {"layout": h5d.COMPACT})):
        found = m.make(name + label, data.dtype if dtype is None else dtype, shape, **options)
        if isinstance(dtype, h5t.TypeID):
            m.write_raw(found, numpy.ascontiguousarray(data))
        else:
            found[...] = data


def fixed_string(size, pad, charset=h5t.CSET_ASCII):
    found = h5t.C_S1.copy()
    found.set_size(size)
    found.set_strpad(pad)
    found.set_cset(charset)
    return found


def strings(m):
    """Strings of fixed and of variable length."""
    for label, pad, filler in (("term", h5t.STR_NULLTERM, b"\0"), ("null", h5t.STR_NULLPAD, b"\0"),
                               ("space", h5t.STR_SPACEPAD, b" ")):
        for size in (1, 5, 16):
            texts = words(m.rows * 2, size, seed=size, utf8=size == 16)
            stored = numpy.array([list(t.ljust(size, filler)) for t in texts], "u1").view("V%d" % size).reshape(-1, 2)
            several(m, "%s%d" % (label, size), stored, fixed_string(size, pad, h5t.CSET_UTF8 if size == 16 else h5t.CSET_ASCII))
    inner = [[b"a\0b", b"\0", b"  x  ", b"abcdef", b"a b   "][i % 5].ljust(6, b"\0") for i in range(m.rows)]
    for label, pad in (("term", h5t.STR_NULLTERM), ("null", h5t.STR_NULLPAD), ("space", h5t.STR_SPACEPAD)):
        found = m.make("inner_" + label, fixed_string(6, pad), (m.rows,), (8,))
        m.write_raw(found, numpy.frombuffer(b"".join(inner), "V6"))
        if label == "space":  # numpy would take zeros off the end too
            m.wanted["inner_" + label] = as_bytes(numpy.array([t.rstrip(b" ") for t in inner], object))
    several(m, "array", numpy.array(words(m.rows * 3, 4)).astype("S4").reshape(-1, 3),
            h5t.array_create(fixed_string(4, h5t.STR_NULLPAD), (3,)), rank=1)
    for label, charset in (("ascii", "ascii"), ("utf8", "utf-8")):
        texts = words(m.rows, 90, utf8=charset == "utf-8")
        several_texts(m, "variable_" + label, numpy.array(texts, object), h5py.string_dtype(charset))
        pairs = words(m.rows * 2, 30, seed=2, utf8=charset == "utf-8")
        several_texts(m, "pairs_" + label, numpy.array(pairs, object).reshape(-1, 2), h5py.string_dtype(charset))
    long = numpy.array([b"x" * (i * 1700 % 5003) for i in range(m.rows)], object)
    long[7], long[8], long[40] = b"y" * 100000, b"", b"z" * 70000
    several_texts(m, "long", long, h5py.string_dtype())


def several_texts(m, name, data, dtype):
    m.add(name, data, dtype=dtype)
    m.add(name + "_chunked", data, (8, *data.shape[1:]), dtype=dtype)
    m.add(name + "_gzip", data, tuple(-(-n // 3) for n in data.shape), dtype=dtype, filters=["shuffle", ("gzip", 4)])


def compounds(m):
    """Records, as fields: nested, with arrays, strings, gaps, other byte orders."""
    inner = numpy.dtype([("q", "<i2"), ("r", ">f8")])
    kinds = {
        "flat": numpy.dtype([("a", "<i8"), ("b", "<f4"), ("c", "|u1")]),
        "aligned": numpy.dtype([("a", "|u1"), ("b", "<f8"), ("c", "<i2"), ("d", "<i4")], align=True),
        "swapped": numpy.dtype([("a", ">i8"), ("b", ">f4"), ("c", ">u2")]),
        "nested": numpy.dtype([("a", "<i4"), ("n", inner), ("z", "|i1")]),
        "deep": numpy.dtype([("n", [("n", [("n", inner)]), ("m", "<u4")])]),
        "arrays": numpy.dtype([("a", "<i4", (3,)), ("b", ">f4", (2, 2)), ("c", "S5", (2,))]),
        "many": numpy.dtype([("p", inner, (3,)), ("t", "S3")]),
        "gaps": numpy.dtype({"names": ["b", "a"], "formats": [">u4", "<f2"], "offsets": [9, 2], "itemsize": 21}),
        "odd names": numpy.dtype([("a b", "<i4"), ("c-d", "|u1"), ("\xe9", "<f4")]),
        "one": numpy.dtype([("only", "<f8")]),
    }
    for name, dtype in kinds.items():
        for trailing in ((), (3,)):
            data = random_records(m, dtype, (m.rows, *trailing))
            label = "%s%d" % (name, len(trailing))
            m.add(label, data)
            m.add(label + "_chunked", data, (8, *trailing))
            m.add(label + "_gzip", data, (7, *(2 for _ in trailing)), filters=["shuffle", ("gzip", 4)])
    mixed = numpy.dtype([("ok", "?"), ("text", h5py.string_dtype()), ("kind", h5py.enum_dtype({"A": 1, "B": 2}, "u1")),
                         ("f", "<f4")])
    data = numpy.zeros(m.rows, mixed)
    data["ok"], data["text"], data["f"] = m.numbers("?"), words(m.rows, 40), m.numbers("<f4")
    data["kind"] = 1 + m.numbers("?")
    m.add("mixed", data)
    m.add("mixed_gzip", data, (8,), filters=[("gzip", 4)])


def random_records(m, dtype, shape):
    """Records whose members are small numbers or words."""
    found = numpy.zeros(shape, dtype)
    fill_members(found, dtype, 1)
    return found


def fill_members(array, dtype, seed):
    for i, member in enumerate(dtype.names):
        kind = dtype[member].subdtype[0] if dtype[member].subdtype else dtype[member]
        part = array[member]
        if kind.names:
            fill_members(part, kind, seed + i + 1)
        elif kind.kind == "S":
            part[...] = numpy.array(words(part.size, kind.itemsize, seed + i)).astype(kind).reshape(part.shape)
        else:
            part[...] = numbers(kind, part.shape, seed=seed + i, small=True)


def sequences(m):
    """Values of variable length."""
    generator = numpy.random.default_rng(8)
    for code in ("i1", "<i2", ">i4", "<i8", "<u2", ">u8", "<f4", ">f4", "<f8", "<f2"):
        name = code.strip("<>") + ("b" if code[0] == ">" else "")
        data = numpy.empty(m.rows, object)
        for i, size in enumerate(generator.integers(0, 30, m.rows)):
            data[i] = numbers(code, (size,), seed=i)
        data[5] = numbers(code, (3000,))
        kind = h5py.vlen_dtype(code)
        m.add(name, data, dtype=kind)
        m.add(name + "_gzip", data, (8,), dtype=kind, filters=[("gzip", 4)])
        # h5py 3.16 reads big-endian ones as if they were little-endian.
        for ending in ("", "_gzip"):
            m.wanted[name + ending] = [v.astype(v.dtype.newbyteorder("=")) for v in data]


def names(m):
    """Groups in groups, links, odd names, and what is no dataset."""
    data = m.numbers("<i4", 2)
    m.add("a b/c-d", data)
    m.add("gr\xfc\xdfe/\u00fc", data + 1)
    m.add("deep/" * 12 + "x", data + 2)
    m.add("a.b", data + 3)
    m.file["deep"].attrs["note"] = "an attribute"
    m.file["deep/type"] = numpy.dtype("<i4")
    m.file["deep/group"] = h5py.SoftLink("/deep")
    m.file["gone"] = h5py.SoftLink("/nowhere")
    m.file["far"] = h5py.ExternalLink("not-there.h5", "/x")


def scalars(m):
    """Datasets without dimensions: one row."""
    for code in ("<i4", ">f8", "|u1", "bool", "<f2"):
        m.file["n_" + plain(code) + ("b" if code[0] == ">" else "")] = numbers(code, (1,), small=True)[0]
    m.file["text"] = "a scalar"
    m.file["bytes"] = numpy.bytes_(b"fixed")
    m.add("record", numpy.array((1, (2.5, 3.5)), [("a", "<i4"), ("b", ">f4", (2,))]))


def empty(m):
    """Datasets without rows, and rows without values."""
    for code in ("<i4", ">f8", "|u1", "bool", "S4"):
        short = plain(code) + ("b" if code[0] == ">" else "")
        m.make("n%s/contiguous" % short, code, (m.rows, 13))
        m.make("n%s/chunked" % short, code, (m.rows, 13), (8, 5), maxshape=(None, 13))
        m.make("n%s/gzip" % short, code, (m.rows,), (8,), maxshape=(None,), filters=["shuffle", ("gzip", 4)])
    m.make("text", h5py.string_dtype(), (m.rows,), (8,), maxshape=(None,))
    m.make("sequence", h5py.vlen_dtype("<i4"), (m.rows,), (8,), maxshape=(None,))
    m.make("pair", numpy.dtype([("a", "<i4"), ("b", ">f4", (2,))]), (m.rows,), (8,), maxshape=(None,))
    cut = m.make("cut", "<i4", (20, 3), (8, 3), maxshape=(None, 3), filters=[("gzip", 1)])
    cut[...] = 1
    cut.resize((m.rows, 3))


def library(m):
    """What only libhdf5 can read."""
    data = m.numbers("<i4", 13)
    outside = [m.path + ".a.raw", m.path + ".b.raw"]
    m.add("external", data, external=[(outside[0], 100, data.nbytes // 2), (outside[1], 0, data.nbytes)])
    for label, base, size, precision, offset in (
            ("i17", h5t.STD_I32LE, 4, 17, 3), ("u11", h5t.STD_U16BE, 2, 11, 2), ("i33", h5t.STD_I64LE, 8, 33, 0),
            ("u24", h5t.STD_U32LE, 3, 24, 0), ("i24b", h5t.STD_I32BE, 3, 24, 0), ("i40", h5t.STD_I64LE, 5, 40, 0)):
        odd_integer(m, label, base, size, precision, offset)
    values = m.numbers("<f8", 3, small=True).astype(numpy.longdouble) / 3
    m.add("long_double", values)
    m.wanted["long_double"] = values.astype("<f8")

def foreign(m):
    """Filters that we do not have; libhdf5 loads them as plug-ins."""
    m.add("bzip2", m.numbers("<i2", 13, small=True), (8, 5), filters=[plugin("BZip2")])
    m.add("shuffle_bzip2", m.numbers("<i2", 13, small=True), (8, 13), filters=["shuffle", plugin("BZip2")])
    m.add("blosc2", m.numbers("<f4", 13, small=True), (8, 13), filters=[plugin("Blosc2")])


def odd_integer(m, label, base, size, precision, offset):
    """An integer that does not use all bits of its bytes, or has an odd number of them."""
    kind = base.copy()
    kind.set_precision(precision)
    kind.set_offset(offset)
    kind.set_size(size)
    low = -2 ** (precision - 1) if kind.get_sign() == h5t.SGN_2 else 0
    high = 2 ** precision + low
    memory = numpy.dtype("%s%d" % ("i" if low else "u", 4 if precision <= 32 and size > 2 else max(size, 2) if size < 3 else 8))
    data = numpy.random.default_rng(precision).integers(low, high, (m.rows, 3)).astype(memory)
    for ending, options in (("", {}), ("_gzip", {"chunks": (8, 3), "filters": ["shuffle", ("gzip", 4)]})):
        found = m.make("odd/" + label + ending, kind, data.shape, **options)
        found.id.write(h5s.ALL, h5s.ALL, data, h5t.py_create(memory))
        m.wanted["odd/" + label + ending] = data


def virtual(m):
    """A dataset that is made of rows of others."""
    data = m.numbers("<f4", 5, small=True)
    path = m.path + ".source.h5"
    with h5py.File(path, "w", libver=m.libver) as source:
        source.create_dataset("even", data=data[0::2], chunks=(4, 5), compression="gzip")
        source["odd"] = data[1::2]
    layout = h5py.VirtualLayout(data.shape, data.dtype)
    layout[0::2] = h5py.VirtualSource(path, "even", data[0::2].shape)
    layout[1::2] = h5py.VirtualSource(path, "odd", data[1::2].shape)
    m.file.create_virtual_dataset("virtual", layout)
    holes = h5py.VirtualLayout(data.shape, data.dtype)
    holes[10:20] = h5py.VirtualSource(path, "even", data[0::2].shape)[:10]
    holes[30:40] = h5py.VirtualSource(m.path + ".not-there.h5", "even", data[0::2].shape)[:10]
    m.file.create_virtual_dataset("holes", holes, fillvalue=7)


# Subjects that exist in both formats, and those that only the new one has.
BOTH = [layouts, indexes, resized, filters, coders, plugins, masks, streams, fills, types, strings, compounds, sequences, names,
        library, foreign]
NEW_ONLY = [edges, virtual]


def matrix():
    """Pairs of a subject and a format."""
    return [(s, f) for s in BOTH for f in FORMATS] + [(s, "new") for s in NEW_ONLY]


def made(directory, subject, form="old", rows=ROWS, **options):
    """Makes the file of a subject: its maker, closed, with path, wanted and indexes."""
    path = os.path.join(directory, "%s-%s%s.h5" % (subject.__name__, form, "".join("-%s%s" % o for o in options.items())))
    with Maker(path, FORMATS[form], rows, **options) as m:
        subject(m)
    return m


# ---- the test programs ----

class Session:
    """A build directory and a directory to write to."""

    def __init__(self, build, directory):
        self.build, self.directory = os.path.abspath(build), directory
        self.stoker = pipelib.Stoker(self.build)
        self.program = os.path.join(self.build, "stoker")

    def path(self, name):
        return os.path.join(self.directory, name)

    @functools.cached_property
    def helper_library(self):
        """The libhdf5 that the helper program was linked with."""
        helper = os.path.join(self.build, "libexec", "stoker-hdf5")
        listing = subprocess.run(["ldd", helper], stdout=subprocess.PIPE, check=True, timeout=60).stdout.decode()
        return re.search(r"libhdf5\S* => (\S+)", listing).group(1)

    def helper_has_filter(self, number):
        """Whether that libhdf5 can load a filter from HDF5_PLUGIN_PATH; in a process of its own, which may crash."""
        code = "import ctypes, sys; sys.exit(ctypes.CDLL(%r).H5Zfilter_avail(%d) != 1)" % (self.helper_library, number)
        return subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def tests_of(module):
    """The functions of a module that are tests, in the order in which they are written."""
    found = [value for name, value in vars(module).items() if name.startswith("test_") and callable(value)]
    return sorted(found, key=lambda f: f.__code__.co_firstlineno)


def main(tests):
    """
    Runs pairs of a name and a function, each on a Session of the build directory that the first argument names; further
    arguments choose by parts of names.
    """
    chosen = [a for a in sys.argv[2:] if not a.startswith("-")]
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for name, test in tests:
        if chosen and not any(part in name for part in chosen):
            continue
        with tempfile.TemporaryDirectory(prefix="stoker-hdf5-") as directory:
            try:
                test(Session(sys.argv[1], directory))
                counts["passed"] += 1
            except Skip as reason:
                counts["skipped"] += 1
                print("%s: skipped: %s" % (name, reason))
            except AssertionError as error:
                counts["failed"] += 1
                print("%s: %s" % (name, error if str(error) else traceback.format_exc()))
            except Exception:  # the others are worth running whatever this one met
                counts["failed"] += 1
                print("%s:\n%s" % (name, traceback.format_exc()))
        sys.stdout.flush()
    skipped = ", %d skipped" % counts["skipped"] if counts["skipped"] else ""
    print("%d passed, %d failed%s" % (counts["passed"], counts["failed"], skipped))
    return 1 if counts["failed"] else 0
