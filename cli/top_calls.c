/* stoker top --callers and --callees: who calls what, and for how long. */
#include "analyze/top_calls.h"

#include "analyze/workbench.h"
#include "top_calls.h"

#include "base/banned.h"

static const char *const table_columns[] = {"count", "self", "total", "caller", "callee"};
static const char *const data_columns[] = {"caller", "callee", "count", "self", "total", "source", "unit"};

static void put_amount(cli_table *table, uint32_t unit, int64_t amount)
{
    if (unit == STK__UNIT_NS)
        cli_table_ns(table, amount);
    else
        cli_table_int(table, amount);
}

static void put_name(cli_table *table, const stk__top_edges *edges, uint32_t name)
{
    const char *text = stk__top_edge_name(edges, name);
    stk__text shown = STK__TEXT_INIT;
    cli_text_name(&shown, name == STK__NONE ? "(nothing around it)" : *text ? text : "(no name)");
    if (shown.failed)
        cli_table_fail(table);
    else
        cli_table_str(table, shown.data);
    stk__text_clear(&shown);
}

static void put_row(cli_table *table, cli_format format, const stk__top_edges *edges, const stk__top_edge *e)
{
    if (format == CLI_TABLE) {
        cli_table_int(table, e->count);
        put_amount(table, e->unit, e->self);
        put_amount(table, e->unit, e->total);
        put_name(table, edges, e->caller);
        put_name(table, edges, e->callee);
        return;
    }
    if (e->caller == STK__NONE)
        cli_table_null(table);
    else
        cli_table_str(table, stk__top_edge_name(edges, e->caller));
    cli_table_str(table, stk__top_edge_name(edges, e->callee));
    cli_table_int(table, e->count);
    cli_table_int(table, e->self);
    cli_table_int(table, e->total);
    cli_table_str(table, stk__top_source_names[edges->source]);
    cli_table_str(table, stk__unit_names[e->unit]);
}

int cli_top_calls(const stk__trace *t, const stk__selection *select, const cli_list *like, bool callees, int64_t limit,
                  cli_format format)
{
    stk__top_edges edges;
    stk_error err;
    stk_error_clear(&err);
    if (stk__top_edges_make(t, select, like->items, like->count, callees, &edges, &err) != STK_OK) {
        cli_say_error(&err, NULL, NULL);
        return cli_exit_code(&err);
    }
    const bool people = format == CLI_TABLE;
    if (!edges.count)
        cli_say("nothing that is like '%s' %s anything", like->items[0], callees ? "calls" : "is called by");
    if (!edges.count && people)
        return CLI_OK;
    cli_table *table = cli_table_new(format, people ? table_columns : data_columns,
                                     people ? STK_COUNT(table_columns) : STK_COUNT(data_columns));
    const size_t shown = limit && (uint64_t)limit < edges.count ? (size_t)limit : edges.count;
    for (size_t i = 0; i < shown; i++)
        put_row(table, format, &edges, &edges.rows[i]);
    const bool good = cli_table_finish(table);
    if (people && shown < edges.count) {
        stk__text text = STK__TEXT_INIT;
        stk__text_printf(&text, "... and %zu more; --limit 0 shows all\n", edges.count - shown);
        cli_out_text(&text);
    }
    stk__top_edges_clear(&edges);
    return good ? CLI_OK : CLI_FAILED;
}
