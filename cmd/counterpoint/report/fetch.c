/*
 * The program curl fetches profiles, and not libcurl: only users who name a URL need it, most systems have
 * it, and the command links no library for TLS and its certificates, whose faults would be the command's.
 */
#include "fetch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program.h"

/* Returns the length of "HOST:PORT" at the beginning of a name; 0: there is none. */
static size_t host_and_port(const char *name)
{
    size_t host = name[0] == '[' ? strcspn(name, "]/") + 1 : strcspn(name, ":/"), digits;

    if (host == 0 || host > strlen(name) || name[host] != ':')
        return 0;
    digits = strspn(name + host + 1, "0123456789");
    return digits > 0 && (name[host + 1 + digits] == '/' || name[host + 1 + digits] == '\0')
               ? host + 1 + digits
               : 0;
}

static bool has_scheme(const char *name)
{
    return strncmp(name, "http://", 7) == 0 || strncmp(name, "https://", 8) == 0;
}

bool is_url(const char *name)
{
    return has_scheme(name) || (host_and_port(name) > 0 && access(name, F_OK) != 0);
}

static char *url_of(struct arena *arena, const char *name)
{
    const char *scheme = has_scheme(name) ? "" : "http://";
    const char *rest = name + (has_scheme(name) ? strcspn(name, ":") + 3 : 0);
    const char *path = rest + strcspn(rest, "/");

    return arena_print(arena, "%s%s%s", scheme, name,
                       path[0] == '\0'          ? "/debug/pprof/profile"
                       : strcmp(path, "/") == 0 ? "debug/pprof/profile"
                                                : "");
}

static enum status explain_answer(const char *url, int status, int code, struct printed *printed)
{
    if (status == PROGRAM_IS_ABSENT)
        return complain(STATUS_FAILURE,
                        "%s cannot be fetched, because the program curl is not here. Its Debian "
                        "package is curl.",
                        url);
    if (code >= 300)
        return complain(STATUS_FAILURE, "The server answers %d to %s: %s", code, url,
                        printed->out_size > 0 ? last_line(printed->out) : "it does not say why.");
    return complain(STATUS_FAILURE, "%s cannot be fetched: %s.", url, last_line(printed->err));
}

/* Takes the status of the answer from the last line that curl has printed to stderr (--write-out). */
static int take_http_code(struct printed *printed)
{
    char *at = strrchr(printed->err, '\n');
    int code = at != NULL ? atoi(at + 1) : 0;

    if (at != NULL)
        *at = '\0';
    return code;
}

enum status fetch_profile(struct source *source)
{
    struct arena arena = {0};
    const char *url = url_of(&arena, source->name);
    const char *const arguments[] = {"curl",
                                     "--silent",
                                     "--show-error",
                                     "--location",
                                     "--globoff",
                                     "--max-redirs",
                                     "5",
                                     "--connect-timeout",
                                     "10",
                                     "--proto",
                                     "=http,https",
                                     "--write-out",
                                     "%{stderr}\\n%{http_code}",
                                     "--",
                                     url,
                                     NULL};
    struct printed printed;
    enum status result = STATUS_OK;
    int status, code;

    if (isatty(STDERR_FILENO))
        fprintf(stderr, "Fetching %s, which may take as long as the profile ...\n", url);
    status = program_run(arguments, &printed);
    code = take_http_code(&printed);
    if (status == 0 && code >= 200 && code < 300) {
        source->data = (unsigned char *)printed.out;
        source->size = printed.out_size;
        printed.out = NULL;
    } else {
        result = explain_answer(url, status, code, &printed);
    }
    program_free(&printed);
    arena_free(&arena);
    return result;
}
