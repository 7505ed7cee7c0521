/* stoker sql, inside: a connection, how results are written, and the shell. */
#ifndef STK_CLI_SQL_H
#define STK_CLI_SQL_H

#include <sqlite3.h>

#include "analyze/sql.h"
#include "workbench.h"

typedef struct cli_sql {
    sqlite3 *db;
    const stk__trace *trace;
    cli_format format;
    bool (*stopped)(void); /* asked while a query runs; true ends it */
    bool quit;             /* .quit was seen */
    size_t results;        /* written so far */
    size_t rows;           /* of the last one */
} cli_sql;

/*
 * Runs the statements and commands of a text one after the other and writes their results. Returns CLI_OK, CLI_USAGE
 * after a mistake in the text, CLI_FAILED or CLI_INTERRUPTED; everything has been said.
 */
int cli_sql_run(cli_sql *s, const char *text);

/* Says what the last call on `db` found wrong with the statement `text`, where, and which name may have been meant. */
void cli_sql_say_error(cli_sql *s, sqlite3 *db, const char *text);

/* Names for suggestions and completion, each once; end with NULL. */
typedef struct cli_sql_names {
    char **items;
    size_t count, capacity;
} cli_sql_names;

bool cli_sql_names_add(cli_sql_names *names, const char *name);
/* Adds the first column of each row; one parameter may be bound. */
bool cli_sql_names_query(cli_sql_names *names, sqlite3 *db, const char *query, const char *parameter);
bool cli_sql_names_tables(cli_sql_names *names);
bool cli_sql_names_columns(cli_sql_names *names, sqlite3 *db);
void cli_sql_names_clear(cli_sql_names *names);

/* Reads statements and commands from standard input until its end. */
int cli_sql_shell(cli_sql *s);
/* A command that starts with a dot. .quit sets s->quit. */
int cli_sql_command(cli_sql *s, const char *line);

#endif
