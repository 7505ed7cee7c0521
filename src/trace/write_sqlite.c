/* SQLite: the tables of `stoker sql`, with the same columns, as real tables of a database file. */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "trace/emit.h"
#include "trace/flat.h"
#include "trace/writer.h"

#include "base/banned.h"

enum { TRIM_ROWS = 1 << 20, SQL_BYTES = 1024 };

typedef struct database {
    const stk__trace *t;
    sqlite3 *db;
    sqlite3_stmt *insert; /* of the current table */
    int column;           /* the last one that was bound */
    uint32_t arg_set;     /* of the row before */
    uint32_t *depths;     /* of call sites */
    stk__text label;
} database;

/* ---- values, in the order of the columns ---- */

static void put_int(database *d, int64_t n)
{
    sqlite3_bind_int64(d->insert, ++d->column, n);
}

static void put_null(database *d)
{
    sqlite3_bind_null(d->insert, ++d->column);
}

/* NULL for STK__NONE. */
static void put_row(database *d, uint32_t row)
{
    if (row == STK__NONE)
        put_null(d);
    else
        put_int(d, row);
}

/* NULL for STK__NO_NUMBER, which is STK__NO_TIME as well. */
static void put_number(database *d, int64_t n)
{
    if (n == STK__NO_NUMBER)
        put_null(d);
    else
        put_int(d, n);
}

/* NULL for "none". */
static void put_string(database *d, stk__string s)
{
    size_t size;
    const char *text = stk__trace_text(d->t, s, &size);
    if (size == 0)
        put_null(d);
    else
        sqlite3_bind_text64(d->insert, ++d->column, text, size, SQLITE_STATIC, SQLITE_UTF8);
}

static void put_text(database *d, const char *text)
{
    if (*text)
        sqlite3_bind_text(d->insert, ++d->column, text, -1, SQLITE_STATIC);
    else
        put_null(d);
}

static uint32_t track_process(const stk__trace *t, const stk__trace_track *k)
{
    return k->process == STK__NONE && k->thread != STK__NONE ? t->threads[k->thread].process : k->process;
}

/* ---- rows ---- */

static void slice_row(database *d, size_t i)
{
    const stk__trace *t = d->t;
    const stk__slices *s = &t->slices;
    const stk__trace_track *k = &t->tracks[s->track[i]];
    const uint32_t process = track_process(t, k);
    const stk__trace_thread *thread = k->thread == STK__NONE ? NULL : &t->threads[k->thread];
    const stk__trace_process *p = process == STK__NONE ? NULL : &t->processes[process];
    put_int(d, (int64_t)i);
    put_int(d, s->ts[i]);
    put_int(d, s->dur[i]);
    put_int(d, s->track[i]);
    put_string(d, s->category[i]);
    put_string(d, s->name[i]);
    put_int(d, s->depth[i]);
    put_row(d, s->parent[i]);
    put_row(d, s->args[i] ? s->args[i] : STK__NONE);
    put_row(d, k->thread);
    put_row(d, process);
    put_number(d, thread && !thread->tid_text ? thread->tid : STK__NO_NUMBER);
    put_number(d, p && !p->pid_text ? p->pid : STK__NO_NUMBER);
    put_string(d, thread ? thread->name : 0);
    put_string(d, p ? p->name : 0);
    put_row(d, k->file);
    put_int(d, (s->flags[i] & STK__SLICE_INSTANT) != 0);
    put_int(d, (s->flags[i] & STK__SLICE_UNFINISHED) != 0);
}

static void thread_row(database *d, size_t i)
{
    const stk__trace_thread *x = &d->t->threads[i];
    const stk__trace_process *p = x->process < d->t->process_count ? &d->t->processes[x->process] : NULL;
    put_int(d, (int64_t)i);
    put_int(d, (int64_t)i);
    put_number(d, x->tid_text ? STK__NO_NUMBER : x->tid);
    put_string(d, x->name);
    put_row(d, x->process);
    if (p && !x->tid_text && !p->pid_text)
        put_int(d, x->tid == p->pid);
    else
        put_null(d);
    put_string(d, x->tid_text);
    put_row(d, x->track);
    put_number(d, x->sort_index);
}

static void process_row(database *d, size_t i)
{
    const stk__trace_process *x = &d->t->processes[i];
    put_int(d, (int64_t)i);
    put_int(d, (int64_t)i);
    put_number(d, x->pid_text ? STK__NO_NUMBER : x->pid);
    put_string(d, x->name);
    put_string(d, x->labels);
    put_string(d, x->pid_text);
    put_row(d, x->file);
    put_number(d, x->sort_index);
}

static void track_row(database *d, size_t i)
{
    static const char *const types[] = {
        [STK__TRACK_THREAD] = "thread_track",   [STK__TRACK_PROCESS] = "process_track",
        [STK__TRACK_GLOBAL] = "global_track",   [STK__TRACK_ASYNC] = "async_track",
        [STK__TRACK_COUNTER] = "counter_track",
    };
    const stk__trace_track *x = &d->t->tracks[i];
    put_int(d, (int64_t)i);
    put_string(d, stk__trace_track_name(d->t, x));
    stk__text_reset(&d->label);
    stk__trace_track_label(d->t, (uint32_t)i, &d->label);
    sqlite3_bind_text64(d->insert, ++d->column, d->label.data ? d->label.data : "", d->label.length, SQLITE_STATIC,
                        SQLITE_UTF8);
    put_text(d, x->kind < STK_COUNT(types) ? types[x->kind] : "track");
    put_row(d, x->parent);
    put_row(d, x->thread);
    put_row(d, track_process(d->t, x));
    put_int(d, x->lane);
    put_row(d, x->file);
    put_string(d, x->scope);
    put_string(d, x->id);
    if (x->kind == STK__TRACK_COUNTER)
        put_string(d, x->scope);
    else
        put_text(d, stk__unit_name(x->sample_count ? x->unit : STK__UNIT_NONE));
    put_int(d, x->slice_count);
}

static void counter_row(database *d, size_t i)
{
    const stk__trace_track *k = &d->t->tracks[d->t->counters.track[i]];
    put_int(d, (int64_t)i);
    put_int(d, d->t->counters.ts[i]);
    put_int(d, d->t->counters.track[i]);
    sqlite3_bind_double(d->insert, ++d->column, d->t->counters.value[i]);
    put_string(d, k->name);
    put_row(d, track_process(d->t, k));
}

static void flow_row(database *d, size_t i)
{
    const stk__trace_flow_key *key = &d->t->flow_keys[d->t->flows.key[i]];
    put_int(d, (int64_t)i);
    put_row(d, d->t->flows.out[i]);
    put_row(d, d->t->flows.in[i]);
    put_string(d, key->name);
    put_string(d, key->category);
    put_string(d, key->id);
    put_row(d, key->file);
}

enum {
    INTS = 1 << STK__ARG_BOOL | 1 << STK__ARG_INT,
    REALS = 1 << STK__ARG_DOUBLE,
    TEXTS = 1 << STK__ARG_STRING | 1 << STK__ARG_JSON,
};

/* The value, when it is of one of these types. An empty string is a value here. */
static void put_arg(database *d, size_t i, unsigned types)
{
    const unsigned type = d->t->args.type[i] & STK__ARG_TYPE;
    const stk__arg_value value = d->t->args.value[i];
    size_t size;
    if (!(types >> type & 1)) {
        put_null(d);
    } else if (INTS >> type & 1) {
        put_int(d, value.integer);
    } else if (REALS >> type & 1) {
        sqlite3_bind_double(d->insert, ++d->column, value.real);
    } else {
        const char *text = stk__trace_text(d->t, (stk__string)value.string, &size);
        sqlite3_bind_text64(d->insert, ++d->column, text, size, SQLITE_STATIC, SQLITE_UTF8);
    }
}

static void args_row(database *d, size_t i)
{
    static const char *const types[] = {
        [STK__ARG_NULL] = "null",   [STK__ARG_BOOL] = "bool",     [STK__ARG_INT] = "int",
        [STK__ARG_DOUBLE] = "real", [STK__ARG_STRING] = "string", [STK__ARG_JSON] = "json",
    };
    const stk__args *a = &d->t->args;
    const unsigned type = a->type[i] & STK__ARG_TYPE;
    if (i == 1 || a->type[i - 1] & STK__ARG_LAST)
        d->arg_set = (uint32_t)i;
    put_int(d, (int64_t)i);
    put_int(d, d->arg_set);
    put_string(d, a->key[i]);
    put_string(d, a->key[i]);
    put_arg(d, i, INTS);
    put_arg(d, i, TEXTS);
    put_arg(d, i, REALS);
    put_text(d, type < STK_COUNT(types) ? types[type] : "null");
    put_arg(d, i, INTS | REALS | TEXTS);
}

static void file_row(database *d, size_t i)
{
    static const char *const clocks[] = {
        [STK__CLOCK_UNKNOWN] = "unknown",
        [STK__CLOCK_MONOTONIC] = "monotonic",
        [STK__CLOCK_BOOT] = "boot",
        [STK__CLOCK_REALTIME] = "realtime",
    };
    const stk__trace_file *x = &d->t->files[i];
    put_int(d, (int64_t)i);
    put_string(d, x->path);
    put_string(d, x->format);
    put_string(d, x->compression);
    put_text(d, x->clock < STK_COUNT(clocks) ? clocks[x->clock] : "unknown");
    put_int(d, (int64_t)x->size_bytes);
    put_int(d, (int64_t)x->text_bytes);
    put_int(d, (int64_t)x->events);
    put_int(d, x->resolution_ns);
    put_number(d, x->realtime_ns);
    put_number(d, x->rank >= 0 ? x->rank : STK__NO_NUMBER);
    put_int(d, x->shift_ns);
}

static void fact_row(database *d, size_t i)
{
    put_row(d, d->t->facts[i].file);
    put_string(d, d->t->facts[i].key);
    put_string(d, d->t->facts[i].value);
}

static void note_row(database *d, size_t i)
{
    const stk__trace_note *x = &d->t->notes[i];
    const stk__trace_reason reason = (stk__trace_reason)x->reason;
    put_row(d, x->file);
    put_text(d, stk__trace_reason_name(reason));
    put_int(d, (int64_t)x->count);
    put_number(d, x->offset >= 0 ? x->offset : STK__NO_NUMBER);
    put_text(d, stk__trace_reason_text(reason));
    put_int(d, stk__trace_reason_loses(reason));
}

static void sample_row(database *d, size_t i)
{
    const stk__samples *s = &d->t->samples;
    const stk__trace_track *k = &d->t->tracks[s->track[i]];
    put_int(d, (int64_t)i);
    put_number(d, s->ts[i]);
    put_int(d, s->track[i]);
    put_row(d, s->callsite[i]);
    put_int(d, s->weight[i]);
    put_text(d, stk__unit_name(k->unit));
    put_string(d, s->event[i]);
    put_row(d, k->thread);
}

static void callsite_row(database *d, size_t i)
{
    const stk__trace_callsite *x = &d->t->callsites[i];
    d->depths[i] = x->parent < i ? d->depths[x->parent] + 1 : 0;
    put_int(d, (int64_t)i);
    put_row(d, x->parent);
    put_row(d, x->frame);
    put_string(d, d->t->frames[x->frame].name);
    put_int(d, d->depths[i]);
}

static void frame_row(database *d, size_t i)
{
    const stk__trace_frame *x = &d->t->frames[i];
    put_int(d, (int64_t)i);
    put_string(d, x->name);
    put_string(d, x->file);
    put_number(d, x->line ? x->line : STK__NO_NUMBER);
    put_string(d, x->module);
    put_int(d, (x->flags & STK__FRAME_KERNEL) != 0);
    put_int(d, (x->flags & STK__FRAME_INLINED) != 0);
}

static void function_row(database *d, size_t i)
{
    const stk__trace_function *x = &d->t->functions[i];
    const stk__trace_frame *f = &d->t->frames[x->frame];
    put_int(d, (int64_t)i);
    put_string(d, f->name);
    put_string(d, f->file);
    put_number(d, f->line ? f->line : STK__NO_NUMBER);
    put_number(d, x->calls);
    put_number(d, x->primitive_calls);
    put_number(d, x->self_ns);
    put_number(d, x->total_ns);
    put_row(d, x->frame);
    put_row(d, x->file);
}

static void call_row(database *d, size_t i)
{
    const stk__trace_call *x = &d->t->calls[i];
    put_row(d, x->caller);
    put_row(d, x->callee);
    put_number(d, x->calls);
    put_number(d, x->primitive_calls);
    put_number(d, x->self_ns);
    put_number(d, x->total_ns);
}

static void total_row(database *d, size_t i)
{
    const stk__trace_total *x = &d->t->totals[i];
    put_row(d, x->file);
    put_string(d, x->track);
    put_string(d, x->name);
    put_int(d, (int64_t)x->count);
    put_int(d, (int64_t)x->total_ns);
    put_int(d, (int64_t)x->lost);
}

/* ---- tables ---- */

typedef struct table {
    const char *name, *columns;
    size_t count_offset; /* of a size_t in stk__trace */
    size_t first;        /* args: row 0 is none */
    void (*row)(database *d, size_t row);
} table;

#define COUNT(field) offsetof(stk__trace, field)

static const table tables[] = {
    {"slice",
     "id INTEGER PRIMARY KEY, ts INTEGER, dur INTEGER, track_id INTEGER, category TEXT, name TEXT, depth INTEGER, "
     "parent_id INTEGER, arg_set_id INTEGER, utid INTEGER, upid INTEGER, tid INTEGER, pid INTEGER, thread_name TEXT, "
     "process_name TEXT, file_id INTEGER, is_instant INTEGER, is_unfinished INTEGER",
     COUNT(slices.count), 0, slice_row},
    {"thread",
     "id INTEGER PRIMARY KEY, utid INTEGER, tid INTEGER, name TEXT, upid INTEGER, is_main_thread INTEGER, "
     "tid_text TEXT, track_id INTEGER, sort_index INTEGER",
     COUNT(thread_count), 0, thread_row},
    {"process",
     "id INTEGER PRIMARY KEY, upid INTEGER, pid INTEGER, name TEXT, labels TEXT, pid_text TEXT, file_id INTEGER, "
     "sort_index INTEGER",
     COUNT(process_count), 0, process_row},
    {"track",
     "id INTEGER PRIMARY KEY, name TEXT, label TEXT, type TEXT, parent_id INTEGER, utid INTEGER, upid INTEGER, "
     "lane INTEGER, file_id INTEGER, scope TEXT, async_id TEXT, unit TEXT, slices INTEGER",
     COUNT(track_count), 0, track_row},
    {"counter", "id INTEGER PRIMARY KEY, ts INTEGER, track_id INTEGER, value REAL, name TEXT, upid INTEGER",
     COUNT(counters.count), 0, counter_row},
    {"flow",
     "id INTEGER PRIMARY KEY, slice_out INTEGER, slice_in INTEGER, name TEXT, category TEXT, flow_id TEXT, "
     "file_id INTEGER",
     COUNT(flows.count), 0, flow_row},
    {"args",
     "id INTEGER PRIMARY KEY, arg_set_id INTEGER, flat_key TEXT, key TEXT, int_value INTEGER, string_value TEXT, "
     "real_value REAL, value_type TEXT, value",
     COUNT(args.count), 1, args_row},
    {"file",
     "id INTEGER PRIMARY KEY, path TEXT, format TEXT, compression TEXT, clock TEXT, size_bytes INTEGER, "
     "text_bytes INTEGER, events INTEGER, resolution_ns INTEGER, realtime_ns INTEGER, rank INTEGER, shift_ns INTEGER",
     COUNT(file_count), 0, file_row},
    {"fact", "file_id INTEGER, key TEXT, value TEXT", COUNT(fact_count), 0, fact_row},
    {"note", "file_id INTEGER, reason TEXT, count INTEGER, \"offset\" INTEGER, text TEXT, lost INTEGER",
     COUNT(note_count), 0, note_row},
    {"sample",
     "id INTEGER PRIMARY KEY, ts INTEGER, track_id INTEGER, callsite_id INTEGER, weight INTEGER, unit TEXT, "
     "event TEXT, utid INTEGER",
     COUNT(samples.count), 0, sample_row},
    {"callsite", "id INTEGER PRIMARY KEY, parent_id INTEGER, frame_id INTEGER, name TEXT, depth INTEGER",
     COUNT(callsite_count), 0, callsite_row},
    {"frame",
     "id INTEGER PRIMARY KEY, name TEXT, source_file TEXT, line_number INTEGER, module TEXT, is_kernel INTEGER, "
     "is_inlined INTEGER",
     COUNT(frame_count), 0, frame_row},
    {"function",
     "id INTEGER PRIMARY KEY, name TEXT, source_file TEXT, line_number INTEGER, calls INTEGER, "
     "primitive_calls INTEGER, self_ns INTEGER, total_ns INTEGER, frame_id INTEGER, file_id INTEGER",
     COUNT(function_count), 0, function_row},
    {"function_call",
     "caller_id INTEGER, callee_id INTEGER, calls INTEGER, primitive_calls INTEGER, self_ns INTEGER, total_ns INTEGER",
     COUNT(call_count), 0, call_row},
    {"recorded_total", "file_id INTEGER, track TEXT, name TEXT, count INTEGER, total_ns INTEGER, lost INTEGER",
     COUNT(total_count), 0, total_row},
};

static int execute(database *d, const char *sql)
{
    return sqlite3_exec(d->db, sql, NULL, NULL, NULL);
}

static int prepare_insert(database *d, const table *x)
{
    char buffer[SQL_BYTES];
    stk__text sql;
    stk__text_fixed(&sql, buffer, sizeof buffer);
    stk__text_printf(&sql, "CREATE TABLE \"%s\"(%s)", x->name, x->columns);
    const int code = execute(d, buffer);
    if (code != SQLITE_OK)
        return code;
    stk__text_fixed(&sql, buffer, sizeof buffer);
    stk__text_printf(&sql, "INSERT INTO \"%s\" VALUES(?", x->name);
    for (const char *p = x->columns; (p = strchr(p, ',')); p++)
        stk__text_puts(&sql, ",?");
    stk__text_putc(&sql, ')');
    return sqlite3_prepare_v2(d->db, buffer, -1, &d->insert, NULL);
}

static int write_table(database *d, const table *x)
{
    const size_t count = *(const size_t *)((const char *)d->t + x->count_offset);
    int code = prepare_insert(d, x);
    for (size_t i = x->first; i < count && code == SQLITE_OK; i++) {
        d->column = 0;
        x->row(d, i);
        code = sqlite3_step(d->insert) == SQLITE_DONE ? SQLITE_OK : sqlite3_errcode(d->db);
        sqlite3_reset(d->insert);
        if (i % TRIM_ROWS == TRIM_ROWS - 1)
            stk__trace_trim(d->t);
    }
    sqlite3_finalize(d->insert);
    d->insert = NULL;
    return code;
}

static int write_all(database *d)
{
    /* The file is new and is thrown away after a failure: nothing to roll back to. */
    int code = execute(d, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; "
                          "PRAGMA application_id = 1398033227; BEGIN");
    for (size_t i = 0; i < STK_COUNT(tables) && code == SQLITE_OK; i++)
        code = write_table(d, &tables[i]);
    if (code == SQLITE_OK)
        code = execute(d, "CREATE INDEX args_by_set ON args(arg_set_id); "
                          "CREATE INDEX flow_by_out ON flow(slice_out); CREATE INDEX flow_by_in ON flow(slice_in); "
                          "COMMIT");
    if (code == SQLITE_OK && d->label.failed)
        code = SQLITE_NOMEM;
    return code;
}

static stk_status write_database(database *d, const char *path, stk_error *err)
{
    d->depths = stk__calloc(d->t->callsite_count, sizeof *d->depths);
    if (!d->depths)
        return stk__nomem(d->t->callsite_count * sizeof *d->depths, err);
    /* Without locks of its own: the file is ours, and on a network file system they would meet the one that we hold. */
    int code = sqlite3_open_v2(path, &d->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, "unix-none");
    if (code == SQLITE_OK)
        code = write_all(d);
    stk_status status = STK_OK;
    if (code != SQLITE_OK)
        status = stk_error_set(err, code == SQLITE_NOMEM ? STK_NOMEM : STK_IO, "SQLite cannot write: %s",
                               d->db ? sqlite3_errmsg(d->db) : sqlite3_errstr(code));
    if (sqlite3_close(d->db) != SQLITE_OK && status == STK_OK)
        status = stk_error_set(err, STK_IO, "SQLite cannot close the file");
    stk__free(d->depths);
    stk__text_clear(&d->label);
    return status;
}

static stk_status sqlite_write_path(const stk__trace *t, const char *path, stk__write_report *report, stk_error *err)
{
    database d = {.t = t};
    stk__new_file file;
    STK_TRY(stk__new_file_open(&file, path, err)); /* an empty file is an empty database */
    stk_status status = write_database(&d, file.temp, err);
    if (status == STK_OK)
        status = stk__trace_count_joined(t, report, err);
    if (status != STK_OK) {
        stk__new_file_abort(&file);
        if (err && status == STK_IO)
            snprintf(err->file, sizeof err->file, "%s", path);
        return status;
    }
    report->slices = t->slices.count;
    report->counters = t->counters.count;
    report->samples = t->samples.count;
    report->functions = t->function_count;
    return stk__new_file_commit(&file, err);
}

const stk__trace_writer stk__writer_sqlite = {
    .name = "sqlite",
    .summary = "a SQLite database with the tables of stoker sql",
    .extensions = ".sqlite .sqlite3 .db",
    .write_path = sqlite_write_path,
};
