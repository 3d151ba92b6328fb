/* Snapshots of watches: what programs read of them, and merging. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/made_watches.h"
#if !TEST_ASAN && !TEST_TSAN
#include "tests/support/failing_memory.h"
#endif

/* ---- What programs read ---------------------------------------------------------------------- */

/* Prints a row, with everything that it has. */
static int print_row(void *context, const struct cp_watch_row *row)
{
    FILE *out = context;

    CHECK_EQ(row->size, sizeof *row);
    fprintf(out, "%s{", row->watch);
    for (size_t i = 0; i < row->n_labels; i++)
        fprintf(out, "%s%s=%s", i > 0 ? "," : "", row->labels[i].key, row->labels[i].value);
    fprintf(out, "}%d %s/%s n=%llu sum=%.15g %.15g..%.15g mean=%.15g sigma=%.15g p50=%.15g\n", (int)row->side,
            row->quantity, row->unit, (unsigned long long)row->count, row->sum, row->min, row->max, row->mean,
            row->sigma, cp_watch_percentile(row, 50));
    return 0;
}

static int print_state(void *context, const struct cp_watch_state *state)
{
    CHECK_EQ(state->size, sizeof *state);
    fprintf(context, "%s: %llu %llu %llu %llu %llu %llu\n", state->watch, (unsigned long long)state->open,
            (unsigned long long)state->partial, (unsigned long long)state->refused,
            (unsigned long long)state->lost, (unsigned long long)state->unknown,
            (unsigned long long)state->dropped);
    return 0;
}

/* Returns all that can be read of the snapshot. */
static char *text_of(const struct cp_watch_snapshot *snapshot)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    CHECK_EQ(cp_watch_each(snapshot, print_row, out), 0);
    CHECK_EQ(cp_watch_states(snapshot, print_state, out), 0);
    fclose(out);
    return text;
}

static void check_text(const struct cp_watch_snapshot *snapshot, const char *expected)
{
    char *text = text_of(snapshot);

    CHECK_STR(text, expected);
    free(text);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static int end_early(void *context, const struct cp_watch_row *row)
{
    (void)row;
    return ++*(int *)context == 3 ? 42 : 0;
}

static int end_states(void *context, const struct cp_watch_state *state)
{
    (void)state;
    ++*(int *)context;
    return -5;
}

static int print_bucket(void *context, double low, double high, uint64_t count)
{
    fprintf(context, "%.12g-%.12g:%llu ", low, high, (unsigned long long)count);
    return 0;
}

static int end_buckets(void *context, double low, double high, uint64_t count)
{
    (void)context, (void)low, (void)high, (void)count;
    return 9;
}

static int print_buckets(void *context, const struct cp_watch_row *row)
{
    fprintf(context, "%s: ", row->quantity);
    CHECK_EQ(cp_watch_buckets(row, print_bucket, context), 0);
    CHECK_EQ(cp_watch_buckets(row, end_buckets, context), 9);
    return 0;
}

CP_TEST(rows_stand_by_watch_labels_side_and_quantity)
{
    struct cp_watch_snapshot *snapshot = cp__snapshot_new();
    struct cp__snapshot_watch *watch = add_made(snapshot, "parse", "time,ipc", "route,user");
    int calls = 0;

    record_round(watch, "b", "", CP_WATCH_UNFORKED, 100);
    record_round(watch, "a", "z", CP_WATCH_CHILD, 1);
    record_round(watch, "a", "z", CP_WATCH_UNFORKED, 2);
    record_round(watch, "b", "", CP_WATCH_UNFORKED, 110);
    watch->state = (struct cp_watch_state){.open = 1, .partial = 2, .refused = 3, .lost = 4, .dropped = 6};
    watch = add_made(snapshot, "another", "time", "");
    record_round(watch, NULL, NULL, CP_WATCH_PARENT, 7);
    check_text(snapshot, "parse{route=a,user=z}0 time/ns n=1 sum=2 2..2 mean=2 sigma=0 p50=2\n"
                         "parse{route=a,user=z}0 ipc/ratio n=1 sum=1.2e-05 1.2e-05..1.2e-05 mean=1.2e-05 "
                         "sigma=0 p50=1.2e-05\n"
                         "parse{route=a,user=z}2 time/ns n=1 sum=1 1..1 mean=1 sigma=0 p50=1\n"
                         "parse{route=a,user=z}2 ipc/ratio n=1 sum=1.1e-05 1.1e-05..1.1e-05 mean=1.1e-05 "
                         "sigma=0 p50=1.1e-05\n"
                         "parse{route=b,user=}0 time/ns n=2 sum=210 100..110 mean=105 sigma=5 p50=100\n"
                         "parse{route=b,user=}0 ipc/ratio n=2 sum=0.00023 0.00011..0.00012 mean=0.000115 "
                         "sigma=5e-06 p50=0.00011\n"
                         "another{}1 time/ns n=1 sum=7 7..7 mean=7 sigma=0 p50=7\n"
                         "parse: 1 2 3 4 0 6\n"
                         "another: 0 0 0 0 0 0\n");
    CHECK_EQ(cp_watch_each(snapshot, end_early, &calls), 42);
    CHECK_EQ(calls, 3);
    calls = 0;
    CHECK_EQ(cp_watch_states(snapshot, end_states, &calls), -5);
    CHECK_EQ(calls, 1);
    cp_watch_snapshot_free(snapshot);
}

CP_TEST(buckets_are_in_the_unit)
{
    struct cp_watch_snapshot *snapshot = cp__snapshot_new();
    struct cp__snapshot_watch *watch = add_made(snapshot, "w", "time,ipc", "");
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    record_round(watch, NULL, NULL, CP_WATCH_UNFORKED, 250);
    record_round(watch, NULL, NULL, CP_WATCH_UNFORKED, 251);
    record_round(watch, NULL, NULL, CP_WATCH_UNFORKED, 7);
    CHECK_EQ(cp_watch_each(snapshot, print_buckets, out), 0);
    fclose(out);
    CHECK_STR(text, "time: 7-7:1 250-251:2 ipc: 1.7e-05-1.7e-05:1 0.00026-0.000263:2 ");
    free(text);
    cp_watch_snapshot_free(snapshot);
}

CP_TEST(rows_without_rounds_are_zero)
{
    struct cp_watch_snapshot *snapshot = cp__snapshot_new();
    struct cp__snapshot_watch *watch = add_made(snapshot, "w", "time,ipc", "");

    CHECK(cp__snapshot_series_of(watch, NULL, CP_WATCH_UNFORKED) != NULL);
    check_text(snapshot, "w{}0 time/ns n=0 sum=0 0..0 mean=0 sigma=0 p50=0\n"
                         "w{}0 ipc/ratio n=0 sum=0 0..0 mean=0 sigma=0 p50=0\n"
                         "w: 0 0 0 0 0 0\n");
    cp_watch_snapshot_free(snapshot);
    cp_watch_snapshot_free(NULL);
}

CP_TEST(a_thousand_series_are_found_again)
{
    struct cp_watch_snapshot *snapshot = cp__snapshot_new();
    struct cp__snapshot_watch *watch = add_made(snapshot, "w", "time", "key");
    char value[20];

    for (unsigned i = 0; i < 3000; i++) {
        snprintf(value, sizeof value, "%u", i * 7919 % 1000);
        record_round(watch, value, NULL, i % 2 == 0 ? CP_WATCH_PARENT : CP_WATCH_UNFORKED, i);
    }
    CHECK_EQ(watch->n_series, 1000);
    for (size_t i = 1; i < watch->n_series; i++)
        CHECK(strcmp(watch->series[watch->sorted[i - 1]].values[0],
                     watch->series[watch->sorted[i]].values[0]) < 0);
    cp_watch_snapshot_free(snapshot);
}

/* ---- Merging --------------------------------------------------------------------------------- */

/* Returns one of four snapshots. Each has the watch "shared", with quantities and labels that differ. */
static struct cp_watch_snapshot *made_snapshot(unsigned number)
{
    static const char *const quantities[] = {"time,ipc,cycles", "time,cycles,ipc", "time,ipc,cycles",
                                             "time,misses"};
    struct cp_watch_snapshot *snapshot = cp__snapshot_new();
    struct cp__snapshot_watch *watch;
    char name[20];

    snprintf(name, sizeof name, "own %u", 9 - number);
    watch = add_made(snapshot, name, "time", "");
    record_round(watch, NULL, NULL, CP_WATCH_UNFORKED, number);
    watch = add_made(snapshot, "shared", quantities[number], number == 1 ? "user,route" : "route,user");
    watch->state = (struct cp_watch_state){.open = number + 1, .lost = 10, .unknown = 1};
    record_round(watch, "all", "same", CP_WATCH_UNFORKED, 1000 * (number + 1));
    record_round(watch, "all", number % 2 == 0 ? "even" : "odd", CP_WATCH_UNFORKED, 1000000 * (number + 1));
    record_round(watch, "all", "same", number == 2 ? CP_WATCH_CHILD : CP_WATCH_PARENT, 100);
    add_made(snapshot, "empty", "", "")->state.refused = 1;
    return snapshot;
}

static void merge(struct cp_watch_snapshot *into, const struct cp_watch_snapshot *from)
{
    struct cp_error err;

    CHECK_EQ(cp_watch_merge(into, from, &err), 0);
}

CP_TEST(merging_adds_equal_rows_and_takes_over_the_others)
{
    struct cp_watch_snapshot *a = cp__snapshot_new(), *b = cp__snapshot_new();
    struct cp__snapshot_watch *watch = add_made(a, "w", "time", "key");

    record_round(watch, "x", NULL, CP_WATCH_UNFORKED, 10);
    record_round(watch, "y", NULL, CP_WATCH_UNFORKED, 20);
    watch->state.open = 2;
    watch = add_made(b, "w", "time,cycles", "key");
    record_round(watch, "x", NULL, CP_WATCH_UNFORKED, 30);
    record_round(watch, "x", NULL, CP_WATCH_CHILD, 40);
    watch->state.open = 3;
    add_made(b, "v", "time", "");
    merge(a, b);
    check_text(a, "w{key=x}0 time/ns n=2 sum=40 10..30 mean=20 sigma=10 p50=10\n"
                  "w{key=x}0 cycles/count n=1 sum=40 40..40 mean=40 sigma=0 p50=40\n"
                  "w{key=x}2 time/ns n=1 sum=40 40..40 mean=40 sigma=0 p50=40\n"
                  "w{key=x}2 cycles/count n=1 sum=50 50..50 mean=50 sigma=0 p50=50\n"
                  "w{key=y}0 time/ns n=1 sum=20 20..20 mean=20 sigma=0 p50=20\n"
                  "w{key=y}0 cycles/count n=0 sum=0 0..0 mean=0 sigma=0 p50=0\n"
                  "v: 0 0 0 0 0 0\n"
                  "w: 5 0 0 0 0 0\n");
    cp_watch_snapshot_free(a);
    cp_watch_snapshot_free(b);
}

/* Adds the snapshots up from the left, ((a + b) + c) + d, or in pairs, (a + b) + (c + d). */
static char *merged_text(const unsigned *order, bool in_pairs)
{
    struct cp_watch_snapshot *parts[4];
    char *text;

    for (unsigned i = 0; i < 4; i++)
        parts[i] = made_snapshot(order[i]);
    merge(parts[0], parts[1]);
    if (in_pairs)
        merge(parts[2], parts[3]);
    merge(parts[0], parts[2]);
    if (!in_pairs)
        merge(parts[0], parts[3]);
    text = text_of(parts[0]);
    for (unsigned i = 0; i < 4; i++)
        cp_watch_snapshot_free(parts[i]);
    return text;
}

CP_TEST(the_order_of_merging_does_not_matter)
{
    char *expected = merged_text((const unsigned[]){0, 1, 2, 3}, false);
    unsigned orders = 0;

    CHECK_CONTAINS(expected, "shared{route=all,user=same}0 time/ns n=3 sum=8000 ");
    CHECK_CONTAINS(expected, "shared: 10 0 0 40 4 0\n");
    CHECK_CONTAINS(expected, "empty: 0 0 4 0 0 0\nown 6: 0 0 0 0 0 0\nown 7");
    for (unsigned code = 0; code < 256; code++) {
        const unsigned order[] = {code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6};

        if ((1u << order[0] | 1u << order[1] | 1u << order[2] | 1u << order[3]) != 15)
            continue;
        for (int in_pairs = 0; in_pairs < 2; in_pairs++) {
            char *text = merged_text(order, in_pairs != 0);

            CHECK_STR(text, expected);
            free(text);
        }
        orders++;
    }
    CHECK_EQ(orders, 24);
    free(expected);
}

CP_TEST(more_quantities_than_a_watch_can_have_are_all_kept)
{
    struct cp_watch_snapshot *a = cp__snapshot_new(), *b = cp__snapshot_new();
    char *text;

    record_round(add_made(a, "w", "time,a,b,c,d,e,f,g", ""), NULL, NULL, CP_WATCH_UNFORKED, 1);
    record_round(add_made(b, "w", "time,h,g", ""), NULL, NULL, CP_WATCH_UNFORKED, 2);
    merge(a, b);
    merge(a, b);
    text = text_of(a);
    CHECK_CONTAINS(text, "w{}0 time/ns n=3 sum=5 ");
    CHECK_CONTAINS(text, "w{}0 h/count n=2 sum=24 ");
    CHECK_CONTAINS(text, "w{}0 g/count n=3 sum=115 ");
    CHECK_CONTAINS(text, "\nw: 0 0 0 0 0 0\n");
    CHECK(strstr(strstr(text, "\nw: ") + 1, "\nw: ") == NULL);
    free(text);
    cp_watch_snapshot_free(a);
    cp_watch_snapshot_free(b);
}

CP_TEST(a_snapshot_can_be_merged_with_itself)
{
    struct cp_watch_snapshot *snapshot = cp__snapshot_new();

    record_round(add_made(snapshot, "w", "time", ""), NULL, NULL, CP_WATCH_UNFORKED, 5);
    merge(snapshot, snapshot);
    check_text(snapshot, "w{}0 time/ns n=2 sum=10 5..5 mean=5 sigma=0 p50=5\nw: 0 0 0 0 0 0\n");
    cp_watch_snapshot_free(snapshot);
}

/* ---- Memory that runs out -------------------------------------------------------------------- */

#if TEST_ASAN || TEST_TSAN
CP_TEST(without_memory_nothing_is_merged)
{
    SKIP("A sanitizer has the allocator that this test takes the place of.");
}
#else
CP_TEST(without_memory_nothing_is_merged)
{
    struct cp_watch_snapshot *into = made_snapshot(0), *from = made_snapshot(3);
    char *before = text_of(into);
    struct cp_error err;
    unsigned n;
    bool has_failed = true;

    for (n = 1; has_failed; n++) {
        int result;

        fail_calls(n, UINT32_MAX);
        result = cp_watch_merge(into, from, &err);
        has_failed = have_failed();
        CHECK(result == -ENOMEM ? has_failed : result == 0);
        if (result != 0) {
            CHECK_CONTAINS(err.message, "no memory");
            check_text(into, before);
        } else if (has_failed) { /* qsort() does without memory, too */
            cp_watch_snapshot_free(into);
            into = made_snapshot(0);
        }
    }
    CHECK(n > 20);
    free(before);
    cp_watch_snapshot_free(into);
    cp_watch_snapshot_free(from);
}

CP_TEST(without_memory_nothing_is_made)
{
    static const char *const keys[] = {"a", "b"};
    struct cp_watch_snapshot *snapshot;
    struct cp__snapshot_watch *watch;

    fail_calls(1, 1);
    CHECK(cp__snapshot_new() == NULL);
    snapshot = cp__snapshot_new();
    for (unsigned n = 1; n <= 2; n++) {
        fail_calls(n, n);
        CHECK(cp__snapshot_add_watch(snapshot, "w", keys, 2) == NULL);
        CHECK_EQ(snapshot->n, 0);
    }
    fail_calls(1, 0);
    watch = cp__snapshot_add_watch(snapshot, "w", keys, 2);
    for (unsigned n = 1; n <= 3; n++) {
        fail_calls(n == 1 ? 1 : 2, UINT32_MAX); /* each fails a call later than the one before */
        CHECK(cp__snapshot_series_of(watch, keys, CP_WATCH_UNFORKED) == NULL);
        CHECK_EQ(watch->n_series, 0);
    }
    fail_calls(1, 0);
    CHECK(cp__snapshot_series_of(watch, keys, CP_WATCH_UNFORKED) != NULL);
    cp_watch_snapshot_free(snapshot);
}
#endif
