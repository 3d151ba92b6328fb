/*
 * Programs that close all descriptors that they do not know, as daemons and sandboxes do, while they are
 * profiled, and whose own files then get the numbers.
 *
 * The library asks for the id of an event before it uses a number that it has kept. So the moments at which
 * it asks are all moments that differ: at one of them after the other, the test closes the library's events,
 * and lets something of the program's have their numbers. The library must not touch these from then on.
 */
#include "runtime/engine/perf_m_linux.h"
#include "tests/support/burn.h"
#include "tests/support/resources.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/stat.h>

#include "counter.h"
#include "runtime/m.h"
#include "tests/support/stub_syscall.h"

/* ---- What the program closes ----------------------------------------------------------------- */

#define MOST 64

/* Numbers of descriptors; -1: none. */
struct numbers {
    int fds[MOST];
    int n;
};

static struct {
    struct numbers open;  /* events of the library's */
    struct numbers known; /* those whose id it has asked for */
    struct numbers taken; /* that the program has now */
    int looks;            /* how often the library has asked for an id */
    int chosen;           /* the look before which the program closes them; 0: none */
    int gets;             /* what gets the numbers */
    bool gets_event;
    uint64_t run; /* the run of the handler in which the program has closed them; 0: in none */
    long touched; /* the system call that was made for such a number; -1: none */
} play = {.touched = -1};

static bool has(const struct numbers *numbers, long fd)
{
    for (int i = 0; i < numbers->n && fd >= 0; i++) {
        if (numbers->fds[i] == fd)
            return true;
    }
    return false;
}

static void add(struct numbers *numbers, int fd)
{
    int i = 0;

    while (i < numbers->n && numbers->fds[i] >= 0)
        i++;
    CHECK(i < MOST);
    numbers->fds[i] = fd;
    numbers->n += i == numbers->n;
}

static void drop(struct numbers *numbers, long fd)
{
    for (int i = 0; i < numbers->n; i++) {
        if (numbers->fds[i] == fd)
            numbers->fds[i] = -1;
    }
}

/* The run of the handler that the calling thread is in; 0: it is in none. */
static uint64_t run_now(void)
{
    const struct cp__m *m = cp__m_current;

    return m != NULL && m->runs % 2 != 0 ? m->runs : 0;
}

static void take_all(void)
{
    play.run = run_now();
    for (int i = 0; i < play.open.n; i++) {
        int fd = play.open.fds[i];

        if (fd < 0)
            continue;
        hand_on(SYS_close, (const long[6]){fd});
        CHECK_EQ(dup2(play.gets, fd), fd);
        add(&play.taken, fd);
    }
    play.open.n = play.known.n = 0;
}

/* The handler resumes what it has paused some microseconds ago without asking again. */
static bool touches(long number, const long a[6])
{
    if (number == SYS_ioctl && (unsigned long)a[1] == PERF_EVENT_IOC_REFRESH && play.run != 0 &&
        play.run == run_now())
        return false;
    if (number == SYS_ioctl && (unsigned long)a[1] == PERF_EVENT_IOC_SET_OUTPUT && has(&play.taken, a[2]))
        return true;
    return (number == SYS_read || number == SYS_close || number == SYS_ioctl || number == SYS_fcntl) &&
           has(&play.taken, a[0]);
}

/* An event that is new has no id for the library yet, and another one in its place would be taken for it. */
static bool counts_as_look(long fd)
{
    bool is_known = has(&play.known, fd);

    if (!is_known && has(&play.open, fd))
        add(&play.known, (int)fd);
    return is_known || !play.gets_event;
}

static long stub_syscall(long number, const long a[6])
{
    long result;

    if (number == SYS_ioctl && (unsigned long)a[1] == PERF_EVENT_IOC_ID) {
        if (counts_as_look(a[0]) && ++play.looks == play.chosen)
            take_all();
        return hand_on(number, a);
    }
    if (touches(number, a))
        play.touched = number;
    if (number == SYS_close) {
        drop(&play.open, a[0]);
        drop(&play.known, a[0]);
    }
    result = hand_on(number, a);
    if (number == SYS_perf_event_open && result >= 0)
        add(&play.open, (int)result);
    return result;
}

/* Opens what gets the numbers: a file, or another event of the program's. */
static int open_file(void)
{
    return open("/dev/null", O_RDWR | O_CLOEXEC);
}

static int open_event(void)
{
    const struct perf_event_attr attr = {
        .size = sizeof attr, .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_TASK_CLOCK};

    return (int)hand_on(SYS_perf_event_open, (const long[6]){(long)&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC});
}

/* Plays a scene once for each moment of it. */
static void play_all(void (*scene)(void), int (*open_theirs)(void))
{
    struct stat theirs, now;
    int moment = 0;

    do {
        play.gets = open_theirs();
        CHECK(play.gets >= 0 && fstat(play.gets, &theirs) == 0);
        play.gets_event = open_theirs == open_event;
        play.looks = play.open.n = play.known.n = play.taken.n = 0;
        play.chosen = ++moment;
        scene();
        CHECKF(play.touched < 0, "moment %d: system call %ld", moment, play.touched);
        for (int i = 0; i < play.taken.n; i++) {
            CHECK(fstat(play.taken.fds[i], &now) == 0 && now.st_ino == theirs.st_ino);
            close(play.taken.fds[i]);
        }
        close(play.gets);
        CHECK_EQ(resources_now().perf_fds + resources_now().rings, 0);
    } while (play.looks >= moment);
    printf("%d moments\n", moment - 1);
    CHECK(moment > 3);
}

/* ---- Profiles -------------------------------------------------------------------------------- */

static enum cp_engine engine;

/* Starts an event, unless the start is refused. */
static void start(struct cp_slot_request made, int *slot)
{
    struct cp_error err = {0};

    made.config.engine = engine;
    sim->clock_ns = 1000; /* CPU time passes while the library tries whether a PMU counts */
    if (cp_slots_start(&made, 1, slot, &err) < 0)
        *slot = -1;
    sim->clock_ns = 0;
}

static void end(int slot)
{
    if (slot < 0)
        return;
    cp_slots_stop(&slot, 1);
    cp_slots_release(&slot, 1);
}

static void read_slot(int slot)
{
    struct profile_part part = {&(struct profile){.n = 0}, 0};

    if (slot >= 0)
        cp_slots_read(slot, see, &part);
}

/* The cycles pause in the handler, which the ticks of a timer bring when the events are gone. */
static void scene_of_profiles(void)
{
    struct worker worker = {.body = NULL};
    int timer, clock, cycles, switches;

    attach(&worker);
    start(request("timer", MS), &timer);
    start(request("taskClock", MS), &clock);
    start(request("cycles", 150000), &cycles);
    burn_a(MS);
    start(request("contextSwitches", 1), &switches);
    read_slot(clock);
    burn_a(MS);
    end(clock);
    burn_a(20 * MS); /* so long without a sample that a reader looks */
    read_slot(cycles);
    burn_a(MS);
    read_slot(cycles);
    cp_before_exec();
    cp_after_exec();
    burn_a(MS);
    end(cycles);
    end(switches);
    end(timer);
    cp_m_detach(worker.m);
}

static void play_profiles(enum cp_engine by, int (*open_theirs)(void))
{
    sim->pmu.is_there = true;
    engine = by;
    play_all(scene_of_profiles, open_theirs);
}

SIM_TEST(files_with_the_numbers_of_traps_are_left_alone)
{
    play_profiles(CP_ENGINE_TRAP, open_file);
}

SIM_TEST(files_with_the_numbers_of_events_are_left_alone)
{
    play_profiles(CP_ENGINE_SIGNAL, open_file);
}

SIM_TEST(events_with_the_numbers_of_events_are_left_alone)
{
    play_profiles(CP_ENGINE_SIGNAL, open_event);
}

/* A limit that is renewed, by the handler and by a reader, and whose event ends, takes calls, too. */
static void scene_of_limits(void)
{
    struct worker worker = {.body = NULL};
    sigset_t set;
    int clock;

    attach(&worker);
    sim->cost_ns = 0;
    start(request("taskClock", 20000), &clock);
    if (clock >= 0)
        cp__perf_of((struct cp__m *)worker.m)->handles[clock].limit = 8;
    burn_a(MS / 2);
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    for (int i = 0; i < 3; i++) {
        burn_a(20 * MS);
        read_slot(clock);
    }
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    end(clock);
    cp_m_detach(worker.m);
}

SIM_TEST(files_are_left_alone_when_limits_are_renewed)
{
    engine = CP_ENGINE_SIGNAL;
    play_all(scene_of_limits, open_file);
}

/* ---- What is told, and what goes on ---------------------------------------------------------- */

static struct cp__m *m_of(const struct worker *worker)
{
    return (struct cp__m *)worker->m;
}

/* The mapping keeps the ring, and the events their way to it. */
SIM_TEST(a_ring_whose_descriptor_is_closed_goes_on)
{
    struct worker worker = {.body = NULL};
    struct cp__m *m;
    int clock;

    attach(&worker);
    m = m_of(&worker);
    engine = CP_ENGINE_SIGNAL;
    start(request("taskClock", MS), &clock);
    hand_on(SYS_close, (const long[6]){cp__perf_of(m)->ring.fd});
    burn_a(10 * MS);
    CHECK_EQ(m->stats[clock].samples, 10);
    CHECK_EQ(m->stats[clock].interrupts, 10);
    CHECK_EQ(m->stats[clock].closed, 0);
    end(clock);
    cp_m_detach(worker.m);
    CHECK_EQ(resources_now().rings, 0);
}

/* A reader looks at an event that has no samples for a while. */
SIM_TEST(a_reader_finds_that_the_program_has_closed_an_event)
{
    struct worker worker = {.body = NULL};
    int clock;

    attach(&worker);
    engine = CP_ENGINE_SIGNAL;
    start(request("taskClock", MS), &clock);
    burn_a(10 * MS);
    read_slot(clock);
    take_all();
    CHECK_EQ(m_of(&worker)->stats[clock].closed, 0);
    burn_a(20 * MS);
    read_slot(clock);
    CHECK_EQ(m_of(&worker)->stats[clock].closed, 1);
    end(clock);
    cp_m_detach(worker.m);
}

SIM_TEST(an_event_that_the_program_has_closed_is_told)
{
    struct worker worker = {.body = NULL};
    struct cp__m *m;
    int clock, again;

    attach(&worker);
    m = m_of(&worker);
    engine = CP_ENGINE_SIGNAL;
    start(request("taskClock", MS), &clock);
    burn_a(10 * MS);
    CHECK_EQ(m->stats[clock].closed, 0);
    take_all();
    burn_a(10 * MS);
    start(request("taskClock", MS), &again);
    burn_a(10 * MS);
    end(clock);
    CHECK_EQ(m->stats[clock].samples, 10);
    CHECK_EQ(m->stats[clock].closed, 1);
    CHECK_EQ(m->stats[again].closed, 0);
    end(again);
    CHECK_EQ(m->stats[again].samples, 10);
    cp_m_detach(worker.m);
}

/* ---- A filter that refuses ioctl(2) ---------------------------------------------------------- */

static bool refuses; /* any call of ioctl() */

/* A simulated event is a file of the machine's with almost the name. */
static long refuse_ioctl(long number, const long a[6])
{
    static const char name[] = "anon_inode:[perf_event]";
    char *to = number == SYS_readlinkat ? (char *)a[2] : NULL;
    long result;

    if (refuses && number == SYS_ioctl) {
        errno = EPERM;
        return -1;
    }
    result = stub_syscall(number, a);
    if (result < 0 || to == NULL || memmem(to, (size_t)result, "[perf_event]", 12) == NULL)
        return result;
    memcpy(to, name, sizeof name - 1 < (size_t)a[3] ? sizeof name - 1 : (size_t)a[3]);
    return sizeof name - 1;
}

static void check_is_closed_although_refused(enum cp_engine by)
{
    struct worker worker = {.body = NULL};
    struct sigaction action;
    int clock, again;

    sim_hook(refuse_ioctl);
    attach(&worker);
    engine = by;
    start(request("taskClock", MS), &clock);
    burn_a(10 * MS);
    refuses = true;
    burn_a(10 * MS);
    start(request("taskClock", MS), &again);
    CHECK_EQ(again, -1);
    end(clock);
    CHECK_EQ(m_of(&worker)->stats[clock].closed, 0);
    CHECK_EQ(resources_now().perf_fds + resources_now().rings, 0);
    CHECK(sigaction(SIGPROF, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
    burn_a(10 * MS);
    cp_m_detach(worker.m);
}

/* The next SIGPROF of an event that stays open would end the program. */
SIM_TEST(an_event_is_closed_although_a_filter_refuses_ioctl)
{
    check_is_closed_although_refused(CP_ENGINE_SIGNAL);
}

SIM_TEST(an_event_that_traps_is_closed_although_a_filter_refuses_ioctl)
{
    check_is_closed_although_refused(CP_ENGINE_TRAP);
}

/* The program's standard input has the number, and the filter refuses the question for it, too. */
SIM_TEST(a_file_is_left_alone_although_a_filter_refuses_ioctl)
{
    struct worker worker = {.body = NULL};
    int clock;

    sim_hook(refuse_ioctl);
    attach(&worker);
    engine = CP_ENGINE_SIGNAL;
    start(request("taskClock", MS), &clock);
    burn_a(10 * MS);
    take_all();
    refuses = true;
    end(clock);
    CHECK_EQ(m_of(&worker)->stats[clock].closed, 1);
    CHECK(play.touched < 0);
    cp_m_detach(worker.m);
}

/* In a program that is built with ThreadSanitizer, a handler may run in the functions that it replaces. */
static void *page_at_unmap; /* the page of the M's ring when a ring is unmapped */

static long note_page(long number, const long a[6])
{
    if (number == SYS_munmap)
        page_at_unmap = cp__perf_of(cp__m_current)->ring.page;
    return hand_on(number, a);
}

SIM_TEST(a_ring_is_forgotten_before_it_goes)
{
    struct worker worker = {.body = NULL};
    int clock;

    attach(&worker);
    engine = CP_ENGINE_SIGNAL;
    start(request("taskClock", MS), &clock);
    burn_a(MS);
    sim_hook(note_page);
    page_at_unmap = &worker;
    end(clock);
    CHECK(page_at_unmap == NULL);
    cp_m_detach(worker.m);
}

/* ---- Counters -------------------------------------------------------------------------------- */

static void scene_of_counters(void)
{
    struct cp_counter *counters[2] = {NULL, NULL};
    static const char *const names[] = {"taskClock", "cycles"};
    struct cp_counter_value value;
    size_t n = 0;

    for (; n < 2; n++) {
        struct cp_event_spec spec = {.size = sizeof spec};

        CHECK_EQ(cp_event_parse(names[n], &spec, NULL), 0);
        sim->clock_ns = 1000;
        if (cp_counter_open(&counters[n], &spec, NULL) < 0)
            break;
    }
    sim->clock_ns = 0;
    cp_counters_start(counters, n);
    burn_a(MS);
    cp_counters_stop(counters, n);
    for (size_t i = 0; i < n; i++) {
        value = (struct cp_counter_value){.size = sizeof value};
        cp_counter_read(counters[i], &value, NULL);
        cp_counter_reset(counters[i]);
        cp_counter_close(counters[i]);
    }
}

SIM_TEST(files_with_the_numbers_of_counters_are_left_alone)
{
    sim->pmu.is_there = true;
    play_all(scene_of_counters, open_file);
}

SIM_TEST(a_counter_that_the_program_has_closed_is_an_error)
{
    struct cp_event_spec spec = {.size = sizeof spec};
    struct cp_counter_value value = {.size = sizeof value};
    struct cp_counter *counter;

    CHECK_EQ(cp_event_parse("taskClock", &spec, NULL), 0);
    CHECK_EQ(cp_counter_open(&counter, &spec, NULL), 0);
    play.gets = open_file();
    take_all();
    CHECK_EQ(cp_counters_start(&counter, 1), -EBADF);
    CHECK_EQ(cp_counter_read(counter, &value, NULL), -EBADF);
    CHECK_EQ(cp_counter_reset(counter), -EBADF);
    cp_counter_close(counter);
}
