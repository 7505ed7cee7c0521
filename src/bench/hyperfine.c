/* hyperfine as a foreign witness: it measures in its own order and writes a file, which is read as any of its files. */
#include "bench/hyperfine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "bench/command.h"
#include "bench/interchange.h"

#include "base/banned.h"

enum { MOST_FILE = 64 << 20 };

static bool went_well(const stk__outcome *o)
{
    return !o->not_started && !o->signal && !o->timed_out && !o->out_of_memory && o->exit_code == 0;
}

stk_status stk__hyperfine_version(stk__launcher *l, const char *program, char **out, stk_error *err)
{
    stk__text command = STK__TEXT_INIT;
    stk__outcome o;
    stk__command_quote(&command, program);
    stk__text_puts(&command, " --version");
    if (command.failed)
        return stk__nomem(strlen(program), err);
    const stk__launch launch = {.command = command.data, .output = STK__OUTPUT_KEEP};
    stk_status status = stk__launcher_run(l, &launch, &o, err);
    stk__text_clear(&command);
    if (status != STK_OK)
        return status;
    if (went_well(&o) && o.output_end) {
        o.output_end[strcspn(o.output_end, "\r\n")] = 0;
        *out = stk__strdup(o.output_end);
        status = *out ? STK_OK : stk__nomem(o.output_end_size, err);
    } else {
        status = stk_error_set(err, STK_UNSUPPORTED,
                               "'%.200s' cannot be run; get it by 'apt install hyperfine', 'brew install hyperfine' or "
                               "'cargo install hyperfine', see https://github.com/sharkdp/hyperfine",
                               program);
    }
    stk__outcome_clear(&o);
    return status;
}

static void put_option(stk__text *t, const char *name, const char *value)
{
    if (!value)
        return;
    stk__text_printf(t, " --%s ", name);
    stk__command_quote(t, value);
}

static void put_command(stk__text *t, const stk__hyperfine *h, const char *a, const char *b, const char *file)
{
    stk__command_quote(t, h->program);
    stk__text_printf(t, " --style none --runs %zu --warmup %zu", h->runs, h->warmup);
    put_option(t, "export-json", file);
    put_option(t, "prepare", h->prepare);
    put_option(t, "input", h->input);
    if (h->ignore_failure)
        stk__text_puts(t, " --ignore-failure");
    stk__text_puts(t, " -n A -n B -- ");
    stk__command_quote(t, a);
    stk__text_putc(t, ' ');
    stk__command_quote(t, b);
}

static stk_status launch_it(stk__launcher *l, const stk__hyperfine *h, const char *command, stk_error *err)
{
    const stk__launch launch = {.command = command, .limits = h->limits};
    stk__outcome o;
    STK_TRY(stk__launcher_run(l, &launch, &o, err));
    stk_status status = STK_OK;
    if (!went_well(&o)) {
        stk__text why = STK__TEXT_INIT;
        stk__outcome_text(&o, &launch, &why);
        const char *said = o.error_end ? o.error_end : "";
        status = stk_error_set(err, STK_IO, "hyperfine failed: %s%s%.300s", why.failed || !why.data ? "" : why.data,
                               *said ? ": " : "", said);
        stk__text_clear(&why);
    }
    stk__outcome_clear(&o);
    return status;
}

static stk_status read_times(const char *file, const stk__hyperfine *h, stk__result *out, stk_error *err)
{
    char *text;
    size_t size;
    STK_TRY(stk__read_file(file, MOST_FILE, &text, &size, err));
    const stk_status status = stk__bench_read(text, size, file, STK__BENCH_HYPERFINE, out, err);
    stk__free(text);
    if (status != STK_OK)
        return status;
    if (out->variant_count == 2 && out->variants[0].runs == h->runs && out->variants[1].runs == h->runs)
        return STK_OK;
    return stk_error_set(err, STK_CORRUPT, "hyperfine wrote %zu results, wanted 2 of %zu runs each", out->variant_count,
                         h->runs);
}

stk_status stk__hyperfine_run(stk__launcher *l, const stk__hyperfine *h, const char *a, const char *b, stk__result *out,
                              stk_error *err)
{
    char file[] = "/tmp/stoker-hyperfine-XXXXXX";
    const int fd = mkstemp(file);
    if (fd < 0)
        return stk_error_set(err, STK_IO, "cannot make a file in /tmp for hyperfine: %s", strerror(errno));
    close(fd);
    stk__text command = STK__TEXT_INIT;
    put_command(&command, h, a, b, file);
    stk_status status = command.failed ? stk__nomem(command.length, err) : launch_it(l, h, command.data, err);
    stk__text_clear(&command);
    if (status == STK_OK)
        status = read_times(file, h, out, err);
    unlink(file);
    return status;
}
