/* A program on the runner, with tests that end in every way. The runner_* tests run the program and check its
 * output. */
#include "runner_sample.h"

#include "atomic.h"
#include "sched.h"

#include <fcntl.h>
#include <libgen.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

static void run_thread(void *(*fn)(void *), void *arg)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, fn, arg) != 0)
        abort();
    pthread_join(thread, NULL);
}

/* ---- Bad ends -------------------------------------------------------------------------------- */

/* Stacks show the calls of these functions, because no call is the last action of its caller. */
volatile int zero;
static int *volatile nowhere;

NOINLINE int writes_to_nowhere(void)
{
    *nowhere = 1;
    return zero + 1;
}

CP_TEST(crash_segv)
{
    printf("printed before the crash\n");
    cp_t_log(t, "directory %s", cp_t_temp_dir(t));
    zero = writes_to_nowhere() - 1;
}

static NOINLINE int calls_abort(void)
{
    if (!zero)
        abort();
    return 1;
}

CP_TEST(crash_abort)
{
    zero = calls_abort() - 1;
}

static NOINLINE int goes_down(volatile char *above)
{
    volatile char here[512];
    here[0] = above ? *above : 0;
    return zero ? 0 : goes_down(here) + here[1];
}

CP_TEST(crash_overflow)
{
    zero = goes_down(NULL) & 0;
}

static void crashing_sub(struct cp_t *t, void *unused)
{
    (void)t, (void)unused;
    zero = writes_to_nowhere() - 1;
}

CP_TEST(crash_sub)
{
    cp_t_run(t, "inner", crashing_sub, NULL);
}

static void *crashing_thread(void *unused)
{
    zero = writes_to_nowhere() - 1;
    return unused;
}

CP_TEST(crash_thread)
{
    run_thread(crashing_thread, NULL);
}

static NOINLINE int spins(void)
{
    while (!zero)
        ;
    return 1;
}

CP_TEST(hang_loop, .timeout_s = 1)
{
    zero = spins() - 1;
}

static NOINLINE int parks(void)
{
    while (!zero)
        cp_park();
    return 1;
}

CP_TEST(hang_park, .timeout_s = 1)
{
    zero = parks() - 1;
}

static void parking_sub(struct cp_t *t, void *unused)
{
    (void)t, (void)unused;
    zero = parks() - 1;
}

CP_TEST(hang_sub, .timeout_s = 1)
{
    cp_t_run(t, "inner", parking_sub, NULL);
}

CP_TEST(hang_logging, .timeout_s = 1)
{
    for (;;)
        cp_t_log(t, "and on");
}

/* Writes the number of a process that must not outlive the test to $SAMPLE_FILE. */
static void leave_child(void)
{
    FILE *file = fopen(getenv("SAMPLE_FILE"), "w");
    pid_t child = fork();
    if (child == 0) {
        alarm(20); /* ends the process if nothing else does */
        for (;;)
            pause();
    }
    fprintf(file, "%d", (int)child);
    fclose(file);
}

CP_TEST(hang_with_child, .timeout_s = 1)
{
    cp_t_log(t, "directory %s", cp_t_temp_dir(t));
    leave_child();
    zero = parks() - 1;
}

CP_TEST(leaves_daemon)
{
    pid_t first = fork();
    if (first == 0) {
        setsid();
        leave_child();
        _exit(0);
    }
    waitpid(first, NULL, 0);
}

/* Killing its process group does not end the process. The runner puts the process into a group of its own
 * before it reads, so the test waits for the reading. */
CP_TEST(hang_in_runners_group, .timeout_s = 1)
{
    int unread;
    puts("read this");
    while (ioctl(STDOUT_FILENO, FIONREAD, &unread) == 0 && unread > 0)
        usleep(1000);
    setpgid(0, getpgid(getppid()));
    zero = parks() - 1;
}

/* Writes the test's number to $SAMPLE_FILE. The alarm ends the test if nothing else does. */
CP_TEST(hang_telling_number, .timeout_s = 1)
{
    FILE *file = fopen(getenv("SAMPLE_FILE"), "w");
    fprintf(file, "%d", (int)getpid());
    fclose(file);
    alarm(20);
    zero = parks() - 1;
}

CP_TEST(leaves_child)
{
    leave_child();
}

static void parked_g(void *unused)
{
    (void)unused;
    zero = parks() - 1;
}

CP_TEST(leak_g)
{
    cp_go(parked_g, NULL);
}

CP_TEST(leak_memory)
{
    for (int i = 0; i < 100; i++) {
        char *volatile memory = malloc(1000); /* a compiler would not leave it out */
        memset(memory, i, 1000);
    }
}

static NOINLINE int calls_exit(int status)
{
    if (!zero)
        exit(status);
    return 1;
}

CP_TEST(exit_0)
{
    zero = calls_exit(0) - 1;
}

CP_TEST(exit_3)
{
    zero = calls_exit(3) - 1;
}

static void *exiting_thread(void *unused)
{
    zero = calls_exit(4) - 1;
    return unused;
}

CP_TEST(exit_thread)
{
    run_thread(exiting_thread, NULL);
}

CP_TEST(exit_at_once)
{
    cp_t_log(t, "directory %s", cp_t_temp_dir(t));
    _exit(5);
}

CP_TEST(exit_main_thread, .timeout_s = 1)
{
    (void)t;
    if (!zero)
        pthread_exit(NULL);
}

static void exits_badly(void)
{
    _exit(7);
}

CP_TEST(exit_status_after)
{
    atexit(exits_badly);
}

CP_TEST(kill_hard)
{
    kill(getpid(), SIGKILL);
    pause();
}

static NOINLINE int waits_for_signal(int number)
{
    kill(getpid(), number);
    while (!zero)
        pause();
    return 1;
}

CP_TEST(kill_term)
{
    zero = waits_for_signal(SIGTERM) - 1;
}

CP_TEST(kill_pipe)
{
    int ends[2];
    if (pipe(ends) != 0)
        cp_t_fatal(t, "There is no pipe.");
    close(ends[0]);
    (void)!write(ends[1], "", 1);
}

/* ---- Failures -------------------------------------------------------------------------------- */

CP_TEST(fail_error)
{
    cp_t_error(t, "first %d", 1);
    cp_t_error(t, "second\nand its second line");
}

CP_TEST(fail_fatal)
{
    cp_t_fatal(t, "the end");
    puts("after the end");
}

CP_TEST(fail_quietly)
{
    cp_t_fail(t);
    if (!cp_t_failed(t))
        puts("not failed");
    cp_t_fail_now(t);
    puts("after the end");
}

static void *failing_thread(void *t)
{
    cp_t_error(t, "from a thread");
    return NULL;
}

CP_TEST(fail_thread)
{
    run_thread(failing_thread, t);
    cp_t_log(t, "goes on");
}

static void *fatal_thread(void *t)
{
    cp_t_fatal(t, "fatal from a thread");
    return NULL;
}

static void fatal_thread_sub(struct cp_t *t, void *unused)
{
    run_thread(fatal_thread, t);
    (void)unused;
}

CP_TEST(fatal_thread)
{
    cp_t_log(t, "directory %s", cp_t_temp_dir(t));
    cp_t_run(t, "inner", fatal_thread_sub, NULL);
    puts("after the end");
}

static void fatal_g(void *t)
{
    cp_t_fatal(t, "fatal from a G");
}

CP_TEST(fatal_g)
{
    cp_go(fatal_g, t);
    zero = parks() - 1;
}

CP_TEST(skip)
{
    printf("printed before the skip\n");
    cp_t_skip(t, "no %s here", "unicorn");
    puts("after the end");
}

CP_TEST(skip_failed)
{
    cp_t_error(t, "failed first");
    cp_t_skip(t, "and then no more");
}

/* Children that a test forks may end as they like. */
CP_TEST(forks)
{
    int status;
    pid_t crashing = fork();
    if (crashing == 0)
        zero = writes_to_nowhere();
    waitpid(crashing, &status, 0);
    cp_t_log(t, "by signal: %d", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    pid_t exiting = fork();
    if (exiting == 0)
        exit(9); /* LeakSanitizer takes the Gs' memory for leaked here, and changes the status */
    waitpid(exiting, &status, 0);
    cp_t_log(t, "exit: %d", WEXITSTATUS(status));
    pid_t failing = fork();
    if (failing == 0)
        cp_t_fatal(t, "fatal in a child");
    waitpid(failing, &status, 0);
    cp_t_log(t, "fatal: %d", WEXITSTATUS(status));
}

/* ---- Subtests -------------------------------------------------------------------------------- */

void passing(struct cp_t *t, void *unused)
{
    (void)unused;
    cp_t_log(t, "this is %s", cp_t_name(t));
}

static void third(struct cp_t *t, void *fails)
{
    if (*(bool *)fails)
        cp_t_fatal(t, "third level");
}

static void second(struct cp_t *t, void *fails)
{
    bool passes = cp_t_run(t, "third", third, fails);
    cp_t_log(t, "third %s", passes ? "passed" : "failed");
}

CP_TEST(nested)
{
    bool fails = false;
    cp_t_run(t, "good", second, &fails);
    cp_t_log(t, "before");
    fails = true;
    cp_t_run(t, "bad", second, &fails);
    cp_t_log(t, "after");
    cp_t_run(t, "last", passing, NULL);
}

CP_TEST(names)
{
    static const char *const names[] = {"same",      "same",       "",           "",         "two words",
                                        "tab\tin",   "new\nline",  "a/b",        "same#01",  "per%cent",
                                        "\xc3\xa4",  "\xff\xfe",   "\"quoted\\", "#skip me", "<&>",
                                        "# SKIP no", "x # TODO y", "\x01"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        cp_t_run(t, names[i], passing, NULL);
}

CP_TEST(long_name)
{
    char name[3000];
    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = 0;
    cp_t_run(t, name, passing, NULL);
    cp_t_run(t, name, passing, NULL);
}

static const struct row {
    const char *name;
    int in, out;
} rows[] = {{"one", 1, 1}, {"two", 2, 4}, {"three", 3, 10}};

CP_TEST_TABLE(square, rows)
{
    if (row->in * row->in != row->out)
        cp_t_error(t, "%d became %d", row->in, row->in * row->in);
}

/* ---- Cleanups -------------------------------------------------------------------------------- */

static void prints(void *text)
{
    printf("cleanup %s\n", (char *)text);
}

static char words[][10] = {"first", "second", "third", "inner", "added"};

static void adds_one(void *t)
{
    prints(words[1]);
    cp_t_cleanup(t, prints, words[4]);
}

static void ends_early(void *t)
{
    prints(words[2]);
    cp_t_fatal(t, "fatal in a cleanup");
}

static void cleaned_sub(struct cp_t *t, void *unused)
{
    (void)unused;
    cp_t_cleanup(t, prints, words[3]);
    cp_t_fatal(t, "and out");
}

CP_TEST(cleanup)
{
    cp_t_cleanup(t, prints, words[0]);
    cp_t_cleanup(t, adds_one, t);
    cp_t_cleanup(t, ends_early, t);
    cp_t_run(t, "sub", cleaned_sub, NULL);
    cp_t_fatal(t, "the end");
}

static void dir_sub(struct cp_t *t, void *unused)
{
    (void)unused;
    cp_t_log(t, "directory %s", cp_t_temp_dir(t));
}

CP_TEST(dir)
{
    char path[500];
    const char *dir = cp_t_temp_dir(t);
    if (dir != cp_t_temp_dir(t))
        cp_t_error(t, "There are two.");
    snprintf(path, sizeof(path), "%s/sub", dir);
    mkdir(path, 0700);
    strcat(path, "/file");
    close(open(path, O_CREAT | O_WRONLY, 0600));
    cp_t_log(t, "directory %s", dir);
    cp_t_run(t, "sub", dir_sub, NULL);
}

CP_TEST(dir_mode)
{
    struct stat dir, parent;
    const char *path = cp_t_temp_dir(t);
    if (stat(path, &dir) == 0 && stat(dirname(strdupa(path)), &parent) == 0 && dir.st_uid == getuid() &&
        parent.st_uid == getuid())
        cp_t_log(t, "is mine with mode %o, in one of mine with mode %o", dir.st_mode & 07777,
                 parent.st_mode & 07777);
}

CP_TEST(closed_dirs)
{
    static const mode_t modes[] = {0, 0100, 0200, 0400, 0500};
    char path[500];
    const char *dir = cp_t_temp_dir(t);
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        snprintf(path, sizeof(path), "%s/%zu", dir, i);
        mkdir(path, 0700);
        strcat(path, "/sub");
        mkdir(path, 0700);
        strcat(path, "/file");
        close(open(path, O_CREAT | O_WRONLY, 0600));
        chmod(dirname(path), modes[i]);
        chmod(dirname(path), modes[i]);
    }
    chmod(dir, 0);
    cp_t_log(t, "directory %s", dir);
}

/* ---- Surroundings ---------------------------------------------------------------------------- */

CP_TEST(cpu)
{
    cp_t_log(t, "on %u", cp_t_cpu(t));
}

CP_TEST(stack)
{
    cp_t_log(t, "its stack has %zu bytes", (size_t)(cp_g_self()->stack_hi - cp_g_self()->stack_lo));
}

CP_TEST(pid)
{
    printf("pid %d\n", (int)getpid());
}

CP_TEST(self)
{
    if (cp_t_self() != t)
        cp_t_error(t, "It is another one.");
}

CP_TEST(not_a_benchmark)
{
    while (cp_bench_next(t))
        ;
}

/* With $SAMPLE_PLAIN, tests run on a thread without a scheduler. */
static int run_plainly(void (*fn)(void *), void *arg, unsigned threads, struct cp_error *err)
{
    (void)threads, (void)err;
    fn(arg);
    return 0;
}

int main(int argc, char **argv)
{
    struct cp_test_main_options options = {.size = sizeof(options), .run = run_plainly};
    return cp_test_main(argc, argv, getenv("SAMPLE_PLAIN") ? &options : NULL);
}
