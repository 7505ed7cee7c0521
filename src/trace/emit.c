/* Args as JSON. */
#include "trace/emit.h"

#include "base/banned.h"

void stk__emit_json_verbatim(stk__text *t, const char *json, size_t size)
{
    if (size == 0) {
        STK__EMIT(t, "null");
        return;
    }
    char *to = stk__emit_room(t, size);
    if (!to)
        return;
    for (size_t i = 0; i < size; i++)
        to[i] = json[i] == '\n' || json[i] == '\r' ? ' ' : json[i];
    t->length += size;
}

static void emit_arg_double(stk__text *t, double x)
{
    const size_t before = t->length;
    stk__emit_json_double(t, x);
    if (!isfinite(x) || t->failed)
        return;
    for (size_t i = before; i < t->length; i++) {
        if (t->data[i] == '.' || t->data[i] == 'e')
            return;
    }
    STK__EMIT(t, ".0");
}

void stk__emit_arg_value(stk__text *t, const stk__trace *trace, size_t row)
{
    const stk__arg_value value = trace->args.value[row];
    const stk__string s = value.string < trace->string_count ? (stk__string)value.string : 0;
    size_t size;
    switch (trace->args.type[row] & STK__ARG_TYPE) {
    case STK__ARG_BOOL:
        stk__emit_bytes(t, value.integer ? "true" : "false", value.integer ? 4 : 5);
        break;
    case STK__ARG_INT:
        stk__emit_int(t, value.integer);
        break;
    case STK__ARG_DOUBLE:
        emit_arg_double(t, value.real);
        break;
    case STK__ARG_STRING:
        stk__emit_json_string(t, trace, s);
        break;
    case STK__ARG_JSON: {
        const char *json = stk__trace_text(trace, s, &size);
        stk__emit_json_verbatim(t, json, size);
        break;
    }
    default:
        STK__EMIT(t, "null");
    }
}

void stk__emit_args(stk__text *t, const stk__trace *trace, uint32_t first)
{
    const size_t end = stk__args_end(trace, first);
    stk__emit_char(t, '{');
    for (size_t row = first; row < end; row++) {
        if (row != first)
            stk__emit_char(t, ',');
        stk__emit_json_string(t, trace, trace->args.key[row]);
        stk__emit_char(t, ':');
        stk__emit_arg_value(t, trace, row);
    }
    stk__emit_char(t, '}');
}
