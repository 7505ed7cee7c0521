/* stoker sql: the commands of the shell that start with a dot. */
#include <string.h>

#include "base/mem.h"
#include "sql.h"

#include "base/banned.h"

typedef struct command {
    const char *name, *argument, *what;
    int (*run)(cli_sql *s, const char *argument);
} command;

static void put_line(const char *text)
{
    cli_out(text, strlen(text));
    cli_out("\n", 1);
}

static int run_tables(cli_sql *s, const char *argument)
{
    static const char *const columns[] = {"name", "kind", "what it holds"};
    cli_table *table = cli_table_new(s->format, columns, STK_COUNT(columns));
    for (size_t i = 0; stk__sql_tables[i].name; i++) {
        const stk__sql_table *t = &stk__sql_tables[i];
        cli_table_str(table, t->usage ? t->usage : t->name);
        cli_table_str(table, t->kind);
        cli_table_str(table, t->summary);
    }
    return cli_table_finish(table) ? CLI_OK : CLI_FAILED;
}

/* "slice(id INTEGER, ts INTEGER, ...)" in lines, below what it is. */
static bool put_schema(cli_sql *s, const char *name, const char *summary, const char *usage)
{
    sqlite3_stmt *statement = NULL;
    stk__text words = STK__TEXT_INIT, text = STK__TEXT_INIT;
    size_t columns = 0;
    if (sqlite3_prepare_v2(s->db, "SELECT name, type, hidden FROM pragma_table_xinfo(?)", -1, &statement, NULL) ==
        SQLITE_OK)
        sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
    while (statement && sqlite3_step(statement) == SQLITE_ROW) {
        const char *column = (const char *)sqlite3_column_text(statement, 0);
        const char *type = (const char *)sqlite3_column_text(statement, 1);
        if (usage && sqlite3_column_int(statement, 2))
            continue; /* an argument of the function */
        stk__text_printf(&words, "%s%s%s%s", columns++ ? ", " : "", column, type && *type ? " " : "", type ? type : "");
    }
    sqlite3_finalize(statement);
    if (columns) {
        stk__text_printf(&text, "%s%s%s\n    ", usage ? usage : name, summary ? ": " : "", summary ? summary : "");
        cli_wrap(&text, words.data ? words.data : "", 4, 4);
        stk__text_puts(&text, "\n");
    }
    stk__text_clear(&words);
    cli_out_text(&text);
    return columns > 0;
}

static int run_schema(cli_sql *s, const char *argument)
{
    for (size_t i = 0; stk__sql_tables[i].name; i++) {
        const stk__sql_table *t = &stk__sql_tables[i];
        if (!*argument || sqlite3_stricmp(argument, t->name) == 0)
            put_schema(s, t->name, t->summary, t->usage);
        if (*argument && sqlite3_stricmp(argument, t->name) == 0)
            return CLI_OK;
    }
    if (!*argument || put_schema(s, argument, NULL, NULL))
        return CLI_OK;
    cli_sql_names names = {0};
    cli_sql_names_tables(&names);
    const char *nearest = stk__nearest(argument, (const char *const *)names.items, names.count);
    cli_say(nearest ? "stoker: no table '%s'; did you mean '%s'?" : "stoker: no table '%s'", argument, nearest);
    cli_sql_names_clear(&names);
    return CLI_USAGE;
}

static int run_examples(cli_sql *s, const char *argument)
{
    int64_t number = 0;
    size_t count = 0;
    while (stk__sql_examples[count].query)
        count++;
    if (*argument && (!stk__parse_int64(argument, &number) || number < 1 || (uint64_t)number > count)) {
        cli_say("stoker: .examples wants a number from 1 to %zu, found '%s'", count, argument);
        return CLI_USAGE;
    }
    if (number) {
        put_line(stk__sql_examples[number - 1].query);
        return cli_sql_run(s, stk__sql_examples[number - 1].query);
    }
    stk__text text = STK__TEXT_INIT;
    for (size_t i = 0; i < count; i++)
        stk__text_printf(&text, "%s-- %zu: %s\n%s\n", i ? "\n" : "", i + 1, stk__sql_examples[i].what,
                         stk__sql_examples[i].query);
    cli_out_text(&text);
    cli_say(".examples N runs one of them.");
    return CLI_OK;
}

static int run_format(cli_sql *s, const char *argument)
{
    if (cli_format_named(argument, &s->format))
        return CLI_OK;
    if (!*argument) {
        put_line(cli_format_name(s->format));
        return CLI_OK;
    }
    cli_say("stoker: .format wants table, csv, raw-csv or json, found '%s'", argument);
    return CLI_USAGE;
}

static int run_notes(cli_sql *s, const char *argument)
{
    if (s->trace->note_count == 0) {
        cli_say("Nothing was left out or changed.");
        return CLI_OK;
    }
    return cli_sql_run(
        s, "SELECT path, CASE lost WHEN 1 THEN 'left out' ELSE 'kept' END AS outcome, count, text, "
           "note.offset AS first_at_byte FROM note JOIN file ON file.id = file_id ORDER BY lost DESC, count DESC");
}

static int run_help(cli_sql *s, const char *argument);

static const command commands[] = {
    {".tables", "", "tables, views and functions", run_tables},
    {".schema", "[TABLE]", "columns of all or of one", run_schema},
    {".examples", "[N]", "queries to start from; with a number, runs one", run_examples},
    {".format", "[FORMAT]", "how results are written: table, csv, raw-csv or json", run_format},
    {".notes", "", "what was left out or changed while reading", run_notes},
    {".help", "", "this list", run_help},
    {".quit", "", "ends the shell, as Ctrl-D does", NULL},
};

static int run_help(cli_sql *s, const char *argument)
{
    stk__text text = STK__TEXT_INIT;
    for (size_t i = 0; i < STK_COUNT(commands); i++)
        stk__text_printf(&text, "%-9s %-9s %s\n", commands[i].name, commands[i].argument, commands[i].what);
    stk__text_puts(&text, "Anything else is SQL, as SQLite knows it, and ends with ';'. Times are nanoseconds. "
                          "Ctrl-C stops a query.\n");
    cli_out_text(&text);
    return CLI_OK;
}

static int unknown_command(const char *name)
{
    const char *names[STK_COUNT(commands)];
    for (size_t i = 0; i < STK_COUNT(commands); i++)
        names[i] = commands[i].name;
    const char *nearest = stk__nearest(name, names, STK_COUNT(commands));
    if (nearest)
        cli_say("stoker: unknown command '%s'; did you mean '%s'?", name, nearest);
    else
        cli_say("stoker: unknown command '%s'; .help lists them", name);
    return CLI_USAGE;
}

int cli_sql_command(cli_sql *s, const char *line)
{
    const size_t size = strcspn(line, " \t\r;");
    const char *argument = line + size + strspn(line + size, " \t");
    char *name = stk__strndup(line, size);
    char *value = stk__strndup(argument, strcspn(argument, " \t\r;"));
    int code = name && value ? CLI_USAGE : CLI_FAILED;
    const command *found = NULL;
    for (size_t i = 0; code == CLI_USAGE && i < STK_COUNT(commands); i++) {
        if (strcmp(name, commands[i].name) == 0)
            found = &commands[i];
    }
    if (found && !found->run) {
        s->quit = true;
        code = CLI_OK;
    } else if (found) {
        code = found->run(s, value);
    } else if (code == CLI_USAGE) {
        code = strcmp(name, ".exit") == 0 ? (s->quit = true, CLI_OK) : unknown_command(name);
    }
    stk__free(name);
    stk__free(value);
    return code;
}
