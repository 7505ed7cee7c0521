/* stoker sql: mistakes in queries, shown at their place and with the name that may have been meant. */
#include <string.h>

#include "base/mem.h"
#include "sql.h"

#include "base/banned.h"

/* Longer lines are shown around the place only. */
enum { SHOWN = 100, BEFORE = 60 };

/* ---- names ---- */

bool cli_sql_names_add(cli_sql_names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++) {
        if (sqlite3_stricmp(names->items[i], name) == 0)
            return true;
    }
    if (!stk__grow((void **)&names->items, &names->capacity, names->count + 1, sizeof *names->items))
        return false;
    names->items[names->count] = stk__strdup(name);
    return names->items[names->count] && ++names->count;
}

bool cli_sql_names_query(cli_sql_names *names, sqlite3 *db, const char *query, const char *parameter)
{
    sqlite3_stmt *statement = NULL;
    bool ok = sqlite3_prepare_v2(db, query, -1, &statement, NULL) == SQLITE_OK;
    if (ok && parameter)
        ok = sqlite3_bind_text(statement, 1, parameter, -1, SQLITE_STATIC) == SQLITE_OK;
    while (ok && sqlite3_step(statement) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(statement, 0);
        ok = !name || cli_sql_names_add(names, name);
    }
    sqlite3_finalize(statement);
    return ok;
}

bool cli_sql_names_tables(cli_sql_names *names)
{
    for (size_t i = 0; stk__sql_tables[i].name; i++) {
        if (!cli_sql_names_add(names, stk__sql_tables[i].name))
            return false;
    }
    return true;
}

bool cli_sql_names_columns(cli_sql_names *names, sqlite3 *db)
{
    for (size_t i = 0; stk__sql_tables[i].name; i++) {
        if (!cli_sql_names_query(names, db, "SELECT name FROM pragma_table_xinfo(?)", stk__sql_tables[i].name))
            return false;
    }
    return true;
}

void cli_sql_names_clear(cli_sql_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        stk__free(names->items[i]);
    stk__free(names->items);
    *names = (cli_sql_names){0};
}

/* ---- suggestions ---- */

static const char *const keywords[] = {"SELECT", "FROM",  "WHERE", "GROUP", "ORDER", "LIMIT",  "HAVING",  "JOIN",
                                       "UNION",  "USING", "WITH",  "LIKE",  "GLOB",  "CREATE", "DISTINCT"};

/* What stands behind `prefix` in a message, without the table before a dot and without quotes. The caller frees it. */
static char *word_behind(const char *message, const char *prefix)
{
    const size_t size = strlen(prefix);
    if (strncmp(message, prefix, size) != 0)
        return NULL;
    const char *word = message + size, *dot = strrchr(word, '.');
    if (dot)
        word = dot + 1;
    return stk__strndup(word, strcspn(word, "\""));
}

static void say_nearest(const cli_sql_names *names, const char *word)
{
    const char *nearest = stk__nearest(word, (const char *const *)names->items, names->count);
    if (nearest)
        cli_say("Did you mean '%s'?", nearest);
}

static void suggest(cli_sql *s, const char *message)
{
    cli_sql_names names = {0};
    char *word;
    if ((word = word_behind(message, "no such table: "))) {
        cli_sql_names_tables(&names);
        cli_sql_names_query(&names, s->db, "SELECT name FROM sqlite_schema UNION SELECT name FROM sqlite_temp_schema",
                            NULL);
    } else if ((word = word_behind(message, "no such column: "))) {
        cli_sql_names_columns(&names, s->db);
    } else if ((word = word_behind(message, "no such function: "))) {
        cli_sql_names_query(&names, s->db, "SELECT name FROM pragma_function_list", NULL);
    } else if ((word = word_behind(message, "near \""))) {
        for (size_t i = 0; i < STK_COUNT(keywords); i++)
            cli_sql_names_add(&names, keywords[i]);
        for (char *c = word; *c; c++) /* keywords come in capitals */
            *c = *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
    }
    if (word)
        say_nearest(&names, word);
    if (strstr(message, "not authorized"))
        cli_say("A query can read the trace and make views and tables in memory; it can not open or write files.");
    stk__free(word);
    cli_sql_names_clear(&names);
}

/* ---- the place ---- */

static bool continues(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

static void say_place(const char *text, size_t offset)
{
    size_t first = offset, end = offset;
    while (first > 0 && text[first - 1] != '\n')
        first--;
    while (text[end] && text[end] != '\n')
        end++;
    while (first < offset && text[first] == ' ')
        first++;
    if (offset - first > BEFORE)
        first = offset - BEFORE;
    if (end - first > SHOWN)
        end = first + SHOWN;
    while (first > 0 && first < offset && continues(text[first]))
        first++;
    while (end > offset && continues(text[end]))
        end--;
    char *line = stk__strndup(text + first, end - first);
    if (!line)
        return;
    for (char *c = line; *c; c++)
        *c = *c == '\t' ? ' ' : *c;
    size_t column = 0;
    for (size_t i = first; i < offset; i++)
        column += !continues(text[i]);
    cli_say("  %s", line);
    cli_say("  %*s^", (int)column, "");
    stk__free(line);
}

void cli_sql_say_error(cli_sql *s, sqlite3 *db, const char *text)
{
    int offset;
    char *plain = stk__strdup(sqlite3_errmsg(db));
    const char *message = stk__sql_message(db, text, &offset);
    cli_say("stoker: SQL: %s", message);
    if (offset >= 0)
        say_place(text, (size_t)offset);
    if (plain && strcmp(message, plain) == 0) /* else it says what to write */
        suggest(s, plain);
    stk__free(plain);
}
