/* See process.h. */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "layout.h"
#include "runtime/base/fail.h"

#define PAGE 4096u
/* The first address that no process can have. */
#define END_OF_MEMORY 0x7ffffffff000
/* Below this, the system lets nobody but root map anything. */
#define LOWEST 0x10000
/* What a guest may take of a CPU, in us. */
#define GUEST_US 500000

/* ---- The host before it is bare -------------------------------------------------------------- */

/* What is at CP__STUB: the call, and what calls of guests point to. */
struct cp__stub {
    unsigned char call[CP__STUB_GUEST];
    struct sock_fprog program;
    struct sock_filter filter;
    struct itimerval time;
};
#define STUB_OF(member) (CP__STUB + offsetof(struct cp__stub, member))

static bool map_at(uint64_t address, size_t size, int protection, int flags)
{
    return syscall(SYS_mmap, address, size, protection, MAP_FIXED_NOREPLACE | MAP_ANONYMOUS | flags, -1, 0) ==
           (long)address;
}

static bool map_all(void)
{
    return map_at(CP__STUB, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE) &&
           map_at(CP__IMAGE, CP__IMAGE_SIZE, PROT_READ | PROT_EXEC, MAP_PRIVATE) &&
           map_at(CP__SAVED, CP__SAVED_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE) &&
           map_at(CP__PHYSICAL, CP__PHYSICAL_PAGES * PAGE, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_POPULATE) &&
           map_at(CP__LOG, CP__LOG_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
}

static void fill_stub(struct cp__stub *stub)
{
    memcpy(stub->call, cp__harness_stub, (size_t)(cp__harness_stub_end - cp__harness_stub));
    stub->filter = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    stub->program = (struct sock_fprog){1, &stub->filter};
    stub->time.it_value = (struct timeval){0, GUEST_US};
}

/* In the child of the fork: nothing here allocates or locks. */
static void become_host(pid_t parent)
{
    struct cp__stub *stub = (struct cp__stub *)(uintptr_t)CP__STUB;
    const struct rlimit none = {0, 0};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &none);
    if (getppid() != parent || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || !map_all())
        _exit(1);
    fill_stub(stub);
    if (mprotect(stub, PAGE, PROT_READ | PROT_EXEC) < 0 || ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
        _exit(2);
    raise(SIGSTOP);
    _exit(3);
}

/* ---- The host is bare ------------------------------------------------------------------------ */

/* The kernel writes to the area of restartable sequences, wherever that is. */
static long forget_sequences(pid_t pid)
{
    struct __ptrace_rseq_configuration rseq = {.rseq_abi_pointer = 0};

    if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, pid, (void *)sizeof rseq, &rseq) < 0)
        return -errno;
    if (rseq.rseq_abi_pointer == 0)
        return 0;
    return CP__TRACED_CALL(pid, SYS_rseq, rseq.rseq_abi_pointer, rseq.rseq_abi_size, 1, rseq.signature);
}

static long unmap(pid_t pid, uint64_t from, uint64_t to)
{
    return CP__TRACED_CALL(pid, SYS_munmap, from, to - from);
}

/* All that is not the host's own. */
static long unmap_rest(pid_t pid)
{
    const uint64_t ends[][2] = {{0, CP__SAVED},
                                {CP__SAVED + CP__SAVED_SIZE, CP__PHYSICAL},
                                {CP__RESERVED_END, CP__STUB},
                                {CP__STUB + PAGE, CP__IMAGE},
                                {CP__IMAGE + CP__IMAGE_SIZE, END_OF_MEMORY}};
    long result = 0;

    for (size_t i = 0; i < sizeof ends / sizeof ends[0] && result == 0; i++)
        result = unmap(pid, ends[i][0], ends[i][1]);
    return result;
}

static long close_all(pid_t pid)
{
    return CP__TRACED_CALL(pid, SYS_close_range, 0, ~0u, 0);
}

static int strip(pid_t pid)
{
    long result = forget_sequences(pid);

    if (result == 0)
        result = close_all(pid);
    if (result == 0)
        result = unmap_rest(pid);
    if (result == 0)
        result = cp__traced_set_bases(pid, CP__WORD);
    return (int)result;
}

static int trace_host(pid_t pid)
{
    struct cp__stop stop;

    cp__traced_wait(pid, &stop);
    if (stop.has_ended)
        return -EACCES;
    if (ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)(PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE)) < 0)
        return -errno;
    return strip(pid);
}

static int open_memory(struct cp__host *host)
{
    char path[40];

    snprintf(path, sizeof path, "/proc/%d/mem", (int)host->pid);
    host->memory = open(path, O_RDWR | O_CLOEXEC);
    return host->memory >= 0 ? 0 : -errno;
}

int cp__host_open(struct cp__host *host, struct cp_error *err)
{
    const pid_t parent = getpid();
    int result;

    *host = (struct cp__host){.memory = -1, .physical = 1};
    host->pid = fork();
    if (host->pid == 0)
        become_host(parent);
    if (host->pid < 0) {
        host->pid = 0;
        return cp__error(err, -errno, "There is no process for blocks to run in: %s.", strerror(errno));
    }
    result = trace_host(host->pid);
    if (result == 0)
        result = open_memory(host);
    if (result == 0)
        return 0;
    cp__host_close(host);
    return cp__error(err, result,
                     "A process for blocks to run in cannot be traced or set up: %s. A container's filter of "
                     "system calls may refuse ptrace(2).",
                     strerror(-result));
}

void cp__host_close(struct cp__host *host)
{
    if (host->pid == 0)
        return;
    cp__guest_end(host->pid, NULL);
    if (host->memory >= 0)
        close(host->memory);
    host->pid = 0;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

bool cp__guest_read(pid_t guest, uint64_t from, void *bytes, size_t size)
{
    const struct iovec local = {bytes, size}, remote = {(void *)(uintptr_t)from, size};

    return process_vm_readv(guest, &local, 1, &remote, 1, 0) == (ssize_t)size;
}

bool cp__host_write(const struct cp__host *host, uint64_t to, const void *bytes, size_t size)
{
    return pwrite(host->memory, bytes, size, (off_t)to) == (ssize_t)size;
}

static bool is_within(uint64_t address, uint64_t begin, uint64_t end)
{
    return address >= begin && address < end;
}

bool cp__host_may_map(uint64_t address)
{
    return is_within(address, LOWEST, END_OF_MEMORY) && !is_within(address, CP__SAVED, CP__RESERVED_END) &&
           !is_within(address, CP__STUB, CP__IMAGE + CP__IMAGE_SIZE);
}

/* A mapping of shared pages that is moved from a length of 0 stays where it was, too. */
int cp__host_map(struct cp__host *host, uint64_t address)
{
    const uint64_t page = address & ~(uint64_t)(PAGE - 1);
    const unsigned number = host->apart != NULL ? cp__apart_physical(host->apart, page / PAGE) : 0;
    const uint64_t physical = CP__PHYSICAL + (uint64_t)number * PAGE;
    long result;

    if (host->pages == CP__BLOCK_PAGES)
        return -ENOSPC;
    result = CP__TRACED_CALL(host->pid, SYS_mremap, physical, 0, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, page);
    if (result < 0 && result > -PAGE)
        return (int)result;
    host->page[host->pages++] = page;
    return 0;
}

int cp__host_clear(struct cp__host *host, const struct cp__apart *apart)
{
    long result = 0;

    for (; host->pages > 0 && result == 0; host->pages--)
        result = unmap(host->pid, host->page[host->pages - 1], host->page[host->pages - 1] + PAGE);
    host->physical = apart->physical;
    host->apart = apart;
    return (int)result;
}

/* ---- Guests ---------------------------------------------------------------------------------- */

pid_t cp__guest_start(const struct cp__host *host)
{
    const long guest = CP__TRACED_CALL(host->pid, SYS_clone, CLONE_PARENT);
    struct cp__stop stop;

    if (guest <= 0)
        return guest == 0 ? -ESRCH : (pid_t)guest;
    cp__traced_wait((pid_t)guest, &stop);
    return stop.has_ended ? -ESRCH : (pid_t)guest;
}

int cp__guest_bare(pid_t guest)
{
    long result = unmap(guest, CP__SAVED, CP__SAVED + CP__SAVED_SIZE);

    if (result == 0)
        result = unmap(guest, CP__PHYSICAL, CP__RESERVED_END);
    return (int)result;
}

int cp__guest_confine(pid_t guest)
{
    long result = CP__TRACED_CALL(guest, SYS_setitimer, ITIMER_PROF, STUB_OF(time), 0);

    if (result == 0)
        result = CP__TRACED_CALL(guest, SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, STUB_OF(program));
    return (int)result;
}

void cp__guest_end(pid_t guest, struct rusage *usage)
{
    struct rusage unused;
    int status;

    kill(guest, SIGKILL);
    while (wait4(guest, &status, __WALL, usage != NULL ? usage : &unused) < 0 && errno == EINTR)
        continue;
}
