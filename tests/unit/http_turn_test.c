/* What requests to the HTTP endpoint share: the turn for work that takes a whole CPU, and places. */
#include "tests/support/http_tools.h"

#include <sys/wait.h>

#include "http/share.h"
#include "http/snapshot.h"

/* Waits until n requests wait for the turn. */
static bool waiters_become(unsigned n)
{
    const uint64_t end = cp__http_now_ms() + PATIENCE_MS;

    for (; cp__http_now_ms() < end; usleep(10000)) {
        if (cp__http_turn_waiters() == n)
            return true;
    }
    return false;
}

static void take_turn(void)
{
    CHECK_EQ(cp__http_turn_take(NULL, CP__TURN_PROFILE), 0);
}

/* ---- Turns ----------------------------------------------------------------------------------- */

enum { WAITERS = 3 };
static int order[WAITERS], n_served;

static void *wait_for_turn(void *arg)
{
    take_turn();
    order[n_served++] = *(int *)arg; /* under the turn */
    cp__http_turn_give();
    return NULL;
}

CP_TEST(turns_come_in_the_order_in_which_they_were_asked_for)
{
    pthread_t threads[WAITERS];
    int numbers[WAITERS];

    take_turn();
    for (int i = 0; i < WAITERS; i++) {
        numbers[i] = i;
        CHECK_EQ(pthread_create(&threads[i], NULL, wait_for_turn, &numbers[i]), 0);
        CHECK(waiters_become((unsigned)i + 1));
    }
    CHECK_EQ(n_served, 0);
    cp__http_turn_give();
    for (int i = 0; i < WAITERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < WAITERS; i++)
        CHECK_EQ(order[i], i);
    CHECK_EQ(cp__http_turn_waiters(), 0);
}

CP_TEST(a_turn_is_waited_for_so_long_only)
{
    take_turn();
    cp__http_turn_wait_ms = 50;
    CHECK_EQ(cp__http_turn_take(NULL, CP__TURN_LOOKUP), -ETIMEDOUT);
    CHECK_EQ(cp__http_turn_take(NULL, CP__TURN_PROFILE), -ETIMEDOUT);
    CHECK_EQ(cp__http_turn_waiters(), 0);
    cp__http_turn_give();
    CHECK_EQ(cp__http_turn_take(NULL, CP__TURN_LOOKUP), 0);
    cp__http_turn_give();
}

CP_TEST(the_child_of_a_fork_has_its_own_turns_and_places)
{
    int status;
    pid_t pid;

    take_turn();
    CHECK(cp__http_place_take(CP__PLACE_SLOT, 1));
    cp__http_turn_wait_ms = 50;
    pid = fork();
    if (pid == 0) {
        CHECK_EQ(cp__http_turn_take(NULL, CP__TURN_LOOKUP), 0);
        CHECK_EQ(cp__http_turn_take(NULL, CP__TURN_LOOKUP), -ETIMEDOUT);
        CHECK(cp__http_place_take(CP__PLACE_SLOT, 1));
        CHECK(!cp__http_place_take(CP__PLACE_SLOT, 1));
        _exit(0);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
}

/* A turn that the child gives back must not go to a waiter, because the waiter's stack belongs to another
 * thread of the parent. */
CP_TEST(nobody_waits_in_the_child_of_a_fork)
{
    pthread_t thread;
    int number = 0, status;
    pid_t pid;

    take_turn();
    CHECK_EQ(pthread_create(&thread, NULL, wait_for_turn, &number), 0);
    CHECK(waiters_become(1));
    cp__http_turn_wait_ms = 50;
    pid = fork();
    if (pid == 0) {
        CHECK_EQ(cp__http_turn_waiters(), 0);
        cp__http_turn_give(); /* the thread that had the turn has forked, and gives the turn back */
        CHECK_EQ(cp__http_turn_take(NULL, CP__TURN_LOOKUP), 0);
        _exit(0);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    cp__http_turn_give();
    pthread_join(thread, NULL);
}

/* ---- Cancellation ---------------------------------------------------------------------------- */

static int handled, n_written;

/* Cancels the thread that asks, before anything is answered. */
static const char *header_and_cancel(void *context, const char *name)
{
    pthread_cancel(pthread_self());
    return strcmp(name, "host") == 0 ? context : NULL;
}

static int answer_begins(void *context, int status, const struct cp_http_header *headers, size_t n)
{
    (void)context, (void)headers, (void)n;
    handled = status;
    return 0;
}

static int answer_goes_on(void *context, const void *data, size_t size)
{
    (void)context, (void)data;
    n_written += size > 0;
    return 0;
}

static void *handle_and_go_on(void *arg)
{
    static char host[] = "localhost";
    const struct cp_http_request asked = {
        .size = sizeof asked, .method = "GET", .path = arg, .header = header_and_cancel, .context = host};
    const struct cp_http_response answer = {
        .size = sizeof answer, .begin = answer_begins, .write = answer_goes_on};

    CHECK_EQ(cp_http_handle(&asked, &answer, NULL), 0);
    CHECK_EQ(handled, 200);
    CHECK(n_written > 0);
    pthread_testcancel();
    return NULL;
}

/* The thread waits for a thread of its own while it has the turn: a cancellation there would leave the turn
 * taken. */
CP_TEST(a_thread_that_answers_is_cancelled_afterwards)
{
    static char path[] = PPROF "/threadcreate";
    pthread_t thread;
    void *result;

    if (TEST_ASAN)
        SKIP("AddressSanitizer takes what a cancelled thread leaves of its stack for in use");
    cp__http_turn_wait_ms = 50;
    CHECK_EQ(pthread_create(&thread, NULL, handle_and_go_on, path), 0);
    CHECK_EQ(pthread_join(thread, &result), 0);
    CHECK(result == PTHREAD_CANCELED);
    CHECK_EQ(handled, 200);
    CHECK_EQ(cp__http_turn_take(NULL, CP__TURN_LOOKUP), 0);
    cp__http_turn_give();
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void check_status(int fd, const char *status)
{
    char line[100];

    receive_line(fd, line, sizeof line);
    CHECKF(strncmp(line, status, strlen(status)) == 0, "%s", line);
    close(fd);
}

/* Writing each of these profiles would take a whole CPU. */
CP_TEST(profiles_that_end_together_are_written_in_turn)
{
    struct cp_http *http = start_http(NULL);
    int fds[2];

    take_turn();
    for (int i = 0; i < 2; i++)
        fds[i] = request(http, PPROF "/profile?seconds=1");
    CHECK(waiters_become(2));
    CHECK(slots_become(0, 0)); /* no profile samples any more */
    cp__http_turn_give();
    for (int i = 0; i < 2; i++)
        check_status(fds[i], "HTTP/1.1 200 ");
    cp_http_stop(http);
}

CP_TEST(a_profile_whose_turn_does_not_come_is_written_all_the_same)
{
    struct cp_http *http;

    take_turn();
    cp__http_turn_wait_ms = 50;
    http = start_http(NULL);
    check_status(request(http, PPROF "/profile?seconds=1"), "HTTP/1.1 200 ");
    cp__http_turn_give();
    cp_http_stop(http);
}

static const char *const lookups[] = {PPROF "/symbol?0x1", PPROF "/goroutine", PPROF "/threadcreate?debug=1",
                                      PPROF "/", PPROF "/ui/events.json"};
enum { LOOKUPS = sizeof lookups / sizeof lookups[0] };

/* One request waits for each turn, and as many as may wait at a time. */
CP_TEST(lookups_wait_for_their_turn_and_too_many_are_refused)
{
    struct cp_http *http = start_http(NULL);
    int fds[CP__HTTP_TURN_WAITERS], next;
    char *answer;

    cp__http_turn_wait_ms = 600000; /* however long a lookup takes on this machine */
    for (int first = 0; first < LOOKUPS; first++) {
        take_turn();
        for (int i = 0; i < CP__HTTP_TURN_WAITERS; i++)
            fds[i] = request(http, lookups[(first + i) % LOOKUPS]);
        CHECK(waiters_become(CP__HTTP_TURN_WAITERS));
        next = request(http, lookups[first]);
        answer = receive_all(next, PATIENCE_MS);
        CHECKF(strncmp(answer, "HTTP/1.1 503 ", 13) == 0, "%s", answer);
        CHECK_CONTAINS(answer, "\nRetry-After: 1\r\n");
        CHECK_CONTAINS(answer, "others wait already");
        free(answer);
        close(next);
        check_answer(http, "$base/cmdline", 200, NULL); /* a quick request does not wait */
        check_answer(http, "$base/ui/", 200, NULL);
        cp__http_turn_give();
        for (int i = 0; i < CP__HTTP_TURN_WAITERS; i++)
            check_status(fds[i], "HTTP/1.1 200 ");
    }
    cp_http_stop(http);
}

CP_TEST(a_lookup_whose_turn_does_not_come_is_refused)
{
    struct cp_http *http;

    take_turn();
    cp__http_turn_wait_ms = 50;
    http = start_http(NULL);
    for (int i = 0; i < LOOKUPS; i++)
        check_status(request(http, lookups[i]), "HTTP/1.1 503 ");
    cp__http_turn_give();
    for (int i = 0; i < LOOKUPS; i++)
        check_status(request(http, lookups[i]), "HTTP/1.1 200 ");
    cp_http_stop(http);
}

CP_TEST(who_goes_away_waits_no_more)
{
    struct cp_http *http;
    int lookup, profile;

    cp__http_turn_wait_ms = 600000;
    http = start_http(NULL);
    take_turn();
    lookup = request(http, PPROF "/symbol?0x1");
    CHECK(waiters_become(1));
    profile = request(http, PPROF "/profile?seconds=1");
    CHECK(waiters_become(2));
    close(lookup);
    CHECK(waiters_become(1));
    close(profile);
    CHECK(waiters_become(0));
    CHECK(slots_become(0, PATIENCE_MS));
    cp__http_turn_give();
    cp_http_stop(http);
}

/* ---- Places ---------------------------------------------------------------------------------- */

CP_TEST(profiles_over_http_leave_slots_to_the_program)
{
    const struct cp_http_options options = {.size = sizeof options, .max_slots = 1};
    struct cp_http *http = start_http(NULL), *other = start_http(&options);
    int fds[CP_EV_MAX / 2];

    fds[0] = request(other, PPROF "/profile?seconds=600");
    CHECK(slots_become(1, PATIENCE_MS));
    check_answer(other, "$base/profile?seconds=1", 503, "\nRetry-After: 10\n",
                 "\n1 profile is being recorded over HTTP", NULL);
    for (int i = 1; i < CP_EV_MAX / 2; i++)
        fds[i] = request(http, PPROF "/profile?seconds=600");
    CHECK(slots_become(CP_EV_MAX / 2, PATIENCE_MS));
    check_answer(http, "$base/profile?seconds=1", 503, "\nRetry-After: 10\n", "\nX-Go-Pprof: 1\n",
                 "\n4 profiles are being recorded over HTTP", NULL);
    for (int i = 0; i < CP_EV_MAX / 2; i++)
        close(fds[i]);
    CHECK(slots_become(0, PATIENCE_MS));
    check_answer(http, "-o /dev/null -D - $base/profile?seconds=1", 200, NULL);
    cp_http_stop(other);
    cp_http_stop(http);
}

CP_TEST(so_many_requests_may_wait_for_a_delta)
{
    struct cp_http *http = start_http(NULL);
    int fds[CP__HTTP_DELTAS], n = 0;

    while (cp__http_place_take(CP__PLACE_DELTA, CP__HTTP_DELTAS))
        n++;
    CHECK_EQ(n, CP__HTTP_DELTAS);
    check_answer(http, "\"$base/threadcreate?seconds=1\"", 503, "\nRetry-After: 10\n", NULL);
    while (n-- > 0)
        cp__http_place_give(CP__PLACE_DELTA);
    for (int i = 0; i < CP__HTTP_DELTAS; i++)
        fds[i] = request(http, PPROF "/goroutine?seconds=1");
    for (int i = 0; i < CP__HTTP_DELTAS; i++)
        check_status(fds[i], "HTTP/1.1 200 ");
    CHECK(cp__http_place_take(CP__PLACE_DELTA, 1)); /* all places were given back */
    cp_http_stop(http);
}

/* ---- Sizes ----------------------------------------------------------------------------------- */

static void check_addresses(const struct cp_http *http, int n, int status, const char *part)
{
    char arguments[600];

    free(test_command(NULL, "yes 0x1 | head -%d | tr '\\n' + > %s", n, file_in_dir("addresses")));
    snprintf(arguments, sizeof arguments, "--data-binary @%s $base/symbol", file_in_dir("addresses"));
    check_answer(http, arguments, status, part, NULL);
}

CP_TEST(so_many_addresses_may_be_asked_for)
{
    struct cp_http *http = start_http(NULL);

    check_addresses(http, 65536, 200, "\n\nnum_symbols: 1\n");
    check_addresses(http, 65537, 413, "at most 65536");
    cp_http_stop(http);
}

CP_TEST(a_state_that_is_too_long_is_cut_or_refused)
{
    struct cp_http *http;

    cp__http_max_snapshot = 10;
    http = start_http(NULL);
    check_answer(http, "\"$base/threadcreate?debug=1\"", 200, "\n\nthreadcrea\n(Only the beginning is shown",
                 NULL);
    check_answer(http, "$base/threadcreate", 503, "longer than 10 bytes", NULL);
    cp_http_stop(http);
}
