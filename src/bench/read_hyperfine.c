/* Reads what `hyperfine --export-json` writes up to its version 1. */
#include <math.h>
#include <string.h>

#include "bench/import.h"

#include "base/banned.h"

static stk_status check_list(const stk__import *in, const json_t *list, size_t want, size_t index, const char *key)
{
    if (list && !json_is_null(list) && (!json_is_array(list) || json_array_size(list) != want))
        return stk__import_bad(in, list, "a list as long as that of the times", "results[%zu].%s", index, key);
    return STK_OK;
}

static stk_status read_runs(stk__import *in, size_t index, const json_t *item, size_t variant, bool memory)
{
    const json_t *times = json_object_get(item, "times"), *codes = json_object_get(item, "exit_codes");
    const json_t *sizes = json_object_get(item, "memory_usage_byte");
    const size_t n = json_array_size(times);
    STK_TRY(check_list(in, codes, n, index, "exit_codes"));
    STK_TRY(check_list(in, sizes, n, index, "memory_usage_byte"));
    for (size_t i = 0; i < n; i++) {
        double values[2] = {NAN, NAN};
        int code = 0;
        if (!stk__import_value(json_array_get(times, i), &values[0]))
            return stk__import_bad(in, json_array_get(times, i), "a time of at least 0", "results[%zu].times[%zu]",
                                   index, i);
        if (json_is_array(codes) && !stk__import_exit_code(json_array_get(codes, i), &code))
            return stk__import_bad(in, json_array_get(codes, i), "an exit code or null", "results[%zu].exit_codes[%zu]",
                                   index, i);
        const json_t *size = json_array_get(sizes, i);
        if (memory && json_is_array(sizes) && !json_is_null(size) && !stk__import_value(size, &values[1]))
            return stk__import_bad(in, size, "a number of bytes", "results[%zu].memory_usage_byte[%zu]", index, i);
        STK_TRY(stk__import_run(in, variant, values, code));
    }
    return STK_OK;
}

static bool has_times(const json_t *item)
{
    return json_array_size(json_object_get(item, "times")) > 0;
}

static stk_status read_item(stk__import *in, size_t index, const json_t *item, bool memory)
{
    const json_t *times = json_object_get(item, "times");
    const char *command = stk__import_string(item, "command");
    size_t variant;
    if (!command)
        return stk__import_bad(in, json_object_get(item, "command"), "a string", "results[%zu].command", index);
    if (times && !json_is_null(times) && !json_is_array(times))
        return stk__import_bad(in, times, "a list", "results[%zu].times", index);
    if (!has_times(item))
        return STK_OK;
    STK_TRY(stk__import_variant(in, command, command, 0, &variant));
    STK_TRY(stk__import_parameters(in, variant, json_object_get(item, "parameters"), "results"));
    return read_runs(in, index, item, variant, memory);
}

stk_status stk__read_hyperfine(stk__import *in, const json_t *root)
{
    const json_t *list = json_object_get(root, "results");
    bool memory = false, means = false;
    size_t without = 0, index;
    if (!json_is_array(list))
        return stk__import_bad(in, list, "hyperfine's list", "results");
    if (json_object_get(root, "schema_version") || json_object_get(json_array_get(list, 0), "measurements"))
        return stk__read_hyperfine2(in, root);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        without += !has_times(item);
        memory |= json_array_size(json_object_get(item, "memory_usage_byte")) > 0;
        means |= json_is_number(json_object_get(item, "user"));
    }
    STK_TRY(stk__import_counter(in, "wall", "s", false, &index));
    if (memory)
        STK_TRY(stk__import_counter(in, "rss", "bytes", false, &index));
    for (size_t i = 0; i < json_array_size(list); i++)
        STK_TRY(read_item(in, i, json_array_get(list, i), memory));
    if (without)
        STK_TRY(stk__result_note(in->out, in->err, "%zu of %zu results have no times of their runs and were left out",
                                 without, json_array_size(list)));
    if (means)
        STK_TRY(stk__result_note(in->out, in->err,
                                 "user and system times were left out: hyperfine keeps only their means"));
    return stk__import_note_failures(in);
}
