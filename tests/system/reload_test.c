/* Sessions of programs that replace code while they are sampled. */
#include <dlfcn.h>
#include <unistd.h>

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

/* Waits until the profile's thread has noted what is loaded, and knows its code: the first sample, whose
 * stack has no callers yet, wakes the thread. */
static void burn_and_wait(void (*call)(void (*)(long), long))
{
    call(burn_here, 1000000);
    usleep(200000);
}

/* The profile's thread looks at both libraries only afterwards. */
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
    attach();
    CHECKF(cp_session_start(&session, &option, 1, &err) == 0, "%s", err.message);
    library = load("first", &first);
    burn_and_wait(first);
    first(burn_here, 50000000);
    dlclose(library);
    library = load("second", &second);
    if (first != second)
        SKIP("the linker puts the second library elsewhere");
    second(burn_here, 30000000);
    CHECKF(cp_session_stop(session, &err) == 0, "%s", err.message);
    cp_session_close(session);
    dlclose(library);
    save(&memory, file_in_dir("reload.pb.gz"));
    text = pprof("-symbolize=none -peek burn_here", file_in_dir("reload.pb.gz"));
    CHECK_CONTAINS(text, "50ms 61.73% |   first");
    CHECK_CONTAINS(text, "30ms 37.04% |   second");
    free(text);
    text = pprof("-comments", file_in_dir("reload.pb.gz"));
    CHECK(strstr(text, "code_replaced") == NULL);
    free(text);
    free(memory.data);
}
