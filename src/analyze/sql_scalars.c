/* Scalar functions: extract_arg for the args of a slice, regexp for the operator of that name. */
#include <regex.h>
#include <string.h>

#include "analyze/sql_impl.h"
#include "base/mem.h"

#include "base/banned.h"

/* ---- extract_arg(arg_set_id, key) ---- */

/*
 * A key that comes again and again (a constant in the query) is looked for as a string once, then compared by number.
 */
typedef struct arg_key {
    bool resolved;
    stk__string string;
} arg_key;

/* Perfetto's queries have these before the key, our files do not. */
static const char *without_prefix(const char *key)
{
    static const char *const prefixes[] = {"args.", "debug."};
    for (size_t i = 0; i < STK_COUNT(prefixes); i++) {
        const size_t size = strlen(prefixes[i]);
        if (strncmp(key, prefixes[i], size) == 0)
            return key + size;
    }
    return key;
}

static bool key_is(const stk__trace *t, stk__string string, const char *text, size_t size)
{
    size_t length;
    const char *key = stk__trace_text(t, string, &length);
    return length == size && memcmp(key, text, size) == 0;
}

/* Row of the arg, 0: none. */
static size_t find_arg(const stk__trace *t, size_t row, const arg_key *known, const char *text, size_t size)
{
    for (;; row++) {
        if (known ? t->args.key[row] == known->string : key_is(t, t->args.key[row], text, size))
            return row;
        if (t->args.type[row] & STK__ARG_LAST || row + 1 >= t->args.count)
            return 0;
    }
}

static void put_arg(sqlite3_context *out, const stk__trace *t, size_t row)
{
    size_t size;
    const char *text;
    switch (t->args.type[row] & STK__ARG_TYPE) {
    case STK__ARG_BOOL:
    case STK__ARG_INT:
        sqlite3_result_int64(out, t->args.value[row].integer);
        break;
    case STK__ARG_DOUBLE:
        sqlite3_result_double(out, t->args.value[row].real);
        break;
    case STK__ARG_STRING:
    case STK__ARG_JSON:
        text = stk__trace_text(t, (stk__string)t->args.value[row].string, &size);
        sqlite3_result_text64(out, text, size, SQLITE_STATIC, SQLITE_UTF8);
        break;
    default:
        break;
    }
}

static void extract_arg(sqlite3_context *out, int argc, sqlite3_value **argv)
{
    const stk__trace *t = ((stk__sql *)sqlite3_user_data(out))->trace;
    int64_t set;
    const char *key = (const char *)sqlite3_value_text(argv[1]);
    if (!key || !stk__sql_equal(argv[0], &set) || set < 1 || (uint64_t)set >= t->args.count)
        return;
    const char *plain = without_prefix(key);
    const size_t size = (size_t)sqlite3_value_bytes(argv[1]) - (size_t)(plain - key);
    arg_key *known = sqlite3_get_auxdata(out, 1);
    if (known && !known->resolved) {
        known->string = stk__trace_find(t, plain, size);
        known->resolved = true;
    }
    const size_t row = find_arg(t, (size_t)set, known, plain, size);
    if (row)
        put_arg(out, t, row);
    if (!known && (known = stk__calloc(1, sizeof *known)))
        sqlite3_set_auxdata(out, 1, known, stk__free); /* kept when the key is a constant */
}

/* ---- regexp(pattern, text): text REGEXP pattern ---- */

static void regex_free(void *arg)
{
    regfree(arg);
    stk__free(arg);
}

static void regexp(sqlite3_context *out, int argc, sqlite3_value **argv)
{
    const char *pattern = (const char *)sqlite3_value_text(argv[0]), *text = (const char *)sqlite3_value_text(argv[1]);
    if (!pattern || !text)
        return;
    regex_t *regex = sqlite3_get_auxdata(out, 0);
    const bool fresh = !regex;
    if (fresh) {
        regex = stk__calloc(1, sizeof *regex);
        if (!regex) {
            sqlite3_result_error_nomem(out);
            return;
        }
        const int code = regcomp(regex, pattern, REG_EXTENDED | REG_NOSUB);
        if (code) {
            char message[128];
            regerror(code, regex, message, sizeof message);
            sqlite3_result_error(out, message, -1);
            stk__free(regex);
            return;
        }
    }
    sqlite3_result_int(out, regexec(regex, text, 0, NULL, 0) == 0);
    if (fresh)
        sqlite3_set_auxdata(out, 0, regex, regex_free);
}

int stk__sql_add_scalars(sqlite3 *db, stk__sql *s)
{
    const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
    const int code = sqlite3_create_function_v2(db, "extract_arg", 2, flags, stk__sql_ref(s), extract_arg, NULL, NULL,
                                                stk__sql_unref);
    return code == SQLITE_OK ? sqlite3_create_function_v2(db, "regexp", 2, flags, NULL, regexp, NULL, NULL, NULL)
                             : code;
}
