/* What "make install" gives to others: headers that stand on their own, a shared library that exports no more
 * than its API, and the means to find them. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char program[] =
    "#include <counterpoint/counter.h>\n"
    "#include <counterpoint/http.h>\n"
    "#include <counterpoint/pprof.h>\n"
    "#include <counterpoint/runtime.h>\n"
    "#include <counterpoint/sched.h>\n"
    "#include <stdio.h>\n"
    "static void run(void *arg) { *(int *)arg = cp_g_self() != NULL; }\n"
    "int main(void)\n"
    "{\n"
    "    struct cp_memory profile = {0};\n"
    "    struct cp_error err = {0};\n"
    "    int ran = 0;\n"
    "    if (cp_start_cpu_profile(cp_writer_memory(&profile), &err) < 0 ||\n"
    "        cp_sched_run(NULL, run, &ran, &err) < 0 || cp_stop_cpu_profile(&err) < 0)\n"
    "        return puts(err.message), 1;\n"
    "    return !(ran && profile.size > 0);\n"
    "}\n";

static const char http_program[] = "#include <counterpoint/http.h>\n"
                                   "#include <stdio.h>\n"
                                   "int main(void)\n"
                                   "{\n"
                                   "    struct cp_http *http;\n"
                                   "    struct cp_error err = {0};\n"
                                   "    if (cp_http_start(&http, \":0\", NULL, &err) < 0)\n"
                                   "        return puts(err.message), 1;\n"
                                   "    cp_http_stop(http);\n"
                                   "    return 0;\n"
                                   "}\n";

/* Installs below this test's directory; make's own variables (CC, ARCH, ...) come from the make that runs the
 * tests. */
static void install(void)
{
    if (TEST_ASAN || TEST_TSAN)
        SKIP("a library with a sanitizer in it is not for others");
    free(test_command(NULL, "make -s install PREFIX=/usr DESTDIR=%s", test_dir()));
}

static void build_and_run(const char *source, const char *package, const char *libraries)
{
    char path[200];

    snprintf(path, sizeof(path), "%s/program.c", test_dir());
    FILE *file = fopen(path, "w");
    fputs(source, file);
    fclose(file);
    for (int is_static = 0; is_static <= 1; is_static++)
        free(test_command(
            NULL,
            "cd %s && export PKG_CONFIG_LIBDIR=usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$PWD &&\n"
            "cc -std=c11 -Wall -Wextra -Wpedantic -Werror program.c -o program %s %s %s"
            " $(pkg-config --cflags --libs %s %s) &&\n"
            "LD_LIBRARY_PATH=usr/lib ./program",
            test_dir(), is_static ? "-Wl,-Bstatic" : "", is_static ? libraries : "",
            is_static ? "-Wl,-Bdynamic" : "", is_static ? "--static" : "", package));
}

CP_TEST(a_program_builds_from_what_is_installed, .timeout_s = 120 * TEST_SLOWDOWN)
{
    install();
    build_and_run(program, "counterpoint", "-lcounterpoint");
}

CP_TEST(a_program_with_the_endpoint_does_too, .timeout_s = 120 * TEST_SLOWDOWN)
{
    install();
    build_and_run(http_program, "counterpoint-http", "-lcounterpoint-http -lcounterpoint");
    char *needed = test_command(NULL, "readelf -dW %s/usr/lib/libcounterpoint.so", test_dir());
    CHECK(strstr(needed, "microhttpd") == NULL);
    free(needed);
    needed = test_command(NULL, "readelf -dW %s/usr/lib/libcounterpoint-http.so", test_dir());
    CHECK_CONTAINS(needed, "soname: [libcounterpoint-http.so.0]");
    CHECK_CONTAINS(needed, "[libcounterpoint.so.0]");
    CHECK_CONTAINS(needed, "[libmicrohttpd.so");
    CHECK_CONTAINS(needed, "NODELETE");
    free(needed);
}

CP_TEST(the_shared_library_exports_its_api_only, .timeout_s = 60 * TEST_SLOWDOWN)
{
    install();
    char *names =
        test_command(NULL,
                     "cd %s/usr/lib && nm -D --defined-only libcounterpoint.so libcounterpoint-http.so "
                     "| awk 'NF == 3 { print $3 }'",
                     test_dir());
    CHECK_CONTAINS(names, "\ncp_start_cpu_profile_with_options\n");
    CHECK_CONTAINS(names, "\ncp_generation\n");
    CHECK_CONTAINS(names, "\ncp_http_handle\n");
    for (char *name = strtok(names, "\n"); name; name = strtok(NULL, "\n"))
        CHECKF(strncmp(name, "cp_", 3) == 0 && name[3] != '_', "%s is exported", name);
    free(names);
}

CP_TEST(the_shared_library_stays_and_is_bound_at_once, .timeout_s = 60 * TEST_SLOWDOWN)
{
    install();
    char *dynamic = test_command(NULL, "readelf -dW %s/usr/lib/libcounterpoint.so", test_dir());
    CHECK_CONTAINS(dynamic, "soname: [libcounterpoint.so.0]");
    CHECK_CONTAINS(dynamic, "NODELETE");
    CHECK_CONTAINS(dynamic, "BIND_NOW");
    free(dynamic);
    free(test_command(NULL, "test -f %s/usr/lib/libcounterpoint.so.0", test_dir()));
}
