/* Which Ms a reader's pass looks at; that it misses none. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/burn.h"

#include "runtime/base/os.h"
#include "runtime/m.h"
#include "runtime/pass.h"
#include "runtime/queue.h"
#include "runtime/slot.h"

static int start_timer(void)
{
    struct cp_slot_request timer = request("timer", 1000 * MS);
    struct cp_error err = {0};
    int slot;

    CHECKF(cp_slots_start(&timer, 1, &slot, &err) == 0, "%s", err.message);
    return slot;
}

static void stop_timer(int slot)
{
    cp_slots_stop(&slot, 1);
    cp_slots_release(&slot, 1);
}

/* ---- The queue ------------------------------------------------------------------------------- */

/* Appends a sample as the handler of the calling thread's M does. */
static void append(struct cp__m *m, int slot)
{
    static const uintptr_t frames[] = {0x1000};
    const struct cp_sample sample = {.weight = 1, .depth = 1, .frames = frames};
    bool half;

    CHECK(cp__samplebuf_append_from_handler(&m->buffers[slot], cp__slot_run(slot), &sample, &half));
    cp__queue_push_from_handler(m, slot);
}

struct appender {
    struct cp__m *m;
    int slot;
    int n; /* how many more to append */
};

static void append_one(void *context, const struct cp_sample *sample)
{
    struct appender *appender = context;

    (void)sample;
    if (appender->n-- > 0)
        append(appender->m, appender->slot);
}

CP_TEST(what_is_appended_while_it_is_read_is_found_by_the_next_pass)
{
    struct appender appender = {.n = 1};
    struct worker self = {.body = NULL};

    attach(&self);
    appender.m = (struct cp__m *)self.m;
    appender.slot = start_timer();
    append(appender.m, appender.slot);
    CHECK_EQ(cp_slots_read(appender.slot, append_one, &appender), 1);
    CHECK_EQ(cp_slots_read(appender.slot, append_one, &appender), 1);
    CHECK_EQ(cp_slots_read(appender.slot, append_one, &appender), 0);
    stop_timer(appender.slot);
    cp_m_detach(self.m);
}

static void body_late(struct worker *worker)
{
    cp__queue_push_from_handler((struct cp__m *)worker->m, CP_EV_MAX - 1); /* a slot that nobody reads */
}

CP_TEST(an_m_that_is_late_for_a_slot_does_not_stay)
{
    struct worker worker;

    start_worker(&worker, body_late, NULL);
    join_worker(&worker);
    CHECK(cp__ms == NULL);
}

/* ---- Looks ----------------------------------------------------------------------------------- */

#define SLEEPERS 200

static int ends[2]; /* the ends of a pipe that nobody writes to */

static void body_wait(struct worker *worker)
{
    char byte;

    (void)worker;
    CHECK_EQ(read(ends[0], &byte, 1), 0);
}

/* Counts the Ms that are up to date. */
static unsigned count_looked_at(void)
{
    unsigned n = 0;

    cp__lock(&cp__runtime_lock);
    for (struct cp__m *m = cp__ms; m != NULL; m = m->next)
        n += cp_load_relaxed(&m->head.generation) == cp_generation; /* relaxed: stored under the lock */
    cp__unlock(&cp__runtime_lock);
    return n;
}

/* Makes all Ms fall behind; they sleep. */
static void forget_looks(void)
{
    cp__lock(&cp__runtime_lock);
    for (struct cp__m *m = cp__ms; m != NULL; m = m->next)
        cp_store_relaxed(&m->head.generation, 0); /* relaxed: the same */
    cp__unlock(&cp__runtime_lock);
}

/* A pass that looks at an M which is behind brings it in line; so count_looked_at() counts looks. */
static void pass_once(void)
{
    cp__lock(&cp__runtime_lock);
    cp__pass();
    cp__unlock(&cp__runtime_lock);
}

/* The passes go on where the last one has ended. */
SIM_TEST(a_pass_looks_at_few_ms_of_an_idle_process)
{
    static struct worker workers[SLEEPERS];
    int slot;

    CHECK_EQ(pipe(ends), 0);
    for (int i = 0; i < SLEEPERS; i++)
        start_worker(&workers[i], body_wait, NULL);
    for (int i = 0; i < SLEEPERS; i++)
        await_sleep(workers[i].tid);
    slot = start_timer();
    forget_looks();
    for (unsigned looks = 16; looks <= 96; looks += 16) {
        pass_once();
        CHECK_EQ(count_looked_at(), looks);
    }
    SIM_RUN(5 * MS); /* of which 1 % may be spent on looks */
    pass_once();
    CHECK_EQ(count_looked_at(), 96 + 16 + 50);
    for (unsigned looks = 162 + 16; looks < SLEEPERS; looks += 16) {
        pass_once();
        CHECK_EQ(count_looked_at(), looks);
    }
    pass_once();
    CHECK_EQ(count_looked_at(), SLEEPERS);
    close(ends[1]);
    for (int i = 0; i < SLEEPERS; i++)
        join_worker(&workers[i]);
    stop_timer(slot);
}

/* The M has ended, and the reader has not read its sample. */
static void pass_over_an_m_that_is_gone(void)
{
    struct worker self = {.body = NULL};
    int slot;

    attach(&self);
    slot = start_timer();
    append((struct cp__m *)self.m, slot);
    cp_m_detach(self.m);
    CHECK(cp__ms != NULL);
    pass_once();
    stop_timer(slot);
}

/* The child's CPU clock begins anew, behind that of the parent's last pass. */
CP_TEST(a_pass_ends_in_the_child_of_a_fork)
{
    int status;
    pid_t pid;

    burn_a(20 * MS);
    pass_once();
    pid = fork();
    if (pid == 0) {
        alarm(20);
        pass_over_an_m_that_is_gone();
        _exit(0);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
}
