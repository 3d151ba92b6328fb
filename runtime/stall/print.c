/* A stall as lines of text. */
#include <dlfcn.h>
#include <inttypes.h>
#include <string.h>

#include "lack.h"
#include "runtime/base/fork_gate.h"
#include "stall.h"

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

/* A return address may be the first one after its function. */
static void put_stall_frame(FILE *out, uintptr_t address, bool is_return)
{
    const uintptr_t place = address - is_return;
    Dl_info info;
    bool is_known = false;

    if (cp__linker_begin())
        is_known = dladdr((const void *)place, &info) != 0 && info.dli_fname != NULL;
    cp__linker_end();
    if (!is_known)
        fprintf(out, "\t%#" PRIxPTR "\n", address);
    else if (info.dli_sname != NULL)
        fprintf(out, "\t%s+%#" PRIxPTR " (%s+%#" PRIxPTR ")\n", info.dli_sname,
                address - (uintptr_t)info.dli_saddr, base_of(info.dli_fname),
                address - (uintptr_t)info.dli_fbase);
    else
        fprintf(out, "\t%s+%#" PRIxPTR "\n", base_of(info.dli_fname), address - (uintptr_t)info.dli_fbase);
}

/* Prints what the M's thread did, as the end of a clause. */
static void put_kind(FILE *out, const struct cp_stall *stall)
{
    if (stall->kind == CP_STALL_COMPUTED) {
        fputs("and computed", out);
    } else if (stall->kind == CP_STALL_NOT_RUN) {
        fputs("while the system did not run the thread", out);
    } else {
        fprintf(out, "and waited (%s", cp_wait_reason_name(stall->reason));
        if (stall->object != NULL)
            fprintf(out, ", for %p", stall->object);
        if (stall->call >= 0)
            fprintf(out, ", in system call %ld", stall->call);
        fputc(')', out);
    }
}

static void put_stall_labels(FILE *out, const struct cp_labels *labels)
{
    for (size_t i = 0; i < cp_labels_count(labels); i++)
        fprintf(out, "%s%s=%s", i > 0 ? ", " : " [", cp_labels_key(labels, i), cp_labels_value(labels, i));
    if (cp_labels_count(labels) > 0)
        fputc(']', out);
}

const char *cp__stall_lack(enum cp_stall_kind kind)
{
    switch (kind) {
    case CP_STALL_COMPUTED:
        return "it was not taken before the stall ended, or the thread blocks SIGPROF";
    case CP_STALL_WAITED:
        return "the wait had ended when the library looked, or the system does not tell where it was";
    default:
        return NULL;
    }
}

void cp_stall_print(FILE *out, const struct cp_stall *stall)
{
    const char *lack = cp__stall_lack(stall->kind);

    fprintf(out, "stall: G %" PRIu64 " held thread %d for %.1f ms ", stall->g_id, stall->tid,
            (double)stall->longest_ns / 1e6);
    put_kind(out, stall);
    put_stall_labels(out, stall->labels);
    if (stall->count > 1)
        fprintf(out, "; %" PRIu64 " stalls, %.1f ms in all", stall->count, (double)stall->total_ns / 1e6);
    fputs(stall->depth > 0 ? ":\n" : "\n", out);
    for (unsigned i = 0; i < stall->depth; i++)
        put_stall_frame(out, stall->frames[i], i > 0);
    if (stall->depth == 0 && lack != NULL)
        fprintf(out, "\tThere is no stack, because %s.\n", lack);
    fflush(out);
}
