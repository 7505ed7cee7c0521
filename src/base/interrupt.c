/* Waits that end when their caller is told to. */
#define _GNU_SOURCE
#include "base/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/banned.h"

/* The signal handler of a program does not wake a thread that is not its own, so that one looks as often as this. */
enum { LOOK_MS = 50 };

/* Of the thread, since it must reach calls that know nothing of pipelines, such as the open of a file. */
static _Thread_local stk__interrupt interrupt;

stk__interrupt stk__interrupt_set(stk__interrupt now)
{
    const stk__interrupt before = interrupt;
    interrupt = now;
    return before;
}

stk__interrupt stk__interrupt_get(void)
{
    return interrupt;
}

bool stk__interrupted(void)
{
    return interrupt.stopped && interrupt.stopped(interrupt.arg);
}

stk_status stk__interrupt_check(stk_error *err)
{
    return stk__interrupted() ? stk_error_set(err, STK_CANCELLED, "interrupted") : STK_OK;
}

stk_status stk__await_input(int fd, stk_error *err)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    /* Any answer but "nothing yet" is one: the read tells errors better. */
    for (;;) {
        const int ready = poll(&wait, 1, LOOK_MS);
        if (ready > 0 || (ready < 0 && errno != EINTR))
            return STK_OK;
        STK_TRY(stk__interrupt_check(err));
    }
}

static void wait_again(int fd)
{
    const int flags = fcntl(fd, F_GETFL);
    if (flags >= 0)
        fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
}

/* A pipe that was opened without waiting would look empty before its writer comes. */
static stk_status await_writer(int fd, stk_error *err)
{
    struct stat st;
    if (fstat(fd, &st) || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
        return STK_OK;
    if (S_ISFIFO(st.st_mode))
        STK_TRY(stk__await_input(fd, err));
    wait_again(fd);
    return STK_OK;
}

static int open_once(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    /* A lease that somebody else has on a regular file: that wait has an end. */
    return fd < 0 && errno == EWOULDBLOCK ? open(path, O_RDONLY | O_CLOEXEC) : fd;
}

stk_status stk__open_input(const char *path, int *out_fd, stk_error *err)
{
    int fd;
    while ((fd = open_once(path)) < 0 && errno == EINTR)
        STK_TRY(stk__interrupt_check(err));
    const stk_status status = fd >= 0 ? await_writer(fd, err) : STK_OK;
    if (status != STK_OK) {
        close(fd);
        return status;
    }
    *out_fd = fd;
    return STK_OK;
}

/* A pipe without a reader is ENXIO, as is a device that is not there. */
static bool lacks_reader(const char *path)
{
    struct stat st;
    const bool lacks = errno == ENXIO && stat(path, &st) == 0 && S_ISFIFO(st.st_mode);
    if (!lacks)
        errno = ENXIO;
    return lacks;
}

stk_status stk__open_output(const char *path, int flags, int *out_fd, stk_error *err)
{
    int fd;
    if (!interrupt.stopped) { /* nobody to ask: a signal of the caller's ends the open, with EINTR */
        *out_fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0666);
        return STK_OK;
    }
    while ((fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | flags, 0666)) < 0 &&
           (errno == EINTR || (errno == ENXIO && lacks_reader(path)))) {
        STK_TRY(stk__interrupt_check(err));
        poll(NULL, 0, LOOK_MS);
    }
    if (fd >= 0)
        wait_again(fd);
    *out_fd = fd;
    return STK_OK;
}
