/* The profile of the threads that are Ms, with the stacks that attached them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/base/fail.h"
#include "runtime/label.h"
#include "session.h"
#include "writer.h"

/* Writes "NAME/TID". The name is empty if the thread has ended. */
static void name_thread(int tid, char *text, size_t size)
{
    char path[48], name[32] = "";
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/task/%d/comm", tid);
    file = fopen(path, "re");
    if (file != NULL && fgets(name, sizeof name, file) != NULL)
        name[strcspn(name, "\n")] = '\0';
    if (file != NULL)
        fclose(file);
    snprintf(text, size, "%s/%d", name, tid);
}

/* Returns a set of one label, with one reference; NULL if there is no memory. */
static struct cp_labels *label_thread(int tid)
{
    enum { TEXT = 64 };
    struct cp_labels *labels = malloc(sizeof *labels + sizeof labels->items[0] + TEXT);
    char *text;

    if (labels == NULL)
        return NULL;
    text = (char *)&labels->items[1];
    name_thread(tid, text, TEXT);
    labels->refs = 1;
    labels->count = 1;
    labels->items[0] = (struct cp_label){.key = "thread", .value = text};
    return labels;
}

/* Adds an M to the profile. The M's stack begins with a return address, but a sample's with an instruction,
 * so the first address is decreased by 1. */
static int list_m(void *context, const struct cp_m_info *m)
{
    struct cp__profile *profile = context;
    uintptr_t *frames = malloc((m->depth + 1) * sizeof *frames);
    struct cp_labels *labels = label_thread(m->tid);
    struct cp_sample sample = {.weight = 1, .labels = labels, .depth = m->depth, .frames = frames};

    int result = -ENOMEM;

    if (frames != NULL && labels != NULL) {
        memcpy(frames, m->frames, m->depth * sizeof *frames);
        frames[0] -= m->depth > 0;
        result = cp__profile_add(profile, &sample);
    }
    cp_labels_unref(labels);
    free(frames);
    return result;
}

static int make_thread_list(const void *what, struct cp_writer *w, struct cp_error *err)
{
    struct cp__profile *profile;
    const struct cp__profile_meta meta = {.is_count = true,
                                          .sample_type = "threadcreate",
                                          .sample_unit = "count",
                                          .period = 1,
                                          .time_ns = cp__clock_ns(CLOCK_REALTIME),
                                          .is_text = *(const enum cp_profile_form *)what == CP_FORM_TEXT};
    int result = cp__profile_new(&profile);

    if (result < 0)
        return cp__error(err, result, "There is not enough memory to list the threads.");
    result = cp_m_each(list_m, profile);
    if (result < 0)
        cp__error(err, result, "There is not enough memory to list the threads.");
    if (result == 0)
        result = cp__profile_resolve_all(profile, err);
    if (result == 0)
        result = cp__report_to(profile, &meta, w, err);
    cp__profile_free(profile);
    return result;
}

int cp_thread_profile(struct cp_writer w, enum cp_profile_form form, struct cp_error *err)
{
    if (form != CP_FORM_PPROF && form != CP_FORM_TEXT)
        return cp__error(err, -EINVAL,
                         "The profile of threads has no form %d. Use CP_FORM_PPROF or CP_FORM_TEXT.",
                         (int)form);
    return cp__write_elsewhere(w, make_thread_list, &form, err);
}
