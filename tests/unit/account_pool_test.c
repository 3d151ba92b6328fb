/* The memory of accounts: what a reader sees while accounts come and go. */
#include <pthread.h>
#include <stdio.h>

#include "runtime/g_account.h"
#include "tests/support/test.h"

enum { LIVES = 50000 };
#define MARK(id) ((id) << 20)

/* A reader that has begun with the account's last G reads again. */
CP_TEST(an_account_that_begins_anew_has_another_version)
{
    struct cp__account *account = cp__account_new(NULL, 1, CP__G_RUNNABLE, 1, NULL);
    const uint64_t version = account->version;

    cp__account_free(NULL, account);
    CHECK(account->version != version);
    CHECK(cp__account_new(NULL, 2, CP__G_RUNNING, 2, NULL) == account);
    CHECK(account->version >= version + 4);
    CHECK_EQ(account->version % 2, 0);
}

static int none(void *context, const struct cp__account_copy *copy)
{
    (void)context;
    (void)copy;
    return 1;
}

/* A handler has jumped out of the change. */
CP_TEST(a_change_that_never_ends_holds_up_no_reader)
{
    struct cp__account *account = cp__account_new(NULL, 1, CP__G_RUNNABLE, 1, NULL);
    struct cp__account_copy copy;

    cp__account_begin_change(account);
    cp__account_read(account, &copy);
    CHECK_EQ(copy.id, 0);
    CHECK_EQ(cp__accounts_each(none, NULL), 0);
    cp__account_end_change(account);
    cp__account_read(account, &copy);
    CHECK_EQ(copy.id, 1);
}

static uint32_t has_ended; /* atomic */

/* Each account tells by its begin whose it is. */
static void *live_and_end(void *arg)
{
    (void)arg;
    for (uint64_t id = 1; id <= LIVES; id++) {
        struct cp__account *account =
            cp__account_new(NULL, id, id % 2 == 0 ? CP__G_RUNNING : CP__G_RUNNABLE, MARK(id), NULL);

        CHECK(account != NULL);
        cp__account_free(NULL, account);
    }
    cp_store_release(&has_ended, 1u); /* pairs with the acquire in the test */
    return NULL;
}

static int check_one(void *context, const struct cp__account_copy *copy)
{
    ++*(unsigned *)context;
    CHECK_EQ(copy->born, MARK(copy->id));
    CHECK_EQ(copy->since, MARK(copy->id));
    CHECK_EQ(copy->state, copy->id % 2 == 0 ? CP__G_RUNNING : CP__G_RUNNABLE);
    return 0;
}

CP_TEST(a_reader_sees_no_account_that_is_half_anothers)
{
    unsigned seen = 0;
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, live_and_end, NULL), 0);
    while (cp_load_acquire(&has_ended) == 0) /* pairs with the release in live_and_end() */
        CHECK_EQ(cp__accounts_each(check_one, &seen), 0);
    pthread_join(thread, NULL);
    printf("%u accounts were seen.\n", seen);
    CHECK_EQ(cp__accounts_each(check_one, &seen), 0);
}
