/* What the runner sees of a test's processes when it checks whether the test hangs. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing/idle.h"
#include "tests/support/test.h"

static int is_spinning[2]; /* a pipe, to which spin() writes */

static void *spin(void *arg)
{
    if (write(is_spinning[1], "", 1) == 1)
        for (volatile bool goes_on = true; goes_on;)
            continue;
    return arg;
}

static void spin_on_second_thread(void)
{
    pthread_t thread;

    setpgid(0, 0);
    if (pthread_create(&thread, NULL, spin, NULL) == 0)
        for (;;)
            pause();
    _exit(1);
}

static char state_of_first_thread(pid_t pid)
{
    char path[40], state = 0;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    CHECK(file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
    fclose(file);
    return state;
}

/* On a busy machine, a thread that waits for a CPU may get none for seconds, while the process's first thread
 * waits for that thread. */
CP_TEST(a_process_whose_second_thread_runs_is_no_idle_one)
{
    char byte;
    pid_t pid;

    CHECK_EQ(pipe(is_spinning), 0);
    pid = fork();
    if (pid == 0)
        spin_on_second_thread();
    CHECK_EQ(read(is_spinning[0], &byte, 1), 1);
    while (state_of_first_thread(pid) != 'S')
        usleep(1000);
    CHECK(cp__activity_of(pid, 0).is_runnable);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}
