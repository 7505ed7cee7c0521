/*
 * What stoker-hdf5 may ask of the kernel once it looks at files: read them, take memory, and answer. No network, no other
 * program, no process, no file to be written or removed, whatever a file makes libhdf5 do. Written as a BPF program by
 * hand: libseccomp would be one more library for a list of numbers.
 *
 * Three kinds of refusal. What code that was taken over would want (socket, execve, open for writing, ...) ends the
 * process: SIGSYS, whose handler names the call. What libraries ask for and can do without (terminals, prctl) fails.
 * And calls that came after Linux 5.1, and are not in the list, fail as they do on a kernel that has none of them, since
 * every libc has another way for these.
 */
#define _GNU_SOURCE 1
#include "sandbox.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__)) && defined(__LP64__)
#define HAVE_SANDBOX 1
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/syscall.h>
#else
#define HAVE_SANDBOX 0
#endif

#if HAVE_SANDBOX

#ifdef __x86_64__
#define ARCH AUDIT_ARCH_X86_64
#else
#define ARCH AUDIT_ARCH_AARCH64
#endif
#define MAX_CODE 512
/* Of x86-64 programs with short pointers, which have numbers of their own. */
#define X32_BIT 0x40000000u
/* From here on the numbers are the same everywhere, and the calls newer than the libraries that are to work. */
#define FIRST_NEW 424
#define FAIL(code) (SECCOMP_RET_ERRNO | (code))

typedef struct program {
    struct sock_filter code[MAX_CODE];
    unsigned short count;
} program;

/* Harmless: of memory, of files that are open, of reading, of ourselves. Those that a CPU does not have are left out. */
static const int allowed[] = {
    /* reading */
    SYS_read,
    SYS_readv,
    SYS_pread64,
    SYS_preadv,
    SYS_lseek,
    SYS_close,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_fstatfs,
    SYS_statfs,
    SYS_getdents64,
    SYS_readlinkat,
    SYS_faccessat,
    SYS_getcwd,
    SYS_fadvise64,
    SYS_readahead,
    SYS_dup,
    SYS_dup3,
    SYS_ppoll,
    /* What can be written is the answers, and the file that was made before the sandbox. */
    SYS_write,
    SYS_writev,
    SYS_pwrite64,
    SYS_pwritev,
    SYS_ftruncate,
    SYS_fsync,
    SYS_fdatasync,
    /* memory */
    SYS_mmap,
    SYS_munmap,
    SYS_mprotect,
    SYS_mremap,
    SYS_madvise,
    SYS_brk,
    SYS_msync,
    SYS_mincore,
    /* threads, of plug-ins */
    SYS_futex,
    SYS_set_robust_list,
    SYS_get_robust_list,
    SYS_set_tid_address,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_getcpu,
    SYS_membarrier,
    SYS_exit,
    SYS_exit_group,
    /* signals and time */
    SYS_rt_sigreturn,
    SYS_rt_sigprocmask,
    SYS_rt_sigaction,
    SYS_sigaltstack,
    SYS_restart_syscall,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_gettimeofday,
    /* who we are */
    SYS_getpid,
    SYS_gettid,
    SYS_getppid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_uname,
    SYS_sysinfo,
    SYS_getrlimit,
    SYS_getrusage,
    SYS_times,
    SYS_getrandom,
#ifdef SYS_rseq
    SYS_rseq,
#endif
#ifdef SYS_faccessat2
    SYS_faccessat2,
#endif
#ifdef SYS_close_range
    SYS_close_range,
#endif
#ifdef __x86_64__
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_readlink,
    SYS_getdents,
    SYS_poll,
    SYS_dup2,
    SYS_time,
#endif
};

/* Names of what is refused most likely; the others are told by number. */
static const struct {
    int number;
    const char *name;
} names[] = {
    {SYS_socket, "socket"},
    {SYS_connect, "connect"},
    {SYS_sendto, "sendto"},
    {SYS_bind, "bind"},
    {SYS_execve, "execve"},
    {SYS_execveat, "execveat"},
    {SYS_clone, "clone"},
    {SYS_openat, "open for writing"},
    {SYS_unlinkat, "unlink"},
    {SYS_renameat, "rename"},
    {SYS_mkdirat, "mkdir"},
    {SYS_linkat, "link"},
    {SYS_symlinkat, "symlink"},
    {SYS_truncate, "truncate"},
    {SYS_fchmodat, "chmod"},
    {SYS_fchownat, "chown"},
    {SYS_kill, "kill"},
    {SYS_tgkill, "kill"},
    {SYS_ptrace, "ptrace"},
    {SYS_process_vm_readv, "process_vm_readv"},
    {SYS_process_vm_writev, "process_vm_writev"},
    {SYS_bpf, "bpf"},
    {SYS_chdir, "chdir"},
    {SYS_mount, "mount"},
    {SYS_memfd_create, "memfd_create"},
    {SYS_renameat2, "rename"},
    {SYS_setrlimit, "setrlimit"},
#ifdef __x86_64__
    {SYS_open, "open for writing"},
    {SYS_creat, "open for writing"},
    {SYS_fork, "fork"},
    {SYS_vfork, "fork"},
    {SYS_unlink, "unlink"},
    {SYS_rename, "rename"},
    {SYS_mkdir, "mkdir"},
    {SYS_rmdir, "rmdir"},
    {SYS_link, "link"},
    {SYS_symlink, "symlink"},
    {SYS_chmod, "chmod"},
    {SYS_chown, "chown"},
#endif
};

/* ---- the program ---- */

static void add(program *p, unsigned code, unsigned yes, unsigned no, uint32_t k)
{
    /* Too many would be found by every test: the kernel takes no program that does not end. */
    if (p->count < MAX_CODE)
        p->code[p->count++] = (struct sock_filter){(uint16_t)code, (uint8_t)yes, (uint8_t)no, k};
}

static void give(program *p, uint32_t action)
{
    add(p, BPF_RET | BPF_K, 0, 0, action);
}

static void load(program *p, size_t offset)
{
    add(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset);
}

/* The lower half of an argument: both CPUs have it first. */
static size_t low_half(int argument)
{
    return offsetof(struct seccomp_data, args) + 8 * (size_t)argument;
}

/* The next `steps` are for that call alone, and the last of them gives an action. */
static void for_call(program *p, int number, unsigned steps)
{
    add(p, BPF_JMP | BPF_JEQ | BPF_K, 0, steps, (uint32_t)number);
}

static void answer_call(program *p, int number, uint32_t action)
{
    for_call(p, number, 1);
    give(p, action);
}

/* Allowed when its argument has none of these bits. */
static void allow_without(program *p, int number, int argument, uint32_t bits)
{
    for_call(p, number, 4);
    load(p, low_half(argument));
    add(p, BPF_JMP | BPF_JSET | BPF_K, 1, 0, bits);
    give(p, SECCOMP_RET_ALLOW);
    give(p, SECCOMP_RET_TRAP);
}

static void allow_with(program *p, int number, int argument, uint32_t bits)
{
    for_call(p, number, 4);
    load(p, low_half(argument));
    add(p, BPF_JMP | BPF_JSET | BPF_K, 0, 1, bits);
    give(p, SECCOMP_RET_ALLOW);
    give(p, SECCOMP_RET_TRAP);
}

static void allow_equal(program *p, int number, int argument, uint32_t value)
{
    for_call(p, number, 4);
    load(p, low_half(argument));
    add(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, value);
    give(p, SECCOMP_RET_ALLOW);
    give(p, SECCOMP_RET_TRAP);
}

/* Allowed when its argument is a null pointer, or else fails. */
static void allow_null(program *p, int number, int argument)
{
    for_call(p, number, 6);
    load(p, low_half(argument));
    add(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 3, 0);
    load(p, low_half(argument) + 4);
    add(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0);
    give(p, SECCOMP_RET_ALLOW);
    give(p, FAIL(EPERM));
}

/* No owner and no signal may be set: with them the kernel sends any signal to any process of ours. */
static void allow_plain_fcntl(program *p)
{
    static const uint32_t commands[] = {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL};
    const unsigned count = sizeof commands / sizeof commands[0];
    for_call(p, SYS_fcntl, 2 * count + 2);
    load(p, low_half(1));
    for (unsigned i = 0; i < count; i++) {
        add(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, commands[i]);
        give(p, SECCOMP_RET_ALLOW);
    }
    give(p, FAIL(EPERM));
}

static void write_program(program *p)
{
    /* O_TMPFILE needs one of the first two. A file is cut by O_TRUNC whatever it is opened for. */
    const uint32_t writing = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;
    load(p, offsetof(struct seccomp_data, arch));
    add(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, ARCH);
    give(p, SECCOMP_RET_KILL_PROCESS);
    load(p, offsetof(struct seccomp_data, nr));
#ifdef __x86_64__
    add(p, BPF_JMP | BPF_JGE | BPF_K, 0, 1, X32_BIT);
    give(p, SECCOMP_RET_KILL_PROCESS);
    allow_without(p, SYS_open, 1, writing);
#endif
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++)
        answer_call(p, allowed[i], SECCOMP_RET_ALLOW);
    allow_without(p, SYS_openat, 2, writing);
    allow_with(p, SYS_clone, 0, CLONE_THREAD);
    allow_equal(p, SYS_tgkill, 0, (uint32_t)getpid()); /* abort */
    allow_null(p, SYS_prlimit64, 2);
    allow_plain_fcntl(p);
    /* Locks would keep others waiting; libhdf5 does without where there are none. */
    answer_call(p, SYS_flock, FAIL(ENOSYS));
    answer_call(p, SYS_ioctl, FAIL(ENOTTY));
    answer_call(p, SYS_prctl, FAIL(EPERM));
#ifdef SYS_arch_prctl
    answer_call(p, SYS_arch_prctl, FAIL(EPERM));
#endif
    add(p, BPF_JMP | BPF_JGE | BPF_K, 0, 1, FIRST_NEW);
    give(p, FAIL(ENOSYS));
    give(p, SECCOMP_RET_TRAP);
}

int stk__sandbox_enter(void)
{
    static program p;
    p.count = 0;
    write_program(&p);
    const struct sock_fprog whole = {.len = p.count, .filter = p.code};
    /* For all threads: a library that was preloaded may have some. */
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &whole) == 0)
        return 0;
    return errno;
}

const char *stk__sandbox_call_name(int number)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].number == number)
            return names[i].name;
    return NULL;
}

#else

int stk__sandbox_enter(void)
{
    return ENOSYS;
}

const char *stk__sandbox_call_name(int number)
{
    return NULL;
}

#endif
