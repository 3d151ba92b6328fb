/*
 * A process that this thread traces, and that is stopped: it makes system calls for the tracer, from the
 * instruction at CP__STUB, and runs code until something stops it.
 *
 * Of each processor: ARCH/traced.c. All calls come from the thread that traces.
 */
#ifndef COUNTERPOINT_BLOCK_TRACED_H
#define COUNTERPOINT_BLOCK_TRACED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Makes a system call in the process. Returns what it returns, a negative errno value included; -ESRCH if
 * the process is no more. */
long cp__traced_call(pid_t pid, long number, const uint64_t arguments[6]);
#define CP__TRACED_CALL(pid, number, ...) cp__traced_call((pid), (number), (const uint64_t[6]){__VA_ARGS__})

/* Sets what no instruction of the harness sets: the bases of segments. */
int cp__traced_set_bases(pid_t pid, uint64_t base);

/* Why a process has stopped, or ended. */
struct cp__stop {
    bool has_ended;   /* no process any more */
    int signal;       /* that stopped it, or ended it */
    int event;        /* of ptrace(2), such as PTRACE_EVENT_CLONE; 0: none */
    int code;         /* si_code */
    uint64_t address; /* si_addr, if the signal is about an access */
    uint64_t at;      /* the instruction */
};
/* Waits until the process stops, and fills *stop. */
void cp__traced_wait(pid_t pid, struct cp__stop *stop);
/* Has the process run from an address on; waits until it stops. */
void cp__traced_run(pid_t pid, uint64_t address, struct cp__stop *stop);

#endif
