/* A fork while another thread initialises libpfm4, which the child cannot initialise again. */
#include "tests/support/burn.h"

#include <dlfcn.h>
#include <perfmon/pfmlib.h>
#include <semaphore.h>
#include <sys/wait.h>

static sem_t begun, may_end;

/* Takes the place of libpfm4's function. */
pfm_err_t pfm_initialize(void)
{
    pfm_err_t (*real)(void);

    *(void **)&real = dlsym(RTLD_NEXT, "pfm_initialize");
    sem_post(&begun);
    sem_wait(&may_end);
    return real();
}

static void *looks_up(void *arg)
{
    struct cp_event_spec spec = {.size = sizeof spec};

    cp_event_parse("pfm:no_such_event", &spec, arg);
    return NULL;
}

CP_TEST(a_child_is_refused_names_of_libpfm4_that_is_half_initialised)
{
    static const char refusal[] = "this process was forked while another thread was initialising libpfm4";
    struct cp_error err = {0}, other = {0};
    pthread_t thread;
    pid_t pid;
    int status;

    if (TEST_TSAN)
        SKIP("ThreadSanitizer does not let a child of a program with threads go on.");
    sem_init(&begun, 0, 0);
    sem_init(&may_end, 0, 0);
    CHECK_EQ(pthread_create(&thread, NULL, looks_up, &other), 0);
    sem_wait(&begun);
    pid = fork();
    if (pid == 0) {
        alarm(5);
        for (int i = 0; i < 2; i++) {
            looks_up(&err);
            CHECK_CONTAINS(err.message, refusal);
        }
        _exit(0);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECKF(status == 0, "the child ended with %#x", (unsigned)status);
    sem_post(&may_end);
    pthread_join(thread, NULL);
    CHECK(other.code < 0 && strstr(other.message, refusal) == NULL);
}
