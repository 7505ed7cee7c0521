/* What names say about loading data: spans of users, functions, calls of libraries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/input_names.h"
#include "base/compiler.h"

static void names_of_fetches_and_of_other_things(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        stk__name_says says;
    } cases[] = {
        {"data", STK__SAYS_INPUT},
        {"data_loading", STK__SAYS_INPUT},
        {"Data fetch", STK__SAYS_INPUT},
        {"loader.next", STK__SAYS_INPUT},
        {"get_batch", STK__SAYS_INPUT},
        {"getBatch", STK__SAYS_INPUT},
        {"GetNextBatch3", STK__SAYS_INPUT},
        {"HDF5Reader.read", STK__SAYS_INPUT},
        {"prepare_inputs", STK__SAYS_INPUT},
        {"__getitem__", STK__SAYS_INPUT},
        {"make_batches", STK__SAYS_INPUT},
        {"dataset", STK__SAYS_INPUT},
        {"", STK__SAYS_NOTHING},
        {"12", STK__SAYS_NOTHING},
        {"step_a", STK__SAYS_NOTHING},
        {"main", STK__SAYS_NOTHING},
        {"forward", STK__SAYS_NOTHING},
        {"BatchNorm2d", STK__SAYS_NOTHING},
        {"train_batch", STK__SAYS_NOTHING},
        {"process_batch", STK__SAYS_NOTHING},
        {"load_state_dict", STK__SAYS_NOTHING},
        {"DataParallel.gather_inputs", STK__SAYS_NOTHING},
        {"aten::batch_norm", STK__SAYS_NOTHING},
        {"Iterator::Batch", STK__SAYS_NOTHING},
        {"ReadVariableOp", STK__SAYS_NOTHING},
        {"input_concatenate_fusion", STK__SAYS_NOTHING},
        {"update", STK__SAYS_NOTHING}, /* "date" and "data" are other words */
        {"metadata", STK__SAYS_NOTHING},
        {"save_checkpoint", STK__SAYS_OTHER},
        {"log_batch", STK__SAYS_OTHER},
        {"compute_metrics", STK__SAYS_OTHER},
        {"write_inputs", STK__SAYS_OTHER},
        {"evaluate", STK__SAYS_OTHER},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++)
        if (stk__name_says_of(cases[i].name, strlen(cases[i].name)) != cases[i].says)
            fail_msg("'%s' should say %d", cases[i].name, (int)cases[i].says);
}

static void long_texts_say_nothing(void **state)
{
    (void)state;
    char name[200];
    memset(name, 'a', sizeof name);
    memcpy(name, "data ", 5);
    assert_int_equal(stk__name_says_of(name, sizeof name), STK__SAYS_NOTHING);
    assert_int_equal(stk__name_says_of(name, 40), STK__SAYS_INPUT);
    assert_int_equal(stk__name_says_of("data\0x", 6), STK__SAYS_INPUT);
    assert_int_equal(stk__name_says_of("data a b c d e f g h", 20), STK__SAYS_NOTHING);
}

static void calls_that_read_and_that_write(void **state)
{
    (void)state;
    static const struct {
        const char *function, *file;
        stk__name_says says;
    } cases[] = {
        {"read", "", STK__SAYS_INPUT},
        {"decompress", "", STK__SAYS_INPUT},
        {"get", "queue.py", STK__SAYS_INPUT},
        {"get", "multiprocessing/queues.py", STK__SAYS_INPUT},
        {"get", "", STK__SAYS_NOTHING}, /* of a dict */
        {"get", "config.py", STK__SAYS_NOTHING},
        {"__next__", "torch/utils/data/dataloader.py", STK__SAYS_INPUT},
        {"load", "PIL/ImageFile.py", STK__SAYS_INPUT},
        {"sleep", "", STK__SAYS_NOTHING},
        {"thread", "", STK__SAYS_NOTHING}, /* "read" is not a part of a word */
        {"write", "", STK__SAYS_OTHER},
        {"save", "torch/serialization.py", STK__SAYS_OTHER},
        {"emit", "logging/__init__.py", STK__SAYS_OTHER},
        {"synchronize", "torch/cuda/__init__.py", STK__SAYS_OTHER},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++)
        if (stk__call_says(cases[i].function, strlen(cases[i].function), cases[i].file, strlen(cases[i].file)) !=
            cases[i].says)
            fail_msg("'%s' of '%s' should say %d", cases[i].function, cases[i].file, (int)cases[i].says);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_fetches_and_of_other_things),
        cmocka_unit_test(long_texts_say_nothing),
        cmocka_unit_test(calls_that_read_and_that_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
