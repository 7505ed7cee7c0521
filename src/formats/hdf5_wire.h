/*
 * What this library and its helper program stoker-hdf5 say to each other, and what a cached index holds.
 *
 * The helper alone calls libhdf5, so that a file that makes that library crash or hang takes nobody else down. It
 * reads requests from standard input and answers on standard output. Each is a frame: its size as 8 bytes
 * (little-endian), then a message in protobuf wire format (base/wire.h). Numbers are varints unless told otherwise;
 * `text` is bytes without NUL. Unknown fields are skipped. Both sides take the other's words for untrusted.
 */
#ifndef STK_FORMATS_HDF5_WIRE_H
#define STK_FORMATS_HDF5_WIRE_H

/* Goes up with every change of what follows; cached indexes of another version are made anew. */
#define STK__H5_WIRE_VERSION 2
#define STK__H5_HELPER_NAME "stoker-hdf5"

/* Limits of what either side accepts. */
#define STK__H5_MAX_RANK 32
#define STK__H5_MAX_DATASETS 100000
#define STK__H5_MAX_LEAVES 4096
#define STK__H5_MAX_NAME 4096
#define STK__H5_MAX_SOURCES 100000
#define STK__H5_MAX_CHUNKS 100000000
#define STK__H5_MAX_ELEMENT_BYTES (64u << 20)
#define STK__H5_MAX_ATTRIBUTE_BYTES 65536

/* ---- requests ---- */
enum {
    STK__H5_REQUEST_KIND = 1,      /* STK__H5_ASK_... */
    STK__H5_REQUEST_PATH = 2,      /* text: the file */
    STK__H5_REQUEST_DATASET = 3,   /* text, repeated: paths; none: all datasets. READ, CHUNK, ROWS: one */
    STK__H5_REQUEST_FIRST_ROW = 4, /* READ, ROWS */
    STK__H5_REQUEST_ROWS = 5,      /* READ: how many. CHUNK: rows of a last one that is not full. FINISH: rows of all */
    STK__H5_REQUEST_NEW = 6,       /* CREATE, repeated: a NEW message for each dataset */
    STK__H5_REQUEST_CHUNK_OFFSET = 7, /* CHUNK, repeated: element coordinates */
    STK__H5_REQUEST_MASK = 8,         /* CHUNK: filters that were left out */
    STK__H5_REQUEST_DATA = 9,         /* CHUNK: bytes as to be stored. ROWS: values of variable length, see below */
    STK__H5_REQUEST_ATTRIBUTE = 10    /* CREATE, repeated: an ATTRIBUTE message, of the root group */
};
enum {
    STK__H5_ASK_DESCRIBE = 1, /* datasets without their chunk tables */
    STK__H5_ASK_INDEX = 2,    /* datasets with their chunk tables */
    /* rows of a dataset through libhdf5: answers DATA and HEAP. The file stays open for the next */
    STK__H5_ASK_READ = 3,
    STK__H5_ASK_CREATE = 4, /* a new file, with all its datasets; the helper writes that one until FINISH */
    STK__H5_ASK_CHUNK = 5,  /* writes one chunk as it is (H5Dwrite_chunk), growing the dataset as needed */
    STK__H5_ASK_ROWS = 6,   /* writes rows of a dataset of variable length */
    STK__H5_ASK_FINISH = 7  /* cuts all datasets to ROWS rows, flushes and closes */
};

/* ---- answers ---- */
enum {
    STK__H5_ANSWER_STATUS = 1,  /* an stk_status */
    STK__H5_ANSWER_MESSAGE = 2, /* text; with a status other than OK */
    STK__H5_ANSWER_FILE = 3,    /* DESCRIBE and INDEX: a FILE message */
    STK__H5_ANSWER_DATA = 4,    /* READ: rows * row elements * element size, as the leaves say */
    STK__H5_ANSWER_HEAP = 5     /* READ: what values of variable length point into, see KIND_VLEN */
};
enum {
    STK__H5_FILE_VERSION = 1,     /* STK__H5_WIRE_VERSION */
    STK__H5_FILE_LIBRARY = 2,     /* text: "1.10.8" */
    STK__H5_FILE_OFFSET_SIZE = 3, /* bytes of an address in the file: 2, 4 or 8 (also 16, 32: library path only) */
    STK__H5_FILE_LENGTH_SIZE = 4,
    STK__H5_FILE_BASE = 5,    /* size of the user block */
    STK__H5_FILE_DATASET = 6, /* repeated: a DATASET message */
    STK__H5_FILE_SKIPPED = 7, /* repeated text: what could not be looked at, and why ("/g/x: unknown type") */
    STK__H5_FILE_SIZE = 8,    /* as the helper saw the file: size, mtime (ns since 1970), inode, device */
    STK__H5_FILE_MTIME = 9,
    STK__H5_FILE_INODE = 10,
    STK__H5_FILE_DEVICE = 11,
    STK__H5_FILE_ATTRIBUTE = 12 /* repeated: an ATTRIBUTE message, of the root group */
};
enum {
    STK__H5_DATASET_PATH = 1, /* text, from the root: "/group/x" */
    /* text for people: "float32", "float32 big-endian", "compound {a: int64, b: float32[3]}" */
    STK__H5_DATASET_TYPE = 2,
    STK__H5_DATASET_DIM = 3,          /* repeated, one for each dimension; none: a scalar */
    STK__H5_DATASET_MAX_DIM = 4,      /* repeated; UINT64_MAX: unlimited */
    STK__H5_DATASET_ELEMENT = 5,      /* bytes of an element as stored, or as READ gives it */
    STK__H5_DATASET_LAYOUT = 6,       /* STK__H5_LAYOUT_... */
    STK__H5_DATASET_WHY = 7,          /* text: why only libhdf5 can read it ("virtual dataset"); absent: we can */
    STK__H5_DATASET_LEAF = 8,         /* repeated: a LEAF message; none: no field can be made of it, and WHY says so */
    STK__H5_DATASET_CHUNK_DIM = 9,    /* repeated, as many as DIM; chunked ones alone */
    STK__H5_DATASET_FILTER = 10,      /* repeated: a FILTER message, in the order of application */
    STK__H5_DATASET_FILL = 11,        /* bytes of one element; absent: zeros */
    STK__H5_DATASET_RAW_EDGES = 12,   /* 1: chunks that reach past the current shape were stored without filters */
    STK__H5_DATASET_ADDRESS = 13,     /* contiguous: absolute, user block included; absent: never written */
    STK__H5_DATASET_COMPACT = 14,     /* bytes: the data of a compact dataset */
    STK__H5_DATASET_STORED = 15,      /* bytes that it takes in the file */
    STK__H5_DATASET_CHUNK_COUNT = 16, /* chunks that are there */
    /* INDEX: bytes, 32 for each chunk that is there, sorted by number: four little-endian uint64: number in the grid
       (row-major over ceil(dim / chunk)), absolute address, size, mask */
    STK__H5_DATASET_CHUNKS = 17,
    STK__H5_DATASET_ATTRIBUTE = 18, /* repeated: an ATTRIBUTE message */
    STK__H5_DATASET_INDEX = 19,     /* text for people: "v1 B-tree", "fixed array", ... where it can be told */
    STK__H5_DATASET_HAS_FILL = 20,  /* 1: the user set a fill value */
    STK__H5_DATASET_SOURCE = 21     /* repeated text: a file that the data of a virtual or external one lies in, as written */
};
enum {
    STK__H5_LAYOUT_COMPACT = 0,
    STK__H5_LAYOUT_CONTIGUOUS = 1,
    STK__H5_LAYOUT_CHUNKED = 2,
    STK__H5_LAYOUT_VIRTUAL = 3,
    STK__H5_LAYOUT_EXTERNAL = 4
};
enum {
    STK__H5_FILTER_ID = 1,
    STK__H5_FILTER_FLAGS = 2, /* bit 0: optional */
    STK__H5_FILTER_VALUE = 3, /* repeated */
    STK__H5_FILTER_NAME = 4   /* text */
};
/*
 * A field that an element holds: the element itself, or a member of a compound, through any number of arrays and
 * compounds.
 */
enum {
    STK__H5_LEAF_PATH = 1,      /* text: "" for the element itself, "a" or "a/b" for members */
    STK__H5_LEAF_KIND = 2,      /* STK__H5_KIND_... */
    STK__H5_LEAF_SIZE = 3,      /* bytes of one value as stored */
    STK__H5_LEAF_OFFSET = 4,    /* of the first value in the element */
    STK__H5_LEAF_SWAP = 5,      /* 1: big-endian */
    STK__H5_LEAF_PAD = 6,       /* KIND_STRING: STK__H5_PAD_... */
    STK__H5_LEAF_DIM = 7,       /* repeated: array dimensions around it, outermost first */
    STK__H5_LEAF_STRIDE = 8,    /* repeated, as many: bytes from one to the next along it */
    STK__H5_LEAF_BASE_KIND = 9, /* KIND_VLEN: kind, size and swap of its values */
    STK__H5_LEAF_BASE_SIZE = 10,
    STK__H5_LEAF_BASE_SWAP = 11,
    STK__H5_LEAF_UTF8 = 12 /* strings: 1: their character set is UTF-8 */
};
enum {
    STK__H5_KIND_INT = 1,    /* two's complement, all bits used, 1, 2, 4 or 8 bytes; enums too */
    STK__H5_KIND_UINT = 2,   /* bit fields and object references too */
    STK__H5_KIND_FLOAT = 3,  /* IEEE, 2, 4 or 8 bytes */
    STK__H5_KIND_BFLOAT = 4, /* the upper half of a float32 */
    STK__H5_KIND_BOOL = 5,   /* an enum of one byte with FALSE = 0 and TRUE = 1, as h5py writes it */
    STK__H5_KIND_STRING = 6, /* of fixed size */
    STK__H5_KIND_OPAQUE = 7,
    /* Stored as uint32 length, address (FILE_OFFSET_SIZE bytes), uint32 index of a global heap, all little-endian. READ
       gives 16 bytes: uint32 length, uint64 place in HEAP, uint32 0. */
    STK__H5_KIND_VLEN_STRING = 8,
    /* A sequence of INT, UINT, FLOAT, BFLOAT or BOOL; stored likewise; the length counts values. */
    STK__H5_KIND_VLEN = 9
};
enum { STK__H5_PAD_NUL_TERMINATED = 0, STK__H5_PAD_NUL = 1, STK__H5_PAD_SPACE = 2 };
enum {
    STK__H5_ATTRIBUTE_NAME = 1,
    STK__H5_ATTRIBUTE_KIND = 2,   /* KIND_INT, UINT, FLOAT, BFLOAT, BOOL, STRING (any string type) */
    STK__H5_ATTRIBUTE_SIZE = 3,   /* bytes of a value; numbers are little-endian in DATA */
    STK__H5_ATTRIBUTE_DIM = 4,    /* repeated; none: a scalar */
    STK__H5_ATTRIBUTE_DATA = 5,   /* numbers */
    STK__H5_ATTRIBUTE_STRING = 6, /* repeated: strings */
    STK__H5_ATTRIBUTE_UTF8 = 7,   /* 1: its character set is UTF-8 */
    STK__H5_ATTRIBUTE_BIG = 8     /* 1: was big-endian in the file */
};
/* A dataset to be made. Rows have KIND, SIZE and DIM; the dataset has one dimension more, which grows. */
enum {
    STK__H5_NEW_PATH = 1,
    /* INT, UINT, FLOAT, BFLOAT (a float type of 8 and 7 bits), BOOL, STRING, OPAQUE, VLEN_STRING or VLEN */
    STK__H5_NEW_KIND = 2,
    STK__H5_NEW_SIZE = 3,
    STK__H5_NEW_BASE_KIND = 4, /* VLEN */
    STK__H5_NEW_BASE_SIZE = 5,
    STK__H5_NEW_DIM = 6, /* repeated: of a row */
    STK__H5_NEW_CHUNK_ROWS = 7,
    STK__H5_NEW_FILTER = 8, /* repeated: a FILTER message; set without asking whether libhdf5 has it */
    STK__H5_NEW_FILL = 9,
    STK__H5_NEW_ATTRIBUTE = 10, /* repeated: an ATTRIBUTE message */
    STK__H5_NEW_PAD = 11,       /* STRING */
    STK__H5_NEW_SWAP = 12,      /* 1: store big-endian; chunks come in that order already, ROWS do not */
    STK__H5_NEW_UTF8 = 13       /* STRING, VLEN_STRING: 1: the character set is UTF-8, not ASCII */
};
/* DATA of ASK_ROWS: for each value of each row, in order, a uint32 (little-endian) number of bytes and then these. */

#endif
