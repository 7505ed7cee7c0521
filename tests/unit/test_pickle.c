/* The pickle machine: every operation, and pickles that want to harm. What Python itself writes: test_snapshot.py. */
#include "profile_files.h"

#include "trace/pickle.h"

/* ---- a client that writes what it sees as text ---- */

enum { THINGS_MAX = 4096 };

typedef struct teller {
    char *texts[THINGS_MAX]; /* of texts, by number; of containers likewise */
    size_t count;
    size_t makes;
} teller;

static uint32_t keep(teller *t, const char *text, size_t size)
{
    assert_true(t->count < THINGS_MAX);
    char *copy = stk__alloc(size + 1);
    assert_non_null(copy);
    memcpy(copy, text, size);
    copy[size] = '\0';
    t->texts[t->count] = copy;
    return (uint32_t)t->count++;
}

static uint32_t tell_text(void *arg, const char *bytes, size_t size, int64_t offset)
{
    teller *t = arg;
    for (size_t i = 0; i < t->count; i++) {
        if (strlen(t->texts[i]) == size && memcmp(t->texts[i], bytes, size) == 0)
            return (uint32_t)i;
    }
    return keep(t, bytes, size);
}

static void tell_value(const teller *t, const stk__pickle_value *v, stk__text *out)
{
    switch ((stk__pickle_kind)v->kind) {
    case STK__PICKLE_NONE:
        stk__text_puts(out, "None");
        break;
    case STK__PICKLE_BOOL:
        stk__text_puts(out, v->u.integer ? "True" : "False");
        break;
    case STK__PICKLE_INT:
        stk__text_printf(out, "%lld", (long long)v->u.integer);
        break;
    case STK__PICKLE_UINT:
        stk__text_printf(out, "%llu", (unsigned long long)v->u.natural);
        break;
    case STK__PICKLE_BIG:
        stk__text_puts(out, v->u.real < 0 ? "-big" : "big");
        break;
    case STK__PICKLE_FLOAT:
        stk__text_printf(out, "%g", v->u.real);
        break;
    case STK__PICKLE_TEXT:
        stk__text_printf(out, "'%s'", t->texts[v->u.text]);
        break;
    case STK__PICKLE_BYTES:
        stk__text_printf(out, "%llu bytes", (unsigned long long)v->u.natural);
        break;
    case STK__PICKLE_OPAQUE:
        stk__text_printf(out, "<%s.%s>", t->texts[v->u.module], t->texts[v->u.text]);
        break;
    default:
        assert_int_equal(v->kind, STK__PICKLE_MADE);
        stk__text_puts(out, t->texts[v->u.made]);
    }
}

static uint64_t tell_container(void *arg, stk__pickle_kind kind, const stk__pickle_value *items, size_t count,
                               int64_t offset)
{
    static const char *const brackets[] = {
        [STK__PICKLE_LIST] = "[]", [STK__PICKLE_TUPLE] = "()", [STK__PICKLE_SET] = "s>", [STK__PICKLE_DICT] = "{}"};
    teller *t = arg;
    stk__text out = STK__TEXT_INIT;
    t->makes++;
    stk__text_putc(&out, brackets[kind][0]);
    for (size_t i = 0; i < count; i++) {
        stk__text_puts(&out, i == 0 ? "" : kind == STK__PICKLE_DICT && i % 2 ? ":" : ",");
        tell_value(t, &items[i], &out);
    }
    stk__text_putc(&out, brackets[kind][1]);
    const uint32_t number = keep(t, out.data, out.length);
    stk__text_clear(&out);
    return number;
}

typedef struct told {
    stk__pickle_state state;
    char text[512], message[160];
    uint64_t late, left; /* bytes that are left in the input */
    size_t makes, peak_bytes;
} told;

static told tell_with(const void *data, size_t size, uint64_t cap_bytes)
{
    teller t = {0};
    told out = {0};
    stk__input *in;
    stk__pickle m;
    keep(&t, "", 0);
    stk__store *store = stk__store_new(cap_bytes, NULL);
    assert_non_null(store);
    assert_int_equal(stk__input_open_memory(data, size, &in, NULL), STK_OK);
    stk__pickle_init(&m, in, store, &(stk__pickle_client){&t, tell_text, tell_container, NULL});
    while (stk__pickle_run(&m, 100) == STK__PICKLE_MORE)
        ;
    out.state = m.state;
    out.late = m.late;
    out.makes = t.makes;
    out.left = size - (uint64_t)stk__pickle_offset(&m);
    out.peak_bytes = m.stack_capacity * sizeof *m.stack + m.memo.capacity + m.objects.capacity;
    stk__text text;
    stk__text_fixed(&text, out.text, sizeof out.text);
    tell_value(&t, &m.result, &text);
    memcpy(out.message, m.message, sizeof out.message);
    stk__pickle_clear(&m);
    stk__input_close(in);
    stk__store_free(store);
    for (size_t i = 0; i < t.count; i++)
        stk__free(t.texts[i]);
    return out;
}

static told tell(const void *data, size_t size)
{
    return tell_with(data, size, 0);
}

#define TELL(bytes) tell(bytes, sizeof(bytes) - 1)
#define ASSERT_TELLS(bytes, wanted)                      \
    do {                                                 \
        const told found = TELL(bytes);                  \
        assert_string_equal(found.text, wanted);         \
        assert_int_equal(found.state, STK__PICKLE_DONE); \
        assert_int_equal(found.left, 0);                 \
    } while (0)
#define ASSERT_BAD(bytes, wanted)                       \
    do {                                                \
        const told found = TELL(bytes);                 \
        assert_int_equal(found.state, STK__PICKLE_BAD); \
        assert_string_equal(found.message, wanted);     \
    } while (0)

/* A client that only counts containers. */
static uint64_t count_make(void *arg, stk__pickle_kind kind, const stk__pickle_value *items, size_t count,
                           int64_t offset)
{
    return ++*(uint64_t *)arg;
}

static uint32_t zero_text(void *arg, const char *text, size_t size, int64_t offset)
{
    return 0;
}

/* ---- values ---- */

static void pickle_reads_numbers_of_every_operation(void **state)
{
    ASSERT_TELLS("N.", "None");
    ASSERT_TELLS("\x88.", "True");
    ASSERT_TELLS("\x89.", "False");
    ASSERT_TELLS("I01\n.", "True");
    ASSERT_TELLS("I00\n.", "False");
    ASSERT_TELLS("I-12\n.", "-12");
    ASSERT_TELLS("L9223372036854775808L\n.", "9223372036854775808");
    ASSERT_TELLS("L-9223372036854775808L\n.", "-9223372036854775808");
    ASSERT_TELLS("L99999999999999999999L\n.", "big");
    ASSERT_TELLS("L-99999999999999999999L\n.", "-big");
    ASSERT_TELLS("F1.5\n.", "1.5");
    ASSERT_TELLS("K\xff.", "255");
    ASSERT_TELLS("M\x01\x02.", "513");
    ASSERT_TELLS("J\xfe\xff\xff\xff.", "-2");
    ASSERT_TELLS("G\x3f\xf8\0\0\0\0\0\0.", "1.5");
    ASSERT_TELLS("\x8a\0.", "0");
    ASSERT_TELLS("\x8a\x01\xff.", "-1");
    ASSERT_TELLS("\x8a\x08\0\0\0\0\0\0\0\x80.", "-9223372036854775808");
    ASSERT_TELLS("\x8a\x09\0\0\0\0\0\0\0\x80\0.", "9223372036854775808");
    ASSERT_TELLS("\x8a\x09\0\0\0\0\0\0\0\0\x01.", "big");
    ASSERT_TELLS("\x8a\x09\0\0\0\0\0\0\0\0\xff.", "-big");
    ASSERT_TELLS("\x8a\x0a\0\0\0\0\0\0\0\0\0\xff.", "-big");
    ASSERT_TELLS("\x8b\x02\0\0\0\x01\x02.", "513");
}

static void pickle_reads_texts_and_steps_over_bytes(void **state)
{
    ASSERT_TELLS("\x8c\x02hi.", "'hi'");
    ASSERT_TELLS("X\x02\0\0\0hi.", "'hi'");
    ASSERT_TELLS("\x8d\x02\0\0\0\0\0\0\0hi.", "'hi'");
    ASSERT_TELLS("U\x02hi.", "'hi'");
    ASSERT_TELLS("T\x02\0\0\0hi.", "'hi'");
    ASSERT_TELLS("Vh\\u00e9\xe9\\U0001f600\\q\n.", "'h\xc3\xa9\xc3\xa9\xf0\x9f\x98\x80\\q'");
    ASSERT_TELLS("S'a\\x41\\n\\'\\\\'\n.", "'aA\n'\\'");
    ASSERT_TELLS("S\"\"\n.", "''");
    ASSERT_TELLS("C\x03"
                 "abc.",
                 "3 bytes");
    ASSERT_TELLS("B\x03\0\0\0abc.", "3 bytes");
    ASSERT_TELLS("\x8e\x03\0\0\0\0\0\0\0abc.", "3 bytes");
    ASSERT_TELLS("\x96\x03\0\0\0\0\0\0\0abc.", "3 bytes");
}

static void pickle_reads_containers_of_every_operation(void **state)
{
    ASSERT_TELLS("].", "[]");
    ASSERT_TELLS("](K\x01K\x02"
                 "e.",
                 "[1,2]");
    ASSERT_TELLS("]K\x01"
                 "aK\x02"
                 "a.",
                 "[1,2]");
    ASSERT_TELLS("(K\x01lK\x02"
                 "a.",
                 "[1,2]");
    ASSERT_TELLS("}.", "{}");
    ASSERT_TELLS("}(K\x01NK\x02Nu.", "{1:None,2:None}");
    ASSERT_TELLS("}K\x01Ns.", "{1:None}");
    ASSERT_TELLS("(K\x01NdK\x02Ns.", "{1:None,2:None}");
    ASSERT_TELLS(").", "()");
    ASSERT_TELLS("K\x01\x85.", "(1)");
    ASSERT_TELLS("K\x01K\x02\x86.", "(1,2)");
    ASSERT_TELLS("K\x01K\x02K\x03\x87.", "(1,2,3)");
    ASSERT_TELLS("(K\x01K\x02K\x03K\x04t.", "(1,2,3,4)");
    ASSERT_TELLS("\x8f(K\x01\x90.", "s1>");
    ASSERT_TELLS("(K\x01\x91.", "s1>");
    ASSERT_TELLS("](](K\x01"
                 "e}(\x8c\x01k)u\x85"
                 "e.",
                 "[[1],({'k':()})]");
}

static void pickle_orders_the_stack_and_the_memo(void **state)
{
    ASSERT_TELLS("\x80\x04\x95\0\0\0\0\0\0\0\0K\x07.", "7");
    ASSERT_TELLS("K\x07K\x08"
                 "0.",
                 "7");
    ASSERT_TELLS("K\x07(K\x08K\x09"
                 "1.",
                 "7");
    ASSERT_TELLS("K\x07(0.", "7");
    ASSERT_TELLS("](K\x07"
                 "2e.",
                 "[7,7]");
    ASSERT_TELLS("](\x8c\x01x\x94h\0e.", "['x','x']");
    ASSERT_TELLS("](\x8c\x01xq\x05h\x05"
                 "e.",
                 "['x','x']");
    ASSERT_TELLS("](\x8c\x01xr\x05\0\0\0j\x05\0\0\0e.", "['x','x']");
    ASSERT_TELLS("](S'x'\np7\ng7\ne.", "['x','x']");
    /* a list that is referred to twice is made once */
    const told shared = TELL("]\x94(](K\x01"
                             "e\x94h\x01h\x01"
                             "e.");
    assert_string_equal(shared.text, "[[1],[1],[1]]");
    assert_int_equal(shared.makes, 2);
}

static void pickle_stops_where_the_pickle_ends(void **state)
{
    const told found = TELL("K\x01.trailing");
    assert_string_equal(found.text, "1");
    assert_int_equal(found.left, 8);
}

static void pickle_makes_long_lists_of_all_their_batches(void **state)
{
    stk__text data = STK__TEXT_INIT;
    stk__text_puts(&data, "]");
    for (int batch = 0; batch < 3; batch++) {
        stk__text_puts(&data, "(");
        for (int i = 0; i < (batch < 2 ? 1000 : 3); i++)
            stk__text_puts(&data, "N");
        stk__text_puts(&data, "e");
    }
    stk__text_puts(&data, ".");
    const told found = tell(data.data, data.length);
    assert_int_equal(found.state, STK__PICKLE_DONE);
    assert_int_equal(found.makes, 1);
    assert_int_equal(found.late, 0);
    stk__text_clear(&data);
}

/* ---- what would call something ---- */

static void pickle_never_calls_anything(void **state)
{
    ASSERT_TELLS("cos\nsystem\n(S'echo hi'\ntR.", "<os.system>");
    ASSERT_TELLS("\x8c\x02os\x8c\x06system\x93\x8c\x02hi\x85R.", "<os.system>");
    ASSERT_TELLS("(S'echo hi'\nios\nsystem\n.", "<os.system>");
    ASSERT_TELLS("(cos\nsystem\nS'echo hi'\no.", "<os.system>");
    ASSERT_TELLS("cm\nC\n)\x81}(\x8c\x01"
                 "aK\x01u"
                 "b.",
                 "<m.C>");
    ASSERT_TELLS("cm\nC\n)}\x92.", "<m.C>");
    ASSERT_TELLS("cm\nC\n)R(K\x01K\x02u.", "<m.C>");
    ASSERT_TELLS("cm\nC\n)R(K\x01"
                 "e.",
                 "<m.C>");
    ASSERT_TELLS("\x82\x01.", "<.extension 1>");
    ASSERT_TELLS("\x83\x01\x02.", "<.extension 513>");
    ASSERT_TELLS("\x84\x01\0\0\0.", "<.extension 1>");
    ASSERT_TELLS("Pid\n.", "<.persistent id>");
    ASSERT_TELLS("K\x01Q.", "<.persistent id>");
    ASSERT_TELLS("\x97\x98.", "<.buffer outside of the file>");
    ASSERT_BAD("K\x01)R.", "a call of something that is no class");
}

static void pickle_takes_dicts_by_other_names_as_dicts(void **state)
{
    ASSERT_TELLS("ccollections\nOrderedDict\n)R(K\x01Nu.", "{1:None}");
    ASSERT_TELLS("ccollections\ndefaultdict\ncbuiltins\nlist\n\x85RK\x01Ns.", "{1:None}");
    ASSERT_TELLS("ccollections\nOrderedDict\n]\x85RK\x01Ns.", "<collections.OrderedDict>");
}

/* ---- damage ---- */

static void pickle_closes_what_is_open_when_it_is_cut(void **state)
{
    const told found = TELL("}(\x8c\x01"
                            "a](K\x01K\x02"
                            "e\x8c\x01"
                            "b](K\x03K");
    assert_int_equal(found.state, STK__PICKLE_CUT);
    assert_string_equal(found.text, "{'a':[1,2],'b':[3]}");
    assert_string_equal(TELL("}(\x8c\x01"
                             "aK\x01\x8c\x01"
                             "b")
                            .text,
                        "{'a':1}");
    assert_int_equal(TELL("").state, STK__PICKLE_CUT);
}

static void pickle_survives_every_prefix_and_changed_byte(void **state)
{
    static const char good[] = "\x80\x04\x95\x40\0\0\0\0\0\0\0}\x94(\x8c\x01"
                               "a\x94]\x94(K\x01M\x02\x03J\x04\x05\x06\x07\x8a\x01\x08G\x3f"
                               "\xf8\0\0\0\0\0\0\x88Nh\x01)K\x01\x85(K\x01t\x8f(K\x02\x90"
                               "e\x8c\x01"
                               "bcm\nC\n)R}K\x01Nsbu.";
    for (size_t size = 0; size < sizeof good - 1; size++)
        assert_int_not_equal(tell(good, size).state, STK__PICKLE_DONE);
    assert_int_equal(TELL(good).state, STK__PICKLE_DONE);
    char changed[sizeof good];
    for (size_t i = 0; i < sizeof good - 1; i++) {
        for (int byte = 0; byte < 256; byte++) {
            memcpy(changed, good, sizeof good);
            changed[i] = (char)byte;
            assert_int_not_equal(tell(changed, sizeof good - 1).state, STK__PICKLE_MORE);
        }
    }
}

static void pickle_says_what_is_wrong(void **state)
{
    ASSERT_BAD("\x80\x06N.", "found pickle protocol 6, wanted 0 to 5");
    ASSERT_BAD("\xff", "found byte 0xff, wanted an operation of a pickle");
    ASSERT_BAD(".", "the stack is empty");
    ASSERT_BAD("e.", "a mark is missing");
    ASSERT_BAD("(e.", "items without a container");
    ASSERT_BAD("K\x01(Ne.", "items for something that is no container");
    ASSERT_BAD("](NNu.", "items for a container of another kind");
    ASSERT_BAD("}(Nu.", "items without a container");
    ASSERT_BAD("(Nd.", "a key without a value");
    ASSERT_BAD("](Na.", "the stack is empty"); /* nothing below a mark can be reached */
    ASSERT_BAD("h\0.", "refers to something that was not there before");
    ASSERT_BAD("g-1\n.", "a number of the memo is no number");
    ASSERT_BAD("Ix\n.", "a number that cannot be read");
    ASSERT_BAD("Fx\n.", "a number that cannot be read");
    ASSERT_BAD("Sx\n.", "a string without its quotes");
    ASSERT_BAD("K\x01K\x02\x93.", "a class without a name");
    ASSERT_BAD("\x8b\xff\xff\xff\xff.", "a whole number of more than 1,048,576 bytes");
}

static void pickle_with_lengths_that_lie_takes_no_memory(void **state)
{
    assert_int_equal(TELL("X\xff\xff\xff\x03hi").state, STK__PICKLE_CUT);
    assert_int_equal(TELL("\x8d\xff\xff\xff\xff\xff\xff\xff\xffhi").state, STK__PICKLE_CUT);
    assert_int_equal(TELL("\x8e\xff\xff\xff\xff\xff\xff\xff\xffhi").state, STK__PICKLE_CUT);
    const told memo = TELL("Nr\xff\xff\xff\xff.");
    assert_int_equal(memo.state, STK__PICKLE_BAD);
    assert_string_equal(memo.message, "a number of the memo is far past the ones before");
    assert_true(memo.peak_bytes < 1 << 20);
}

static void pickle_nested_deep_needs_no_recursion(void **state)
{
    enum { DEEP = 200000 };
    char *data = stk__alloc(3 * DEEP);
    assert_non_null(data);
    memset(data, ']', DEEP);
    memset(data + DEEP, 'a', DEEP - 1);
    data[2 * DEEP - 1] = '.';
    /* a teller would write the inner ones again and again, so only the state is asked for */
    stk__input *in;
    stk__pickle m;
    stk__store *store = stk__store_new(0, NULL);
    assert_int_equal(stk__input_open_memory(data, 2 * DEEP, &in, NULL), STK_OK);
    uint64_t makes = 0;
    stk__pickle_init(&m, in, store, &(stk__pickle_client){&makes, zero_text, count_make, NULL});
    while (stk__pickle_run(&m, SIZE_MAX) == STK__PICKLE_MORE)
        ;
    assert_int_equal(m.state, STK__PICKLE_DONE);
    assert_int_equal(makes, DEEP);
    stk__pickle_clear(&m);
    stk__input_close(in);
    stk__store_free(store);
    stk__free(data);
}

static void pickle_of_itself_ends(void **state)
{
    /* l = []; l.append(l): the inner one is what there was of it, and the item that came too late is counted */
    const told list = TELL("]\x94h\0a.");
    assert_int_equal(list.state, STK__PICKLE_DONE);
    assert_int_equal(list.late, 1);
    const told bomb = TELL("]\x94(h\0h\0h\0"
                           "e\x94(h\0h\0h\0"
                           "e\x94(h\0h\0"
                           "e.");
    assert_int_equal(bomb.state, STK__PICKLE_DONE);
    assert_true(bomb.makes <= 4);
}

static void pickle_survives_every_failed_allocation(void **state)
{
    unsigned failures = 0;
    for (uint64_t n = 1; n < 200; n++) {
        stk__store *store = stk__store_new(0, NULL);
        stk__input *in;
        stk__pickle m;
        uint64_t makes = 0;
        static const char bytes[] = "}(K\x01](NNNNNNNNNNe]NaNaVabc\nu.";
        assert_int_equal(stk__input_open_memory(bytes, sizeof bytes - 1, &in, NULL), STK_OK);
        stk__pickle_init(&m, in, store, &(stk__pickle_client){&makes, zero_text, count_make, NULL});
        stk__alloc_fail_at(n, true);
        while (stk__pickle_run(&m, SIZE_MAX) == STK__PICKLE_MORE)
            ;
        stk__alloc_fail_at(0, false);
        failures += m.state == STK__PICKLE_FAILED;
        if (m.state == STK__PICKLE_FAILED)
            assert_int_equal(store->error.status, STK_NOMEM);
        const bool done = m.state != STK__PICKLE_FAILED;
        stk__pickle_clear(&m);
        stk__input_close(in);
        stk__store_free(store);
        if (done)
            break;
    }
    assert_true(failures > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pickle_reads_numbers_of_every_operation),
        cmocka_unit_test(pickle_reads_texts_and_steps_over_bytes),
        cmocka_unit_test(pickle_reads_containers_of_every_operation),
        cmocka_unit_test(pickle_orders_the_stack_and_the_memo),
        cmocka_unit_test(pickle_stops_where_the_pickle_ends),
        cmocka_unit_test(pickle_makes_long_lists_of_all_their_batches),
        cmocka_unit_test(pickle_never_calls_anything),
        cmocka_unit_test(pickle_takes_dicts_by_other_names_as_dicts),
        cmocka_unit_test(pickle_closes_what_is_open_when_it_is_cut),
        cmocka_unit_test(pickle_survives_every_prefix_and_changed_byte),
        cmocka_unit_test(pickle_says_what_is_wrong),
        cmocka_unit_test(pickle_with_lengths_that_lie_takes_no_memory),
        cmocka_unit_test(pickle_nested_deep_needs_no_recursion),
        cmocka_unit_test(pickle_of_itself_ends),
        cmocka_unit_test(pickle_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
