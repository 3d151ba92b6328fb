/* Watches for keys, on many threads and in the children of forks. */
#include "tests/support/keys_tools.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "atomic.h"

enum { THREADS_MAX = 64 };

struct crew {
    void *(*fn)(void *);
    pthread_t threads[THREADS_MAX];
    unsigned n;
};

/* What each thread of a crew is told. */
struct hand {
    struct cp_watch_keys *keys;
    unsigned number;
} hands[THREADS_MAX];

static struct crew start(unsigned n, void *(*fn)(void *), struct cp_watch_keys *keys)
{
    struct crew crew = {.n = n};

    for (unsigned i = 0; i < n; i++) {
        hands[i] = (struct hand){.keys = keys, .number = i};
        CHECK_EQ(pthread_create(&crew.threads[i], NULL, fn, &hands[i]), 0);
    }
    return crew;
}

static void join(const struct crew *crew)
{
    for (unsigned i = 0; i < crew->n; i++)
        CHECK_EQ(pthread_join(crew->threads[i], NULL), 0);
}

/* ---- None is lost ---------------------------------------------------------------------------- */

enum { ITEMS = 15625 }; /* 64 times as many are a million */

static void pass_through(struct cp_watch_keys *keys, uint64_t key)
{
    CHECK_EQ(cp_watch_key_begin(keys, key, 0), 0);
    CHECK_EQ(cp_watch_key_move(keys, key, 1), 0);
    CHECK_EQ(cp_watch_key_move(keys, key, 2), 0);
    CHECK_EQ(cp_watch_key_end(keys, key), 0);
}

static void *pass_items(void *arg)
{
    const struct hand *hand = arg;

    for (uint64_t i = 0; i < ITEMS; i++)
        pass_through(hand->keys, i * THREADS_MAX + hand->number);
    return NULL;
}

/* A snapshot has what an end adds to the last stage and to the whole, or neither, but it takes the shards one
 * after the other: so only what stands in one shard can be compared. */
static void expect_agreement(const struct taken *taken)
{
    CHECK_EQ(taken->state.lost + taken->state.unknown + taken->state.refused, 0);
    CHECK(taken->state.open <= THREADS_MAX);
    CHECK_EQ(row_of(taken, "c")->count, row_of(taken, "")->count);
    CHECK(row_of(taken, "b")->count >= row_of(taken, "c")->count);
    CHECK(row_of(taken, "a")->count >= row_of(taken, "b")->count);
    CHECK(row_of(taken, "a")->count <= row_of(taken, "c")->count + taken->state.open);
    CHECK(sum_of_stages(taken) >= row_of(taken, "")->sum);
}

CP_TEST(a_million_keys_of_64_threads_are_all_counted)
{
    struct cp_watch_keys *keys = open_keys("item", "a,b,c", 0);
    struct crew crew = start(THREADS_MAX, pass_items, keys);
    struct taken taken;

    do {
        taken = take(keys);
        expect_agreement(&taken);
    } while (row_of(&taken, "")->count < ITEMS * THREADS_MAX);
    join(&crew);
    taken = take(keys);
    for (size_t i = 0; i < taken.n; i++)
        CHECK_EQ(taken.rows[i].count, ITEMS * THREADS_MAX);
    CHECK_EQ(taken.state.open, 0);
    CHECK(sum_of_stages(&taken) == row_of(&taken, "")->sum);
    cp_watch_keys_close(keys);
}

/* ---- Threads that meet at the same keys ------------------------------------------------------ */

enum { MEETINGS = 20000, SHARED_KEYS = 8 };
static uint64_t results[3]; /* how many begins returned 0, and -EEXIST, and how many ends returned 0 */

static void *meet(void *arg)
{
    const struct hand *hand = arg;

    for (uint64_t i = 0; i < MEETINGS; i++) {
        uint64_t key = (i * 7 + hand->number) % SHARED_KEYS;
        int began = cp_watch_key_begin(hand->keys, key, 0);

        CHECK(began == 0 || began == -EEXIST);
        cp_fetch_add_relaxed(&results[began == 0 ? 0 : 1], 1); /* relaxed, as below: read after the join */
        cp_watch_key_move(hand->keys, key, 1);
        if (cp_watch_key_end(hand->keys, key) == 0)
            cp_fetch_add_relaxed(&results[2], 1);
    }
    return NULL;
}

CP_TEST(keys_of_several_threads_begin_and_end_once)
{
    struct cp_watch_keys *keys = open_keys("item", "a,b", 0);
    struct crew crew = start(4, meet, keys);
    struct taken taken;

    join(&crew);
    for (uint64_t key = 0; key < SHARED_KEYS; key++)
        results[2] += cp_watch_key_end(keys, key) == 0;
    taken = take(keys);
    CHECK_EQ(taken.state.open, 0);
    CHECK_EQ(results[0] + results[1], 4 * MEETINGS);
    CHECK_EQ(taken.state.lost, results[1]);
    CHECK_EQ(row_of(&taken, "")->count, results[2]);
    CHECK_EQ(results[0], results[2]);
    /* A call that comes to a key after another one, with an earlier time, measures no negative time. */
    for (size_t i = 0; i < taken.n; i++)
        CHECKF(taken.rows[i].max < 1e12, "%.0f ns", taken.rows[i].max);
    CHECK(sum_of_stages(&taken) >= row_of(&taken, "")->sum);
    cp_watch_keys_close(keys);
}

/* ---- The limit ------------------------------------------------------------------------------- */

enum { PLACES = 300, TAKEN = 250, TRIES = 20000, OWN = 100 };
static uint64_t n_refused, n_open;

/* A key counts in n_open after its begin and until its end. */
static void end_counted(struct cp_watch_keys *keys, uint64_t key)
{
    cp_fetch_add_relaxed(&n_open, -1); /* relaxed, as below: a number alone */
    CHECK_EQ(cp_watch_key_end(keys, key), 0);
}

static bool begin_counted(struct cp_watch_keys *keys, uint64_t key)
{
    int result = cp_watch_key_begin(keys, key, 0);

    CHECK(result == 0 || result == -ENOSPC);
    if (result < 0)
        cp_fetch_add_relaxed(&n_refused, 1);
    else
        CHECK(cp_fetch_add_relaxed(&n_open, 1) < PLACES);
    return result == 0;
}

/* Would have OWN keys open, which are more than there are places. */
static void *crowd(void *arg)
{
    const struct hand *hand = arg;
    bool is_open[OWN] = {false};
    uint64_t first = (uint64_t)hand->number << 32;

    for (uint64_t i = 0; i < TRIES; i++) {
        unsigned at = (unsigned)(i * 31 % OWN);

        if (is_open[at])
            end_counted(hand->keys, first | at);
        is_open[at] = !is_open[at] && begin_counted(hand->keys, first | at);
    }
    for (unsigned at = 0; at < OWN; at++) {
        if (is_open[at])
            end_counted(hand->keys, first | at);
    }
    return NULL;
}

CP_TEST(threads_share_the_limit_exactly)
{
    struct cp_watch_keys *keys = open_keys("item", NULL, PLACES);
    struct crew crew;
    uint64_t key;

    for (key = 1; key <= TAKEN; key++)
        CHECK(begin_counted(keys, -key));
    crew = start(8, crowd, keys);
    join(&crew);
    CHECK(n_refused > 0);
    expect_state(keys, TAKEN, n_refused, 0, 0);
    for (; key <= PLACES; key++)
        CHECK(begin_counted(keys, -key));
    CHECK(!begin_counted(keys, -key));
    cp_watch_keys_close(keys);
}

/* ---- Forks ----------------------------------------------------------------------------------- */

enum { HELD = 5000 };

static void expect_nothing(const struct cp_watch_keys *keys)
{
    const struct taken taken = take(keys);

    for (size_t i = 0; i < taken.n; i++)
        CHECK_EQ(taken.rows[i].count, 0);
    expect_state(keys, 0, 0, 0, 0);
}

static void reap(pid_t pid)
{
    int status;

    CHECK(pid > 0);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECKF(status == 0, "the child ended with %#x", (unsigned)status);
}

/* The child of a fork uses its parent's watch, and one of its own. */
static void use_in_child(struct cp_watch_keys *keys)
{
    struct taken taken;

    CHECK_EQ(cp_watch_key_end(keys, 0), -ENOENT);
    for (uint64_t key = 0; key < 2000; key++)
        CHECK_EQ(cp_watch_key_begin(keys, key, 0), 0);
    for (uint64_t key = 0; key < 1000; key++)
        CHECK_EQ(cp_watch_key_end(keys, key), 0);
    taken = take(keys);
    CHECK_EQ(taken.state.open, 1000);
    CHECK_EQ(taken.state.unknown, 1);
    CHECK_EQ(row_of(&taken, "a")->count, 1000);
    cp_watch_keys_close(open_keys("of the child", "a", 0));
}

/* A child's child, and one that does not touch the watch before it forks. */
static void child(struct cp_watch_keys *keys, unsigned n)
{
    pid_t pid;

    alarm(10); /* a lock that nobody can release ends the child, and so the test */
    if (n % 2 == 0) {
        expect_nothing(keys);
        use_in_child(keys);
    }
    pid = fork();
    if (pid == 0) {
        alarm(10);
        expect_nothing(keys);
        use_in_child(keys);
        cp_watch_keys_close(keys);
        _exit(0);
    }
    reap(pid);
    cp_watch_keys_close(keys);
    _exit(0);
}

CP_TEST(a_child_begins_with_no_keys)
{
    struct cp_watch_keys *keys = open_keys("item", "a,b", 3000);

    for (unsigned n = 0; n < 4; n++) {
        pid_t pid;

        for (uint64_t key = 0; key < 3001; key++)
            cp_watch_key_begin(keys, key, 1);
        pid = fork();
        if (pid == 0)
            child(keys, n);
        reap(pid);
        CHECK_EQ(take(keys).state.open, 3000);
        for (uint64_t key = 0; key < 3001; key++)
            cp_watch_key_end(keys, key);
    }
    CHECK_EQ(take(keys).rows[0].count, 4 * 3000);
    expect_state(keys, 0, 4, 0, 4);
    cp_watch_keys_close(keys);
}

/* _Fork() runs no fork handlers. */
CP_TEST(a_child_without_fork_handlers_begins_with_no_keys)
{
    struct cp_watch_keys *keys = open_keys("item", "a,b", 0);

    for (unsigned n = 0; n < 2; n++) {
        pid_t pid;

        CHECK_EQ(cp_watch_key_begin(keys, n, 0), 0);
        pid = _Fork();
        if (pid == 0) {
            if (n == 0)
                expect_nothing(keys);
            use_in_child(keys);
            _exit(0);
        }
        reap(pid);
        CHECK_EQ(take(keys).state.open, n + 1);
    }
    cp_watch_keys_close(keys);
}

static int ends; /* the threads shall end */
static uint64_t n_passed;

static void *pass_until_end(void *arg)
{
    const struct hand *hand = arg;
    uint64_t first = (uint64_t)hand->number << 32, n;

    for (n = 0; !cp_load_relaxed(&ends); n++) { /* relaxed: only that it ends */
        pass_through(hand->keys, first + n);
        CHECK_EQ(cp_watch_key_begin(hand->keys, first + UINT32_MAX - n % HELD, 0), n < HELD ? 0 : -EEXIST);
    }
    cp_fetch_add_relaxed(&n_passed, n); /* relaxed: read after the join */
    return NULL;
}

/* The other threads are in the middle of any call at the fork: their tables grow, too. */
CP_TEST(a_fork_finds_other_threads_in_their_calls)
{
    enum { FORKS = 40 };
    struct cp_watch_keys *keys;
    struct crew crew;

    if (TEST_ASAN || TEST_TSAN)
        SKIP("a child may find a lock of the sanitizer's held for ever");
    keys = open_keys("item", "a,b,c", 0);
    crew = start(4, pass_until_end, keys);
    for (unsigned n = 0; n < FORKS; n++) {
        pid_t pid = fork();

        if (pid == 0)
            child(keys, n);
        reap(pid);
    }
    cp_store_relaxed(&ends, 1); /* see pass_until_end() */
    join(&crew);
    CHECK_EQ(take(keys).rows[0].count, n_passed);
    cp_watch_keys_close(keys);
}
