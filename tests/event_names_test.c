/* The grammar of event names: every form that needs no PMU, suffixes, what is refused, and lists of names. */
#include <sys/stat.h>

#include "event_tools.h"
#include "refuse.h"
#include "watch.h"

/* ---- Raw events ------------------------------------------------------------------------------ */

CP_TEST(raw_events)
{
    static const struct {
        const char *name;
        uint64_t raw;
        const char *canonical;
    } raws[] = {
        {"r0", 0, "r0"},
        {"r1c2", 0x1c2, "r1c2"},
        {"r1C2", 0x1c2, "r1c2"},
        {"rABCDEF", 0xabcdef, "rabcdef"},
        {"rabcdef", 0xabcdef, "rabcdef"},
        {"r00c4", 0xc4, "rc4"},
        {"r0000000000000001", 1, "r1"},
        {"rFFFFFFFFFFFFFFFF", UINT64_MAX, "rffffffffffffffff"},
        {"r8000000000000000", (uint64_t)1 << 63, "r8000000000000000"},
        {"r01C2:k", 0x1c2, "r1c2:k"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(raws); i++) {
        struct cp_event_spec spec = parse(raws[i].name);

        CHECK_EQ(spec.event, CP_CPUPROF_HW_RAW);
        CHECK_EQ(spec.kind, CP_EVENT_HARDWARE);
        CHECK_EQ(spec.preset_period, 100000);
        CHECKF(spec.raw_event == raws[i].raw, "%s", raws[i].name);
        CHECK_STR(spec.name, raws[i].canonical);
        spec = parse(spec.name); /* a canonical name is a name */
        CHECKF(spec.raw_event == raws[i].raw, "%s", raws[i].name);
    }
}

/* ---- Names that no row has ------------------------------------------------------------------- */

static void refuse_unknown(const char *name, const char *shown)
{
    struct cp_event_spec spec;
    struct cp_error err = {0};
    char quoted[64];

    snprintf(quoted, sizeof quoted, "There is no event named \"%s\"", shown);
    refuse_name(name, -EINVAL, quoted);
    CHECK_EQ(cp_event_parse(name, &spec, &err), -EINVAL);
    for (enum cp_cpu_event event = 0; event < CP_CPUPROF_NAMED; event++) { /* what to use instead */
        if (event != CP_CPUPROF_HW_RAW)
            CHECK_CONTAINS(err.message, cp_event_name(event));
    }
    CHECK_CONTAINS(err.message, "rHEX");
    CHECK_CONTAINS(err.message, "counterpoint events");
}

CP_TEST(names_of_nothing)
{
    static const char *const names[] = {"",
                                        " ",
                                        "cycle",
                                        " cycles",
                                        "cycles ",
                                        "raw",
                                        "r",
                                        "rxyz",
                                        "r1g",
                                        "R1c2x",
                                        "r 1c2",
                                        "r1c2 ",
                                        "r0x1c2",
                                        "r-1",
                                        "r+1",
                                        "rr1",
                                        "0x1c2",
                                        "1c2",
                                        "r1,c2",
                                        "taskclock",
                                        "timer,cycles",
                                        "r.",
                                        "clock",
                                        "all",
                                        "-",
                                        ":",
                                        "::",
                                        "%s%n%x",
                                        "\"",
                                        "branchmisses",
                                        "named",
                                        "LLC-",
                                        "LLC--",
                                        "l1",
                                        "LLC-x",
                                        "node-loads-x",
                                        "LLC-loads-loads",
                                        "LLC-misses-misses",
                                        "LLC-load-misses-load",
                                        "LLCloads",
                                        "Fault",
                                        "dummy",
                                        "bpf-output"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        refuse_unknown(names[i], names[i]);
    refuse_unknown("cycles\t", "cycles?");
    refuse_unknown("r12345678123456781", "r12345678123456781"); /* 17 digits */
    refuse_unknown("r00000000000000001", "r00000000000000001");
    refuse_unknown(NULL, "");
}

/* No byte of a name can do anything to whom it is shown. */
CP_TEST(names_of_odd_bytes)
{
    char name[4] = "a?c";

    for (int byte = 1; byte < 256; byte++) {
        char shown[4] = "a?c";

        if (byte == '/')
            continue; /* a PMU's */
        name[1] = (char)byte;
        if (byte >= ' ' && byte != 0x7f)
            shown[1] = (char)byte;
        refuse_unknown(name, shown);
    }
    refuse_unknown("\033[2J\033]0;title\007cycles\r\n", "?[2J?]0;title?cycles??");
}

CP_TEST(names_of_any_length)
{
    char *name = malloc(100001);
    char shown[64];

    for (size_t n = 1; n <= 100000; n = n < 600 ? n + 1 : n * 3) {
        memset(name, 'x', n);
        name[n] = 0;
        snprintf(shown, sizeof shown, "%.40s%s", name, n > 40 ? "..." : "");
        refuse_unknown(name, shown);
    }
    free(name);
}

/* ---- Suffixes -------------------------------------------------------------------------------- */

CP_TEST(suffixes)
{
    static const struct {
        const char *name;
        const char *canonical;
        unsigned modes;
        enum cp_profile_pc_precision precise_ip;
    } suffixes[] = {
        {"cycles:u", "cycles:u", CP_EVENT_USER, CP_CPUPROF_IP_ARBITRARY_SKID},
        {"cycles:k", "cycles:k", CP_EVENT_KERNEL, CP_CPUPROF_IP_ARBITRARY_SKID},
        {"cycles:h", "cycles:h", CP_EVENT_HV, CP_CPUPROF_IP_ARBITRARY_SKID},
        {"cpu-cycles:ku", "cycles:uk", CP_EVENT_USER | CP_EVENT_KERNEL, CP_CPUPROF_IP_ARBITRARY_SKID},
        {"cycles:hku", "cycles:ukh", CP_EVENT_USER | CP_EVENT_KERNEL | CP_EVENT_HV,
         CP_CPUPROF_IP_ARBITRARY_SKID},
        {"cycles:p", "cycles:p", 0, CP_CPUPROF_IP_CONSTANT_SKID},
        {"cycles:pp", "cycles:pp", 0, CP_CPUPROF_IP_SUGGEST_NO_SKID},
        {"cycles:ppp", "cycles:ppp", 0, CP_CPUPROF_IP_NO_SKID},
        {"cycles:upp", "cycles:upp", CP_EVENT_USER, CP_CPUPROF_IP_SUGGEST_NO_SKID},
        {"cycles:pup", "cycles:upp", CP_EVENT_USER, CP_CPUPROF_IP_SUGGEST_NO_SKID},
        {"r1c2:ukp", "r1c2:ukp", CP_EVENT_USER | CP_EVENT_KERNEL, CP_CPUPROF_IP_CONSTANT_SKID},
        {"task-clock:u", "taskClock:u", CP_EVENT_USER, CP_CPUPROF_IP_ARBITRARY_SKID},
        {"contextSwitches:uk", "contextSwitches:uk", CP_EVENT_USER | CP_EVENT_KERNEL,
         CP_CPUPROF_IP_ARBITRARY_SKID},
        {"major-faults:u", "majorFaults:u", CP_EVENT_USER, CP_CPUPROF_IP_ARBITRARY_SKID},
        {"LLC-misses:upp", "LLC-load-misses:upp", CP_EVENT_USER, CP_CPUPROF_IP_SUGGEST_NO_SKID},
        {"mem:4096:u", "mem:0x1000/4:rw:u", CP_EVENT_USER, CP_CPUPROF_IP_ARBITRARY_SKID},
        {"mem:4096:x:k", "mem:0x1000/8:x:k", CP_EVENT_KERNEL, CP_CPUPROF_IP_ARBITRARY_SKID},
    };

    for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
        struct cp_event_spec spec = parse(suffixes[i].name);

        CHECK_STR(spec.name, suffixes[i].canonical);
        CHECK_EQ(spec.modes, suffixes[i].modes);
        CHECK_EQ(spec.precise_ip, suffixes[i].precise_ip);
        CHECK_STR(parse(spec.name).name, spec.name);
    }
}

CP_TEST(suffixes_that_are_refused)
{
    static const struct {
        const char *name;
        const char *said;
    } bad[] = {
        {"cycles:uu", "\"cycles\" cannot have a suffix with \"u\""},
        {"cycles:pppp", "\"cycles\" cannot have a suffix with \"p\""},
        {"cycles:upku", "\"cycles\" cannot have a suffix with \"u\""},
        {"cycles:x", "\"cycles\" cannot have a suffix with \"x\""},
        {"cycles:", "ends in a colon"},
        {"cycles:u:k", "\"cycles\" cannot have a suffix with \":\""},
        {"r1c2:ux", "\"r1c2\" cannot have a suffix with \"x\""},
        {"LLC-loads:z", "\"LLC-loads\" cannot have a suffix with \"z\""},
        {"mem:0x10:w:z", "\"mem:0x10/4:w\" cannot have a suffix with \"z\""},
        {"cycles:G", "guests only"},
        {"cycles:uH", "outside of guests"},
        {"cycles:I", "idle task"},
        {"cycles:S", "group"},
        {"cycles:D", "keeping the event on its counter"},
        {"cycles:uP", "use :ppp"},
        {"cycles:W", "group"},
        {"cycles:e", "for this event alone"},
        {"cycles:b", "BPF"},
        {"timer:u", "The timer cannot have the suffix \"u\""},
        {"timer:ppp", "taskClock"},
        {"contextSwitches:u", "happens in the kernel only"},
        {"cs:uh", "Add k to the suffix"},
        {"cgroup-switches:u", "happens in the kernel only"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        refuse_name(bad[i].name, -EINVAL, bad[i].said);
}

/* What modes a suffix lets count. */
CP_TEST(suffixes_reach_the_config)
{
    static const struct {
        const char *name;
        bool user, kernel, hv, chain;
    } configs[] = {
        {"cycles:u", true, false, false, false},    {"cycles:k", false, true, false, true},
        {"cycles:uk", true, true, false, true},     {"cycles:h", false, false, true, false},
        {"cycles", true, false, false, false},      {"cycles:p", true, false, false, false},
        {"taskClock:u", true, false, false, false}, {"mem:64:w", true, false, false, false},
        {"LLC-loads:ukh", true, true, true, true},
    };

    for (size_t i = 0; i < ARRAY_SIZE(configs); i++) {
        struct cp_event_spec spec = parse(configs[i].name);
        struct cp_slot_request request = {.event = spec.event, .name = spec.name};
        struct cp_error err = {0};

        CHECKF(cp_cpu_profile_config_init(&request.config, &spec, 1000000, &err) == 0, "%s", err.message);
        CHECKF(cp__request_check(&request, &err) == 0, "%s", err.message);
        CHECK_EQ(request.config.is_user_excluded, !configs[i].user);
        CHECK_EQ(request.config.is_kernel_included, configs[i].kernel);
        CHECK_EQ(request.config.is_hv_included, configs[i].hv);
        CHECK_EQ(request.config.is_sample_callchain_included, configs[i].chain);
        CHECK_EQ(request.config.precise_ip, spec.precise_ip);
        CHECK(memcmp(&request.config.encoding, &spec.encoding, sizeof spec.encoding) == 0);
    }
}

/* ---- Hardware cache events ------------------------------------------------------------------- */

#define CACHE(cache, op, result)                                                                             \
    (PERF_COUNT_HW_CACHE_##cache | PERF_COUNT_HW_CACHE_OP_##op << 8 |                                        \
     PERF_COUNT_HW_CACHE_RESULT_##result << 16)

/* Configs as perf_event_open(2) composes them; the first names are those of "perf list", the others perf 6.1
 * was seen to take (with -vv), and the last ones differ from them in case. */
CP_TEST(cache_events)
{
    static const struct {
        const char *name;
        const char *canonical;
        uint64_t config;
    } events[] = {
        {"L1-dcache-loads", "L1-dcache-loads", CACHE(L1D, READ, ACCESS)},
        {"L1-dcache-load-misses", "L1-dcache-load-misses", CACHE(L1D, READ, MISS)},
        {"L1-dcache-stores", "L1-dcache-stores", CACHE(L1D, WRITE, ACCESS)},
        {"L1-dcache-store-misses", "L1-dcache-store-misses", CACHE(L1D, WRITE, MISS)},
        {"L1-dcache-prefetches", "L1-dcache-prefetches", CACHE(L1D, PREFETCH, ACCESS)},
        {"L1-dcache-prefetch-misses", "L1-dcache-prefetch-misses", CACHE(L1D, PREFETCH, MISS)},
        {"L1-icache-loads", "L1-icache-loads", CACHE(L1I, READ, ACCESS)},
        {"L1-icache-load-misses", "L1-icache-load-misses", CACHE(L1I, READ, MISS)},
        {"L1-icache-prefetches", "L1-icache-prefetches", CACHE(L1I, PREFETCH, ACCESS)},
        {"L1-icache-prefetch-misses", "L1-icache-prefetch-misses", CACHE(L1I, PREFETCH, MISS)},
        {"LLC-loads", "LLC-loads", CACHE(LL, READ, ACCESS)},
        {"LLC-load-misses", "LLC-load-misses", CACHE(LL, READ, MISS)},
        {"LLC-stores", "LLC-stores", CACHE(LL, WRITE, ACCESS)},
        {"LLC-store-misses", "LLC-store-misses", CACHE(LL, WRITE, MISS)},
        {"LLC-prefetches", "LLC-prefetches", CACHE(LL, PREFETCH, ACCESS)},
        {"LLC-prefetch-misses", "LLC-prefetch-misses", CACHE(LL, PREFETCH, MISS)},
        {"dTLB-loads", "dTLB-loads", CACHE(DTLB, READ, ACCESS)},
        {"dTLB-load-misses", "dTLB-load-misses", CACHE(DTLB, READ, MISS)},
        {"dTLB-stores", "dTLB-stores", CACHE(DTLB, WRITE, ACCESS)},
        {"dTLB-store-misses", "dTLB-store-misses", CACHE(DTLB, WRITE, MISS)},
        {"dTLB-prefetches", "dTLB-prefetches", CACHE(DTLB, PREFETCH, ACCESS)},
        {"dTLB-prefetch-misses", "dTLB-prefetch-misses", CACHE(DTLB, PREFETCH, MISS)},
        {"iTLB-loads", "iTLB-loads", CACHE(ITLB, READ, ACCESS)},
        {"iTLB-load-misses", "iTLB-load-misses", CACHE(ITLB, READ, MISS)},
        {"branch-loads", "branch-loads", CACHE(BPU, READ, ACCESS)},
        {"branch-load-misses", "branch-load-misses", CACHE(BPU, READ, MISS)},
        {"node-loads", "node-loads", CACHE(NODE, READ, ACCESS)},
        {"node-load-misses", "node-load-misses", CACHE(NODE, READ, MISS)},
        {"node-stores", "node-stores", CACHE(NODE, WRITE, ACCESS)},
        {"node-store-misses", "node-store-misses", CACHE(NODE, WRITE, MISS)},
        {"node-prefetches", "node-prefetches", CACHE(NODE, PREFETCH, ACCESS)},
        {"node-prefetch-misses", "node-prefetch-misses", CACHE(NODE, PREFETCH, MISS)},
        /* other spellings */
        {"LLC", "LLC-loads", 0x2},
        {"node", "node-loads", 0x6},
        {"L2-refs", "LLC-loads", 0x2},
        {"LLC-Reference", "LLC-loads", 0x2},
        {"LLC-ops", "LLC-loads", 0x2},
        {"LLC-access", "LLC-loads", 0x2},
        {"LLC-load", "LLC-loads", 0x2},
        {"LLC-read-access", "LLC-loads", 0x2},
        {"LLC-misses", "LLC-load-misses", 0x10002},
        {"LLC-store-refs", "LLC-stores", 0x102},
        {"l1d-read-miss", "L1-dcache-load-misses", 0x10000},
        {"l1d-miss-read", "L1-dcache-load-misses", 0x10000},
        {"l1-d-write", "L1-dcache-stores", 0x100},
        {"L1-data-speculative-read", "L1-dcache-prefetches", 0x200},
        {"L1-data-speculative-load-miss", "L1-dcache-prefetch-misses", 0x10200},
        {"L1-data-miss-speculative-load", "L1-dcache-prefetch-misses", 0x10200},
        {"l1i-miss", "L1-icache-load-misses", 0x10001},
        {"l1-i-prefetch", "L1-icache-prefetches", 0x201},
        {"L1-instruction-load", "L1-icache-loads", 0x1},
        {"d-tlb-stores-misses", "dTLB-store-misses", 0x10103},
        {"Data-TLB-load", "dTLB-loads", 0x3},
        {"i-tlb", "iTLB-loads", 0x4},
        {"Instruction-TLB-misses", "iTLB-load-misses", 0x10004},
        {"branches-loads", "branch-loads", 0x5},
        {"bpu-read", "branch-loads", 0x5},
        {"btb-misses", "branch-load-misses", 0x10005},
        {"bpc-load-miss", "branch-load-misses", 0x10005},
        {"itlb-load-misses", "iTLB-load-misses", 0x10004},
        {"l2-LOADS", "LLC-loads", 0x2},
    };
    size_t n = 0;
    struct cp__cache_event event;

    for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
        struct cp_event_spec spec = parse(events[i].name);

        CHECK_STR(spec.name, events[i].canonical);
        CHECK_EQ(spec.event, CP_CPUPROF_NAMED);
        CHECK_EQ(spec.kind, CP_EVENT_HARDWARE);
        CHECK_EQ(spec.encoding.type, PERF_TYPE_HW_CACHE);
        CHECKF(spec.encoding.config == events[i].config, "%s", events[i].name);
        CHECK_EQ(spec.preset_period, strstr(spec.name, "misses") != NULL ? 10000 : 100000);
    }
    for (; cp__cache_event(n, &event); n++) { /* what is listed is what there is */
        CHECK_STR(event.name, events[n].name);
        CHECK_EQ(event.config, events[n].config);
        CHECK_EQ(event.preset_period, parse(event.name).preset_period);
    }
    CHECK_EQ(n, 32);
}

/* As evsel__hw_cache_type and evsel__hw_cache_stat of perf's evsel.c, util/, have it. */
CP_TEST(cache_events_that_make_no_sense)
{
    static const char *const names[] = {"L1-icache-stores",   "l1i-write-misses", "iTLB-stores",
                                        "iTLB-prefetches",    "branch-stores",    "btb-prefetch-misses",
                                        "i-tlb-store-misses", "bpu-write"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        refuse_name(names[i], -EINVAL, "no processor does that");
    refuse_name("L1-icache-stores", -EINVAL, "Use L1-icache-loads");
}

/* ---- Watchpoints ----------------------------------------------------------------------------- */

CP_TEST(watchpoints)
{
    static const struct {
        const char *name;
        const char *canonical;
        uint32_t bp_type;
        uint64_t address, length;
    } watches[] = {
        {"mem:0x601040/8:w", "mem:0x601040/8:w", HW_BREAKPOINT_W, 0x601040, 8},
        {"mem:0X601040/8:w", "mem:0x601040/8:w", HW_BREAKPOINT_W, 0x601040, 8},
        {"mem:6295616/8:w", "mem:0x601040/8:w", HW_BREAKPOINT_W, 0x601040, 8},
        {"mem:0x1000", "mem:0x1000/4:rw", HW_BREAKPOINT_RW, 0x1000, 4},
        {"mem:0x1000:wr", "mem:0x1000/4:rw", HW_BREAKPOINT_RW, 0x1000, 4},
        {"mem:0x1000/0x2:rw", "mem:0x1000/2:rw", HW_BREAKPOINT_RW, 0x1000, 2},
        {"mem:0x1001/1", "mem:0x1001/1:rw", HW_BREAKPOINT_RW, 0x1001, 1},
        {"mem:0x1001:x", "mem:0x1001/8:x", HW_BREAKPOINT_X, 0x1001, sizeof(long)},
        {"mem:0x1001/8:x", "mem:0x1001/8:x", HW_BREAKPOINT_X, 0x1001, sizeof(long)},
        {"mem:18446744073709551608/8:w", "mem:0xfffffffffffffff8/8:w", HW_BREAKPOINT_W, UINT64_MAX - 7, 8},
    };

    for (size_t i = 0; i < ARRAY_SIZE(watches); i++) {
        struct cp_event_spec spec = parse(watches[i].name);

        CHECK_STR(spec.name, watches[i].canonical);
        CHECK_STR(parse(spec.name).name, spec.name);
        CHECK_EQ(spec.event, CP_CPUPROF_NAMED);
        CHECK_EQ(spec.kind, CP_EVENT_WATCHPOINT);
        CHECK_EQ(spec.preset_period, 1);
        CHECK_EQ(spec.encoding.type, PERF_TYPE_BREAKPOINT);
        CHECK_EQ(spec.encoding.bp_type, watches[i].bp_type);
        CHECK_EQ(spec.encoding.config, 0);
        CHECK_EQ(spec.encoding.config1, watches[i].address);
        CHECK_EQ(spec.encoding.config2, watches[i].length);
    }
}

CP_TEST(watchpoints_that_are_refused)
{
    static const struct {
        const char *name;
        const char *said;
    } bad[] = {
        {"mem:", "Write mem:ADDRESS"},
        {"mem:x", "Write mem:ADDRESS"},
        {"mem:0x", "Write mem:ADDRESS"},
        {"mem:-1", "Write mem:ADDRESS"},
        {"mem: 1", "Write mem:ADDRESS"},
        {"mem:0x1000/", "Write mem:ADDRESS"},
        {"mem:0x1000/0", "Write mem:ADDRESS"},
        {"mem:0x1000/8w", "Write mem:ADDRESS"},
        {"mem:0x1000/8:ww", "Write mem:ADDRESS"},
        {"mem:0x1000zz", "Write mem:ADDRESS"},
        {"mem:0x1000:wz", "Write mem:ADDRESS"},
        {"mem:99999999999999999999", "Write mem:ADDRESS"},
        {"mem:0x10000000000000000", "Write mem:ADDRESS"},
        {"mem:0x1000/3:w", "1, 2, 4 or 8 bytes long, not 3"},
        {"mem:0x1000/16:w", "not 16"},
        {"mem:0x1001/2:w", "0x1001 is no multiple of 2"},
        {"mem:0x1004/8:w", "0x1004 is no multiple of 8"},
        {"mem:0x1002", "0x1002 is no multiple of 4"},
        {"mem:0x1000/4:x", "4 is neither"},
        {"mem:0x1000:rx", "x cannot stand beside"},
        {"mem:0x1000:rwx", "x cannot stand beside"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        refuse_name(bad[i].name, -EINVAL, bad[i].said);
    if (!CP__WATCHES_READS_ALONE)
        refuse_name("mem:0x1000:r", -EINVAL, "cannot watch reads alone");
}

/* ---- Tracepoints ----------------------------------------------------------------------------- */

static void write_id(const char *system, const char *name, const char *text)
{
    char path[512];
    FILE *file;

    snprintf(path, sizeof path, "%s/tracefs/events/%s/%s", test_dir(), system, name);
    free(test_command(NULL, "mkdir -p %s", path));
    strcat(path, "/id");
    file = fopen(path, "w");
    CHECKF(file != NULL, "%s", path);
    fputs(text, file);
    CHECK_EQ(fclose(file), 0);
}

static int find(const char *const *tracefs, const char *name, struct cp_event_spec *spec, const char **suffix,
                struct cp_error *err)
{
    *spec = (struct cp_event_spec){.event = CP_CPUPROF_NAMED};
    return cp__event_find_tracepoint(tracefs, name, spec, suffix, err);
}

CP_TEST(tracepoints)
{
    char good[512], empty[512];
    const char *const one[] = {good, NULL};
    const char *const second[] = {empty, good, NULL};
    struct cp_event_spec spec;
    const char *suffix;

    snprintf(good, sizeof good, "%s/tracefs", test_dir());
    snprintf(empty, sizeof empty, "%s/empty", test_dir());
    write_id("sched", "sched_switch", "316\n");
    write_id("timer", "hrtimer_start", "77\n");
    CHECK_EQ(find(one, "sched:sched_switch", &spec, &suffix, NULL), 0);
    CHECK_STR(spec.name, "tracepoint:sched:sched_switch");
    CHECK_EQ(spec.event, CP_CPUPROF_NAMED);
    CHECK_EQ(spec.kind, CP_EVENT_TRACEPOINT);
    CHECK_EQ(spec.encoding.type, PERF_TYPE_TRACEPOINT);
    CHECK_EQ(spec.encoding.config, 316);
    CHECK_EQ(spec.preset_period, 1);
    CHECK(suffix == NULL);
    CHECK_EQ(find(second, "timer:hrtimer_start:k", &spec, &suffix, NULL), 0);
    CHECK_EQ(spec.encoding.config, 77);
    CHECK_STR(suffix, "k");
}

CP_TEST(tracepoints_that_are_refused)
{
    static const struct {
        const char *name;
        int code;
        const char *said;
    } bad[] = {
        {"sched:none", -ENOENT, "no tracepoint sched:none"},
        {"none:none", -ENOENT, "no tracepoint none:none"},
        {"broken:broken", -ENOENT, "no tracepoint"},
        {"sched", -EINVAL, "cannot be read"},
        {"sched:", -EINVAL, "cannot be read"},
        {":x", -EINVAL, "cannot be read"},
        {"../events/sched:sched_switch", -EINVAL, "cannot be read"},
        {"..:sched", -EINVAL, "cannot be read"},
        {"sched:sched switch", -EINVAL, "cannot be read"},
        {"", -EINVAL, "cannot be read"},
    };
    char good[512], empty[512];
    const char *const one[] = {good, NULL};
    const char *const none[] = {empty, "/no/such", NULL};
    struct cp_event_spec spec;
    struct cp_error err = {0};
    const char *suffix;

    snprintf(good, sizeof good, "%s/tracefs", test_dir());
    snprintf(empty, sizeof empty, "%s/empty", test_dir());
    free(test_command(NULL, "mkdir %s", empty));
    write_id("sched", "sched_switch", "316\n");
    write_id("broken", "broken", "\n");
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        int result = find(one, bad[i].name, &spec, &suffix, &err);

        CHECKF(result == bad[i].code, "%s: %d", bad[i].name, result);
        check_message(&err);
        CHECK_CONTAINS(err.message, bad[i].said);
    }
    CHECK_EQ(find(none, "sched:sched_switch", &spec, &suffix, &err), -ENODEV);
    check_message(&err);
    CHECK_CONTAINS(err.message, "mount -t tracefs");
    CHECK_CONTAINS(err.message, empty);
}

/* Whom the kernel's directory is closed to is told how it is opened. */
CP_TEST(tracepoints_that_may_not_be_read)
{
    char closed[512];
    const char *const one[] = {closed, NULL};
    struct cp_event_spec spec;
    struct cp_error err = {0};
    const char *suffix;

    snprintf(closed, sizeof closed, "%s/tracefs", test_dir());
    write_id("sched", "sched_switch", "316\n");
    CHECK_EQ(chmod(closed, 0700), 0);
    CHECK_EQ(chmod(test_dir(), 0755), 0);
    become_nobody();
    CHECK_EQ(find(one, "sched:sched_switch", &spec, &suffix, &err), -EACCES);
    check_message(&err);
    CHECK_CONTAINS(err.message, "remount,mode=755");
}

/* ---- Lists ----------------------------------------------------------------------------------- */

CP_TEST(lists_of_names)
{
    static const struct {
        const char *list;
        const char *names[5]; /* NULL: the end */
    } lists[] = {
        {"cycles", {"cycles"}},
        {"cycles,r1c2:u,timer", {"cycles", "r1c2:u", "timer"}},
        {"cpu/event=0x3c,inv/,timer", {"cpu/event=0x3c,inv/", "timer"}},
        {"timer,cpu/event=0x3c,inv/u,cpu/a,b/", {"timer", "cpu/event=0x3c,inv/u", "cpu/a,b/"}},
        {"mem:0x1000/8:w,cycles", {"mem:0x1000/8:w", "cycles"}},
        {"mem:0x1000/8:w,mem:0x1000/4,cpu/a,b/", {"mem:0x1000/8:w", "mem:0x1000/4", "cpu/a,b/"}},
        {"cpu/a,b", {"cpu/a,b"}}, /* an error, but one */
        {"", {""}},
        {",", {"", ""}},
        {"cycles,", {"cycles", ""}},
        {"cycles,,timer", {"cycles", "", "timer"}},
    };

    for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
        char text[128];
        char *rest = text;
        size_t n = 0;

        snprintf(text, sizeof text, "%s", lists[i].list);
        for (char *name; (name = cp_event_next(&rest)) != NULL; n++)
            CHECK_STR(name, lists[i].names[n]);
        CHECK(rest == NULL && lists[i].names[n] == NULL);
        CHECK(cp_event_next(&rest) == NULL);
    }
}

/* ---- Anything -------------------------------------------------------------------------------- */

/* What names are made of, and what they are not. */
static const char *const tokens[] = {"cycles",    "taskClock",
                                     "r",         "1c2",
                                     "LLC",       "-",
                                     "load",      "misses",
                                     "mem:",      "0x",
                                     "1000",      "/",
                                     "8",         ":",
                                     "w",         "rw",
                                     "x",         "u",
                                     "k",         "h",
                                     "p",         "pp",
                                     "G",         "tracepoint:",
                                     "sched",     "sched_switch",
                                     "pfm:",      "INST_RETIRED",
                                     "ANY_P",     "c=1",
                                     "precise=2", "::",
                                     "cpu",       "msr",
                                     "tsc",       "event=",
                                     "config=",   "software",
                                     ",",         "=",
                                     "?",         ".",
                                     "..",        " ",
                                     "\n",        "%s",
                                     "\xff",      "99999999999999999999",
                                     "clx",       "timer",
                                     "L1-dcache", "speculative-read"};

/* Whatever comes, the answer is an event whose name stands for it, or an error in words. */
CP_TEST(any_name)
{
    uint64_t state = 0x2545f4914f6cdd1d;
    unsigned events = 0;

    for (int i = 0; i < 20000 / TEST_SLOWDOWN; i++) {
        char name[256] = "";
        struct cp_event_spec spec = {.event = CP_CPUPROF_NAMED};
        struct cp_error err = {0};
        int result;

        state = state * 6364136223846793005u + 1442695040888963407u;
        for (unsigned n = 1 + (state >> 60) % 8, bits = (unsigned)(state >> 20); n > 0;
             n--, bits = bits * 69069 + 1)
            strcat(name, tokens[(bits >> 16) % ARRAY_SIZE(tokens)]);
        result = cp_event_parse(name, &spec, &err);
        if (result < 0) {
            CHECK_EQ(err.code, result);
            check_message(&err);
            continue;
        }
        events++;
        CHECKF(memchr(spec.name, '\0', sizeof spec.name) != NULL && spec.name[0] != '\0', "%s", name);
        CHECK_STR(parse(spec.name).name, spec.name);
        CHECK(memcmp(&(struct cp_event_encoding){.type = 0}, &spec.encoding, sizeof spec.encoding) == 0 ||
              spec.event == CP_CPUPROF_NAMED);
        CHECK(cp__event(spec.event, &spec.encoding)->kind == spec.kind);
    }
    printf("%u of them are events\n", events);
    CHECK(events > 20);
}
