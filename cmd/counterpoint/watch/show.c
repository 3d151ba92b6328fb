/* What `counterpoint watch` says beside the distributions. See session.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "session.h"

static bool is_line_shown;

/* ---- While it runs --------------------------------------------------------------------------- */

/* Writes a time with three digits. */
static void write_time(char text[24], double ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    size_t unit = 0;

    for (; ns >= 999.5 && unit < 3; unit++)
        ns /= 1000;
    snprintf(text, 24, "%.*f %s", ns < 9.995 ? 2 : ns < 99.95 ? 1 : 0, ns, units[unit]);
}

/* Appends what is known of a function's time, in all rounds. */
static void append_function(char *line, size_t size, const struct cp__snapshot_watch *watch)
{
    struct cp__histogram all;
    size_t n = strlen(line);
    char middle[24], high[24], most[24];

    cp__histogram_init(&all);
    for (size_t i = 0; i < watch->n_series; i++)
        cp__histogram_merge(&all, &watch->series[i].histograms[0]);
    snprintf(line + n, size - n, "%s%s: ", n == 0 ? "" : "; ", watch->name);
    if (all.count > 0) {
        write_time(middle, (double)cp__histogram_percentile(&all, 50));
        write_time(high, (double)cp__histogram_percentile(&all, 99));
        write_time(most, (double)all.max);
        n = strlen(line);
        snprintf(line + n, size - n, "%" PRIu64 " rounds, 50 %% %s, 99 %% %s, max %s", all.count, middle,
                 high, most);
    } else {
        n = strlen(line);
        snprintf(line + n, size - n, "no round yet");
    }
    cp__histogram_fini(&all);
}

/* A program that has the whole screen (raw mode) is not disturbed. What the program prints writes over the
 * line. */
void watch_show_progress(struct watch_rounds *rounds)
{
    const struct cp_watch_snapshot *snapshot = watch_rounds_snapshot(rounds);
    struct termios terminal;
    struct winsize window;
    char line[500] = "";
    int width = 80;

    if (!isatty(STDERR_FILENO) || tcgetattr(STDERR_FILENO, &terminal) != 0 ||
        (terminal.c_lflag & ICANON) == 0)
        return;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 20)
        width = window.ws_col;
    for (size_t i = 0; i < snapshot->n; i++)
        append_function(line, sizeof line, &snapshot->watches[i]);
    fprintf(stderr, "\r\033[K%.*s\r", width - 1, line);
    fflush(stderr);
    is_line_shown = true;
}

void watch_clear_progress(void)
{
    if (is_line_shown)
        fputs("\r\033[K", stderr);
    is_line_shown = false;
}

/* ---- At the end ------------------------------------------------------------------------------ */

static void show_counted(uint64_t n, const char *name, const char *what)
{
    if (n > 0)
        fprintf(stderr, "counterpoint: %s: %" PRIu64 " round%s %s.\n", name, n, n == 1 ? "" : "s", what);
}

static void tell_rounds_of(const struct cp__snapshot_watch *watch)
{
    const struct cp_watch_state *state = &watch->state;

    if (watch->n_series == 0 && state->open + state->dropped + state->lost + state->unknown == 0)
        fprintf(stderr, "counterpoint: %s was not called.\n", watch->name);
    show_counted(state->open, watch->name, "had not ended");
    show_counted(state->dropped, watch->name,
                 "ended without a return that the kernel notices: by longjmp(), the end of the thread, or "
                 "more than 64 deep");
    show_counted(state->unknown, watch->name, "had begun before the watch, and are in no distribution");
    show_counted(state->lost, watch->name, "are in no distribution, because records or memory were missing");
}

void watch_tell_losses(struct watch_rounds *rounds, const struct watch_probes *probes)
{
    const struct cp_watch_snapshot *snapshot = watch_rounds_snapshot(rounds);

    for (size_t i = 0; i < snapshot->n; i++)
        tell_rounds_of(&snapshot->watches[i]);
    if (watch_rounds_lost_records(rounds) > 0)
        fprintf(stderr,
                "counterpoint: %" PRIu64 " records were lost, because they came faster than they could be "
                "read. Watch functions that are called less often.\n",
                watch_rounds_lost_records(rounds));
    if (watch_probes_have_failed(probes))
        fputs("counterpoint: Other events have taken the processor's counters, so rounds are missing. End "
              "other "
              "profilers, or count fewer events by -e.\n",
              stderr);
}
