/* Which periods the endpoint takes if the program's threads switch often. tests/system/http_test.c has the
 * periods that samples alone decide. */
#include "tests/support/http_tools.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "tests/support/http_inside.h"
#include "tests/support/inside.h"

/* Checks which period of taskClock is the smallest that is taken. */
static void check_smallest(unsigned long long smallest)
{
    struct cp_http *http = start_http(NULL);
    char arguments[200], sentence[100];

    snprintf(arguments, sizeof arguments, "\"$base/profile?event=taskClock&seconds=1&period=%llu\"",
             smallest - 1);
    snprintf(sentence, sizeof sentence, "The smallest period here is %llu.\n", smallest);
    check_answer(http, arguments, 400, sentence, NULL);
    snprintf(arguments, sizeof arguments,
             "-o /dev/null -D - \"$base/profile?event=taskClock&seconds=1&period=%llu\"", smallest);
    check_answer(http, arguments, 200, NULL);
    cp_http_stop(http);
}

static void *answer_bytes(void *arg)
{
    const int *pipes = arg;
    char byte;

    while (read(pipes[0], &byte, 1) == 1 && write(pipes[3], &byte, 1) == 1)
        ;
    return NULL;
}

/* Lets two threads of one CPU wake each other by turns, each so often. */
static void switch_times(int times)
{
    int pipes[4];
    pthread_t other;
    cpu_set_t here, all;
    char byte = 0;

    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&here);
    CPU_SET(sched_getcpu(), &here);
    sched_setaffinity(0, sizeof here, &here);
    CHECK(pipe(pipes) == 0 && pipe(pipes + 2) == 0);
    CHECK_EQ(pthread_create(&other, NULL, answer_bytes, pipes), 0);
    for (int i = 0; i < times; i++)
        CHECK(write(pipes[1], &byte, 1) == 1 && read(pipes[2], &byte, 1) == 1);
    close(pipes[1]);
    pthread_join(other, NULL);
    for (int i = 0; i < 4; i++)
        if (i != 1)
            close(pipes[i]);
    sched_setaffinity(0, sizeof all, &all);
}

static void switch_often(void)
{
    switch_times(20000);
}

/* Sets a cost of a switch by which the switches take this share of the program's time. */
static void let_switches_take(double share)
{
    double a_ns = cp__http_switches_a_ns();

    CHECK(a_ns > 0);
    set_switch_cost((uint64_t)(share / a_ns));
}

/* The age of the process goes on, so switches take somewhat less in the end: a twentieth is left for samples,
 * or a little more. It may be a little less, too, because the process is switched meanwhile. */
SIM_TEST(switches_take_their_part_of_the_tenth)
{
    struct cp_event_spec spec = {.size = sizeof spec};
    const struct cp_http_options options = {.size = sizeof options};
    const struct cp__exchange exchange = {.options = &options};
    uint64_t period;

    switch_often();
    CHECK_EQ(cp_event_parse("taskClock", &spec, NULL), 0);
    set_sample_cost(50000);
    set_switch_cost(1);
    period = cp__http_min_period(&exchange, &spec);
    CHECKF(period >= 500000 && period < 501000, "%llu", (unsigned long long)period);
    let_switches_take(0.05);
    period = cp__http_min_period(&exchange, &spec);
    CHECKF(period > 900000 && period <= 1001000, "%llu", (unsigned long long)period);
    CHECK_EQ(cp_event_parse("timer", &spec, NULL), 0);
    CHECK_EQ(cp__http_min_period(&exchange, &spec), 0);
}

SIM_TEST(a_program_that_switches_often_gets_the_preset)
{
    switch_often();
    let_switches_take(0.5);
    check_smallest(10000000);
    set_switch_cost(1);
    check_smallest(100000);
}

SIM_TEST(the_page_proposes_the_preset_to_a_program_that_switches_often)
{
    const struct cp_http_options options = {.size = sizeof options};
    const struct cp__exchange exchange = {.options = &options};

    switch_often();
    set_switch_cost(1);
    CHECK_EQ(cp__http_period(&exchange, "taskClock"), 100000);
    let_switches_take(0.02);
    CHECK_EQ(cp__http_period(&exchange, "taskClock"), 10000000);
    CHECK_EQ(cp__http_period(&exchange, "timer"), 10000000);
}

/* With these costs, a clock takes 3 % of the time at switches whatever its period, or, as the last one does,
 * 0.8 % if the period is short, and less than half of that if it is 10 ms. */
SIM_TEST(the_index_recommends_what_costs_little_at_switches)
{
    struct cp_http *http = start_http(NULL);

    set_switch_cost(1);
    check_answer(http, "$base/", 200, "http=: 'http://", "/profile?event=taskClock&amp;period=100000&amp;",
                 NULL);
    switch_often();
    let_switches_take(0.03);
    check_answer(http, "$base/", 200, "/profile?event=timer&amp;period=10000000&amp;seconds=10'</code>",
                 "may take more than a hundredth", NULL);
    set_clock_switch_costs((uint64_t)(0.008 / cp__http_switches_a_ns()), 0);
    check_answer(http, "$base/", 200, "/profile?event=taskClock&amp;period=10000000&amp;seconds=10'</code>",
                 NULL);
    cp_http_stop(http);
}

/* 0: the cost is not known. */
SIM_TEST(a_program_that_leaves_no_cpu_for_the_measurement_is_sampled_by_the_timer)
{
    struct cp_http *http = start_http(NULL);

    switch_often();
    set_switch_cost(0);
    check_answer(http, "$base/", 200, "/profile?event=timer&amp;period=10000000&amp;seconds=10'</code>",
                 NULL);
    cp_http_stop(http);
}

static void *switch_some_times(void *unused)
{
    (void)unused;
    switch_times(5000);
    return NULL;
}

/* All switches of this test are at most 5000 a second of the process's life and the ten seconds that are
 * added to it. The other threads may get no CPU while somebody looks. */
CP_TEST(a_program_that_has_just_become_busy_switches_often)
{
    double a_ns = 0;

    for (int i = 0; i < 5 && a_ns < 1e-5; i++) {
        pthread_t busy;

        if (i > 0)
            usleep(1100000); /* until the last look is too old */
        CHECK_EQ(pthread_create(&busy, NULL, switch_some_times, NULL), 0);
        a_ns = cp__http_switches_a_ns();
        pthread_join(busy, NULL);
    }
    CHECKF(a_ns >= 1e-5, "%g", a_ns);
}

/* A program that hardly switches is not measured for it. */
SIM_TEST(few_switches_count_as_none)
{
    CHECK(cp__http_switches_a_ns() == 0);
}

CP_TEST(the_age_of_a_process_is_known)
{
    uint64_t age = cp__http_process_age_ns();

    CHECK(age > 0 && age < 3600 * UINT64_C(1000000000));
    usleep(50000);
    CHECK(cp__http_process_age_ns() >= age + 50000000);
}
