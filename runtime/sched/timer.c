/*
 * The queue of deadlines: a pairing heap, because a pairing heap needs no memory except the timers and can
 * remove any of them. Adding a timer takes constant time, and removing one O(log n) amortised.
 */
#include "internal.h"

static bool is_before(const struct cp__timer *a, const struct cp__timer *b)
{
    return a->when != b->when ? a->when < b->when : a->seq < b->seq;
}

/* Makes the later of two roots the first child of the earlier one, and returns the earlier one. Either may be
 * NULL. */
static struct cp__timer *meld(struct cp__timer *a, struct cp__timer *b)
{
    struct cp__timer *root, *child;

    if (a == NULL || b == NULL)
        return a == NULL ? b : a;
    root = is_before(b, a) ? b : a;
    child = root == a ? b : a;
    child->next = root->child;
    if (child->next != NULL)
        child->next->place = &child->next;
    root->child = child;
    child->place = &root->child;
    return root;
}

/* Makes one root of a list of siblings: melds pairs from the front, then melds all pairs from the back. */
static struct cp__timer *meld_all(struct cp__timer *list)
{
    struct cp__timer *pairs = NULL, *root = NULL;

    while (list != NULL) {
        struct cp__timer *a = list, *b = a->next;

        list = b == NULL ? NULL : b->next;
        a->next = NULL;
        if (b != NULL)
            b->next = NULL;
        a = meld(a, b);
        a->next = pairs;
        pairs = a;
    }
    while (pairs != NULL) {
        struct cp__timer *next = pairs->next;

        pairs->next = NULL;
        root = meld(root, pairs);
        pairs = next;
    }
    return root;
}

static void set_first(struct cp__timers *timers, struct cp__timer *root)
{
    timers->first = root;
    if (root != NULL)
        root->place = &timers->first;
}

void cp__timers_add(struct cp__timers *timers, struct cp__timer *timer)
{
    timer->seq = timers->seq++;
    timer->child = NULL;
    timer->next = NULL;
    set_first(timers, meld(timers->first, timer));
}

void cp__timers_remove(struct cp__timers *timers, struct cp__timer *timer)
{
    struct cp__timer *children = meld_all(timer->child);

    *timer->place = timer->next;
    if (timer->next != NULL)
        timer->next->place = timer->place;
    timer->place = NULL;
    timer->child = NULL;
    timer->next = NULL;
    set_first(timers, meld(timers->first, children));
}
