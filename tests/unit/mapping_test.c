/* The list of mapped files. */
#include "pprof/symbol/mapping.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "atomic.h"
#include "tests/support/test.h"

static uint32_t forks_are_over;

static void *note_again_and_again(void *arg)
{
    struct cp__mappings mappings = {0};

    (void)arg;
    while (cp_load_relaxed(&forks_are_over) == 0) /* relaxed: nothing else is told */
        CHECK_EQ(cp__mappings_note(&mappings), 0);
    cp__mappings_free(&mappings);
    return NULL;
}

/* The fork comes while another thread holds the dynamic linker's lock. In the child that thread does not
 * exist. */
CP_TEST(a_child_finds_the_dynamic_linker_unlocked)
{
    struct cp__mappings mappings = {0};
    pthread_t thread;

    if (TEST_ASAN || TEST_TSAN)
        SKIP("a sanitizer's own locks may be held for ever in a child of a process with threads");
    CHECK_EQ(pthread_create(&thread, NULL, note_again_and_again, NULL), 0);
    for (int i = 0; i < 500; i++) {
        pid_t child = fork();
        int status;

        if (child == 0) {
            alarm(10);
            _exit(cp__mappings_note(&mappings) != 0);
        }
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECKF(status == 0, "child %d: %#x", i, (unsigned)status);
    }
    cp_store_relaxed(&forks_are_over, 1);
    pthread_join(thread, NULL);
}
