/* Sessions whose figures a test makes up, and what the comments of their profiles say. */
#ifndef COUNTERPOINT_TESTS_REPORT_TOOLS_H
#define COUNTERPOINT_TESTS_REPORT_TOOLS_H

#include <unistd.h>

#include "pprof/profile_data.h"
#include "pprof/session.h"
#include "session_tools.h"

#define REPORT_API __attribute__((unused)) static

/* Makes a stopped session of one event. */
REPORT_API struct cp_session *stopped(const char *event, uint64_t period)
{
    struct cp_session *session = calloc(1, sizeof *session);
    struct cp__part *part = &session->parts[0];
    struct cp_error err;

    session->n = 1;
    session->pid = getpid();
    session->stats[0].ms = 1;
    part->event.size = sizeof part->event;
    part->config.size = sizeof part->config;
    CHECKF(cp_event_parse(event, &part->event, &err) == 0, "%s", err.message);
    CHECKF(cp_cpu_profile_config_init(&part->config, &part->event, period, &err) == 0, "%s", err.message);
    CHECK_EQ(cp__profile_new(&part->profile), 0);
    return session;
}

/* Returns the comments of the session's profile, each between line breaks. */
REPORT_API char *comments_of(struct cp_session *session)
{
    const char *path = file_in_dir("report.pb.gz");
    struct cp_memory memory = {0};
    struct cp_writer w = cp_writer_memory(&memory);
    struct cp_error err;
    char *said, *text;

    CHECKF(cp__report_write(session, 0, &w, false, &err) == 0, "%s", err.message);
    save(&memory, path);
    free(memory.data);
    said = pprof("-comments", path);
    CHECK(asprintf(&text, "\n%s\n", said) > 0);
    free(said);
    return text;
}

REPORT_API void check_says(struct cp_session *session, const char *comment)
{
    char *text = comments_of(session), line[512];

    snprintf(line, sizeof line, "\n%s\n", comment);
    CHECK_CONTAINS(text, line);
    free(text);
}

REPORT_API void check_contains(struct cp_session *session, const char *part)
{
    char *text = comments_of(session);

    CHECK_CONTAINS(text, part);
    free(text);
}

REPORT_API void check_says_nothing_of(struct cp_session *session, const char *part)
{
    char *text = comments_of(session);

    CHECKF(strstr(text, part) == NULL, "%s", text);
    free(text);
}

/* Checks the line that lists what limits the profile; NULL: there is no such line. */
REPORT_API void check_limits(struct cp_session *session, const char *keys)
{
    char line[400];

    snprintf(line, sizeof line, "limits: %s # ", keys != NULL ? keys : "none");
    check_contains(session, line);
}

#endif
