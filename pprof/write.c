/* Brings collected profiles to their writers. See writer.h. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "runtime/base/fail.h"
#include "runtime/base/thread.h"
#include "writer.h"

int cp__write_all(struct cp_writer *w, const void *data, size_t size)
{
    const char *from = data;

    while (size > 0) {
        ssize_t n = w->ops->write(w, from, size);

        if (n == -EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? (int)n : -EIO;
        from += n;
        size -= (size_t)n;
    }
    return 0;
}

/* ---- Text ------------------------------------------------------------------------------------ */

/* The cookie of a stream whose text goes to a writer. */
struct sink {
    struct cp_writer *w;
    int error; /* the first error; nothing is written after it */
};

static ssize_t sink_write(void *cookie, const char *data, size_t size)
{
    struct sink *sink = cookie;

    if (sink->error == 0)
        sink->error = cp__write_all(sink->w, data, size);
    return sink->error == 0 ? (ssize_t)size : 0;
}

int cp__write_text(struct cp_writer *w, cp__print_fn *print, const void *what)
{
    struct sink sink = {.w = w};
    FILE *out = fopencookie(&sink, "w", (cookie_io_functions_t){.write = sink_write});
    int result = -ENOMEM;

    if (out != NULL) {
        result = print(what, out);
        if (fclose(out) != 0 && result == 0)
            result = -EIO;
    }
    if (sink.error != 0)
        result = sink.error; /* fclose() does not report errors of earlier writes */
    return result;
}

/* ---- Attempts -------------------------------------------------------------------------------- */

/* Takes a pending SIGPIPE away in the end: a pipe that nobody reads is an error to report, and no reason to
 * end the program. */
int cp__write_attempt(struct cp_writer *w, cp__write_fn *fn, const void *what, struct cp_error *err)
{
    const struct timespec now = {0, 0};
    sigset_t pipe_only;
    int result;

    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE); /* blocked, as cp__thread_start() blocks all signals */
    result = w->ops->begin == NULL ? 0 : w->ops->begin(w);
    if (result == 0) {
        result = fn(what, w);
        if (w->ops->end != NULL)
            result = w->ops->end(w, result);
    }
    sigtimedwait(&pipe_only, NULL, &now);
    if (result < 0)
        cp__error(err, result, "The profile could not be written to its %s: %s. %s", w->ops->what,
                  strerror(-result),
                  w->spoilt == 0 ? "It can be written again."
                                 : "A part of it stays there, so that the whole must be written elsewhere.");
    return result;
}

/* ---- On a thread of its own ------------------------------------------------------------------ */

/* A job for run_job(), which runs on a thread of its own. */
struct job {
    struct cp_writer w;
    cp__make_fn *fn;
    const void *what;
    struct cp_error *err;
    int result;
    bool has_ended;
};

static void *run_job(void *arg)
{
    struct job *job = arg;

    job->result = job->w.ops->open == NULL ? 0 : job->w.ops->open(&job->w, job->err);
    if (job->result == 0) {
        job->result = job->fn(job->what, &job->w, job->err);
        if (job->w.ops->close != NULL)
            job->w.ops->close(&job->w);
    }
    job->has_ended = true;
    return NULL;
}

int cp__write_left(struct cp_error *err)
{
    return cp__error(
        err, -ECANCELED,
        "The profile's callback ended the thread that wrote the profile. It can be written again.");
}

int cp__write_refused(int result, struct cp_error *err)
{
    return cp__error(err, result,
                     "No thread could be started to write the profile: %s. It can be written later.",
                     strerror(-result));
}

int cp__write_elsewhere(struct cp_writer w, cp__make_fn *fn, const void *what, struct cp_error *err)
{
    struct job job = {.w = w, .fn = fn, .what = what, .err = err};
    int result;

    if (w.ops == NULL)
        return cp__error(err, -EINVAL,
                         "There is no writer. Make one with cp_writer_path() or a similar call.");
    result = cp__thread_run(run_job, &job);
    if (result < 0)
        return cp__write_refused(result, err);
    return job.has_ended ? job.result : cp__write_left(err);
}
