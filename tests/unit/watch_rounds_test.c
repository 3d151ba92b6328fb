/* Entries and returns of functions, as `counterpoint watch` pairs them: made records in, rounds out. */
#include "cmd/counterpoint/watch/rounds.h"
#include "tests/support/test.h"

#include <inttypes.h>

enum { F, G, FUNCTIONS };
enum { PID = 100, CPUS = 2 };

/* Time passes by itself between two records. */
struct made {
    struct watch_rounds *rounds;
    uint64_t now;
};

static struct made begin_made(size_t n_counts)
{
    static const char *const names[] = {"f", "g"};
    static const struct cp__watch_quantity counts[] = {{.name = "instructions", .unit = "count", .scale = 1},
                                                       {.name = "pageFaults", .unit = "count", .scale = 1}};
    struct made made = {.rounds = watch_rounds_new(names, FUNCTIONS, counts, n_counts, CPUS), .now = 1000};

    CHECK(made.rounds != NULL);
    CHECK_EQ(watch_rounds_follow(made.rounds, PID, PID), 0);
    return made;
}

static void give(struct made *made, struct watch_record record)
{
    record.time = made->now;
    record.pid = record.pid == 0 ? PID : record.pid;
    record.tid = record.tid == 0 ? record.pid : record.tid;
    CHECK_EQ(watch_rounds_take(made->rounds, &record), 0);
}

static void enter(struct made *made, uint32_t function, uint64_t sp, uint64_t ns)
{
    give(made, (struct watch_record){.kind = WATCH_ENTRY, .function = function, .sp = sp});
    made->now += ns;
}

/* A return finds the stack pointer behind the return address. */
static void leave(struct made *made, uint32_t function, uint64_t sp, uint64_t ns)
{
    give(made, (struct watch_record){.kind = WATCH_RETURN, .function = function, .sp = sp + sizeof(void *)});
    made->now += ns;
}

static const struct cp__snapshot_watch *watch_of(const struct made *made, uint32_t function)
{
    return &watch_rounds_snapshot(made->rounds)->watches[function];
}

/* Checks count and sum of a quantity of a function's rounds. */
static void check_rounds(const struct made *made, uint32_t function, enum cp_watch_side side, size_t quantity,
                         uint64_t count, double sum)
{
    const struct cp__snapshot_watch *watch = watch_of(made, function);

    for (size_t i = 0; i < watch->n_series; i++) {
        const struct cp__histogram *h = &watch->series[i].histograms[quantity];

        if (watch->series[i].side != side)
            continue;
        CHECK_EQ(h->count, count);
        CHECK_EQ(cp__histogram_sum(h), sum);
        return;
    }
    CHECK_EQ(count, 0);
}

static void check_times(const struct made *made, uint32_t function, uint64_t count, double sum)
{
    check_rounds(made, function, CP_WATCH_UNFORKED, 0, count, sum);
}

static void check_state(const struct made *made, uint32_t function, uint64_t open, uint64_t dropped,
                        uint64_t lost, uint64_t unknown)
{
    const struct cp_watch_state *state = &watch_of(made, function)->state;

    CHECKF(state->open == open && state->dropped == dropped && state->lost == lost &&
               state->unknown == unknown,
           "open %" PRIu64 ", dropped %" PRIu64 ", lost %" PRIu64 ", unknown %" PRIu64, state->open,
           state->dropped, state->lost, state->unknown);
}

static void end_made(struct made *made)
{
    watch_rounds_free(made->rounds);
}

CP_TEST(a_round_lasts_from_entry_to_return)
{
    struct made made = begin_made(0);

    enter(&made, F, 800, 10);
    leave(&made, F, 800, 5);
    enter(&made, F, 800, 30);
    leave(&made, F, 800, 0);
    check_times(&made, F, 2, 40);
    check_state(&made, F, 0, 0, 0, 0);
    end_made(&made);
}

/* The inner call's frame begins right below the outer one's return address. */
CP_TEST(a_recursion_is_a_round_in_each_depth)
{
    struct made made = begin_made(0);

    enter(&made, F, 800, 10);
    enter(&made, F, 800 - sizeof(void *), 10);
    leave(&made, F, 800 - sizeof(void *), 10);
    leave(&made, F, 800, 0);
    check_times(&made, F, 2, 10 + 30);
    check_state(&made, F, 0, 0, 0, 0);
    end_made(&made);
}

CP_TEST(what_longjmp_leaves_is_dropped_when_an_outer_function_returns)
{
    struct made made = begin_made(0);

    enter(&made, F, 800, 10);
    enter(&made, G, 600, 10);
    enter(&made, G, 400, 10);
    leave(&made, F, 800, 0);
    watch_rounds_end(made.rounds);
    check_times(&made, F, 1, 30);
    check_times(&made, G, 0, 0);
    check_state(&made, F, 0, 0, 0, 0);
    check_state(&made, G, 0, 2, 0, 0);
    end_made(&made);
}

CP_TEST(what_longjmp_leaves_is_dropped_when_another_function_is_entered_above)
{
    struct made made = begin_made(0);

    enter(&made, G, 400, 10);
    enter(&made, F, 800, 10);
    check_state(&made, G, 0, 1, 0, 0);
    leave(&made, F, 800, 0);
    check_times(&made, F, 1, 10);
    end_made(&made);
}

/* A loop that leaves a function by longjmp() takes no more memory than the kernel notices returns. */
CP_TEST(what_longjmp_leaves_at_one_place_is_limited)
{
    struct made made = begin_made(0);

    for (int i = 0; i < 1000; i++)
        enter(&made, F, 800, 1);
    leave(&made, F, 800, 0);
    watch_rounds_end(made.rounds);
    check_times(&made, F, 1, 1);
    check_state(&made, F, 63, 1000 - 64, 0, 0);
    end_made(&made);
}

/* f calls g last, by a jump: both have the same stack pointer, and return one after the other. */
CP_TEST(a_tail_call_ends_both_rounds)
{
    struct made made = begin_made(0);

    enter(&made, F, 800, 10);
    enter(&made, G, 800, 20);
    leave(&made, G, 800, 1);
    leave(&made, F, 800, 0);
    check_times(&made, G, 1, 20);
    check_times(&made, F, 1, 31);
    check_state(&made, F, 0, 0, 0, 0);
    end_made(&made);
}

CP_TEST(a_return_without_an_entry_is_unknown)
{
    struct made made = begin_made(0);

    leave(&made, F, 800, 0);
    enter(&made, F, 400, 5);
    leave(&made, F, 600, 0);
    watch_rounds_end(made.rounds);
    check_times(&made, F, 0, 0);
    check_state(&made, F, 1, 0, 0, 2);
    end_made(&made);
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void start(struct made *made, pid_t parent_pid, pid_t parent_tid, pid_t pid, pid_t tid)
{
    give(made,
         (struct watch_record){
             .kind = WATCH_FORK, .pid = pid, .tid = tid, .parent_pid = parent_pid, .parent_tid = parent_tid});
}

CP_TEST(threads_have_rounds_of_their_own_and_strangers_have_none)
{
    struct made made = begin_made(0);

    start(&made, PID, PID, PID, 101);
    start(&made, 7, 7, 8, 8);
    enter(&made, F, 800, 10);
    give(&made, (struct watch_record){.kind = WATCH_ENTRY, .tid = 101, .sp = 800});
    give(&made, (struct watch_record){.kind = WATCH_ENTRY, .pid = 8, .sp = 800});
    made.now += 10;
    leave(&made, F, 800, 10);
    give(&made, (struct watch_record){.kind = WATCH_RETURN, .tid = 101, .sp = 800});
    give(&made, (struct watch_record){.kind = WATCH_RETURN, .pid = 8, .sp = 800});
    check_times(&made, F, 2, 20 + 20);
    check_state(&made, F, 0, 0, 0, 0);
    end_made(&made);
}

CP_TEST(a_thread_whose_start_was_lost_is_known_by_its_process)
{
    struct made made = begin_made(0);

    give(&made, (struct watch_record){.kind = WATCH_ENTRY, .tid = 150, .sp = 800});
    made.now += 10;
    give(&made, (struct watch_record){.kind = WATCH_RETURN, .tid = 150, .sp = 800});
    check_times(&made, F, 1, 10);
    end_made(&made);
}

CP_TEST(the_end_of_a_thread_and_another_program_drop_what_is_open)
{
    struct made made = begin_made(0);

    start(&made, PID, PID, PID, 101);
    give(&made, (struct watch_record){.kind = WATCH_ENTRY, .tid = 101, .sp = 800});
    give(&made, (struct watch_record){.kind = WATCH_EXIT, .tid = 101});
    check_state(&made, F, 0, 1, 0, 0);
    enter(&made, F, 800, 10);
    give(&made, (struct watch_record){.kind = WATCH_EXEC});
    watch_rounds_end(made.rounds);
    check_state(&made, F, 0, 2, 0, 0);
    end_made(&made);
}

/* The kernel gives the thread the number of the first one, which has ended before. */
CP_TEST(a_program_that_another_thread_executes_is_followed)
{
    struct made made = begin_made(0);

    start(&made, PID, PID, PID, 101);
    give(&made, (struct watch_record){.kind = WATCH_ENTRY, .tid = 101, .sp = 800});
    give(&made, (struct watch_record){.kind = WATCH_EXIT});
    give(&made, (struct watch_record){.kind = WATCH_EXEC});
    check_state(&made, F, 0, 1, 0, 0);
    enter(&made, F, 800, 10);
    leave(&made, F, 800, 0);
    watch_rounds_end(made.rounds);
    check_times(&made, F, 1, 10);
    check_state(&made, F, 0, 1, 0, 0);
    end_made(&made);
}

CP_TEST(a_fork_ends_a_round_on_both_sides)
{
    struct made made = begin_made(0);

    enter(&made, F, 800, 10);
    start(&made, PID, PID, 200, 200);
    made.now += 10;
    give(&made, (struct watch_record){.kind = WATCH_RETURN, .pid = 200, .sp = 800});
    made.now += 10;
    leave(&made, F, 800, 0);
    check_rounds(&made, F, CP_WATCH_CHILD, 0, 1, 20);
    check_rounds(&made, F, CP_WATCH_PARENT, 0, 1, 30);
    check_times(&made, F, 0, 0);
    end_made(&made);
}

/* As fork() and exec() in a function: the child never comes back to it. */
CP_TEST(a_child_that_executes_a_program_is_not_told)
{
    struct made made = begin_made(0);

    enter(&made, F, 800, 10);
    start(&made, PID, PID, 200, 200);
    give(&made, (struct watch_record){.kind = WATCH_EXEC, .pid = 200});
    give(&made, (struct watch_record){.kind = WATCH_EXIT, .pid = 200});
    leave(&made, F, 800, 0);
    check_rounds(&made, F, CP_WATCH_PARENT, 0, 1, 10);
    check_state(&made, F, 0, 0, 0, 0);
    end_made(&made);
}

/* ---- Losses ---------------------------------------------------------------------------------- */

static void lose(struct made *made, uint64_t from, uint64_t until)
{
    const struct watch_record record = {.kind = WATCH_LOSS, .time = from, .until = until, .lost = 7};

    CHECK_EQ(watch_rounds_take(made->rounds, &record), 0);
}

/* The return and the next entry of f are lost: the second return would make one long round of two. */
CP_TEST(a_round_that_is_open_in_a_loss_is_lost)
{
    struct made made = begin_made(0);

    enter(&made, F, 800, 10);
    lose(&made, made.now, made.now + 50);
    made.now += 100;
    leave(&made, F, 800, 10);
    enter(&made, F, 800, 10);
    leave(&made, F, 800, 10);
    check_times(&made, F, 1, 10);
    check_state(&made, F, 0, 0, 1, 0);
    CHECK_EQ(watch_rounds_lost_records(made.rounds), 7);
    end_made(&made);
}

CP_TEST(a_round_that_begins_in_a_loss_is_lost)
{
    struct made made = begin_made(0);

    lose(&made, made.now, made.now + 50);
    enter(&made, F, 800, 100);
    leave(&made, F, 800, 10);
    check_times(&made, F, 0, 0);
    check_state(&made, F, 0, 0, 1, 0);
    end_made(&made);
}

/* ---- Counts ---------------------------------------------------------------------------------- */

static void give_counts(struct made *made, enum watch_kind kind, pid_t tid, uint32_t cpu,
                        uint64_t instructions, uint64_t faults)
{
    give(made, (struct watch_record){.kind = kind,
                                     .pid = tid >= PID ? PID : 1,
                                     .tid = tid,
                                     .cpu = cpu,
                                     .sp = kind == WATCH_RETURN ? 800 + sizeof(void *) : 800,
                                     .counted = 3,
                                     .counts = {instructions, faults}});
    made->now += 10;
}

/* The thread runs on CPU 0, leaves it to a stranger, and goes on on CPU 1. */
CP_TEST(counts_are_those_of_the_thread_and_not_of_its_cpus)
{
    struct made made = begin_made(2);

    give_counts(&made, WATCH_SWITCH, 7, 0, 1000, 10);   /* a stranger, before */
    give_counts(&made, WATCH_SWITCH, 7, 1, 50000, 500); /* and on the other CPU */
    give_counts(&made, WATCH_ENTRY, PID, 0, 1100, 11);
    give_counts(&made, WATCH_SWITCH, PID, 0, 1300, 12);
    give_counts(&made, WATCH_SWITCH, 7, 0, 9300, 99);
    give_counts(&made, WATCH_RETURN, PID, 1, 50040, 503);
    check_rounds(&made, F, CP_WATCH_UNFORKED, 0, 1, 30);
    check_rounds(&made, F, CP_WATCH_UNFORKED, 1, 1, 200 + 40);
    check_rounds(&made, F, CP_WATCH_UNFORKED, 2, 1, 1 + 3);
    end_made(&made);
}

/* The idle task leaves the CPU without a record. The first count is time, the second one of switches. */
CP_TEST(time_begins_when_a_thread_gets_the_cpu)
{
    struct made made = begin_made(2);

    give(&made, (struct watch_record){.kind = WATCH_ENTRY, .sp = 800, .counted = 1, .counts = {1000}});
    give(&made, (struct watch_record){.kind = WATCH_SWITCH, .counted = 1, .switches = 2, .counts = {1100}});
    give(&made, (struct watch_record){.kind = WATCH_RESUME, .counted = 1, .counts = {9000}});
    give(&made, (struct watch_record){.kind = WATCH_RETURN, .sp = 808, .counted = 1, .counts = {9030}});
    check_rounds(&made, F, CP_WATCH_UNFORKED, 1, 1, 130);
    check_rounds(&made, F, CP_WATCH_UNFORKED, 2, 1, 1);
    watch_rounds_free(made.rounds);
}

CP_TEST(a_childs_counts_begin_with_the_fork)
{
    struct made made = begin_made(1);

    give_counts(&made, WATCH_ENTRY, PID, 0, 100, 0);
    give_counts(&made, WATCH_SWITCH, PID, 0, 400, 0);
    start(&made, PID, PID, 200, 200);
    give(&made,
         (struct watch_record){.kind = WATCH_RETURN, .pid = 200, .sp = 800, .counted = 1, .counts = {450}});
    check_rounds(&made, F, CP_WATCH_CHILD, 1, 1, 50);
    end_made(&made);
}
