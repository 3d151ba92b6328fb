/*
 * counterpoint/account.h: where the time of green threads goes: what they ran, and what they waited for.
 *
 * Each G has an account: how long it ran, how long it could have run and had no M, and how long it waited, by
 * reason. The three add up to the G's lifetime. A runtime tells of waits by cp_g_park() and cp_g_ready()
 * (runtime.h), beside cp_execute(); the embedded scheduler (sched.h) does so itself.
 *
 * Times are those of CLOCK_MONOTONIC. The time in which a G runs is the time in which it has an M: if the
 * system takes the CPU from the M's thread, the G's time goes on.
 */
#ifndef COUNTERPOINT_ACCOUNT_H
#define COUNTERPOINT_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cp_g;
struct cp_labels;

/* Why a G waits. New reasons are added before the last name, up to CP_WAIT_REASONS_MAX. */
enum cp_wait_reason {
    CP_WAIT_OTHER,
    CP_WAIT_PARK,      /* until another G or thread says so */
    CP_WAIT_LOCK,      /* for a mutex or another lock */
    CP_WAIT_CONDITION, /* for a condition variable */
    CP_WAIT_SEMAPHORE,
    CP_WAIT_CHANNEL_SEND,
    CP_WAIT_CHANNEL_RECEIVE,
    CP_WAIT_GROUP,      /* for the end of several pieces of work */
    CP_WAIT_JOIN,       /* for the end of a thread, or of another G */
    CP_WAIT_SLEEP,      /* for a time */
    CP_WAIT_DESCRIPTOR, /* until descriptors are ready */
    CP_WAIT_IO,         /* in a system call that reads or writes */
    CP_WAIT_REASONS
};
#define CP_WAIT_REASONS_MAX 16

/* Returns the reason's name, as "channel send"; "wait" for CP_WAIT_OTHER and for numbers that are no
 * reason. */
const char *cp_wait_reason_name(enum cp_wait_reason reason);

/* What an account, or a sum of accounts, has. The caller sets size. */
struct cp_account {
    size_t size;          /* sizeof(struct cp_account) as the caller compiled it */
    uint64_t gs;          /* how many Gs that is: 1, or of a sum, those that live and those that have ended */
    uint64_t lifetime_ns; /* running_ns + runnable_ns + waiting_ns */
    uint64_t running_ns;  /* on an M */
    uint64_t runnable_ns; /* ready, and no M had come to it */
    uint64_t waiting_ns;  /* the sum of waited_ns */
    uint64_t switches;    /* how often an M took the G */
    uint64_t waited_ns[CP_WAIT_REASONS_MAX]; /* by reason */
    uint64_t waits[CP_WAIT_REASONS_MAX];     /* how many waits have ended, by reason */
};

/*
 * Fills *account with that of g, up to now. g lives: cp_g_fini() has not been called. It may run on another
 * thread. The account begins with cp_g_init(), or later: with the first switch to the G after accounts were
 * switched on. Returns 0; -ENODATA if g has no account, because accounts are off, or there was no memory;
 * -EINVAL if the size was never set.
 */
int cp_g_stats(const struct cp_g *g, struct cp_account *account);

/* ---- Sums ------------------------------------------------------------------------------------ */

/* The accounts of one label set, as cp_accounts_each() reports them. Valid during the call only. */
struct cp_accounts_info {
    size_t size;              /* sizeof(struct cp_accounts_info) as the library was compiled */
    struct cp_labels *labels; /* the set, which lives as long as the process; NULL: no labels */
    /* true: labels is NULL, and the sum is that of all label sets that had no room: 10 000 sets have sums of
     * their own, those that came first. */
    bool is_rest;
    /* What Gs did while they had these labels. sum->gs counts those that have the labels, and those that had
     * them at their end. A thread that has waited by cp_wait_begin() counts as a G, and does
     * nothing of its own while it runs one. */
    const struct cp_account *sum;
    uint64_t running; /* how many of the Gs that live run, are ready, and wait at this moment */
    uint64_t runnable;
    uint64_t waiting;
    uint64_t ended; /* and how many have ended */
};
typedef int cp_accounts_fn(void *context, const struct cp_accounts_info *info);

/*
 * Calls fn for each label set that any G has had, in the order in which the sets came, and last for the rest,
 * if there is one. What a G has done counts for the labels that it had at the time, also if it has ended
 * since.
 * Gs go on meanwhile: what a G did before its labels changed, or before its end, may be missing until the
 * next call if the change or the end comes during this one. No time, and no number of switches or waits, is
 * ever less than in an earlier call. A result of fn other than 0 ends the list and is returned. Returns
 * -ENOMEM if there is no memory.
 */
int cp_accounts_each(cp_accounts_fn *fn, void *context);

/* Fills *total with the sum over all label sets. Returns 0; -EINVAL if the size was never set; -ENOMEM. */
int cp_accounts_total(struct cp_account *total);

/* ---- The switch ------------------------------------------------------------------------------ */

/*
 * Switches accounts on or off for the whole process; they are on at first. While they are off, switches cost
 * what they cost without them, and the time that passes is in no account and in no lifetime. When they are
 * on again, a G does what it did when they were switched off, until its next switch tells otherwise; a G that
 * began meanwhile has no account until its first switch. A profile of waits needs accounts, and keeps them
 * while it runs. May be called at any time, from any thread.
 */
void cp_accounts_set(bool on);

#ifdef __cplusplus
}
#endif
#endif
