/* Python functions in the spellings of tracers and samplers, and whose code they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/python_frames.h"
#include "base/compiler.h"

static void assert_text(const char *text, size_t size, const char *want)
{
    if (size != strlen(want) || memcmp(text, want, size) != 0)
        fail_msg("'%.*s' instead of '%s'", (int)size, text, want);
}

static void frames_are_parsed_in_all_spellings(void **state)
{
    (void)state;
    static const struct {
        const char *name, *function, *file;
        int64_t line;
        bool own;
    } cases[] = {
        {"train.py(12): __getitem__", "__getitem__", "train.py", 12, true},
        {"/home/u/x y/data/load.py(3): <listcomp>", "<listcomp>", "/home/u/x y/data/load.py", 3, true},
        {"torch/utils/data/dataloader.py(630): __next__", "__next__", "torch/utils/data/dataloader.py", 630, false},
        {"socket.py(220): __init__", "__init__", "socket.py", 220, false},
        {"util.py(4): read", "read", "util.py", 4, true},
        {"<frozen os>(674): __getitem__", "__getitem__", "<frozen os>", 674, false},
        {"<string>(2): __init__", "__init__", "<string>", 2, false},
        {"<stdin>(2): load", "load", "<stdin>", 2, true},
        {"<built-in function sleep>", "sleep", "", 0, false},
        {"<built-in method get of dict object at 0x7fa2>", "get", "", 0, false},
        {"nn.Module: Linear_0", "Linear_0", "", 0, false},
        {"$jx.py:8 load", "load", "jx.py", 8, true},
        {"$profiler.py:385 __init__", "__init__", "profiler.py", 385, false},
        {"$threading.py:10 wait", "wait", "threading.py", 10, false},
        {"$time sleep", "sleep", "time", 0, false},
        {"$<unknown> append", "append", "<unknown>", 0, false},
        {"DS.__getitem__ (pt/train.py:9)", "DS.__getitem__", "pt/train.py", 9, true},
        {"load (train.py)", "load", "train.py", 0, true},
        {"_worker_loop (torch/utils/data/_utils/worker.py:302)", "_worker_loop", "torch/utils/data/_utils/worker.py",
         302, false},
        {"_find_and_load (<frozen importlib._bootstrap>:1176)", "_find_and_load", "<frozen importlib._bootstrap>", 1176,
         false},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk__python_frame f;
        if (!stk__python_frame_parse(cases[i].name, strlen(cases[i].name), &f))
            fail_msg("not parsed: %s", cases[i].name);
        assert_text(f.function, f.function_size, cases[i].function);
        assert_text(f.file, f.file_size, cases[i].file);
        assert_int_equal(f.line, cases[i].line);
        if (f.own != cases[i].own)
            fail_msg("%s: own is %d", cases[i].name, f.own);
    }
}

static void other_names_are_no_frames(void **state)
{
    (void)state;
    static const char *const names[] = {
        "",
        "$",
        "$ ",
        "$x",
        "aten::add(2): x",
        "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
        "ProfilerStep#4",
        "Iterator::Map",
        "(12): f",
        "train.py(): f",
        "train.py(12):",
        "train.py(12): ",
        "malloc (libc.so.6)",
        " (a.py)",
        "process 24609:\"python train.py\"",
        "PyTorch Profiler (0)",
    };
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        stk__python_frame f;
        if (stk__python_frame_parse(names[i], strlen(names[i]), &f))
            fail_msg("parsed: '%s' as '%.*s' of '%.*s'", names[i], (int)f.function_size, f.function, (int)f.file_size,
                     f.file);
    }
}

static void own_files_are_told_from_libraries(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        bool own;
    } cases[] = {
        {"/root/.pyenv/versions/3.11.7/lib/python3.11/threading.py", false},
        {"/x/vtorch/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py", false},
        {"/usr/lib/python3/dist-packages/yaml/loader.py", false},
        {"C:\\Users\\me\\Python311\\Lib\\random.py", false},
        {"C:\\work\\train.py", true},
        {"/home/user/x/pt/train.py", true},
        {"/home/user/python-projects/lib/train.py", true},
        {"datasets/coco.py", true},
        {"datasets/arrow_dataset.py", false},
        {"torchvision/transforms/functional.py", false},
        {"torch_models/resnet.py", true},
        {"./torch/mine.py", true},
        {"queue.py", false},
        {"queues.py", true},
        {"/home/user/x/queue.py", true},
        {"<ipython-input-3-abc>", true},
        {"<eval_with_key>.1", false},
        {"", false},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++)
        if (stk__python_file_is_own(cases[i].file, strlen(cases[i].file)) != cases[i].own)
            fail_msg("%s: own is %d", cases[i].file, !cases[i].own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_parsed_in_all_spellings),
        cmocka_unit_test(other_names_are_no_frames),
        cmocka_unit_test(own_files_are_told_from_libraries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
