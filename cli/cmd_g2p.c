/* stoker g2p: words and running text into phonemes. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "g2p.h"

#include "base/banned.h"

/* Lines are taken together up to this many bytes: many words for the model, and not too many for the cache. */
#define BLOCK_BYTES ((size_t)64 << 10)
/* A longer line is taken in parts. */
#define PART_BYTES ((size_t)1 << 20)

static const int64_t draw_every_ns = 100 * 1000 * 1000;

typedef struct g2p_options {
    const char *model, *precision, *format, *output;
    cli_list lexicons;
    bool literal, no_common, variants, ids, symbols, quiet;
} g2p_options;

/* One run of the command. */
typedef struct session {
    const g2p_options *options;
    stk_g2p *g;
    stk_g2p_results results;
    g2p_output out;
    stk__new_file file;
    bool to_file;
    stk_bytes *texts;
    size_t *firsts; /* one more than texts */
    size_t text_capacity, first_capacity;
    int64_t started_ns, drawn_ns;
    int64_t read_bytes, total_bytes; /* of standard input; total 0: not known */
} session;

/* ---- what is asked for ---- */

static bool find_word(const char *option, const char *word, const char *const *words, size_t count, int *out)
{
    stk__text list = STK__TEXT_INIT;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(word, words[i]) == 0) {
            *out = (int)i;
            stk__text_clear(&list);
            return true;
        }
        stk__text_printf(&list, "%s%s", i == 0 ? "" : i + 1 == count ? " or " : ", ", words[i]);
    }
    cli_usage_error(&cli_command_g2p, "--%s wants %s, found '%s'", option, list.failed ? "another" : list.data, word);
    stk__text_clear(&list);
    return false;
}

static bool read_format(const g2p_options *o, g2p_format *out)
{
    static const char *const words[] = {"words", "lines", "json"};
    int found = G2P_WORDS;
    if (o->format && !find_word("format", o->format, words, STK_COUNT(words), &found))
        return false;
    *out = (g2p_format)found;
    return true;
}

static bool read_precision(const g2p_options *o, stk_g2p_precision *out)
{
    static const char *const words[] = {"int8", "fp32"};
    int found = 0;
    if (o->precision && !find_word("precision", o->precision, words, STK_COUNT(words), &found))
        return false;
    *out = found ? STK_G2P_FP32 : STK_G2P_INT8;
    return true;
}

static bool is_file(const char *output)
{
    return output && strcmp(output, "-") != 0;
}

static bool is_same_file(const struct stat *output, const char *path)
{
    struct stat st;
    return path && stat(path, &st) == 0 && st.st_dev == output->st_dev && st.st_ino == output->st_ino;
}

/* The output takes the place of what was there, so it must not be what is read. */
static int check_output(const g2p_options *o)
{
    struct stat st;
    if (!is_file(o->output) || stat(o->output, &st))
        return CLI_OK;
    bool same = is_same_file(&st, o->model) || (S_ISREG(st.st_mode) && is_same_file(&st, "/dev/stdin"));
    for (size_t i = 0; i < o->lexicons.count; i++)
        same = same || is_same_file(&st, o->lexicons.items[i]);
    if (same)
        return cli_usage_error(&cli_command_g2p, "'%s' is read and would be overwritten; give -o another name",
                               o->output);
    return CLI_OK;
}

static bool is_stdin(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

/* How much is to be read from standard input: text, model, lexicons. */
static size_t count_stdin(const g2p_options *o, bool from_stdin)
{
    size_t count = (size_t)from_stdin + is_stdin(o->model);
    for (size_t i = 0; i < o->lexicons.count; i++)
        count += is_stdin(o->lexicons.items[i]);
    return count;
}

static int check_options(const g2p_options *o, const cli_arguments *arguments, bool from_stdin)
{
    if (o->variants && (!o->lexicons.count || (o->format && strcmp(o->format, "lines") == 0)))
        return cli_usage_error(&cli_command_g2p, o->lexicons.count
                                                     ? "--variants is for words and json, not for lines"
                                                     : "--variants shows what a lexicon has; give --lexicon FILE");
    if (count_stdin(o, from_stdin) > 1)
        return cli_usage_error(&cli_command_g2p, "standard input can be only one of text, model and lexicon");
    for (size_t i = 0; i < arguments->count && arguments->count > 1; i++) {
        if (is_stdin(arguments->items[i]))
            return cli_usage_error(&cli_command_g2p, "'-' is standard input and stands alone, found %zu arguments",
                                   arguments->count);
    }
    if (from_stdin && !arguments->count && isatty(STDIN_FILENO))
        return cli_usage_error(&cli_command_g2p, "no word; give words or text, or - for what you type");
    return check_output(o);
}

/* ---- a block of lines ---- */

static int fail(const stk_error *err)
{
    cli_say_error(err, NULL, NULL);
    return cli_exit_code(err);
}

static int out_of_memory(void)
{
    cli_say("stoker: out of memory");
    return CLI_FAILED;
}

/* What was made so far goes out. */
static int send_out(session *s)
{
    stk__text *t = &s->out.text;
    if (t->failed)
        return out_of_memory();
    if (s->to_file) {
        stk_error err;
        stk_error_clear(&err);
        if (stk__new_file_write(&s->file, t->data ? t->data : "", t->length, &err) != STK_OK)
            return fail(&err);
    } else if (!cli_out(t->data ? t->data : "", t->length)) {
        return CLI_FAILED; /* cli_out_finish says why */
    }
    stk__text_reset(t);
    return CLI_OK;
}

static bool add_text(session *s, size_t n, const char *data, size_t size)
{
    if (!stk__grow((void **)&s->texts, &s->text_capacity, n + 1, sizeof *s->texts) ||
        !stk__grow((void **)&s->firsts, &s->first_capacity, n + 2, sizeof *s->firsts))
        return false;
    s->texts[n] = (stk_bytes){(const uint8_t *)data, (int64_t)size};
    return true;
}

static stk_status pronounce_texts(session *s, size_t count, stk_error *err)
{
    if (!s->options->literal)
        return stk_g2p_texts(s->g, s->texts, count, &s->results, s->firsts, err);
    for (size_t i = 0; i <= count; i++)
        s->firsts[i] = i;
    return stk_g2p_predict_many(s->g, s->texts, count, &s->results, err);
}

/* Pronounces `count` texts together. `ends`: the last of them is the end of its line. */
static int pronounce(session *s, size_t count, bool ends)
{
    stk_error err;
    stk_error_clear(&err);
    if (pronounce_texts(s, count, &err) != STK_OK)
        return fail(&err);
    for (size_t i = 0; i < count; i++)
        g2p_output_line(&s->out, (const char *)s->texts[i].data, (size_t)s->texts[i].size,
                        s->results.tokens + s->firsts[i], s->firsts[i + 1] - s->firsts[i], ends || i + 1 < count);
    return send_out(s);
}

/* Lines, each with its end; the last may have none: `ends` says whether it is one nevertheless. */
static int pronounce_lines(session *s, const char *data, size_t size, bool ends)
{
    const char *p = data, *const end = data + size;
    size_t count = 0;
    bool last_ends = true;
    while (p < end) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        size_t length = (size_t)((newline ? newline : end) - p);
        last_ends = newline || ends;
        if (last_ends && length && p[length - 1] == '\r')
            length--;
        if (!add_text(s, count++, p, length))
            return out_of_memory();
        p = newline ? newline + 1 : end;
    }
    return count ? pronounce(s, count, last_ends) : CLI_OK;
}

/* ---- standard input ---- */

static void draw_progress(session *s)
{
    const int64_t now = stk__now_ns();
    if (s->options->quiet || !cli_live_possible() || now - s->drawn_ns < draw_every_ns)
        return;
    s->drawn_ns = now;
    stk__text line = STK__TEXT_INIT;
    stk__text_puts(&line, "reading: ");
    stk__text_bytes(&line, (uint64_t)s->read_bytes);
    if (s->total_bytes > 0) {
        stk__text_puts(&line, " of ");
        stk__text_bytes(&line, (uint64_t)s->total_bytes);
        stk__text_printf(&line, ", %d %%", (int)(100.0 * (double)s->read_bytes / (double)s->total_bytes));
    }
    stk__text_puts(&line, "; ");
    cli_text_count(&line, s->out.counts.words);
    stk__text_puts(&line, " words");
    if (!line.failed)
        cli_live(line.data);
    stk__text_clear(&line);
}

/* Where a part of a line without end is cut: behind its last white space, else before the last character. */
static size_t cut_at(const char *data, size_t size)
{
    for (size_t i = size; i > size / 2; i--) {
        if (data[i - 1] == ' ' || data[i - 1] == '\t')
            return i;
    }
    size_t i = size;
    while (i > size - 4 && ((unsigned char)data[i - 1] & 0xc0) == 0x80)
        i--;
    return i - ((unsigned char)data[i - 1] >= 0xc0);
}

/* How much of what was read can be worked on now; *out_ends: its last line is whole. 0: more must be read. */
static size_t ready_bytes(const char *data, size_t size, size_t seen, bool at_end, bool *out_ends)
{
    *out_ends = true;
    if (at_end)
        return size;
    const char *newline = memrchr(data + seen, '\n', size - seen);
    if (newline)
        return (size_t)(newline - data) + 1;
    *out_ends = false;
    return size >= PART_BYTES ? cut_at(data, size) : 0;
}

/* Reads what is there, up to a block; waits for the first byte only. 0 is the end, -1 a failure or an interrupt. */
static ssize_t read_some(char *data, size_t size)
{
    for (;;) {
        if (cli_interrupted() || stk__await_input(STDIN_FILENO, NULL) != STK_OK)
            return -1;
        const ssize_t n = read(STDIN_FILENO, data, size);
        if (n >= 0 || errno != EINTR)
            return n;
    }
}

static int read_failed(void)
{
    if (cli_interrupted())
        return CLI_INTERRUPTED;
    cli_say("stoker: cannot read standard input: %s", strerror(errno));
    return CLI_FAILED;
}

static int pronounce_stdin(session *s)
{
    const size_t capacity = PART_BYTES + BLOCK_BYTES;
    char *data = stk__alloc(capacity);
    size_t size = 0;
    int code = data ? CLI_OK : out_of_memory();
    struct stat st;
    if (fstat(STDIN_FILENO, &st) == 0 && S_ISREG(st.st_mode))
        s->total_bytes = st.st_size;
    for (bool at_end = false; !at_end && code == CLI_OK;) {
        const ssize_t n = read_some(data + size, BLOCK_BYTES);
        if (n < 0) {
            code = read_failed();
            break;
        }
        at_end = n == 0;
        s->read_bytes += n;
        bool ends;
        const size_t ready = ready_bytes(data, size + (size_t)n, size, at_end, &ends);
        size += (size_t)n;
        if (ready || (at_end && s->out.in_line)) {
            /* The end of a line that was taken in parts may be empty. */
            if (!ready)
                g2p_output_line(&s->out, data, 0, NULL, 0, true);
            code = ready ? pronounce_lines(s, data, ready, ends) : send_out(s);
            memmove(data, data + ready, size - ready);
            size -= ready;
        }
        if ((size_t)n < BLOCK_BYTES && !s->to_file)
            cli_out_flush(); /* a program that waits for the answer gets it before it asks again */
        draw_progress(s);
    }
    cli_live_clear();
    stk__free(data);
    return code;
}

/* ---- the command ---- */

static void put_part(stk__text *t, const char *before, int64_t n, const char *what)
{
    if (!n)
        return;
    stk__text_puts(t, before);
    cli_text_count(t, n);
    stk__text_puts(t, what);
}

static void say_summary(const session *s)
{
    const g2p_counts *c = &s->out.counts;
    const double seconds = (double)(stk__now_ns() - s->started_ns) * 1e-9;
    stk__text t = STK__TEXT_INIT;
    cli_text_count(&t, c->words);
    stk__text_puts(&t, c->words == 1 ? " word in " : " words in ");
    cli_text_seconds(&t, seconds);
    stk__text_puts(&t, ", ");
    cli_text_rate(&t, seconds > 0 ? (double)c->words / seconds : 0);
    stk__text_puts(&t, " words/s");
    if (s->options->lexicons.count && c->words)
        stk__text_printf(&t, "; %.1f %% from the lexicon", 100.0 * (double)c->lexicon / (double)c->words);
    put_part(&t, "; ", c->common, " common");
    put_part(&t, "; ", c->predicted, " predicted");
    put_part(&t, "; ", c->spelled, " spelled");
    put_part(&t, "; ", c->oov, " in no lexicon");
    put_part(&t, "; ", c->flagged, " cut or with unknown letters");
    if (!t.failed)
        cli_say("%s", t.data);
    stk__text_clear(&t);
}

static int pronounce_arguments(session *s, const cli_arguments *arguments)
{
    for (size_t i = 0; i < arguments->count; i++) {
        if (!add_text(s, i, arguments->items[i], strlen(arguments->items[i])))
            return out_of_memory();
    }
    return pronounce(s, arguments->count, true);
}

static int session_open(session *s, const g2p_options *o)
{
    g2p_format format;
    stk_g2p_config config = {.struct_size = sizeof config,
                             .model = o->model,
                             .lexicons = o->lexicons.items,
                             .lexicon_count = o->lexicons.count,
                             .no_common = o->no_common};
    stk_error err;
    stk_error_clear(&err);
    if (!read_format(o, &format) || !read_precision(o, &config.precision))
        return CLI_USAGE;
    s->to_file = is_file(o->output);
    if (stk_g2p_open(&config, &s->g, &err) != STK_OK)
        return fail(&err);
    cli_interrupts_catch(); /* not before: a lexicon may be a pipe that never ends */
    if (s->to_file && stk__new_file_open(&s->file, o->output, &err) != STK_OK)
        return fail(&err);
    g2p_output_init(&s->out, s->g, o->ids);
    s->out.format = format;
    s->out.variants = o->variants;
    s->out.columns = !s->to_file && isatty(STDOUT_FILENO);
    s->started_ns = s->drawn_ns = stk__now_ns();
    return CLI_OK;
}

/* The file appears only when all went well. */
static int session_close(session *s, int code)
{
    stk_error err;
    stk_error_clear(&err);
    if (s->file.stream && code == CLI_OK) {
        if (stk__new_file_commit(&s->file, &err) != STK_OK)
            code = fail(&err);
    } else {
        stk__new_file_abort(&s->file);
    }
    g2p_output_clear(&s->out);
    stk_g2p_results_clear(&s->results);
    stk_g2p_close(s->g);
    stk__free(s->texts);
    stk__free(s->firsts);
    return code;
}

static int write_symbols(const char *path, stk__text *t)
{
    stk_error err;
    stk_error_clear(&err);
    int code = CLI_OK;
    if (t->failed)
        code = out_of_memory();
    else if (stk__write_file(path, t->data, t->length, &err) != STK_OK)
        code = fail(&err);
    stk__text_clear(t);
    return code;
}

static int put_symbols(const g2p_options *o, const cli_arguments *arguments)
{
    g2p_name names[128];
    stk__text t = STK__TEXT_INIT;
    if (arguments->count)
        return cli_usage_error(&cli_command_g2p, "--symbols takes no words, found '%s'", arguments->items[0]);
    g2p_names(false, names);
    const char *between = !is_file(o->output) && isatty(STDOUT_FILENO) ? "  " : "\t";
    for (size_t i = 0; i < stk_g2p_symbol_count(); i++)
        stk__text_printf(&t, "%zu%s%.*s\n", i, between, (int)names[i].size - 1, names[i].text);
    if (is_file(o->output))
        return write_symbols(o->output, &t);
    return cli_out_text(&t) ? CLI_OK : CLI_FAILED;
}

static int g2p_run(const void *options, const cli_arguments *arguments)
{
    const g2p_options *o = options;
    if (o->symbols)
        return put_symbols(o, arguments);
    const bool from_stdin = arguments->count == 0 || (arguments->count == 1 && is_stdin(arguments->items[0]));
    int code = check_options(o, arguments, from_stdin);
    if (code != CLI_OK)
        return code;
    session s = {.options = o};
    code = session_open(&s, o);
    if (code == CLI_OK)
        code = from_stdin ? pronounce_stdin(&s) : pronounce_arguments(&s, arguments);
    if (code == CLI_OK && from_stdin && !o->quiet)
        say_summary(&s);
    return session_close(&s, code);
}

static const cli_option g2p_options_table[] = {
    CLI_ROW(g2p_options, model, const char *, CLI_TEXT, .name = "model", .value = "FILE", .complete = CLI_FILES,
            .group = "Pronunciation",
            .help = "an .npz file: g2p_en's checkpoint20.npz, or one of our own (default: the model in the library)"),
    CLI_ROW(g2p_options, precision, const char *, CLI_TEXT, .name = "precision", .value = "WHAT", .complete = CLI_WORDS,
            .words = "int8 fp32", .group = "Pronunciation",
            .help = "int8 or fp32: arithmetic of the model (default int8, which is faster)"),
    CLI_ROW(g2p_options, lexicons, cli_list, CLI_LIST, .name = "lexicon", .letter = 'l', .value = "FILE",
            .complete = CLI_FILES, .group = "Pronunciation",
            .help =
                "look words up here first: lines as in CMUdict; may be given again, and a word of a later one hides "
                "that of an earlier one"),
    CLI_ROW(g2p_options, literal, bool, CLI_FLAG, .name = "literal", .group = "Pronunciation",
            .help =
                "each line, and each WORD, is one word as it is: nothing is split or expanded (\"ltd\" is no limited)"),
    CLI_ROW(g2p_options, no_common, bool, CLI_FLAG, .name = "no-common", .group = "Pronunciation",
            .help = "without the library's short list of common words (one, said, have) that its model reads wrong"),
    CLI_ROW(
        g2p_options, format, const char *, CLI_TEXT, .name = "format", .letter = 'f', .value = "WHAT",
        .complete = CLI_WORDS, .words = "words lines json", .group = "Output",
        .help =
            "words: a line for each word; lines: a line for each line; json: an object for each line (default words)"),
    CLI_ROW(g2p_options, variants, bool, CLI_FLAG, .name = "variants", .group = "Output",
            .help = "all pronunciations that the lexicon has for a word, as WORD(2), WORD(3), ..."),
    CLI_ROW(g2p_options, ids, bool, CLI_FLAG, .name = "ids", .group = "Output", .help = "numbers in place of names"),
    CLI_ROW(g2p_options, symbols, bool, CLI_FLAG, .name = "symbols", .group = "Output",
            .help = "list the numbers with their names, and end"),
    CLI_ROW(g2p_options, output, const char *, CLI_TEXT, .name = "output", .letter = 'o', .value = "FILE",
            .complete = CLI_FILES, .group = "Output",
            .help = "where to write; the file appears whole or not at all; '-' is standard output (default)"),
    CLI_ROW(g2p_options, quiet, bool, CLI_FLAG, .name = "quiet", .letter = 'q', .group = "Output",
            .help = "neither progress nor a summary"),
    CLI_OPTION_END,
};

static const cli_example g2p_examples[] = {
    {"two words", "stoker g2p aardvark activationist"},
    {"running text", "stoker g2p 'Dr. Smith paid $5.'"},
    {"a corpus, with a lexicon and own words over it",
     "stoker g2p --lexicon cmudict.dict --lexicon own.dict --format lines <corpus.txt >phonemes.txt"},
    {"the words that the lexicon does not have", "stoker g2p --lexicon cmudict.dict <corpus.txt | grep -w oov"},
    {NULL, NULL},
};

const cli_command cli_command_g2p = {
    .name = "g2p",
    .summary = "words and running text into phonemes",
    .usage = "[OPTION]... [WORD]...\n[OPTION]... <TEXT",
    .about =
        "Pronounces American English: ARPAbet with stress, as in CMUdict. WORD may be running text, too; without any, "
        "or with '-', lines of standard input are taken. Numbers, amounts, ordinals and common abbreviations are "
        "expanded, accents are folded, marks are kept.\n"
        "The format words has a line for each word: the word, a tab (blanks on a terminal), its phonemes and, where "
        "there is something to say, a tab and: oov (lexicons were given, and none has it), cut (the model stopped at "
        "its limit), unknown (has letters that the model does not know; <unk> when nothing is left to say), spelled (letter by "
        "letter), sign (is not spoken, as * or an emoji); no word is left out. A mark stands for itself. In the format lines, | stands between words that have "
        "no mark between them. In json, `from` tells where phonemes come from: lexicon, common, model, letters, mark or none.\n"
        "Lines are worked on in blocks, in memory that does not grow; a line of more than 1 MiB is taken in parts that "
        "end at white space where there is some. Homographs (read, lead) are not told apart: a word has "
        "the first pronunciation of its lexicon.",
    .options = g2p_options_table,
    .examples = g2p_examples,
    .options_size = sizeof(g2p_options),
    .max_arguments = SIZE_MAX,
    .run = g2p_run,
};
