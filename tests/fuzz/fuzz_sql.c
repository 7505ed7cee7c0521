/* Fuzzes what is made of SQL before SQLite sees it: any text gives rows or a message with its place, and no more. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "analyze/sql.h"
#include "analyze/sql_tokens.h"
#include "trace/builder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* SQLite's own work is not what is tested here. */
enum { TEXT_MAX = 4096, STATEMENTS = 8, ROWS = 8, OPERATIONS = 20000 };

static int stop(void *arg)
{
    (void)arg;
    return 1;
}

static stk__trace *make_trace(void)
{
    stk__builder *b = NULL;
    stk__trace *trace = NULL;
    if (stk__builder_new(&(stk__trace_options){0}, &b, NULL) != STK_OK)
        abort();
    stk__builder_start_file(b, "a.json", "chrome");
    const uint32_t process = stk__builder_process(b, 1, 0);
    const uint32_t track = stk__builder_thread_track(b, stk__builder_thread(b, process, 2, 0));
    stk__builder_arg_int(b, stk__builder_str(b, "op"), 1);
    stk__builder_arg_int(b, stk__builder_str(b, "Input Dims"), 2);
    stk__builder_arg_int(b, stk__builder_str(b, "input_dims"), 3);
    stk__builder_slice(b, track, 100, 50, stk__builder_str(b, "a"), 0, -1);
    stk__builder_slice(b, track, 200, 1000, stk__builder_str(b, "b"), 0, -1);
    stk__builder_counter(b, stk__builder_counter_track(b, process, STK__NONE, stk__builder_str(b, "c")), 5, 1.5);
    if (stk__builder_finish(b, &trace, NULL) != STK_OK)
        abort();
    return trace;
}

/* Tokens follow each other and end where the text ends. */
static void check_tokens(const char *text)
{
    size_t end = 0;
    stk__sql_token token;
    for (token = stk__sql_token_at(text, 0); token.kind; token = stk__sql_token_after(text, token)) {
        stk__text name = STK__TEXT_INIT;
        if (token.at < end || token.size == 0 || token.at + token.size > strlen(text))
            abort();
        stk__sql_token_name(text, token, &name);
        if (name.length > token.size)
            abort();
        stk__text_clear(&name);
        end = token.at + token.size;
    }
    if (token.at != strlen(text))
        abort();
}

/* Whether the connection is as it was before. */
static bool run(sqlite3 *db, const char *text)
{
    bool clean = true;
    for (int i = 0; i < STATEMENTS && *text; i++) {
        sqlite3_stmt *statement = NULL;
        const char *rest = text;
        int code = stk__sql_prepare(db, text, &statement, &rest);
        clean = clean && sqlite3_stmt_readonly(statement);
        for (int row = 0; code == SQLITE_OK && statement && row < ROWS && sqlite3_step(statement) == SQLITE_ROW; row++)
            ;
        if (rest < text || rest > text + strlen(text))
            abort();
        if (code != SQLITE_OK) {
            int offset;
            const char *message = stk__sql_message(db, text, &offset);
            if (!*message || offset < -1 || offset > (int)strlen(text))
                abort();
        }
        sqlite3_finalize(statement);
        if (code != SQLITE_OK || rest == text)
            break;
        text = rest;
    }
    return clean;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static stk__trace *trace;
    static sqlite3 *db; /* kept while nothing was made in it: opening takes most of the time */
    if (!trace)
        trace = make_trace();
    if (size > TEXT_MAX)
        return 0;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    check_tokens(text);
    if (!db && stk__sql_open(trace, &db, NULL) != STK_OK)
        abort();
    sqlite3_progress_handler(db, OPERATIONS, stop, NULL);
    if (!run(db, text)) {
        sqlite3_close(db);
        db = NULL;
    }
    free(text);
    return 0;
}
