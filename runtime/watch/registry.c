#include "registry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/fail.h"
#include "runtime/base/lock.h"
#include "runtime/base/text.h"

static struct cp__lock registry_lock = CP__LOCK_INIT(CP__RANK_WATCHES);
static struct cp__watch_entry *entries; /* in the order of their numbers; under the lock */
static unsigned last_number;            /* under the lock */
static char *names[CP_WATCHES_MAX + 1]; /* by number; written once, under the lock */

/* ---- Names ----------------------------------------------------------------------------------- */

static int check_name(const char *name, struct cp_error *err)
{
    size_t size = name == NULL ? 0 : strnlen(name, CP_WATCH_NAME_MAX + 1), n = 0;

    if (size == 0 || size > CP_WATCH_NAME_MAX)
        return cp__error(err, -EINVAL, "A watch has a name of 1 to %d bytes, and not of %zu%s.",
                         CP_WATCH_NAME_MAX, size, size > CP_WATCH_NAME_MAX ? " or more" : "");
    for (size_t i = 0; i < size; i += n) {
        n = cp__utf8_size(name + i, size - i);
        if (n == 0 || (unsigned char)name[i] < ' ' || name[i] == 0x7f)
            return cp__error(err, -EINVAL,
                             "The name of a watch is UTF-8 without control characters: \"%s\" is not, at its "
                             "byte %zu.",
                             name, i);
    }
    return 0;
}

const char *cp__registry_name(unsigned number)
{
    if (number == 0 || number > CP_WATCHES_MAX)
        return NULL;
    return cp_load_acquire(&names[number]); /* pairs with the release in append_entry() */
}

/* ---- The list -------------------------------------------------------------------------------- */

static struct cp__watch_entry **entry_named(const char *name)
{
    struct cp__watch_entry **place = &entries;

    while (*place != NULL && (name == NULL || strcmp((*place)->name, name) != 0))
        place = &(*place)->next;
    return place;
}

static int append_entry(struct cp__watch_entry *entry, char *name, struct cp_error *err)
{
    if (*entry_named(name) != NULL)
        return cp__error(err, -EEXIST,
                         "There is a watch named \"%s\" already: close it, or take another name.", name);
    if (last_number == CP_WATCHES_MAX)
        return cp__error(err, -ENOSPC,
                         "This process has opened %d watches, and there can be no more: open a watch once, "
                         "and not for each use.",
                         CP_WATCHES_MAX);
    entry->number = ++last_number;
    entry->name = name;
    cp_store_release(&names[entry->number], name); /* pairs with the acquire in cp__registry_name() */
    entry->next = NULL;
    cp_store_release(entry_named(NULL), entry); /* pairs with the acquires in cp__registry_forget() */
    return 0;
}

int cp__registry_add(struct cp__watch_entry *entry, struct cp_error *err)
{
    int result = check_name(entry->name, err);
    char *name;

    if (result < 0)
        return result;
    name = strdup(entry->name);
    if (name == NULL)
        return cp__error(err, -ENOMEM, "There is no memory for a watch's name.");
    cp__lock(&registry_lock);
    result = append_entry(entry, name, err);
    cp__unlock(&registry_lock);
    if (result < 0)
        free(name);
    return result;
}

void cp__registry_remove(struct cp__watch_entry *entry)
{
    struct cp__watch_entry **place = &entries;

    cp__lock(&registry_lock);
    while (*place != NULL && *place != entry)
        place = &(*place)->next;
    if (*place != NULL)
        cp_store_release(place, entry->next); /* the same */
    cp__unlock(&registry_lock);
}

void *cp__registry_hold(unsigned number)
{
    const struct cp__watch_entry *entry;

    cp__lock(&registry_lock);
    for (entry = entries; entry != NULL && entry->number != number; entry = entry->next) {
    }
    return entry == NULL ? NULL : entry->watch;
}

const struct cp__watch_entry *cp__registry_hold_named(const char *name)
{
    cp__lock(&registry_lock);
    return *entry_named(name);
}

void cp__registry_let_go(void)
{
    cp__unlock(&registry_lock);
}

/* ---- Snapshots ------------------------------------------------------------------------------- */

/* Fills a snapshot with one entry, or with all if `only` is NULL. */
static int fill_snapshot(struct cp_watch_snapshot *snapshot, const struct cp__watch_entry *only)
{
    int result = 0;

    cp__lock(&registry_lock);
    for (const struct cp__watch_entry *entry = entries; entry != NULL && result == 0; entry = entry->next) {
        if (only == NULL || only == entry)
            result = entry->fill(entry->watch, snapshot);
    }
    cp__unlock(&registry_lock);
    return result;
}

int cp__registry_take(struct cp_watch_snapshot **snapshot, const struct cp__watch_entry *entry,
                      struct cp_error *err)
{
    struct cp_watch_snapshot *taken = cp__snapshot_new();
    int result = taken == NULL ? -ENOMEM : fill_snapshot(taken, entry);

    if (result < 0) {
        cp_watch_snapshot_free(taken);
        return cp__error(err, result, "There is no memory for a snapshot of watches.");
    }
    *snapshot = taken;
    return 0;
}

int cp_watch_take_all(struct cp_watch_snapshot **snapshot, struct cp_error *err)
{
    return cp__registry_take(snapshot, NULL, err);
}

/* ---- In the child of a fork ------------------------------------------------------------------ */

void cp__registry_forget(void)
{
    cp__lock_reset(&registry_lock);
    /* acquire, both: pair with the release in append_entry() */
    for (struct cp__watch_entry *entry = cp_load_acquire(&entries); entry != NULL;
         entry = cp_load_acquire(&entry->next))
        entry->forget(entry->watch);
}
