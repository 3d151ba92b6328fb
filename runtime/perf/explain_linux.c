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
#include "runtime/base/sysctl_linux.h"
#include "runtime/event/rows.h"

#define UNREADABLE (-9)

/* ---- Phrases --------------------------------------------------------------------------------- */

/* The facts that choose a phrase, besides the kernel's answer. */
enum fact {
    COUNTING = 1,        /* the event was to be counted, not sampled */
    RING = 1 << 1,       /* the event's ring was refused */
    VIRTUAL = 1 << 2,    /* a virtual machine */
    WATCHPOINT = 1 << 3, /* the kind of the event: a watchpoint */
    TRACEPOINT = 1 << 4,
    UNCOUNTED = 1 << 5,     /* a hardware event that no core's PMU counts */
    NO_PMU = 1 << 6,        /* Linux knows no core's PMU */
    OTHER_PMU = 1 << 7,     /* a PMU that is no core's: a memory controller, a chip's power, the MSRs */
    WHOLE_MACHINE = 1 << 8, /* that PMU counts no thread */
    KERNEL_MODE = 1 << 9,   /* the event counts in the kernel */
    KERNEL_ONLY = 1 << 10,  /* the event happens in the kernel only */
    PARANOID_2 = 1 << 11,   /* kernel.perf_event_paranoid is 2 */
    PARANOID_3 = 1 << 12,   /* it is 3 or more, as on Debian, Ubuntu and Android */
    PARANOID_SECRET = 1 << 13,
    SECCOMP = 1 << 14, /* this process has a seccomp filter */
};

#define ABSENT ENOENT, ENODEV, ENXIO, EOPNOTSUPP
#define CANNOT "The event {event} cannot run: "
#define MAY_NOT "The event {event} may not run here: "

/* The explanation is the first row that has the kernel's answer, or no answer, and all of whose facts hold.
 * explain_refusal() fills in the words in braces. The kernel checks permissions in this order: paranoid level
 * 3, modes, security modules. */
/* clang-format off */
static const struct phrase {
    int codes[5];
    unsigned facts;
    const char *reason;
    const char *sentence;
} phrases[] = {
    {{EMFILE, ENFILE}, 0, "no file descriptor left",
     CANNOT "there is no file descriptor left for it ({errno}; the limit of this process is {files}). "
     "Raise it with ulimit -n, use fewer events, or {otherwise}."},
    {{EPERM}, RING, "no ring memory left",
     CANNOT "there is no ring memory left for it. This user's processes already map what "
     "kernel.perf_event_mlock_kb ({memory} KiB a CPU) and ulimit -l allow. End other profilers, raise "
     "either, give this process CAP_IPC_LOCK, or use timer."},
    {{0}, RING, "no ring memory left",
     CANNOT "there is no ring memory for it ({errno}). Free some memory, or use timer."},
    {{EINVAL, EOPNOTSUPP}, WATCHPOINT, "not a place to watch",
     CANNOT "the processor does not watch such a place ({errno}). Give a length of 1, 2, 4 or 8 bytes, an "
     "address that is a multiple of it, and w or rw (x86-64 cannot watch reads alone); for x no length."},
    {{ENOENT}, OTHER_PMU, "not supported by this PMU",
     CANNOT "the PMU {pmu} does not count it ({errno}). Use another event, or taskClock."},
    {{ABSENT, EINVAL}, OTHER_PMU | WHOLE_MACHINE, "counts the whole machine only",
     CANNOT "the PMU {pmu} counts for the whole machine and not for a thread ({errno}). Use perf stat to "
     "count it, or an event of the processor's own PMU, or taskClock."},
    {{ABSENT, EINVAL}, OTHER_PMU | COUNTING, "counts all modes only",
     CANNOT "the PMU {pmu} does not tell user mode from the others ({errno}). Add the suffix ukh, so "
     "that all modes count (which needs kernel.perf_event_paranoid=1 or CAP_PERFMON), or use taskClock."},
    {{ABSENT, EINVAL}, OTHER_PMU, "counts only, does not sample",
     CANNOT "the PMU {pmu} counts, but has no interrupt to sample by ({errno}). Use perf stat to count it, "
     "or an event of the processor's own PMU, or taskClock."},
    {{ABSENT, EINVAL}, UNCOUNTED | NO_PMU | VIRTUAL, "no hardware PMU (virtual machine)",
     CANNOT "Linux finds no hardware PMU on this machine ({errno}), which is a virtual machine. Use "
     "{clock}, or have the host pass its PMU through."},
    {{ABSENT, EINVAL}, UNCOUNTED | NO_PMU, "no hardware PMU",
     CANNOT "Linux finds no hardware PMU on this machine ({errno}), as in most virtual machines. Use "
     "{clock}, or have the host pass its PMU through."},
    {{ABSENT, EINVAL}, UNCOUNTED, "not supported by this PMU",
     CANNOT "this processor's PMU {pmu} does not count it ({errno}). Use cycles, another event, or "
     "taskClock."},
    {{ABSENT}, WATCHPOINT, "no debug registers",
     CANNOT "this kernel or machine has no debug registers to watch an address with ({errno}). Use a "
     "debugger's software watchpoint, or {otherwise}."},
    {{ABSENT}, 0, "not in this kernel",
     CANNOT "this kernel has no such event ({errno}). {Otherwise}."},
    {{EINVAL}, COUNTING, "not in this way (EINVAL)",
     CANNOT "the kernel does not accept this combination of event and modes, or does not count it by "
     "thread (EINVAL). Use another event, or other modes."},
    {{EINVAL}, 0, "not in this way (EINVAL)",
     CANNOT "the kernel does not accept this combination of event, period ({period}), precision and modes "
     "(EINVAL). Try a larger period, precise_ip 0 and no sample address."},
    {{ENODATA}, WATCHPOINT, "opens, but does not count here",
     CANNOT "the kernel opens it, but the processor's debug registers notice no access to a watched word, "
     "as in a virtual machine whose host does not pass them on. Use a debugger's software watchpoint, or "
     "{otherwise}."},
    {{ENODATA}, 0, "opens, but does not count here",
     CANNOT "the kernel opens it, but the PMU stays at 0 while the processor works, as the PMUs of some "
     "virtual machines do. Use {clock}, or have the host pass its PMU through."},
    {{EACCES}, PARANOID_3, "forbidden: paranoid level {paranoid}",
     MAY_NOT "perf_event_open says {errno} with kernel.perf_event_paranoid={paranoid}. Set it to 2 or "
     "lower with sysctl, give this process CAP_SYS_ADMIN (CAP_PERFMON is enough for some kernels), or "
     "{otherwise}."},
    {{EACCES}, PARANOID_2 | KERNEL_MODE | KERNEL_ONLY, "kernel mode: paranoid level 2",
     "The event {event} counts in the kernel, and kernel.perf_event_paranoid=2 lets only privileged "
     "processes do that. Set kernel.perf_event_paranoid=1 with sysctl, give this process CAP_PERFMON, or "
     "use {clock}."},
    {{EACCES}, PARANOID_2 | KERNEL_MODE, "kernel mode: paranoid level 2",
     "The event {event} counts in the kernel, and kernel.perf_event_paranoid=2 lets only privileged "
     "processes do that. Set kernel.perf_event_paranoid=1 with sysctl, give this process CAP_PERFMON, or "
     "leave the kernel out {how}."},
    {{EACCES}, PARANOID_SECRET, "not permitted (EACCES)",
     MAY_NOT "perf_event_open says {errno}. {Otherwise}."},
    {{EACCES}, 0, "forbidden: security module",
     MAY_NOT "perf_event_open says {errno}, though kernel.perf_event_paranoid={paranoid} allows it. A "
     "security module such as SELinux has to allow perf_event for this program; or {otherwise}."},
    {{EPERM}, SECCOMP, "forbidden by seccomp",
     MAY_NOT "perf_event_open is not permitted (EPERM), and this process has a seccomp filter, as in a "
     "container. Its profile has to allow perf_event_open (docker: --cap-add PERFMON, or --security-opt "
     "seccomp=FILE).{free}"},
    {{EPERM}, WATCHPOINT, "needs privileges",
     MAY_NOT "only privileged processes can watch a kernel address (EPERM). Give this process "
     "CAP_SYS_ADMIN, or watch an address of the program's own."},
    {{EPERM}, TRACEPOINT, "not permitted (EPERM)",
     MAY_NOT "the kernel does not permit this tracepoint to this process (EPERM). Give the process "
     "CAP_PERFMON; if it has that already, use another event."},
    {{EPERM}, 0, "not permitted (EPERM)",
     MAY_NOT "perf_event_open is not permitted (EPERM). In a container its seccomp profile has to allow "
     "perf_event_open (docker: --cap-add PERFMON, or --security-opt seccomp=FILE); elsewhere a security "
     "module or lockdown mode forbids it.{free}"},
    {{ENOSPC}, WATCHPOINT, "all debug registers are in use",
     CANNOT "all of the processor's debug registers are in use ({errno}), x86-64 has four. Use fewer "
     "watchpoints, and end debuggers that have some."},
    {{ENOSPC}, 0, "no counter left",
     CANNOT "the PMU has no counter left for it ({errno}). Use fewer events at once, or end other "
     "profilers."},
    {{EBUSY}, 0, "in use by somebody else (EBUSY)",
     CANNOT "somebody else holds its counters ({errno}): the kernel's NMI watchdog, another profiler, a "
     "hypervisor or firmware. Set kernel.nmi_watchdog=0 with sysctl, end other profilers, or use taskClock."},
    {{ENOSYS}, 0, "no perf_event_open",
     CANNOT "this kernel has no perf_event_open, or a sandbox hides it (ENOSYS). {Otherwise}."},
    {{E2BIG}, 0, "this kernel is too old",
     CANNOT "this kernel is too old for what is asked of it (E2BIG). Use another event, or {otherwise}."},
    {{0}, 0, "",
     CANNOT "perf_event_open says {errno}. {Otherwise}."},
};
/* clang-format on */

/* ---- The machine ----------------------------------------------------------------------------- */

/* Returns whether a hypervisor runs this machine. Only x86 processors tell. */
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

/* Returns whether a PMU is a processor's own: its name is "cpu" or "cpum_cf", or it lists its processors in
 * "cpus", as "armv8_pmuv3_0" and "cpu_core" do. */
static bool is_core(const char *pmu, const void *unused)
{
    (void)unused;
    return strcmp(pmu, "cpu") == 0 || strcmp(pmu, "cpum_cf") == 0 || pmu_has(pmu, "cpus");
}

static bool has_type(const char *pmu, const void *type)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s/type", cp__pmus, pmu);
    return cp__file_number(path, "%lf", -1) == *(const uint32_t *)type;
}

/* Finds the first of the kernel's PMUs for which is() is true. Returns false if there is none. */
static bool find_pmu_that(bool (*is)(const char *pmu, const void *context), const void *context, char *name,
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

/* ---- Facts ----------------------------------------------------------------------------------- */

/* Returns whether the refusal means that no PMU counts the event. x86-64 returns EINVAL for a cache event
 * that makes no sense there, but also for periods that are too short, below 128 at most. */
static bool is_uncounted(int code, const struct cp__event *row, uint32_t type, uint64_t period)
{
    return code == -EINVAL ? type == PERF_TYPE_HW_CACHE && period >= 128 : row->kind == CP_EVENT_HARDWARE;
}

/* Returns the facts about the PMU of an event's type, and the PMU's name. */
static unsigned facts_of_pmu(uint32_t type, char *pmu, size_t size)
{
    if (type >= PERF_TYPE_MAX && find_pmu_that(has_type, &type, pmu, size) && !is_core(pmu, NULL))
        return OTHER_PMU | (pmu_has(pmu, "cpumask") ? WHOLE_MACHINE : 0);
    return find_pmu_that(is_core, NULL, pmu, size) ? 0 : NO_PMU;
}

static unsigned facts_of_event(int code, const struct cp_slot_request *request, char *pmu, size_t size)
{
    const struct cp__event *row = cp__config_event(request->event, &request->config);
    const uint32_t type = request->config.encoding.type;

    return facts_of_pmu(type, pmu, size) | (row->kind == CP_EVENT_WATCHPOINT ? WATCHPOINT : 0) |
           (row->kind == CP_EVENT_TRACEPOINT ? TRACEPOINT : 0) |
           (is_uncounted(code, row, type, request->config.period) ? UNCOUNTED : 0) |
           (request->config.is_kernel_included ? KERNEL_MODE : 0) |
           (row->kernel_mode == CP__KERNEL_REQUIRED ? KERNEL_ONLY : 0);
}

static unsigned facts_of_machine(long paranoid)
{
    return (is_virtual() ? VIRTUAL : 0) | (paranoid == 2 ? PARANOID_2 : 0) | (paranoid > 2 ? PARANOID_3 : 0) |
           (paranoid == UNREADABLE ? PARANOID_SECRET : 0) |
           (cp__file_number("/proc/self/status", "Seccomp: %lf", 0) == 2 ? SECCOMP : 0);
}

/* ---- Words ----------------------------------------------------------------------------------- */

/* A word in braces, and the text that replaces it; if text is NULL, the number. */
struct word {
    const char *name, *text;
    long long number;
};

/* Writes a phrase with its words replaced, as far as there is room. */
static void fill_in(char *to, size_t size, const char *phrase, const struct word *words)
{
    const struct word *word;

    *to = '\0';
    for (; *phrase != '\0' && size > 1; size -= strlen(to), to += strlen(to)) {
        for (word = words; word->name != NULL && strncmp(phrase, word->name, strlen(word->name)) != 0; word++)
            ;
        if (word->name == NULL)
            snprintf(to, size, "%c", *phrase);
        else if (word->text != NULL)
            snprintf(to, size, "%s", word->text);
        else
            snprintf(to, size, "%lld", word->number);
        phrase += word->name == NULL ? 1 : strlen(word->name);
    }
}

static const struct phrase *phrase_of(int code, unsigned facts)
{
    const struct phrase *phrase = phrases;

    for (;; phrase++) /* the last row fits every answer */
        for (size_t i = 0;
             (phrase->facts & ~facts) == 0 && i < sizeof phrase->codes / sizeof phrase->codes[0]; i++)
            if (phrase->codes[i] == -code || phrase->codes[0] == 0)
                return phrase;
}

static int explain_refusal(int code, unsigned facts, const struct cp_slot_request *request,
                           struct cp_error *err)
{
    const long paranoid = (long)cp__file_number("/proc/sys/kernel/perf_event_paranoid", "%lf", UNREADABLE);
    const struct cp__event_text name = cp__request_name(request);
    const bool counts = (facts & COUNTING) != 0; /* a timer samples, but counts nothing */
    char pmu[NAME_MAX + 1] = "", reason[sizeof err->reason], sentence[sizeof err->message];
    struct rlimit files = {0, 0};
    const struct phrase *phrase =
        phrase_of(code, facts | facts_of_event(code, request, pmu, sizeof pmu) | facts_of_machine(paranoid));

    getrlimit(RLIMIT_NOFILE, &files);

    const struct word words[] = {
        {"{event}", name.text, 0},
        {"{errno}", strerror(-code), 0},
        {"{pmu}", pmu, 0},
        {"{paranoid}", NULL, paranoid},
        {"{period}", NULL, (long long)request->config.period},
        {"{files}", NULL, (long long)files.rlim_cur},
        {"{memory}", NULL, (long long)cp__file_number("/proc/sys/kernel/perf_event_mlock_kb", "%lf", 516)},
        {"{clock}", counts ? "taskClock" : "taskClock or timer", 0},
        {"{otherwise}", counts ? "do without it" : "use timer", 0},
        {"{Otherwise}", counts ? "Do without it" : "Use timer", 0},
        {"{how}", counts ? "(suffix u)" : "(is_kernel_included)", 0},
        {"{free}", counts ? "" : " The event timer needs none of this.", 0},
        {NULL, NULL, 0},
    };

    fill_in(reason, sizeof reason, phrase->reason, words);
    fill_in(sentence, sizeof sentence, phrase->sentence, words);
    return cp__error_because(err, code, reason, "%s", sentence);
}

int cp__perf_explain(int code, const struct cp_slot_request *request, struct cp_error *err)
{
    return explain_refusal(code, 0, request, err);
}

int cp__perf_explain_count(int code, const struct cp_slot_request *request, struct cp_error *err)
{
    return explain_refusal(code, COUNTING, request, err);
}

int cp__perf_explain_ring(int code, const struct cp_slot_request *request, struct cp_error *err)
{
    return explain_refusal(code, RING, request, err);
}
