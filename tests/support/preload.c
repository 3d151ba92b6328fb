/* A preload that profiles a program which knows nothing of it: each thread is an M from its first function
 * on, and a session runs until the exit.
 *
 *     PRELOAD_OUT      the profile's file
 *     PRELOAD_ENOUGH   a file that is made when the profile has some samples, or when there will be none
 *     PRELOAD_REFUSED  a file that says why there will be none
 *     PRELOAD_AT_ONCE  If it is set, the session begins before main(), and otherwise when the program has
 *                      installed its handlers of signals.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "pprof.h"

#define MOMENT_US 100000
#define LOOK_US 10000
#define SAMPLES 200

struct start {
    void *(*body)(void *);
    void *arg;
};

static struct cp_session *session;
static pthread_t starter;
static pid_t self;
static int ends; /* atomic: the program exits */
static const char *enough, *refused;
static _Thread_local bool is_in_library; /* what the thread starts then is no thread of the program's */

/* The thread is detached by the library when it ends. */
static void *attach_and_run(void *arg)
{
    struct start start = *(struct start *)arg;
    struct cp_m *m;

    free(arg);
    cp_m_attach(&m, NULL);
    return start.body(start.arg);
}

static int create_really(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *), void *arg)
{
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

    *(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
    return create(thread, attr, body, arg);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *), void *arg)
{
    struct start *start = is_in_library ? NULL : malloc(sizeof *start);
    int result;

    if (start == NULL)
        return create_really(thread, attr, body, arg);
    *start = (struct start){.body = body, .arg = arg};
    result = create_really(thread, attr, attach_and_run, start);
    if (result != 0)
        free(start);
    return result;
}

static void write_file(const char *path, const char *text)
{
    FILE *file = path != NULL ? fopen(path, "we") : NULL;

    if (file == NULL)
        return;
    fputs(text, file);
    fclose(file);
}

static void start_session(const char *path)
{
    struct cp_profiling_option option = cp_option_event(cp_writer_path(path), "taskClock", 1000000);
    struct cp_error err;

    is_in_library = true;
    if (cp_session_start(&session, &option, 1, &err) < 0)
        write_file(refused, err.message);
    is_in_library = false;
}

static void *watch_session(void *path)
{
    struct cp_slot_stats stats = {.size = sizeof stats};

    if (path != NULL) {
        usleep(MOMENT_US);
        start_session(path);
    }
    while (session != NULL && __atomic_load_n(&ends, __ATOMIC_ACQUIRE) == 0 &&
           (cp_session_stats(session, 0, &stats) < 0 || stats.samples < SAMPLES))
        usleep(LOOK_US);
    write_file(enough, "");
    return NULL;
}

__attribute__((constructor)) static void begin(void)
{
    struct cp_m *m;
    char *path = getenv("PRELOAD_OUT");
    bool at_once = getenv("PRELOAD_AT_ONCE") != NULL;

    unsetenv("LD_PRELOAD"); /* what the program starts is not profiled */
    enough = getenv("PRELOAD_ENOUGH");
    refused = getenv("PRELOAD_REFUSED");
    self = getpid();
    if (path == NULL || cp_m_attach(&m, NULL) < 0)
        return;
    if (at_once)
        start_session(path);
    create_really(&starter, NULL, watch_session, at_once ? NULL : path);
}

__attribute__((destructor)) static void end(void)
{
    struct cp_error err;

    if (getpid() != self)
        return;
    __atomic_store_n(&ends, 1, __ATOMIC_RELEASE);
    if (starter != 0)
        pthread_join(starter, NULL);
    if (session != NULL && cp_session_stop(session, &err) < 0)
        write_file(refused, err.message);
}
