/* Events by a PMU's terms: with PMUs that the test describes in a directory of its own, and with PMUs that
 * every Linux has. */
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/event_tools.h"

/* ---- A directory of PMUs --------------------------------------------------------------------- */

static void write_file(const char *path, const char *text)
{
    char *full = NULL;
    FILE *file;

    CHECK(asprintf(&full, "%s/%s", test_dir(), path) > 0);
    for (char *at = full + strlen(test_dir()) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        mkdir(full, 0755);
        *at = '/';
    }
    file = fopen(full, "w");
    CHECKF(file != NULL, "%s", full);
    fputs(text, file);
    CHECK_EQ(fclose(file), 0);
    free(full);
}

/* The formats and events of "cpu" are those that Linux shows on Intel's Skylake. The formats of "split" have
 * what the interface allows besides. */
static const char *const files[][2] = {
    {"cpu/type", "4\n"},
    {"cpu/format/event", "config:0-7\n"},
    {"cpu/format/umask", "config:8-15\n"},
    {"cpu/format/edge", "config:18\n"},
    {"cpu/format/pc", "config:19\n"},
    {"cpu/format/any", "config:21\n"},
    {"cpu/format/inv", "config:23\n"},
    {"cpu/format/cmask", "config:24-31\n"},
    {"cpu/format/in_tx", "config:32\n"},
    {"cpu/format/in_tx_cp", "config:33\n"},
    {"cpu/format/offcore_rsp", "config1:0-63\n"},
    {"cpu/format/ldlat", "config1:0-15\n"},
    {"cpu/format/frontend", "config1:0-23\n"},
    {"cpu/events/cpu-cycles", "event=0x3c\n"},
    {"cpu/events/instructions", "event=0xc0\n"},
    {"cpu/events/bus-cycles", "event=0x3c,umask=0x01\n"},
    {"cpu/events/cache-misses", "event=0x2e,umask=0x41\n"},
    {"cpu/events/cycles-ct", "event=0x3c,in_tx=1,in_tx_cp=1\n"},
    {"cpu/events/cycles-t", "event=0x3c,in_tx=1\n"},
    {"cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n"},
    {"cpu/events/topdown-slots-issued", "event=0xe,umask=0x1\n"},
    {"cpu/events/topdown-slots-issued.scale", "4\n"},
    {"split/type", "4000000000\n"},
    {"split/format/event", "config:0-7,32-35\n"},
    {"split/format/word", "config1:8-15,0-3\n"},
    {"split/format/high", "config2:60-63\n"},
    {"split/format/all", "config2:0-63\n"},
    {"split/format/later", "config3:0-7\n"},
    {"split/format/broken", "config:9-3\n"},
    {"split/format/wide", "config:0-64\n"},
    {"split/format/odd", "nonsense\n"},
    {"split/events/open", "event=0x12,word=?\n"},
    {"split/events/strange", "event==\n"},
    {"split/events/empty", ""},
    {"split/events/aaa", "event=0x555\n"},
    {"split/events/bbb", "event=0x555\n"},
    {"breakpoint/type", "5\n"},
    {"software/type", "1\n"},
};

static const char *pmus(void)
{
    static char path[512];

    if (path[0] == '\0') {
        snprintf(path, sizeof path, "%s", test_dir());
        for (size_t i = 0; i < ARRAY_SIZE(files); i++)
            write_file(files[i][0], files[i][1]);
    }
    return path;
}

static struct cp_event_spec parse_pmu(const char *name)
{
    struct cp_event_spec spec = {.event = CP_CPUPROF_NAMED};
    struct cp_error err = {.code = 1};
    int result = cp__event_parse_pmu(pmus(), name, &spec, &err);

    CHECKF(result == 0, "%s: %d, %s", name, result, err.message);
    return spec;
}

/* ---- Terms ----------------------------------------------------------------------------------- */

CP_TEST(terms_are_encoded)
{
    static const struct {
        const char *name;
        const char *canonical;
        uint32_t type; /* 0: a raw event */
        uint64_t config, config1, config2;
    } events[] = {
        {"cpu/event=0xd1,umask=0x20/", "r20d1", 0, 0x20d1, 0, 0},
        {"cpu/umask=32,event=209/", "r20d1", 0, 0x20d1, 0, 0},
        {"cpu/r20D1/", "r20d1", 0, 0x20d1, 0, 0},
        {"cpu/config=0x20d1/", "r20d1", 0, 0x20d1, 0, 0},
        {"cpu/event=0xc0,umask=0x1,cmask=10,inv/", "ra8001c0", 0, 0x0a8001c0, 0, 0},
        {"cpu/event=0xc0,umask=0x1,cmask=0xA,inv=1/", "ra8001c0", 0, 0x0a8001c0, 0, 0},
        {"cpu/event=0xc0,edge=0/", "cpu/instructions/", 4, 0xc0, 0, 0},
        {"cpu/event=0x3c,edge,any,pc/", "r2c003c", 0, 0x2c003c, 0, 0},
        {"cpu/cycles-ct/", "cpu/cycles-ct/", 4, 0x30000003c, 0, 0},
        {"cpu/event=0x3c,in_tx,in_tx_cp/", "cpu/cycles-ct/", 4, 0x30000003c, 0, 0},
        {"cpu/cycles-t,in_tx_cp/", "cpu/cycles-ct/", 4, 0x30000003c, 0, 0},
        {"cpu/cpu-cycles/", "cpu/cpu-cycles/", 4, 0x3c, 0, 0},
        {"cpu/cycles/", "cpu/cpu-cycles/", 4, 0x3c, 0, 0},
        {"cpu/event=0x3c,umask=1/", "cpu/bus-cycles/", 4, 0x13c, 0, 0},
        {"cpu/instructions,cmask=2/", "r20000c0", 0, 0x20000c0, 0, 0},
        {"cpu/cmask=2,instructions/", "r20000c0", 0, 0x20000c0, 0, 0},
        {"cpu/cacheMisses/", "cpu/cache-misses/", 4, 0x412e, 0, 0},
        {"cpu/topdown-slots-issued/", "cpu/topdown-slots-issued/", 4, 0x10e, 0, 0},
        /* perf would combine 30 with the default 3 to 0x1f */
        {"cpu/mem-loads,ldlat=30/", "cpu/config=0x1cd,config1=0x1e/", 4, 0x1cd, 30, 0},
        {"cpu/mem-loads/", "cpu/mem-loads/", 4, 0x1cd, 3, 0},
        {"cpu/event=0xb7,umask=0x1,offcore_rsp=0x3fffc00001/", "cpu/config=0x1b7,config1=0x3fffc00001/", 4,
         0x1b7, 0x3fffc00001, 0},
        {"cpu/config=0xffffffffffffffff/", "rffffffffffffffff", 0, UINT64_MAX, 0, 0},
        {"cpu/config=1,config1=2,config2=3/", "cpu/config=0x1,config1=0x2,config2=0x3/", 4, 1, 2, 3},
        {"cpu//", "r0", 0, 0, 0, 0},
        {"split/event=0xabc/", "split/config=0xa000000bc/", 4000000000, 0xa000000bc, 0, 0},
        {"split/word=0xfff/", "split/config=0x0,config1=0xff0f/", 4000000000, 0, 0xff0f, 0},
        {"split/word=0x123/", "split/config=0x0,config1=0x1203/", 4000000000, 0, 0x1203, 0},
        {"split/high=0xf/", "split/config=0x0,config2=0xf000000000000000/", 4000000000, 0, 0, 0xfULL << 60},
        {"split/all=18446744073709551615/", "split/config=0x0,config2=0xffffffffffffffff/", 4000000000, 0, 0,
         UINT64_MAX},
        {"split/open,word=0x10/", "split/config=0x12,config1=0x100/", 4000000000, 0x12, 0x100, 0},
        {"split/bbb/", "split/aaa/", 4000000000, 0x500000055, 0, 0},
    };

    for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
        struct cp_event_spec spec = parse_pmu(events[i].name);
        bool is_raw = events[i].type == 0;

        CHECK_STR(spec.name, events[i].canonical);
        CHECK_EQ(spec.kind, CP_EVENT_HARDWARE);
        CHECK_EQ(spec.event, is_raw ? CP_CPUPROF_HW_RAW : CP_CPUPROF_NAMED);
        CHECK_EQ(spec.raw_event, is_raw ? events[i].config : 0);
        CHECK_EQ(spec.encoding.type, events[i].type);
        CHECKF(spec.encoding.config == (is_raw ? 0 : events[i].config), "%s", events[i].name);
        CHECKF(spec.encoding.config1 == events[i].config1, "%s", events[i].name);
        CHECKF(spec.encoding.config2 == events[i].config2, "%s", events[i].name);
        CHECK_EQ(spec.encoding.bp_type, 0);
        CHECK_EQ(spec.preset_period, strstr(spec.name, "miss") != NULL ? 10000 : 100000);
        if (!is_raw) /* a canonical name is its own canonical name */
            CHECK_STR(parse_pmu(spec.name).name, spec.name);
    }
}

CP_TEST(terms_may_have_suffixes)
{
    CHECK_STR(parse_pmu("cpu/cycles-ct/u").name, "cpu/cycles-ct/u");
    CHECK_STR(parse_pmu("cpu/cycles-ct/:ku").name, "cpu/cycles-ct/uk");
    CHECK_EQ(parse_pmu("cpu/cycles-ct/:ku").modes, CP_EVENT_USER | CP_EVENT_KERNEL);
    CHECK_EQ(parse_pmu("cpu/cycles-ct/pp").precise_ip, CP_CPUPROF_IP_SUGGEST_NO_SKID);
    CHECK_EQ(parse_pmu("cpu/cycles-ct/pp").modes, 0);
    CHECK_STR(parse_pmu("cpu/r1a8/upp").name, "r1a8:upp");
    CHECK_EQ(parse_pmu("cpu/r1a8/upp").raw_event, 0x1a8);
    CHECK_STR(parse_pmu("software/config=2/u").name, "pageFaults:u");
}

/* Terms that encode an event of the table get that event's name, however they are written. */
CP_TEST(terms_of_what_has_a_name_are_that_event)
{
    struct cp_event_spec spec = parse_pmu("software/config=2/");

    CHECK_EQ(spec.event, CP_CPUPROF_SW_PAGE_FAULTS);
    CHECK_STR(spec.name, "pageFaults");
    spec = parse_pmu("software/config=5/");
    CHECK_EQ(spec.event, CP_CPUPROF_NAMED);
    CHECK_STR(spec.name, "minorFaults");
    CHECK_EQ(spec.kind, CP_EVENT_SOFTWARE);
}

CP_TEST(bad_terms_are_refused)
{
    static const struct {
        const char *name;
        int code;
        const char *said;
    } bad[] = {
        {"none/event=1/", -ENOENT, "no PMU named \"none\""},
        {"none/event=1/", -ENOENT, "split"},
        {"cpu/nothing/", -ENOENT, "The PMU cpu has no event \"nothing\""},
        {"cpu/nothing/", -ENOENT, "cycles-ct"},
        {"cpu/nothing=1/", -ENOENT, "The PMU cpu has no term \"nothing\""},
        {"cpu/nothing=1/", -ENOENT, "umask"},
        {"cpu/event=0x100/", -EINVAL, "0xff is the largest"},
        {"split/event=0x1000/", -EINVAL, "0xfff is the largest"},
        {"cpu/edge=2/", -EINVAL, "0x1 is the largest"},
        {"cpu/ldlat=65536/", -EINVAL, "0xffff is the largest"},
        {"split/later=1/", -EINVAL, "config3"},
        {"cpu/config3=1/", -EINVAL, "config3"},
        {"split/broken=1/", -ENOENT, "no term \"broken\""},
        {"split/wide=1/", -ENOENT, "no term \"wide\""},
        {"split/odd=1/", -ENOENT, "no term \"odd\""},
        {"split/open/", -EINVAL, "Give the term a value: split/open,word=N/"},
        {"split/strange/", -EINVAL, "cannot be read"},
        {"split/empty/", -ENOENT, "no event \"empty\""},
        {"cpu/event=1,event=2/", -EINVAL, "each term once"},
        {"cpu/cycles-ct,cycles-ct/", -EINVAL, "each term once"},
        {"cpu/event=/", -EINVAL, "cannot be read"},
        {"cpu/event=?/", -EINVAL, "cannot be read"},
        {"cpu/event=x/", -EINVAL, "cannot be read"},
        {"cpu/event=-1/", -EINVAL, "cannot be read"},
        {"cpu/event=1 /", -EINVAL, "cannot be read"},
        {"cpu/event=0x10000000000000000/", -EINVAL, "cannot be read"},
        {"cpu/,/", -EINVAL, "cannot be read"},
        {"cpu/edge,/", -EINVAL, "cannot be read"},
        {"cpu/edge,,inv/", -EINVAL, "cannot be read"},
        {"cpu/..=1/", -EINVAL, "cannot be read"},
        {"cpu/event=1", -EINVAL, "cannot be read"},
        {"cpu/", -EINVAL, "cannot be read"},
        {"cpu", -EINVAL, "cannot be read"},
        {"/event=1/", -EINVAL, "cannot be read"},
        {"../event=1/", -EINVAL, "cannot be read"},
        {"./event=1/", -EINVAL, "cannot be read"},
        {"c pu/event=1/", -EINVAL, "cannot be read"},
        {"cpu/period=1000/", -EINVAL, "says how to sample"},
        {"cpu/cycles,name=x/", -EINVAL, "cannot be read"},
        {"cpu/cycles,call-graph/", -EINVAL, "says how to sample"},
        {"cpu/r1g/", -ENOENT, "no event \"r1g\""},
        {"cpu/cycles/z", -EINVAL, "\"cpu/cpu-cycles/\" cannot have a suffix with \"z\""},
        {"cpu/cycles/u/", -EINVAL, "cannot have a suffix with \"/\""},
        {"cpu/cycles/:", -EINVAL, "ends in a colon"},
        {"breakpoint/config1=4096/", -EINVAL, "mem:ADDRESS"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct cp_event_spec spec = {.event = CP_CPUPROF_NAMED};
        struct cp_error err = {0};
        int result = cp__event_parse_pmu(pmus(), bad[i].name, &spec, &err);

        CHECKF(result == bad[i].code, "%s: %d, %s", bad[i].name, result, err.message);
        check_message(&err);
        CHECK_CONTAINS(err.message, bad[i].said);
    }
}

/* ---- PMUs that every Linux has --------------------------------------------------------------- */

static void need(const char *file)
{
    if (access(file, R_OK) != 0)
        SKIP("there is no %s here", file);
}

CP_TEST(pmus_of_this_machine_are_known)
{
    need("/sys/bus/event_source/devices/software/type");
    CHECK_STR(parse("software/config=0/").name, "cpuClock");
    CHECK_EQ(parse("software/config=1/").event, CP_CPUPROF_SW_TASK_CLOCK);
    CHECK_EQ(parse("tracepoint/config=7/").kind, CP_EVENT_TRACEPOINT);
    CHECK_EQ(parse("tracepoint/config=7/").encoding.config, 7);
    refuse_name("breakpoint/config1=1/", -EINVAL, "mem:ADDRESS");
    refuse_name("there-is-none/x/", -ENOENT, "software");
}

CP_TEST(events_of_this_machine_are_known)
{
    struct cp_event_spec spec;

    need("/sys/bus/event_source/devices/msr/events/tsc");
    spec = parse("msr/tsc/u");
    CHECK_STR(spec.name, "msr/tsc/u");
    CHECK_EQ(spec.encoding.config, 0);
    CHECK(spec.encoding.type > PERF_TYPE_BREAKPOINT);
    CHECK_STR(parse("msr/event=0/u").name, "msr/tsc/u");
    refuse_name("msr/none/", -ENOENT, "tsc");
}
