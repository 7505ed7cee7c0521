/* What the commands of the program share: option tables, help, output, errors. */
#ifndef STK_CLI_CLI_H
#define STK_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/stoker.h>

#include "base/str.h"

/* Exit codes; cli_exit_codes tells people about them. */
enum {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_REGRESSION = 3,
    CLI_REFUSED = 4,
    CLI_INTERRUPTED = 130,
    CLI_PIPE_CLOSED = 141
};

/* ---- option tables: the only source of parsing, help, completion and the man page ---- */

typedef enum cli_kind {
    CLI_FLAG,     /* bool */
    CLI_INT,      /* int64_t */
    CLI_SIZE,     /* uint64_t: bytes, "256M" */
    CLI_DURATION, /* int64_t: ns, "5ms" */
    CLI_DOUBLE,   /* double */
    CLI_PERCENT,  /* double: a fraction, "5%" and "5" are 0.05 */
    CLI_TEXT,     /* const char * */
    CLI_LIST      /* cli_list: may be given again */
} cli_kind;

/* What the shell offers for a value or an argument. */
typedef enum cli_complete { CLI_NOTHING, CLI_FILES, CLI_DIRECTORIES, CLI_OPS, CLI_COMMANDS, CLI_WORDS } cli_complete;

typedef struct cli_list {
    const char **items;
    size_t count, capacity;
} cli_list;

typedef struct cli_option {
    const char *name; /* without the dashes */
    char letter;      /* 0: none */
    cli_kind kind;
    size_t offset;     /* in the options of the command */
    const char *value; /* what stands for the value in help: "N" */
    int64_t min, max;  /* INT, DOUBLE, PERCENT (in percent) */
    int64_t fallback;  /* the same kinds: set before parsing */
    cli_complete complete;
    const char *words; /* CLI_WORDS: separated by spaces */
    const char *group; /* heading in help */
    const char *help;
} cli_option;

#define CLI_ROW(T, field, type, k, ...)                                      \
    {                                                                        \
        .offset = STK_FIELD_OFFSET(T, field, type), .kind = (k), __VA_ARGS__ \
    }
#define CLI_OPTION_END \
    {                  \
        .name = NULL   \
    }

typedef struct cli_example {
    const char *what, *command; /* the table ends with NULL */
} cli_example;

/* Arguments that are no options, in order. */
typedef struct cli_arguments {
    char **items;
    size_t count;
} cli_arguments;

typedef struct cli_command {
    const char *name; /* one word, or two: "bench history" */
    const char *summary;
    const char *usage; /* what follows the name; further forms after '\n' */
    const char *about; /* paragraphs, each one line */
    const cli_option *options;
    const cli_example *examples;
    const struct cli_meaning
        *elsewhere;        /* options of other programs ("--runs", "-L"), and what is to be written here; may be NULL */
    cli_complete complete; /* of arguments */
    const char *words;
    size_t options_size;
    size_t max_arguments;
    int (*run)(const void *options, const cli_arguments *arguments);
} cli_command;

extern const cli_command cli_command_run, cli_command_plan, cli_command_compare_lazy, cli_command_ops,
    cli_command_inspect, cli_command_top, cli_command_diagnose, cli_command_sql, cli_command_diff, cli_command_merge,
    cli_command_convert, cli_command_export, cli_command_g2p, cli_command_bench, cli_command_bench_calibrate,
    cli_command_bench_history, cli_command_bench_compare, cli_command_bench_convert, cli_command_completion,
    cli_command_help;

/* All commands in the order of the help; ends with NULL. */
extern const cli_command *const cli_commands[];

typedef struct cli_meaning {
    const char *name, *meaning; /* the table ends with NULL */
} cli_meaning;

extern const cli_meaning cli_exit_codes[];
extern const cli_meaning cli_environment[];

/*
 * The command that the first words name; two words before one, so that "bench history" is found before "bench". Stores
 * how many words its name has. NULL: none.
 */
const cli_command *cli_find_command(char *const *words, size_t count, size_t *out_used);
/* The second word of its name; NULL: there is none. */
const char *cli_second_word(const cli_command *command);
/* Whether its name has two words, of which this is the first. */
bool cli_is_below(const cli_command *command, const char *first);
/* Says that there is no such command, with the nearest name. */
int cli_unknown_command(const char *name);

/*
 * Reads arguments into `options` (zeroed by the caller) and the rest into `out`, which uses argv's memory. False after
 * a mistake, which has been reported.
 */
bool cli_options_parse(const cli_command *command, int argc, char **argv, void *options, cli_arguments *out,
                       bool *out_help);
void cli_options_clear(const cli_command *command, void *options);
/* "-e, --text TEXT" */
void cli_option_label(const cli_option *option, stk__text *out);
/* Number of rows. */
size_t cli_option_count(const cli_option *options);

/* Help of one command, of the program, and both as a man page. */
void cli_help_command(const cli_command *command, stk__text *out);
void cli_help_program(stk__text *out);
void cli_help_man(stk__text *out);
/* Appends words broken into lines of at most 79 columns; the first starts at `column`, the others are indented. */
void cli_wrap(stk__text *out, const char *text, size_t column, size_t indent);

/* ---- standard output: results only ---- */

/* Writes; on a terminal, control characters are escaped. False once writing has failed. */
bool cli_out(const char *text, size_t size);
/* Writes and frees. */
bool cli_out_text(stk__text *text);
/* Whether writing has failed, and whether because the reader went away, which is no reason to complain. */
bool cli_out_failed(void);
bool cli_out_closed(void);
/* So that a line of long work is seen when it is there. */
void cli_out_flush(void);
/*
 * For commands that print what they found: turns an allocation that failed into a message and an exit code, unless there
 * are both, or writing failed. Returns the exit code.
 */
int cli_out_whole(int code);
/* Flushes; turns a failure to write into a message and an exit code, else returns `code`. */
int cli_out_finish(int code);

/* ---- standard error: messages and one live line ---- */

/* One line, with control characters escaped; the live line makes room. Any thread. */
void cli_say(const char *format, ...) STK_PRINTF(1, 2);
/* The same with "stoker: " before and "try 'stoker NAME --help'" behind; returns CLI_USAGE. */
int cli_usage_error(const cli_command *command, const char *format, ...) STK_PRINTF(2, 3);
/* Draws or replaces the live line, when standard error is a terminal. Any thread. */
void cli_live(const char *text);
void cli_live_clear(void);
bool cli_live_possible(void);

/* Says what went wrong, with the place in the pipeline's `text` (may be NULL) when it has one, and what to try. */
void cli_say_error(const stk_error *err, const char *text, const char *text_name);
int cli_exit_code(const stk_error *err);

/* Text from files, made safe for a terminal. */
void cli_text_escaped(stk__text *t, const char *text);
/* "1,234,567" */
void cli_text_count(stk__text *t, int64_t n);
/* "0.012 s", "1.23 s", "123 s" */
void cli_text_seconds(stk__text *t, double s);
/* "12.3", "1,234" */
void cli_text_rate(stk__text *t, double x);

/* ---- a pipeline from the command line, for run, plan and compare-lazy ---- */

typedef struct cli_pipeline_options {
    const char *text;
    cli_list plugins;
    int64_t seed, threads, rank, world;
    uint64_t memory_bytes;
    const char *cache_dir;
    bool no_index_cache, exact;
} cli_pipeline_options;

#define CLI_PIPELINE_ROWS(T, f)                                                                                        \
    CLI_ROW(T, f.text, const char *, CLI_TEXT, .name = "text", .letter = 'e', .value = "TEXT", .group = "Pipeline",    \
            .help = "the pipeline itself, in place of a file"),                                                        \
        CLI_ROW(T, f.plugins, cli_list, CLI_LIST, .name = "plugin", .value = "FILE", .complete = CLI_FILES,            \
                .group = "Pipeline", .help = "load more ops from a shared object; may be given again"),                \
        CLI_ROW(T, f.seed, int64_t, CLI_INT, .name = "seed", .value = "N", .max = INT64_MAX, .group = "Pipeline",      \
                .help = "seed of the ops that draw random numbers (default 0)"),                                       \
        CLI_ROW(T, f.exact, bool, CLI_FLAG, .name = "exact", .group = "Pipeline",                                      \
                .help = "only rewrites that change no bit of the result"),                                             \
        CLI_ROW(T, f.threads, int64_t, CLI_INT, .name = "threads", .value = "N", .min = 0, .max = 4096,                \
                .group = "Resources", .help = "worker threads (default 0: as many as affinity and cgroup allow)"),     \
        CLI_ROW(                                                                                                       \
            T, f.memory_bytes, uint64_t, CLI_SIZE, .name = "memory", .value = "SIZE", .group = "Resources",            \
            .help =                                                                                                    \
                "budget of all buffers together, as in 256M (default: a quarter of the memory limit, at most 1G)"),    \
        CLI_ROW(T, f.cache_dir, const char *, CLI_TEXT, .name = "cache-dir", .value = "DIR",                           \
                .complete = CLI_DIRECTORIES, .group = "Resources",                                                     \
                .help = "where indexes of files are kept (default $XDG_CACHE_HOME/stoker or ~/.cache/stoker)"),        \
        CLI_ROW(T, f.no_index_cache, bool, CLI_FLAG, .name = "no-index-cache", .group = "Resources",                   \
                .help = "neither use nor keep indexes of files"),                                                      \
        CLI_ROW(T, f.rank, int64_t, CLI_INT, .name = "rank", .value = "N", .min = 0, .max = INT32_MAX, .fallback = -1, \
                .group = "Distributed runs",                                                                           \
                .help = "number of this process, for shard (default: from the environment)"),                          \
        CLI_ROW(T, f.world, int64_t, CLI_INT, .name = "world", .value = "N", .min = 1, .max = INT32_MAX,               \
                .fallback = -1, .group = "Distributed runs",                                                           \
                .help = "number of processes, for shard (default: from the environment)")

typedef struct cli_setup {
    char *text;
    const char *text_name; /* file that the text came from, or NULL */
    stk_registry *registry;
    char *cache_dir;
} cli_setup;

/* Reads the text, loads plug-ins, fills in `config`. Returns CLI_OK, or an exit code after saying why. */
int cli_setup_open(cli_setup *setup, const cli_command *command, const cli_pipeline_options *options,
                   const cli_arguments *arguments, bool quiet, stk_config *config);
void cli_setup_close(cli_setup *setup);
/* Registry with plug-ins; the same returns. */
int cli_registry_open(const cli_list *plugins, stk_registry **out);

/* $XDG_CACHE_HOME/stoker or ~/.cache/stoker; NULL when neither variable is set. Freed by stk__free. */
char *cli_cache_dir(void);

/* ---- interrupts ---- */

/* How long the first signal may take to end the process, and while files are brought to the disk. */
enum { CLI_GRACE_S = 2, CLI_GRACE_SAVING_S = 6 };

/* The first process of a container has no default for signals: until a command catches them, one of these ends it. */
void cli_interrupts_first(void);
/* SIGINT and SIGTERM: the first cancels, and ends the process after CLI_GRACE_S at the latest; the second ends it at once. */
void cli_interrupts_catch(void);
/* From now on so long, also for a signal that has come. */
void cli_interrupts_grace(int seconds);
bool cli_interrupted(void);
/* The pipeline that an interrupt cancels; NULL: none. */
void cli_interrupts_cancel(stk_pipeline *pipeline);
/* The launcher whose command an interrupt ends; NULL: none. */
struct stk__launcher;
void cli_interrupts_launcher(struct stk__launcher *launcher);

/* ---- playing a trainer ---- */

/* Keeps this thread busy until then (stk__now_ns), or until an interrupt. */
void cli_play_step(int64_t until_ns);

#endif
