/* Scalar functions: args of a slice, the operator REGEXP, the ends of the trace; and the order of keys. */
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
static size_t prefix_size(const char *key, size_t size)
{
    static const char *const prefixes[] = {"args.", "debug."};
    for (size_t i = 0; i < STK_COUNT(prefixes); i++) {
        const size_t length = strlen(prefixes[i]);
        if (size >= length && memcmp(key, prefixes[i], length) == 0)
            return length;
    }
    return 0;
}

/* The order of keys, without those prefixes: key = 'args.bytes' finds bytes. */
static int compare_keys(void *arg, int a_size, const void *a, int b_size, const void *b)
{
    const size_t a_prefix = prefix_size(a, (size_t)a_size), b_prefix = prefix_size(b, (size_t)b_size);
    const size_t a_rest = (size_t)a_size - a_prefix, b_rest = (size_t)b_size - b_prefix;
    const int order = memcmp((const char *)a + a_prefix, (const char *)b + b_prefix, STK_MIN(a_rest, b_rest));
    return order ? order : (a_rest > b_rest) - (a_rest < b_rest);
}

static bool key_is(const stk__trace *t, stk__string string, const char *text, size_t size)
{
    size_t length;
    const char *key = stk__trace_text(t, string, &length);
    return length == size && memcmp(key, text, size) == 0;
}

/* Row of the arg, 0: none. */
static size_t find_arg(const stk__trace *t, size_t row, const char *text, size_t size)
{
    for (;; row++) {
        if (key_is(t, t->args.key[row], text, size))
            return row;
        if (t->args.type[row] & STK__ARG_LAST || row + 1 >= t->args.count)
            return 0;
    }
}

static void extract_arg(sqlite3_context *out, int argc, sqlite3_value **argv)
{
    const stk__trace *t = ((stk__sql *)sqlite3_user_data(out))->trace;
    int64_t set;
    const char *key = (const char *)sqlite3_value_text(argv[1]);
    if (!key || !stk__sql_equal(argv[0], &set) || set < 1 || (uint64_t)set >= t->args.count)
        return;
    const size_t prefix = prefix_size(key, (size_t)sqlite3_value_bytes(argv[1]));
    const char *plain = key + prefix;
    const size_t size = (size_t)sqlite3_value_bytes(argv[1]) - prefix;
    arg_key *known = sqlite3_get_auxdata(out, 1);
    if (known && !known->resolved) {
        known->string = stk__trace_find(t, plain, size);
        known->resolved = true;
    }
    const size_t row = known ? stk__sql_find_arg(t, (size_t)set, known->string) : find_arg(t, (size_t)set, plain, size);
    if (row)
        stk__sql_put_arg(out, t, row);
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

/* ---- trace_start(), trace_end() and trace_dur(), as Perfetto has them ---- */

static bool find_bounds(const stk__trace *t, int64_t *start, int64_t *end)
{
    *start = INT64_MAX;
    *end = INT64_MIN;
    for (size_t i = 0; i < t->slices.count; i++) {
        *start = STK_MIN(*start, t->slices.ts[i]);
        *end = STK_MAX(*end, t->slices.ts[i] + t->slices.dur[i]);
    }
    for (size_t i = 0; i < t->counters.count; i++) {
        *start = STK_MIN(*start, t->counters.ts[i]);
        *end = STK_MAX(*end, t->counters.ts[i]);
    }
    for (size_t i = 0; i < t->samples.count; i++) {
        if (t->samples.ts[i] == STK__NO_TIME)
            continue;
        *start = STK_MIN(*start, t->samples.ts[i]);
        *end = STK_MAX(*end, t->samples.ts[i]);
    }
    return *start <= *end;
}

/* Without arguments and always the same, so SQLite asks once for each statement. */
static void trace_bound(sqlite3_context *out, int which)
{
    int64_t start, end;
    if (find_bounds(((stk__sql *)sqlite3_user_data(out))->trace, &start, &end))
        sqlite3_result_int64(out, which == 0 ? start : which == 1 ? end : end - start);
}

static void trace_start(sqlite3_context *out, int argc, sqlite3_value **argv)
{
    trace_bound(out, 0);
}

static void trace_end(sqlite3_context *out, int argc, sqlite3_value **argv)
{
    trace_bound(out, 1);
}

static void trace_dur(sqlite3_context *out, int argc, sqlite3_value **argv)
{
    trace_bound(out, 2);
}

int stk__sql_add_scalars(sqlite3 *db, stk__sql *s)
{
    const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
    const struct {
        const char *name;
        int arguments;
        void (*call)(sqlite3_context *, int, sqlite3_value **);
    } functions[] = {
        {"extract_arg", 2, extract_arg}, {"regexp", 2, regexp},       {"trace_start", 0, trace_start},
        {"trace_end", 0, trace_end},     {"trace_dur", 0, trace_dur},
    };
    int code = SQLITE_OK;
    for (size_t i = 0; i < STK_COUNT(functions) && code == SQLITE_OK; i++)
        code = sqlite3_create_function_v2(db, functions[i].name, functions[i].arguments, flags, stk__sql_ref(s),
                                          functions[i].call, NULL, NULL, stk__sql_unref);
    return code == SQLITE_OK ? sqlite3_create_collation_v2(db, "arg_key", SQLITE_UTF8, NULL, compare_keys, NULL) : code;
}
