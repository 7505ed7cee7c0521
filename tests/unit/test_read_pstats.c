/*
 * Python profiles: every type of marshal, all shapes of callers, damage, and the same figures as Python's own pstats.
 */
#include "profile_files.h"

#include "trace/marshal.h"

/* ---- marshal ---- */

/* The only item of some bytes. */
static stk__marshal_item one_item(const void *data, size_t size)
{
    stk__marshal m;
    stk__marshal_init(&m, data, size);
    const stk__marshal_item item = stk__marshal_next(&m);
    stk__marshal_clear(&m);
    return item;
}

#define ITEM(bytes) one_item(bytes, sizeof(bytes) - 1)

static void marshal_reads_every_kind_of_number(void **state)
{
    assert_int_equal(ITEM("i\xfe\xff\xff\xff").u.integer, -2);
    assert_int_equal(ITEM("\xe9\x2a\0\0\0").u.integer, 42);
    assert_int_equal(ITEM("I\xff\xff\xff\xff\xff\xff\xff\x7f").u.integer, INT64_MAX);
    assert_int_equal(ITEM("l\x03\0\0\0\x01\0\x02\0\x03\0").u.integer, 1 + 2 * 32768 + INT64_C(3) * 32768 * 32768);
    assert_int_equal(ITEM("l\xfe\xff\xff\xff\x05\0\x01\0").u.integer, -(5 + 32768));
    assert_int_equal(ITEM("l\0\0\0\0").u.integer, 0);
    const stk__marshal_item wide = ITEM("l\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0");
    assert_true(wide.inexact);
    assert_int_equal(wide.u.integer, INT64_MAX);
    assert_true(ITEM("g\0\0\0\0\0\0\xf8\x3f").u.real == 1.5);
    assert_true(ITEM("f\x04"
                     "0.25")
                    .u.real == 0.25);
    assert_int_equal(ITEM("f\x03"
                          "x.y")
                         .kind,
                     STK__MARSHAL_BAD);
    assert_int_equal(ITEM("l\x01\0\0\0\xff\xff").kind, STK__MARSHAL_BAD);
    assert_int_equal(ITEM("y\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0").kind, STK__MARSHAL_NONE);
    assert_int_equal(ITEM("x\x01"
                          "1\x01"
                          "2")
                         .kind,
                     STK__MARSHAL_NONE);
}

static void marshal_tells_items_that_are_cut_off_from_bad_ones(void **state)
{
    static const char *const cut[] = {"i\1\2",
                                      "I\1\2",
                                      "l\1",
                                      "f\5"
                                      "12",
                                      "g12",
                                      "s\x10\x10\x10\x10x",
                                      "z\5ab",
                                      ")\3",
                                      "(\1"};
    for (size_t i = 0; i < STK_COUNT(cut); i++)
        assert_int_equal(one_item(cut[i], strlen(cut[i])).kind, STK__MARSHAL_CUT);
    assert_int_equal(one_item("", 0).kind, STK__MARSHAL_CUT);
    assert_int_equal(ITEM("c\0\0\0\0").kind, STK__MARSHAL_BAD);
    assert_int_equal(ITEM("?").kind, STK__MARSHAL_BAD);
    assert_int_equal(ITEM("r\0\0\0\0").kind, STK__MARSHAL_BAD);
    assert_int_equal(ITEM("R\0\0\0\0").kind, STK__MARSHAL_BAD);
    assert_int_equal(ITEM("(\xff\xff\xff\xff").kind, STK__MARSHAL_CUT);
}

static void marshal_numbers_references_as_python_does(void **state)
{
    /* (flagged tuple 0 of: flagged text 1, text without a number, flagged int 2, ref 1, ref 2, ref 0) */
    static const char bytes[] = "\xa9\x06\xda\x01"
                                "az\x01"
                                "b\xe9\x07\0\0\0r\x01\0\0\0r\x02\0\0\0r\0\0\0\0";
    stk__marshal m;
    stk__marshal_init(&m, bytes, sizeof bytes - 1);
    stk__marshal_item item = stk__marshal_next(&m);
    assert_int_equal(item.kind, STK__MARSHAL_TUPLE);
    assert_int_equal(item.size, 6);
    for (int i = 0; i < 3; i++)
        item = stk__marshal_next(&m);
    assert_int_equal(item.u.integer, 7);
    item = stk__marshal_next(&m);
    assert_true(item.again && item.kind == STK__MARSHAL_TEXT && item.u.text[0] == 'a');
    item = stk__marshal_next(&m);
    assert_true(item.again && item.u.integer == 7);
    item = stk__marshal_next(&m);
    assert_true(item.again && item.kind == STK__MARSHAL_TUPLE);
    assert_int_equal(stk__marshal_next(&m).kind, STK__MARSHAL_CUT);
    stk__marshal_clear(&m);
}

static void marshal_numbers_interned_strings_of_python_2_by_themselves(void **state)
{
    static const char bytes[] = "t\x01\0\0\0at\x01\0\0\0bs\x01\0\0\0cR\x01\0\0\0R\0\0\0\0R\x02\0\0\0";
    stk__marshal m;
    stk__marshal_init(&m, bytes, sizeof bytes - 1);
    for (int i = 0; i < 3; i++)
        stk__marshal_next(&m);
    stk__marshal_item item = stk__marshal_next(&m);
    assert_true(item.kind == STK__MARSHAL_TEXT && item.u.text[0] == 'b');
    assert_ptr_equal(stk__marshal_memo(&m, &item), &m.interned[1].memo);
    item = stk__marshal_next(&m);
    assert_true(item.kind == STK__MARSHAL_TEXT && item.u.text[0] == 'a');
    assert_int_equal(stk__marshal_next(&m).kind, STK__MARSHAL_BAD);
    stk__marshal_clear(&m);
}

static void marshal_steps_over_containers_without_recursion(void **state)
{
    static const char bytes[] = "(\x02\0\0\0{i\x01\0\0\0[\x01\0\0\0N0>\x01\0\0\0Ti\x09\0\0\0";
    stk__marshal m;
    stk__marshal_init(&m, bytes, sizeof bytes - 1);
    stk__marshal_item item = stk__marshal_next(&m);
    assert_true(stk__marshal_skip(&m, &item));
    assert_int_equal(stk__marshal_next(&m).u.integer, 9);
    stk__marshal_clear(&m);

    char deep[3 * 100000];
    for (size_t i = 0; i < sizeof deep; i += 2)
        memcpy(deep + i, ")\x01", 2);
    stk__marshal_init(&m, deep, sizeof deep);
    item = stk__marshal_next(&m);
    assert_false(stk__marshal_skip(&m, &item));
    stk__marshal_clear(&m);
}

/* ---- profiles by hand ---- */

/* ('a.py', LINE, 'f') of Python 2, one string as it is and one interned */
#define KEY_A "(\x03\0\0\0s\x04\0\0\0a.pyi\x01\0\0\0t\x01\0\0\0f"
#define KEY_B "(\x03\0\0\0s\x04\0\0\0b.pyi\x07\0\0\0t\x01\0\0\0g"
#define NUMBERS                   \
    "i\x01\0\0\0i\x02\0\0\0f\x04" \
    "0.25f\x03"                   \
    "1.5"

static void pstats_of_python_2_is_read(void **state)
{
    static const char bytes[] = "{" KEY_A "(\x05\0\0\0" NUMBERS "{" KEY_B "(\x04\0\0\0i\x02\0\0\0i\x01\0\0\0f\x04"
                                "0.25f\x03"
                                "1.500" /* two ends of dicts are 00 */;
    /* the callers end, then the entry of b follows, whose callers are a count as `profile` writes them */
    char whole[512];
    size_t size = sizeof bytes - 2;
    memcpy(whole, bytes, size);
    static const char rest[] = KEY_B "(\x05\0\0\0" NUMBERS "{" KEY_A "i\x03\0\0\0"
                                     "0"
                                     "0";
    memcpy(whole + size, rest, sizeof rest - 1);
    size += sizeof rest - 1;
    assert_string_equal(format_of(whole, size), "pstats");
    stk__trace *t = read_bytes(whole, size, NULL);
    assert_int_equal(all_notes(t), 0);
    assert_int_equal(t->function_count, 2);
    assert_int_equal(t->functions[0].primitive_calls, 1);
    assert_int_equal(t->functions[0].calls, 2);
    assert_int_equal(t->functions[0].self_ns, 250000000);
    assert_int_equal(t->functions[0].total_ns, 1500000000);
    const stk__trace_frame *frame = &t->frames[t->functions[1].frame];
    assert_string_equal(stk__trace_str(t, frame->name), "g");
    assert_string_equal(stk__trace_str(t, frame->file), "b.py");
    assert_int_equal(frame->line, 7);
    assert_int_equal(t->call_count, 2);
    assert_int_equal(t->calls[0].caller, 1);
    assert_int_equal(t->calls[0].callee, 0);
    assert_int_equal(t->calls[0].calls, 2);
    assert_int_equal(t->calls[0].primitive_calls, 1);
    assert_int_equal(t->calls[0].total_ns, 1500000000);
    assert_int_equal(t->calls[1].calls, 3);
    assert_int_equal(t->calls[1].primitive_calls, STK__NO_NUMBER);
    assert_int_equal(t->calls[1].self_ns, STK__NO_NUMBER);
    /* cut off anywhere: what is whole is kept, the end is noted */
    for (size_t cut = 1; cut < size; cut++) {
        stk__trace *part = read_bytes(whole, cut, "pstats");
        assert_int_equal(notes_of(part, STK__REASON_TRUNCATED), 1);
        assert_true(part->function_count <= 2);
        stk__trace_free(part);
    }
    stk__trace_free(t);
}

static void pstats_entries_of_another_shape_are_noted_and_passed(void **state)
{
    static const char bytes[] = "{i\x01\0\0\0N"                                    /* a key that is no tuple */
        KEY_A "(\x02\0\0\0NN"                                                      /* a value of two */
        KEY_B "(\x05\0\0\0" NUMBERS "N"                                            /* callers that are no dict */
        KEY_B "(\x05\0\0\0" NUMBERS "{0"                                           /* the same again */
                                "(\x03\0\0\0s\x01\0\0\0~i\0\0\0\0s\x05\0\0\0<len>" /* a built-in function */
                                "(\x05\0\0\0" NUMBERS "{" KEY_A "i\x01\0\0\0" KEY_B "N"
                                "0"
                                "0";
    stk__trace *t = read_bytes(bytes, sizeof bytes - 1, "pstats");
    assert_int_equal(t->function_count, 2);
    assert_int_equal(t->files[0].events, 5);
    assert_int_equal(notes_of(t, STK__REASON_BAD_VALUE), 4);
    assert_int_equal(notes_of(t, STK__REASON_DUPLICATE), 1);
    assert_int_equal(notes_of(t, STK__REASON_BAD_REFERENCE), 1); /* a caller that is no function of the file */
    const stk__trace_frame *frame = &t->frames[t->functions[1].frame];
    assert_string_equal(stk__trace_str(t, frame->name), "{len}");
    assert_string_equal(stk__trace_str(t, frame->file), "");
    stk__trace_free(t);
}

static void pstats_shared_callers_do_not_multiply(void **state)
{
    /* the dict of callers is flagged, and a second function refers to it */
    static const char bytes[] = "{" KEY_A "(\x05\0\0\0" NUMBERS "\xfb" KEY_B "i\x01\0\0\0"
                                "0" KEY_B "(\x05\0\0\0" NUMBERS "r\0\0\0\0"
                                "0";
    stk__trace *t = read_bytes(bytes, sizeof bytes - 1, NULL);
    assert_int_equal(t->function_count, 2);
    assert_int_equal(t->call_count, 1);
    assert_int_equal(notes_of(t, STK__REASON_BAD_REFERENCE), 1);
    stk__trace_free(t);
}

static void pstats_times_past_64_bits_are_noted(void **state)
{
    static const char bytes[] = "{" KEY_A "(\x05\0\0\0i\x01\0\0\0i\x01\0\0\0f\x03nanf\x04"
                                "1e40{0"
                                "0";
    stk__trace *t = read_bytes(bytes, sizeof bytes - 1, "pstats");
    assert_int_equal(t->function_count, 1);
    assert_int_equal(t->functions[0].self_ns, 0);
    assert_int_equal(t->functions[0].total_ns, INT64_MAX);
    assert_int_equal(notes_of(t, STK__REASON_LONG_DURATION), 2);
    stk__trace_free(t);
}

static void pstats_refuses_what_is_no_dict(void **state)
{
    stk__input *in;
    stk__builder *b;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__input_open_memory("[\0\0\0\0", 5, &in, NULL), STK_OK);
    assert_int_equal(stk__builder_new(NULL, &b, NULL), STK_OK);
    assert_int_equal(stk__trace_read(b, in, "pstats", &err), STK_CORRUPT);
    assert_non_null(strstr(err.message, "0x5b"));
    stk__input_close(in);
    stk__builder_free(b);
    assert_string_equal(format_of("{0", 2), "pstats");
    assert_string_equal(format_of("{\"a\": 0}", 8), "none");
}

/* ---- the same as Python ---- */

/* Makes profiles in all ways, and prints what pstats.Stats has of them. */
static const char maker[] =
    "import cProfile, profile, pstats, marshal, json, sys\n"
    "def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
    "def even(n): return True if n == 0 else odd(n - 1)\n"
    "def odd(n): return False if n == 0 else even(n - 1)\n"
    "def main():\n"
    "    fib(11); even(20); sorted(range(99), key=lambda x: -x); json.loads(json.dumps({'a': [1, 2, {'b': None}]}))\n"
    "base = sys.argv[1]\n"
    "for name, kind in (('c', cProfile), ('p', profile)):\n"
    "    p = kind.Profile(); p.runcall(main); p.dump_stats(base + name)\n"
    "s = pstats.Stats(base + 'c'); s.add(base + 'c'); s.dump_stats(base + 'm')\n"
    "for version in range(5):\n"
    "    open(base + str(version), 'wb').write(marshal.dumps(pstats.Stats(base + 'c').stats, version))\n"
    "def ns(x): return round(x * 1e9)\n"
    "def key(k): return '%s\\t%d\\t%s' % ('' if k[:2] == ('~', 0) else k[0], k[1],\n"
    "    '{' + k[2][1:-1] + '}' if k[:2] == ('~', 0) and k[2].startswith('<') else k[2])\n"
    "for name in ('c', 'p', 'm', '0', '1', '2', '3', '4'):\n"
    "    with open(base + name + '.txt', 'w') as out:\n"
    "        for k, (cc, nc, tt, ct, callers) in pstats.Stats(base + name).stats.items():\n"
    "            print('F', key(k), cc, nc, ns(tt), ns(ct), sep='\\t', file=out)\n"
    "            for c, v in callers.items():\n"
    "                v = (v, -1, -1, -1) if isinstance(v, int) else (v[0], v[1], ns(v[2]), ns(v[3]))\n"
    "                print('C', key(c), key(k), *v, sep='\\t', file=out)\n";

/* Splits a line at tabs; returns the number of parts. */
static size_t split(char *line, char **parts, size_t most)
{
    size_t count = 0;
    while (count < most) {
        parts[count++] = line;
        line = strchr(line, '\t');
        if (!line)
            break;
        *line++ = '\0';
    }
    return count;
}

static bool is_function(const stk__trace *t, uint32_t function, char *const *key)
{
    const stk__trace_frame *frame = &t->frames[t->functions[function].frame];
    return strcmp(stk__trace_str(t, frame->file), key[0]) == 0 && frame->line == strtol(key[1], NULL, 10) &&
           strcmp(stk__trace_str(t, frame->name), key[2]) == 0;
}

static uint32_t find_function(const stk__trace *t, char *const *key)
{
    for (uint32_t i = 0; i < t->function_count; i++) {
        if (is_function(t, i, key))
            return i;
    }
    fail_msg("no function %s:%s:%s", key[0], key[1], key[2]);
    return 0;
}

/* Python's rounding of x * 1e9 and ours agree but for ties. */
static void assert_close(int64_t found, const char *wanted)
{
    const int64_t number = strtoll(wanted, NULL, 10);
    assert_in_range(found - number + 1, 0, 2);
}

static void check_line(const stk__trace *t, char **part, size_t count, size_t *functions, size_t *calls)
{
    if (part[0][0] == 'F') {
        assert_int_equal(count, 8);
        const stk__trace_function *f = &t->functions[find_function(t, part + 1)];
        assert_int_equal(f->primitive_calls, strtoll(part[4], NULL, 10));
        assert_int_equal(f->calls, strtoll(part[5], NULL, 10));
        assert_close(f->self_ns, part[6]);
        assert_close(f->total_ns, part[7]);
        ++*functions;
        return;
    }
    assert_int_equal(count, 11);
    const uint32_t caller = find_function(t, part + 1), callee = find_function(t, part + 4);
    const stk__trace_call *call = NULL;
    for (size_t i = 0; i < t->call_count && !call; i++) {
        if (t->calls[i].caller == caller && t->calls[i].callee == callee)
            call = &t->calls[i];
    }
    assert_non_null(call);
    assert_int_equal(call->calls, strtoll(part[7], NULL, 10));
    if (part[8][0] == '-') {
        assert_int_equal(call->primitive_calls, STK__NO_NUMBER);
    } else {
        assert_int_equal(call->primitive_calls, strtoll(part[8], NULL, 10));
        assert_close(call->self_ns, part[9]);
        assert_close(call->total_ns, part[10]);
    }
    ++*calls;
}

static void check_profile(const char *base, const char *name)
{
    char path[300], *data, *text;
    size_t size, functions = 0, calls = 0;
    snprintf(path, sizeof path, "%s%s", base, name);
    assert_int_equal(stk__read_file(path, 1 << 24, &data, &size, NULL), STK_OK);
    unlink(path);
    assert_string_equal(format_of(data, size), "pstats");
    stk__trace *t = read_bytes(data, size, NULL);
    assert_int_equal(all_notes(t), 0);
    snprintf(path, sizeof path, "%s%s.txt", base, name);
    assert_int_equal(stk__read_file(path, 1 << 24, &text, &size, NULL), STK_OK);
    unlink(path);
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        char *part[12];
        *end = '\0';
        const size_t count = split(line, part, 12);
        check_line(t, part, count, &functions, &calls);
    }
    assert_true(functions > 8);
    assert_int_equal(t->function_count, functions);
    assert_int_equal(t->call_count, calls);
    stk__trace_free(t);
    stk__free(data);
    stk__free(text);
}

static void pstats_figures_equal_those_of_python(void **state)
{
    static const char *const names[] = {"c", "p", "m", "0", "1", "2", "3", "4"};
    char directory[] = "/tmp/stoker-test-XXXXXX", script[256], base[256], command[1024];
    if (system("python3 -c 'import cProfile, profile, pstats' 2>/dev/null") != 0)
        skip();
    assert_non_null(mkdtemp(directory));
    snprintf(script, sizeof script, "%s/make.py", directory);
    snprintf(base, sizeof base, "%s/profile-", directory);
    assert_int_equal(stk__write_file(script, maker, sizeof maker - 1, NULL), STK_OK);
    snprintf(command, sizeof command, "python3 %s %s", script, base);
    assert_int_equal(system(command), 0);
    for (size_t i = 0; i < STK_COUNT(names); i++)
        check_profile(base, names[i]);
    unlink(script);
    rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marshal_reads_every_kind_of_number),
        cmocka_unit_test(marshal_tells_items_that_are_cut_off_from_bad_ones),
        cmocka_unit_test(marshal_numbers_references_as_python_does),
        cmocka_unit_test(marshal_numbers_interned_strings_of_python_2_by_themselves),
        cmocka_unit_test(marshal_steps_over_containers_without_recursion),
        cmocka_unit_test(pstats_of_python_2_is_read),
        cmocka_unit_test(pstats_entries_of_another_shape_are_noted_and_passed),
        cmocka_unit_test(pstats_shared_callers_do_not_multiply),
        cmocka_unit_test(pstats_times_past_64_bits_are_noted),
        cmocka_unit_test(pstats_refuses_what_is_no_dict),
        cmocka_unit_test(pstats_figures_equal_those_of_python),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
