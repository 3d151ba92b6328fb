/* Ways to be refused: seccomp filters, limits, another user. Each lasts for the rest of the process. */
#ifndef COUNTERPOINT_TESTS_REFUSE_H
#define COUNTERPOINT_TESTS_REFUSE_H

#include <errno.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "resources.h"
#include "test.h"

#define REFUSE_API __attribute__((unused)) static

/* ---- System calls ---------------------------------------------------------------------------- */

#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (offset))
#define REFUSE(error) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((unsigned)(error)&SECCOMP_RET_DATA))
#define ALLOW() BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* Installs a filter for the calling thread and the threads that it starts. The filter cannot be removed. */
REFUSE_API void install_filter(struct sock_filter *filter, size_t n)
{
    struct sock_fprog program = {.len = (unsigned short)n, .filter = filter};

    CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        SKIP("seccomp filters cannot be installed here: %s", strerror(errno));
}

/* Makes a system call fail with an error. */
REFUSE_API void refuse_call(int number, int error)
{
    struct sock_filter filter[] = {
        LOAD(offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
        REFUSE(error),
        ALLOW(),
    };

    install_filter(filter, sizeof filter / sizeof filter[0]);
}

/* ---- Limits and users ------------------------------------------------------------------------ */

REFUSE_API void limit_descriptors(rlim_t soft, rlim_t hard)
{
    const struct rlimit limit = {soft, hard};

    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* Uses up the lowest descriptors; returns the lowest free one. */
REFUSE_API rlim_t fill_descriptors(void)
{
    int fd;

    do {
        fd = dup(STDIN_FILENO);
    } while (fd >= 0 && fd < 40);
    CHECK_EQ(fd, 40);
    close(fd);
    return (rlim_t)fd;
}

/* Frees some descriptors again, for what comes after the test. */
REFUSE_API void free_descriptors(void)
{
    for (int fd = 30; fd < 40; fd++)
        close(fd);
}

/* Becomes a user without privileges for the rest of the process. Returns perf_event_paranoid, which is 2 on
 * most systems. */
REFUSE_API long become_user(uid_t uid)
{
    long paranoid = number_in("/proc/sys/kernel/perf_event_paranoid", "");

    if (geteuid() != 0)
        SKIP("needs root to become somebody else");
    setgroups(0, NULL);
    CHECK_EQ(setresgid(65534, 65534, 65534), 0);
    if (setresuid(uid, uid, uid) < 0)
        SKIP("there can be no user %u here: %s", (unsigned)uid, strerror(errno));
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* /proc/self belongs to this user again */
    return paranoid;
}

REFUSE_API long become_nobody(void)
{
    return become_user(65534);
}

#endif
