/*
 * A program that knows nothing of the profiler, for watch_command_test.c to run under `counterpoint watch`.
 * Its first argument says what it does. It times its functions itself: for each function it prints the name,
 * how often the function was called, and two sums in ns, of which one is measured inside the function and the
 * other one around the call; a probe is between the two.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline, noipa))

static uint64_t now(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* What a thread knows of a function. */
struct self {
    uint64_t calls, inside, around;
};

static void spin(uint64_t ns)
{
    const uint64_t end = now(CLOCK_THREAD_CPUTIME_ID) + ns;

    while (now(CLOCK_THREAD_CPUTIME_ID) < end)
        ;
}

/* Sleeps, and works, for some ms each. */
FUNCTION void work(int sleep_ms, int work_ms, struct self *self)
{
    const uint64_t began = now(CLOCK_MONOTONIC);

    if (sleep_ms > 0)
        usleep((useconds_t)sleep_ms * 1000);
    spin((uint64_t)work_ms * 1000000);
    self->inside += now(CLOCK_MONOTONIC) - began;
}

static void call_work(int sleep_ms, int work_ms, struct self *self)
{
    const uint64_t began = now(CLOCK_MONOTONIC);

    work(sleep_ms, work_ms, self);
    self->around += now(CLOCK_MONOTONIC) - began;
    self->calls++;
}

static void print_self(const char *name, const struct self *self)
{
    printf("%s %llu %llu %llu\n", name, (unsigned long long)self->calls, (unsigned long long)self->inside,
           (unsigned long long)self->around);
}

static int in_main(void)
{
    struct self self = {0};

    for (int i = 0; i < 6; i++)
        call_work(i, 1, &self);
    print_self("work", &self);
    return 3;
}

static void *in_thread(void *self)
{
    for (int i = 0; i < 20; i++)
        call_work(1, 1, self);
    return NULL;
}

static int in_threads(void)
{
    struct self selves[4] = {{0}}, all = {0};
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, in_thread, &selves[i]);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        all.calls += selves[i].calls;
        all.inside += selves[i].inside;
        all.around += selves[i].around;
    }
    print_self("work", &all);
    return 0;
}

/* ---- Calls that do not simply return --------------------------------------------------------- */

static jmp_buf back;

FUNCTION int recurse(int depth)
{
    int result = depth == 0 ? 1 : recurse(depth - 1);

    __asm__ volatile("" : "+r"(result)); /* so that it is no loop */
    return result + 1;
}

FUNCTION int leave_by_jump(int depth)
{
    int result = depth < 0 ? 0 : 1;

    if (depth == 0)
        longjmp(back, 1);
    if (depth > 0)
        result += leave_by_jump(depth - 1);
    __asm__ volatile("" : "+r"(result));
    return result;
}

FUNCTION int jump_out(void)
{
    if (setjmp(back) == 0)
        leave_by_jump(2);
    return 1;
}

FUNCTION int last(int n)
{
    return n + 1;
}

/* Ends in a jump to last(). */
FUNCTION __attribute__((optimize("O2"))) int tail(int n)
{
    return last(n + 1);
}

static int in_turns(void)
{
    recurse(9);
    for (int i = 0; i < 5; i++)
        jump_out();
    for (int i = 0; i < 7; i++)
        tail(i);
    return 0;
}

/* ---- Processes ------------------------------------------------------------------------------- */

FUNCTION pid_t fork_inside(void)
{
    const pid_t pid = fork();

    if (pid == 0)
        usleep(5000);
    else
        waitpid(pid, NULL, 0);
    return pid;
}

static int in_children(void)
{
    struct self self = {0};
    pid_t pid = fork_inside();

    if (pid == 0)
        _exit(0);
    pid = fork();
    if (pid == 0) {
        call_work(1, 1, &self);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    return 0;
}

/* ---- What is counted ------------------------------------------------------------------------- */

FUNCTION char touch(size_t pages)
{
    char *memory = malloc(pages * 4096 + 4096), last_byte;

    for (size_t i = 0; i < pages; i++)
        memory[i * 4096] = (char)i;
    last_byte = memory[0];
    free(memory);
    return last_byte;
}

/* Prints how many faults there were in and around touch(), and the CPU time in work() that sleeps. */
static int counted(void)
{
    struct self self = {0};
    struct rusage before, after;
    uint64_t began;

    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* a fault for each page */
    getrusage(RUSAGE_THREAD, &before);
    touch(500);
    getrusage(RUSAGE_THREAD, &after);
    printf("touch 1 500 %ld\n", after.ru_minflt - before.ru_minflt);
    began = now(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < 4; i++)
        call_work(30, 5, &self);
    printf("work 4 %llu %llu\n", 20000000ULL, (unsigned long long)(now(CLOCK_THREAD_CPUTIME_ID) - began));
    return 0;
}

/* ---- Stacks ---------------------------------------------------------------------------------- */

static ucontext_t of_main, of_others[2];
static char stacks[2][65536];

/* Goes on on another stack, and comes back here. */
FUNCTION void change_stack(int i)
{
    swapcontext(&of_others[i], &of_main);
}

static void change_and_end(int i)
{
    change_stack(i);
}

/* Two functions begin one after the other, and end in the same order. */
static int in_coroutines(void)
{
    for (int i = 0; i < 2; i++) {
        getcontext(&of_others[i]);
        of_others[i].uc_stack.ss_sp = stacks[i];
        of_others[i].uc_stack.ss_size = sizeof stacks[i];
        of_others[i].uc_link = &of_main;
        makecontext(&of_others[i], (void (*)(void))(uintptr_t)change_and_end, 1, i);
    }
    for (int i = 0; i < 4; i++)
        swapcontext(&of_main, &of_others[i % 2]);
    return 0;
}

/* ---- Others ---------------------------------------------------------------------------------- */

FUNCTION void quick(void)
{
    __asm__ volatile("");
}

/* Returns the longer one of `most` and the time around a call. */
static uint64_t call_quick(uint64_t most)
{
    const uint64_t began = now(CLOCK_MONOTONIC);
    uint64_t took;

    quick();
    took = now(CLOCK_MONOTONIC) - began;
    return took > most ? took : most;
}

/* Calls a function more often than records have room for while nobody reads them: the command, which has
 * started this program, is stopped. Prints the longest call. */
static int flood(void)
{
    uint64_t most = call_quick(0);

    kill(getppid(), SIGSTOP);
    for (int i = 0; i < 40000; i++)
        most = call_quick(most);
    kill(getppid(), SIGCONT);
    usleep(300000);
    printf("quick 40002 0 %llu\n", (unsigned long long)call_quick(most));
    return 0;
}

static volatile sig_atomic_t is_asked;

static void ask(int number)
{
    is_asked = number;
}

/* Calls a function until SIGUSR1 comes, and says whether the function's code has changed by then. */
static int loop(void)
{
    unsigned char code[16];

    memcpy(code, (const void *)(uintptr_t)quick, sizeof code);
    signal(SIGUSR1, ask);
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    while (!is_asked) {
        quick();
        usleep(1000);
    }
    puts(memcmp(code, (const void *)(uintptr_t)quick, sizeof code) == 0 ? "same" : "changed");
    return 0;
}

static inline __attribute__((always_inline)) int always_inlined(int n)
{
    return 3 * n + 1;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (strcmp(what, "main") == 0)
        return in_main();
    if (strcmp(what, "threads") == 0)
        return in_threads();
    if (strcmp(what, "turns") == 0)
        return in_turns();
    if (strcmp(what, "children") == 0)
        return in_children();
    if (strcmp(what, "counted") == 0)
        return counted();
    if (strcmp(what, "coroutines") == 0)
        return in_coroutines();
    if (strcmp(what, "flood") == 0)
        return flood();
    if (strcmp(what, "loop") == 0)
        return loop();
    if (strcmp(what, "signal") == 0) {
        quick();
        kill(getpid(), atoi(argv[2]));
    }
    return always_inlined(argc) == 4 ? 0 : 1;
}
