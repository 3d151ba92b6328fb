/* See block/traced.h. */
#include "block/traced.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "block/layout.h"

static bool get_registers(pid_t pid, struct user_regs_struct *registers)
{
    return ptrace(PTRACE_GETREGS, pid, NULL, registers) == 0;
}

static bool set_registers(pid_t pid, struct user_regs_struct *registers)
{
    registers->orig_rax = (unsigned long long)-1; /* no system call that would be begun again */
    return ptrace(PTRACE_SETREGS, pid, NULL, registers) == 0;
}

void cp__traced_wait(pid_t pid, struct cp__stop *stop)
{
    struct user_regs_struct registers;
    siginfo_t info;
    pid_t found;
    int status;

    *stop = (struct cp__stop){.has_ended = true};
    do
        found = waitpid(pid, &status, __WALL);
    while (found < 0 && errno == EINTR);
    if (found != pid)
        return;
    if (!WIFSTOPPED(status)) {
        stop->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        return;
    }
    *stop = (struct cp__stop){.signal = WSTOPSIG(status), .event = status >> 16};
    if (ptrace(PTRACE_GETSIGINFO, pid, NULL, &info) == 0) {
        stop->code = info.si_code;
        stop->address = (uint64_t)(uintptr_t)info.si_addr;
    }
    if (get_registers(pid, &registers))
        stop->at = registers.rip;
}

void cp__traced_run(pid_t pid, uint64_t address, struct cp__stop *stop)
{
    struct user_regs_struct registers;

    *stop = (struct cp__stop){.has_ended = true};
    if (!get_registers(pid, &registers))
        return;
    registers.rip = address;
    if (!set_registers(pid, &registers) || ptrace(PTRACE_CONT, pid, NULL, NULL) < 0)
        return;
    cp__traced_wait(pid, stop);
}

/* The process that a call makes is stopped by itself; the caller's own stop for it is passed over. */
static bool run_to_end_of_call(pid_t pid)
{
    struct cp__stop stop;

    do {
        if (ptrace(PTRACE_CONT, pid, NULL, NULL) < 0)
            return false;
        cp__traced_wait(pid, &stop);
    } while (!stop.has_ended && stop.event != 0);
    return !stop.has_ended;
}

long cp__traced_call(pid_t pid, long number, const uint64_t arguments[6])
{
    struct user_regs_struct before, during;

    if (!get_registers(pid, &before))
        return -ESRCH;
    during = before;
    during.rip = CP__STUB;
    during.rax = (unsigned long long)number;
    during.rdi = arguments[0];
    during.rsi = arguments[1];
    during.rdx = arguments[2];
    during.r10 = arguments[3];
    during.r8 = arguments[4];
    during.r9 = arguments[5];
    during.eflags = 0x202;
    if (!set_registers(pid, &during) || !run_to_end_of_call(pid) || !get_registers(pid, &during) ||
        !set_registers(pid, &before))
        return -ESRCH;
    return (long)during.rax;
}

int cp__traced_set_bases(pid_t pid, uint64_t base)
{
    struct user_regs_struct registers;

    if (!get_registers(pid, &registers))
        return -ESRCH;
    registers.fs_base = registers.gs_base = base;
    return set_registers(pid, &registers) ? 0 : -ESRCH;
}
