/* Rows that libhdf5 reads for us, in the helper. */
#include <string.h>

#include "base/mem.h"
#include "base/wire.h"
#include "formats/hdf5.h"

#include "base/banned.h"

#define READ_TIMEOUT_MS 60000

/* The data and the heap of an answer; false when it is no sound message. */
static bool find_rows(const uint8_t *answer, size_t size, stk__wire *data, stk__wire *heap)
{
    stk__wire w = {answer, answer + size};
    uint32_t field, type;
    while (w.p < w.end) {
        if (!stk__wire_tag(&w, &field, &type))
            return false;
        stk__wire *to = field == STK__H5_ANSWER_DATA ? data : field == STK__H5_ANSWER_HEAP ? heap : NULL;
        if (to && type == STK__WIRE_BYTES ? !stk__wire_bytes(&w, to) : !stk__wire_skip(&w, type))
            return false;
    }
    return true;
}

static stk_status take_rows(const uint8_t *answer, size_t size, size_t wanted, uint8_t *out, uint8_t **out_heap,
                            size_t *out_heap_bytes, stk_error *err)
{
    stk__wire data = {NULL, NULL}, heap = {NULL, NULL};
    if (!find_rows(answer, size, &data, &heap) || (size_t)(data.end - data.p) != wanted)
        return stk_error_set(err, STK_CORRUPT, "libhdf5 gave %zu bytes of rows, wanted %zu",
                             (size_t)(data.end - data.p), wanted);
    if (wanted)
        memcpy(out, data.p, wanted);
    const size_t heap_bytes = (size_t)(heap.end - heap.p);
    if (heap_bytes == 0)
        return STK_OK;
    *out_heap = stk__alloc(heap_bytes);
    if (!*out_heap)
        return stk__nomem(heap_bytes, err);
    memcpy(*out_heap, heap.p, heap_bytes);
    *out_heap_bytes = heap_bytes;
    return STK_OK;
}

stk_status stk__h5_library_rows(stk__h5_helper *helper, const char *path, const stk__h5_dataset *d, int64_t first,
                                int64_t rows, size_t max_heap, uint8_t *out, uint8_t **out_heap, size_t *out_heap_bytes,
                                stk_error *err)
{
    const size_t wanted = (size_t)rows * d->row_bytes;
    uint8_t *answer = NULL;
    size_t size = 0;
    stk__text request = STK__TEXT_INIT;
    *out_heap = NULL;
    *out_heap_bytes = 0;
    stk__wire_put_uint(&request, STK__H5_REQUEST_KIND, STK__H5_ASK_READ);
    stk__wire_put_bytes(&request, STK__H5_REQUEST_PATH, path, strlen(path));
    stk__wire_put_bytes(&request, STK__H5_REQUEST_DATASET, d->path, strlen(d->path));
    stk__wire_put_uint(&request, STK__H5_REQUEST_FIRST_ROW, (uint64_t)first);
    stk__wire_put_uint(&request, STK__H5_REQUEST_ROWS, (uint64_t)rows);
    stk_status status = STK_OK;
    if (request.failed)
        status = stk__nomem(request.length, err);
    else
        status = stk__h5_helper_ask(helper, &request, READ_TIMEOUT_MS, wanted + max_heap + 4096, &answer, &size, err);
    stk__text_clear(&request);
    if (status == STK_OK)
        status = take_rows(answer, size, wanted, out, out_heap, out_heap_bytes, err);
    stk__free(answer);
    return status;
}
