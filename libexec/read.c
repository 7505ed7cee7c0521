/* READ: rows of a dataset by way of libhdf5, for what nobody else can read. */
#include <string.h>

#include "base/mem.h"
#include "helper.h"

#include "base/banned.h"

#define MAX_BYTES ((uint64_t)1 << 30)

/* The file and the dataset of the last request, kept open for the next; one thread. */
static struct {
    char *path, *name;
    stk__h5_open file;
    stk__h5_view view;
    uint64_t row_elements;
} last = {.file = {.file = -1},
          .view = {.dataset = -1, .type = -1, .space = -1, .creation = -1, .plan = {.memory = -1}}};

static void forget_dataset(void)
{
    stk__h5_view_close(&last.view);
    stk__free(last.name);
    last.name = NULL;
}

static void forget_file(void)
{
    forget_dataset();
    stk__h5_close_file(&last.file);
    stk__free(last.path);
    last.path = NULL;
}

static bool is_same_file(const char *path)
{
    struct stat now;
    const struct stat *then = &last.file.id;
    return last.path && strcmp(last.path, path) == 0 && stat(path, &now) == 0 && now.st_dev == then->st_dev &&
           now.st_ino == then->st_ino && now.st_size == then->st_size && now.st_mtim.tv_sec == then->st_mtim.tv_sec &&
           now.st_mtim.tv_nsec == then->st_mtim.tv_nsec;
}

static stk_status keep_file(const char *path, stk_error *err)
{
    if (is_same_file(path))
        return STK_OK;
    forget_file();
    STK_TRY(stk__h5_open_file(&last.file, path, false, err));
    last.path = stk__strdup(path);
    if (last.path)
        return STK_OK;
    forget_file();
    return stk__nomem(strlen(path), err);
}

static stk_status keep_dataset(const char *name, stk_error *err)
{
    const stk__h5_view *v = &last.view;
    if (last.name && strcmp(last.name, name) == 0)
        return STK_OK;
    forget_dataset();
    STK_TRY(stk__h5_view_open(&last.view, &last.file, name, err));
    last.row_elements = 1;
    bool over = false;
    for (int d = 1; d < v->rank; d++)
        over = over || __builtin_mul_overflow(last.row_elements, (uint64_t)v->dims[d], &last.row_elements);
    stk_status status = STK_OK;
    if (over)
        status = stk_error_set(err, STK_CORRUPT, "rows of '%s' have more than 2^64 elements", name);
    else if (v->null_space || v->plan.in.count == 0)
        status = stk_error_set(err, STK_UNSUPPORTED, "'%s' has nothing to read: %s", name,
                               v->null_space ? "its shape is null" : v->plan.why);
    else if (!(last.name = stk__strdup(name)))
        status = stk__nomem(strlen(name), err);
    if (status != STK_OK)
        forget_dataset();
    return status;
}

/* Sizes of what was asked for, all within bounds. */
static stk_status measure(uint64_t first, uint64_t rows, uint64_t *elements, stk_error *err)
{
    const stk__h5_view *v = &last.view;
    const uint64_t all = v->rank ? v->dims[0] : 1;
    uint64_t in, out;
    if (first > all || rows > all - first)
        return stk_error_set(err, STK_INVALID, "rows %llu to %llu of '%s', which has %llu", (unsigned long long)first,
                             (unsigned long long)(first + rows), last.name, (unsigned long long)all);
    if (__builtin_mul_overflow(rows, last.row_elements, elements) ||
        __builtin_mul_overflow(*elements, (uint64_t)v->plan.in.element, &in) ||
        __builtin_mul_overflow(*elements, (uint64_t)v->plan.out.element, &out) || in > MAX_BYTES || out > MAX_BYTES)
        return stk_error_set(err, STK_INVALID, "%llu rows of '%s' are more than 1 GiB", (unsigned long long)rows,
                             last.name);
    return STK_OK;
}

/* Reads into `data`, which is zeroed: where libhdf5 leaves gaps nothing of ours may show. */
static stk_status read_rows(uint64_t first, uint64_t rows, uint8_t *data, hid_t memory_space, stk_error *err)
{
    const stk__h5_view *v = &last.view;
    const hid_t space = H5Scopy(v->space);
    bool ok = space >= 0;
    if (ok && v->rank) {
        hsize_t start[STK__H5_MAX_RANK] = {0}, count[STK__H5_MAX_RANK];
        memcpy(count, v->dims, sizeof count);
        start[0] = first;
        count[0] = rows;
        ok = H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0;
    }
    ok = ok && H5Dread(v->dataset, v->plan.memory, memory_space, space, H5P_DEFAULT, data) >= 0;
    const stk_status status = ok ? STK_OK
                                 : stk__h5_fail(err, STK_CORRUPT, "libhdf5 cannot read '%s' from row %llu on",
                                                last.name, (unsigned long long)first);
    if (space >= 0)
        H5Sclose(space);
    return status;
}

/* Rows as the leaves describe them. */
static stk_status fetch(uint64_t first, uint64_t rows, uint64_t elements, stk__h5_answer *a, stk_error *err)
{
    const stk__h5_plan *p = &last.view.plan;
    const hsize_t count = elements;
    const size_t in_bytes = (size_t)elements * p->in.element, out_bytes = (size_t)elements * p->out.element;
    uint8_t *data = stk__calloc(1, in_bytes), *out = NULL;
    const hid_t space = H5Screate_simple(1, &count, NULL);
    stk_status status = STK_OK;
    if (!data || space < 0)
        status = stk__nomem(in_bytes, err);
    if (status == STK_OK)
        status = read_rows(first, rows, data, space, err);
    if (status == STK_OK && stk__h5_plan_converts(p)) {
        out = stk__alloc(out_bytes);
        status = out ? stk__h5_plan_convert(p, data, out, (size_t)elements, &a->heap, err) : stk__nomem(out_bytes, err);
    }
    /* Also what a read that failed left behind. */
    if (p->variable && data && space >= 0)
        H5Dvlen_reclaim(p->memory, space, H5P_DEFAULT, data);
    if (space >= 0)
        H5Sclose(space);
    if (status == STK_OK) {
        a->data = out ? out : data;
        a->data_size = out_bytes;
        stk__free(out ? data : NULL);
        return STK_OK;
    }
    stk__free(out);
    stk__free(data);
    return status;
}

stk_status stk__h5_read_request(const stk__h5_request *r, stk__h5_answer *answer, stk_error *err)
{
    uint64_t elements = 0;
    if (!r->path || r->dataset_count != 1)
        return stk_error_set(err, STK_INVALID, "%zu datasets to be read, wanted 1 of a file", r->dataset_count);
    STK_TRY(keep_file(r->path, err));
    STK_TRY(keep_dataset(r->datasets[0], err));
    STK_TRY(measure(r->first_row, r->rows, &elements, err));
    answer->has_data = true;
    if (elements == 0)
        return STK_OK;
    return fetch(r->first_row, r->rows, elements, answer, err);
}
