/* All watches of the process, of both kinds: their names, and their numbers, which samples carry. */
#ifndef COUNTERPOINT_RUNTIME_WATCH_REGISTRY_H
#define COUNTERPOINT_RUNTIME_WATCH_REGISTRY_H

#include "snapshot.h"

/* A watch, as the registry knows it; a member of the watch. */
struct cp__watch_entry {
    /* set before cp__registry_add() */
    const char *name; /* what the caller has asked for; after the call, the registry's copy */
    /* Appends what the watch has measured to a snapshot. Returns 0 or -ENOMEM. */
    int (*fill)(const void *watch, struct cp_watch_snapshot *snapshot);
    void (*forget)(void *watch); /* in the child of a fork, whose only thread calls it */
    void *watch;
    /* the registry's */
    unsigned number; /* from 1, and never used again */
    struct cp__watch_entry *next;
};

/* Checks and copies the name, and adds the watch behind all others. Returns 0, -EINVAL, -EEXIST, -ENOSPC or
 * -ENOMEM, as cp_watch_open() does. */
int cp__registry_add(struct cp__watch_entry *entry, struct cp_error *err);
void cp__registry_remove(struct cp__watch_entry *entry);
/* Returns the watch with the number, with the registry locked, until cp__registry_let_go(); NULL: the watch
 * was closed. */
void *cp__registry_hold(unsigned number);
void cp__registry_let_go(void);
/* The same for the watch with the name; NULL: no open watch has the name. */
const struct cp__watch_entry *cp__registry_hold_named(const char *name);
/* Returns the name of the watch with the number, which is never freed; NULL: there never was one. */
const char *cp__registry_name(unsigned number);
/* In the child of a fork: the watches stay, and what they have measured is the parent's. */
void cp__registry_forget(void);
/* Makes a snapshot of one watch. */
int cp__registry_take(struct cp_watch_snapshot **snapshot, const struct cp__watch_entry *entry,
                      struct cp_error *err);

#endif
