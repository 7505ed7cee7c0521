/* Tables by the Arrow C data interface: schemas, arrays that keep the table alive, and a stream of one array. */
#include <errno.h>
#include <string.h>

#include <stoker/arrow.h>

#include "analyze/workbench_impl.h"
#include "base/mem.h"

#include "base/banned.h"

/* Where there is no value at all; Arrow wants offsets to be there even so. */
static const int64_t nothing[2] = {0};

/* ---- schemas ---- */

typedef struct schema_node {
    char *name;
    struct ArrowSchema *children; /* also the dictionary */
    struct ArrowSchema **pointers;
} schema_node;

static void schema_release(struct ArrowSchema *schema)
{
    schema_node *node = schema->private_data;
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (schema->children[i]->release)
            schema->children[i]->release(schema->children[i]);
    }
    if (schema->dictionary && schema->dictionary->release)
        schema->dictionary->release(schema->dictionary);
    stk__free(node->name);
    stk__free(node->children);
    stk__free(node->pointers);
    stk__free(node);
    schema->release = NULL;
}

/* A schema with room for so many children (or a dictionary), all of them released. */
static bool schema_start(struct ArrowSchema *out, const char *format, const char *name, size_t children)
{
    schema_node *node = stk__calloc(1, sizeof *node);
    memset(out, 0, sizeof *out);
    if (!node)
        return false;
    node->name = stk__strdup(name);
    node->children = stk__calloc(children + 1, sizeof *node->children);
    node->pointers = stk__calloc(children + 1, sizeof *node->pointers);
    out->private_data = node;
    out->format = format;
    out->name = node->name;
    out->release = schema_release;
    if (node->name && node->children && node->pointers) {
        for (size_t i = 0; i < children; i++)
            node->pointers[i] = &node->children[i];
        out->children = node->pointers;
        return true;
    }
    schema_release(out);
    return false;
}

static const char *format_of(const stk__table_column *c)
{
    const bool bytes = c->kind == STK_KIND_BYTES;
    switch (c->layout) {
    case STK__LAYOUT_INT64:
        return "l";
    case STK__LAYOUT_UINT32:
        /* Numbers of texts are below 2^31 unless there are more texts than that. */
        return c->kind == STK_KIND_DICTIONARY && c->dictionary->count <= INT32_MAX ? "i" : "I";
    case STK__LAYOUT_UINT16:
        return "S";
    case STK__LAYOUT_UINT8:
        return "C";
    case STK__LAYOUT_DOUBLE:
        return "g";
    case STK__LAYOUT_TEXT:
        return bytes ? "z" : "u";
    case STK__LAYOUT_LARGE:
        return bytes ? "Z" : "U";
    default:
        return "n";
    }
}

static bool column_schema(const stk__table_column *c, struct ArrowSchema *out)
{
    if (!schema_start(out, format_of(c), c->name, 1))
        return false;
    out->flags = ARROW_FLAG_NULLABLE;
    if (c->kind != STK_KIND_DICTIONARY)
        return true;
    struct ArrowSchema *texts = out->children[0];
    if (!schema_start(texts, c->dictionary->large ? "U" : "u", "", 0)) {
        schema_release(out);
        return false;
    }
    texts->flags = ARROW_FLAG_NULLABLE;
    out->dictionary = texts;
    return true;
}

static bool table_schema(const stk_table *table, struct ArrowSchema *out)
{
    if (!schema_start(out, "+s", "", table->count))
        return false;
    for (size_t i = 0; i < table->count; i++) {
        if (!column_schema(&table->columns[i], out->children[i])) {
            schema_release(out);
            return false;
        }
        out->n_children++;
    }
    return true;
}

/* ---- arrays ---- */

typedef struct array_node {
    stk_table *table; /* counted: a child may be taken out and outlive the others */
    const void *buffers[3];
    struct ArrowArray *children; /* also the dictionary */
    struct ArrowArray **pointers;
} array_node;

static void array_release(struct ArrowArray *array)
{
    array_node *node = array->private_data;
    for (int64_t i = 0; i < array->n_children; i++) {
        if (array->children[i]->release)
            array->children[i]->release(array->children[i]);
    }
    if (array->dictionary && array->dictionary->release)
        array->dictionary->release(array->dictionary);
    stk_table_free(node->table);
    stk__free(node->children);
    stk__free(node->pointers);
    stk__free(node);
    array->release = NULL;
}

static bool array_start(stk_table *table, struct ArrowArray *out, int64_t length, size_t children)
{
    array_node *node = stk__calloc(1, sizeof *node);
    memset(out, 0, sizeof *out);
    if (!node)
        return false;
    node->children = stk__calloc(children + 1, sizeof *node->children);
    node->pointers = stk__calloc(children + 1, sizeof *node->pointers);
    if (!node->children || !node->pointers) {
        stk__free(node->children);
        stk__free(node->pointers);
        stk__free(node);
        return false;
    }
    for (size_t i = 0; i < children; i++)
        node->pointers[i] = &node->children[i];
    node->table = stk__table_ref(table);
    *out = (struct ArrowArray){
        .length = length,
        .buffers = node->buffers,
        .children = node->pointers,
        .release = array_release,
        .private_data = node,
    };
    return true;
}

static bool dictionary_array(stk_table *table, const stk__dictionary *d, struct ArrowArray *out)
{
    if (!array_start(table, out, d->count, 0))
        return false;
    out->n_buffers = 3;
    out->buffers[1] = d->offsets;
    out->buffers[2] = d->bytes ? (const void *)d->bytes : nothing;
    return true;
}

static bool column_array(stk_table *table, stk__table_column *c, struct ArrowArray *out)
{
    if (!stk__table_ready(table, c) || !array_start(table, out, table->rows, 1))
        return false;
    out->null_count = c->null_count;
    if (c->kind == STK_KIND_NULL)
        return true; /* no buffers at all */
    out->n_buffers = c->layout == STK__LAYOUT_TEXT || c->layout == STK__LAYOUT_LARGE ? 3 : 2;
    out->buffers[0] = c->ready_validity;
    out->buffers[1] = c->ready_data ? c->ready_data : nothing;
    if (out->n_buffers == 3)
        out->buffers[2] = c->bytes ? (const void *)c->bytes : nothing;
    if (c->kind != STK_KIND_DICTIONARY)
        return true;
    if (!dictionary_array(table, c->dictionary, out->children[0])) {
        array_release(out);
        return false;
    }
    out->dictionary = out->children[0];
    return true;
}

static bool table_array(stk_table *table, struct ArrowArray *out)
{
    if (!array_start(table, out, table->rows, table->count))
        return false;
    out->n_buffers = 1;
    for (size_t i = 0; i < table->count; i++) {
        if (!column_array(table, &table->columns[i], out->children[i])) {
            array_release(out);
            return false;
        }
        out->n_children++;
    }
    return true;
}

stk_status stk_table_export(const stk_table *table, struct ArrowSchema *out_schema, struct ArrowArray *out_array,
                            stk_error *err)
{
    struct ArrowSchema schema;
    struct ArrowArray array;
    if (out_schema && !table_schema(table, &schema))
        return stk__nomem(table->count * sizeof schema, err);
    /* What the export adds to a table is behind its lock. */
    if (out_array && !table_array((stk_table *)table, &array)) {
        if (out_schema)
            schema.release(&schema);
        return stk_error_set(err, STK_NOMEM, "out of memory: could not make %lld rows ready for export",
                             (long long)table->rows);
    }
    if (out_schema)
        *out_schema = schema;
    if (out_array)
        *out_array = array;
    return STK_OK;
}

/* ---- the stream ---- */

typedef struct stream_state {
    stk_table *table;
    bool given;
    stk_error error;
} stream_state;

static int stream_status(stream_state *s, stk_status status)
{
    return status == STK_OK ? 0 : status == STK_NOMEM ? ENOMEM : EINVAL;
}

static int stream_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    stream_state *s = stream->private_data;
    return stream_status(s, stk_table_export(s->table, out, NULL, &s->error));
}

static int stream_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    stream_state *s = stream->private_data;
    if (s->given) {
        memset(out, 0, sizeof *out);
        return 0;
    }
    const int code = stream_status(s, stk_table_export(s->table, NULL, out, &s->error));
    s->given = code == 0;
    return code;
}

static const char *stream_error(struct ArrowArrayStream *stream)
{
    const stream_state *s = stream->private_data;
    return s->error.message[0] ? s->error.message : NULL;
}

static void stream_release(struct ArrowArrayStream *stream)
{
    stream_state *s = stream->private_data;
    stk_table_free(s->table);
    stk__free(s);
    stream->release = NULL;
}

stk_status stk_table_export_stream(const stk_table *table, struct ArrowArrayStream *out, stk_error *err)
{
    stream_state *s = stk__calloc(1, sizeof *s);
    if (!s)
        return stk__nomem(sizeof *s, err);
    stk_error_clear(&s->error);
    s->table = stk__table_ref((stk_table *)table);
    *out = (struct ArrowArrayStream){stream_schema, stream_next, stream_error, stream_release, s};
    return STK_OK;
}
