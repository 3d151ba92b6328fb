#include "perf_linux.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/base/fail.h"
#include "runtime/event/rows.h"

#define PARANOID "/proc/sys/kernel/perf_event_paranoid"
#define UNREADABLE (-9)

/* What to do instead depends on what was to be done: a timer samples, but counts nothing. */
struct way {
    bool counts;
    const char *clock;     /* "Use " what: a clock that can always be had */
    const char *otherwise; /* the last resort, at the end of a sentence */
    const char *resort;    /* the same, as a sentence of its own */
    const char *free;      /* it needs none of the system's permissions, a sentence; or "" */
};
static const struct way sampling = {
    .clock = "taskClock or timer",
    .otherwise = "use timer",
    .resort = "Use timer",
    .free = " The event timer needs none of this.",
};
static const struct way counting = {
    .counts = true,
    .clock = "taskClock",
    .otherwise = "do without it",
    .resort = "Do without it",
    .free = "",
};

/* What was refused, and where the reason goes. */
struct refusal {
    int code;
    const struct way *way;
    const char *name;
    const struct cp_cpu_profile_config *config;
    const struct cp__event *row;
    uint32_t type; /* the perf type that was asked for */
    struct cp_error *err;
};

/* ---- The machine ----------------------------------------------------------------------------- */

/* The number that follows start, at the beginning of a line. */
static long read_number(const char *path, const char *start, long otherwise)
{
    FILE *file = fopen(path, "re");
    char line[256];
    long value = otherwise;

    if (file == NULL)
        return otherwise;
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, start, strlen(start)) == 0 && sscanf(line + strlen(start), "%ld", &value) == 1)
            break;
    }
    fclose(file);
    return value;
}

/* x86 processors say so where there is a hypervisor under them. */
static bool is_virtual(void)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char text[8192];
    size_t length = 0;

    if (file != NULL) {
        length = fread(text, 1, sizeof text - 1, file);
        fclose(file);
    }
    text[length] = '\0';
    return strstr(text, " hypervisor") != NULL;
}

static bool pmu_has(const char *pmu, const char *file)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s/%s", cp__pmus, pmu, file);
    return access(path, F_OK) == 0;
}

/* A processor's own PMU is "cpu", or lists the "cpus" that it belongs to: "armv8_pmuv3_0", "cpu_core". */
static bool is_core(const char *pmu)
{
    return strcmp(pmu, "cpu") == 0 || strcmp(pmu, "cpum_cf") == 0 || pmu_has(pmu, "cpus");
}

static bool any_core(const char *pmu, const void *unused)
{
    (void)unused;
    return is_core(pmu);
}

static bool has_type(const char *pmu, const void *type)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s/type", cp__pmus, pmu);
    return read_number(path, "", -1) == (long)*(const uint32_t *)type;
}

/* The first of the kernel's PMUs for which is() holds; false where there is none. */
static bool find_pmu(bool (*is)(const char *pmu, const void *context), const void *context, char *name,
                     size_t size)
{
    DIR *directory = opendir(cp__pmus);
    const struct dirent *entry;
    bool found = false;

    if (directory == NULL)
        return false;
    while (!found && (entry = readdir(directory)) != NULL) {
        found = entry->d_name[0] != '.' && is(entry->d_name, context);
        if (found)
            snprintf(name, size, "%s", entry->d_name);
    }
    closedir(directory);
    return found;
}

/* ---- No such event --------------------------------------------------------------------------- */

static int explain_no_pmu(const struct refusal *r)
{
    bool virtual = is_virtual();

    return cp__error_because(
        r->err, r->code, virtual ? "no hardware PMU (virtual machine)" : "no hardware PMU",
        "The event %s cannot run: Linux finds no hardware PMU on this machine (%s), %s. Use %s, or have the "
        "host "
        "pass its PMU through.",
        r->name, strerror(-r->code), virtual ? "which is a virtual machine" : "as in most virtual machines",
        r->way->clock);
}

/* A PMU beside the processor's own: a memory controller, a chip's power, the MSRs. */
static int explain_other_pmu(const struct refusal *r, const char *pmu)
{
    bool counts_all = pmu_has(pmu, "cpumask");

    if (r->code == -ENOENT)
        return cp__error_because(
            r->err, r->code, "not supported by this PMU",
            "The event %s cannot run: the PMU %s does not count it (%s). Use another event, or taskClock.",
            r->name, pmu, strerror(-r->code));
    if (r->way->counts && !counts_all)
        return cp__error_because(r->err, r->code, "counts all modes only",
                                 "The event %s cannot run: the PMU %s does not tell user mode from the "
                                 "others (%s). Give it the suffix "
                                 "ukh, which has all of them counted (and takes kernel.perf_event_paranoid=1 "
                                 "or CAP_PERFMON), or use "
                                 "taskClock.",
                                 r->name, pmu, strerror(-r->code));
    return cp__error_because(
        r->err, r->code, counts_all ? "counts the whole machine only" : "counts only, does not sample",
        "The event %s cannot run: the PMU %s %s (%s). Use perf stat to count it, or an event of the "
        "processor's own PMU, or taskClock.",
        r->name, pmu,
        counts_all ? "counts for the whole machine and not for a thread"
                   : "counts, but has no interrupt to sample by",
        strerror(-r->code));
}

static int explain_hardware(const struct refusal *r)
{
    char core[NAME_MAX + 1];

    if (!find_pmu(any_core, NULL, core, sizeof core))
        return explain_no_pmu(r);
    return cp__error_because(
        r->err, r->code, "not supported by this PMU",
        "The event %s cannot run: this processor's PMU %s does not count it (%s). Use cycles, another "
        "event, or taskClock.",
        r->name, core, strerror(-r->code));
}

static int explain_absent(const struct refusal *r)
{
    if (r->row->kind == CP_EVENT_HARDWARE)
        return explain_hardware(r);
    if (r->row->kind == CP_EVENT_WATCHPOINT)
        return cp__error_because(
            r->err, r->code, "no debug registers",
            "The event %s cannot run: this kernel or machine has no debug registers to watch an address with "
            "(%s). Use a debugger's software watchpoint, or %s.",
            r->name, strerror(-r->code), r->way->otherwise);
    return cp__error_because(r->err, r->code, "not in this kernel",
                             "The event %s cannot run: this kernel has no such event (%s). %s.", r->name,
                             strerror(-r->code), r->way->resort);
}

/* ---- Opens, but does not count ---------------------------------------------------------------- */

/* What cp__perf_try_count() found; no answer of the kernel's. */
static int explain_silent(const struct refusal *r)
{
    static const char reason[] = "opens, but does not count here";

    if (r->row->kind == CP_EVENT_WATCHPOINT)
        return cp__error_because(
            r->err, r->code, reason,
            "The event %s cannot run: the kernel opens it, but the processor's debug registers notice no "
            "access to a watched word, as in a virtual machine whose host does not pass them on. Use a "
            "debugger's software watchpoint, or %s.",
            r->name, r->way->otherwise);
    return cp__error_because(
        r->err, r->code, reason,
        "The event %s cannot run: the kernel opens it, but the PMU stays at 0 while the processor works, as "
        "the PMUs of some virtual machines do. Use %s, or have the host pass its PMU through.",
        r->name, r->way->clock);
}

/* ---- Not allowed ----------------------------------------------------------------------------- */

/* The kernel checks in this order: level 3 (Debian's, Ubuntu's and Android's), modes, security modules. */
static int explain_denied(const struct refusal *r)
{
    long paranoid = read_number(PARANOID, "", UNREADABLE);
    bool is_kernels = r->row->kernel_mode == CP__KERNEL_REQUIRED;
    const char *how = r->way->counts ? "(suffix u)" : "(is_kernel_included)";
    char reason[64];

    if (paranoid > 2) {
        snprintf(reason, sizeof reason, "forbidden: paranoid level %ld", paranoid);
        return cp__error_because(
            r->err, r->code, reason,
            "The event %s may not run here: perf_event_open says %s with kernel.perf_event_paranoid=%ld. Set "
            "it to 2 or lower with sysctl, give this process CAP_SYS_ADMIN (to some kernels CAP_PERFMON will "
            "do), or %s.",
            r->name, strerror(-r->code), paranoid, r->way->otherwise);
    }
    if (r->config->is_kernel_included && paranoid == 2)
        return cp__error_because(
            r->err, r->code, "kernel mode: paranoid level 2",
            "The event %s counts in the kernel, and kernel.perf_event_paranoid=2 lets only privileged "
            "processes do that. Set kernel.perf_event_paranoid=1 with sysctl, give this process "
            "CAP_PERFMON, or %s%s.",
            r->name, is_kernels ? "use " : "leave the kernel out ", is_kernels ? r->way->clock : how);
    if (paranoid == UNREADABLE)
        return cp__error_because(r->err, r->code, "not permitted (EACCES)",
                                 "The event %s may not run here: perf_event_open says %s. %s.", r->name,
                                 strerror(-r->code), r->way->resort);
    return cp__error_because(
        r->err, r->code, "forbidden: security module",
        "The event %s may not run here: perf_event_open says %s, though kernel.perf_event_paranoid=%ld "
        "allows "
        "it. A security module such as SELinux has to allow perf_event for this program; or %s.",
        r->name, strerror(-r->code), paranoid, r->way->otherwise);
}

static int explain_not_permitted(const struct refusal *r)
{
    if (read_number("/proc/self/status", "Seccomp:", 0) == 2)
        return cp__error_because(
            r->err, r->code, "forbidden by seccomp",
            "The event %s may not run here: perf_event_open is not permitted (EPERM), and this process has a "
            "seccomp filter, as in a container. Its profile has to allow perf_event_open (docker: --cap-add "
            "PERFMON, or --security-opt seccomp=FILE).%s",
            r->name, r->way->free);
    if (r->row->kind == CP_EVENT_WATCHPOINT)
        return cp__error_because(r->err, r->code, "needs privileges",
                                 "The event %s may not run here: only privileged processes can watch a "
                                 "kernel address (EPERM). Give "
                                 "this process CAP_SYS_ADMIN, or watch an address of the program's own.",
                                 r->name);
    if (r->row->kind == CP_EVENT_TRACEPOINT)
        return cp__error_because(
            r->err, r->code, "not permitted (EPERM)",
            "The event %s may not run here: the kernel does not permit this tracepoint to this process "
            "(EPERM). Give it CAP_PERFMON; where it has that, use another event.",
            r->name);
    return cp__error_because(
        r->err, r->code, "not permitted (EPERM)",
        "The event %s may not run here: perf_event_open is not permitted (EPERM). In a container its "
        "seccomp profile has to allow perf_event_open (docker: --cap-add PERFMON, or --security-opt "
        "seccomp=FILE); elsewhere a security module or lockdown mode forbids it.%s",
        r->name, r->way->free);
}

/* ---- Not in this way ------------------------------------------------------------------------- */

static int explain_place(const struct refusal *r)
{
    return cp__error_because(
        r->err, r->code, "not a place to watch",
        "The event %s cannot run: the processor does not watch such a place (%s). Give a length of 1, "
        "2, 4 or 8 bytes, an address that is a multiple of it, and w or rw (x86-64 cannot watch reads "
        "alone); for x no length.",
        r->name, strerror(-r->code));
}

/* Of a cache's events x86-64 has those that the processor does not count (ENOENT), and those that would make
 * no sense there (EINVAL). That is also said of periods that are too short for it, below 128 at most. */
static bool is_no_event_of_this_cache(const struct refusal *r)
{
    return r->type == PERF_TYPE_HW_CACHE && r->config->period >= 128;
}

static int explain_invalid(const struct refusal *r)
{
    char pmu[NAME_MAX + 1];

    if (r->row->kind == CP_EVENT_WATCHPOINT)
        return explain_place(r);
    if (r->type >= PERF_TYPE_MAX && find_pmu(has_type, &r->type, pmu, sizeof pmu) && !is_core(pmu))
        return explain_other_pmu(r, pmu);
    if (is_no_event_of_this_cache(r))
        return explain_hardware(r);
    if (r->way->counts)
        return cp__error_because(r->err, r->code, "not in this way (EINVAL)",
                                 "The event %s cannot run: the kernel does not accept this combination of "
                                 "event and modes, or does not "
                                 "count it by thread (EINVAL). Use another event, or other modes.",
                                 r->name);
    return cp__error_because(
        r->err, r->code, "not in this way (EINVAL)",
        "The event %s cannot run: the kernel does not accept this combination of event, period (%llu), "
        "precision and modes (EINVAL). Try a larger period, precise_ip 0 and no sample address.",
        r->name, (unsigned long long)r->config->period);
}

static int explain_unsupported(const struct refusal *r)
{
    char pmu[NAME_MAX + 1];

    if (r->row->kind == CP_EVENT_WATCHPOINT && r->code == -EOPNOTSUPP)
        return explain_place(r); /* x86-64 says so of more than 8 bytes */
    if (r->type >= PERF_TYPE_MAX && find_pmu(has_type, &r->type, pmu, sizeof pmu) && !is_core(pmu))
        return explain_other_pmu(r, pmu);
    return explain_absent(r);
}

/* ---- Not now --------------------------------------------------------------------------------- */

static int explain_full(const struct refusal *r)
{
    if (r->row->kind == CP_EVENT_WATCHPOINT)
        return cp__error_because(
            r->err, r->code, "all debug registers are in use",
            "The event %s cannot run: all of the processor's debug registers are in use (%s), x86-64 has "
            "four. Use fewer watchpoints, and end debuggers that have some.",
            r->name, strerror(-r->code));
    return cp__error_because(
        r->err, r->code, "no counter left",
        "The event %s cannot run: the PMU has no counter left for it (%s). Use fewer events at once, or end "
        "other profilers.",
        r->name, strerror(-r->code));
}

static int explain_busy(const struct refusal *r)
{
    return cp__error_because(
        r->err, r->code, "in use by somebody else (EBUSY)",
        "The event %s cannot run: somebody else holds its counters (%s): the kernel's NMI watchdog, "
        "another profiler, a hypervisor or firmware. Set kernel.nmi_watchdog=0 with sysctl, end other "
        "profilers, or use taskClock.",
        r->name, strerror(-r->code));
}

static int explain_descriptors(const struct refusal *r)
{
    struct rlimit limit = {0, 0};

    getrlimit(RLIMIT_NOFILE, &limit);
    return cp__error_because(
        r->err, r->code, "no file descriptor left",
        "The event %s cannot run: there is no file descriptor left for it (%s; the limit of this process is "
        "%llu). Raise it with ulimit -n, use fewer events, or %s.",
        r->name, strerror(-r->code), (unsigned long long)limit.rlim_cur, r->way->otherwise);
}

/* ---- Which of them --------------------------------------------------------------------------- */

static int explain(const struct refusal *r)
{
    switch (-r->code) {
    case ENOENT:
    case ENODEV:
    case ENXIO:
    case EOPNOTSUPP:
        return explain_unsupported(r);
    case EACCES:
        return explain_denied(r);
    case EPERM:
        return explain_not_permitted(r);
    case EINVAL:
        return explain_invalid(r);
    case ENOSPC:
        return explain_full(r);
    case EBUSY:
        return explain_busy(r);
    case ENODATA:
        return explain_silent(r);
    case EMFILE:
    case ENFILE:
        return explain_descriptors(r);
    case ENOSYS:
        return cp__error_because(
            r->err, r->code, "no perf_event_open",
            "The event %s cannot run: this kernel has no perf_event_open, or a sandbox hides it (ENOSYS). "
            "%s.",
            r->name, r->way->resort);
    case E2BIG:
        return cp__error_because(
            r->err, r->code, "this kernel is too old",
            "The event %s cannot run: this kernel is too old for what is asked of it (E2BIG). Use "
            "another event, or %s.",
            r->name, r->way->otherwise);
    default:
        return cp__error(r->err, r->code, "The event %s cannot run: perf_event_open says %s. %s.", r->name,
                         strerror(-r->code), r->way->resort);
    }
}

/* name is the caller's to keep. */
static struct refusal refusal(int code, const struct way *way, const struct cp_slot_request *request,
                              struct cp__event_text *name, struct cp_error *err)
{
    const struct cp__event *row = cp__config_event(request->event, &request->config);

    *name = cp__request_name(request);
    return (struct refusal){
        .code = code,
        .way = way,
        .name = name->text,
        .config = &request->config,
        .row = row,
        .type = request->event == CP_CPUPROF_NAMED ? request->config.encoding.type : row->perf_type,
        .err = err,
    };
}

int cp__perf_explain(int code, const struct cp_slot_request *request, struct cp_error *err)
{
    struct cp__event_text name;
    const struct refusal r = refusal(code, &sampling, request, &name, err);

    return explain(&r);
}

int cp__perf_explain_count(int code, const struct cp_slot_request *request, struct cp_error *err)
{
    struct cp__event_text name;
    const struct refusal r = refusal(code, &counting, request, &name, err);

    return explain(&r);
}

int cp__perf_explain_ring(int code, const struct cp_slot_request *request, struct cp_error *err)
{
    struct cp__event_text name;
    const struct refusal r = refusal(code, &sampling, request, &name, err);

    if (code == -EMFILE || code == -ENFILE)
        return explain_descriptors(&r);
    if (code == -EPERM)
        return cp__error_because(
            err, code, "no ring memory left",
            "The event %s cannot run: there is no ring memory left for it. This user's processes already map "
            "what kernel.perf_event_mlock_kb (%ld KiB a CPU) and ulimit -l allow. End other profilers, raise "
            "either, give this process CAP_IPC_LOCK, or use timer.",
            name.text, read_number("/proc/sys/kernel/perf_event_mlock_kb", "", 516));
    return cp__error_because(
        err, code, "no ring memory left",
        "The event %s cannot run: there is no ring memory for it (%s). Free some memory, or use timer.",
        name.text, strerror(-code));
}
