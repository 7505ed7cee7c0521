/* Runs a fuzz target over the files of directories, without a fuzzer: replay_main DIR|FILE... */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static long replayed;

static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    uint8_t *data = NULL;
    size_t size = 0, capacity = 0, n = 0;
    do {
        size += n;
        if (size == capacity) {
            capacity = capacity ? capacity * 2 : 4096;
            uint8_t *bigger = realloc(data, capacity);
            if (!bigger) {
                fprintf(stderr, "%s: out of memory\n", path);
                free(data);
                fclose(f);
                return 1;
            }
            data = bigger;
        }
        n = fread(data + size, 1, capacity - size, f);
    } while (n > 0);
    fclose(f);
    /* The name goes out first, so that a crash can be told from the log. */
    fprintf(stderr, "%s\n", path);
    /* A buffer of the exact size lets the address sanitizer see reads past the end. */
    uint8_t *exact = malloc(size ? size : 1);
    if (exact) {
        if (size)
            memcpy(exact, data, size);
        LLVMFuzzerTestOneInput(exact, size);
        replayed++;
    }
    free(exact);
    free(data);
    return exact ? 0 : 1;
}

static int replay(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir)
        return replay_file(path);
    int failures = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        char child[4096];
        if (snprintf(child, sizeof child, "%s/%s", path, entry->d_name) < (int)sizeof child)
            failures += replay(child);
    }
    closedir(dir);
    return failures;
}

int main(int argc, char **argv)
{
    int failures = 0;
    for (int i = 1; i < argc; i++)
        failures += replay(argv[i]);
    printf("%ld inputs replayed\n", replayed);
    if (!replayed)
        fprintf(stderr, "no input found\n");
    return failures || !replayed;
}
