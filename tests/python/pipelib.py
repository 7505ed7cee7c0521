"""Batches of a pipeline as numpy arrays, through the C library alone: what tests read pixels and numbers with."""
import ctypes
import os

import numpy

MAX_DIMS = 6
OK, END = 0, 1
DTYPES = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "bfloat16", "float32",
          "float64", "bytes"]


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 512), ("file", ctypes.c_char * 512),
                ("offset", ctypes.c_int64), ("record", ctypes.c_int64), ("field", ctypes.c_char * 128),
                ("op", ctypes.c_char * 48), ("line", ctypes.c_int), ("column", ctypes.c_int)]


class Bytes(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_int64)]


class Column(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("ndim", ctypes.c_int32),
                ("shape", ctypes.c_int64 * (MAX_DIMS + 1)), ("data", ctypes.c_void_p), ("elements", ctypes.c_int64),
                ("size_bytes", ctypes.c_int64), ("offsets", ctypes.POINTER(ctypes.c_int64)),
                ("row_shapes", ctypes.POINTER(ctypes.c_int64))]


class Batch(ctypes.Structure):
    _fields_ = [("rows", ctypes.c_int64), ("column_count", ctypes.c_int32), ("columns", ctypes.POINTER(Column)),
                ("index", ctypes.c_int64), ("epoch", ctypes.c_int64)]


class Config(ctypes.Structure):
    """The start of stk_config; struct_size tells the library that the rest keeps its defaults."""
    _fields_ = [("struct_size", ctypes.c_size_t), ("registry", ctypes.c_void_p), ("threads", ctypes.c_int),
                ("memory_bytes", ctypes.c_uint64), ("seed", ctypes.c_uint64), ("rank", ctypes.c_int64),
                ("world", ctypes.c_int64), ("cache_dir", ctypes.c_char_p), ("on_error", ctypes.c_int),
                ("max_errors", ctypes.c_int64), ("quarantine_path", ctypes.c_char_p), ("resume_path", ctypes.c_char_p),
                ("no_approximate", ctypes.c_bool)]


class PipelineError(Exception):
    pass


def wide(bfloats):
    """float32 of bfloat16, which numpy does not have."""
    return (bfloats.astype(numpy.uint32) << 16).view(numpy.float32)


def numbers(address, dtype, count):
    """A copy of `count` numbers at an address; bfloat16 comes as float32."""
    name = DTYPES[dtype]
    kind = numpy.dtype("uint16" if name == "bfloat16" else name)
    if count == 0:
        return numpy.empty(0, numpy.float32 if name == "bfloat16" else kind)
    data = numpy.frombuffer(ctypes.string_at(address, count * kind.itemsize), kind)
    return wide(data) if name == "bfloat16" else data


def values(column):
    """All elements of a column, one after another."""
    if DTYPES[column.dtype] != "bytes":
        return numbers(column.data, column.dtype, column.elements)
    items = ctypes.cast(column.data, ctypes.POINTER(Bytes))
    found = numpy.empty(column.elements, object)
    for i in range(column.elements):
        found[i] = ctypes.string_at(items[i].data, items[i].size)
    return found


def array(column, rows):
    """A dense column as one array, a ragged one as a list of arrays."""
    data = values(column)
    shape = [column.shape[d] for d in range(column.ndim)]
    if not column.offsets:
        return data.reshape(shape)
    found = []
    for r in range(rows):
        part = data[column.offsets[r]:column.offsets[r + 1]]
        if column.row_shapes:
            part = part.reshape([column.row_shapes[r * (column.ndim - 1) + d] for d in range(column.ndim - 1)])
        found.append(part)
    return found


class Stoker:
    """libstoker.so of a build directory."""

    def __init__(self, build):
        self.library = library = ctypes.CDLL(os.path.join(build, "src", "libstoker.so"))
        handle, error = ctypes.c_void_p, ctypes.POINTER(Error)
        library.stk_pipeline_open.argtypes = [ctypes.c_char_p, ctypes.POINTER(Config), ctypes.POINTER(handle), error]
        library.stk_pipeline_next.argtypes = [handle, ctypes.POINTER(ctypes.POINTER(Batch)), error]
        library.stk_batch_release.argtypes = [handle, ctypes.POINTER(Batch)]
        library.stk_pipeline_close.argtypes = [handle]
        library.stk_error_format.argtypes = [error, ctypes.c_char_p, ctypes.c_size_t]
        library.stk_error_format.restype = ctypes.c_size_t
        for name in ("stk_batch_release", "stk_pipeline_close"):
            getattr(library, name).restype = None

    def check(self, status, error, text):
        if status not in (OK, END):
            line = ctypes.create_string_buffer(2048)
            self.library.stk_error_format(error, line, len(line))
            raise PipelineError("%s\nin %s" % (line.value.decode("utf-8", "replace"), text))
        return status == OK

    def batches(self, text, **config):
        """Runs a pipeline: a dict of arrays for each batch."""
        settings = Config(ctypes.sizeof(Config), **config)
        pipeline, error = ctypes.c_void_p(), Error()
        self.check(self.library.stk_pipeline_open(text.encode(), settings, pipeline, error), error, text)
        try:
            batch = ctypes.POINTER(Batch)()
            while self.check(self.library.stk_pipeline_next(pipeline, batch, error), error, text):
                found = batch.contents
                columns = [found.columns[i] for i in range(found.column_count)]
                result = {c.name.decode(): array(c, found.rows) for c in columns}
                self.library.stk_batch_release(pipeline, batch)
                yield result
        finally:
            self.library.stk_pipeline_close(pipeline)

    def rows(self, text, field="image", **config):
        """One field of all samples, as a list."""
        return [row for batch in self.batches(text, **config) for row in batch[field]]
