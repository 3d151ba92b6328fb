/* Listing all Gs from a thread outside the scheduler, while the Gs go on. */
#include "pprof.h"
#include "tests/support/gs.h"
#include "tests/support/http_inside.h"

#define UNW_LOCAL_ONLY
#include <errno.h>
#include <libunwind.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- What each G knows of itself ------------------------------------------------------------- */

enum { DEPTH = 64 };

struct self {
    const char *state;        /* the state in which the list must show the G */
    uint64_t id;              /* atomic; 0: the G has not begun */
    uintptr_t callers[DEPTH]; /* the callers of the function that waits */
    unsigned n_callers;
    unsigned seen;
};

static struct cp_chan *unbuffered, *empty;
static struct cp_wait_group *group;
static struct cp_g *parked;
static int pipe_fds[2];
static uint32_t listed; /* atomic */
static unsigned ready;  /* atomic */

/* Notes the G's own call chain, as libunwind finds it from inside the G. */
static __attribute__((noinline)) void note_callers(struct self *self)
{
    unw_context_t context;
    unw_cursor_t cursor;
    unw_word_t address;

    unw_getcontext(&context);
    CHECK_EQ(unw_init_local(&cursor, &context), 0);
    /* skips this function's caller, which will wait at another instruction than this call */
    CHECK(unw_step(&cursor) > 0);
    while (unw_step(&cursor) > 0 && self->n_callers < DEPTH) {
        unw_get_reg(&cursor, UNW_REG_IP, &address);
        if (address == 0)
            break;
        self->callers[self->n_callers++] = address;
    }
    CHECK(self->n_callers >= 5);
}

static __attribute__((noinline)) void wait_as(struct self *self)
{
    char byte;

    note_callers(self);
    cp_store_release(&self->id, cp_g_self()->id); /* pairs with the acquire in find_self() */
    cp_fetch_add_acq_rel(&ready, 1u);
    if (strcmp(self->state, "sleep") == 0)
        CHECK_EQ(cp_sleep(300 * MS), 0);
    if (strcmp(self->state, "descriptor") == 0)
        CHECK(cp_wait_fd(pipe_fds[0], EPOLLIN, -1) > 0);
    if (strcmp(self->state, "park") == 0) {
        parked = cp_sched_self();
        CHECK_EQ(cp_park(), 0);
    }
    if (strcmp(self->state, "channel send") == 0)
        CHECK_EQ(cp_chan_send(unbuffered, "x"), 0);
    if (strcmp(self->state, "channel receive") == 0)
        CHECK_EQ(cp_chan_recv(empty, &byte), 0);
    if (strcmp(self->state, "wait group") == 0)
        CHECK_EQ(cp_wait_group_wait(group), 0);
    while (strcmp(self->state, "runnable") == 0 && !cp_load_acquire(&listed))
        cp_yield();
    __asm__ volatile("" ::: "memory"); /* keeps the calls from being tail calls */
}

static __attribute__((noinline)) void deeper(struct self *self, int levels)
{
    if (levels > 0)
        deeper(self, levels - 1);
    else
        wait_as(self);
    __asm__ volatile("" ::: "memory");
}

static void begins(void *self)
{
    deeper(self, 3);
}

/* ---- Every state ----------------------------------------------------------------------------- */

static struct self selves[] = {
    {.state = "sleep"},           {.state = "descriptor"}, {.state = "park"},    {.state = "channel send"},
    {.state = "channel receive"}, {.state = "wait group"}, {.state = "runnable"}};
enum { SELVES = sizeof selves / sizeof selves[0] };
static uint64_t main_id;
static unsigned seen_main, seen_new, unknown;

static void has_not_begun(void *arg)
{
    (void)arg;
}

static struct self *find_self(uint64_t id)
{
    for (unsigned i = 0; i < SELVES; i++)
        if (cp_load_acquire(&selves[i].id) == id)
            return &selves[i];
    return NULL;
}

static void check_stack(const struct self *self, const struct cp_g_info *g, cp_unwind_fn *unwind)
{
    uintptr_t frames[DEPTH];
    unsigned n = unwind(g, frames, DEPTH);

    CHECKF(n > self->n_callers, "%s: %u frames, %u callers", self->state, n, self->n_callers);
    for (unsigned i = 0; i < self->n_callers; i++)
        CHECKF(frames[n - self->n_callers + i] == self->callers[i], "%s: caller %u of %u: %#lx, not %#lx",
               self->state, i, self->n_callers, (unsigned long)frames[n - self->n_callers + i],
               (unsigned long)self->callers[i]);
}

static void check_wait(const struct self *self, const struct cp_g_info *g)
{
    const void *const objects[SELVES] = {NULL, (void *)(intptr_t)pipe_fds[0], NULL, unbuffered, empty, group};
    const bool waits = strcmp(self->state, "runnable") != 0;

    CHECK_STR(cp_wait_reason_name(g->reason), waits ? self->state : "wait");
    CHECK(g->object == objects[self - selves] && g->switches > 0 && g->running_ns > 0);
    CHECK((g->waiting_ns > 0) == waits);
}

static int check_g(void *context, const struct cp_g_info *g)
{
    struct self *self = find_self(g->id);

    (void)context;
    CHECK((g->context == NULL) == (strcmp(g->state, "running") == 0));
    CHECK((g->tid != 0) == (strcmp(g->state, "running") == 0));
    if (g->id == main_id) {
        CHECK_STR(g->state, "running");
        CHECK_EQ(g->created_at, 0);
        CHECK_EQ(g->parent_id, 0);
        CHECK_EQ(g->tid, getpid()); /* the only M is the thread that called cp_sched_run() */
        seen_main++;
    } else if (self != NULL) {
        CHECK_STR(g->state, self->state);
        CHECK_EQ(g->parent_id, main_id);
        CHECK(g->entry == begins);
        check_stack(self, g, unwind_g);
        check_wait(self, g);
        self->seen++;
    } else if (g->entry == has_not_begun) {
        CHECK_STR(g->state, "runnable");
        seen_new++;
    } else {
        unknown++;
    }
    return 0;
}

static void *lists(void *fn)
{
    struct cp_error err = {0};

    CHECKF(cp_g_each(*(cp_g_each_fn **)fn, NULL, &err) == 0, "%s", err.message);
    cp_store_release(&listed, 1u);
    return NULL;
}

static void let_them_end(void)
{
    char byte;

    CHECK_EQ(write(pipe_fds[1], "x", 1), 1);
    cp_ready(parked);
    CHECK_EQ(cp_chan_recv(unbuffered, &byte), 0);
    CHECK_EQ(cp_chan_send(empty, "x"), 0);
    cp_wait_group_done(group);
}

static void in_every_state(void *list)
{
    pthread_t thread;

    main_id = cp_g_self()->id;
    for (unsigned i = 0; i < SELVES; i++)
        go(begins, &selves[i]);
    while (cp_load_acquire(&ready) < SELVES)
        cp_yield();
    go(has_not_begun, NULL);
    CHECK_EQ(pthread_create(&thread, NULL, lists, list), 0);
    while (!cp_load_acquire(&listed)) { /* keeps the only M busy */
    }
    pthread_join(thread, NULL);
    let_them_end();
}

static void run_in_every_state(cp_g_each_fn *fn)
{
    unbuffered = cp_chan_new(1, 0);
    empty = cp_chan_new(1, 1);
    group = cp_wait_group_new();
    cp_wait_group_add(group, 1);
    CHECK_EQ(pipe(pipe_fds), 0);
    run(1, in_every_state, &fn);
    cp_chan_free(unbuffered);
    cp_chan_free(empty);
    cp_wait_group_free(group);
}

CP_TEST(each_state_is_seen_with_its_stack)
{
    run_in_every_state(check_g);
    for (unsigned i = 0; i < SELVES; i++)
        CHECKF(selves[i].seen == 1, "%s: seen %u times", selves[i].state, selves[i].seen);
    CHECK_EQ(seen_main, 1);
    CHECK_EQ(seen_new, 1);
    CHECK_EQ(unknown, 0);
}

static int check_by_frame_pointers(void *context, const struct cp_g_info *g)
{
    const struct self *self = find_self(g->id);

    (void)context;
    if (self != NULL)
        check_stack(self, g, cp_unwind_frame_pointers);
    unknown += self != NULL;
    return 0;
}

CP_TEST(frame_pointers_find_the_same)
{
    run_in_every_state(check_by_frame_pointers);
    CHECK_EQ(unknown, SELVES);
}

static int must_not_be_called(void *context, const struct cp_g_info *g)
{
    (void)context;
    (void)g;
    CHECK(false);
    return 0;
}

CP_TEST(without_a_scheduler_there_are_no_gs)
{
    CHECK_EQ(cp_g_each(must_not_be_called, NULL, NULL), 0);
}

static int counts_to_three(void *n, const struct cp_g_info *g)
{
    (void)g;
    return ++*(int *)n == 3 ? -ECANCELED : 0;
}

static void lists_three(void *n)
{
    for (int i = 0; i < 200; i++)
        go(has_not_begun, NULL);
    CHECK_EQ(cp_g_each(counts_to_three, n, NULL), -ECANCELED);
}

/* After the list has ended, all other Gs can still run, or run() would not return. */
CP_TEST(a_listing_can_be_ended)
{
    int n = 0;

    run(1, lists_three, &n);
    CHECK_EQ(n, 3);
}

/* ---- Very many ------------------------------------------------------------------------------- */

enum { MANY = TEST_TSAN ? 1000 : TEST_ASAN ? 5000 : 100000 };
static struct cp_wait_group *all_wait, *end;
static unsigned char *times_seen; /* the index is the G's ID */
static uint64_t first_id;

static void waits_for_end(void *arg)
{
    (void)arg;
    cp_wait_group_done(all_wait);
    cp_wait_group_wait(end);
    __asm__ volatile("" ::: "memory"); /* keeps the call from being a tail call */
}

static int count_g(void *n, const struct cp_g_info *g)
{
    uintptr_t frames[DEPTH];

    CHECK(g->id >= first_id && g->id - first_id <= MANY);
    times_seen[g->id - first_id]++;
    if (g->context != NULL)
        CHECK(unwind_g(g, frames, DEPTH) >= 4);
    ++*(unsigned *)n;
    return 0;
}

static void list_many(void *n)
{
    first_id = cp_g_self()->id;
    all_wait = cp_wait_group_new();
    end = cp_wait_group_new();
    cp_wait_group_add(all_wait, MANY);
    cp_wait_group_add(end, 1);
    for (unsigned i = 0; i < MANY; i++)
        go(waits_for_end, NULL);
    cp_wait_group_wait(all_wait);
    CHECK_EQ(cp_g_each(count_g, n, NULL), 0);
    cp_wait_group_done(end);
}

CP_TEST(a_hundred_thousand_gs_are_listed_once_each)
{
    unsigned n = 0;

    times_seen = calloc(MANY + 1, 1);
    run(2, list_many, &n);
    CHECK_EQ(n, MANY + 1);
    for (unsigned i = 0; i <= MANY; i++)
        CHECK_EQ(times_seen[i], 1);
    free(times_seen);
}

/* ---- Coming and going ------------------------------------------------------------------------ */

enum { STAY = 100, ROUNDS = 60, IDS = 1 << 22 };
static uint64_t stay_ids[STAY]; /* atomic */
static uint64_t stayers_parent;
static uint32_t churning;

static void stays(void *arg)
{
    uint64_t *id = arg;
    char text[32];

    snprintf(text, sizeof text, "%td", id - stay_ids);
    CHECK_EQ(cp_label_set("number", text), 0);
    cp_store_release(id, cp_g_self()->id); /* pairs with the acquire in stayer_of() */
    cp_wait_group_done(all_wait);
    while (cp_load_acquire(&churning) && (id - stay_ids) % 2 == 0)
        cp_yield();
    cp_wait_group_wait(end);
}

/* Runs and changes its labels all the time. */
static void changes_labels(void *arg)
{
    char text[32];

    (void)arg;
    for (unsigned i = 0; cp_load_acquire(&churning); i++) {
        snprintf(text, sizeof text, "%u", i);
        CHECK_EQ(cp_label_set("changing", text), 0);
        if (i % 64 == 0)
            cp_yield();
    }
}

static void comes_and_goes(void *arg)
{
    (void)arg;
    cp_label_set("comes", "goes");
    cp_yield();
}

static __attribute__((noinline)) void start_stayers(void)
{
    for (unsigned i = 0; i < STAY; i++)
        CHECK_EQ(cp_go(stays, &stay_ids[i]), 0);
    __asm__ volatile("" ::: "memory");
}

static int stayer_of(uint64_t id)
{
    for (int i = 0; i < STAY; i++)
        if (cp_load_acquire(&stay_ids[i]) == id)
            return i;
    return -1;
}

struct round {
    unsigned char *ids;
    unsigned stayers;
    unsigned n;
};

static int check_churn(void *context, const struct cp_g_info *g)
{
    struct round *round = context;
    uintptr_t begin = (uintptr_t)start_stayers, frames[DEPTH];
    int i = stayer_of(g->id);
    char text[32];

    CHECK(g->id < IDS);
    CHECKF((round->ids[g->id / 8] & 1 << g->id % 8) == 0, "G %lu came twice", (unsigned long)g->id);
    round->ids[g->id / 8] |= (unsigned char)(1 << g->id % 8);
    round->n++;
    if (g->context != NULL)
        CHECK(unwind_g(g, frames, DEPTH) >= 1);
    for (size_t label = 0; label < cp_labels_count(g->labels); label++)
        CHECK(strlen(cp_labels_key(g->labels, label)) > 4 && cp_labels_value(g->labels, label)[0] != '\0');
    if (i < 0)
        return 0;
    snprintf(text, sizeof text, "%d", i);
    CHECK_EQ(cp_labels_count(g->labels), 1);
    CHECK_STR(cp_labels_value(g->labels, 0), text);
    CHECK_EQ(g->parent_id, stayers_parent);
    CHECK(g->created_at > begin && g->created_at < begin + 512);
    round->stayers++;
    return 0;
}

static void *lists_rounds(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        struct round round = {.ids = calloc(IDS / 8, 1)};

        CHECK_EQ(cp_g_each(check_churn, &round, NULL), 0);
        CHECK_EQ(round.stayers, STAY);
        CHECK(round.n > STAY);
        free(round.ids);
    }
    cp_store_release(&churning, 0u);
    return NULL;
}

static void churns(void *arg)
{
    pthread_t threads[2];

    (void)arg;
    stayers_parent = cp_g_self()->id;
    all_wait = cp_wait_group_new();
    end = cp_wait_group_new();
    cp_wait_group_add(all_wait, STAY);
    cp_wait_group_add(end, 1);
    churning = 1;
    start_stayers();
    cp_wait_group_wait(all_wait);
    for (int i = 0; i < 3; i++)
        go(changes_labels, NULL);
    for (int i = 0; i < 2; i++) /* two threads list at once */
        CHECK_EQ(pthread_create(&threads[i], NULL, lists_rounds, NULL), 0);
    while (cp_load_acquire(&churning)) {
        for (int i = 0; i < 200; i++)
            go(comes_and_goes, NULL);
        cp_sleep(MS);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    cp_wait_group_done(end);
}

CP_TEST(gs_are_listed_while_others_come_and_go)
{
    run(3, churns, NULL);
}

/* ---- Forking --------------------------------------------------------------------------------- */

static int look_at(void *context, const struct cp_g_info *g)
{
    (void)context;
    (void)g;
    return 0;
}

static sem_t is_listing;

static void *lists_all_the_time(void *arg)
{
    sem_post(&is_listing);
    while (cp_load_acquire(&churning))
        CHECK_EQ(cp_g_each(look_at, NULL, NULL), 0);
    return arg;
}

/* The forks come while another thread lists. In the child, which lacks that thread, labels must still be
 * freed. */
static void forks(void *arg)
{
    pthread_t thread;
    int status;

    churning = 1;
    sem_init(&is_listing, 0, 0);
    CHECK_EQ(pthread_create(&thread, NULL, lists_all_the_time, NULL), 0);
    sem_wait(&is_listing); /* under AddressSanitizer, a thread that starts allocates: see start_profile() */
    for (int i = 0; i < 200; i++) {
        pid_t child = fork();

        if (child == 0) {
            bool is_set = cp_label_set("a", "1") == 0 && cp_label_set("a", "2") == 0;

            _exit(is_set ? 0 : 1);
        }
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
    }
    cp_store_release(&churning, 0u); /* pairs with the acquires of it */
    pthread_join(thread, arg);
}

CP_TEST(a_child_may_be_forked_while_somebody_lists)
{
    if (TEST_TSAN)
        SKIP("ThreadSanitizer does not let a child of a program with threads go on.");
    run(1, forks, NULL);
}

/* ---- What is written ------------------------------------------------------------------------- */

static char *texts[3];
static char *profile_path;

static void write_listings(void)
{
    struct cp_error err = {0};
    int result;

    for (enum cp_profile_form form = CP_FORM_TEXT; form <= CP_FORM_STATES; form++) {
        struct cp_memory memory = {0};

        result = cp_g_profile(cp_writer_memory(&memory), form, unwind_g, &err);
        CHECKF(result == 0, "%s", err.message);
        /* strndup() reads behind the text, which strict sanitizers refuse */
        texts[form] = calloc(1, memory.size + 1);
        CHECK(texts[form] != NULL);
        memcpy(texts[form], memory.data, memory.size);
        free(memory.data);
    }
    result = cp_g_profile(cp_writer_path(profile_path), CP_FORM_PPROF, unwind_g, &err);
    CHECKF(result == 0, "%s", err.message);
    for (enum cp_profile_form form = CP_FORM_PPROF; form <= CP_FORM_STATES; form++) {
        CHECK_EQ(cp_g_profile(cp_writer_path("/dev/full"), form, unwind_g, &err), -ENOSPC);
        CHECK_CONTAINS(err.message, "could not be written to its file: No space left on device.");
    }
}

static __attribute__((noinline)) void start_ten(void)
{
    for (int i = 0; i < 10; i++)
        CHECK_EQ(cp_go(waits_for_end, NULL), 0);
    __asm__ volatile("" ::: "memory");
}

static void is_listed(void *arg)
{
    (void)arg;
    all_wait = cp_wait_group_new();
    end = cp_wait_group_new();
    cp_wait_group_add(all_wait, 10);
    cp_wait_group_add(end, 1);
    CHECK_EQ(cp_label_set("route", "/a \"b\""), 0);
    start_ten();
    CHECK_EQ(cp_label_set("route", NULL), 0);
    cp_wait_group_wait(all_wait);
    write_listings();
    cp_wait_group_done(end);
}

CP_TEST(a_profile_of_gs_is_written_in_three_forms)
{
    char *top, *raw;

    CHECK(asprintf(&profile_path, "%s/goroutine.pb.gz", test_dir()) > 0);
    run(1, is_listed, NULL);
    CHECK_CONTAINS(texts[1], "goroutine profile: total 11\n10 @ 0x");
    CHECK_CONTAINS(texts[1], "\n# labels: {\"route\":\"/a \\\"b\\\"\"}\n#\t0x");
    CHECK_CONTAINS(texts[1], "\twaits_for_end+0x");
    CHECK_CONTAINS(texts[1], "tests/system/goroutine_test.c:");
    CHECK_CONTAINS(texts[1], "[running: stack unavailable]\n");
    CHECK_CONTAINS(texts[2], " [running]:\n\tgoroutine running on other thread (");
    CHECK_CONTAINS(texts[2], " [wait group]:\n");
    CHECK_CONTAINS(texts[2], "\nwaits_for_end(...)\n\t");
    CHECK_CONTAINS(texts[2], "\ncreated by start_ten in goroutine ");
    top = test_command(NULL, "go tool pprof -top -cum '%s'", profile_path);
    CHECK_CONTAINS(top, "Type: goroutine\n");
    CHECK_CONTAINS(top, "of 11 total");
    CHECK_CONTAINS(top, " waits_for_end\n");
    CHECK_CONTAINS(top, "[running: stack unavailable]");
    raw = test_command(NULL, "go tool pprof -raw '%s'", profile_path);
    CHECK_CONTAINS(raw, "goroutine/count");
    CHECK_CONTAINS(raw, "route:[/a \"b\"]");
    free(top);
    free(raw);
}
