/* The names of engines. */
#include <errno.h>
#include <string.h>

#include "event.h"
#include "runtime/base/fail.h"

static const char *const names[] = {
    [CP_ENGINE_AUTO] = "auto", [CP_ENGINE_TRAP] = "trap", [CP_ENGINE_SIGNAL] = "signal"};
#define ENGINES (sizeof names / sizeof names[0])

const char *cp_engine_name(enum cp_engine engine)
{
    return engine != CP_ENGINE_AUTO && (unsigned)engine < ENGINES ? names[engine] : NULL;
}

int cp_engine_parse(const char *name, enum cp_engine *engine, struct cp_error *err)
{
    for (unsigned i = 0; i < ENGINES; i++) {
        if (strcmp(name, names[i]) == 0) {
            *engine = (enum cp_engine)i;
            return 0;
        }
    }
    return cp__error(err, -EINVAL, "There is no engine \"%s\". Take trap, signal, or auto.", name);
}
