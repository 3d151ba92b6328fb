/* The scheduler's stacks: very many at a time, their guards, and their reuse. */
#include "sched.h"
#include "tests/support/clock.h"
#include "tests/support/test.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void run(unsigned threads, size_t stack_size, void (*fn)(void *), void *arg)
{
    struct cp_sched_options options = {.size = sizeof options, .threads = threads, .stack_size = stack_size};
    struct cp_error err = {0};
    int result = cp_sched_run(&options, fn, arg, &err);

    CHECKF(result == 0, "%s", err.message);
}

static double seconds(void)
{
    return (double)wall_ns() * 1e-9;
}

/* Returns the figure on a line of /proc/self/status, in KiB. */
static long status_kib(const char *name)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[128];
    long kib = -1;

    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0)
            kib = atol(line + strlen(name));
    }
    fclose(file);
    CHECK(kib >= 0);
    return kib;
}

static long memory_kib(void)
{
    return status_kib("VmRSS:") + status_kib("VmPTE:");
}

static long mapping_count(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    long n = 0;
    int c;

    CHECK(file != NULL);
    while ((c = getc(file)) != EOF)
        n += c == '\n';
    fclose(file);
    return n;
}

/* Makes the kernel answer as if it did not have MADV_GUARD_INSTALL. */
static void refuse_guard_install(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 102, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 22 /* EINVAL */),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};

    CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static bool has_guard_install(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool has = madvise(page, 4096, 102) == 0;

    munmap(page, 4096);
    return has;
}

/* ---- Very many at once ----------------------------------------------------------------------- */

#define CROWD (TEST_TSAN ? 4000u : 100000u) /* ThreadSanitizer has room for about 8000 fibers */

static unsigned parked, resumed;
static struct cp_g **crowd;

static void parks(void *arg)
{
    struct cp_g **place = arg;

    *place = cp_sched_self();
    cp_fetch_add_acq_rel(&parked, 1u);
    cp_park();
    cp_fetch_add_acq_rel(&resumed, 1u);
}

static void gathers_a_crowd(void *arg)
{
    unsigned n = *(unsigned *)arg;
    long memory = memory_kib(), mappings = mapping_count();
    double start = seconds(), started;

    for (unsigned i = 0; i < n; i++)
        CHECK_EQ(cp_go(parks, &crowd[i]), 0);
    started = seconds();
    while (cp_load_acquire(&parked) < n)
        cp_yield();
    printf("%u Gs at once: created in %.3f s, all parked after %.3f s; %.0f bytes of memory each; %ld "
           "mappings\n",
           n, started - start, seconds() - start, (double)(memory_kib() - memory) * 1024 / n,
           mapping_count() - mappings);
    CHECK_EQ(resumed, 0);
    for (unsigned i = 0; i < n; i++)
        cp_ready(crowd[i]);
}

static void check_crowd(unsigned threads, unsigned n)
{
    crowd = calloc(n, sizeof(struct cp_g *));
    CHECK(crowd != NULL);
    parked = resumed = 0;
    run(threads, 0, gathers_a_crowd, &n);
    CHECK_EQ(resumed, n);
    free(crowd);
}

CP_TEST(a_hundred_thousand_gs_live_at_once)
{
    if (!has_guard_install())
        SKIP("without MADV_GUARD_INSTALL (Linux 6.13) vm.max_map_count ends it at about 32 000 Gs");
    check_crowd(1, CROWD);
    check_crowd(4, CROWD);
    if (TEST_TSAN)
        SKIP("ThreadSanitizer has room for about 8000 fibers: passed with %u Gs", CROWD);
}

static void one_too_many(void *arg)
{
    unsigned n = 0;
    int result;

    (void)arg;
    do {
        result = cp_go(parks, &crowd[n]);
    } while (result == 0 && ++n < CROWD);
    printf("%u Gs before there was no more memory\n", n);
    CHECK_EQ(result, -ENOMEM);
    CHECK(n > 20000);
    while (cp_load_acquire(&parked) < n)
        cp_yield();
    for (unsigned i = 0; i < n; i++)
        cp_ready(crowd[i]);
}

/* The kernel limits the number of mappings. */
CP_TEST(without_room_for_another_stack_cp_go_says_so)
{
    if (TEST_TSAN)
        SKIP("ThreadSanitizer's own limit comes first");
    refuse_guard_install();
    crowd = calloc(CROWD, sizeof(struct cp_g *));
    CHECK(crowd != NULL);
    run(2, 0, one_too_many, NULL);
    CHECK_EQ(resumed, parked);
    free(crowd);
}

/* ---- Guards ---------------------------------------------------------------------------------- */

static uintptr_t guarded_lo, fault_at;

static void on_fault(int signo, siginfo_t *info, void *ucontext)
{
    (void)signo;
    (void)ucontext;
    fault_at = (uintptr_t)info->si_addr;
    /* A handler must not call CHECK(), so the exit status is the result. */
    _exit(fault_at < guarded_lo && fault_at >= guarded_lo - 16384 ? 0 : 3);
}

/* Uses the stack down to an address. The sanitizers leave this function alone, so that its frames are
 * small. */
static __attribute__((noinline, no_sanitize("address", "thread", "undefined"))) unsigned
use_down_to(uintptr_t lowest)
{
    volatile char frame[256];

    for (unsigned i = 0; i < sizeof frame; i++)
        frame[i] = (char)i;
    return (uintptr_t)frame < lowest ? 0 : use_down_to(lowest) + (unsigned)frame[1];
}

static void overflows(void *arg)
{
    (void)arg;
    guarded_lo = cp_g_self()->stack_lo;
    use_down_to(0);
}

static void starts_neighbours(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10; i++)
        CHECK_EQ(cp_go(parks, &crowd[i]), 0);
    CHECK_EQ(cp_go(overflows, NULL), 0);
}

static _Noreturn void overflow(void)
{
    static char alternate[65536];
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    crowd = calloc(10, sizeof(struct cp_g *));
    CHECK_EQ(sigaltstack(&(stack_t){.ss_sp = alternate, .ss_size = sizeof alternate}, NULL), 0);
    CHECK_EQ(sigaction(SIGSEGV, &action, NULL), 0);
    run(1, 0, starts_neighbours, NULL);
    CHECK(!"the stack had no end");
    _exit(1);
}

static void check_overflow(void)
{
    int status;
    pid_t child = fork();

    if (child == 0)
        overflow();
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

CP_TEST(an_overflow_faults_in_the_guard)
{
    if (!has_guard_install())
        SKIP("the kernel has no MADV_GUARD_INSTALL (Linux 6.13)");
    check_overflow();
}

CP_TEST(an_overflow_faults_in_a_guard_of_mprotect)
{
    refuse_guard_install();
    check_overflow();
}

/* ---- Use and reuse --------------------------------------------------------------------------- */

static unsigned reached;

/* Uses all of the stack but the last KiB, which the calls need. */
static void uses_all(void *arg)
{
    const struct cp_g *g = cp_g_self();

    CHECK(g->stack_hi - g->stack_lo > *(size_t *)arg - 4096);
    use_down_to(g->stack_lo + 1024);
    cp_yield();
    use_down_to(g->stack_lo + 1024);
    cp_fetch_add_relaxed(&reached, 1u);
}

CP_TEST(a_stack_can_be_used_to_its_end)
{
    size_t small = CP_SCHED_STACK_SIZE, large = 4 << 20;

    run(1, 0, uses_all, &small);
    run(1, large, uses_all, &large);
    CHECK_EQ(reached, 2);
}

static void prints(void *arg)
{
    char text[200];

    snprintf(text, sizeof text, "%s %d %.17g %Lg", (const char *)arg, 12345, 1.0 / 3, (long double)1e300);
    CHECK_STR(text, "a G 12345 0.33333333333333331 1e+300");
}

CP_TEST(the_smallest_stack_has_room_for_printf)
{
    static char text[] = "a G";

    if (TEST_ASAN || TEST_TSAN)
        SKIP("the sanitizers' printf needs more");
    run(1, CP_SCHED_STACK_MIN, prints, text);
}

static void does_nothing(void *arg)
{
    (void)arg;
}

static void starts_one_after_another(void *arg)
{
    unsigned n = *(unsigned *)arg;
    long memory = 0;

    for (unsigned i = 0; i < n; i++) {
        CHECK_EQ(cp_go(does_nothing, NULL), 0);
        cp_yield();
        if (i == n / 10)
            memory = memory_kib();
    }
    if (!TEST_TSAN) /* ThreadSanitizer's own memory grows */
        CHECKF(memory_kib() - memory < 2048, "%ld KiB more", memory_kib() - memory);
}

CP_TEST(stacks_are_used_again)
{
    unsigned n = 100000 / (unsigned)(TEST_SLOWDOWN * TEST_SLOWDOWN);

    run(1, 0, starts_one_after_another, &n);
    run(2, 0, starts_one_after_another, &n);
}

static void crowd_comes_and_goes(void *arg)
{
    long memory = memory_kib();

    for (unsigned i = 0; i < 20000; i++)
        CHECK_EQ(cp_go(parks, &crowd[i]), 0);
    while (cp_load_acquire(&parked) < 20000)
        cp_yield();
    *(long *)arg = memory_kib() - memory;
    for (unsigned i = 0; i < 20000; i++)
        cp_ready(crowd[i]);
    while (cp_load_acquire(&resumed) < 20000)
        cp_yield();
    cp_yield(); /* lets the last Gs end */
    *(long *)arg -= memory_kib() - memory;
}

CP_TEST(a_crowd_that_has_gone_leaves_its_memory)
{
    long freed = 0;

    if (TEST_TSAN || TEST_ASAN)
        SKIP("a sanitizer's own memory would be measured");
    crowd = calloc(20000, sizeof(struct cp_g *));
    run(1, 0, crowd_comes_and_goes, &freed);
    CHECKF(freed > 20000 * 4 * 9 / 10, "%ld KiB of the stacks' 80 000 were given back", freed);
    free(crowd);
}
