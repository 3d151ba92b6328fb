#include "rows.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/fail.h"

/*
 * A period below min_period is refused. The kernel itself rounds a clock's period up to 10 us, which is less
 * than the cost of a sample. A PMU event that happens in every cycle or so would leave time for nothing else
 * at a period below 1000.
 *
 * The preset periods of the proposal's PMU events are those of its prototype (uber-dev/go, pmu_pprof); clocks
 * have 100 Hz. The other PMU events have presets that give about 100 samples a second if the event is
 * frequent. Programs differ by orders of magnitude in how often they fault or switch, so these events have no
 * preset. Somebody who chooses a tracepoint or a watchpoint wants to see every occurrence.
 *
 * Waits of 10 us or more are all recorded, which is also the threshold of async-profiler's profiles of locks
 * and the rate that is usual for Go's block profile: to record one with its stack takes less than a fiftieth
 * of that. Shorter waits are recorded in proportion to their length.
 */
#define HARDWARE(c, preset, ...)                                                                             \
    {                                                                                                        \
        .kind = CP_EVENT_HARDWARE, .perf_type = PERF_TYPE_HARDWARE, .perf_config = PERF_COUNT_HW_##c,        \
        .preset_period = preset, .min_period = 1000, .kernel_mode = CP__KERNEL_NEVER, __VA_ARGS__            \
    }
#define CLOCK(c, ...)                                                                                        \
    {                                                                                                        \
        .kind = CP_EVENT_CLOCK, .perf_type = PERF_TYPE_SOFTWARE, .perf_config = PERF_COUNT_SW_##c,           \
        .preset_period = 10000000, .min_period = 10000, .kernel_mode = CP__KERNEL_PREFERRED, __VA_ARGS__     \
    }
#define SOFTWARE(c, kernel, ...)                                                                             \
    {                                                                                                        \
        .kind = CP_EVENT_SOFTWARE, .perf_type = PERF_TYPE_SOFTWARE, .perf_config = PERF_COUNT_SW_##c,        \
        .min_period = 1, .kernel_mode = CP__KERNEL_##kernel, __VA_ARGS__                                     \
    }

#define WAITS(...)                                                                                           \
    {                                                                                                        \
        .kind = CP_EVENT_WAIT, .preset_period = 1000000, .min_period = 1, .kernel_mode = CP__KERNEL_NEVER,   \
        __VA_ARGS__                                                                                          \
    }

static const struct cp__event rows[] = {
    [CP_CPUPROF_OS_TIMER] = {.name = "timer",
                             .description = "CPU time, by a POSIX timer of each thread's own",
                             .kind = CP_EVENT_TIMER,
                             .preset_period = 10000000,
                             .min_period = CP__NS_PER_SECOND / 1000000,
                             .kernel_mode = CP__KERNEL_PREFERRED},
    [CP_CPUPROF_HW_CPU_CYCLES] = HARDWARE(CPU_CYCLES, 10000000, .name = "cycles", .alias = "cpu-cycles",
                                          .description = "cycles that the processor runs"),
    [CP_CPUPROF_HW_INSTRUCTIONS] =
        HARDWARE(INSTRUCTIONS, 1000000, .name = "instructions", .description = "instructions that retire"),
    [CP_CPUPROF_HW_CACHE_REFERENCES] =
        HARDWARE(CACHE_REFERENCES, 100000, .name = "cacheReferences", .alias = "cache-references",
                 .description = "accesses to the last level's cache, as a rule"),
    [CP_CPUPROF_HW_CACHE_MISSES] =
        HARDWARE(CACHE_MISSES, 10000, .name = "cacheMisses", .alias = "cache-misses",
                 .description = "accesses that the last level's cache misses, as a rule"),
    [CP_CPUPROF_HW_BRANCH_INSTRUCTIONS] =
        HARDWARE(BRANCH_INSTRUCTIONS, 100000, .name = "branches", .alias = "branch-instructions",
                 .other = "branchInstructions", .description = "branches that retire"),
    [CP_CPUPROF_HW_BRANCH_MISSES] =
        HARDWARE(BRANCH_MISSES, 10000, .name = "branchMisses", .alias = "branch-misses",
                 .description = "branches that were predicted wrongly"),
    [CP_CPUPROF_HW_RAW] = {.name = "raw",
                           .description = "the processor's own event number, in hexadecimal digits",
                           .kind = CP_EVENT_HARDWARE,
                           .perf_type = PERF_TYPE_RAW,
                           .preset_period = 100000,
                           .min_period = 1000,
                           .kernel_mode = CP__KERNEL_NEVER},
    [CP_CPUPROF_SW_TASK_CLOCK] = CLOCK(TASK_CLOCK, .name = "taskClock", .alias = "task-clock",
                                       .description = "CPU time, by the kernel's high-resolution clock"),
    [CP_CPUPROF_SW_CPU_CLOCK] = CLOCK(CPU_CLOCK, .name = "cpuClock", .alias = "cpu-clock",
                                      .description = "CPU time, by the clock of the CPU"),
    [CP_CPUPROF_SW_PAGE_FAULTS] =
        SOFTWARE(PAGE_FAULTS, PREFERRED, .name = "pageFaults", .alias = "page-faults", .other = "faults",
                 .description = "page faults"),
    [CP_CPUPROF_SW_CONTEXT_SWITCHES] =
        SOFTWARE(CONTEXT_SWITCHES, REQUIRED, .name = "contextSwitches", .alias = "context-switches",
                 .other = "cs", .description = "times that the thread gave or lost its CPU"),
    [CP_CPUPROF_SW_CPU_MIGRATIONS] =
        SOFTWARE(CPU_MIGRATIONS, REQUIRED, .name = "cpuMigrations", .alias = "cpu-migrations",
                 .other = "migrations", .description = "times that the thread moved to another CPU"),
    [CP_CPUPROF_NAMED] =
        HARDWARE(MAX, 100000, .name = "named", .description = "any other event, by its encoding"),
    [CP_CPUPROF_WAIT] = WAITS(.name = "wait", .description = "waits, by the stack that waited"),
    [CP_CPUPROF_RUNNABLE] =
        WAITS(.name = "runnable", .description = "times in which a G could run and had no thread"),
    [CP_CPUPROF_LOCK] = WAITS(.name = "lock", .description = "waits, by the stack that ended them"),
    [CP_CPUPROF_WALL] = {.name = "wall",
                         .description = "what Gs do: they run, could run, or wait",
                         .kind = CP_EVENT_WAIT,
                         .preset_period = 10000000,
                         .min_period = 1000000,
                         .kernel_mode = CP__KERNEL_NEVER},
    HARDWARE(BUS_CYCLES, 1000000, .name = "busCycles", .alias = "bus-cycles",
             .description = "cycles of the bus, which differ from the processor's"),
    HARDWARE(REF_CPU_CYCLES, 10000000, .name = "refCycles", .alias = "ref-cycles",
             .description = "cycles at the frequency that is not scaled"),
    HARDWARE(STALLED_CYCLES_FRONTEND, 1000000, .name = "stalledCyclesFrontend",
             .alias = "stalled-cycles-frontend", .other = "idle-cycles-frontend",
             .description = "cycles that had no instruction to issue"),
    HARDWARE(STALLED_CYCLES_BACKEND, 1000000, .name = "stalledCyclesBackend",
             .alias = "stalled-cycles-backend", .other = "idle-cycles-backend",
             .description = "cycles that had nothing free to issue to"),
    SOFTWARE(PAGE_FAULTS_MIN, PREFERRED, .name = "minorFaults", .alias = "minor-faults",
             .description = "page faults that needed no input"),
    SOFTWARE(PAGE_FAULTS_MAJ, PREFERRED, .name = "majorFaults", .alias = "major-faults",
             .description = "page faults that waited for input"),
    SOFTWARE(ALIGNMENT_FAULTS, PREFERRED, .name = "alignmentFaults", .alias = "alignment-faults",
             .description = "unaligned accesses that the kernel mended"),
    SOFTWARE(EMULATION_FAULTS, PREFERRED, .name = "emulationFaults", .alias = "emulation-faults",
             .description = "instructions that the kernel emulated"),
    SOFTWARE(CGROUP_SWITCHES, REQUIRED, .name = "cgroupSwitches", .alias = "cgroup-switches",
             .description = "switches to a thread of another control group"),
};
#define ROWS (sizeof rows / sizeof rows[0])

/* Events that have an encoding but no row. Their encoding's type decides. */
static const struct cp__event named_software = SOFTWARE(MAX, PREFERRED, .name = "named");
static const struct cp__event named_tracepoint = {.name = "named",
                                                  .kind = CP_EVENT_TRACEPOINT,
                                                  .preset_period = 1,
                                                  .min_period = 1,
                                                  .kernel_mode = CP__KERNEL_REQUIRED};
static const struct cp__event named_watchpoint = {.name = "named",
                                                  .kind = CP_EVENT_WATCHPOINT,
                                                  .preset_period = 1,
                                                  .min_period = 1,
                                                  .kernel_mode = CP__KERNEL_NEVER};

const struct cp__event *cp__event_row(size_t i)
{
    return i < ROWS ? &rows[i] : NULL;
}

bool cp__event_is_called(const struct cp__event *row, const char *name)
{
    return strcmp(name, row->name) == 0 || (row->alias != NULL && strcmp(name, row->alias) == 0) ||
           (row->other != NULL && strcmp(name, row->other) == 0);
}

static const struct cp__event *named(const struct cp_event_encoding *encoding)
{
    switch (encoding->type) {
    case PERF_TYPE_SOFTWARE:
        return &named_software;
    case PERF_TYPE_TRACEPOINT:
        return &named_tracepoint;
    case PERF_TYPE_BREAKPOINT:
        return &named_watchpoint;
    default:
        return &rows[CP_CPUPROF_NAMED];
    }
}

const struct cp__event *cp__event(enum cp_cpu_event event, const struct cp_event_encoding *encoding)
{
    if ((unsigned)event >= CP_CPUPROF_EVENT_COUNT)
        return NULL;
    if (event != CP_CPUPROF_NAMED)
        return &rows[event];
    for (size_t i = CP_CPUPROF_EVENT_COUNT; i < ROWS; i++) {
        if (rows[i].perf_type == encoding->type && rows[i].perf_config == encoding->config)
            return &rows[i];
    }
    return named(encoding);
}

const char *cp_event_name(enum cp_cpu_event event)
{
    return (unsigned)event < CP_CPUPROF_EVENT_COUNT ? rows[event].name : NULL;
}
