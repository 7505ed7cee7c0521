/*
 * Where chunks lie: a file driver that only watches where libhdf5 would read.
 *
 * H5Dget_chunk_info takes time in proportion to the number of chunks for each of them, forgets the user block, and
 * gives wrong addresses for extensible arrays that grow along another dimension than the first (libhdf5 1.10.8).
 * H5Dread_chunk knows better: it looks a chunk up and reads it with one call of the driver. Ours notes place and size
 * of that call and reads nothing.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "helper.h"
#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

#include "base/banned.h"

/* Looking for a chunk that is not there takes about 2 us: past these many libhdf5 may read the dataset. */
#define MAX_MISSING 4000000
#define MAX_WALKED 200000
/* H5Dget_chunk_info for n chunks takes time in proportion to n * n. */
#define MAX_LISTED 8000
#define MAX_STORED_BYTES ((uint64_t)1 << 30)

typedef struct probe_file {
    H5FD_t pub; /* first: libhdf5 sees this part alone */
    int fd;
    haddr_t eoa, eof;
} probe_file;

/* What the driver saw; libhdf5 calls it from the one thread there is. */
static struct {
    bool on; /* note reads of raw data instead of doing them */
    unsigned reads;
    haddr_t address;
    size_t size;
} seen;

/* ---- the driver ---- */

static H5FD_t *probe_open(const char *name, unsigned flags, hid_t fapl, haddr_t max)
{
    struct stat st;
    if (flags & (H5F_ACC_RDWR | H5F_ACC_TRUNC | H5F_ACC_CREAT))
        return NULL;
    const int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    probe_file *f = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? stk__calloc(1, sizeof *f) : NULL;
    if (!f) {
        close(fd);
        return NULL;
    }
    f->fd = fd;
    f->eof = (haddr_t)st.st_size;
    return &f->pub;
}

static herr_t probe_close(H5FD_t *file)
{
    probe_file *f = (probe_file *)file;
    close(f->fd);
    stk__free(f);
    return 0;
}

static herr_t probe_query(const H5FD_t *file, unsigned long *flags)
{
    *flags = H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_AGGREGATE_SMALLDATA;
    return 0;
}

static haddr_t probe_get_eoa(const H5FD_t *file, H5FD_mem_t type)
{
    return ((const probe_file *)file)->eoa;
}

static herr_t probe_set_eoa(H5FD_t *file, H5FD_mem_t type, haddr_t address)
{
    ((probe_file *)file)->eoa = address;
    return 0;
}

static haddr_t probe_get_eof(const H5FD_t *file, H5FD_mem_t type)
{
    return ((const probe_file *)file)->eof;
}

static herr_t probe_read(H5FD_t *file, H5FD_mem_t type, hid_t dxpl, haddr_t address, size_t size, void *buffer)
{
    const probe_file *f = (const probe_file *)file;
    if (seen.on && type == H5FD_MEM_DRAW) {
        seen.address = address;
        seen.size = size;
        seen.reads++;
        return 0;
    }
    for (size_t done = 0; done < size;) {
        if (address + done >= f->eof) {
            memset((char *)buffer + done, 0, size - done);
            return 0;
        }
        const ssize_t n = pread(f->fd, (char *)buffer + done, size - done, (off_t)(address + done));
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            return -1;
    }
    return 0;
}

static herr_t probe_write(H5FD_t *file, H5FD_mem_t type, hid_t dxpl, haddr_t address, size_t size, const void *buffer)
{
    return -1;
}

static const H5FD_class_t probe_class = {
#if H5_VERSION_GE(1, 13, 0)
    .version = H5FD_CLASS_VERSION,
    .value = (H5FD_class_value_t)601,
#endif
    .name = "stoker_probe",
    .maxaddr = (haddr_t)1 << 62,
    .fc_degree = H5F_CLOSE_STRONG,
    .open = probe_open,
    .close = probe_close,
    .query = probe_query,
    .get_eoa = probe_get_eoa,
    .set_eoa = probe_set_eoa,
    .get_eof = probe_get_eof,
    .read = probe_read,
    .write = probe_write,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

bool stk__h5_probe_use(hid_t fapl)
{
    static hid_t id = -1;
    if (id < 0)
        id = H5FDregister(&probe_class);
    return id >= 0 && H5Pset_driver(fapl, id, NULL) >= 0;
}

/* ---- the table ---- */

/* Memory that H5Dread_chunk is told to read into and never does. */
typedef struct scratch {
    void *data;
    size_t size;
} scratch;

static bool scratch_reserve(scratch *s, uint64_t size)
{
    if (size <= s->size)
        return true;
    if (size > MAX_STORED_BYTES)
        return false;
    if (s->data)
        munmap(s->data, s->size);
    const size_t want = (size_t)STK_MAX(size, (uint64_t)1 << 20);
    s->data = mmap(NULL, want, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (s->data == MAP_FAILED)
        *s = (scratch){0};
    else
        s->size = want;
    return s->size >= size;
}

typedef struct walk {
    stk__h5_table *table;
    hid_t dataset;
    int rank;
    hsize_t chunk[STK__H5_MAX_RANK], grid[STK__H5_MAX_RANK];
    uint64_t total; /* chunks that would fit */
    scratch scratch;
} walk;

static bool table_add(stk__h5_table *t, uint64_t number, uint64_t size, uint32_t mask)
{
    if (!stk__grow((void **)&t->entries, &t->capacity, 4 * (t->count + 1), sizeof *t->entries))
        return false;
    uint64_t *e = t->entries + 4 * t->count++;
    e[0] = number;
    e[1] = seen.address;
    e[2] = size;
    e[3] = mask;
    return true;
}

static herr_t read_chunk(const walk *w, const hsize_t *offset, uint32_t *mask)
{
    seen.on = true;
    seen.reads = 0;
#if H5_VERSION_GE(2, 0, 0)
    size_t room = w->scratch.size;
    const herr_t rc = H5Dread_chunk2(w->dataset, H5P_DEFAULT, offset, mask, w->scratch.data, &room);
#else
    const herr_t rc = H5Dread_chunk(w->dataset, H5P_DEFAULT, offset, mask, w->scratch.data);
#endif
    seen.on = false;
    return rc;
}

static void give_reason(stk__h5_table *t, const char *what)
{
    char reason[200];
    stk__text text;
    stk__h5_reason(reason, sizeof reason);
    stk__text_fixed(&text, t->why, sizeof t->why);
    stk__text_printf(&text, "%s%s%s", what, reason[0] ? ": " : "", reason);
}

typedef enum outcome { FOUND, MISSING, BROKEN } outcome;

/* Looks one chunk up; what was found is in `seen`. */
static outcome look_up(walk *w, const hsize_t *offset, uint64_t *out_size, uint32_t *out_mask)
{
    hsize_t size = 0;
    char reason[64];
    *out_mask = 0;
    if (H5Dget_chunk_storage_size(w->dataset, offset, &size) < 0) {
        stk__h5_reason(reason, sizeof reason);
        if (strcmp(reason, "chunk storage is not allocated") == 0)
            return MISSING;
        give_reason(w->table, "its chunk index cannot be read");
        return BROKEN;
    }
    if (size == 0)
        return MISSING;
    if (!scratch_reserve(&w->scratch, size)) {
        stk__text t;
        stk__text_fixed(&t, w->table->why, sizeof w->table->why);
        stk__text_printf(&t, "a chunk of %llu bytes", (unsigned long long)size);
        return BROKEN;
    }
    if (read_chunk(w, offset, out_mask) < 0 || seen.reads != 1 || seen.size != size) {
        give_reason(w->table, "a chunk cannot be found in its index");
        return BROKEN;
    }
    *out_size = size;
    return FOUND;
}

/* All places of the grid in order, until all chunks that are there were met. */
static bool walk_grid(walk *w, uint64_t wanted)
{
    hsize_t offset[STK__H5_MAX_RANK] = {0};
    uint64_t missing = 0;
    for (uint64_t number = 0; number < w->total && w->table->count < wanted; number++) {
        uint64_t size = 0;
        uint32_t mask;
        const outcome o = look_up(w, offset, &size, &mask);
        if (o == BROKEN)
            return false;
        if (o == FOUND && !table_add(w->table, number, size, mask)) {
            give_reason(w->table, "out of memory");
            return false;
        }
        if (o == MISSING && ++missing > MAX_MISSING) {
            give_reason(w->table, "too many chunks are missing");
            return false;
        }
        for (int d = w->rank - 1; d >= 0; d--) {
            offset[d] += w->chunk[d];
            if (offset[d] / w->chunk[d] < w->grid[d])
                break;
            offset[d] = 0;
        }
    }
    return true;
}

static int compare_entries(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The number of the chunk at an offset; false when none begins there. */
static bool number_of(const walk *w, const hsize_t *offset, uint64_t *out)
{
    uint64_t number = 0;
    for (int d = 0; d < w->rank; d++) {
        const hsize_t place = offset[d] / w->chunk[d];
        if (offset[d] % w->chunk[d] || place >= w->grid[d])
            return false;
        number = number * w->grid[d] + place;
    }
    *out = number;
    return true;
}

/* The few chunks of a huge grid: libhdf5 lists them. Its word is only taken when looking there finds the same chunk. */
static bool walk_list(walk *w, uint64_t wanted, uint64_t base)
{
    stk__h5_table *t = w->table;
    const hid_t space = H5Dget_space(w->dataset);
    bool ok = space >= 0;
    for (uint64_t i = 0; ok && i < wanted; i++) {
        hsize_t offset[STK__H5_MAX_RANK] = {0}, size = 0;
        uint64_t number, stored = 0;
        unsigned filters = 0;
        uint32_t mask;
        haddr_t address = HADDR_UNDEF;
        ok = H5Dget_chunk_info(w->dataset, space, i, offset, &filters, &address, &size) >= 0;
        if (!ok || !number_of(w, offset, &number))
            continue; /* beyond the present shape: libhdf5 does not read it either */
        ok = look_up(w, offset, &stored, &mask) == FOUND && stored == size &&
             (seen.address == address || seen.address == address + base) && table_add(t, number, stored, mask);
    }
    H5Sclose(space);
    qsort(t->entries, t->count, 4 * sizeof *t->entries, compare_entries);
    for (size_t i = 1; ok && i < t->count; i++)
        ok = t->entries[4 * i - 4] < t->entries[4 * i];
    if (!ok)
        give_reason(t, "its few chunks in a huge shape cannot be listed");
    return ok;
}

/* Listing walks the whole index each time: trees hold what is there, arrays have a place for all that could be. */
static bool is_tree(hid_t dataset)
{
    H5D_chunk_index_t type = H5D_CHUNK_IDX_NTYPES;
    return H5Dget_chunk_index_type(dataset, &type) >= 0 && (type == H5D_CHUNK_IDX_BTREE || type == H5D_CHUNK_IDX_BT2);
}

stk_status stk__h5_table_make(stk__h5_table *t, const stk__h5_open *f, hid_t dataset, int rank, const hsize_t *dims,
                              const hsize_t *chunk, uint64_t wanted, stk_error *err)
{
    walk w = {.table = t, .dataset = dataset, .rank = rank, .total = 1};
    bool huge = false;
    *t = (stk__h5_table){0};
    for (int d = 0; d < rank; d++) {
        w.chunk[d] = chunk[d];
        w.grid[d] = dims[d] / chunk[d] + (dims[d] % chunk[d] != 0);
        huge = huge || __builtin_mul_overflow(w.total, w.grid[d], &w.total) || w.total > INT64_MAX;
    }
    H5Eclear2(H5E_DEFAULT);
    bool ok = true;
    if (wanted == 0 || (!huge && w.total == 0))
        return STK_OK;
    if (huge || wanted > STK__H5_MAX_CHUNKS) {
        ok = false;
        give_reason(t, huge ? "too many chunks would fit into its shape" : "too many chunks");
    } else if (w.total > MAX_WALKED && w.total / 64 > wanted && wanted <= MAX_LISTED && is_tree(dataset) &&
               walk_list(&w, wanted, f->base)) {
        ok = true;
    } else {
        t->count = 0;
        ok = walk_grid(&w, wanted);
    }
    if (ok)
        t->why[0] = 0;
    if (w.scratch.data)
        munmap(w.scratch.data, w.scratch.size);
    H5Eclear2(H5E_DEFAULT);
    if (!ok)
        t->count = 0;
    return STK_OK;
}

void stk__h5_table_clear(stk__h5_table *t)
{
    stk__free(t->entries);
    *t = (stk__h5_table){0};
}
