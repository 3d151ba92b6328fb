/* A program that was built for this version of the library runs with a later one, whose structs and limits
 * have grown. */
#include "tests/support/test.h"

#include <stdlib.h>

/* The program uses structs that are filled, read, listed, embedded and passed by value. It checks that
 * nothing is written behind a struct that the library fills. */
static const char program[] =
    "#include <counterpoint/counter.h>\n"
    "#include <counterpoint/pprof.h>\n"
    "#include <counterpoint/sched.h>\n"
    "#include <stdio.h>\n"
    "#define NEED(c) do { if (!(c)) return printf(\"line %d: %s\\n\", __LINE__, #c), 1; } while (0)\n"
    "#define GUARDED(type, name) struct { struct type v; unsigned long long behind; } name = \\\n"
    "    {{.size = sizeof(struct type)}, 0x5a5a5a5a5a5aull}\n"
    "#define IS_WHOLE(name) ((name).behind == 0x5a5a5a5a5a5aull)\n"
    "static int count(void *n, const struct cp_m_info *m) { ++*(int *)n; return m->size < sizeof *m; }\n"
    "static void take(void *n, const struct cp_sample *s) { *(int *)n += s->size >= sizeof *s; }\n"
    "static void g(void *ran) { *(int *)ran = cp_sched_self() != NULL; }\n"
    "int main(void)\n"
    "{\n"
    "    GUARDED(cp_event_spec, spec);\n"
    "    GUARDED(cp_slot_stats, stats);\n"
    "    GUARDED(cp_runtime_stats, all);\n"
    "    struct cp_slot_request requests[2] = {{.config.size = sizeof requests[0].config},\n"
    "                                          {.config.size = sizeof requests[0].config}};\n"
    "    struct cp_sched_options options = {.size = sizeof options, .threads = 1};\n"
    "    struct cp_memory memory = {0};\n"
    "    struct cp_error err;\n"
    "    struct cp_m *m;\n"
    "    int slots[2], n = 0, ran = 0;\n"
    "    NEED(CP_VERSION_NUMBER == cp_version());\n"
    "    NEED(cp_m_attach(&m, &err) == 0);\n"
    "    NEED(cp_event_parse(\"timer\", &spec.v, &err) == 0 && IS_WHOLE(spec));\n"
    "    NEED(spec.v.event == CP_CPUPROF_OS_TIMER);\n"
    "    for (int i = 0; i < 2; i++) {\n"
    "        NEED(cp_cpu_profile_config_init(&requests[i].config, &spec.v, 1000000, &err) == 0);\n"
    "        NEED(requests[i].config.size == sizeof requests[i].config && requests[i].config.hz == 1000);\n"
    "    }\n"
    "    NEED(cp_slots_start(requests, 2, slots, &err) == 0);\n"
    "    while (n == 0)\n"
    "        NEED(cp_slots_read(slots[1], take, &n) >= 0);\n"
    "    NEED(cp_slots_stats(slots[0], &stats.v) == 0 && IS_WHOLE(stats) && stats.v.ms == 1);\n"
    "    NEED(cp_runtime_stats(&all.v) == 0 && IS_WHOLE(all) && all.v.ms == 1 && all.v.slots == 2);\n"
    "    NEED(cp_slots_stop(slots, 2) == 0 && cp_slots_release(slots, 2) == 0);\n"
    "    n = 0;\n"
    "    NEED(cp_m_each(count, &n) == 0 && n == 1);\n"
    "    NEED(cp_event_parse(\"taskClock\", &spec.v, &err) == 0 && spec.v.event == "
    "CP_CPUPROF_SW_TASK_CLOCK);\n"
    "    NEED(cp_start_cpu_profile(cp_writer_memory(&memory), &err) == 0);\n"
    "    NEED(cp_sched_run(&options, g, &ran, &err) == 0 && ran);\n"
    "    NEED(cp_stop_cpu_profile(&err) == 0 && memory.size > 0);\n"
    "    return 0;\n"
    "}\n";

/* Adds members to the end of each struct that begins with its size, and lets more events run at once. */
static const char grow[] =
    "cd %s && mkdir -p grown include/counterpoint &&\n"
    "cp -r $OLDPWD/arch $OLDPWD/runtime $OLDPWD/pprof $OLDPWD/abi $OLDPWD/Makefile grown &&\n"
    "cp $OLDPWD/runtime/base/[aev]*.h $OLDPWD/runtime/event/event.h $OLDPWD/runtime/runtime.h \\\n"
    "    $OLDPWD/runtime/counter/counter.h $OLDPWD/runtime/sched/sched.h $OLDPWD/pprof/pprof.h "
    "include/counterpoint &&\n"
    "cd grown &&\n"
    "sed -i 's/#define CP_EV_MAX 8/#define CP_EV_MAX 16/' runtime/event/event.h &&\n"
    "perl -0pi -e 's/(struct cp_\\w+ \\{\\n *size_t size;.*?)\\n\\};/$1\\n    uint64_t grown[5];\\n};/sg' "
    "\\\n"
    "    runtime/event/event.h runtime/runtime.h runtime/counter/counter.h runtime/sched/sched.h &&\n"
    "grep -q 'uint64_t grown' runtime/runtime.h && make -s lib CFLAGS=-O0 WERROR=\n";

CP_TEST(a_program_runs_with_a_library_whose_structs_have_grown)
{
    if (TEST_ASAN || TEST_TSAN)
        SKIP("a library with a sanitizer in it is not for others");
    free(test_command(NULL, grow, test_dir()));
    test_write_file("program.c", program);
    free(test_command(NULL,
                      "cd %s && cc -std=gnu11 -Wall -Iinclude program.c -o program $(find grown/build -name "
                      "libcounterpoint.so) &&\n"
                      "LD_LIBRARY_PATH=$(dirname $(find grown/build -name libcounterpoint.so)) ./program",
                      test_dir()));
}
