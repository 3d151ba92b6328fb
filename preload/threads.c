/*
 * The program's calls that begin and end threads. Each thread is an M from before its first instruction to
 * after its last one, and its samples carry its name.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <threads.h>
#include <unistd.h>

#include "atomic.h"
#include "process.h"
#include "real.h"
#include "runtime/base/os.h"
#include "runtime/base/sys_linux.h"
#include "runtime/base/thread.h"

/* ---- Threads that end ------------------------------------------------------------------------ */

/* The program's threads that have not ended. The C library ends a process when its last thread has ended. It
 * counts the threads of this library, too, so this library counts those of the program. */
static int32_t left = 1;

/* Its destructor runs however a thread ends: by a return, pthread_exit(), thrd_exit(), or a cancellation, the
 * thread of main() included. The value is the round of destructors that the C library is in. */
static pthread_key_t ending;
static bool has_key;

/* What /proc/self/task tells of the program's threads. */
struct told {
    pid_t self;
    bool is_told; /* the system has told of some thread */
    bool has_others;
};

static void look_at_thread(void *context, pid_t tid)
{
    struct told *told = context;

    told->is_told = true;
    told->has_others |= tid != told->self && tid != getpid() && !cp__own_threads_have(tid);
}

/* Looks for threads of the program's but for the calling one and that of main(). */
static struct told look_for_others(void)
{
    struct told told = {.self = cp__os_tid()};

    cp__os_each_thread(look_at_thread, &told);
    return told;
}

/* Returns whether the thread of main() has ended: it stays as a zombie until the process has. */
static bool has_main_ended(void)
{
    char text[256];
    int fd = cp__sys_open_from_handler("/proc/self/stat");
    long size = fd < 0 ? -1 : cp__sys_read_from_handler(fd, text, sizeof text - 1);
    const char *end;

    if (fd >= 0)
        cp__sys_close_from_handler(fd);
    if (size <= 0)
        return false;
    text[size] = '\0';
    end = strrchr(text, ')');
    return end != NULL && end[1] == ' ' && end[2] == 'Z';
}

bool cp__threads_have_ended(void)
{
    struct told told;

    if (!has_main_ended())
        return false;
    told = look_for_others();
    return told.is_told && !told.has_others;
}

/* The C library makes threads that are not counted (for SIGEV_THREAD). If one of them is the last one, or two
 * threads end at once, cp__threads_have_ended() tells the scribe. */
static void one_has_ended(void)
{
    /* acquire and release: pairs with itself, in the other threads */
    if (cp_fetch_sub_acq_rel(&left, 1) == 1 && !look_for_others().has_others)
        exit(0);
}

/* Runs in each round, and counts the thread in the last one, because the program's destructors may be
 * behind this one. The core's detaches the thread in the first round. */
static void end_thread(void *round)
{
    const uintptr_t next = (uintptr_t)round + 1;
    int unused;

    /* A thread that may be cancelled anywhere must not be cancelled in here. It has nothing else to do. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &unused);
    if (next <= PTHREAD_DESTRUCTOR_ITERATIONS && pthread_setspecific(ending, (void *)next) == 0)
        return;
    if (cp__process_is_profiled_from_handler())
        one_has_ended();
}

static void await_end_of_this_thread(void)
{
    if (has_key)
        pthread_setspecific(ending, (void *)1);
}

/* ---- Threads that begin ---------------------------------------------------------------------- */

/* What a thread is to run: one of the two. */
struct beginning {
    void *(*fn)(void *);
    thrd_start_t c11_fn;
    void *arg;
};

static struct beginning begin_thread(void *arg)
{
    const struct beginning beginning = *(struct beginning *)arg;

    free(arg);
    await_end_of_this_thread();
    cp__process_attach_thread();
    return beginning;
}

static void *run_thread(void *arg)
{
    const struct beginning beginning = begin_thread(arg);

    return beginning.fn(beginning.arg);
}

static int run_c11_thread(void *arg)
{
    const struct beginning beginning = begin_thread(arg);

    return beginning.c11_fn(beginning.arg);
}

static struct beginning *new_beginning(struct beginning what)
{
    struct beginning *beginning = malloc(sizeof *beginning);

    if (beginning == NULL)
        return NULL;
    *beginning = what;
    cp_fetch_add_relaxed(&left, 1); /* relaxed: the caller is a thread that has not ended */
    return beginning;
}

static void forget_beginning(struct beginning *beginning)
{
    cp_fetch_sub_acq_rel(&left, 1); /* never the last one: the caller has not ended */
    free(beginning);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *), void *arg)
{
    struct beginning *beginning;
    int result;

    if (!cp__process_is_profiled_from_handler())
        return REAL(pthread_create)(thread, attributes, fn, arg);
    beginning = new_beginning((struct beginning){.fn = fn, .arg = arg});
    if (beginning == NULL)
        return EAGAIN;
    result = REAL(pthread_create)(thread, attributes, run_thread, beginning);
    if (result != 0)
        forget_beginning(beginning);
    return result;
}

int thrd_create(thrd_t *thread, thrd_start_t fn, void *arg)
{
    struct beginning *beginning;
    int result;

    if (!cp__process_is_profiled_from_handler())
        return REAL(thrd_create)(thread, fn, arg);
    beginning = new_beginning((struct beginning){.c11_fn = fn, .arg = arg});
    if (beginning == NULL)
        return thrd_nomem;
    result = REAL(thrd_create)(thread, run_c11_thread, beginning);
    if (result != thrd_success)
        forget_beginning(beginning);
    return result;
}

/* ---- The thread that is there before the library ---------------------------------------------- */

void cp__threads_begin(void)
{
    has_key = pthread_key_create(&ending, end_thread) == 0;
    await_end_of_this_thread();
}

/* A child of fork() has one thread. */
void cp__threads_forget(void)
{
    cp_store_relaxed(&left, 1); /* relaxed: this is the only thread */
    await_end_of_this_thread();
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* A child of vfork() has its parent's memory, and its own name. */
static void note_name(void)
{
    if (cp__process_has_handlers_from_handler())
        cp__process_name_thread();
}

int pthread_setname_np(pthread_t thread, const char *name)
{
    int result = REAL(pthread_setname_np)(thread, name);

    if (result == 0 && pthread_equal(thread, pthread_self()))
        note_name();
    return result;
}

int prctl(int option, ...)
{
    unsigned long arguments[4];
    va_list list;
    int result;

    va_start(list, option);
    for (int i = 0; i < 4; i++)
        arguments[i] = va_arg(list, unsigned long);
    va_end(list);
    result = REAL(prctl)(option, arguments[0], arguments[1], arguments[2], arguments[3]);
    if (option == PR_SET_NAME && result == 0)
        note_name();
    return result;
}
