/*
 * The signal handler does not allocate, lock, call the dynamic linker, wait or change errno. This program
 * defines the functions that do these, in place of the C library's. They note when a handler of SIGPROF or
 * SIGTRAP calls them: this program's sigaction() puts a function around each handler, which says so.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <linux/futex.h>
#include <malloc.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "tests/support/burn.h"
#include "tests/support/inside.h"

/* ---- What is called in the handler ----------------------------------------------------------- */

#if TEST_ASAN || TEST_TSAN

static void need_interposition(void)
{
    SKIP("the sanitizer's own functions stand in place of the C library's");
}
static const char *volatile forbidden;
static uint64_t handled, errno_changed;
static struct {
    uint64_t opened, mapped, unmapped, closed, timers_made, timers_deleted;
} done;

#else

#include "tests/support/stub_syscall.h"

static void need_interposition(void)
{
}

static _Thread_local volatile int depth __attribute__((tls_model("initial-exec"))); /* of nested handlers */
static const char *volatile forbidden;  /* the last forbidden function that a handler called */
static uint64_t handled, errno_changed; /* numbers of signals */

/* How often handlers did what they may do for a reason only. */
static struct {
    uint64_t opened, mapped, unmapped, closed, timers_made, timers_deleted;
} done;

static void not_in_handler(const char *name)
{
    if (depth > 0)
        forbidden = name;
}

static void count(uint64_t *counter)
{
    if (depth > 0)
        cp_fetch_add_relaxed(counter, 1); /* relaxed: read after all threads have ended */
}

/* Finds the C library's own function of this name, before main() begins. */
#define REAL(type, name, parameters)                                                                         \
    static type(*real_##name) parameters;                                                                    \
    __attribute__((constructor)) static void find_##name(void)                                               \
    {                                                                                                        \
        *(void **)&real_##name = dlsym(RTLD_NEXT, #name);                                                    \
    }

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

void *malloc(size_t size)
{
    not_in_handler("malloc");
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    not_in_handler("calloc");
    return __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
    not_in_handler("realloc");
    return __libc_realloc(old, size);
}

void *memalign(size_t alignment, size_t size)
{
    not_in_handler("memalign");
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    not_in_handler("aligned_alloc");
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    not_in_handler("posix_memalign");
    *memory = __libc_memalign(alignment, size);
    return *memory == NULL ? ENOMEM : 0;
}

void free(void *memory)
{
    not_in_handler("free");
    __libc_free(memory);
}

REAL(int, pthread_mutex_lock, (pthread_mutex_t *))
int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    not_in_handler("pthread_mutex_lock");
    return real_pthread_mutex_lock(mutex);
}

REAL(int, pthread_mutex_trylock, (pthread_mutex_t *))
int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    not_in_handler("pthread_mutex_trylock");
    return real_pthread_mutex_trylock(mutex);
}

REAL(int, pthread_rwlock_rdlock, (pthread_rwlock_t *))
int pthread_rwlock_rdlock(pthread_rwlock_t *lock)
{
    not_in_handler("pthread_rwlock_rdlock");
    return real_pthread_rwlock_rdlock(lock);
}

REAL(int, pthread_rwlock_wrlock, (pthread_rwlock_t *))
int pthread_rwlock_wrlock(pthread_rwlock_t *lock)
{
    not_in_handler("pthread_rwlock_wrlock");
    return real_pthread_rwlock_wrlock(lock);
}

REAL(int, pthread_once, (pthread_once_t *, void (*)(void)))
int pthread_once(pthread_once_t *once, void (*fn)(void))
{
    not_in_handler("pthread_once");
    return real_pthread_once(once, fn);
}

REAL(int, dl_iterate_phdr, (int (*)(struct dl_phdr_info *, size_t, void *), void *))
int dl_iterate_phdr(int (*fn)(struct dl_phdr_info *, size_t, void *), void *arg)
{
    not_in_handler("dl_iterate_phdr");
    return real_dl_iterate_phdr(fn, arg);
}

REAL(void *, dlopen, (const char *, int))
void *dlopen(const char *path, int flags)
{
    not_in_handler("dlopen");
    return real_dlopen(path, flags);
}

REAL(int, vsnprintf, (char *, size_t, const char *, va_list))
int vsnprintf(char *text, size_t size, const char *format, va_list arguments)
{
    not_in_handler("vsnprintf");
    return real_vsnprintf(text, size, format, arguments);
}

/* The handler may map the ring of a descriptor, and nothing else. */
REAL(void *, mmap, (void *, size_t, int, int, int, off_t))
void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (fd < 0 || (flags & MAP_SHARED) == 0)
        not_in_handler("mmap");
    count(&done.mapped);
    return real_mmap(address, size, protection, flags, fd, offset);
}

REAL(int, munmap, (void *, size_t))
int munmap(void *address, size_t size)
{
    count(&done.unmapped);
    return real_munmap(address, size);
}

REAL(int, nanosleep, (const struct timespec *, struct timespec *))
int nanosleep(const struct timespec *time, struct timespec *left)
{
    not_in_handler("nanosleep");
    return real_nanosleep(time, left);
}

static void look_at_call(long number, const long arguments[6])
{
    switch (number) {
    case SYS_perf_event_open:
        count(&done.opened);
        return;
    case SYS_timer_create:
        count(&done.timers_made);
        return;
    case SYS_timer_delete:
        count(&done.timers_deleted);
        return;
    case SYS_futex:
        if ((arguments[1] & FUTEX_CMD_MASK) != FUTEX_WAKE)
            not_in_handler("futex, to wait");
        return;
    case SYS_close:
        count(&done.closed);
        return;
    case SYS_munmap:
        count(&done.unmapped);
        return;
    case SYS_gettid:
    case SYS_madvise:
    case SYS_read:
    case SYS_ioctl:
    case SYS_fcntl:
    case SYS_timer_settime:
    case SYS_rt_sigprocmask:
    case SYS_rt_sigpending:
    case SYS_rt_sigtimedwait:
    case SYS_rt_tgsigqueueinfo:
        return;
    default:
        not_in_handler("syscall, of a number that is not known here");
    }
}

static long stub_syscall(long number, const long arguments[6])
{
    look_at_call(number, arguments);
    return hand_on(number, arguments);
}

/* ---- The handler ----------------------------------------------------------------------------- */

#define SOME_ERRNO 4711

static void (*handler)(int, siginfo_t *, void *);

static void around_handler(int signal, siginfo_t *info, void *ucontext)
{
    int old = errno;

    depth++;
    errno = SOME_ERRNO;
    handler(signal, info, ucontext);
    if (errno != SOME_ERRNO)
        cp_fetch_add_relaxed(&errno_changed, 1); /* relaxed: read after all threads have ended */
    errno = old;
    depth--;
    cp_fetch_add_relaxed(&handled, 1);
}

REAL(int, sigaction, (int, const struct sigaction *, struct sigaction *))
int sigaction(int signal, const struct sigaction *action, struct sigaction *old)
{
    struct sigaction wrapped;

    not_in_handler("sigaction");
    if ((signal == SIGPROF || signal == SIGTRAP) && action != NULL && (action->sa_flags & SA_SIGINFO) != 0) {
        handler = action->sa_sigaction;
        wrapped = *action;
        wrapped.sa_sigaction = around_handler;
        action = &wrapped;
    }
    if (real_sigaction(signal, action, old) < 0)
        return -1;
    if (old != NULL && old->sa_sigaction == around_handler)
        old->sa_sigaction = handler;
    return 0;
}

#endif

/* ---- Load ------------------------------------------------------------------------------------ */

/* These threads are interrupted in the middle of what the handler must not do itself: by the events' signals
 * where they run, and anywhere by the ticks that the test sends. */

static void run(void)
{
    SPIN_HERE(); /* as in burn_c() */
    SIM_RUN(SPIN_NS);
}

static void use_memory(struct worker *worker)
{
    for (size_t i = 1; cp_load_acquire(&worker->stop) == 0;
         i++) { /* pairs with the release in stop_worker() */
        char *memory = malloc(i % 5000 + 1);
        char *more = realloc(memory, i % 70000 + 1);

        __asm__ volatile("" : : "r"(more) : "memory"); /* keeps the compiler from removing the allocation */
        free(more);
        run();
    }
}

static void fault(struct worker *worker)
{
    while (cp_load_acquire(&worker->stop) == 0) {
        volatile char *memory =
            mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        for (size_t i = 0; i < 1 << 16; i += 4096) {
            memory[i] = 1;
            SIM_FAULT(memory + i);
        }
        munmap((void *)(uintptr_t)memory, 1 << 16);
        run();
    }
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void use_locks(struct worker *worker)
{
    while (cp_load_acquire(&worker->stop) == 0) {
        pthread_mutex_lock(&mutex);
        run();
        SIM_SWITCH(1);
        pthread_mutex_unlock(&mutex);
    }
}

static int look_at_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)info;
    (void)size;
    (void)arg;
    run();
    return 0;
}

static void use_linker(struct worker *worker)
{
    while (cp_load_acquire(&worker->stop) == 0) {
        dl_iterate_phdr(look_at_object, NULL);
        dlsym(RTLD_DEFAULT, "there_is_no_such_symbol");
    }
}

static void reach_scheduling_points(struct worker *worker)
{
    struct cp_g g;
    char stack[16];

    cp_g_init(&g, stack, stack + sizeof stack, NULL);
    while (cp_load_acquire(&worker->stop) == 0) {
        cp_execute(worker->m, &g);
        run();
        cp_execute(worker->m, NULL);
    }
    cp_g_fini(&g);
}

static void (*const bodies[])(struct worker *) = {
    body_c, use_memory, fault, use_locks, use_locks, use_linker, reach_scheduling_points};

/* ---- Tests ----------------------------------------------------------------------------------- */

#define THREADS ARRAY_SIZE(bodies)

static void check_handler(void)
{
    printf("%llu signals; in them %llu events and %llu timers opened, %llu rings mapped\n",
           (unsigned long long)handled, (unsigned long long)done.opened, (unsigned long long)done.timers_made,
           (unsigned long long)done.mapped);
    CHECKF(forbidden == NULL, "%s was called", forbidden);
    CHECK_EQ(errno_changed, 0);
}

/* Whether all threads are armed, and each event has samples. */
static bool is_busy(const struct profile *profile)
{
    bool is = true;

    for (size_t i = 0; i < profile->n; i++) {
        struct cp_slot_stats stats = {.size = sizeof stats};

        cp_slots_stats(profile->slots[i], &stats);
        is = is && stats.ms == THREADS && stats.samples > 0;
    }
    return is;
}

/* Returns whether a signal is pending for the thread. */
static bool has_pending(pid_t tid)
{
    char path[48], line[128];
    bool has = false;
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)tid);
    file = fopen(path, "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL)
        has = has || (strncmp(line, "SigPnd:", 7) == 0 && strtoull(line + 7, NULL, 16) != 0);
    fclose(file);
    return has;
}

/* Sends ticks of the last event, which is a timer, until all is busy. A stop does not expect a tick for a
 * thread that has had no CPU time, so none may be pending then. */
static void interrupt(const struct worker *workers, const struct profile *profile)
{
    for (int ticks = 0; ticks < 20 || !is_busy(profile); ticks++) {
        CHECK(ticks < ENOUGH_NAPS);
        for (size_t i = 0; i < THREADS; i++)
            send_tick(profile->slots[profile->n - 1], workers[i].tid);
        usleep(NAP_US);
    }
    for (size_t i = 0; i < THREADS; i++)
        for (int naps = 0; has_pending(workers[i].tid); naps++) {
            CHECK(naps < ENOUGH_NAPS);
            usleep(NAP_US);
        }
}

/* All events run at once. Handlers give their Ms rings; they make no timer, and close nothing. */
SIM_TEST(nothing_forbidden_is_called)
{
    const struct cp_slot_request requests[] = {request("pageFaults", 3),      request("taskClock", 250000),
                                               request("cpuClock", 330000),   request("timer", 7 * MS),
                                               request("contextSwitches", 2), request("timer", 5 * MS),
                                               request("taskClock", 1100000), request("timer", 3 * MS)};
    struct worker workers[THREADS];

    need_interposition();
    for (size_t i = 0; i < THREADS; i++)
        start_worker(&workers[i], bodies[i], NULL);
    for (size_t first = 0; first < ARRAY_SIZE(requests); first++) {
        struct profile profile = {0};

        start_profile(&profile, requests + first, ARRAY_SIZE(requests) - first);
        interrupt(workers, &profile);
        stop_profile(&profile);
        for (size_t i = 0; i < profile.n; i++)
            CHECK_EQ(profile.stats[i].foreign + profile.stats[i].ms_refused + profile.stats[i].ms_ringless,
                     0);
    }
    for (size_t i = 0; i < THREADS; i++)
        stop_worker(&workers[i]);
    check_handler();
    CHECK(done.opened > 0 && done.mapped > 0);
    CHECK_EQ(done.unmapped + done.closed + done.timers_made + done.timers_deleted, 0);
}

/* Keeps the compiler from removing an allocation that nobody uses. */
static void *volatile kept;
static void keep(void *memory)
{
    kept = memory;
}

/* Does what the handler must not do, so that the check above must notice it. */
static void bad_handler(int signal, siginfo_t *info, void *ucontext)
{
    (void)signal;
    (void)info;
    (void)ucontext;
    keep(malloc(100));
    errno = 0;
}

CP_TEST(a_handler_that_allocates_is_found)
{
    struct sigaction action = {.sa_sigaction = bad_handler, .sa_flags = SA_SIGINFO};

    need_interposition();
    CHECK_EQ(sigaction(SIGPROF, &action, NULL), 0);
    raise(SIGPROF);
    CHECK_EQ(handled, 1);
    CHECK_EQ(errno_changed, 1);
    CHECK_STR(forbidden, "malloc");
    free(kept);
}

/* ---- The library's code ---------------------------------------------------------------------- */

static void need_plain_code(void)
{
    if (TEST_ASAN || TEST_TSAN)
        SKIP("the code of a sanitizer is in every function");
}

CP_TEST(the_code_calls_nothing_forbidden)
{
    char *said;

    need_plain_code();
    said = test_command(NULL, "tests/handler_calls %s/lib/libcounterpoint.a", test_build_dir());
    printf("%s", said);
    free(said);
}

/* Compiles a library whose handler contains the given code, three calls deep, and returns what the check says
 * about it. */
static char *handler_that(const char *what, int *status)
{
    char path[200];
    FILE *file;

    snprintf(path, sizeof path, "%s/handler.c", test_dir());
    file = fopen(path, "w");
    CHECK(file != NULL);
    fprintf(file,
            "#include <stdlib.h>\n#include <stdio.h>\n#include <unistd.h>\n"
            "void cp__on_signal_from_handler(void), cp__other(void);\nchar *volatile memory;\n"
            "static __attribute__((noinline, used)) void on_signal_from_handler(void) { __asm__(\"\"); }\n"
            "static __attribute__((noinline)) void third(int n) { if (n) { %s; } }\n"
            "static __attribute__((noinline)) void second(int n) { third(n); __asm__(\"\"); }\n"
            "static __attribute__((noinline, used)) void set_thread_pmu_profiler_from_handler(void)\n"
            "{ second(getpid()); }\n"
            "void cp__on_signal_from_handler(void) { }\n",
            what);
    fclose(file);
    return test_command(
        status,
        "cd %s && ${CC:-cc} -O2 -fPIC -c handler.c && rm -f handler.a && ar rc handler.a handler.o\n"
        "cd - > /dev/null && tests/handler_calls %s/handler.a",
        test_dir(), test_dir());
}

CP_TEST(code_that_calls_what_it_must_not_is_found)
{
    static const struct {
        const char *what;
        const char *name; /* NULL: the code is allowed */
    } calls[] = {
        {"syscall(3, n)", NULL},
        {"close(n)", "a cancellation point"},
        {"memory += read(n, memory, 8)", "a cancellation point"},
        {"pause()", "a cancellation point"},
        {"free((void *)memory)", "free"},
        {"puts(memory)", "puts"},
        {"cp__other()", "cp__other"},
        {"void (*volatile f)(void) = abort; f()", "abort"},
    };

    need_plain_code();
    for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
        int status;
        char *said = handler_that(calls[i].what, &status);

        CHECKF((status == 0) == (calls[i].name == NULL), "%s: %s", calls[i].what, said);
        if (calls[i].name != NULL) {
            CHECK_CONTAINS(said, "set_thread_pmu_profiler_from_handler > ");
            CHECK_CONTAINS(said, calls[i].name);
        }
        free(said);
    }
}
