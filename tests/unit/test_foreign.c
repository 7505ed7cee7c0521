/* Files that are not read here are told by their content, and what is read is never taken for one of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "trace/foreign.h"

#define BYTES(text) text, sizeof(text) - 1

static const char *find(const char *data, size_t size)
{
    /* at the end of its memory, so that a sanitizer sees what is read past it */
    uint8_t *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, data, size);
    const char *sentence = stk__foreign_magic(copy, size);
    if (!sentence)
        sentence = stk__foreign_text(copy, size);
    free(copy);
    return sentence;
}

static void files_are_told_by_their_first_bytes(void **state)
{
    static const struct {
        const char *data;
        size_t size;
        const char *word;
    } cases[] = {
        {BYTES("PERFILE2h\0\0\0"), "perf script"},
        {BYTES("2ELIFREP"), "perf script"},
        {BYTES("NVIDIA Tegra Profiler Report 1.\n\013Local (CLI)"), "nsys export"},
        {BYTES("FLR\0\0\2\0\1"), "jfrconv"},
        {BYTES("\3\x42OTF2\0\3\3"), "otf2-print"},
        {BYTES("\3#OTF2\0\3\3"), "otf2-print"},
        {BYTES("memray\0\r\0\0\0"), "memray"},
        {BYTES("\x04\"M\x18@@\xc0\x36\0\0\xfa\4memray\0\r"), "memray"},
        {BYTES("\x04\"M\x18@@\xc0\x36\0\0\xfa\4others"), "lz4"},
        {BYTES("MOJ\4"), "mojo2austin"},
        {BYTES("tracy\0\v\1"), "Tracy"},
        {BYTES("go 1.26 trace\0\0\0"), "go tool trace"},
        {BYTES("\xfd"
               "7zXZ\0"),
         "xz -d"},
        {BYTES("BZh91AY&SY"), "bunzip2"},
        {BYTES("PK\3\4"), "unzip"},
        {BYTES("PK\3\4\024\0\0\0archive/data.pkl"), "torch.save"},
        {BYTES("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\"\t\0\0\0\0\0\0\0\1\x1a\rbrain.Event:2"), "TensorBoard"},
        {BYTES("\x89HDF\r\n\x1a\n"), "HDF5"},
        {BYTES("PAR1"), "Parquet"},
        {BYTES("\xff\xfe[\0"), "iconv"},
        {BYTES("\xfe\xff\0["), "iconv"},
        {BYTES("\0\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), "gperftools"},
        {BYTES("H\xe8\xef\x91\xe7\x97\xfb\x9d\xf4\x18\n\4\b\1\x10\2\n\4\b\3\x10\4P\x9e\xa4\xddwZ\4\b\3\x10\4"),
         "pprof"},
        {BYTES("\n\4\b\1\x10\2\x12\7\n\3\1\2\3\x12\0"), "pprof"},
    };
    (void)state;
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const char *sentence = find(cases[i].data, cases[i].size);
        if (!sentence || !strstr(sentence, cases[i].word))
            fail_msg("case %zu, of %s, gives '%s'", i, cases[i].word, sentence ? sentence : "nothing");
    }
}

static void what_is_read_and_what_is_nothing_is_not_taken_for_them(void **state)
{
    static const struct {
        const char *data;
        size_t size;
    } cases[] = {
        {BYTES("")},
        {BYTES("[{\"ph\":\"X\"}]")},
        {BYTES("MOJO;main 3\n")},
        {BYTES("tracy;main 3\n")},
        {BYTES("BZh;main 3\n")},
        {BYTES("go 1.26;trace 3\n")},
        {BYTES("\n\xc8\1\n\xc5\1\b\1")},      /* a Perfetto packet, or a plane */
        {BYTES("\n\x0d\b\1\x12\t/host:CPU")}, /* XSpace */
        {BYTES("\n\4\b\1\x10\2")},            /* a value type alone */
        {BYTES("SQLite format 3\0")},
        {BYTES("\x80\4\x95")}, /* a pickle */
        {BYTES("{(")},
    };
    (void)state;
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const char *sentence = find(cases[i].data, cases[i].size);
        if (sentence)
            fail_msg("case %zu is taken for %s", i, sentence);
    }
}

static void bytes_cut_anywhere_are_safe(void **state)
{
    static const char pprof[] =
        "H\xe8\xef\x91\xe7\x97\xfb\x9d\xf4\x18\n\4\b\1\x10\2\n\4\b\3\x10\4\xff\xff\xff\xff\xff\xff\xff\xff\xff\1Z\xff\xff\xff\xff\x0f";
    (void)state;
    for (size_t size = 0; size < sizeof pprof; size++)
        find(pprof, size);
    assert_null(find(pprof, 12));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_told_by_their_first_bytes),
        cmocka_unit_test(what_is_read_and_what_is_nothing_is_not_taken_for_them),
        cmocka_unit_test(bytes_cut_anywhere_are_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
