/*
 * How long does fork() take, for the parent and for the child? The round begins in one process and ends in
 * two. Each process has a watch of its own from then on, which tells on which side a round ended: so the
 * parent's table has all rounds that ended there, and each child's has one. What was counted before the fork
 * is the parent's work.
 *
 *     build/examples/watch/fork [FORKS]
 */
#include "watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int print_table(const char *whose, const struct cp_watch *watch)
{
    struct cp_watch_snapshot *snapshot;
    struct cp_error err;

    if (cp_watch_take(&snapshot, watch, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    printf("%s table, of process %d:\n", whose, getpid());
    cp_watch_print(snapshot, CP_WATCH_TEXT, stdout);
    cp_watch_snapshot_free(snapshot);
    return fflush(stdout) != 0;
}

/* Forks in a round. Returns what fork() returns. */
static pid_t fork_in_a_round(struct cp_watch *watch)
{
    struct cp_watch_round round;
    pid_t pid;

    cp_watch_begin(watch, &round);
    pid = fork();
    cp_watch_end(&round); /* in both */
    return pid;
}

int main(int argc, char **argv)
{
    struct cp_watch_options options = {
        .size = sizeof options, .name = "fork", .quantities = "cpuTime,cycles,instructions,cpi"};
    int forks = argc > 1 ? atoi(argv[1]) : 20, status;
    struct cp_watch *watch = NULL;
    struct cp_error err;
    struct cp_m *m;

    if (cp_watch_open(&watch, &options, &err) < 0) {
        printf("Only cpuTime is counted. %s\n", err.message);
        options.quantities = "cpuTime"; /* which can be counted anywhere */
    }
    if (cp_m_attach(&m, &err) < 0 || (watch == NULL && cp_watch_open(&watch, &options, &err) < 0)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    fflush(stdout); /* before the children have a copy of what is in the buffer */
    for (int i = 1; i <= forks; i++) {
        pid_t pid = fork_in_a_round(watch);

        if (pid < 0) {
            perror("fork");
            return 1;
        }
        if (pid == 0)
            _exit(i == forks ? print_table("The last child's", watch) : 0);
        waitpid(pid, &status, 0);
    }
    status = print_table("The parent's", watch);
    cp_watch_close(watch);
    cp_m_detach(m);
    return status;
}
