/* Accounts by label set: what Gs did while they had which labels, and that those that have ended are kept. */
#include "tests/support/g_accounts.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Sums ------------------------------------------------------------------------------------ */

/* A sum of a list, and what a test looks for. */
struct search {
    const char *key, *value; /* of the one label that the set has; NULL: no labels */
    bool is_rest;
    unsigned found;
    struct cp_accounts_info info;
    struct cp_account sum;
};

static int search_one(void *context, const struct cp_accounts_info *info)
{
    struct search *search = context;
    const size_t n = search->key != NULL;

    CHECK_EQ(info->size, sizeof *info);
    CHECK_EQ(info->sum->lifetime_ns, info->sum->running_ns + info->sum->runnable_ns + info->sum->waiting_ns);
    CHECK_EQ(info->sum->gs, info->running + info->runnable + info->waiting + info->ended);
    if (info->is_rest != search->is_rest || cp_labels_count(info->labels) != n)
        return 0;
    if (n == 1 && (strcmp(cp_labels_key(info->labels, 0), search->key) != 0 ||
                   strcmp(cp_labels_value(info->labels, 0), search->value) != 0))
        return 0;
    search->found++;
    search->info = *info;
    search->sum = *info->sum;
    return 0;
}

static struct search sum_of(const char *key, const char *value)
{
    struct search search = {.key = key, .value = value};

    CHECK_EQ(cp_accounts_each(search_one, &search), 0);
    CHECK(search.found <= 1);
    return search;
}

/* ---- A runtime of the test's own ------------------------------------------------------------- */

static char stack[64];

static void init_g(struct cp_g *g, const struct cp_g *parent)
{
    cp_g_init(g, stack, stack + sizeof stack, parent);
}

/* Lets g run, with a label or without, for a time. */
static void run_g(struct cp_m *m, struct cp_g *g, const char *value, uint64_t ns)
{
    uint64_t begin;

    cp_execute(m, g);
    CHECK_EQ(cp_label_set("route", value), 0);
    begin = clock_ns(CLOCK_MONOTONIC);
    while (clock_ns(CLOCK_MONOTONIC) - begin < ns)
        ;
    cp_execute(m, NULL);
}

CP_TEST(what_a_g_did_counts_for_the_labels_that_it_had)
{
    struct cp_m *m = attached();
    struct search a, b;
    struct cp_g g;

    init_g(&g, NULL);
    run_g(m, &g, "a", 2 * MS);
    run_g(m, &g, "b", 5 * MS);
    run_g(m, &g, "a", 2 * MS);
    a = sum_of("route", "a");
    b = sum_of("route", "b");
    CHECK(a.found && b.found);
    CHECK(a.sum.running_ns >= LONG(4 * MS));
    CHECK(b.sum.running_ns >= LONG(5 * MS));
    CHECK_EQ(a.sum.gs, 1);
    CHECK_EQ(a.info.runnable, 1);
    CHECK_EQ(b.sum.gs, 0);
    /* The first switch was without labels; the second, and the third one, came with the last labels. */
    CHECK_EQ(sum_of(NULL, NULL).sum.switches, 1);
    CHECK_EQ(a.sum.switches, 1);
    CHECK_EQ(b.sum.switches, 1);
    cp_g_fini(&g);
    cp_m_detach(m);
}

CP_TEST(gs_that_have_ended_are_kept)
{
    struct cp_m *m = attached();
    struct cp_account before = {.size = sizeof before}, lived;
    struct search a;
    struct cp_g g;

    for (int i = 1; i <= 1000; i++) {
        init_g(&g, NULL);
        run_g(m, &g, "a", 10000);
        lived = account_of(&g);
        cp_g_fini(&g);
        a = sum_of("route", "a");
        CHECK_EQ(a.info.ended, i);
        CHECK_EQ(a.sum.gs, i);
        CHECK(a.sum.running_ns >= before.running_ns + LONG(10000));
        CHECK(total().running_ns + 10 >= before.running_ns + lived.running_ns);
        before = a.sum;
    }
    cp_m_detach(m);
}

CP_TEST(a_g_begins_with_its_parents_labels)
{
    struct cp_m *m = attached();
    struct cp_g parent, child;

    init_g(&parent, NULL);
    cp_execute(m, &parent);
    CHECK_EQ(cp_label_set("route", "x"), 0);
    init_g(&child, &parent);
    cp_execute(m, &child);
    cp_execute(m, NULL);
    CHECK_EQ(sum_of("route", "x").sum.gs, 2);
    CHECK_EQ(sum_of("route", "x").info.runnable, 2);
    CHECK_EQ(sum_of(NULL, NULL).sum.gs, 0);
    cp_g_fini(&parent);
    cp_g_fini(&child);
    CHECK_EQ(sum_of("route", "x").info.ended, 2);
    cp_m_detach(m);
}

static int count_one(void *context, const struct cp_accounts_info *info)
{
    (void)info;
    ++*(unsigned *)context;
    return 0;
}

static unsigned number_of_sums(void)
{
    unsigned n = 0;

    CHECK_EQ(cp_accounts_each(count_one, &n), 0);
    return n;
}

CP_TEST(sets_of_the_same_labels_are_one)
{
    const struct cp_label forth[] = {{"a", "1"}, {"b", "2"}}, back[] = {{"b", "2"}, {"a", "1"}};
    struct cp_m *m = attached();
    struct cp_g g;

    init_g(&g, NULL);
    cp_execute(m, &g);
    for (int i = 0; i < 100; i++) {
        struct cp_label_scope scope = cp_labels_begin(i % 2 == 0 ? forth : back, 2);

        cp_label_end(&scope);
    }
    cp_execute(m, NULL);
    cp_g_fini(&g);
    CHECK(number_of_sums() <= 4); /* no labels, one label of the two, both */
    cp_m_detach(m);
}

static int stop_at_second(void *context, const struct cp_accounts_info *info)
{
    (void)info;
    return ++*(unsigned *)context == 2 ? -ECANCELED : 0;
}

CP_TEST(a_list_ends_if_it_is_told_to)
{
    struct cp_m *m = attached();
    unsigned n = 0;
    struct cp_g g;

    init_g(&g, NULL);
    for (char value[] = "a"; value[0] < 'g'; value[0]++)
        run_g(m, &g, value, 1000);
    CHECK_EQ(cp_accounts_each(stop_at_second, &n), -ECANCELED);
    CHECK_EQ(n, 2);
    CHECK_EQ(number_of_sums(), 7);
    CHECK_EQ(cp_accounts_total(&(struct cp_account){.size = 0}), -EINVAL);
    cp_g_fini(&g);
    cp_m_detach(m);
}

CP_TEST(sets_beyond_ten_thousand_are_one)
{
    struct cp_m *m = attached();
    struct search rest = {.is_rest = true};
    struct cp_account account;
    char value[20];
    struct cp_g g;

    init_g(&g, NULL);
    cp_execute(m, &g);
    for (int i = 0; i < 10500; i++) {
        snprintf(value, sizeof value, "%d", i);
        CHECK_EQ(cp_label_set("request", value), 0);
    }
    cp_execute(m, NULL);
    account = account_of(&g);
    CHECK_EQ(cp_accounts_each(search_one, &rest), 0);
    CHECK_EQ(rest.found, 1);
    CHECK_EQ(rest.info.runnable, 1);
    CHECK(rest.sum.running_ns > 0 && rest.sum.running_ns < account.running_ns);
    CHECK_EQ(number_of_sums(), 10002);
    CHECK_EQ(sum_of("request", "9999").found, 1);
    CHECK_EQ(sum_of("request", "10000").found, 0);
    CHECK(total().running_ns + 20000 >= account.running_ns); /* each sum is rounded to ns */
    cp_g_fini(&g);
    cp_m_detach(m);
}

/* ---- Against a record of the test's own ------------------------------------------------------ */

enum { GS = 5, VALUES = 4, STEPS = 20000 };
enum state { RUNNABLE, RUNNING, WAITING };

/* A G as the test has it. */
struct model {
    struct cp_g g;
    enum state state;
    enum cp_wait_reason reason;
    unsigned label;
    uint64_t since;
};

/* What happened in all, by label; label VALUES is that of no labels. */
struct record {
    struct cp_account sums[VALUES + 1];
    uint64_t slack; /* so much longer than a moment were the test's own steps */
    uint64_t begin; /* of the step */
};

static void count_state(struct record *record, struct model *model, uint64_t now)
{
    struct cp_account *sum = &record->sums[model->label];
    const uint64_t lasted = now - model->since;

    if (model->state == RUNNING)
        sum->running_ns += lasted;
    else if (model->state == RUNNABLE)
        sum->runnable_ns += lasted;
    else
        sum->waited_ns[model->reason] += lasted;
    model->since = now;
}

static void begin_step(struct record *record)
{
    record->begin = clock_ns(CLOCK_MONOTONIC);
}

/* The step happened when it began, or a little later. */
static void end_step(struct record *record, struct model *model, enum state state)
{
    record->slack += clock_ns(CLOCK_MONOTONIC) - record->begin;
    if (model == NULL)
        return;
    count_state(record, model, record->begin);
    if (model->state == WAITING && state != WAITING)
        record->sums[model->label].waits[model->reason]++;
    if (state == RUNNING)
        record->sums[model->label].switches++;
    model->state = state;
}

static const char *const values[VALUES] = {"a", "b", "c", "d"};

static void relabel(struct record *record, struct model *model)
{
    const unsigned label = (unsigned)random() % (VALUES + 1);

    begin_step(record);
    CHECK_EQ(cp_label_set("v", label < VALUES ? values[label] : NULL), 0);
    record->slack += clock_ns(CLOCK_MONOTONIC) - record->begin;
    count_state(record, model, record->begin);
    model->label = label;
}

/* Ends the G and begins another one without labels. */
static void replace_g(struct record *record, struct model *model)
{
    begin_step(record);
    cp_g_fini(&model->g);
    init_g(&model->g, NULL);
    record->slack += clock_ns(CLOCK_MONOTONIC) - record->begin;
    count_state(record, model, record->begin);
    record->sums[model->label].gs++;
    model->state = RUNNABLE;
    model->label = VALUES;
}

/* Lets the G run, change its labels, and park or yield. */
static void run_model(struct cp_m *m, struct record *record, struct model *model)
{
    const bool parks = random() % 2 == 0;

    begin_step(record);
    cp_execute(m, &model->g);
    end_step(record, model, RUNNING);
    for (long i = random() % 3; i > 0; i--)
        relabel(record, model);
    if (parks)
        model->reason = (enum cp_wait_reason)(random() % CP_WAIT_REASONS);
    begin_step(record);
    if (parks)
        cp_g_park(&model->g, model->reason, NULL);
    cp_execute(m, NULL);
    end_step(record, model, parks ? WAITING : RUNNABLE);
}

static void do_step(struct cp_m *m, struct record *record, struct model *model)
{
    if (model->state == WAITING && random() % 2 == 0) {
        begin_step(record);
        cp_g_ready(&model->g);
        end_step(record, model, RUNNABLE);
    } else if (random() % 20 == 0) {
        replace_g(record, model);
    } else if (model->state == RUNNABLE) {
        run_model(m, record, model);
    }
}

static void check_near(const char *what, uint64_t is, uint64_t expected, uint64_t slack)
{
    const uint64_t off = is > expected ? is - expected : expected - is;

    CHECKF(off <= slack + expected / 1000, "%s is %llu ns, and not %llu to within %llu", what,
           (unsigned long long)is, (unsigned long long)expected, (unsigned long long)slack);
}

static void check_record(const struct record *record, unsigned label)
{
    const struct cp_account *own = &record->sums[label];
    const struct search search = label < VALUES ? sum_of("v", values[label]) : sum_of(NULL, NULL);

    CHECK_EQ(search.found, 1);
    CHECK_EQ(search.sum.switches, own->switches);
    CHECK_EQ(search.info.ended, own->gs);
    check_near("running", search.sum.running_ns, own->running_ns, record->slack);
    check_near("runnable", search.sum.runnable_ns, own->runnable_ns, record->slack);
    for (unsigned i = 0; i < CP_WAIT_REASONS; i++) {
        CHECK_EQ(search.sum.waits[i], own->waits[i]);
        check_near("waited", search.sum.waited_ns[i], own->waited_ns[i], record->slack);
    }
}

CP_TEST(sums_are_those_of_a_record)
{
    struct cp_m *m = attached();
    struct record record = {.slack = 0};
    struct model models[GS];

    srandom(40);
    for (int i = 0; i < GS; i++) {
        init_g(&models[i].g, NULL);
        models[i].state = RUNNABLE;
        models[i].label = VALUES;
        models[i].since = clock_ns(CLOCK_MONOTONIC);
    }
    for (int i = 0; i < STEPS; i++)
        do_step(m, &record, &models[random() % GS]);
    begin_step(&record);
    for (int i = 0; i < GS; i++)
        count_state(&record, &models[i], record.begin);
    for (unsigned label = 0; label <= VALUES; label++)
        check_record(&record, label);
    for (int i = 0; i < GS; i++)
        cp_g_fini(&models[i].g);
    cp_m_detach(m);
}
