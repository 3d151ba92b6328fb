/* Programs that were built for this version of the libraries run with later ones, whose structs and limits
 * have grown. */
#include "tests/support/test.h"

#include <stdlib.h>

/* Each program checks that nothing is written behind a struct that a library fills. */
#define PREAMBLE                                                                                             \
    "#include <stdio.h>\n"                                                                                   \
    "#include <string.h>\n"                                                                                  \
    "#define NEED(c) do { if (!(c)) return printf(\"line %d: %s\\n\", __LINE__, #c), 1; } while (0)\n"       \
    "#define BEHIND 0x5a5a5a5a5a5aull\n"                                                                     \
    "#define GUARDED(type, name, ...) struct { struct type v; unsigned long long behind; } name = \\\n"      \
    "    {{.size = sizeof(struct type), ##__VA_ARGS__}, BEHIND}\n"                                           \
    "#define IS_WHOLE(name) ((name).behind == BEHIND)\n"

/* This program uses structs of the core that are filled, read, listed, embedded and passed by value. */
static const char core_program[] = PREAMBLE
    "#include <counterpoint/counter.h>\n"
    "#include <counterpoint/pprof.h>\n"
    "#include <counterpoint/sched.h>\n"
    "static int count(void *n, const struct cp_m_info *m) { ++*(int *)n; return m->size < sizeof *m; }\n"
    "static void take(void *n, const struct cp_sample *s) { *(int *)n += s->size >= sizeof *s; }\n"
    "static void g(void *ran) { *(int *)ran = cp_sched_self() != NULL; }\n"
    "int main(void)\n"
    "{\n"
    "    GUARDED(cp_event_spec, spec);\n"
    "    GUARDED(cp_slot_stats, stats);\n"
    "    GUARDED(cp_runtime_stats, all);\n"
    "    GUARDED(cp_counter_value, value);\n"
    "    struct cp_slot_request requests[2] = {{.config.size = sizeof requests[0].config},\n"
    "                                          {.config.size = sizeof requests[0].config}};\n"
    "    struct cp_sched_options options = {.size = sizeof options, .threads = 1};\n"
    "    struct cp_memory memory = {0};\n"
    "    struct cp_error err;\n"
    "    struct cp_counter *counter;\n"
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
    "    if (cp_counter_open(&counter, &spec.v, &err) == 0) {\n"
    "        NEED(cp_counters_start(&counter, 1) == 0 && cp_counters_stop(&counter, 1) == 0);\n"
    "        NEED(cp_counter_read(counter, &value.v, &err) == 0 && IS_WHOLE(value) && value.v.raw > 0);\n"
    "        cp_counter_close(counter);\n"
    "    }\n"
    "    NEED(cp_start_cpu_profile(cp_writer_memory(&memory), &err) == 0);\n"
    "    NEED(cp_sched_run(&options, g, &ran, &err) == 0 && ran);\n"
    "    NEED(cp_stop_cpu_profile(&err) == 0 && memory.size > 0);\n"
    "    return 0;\n"
    "}\n";

/* This program answers a request that has the token, and one that does not, and makes an endpoint. */
static const char http_program[] = PREAMBLE
    "#include <counterpoint/http.h>\n"
    "static const char *header(void *sent, const char *name)\n"
    "{\n"
    "    return strcmp(name, \"host\") == 0 ? \"localhost\" : strcmp(name, \"authorization\") == 0 ? sent : "
    "NULL;\n"
    "}\n"
    "static int status, size;\n"
    "static int begin(void *c, int s, const struct cp_http_header *h, size_t n) { status = s; return 0; }\n"
    "static int body(void *c, const void *data, size_t n) { size += (int)n; return 0; }\n"
    "int main(void)\n"
    "{\n"
    "    GUARDED(cp_http_options, options, .token = \"secret\", .max_slots = 1);\n"
    "    GUARDED(cp_http_request, request, .method = \"GET\", .path = \"/debug/pprof/cmdline\",\n"
    "            .header = header, .context = \"Bearer secret\");\n"
    "    GUARDED(cp_http_response, response, .begin = begin, .write = body);\n"
    "    struct cp_http *http;\n"
    "    struct cp_error err;\n"
    "    NEED(cp_http_handle(&request.v, &response.v, &options.v) == 0 && status == 200 && size > 0);\n"
    "    request.v.context = \"Bearer another\";\n"
    "    NEED(cp_http_handle(&request.v, &response.v, &options.v) == 0 && status == 401);\n"
    "    NEED(cp_http_mount(&http, &options.v, &err) == 0);\n"
    "    cp_http_quiesce(http);\n"
    "    cp_http_stop(http);\n"
    "    return 0;\n"
    "}\n";

/* This program has a test, and options that say how the test runs. */
static const char testing_program[] =
    PREAMBLE "#include <counterpoint/testing.h>\n"
             "static int run(void (*fn)(void *), void *arg, unsigned threads, struct cp_error *err)\n"
             "{\n"
             "    puts(\"as the options say\");\n"
             "    return fn(arg), 0;\n"
             "}\n"
             "CP_TEST(passes, .timeout_s = 100) { puts(cp_t_name(t)); }\n"
             "int main(int argc, char **argv)\n"
             "{\n"
             "    GUARDED(cp_test_main_options, options, .run = run);\n"
             "    char *args[] = {argv[0], (char[]){\"-v\"}, NULL};\n"
             "    return cp_test_main(2, args, &options.v);\n"
             "}\n";

/* Each struct that begins with its size gets members at its end; more events may run at once. The page of the
 * endpoint stays empty, because its packages may not be there. */
static const char grow[] =
    "cd %s && mkdir -p grown/build/ui include/counterpoint &&\n"
    "(cd $OLDPWD && cp -r --parents arch runtime pprof http testing abi Makefile $OLDPWD/grown) &&\n"
    "headers=$(sed -n '/^public_headers = /,/[^\\]$/p' grown/Makefile | sed 's/.* = //; s/\\\\$//') &&\n"
    "cd grown && cp $headers ../include/counterpoint &&\n"
    "headers=$(grep -l 'size_t size; ' $headers) &&\n"
    "sed -i 's/#define CP_EV_MAX 8/#define CP_EV_MAX 16/' runtime/event/event.h &&\n"
    "perl -0pi -e 's/(struct cp_\\w+ \\{\\n *size_t size;.*?)\\n\\};/$1\\n    uint64_t grown[5];\\n};/sg' "
    "$headers "
    "&&\n"
    "! grep -L 'uint64_t grown' $headers | grep . &&\n"
    "(cd build/ui && sed -n 's/^ *file cp__http_ui_[a-z]*, //p' ../../http/ui_files.S | xargs touch) &&\n"
    "make -s lib CFLAGS=-O0 WERROR= && lib=$(dirname $(find build -name libcounterpoint.so)) &&\n"
    "make -s -o build/ui/version $lib/libcounterpoint-http.so $lib/libcounterpoint-testing.so CFLAGS=-O0 "
    "WERROR=\n";

/* Builds a program with the headers as they are, and runs it with the libraries that have grown. */
static char *run_grown(const char *source, const char *libraries)
{
    test_write_file("program.c", source);
    return test_command(NULL,
                        "cd %s && lib=$(dirname $(find grown/build -name libcounterpoint.so)) &&\n"
                        "cc -std=gnu11 -Wall -Iinclude program.c -o program -L$lib %s -lcounterpoint &&\n"
                        "LD_LIBRARY_PATH=$lib ./program",
                        test_dir(), libraries);
}

CP_TEST(programs_run_with_libraries_whose_structs_have_grown)
{
    char *said;

    if (TEST_ASAN || TEST_TSAN)
        SKIP("a library with a sanitizer in it is not for others");
    free(test_command(NULL, grow, test_dir()));
    free(run_grown(core_program, ""));
    free(run_grown(http_program, "-lcounterpoint-http"));
    said = run_grown(testing_program, "-lcounterpoint-testing");
    CHECK_CONTAINS(said, "as the options say");
    CHECK_CONTAINS(said, "PASS: Test_passes");
    free(said);
}
