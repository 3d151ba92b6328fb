/*
 * A program that ends its threads and its processes in unusual ways, for run_hosts_test.c to run under
 * `counterpoint run`. Its first argument says what it does. Prints only what it would print without a
 * profiler, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static pthread_t main_thread;
static pthread_key_t key;

static void say(const char *text)
{
    puts(text);
    fflush(stdout);
}

static void say_cleanup(void *text)
{
    say(text);
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void *end_last(void *unused)
{
    (void)unused;
    usleep(100000);
    say("the other thread ends");
    return NULL;
}

static void begin_other(void *(*fn)(void *))
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, fn, NULL) != 0)
        exit(99);
}

static void thrd_exit_in_main(void)
{
    begin_other(end_last);
    thrd_exit(0);
}

static void *cancel_main(void *unused)
{
    pthread_cancel(main_thread);
    return end_last(unused);
}

static void cancelled_main(void)
{
    main_thread = pthread_self();
    begin_other(cancel_main);
    for (;;)
        pause();
}

/* The last thread runs its handlers, and its destructors, before the process ends. */
static void cleanup_of_the_last(void)
{
    static char text[] = "destructor";

    pthread_key_create(&key, say_cleanup);
    pthread_setspecific(key, text);
    pthread_cleanup_push(say_cleanup, (char[]){"handler"});
    pthread_exit(NULL);
    pthread_cleanup_pop(0);
}

/* The thread that forks is the only one in the child, and ends there before another one. */
static void *fork_here(void *unused)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        begin_other(end_last);
        pthread_exit(NULL);
    }
    waitpid(pid, &status, 0);
    printf("%d\n", status);
    return unused;
}

static void fork_in_thread(void)
{
    pthread_t thread;

    pthread_create(&thread, NULL, fork_here, NULL);
    pthread_join(thread, NULL);
}

static void *count_up(void *n)
{
    int unused;

    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &unused);
    for (volatile long i = 0; i < (long)n; i++)
        ;
    return NULL;
}

/* Some are cancelled while they end. */
static void cancelled_anywhere(void)
{
    for (long i = 0; i < 1000; i++) {
        pthread_t thread;

        if (pthread_create(&thread, NULL, count_up, (void *)(i * 50)) != 0)
            exit(99);
        usleep((unsigned)i % 150);
        pthread_cancel(thread);
        pthread_join(thread, NULL);
    }
    pthread_exit(NULL);
}

/* fork() does not end a thread that is cancelled: neither here nor in the child, which ends by 7. */
static void *fork_cancelled(void *unused)
{
    int status, state;
    pid_t pid;

    pthread_cancel(pthread_self());
    pid = fork();
    if (pid == 0)
        _exit(7);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    waitpid(pid, &status, 0);
    printf("%d\n", status);
    return unused;
}

static void cancelled_fork(void)
{
    pthread_t thread;

    pthread_create(&thread, NULL, fork_cancelled, NULL);
    pthread_join(thread, NULL);
}

/* ---- Processes ------------------------------------------------------------------------------- */

/* The name is the child's alone. */
static void name_of_child(void)
{
    const clock_t begin = clock();

    if (vfork() == 0) {
        prctl(PR_SET_NAME, "vforked");
        _exit(0);
    }
    wait(NULL);
    while (clock() - begin < CLOCKS_PER_SEC / 20)
        ;
}

/* As on a kernel that has no close_range(). */
static void close_on_old_kernel(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof code / sizeof code[0], .filter = code};
    const int fd = open("/dev/null", O_RDONLY);

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) < 0)
        exit(99);
    closefrom(3);
    say(fcntl(fd, F_GETFD) < 0 ? "closed" : "open");
}

static void become_daemon(void)
{
    if (daemon(0, 1) < 0)
        exit(99);
    usleep(50000);
    say(getcwd((char[8]){""}, 8));
}

static pthread_barrier_t barrier;

/* The file is there, may be executed, and is no program. */
static void *execute_no_program(void *unused)
{
    for (int i = 0; i < 20; i++) {
        pthread_barrier_wait(&barrier);
        execl("./no-program", "no-program", (char *)NULL);
    }
    return unused;
}

/* The program ends with the lock of the stream held, and its profile cannot be written. */
static void end_with_locked_stream(void)
{
    if (system("rm -r out") != 0)
        exit(99);
    flockfile(stderr);
}

/* Two threads do so at once. */
static void execute_twice(void)
{
    pthread_t thread;

    close(open("no-program", O_WRONLY | O_CREAT | O_CLOEXEC, 0777));
    pthread_barrier_init(&barrier, NULL, 2);
    if (pthread_create(&thread, NULL, execute_no_program, NULL) != 0)
        exit(99);
    execute_no_program(NULL);
    pthread_join(thread, NULL);
    say(errno == ENOEXEC ? "no program" : "another error");
}

/* ---- Signals --------------------------------------------------------------------------------- */

static void on_alarm(int number)
{
    (void)number;
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
/* A handler of signal() that interrupts the call. */
static void interrupted_read(void)
{
    int ends[2];
    char byte;

    if (siginterrupt(SIGALRM, 1) < 0 || pipe(ends) < 0)
        exit(99);
    signal(SIGALRM, on_alarm);
    alarm(1);
    say(read(ends[0], &byte, 1) < 0 ? "interrupted" : "read");
}

static volatile sig_atomic_t seen;

static void on_trap(int number)
{
    seen = number;
}

/* The handlers of sigset(): no trap of others comes to them, and the default action leaves a profile. */
static void old_sigset(void)
{
    const clock_t begin = clock();

    say(sigset(SIGTRAP, on_trap) == SIG_DFL ? "default" : "another");
    say(sigset(SIGTERM, on_alarm) == SIG_DFL ? "default" : "another");
    while (clock() - begin < CLOCKS_PER_SEC / 20)
        ;
    printf("%d\n", seen);
    say(sigset(SIGUSR1, SIG_HOLD) == SIG_DFL ? "default" : "another");
    say(sigset(SIGUSR1, SIG_DFL) == SIG_HOLD ? "held" : "not held");
    sigignore(SIGHUP);
    say(sigset(SIGHUP, SIG_DFL) == SIG_IGN ? "ignored" : "another");
    say(sigset(SIGTERM, SIG_DFL) == on_alarm ? "own" : "another");
    raise(SIGTERM);
}

static void on_one_signal(int number, siginfo_t *info, void *unused)
{
    (void)unused;
    seen = number == info->si_signo;
}

/* The handlers are called once, and the program sees them until then. The second signal ends the program. */
static void handlers_for_one_signal(void)
{
    struct sigaction action = {.sa_sigaction = on_one_signal, .sa_flags = SA_SIGINFO | (int)SA_RESETHAND};

    say(sysv_signal(SIGUSR1, on_trap) == SIG_DFL ? "default" : "another");
    say(sysv_signal(SIGUSR1, on_alarm) == on_trap ? "own" : "another");
    raise(SIGUSR1);
    sigaction(SIGUSR1, &action, &action);
    say(action.sa_handler == SIG_DFL ? "default" : "another");
    sigaction(SIGUSR1, NULL, &action);
    say(action.sa_sigaction == on_one_signal ? "own" : "another");
    printf("%x\n", (unsigned)action.sa_flags & (SA_SIGINFO | SA_RESETHAND | SA_NODEFER));
    raise(SIGUSR1);
    printf("%d\n", seen);
    fflush(stdout);
    raise(SIGUSR1);
}

static void real_time_signal(void)
{
    raise(SIGRTMIN + 3);
}

static atomic_int first_tid; /* 0: not there yet: pthread_create() blocks signals, too */

/* Returns whether the first thread waits in a handler that blocks SIGINT: before, the handler may not have
 * noted yet that its signal was the first. */
static bool has_first_begun(void)
{
    char path[64], line[256];
    unsigned long long blocked = 0;
    char state = 'R';
    FILE *status;

    snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)first_tid);
    status = fopen(path, "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
        sscanf(line, "State: %c", &state);
        sscanf(line, "SigBlk: %llx", &blocked);
    }
    if (status != NULL)
        fclose(status);
    return (blocked >> (SIGINT - 1) & 1) != 0 && state == 'S';
}

/* Signals for the first thread, which ends by another one, and for this thread. */
static void *signal_too(void *unused)
{
    while (first_tid == 0 || !has_first_begun())
        ;
    pthread_kill(main_thread, SIGINT);
    raise(SIGHUP);
    return unused;
}

/* The first of three signals ends the program. */
static void three_signals(void)
{
    main_thread = pthread_self();
    begin_other(signal_too);
    first_tid = gettid();
    raise(SIGTERM);
}

static void *exit_here(void *unused)
{
    (void)unused;
    exit(3);
}

/* Two threads do so at once. */
static void exit_twice(void)
{
    begin_other(exit_here);
    exit_here(NULL);
}

/* ---- errno ----------------------------------------------------------------------------------- */

static int errno_in_main;

/* What the program calls leaves errno as it was. */
static void kept_errno(void)
{
    int status;
    pid_t pid;

    printf("%d\n", errno_in_main);
    errno = EXDEV;
    pid = fork();
    if (pid == 0)
        _exit(errno == EXDEV);
    signal(SIGTERM, SIG_DFL);
    signal(SIGPROF, SIG_DFL);
    siginterrupt(SIGTRAP, 1);
    pthread_setname_np(pthread_self(), "renamed");
    closefrom(100);
    say(errno == EXDEV ? "kept" : "changed");
    waitpid(pid, &status, 0);
    printf("%d\n", WEXITSTATUS(status));
}

/* ---- The program ----------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*fn)(void);
} deeds[] = {
    {"thrd_exit", thrd_exit_in_main},
    {"cancelled-main", cancelled_main},
    {"cleanup", cleanup_of_the_last},
    {"fork-in-thread", fork_in_thread},
    {"cancelled-fork", cancelled_fork},
    {"cancelled-anywhere", cancelled_anywhere},
    {"old-kernel", close_on_old_kernel},
    {"vfork-name", name_of_child},
    {"daemon", become_daemon},
    {"locked-stream", end_with_locked_stream},
    {"execute-twice", execute_twice},
    {"siginterrupt", interrupted_read},
    {"sigset", old_sigset},
    {"one-signal", handlers_for_one_signal},
    {"real-time", real_time_signal},
    {"three-signals", three_signals},
    {"exit-twice", exit_twice},
    {"errno", kept_errno},
};

int main(int argc, char **argv)
{
    errno_in_main = errno;
    for (size_t i = 0; argc > 1 && i < sizeof deeds / sizeof deeds[0]; i++) {
        if (strcmp(deeds[i].name, argv[1]) == 0) {
            deeds[i].fn();
            return 0;
        }
    }
    return 98;
}
