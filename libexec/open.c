/* Opening files for reading, with the driver that they need. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "helper.h"

#include "base/banned.h"

#define CHUNK_CACHE_BYTES ((size_t)64 << 20)

static herr_t refuse_link(const char *parent_file, const char *parent_group, const char *file, const char *object,
                          unsigned *flags, hid_t fapl, void *user)
{
    return -1;
}

hid_t stk__h5_access(void)
{
    static hid_t access_list = -1;
    if (access_list < 0) {
        access_list = H5Pcreate(H5P_DATASET_ACCESS);
        if (access_list >= 0 && H5Pset_elink_cb(access_list, refuse_link, NULL) < 0)
            access_list = -1;
        /* Rows are asked for block by block: a chunk must last longer than one of these. */
        H5Pset_chunk_cache(access_list, H5D_CHUNK_CACHE_NSLOTS_DEFAULT, CHUNK_CACHE_BYTES, H5D_CHUNK_CACHE_W0_DEFAULT);
    }
    return access_list;
}

/* The members of a family are numbered: the last number in the file's name stands for %d. False when it has none. */
static bool family_pattern(const char *path, stk__text *out)
{
    const char *name = strrchr(path, '/'), *end;
    name = name ? name + 1 : path;
    for (end = strrchr(name, '.') ? strrchr(name, '.') : name + strlen(name);
         end > name && (end[-1] < '0' || end[-1] > '9');)
        end--;
    const char *start = end;
    while (start > name && start[-1] >= '0' && start[-1] <= '9')
        start--;
    if (start == end || strchr(path, '%'))
        return false;
    stk__text_write(out, path, (size_t)(start - path));
    if (end - start > 1 && *start == '0')
        stk__text_printf(out, "%%0%dd", (int)(end - start));
    else
        stk__text_puts(out, "%d");
    stk__text_puts(out, end);
    return !out->failed;
}

static hid_t open_family(hid_t fapl, const char *path)
{
    stk__text pattern = STK__TEXT_INIT;
    hid_t file = -1;
    if (family_pattern(path, &pattern) && H5Pset_fapl_family(fapl, H5F_FAMILY_DEFAULT, H5P_DEFAULT) >= 0)
        file = H5Fopen(pattern.data, H5F_ACC_RDONLY, fapl);
    stk__text_clear(&pattern);
    return file;
}

/* Metadata and raw data in two files, with the usual endings. */
static hid_t open_split(hid_t fapl, const char *path)
{
    static const char meta[] = "-m.h5", raw[] = "-r.h5";
    const size_t length = strlen(path), ending = sizeof meta - 1;
    hid_t file = -1;
    char *name =
        length > ending && strcmp(path + length - ending, meta) == 0 ? stk__strndup(path, length - ending) : NULL;
    if (name && H5Pset_fapl_split(fapl, meta, H5P_DEFAULT, raw, H5P_DEFAULT) >= 0)
        file = H5Fopen(name, H5F_ACC_RDONLY, fapl);
    stk__free(name);
    return file;
}

/* Whether the head of a file names that driver. */
static bool names_driver(const char *path, const char *name)
{
    char head[4096];
    bool found = false;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t size = fd >= 0 ? pread(fd, head, sizeof head, 0) : 0;
    if (size > 0)
        found = memmem(head, (size_t)size, name, strlen(name)) != NULL;
    if (fd >= 0)
        close(fd);
    return found;
}

/* -1 with the reason. */
static hid_t open_with(const char *path, bool probe, stk__h5_open *f, char *reason, size_t reason_size)
{
    const hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    if (fapl < 0 || H5Pset_fclose_degree(fapl, H5F_CLOSE_STRONG) < 0 || (probe && !stk__h5_probe_use(fapl)))
        return -1;
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, fapl);
    if (file < 0)
        stk__h5_reason(reason, reason_size);
    if (file < 0 && names_driver(path, "NCSAfami")) {
        f->driver = "family of files";
        file = open_family(fapl, path);
    } else if (file < 0 && names_driver(path, "NCSAmult")) {
        f->driver = "split into several files";
        file = open_split(fapl, path);
    }
    H5Pclose(fapl);
    return file;
}

static stk_status look_at_file(stk__h5_open *f, stk_error *err)
{
    size_t address = 0, length = 0;
    hsize_t block = 0;
    const hid_t creation = H5Fget_create_plist(f->file);
    const bool ok =
        creation >= 0 && H5Pget_sizes(creation, &address, &length) >= 0 && H5Pget_userblock(creation, &block) >= 0;
    H5Pclose(creation);
    if (!ok)
        return stk__h5_fail(err, STK_CORRUPT, "cannot read the properties of the file");
    /* libhdf5 opens files with wider ones and takes wrong shapes out of them. */
    if ((address != 2 && address != 4 && address != 8) || (length != 2 && length != 4 && length != 8))
        return stk_error_set(err, STK_UNSUPPORTED, "addresses of %zu and lengths of %zu bytes, wanted 2, 4 or 8",
                             address, length);
    f->offset_size = (int)address;
    f->length_size = (int)length;
    f->base = block;
    return STK_OK;
}

stk_status stk__h5_open_file(stk__h5_open *f, const char *path, bool probe, stk_error *err)
{
    *f = (stk__h5_open){.file = -1};
    if (stat(path, &f->id) != 0)
        return stk_error_set(err, STK_IO, "cannot open: %s", strerror(errno));
    if (!S_ISREG(f->id.st_mode))
        return stk_error_set(err, STK_INVALID, "not a regular file");
    /* libhdf5 does not tell a file that cannot be opened now from one that never can. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return stk_error_set(err, errno == EMFILE || errno == ENFILE || errno == ENOMEM ? STK_NOMEM : STK_IO,
                             "cannot open: %s", strerror(errno));
    close(fd);
    char reason[256] = "";
    H5Eclear2(H5E_DEFAULT);
    f->file = open_with(path, probe, f, reason, sizeof reason);
    if (f->file < 0 && strstr(reason, "file signature not found"))
        return stk_error_set(err, STK_CORRUPT, "not an HDF5 file: no signature found");
    if (f->file < 0 && f->driver)
        return stk_error_set(err, STK_UNSUPPORTED, "%s, of which this one cannot be opened: %s", f->driver, reason);
    if (f->file < 0)
        return stk_error_set(err, STK_CORRUPT, "libhdf5 cannot open it: %s", reason);
    const stk_status status = look_at_file(f, err);
    if (status != STK_OK)
        stk__h5_close_file(f);
    return status;
}

void stk__h5_close_file(stk__h5_open *f)
{
    if (f->file >= 0)
        H5Fclose(f->file);
    f->file = -1;
}
