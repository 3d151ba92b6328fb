/* The grammar of event names: raw events, suffixes, names that are refused, and lists of names. */
#include "tests/support/event_tools.h"

/* ---- Raw events ------------------------------------------------------------------------------ */

CP_TEST(raw_events_are_read)
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
        spec = parse(spec.name); /* a canonical name can be parsed, too */
        CHECKF(spec.raw_event == raws[i].raw, "%s", raws[i].name);
    }
}

/* ---- Names without a row --------------------------------------------------------------------- */

static void refuse_unknown(const char *name, const char *shown)
{
    struct cp_event_spec spec = {.size = sizeof spec};
    struct cp_error err = {0};
    char quoted[64];

    snprintf(quoted, sizeof quoted, "There is no event named \"%s\"", shown);
    refuse_name(name, -EINVAL, quoted);
    CHECK_EQ(cp_event_parse(name, &spec, &err), -EINVAL);
    /* the message lists what to use instead */
    for (enum cp_cpu_event event = 0; event < CP_CPUPROF_EVENT_COUNT; event++) {
        if (event != CP_CPUPROF_HW_RAW && event != CP_CPUPROF_NAMED)
            CHECK_CONTAINS(err.message, cp_event_name(event));
    }
    CHECK_CONTAINS(err.message, "rHEX");
    CHECK_CONTAINS(err.message, "counterpoint events");
}

CP_TEST(names_of_nothing_are_refused)
{
    static const char *const names[] = {" ",
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
    refuse_name("", -EINVAL, "The event has no name.");
    refuse_name(NULL, -EINVAL, "The event has no name.");
}

/* No byte of a name can harm the terminal that shows the message. */
CP_TEST(odd_bytes_of_a_name_are_not_shown)
{
    char name[4] = "a?c";

    for (int byte = 1; byte < 256; byte++) {
        char shown[4] = "a?c";

        if (byte == '/')
            continue; /* a PMU's event */
        name[1] = (char)byte;
        if (byte >= ' ' && byte != 0x7f)
            shown[1] = (char)byte;
        refuse_unknown(name, shown);
    }
    refuse_unknown("\033[2J\033]0;title\007cycles\r\n", "?[2J?]0;title?cycles??");
}

CP_TEST(names_may_have_any_length)
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

CP_TEST(suffixes_are_read)
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

CP_TEST(bad_suffixes_are_refused)
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
        {"cycles:1000", "\"cycles\" cannot have \"1000\" after its colon. A period"},
        {"taskClock:100k:u", "\"taskClock\" cannot have \"100k:u\" after its colon. A period"},
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
        {"wait:u", "The event wait cannot have the suffix \"u\""},
        {"runnable:k", "The event runnable cannot have the suffix \"k\""},
        {"lock:ppp", "\"lock:10us\""},
        {"lock:", "ends in a colon"},
        {"wait:100", "comes last"},
        {"contextSwitches:u", "happens in the kernel only"},
        {"cs:uh", "Add k to the suffix"},
        {"cgroup-switches:u", "happens in the kernel only"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        refuse_name(bad[i].name, -EINVAL, bad[i].said);
}

/* A suffix decides which modes count. */
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
        struct cp_slot_request request = {
            .event = spec.event, .name = spec.name, .config.size = sizeof request.config};
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

/* ---- Lists ----------------------------------------------------------------------------------- */

CP_TEST(lists_of_names_are_taken_apart)
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
        {"cpu/a,b", {"cpu/a,b"}}, /* an error, but a single name */
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

/* ---- Random names ---------------------------------------------------------------------------- */

/* Pieces of which names consist, and others. */
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

/* Whatever the text is, the result is an event whose name stands for it, or an error in words. */
CP_TEST(any_name_is_an_event_or_an_error)
{
    uint64_t state = 0x2545f4914f6cdd1d;
    unsigned events = 0;

    for (int i = 0; i < 20000 / TEST_SLOWDOWN; i++) {
        char name[256] = "";
        struct cp_event_spec spec = {.size = sizeof spec, .event = CP_CPUPROF_NAMED};
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
