/* Fuzzes global heaps: any bytes as a file and as descriptors; what is kept in memory must not change what is found. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "formats/hdf5.h"

enum { HEADER = 4, LIMITS = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint8_t sum;

static void read_all(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        sum = (uint8_t)(sum + data[i]);
}

/* All heaps must say the same; each view lives until its own heap is asked again. */
static void get_from_all(stk__h5_heap *const *heaps, const stk__h5_file *file, int fd, const uint8_t *descriptor,
                         size_t unit)
{
    const uint8_t *first = NULL;
    size_t first_size = 0;
    stk_status wanted = STK_OK;
    for (int i = 0; i < LIMITS; i++) {
        const uint8_t *data = NULL;
        size_t size = 0;
        stk_error err = {0};
        const stk_status status = stk__h5_heap_get(heaps[i], file, fd, descriptor, unit, &data, &size, &err);
        if (status != STK_OK && err.message[0] == 0)
            abort();
        if (i == 0) {
            first = data;
            first_size = size;
            wanted = status;
            read_all(data, size);
        } else if (status != wanted || size != first_size || (size && memcmp(data, first, size) != 0)) {
            abort();
        }
    }
}

static void get_inline(const uint8_t *data, size_t size, const uint8_t *descriptor, size_t unit)
{
    const uint8_t *view;
    size_t view_size;
    if (stk__h5_inline_get(data, size, descriptor, unit, &view, &view_size, NULL) != STK_OK || view_size == 0)
        return;
    if (view < data || view_size > size || view - data > (ptrdiff_t)(size - view_size))
        abort();
    read_all(view, view_size);
}

/* Descriptors stand at the beginning of the file. */
static void get_all(const uint8_t *options, const uint8_t *data, size_t size, int fd)
{
    static char path[] = "fuzz";
    static const size_t limits[LIMITS] = {1 << 20, 0, 5000, 12000};
    static const size_t units[] = {1, 2, 4, 8};
    const stk__h5_file file = {.path = path,
                               .offset_size = 2 << options[0] % 3,
                               .length_size = 2 << options[1] % 3,
                               .base = options[2],
                               .id = {(int64_t)size, 0}};
    const size_t step = 8 + (size_t)file.offset_size;
    stk__h5_heap *heaps[LIMITS] = {0};
    bool ready = true;
    for (int i = 0; i < LIMITS; i++)
        ready = stk__h5_heap_new(limits[i], &heaps[i], NULL) == STK_OK && ready;
    for (size_t i = 0; ready && i < options[3] && (i + 1) * step <= size; i++)
        get_from_all(heaps, &file, fd, data + i * step, units[i % STK_COUNT(units)]);
    for (size_t i = 0; i < options[3] && (i + 1) * 16 <= size; i++)
        get_inline(data, size, data + i * 16, units[i % STK_COUNT(units)]);
    for (int i = 0; i < LIMITS; i++)
        stk__h5_heap_free(heaps[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEADER)
        return 0;
    const int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0)
        return 0;
    if (write(fd, data + HEADER, size - HEADER) == (ssize_t)(size - HEADER))
        get_all(data, data + HEADER, size - HEADER, fd);
    close(fd);
    return 0;
}
