/* The endpoint's page: its files, and the page in a browser that tests/ui/page.mjs drives. */
#include "tests/support/http_tools.h"

#include "tests/support/http_inside.h"
#include "tests/support/inside.h"
#include "tests/support/pprof_inside.h"

#include <sys/stat.h>
#include <unistd.h>

/* ---- How it is served ------------------------------------------------------------------------ */

CP_TEST(the_page_may_load_nothing_but_its_own_files)
{
    struct cp_http *http = start_http(NULL);

    check_answer(http, "\"$base/ui/\"", 200, "\nContent-Type: text/html; charset=utf-8\n",
                 "\nContent-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; ",
                 "\nX-Content-Type-Options: nosniff\n", "src=\"page.js\"", NULL);
    check_answer(http, "\"$base/ui/page.js\"", 200, "\nContent-Type: text/javascript; charset=utf-8\n", NULL);
    check_answer(http, "\"$base/ui/page.css\"", 200, "\nContent-Type: text/css; charset=utf-8\n",
                 ".d3-flame-graph", NULL);
    check_answer(http, "\"$base/ui/icon.svg\"", 200, "\nContent-Type: image/svg+xml\n", "</svg>", NULL);
    check_answer(http, "\"$base/ui\"", 301, "\nLocation: /debug/pprof/ui/\n", NULL);
    check_answer(http, "\"$base/\"", 200, "href=\"ui/\"", NULL);
    check_answer(http, "\"$base/ui/bundle.mjs\"", 404, NULL);
    check_answer(http, "-X POST \"$base/ui/\"", 405, NULL);
    cp_http_stop(http);
}

CP_TEST(licences_of_what_is_in_the_page_come_with_it)
{
    struct cp_http *http = start_http(NULL);

    check_answer(http, "\"$base/ui/licenses.txt\"", 200, "\nContent-Type: text/plain; charset=utf-8\n",
                 "\nd3-flame-graph ", "Apache License", "\npprof-format ", "\nDatadog pprof-format\n",
                 "\nd3-selection ", "Permission to use, copy, modify", NULL);
    cp_http_stop(http);
}

CP_TEST(a_browser_asks_whether_a_file_has_changed)
{
    struct cp_http *http = start_http(NULL);
    char *answer = ask(http, "%s", "\"$base/ui/page.js\"");
    char *tag = strstr(answer, "\nETag: \"");
    char arguments[200];

    CHECK(tag != NULL);
    CHECK_CONTAINS(answer, "\nCache-Control: private, no-cache\n");
    snprintf(arguments, sizeof arguments, "-H 'If-None-Match: %.18s' \"$base/ui/page.js\"",
             tag + strlen("\nETag: "));
    check_answer(http, arguments, 304, "\nETag: \"", NULL);
    check_answer(http, "-H 'If-None-Match: \"another\"' \"$base/ui/page.js\"", 200, NULL);
    check_answer(http, "\"$base/ui/events.json\"", 200, "\nCache-Control: no-store\n", NULL);
    free(answer);
    cp_http_stop(http);
}

CP_TEST(the_page_is_guarded_as_the_rest_is)
{
    const struct cp_http_options options = {.size = sizeof options, .token = "secret", .max_seconds = 77};
    struct cp_http *http = start_http(&options);

    check_answer(http, "\"$base/ui/\"", 401, NULL);
    check_answer(http, "\"$base/ui/page.js\"", 401, NULL);
    check_answer(http, "\"$base/ui/events.json\"", 401, NULL);
    check_answer(http, "-u any:secret \"$base/ui/\"", 200, NULL);
    check_answer(http, "-u any:secret -H 'Host: evil.example' \"$base/ui/\"", 403, NULL);
    check_answer(http, "-u any:secret -H 'Origin: http://evil.example' \"$base/ui/events.json\"", 403, NULL);
    check_answer(http, "-u any:secret \"$base/ui/events.json\"", 200, "{\"maxSeconds\":77,", NULL);
    cp_http_stop(http);
}

/* Replaces the kernel's limit that the core and the endpoint read. */
static void pretend_sample_rate(const char *rate)
{
    free(test_command(NULL, "mkdir -p %s/kernel && echo %s > %s/kernel/perf_event_max_sample_rate",
                      test_dir(), rate, test_dir()));
    set_sysctl_folder(test_dir());
}

SIM_TEST(the_events_are_json)
{
    sim->max_rate = 7000;
    struct cp_http *http = start_http(NULL);
    char *list = test_command(NULL,
                              "curl -sSf http://%s" PPROF "/ui/events.json | jq -r '.events[] | "
                              "select(.reason == null) | \"\\(.name) \\(.period) \\(.isTime) \\(.maxRate)\"'",
                              cp_http_address(http));

    printf("%s", list);
    CHECK_CONTAINS(list, "timer 10000000 true 0\n");
    CHECK_CONTAINS(list, "taskClock 200000 true 7000\n");
    CHECK_CONTAINS(list, "cpuClock 1000000 true 7000\n");
    CHECK_CONTAINS(list, "pageFaults 100 false 0\n");
    free(list);
    cp_http_stop(http);
}

/* ---- Its parts ------------------------------------------------------------------------------- */

CP_TEST(what_limits_a_recording_is_told_from_what_is_usual)
{
    static const char script[] =
        "import { limitsOf } from '" CP_UI "/comments.js';\n"
        "const usual = ['engine: timer # a POSIX timer: limits', 'limits: none # nothing', ''];\n"
        "const limited = ['event: r3c', 'dropped: 1 # event: x', 'warning: A sample: every', 'foreign: 3',\n"
        "  'limits: dropped,warning # event,foreign'];\n"
        "console.log(limitsOf(usual).join(), '|', limitsOf(limited).join(' | '), limitsOf([]).length);\n";
    FILE *file;

    if (system("command -v node > /dev/null") != 0)
        SKIP("node is not installed");
    file = fopen(file_in_dir("limits.mjs"), "w");
    fputs(script, file);
    fclose(file);
    char *told = test_command(NULL, "node %s", file_in_dir("limits.mjs"));
    CHECK_STR(told, " | dropped: 1 # event: x | warning: A sample: every 0\n");
    free(told);
}

/* Asks for the names of a location without lines, of one with a line whose function has no name, and of those
 * in no mapping. What Profile.decode() would return is made here. */
CP_TEST(a_frame_without_a_name_is_shown_by_its_module)
{
    static const char script[] =
        "import { samplesOf } from './profile.js';\n"
        "const strings = ['', '/usr/lib/libx.so', '[kernel]', 'test::named(int)', '_ZN4test5namedEi'];\n"
        "const frame = (id, mappingId, line) => ({ id, mappingId, address: 0x4010 + id, line });\n"
        "const profile = { stringTable: { strings },\n"
        "  mapping: [{ id: 1, filename: 1 }, { id: 2, filename: 2 }, { id: 3, filename: 0 }],\n"
        "  function: [{ id: 1, name: 3, systemName: 4 }, { id: 2, name: 0 }],\n"
        "  location: [frame(1, 1, [{ functionId: 1 }]), frame(2, 1, []), frame(3, 2, []),\n"
        "    frame(4, 0, []), frame(5, 1, [{ functionId: 2 }]), frame(6, 3, [])],\n"
        "  sample: [{ locationId: [6, 5, 4, 3, 2, 1], value: [], label: [] }] };\n"
        "console.log(samplesOf(profile)[0].frames.join());\n";
    FILE *file;

    if (system("command -v node > /dev/null") != 0)
        SKIP("node is not installed");
    free(test_command(NULL,
                      "cd %s && mkdir -p node_modules/pprof-format && cp " CP_UI "/profile.js . && "
                      "echo 'export const Profile = null;' > node_modules/pprof-format/index.mjs && "
                      "echo '{\"exports\": \"./index.mjs\"}' > node_modules/pprof-format/package.json && "
                      "echo '{\"type\": \"module\"}' > package.json",
                      test_dir()));
    file = fopen(file_in_dir("frames.mjs"), "w");
    fputs(script, file);
    fclose(file);
    char *told = test_command(NULL, "node %s", file_in_dir("frames.mjs"));
    CHECK_STR(told, "test::named(int),[libx.so],[kernel],[unknown code],[libx.so],[unknown code]\n");
    free(told);
}

/* ---- In a browser ---------------------------------------------------------------------------- */

__attribute__((always_inline)) static inline void stir(void)
{
    burn_here(5000000);
    __asm__ volatile("");
}

__attribute__((noinline)) static void cook_meals(void)
{
    stir();
    __asm__ volatile("");
}

/* Begins to work when the browser has made the file. */
static void *run_kitchen(void *arg)
{
    const char *open = arg;

    attach();
    cp_label_set("role", "kitchen");
    while (cp_load_acquire(&is_ending) == 0) { /* pairs with the release in stop_service() */
        if (access(open, F_OK) == 0)
            cook_meals();
        else
            usleep(10000);
    }
    return NULL;
}

CP_TEST(a_browser_records_and_compares)
{
    char pictures[400], downloaded[450];
    pthread_t kitchen;

    if (TEST_TSAN)
        SKIP("ThreadSanitizer delivers signals late: what is recorded is too little to look at");
    if (system("command -v node > /dev/null && command -v chromium > /dev/null") != 0)
        SKIP("node or chromium is not installed");
    snprintf(pictures, sizeof pictures, "%s/pictures", test_build_dir());
    mkdir(pictures, 0777);
    pretend_sample_rate("3000");
    set_switch_cost(1); /* the page proposes longer periods if switches are dear */
    start_service();
    CHECK_EQ(pthread_create(&kitchen, NULL, run_kitchen, (void *)(uintptr_t)file_in_dir("open")), 0);

    /* the page records at 5 kHz, also if a sample costs more than a tenth of that here */
    const struct cp_http_options options = {.size = sizeof options, .max_cost_percent = 50};
    struct cp_http *http = start_http(&options);
    char *steps = test_command(NULL, "HOME=%s node %s/page.mjs http://%s" PPROF "/ui/ %s %s", test_dir(),
                               CP_UI_TEST, cp_http_address(http), file_in_dir("open"), pictures);
    printf("%s", steps);
    free(steps);
    stop_service();
    pthread_join(kitchen, NULL);
    cp_http_stop(http);

    snprintf(downloaded, sizeof downloaded, "%s/downloaded.pb.gz", pictures);
    char *top = pprof("-top", downloaded);
    CHECK_CONTAINS(top, "serve_customers");
    CHECK_CONTAINS(top, "Duration: ");
    CHECK(atof(strstr(top, "Duration: ") + strlen("Duration: ")) >= 2);
    free(top);
}
