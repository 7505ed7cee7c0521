/* SQLite over the bytes of an input: read only, guarded against what a database from outside may hold. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "trace/read_nsys.h"

#include "base/banned.h"

enum {
    WINDOW_BYTES = 1 << 20,
    VALUE_MAX = 64 << 20, /* bytes of one text or row */
    SQL_MAX = 256 << 10,  /* bytes of one statement, also of those in the schema */
    TABLES_MAX = 4096,
    STEPS = 20000, /* of SQLite's machine, between two looks whether the user wants to stop */
    PROGRESS_ROWS = 1 << 14,
    HEADER_BYTES = 100,
};

/* ---- the bytes ---- */

/*
 * A file of SQLite's that reads from a plain file, or from bytes that were unpacked into a column of a store, which moves to a temporary
 * file past the cap on memory. There is nothing else: no journal, no locks, no way to write.
 */
struct ns_source {
    int fd; /* -1: from `bytes` */
    stk__store *store;
    stk__column bytes;
    uint64_t size, claimed; /* bytes there are, and how many the header says there should be */
    stk__input *in;
    sqlite3_vfs vfs;
    char name[40];
};

typedef struct ns_file {
    sqlite3_file base;
    ns_source *source;
} ns_file;

static int file_close(sqlite3_file *file)
{
    return SQLITE_OK;
}

static size_t read_at(const ns_source *s, void *out, size_t size, uint64_t offset)
{
    if (offset >= s->size)
        return 0;
    size = (size_t)STK_MIN(size, s->size - offset);
    if (s->fd < 0) {
        memcpy(out, (const char *)s->bytes.data + offset, size);
        return size;
    }
    size_t done = 0;
    while (done < size) {
        const ssize_t n = pread(s->fd, (char *)out + done, size - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    return done;
}

static int file_read(sqlite3_file *file, void *out, int size, sqlite3_int64 offset)
{
    ns_source *s = ((ns_file *)file)->source;
    const size_t got = offset < 0 ? 0 : read_at(s, out, (size_t)size, (uint64_t)offset);
    if (s->fd >= 0)
        stk__input_count_read(s->in, got);
    if (got == (size_t)size)
        return SQLITE_OK;
    memset((char *)out + got, 0, (size_t)size - got);
    return SQLITE_IOERR_SHORT_READ; /* SQLite goes on with the zeros */
}

static int file_write(sqlite3_file *file, const void *data, int size, sqlite3_int64 offset)
{
    return SQLITE_READONLY;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    return SQLITE_READONLY;
}

static int file_flags(sqlite3_file *file, int flags)
{
    return SQLITE_OK;
}

/* The size that the header says, so that of a file that was cut off the pages that are there can be read. */
static int file_size(sqlite3_file *file, sqlite3_int64 *out)
{
    const ns_source *s = ((ns_file *)file)->source;
    *out = (sqlite3_int64)STK_MAX(s->size, s->claimed);
    return SQLITE_OK;
}

static int file_reserved(sqlite3_file *file, int *out)
{
    *out = 0;
    return SQLITE_OK;
}

static int file_control(sqlite3_file *file, int op, void *arg)
{
    return SQLITE_NOTFOUND;
}

static int file_sector(sqlite3_file *file)
{
    return 4096;
}

static int file_traits(sqlite3_file *file)
{
    return SQLITE_IOCAP_IMMUTABLE;
}

static const sqlite3_io_methods file_methods = {
    .iVersion = 1,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_flags,
    .xFileSize = file_size,
    .xLock = file_flags,
    .xUnlock = file_flags,
    .xCheckReservedLock = file_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector,
    .xDeviceCharacteristics = file_traits,
};

static int source_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out_flags)
{
    file->pMethods = NULL;
    if (!(flags & SQLITE_OPEN_MAIN_DB))
        return SQLITE_CANTOPEN;
    ((ns_file *)file)->source = vfs->pAppData;
    file->pMethods = &file_methods;
    if (out_flags)
        *out_flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_MAIN_DB;
    return SQLITE_OK;
}

static int source_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
    return SQLITE_READONLY;
}

static int source_access(sqlite3_vfs *vfs, const char *name, int flags, int *out)
{
    *out = 0;
    return SQLITE_OK;
}

static int source_path(sqlite3_vfs *vfs, const char *name, int size, char *out)
{
    snprintf(out, (size_t)size, "%s", name);
    return SQLITE_OK;
}

/* Reads all of the input into the column. */
static stk_status unpack(ns_source *s, ns_reader *r)
{
    size_t size;
    const uint8_t *p;
    while ((p = stk__input_peek(r->in, WINDOW_BYTES, &size)), size) {
        if (!stk__column_grow(s->store, &s->bytes, (size_t)s->size + size)) {
            if (r->err)
                *r->err = s->store->error;
            return s->store->error.status;
        }
        memcpy((char *)s->bytes.data + s->size, p, size);
        s->size += size;
        stk__input_advance(r->in, size);
        stk__store_trim(s->store);
        STK_TRY(stk__reader_progress(r->b, r->in, r->err));
    }
    return STK_OK;
}

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* SQLite's file header: the size of a page, and how many there are when the counters agree that this is kept up. */
static void read_claim(ns_source *s)
{
    uint8_t head[HEADER_BYTES];
    if (read_at(s, head, sizeof head, 0) < sizeof head || memcmp(head + 24, head + 92, 4) != 0)
        return;
    const uint32_t page = (uint32_t)head[16] << 8 | head[17];
    s->claimed = (uint64_t)big_endian(head + 28) * (page == 1 ? 65536 : page);
}

static stk_status source_make(ns_reader *r)
{
    ns_source *s = r->source = stk__calloc(1, sizeof *s);
    if (!s)
        return stk__nomem(sizeof *s, r->err);
    s->in = r->in;
    s->fd = stk__input_take_file(r->in, &s->size);
    if (s->fd < 0) {
        /* beside the columns of the trace, which have the cap as well */
        s->store = stk__store_new(r->b->options.memory_bytes / 4, r->b->options.temp_dir);
        if (!s->store)
            return stk__nomem(sizeof *s->store, r->err);
        STK_TRY(unpack(s, r));
    }
    read_claim(s);
    if (s->claimed > s->size)
        stk__builder_note(r->b, STK__REASON_TRUNCATED, (int64_t)s->size);
    const sqlite3_vfs *system = sqlite3_vfs_find(NULL);
    if (!system)
        return stk_error_set(r->err, STK_UNSUPPORTED, "SQLite has no access to files here");
    snprintf(s->name, sizeof s->name, "stoker-%p", (void *)s);
    s->vfs = *system; /* its clock, sleep and random numbers */
    s->vfs.iVersion = 1;
    s->vfs.szOsFile = sizeof(ns_file);
    s->vfs.pNext = NULL;
    s->vfs.zName = s->name;
    s->vfs.pAppData = s;
    s->vfs.xOpen = source_open;
    s->vfs.xDelete = source_delete;
    s->vfs.xAccess = source_access;
    s->vfs.xFullPathname = source_path;
    s->vfs.xDlOpen = NULL;
    s->vfs.xDlError = NULL;
    s->vfs.xDlSym = NULL;
    s->vfs.xDlClose = NULL;
    return sqlite3_vfs_register(&s->vfs, 0) == SQLITE_OK ? STK_OK : stk__nomem(sizeof *s, r->err);
}

/* ---- guards ---- */

static bool source_progress(ns_reader *r)
{
    if (r->status == STK_OK)
        r->status = stk__reader_progress(r->b, r->in, r->err);
    return r->status == STK_OK;
}

static int on_progress(void *arg)
{
    return !source_progress(arg);
}

/* Nothing but reading of tables. No function, so that no expression of the file's is of use to anybody. */
static int authorize(void *arg, int action, const char *a, const char *b, const char *database, const char *trigger)
{
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
        return SQLITE_OK;
    case SQLITE_PRAGMA:
        return strcmp(a, "table_xinfo") == 0 ? SQLITE_OK : SQLITE_DENY;
    default:
        return SQLITE_DENY;
    }
}

static int guard(ns_reader *r)
{
    static const struct {
        int option, value;
    } options[] = {
        {SQLITE_DBCONFIG_DEFENSIVE, 1},
        {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
        {SQLITE_DBCONFIG_WRITABLE_SCHEMA, 0},
        {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
        {SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0},
        {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
        {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
        {SQLITE_DBCONFIG_DQS_DDL, 0},
        {SQLITE_DBCONFIG_DQS_DML, 0},
    };
    static const int limits[][2] = {
        {SQLITE_LIMIT_LENGTH, VALUE_MAX},  {SQLITE_LIMIT_SQL_LENGTH, SQL_MAX}, {SQLITE_LIMIT_COLUMN, 512},
        {SQLITE_LIMIT_EXPR_DEPTH, 64},     {SQLITE_LIMIT_COMPOUND_SELECT, 4},  {SQLITE_LIMIT_VDBE_OP, 25000},
        {SQLITE_LIMIT_FUNCTION_ARG, 8},    {SQLITE_LIMIT_ATTACHED, 0},         {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 64},
        {SQLITE_LIMIT_VARIABLE_NUMBER, 8}, {SQLITE_LIMIT_TRIGGER_DEPTH, 1},    {SQLITE_LIMIT_WORKER_THREADS, 0},
    };
    for (size_t i = 0; i < STK_COUNT(options); i++) {
        const int code = sqlite3_db_config(r->db, options[i].option, options[i].value, NULL);
        if (code != SQLITE_OK)
            return code;
    }
    for (size_t i = 0; i < STK_COUNT(limits); i++)
        sqlite3_limit(r->db, limits[i][0], limits[i][1]);
    sqlite3_progress_handler(r->db, STEPS, on_progress, r);
    /* pragmas that set up the connection read no page of the file */
    const int code = sqlite3_exec(r->db,
                                  "PRAGMA cell_size_check=1; PRAGMA query_only=1; PRAGMA temp_store=2;"
                                  "PRAGMA mmap_size=0; PRAGMA cache_size=-4096",
                                  NULL, NULL, NULL);
    return code != SQLITE_OK ? code : sqlite3_set_authorizer(r->db, authorize, NULL);
}

/* ---- the schema ---- */

bool stk__ns_nomem(ns_reader *r, size_t size)
{
    if (r->status == STK_OK)
        r->status = stk__nomem(size, r->err);
    return false;
}

static ns_table *find_table(const ns_reader *r, const char *name)
{
    for (size_t i = 0; i < r->table_count; i++)
        if (sqlite3_stricmp(r->tables[i].name, name) == 0)
            return &r->tables[i];
    return NULL;
}

bool stk__ns_has_table(const ns_reader *r, const char *name)
{
    return find_table(r, name) != NULL;
}

static bool add_table(ns_reader *r, const char *name)
{
    if (find_table(r, name))
        return true;
    if (!stk__grow((void **)&r->tables, &r->table_capacity, r->table_count + 1, sizeof *r->tables))
        return stk__ns_nomem(r, sizeof *r->tables);
    char *copy = stk__strdup(name);
    if (!copy)
        return stk__ns_nomem(r, strlen(name));
    r->tables[r->table_count++] = (ns_table){.name = copy};
    return true;
}

/* Tables that have pages of their own: a view has none, and neither has a virtual table. */
static int list_tables(ns_reader *r)
{
    sqlite3_stmt *s = NULL;
    static const char sql[] = "SELECT name FROM sqlite_master WHERE type='table' AND rootpage>0";
    int code = sqlite3_prepare_v2(r->db, sql, -1, &s, NULL);
    while (code == SQLITE_OK && r->status == STK_OK && (code = sqlite3_step(s)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(s, 0);
        code = SQLITE_OK;
        if (name && (r->table_count == TABLES_MAX || !add_table(r, name)))
            break;
    }
    sqlite3_finalize(s);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static stk_status open_failed(ns_reader *r, int code)
{
    if (r->status != STK_OK)
        return r->status;
    if (code == SQLITE_NOMEM)
        return stk__nomem(WINDOW_BYTES, r->err);
    return stk_error_set(r->err, STK_CORRUPT, "the SQLite database is damaged: %s",
                         r->db ? sqlite3_errmsg(r->db) : sqlite3_errstr(code));
}

stk_status stk__ns_open(ns_reader *r)
{
    STK_TRY(source_make(r));
    int code = sqlite3_open_v2("trace", &r->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, r->source->name);
    if (code == SQLITE_OK)
        code = guard(r);
    if (code == SQLITE_OK)
        code = list_tables(r);
    return code == SQLITE_OK && r->status == STK_OK ? STK_OK : open_failed(r, code);
}

void stk__ns_close(ns_reader *r)
{
    sqlite3_close(r->db);
    if (r->source) {
        if (r->source->vfs.zName)
            sqlite3_vfs_unregister(&r->source->vfs);
        if (r->source->store) {
            stk__column_clear(r->source->store, &r->source->bytes);
            stk__store_free(r->source->store);
        }
    }
    for (size_t i = 0; i < r->table_count; i++)
        stk__free(r->tables[i].name);
    stk__free(r->tables);
    stk__free(r->source);
}

/* ---- rows ---- */

/* A page of a table is damaged, or the schema says something else than the table: what is left of it is lost. */
static void note_damage(ns_reader *r, int code)
{
    if (code == SQLITE_NOMEM)
        stk__ns_nomem(r, WINDOW_BYTES);
    if (r->status != STK_OK)
        return;
    stk__builder_note(r->b, code == SQLITE_TOOBIG ? STK__REASON_TOO_LARGE : STK__REASON_SYNTAX, -1);
    r->damaged++;
}

/* Columns that the table stores; generated ones are expressions of the file's, which nobody runs. */
static int find_columns(ns_rows *rows)
{
    sqlite3_stmt *s = NULL;
    int found = 0;
    for (int i = 0; i < NS_COLUMNS_MAX; i++)
        rows->column[i] = -1;
    char *sql = sqlite3_mprintf("PRAGMA table_xinfo(\"%w\")", rows->table);
    int code = sql ? sqlite3_prepare_v2(rows->r->db, sql, -1, &s, NULL) : SQLITE_NOMEM;
    while (code == SQLITE_OK && (code = sqlite3_step(s)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(s, 1);
        code = SQLITE_OK;
        for (int i = 0; name && sqlite3_column_int(s, 6) == 0 && rows->columns[i]; i++)
            if (rows->column[i] < 0 && sqlite3_stricmp(rows->columns[i], name) == 0)
                rows->column[i] = ++found; /* after the rowid */
    }
    sqlite3_finalize(s);
    sqlite3_free(sql);
    if (code != SQLITE_DONE)
        note_damage(rows->r, code);
    return code == SQLITE_DONE ? found : 0;
}

/* The columns in the order in which they were found, which is that of the numbers in `column`. */
static int prepare(ns_rows *rows, bool backwards)
{
    stk__text *list = &rows->r->text;
    stk__text_reset(list);
    for (int n = 1; n <= NS_COLUMNS_MAX; n++)
        for (int i = 0; rows->columns[i]; i++)
            if (rows->column[i] == n)
                stk__text_printf(list, ",\"%s\"", rows->columns[i]);
    char *sql = list->failed ? NULL
                             : sqlite3_mprintf("SELECT rowid%s FROM \"%w\" NOT INDEXED ORDER BY rowid%s", list->data,
                                               rows->table, backwards ? " DESC" : "");
    const int code = sql ? sqlite3_prepare_v2(rows->r->db, sql, -1, &rows->statement, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    return code;
}

bool stk__ns_rows_open(ns_rows *rows, ns_reader *r, const char *table, const char *const *columns)
{
    *rows = (ns_rows){.r = r, .table = table, .columns = columns};
    ns_table *t = find_table(r, table);
    if (!t || r->status != STK_OK)
        return false;
    t->used = true;
    if (find_columns(rows) == 0)
        return false;
    const int code = prepare(rows, false);
    if (code != SQLITE_OK)
        note_damage(r, code);
    return code == SQLITE_OK;
}

/*
 * One step. Row numbers that do not go up are damage as well: pages that are reached twice would else give rows without end.
 */
static int step(ns_rows *rows)
{
    const int code = sqlite3_step(rows->statement);
    if (code != SQLITE_ROW)
        return code;
    const int64_t rowid = sqlite3_column_int64(rows->statement, 0);
    if (rows->backwards) {
        if (rows->any_forward && rowid <= rows->last_forward)
            return SQLITE_DONE;
        if (rows->any_backward && rowid >= rows->last_backward)
            return SQLITE_CORRUPT;
        rows->any_backward = true;
        rows->last_backward = rowid;
        return code;
    }
    if (rows->any_forward && rowid <= rows->last_forward)
        return SQLITE_CORRUPT;
    rows->any_forward = true;
    rows->last_forward = rowid;
    return code;
}

bool stk__ns_rows_next(ns_rows *rows)
{
    ns_reader *r = rows->r;
    if (!rows->statement || r->status != STK_OK)
        return false;
    int code = step(rows);
    if (code != SQLITE_ROW && code != SQLITE_DONE && !rows->backwards) {
        note_damage(r, code);
        rows->backwards = true;
        stk__ns_rows_close(rows);
        if (r->status != STK_OK || prepare(rows, true) != SQLITE_OK)
            return false;
        code = step(rows);
    }
    return code == SQLITE_ROW && (++rows->count % PROGRESS_ROWS || source_progress(r));
}

void stk__ns_rows_close(ns_rows *rows)
{
    sqlite3_finalize(rows->statement);
    rows->statement = NULL;
}

stk__string stk__ns_text(const ns_rows *rows, int c)
{
    if (rows->column[c] < 0 || sqlite3_column_type(rows->statement, rows->column[c]) != SQLITE_TEXT)
        return 0;
    const char *text = (const char *)sqlite3_column_text(rows->statement, rows->column[c]);
    const int size = sqlite3_column_bytes(rows->statement, rows->column[c]);
    return text && size > 0 ? stk__builder_text(rows->r->b, text, (size_t)size, -1) : 0;
}
