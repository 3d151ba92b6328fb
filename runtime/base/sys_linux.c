#include "sys_linux.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "atomic.h"
#include "valgrind.h"

/* Turns -1 with errno into a negative errno value. */
static long or_errno(long result)
{
    return result < 0 ? -errno : result;
}

int cp__sys_open_from_handler(const char *path)
{
    return (int)or_errno(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0));
}

/* ---- Lifted descriptors ---------------------------------------------------------------------- */

static int lift_min; /* 0: events are not lifted; immutable from the first event on */
/* A bit for each descriptor that was lifted. Atomic: threads open and close events at the same time. */
static uint64_t lifted[(CP__SYS_LIFTED_MAX + 1) / 64];

void cp__sys_lift_descriptors(void)
{
    struct rlimit limit;

    lift_min = CP__SYS_LIFTED_MIN;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < 2 * CP__SYS_LIFTED_MIN)
        lift_min = (int)limit.rlim_cur / 2;
}

int cp__sys_lift_from_handler(int fd)
{
    int high = cp__sys_fcntl_from_handler(fd, F_DUPFD_CLOEXEC, (unsigned long)lift_min);

    if (high < 0)
        return fd;
    cp__sys_close_from_handler(fd);
    return high;
}

static int lift_event_from_handler(int fd)
{
    int high;

    if (fd < 0 || lift_min == 0)
        return fd;
    high = cp__sys_lift_from_handler(fd);
    if ((unsigned)high <=
        CP__SYS_LIFTED_MAX) /* relaxed: whoever closes all descriptors may miss one that is new */
        cp_fetch_or_relaxed(&lifted[high / 64], UINT64_C(1) << high % 64);
    return high;
}

static void forget_lifted_from_handler(int fd)
{
    if (lift_min != 0 && fd >= 0 && (unsigned)fd <= CP__SYS_LIFTED_MAX) /* relaxed: the same */
        cp_fetch_and_relaxed(&lifted[fd / 64], ~(UINT64_C(1) << fd % 64));
}

/* The program may have closed the descriptor by itself, and another of its own may have the number. */
bool cp__sys_is_lifted(int fd)
{
    static const char event[] = "anon_inode:[perf_event]";
    char path[32], target[sizeof event];
    int saved_errno = errno;
    bool is = false;

    /* relaxed: the same */
    if ((cp_load_relaxed(&lifted[fd / 64]) >> fd % 64 & 1) != 0) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        is = cp__sys_readlink_from_handler(path, target, sizeof target) == sizeof event - 1 &&
             memcmp(target, event, sizeof event - 1) == 0;
    }
    errno = saved_errno;
    return is;
}

/* ---- The calls ------------------------------------------------------------------------------- */

int cp__sys_close_from_handler(int fd)
{
    forget_lifted_from_handler(fd);
    return (int)or_errno(syscall(SYS_close, fd));
}

long cp__sys_read_from_handler(int fd, void *data, size_t size)
{
    return or_errno(syscall(SYS_read, fd, data, size));
}

long cp__sys_readlink_from_handler(const char *path, char *to, size_t size)
{
    return or_errno(syscall(SYS_readlinkat, AT_FDCWD, path, to, size));
}

void *cp__sys_map(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

int cp__sys_munmap_from_handler(void *memory, size_t size)
{
    return (int)or_errno(syscall(SYS_munmap, memory, size));
}

int cp__sys_ioctl_from_handler(int fd, unsigned long request, unsigned long argument)
{
    return (int)or_errno(syscall(SYS_ioctl, fd, request, argument));
}

int cp__sys_fcntl_from_handler(int fd, int command, unsigned long argument)
{
    return (int)or_errno(syscall(SYS_fcntl, fd, command, argument));
}

int cp__sys_perf_event_open_from_handler(const struct perf_event_attr *attr, pid_t tid)
{
    return lift_event_from_handler(
        (int)or_errno(syscall(SYS_perf_event_open, attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC)));
}

/*
 * rt_sigprocmask(2) copies the set from memory before it checks the operation, and no operation has the
 * number -1. So the call changes nothing; it fails with EFAULT if the set cannot be read, and with EINVAL
 * otherwise. A set at address 0 stands for none; the page there counts as one that cannot be read.
 */
static bool can_read_page_from_handler(uintptr_t page)
{
    const int nothing = -1;

    return page != 0 &&
           or_errno(syscall(SYS_rt_sigprocmask, nothing, page, NULL, sizeof(uint64_t))) != -EFAULT;
}

/* Valgrind looks at the set before the kernel does, and complains of each such call. It does not look at what
 * process_vm_readv(2) reads. */
static bool can_copy_page_from_handler(uintptr_t page)
{
    char first;

    return cp__sys_copy_from_handler(&first, page, sizeof first);
}

bool cp__sys_can_read_from_handler(uintptr_t address, size_t size)
{
    const bool copies = cp__runs_under_valgrind();
    int saved_errno = errno;
    uintptr_t end;
    bool can = !__builtin_add_overflow(address, size, &end);

    /* The kernel reads nothing in the last page, so the loop ends before the page's address wraps around. */
    for (uintptr_t page = address & -CP__SYS_PAGE; can && page < end; page += CP__SYS_PAGE)
        can = copies ? can_copy_page_from_handler(page) : can_read_page_from_handler(page);
    errno = saved_errno;
    return can;
}

bool cp__sys_is_mapped_from_handler(uintptr_t address, size_t size)
{
    unsigned char unused[CP__SYS_MOST_MAPPED / CP__SYS_PAGE];
    int saved_errno = errno;
    bool is_mapped = syscall(SYS_mincore, address, size, unused) == 0;

    errno = saved_errno;
    return is_mapped;
}

bool cp__sys_copy_from_handler(void *to, uintptr_t from, size_t size)
{
    const struct iovec there = {.iov_base = (void *)from, .iov_len = size};
    const struct iovec here = {.iov_base = to, .iov_len = size};

    return syscall(SYS_process_vm_readv, getpid(), &here, 1ul, &there, 1ul, 0ul) == (long)size;
}
