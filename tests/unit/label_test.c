/* Labels: sets of them, scopes, and inheritance. label_sample_test.c has samples taken while they change. */
#include <stdarg.h>

#include "runtime/label.h"
#include "sched.h"
#include "tests/support/burn.h"

/* ---- One thread ------------------------------------------------------------------------------ */

/* Makes the calling thread an M for the whole test. */
static struct cp_m *attached(void)
{
    struct cp_error err = {0};
    struct cp_m *m;

    CHECKF(cp_m_attach(&m, &err) == 0, "%s", err.message);
    return m;
}

/* Checks that the calling G has exactly these labels, in this order: pairs of keys and values, then NULL. */
static void check_labels(const char *key, ...)
{
    const struct cp_labels *labels = cp_g_self()->labels;
    size_t n = 0;
    va_list more;

    va_start(more, key);
    for (; key != NULL; key = va_arg(more, const char *)) {
        const char *value = va_arg(more, const char *);

        CHECK(n < cp_labels_count(labels));
        CHECK_STR(cp_labels_key(labels, n), key);
        CHECK_STR(cp_labels_value(labels, n), value);
        n++;
    }
    va_end(more);
    CHECK_EQ(cp_labels_count(labels), n);
    if (n == 0)
        CHECK(labels == NULL);
}

static void set(const char *key, const char *value)
{
    CHECK_EQ(cp_label_set(key, value), 0);
}

CP_TEST(labels_are_set_replaced_and_removed)
{
    struct cp_m *m = attached();

    check_labels(NULL);
    set("m", NULL); /* the G has no such label */
    check_labels(NULL);
    set("m", "1");
    check_labels("m", "1", NULL);
    set("z", "2");
    set("a", "3");
    set("n", "");
    check_labels("a", "3", "m", "1", "n", "", "z", "2", NULL);
    set("m", "another and a longer one");
    check_labels("a", "3", "m", "another and a longer one", "n", "", "z", "2", NULL);
    set("a", NULL);
    set("y", NULL);
    check_labels("m", "another and a longer one", "n", "", "z", "2", NULL);
    set("z", NULL);
    set("m", NULL);
    check_labels("n", "", NULL);
    set("n", NULL);
    check_labels(NULL);
    cp_m_detach(m);
}

/* The labels are in the order of their keys' bytes, whatever the order of the calls. */
CP_TEST(many_labels_are_in_order)
{
    struct cp_m *m = attached();
    const struct cp_labels *labels;
    char key[8], value[16];

    for (int i = 0; i < 500; i++) {
        snprintf(key, sizeof key, "%d", i * 7919 % 500);
        snprintf(value, sizeof value, "value %s", key);
        set(key, value);
    }
    labels = cp_g_self()->labels;
    CHECK_EQ(cp_labels_count(labels), 500);
    for (size_t i = 0; i < 500; i++) {
        snprintf(value, sizeof value, "value %s", cp_labels_key(labels, i));
        CHECK_STR(cp_labels_value(labels, i), value);
        CHECK(i == 0 || strcmp(cp_labels_key(labels, i - 1), cp_labels_key(labels, i)) < 0);
    }
    for (int i = 0; i < 500; i++) {
        snprintf(key, sizeof key, "%d", i);
        set(key, NULL);
        CHECK_EQ(cp_labels_count(cp_g_self()->labels), 499 - (size_t)i);
    }
    cp_m_detach(m);
}

/* The set copies the strings, so the caller may change them. */
CP_TEST(strings_are_copied)
{
    struct cp_m *m = attached();
    char key[] = "key", value[] = "value";
    char *large = malloc(100001);

    set(key, value);
    key[0] = value[0] = '?';
    check_labels("key", "value", NULL);
    memset(large, 'x', 100000);
    large[100000] = 0;
    set(large, large);
    CHECK_STR(cp_labels_value(cp_g_self()->labels, 1), large);
    free(large);
    cp_m_detach(m); /* drops the M's reference to the labels */
}

CP_TEST(bad_keys_are_refused)
{
    static const char *const bad[] = {NULL, "", "pprof::", "pprof::base", "pprof::x=y"};
    static const char *const good[] = {"pprof", "pprof:", "pprof:x", "Pprof::x", " ", "a::pprof::"};
    struct cp_m *m = attached();

    set("a", "1");
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct cp_label_scope scope = cp_label_begin(bad[i], "value");

        CHECK_EQ(scope.error, -EINVAL);
        check_labels("a", "1", NULL);
        cp_label_end(&scope);
        CHECK_EQ(cp_label_set(bad[i], "value"), -EINVAL);
        CHECK_EQ(cp_label_set(bad[i], NULL), -EINVAL);
        check_labels("a", "1", NULL);
    }
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        set(good[i], "value");
        set(good[i], NULL);
    }
    cp_m_detach(m);
}

/* Neither of these threads has a G whose labels could be set. */
CP_TEST(threads_that_are_no_ms_have_no_labels)
{
    struct cp_label_scope scope;
    struct cp_m *m;

    CHECK_EQ(cp_label_set("a", "1"), -ESRCH);
    scope = cp_label_begin("a", "1");
    CHECK_EQ(scope.error, -ESRCH);
    cp_label_end(&scope);
    {
        CP_LABEL_SCOPE("a", "1");
    }
    m = attached();
    set("a", "1");
    cp_m_detach(m);
    CHECK_EQ(cp_label_set("a", "1"), -ESRCH);
    m = attached(); /* a new M has no labels */
    check_labels(NULL);
    cp_m_detach(m);
}

CP_TEST(a_reference_keeps_a_set)
{
    struct cp_m *m = attached();
    struct cp_labels *labels;

    cp_labels_unref(NULL);
    CHECK(cp_labels_ref(NULL) == NULL);
    CHECK_EQ(cp_labels_count(NULL), 0);
    set("a", "1");
    labels = cp_g_self()->labels;
    CHECK_EQ(labels->refs, 1);
    CHECK(cp_labels_ref(labels) == labels);
    CHECK_EQ(labels->refs, 2);
    set("a", "2"); /* the old set keeps "1", though the G now has "2" */
    CHECK_EQ(labels->refs, 1);
    CHECK_STR(cp_labels_value(labels, 0), "1");
    cp_labels_unref(labels);
    cp_m_detach(m);
}

/* ---- Scopes ---------------------------------------------------------------------------------- */

static void nested(int depth)
{
    char value[16];

    snprintf(value, sizeof value, "%d", depth);
    CP_LABEL_SCOPE("depth", value);
    check_labels("a", "1", "depth", value, "z", "2", NULL);
    if (depth < 5)
        nested(depth + 1);
    check_labels("a", "1", "depth", value, "z", "2", NULL);
}

CP_TEST(scopes_nest_and_restore)
{
    struct cp_m *m = attached();
    struct cp_labels *before;

    set("a", "1");
    set("z", "2");
    before = cp_g_self()->labels;
    nested(0);
    CHECK(cp_g_self()->labels == before); /* the same set, not an equal one */
    CHECK_EQ(before->refs, 1);
    {
        CP_LABEL_SCOPE("a", NULL); /* removes the label for the length of the scope */
        CP_LABEL_SCOPE("b", "3");
        check_labels("b", "3", "z", "2", NULL);
    }
    check_labels("a", "1", "z", "2", NULL);
    for (int i = 0; i < 3; i++) {
        CP_LABEL_SCOPE("i", "x");
        if (i == 1)
            continue; /* leaves the scope by continue */
        check_labels("a", "1", "i", "x", "z", "2", NULL);
    }
    check_labels("a", "1", "z", "2", NULL);
    cp_m_detach(m);
}

CP_TEST(a_scope_has_several_labels)
{
    const struct cp_label labels[] = {{"b", "2"}, {"a", "1"}, {"c", NULL}};
    const struct cp_label bad[] = {{"d", "4"}, {"", "5"}};
    struct cp_m *m = attached();
    struct cp_label_scope scope;

    set("c", "3");
    scope = cp_labels_begin(labels, 3);
    CHECK_EQ(scope.error, 0);
    check_labels("a", "1", "b", "2", NULL);
    cp_label_end(&scope);
    check_labels("c", "3", NULL);
    scope = cp_labels_begin(bad, 2);
    CHECK_EQ(scope.error, -EINVAL);
    check_labels("c", "3", NULL); /* the G has neither of the scopes' labels */
    cp_label_end(&scope);
    check_labels("c", "3", NULL);
    cp_m_detach(m);
    scope = cp_labels_begin(labels, 3);
    CHECK_EQ(scope.error, -ESRCH);
    cp_label_end(&scope);
}

CP_TEST(a_label_is_looked_up_by_its_key)
{
    struct cp_m *m = attached();

    CHECK(cp_label_get("a") == NULL);
    set("a", "1");
    set("b", "2");
    CHECK_STR(cp_label_get("a"), "1");
    CHECK_STR(cp_label_get("b"), "2");
    CHECK(cp_label_get("c") == NULL);
    cp_m_detach(m);
    CHECK(cp_label_get("a") == NULL);
}

CP_TEST(past_the_last_label_there_is_none)
{
    struct cp_m *m = attached();

    set("a", "1");
    CHECK(cp_labels_key(cp_g_self()->labels, 1) == NULL);
    CHECK(cp_labels_value(cp_g_self()->labels, 1) == NULL);
    CHECK(cp_labels_key(NULL, 0) == NULL);
    cp_m_detach(m);
}

/* The end of a scope removes what was set inside it. A second end of the same scope does nothing. */
CP_TEST(scopes_end_once)
{
    struct cp_m *m = attached();
    struct cp_label_scope scope = cp_label_begin("a", "1");

    CHECK_EQ(scope.error, 0);
    set("b", "2");
    check_labels("a", "1", "b", "2", NULL);
    cp_label_end(&scope);
    check_labels(NULL);
    set("c", "3");
    cp_label_end(&scope);
    check_labels("c", "3", NULL);
    cp_m_detach(m);
}

/* ---- Inheritance ----------------------------------------------------------------------------- */

CP_TEST(gs_inherit)
{
    struct cp_m *m = attached();
    struct cp_g parent, child, orphan;
    char stack[64];

    set("a", "1");
    cp_g_init(&parent, stack, stack + 64, cp_g_self());
    cp_execute(m, &parent);
    CHECK(cp_g_self() == &parent);
    CHECK_EQ(parent.labels->refs, 2);
    set("b", "2");
    check_labels("a", "1", "b", "2", NULL);
    cp_g_init(&child, stack, stack + 64, &parent);
    CHECK_EQ(child.parent_id, parent.id);
    CHECK(child.id > parent.id);
    set("b", NULL); /* the child has its own set */
    cp_execute(m, &child);
    check_labels("a", "1", "b", "2", NULL);
    cp_g_init(&orphan, stack, stack + 64, NULL);
    CHECK(orphan.labels == NULL && orphan.parent_id == 0);
    cp_execute(m, NULL);
    check_labels("a", "1", NULL);
    cp_g_fini(&parent);
    cp_g_fini(&child);
    cp_g_fini(&child);
    cp_g_fini(&orphan);
    cp_m_detach(m);
}

static int finished;

static void grandchild(void *arg)
{
    check_labels("from", arg, "who", "child", NULL);
    cp_yield();
    check_labels("from", arg, "who", "child", NULL);
    cp_fetch_add_relaxed(&finished, 1); /* relaxed: read after all have ended */
}

static void child(void *arg)
{
    check_labels("from", arg, NULL);
    CP_LABEL_SCOPE("who", "child");
    CHECK_EQ(cp_go(grandchild, arg), 0);
    for (int i = 0; i < 20; i++) {
        cp_yield();
        check_labels("from", arg, "who", "child", NULL);
    }
    cp_fetch_add_relaxed(&finished, 1);
}

static void root(void *arg)
{
    static const char *const from[] = {"one", "two", "three"};

    (void)arg;
    for (int i = 0; i < 300; i++) {
        CP_LABEL_SCOPE("from", from[i % 3]);
        CHECK_EQ(cp_go(child, (void *)(uintptr_t)from[i % 3]), 0);
    }
}

CP_TEST(gs_of_the_scheduler_inherit)
{
    struct cp_sched_options options = {.size = sizeof options, .threads = 3};
    struct cp_error err = {0};

    CHECKF(cp_sched_run(&options, root, NULL, &err) == 0, "%s", err.message);
    CHECK_EQ(finished, 600);
}

/* ---- Many threads ---------------------------------------------------------------------------- */

static struct cp_labels *common;

static void *use_common(void *arg)
{
    struct cp_m *m = attached();
    struct cp_g mine = {.labels = cp_labels_ref(common)};

    for (int i = 0; i < 20000; i++) {
        struct cp_g other;

        cp_g_init(&other, NULL, NULL, &mine);
        CHECK_STR(cp_labels_value(other.labels, 0), "everybody's");
        cp_g_fini(&other);
    }
    cp_g_fini(&mine);
    cp_m_detach(m);
    return arg;
}

CP_TEST(many_threads_may_hold_references)
{
    struct cp_m *m = attached();
    pthread_t threads[4];

    set("whose", "everybody's");
    common = cp_labels_ref(cp_g_self()->labels);
    cp_m_detach(m);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, use_common, NULL), 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_EQ(common->refs, 1);
    cp_labels_unref(common);
}
