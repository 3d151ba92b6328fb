/*
 * Measures the blocks of a list, in a process of its own for each core, which stays there. Whoever is free
 * takes the next block, and a pipe brings what came of it.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "atomic.h"
#include "block_list.h"

/* What a worker writes at once: a pipe takes so few bytes whole. */
struct measured {
    uint32_t row;
    int32_t error; /* 0, or a negative errno value: the worker ends */
    struct cp_block_result result;
    struct cp_error why;
};
_Static_assert(sizeof(struct measured) <= 4096, "PIPE_BUF");

/* ---- Cores ----------------------------------------------------------------------------------- */

/* Returns the first CPU of the core that has the CPU; itself if the system does not tell. */
static int first_of_core(int cpu)
{
    char path[80];
    FILE *file;
    int first;

    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    file = fopen(path, "re");
    if (file == NULL || fscanf(file, "%d", &first) != 1)
        first = cpu;
    if (file != NULL)
        fclose(file);
    return first;
}

/* Stores one CPU of each core that this process may use, at most `most`. Two threads of a core would slow
 * each other down. */
static unsigned find_cores(int *cpus, unsigned most)
{
    cpu_set_t mine, cores;
    unsigned n = 0;

    CPU_ZERO(&cores);
    if (sched_getaffinity(0, sizeof mine, &mine) < 0)
        CPU_ZERO(&mine);
    for (int cpu = 0; cpu < CPU_SETSIZE && n < most; cpu++) {
        if (!CPU_ISSET(cpu, &mine) || CPU_ISSET(first_of_core(cpu), &cores))
            continue;
        CPU_SET(first_of_core(cpu), &cores);
        cpus[n++] = cpu;
    }
    if (n == 0)
        cpus[n++] = -1; /* wherever it runs */
    return n;
}

/* ---- Workers --------------------------------------------------------------------------------- */

static void stay_on(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    if (cpu < 0)
        return;
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static bool tell_measured(int pipe, const struct measured *measured)
{
    ssize_t n;

    do
        n = write(pipe, measured, sizeof *measured);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof *measured;
}

/* In the worker's process. */
static void work(const struct block_list *list, uint32_t *next, int pipe)
{
    struct measured measured = {.result.size = sizeof measured.result};
    struct cp_block *block = NULL;

    measured.error = cp_block_open(&block, NULL, &measured.why);
    while (measured.error == 0) {
        measured.row = cp_fetch_add_relaxed(next, 1u); /* relaxed: a number */
        if (measured.row >= list->n)
            break;
        if (list->rows[measured.row].is_done)
            continue;
        measured.error = cp_block_measure(block, list->rows[measured.row].bytes,
                                          list->rows[measured.row].size, &measured.result, &measured.why);
        if (measured.error == 0 && !tell_measured(pipe, &measured))
            break;
    }
    if (measured.error < 0)
        tell_measured(pipe, &measured);
    cp_block_close(block);
}

struct workers {
    pid_t pids[CPU_SETSIZE];
    unsigned n;
    int pipe[2];
    uint32_t *next; /* shared: the first row that nobody has taken */
};

static bool start_worker(struct workers *workers, const struct block_list *list, int cpu)
{
    const pid_t parent = getpid(), pid = fork();

    if (pid < 0)
        return false;
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        close(workers->pipe[0]);
        stay_on(cpu);
        work(list, workers->next, workers->pipe[1]);
        _exit(0);
    }
    workers->pids[workers->n++] = pid;
    return true;
}

static enum status start_workers(struct workers *workers, const struct block_list *list, unsigned cores)
{
    int cpus[CPU_SETSIZE];
    const unsigned n = find_cores(cpus, cores == 0 || cores > CPU_SETSIZE ? CPU_SETSIZE : cores);

    fflush(stdout);
    for (unsigned i = 0; i < n && i < list->n; i++)
        if (!start_worker(workers, list, cpus[i]))
            return complain(STATUS_FAILURE, "A process that measures cannot be started: %s.",
                            strerror(errno));
    return STATUS_OK;
}

static void end_workers(struct workers *workers)
{
    for (unsigned i = 0; i < workers->n; i++) {
        kill(workers->pids[i], SIGKILL);
        while (waitpid(workers->pids[i], NULL, 0) < 0 && errno == EINTR)
            continue;
    }
}

/* ---- What came of the blocks ----------------------------------------------------------------- */

static enum status hand_on_rows(struct block_list *list, size_t *shown, block_done_fn *done, void *context)
{
    enum status status = STATUS_OK;

    for (; *shown < list->n && list->rows[*shown].is_done && status == STATUS_OK; ++*shown)
        if (list->rows[*shown].result.size != 0)
            status = done(context, &list->rows[*shown]);
    return status;
}

static enum status collect_measured(struct block_list *list, const struct workers *workers,
                                    block_done_fn *done, void *context)
{
    struct measured measured;
    enum status status;
    size_t shown = 0;

    while ((status = hand_on_rows(list, &shown, done, context)) == STATUS_OK && shown < list->n) {
        ssize_t n = read(workers->pipe[0], &measured, sizeof measured);

        if (n < 0 && errno == EINTR)
            continue;
        if (n != (ssize_t)sizeof measured)
            return complain(STATUS_FAILURE, "A process that measures has ended before its work was done.");
        if (measured.error < 0)
            return complain(STATUS_NO, "%s", measured.why.message);
        list->rows[measured.row].result = measured.result;
        list->rows[measured.row].is_done = true;
    }
    return status;
}

enum status block_list_measure(struct block_list *list, unsigned cores, block_done_fn *done, void *context)
{
    struct workers *workers = calloc(1, sizeof *workers);
    enum status status;

    if (workers == NULL)
        return complain(STATUS_FAILURE, "There is not enough memory.");
    workers->next =
        mmap(NULL, sizeof *workers->next, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (workers->next == MAP_FAILED || pipe(workers->pipe) < 0) {
        free(workers);
        return complain(STATUS_FAILURE, "There is no pipe, or no memory, for processes that measure: %s.",
                        strerror(errno));
    }
    status = start_workers(workers, list, cores);
    close(workers->pipe[1]);
    if (status == STATUS_OK)
        status = collect_measured(list, workers, done, context);
    end_workers(workers);
    close(workers->pipe[0]);
    munmap(workers->next, sizeof *workers->next);
    free(workers);
    return status;
}
