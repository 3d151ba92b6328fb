/* Wait groups: a counter, and the Gs that wait until the counter is zero. */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

struct waiter {
    struct waiter *next;
    struct cp__task *task;
};

struct cp_wait_group {
    struct cp__lock lock;
    /* Guarded by the lock. */
    int64_t count;
    struct waiter *waiters;
};

struct cp_wait_group *cp_wait_group_new(void)
{
    struct cp_wait_group *group = malloc(sizeof *group);

    if (group != NULL)
        *group = (struct cp_wait_group){.lock = CP__LOCK_INIT(CP__RANK_SCHED)};
    return group;
}

void cp_wait_group_add(struct cp_wait_group *group, int64_t n)
{
    struct waiter *w = NULL, *next;

    cp__lock(&group->lock);
    group->count += n;
    if (group->count == 0) {
        w = group->waiters;
        group->waiters = NULL;
    }
    cp__unlock(&group->lock);
    /* From now on, a caller that finds the counter at zero may free the group. */
    for (; w != NULL; w = next) {
        struct cp__task *task = w->task;

        next = w->next;
        if (cp__task_wake(task, CP__WAKE_EVENT))
            cp__task_enqueue(task);
    }
}

void cp_wait_group_done(struct cp_wait_group *group)
{
    cp_wait_group_add(group, -1);
}

int cp_wait_group_wait(struct cp_wait_group *group)
{
    struct waiter self = {.task = cp__task_self()};

    if (self.task == NULL)
        return -ESRCH;
    cp__lock(&group->lock);
    if (group->count == 0) {
        cp__unlock(&group->lock);
        return 0;
    }
    self.next = group->waiters;
    group->waiters = &self;
    cp__unlock(&group->lock);
    cp__task_await(CP_WAIT_GROUP, group);
    return 0;
}

void cp_wait_group_free(struct cp_wait_group *group)
{
    if (group == NULL)
        return;
    pthread_mutex_destroy(&group->lock.mutex);
    free(group);
}
