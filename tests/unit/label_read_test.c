/*
 * Reads the labels of a G that runs while the G replaces them, at the two moments that matter. The stubbed
 * barrier stops the reader before it looks at the G; a page without access stops the reader after it has
 * found a set and before it takes a reference.
 */
#include "tests/support/burn.h"
#include "tests/support/stub_syscall.h"

#include <linux/membarrier.h>
#include <sys/mman.h>

#include "runtime/label.h"

static void (*at_barrier)(void);

static long stub_syscall(long number, const long arguments[6])
{
    void (*call)(void) = at_barrier;

    if (number == SYS_membarrier && call != NULL) {
        at_barrier = NULL;
        call();
    }
    return hand_on(number, arguments);
}

/* ---- Sets in pages of their own -------------------------------------------------------------- */

#define PAGE 65536u /* a multiple of any machine's page size */

/* A set that free() accepts, alone in its page. */
static struct cp_labels *new_set(void)
{
    struct cp_labels *set = aligned_alloc(PAGE, PAGE);

    CHECK(set != NULL);
    memset(set, 0, PAGE);
    set->refs = 1;
    return set;
}

/* ---- Before the barrier ---------------------------------------------------------------------- */

static struct cp_g g;
static struct cp_labels *old, *new;

/* Does what a G on another processor has done before the barrier, and what becomes visible with the barrier:
 * the G has replaced its labels, and has freed the old set because it saw no reader. */
static void replace_before_barrier(void)
{
    cp_store_release(&g.labels, new); /* pairs with the acquire in cp_g_labels() */
    old->refs = 77;                   /* a value that freed memory may have */
}

CP_TEST(the_barrier_comes_before_the_look)
{
    struct cp_labels *labels;

    old = new_set();
    new = new_set();
    g.labels = old;
    at_barrier = replace_before_barrier;
    labels = cp_g_labels(&g);
    CHECK(labels == new);
    CHECK_EQ(new->refs, 2);
    CHECK_EQ(old->refs, 77);
}

/* ---- A G that replaces its labels meanwhile -------------------------------------------------- */

static struct {
    struct cp_g *g;
    pid_t tid;
    int is_ready, may_replace, has_replaced; /* atomic */
    bool waited;                             /* for the reader to finish, before it freed the old set */
} owner;

static void *own(void *arg)
{
    struct worker worker = {.body = NULL};

    attach(&worker);
    owner.tid = (pid_t)syscall(SYS_gettid);
    owner.g = cp_g_self();
    owner.g->labels = old;
    cp_store_release(&owner.is_ready, 1); /* pairs with the acquire in await() */
    await(&owner.may_replace, 1);
    CHECK_EQ(cp_label_set("a", "new"), 0);
    cp_store_release(&owner.has_replaced, 1); /* pairs with the acquire in let_owner_replace() */
    cp_m_detach(worker.m);
    return arg;
}

static bool is_asleep(pid_t tid)
{
    char path[48], text[256] = "";
    FILE *file;
    const char *state;

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    file = fopen(path, "re");
    CHECK(file != NULL);
    CHECK(fgets(text, sizeof text, file) != NULL);
    fclose(file);
    state = strrchr(text, ')');
    return state != NULL && strncmp(state, ") S", 3) == 0;
}

/* Lets the owner drop the last reference to the old set, and waits until it sleeps or has gone on. */
static void let_owner_replace(void)
{
    cp_store_release(&owner.may_replace, 1); /* pairs with the acquire in await() */
    while (cp_load_acquire(&old->refs) != 0) /* pairs with the release in cp_labels_unref() */
        sleep_ms(1);
    /* acquire: pairs with the release in own() */
    while (!is_asleep(owner.tid) && cp_load_acquire(&owner.has_replaced) == 0)
        sleep_ms(1);
    owner.waited = cp_load_acquire(&owner.has_replaced) == 0;
}

/* The reader itself causes the fault by its access, so this handler may call any function. */
static void on_look(int signal)
{
    (void)signal;
    CHECK_EQ(mprotect(old, PAGE, PROT_READ | PROT_WRITE), 0);
    let_owner_replace();
}

static void check_that_owner_waits(void)
{
    struct cp_labels *labels = cp_g_labels(owner.g);

    CHECK(owner.waited);
    CHECK_EQ(cp_labels_count(labels), 1);
    CHECK_STR(cp_labels_value(labels, 0), "new");
    cp_labels_unref(labels);
}

static void start_owner(pthread_t *thread)
{
    old = new_set();
    CHECK_EQ(pthread_create(thread, NULL, own, NULL), 0);
    await(&owner.is_ready, 1);
}

/* The reader announces itself before the barrier, so a G that frees a set after the barrier waits. */
CP_TEST(who_frees_a_set_after_the_barrier_waits)
{
    pthread_t thread;

    start_owner(&thread);
    at_barrier = let_owner_replace;
    check_that_owner_waits();
    pthread_join(thread, NULL);
}

CP_TEST(who_frees_a_set_that_has_been_seen_waits)
{
    struct sigaction action = {.sa_handler = on_look};
    pthread_t thread;

    if (TEST_TSAN)
        SKIP("ThreadSanitizer takes a handler of a fault for one that may come at any time");
    start_owner(&thread);
    CHECK_EQ(sigaction(SIGSEGV, &action, NULL), 0);
    CHECK_EQ(mprotect(old, PAGE, PROT_NONE), 0);
    check_that_owner_waits();
    pthread_join(thread, NULL);
}
