/* Global heaps of HDF5 files, where values of variable length lie: objects, found by address and index. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "formats/hdf5.h"

#include "base/banned.h"

enum {
    WINDOW = 4096, /* what is read at a time; libhdf5 makes no smaller collections */
    COLLECTION_MAX = 1 << 30,
    OBJECTS_MAX = UINT16_MAX,
    PLACE_UNIT = 8, /* objects begin at multiples of it */
    BUCKETS_MIN = 64,
    BUCKETS_MAX = 1 << 16
};

typedef struct collection {
    struct collection *newer, *older; /* by their last use */
    struct collection *next;          /* in the same bucket */
    int64_t address;                  /* in the file, user block included */
    size_t size;                      /* in the file */
    uint8_t *data;                    /* all of it; NULL: larger than the limit, so that objects are read one by one */
    size_t data_capacity;
    uint32_t *places; /* of objects by index, in units of PLACE_UNIT; 0: there is none */
    size_t place_count, place_capacity;
} collection;

struct stk__h5_heap {
    size_t max_bytes, used;
    const stk__h5_file *file; /* that the collections are of */
    stk__file_id id;
    collection **buckets;
    size_t bucket_count; /* a power of two */
    collection *newest, *oldest;
    uint8_t *object; /* read on its own */
    size_t object_capacity;
};

/* A heap in a file: what the functions below need to read it. */
typedef struct source {
    const stk__h5_file *file;
    int fd;
    size_t length_size;
    size_t header_size; /* of collections and of objects alike */
} source;

static uint64_t number_at(const uint8_t *p, size_t bytes)
{
    uint64_t x = 0;
    for (size_t i = 0; i < bytes; i++)
        x |= (uint64_t)p[i] << (8 * i);
    return x;
}

static size_t round_up(size_t size)
{
    return (size + PLACE_UNIT - 1) & ~(size_t)(PLACE_UNIT - 1);
}

/* Adds the place to an error. */
static stk_status at_offset(stk_error *err, const stk__h5_file *file, int64_t offset, stk_status status)
{
    if (err) {
        snprintf(err->file, sizeof err->file, "%s", file->path);
        err->offset = offset;
    }
    return status;
}

/* ---- the collections that are kept ---- */

static void collection_free(collection *c)
{
    if (!c)
        return;
    stk__free(c->data);
    stk__free(c->places);
    stk__free(c);
}

static size_t collection_bytes(const collection *c)
{
    return sizeof *c + c->data_capacity + c->place_capacity * sizeof *c->places;
}

static collection **bucket_of(const stk__h5_heap *heap, int64_t address)
{
    return &heap->buckets[stk__mix((uint64_t)address, 0) & (heap->bucket_count - 1)];
}

static void unlink_use(stk__h5_heap *heap, collection *c)
{
    *(c->newer ? &c->newer->older : &heap->newest) = c->older;
    *(c->older ? &c->older->newer : &heap->oldest) = c->newer;
}

static void link_newest(stk__h5_heap *heap, collection *c)
{
    c->newer = NULL;
    c->older = heap->newest;
    *(heap->newest ? &heap->newest->newer : &heap->oldest) = c;
    heap->newest = c;
}

/* Takes the one that was not used for longest out; the caller owns it then. */
static collection *remove_oldest(stk__h5_heap *heap)
{
    collection *c = heap->oldest, **link = bucket_of(heap, c->address);
    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    unlink_use(heap, c);
    heap->used -= collection_bytes(c);
    return c;
}

static void remove_all(stk__h5_heap *heap)
{
    while (heap->oldest)
        collection_free(remove_oldest(heap));
}

static void add_newest(stk__h5_heap *heap, collection *c)
{
    collection **bucket = bucket_of(heap, c->address);
    c->next = *bucket;
    *bucket = c;
    link_newest(heap, c);
    heap->used += collection_bytes(c);
}

static collection *find_collection(stk__h5_heap *heap, int64_t address)
{
    collection *c = heap->newest;
    if (c && c->address == address)
        return c;
    c = *bucket_of(heap, address);
    while (c && c->address != address)
        c = c->next;
    if (c) {
        unlink_use(heap, c);
        link_newest(heap, c);
    }
    return c;
}

/* Whether `more` bytes are too many beside what is kept. */
static bool is_full(const stk__h5_heap *heap, size_t more)
{
    return heap->oldest && (more > heap->max_bytes || heap->used > heap->max_bytes - more);
}

/* A collection with room for data_size bytes: the memory of one that had to go, where that fits. */
static stk_status make_collection(stk__h5_heap *heap, size_t data_size, collection **out, stk_error *err)
{
    collection *c = NULL;
    while (is_full(heap, data_size + sizeof *c)) {
        collection_free(c);
        c = remove_oldest(heap);
    }
    if (c && (c->data_capacity < data_size || c->data_capacity / 2 > data_size)) {
        collection_free(c);
        c = NULL;
    }
    if (!c) {
        c = stk__calloc(1, sizeof *c);
        if (!c)
            return stk__nomem(sizeof *c, err);
        if (data_size) {
            c->data = stk__alloc(data_size);
            if (!c->data) {
                stk__free(c);
                return stk__nomem(data_size, err);
            }
            c->data_capacity = data_size;
        }
    }
    c->place_count = 0;
    *out = c;
    return STK_OK;
}

stk_status stk__h5_heap_new(size_t max_bytes, stk__h5_heap **out, stk_error *err)
{
    stk__h5_heap *heap = stk__calloc(1, sizeof *heap);
    if (!heap)
        return stk__nomem(sizeof *heap, err);
    heap->max_bytes = max_bytes;
    heap->bucket_count = BUCKETS_MIN;
    while (heap->bucket_count < BUCKETS_MAX && heap->bucket_count < max_bytes / WINDOW)
        heap->bucket_count *= 2;
    heap->buckets = stk__calloc(heap->bucket_count, sizeof *heap->buckets);
    if (!heap->buckets) {
        const size_t wanted = heap->bucket_count * sizeof *heap->buckets;
        stk__free(heap);
        return stk__nomem(wanted, err);
    }
    *out = heap;
    return STK_OK;
}

void stk__h5_heap_free(stk__h5_heap *heap)
{
    if (!heap)
        return;
    remove_all(heap);
    stk__free(heap->buckets);
    stk__free(heap->object);
    stk__free(heap);
}

/* ---- reading ---- */

/* A part of a collection in memory: all of it, or what was read last. */
typedef struct window {
    const source *s;
    int64_t address;
    size_t size; /* of the collection */
    const uint8_t *data;
    size_t from, count; /* the part */
    uint8_t *buffer;    /* WINDOW bytes to read into */
} window;

/* The header of the object at `at`, where the collection has room for one. Goes forwards only. */
static stk_status window_header(window *w, size_t at, const uint8_t **out, stk_error *err)
{
    const source *s = w->s;
    if (at - w->from > w->count || w->count - (at - w->from) < s->header_size) {
        const size_t n = STK_MIN((size_t)WINDOW, w->size - at);
        w->count = 0;
        STK_TRY(stk__pread_full(s->fd, w->buffer, n, w->address + (int64_t)at, s->file->path, err));
        w->data = w->buffer;
        w->from = at;
        w->count = n;
    }
    *out = w->data + (at - w->from);
    return STK_OK;
}

static stk_status set_place(collection *c, size_t index, size_t at, stk_error *err)
{
    if (index >= c->place_count) {
        if (!stk__grow((void **)&c->places, &c->place_capacity, index + 1, sizeof *c->places))
            return stk__nomem((index + 1) * sizeof *c->places, err);
        memset(c->places + c->place_count, 0, (index + 1 - c->place_count) * sizeof *c->places);
        c->place_count = index + 1;
    }
    c->places[index] = (uint32_t)(at / PLACE_UNIT);
    return STK_OK;
}

/* Walks over all objects and notes where they lie. */
static stk_status find_objects(collection *c, window *w, stk_error *err)
{
    const size_t header = w->s->header_size;
    size_t at = header, count = 0;
    while (at <= c->size && c->size - at >= header) {
        const uint8_t *p;
        STK_TRY(window_header(w, at, &p, err));
        const size_t index = (size_t)number_at(p, 2), left = c->size - at;
        const uint64_t size = number_at(p + 8, w->s->length_size);
        if (index == 0) {
            /* Free space, its header included; it is the last one in files that libhdf5 made. */
            if (size < header || size > left || size % PLACE_UNIT)
                break;
            at += (size_t)size;
            continue;
        }
        if (size > left - header || ++count > OBJECTS_MAX) {
            const stk_status status =
                count > OBJECTS_MAX
                    ? stk_error_set(err, STK_CORRUPT, "a global heap has more than %d objects", OBJECTS_MAX)
                    : stk_error_set(err, STK_CORRUPT,
                                    "object %zu of a global heap has %llu bytes, but its collection ends after %zu",
                                    index, (unsigned long long)size, left - header);
            return at_offset(err, w->s->file, c->address + (int64_t)at, status);
        }
        STK_TRY(set_place(c, index, at, err));
        at += header + round_up((size_t)size);
    }
    return STK_OK;
}

/* The size of the collection that begins at `data`. */
static stk_status read_header(const source *s, int64_t address, const uint8_t *data, size_t *out_size, stk_error *err)
{
    const uint64_t left = (uint64_t)(s->file->id.size_bytes - address);
    stk_status status;
    if (memcmp(data, "GCOL", 4) != 0) {
        status = stk_error_set(err, STK_CORRUPT, "no global heap here: found %02x %02x %02x %02x, wanted \"GCOL\"",
                               data[0], data[1], data[2], data[3]);
    } else if (data[4] != 1) {
        status = stk_error_set(err, STK_CORRUPT, "a global heap has version %d, wanted 1", data[4]);
    } else {
        const uint64_t size = number_at(data + 8, s->length_size);
        if (size >= s->header_size && size <= left && size <= COLLECTION_MAX) {
            *out_size = (size_t)size;
            return STK_OK;
        }
        status = stk_error_set(err, STK_CORRUPT, "a global heap has %llu bytes, wanted %zu to %llu",
                               (unsigned long long)size, s->header_size,
                               (unsigned long long)STK_MIN(left, (uint64_t)COLLECTION_MAX));
    }
    return at_offset(err, s->file, address, status);
}

/* Fills a new collection; `head` has the first head_size bytes of it and what follows. */
static stk_status fill_collection(collection *c, const source *s, uint8_t *head, size_t head_size, stk_error *err)
{
    window w = {.s = s, .address = c->address, .size = c->size, .buffer = head, .data = head, .count = head_size};
    if (c->data) {
        const size_t have = STK_MIN(head_size, c->size);
        memcpy(c->data, head, have);
        STK_TRY(stk__pread_full(s->fd, c->data + have, c->size - have, c->address + (int64_t)have, s->file->path, err));
        w.data = c->data;
        w.count = c->size;
    }
    return find_objects(c, &w, err);
}

static stk_status load_collection(stk__h5_heap *heap, const source *s, int64_t address, collection **out,
                                  stk_error *err)
{
    uint8_t head[WINDOW];
    const size_t head_size = (size_t)STK_MIN((int64_t)WINDOW, s->file->id.size_bytes - address);
    collection *c = NULL;
    size_t size = 0;
    STK_TRY(stk__pread_full(s->fd, head, head_size, address, s->file->path, err));
    STK_TRY(read_header(s, address, head, &size, err));
    STK_TRY(make_collection(heap, size <= heap->max_bytes ? size : 0, &c, err));
    c->address = address;
    c->size = size;
    const stk_status status = fill_collection(c, s, head, head_size, err);
    if (status != STK_OK) {
        collection_free(c);
        return status;
    }
    while (is_full(heap, collection_bytes(c))) /* places took some more */
        collection_free(remove_oldest(heap));
    add_newest(heap, c);
    *out = c;
    return STK_OK;
}

/* ---- values ---- */

/* Header and first bytes of an object in a collection that is not kept. */
static stk_status read_object(stk__h5_heap *heap, const source *s, const collection *c, size_t at, size_t size,
                              stk_error *err)
{
    if (heap->object_capacity < size) {
        stk__free(heap->object);
        heap->object = stk__alloc(size);
        heap->object_capacity = heap->object ? size : 0;
        if (!heap->object)
            return stk__nomem(size, err);
    }
    return stk__pread_full(s->fd, heap->object, size, c->address + (int64_t)at, s->file->path, err);
}

static stk_status get_object(stk__h5_heap *heap, const source *s, const collection *c, size_t index, uint64_t wanted,
                             const uint8_t **out, stk_error *err)
{
    if (index >= c->place_count || c->places[index] == 0)
        return at_offset(
            err, s->file, c->address,
            stk_error_set(err, STK_CORRUPT, "a global heap has no object %zu, which a value points to", index));
    const size_t at = (size_t)c->places[index] * PLACE_UNIT, left = c->size - at - s->header_size;
    const uint8_t *p = c->data ? c->data + at : NULL;
    if (!p) {
        /* At least its header, so that a wrong size is told apart from a file that ends. */
        STK_TRY(read_object(heap, s, c, at, s->header_size + (size_t)STK_MIN(wanted, (uint64_t)left), err));
        p = heap->object;
    }
    const uint64_t found = number_at(p + 8, s->length_size);
    if (found < wanted)
        return at_offset(err, s->file, c->address + (int64_t)at,
                         stk_error_set(err, STK_CORRUPT, "object %zu of a global heap has %llu bytes, wanted %llu",
                                       index, (unsigned long long)found, (unsigned long long)wanted));
    *out = p + s->header_size;
    return STK_OK;
}

static bool is_size(int n)
{
    return n == 2 || n == 4 || n == 8;
}

/* Where the collection lies that a descriptor names. */
static stk_status place_of(const source *s, uint64_t address, int64_t *out, stk_error *err)
{
    const stk__h5_file *file = s->file;
    const uint64_t room = (uint64_t)file->id.size_bytes;
    const uint64_t before = (uint64_t)file->base + s->header_size;
    if (file->base < 0 || file->id.size_bytes < 0 || before > room || address > room - before)
        return at_offset(err, file, file->base,
                         stk_error_set(err, STK_CORRUPT,
                                       "a value lies in a global heap at %llu, but the file has %lld bytes",
                                       (unsigned long long)address, (long long)file->id.size_bytes));
    *out = file->base + (int64_t)address;
    return STK_OK;
}

static stk_status set_empty(const uint8_t **out_data, size_t *out_size)
{
    *out_data = (const uint8_t *)"";
    *out_size = 0;
    return STK_OK;
}

stk_status stk__h5_heap_get(stk__h5_heap *heap, const stk__h5_file *file, int fd, const uint8_t *descriptor,
                            size_t unit, const uint8_t **out_data, size_t *out_size, stk_error *err)
{
    if (!is_size(file->offset_size) || !is_size(file->length_size))
        return at_offset(err, file, 0,
                         stk_error_set(err, STK_UNSUPPORTED,
                                       "addresses of %d and lengths of %d bytes, wanted 2, 4 or 8", file->offset_size,
                                       file->length_size));
    const size_t offset_size = (size_t)file->offset_size;
    const source s = {file, fd, (size_t)file->length_size, round_up(8 + (size_t)file->length_size)};
    const uint64_t length = number_at(descriptor, 4), address = number_at(descriptor + 4, offset_size);
    const size_t index = (size_t)number_at(descriptor + 4 + offset_size, 4);
    const uint64_t nowhere = UINT64_MAX >> (64 - 8 * offset_size);
    if (length == 0 || unit == 0 || address == 0)
        return set_empty(out_data, out_size);
    if (address == nowhere)
        return at_offset(err, file, -1,
                         stk_error_set(err, STK_CORRUPT, "a value of length %llu lies nowhere", (unsigned long long)length));

    int64_t place = 0;
    STK_TRY(place_of(&s, address, &place, err));
    if (length > COLLECTION_MAX / unit)
        return at_offset(err, file, place,
                         stk_error_set(err, STK_CORRUPT, "a value of %llu times %zu bytes, wanted at most %d",
                                       (unsigned long long)length, unit, COLLECTION_MAX));
    if (heap->file != file || heap->id.size_bytes != file->id.size_bytes || heap->id.mtime_ns != file->id.mtime_ns) {
        remove_all(heap);
        heap->file = file;
        heap->id = file->id;
    }
    collection *c = find_collection(heap, place);
    if (!c)
        STK_TRY(load_collection(heap, &s, place, &c, err));
    STK_TRY(get_object(heap, &s, c, index, length * unit, out_data, err));
    *out_size = (size_t)length * unit;
    return STK_OK;
}

stk_status stk__h5_inline_get(const uint8_t *heap, size_t heap_size, const uint8_t *descriptor, size_t unit,
                              const uint8_t **out_data, size_t *out_size, stk_error *err)
{
    const uint64_t length = number_at(descriptor, 4), place = number_at(descriptor + 4, 8);
    if (length == 0 || unit == 0)
        return set_empty(out_data, out_size);
    if (place > heap_size || length > (heap_size - place) / unit)
        return stk_error_set(err, STK_CORRUPT, "a value of %llu times %zu bytes at %llu of a heap that has %zu",
                             (unsigned long long)length, unit, (unsigned long long)place, heap_size);
    *out_data = heap + place;
    *out_size = (size_t)length * unit;
    return STK_OK;
}
