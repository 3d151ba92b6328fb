/* Watchpoints: mem:ADDRESS[/LEN][:rwx]. */
#include "tests/support/event_tools.h"
#include "watchpoint.h"

CP_TEST(watchpoints_are_read)
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

CP_TEST(bad_watchpoints_are_refused)
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
        {"mem:0x1001/2:w", "0x1001 is not a multiple of 2"},
        {"mem:0x1004/8:w", "0x1004 is not a multiple of 8"},
        {"mem:0x1002", "0x1002 is not a multiple of 4"},
        {"mem:0x1000/4:x", "4 is neither"},
        {"mem:0x1000:rx", "x cannot stand beside"},
        {"mem:0x1000:rwx", "x cannot stand beside"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        refuse_name(bad[i].name, -EINVAL, bad[i].said);
    if (!CP__WATCHPOINTS_READ_ALONE)
        refuse_name("mem:0x1000:r", -EINVAL, "cannot watch reads alone");
}
