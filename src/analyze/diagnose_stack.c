/* Whose time it is: the innermost own function of a stack, and who only waits. */
#include <string.h>

#include "analyze/diagnose_stage.h"
#include "base/mem.h"

#include "base/banned.h"

/* ---- words ---- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* Whether the list, with a blank around each word, has this one. */
static bool is_listed(const char *list, const char *s, size_t size)
{
    char word[32];
    if (!size || size + 3 > sizeof word)
        return false;
    word[0] = ' ';
    for (size_t i = 0; i < size; i++)
        word[i + 1] = s[i] == ' ' || !s[i] ? '?' : lower(s[i]);
    word[size + 1] = ' ';
    word[size + 2] = 0;
    return strstr(list, word);
}

/* What nobody calls to get work done. */
static const char WAITS[] = " accept acquire await epoll epoll_wait futex idle join kevent lock nanosleep park poll "
                            "pselect queue recv recv_bytes recvfrom recvmsg recv_into select sleep usleep wait "
                            "wait_all wait_any wait_for wait4 waitpid waiting ";
/* In code of queues, pipes and locks these wait too. */
static const char QUEUE_WAITS[] = " acquire_restore connect get put read readinto result send write ";
/* Words that a sentence such as "wait for order" begins or ends with. */
static const char SENTENCES[] = " await idle poll queue recv sleep wait waiting waits ";

/* "Connection._recv" -> "recv" */
static const char *last_part(const char *s, size_t *size)
{
    size_t start = *size;
    while (start && s[start - 1] != '.' && s[start - 1] != ':')
        start--;
    while (start < *size && s[start] == '_')
        start++;
    while (*size > start && s[*size - 1] == '_')
        (*size)--;
    *size -= start;
    return s + start;
}

/* The first and the last word of an identifier or a sentence: "wait_for_data", "queueWait", "worker idle". */
static bool is_sentence(const char *s, size_t size)
{
    size_t first = 0, last = size;
    while (first < size && is_letter(s[first]) && !(first && s[first] >= 'A' && s[first] <= 'Z'))
        first++;
    while (last && is_letter(s[last - 1]) && !(last < size && s[last] >= 'A' && s[last] <= 'Z'))
        last--;
    return is_listed(SENTENCES, s, first) ||
           (is_listed(SENTENCES, s + last, size - last) && !is_listed(" poll queue ", s + last, size - last));
}

bool stk__sounds_idle(const char *name, size_t size)
{
    size_t n = size;
    if (size > 8 && memcmp(name, "process ", 8) == 0 && name[8] >= '0' && name[8] <= '9')
        return true; /* py-spy's frame around a process: nobody knows what it did */
    const char *part = memchr(name, ' ', size) ? name : last_part(name, &n);
    return is_listed(WAITS, part, n) || is_sentence(part, n);
}

/* ---- Python ---- */

static bool has(const stk__python_frame *p, const char *part)
{
    const size_t n = strlen(part);
    for (size_t i = 0; i + n <= p->file_size; i++)
        if (memcmp(p->file + i, part, n) == 0)
            return true;
    return false;
}

static bool is_queue_code(const stk__python_frame *p)
{
    static const char *const modules[] = {"multiprocessing/", "concurrent/futures/", "asyncio/",     "threading.py",
                                          "queue.py",         "queues.py",           "selectors.py", "connection.py",
                                          "socketserver.py",  "multiprocessing\\"};
    for (size_t i = 0; !p->own && i < STK_COUNT(modules); i++)
        if (has(p, modules[i]))
            return true;
    return false;
}

/* Where a process or thread begins its own work: what is around came from whoever started it. */
static bool is_entry(const stk__python_frame *p)
{
    size_t size = p->function_size;
    const char *function = last_part(p->function, &size);
    return !p->own && is_listed(" bootstrap bootstrap_inner main spawn_main worker_loop process_worker serve feed ",
                                function, size);
}

static bool python_is_idle(const stk__python_frame *p, const stk__stage_frame *around)
{
    size_t size = p->function_size;
    const char *function = last_part(p->function, &size);
    if (p->own)
        return stk__sounds_idle(function, size);
    if (around->queues)
        return is_listed(WAITS, function, size) || is_listed(QUEUE_WAITS, function, size);
    /* What own code sleeps or receives in is its own doing. */
    return !around->own && is_listed(WAITS, function, size);
}

static stk__stage_frame python_frame(const stk__python_frame *p, const stk__stage_frame *outer, uint32_t slice)
{
    stk__stage_frame frame = *outer;
    frame.is_wait = false;
    if (p->own) {
        frame.slice = slice;
        frame.own = frame.python = true;
        frame.queues = false;
    } else if (is_entry(p)) {
        frame.slice = slice;
        frame.own = false;
        frame.python = p->file_size > 0;
        frame.queues = is_queue_code(p);
    } else {
        /* C functions have no place in a file, and names with addresses: their caller is told. */
        if (!outer->own && (p->line > 0 || !outer->python)) {
            frame.slice = slice;
            frame.python = p->line > 0;
        }
        frame.queues = outer->queues || is_queue_code(p);
    }
    frame.idle = python_is_idle(p, &frame);
    return frame;
}

stk__stage_frame stk__stage_frame_of(const stk__stage_finder *f, const stk__stage_frame *outer, uint32_t slice)
{
    const stk__trace *t = f->d->trace;
    stk__python_frame p;
    if (stk__python_frame_of(t, &f->keys, slice, &p))
        return python_frame(&p, outer, slice);
    size_t size;
    const char *name = stk__trace_text(t, t->slices.name[slice], &size);
    stk__stage_frame frame = *outer;
    frame.is_wait = false;
    if (!outer->own) {
        frame.slice = slice;
        frame.python = false;
    }
    frame.idle = !outer->own && ((outer->queues && outer->idle) || stk__sounds_idle(name, size));
    return frame;
}

/* ---- stacks ---- */

bool stk__stage_stack_push(stk__stage_stack *s, uint32_t slice, const stk__stage_frame *frame)
{
    if (!stk__grow((void **)&s->frames, &s->capacity, s->count + 1, sizeof *s->frames) ||
        !stk__grow((void **)&s->slices, &s->slice_capacity, s->count + 1, sizeof *s->slices))
        return false;
    s->frames[s->count] = *frame;
    s->slices[s->count++] = slice;
    return true;
}

void stk__stage_stack_clear(stk__stage_stack *s)
{
    stk__free(s->frames);
    stk__free(s->slices);
    *s = (stk__stage_stack){0};
}
