/* What tests set and read inside the profiles if no public call does so: see inside.h. */
#ifndef COUNTERPOINT_TESTS_PPROF_INSIDE_H
#define COUNTERPOINT_TESTS_PPROF_INSIDE_H

#include "pprof/session.h"
#include "runtime/base/sysctl_linux.h"

/* Sets the folder in place of /proc/sys. path must stay valid until another path is set. */
static inline void set_sysctl_folder(const char *path)
{
    cp__sysctl_root = path;
}

/* Returns for how long a session that has ended has sampled. */
static inline int64_t session_duration_ns(const struct cp_session *session)
{
    return session->duration_ns;
}

#endif
