/* The default session, for the calls that know only one session. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/fail.h"
#include "runtime/base/fork_child.h"
#include "session.h"

/* Held while the default session's profile is written, which may take as long as the writer likes. Calls for
 * other sessions do not take this lock. */
static struct cp__lock default_lock = CP__LOCK_INIT(CP__RANK_DEFAULT_SESSION);
static struct cp_session *default_session; /* under default_lock */

/* Resets the lock, because the thread that held it is not in the child. */
static void forget_lock_in_child(void)
{
    cp__fork_child_resets();
    cp__lock_reset(&default_lock);
    cp__fork_child_has_reset();
}

__attribute__((constructor)) static void register_handler(void)
{
    pthread_atfork(NULL, NULL, forget_lock_in_child);
}

/* Returns the default session. A session that was inherited over a fork() belongs to the parent, and is
 * dropped. */
static struct cp_session *current(void)
{
    if (default_session != NULL && default_session->pid != getpid()) {
        cp__session_free(default_session);
        default_session = NULL;
    }
    return default_session;
}

struct cp_session *cp_default_session(void)
{
    struct cp_session *session;

    cp__lock(&default_lock);
    session = current();
    cp__unlock(&default_lock);
    return session;
}

void cp__default_forget(const struct cp_session *session)
{
    cp__lock(&default_lock);
    if (default_session == session)
        default_session = NULL;
    cp__unlock(&default_lock);
}

/* Refuses several events, unless the environment allows them. */
static int check_multiple(size_t n, struct cp_error *err)
{
    const char *enabled = getenv("CP_PPROF_ENABLE_MULTIPLE_CPU_PROFILES");

    if (n <= 1 || (enabled != NULL && strcmp(enabled, "true") == 0))
        return 0;
    return cp__error(
        err, -EPERM,
        "%zu events were given, but several at once are not enabled. Set the environment variable "
        "CP_PPROF_ENABLE_MULTIPLE_CPU_PROFILES=true, or use cp_session_start().",
        n);
}

/* Refuses a start while there is a default session. */
static int check_idle(struct cp_error *err)
{
    if (current() == NULL)
        return 0;
    if (cp__session_is_running(default_session))
        return cp__error(
            err, -EBUSY,
            "A CPU profile is being taken already. Stop it with cp_stop_cpu_profile(), or take another one "
            "beside it with cp_session_start().");
    return cp__error(
        err, -EBUSY,
        "The last CPU profile has not been written yet and is kept. Write it with cp_stop_cpu_profile() or "
        "cp_session_write(), or drop it with cp_session_close(cp_default_session()).");
}

int cp_start_cpu_profile_with_options(const struct cp_profiling_option *options, size_t n,
                                      struct cp_error *err)
{
    int result = check_multiple(n, err);

    if (result < 0)
        return result;
    cp__lock(&default_lock);
    result = check_idle(err);
    if (result == 0)
        result = cp_session_start(&default_session, options, n, err);
    if (result == 0)
        default_session->is_default = true;
    cp__unlock(&default_lock);
    return result;
}

int cp_start_cpu_profile(struct cp_writer w, struct cp_error *err)
{
    return cp_start_cpu_profile_with_config(err, cp_os_timer(w));
}

int cp_stop_cpu_profile(struct cp_error *err)
{
    struct cp_session *session;
    int result;

    cp__lock(&default_lock);
    session = current();
    if (session == NULL) {
        result =
            cp__error(err, -ESRCH, "No CPU profile is being taken. Start one with cp_start_cpu_profile().");
    } else {
        result = cp_session_stop(session, err);
        if (result == 0) {
            default_session = NULL; /* before the free: a child forked between the two must not see it */
            cp__session_free(session);
        }
    }
    cp__unlock(&default_lock);
    return result;
}
