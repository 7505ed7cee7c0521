/* slice: from the terms and the order of a query to the cheapest way through the rows. */
#include "analyze/sql_slice.h"

typedef struct plan {
    const stk__trace *trace;
    sqlite3_index_info *info;
    int term[STK__TERM_COUNT]; /* constraint that gives it, -1: none */
    uint8_t keys[STK__SQL_KEYS];
    size_t key_count;
    bool ordered; /* keys, then the row, is what the query wants */
    bool reverse; /* all of it from the end */
    bool mixed;   /* some keys against the others */
} plan;

/* -1: not one of ours. */
static int term_of_id(int op)
{
    switch (op) {
    case SQLITE_INDEX_CONSTRAINT_EQ:
        return STK__TERM_ID;
    case SQLITE_INDEX_CONSTRAINT_GT:
    case SQLITE_INDEX_CONSTRAINT_GE:
        return STK__TERM_ID_LOW;
    case SQLITE_INDEX_CONSTRAINT_LT:
    case SQLITE_INDEX_CONSTRAINT_LE:
        return STK__TERM_ID_HIGH;
    default:
        return -1;
    }
}

static int term_of_ts(int op)
{
    switch (op) {
    case SQLITE_INDEX_CONSTRAINT_GT:
    case SQLITE_INDEX_CONSTRAINT_GE:
        return STK__TERM_TS_LOW;
    case SQLITE_INDEX_CONSTRAINT_LT:
    case SQLITE_INDEX_CONSTRAINT_LE:
        return STK__TERM_TS_HIGH;
    default:
        return -1;
    }
}

/* Text is compared by bytes here; another collation is left to SQLite. */
static bool binary(sqlite3_index_info *info, int constraint)
{
    return sqlite3_stricmp(sqlite3_vtab_collation(info, constraint), "BINARY") == 0;
}

static int term_of_name(sqlite3_index_info *info, int constraint)
{
    switch (info->aConstraint[constraint].op) {
    case SQLITE_INDEX_CONSTRAINT_EQ:
        if (!binary(info, constraint))
            return -1;
        return sqlite3_vtab_in(info, constraint, -1) ? STK__TERM_NAME_IN : STK__TERM_NAME;
    case SQLITE_INDEX_CONSTRAINT_LIKE:
        return STK__TERM_NAME_LIKE;
    case SQLITE_INDEX_CONSTRAINT_GLOB:
        return STK__TERM_NAME_GLOB;
    default:
        return -1;
    }
}

static int term_of(sqlite3_index_info *info, int constraint)
{
    const int op = info->aConstraint[constraint].op;
    const bool equal = op == SQLITE_INDEX_CONSTRAINT_EQ;
    switch (info->aConstraint[constraint].iColumn) {
    case -1:
    case STK__SLICE_id:
    case STK__SLICE_slice_id:
        return term_of_id(op);
    case STK__SLICE_ts:
        return term_of_ts(op);
    case STK__SLICE_name:
        return term_of_name(info, constraint);
    case STK__SLICE_track_id:
        return equal ? STK__TERM_TRACK : -1;
    case STK__SLICE_parent_id:
        return equal ? STK__TERM_PARENT : -1;
    case STK__SLICE_arg_set_id:
        return equal ? STK__TERM_ARGS : -1;
    case STK__SLICE_category:
    case STK__SLICE_cat:
        return equal && binary(info, constraint) ? STK__TERM_CATEGORY : -1;
    default:
        return -1;
    }
}

static void find_terms(plan *p)
{
    for (int i = 0; i < STK__TERM_COUNT; i++)
        p->term[i] = -1;
    for (int i = 0; i < p->info->nConstraint; i++) {
        if (!p->info->aConstraint[i].usable)
            continue;
        const int term = term_of(p->info, i);
        if (term >= 0 && p->term[term] < 0)
            p->term[term] = i;
    }
}

static bool has_key(const plan *p, int column)
{
    for (size_t i = 0; i < p->key_count; i++) {
        if ((p->keys[i] & ~STK__KEY_FLIPPED) == column)
            return true;
    }
    return false;
}

/*
 * Equal rows stay in order of their number, which within a track is that of time: both come for free at the end.
 * Columns of a GROUP BY may come with any direction, as SQLite copies those of the ORDER BY.
 */
static void find_order(plan *p)
{
    p->ordered = true;
    p->reverse = p->info->nOrderBy && p->info->aOrderBy[0].desc;
    for (int i = 0; i < p->info->nOrderBy && p->ordered; i++) {
        int column = p->info->aOrderBy[i].iColumn;
        const bool flipped = p->info->aOrderBy[i].desc != p->reverse;
        if (column == STK__SLICE_cat)
            column = STK__SLICE_category;
        if (column < 0 || column == STK__SLICE_id || column == STK__SLICE_slice_id) {
            p->ordered = !flipped;
            return; /* no two rows are equal, so what follows does not matter */
        }
        if (has_key(p, column))
            continue;
        if (column == STK__SLICE_ts && has_key(p, STK__SLICE_track_id)) {
            p->ordered = !flipped && i + 1 == p->info->nOrderBy;
            return;
        }
        p->ordered = stk__slice_sortable(column) && p->key_count < STK__SQL_KEYS;
        if (p->ordered)
            p->keys[p->key_count++] = (uint8_t)(column | (flipped ? STK__KEY_FLIPPED : 0));
        p->mixed = p->mixed || flipped;
    }
}

/* The keys when one column has the same value in all rows. */
static bool ordered_without(const plan *p, int constant, bool by_time)
{
    if (!p->ordered || p->mixed)
        return false;
    for (size_t i = 0; i < p->key_count; i++) {
        if (p->keys[i] != constant && !(by_time && p->keys[i] == STK__SLICE_ts && i + 1 == p->key_count))
            return false;
    }
    return true;
}

/* A track that has most of the rows is better read in the order wanted, leaving out those of other tracks. */
static bool prefers_order(const plan *p)
{
    sqlite3_value *value = NULL;
    int64_t track;
    if (!p->ordered || p->key_count == 0)
        return false;
    if (p->term[STK__TERM_TRACK] < 0)
        return true;
    if (ordered_without(p, STK__SLICE_track_id, true))
        return false;
    /* A value that is known now is no column of another table, which would make this the inner loop of a join. */
    if (sqlite3_vtab_rhs_value(p->info, p->term[STK__TERM_TRACK], &value) != SQLITE_OK ||
        !stk__sql_equal(value, &track) || track < 0 || (uint64_t)track >= p->trace->track_count)
        return false;
    return p->trace->tracks[track].slice_count > p->trace->slices.count / 16;
}

typedef struct choice {
    int path;
    double rows; /* looked at */
    bool ordered;
} choice;

static choice choose(const plan *p)
{
    const int *term = p->term;
    const double all = (double)p->trace->slices.count + 1;
    const double tracks = (double)p->trace->track_count + 1;
    const bool times = term[STK__TERM_TS_LOW] >= 0 || term[STK__TERM_TS_HIGH] >= 0;
    const double part = times ? 0.25 : 1;
    if (term[STK__TERM_ID] >= 0)
        return (choice){STK__PATH_ROWS, 1, p->info->nOrderBy > 0};
    if (term[STK__TERM_PARENT] >= 0)
        return (choice){STK__PATH_PARENT, 16, ordered_without(p, STK__SLICE_track_id, true)};
    if (term[STK__TERM_ARGS] >= 0)
        return (choice){STK__PATH_ARGS, 8, false};
    if (term[STK__TERM_NAME] >= 0)
        return (choice){STK__PATH_NAME, all / 64 + 1, ordered_without(p, STK__SLICE_name, false)};
    if (term[STK__TERM_ID_LOW] >= 0 || term[STK__TERM_ID_HIGH] >= 0)
        return (choice){STK__PATH_ROWS, all / 4 + 1, p->ordered && p->key_count == 0};
    if (prefers_order(p)) {
        if (p->key_count == 1 && p->keys[0] == STK__SLICE_track_id)
            return (choice){STK__PATH_TRACKS, all * part, true};
        return (choice){STK__PATH_SORTED, all, true};
    }
    if (term[STK__TERM_TRACK] >= 0)
        return (choice){STK__PATH_TRACK, all / tracks * part + 1, ordered_without(p, STK__SLICE_track_id, true)};
    if (times && !(p->ordered && p->info->nOrderBy))
        return (choice){STK__PATH_TRACKS, all * part + tracks, false};
    return (choice){STK__PATH_ROWS, all, p->ordered && p->key_count == 0};
}

/* Equality is checked here for good; the rest again by SQLite. */
static int pass_terms(plan *p)
{
    int mask = 0, next = 0;
    for (int i = 0; i < STK__TERM_COUNT; i++) {
        if (p->term[i] < 0)
            continue;
        const bool exact =
            i == STK__TERM_ID || (i >= STK__TERM_TRACK && i <= STK__TERM_NAME_IN) || i == STK__TERM_CATEGORY;
        if (i == STK__TERM_NAME_IN)
            sqlite3_vtab_in(p->info, p->term[i], 1);
        p->info->aConstraintUsage[p->term[i]].argvIndex = ++next;
        p->info->aConstraintUsage[p->term[i]].omit = exact;
        mask |= 1 << i;
    }
    return mask;
}

/* Which columns of the model the query reads; those that the rows are sorted by are known without reading. */
static unsigned used_columns(const plan *p)
{
    static const uint8_t copies[STK__SLICE_COLUMN_COUNT] = {
        [STK__SLICE_ts] = STK__COPY_TS,
        [STK__SLICE_dur] = STK__COPY_DUR,
        [STK__SLICE_track_id] = STK__COPY_TRACK,
        [STK__SLICE_category] = STK__COPY_CATEGORY,
        [STK__SLICE_cat] = STK__COPY_CATEGORY,
        [STK__SLICE_name] = STK__COPY_NAME,
        [STK__SLICE_arg_set_id] = STK__COPY_ARGS,
        [STK__SLICE_utid] = STK__COPY_TRACK,
        [STK__SLICE_upid] = STK__COPY_TRACK,
        [STK__SLICE_tid] = STK__COPY_TRACK,
        [STK__SLICE_pid] = STK__COPY_TRACK,
        [STK__SLICE_thread_name] = STK__COPY_TRACK,
        [STK__SLICE_process_name] = STK__COPY_TRACK,
        [STK__SLICE_file_id] = STK__COPY_TRACK,
        [STK__SLICE_thread_ts] = STK__COPY_ARGS,
        [STK__SLICE_thread_dur] = STK__COPY_ARGS,
    };
    unsigned result = 0;
    for (int column = 0; column < STK__SLICE_COLUMN_COUNT; column++) {
        const int key = column == STK__SLICE_cat ? STK__SLICE_category : column;
        if (p->info->colUsed >> column & 1 && !has_key(p, key))
            result |= 1U << copies[column];
    }
    if (p->info->colUsed >> STK__SLICE_COLUMN_COUNT)
        result |= 1U << STK__COPY_ARGS;
    return result;
}

/* SELECT DISTINCT of the columns that rows are sorted by, with nothing else asked of a row. */
static bool one_is_enough(const plan *p)
{
    if (sqlite3_vtab_distinct(p->info) < 2 || p->info->nConstraint > 0)
        return false;
    uint64_t rest = p->info->colUsed;
    for (size_t i = 0; i < p->key_count; i++)
        rest &= ~(UINT64_C(1) << (p->keys[i] & ~STK__KEY_FLIPPED));
    return rest == 0;
}

int stk__slice_plan(const stk__trace *t, sqlite3_index_info *info)
{
    plan p = {.trace = t, .info = info};
    find_terms(&p);
    find_order(&p);
    const choice c = choose(&p);
    info->idxNum = pass_terms(&p) | c.path << STK__PATH_SHIFT;
    info->orderByConsumed = c.ordered && info->nOrderBy > 0;
    info->estimatedRows = (sqlite3_int64)c.rows;
    info->estimatedCost = c.rows + (c.path == STK__PATH_SORTED ? 8 : 2);
    if (p.term[STK__TERM_NAME_LIKE] >= 0 || p.term[STK__TERM_NAME_GLOB] >= 0 || p.term[STK__TERM_CATEGORY] >= 0 ||
        p.term[STK__TERM_NAME_IN] >= 0)
        info->estimatedRows = info->estimatedRows / 8 + 1;
    if (p.term[STK__TERM_ID] >= 0)
        info->idxFlags |= SQLITE_INDEX_SCAN_UNIQUE;
    char letters[STK__SQL_KEYS + 1] = "";
    if (c.path == STK__PATH_SORTED) {
        for (size_t i = 0; i < p.key_count; i++)
            letters[i] = (char)((p.keys[i] & STK__KEY_FLIPPED ? 'A' : 'a') + (p.keys[i] & ~STK__KEY_FLIPPED));
        if (one_is_enough(&p))
            info->idxNum |= STK__PATH_DISTINCT;
    }
    if (info->orderByConsumed && p.reverse)
        info->idxNum |= STK__PATH_REVERSE;
    info->idxStr = sqlite3_mprintf("%s/%x", letters, used_columns(&p));
    info->needToFreeIdxStr = 1;
    return info->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}
