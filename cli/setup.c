/* From options and environment to a pipeline's text, registry and configuration. */
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/file.h"
#include "base/mem.h"
#include "cli.h"

#include "base/banned.h"

enum { TEXT_MAX = 1 << 20 };

/* Who tells rank and world, in the order in which they are asked, and how many ranks there are on this host. */
static const struct {
    const char *rank, *world, *local_world;
} launchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"}, /* torchrun */
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE"},
};

static int read_text(cli_setup *setup, const cli_command *command, const cli_pipeline_options *options,
                     const cli_arguments *arguments)
{
    if (options->text && arguments->count)
        return cli_usage_error(command, "found both -e and the file '%s'; give one pipeline", arguments->items[0]);
    if (!options->text && !arguments->count)
        return cli_usage_error(command, "no pipeline; give a FILE or -e TEXT");
    if (options->text) {
        setup->text = stk__strdup(options->text);
        if (!setup->text)
            cli_say("stoker: out of memory");
        return setup->text ? CLI_OK : CLI_FAILED;
    }
    stk_error err;
    stk_error_clear(&err);
    size_t size;
    setup->text_name = arguments->items[0];
    if (stk__read_file(setup->text_name, TEXT_MAX, &setup->text, &size, &err) != STK_OK) {
        cli_say_error(&err, NULL, NULL);
        return cli_exit_code(&err);
    }
    const char *nul = memchr(setup->text, 0, size);
    if (nul) {
        cli_say("stoker: %s: byte %zu is NUL; wanted the text of a pipeline", setup->text_name,
                (size_t)(nul - setup->text));
        return CLI_USAGE;
    }
    return CLI_OK;
}

int cli_registry_open(const cli_list *plugins, stk_registry **out)
{
    stk_error err;
    stk_error_clear(&err);
    stk_registry *registry = NULL;
    stk_status status = stk_registry_new(&registry, &err);
    for (size_t i = 0; status == STK_OK && i < plugins->count; i++)
        status = stk_registry_load(registry, plugins->items[i], &err);
    if (status != STK_OK) {
        cli_say_error(&err, NULL, NULL);
        stk_registry_free(registry);
        return cli_exit_code(&err);
    }
    *out = registry;
    return CLI_OK;
}

static bool read_variable(const char *name, int64_t *out)
{
    const char *value = getenv(name);
    if (stk__parse_int64(value, out))
        return true;
    cli_say("stoker: environment variable %s wants a whole number, found '%s'", name, value);
    return false;
}

static int rank_from_environment(bool quiet, stk_config *config)
{
    for (size_t i = 0; i < STK_COUNT(launchers); i++) {
        if (!getenv(launchers[i].rank) || !getenv(launchers[i].world))
            continue;
        int64_t rank, world;
        if (!read_variable(launchers[i].rank, &rank) || !read_variable(launchers[i].world, &world))
            return CLI_USAGE;
        if (world < 1 || rank < 0 || rank >= world) {
            cli_say("stoker: environment variables %s=%lld and %s=%lld do not fit; wanted a rank below the world",
                    launchers[i].rank, (long long)rank, launchers[i].world, (long long)world);
            return CLI_USAGE;
        }
        config->rank = rank;
        config->world = world;
        int64_t local;
        const char *text = getenv(launchers[i].local_world);
        if (text && stk__parse_int64(text, &local) && local > 0 && local <= world)
            config->local_world = local;
        if (!quiet)
            cli_say("stoker: rank %lld of %lld, from %s and %s", (long long)rank, (long long)world, launchers[i].rank,
                    launchers[i].world);
        return CLI_OK;
    }
    return CLI_OK;
}

static int set_rank(const cli_command *command, const cli_pipeline_options *options, bool quiet, stk_config *config)
{
    if (options->rank < 0 && options->world < 0)
        return rank_from_environment(quiet, config);
    if (options->rank < 0 || options->world < 0)
        return cli_usage_error(command, "--rank and --world go together; found --%s alone",
                               options->rank < 0 ? "world" : "rank");
    if (options->rank >= options->world)
        return cli_usage_error(command, "--rank wants a number below --world %lld, found %lld",
                               (long long)options->world, (long long)options->rank);
    config->rank = options->rank;
    config->world = options->world;
    return CLI_OK;
}

/* NULL when there is no place for a cache, which is no error. */
char *cli_cache_dir(void)
{
    const char *base = getenv("XDG_CACHE_HOME");
    const char *tail = "/stoker";
    if (!base || base[0] != '/') {
        base = getenv("HOME");
        tail = "/.cache/stoker";
    }
    if (!base || base[0] != '/')
        return NULL;
    stk__text path = STK__TEXT_INIT;
    stk__text_puts(&path, base);
    stk__text_puts(&path, tail);
    if (path.failed)
        stk__text_clear(&path);
    return path.data;
}

/*
 * Memory that libraries free goes back to the system, so that the process is as large as its budget says. Else the size from
 * which malloc gives pages of their own rises with what is freed, up to 32 MiB, and each thread's heap keeps twice as much.
 */
static void bound_heap(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 20);
#endif
}

int cli_setup_open(cli_setup *setup, const cli_command *command, const cli_pipeline_options *options,
                   const cli_arguments *arguments, bool quiet, stk_config *config)
{
    *setup = (cli_setup){0};
    bound_heap();
    config->struct_size = sizeof *config;
    if (options->cache_dir && options->no_index_cache)
        return cli_usage_error(command, "--cache-dir and --no-index-cache exclude each other");
    int code = read_text(setup, command, options, arguments);
    if (code == CLI_OK)
        code = set_rank(command, options, quiet, config);
    if (code == CLI_OK)
        code = cli_registry_open(&options->plugins, &setup->registry);
    if (code != CLI_OK) {
        cli_setup_close(setup);
        return code;
    }
    if (!options->cache_dir && !options->no_index_cache)
        setup->cache_dir = cli_cache_dir();
    config->registry = setup->registry;
    config->threads = (int)options->threads;
    config->memory_bytes = options->memory_bytes;
    config->seed = (uint64_t)options->seed;
    config->cache_dir = options->cache_dir ? options->cache_dir : setup->cache_dir;
    config->no_approximate = options->exact;
    config->auto_shard = STK_SHARD_AUTO;
    config->memory_name = "--memory";
    return CLI_OK;
}

void cli_setup_close(cli_setup *setup)
{
    stk_registry_free(setup->registry);
    stk__free(setup->text);
    stk__free(setup->cache_dir);
    *setup = (cli_setup){0};
}
