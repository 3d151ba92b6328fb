#include "perf_linux.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "error.h"
#include "event.h"

#define PARANOID "/proc/sys/kernel/perf_event_paranoid"

static long read_number(const char *path, long otherwise)
{
    FILE *file = fopen(path, "re");
    long value = otherwise;

    if (file == NULL)
        return otherwise;
    if (fscanf(file, "%ld", &value) != 1)
        value = otherwise;
    fclose(file);
    return value;
}

/* The kernel lists a processor's own PMU as "cpu" or under a name such as "armv8_pmuv3_0" or "cpu_core". */
static bool has_pmu(void)
{
    DIR *directory = opendir("/sys/bus/event_source/devices");
    const struct dirent *entry;
    bool found = false;

    if (directory == NULL)
        return false;
    while (!found && (entry = readdir(directory)) != NULL)
        found = strcmp(entry->d_name, "cpu") == 0 || strncmp(entry->d_name, "cpu_", 4) == 0 ||
                strncmp(entry->d_name, "armv8", 5) == 0 || strstr(entry->d_name, "pmuv3") != NULL;
    closedir(directory);
    return found;
}

static int explain_absent(int code, const char *name, enum cp_event_kind kind, struct cp_error *err)
{
    if (kind != CP_EVENT_HARDWARE)
        return cp__error(err, code, "The event %s cannot run: this kernel has no such event (%s). Use timer.",
                         name, strerror(-code));
    if (has_pmu())
        return cp__error(
            err, code,
            "The event %s cannot run: this processor's PMU does not count it (%s). Use cycles, another "
            "event, or taskClock.",
            name, strerror(-code));
    return cp__error(
        err, code,
        "The event %s cannot run: Linux finds no hardware PMU on this machine (%s), as in most virtual "
        "machines. Use taskClock or timer, or have the host pass its PMU through.",
        name, strerror(-code));
}

static int explain_denied(int code, const char *name, const struct cp_slot_request *request,
                          struct cp_error *err)
{
    long paranoid = read_number(PARANOID, -9);
    bool required = cp__config_event(request->event, &request->config)->kernel_mode == CP__KERNEL_REQUIRED;

    if (paranoid == -9)
        return cp__error(err, code, "The event %s may not run here: perf_event_open says %s. Use timer.",
                         name, strerror(-code));
    if (request->config.is_kernel_included && paranoid == 2)
        return cp__error(
            err, code,
            "The event %s counts in the kernel, and kernel.perf_event_paranoid=2 lets only privileged "
            "processes do that. Set kernel.perf_event_paranoid=1 with sysctl, give this process "
            "CAP_PERFMON, or %s.",
            name, required ? "use taskClock or timer" : "leave the kernel out (is_kernel_included)");
    return cp__error(
        err, code,
        "The event %s may not run here: perf_event_open says %s with kernel.perf_event_paranoid=%ld. Set it "
        "to 2 or lower with sysctl, give this process CAP_PERFMON, or use timer.",
        name, strerror(-code), paranoid);
}

static int explain_descriptors(int code, const char *name, struct cp_error *err)
{
    struct rlimit limit = {0, 0};

    getrlimit(RLIMIT_NOFILE, &limit);
    return cp__error(
        err, code,
        "The event %s cannot run: there is no file descriptor left for it (%s; the limit of this process is "
        "%llu). Raise it with ulimit -n, sample fewer events, or use timer.",
        name, strerror(-code), (unsigned long long)limit.rlim_cur);
}

int cp__perf_explain(int code, const struct cp_slot_request *request, struct cp_error *err)
{
    struct cp__event_text full_name = cp__request_name(request);
    const char *name = full_name.text;

    switch (-code) {
    case ENOENT:
    case ENODEV:
    case ENXIO:
    case EOPNOTSUPP:
        return explain_absent(code, name, cp__config_event(request->event, &request->config)->kind, err);
    case EACCES:
        return explain_denied(code, name, request, err);
    case EPERM:
        return cp__error(
            err, code,
            "The event %s may not run here: perf_event_open is not permitted (EPERM). In a container its "
            "seccomp profile has to allow perf_event_open (docker: --cap-add PERFMON, or --security-opt "
            "seccomp=FILE); elsewhere kernel.perf_event_paranoid or a security module forbids it. The event "
            "timer needs none of this.",
            name);
    case ENOSYS:
        return cp__error(
            err, code,
            "The event %s cannot run: this kernel has no perf_event_open, or a sandbox hides it (ENOSYS). "
            "Use timer.",
            name);
    case EMFILE:
    case ENFILE:
        return explain_descriptors(code, name, err);
    case EINVAL:
        return cp__error(
            err, code,
            "The event %s cannot run: the kernel does not accept this combination of period, precision and "
            "modes (EINVAL). Try precise_ip 0 and no sample address.",
            name);
    default:
        return cp__error(err, code, "The event %s cannot run: perf_event_open says %s. Use timer.", name,
                         strerror(-code));
    }
}

int cp__perf_explain_ring(int code, const struct cp_slot_request *request, struct cp_error *err)
{
    struct cp__event_text name = cp__request_name(request);

    if (code == -EMFILE || code == -ENFILE)
        return explain_descriptors(code, name.text, err);
    if (code == -EPERM)
        return cp__error(
            err, code,
            "The event %s cannot run: there is no ring memory left for it. This user's processes already map "
            "what kernel.perf_event_mlock_kb (%ld KiB a CPU) and ulimit -l allow. End other profilers, raise "
            "either, give this process CAP_IPC_LOCK, or use timer.",
            name.text, read_number("/proc/sys/kernel/perf_event_mlock_kb", 516));
    return cp__error(
        err, code,
        "The event %s cannot run: there is no ring memory for it (%s). Free some memory, or use timer.",
        name.text, strerror(-code));
}
