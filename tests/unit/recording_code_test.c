/* Recordings of waits, and code that is loaded meanwhile. */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "pprof.h"
#include "runtime/unwind/code.h"
#include "tests/support/patience.h"

/* No slot is read, in whose passes the table of code is made anew. */
CP_TEST(a_session_of_waits_alone_learns_of_loaded_code)
{
    struct cp_memory memory = {.size = 0};
    struct cp_profiling_option option = cp_option_event(cp_writer_memory(&memory), "wait", 1000000);
    struct cp_session *session;
    struct cp_error err = {0};
    struct patience patience = {0};
    uint64_t version;
    void *library;

    CHECKF(cp_session_start(&session, &option, 1, &err) == 0, "%s", err.message);
    version = cp__code_version_from_handler();
    library = dlopen("libresolv.so.2", RTLD_NOW);
    if (library == NULL)
        SKIP("%s", dlerror());
    while (cp__code_version_from_handler() == version) {
        CHECK(has_patience(&patience));
        usleep(NAP_US);
    }
    CHECK(!cp__code_is_old_from_handler());
    CHECKF(cp_session_stop(session, &err) == 0, "%s", err.message);
    cp_session_close(session);
    dlclose(library);
    free(memory.data);
}
