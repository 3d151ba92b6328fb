/* The test harness: see test.h. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STATUS_FAILED = 1, STATUS_SKIPPED = 77 };

static struct test_case *first, **last = &first;
static bool in_process;
static bool verbose;
static char group[64]; /* the program's name without _test: what a test's name begins with */
static char directory[PATH_MAX];

void test_add(struct test_case *test)
{
    *last = test;
    last = &test->next;
}

static struct test_case *find(const char *name)
{
    for (struct test_case *t = first; t; t = t->next)
        if (strcmp(t->name, name) == 0)
            return t;
    fprintf(stderr, "There is no test \"%s\"; -l lists them.\n", name);
    exit(2);
}

/* ---- In the test's process ------------------------------------------------------------------- */

/* Ends the test from whatever thread and stack it is on; in-process a failure stops in the debugger. */
static _Noreturn void end(int status)
{
    fflush(NULL);
    if (!in_process)
        _exit(status);
    if (status == STATUS_FAILED)
        abort();
    exit(status);
}

void test_fail(const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("%s:%d: ", file, line);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    end(STATUS_FAILED);
}

void test_fail_because(const char *file, int line, const char *what, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("%s:%d: %s: ", file, line, what);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    end(STATUS_FAILED);
}

void test_check_str(const char *file, int line, const char *what, const char *a, const char *b)
{
    if (a != b && (!a || !b || strcmp(a, b) != 0))
        test_fail(file, line, "%s: \"%s\" and \"%s\"", what, a ? a : "(null)", b ? b : "(null)");
}

void test_check_contains(const char *file, int line, const char *what, const char *text, const char *part)
{
    if (!text || !strstr(text, part))
        test_fail(file, line, "%s: no \"%s\" in:\n%s", what, part, text ? text : "(null)");
}

void test_skip(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    end(STATUS_SKIPPED);
}

static _Noreturn void run_here(struct test_case *test)
{
    test->run();
    exit(0);
}

/* Points all of the test's output at fd, where the parent finds it even after a crash. */
static void redirect(int fd)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    close(null);
    setvbuf(stdout, NULL, _IONBF, 0);
}

static _Noreturn void run_forked(struct test_case *test, int output)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    redirect(output);
    run_here(test);
}

/* ---- Surroundings ---------------------------------------------------------------------------- */

static void name_directory(const struct test_case *test)
{
    snprintf(directory, sizeof(directory), "/tmp/counterpoint-%d-%s", (int)getpid(), test->name);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void remove_directory(void)
{
    nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *test_dir(void)
{
    if (mkdir(directory, 0700) < 0 && errno != EEXIST)
        test_fail(__FILE__, __LINE__, "mkdir %s: %s", directory, strerror(errno));
    return directory;
}

const char *test_build_dir(void)
{
    static char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (n < 0)
        test_fail(__FILE__, __LINE__, "readlink /proc/self/exe: %s", strerror(errno));
    path[n] = 0;
    for (int levels = 0; levels < 2; levels++)
        *strrchr(path, '/') = 0;
    return path;
}

/* All that a stream holds, zero-terminated; goes on after a signal handler interrupted it. */
static char *read_all(FILE *stream)
{
    char *text = NULL;
    size_t size = 0;
    FILE *copy = open_memstream(&text, &size);
    char buf[4096];
    for (;;) {
        size_t n = fread(buf, 1, sizeof(buf), stream);
        fwrite(buf, 1, n, copy);
        if (feof(stream) || (ferror(stream) && errno != EINTR))
            break;
        clearerr(stream);
    }
    fclose(copy);
    return text;
}

char *test_command(int *status, const char *format, ...)
{
    char *command, *wrapped;
    va_list args;
    va_start(args, format);
    if (vasprintf(&command, format, args) < 0 || asprintf(&wrapped, "{ %s\n} 2>&1", command) < 0)
        test_fail(__FILE__, __LINE__, "out of memory");
    va_end(args);
    FILE *pipe = popen(wrapped, "re");
    if (!pipe)
        test_fail(__FILE__, __LINE__, "%s: %s", command, strerror(errno));
    char *output = read_all(pipe);
    int raw = pclose(pipe);
    int code = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
    if (status)
        *status = code;
    else if (code != 0)
        test_fail(__FILE__, __LINE__, "%s: exit status %d\n%s", command, code, output);
    free(command);
    free(wrapped);
    return output;
}

/* ---- In the parent --------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Waits for the child, at most until the deadline; whatever is left of its process group is killed. */
static bool wait_until(pid_t pid, double deadline, int *status)
{
    struct pollfd ended = {.fd = pidfd_open(pid, 0), .events = POLLIN};
    if (ended.fd < 0) {
        perror("pidfd_open");
        exit(2);
    }
    double left;
    int n = 0;
    while (n <= 0 && (left = deadline - now()) > 0)
        n = poll(&ended, 1, (int)(left * 1000) + 1);
    close(ended.fd);
    kill(-pid, SIGKILL); /* not yet reaped: the group's number is still its own */
    waitpid(pid, status, 0);
    return n > 0;
}

static void show_output(const char *text)
{
    while (*text) {
        int n = (int)strcspn(text, "\n");
        printf("      | %.*s\n", n, text);
        text += n + (text[n] == '\n');
    }
}

static void show_skipped(const char *name, char *output)
{
    size_t n = strlen(output);
    while (n > 0 && output[n - 1] == '\n')
        output[--n] = 0;
    const char *line = strrchr(output, '\n'); /* the reason is what it said last */
    printf("skip  %s/%s: %s\n", group, name, line ? line + 1 : output);
}

static void show_failed(const struct test_case *test, int status, bool in_time)
{
    printf("FAIL  %s/%s: ", group, test->name);
    if (!in_time)
        printf("no end after %u s\n", test->limit_s * TEST_SLOWDOWN);
    else if (WIFSIGNALED(status))
        printf("killed by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        printf("exit status %d\n", WEXITSTATUS(status));
}

enum outcome { PASSED, FAILED, SKIPPED, OUTCOMES };

static enum outcome show(const struct test_case *test, int status, bool in_time, double seconds, char *output)
{
    enum outcome outcome = FAILED;
    if (in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        outcome = PASSED;
    else if (in_time && WIFEXITED(status) && WEXITSTATUS(status) == STATUS_SKIPPED)
        outcome = SKIPPED;

    if (outcome == PASSED)
        printf("ok    %s/%s (%.2f s)\n", group, test->name, seconds);
    else if (outcome == FAILED)
        show_failed(test, status, in_time);
    if (outcome == FAILED || verbose)
        show_output(output);
    if (outcome == SKIPPED)
        show_skipped(test->name, output);
    return outcome;
}

static enum outcome run(struct test_case *test)
{
    name_directory(test);
    int output = memfd_create("output", MFD_CLOEXEC);
    fflush(stdout);
    double start = now();
    pid_t pid = fork();
    if (output < 0 || pid < 0) {
        perror("memfd_create or fork");
        exit(2);
    }
    if (pid == 0)
        run_forked(test, output);
    setpgid(pid, pid); /* here too: whichever comes first */

    int status;
    bool in_time = wait_until(pid, start + test->limit_s * TEST_SLOWDOWN, &status);
    double seconds = now() - start;
    lseek(output, 0, SEEK_SET);
    FILE *stream = fdopen(output, "r");
    char *text = read_all(stream);
    fclose(stream);
    enum outcome outcome = show(test, status, in_time, seconds, text);
    free(text);
    remove_directory();
    return outcome;
}

static _Noreturn void run_in_process(const char *name)
{
    struct test_case *test = find(name);
    in_process = true;
    name_directory(test);
    atexit(remove_directory);
    run_here(test);
}

static void name_group(void)
{
    snprintf(group, sizeof(group), "%s", program_invocation_short_name);
    char *suffix = strstr(group, "_test");
    if (suffix)
        *suffix = 0;
}

static void list(void)
{
    for (struct test_case *t = first; t; t = t->next)
        puts(t->name);
}

int main(int argc, char **argv)
{
    const char *alone = NULL;
    name_group();
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int option; (option = getopt(argc, argv, "i:lv")) != -1;) {
        if (option == 'i')
            alone = optarg;
        else if (option == 'v')
            verbose = true;
        else
            return option == 'l' ? (list(), 0) : 2;
    }
    if (alone)
        run_in_process(alone);

    int count[OUTCOMES] = {0};
    for (int i = optind; i < argc; i++)
        count[run(find(argv[i]))]++;
    for (struct test_case *t = first; t && optind == argc; t = t->next)
        count[run(t)]++;
    printf("%d passed, %d failed, %d skipped\n", count[PASSED], count[FAILED], count[SKIPPED]);
    return count[FAILED] > 0 || count[PASSED] + count[SKIPPED] == 0;
}
