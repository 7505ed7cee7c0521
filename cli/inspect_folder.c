/* What is in a directory of pictures: classes, how many pictures each has, and how to read them. */
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "formats/extension.h"
#include "formats/folder.h"
#include "inspect.h"

#include "base/banned.h"

enum { LABEL_WIDTH = 13 };

typedef struct folder_page {
    const char *path;
    const stk__folder *folder;
    int64_t limit;
    bool verify;
} folder_page;

bool cli_is_folder(const char *path)
{
    struct stat st;
    return strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int64_t class_size(const stk__folder *folder, int64_t i)
{
    return stk__folder_first(folder, i + 1) - stk__folder_first(folder, i);
}

static void propose(const folder_page *f, inspect_proposal *p)
{
    cli_proposal_init(p, "image_folder", f->path);
    if (!f->verify)
        return;
    stk__text line = STK__TEXT_INIT;
    stk__text_puts(&line, "the pictures were counted, not read: --verify looks into records alone");
    cli_proposal_say(p, &p->notes, &line);
}

static void put_folder(stk__text *t, const folder_page *f)
{
    const char *path = f->path;
    const stk__folder *folder = f->folder;
    const int64_t limit = f->limit;
    const int64_t classes = stk__folder_class_count(folder);
    const int64_t shown = limit && limit < classes ? limit : classes;
    cli_text_escaped(t, path);
    stk__text_printf(t, "\n  %-*spictures in a directory for each class\n  %-*s", LABEL_WIDTH, "format", LABEL_WIDTH,
                     "pictures");
    cli_text_count(t, stk__folder_count(folder));
    stk__text_printf(t, "\n  %-*s%" PRId64 "\n    label  pictures  class\n", LABEL_WIDTH, "classes", classes);
    for (int64_t i = 0; i < shown; i++) {
        stk__text_printf(t, "    %5" PRId64 "  %8" PRId64 "  ", i, class_size(folder, i));
        cli_text_escaped(t, stk__folder_class(folder, i));
        stk__text_putc(t, '\n');
    }
    if (shown < classes)
        stk__text_printf(t, "    and %" PRId64 " more; --limit 0 lists all\n", classes - shown);
    inspect_proposal p;
    propose(f, &p);
    cli_proposal_put(t, &p, limit);
    cli_proposal_clear(&p);
}

static void json_folder(stk__text *t, const folder_page *f)
{
    const stk__folder *folder = f->folder;
    stk__text_puts(t, "{\"file\":");
    stk__text_json_str(t, f->path);
    stk__text_printf(t, ",\"format\":\"image_folder\",\"pictures\":%" PRId64 ",\"classes\":[", stk__folder_count(folder));
    for (int64_t i = 0; i < stk__folder_class_count(folder); i++) {
        stk__text_printf(t, "%s{\"name\":", i ? "," : "");
        stk__text_json_str(t, stk__folder_class(folder, i));
        stk__text_printf(t, ",\"pictures\":%" PRId64 "}", class_size(folder, i));
    }
    stk__text_putc(t, ']');
    inspect_proposal p;
    propose(f, &p);
    cli_proposal_json(t, &p);
    cli_proposal_clear(&p);
    stk__text page = STK__TEXT_INIT;
    put_folder(&page, f);
    cli_proposal_json_page(t, &page);
    stk__text_putc(t, '}');
}

stk_status cli_inspect_folder(const char *path, bool verify, bool json, int64_t limit, stk__text *out, stk_error *err)
{
    char *items[] = {(char *)path};
    const stk__paths roots = {.items = items, .count = 1, .capacity = 1};
    const stk__folder_config config = {.extensions = STK__PICTURE_EXTENSIONS};
    stk__folder *folder;
    STK_TRY(stk__folder_open(&roots, &config, &folder, err));
    const folder_page page = {path, folder, limit, verify};
    (json ? json_folder : put_folder)(out, &page);
    stk__folder_close(folder);
    return STK_OK;
}
