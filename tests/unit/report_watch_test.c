/* What the comments of a profile say of watches. */
#include "pprof/rounds.h"
#include "runtime/rounds.h"
#include "runtime/watch/registry.h"
#include "runtime/watch/sampled.h"
#include "tests/support/report_tools.h"
#include "watch.h"

/* Opens a watch that measures nothing, and adds a sample in a round of it to the session. */
static uint64_t add_round(struct cp_session *session, struct cp__watch_entry *entry, const char *name,
                          uint64_t id)
{
    const uintptr_t frame = 0x1000;
    struct cp_error err = {0};
    uint64_t round;

    *entry = (struct cp__watch_entry){.name = name};
    CHECKF(cp__registry_add(entry, &err) == 0, "%s", err.message);
    round = (uint64_t)entry->number << CP__ROUND_ID_BITS | id;
    CHECK_EQ(cp__profile_add(session->parts[0].profile,
                             &(struct cp_sample){
                                 .weight = 1, .depth = 1, .frames = &frame, .n_rounds = 1, .rounds = &round}),
             0);
    return round;
}

CP_TEST(watches_are_told_with_how_to_see_them)
{
    struct cp_session *session = stopped("taskClock", 1000000);
    struct cp__watch_entry plain, special;

    check_says_nothing_of(session, "watch");
    cp__sampled_ended(add_round(session, &plain, "read a file", 1), 1000);
    add_round(session, &special, "a=b", 2);
    check_says(session, "watch: read a file # 1 of its rounds have samples, of which 1 had ended: go tool "
                        "pprof -tagfocus='watch=^read a file$'");
    check_says(session, "watch: a=b # 1 of its rounds have samples, of which 0 had ended");
    check_says_nothing_of(session, "watches_more");
    cp__registry_remove(&plain);
    cp__registry_remove(&special);
    cp__session_free(session);
}

CP_TEST(many_watches_are_told_by_their_number)
{
    enum { N = 11 };
    struct cp_session *session = stopped("taskClock", 1000000);
    struct cp__watch_entry entries[N];
    char name[24];

    for (uint64_t i = 0; i < N; i++) {
        snprintf(name, sizeof name, "watch %d", (int)i);
        add_round(session, &entries[i], name, i + 10);
    }
    check_contains(session, "\nwatch: watch 7 # 1 of its rounds");
    check_says(session, "watches_more: 3 # further watches have samples in their rounds");
    for (int i = 0; i < N; i++)
        cp__registry_remove(&entries[i]);
    cp__session_free(session);
}
