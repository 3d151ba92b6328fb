/* The memory of the simulated kernel, its lock, and its threads. */
#include "kernel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "atomic.h"
#include "runtime/cost.h"

struct sim_state *sim_state;
struct sim_switches *sim;

/* ---- The machine's system calls -------------------------------------------------------------- */

/* The C library's syscall() is replaced, and sets errno. */
#if defined(__x86_64__)
long sim_raw(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
long sim_raw(long number, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;

    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}
#else
long __real_syscall(long number, ...);
long sim_raw(long number, long a, long b, long c, long d, long e, long f)
{
    int saved_errno = errno;
    long result = __real_syscall(number, a, b, c, d, e, f);

    result = result == -1 ? -errno : result;
    errno = saved_errno;
    return result;
}
#endif

long sim_or_errno(long result)
{
    if (result >= 0 || result < -4095)
        return result;
    errno = (int)-result;
    return -1;
}

pid_t sim_pid(void)
{
    return (pid_t)sim_raw(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

pid_t sim_tid(void)
{
    return (pid_t)sim_raw(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

/* ---- The lock -------------------------------------------------------------------------------- */

/* A process that was killed may have had the lock. Whoever waits for long takes the lock from a thread
 * that is gone. */
static void take_from_the_dead(int holder)
{
    if (sim_raw(SYS_tkill, holder, 0, 0, 0, 0, 0) == -ESRCH)
        cp_compare_exchange(&sim_state->lock, &holder, 0);
}

uint64_t sim_lock(void)
{
    const uint64_t all = UINT64_MAX;
    const int tid = sim_tid();
    uint64_t mask = 0;
    int holder = 0;

    sim_raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&mask, sizeof all, 0, 0);
    /* Otherwise a function that the holder calls may let them in, and their handler waits for its thread. */
    sim_let_signals_in();
    for (unsigned tries = 1; !cp_compare_exchange(&sim_state->lock, &holder, tid); tries++) {
        if (tries % 64 == 0)
            sim_raw(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
        if (tries % 65536 == 0)
            take_from_the_dead(holder);
        holder = 0;
    }
    return mask;
}

void sim_unlock_masked(void)
{
    cp_store_release(&sim_state->lock, 0); /* pairs with the exchange in sim_lock() */
}

void sim_unlock(uint64_t mask)
{
    sim_unlock_masked();
    sim_raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, sizeof mask, 0, 0);
}

/* ---- Threads --------------------------------------------------------------------------------- */

struct sim_thread *sim_thread(pid_t tid)
{
    for (unsigned i = 0; i < SIM_THREADS; i++) {
        struct sim_thread *thread = &sim_state->threads[((unsigned)tid + i) % SIM_THREADS];

        if (thread->tid == tid)
            return thread;
        if (thread->tid != 0)
            continue;
        *thread = (struct sim_thread){.tid = tid};
        return thread;
    }
    sim_refuse("a thread too many", SIM_THREADS);
}

/* The thread that the calling thread was last. After fork(), and for a new thread, this is another one;
 * and after vfork() it is the child, whose memory was the parent's. */
static _Thread_local struct sim_thread *own;

/* Another thread may have had the number before. Then somebody may have looked for this one already:
 * events and timers that were made for a thread are made after it is born, so nothing of them is lost. */
static void be_born(struct sim_thread *thread)
{
    const bool is_own = thread->pid == sim_pid();

    *thread = (struct sim_thread){.tid = thread->tid,
                                  .pid = sim_pid(),
                                  .is_stopped = thread->is_stopped,
                                  .ended_ns = is_own ? thread->ended_ns + thread->ns : 0,
                                  .born = ++sim_state->births};
}

struct sim_thread *sim_self(void)
{
    const pid_t tid = sim_tid();
    struct sim_thread *thread;
    bool is_back; /* from being another one */

    if (own != NULL && own->tid == tid)
        return own;
    thread = sim_thread(tid);
    is_back = own != NULL && thread->born != 0 && thread->pid == sim_pid();
    if (!is_back)
        be_born(thread);
    own = thread;
    return own;
}

void sim_be_born(void)
{
    uint64_t mask;

    if (own != NULL && own->tid == sim_tid())
        return;
    mask = sim_lock();
    sim_self();
    sim_unlock(mask);
}

uint64_t sim_thread_ns(pid_t tid)
{
    uint64_t mask = sim_lock();
    uint64_t ns = sim_thread(tid)->ns;

    sim_unlock(mask);
    return ns;
}

uint64_t sim_thread_switches(pid_t tid)
{
    uint64_t mask = sim_lock();
    uint64_t switches = sim_thread(tid)->switches;

    sim_unlock(mask);
    return switches;
}

static void set_stopped(pid_t tid, bool is_stopped)
{
    uint64_t mask = sim_lock();

    sim_thread(tid)->is_stopped = is_stopped;
    sim_unlock(mask);
}

void sim_stop(pid_t tid)
{
    set_stopped(tid, true);
}

void sim_continue(pid_t tid)
{
    set_stopped(tid, false);
}

/* ---- Begin and end --------------------------------------------------------------------------- */

bool sim_is_on(void)
{
    return sim_state != NULL;
}

void sim_begin(void)
{
    struct sim_state *state =
        mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CHECK(state != MAP_FAILED && sim_state == NULL);
    state->switches = (struct sim_switches){.max_rate = 100000,
                                            .tick_ns = 4000000,
                                            .ring_memory = UINT64_MAX,
                                            .paranoid = -1,
                                            .release = "6.18.0",
                                            .pmu.runs_on = 1};
    sim = &state->switches;
    sim_state = state;
    sim_be_born();
    cp__cost_note(1); /* an overflow takes no time here, and 0 would mean that the cost is unknown */
}

_Noreturn void sim_refuse(const char *what, uint64_t number)
{
    dprintf(STDERR_FILENO, "The simulated kernel does not know %s: %#llx.\n", what,
            (unsigned long long)number);
    abort();
}
