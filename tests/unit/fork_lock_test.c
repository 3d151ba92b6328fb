/*
 * Forks while other threads hold locks or change shared data, and beside prepare handlers of the program:
 * fork() returns, and the profiler works in the child.
 */
#include "tests/support/burn.h"
#include "tests/support/resources.h"

#include <fcntl.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "pprof.h"
#include "runtime/base/fork_gate.h"
#include "runtime/event/pfm.h"
#include "runtime/m.h"

/* Ends the process if fork() hangs, because fork() itself would wait for ever; the report shows the stacks. A
 * fork may wait for two threads in turn, each of which first waits for the fork. */
static void end_if_it_hangs(void)
{
    alarm((unsigned)enough_s);
}

/* Runs child() in a child process. A failed check is an exit status other than 0. */
static void in_child(void (*child)(void))
{
    pid_t pid;

    end_if_it_hangs();
    pid = fork();
    alarm(0);
    if (pid == 0) {
        child();
        fflush(NULL);
        _exit(0);
    }
    await_child(pid);
}

static void child_leaves(void)
{
}

static void see_b(void *context, const struct cp_sample *sample)
{
    (void)context;
    CHECK(sample->weight == 1 && is_in(IN_B, sample->frames[0]));
}

/* Makes every call that takes a lock, and has the samples of its own time. ThreadSanitizer holds signals back
 * in a child of a process with threads, and lets the child start none. */
static void child_profiles(void)
{
    const struct cp_cpu_profile_config config = {.size = sizeof config, .hz = 100};
    struct cp_memory memory = {0};
    struct cp_error err = {0};
    struct worker worker = {.body = NULL};
    struct cp_event_spec spec = {.size = sizeof spec};

    attach(&worker);
    CHECK_EQ(cp_label_set("a", "1"), 0);
    CHECK_EQ(cp_event_parse("pfm:no_such_event", &spec, &err), -ENOENT);
    CHECK_EQ(cp_set_cpu_profile_config(CP_CPUPROF_OS_TIMER, &config, NULL), 0);
    burn_b(50 * MS);
    CHECK_EQ(cp_set_cpu_profile_config(CP_CPUPROF_OS_TIMER, NULL, NULL), 0);
    if (!TEST_TSAN) {
        CHECK_EQ(cp_cpu_profile_read(CP_CPUPROF_OS_TIMER, see_b, NULL), 5);
        CHECKF(cp_start_cpu_profile(cp_writer_memory(&memory), &err) == 0, "%s", err.message);
        CHECKF(cp_stop_cpu_profile(&err) == 0, "%s", err.message);
        CHECK(memory.size > 0);
        free(memory.data);
    }
    cp_m_detach(worker.m);
    CHECK(sigprof_is(SIG_DFL));
}

/* ---- A thread that stays in the middle of a call --------------------------------------------- */

static struct {
    void (*enter)(void);
    void (*leave)(void);
    sem_t entered;
    sem_t may_leave;
    pthread_t thread;
} holder;

static void *hold(void *arg)
{
    holder.enter();
    sem_post(&holder.entered);
    sem_wait(&holder.may_leave);
    holder.leave();
    return arg;
}

static void start_holder(void (*enter)(void), void (*leave)(void))
{
    holder.enter = enter;
    holder.leave = leave;
    sem_init(&holder.entered, 0, 0);
    sem_init(&holder.may_leave, 0, 0);
    CHECK_EQ(pthread_create(&holder.thread, NULL, hold, NULL), 0);
    sem_wait(&holder.entered);
}

static void stop_holder(void)
{
    sem_post(&holder.may_leave);
    join_soon(holder.thread);
}

static void fork_beside_holder(void (*enter)(void), void (*leave)(void))
{
    start_holder(enter, leave);
    in_child(child_profiles);
    stop_holder();
    child_profiles();
}

static void lock_runtime(void)
{
    cp__lock(&cp__runtime_lock);
}

static void unlock_runtime(void)
{
    cp__unlock(&cp__runtime_lock);
}

SIM_TEST(a_fork_may_come_while_another_thread_has_the_runtime_lock)
{
    fork_beside_holder(lock_runtime, unlock_runtime);
}

static void lock_pfm(void)
{
    cp__pfm_lock();
}

SIM_TEST(a_fork_may_come_while_another_thread_is_in_libpfm4)
{
    fork_beside_holder(lock_pfm, cp__pfm_unlock);
}

/* The reader of cp_cpu_profile_read() stays in its callback. */
static void stay(void *context, const struct cp_sample *sample)
{
    bool *stayed = context;

    (void)sample;
    if (!*stayed) {
        sem_post(&holder.entered);
        sem_wait(&holder.may_leave);
    }
    *stayed = true;
}

static void read_and_stay(void)
{
    const struct cp_cpu_profile_config config = request("taskClock", MS).config;
    struct worker worker = {.body = NULL};
    bool stayed = false;

    attach(&worker);
    CHECK_EQ(cp_set_cpu_profile_config(CP_CPUPROF_SW_TASK_CLOCK, &config, NULL), 0);
    burn_a(2 * MS);
    CHECK_EQ(cp_cpu_profile_read(CP_CPUPROF_SW_TASK_CLOCK, stay, &stayed), 2);
    burn_a(2 * MS);
    CHECK_EQ(cp_set_cpu_profile_config(CP_CPUPROF_SW_TASK_CLOCK, NULL, NULL), 0);
    CHECK_EQ(cp_cpu_profile_read(CP_CPUPROF_SW_TASK_CLOCK, stay, &stayed), 2);
    cp_m_detach(worker.m);
    sem_post(&holder.may_leave); /* for hold() */
}

static void nothing(void)
{
}

SIM_TEST(a_fork_may_come_while_another_thread_reads_samples)
{
    fork_beside_holder(read_and_stay, nothing);
}

static ssize_t write_and_stay(void *context, const void *data, size_t size)
{
    bool stayed = false;

    (void)context;
    (void)data;
    stay(&stayed, NULL);
    return (ssize_t)size;
}

static void stop_and_stay(void)
{
    CHECK_EQ(cp_start_cpu_profile(cp_writer_callback(write_and_stay, NULL), NULL), 0);
    CHECK_EQ(cp_stop_cpu_profile(NULL), 0);
}

/* The default session belongs to the parent, and its lock is held while its profile is written. */
SIM_TEST(a_fork_may_come_while_another_thread_writes_a_profile)
{
    start_holder(stop_and_stay, nothing);
    in_child(child_profiles);
    for (int i = 0; i < 100; i++) /* one for each piece and one for the end */
        sem_post(&holder.may_leave);
    join_soon(holder.thread);
}

/* A thread in the dynamic linker delays a fork, but not for ever. */
static void ask_linker(void)
{
    CHECK(cp__linker_begin());
}

static void child_must_not_ask(void)
{
    CHECK(!cp__linker_begin());
    cp__linker_end();
    child_profiles();
}

static void child_may_ask(void)
{
    CHECK(cp__linker_begin());
    cp__linker_end();
    child_profiles();
}

SIM_TEST(a_fork_waits_for_the_dynamic_linker_but_not_for_ever)
{
    start_holder(ask_linker, cp__linker_end);
    in_child(child_must_not_ask);
    stop_holder();
    in_child(child_may_ask);
}

/* The thread opens events for longer than a fork waits, or waits for the fork itself: no lock of the linker
 * is held. */
SIM_TEST(a_child_asks_the_linker_if_another_thread_only_opened_events)
{
    start_holder(cp__fork_delay, cp__fork_allow);
    in_child(child_may_ask);
    stop_holder();
}

/* ---- Prepare handlers of the program's ------------------------------------------------------- */

static struct {
    void (*prepare)(void);
    bool is_called;
} program;

static void program_prepares(void)
{
    if (program.prepare != NULL) {
        program.prepare();
        program.is_called = true;
    }
}

/* Registered before all others, so that the handler runs after all others. */
__attribute__((constructor(101))) static void register_program(void)
{
    pthread_atfork(program_prepares, NULL, NULL);
}

static struct worker joined;

static void prepare_joins(void)
{
    program.prepare = NULL;
    stop_worker(&joined);
}

CP_TEST(a_prepare_handler_may_wait_for_an_m_to_end)
{
    start_worker(&joined, body_c, NULL);
    program.prepare = prepare_joins;
    in_child(child_leaves);
    CHECK(program.is_called);
}

static struct profile running;

static void prepare_stops(void)
{
    program.prepare = NULL;
    stop_profile(&running);
}

/* Has five samples, and then spins without simulated time. */
static void body_samples_and_spins(struct worker *worker)
{
    await(&worker->running, 2);
    cp_execute(worker->m, NULL);
    burn_a(5 * MS);
    cp_store_release(&worker->running, 3);      /* pairs with the acquire in await() */
    while (cp_load_acquire(&worker->stop) == 0) /* pairs with the release in stop_worker() */
        SPIN_HERE();
}

SIM_TEST(a_prepare_handler_may_stop_a_profile)
{
    struct cp_slot_request clock = request("taskClock", MS);
    struct worker worker;

    start_worker(&worker, body_samples_and_spins, NULL);
    start_profile(&running, &clock, 1);
    cp_store_release(&worker.running, 2); /* pairs with the acquire in await() */
    await(&worker.running, 3);
    program.prepare = prepare_stops;
    in_child(child_profiles);
    CHECK(program.is_called);
    CHECK_EQ(running.stats[0].samples, 5);
    CHECK_EQ(running.stats[0].count, 5 * MS);
    CHECK_EQ(running.seen[0].leaf[IN_A], 5);
    stop_worker(&worker);
}

/* The lock of a scheduler: the scheduler's prepare handler takes the lock, and a thread that holds the lock
 * passes a scheduling point. */
static pthread_mutex_t scheduler = PTHREAD_MUTEX_INITIALIZER;
static sem_t is_locked, has_forked;
static int wants_lock; /* atomic: the prepare handler does */

static void *schedule(void *arg)
{
    struct worker worker = {.body = NULL};

    attach(&worker);
    pthread_mutex_lock(&scheduler);
    sem_post(&is_locked);
    await(&wants_lock, 1);
    CHECK_EQ(cp_set_cpu_profile_rate(100, NULL), 0);
    cp_execute(worker.m, NULL);
    CHECK_EQ(cp_set_cpu_profile_rate(0, NULL), 0);
    pthread_mutex_unlock(&scheduler);
    cp_m_detach(worker.m);
    sem_wait(&has_forked); /* ThreadSanitizer calls a thread that ends before a fork a leak of the child's */
    return arg;
}

static void prepare_locks(void)
{
    program.prepare = NULL;
    cp_store_release(&wants_lock, 1); /* pairs with the acquire in await() */
    pthread_mutex_lock(&scheduler);
    pthread_mutex_unlock(&scheduler);
}

SIM_TEST(a_prepare_handler_may_take_the_lock_of_a_scheduler)
{
    pthread_t thread;

    sem_init(&is_locked, 0, 0);
    sem_init(&has_forked, 0, 0);
    CHECK_EQ(pthread_create(&thread, NULL, schedule, NULL), 0);
    sem_wait(&is_locked);
    program.prepare = prepare_locks;
    in_child(child_leaves);
    sem_post(&has_forked);
    CHECK(program.is_called);
    pthread_join(thread, NULL);
}

/* A thread uses the library and ends, and nothing but time orders that before the fork. ThreadSanitizer would
 * call what the child makes anew a race with that thread: see runtime/base/fork_child.h. */
static int has_used_it;

static void *use_library(void *arg)
{
    struct worker worker = {.body = NULL};

    attach(&worker);
    CHECK_EQ(cp_label_set("a", "1"), 0);
    CHECK_EQ(cp_set_cpu_profile_rate(100, NULL), 0);
    CHECK_EQ(cp_set_cpu_profile_rate(0, NULL), 0);
    cp_m_detach(worker.m);
    cp_store_relaxed(&has_used_it, 1); /* relaxed: must not order anything */
    return arg;
}

CP_TEST(a_fork_comes_after_all_that_other_threads_have_done)
{
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, use_library, NULL), 0);
    CHECK_EQ(pthread_detach(thread), 0);
    while (cp_load_relaxed(&has_used_it) == 0) /* relaxed: must not order anything */
        sleep_ms(1);
    in_child(child_leaves);
}

/* ---- What the child lets go of --------------------------------------------------------------- */

static int not_ours;

static void child_keeps_the_file(void)
{
    CHECKF(fcntl(not_ours, F_GETFD) >= 0, "descriptor %d is closed", not_ours);
    CHECK_EQ(resources_now().perf_fds, 0);
}

static int find_perf_event(void)
{
    char path[40];
    char target[64];

    for (int fd = 0; fd < 1000; fd++) {
        ssize_t n;

        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        n = readlink(path, target, sizeof target - 1);
        target[n < 0 ? 0 : n] = '\0';
        if (strstr(target, "[perf_event]") != NULL) /* simulated ones, too */
            return fd;
    }
    return -1;
}

/* A thread closes an event, and a file gets the same number before the handle forgets the number. */
SIM_TEST(a_child_closes_no_file_that_has_the_number_of_an_event)
{
    struct cp_slot_request clock = request("taskClock", MS);
    struct worker worker = {.body = NULL};
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int slot;

    attach(&worker);
    CHECK_EQ(cp_slots_start(&clock, 1, &slot, NULL), 0);
    for (int i = 0; i < 2; i++) { /* the event's descriptor and the ring's */
        not_ours = find_perf_event();
        CHECK(not_ours >= 0);
        CHECK_EQ(dup2(file, not_ours), not_ours);
        in_child(child_keeps_the_file);
    }
    cp_slots_stop(&slot, 1);
    cp_slots_release(&slot, 1);
    cp_m_detach(worker.m);
}

#define MARK 0x6d61726b65642121u
static void *altstack_of_worker; /* marked at the end that is used last */

/* Memory that was mapped in its place has no mark. */
static bool altstack_is_there(void)
{
    unsigned char resident;

    return mincore(altstack_of_worker, 1, &resident) == 0 && *(uint64_t *)altstack_of_worker == MARK;
}

static void body_tells_altstack(struct worker *worker)
{
    stack_t stack;

    sigaltstack(NULL, &stack);
    *(uint64_t *)stack.ss_sp = MARK;
    cp_store_release(&altstack_of_worker, stack.ss_sp); /* pairs with the acquire in the test below */
    body_c(worker);
}

static void child_has_one_stack(void)
{
    stack_t mine;

    CHECK_EQ(cp_set_cpu_profile_rate(100, NULL), 0);
    CHECK_EQ(cp_set_cpu_profile_rate(0, NULL), 0);
    CHECK(!altstack_is_there());
    sigaltstack(NULL, &mine);
    *(volatile char *)mine.ss_sp = 1;
}

SIM_TEST(a_child_frees_the_alternate_stacks_of_other_ms)
{
    struct worker self = {.body = NULL}, other;

    if (TEST_ASAN)
        SKIP("AddressSanitizer gives each thread an alternate stack of its own");
    attach(&self);
    start_worker(&other, body_tells_altstack, NULL);
    while (cp_load_acquire(&altstack_of_worker) == NULL) /* pairs with the release above */
        usleep(NAP_US);
    in_child(child_has_one_stack);
    CHECK(altstack_is_there());
    stop_worker(&other);
    cp_m_detach(self.m);
}

struct forking {
    pid_t child;
    int samples;
};

/* In the callback, the child continues with the M whose samples it reads. */
static void fork_in_callback(void *context, const struct cp_sample *sample)
{
    struct forking *forking = context;

    CHECK(is_in(IN_A, sample->frames[0]));
    if (forking->samples++ != 0)
        return;
    forking->child = fork();
    CHECK(forking->child >= 0);
    if (forking->child == 0 && cp__ms == NULL)
        _exit(1);
}

static void body_samples_and_waits(struct worker *worker)
{
    burn_a(3 * MS);
    cp_store_release(&worker->running, 2); /* pairs with the acquire in await() */
    await(&worker->stop, 1);
}

/* The reader has taken the first of three Ms from the queue and knows the second, and must find the third. */
SIM_TEST(a_callback_may_fork)
{
    struct cp_slot_request clock = request("taskClock", MS);
    struct forking forking = {.child = -1};
    struct worker others[3];
    int slot, n;

    end_if_it_hangs();
    CHECK_EQ(cp_slots_start(&clock, 1, &slot, NULL), 0);
    for (int i = 0; i < 3; i++)
        start_worker(&others[i], body_samples_and_waits, NULL);
    for (int i = 0; i < 3; i++)
        await(&others[i].running, 2);
    n = cp_slots_read(slot, fork_in_callback, &forking);
    if (forking.child ==
        0) { /* it reads what the parent had taken, and frees the Ms when they are released */
        end_if_it_hangs();
        _exit(n == 9 && cp_slots_read(slot, fork_in_callback, &forking) == 0 && cp__ms == NULL ? 0 : 1);
    }
    alarm(0);
    await_child(forking.child);
    CHECK_EQ(n, 9);
    CHECK_EQ(forking.samples, 9);
    cp_slots_stop(&slot, 1);
    cp_slots_release(&slot, 1);
    for (int i = 0; i < 3; i++)
        stop_worker(&others[i]);
}

/* ---- Children whose fork handlers do not run ------------------------------------------------- */

static volatile sig_atomic_t host_signals;

static void on_host_signal(int signal)
{
    (void)signal;
    host_signals++;
}

/* SIGPROF reaches the program's handler, and what the child does to its M does not affect the parent's M. */
static void raw_child(void)
{
    CHECK_EQ(raise(SIGPROF), 0);
    CHECK_EQ(host_signals, 1);
    cp_store_relaxed(&cp_generation, cp_generation + 1);
    cp_execute(cp_m_self(), NULL);
    burn_b(MS);
    cp_m_detach(cp_m_self());
}

SIM_TEST(a_child_that_runs_no_fork_handlers_disturbs_nothing)
{
    struct cp_slot_request clock = request("taskClock", MS);
    struct profile profile = {.n = 0};
    struct worker self = {.body = NULL};
    pid_t pid;

    CHECK(signal(SIGPROF, on_host_signal) != SIG_ERR);
    attach(&self);
    start_unread(&profile, &clock, 1); /* another thread might have a lock, which the child would wait for */
    burn_a(10 * MS);
    pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); /* arm64 has no fork system call */
    if (pid == 0) {
        raw_child();
        _exit(0);
    }
    await_child(pid);
    burn_a(20 * MS);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].count, 30 * MS);
    CHECK_EQ(profile.stats[0].samples, 30);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 30);
    CHECK_EQ(host_signals, 0);
    cp_m_detach(self.m);
}
