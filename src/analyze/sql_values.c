/* Values of SQL terms, as the columns see them. */
#include <math.h>
#include <string.h>

#include "analyze/sql_impl.h"

#include "base/banned.h"

/* Doubles between which every whole number is an int64. */
static const double int64_low = -9223372036854775808.0, int64_high = 9223372036854775808.0;

bool stk__sql_equal(sqlite3_value *value, int64_t *out)
{
    switch (sqlite3_value_numeric_type(value)) {
    case SQLITE_INTEGER:
        *out = sqlite3_value_int64(value);
        return true;
    case SQLITE_FLOAT: {
        const double x = sqlite3_value_double(value);
        if (!(x >= int64_low && x < int64_high) || x != floor(x))
            return false;
        *out = (int64_t)x;
        return true;
    }
    default:
        return false;
    }
}

static void bound_double(double x, bool low, int64_t *out_low, int64_t *out_high)
{
    if (low && x >= int64_low)
        *out_low = STK_MAX(*out_low, x < int64_high ? (int64_t)floor(x) : INT64_MAX);
    if (!low && x < int64_high)
        *out_high = STK_MIN(*out_high, x >= int64_low ? (int64_t)ceil(x) : INT64_MIN);
}

void stk__sql_bound(sqlite3_value *value, int op, int64_t *low, int64_t *high)
{
    const bool is_low = op == SQLITE_INDEX_CONSTRAINT_GE || op == SQLITE_INDEX_CONSTRAINT_GT;
    switch (sqlite3_value_numeric_type(value)) {
    case SQLITE_INTEGER:
        if (is_low)
            *low = STK_MAX(*low, sqlite3_value_int64(value));
        else
            *high = STK_MIN(*high, sqlite3_value_int64(value));
        break;
    case SQLITE_FLOAT:
        bound_double(sqlite3_value_double(value), is_low, low, high);
        break;
    default: /* text and NULL follow rules of their own, which SQLite applies */
        break;
    }
}

stk__string stk__sql_text(const stk__sql *s, sqlite3_value *value)
{
    const int type = sqlite3_value_type(value);
    if (type == SQLITE_NULL || type == SQLITE_BLOB)
        return STK__NONE;
    const char *text = (const char *)sqlite3_value_text(value);
    return text ? stk__trace_find(s->trace, text, (size_t)sqlite3_value_bytes(value)) : STK__NONE;
}

int stk__sql_declare(sqlite3 *db, const char *columns)
{
    char *declaration = sqlite3_mprintf("CREATE TABLE t(%s)", columns);
    if (!declaration)
        return SQLITE_NOMEM;
    const int code = sqlite3_declare_vtab(db, declaration);
    sqlite3_free(declaration);
    return code == SQLITE_OK ? sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS) : code;
}

int stk__sql_failed(sqlite3_vtab *vtab, const stk_error *err)
{
    sqlite3_free(vtab->zErrMsg);
    vtab->zErrMsg = sqlite3_mprintf("%s", err->message);
    return err->status == STK_NOMEM ? SQLITE_NOMEM : SQLITE_ERROR;
}
