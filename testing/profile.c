/* The public calls of testing.h that take profiles of programs. See profile.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "profile.h"
#include "testing.h"

/* The environment variable that tells a child which parts its samples belong to: see cp__parts_name(). */
#define VARIABLE "CP_TESTING_PARTS"

/* Set in the process that called cp_testing_start(), and inherited by its forked children. */
static struct cp__parts *parts;
static struct cp__process_part *own;
/* Set in a process between cp_testing_child_start() and cp_testing_child_stop(). */
static struct cp__parts *child_parts;
static struct cp__process_part *child;

static void say(const struct cp_error *err)
{
    fprintf(stderr, "%s\n", err->message);
}

/* Called by exit(), so that a program that calls exit(), for example in a test, loses no samples. */
static void stop_at_exit(void)
{
    cp_testing_child_stop();
    cp_testing_stop();
}

/* Registers stop_at_exit() once. */
static void stop_at_exit_too(void)
{
    static bool is_registered;

    if (!is_registered)
        atexit(stop_at_exit);
    is_registered = true;
}

void cp__profile_start(const struct cp__profile_flags *flags, bool is_by_children)
{
    struct cp_error err;
    char *name;

    unsetenv(
        VARIABLE); /* a runner may have set the variable for this program, which is then one of its tests */
    if (!cp__profile_flags_ask(flags))
        return;
    if (cp__parts_open(&parts, flags, &err) < 0) {
        say(&err);
        exit(2);
    }
    if (cp__process_part_start(&own, parts, &err) < 0) {
        say(&err);
        cp__parts_remove(parts);
        exit(err.code != -EINVAL && cp__parts_are_refused(parts) ? 3 : 2);
    }
    cp__process_part_warn(own);
    if (is_by_children) {
        cp__process_part_drop(own); /* the part has shown that sampling works; only children sample */
        own = NULL;
    }
    name = cp__parts_name(parts);
    if (name != NULL)
        setenv(VARIABLE, name, 1);
    free(name);
    stop_at_exit_too();
}

void cp_testing_start(int *argc, char **argv)
{
    struct cp__profile_flags flags;

    cp__profile_flags_take(argc, argv, &flags);
    if (cp__profile_flags_lack(&flags) != NULL)
        cp__bad_usage(argv[0], "%s", cp__profile_flags_lack(&flags));
    cp__profile_start(&flags, false);
}

int cp_testing_stop(void)
{
    struct cp_error err;
    int failed = 0;

    if (!cp__parts_are_mine(parts))
        return 0;
    unsetenv(VARIABLE);
    if (own != NULL && cp__process_part_stop(own, &err) < 0) {
        say(&err);
        failed = 1;
    }
    failed |= cp__parts_merge(parts);
    own = NULL;
    parts = NULL;
    return failed;
}

/* Frees what a child has inherited by fork(), because it belongs to the parent. */
static void forget(void)
{
    cp__process_part_drop(own);
    cp__process_part_drop(child);
    cp__parts_free(parts);
    cp__parts_free(child_parts);
    own = child = NULL;
    parts = child_parts = NULL;
}

void cp_testing_child_start(void)
{
    const char *name = getenv(VARIABLE);
    struct cp_error err;

    if (name == NULL || cp__process_part_is_mine(own) || cp__process_part_is_mine(child))
        return; /* no profile is wanted, or this process already samples */
    forget();
    child_parts = cp__parts_named(name);
    if (child_parts != NULL && cp__process_part_start(&child, child_parts, &err) < 0)
        say(&err);
    stop_at_exit_too();
}

void cp_testing_child_stop(void)
{
    struct cp_error err;

    if (!cp__process_part_is_mine(child))
        return;
    if (cp__process_part_stop(child, &err) < 0)
        say(&err);
    child = NULL;
    forget();
}
