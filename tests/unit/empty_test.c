/* What is said of a profile without samples. */
#include <errno.h>

#include "pprof/merge.h"
#include "tests/support/inside.h"
#include "tests/support/report_tools.h"

static const struct cp__yield faults = {
    .event = "pageFaults", .kind = CP_EVENT_SOFTWARE, .period = 100000, .count = 3414, .threads = 2};

/* Checks the value and the phrase of the comment; NULL: there is none. */
static void check_comment(const struct cp__yield *yield, const char *value, const char *phrase)
{
    char has_value[CP__EMPTY_VALUE], has_phrase[CP__EMPTY_TEXT], sentence[CP__EMPTY_TEXT], all[400];

    CHECK_EQ(cp__empty_by_period(yield, has_value, has_phrase), value != NULL);
    if (value == NULL)
        return;
    CHECK_STR(has_value, value);
    CHECK_STR(has_phrase, phrase);
    cp__empty_warn(yield, sentence);
    snprintf(all, sizeof all, "The profile of %s is empty: %s.", yield->event, phrase);
    CHECK_STR(sentence, all);
}

CP_TEST(a_period_that_is_too_long_is_told_with_a_better_one)
{
    struct cp__yield yield = faults;

    check_comment(&yield, "20",
                  "3414 events were counted on 2 threads, less than the period of 100000 on each; take a "
                  "period of at most 20");
    yield.threads = 1;
    yield.count = 99;
    check_comment(&yield, "1",
                  "99 events were counted on 1 thread, less than the period of 100000; take a period of at "
                  "most 1");
    yield.kind = CP_EVENT_HARDWARE; /* a PMU has no periods below 1000 */
    yield.count = 99999;
    check_comment(&yield, "1000",
                  "99999 events were counted on 1 thread, less than the period of 100000; take a period of "
                  "at most 1000");
    yield.period = 1000;
    yield.count = 999;
    check_comment(&yield, "longer",
                  "999 events were counted on 1 thread, less than the period of 1000; let the program run "
                  "for longer");
    yield = (struct cp__yield){
        .event = "taskClock", .kind = CP_EVENT_CLOCK, .period = 10000000, .count = 25000000, .threads = 3};
    check_comment(&yield, "200000",
                  "25000000 ns of CPU time passed on 3 threads, less than the period of 10000000 ns on each; "
                  "take a period of at most 200000 ns, or let the program run for longer");
    yield.count = 29999999; /* each thread may have had 9 999 999.7 ns */
    check_comment(&yield, "200000",
                  "29999999 ns of CPU time passed on 3 threads, less than the period of 10000000 ns on each; "
                  "take a period of at most 200000 ns, or let the program run for longer");
    yield.threads = 1;
    yield.count = 4000000; /* a hundredth is shorter than what any machine can sample by */
    check_comment(&yield, "100000",
                  "4000000 ns of CPU time passed on 1 thread, less than the period of 10000000 ns; take a "
                  "period of at most 100000 ns, or let the program run for longer");
    yield.period = 100000;
    yield.count = 5;
    check_comment(&yield, "longer",
                  "5 ns of CPU time passed on 1 thread, less than the period of 100000 ns; let the program "
                  "run for longer");
}

CP_TEST(better_periods_are_round)
{
    static const uint64_t counts[][2] = {{1, 1},       {199, 1},       {200, 2},       {499, 2},
                                         {500, 5},     {999, 5},       {1000, 10},     {1999, 10},
                                         {99999, 500}, {100000, 1000}, {123456, 1000}, {UINT64_MAX, 0}};
    struct cp__yield yield = {
        .event = "pageFaults", .kind = CP_EVENT_SOFTWARE, .period = INT64_MAX, .threads = 4};

    for (size_t i = 0; counts[i][1] != 0; i++) {
        char value[CP__EMPTY_VALUE], phrase[CP__EMPTY_TEXT];

        yield.count = counts[i][0];
        CHECK(cp__empty_by_period(&yield, value, phrase));
        CHECKF(strtoull(value, NULL, 10) == counts[i][1], "%llu: %s", (unsigned long long)counts[i][0],
               value);
    }
    yield.count = UINT64_MAX;
    check_comment(&yield, "100000000000000000",
                  "18446744073709551615 events were counted on 4 threads, less than the period of "
                  "9223372036854775807 on each; take a period of at most 100000000000000000");
}

static void check_sentence(const struct cp__yield *yield, const char *sentence)
{
    char text[CP__EMPTY_TEXT];

    check_comment(yield, NULL, NULL);
    cp__empty_warn(yield, text);
    CHECK_STR(text, sentence);
}

CP_TEST(other_reasons_are_told_too)
{
    struct cp__yield yield = faults;

    yield.samples = 1;
    check_sentence(&yield, "");
    yield.samples = 0;
    yield.lost = 1;
    check_sentence(
        &yield, "The profile of pageFaults is empty: samples were lost, as the comments of the profile say.");
    yield.lost = 0;
    yield.count = 200000; /* two periods on two threads: there should be a sample */
    check_sentence(
        &yield, "The profile of pageFaults is empty: samples were lost, as the comments of the profile say.");
    yield.count = 0;
    check_sentence(&yield, "The profile of pageFaults is empty: the event did not happen, or this machine "
                           "does not count it.");
    yield.refused = 1;
    yield.refused_errno = -ENOSPC; /* of another thread */
    check_sentence(&yield, "The profile of pageFaults is empty: the event did not happen, or this machine "
                           "does not count it.");
    yield.threads = 0;
    check_sentence(&yield, "The profile of pageFaults is empty: the system refused the event (No space left "
                           "on device).");
    yield.refused_errno = 0;
    check_sentence(&yield, "The profile of pageFaults is empty: the system refused the event.");
    yield.refused = 0;
    check_sentence(&yield,
                   "The profile of pageFaults is empty: no thread that had called cp_m_attach() ran.");
    yield.kind = CP_EVENT_TIMER;
    yield.event = "timer";
    yield.threads = 1;
    check_sentence(&yield, "The profile of timer is empty: the threads that were sampled used no CPU time.");
    yield.kind = CP_EVENT_CLOCK;
    yield.event = "taskClock:u";
    check_sentence(&yield, "The profile of taskClock:u is empty: the threads that were sampled used no CPU "
                           "time in the modes that are sampled.");
}

/* ---- In a profile ---------------------------------------------------------------------------- */

CP_TEST(an_empty_profile_says_so)
{
    struct cp_session *session = stopped("pageFaults", 1000);
    struct cp_slot_stats *stats = &session->stats[0];

    stats->ms = 2;
    stats->count = 300;
    check_says(session, "empty: 2 # 300 events were counted on 2 threads, less than the period of 1000 on "
                        "each; take a period of at most 2");
    check_limits(session, "empty");
    stats->samples = 1;
    check_says_nothing_of(session, "empty");
    stats->samples = 0;
    stats->dropped = 1;
    check_says_nothing_of(session, "empty");
    stats->dropped = stats->count = 0;
    stats->cpu_ns = stats->library_ns = 1;
    check_says(session, "empty: idle # the threads that could be sampled did not run");
    check_limits(session, NULL); /* nothing is missing */
    stats->time_enabled = stats->time_running = 1;
    check_says_nothing_of(session, "empty");
    check_contains(session, "\ncount: 0 # the event did not happen");
    cp__session_free(session);
    session = stopped("taskClock:u", 1000000);
    session->stats[0].count = 5000000;
    session->stats[0].excluded_ns = 4500000;
    check_contains(session, "\nempty: 100000 # 500000 ns of CPU time passed on 1 thread, ");
    session->stats[0].excluded_ns = 5500000; /* the time in the kernel is known to a period */
    CHECK_EQ(cp__part_yield(&session->parts[0], &session->stats[0]).count, 0);
    cp__session_free(session);
}

/* All of the time of two threads was the kernel's. */
CP_TEST(a_merged_profile_counts_no_time_below_zero)
{
    struct cp__tally tally = {.n = 0};
    struct cp_merge *merge = cp_merge_new();

    cp__tally_add(&tally, "event: taskClock:u");
    cp__tally_add(&tally, "threads: 2 # were sampled");
    cp__tally_add(&tally, "count: 5000000 # ns");
    cp__tally_add(&tally, "excluded_ns: 5500000 # ns");
    merge->tally = tally;
    merge->n_profiles = 1;
    merge->period = 1000000;
    CHECK_CONTAINS(cp_merge_warning(merge), "used no CPU time in the modes that are sampled");
    cp_merge_free(merge);
}

/* Takes a profile of 500 page faults and 5 ms. */
SIM_TEST(a_session_warns_once_it_has_ended)
{
    struct cp_memory memory[2] = {{0}};
    const struct cp_profiling_option options[] = {
        cp_option_event(cp_writer_memory(&memory[0]), "pageFaults", 1000),
        cp_option_event(cp_writer_memory(&memory[1]), "taskClock", 1000000)};
    struct cp_session *session;
    struct cp_error err;
    char *text;

    attach();
    CHECKF(cp_session_start(&session, options, 2, &err) == 0, "%s", err.message);
    for (int i = 0; i < 500; i++)
        SIM_FAULT(i);
    burn_here(5000000);
    CHECK_STR(cp_session_warning(session, 0), NULL);
    CHECKF(cp_session_halt(session, &err) == 0, "%s", err.message);
    CHECK_STR(cp_session_warning(session, 0),
              "The profile of pageFaults is empty: 500 events were counted on 1 thread, less than the period "
              "of 1000; take a period of at most 5.");
    CHECK_STR(cp_session_warning(session, 1), NULL);
    CHECK_STR(cp_session_warning(session, 2), NULL);
    CHECKF(cp_session_stop(session, &err) == 0, "%s", err.message);
    CHECK_CONTAINS(cp_session_warning(session, 0), "is empty");
    save(&memory[0], file_in_dir("faults.pb.gz"));
    text = pprof("-comments", file_in_dir("faults.pb.gz"));
    CHECK_CONTAINS(text, "\nempty: 5 # ");
    CHECK_CONTAINS(text, "\nlimits: empty # ");
    free(text);
    cp_session_close(session);
    free(memory[0].data);
    free(memory[1].data);
}

/* ---- In a merged profile --------------------------------------------------------------------- */

/* Adds the profile of a session with these figures. */
static void add_session(struct cp_merge *merge, const struct cp_slot_stats *stats, uint64_t dropped)
{
    struct cp_session *session = stopped("pageFaults", 1000);
    struct cp_memory memory = {0};
    struct cp_writer w = cp_writer_memory(&memory);
    struct cp_error err;

    session->stats[0] = *stats;
    session->stats[0].dropped = dropped;
    CHECKF(cp__report_write(session, 0, &w, false, &err) == 0, "%s", err.message);
    CHECKF(cp_merge_add(merge, memory.data, memory.size, &err) == 0, "%s", err.message);
    free(memory.data);
    cp__session_free(session);
}

/* Returns the comments of the merged profile, each between line breaks. */
static char *comments_of_merge(const struct cp_merge *merge)
{
    struct cp_error err;
    char *said, *text;

    CHECKF(cp_merge_write(merge, cp_writer_path(file_in_dir("merged.pb.gz")), &err) == 0, "%s", err.message);
    said = pprof("-comments", file_in_dir("merged.pb.gz"));
    CHECK(asprintf(&text, "\n%s\n", said) > 0);
    free(said);
    return text;
}

/* Checks the warning and the comments of a merge. NULL: it is not said to be empty. */
static void check_merge(struct cp_merge *merge, const char *sentence, const char *comment, const char *limits)
{
    char *text = comments_of_merge(merge);

    CHECK_STR(cp_merge_warning(merge), sentence);
    if (comment != NULL)
        CHECK_CONTAINS(text, comment);
    else
        CHECKF(strstr(text, "empty") == NULL, "%s", text);
    CHECK_CONTAINS(text, limits);
    free(text);
}

CP_TEST(a_merged_profile_is_empty_only_if_all_are)
{
    const struct cp_slot_stats one = {.size = sizeof one, .ms = 1, .count = 900};
    const struct cp_slot_stats two = {.size = sizeof two, .ms = 2, .count = 600, .handler_replaced = true};
    const struct cp_slot_stats full = {.size = sizeof full, .ms = 1, .count = 1000, .samples = 1};
    struct cp_merge *merge = cp_merge_new();

    CHECK_STR(cp_merge_warning(merge), NULL);
    add_session(merge, &one, 0);
    add_session(merge, &one, 0);
    add_session(merge, &two, 0);
#define SAID                                                                                                 \
    "2400 events were counted on 4 threads, less than the period of 1000 on each; take a period of at most " \
    "20"
    check_merge(merge, "The profile of pageFaults is empty: " SAID ".", "\nempty: 20 # " SAID "\n",
                "\nlimits: empty # ");
    check_merge(merge, "The profile of pageFaults is empty: " SAID ".", "\nempty: 20 # " SAID "\n",
                "\nlimits: handler_replaced # ");
    add_session(merge, &full, 0);
    check_merge(merge, NULL, NULL, "\nlimits: none # nothing is known to be missing\n");
    check_merge(merge, NULL, NULL, "\nlimits: handler_replaced # ");
    cp_merge_free(merge);
    merge = cp_merge_new();
    add_session(merge, &one, 1);
    check_merge(merge,
                "The profile of pageFaults is empty: samples were lost, as the comments of the profile say.",
                NULL, "\nlimits: dropped # ");
    cp_merge_free(merge);
}

CP_TEST(lists_of_limits_lose_one_key)
{
    static const char *const comments[][2] = {
        {"empty: 5 # so it is", NULL},
        {"emptying: 5", "emptying: 5"},
        {"limits: empty # x", "limits: none # nothing is known to be missing"},
        {"limits: empty", "limits: none # nothing is known to be missing"},
        {"limits: empty,late # x", "limits: late # x"},
        {"limits: late,empty # x", "limits: late # x"},
        {"limits: a,empty,b # empty, x", "limits: a,b # empty, x"},
        {"limits: a,empty", "limits: a"},
        {"limits: emptyb,aempty # x", "limits: emptyb,aempty # x"},
        {"limits: none # empty", "limits: none # empty"},
        {"limits: , ,# empty,", "limits: , ,# empty,"},
        {"limits: ", "limits: "},
        {"", ""},
    };

    for (size_t i = 0; i < sizeof comments / sizeof comments[0]; i++) {
        char text[CP__TALLY_COMMENT];

        CHECK_STR(cp__tally_comment(comments[i][0], text), comments[i][1]);
    }
}

/* Nobody knows what a profile of another program was to have. */
CP_TEST(a_profile_of_others_is_not_judged)
{
    const struct cp_slot_stats one = {.size = sizeof one, .ms = 1, .count = 900};
    struct cp_merge *merge = cp_merge_new();
    struct cp_memory memory = {0};
    struct cp_error err;

    /* Profiles of threads have no event. */
    CHECK_EQ(cp_thread_profile(cp_writer_memory(&memory), CP_FORM_PPROF, &err), 0);
    CHECK_EQ(cp_merge_add(merge, memory.data, memory.size, &err), 0);
    check_merge(merge, NULL, NULL, "");
    free(memory.data);
    cp_merge_free(merge);
    merge = cp_merge_new();
    add_session(merge, &one, 0);
    CHECK_CONTAINS(cp_merge_warning(merge), "is empty");
    memory = (struct cp_memory){0};
    CHECK_EQ(cp_merge_write(merge, cp_writer_memory(&memory), &err), 0);
    CHECK_EQ(cp_merge_subtract(merge, memory.data, memory.size, &err), 0);
    CHECK_STR(cp_merge_warning(merge), NULL);
    free(memory.data);
    cp_merge_free(merge);
}
