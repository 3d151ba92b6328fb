/*
 * The processor may have RDPRU, and the kernel or the hypervisor forbid it: the instruction raises SIGILL
 * then. A handler of SIGILL in this process would be in the way of the program's other threads. So a process
 * of its own tries the instruction, as vfork() makes one: it shares the memory, has a copy of the handlers,
 * and sends no signal when it ends.
 */
#include "core_cycles.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "counters.h"
#include "runtime/base/fail.h"
#include "runtime/base/os.h"
#include "runtime/base/sys_linux.h"

enum { STACK_SIZE = 65536 };

static void fail(int signal)
{
    (void)signal;
    syscall(SYS_exit_group, 1);
}

/* Runs in the process of its own. Nothing here may store to the thread's data, which are shared. */
static int try_it(void *fn)
{
    const struct sigaction action = {.sa_handler = fail};
    sigset_t signals;

    sigaction(SIGILL, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
    /* The kernel ends a process that blocks them without a handler's help, and writes a core: before Linux
     * 5.16, that ends all processes that share the memory. */
    sigemptyset(&signals);
    sigaddset(&signals, SIGILL);
    sigaddset(&signals, SIGSEGV);
    sigprocmask(SIG_UNBLOCK, &signals, NULL);
    ((void (*)(void))fn)();
    syscall(SYS_exit_group, 0);
    return 0;
}

bool cp__survives(void (*fn)(void))
{
    const int saved_errno = errno;
    char *stack = cp__sys_map(STACK_SIZE); /* other threads may try something, too */
    uint64_t mask;
    int status = 1;
    pid_t pid;

    if (stack == NULL)
        return false;
    mask = cp__os_block_all_from_handler();
    pid = clone(try_it, stack + STACK_SIZE, CLONE_VM | CLONE_VFORK, (void *)fn);
    if (pid > 0) {
        while (waitpid(pid, &status, __WALL) < 0 && errno == EINTR) {
        }
    }
    cp__os_unblock_from_handler(mask);
    cp__sys_munmap_from_handler(stack, STACK_SIZE);
    errno = saved_errno;
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void read_once(void)
{
    cp__core_cycles();
}

int cp__core_cycles_probe(struct cp_error *err)
{
    if (!cp__may_have_core_cycles())
        return cp__error_because(err, -ENODEV, "no RDPRU",
                                 "coreCycles cannot be counted: this processor does not have the instruction "
                                 "RDPRU, or its hypervisor hides it. Use cycles, or cpuTime.");
    if (!cp__survives(read_once))
        return cp__error_because(
            err, -ENODEV, "RDPRU is forbidden",
            "coreCycles cannot be counted: this processor has the instruction RDPRU, but "
            "the system does not let programs execute it. Use cycles, or cpuTime.");
    return 0;
}
