/* Sessions of programs that replace code while they are sampled. */
#include <dlfcn.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/patience.h"
#include "tests/support/session_tools.h"

/* Compiles libNAME.so, whose function NAME calls what it is given, and is at the same place in each. */
static void compile(const char *name)
{
    free(test_command(NULL,
                      "cd %s && echo 'void %s(void (*f)(long), long ns) { f(ns); __asm__(\"\"); }' | "
                      "gcc -xc -O1 -shared -fPIC -Wl,--build-id -o lib%s.so -",
                      test_dir(), name, name));
}

static void *load(const char *name, void (**call)(void (*)(long), long))
{
    char path[300];
    void *library;

    snprintf(path, sizeof path, "%s/lib%s.so", test_dir(), name);
    library = dlopen(path, RTLD_NOW);
    CHECKF(library != NULL, "%s", dlerror());
    *(void **)call = dlsym(library, name);
    return library;
}

/* ---- The profile's thread -------------------------------------------------------------------- */

static pthread_t program;
static int is_held, waits;

/* Plays futex(2). While the profile's thread is to be held, its first wait ends at once, and so a whole pass
 * follows; it stays in the second one. */
static long hold_in_wait(long number, const long arguments[6])
{
    int n;

    /* here and below: an acquire pairs with the release in hold_reader() and let_reader_go() */
    if (number != SYS_futex || arguments[1] != FUTEX_WAIT_PRIVATE || cp_load_acquire(&is_held) == 0 ||
        pthread_equal(pthread_self(), program))
        return sim_hand_on(number, arguments);
    n = cp_load_relaxed(&waits) + 1; /* relaxed: stored by this thread */
    cp_store_release(&waits, n);     /* pairs with the acquire in hold_reader() */
    while (n > 1 && cp_load_acquire(&is_held) != 0)
        usleep(NAP_US);
    return 0;
}

/* Returns when the profile's thread has noted what is loaded, knows its code, and looks at nothing more. */
static void hold_reader(void)
{
    struct patience patience = {.looks = 0};

    cp_store_release(&is_held, 1);
    while (cp_load_acquire(&waits) < 2) { /* pairs with the release in hold_in_wait() */
        CHECK(has_patience(&patience));
        usleep(NAP_US);
    }
}

static void let_reader_go(void)
{
    cp_store_release(&is_held, 0);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

/* Between the two libraries, the profile's thread does not look. */
SIM_TEST(what_ran_before_a_replacement_has_its_own_name)
{
    struct cp_memory memory = {0};
    const struct cp_profiling_option option =
        cp_option_event(cp_writer_memory(&memory), "taskClock", 1000000);
    void (*first)(void (*)(long), long), (*second)(void (*)(long), long);
    struct cp_session *session;
    struct cp_error err;
    void *library;
    char *text;

    compile("first"), compile("second");
    program = pthread_self();
    sim_hook(hold_in_wait);
    attach();
    CHECKF(cp_session_start(&session, &option, 1, &err) == 0, "%s", err.message);
    library = load("first", &first);
    hold_reader();
    first(burn_here, 50000000);
    dlclose(library);
    library = load("second", &second);
    if (first != second)
        SKIP("the linker puts the second library elsewhere");
    second(burn_here, 30000000);
    let_reader_go();
    CHECKF(cp_session_stop(session, &err) == 0, "%s", err.message);
    cp_session_close(session);
    dlclose(library);
    save(&memory, file_in_dir("reload.pb.gz"));
    text = pprof("-symbolize=none -peek burn_here", file_in_dir("reload.pb.gz"));
    CHECK_CONTAINS(text, "50ms 62.50% |   first");
    CHECK_CONTAINS(text, "30ms 37.50% |   second");
    free(text);
    text = pprof("-comments", file_in_dir("reload.pb.gz"));
    CHECK(strstr(text, "code_replaced") == NULL);
    free(text);
    free(memory.data);
}
