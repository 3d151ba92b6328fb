/* See output.h. */
#include "output.h"

#include "atomic.h"
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- The runner's side ----------------------------------------------------------------------- */

int cp__output_open(struct cp__output *output, int *end)
{
    int ends[2];
    void *counts =
        mmap(NULL, sizeof(*output->counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (counts == MAP_FAILED)
        return -errno;
    output->counts = counts;
    if (pipe2(ends, O_CLOEXEC) < 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    output->pipe = ends[0];
    *end = ends[1];
    return 0;
}

void cp__output_close(struct cp__output *output)
{
    close(output->pipe);
    munmap(output->counts, sizeof(*output->counts));
}

/* Returns how many bytes the runner has read from the pipe. */
static size_t taken(const struct cp__output *output)
{
    return cp_load_relaxed(&output->counts->taken); /* relaxed: only this process writes the number */
}

void cp__output_fill(struct cp__output *output)
{
    uint64_t turns =
        cp_load_relaxed(&output->counts->turns); /* relaxed: only this process writes the number */
    if (output->shown < taken(output))
        return;
    /* relaxed: the kernel's lock of the pipe orders the store before the read() */
    cp_store_relaxed(&output->counts->turns, turns + 1);
    ssize_t n = read(output->pipe, output->buffer, sizeof(output->buffer) - 1);
    output->is_closed |= n == 0;
    output->filled = n > 0 ? (size_t)n : 0;
    cp_add_single_writer(&output->counts->taken, output->filled);
    cp_store_release(&output->counts->turns, turns + 2); /* pairs with the acquire in size_in_turn() */
}

/* Shows the next n bytes of the buffer. Zero bytes are shown as question marks, because texts end in a
 * zero. */
static void show_output(struct cp__output *output, size_t n)
{
    char *text = output->buffer + (output->filled - (taken(output) - output->shown)), next = text[n];
    for (size_t i = 0; i < n; i++)
        if (!text[i])
            text[i] = '?';
    text[n] = 0;
    cp__report_event(&(struct cp__event){.kind = CP__EVENT_PRINTED, .name = "", .text = text});
    text[n] = next;
    output->shown += n;
}

void cp__output_show(struct cp__output *output, size_t end)
{
    while (output->shown < end) {
        cp__output_fill(output);
        size_t n = taken(output) - output->shown, wanted = end - output->shown;
        if (n == 0)
            return;
        show_output(output, n < wanted ? n : wanted);
    }
}

void cp__output_show_read(struct cp__output *output)
{
    cp__output_show(output, taken(output));
}

void cp__output_show_all(struct cp__output *output)
{
    int left;
    if (ioctl(output->pipe, FIONREAD, &left) == 0)
        cp__output_show(output, taken(output) + (size_t)left);
}

/* ---- The test's side ------------------------------------------------------------------------- */

/* Computes the size of the output so far. Returns false if the runner was reading meanwhile, so that *size
 * may be wrong. */
static bool size_in_turn(int end, const struct cp__output_counts *counts, size_t *size)
{
    int left = 0;
    uint64_t turns = cp_load_acquire(&counts->turns); /* pairs with the release in cp__output_fill() */
    *size = cp_load_relaxed(&counts->taken);          /* relaxed: "turns" tells whether the number is valid */
    if (ioctl(end, FIONREAD, &left) == 0)
        *size += (size_t)left;
    cp_fence_acquire();
    return turns % 2 == 0 &&
           cp_load_relaxed(&counts->turns) == turns; /* relaxed: the fence orders the load */
}

size_t cp__output_size_from_handler(int end, const struct cp__output_counts *counts)
{
    size_t size;
    int old = errno;
    for (int i = 0; !size_in_turn(end, counts, &size) && i < 1000; i++)
        sched_yield();
    errno = old;
    return size;
}
