/*
 * A program that knows nothing of the profiler, for run_test.c to run under `counterpoint run`. Its first
 * argument says how it ends, or what it does before that. Prints only what it would print without a profiler,
 * too.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define WORK_MS 60

static volatile unsigned long sink;

/* Takes so much of the thread's CPU time. Not inline, so that the profile has the function. */
static __attribute__((noinline)) void work(int ms)
{
    struct timespec now, begin;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    do {
        for (int i = 0; i < 20000; i++)
            sink += (unsigned long)i;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < ms);
}

/* ---- Threads --------------------------------------------------------------------------------- */

static __attribute__((noinline)) void *named_thread(void *name)
{
    pthread_setname_np(pthread_self(), name);
    work(WORK_MS);
    return NULL;
}

static __attribute__((noinline)) int c11_thread(void *unused)
{
    (void)unused;
    prctl(PR_SET_NAME, "eleven");
    work(WORK_MS);
    return 7;
}

static void in_threads(void)
{
    char one[] = "one", two[] = "two";
    pthread_t threads[2];
    thrd_t c11;
    int result = 0;

    pthread_create(&threads[0], NULL, named_thread, one);
    pthread_create(&threads[1], NULL, named_thread, two);
    thrd_create(&c11, c11_thread, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    thrd_join(c11, &result);
    printf("%d\n", result);
}

static void *leave_by_pthread_exit(void *unused)
{
    (void)unused;
    work(WORK_MS);
    pthread_exit(NULL);
}

/* The process ends when the last thread has ended. */
static void main_leaves_first(void)
{
    pthread_t thread;

    pthread_create(&thread, NULL, leave_by_pthread_exit, NULL);
    pthread_detach(thread);
    pthread_exit(NULL);
}

/* ---- Processes ------------------------------------------------------------------------------- */

static void wait_for(pid_t child)
{
    int status = 0;

    waitpid(child, &status, 0);
    printf("%d %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1,
           WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static void in_children(void)
{
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        work(WORK_MS);
        _exit(5);
    }
    wait_for(child);
    child = vfork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "exit 6", (char *)NULL);
        _exit(1);
    }
    wait_for(child);
}

/* A thread with the smallest stack forks. */
static void *fork_on_small_stack(void *unused)
{
    pid_t child = fork();

    (void)unused;
    if (child == 0) {
        work(WORK_MS);
        _exit(8);
    }
    wait_for(child);
    return NULL;
}

static void in_small_thread(void)
{
    pthread_attr_t attributes;
    pthread_t thread;

    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN));
    pthread_create(&thread, &attributes, fork_on_small_stack, NULL);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}

/* What cannot be executed leaves the program as it was. */
static void execute(char *self, const char *what)
{
    char *const arguments[] = {self, strdup(what), NULL};

    work(WORK_MS);
    execl("/nonexistent", "nonexistent", (char *)NULL);
    printf("%d\n", errno == ENOENT);
    execl("/dev/null", "null", (char *)NULL);
    printf("%d\n", errno == EACCES);
    close(open("no-program", O_WRONLY | O_CREAT, 0777));
    execl("./no-program", "no-program", (char *)NULL);
    printf("%d\n", errno == ENOEXEC);
    fflush(stdout);
    work(WORK_MS);
    execvp(self, arguments);
    printf("not executed\n");
}

/* As daemon(3) does. The test knows by the pipe at stdout when the daemon has ended. */
static void become_daemon(void)
{
    if (fork() != 0)
        _exit(0);
    setsid();
    closefrom(3);
    work(WORK_MS);
}

/* ---- Signals --------------------------------------------------------------------------------- */

static volatile sig_atomic_t handled;

static void count_signal(int number)
{
    handled += number;
}

static const char *name_of(const struct sigaction *action)
{
    return action->sa_handler == SIG_DFL        ? "default"
           : action->sa_handler == SIG_IGN      ? "ignored"
           : action->sa_handler == count_signal ? "own"
                                                : "another";
}

/* Prints what the program has as handlers, and whether they are called. */
static void with_handlers(void)
{
    static const int numbers[] = {SIGTRAP, SIGPROF, SIGTERM, SIGUSR1, SIGSEGV, SIGCHLD};
    struct sigaction action = {.sa_handler = count_signal}, old;

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        sigaction(numbers[i], &action, &old);
        printf("%d: %s", numbers[i], name_of(&old));
        sigaction(numbers[i], NULL, &old);
        printf(", %s", name_of(&old));
        handled = 0;
        raise(numbers[i]);
        printf(", %d", handled == numbers[i]);
        printf(", %d", signal(numbers[i], SIG_IGN) == count_signal);
        raise(numbers[i]);
        printf(", %d\n", signal(numbers[i], SIG_DFL) == SIG_IGN);
    }
    work(WORK_MS);
}

/* A child that begins when the file, which is that of the profile, has been written. */
static void in_late_child(const char *file)
{
    struct stat found;

    for (int i = 0; file != NULL && i < 1000 && (stat(file, &found) < 0 || found.st_size == 0); i++)
        work(WORK_MS);
    work(WORK_MS);
    if (fork() == 0) {
        with_handlers();
        _exit(0);
    }
    wait(NULL);
}

#pragma GCC diagnostic ignored "-Winfinite-recursion"
static void overflow(volatile char *before)
{
    volatile char here[4096];

    here[0] = before == NULL ? 0 : before[0];
    overflow(here);
    here[1] = here[0];
}

/* ---- Descriptors ----------------------------------------------------------------------------- */

/* The program gets the numbers that it would get without a profiler, and may close whatever is above them. */
static void with_descriptors(void)
{
    int first = open("/dev/null", O_RDONLY), second = open("/dev/null", O_RDONLY);

    printf("%d %d\n", first, second);
    work(WORK_MS);
    printf("%d\n", close_range(3, ~0u, 0));
    printf("%d\n", fcntl(first, F_GETFD) < 0 && fcntl(second, F_GETFD) < 0);
    work(WORK_MS);
}

/* As services do, so that ps shows what a process does. */
static void take_title(char *argument)
{
    umask(0);
    memset(argument, 'x', strlen(argument));
    if (fork() == 0) {
        work(WORK_MS);
        _exit(0);
    }
    wait(NULL);
}

/* ---- The end --------------------------------------------------------------------------------- */

static void end_by_signal(const char *number)
{
    work(WORK_MS);
    raise(atoi(number));
    printf("not ended\n");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "return";

    setvbuf(stdout, NULL, _IONBF, 0);
    if (strcmp(what, "threads") == 0)
        in_threads();
    else if (strcmp(what, "main-leaves") == 0)
        main_leaves_first();
    else if (strcmp(what, "children") == 0)
        in_children();
    else if (strcmp(what, "small-thread") == 0)
        in_small_thread();
    else if (strcmp(what, "execute") == 0)
        execute(argv[0], "return");
    else if (strcmp(what, "daemon") == 0)
        become_daemon();
    else if (strcmp(what, "handlers") == 0)
        with_handlers();
    else if (strcmp(what, "late-handlers") == 0) {
        work(3 * WORK_MS);
        with_handlers();
    } else if (strcmp(what, "late-child") == 0)
        in_late_child(argv[2]);
    else if (strcmp(what, "descriptors") == 0)
        with_descriptors();
    else if (strcmp(what, "signal") == 0)
        end_by_signal(argv[2]);
    else if (strcmp(what, "title") == 0)
        take_title(argv[0]);
    else if (strcmp(what, "overflow") == 0)
        overflow(NULL);
    work(WORK_MS);
    if (strcmp(what, "_exit") == 0)
        _exit(3);
    if (strcmp(what, "quick_exit") == 0)
        quick_exit(4);
    if (strcmp(what, "loop") == 0)
        for (;;)
            work(WORK_MS);
    return 0;
}
