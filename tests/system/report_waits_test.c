/* What counterpoint report shows of profiles of waits. */
#include "tests/support/session_tools.h"
#include "tests/support/waiting.h"

/* Records what play_on_one_m() does, or nothing, and returns the profile's file. */
static const char *record_waits(const char *event, uint64_t flags, bool is_played)
{
    const char *path = file_in_dir("waits.pb.gz");
    struct cp_profiling_option option = cp_option_event(cp_writer_path(path), event, 1);
    struct cp_session *session;
    struct cp_error err = {0};

    option.flags = flags;
    CHECKF(cp_session_start(&session, &option, 1, &err) == 0, "%s", err.message);
    if (is_played)
        play_on_one_m();
    CHECKF(cp_session_stop(session, &err) == 0, "%s", err.message);
    cp_session_close(session);
    return path;
}

/* Returns what the command prints; the caller frees the text. */
static char *report_waits(int expected, const char *arguments, const char *path)
{
    int status;
    char *text =
        test_command(&status, "%s/bin/counterpoint report %s %s 2>&1", test_build_dir(), arguments, path);

    CHECKF(status == expected, "%d: %s", status, text);
    return text;
}

CP_TEST(waits_are_shown_as_numbers_and_as_times)
{
    const char *path = record_waits("wait", 0, true);
    char *text = report_waits(0, "", path);

    CHECK_CONTAINS(text, "\nType: delay\n");
    CHECK_CONTAINS(text, " wait_here\n");
    free(text);
    text = report_waits(0, "--event waits --focus wait_here", path);
    CHECK_CONTAINS(text, "\nShowing nodes accounting for 30, 100% of 30 total\n");
    free(text);
    text = report_waits(0, "--collapsed --event waits --tagfocus reason=park", path);
    CHECK_CONTAINS(text, "wait_often;wait_here;");
    CHECK_CONTAINS(text, " 30\n");
    free(text);
}

/* The period is no distance between samples, and the number of samples is that of the waits. */
CP_TEST(a_summary_says_what_the_period_means)
{
    char *text = report_waits(0, "--markdown", record_waits("wait", 0, true));

    CHECK_CONTAINS(text, "\n- event: wait\n");
    CHECK_CONTAINS(
        text, " in all, of 30 waits\n- all waits that took 1ns or longer, and shorter ones in proportion\n");
    free(text);
    text = report_waits(0, "--markdown", record_waits("wait", CP_OPTION_CONTENTIONS, true));
    CHECK_CONTAINS(text, " in all, of 30 waits\n- duration: ");
    free(text);
}

/* What waits has no CPU time by which values could be divided. */
CP_TEST(waits_are_compared_by_duration)
{
    const char *path = record_waits("lock", 0, true);
    char arguments[600], *text;

    snprintf(arguments, sizeof arguments, "--diff %s", path);
    text = report_waits(0, arguments, path);
    CHECK_CONTAINS(text, "flat values of delay, divided by: duration\n");
    CHECK_CONTAINS(text, ", 30 samples\n");
    CHECK_CONTAINS(text, "\nNothing differs by more than noise.\n");
    free(text);
}

CP_TEST(a_profile_without_waits_says_so)
{
    char *text = report_waits(1, "", record_waits("runnable", 0, false));

    CHECK_CONTAINS(text, "The profile has no samples: nothing has waited");
    free(text);
}
