/*
 * Counts what libjpeg takes for an image before it takes it. Its memory manager is a table of functions: ours stand before
 * the library's own. Most of it are the coefficients of images with several scans, two bytes for each of a component's
 * samples, which the library asks for all at once (realize_virt_arrays) before it decodes the first of them.
 */
#include "base/compiler.h"
#include "formats/image_jpeg_impl.h"

#include "base/banned.h"

/* Charged in steps. What nearly all images take is not: it is part of what each thread has outside of the budget. */
#define STEP ((size_t)256 * 1024)
#define FREE_BYTES ((size_t)512 * 1024)
/* What the library's pools take beyond what it is asked for: alignment of rows, headers. */
#define ROW_EXTRA 128

static struct stk__jpeg *jpeg_of(j_common_ptr codec)
{
    return (struct stk__jpeg *)(void *)codec; /* its first member */
}

/* Jumps out of the library where the budget has no room. */
static void count(j_common_ptr codec, size_t size)
{
    struct stk__jpeg *jpeg = jpeg_of(codec);
    stk__jpeg_memory *m = &jpeg->memory;
    m->taken += size;
    if (STK_LIKELY(m->taken <= m->charged + FREE_BYTES))
        return;
    const size_t more = (m->taken - m->charged - FREE_BYTES + STEP - 1) / STEP * STEP;
    if (m->from->charge && m->from->charge(m->from->arg, more, m->err) != STK_OK) {
        m->refused = true;
        longjmp(jpeg->trap.jump, 1);
    }
    m->charged += more;
}

static void *count_small(j_common_ptr codec, int pool, size_t size)
{
    count(codec, size + ROW_EXTRA);
    return jpeg_of(codec)->memory.library.alloc_small(codec, pool, size);
}

static void *count_large(j_common_ptr codec, int pool, size_t size)
{
    count(codec, size + ROW_EXTRA);
    return jpeg_of(codec)->memory.library.alloc_large(codec, pool, size);
}

static JSAMPARRAY count_samples(j_common_ptr codec, int pool, JDIMENSION across, JDIMENSION rows)
{
    count(codec, ((size_t)across * sizeof(JSAMPLE) + ROW_EXTRA) * rows);
    return jpeg_of(codec)->memory.library.alloc_sarray(codec, pool, across, rows);
}

static JBLOCKARRAY count_blocks(j_common_ptr codec, int pool, JDIMENSION across, JDIMENSION rows)
{
    count(codec, ((size_t)across * sizeof(JBLOCK) + ROW_EXTRA) * rows);
    return jpeg_of(codec)->memory.library.alloc_barray(codec, pool, across, rows);
}

static jvirt_sarray_ptr note_samples(j_common_ptr codec, int pool, boolean zero, JDIMENSION across, JDIMENSION rows,
                                     JDIMENSION access)
{
    jpeg_of(codec)->memory.wanted += ((size_t)across * sizeof(JSAMPLE) + ROW_EXTRA) * rows;
    return jpeg_of(codec)->memory.library.request_virt_sarray(codec, pool, zero, across, rows, access);
}

static jvirt_barray_ptr note_blocks(j_common_ptr codec, int pool, boolean zero, JDIMENSION across, JDIMENSION rows,
                                    JDIMENSION access)
{
    jpeg_of(codec)->memory.wanted += ((size_t)across * sizeof(JBLOCK) + ROW_EXTRA) * rows;
    return jpeg_of(codec)->memory.library.request_virt_barray(codec, pool, zero, across, rows, access);
}

static void count_wanted(j_common_ptr codec)
{
    stk__jpeg_memory *m = &jpeg_of(codec)->memory;
    count(codec, m->wanted);
    m->wanted = 0;
    m->library.realize_virt_arrays(codec);
}

void stk__jpeg_memory_begin(struct stk__jpeg *jpeg, const stk__image_memory *from, stk_error *err)
{
    stk__jpeg_memory *m = &jpeg->memory;
    struct jpeg_memory_mgr *manager = jpeg->codec.mem;
    m->library = *manager;
    m->from = from;
    m->err = err;
    m->taken = m->wanted = 0;
    m->refused = false;
    manager->max_memory_to_use = 0; /* whatever the environment says */
    manager->alloc_small = count_small;
    manager->alloc_large = count_large;
    manager->alloc_sarray = count_samples;
    manager->alloc_barray = count_blocks;
    manager->request_virt_sarray = note_samples;
    manager->request_virt_barray = note_blocks;
    manager->realize_virt_arrays = count_wanted;
}

void stk__jpeg_memory_end(struct stk__jpeg *jpeg)
{
    stk__jpeg_memory *m = &jpeg->memory;
    if (m->charged && m->from->give_back)
        m->from->give_back(m->from->arg, m->charged);
    m->charged = 0;
}
