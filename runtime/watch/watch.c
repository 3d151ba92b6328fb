/* Opening and closing watches. */
#include "watch.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "quantity.h"
#include "round.h"
#include "runtime/base/fail.h"
#include "runtime/base/sized.h"
#include "runtime/unwind/code.h"

#define LABELS_MAX 1000u

/* ---- Options --------------------------------------------------------------------------------- */

/* Appends a key to the watch's. */
static int add_key(struct cp_watch *watch, const char *key, struct cp_error *err)
{
    char **keys;

    if (*key == '\0')
        return cp__error(err, -EINVAL,
                         "A list of label keys has a comma too many: a key is at least one byte.");
    for (unsigned i = 0; i < watch->n_keys; i++) {
        if (strcmp(watch->keys[i], key) == 0)
            return cp__error(err, -EINVAL, "The key %s stands twice in a list of label keys.", key);
    }
    keys = realloc(watch->keys, (watch->n_keys + 1) * sizeof *keys);
    if (keys == NULL)
        return cp__error(err, -ENOMEM, "There is no memory for a watch's label keys.");
    watch->keys = keys;
    keys[watch->n_keys] = strdup(key);
    if (keys[watch->n_keys] == NULL)
        return cp__error(err, -ENOMEM, "There is no memory for a watch's label keys.");
    watch->n_keys++;
    return 0;
}

static int parse_keys(struct cp_watch *watch, const char *list, struct cp_error *err)
{
    char *copy, *rest, *key;
    int result = 0;

    if (list == NULL)
        return 0;
    copy = rest = strdup(list);
    if (copy == NULL)
        return cp__error(err, -ENOMEM, "There is no memory for a watch's label keys.");
    while (result == 0 && (key = strsep(&rest, ",")) != NULL)
        result = add_key(watch, key, err);
    free(copy);
    return result;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static void free_watch(struct cp_watch *watch)
{
    cp__watch_free_records(watch);
    for (unsigned i = 0; i < watch->n_meters; i++)
        cp__meter_release(watch->meters[i]);
    for (unsigned i = 0; i < watch->n_keys; i++)
        free(watch->keys[i]);
    free(watch->keys);
    free(watch);
}

static int fill_watch(struct cp_watch *watch, const struct cp_watch_options *options, struct cp_error *err)
{
    int result = cp__quantities_parse(watch, options->quantities, err);

    watch->lock = (struct cp__lock)CP__LOCK_INIT(CP__RANK_WATCH);
    watch->labels_max = options->labels_max == 0 ? LABELS_MAX : options->labels_max;
    watch->has_stacks = options->has_stacks;
    if (result == 0)
        result = parse_keys(watch, options->labels, err);
    if (result == 0 && cp__series_begin(watch) < 0)
        result = cp__error(err, -ENOMEM, "There is no memory for a watch.");
    if (result < 0)
        return result;
    watch->entry = (struct cp__watch_entry){
        .name = options->name, .fill = cp__watch_fill, .forget = cp__watch_forget, .watch = watch};
    return cp__registry_add(&watch->entry, err);
}

int cp_watch_open(struct cp_watch **out, const struct cp_watch_options *options, struct cp_error *err)
{
    struct cp_watch_options own;
    struct cp_watch *watch;
    int result = CP__TAKE(cp_watch_options, &own, options, err);

    if (result < 0)
        return result;
    cp__rounds_prepare();
    if (own.has_stacks)
        cp__code_update();
    watch = calloc(1, sizeof *watch);
    if (watch == NULL)
        return cp__error(err, -ENOMEM, "There is no memory for a watch (%zu bytes).", sizeof *watch);
    result = fill_watch(watch, &own, err);
    if (result < 0)
        free_watch(watch);
    else
        *out = watch;
    return result;
}

void cp_watch_close(struct cp_watch *watch)
{
    if (watch == NULL)
        return;
    cp__registry_remove(&watch->entry);
    free_watch(watch);
}

int cp_watch_take(struct cp_watch_snapshot **snapshot, const struct cp_watch *watch, struct cp_error *err)
{
    return cp__registry_take(snapshot, &watch->entry, err);
}
