/* What "make install" installs: headers that can be included alone, a shared library that exports its API
 * only, and the files by which programs find both. */
#include "tests/support/test.h"

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

/* Compiles as C and as C++. */
static const char two_options[] =
    "#include <counterpoint/pprof.h>\n"
    "#include <errno.h>\n"
    "int main(void)\n"
    "{\n"
    "    return cp_start_cpu_profile_with_config(NULL, cp_os_timer(cp_writer_fd(1)),\n"
    "                                            cp_option_event(cp_writer_fd(2), \"taskClock\", 0)) != "
    "-EPERM;\n"
    "}\n";

/* Installs below the test's directory. make's variables (CC, ARCH, ...) come from the make that runs the
 * tests. */
static void install(void)
{
    if (TEST_ASAN || TEST_TSAN)
        SKIP("a library with a sanitizer in it is not for others");
    free(test_command(NULL, "make -s install PREFIX=/usr DESTDIR=%s", test_dir()));
}

#define PKG_CONFIG "PKG_CONFIG_PATH=usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$PWD pkg-config"

static void build_and_run(const char *source, const char *package, const char *libraries)
{
    test_write_file("program.c", source);
    for (int is_static = 0; is_static <= 1; is_static++)
        free(test_command(NULL,
                          "cd %s &&\n"
                          "cc -std=c11 -Wall -Wextra -Wpedantic -Werror program.c -o program %s %s %s"
                          " $(" PKG_CONFIG " --cflags --libs %s %s) &&\n"
                          "LD_LIBRARY_PATH=usr/lib ./program",
                          test_dir(), is_static ? "-Wl,-Bstatic" : "", is_static ? libraries : "",
                          is_static ? "-Wl,-Bdynamic" : "", is_static ? "--static" : "", package));
}

/* Builds a program that uses no shared library at all, and runs it. */
static void build_static_and_run(const char *source, const char *package)
{
    test_write_file("program.c", source);
    char *missing = test_command(NULL,
                                 "cd %s\n"
                                 "for l in $(" PKG_CONFIG " --static --libs-only-l %s); do\n"
                                 "    a=lib${l#-l}.a; f=$(cc -Lusr/lib -print-file-name=$a)\n"
                                 "    [ -e \"$f\" ] || [ -e usr/lib/$a ] || echo $a\n"
                                 "done | sort -u | tr '\\n' ' '",
                                 test_dir(), package);
    if (missing[0])
        SKIP("not here: %s", missing);
    free(missing);
    free(test_command(NULL,
                      "cd %s &&\n"
                      "cc -static program.c -o program $(" PKG_CONFIG " --static --cflags --libs %s) &&\n"
                      "./program && ! readelf -d program | grep NEEDED",
                      test_dir(), package));
}

CP_TEST(a_program_builds_from_what_is_installed)
{
    install();
    build_and_run(program, "counterpoint", "-lcounterpoint");
}

CP_TEST(a_program_builds_statically)
{
    install();
    build_static_and_run(program, "counterpoint");
}

CP_TEST(a_program_of_tests_builds_statically)
{
    install();
    build_static_and_run("#include <counterpoint/testing.h>\n"
                         "CP_TEST(one, .timeout_s = 10) { cp_t_log(t, \"here\"); }\n"
                         "CP_TEST_MAIN()\n",
                         "counterpoint-testing");
}

CP_TEST(a_program_with_the_endpoint_does_too)
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

/* A header that names a file which is not installed sends its reader nowhere. */
CP_TEST(headers_name_no_file_that_is_not_installed)
{
    install();
    char *names = test_command(NULL,
                               "cd %s/usr/include/counterpoint && grep -hv '^#include <' *.h |\n"
                               "grep -oE '[A-Za-z0-9_]+\\.[chS]\\b' | sort -u |\n"
                               "while read -r name; do test -e \"$name\" || echo \"$name\"; done",
                               test_dir());
    CHECK_STR(names, "");
    free(names);
}

/* ---- The goals of make ----------------------------------------------------------------------- */

/* Lists all files below a directory of the test's, by their paths in that directory. */
static char *list(const char *dir)
{
    return test_command(NULL, "cd %s/%s && find . ! -type d | sort", test_dir(), dir);
}

CP_TEST(uninstall_takes_away_what_install_has_put_there)
{
    install();
    char *files = list("usr");
    for (const char *const *file =
             (const char *const[]){
                 "./bin/counterpoint\n", "./include/counterpoint/pprof.h\n",
                 "./lib/libcounterpoint-http.so.0\n", "./lib/cmake/counterpoint/counterpoint-config.cmake\n",
                 "./lib/counterpoint/libcounterpoint-preload.so\n", "./lib/pkgconfig/counterpoint.pc\n",
                 "./share/man/man3/cp_session_start.3\n",
                 "./share/bash-completion/completions/counterpoint\n", NULL};
         *file; file++)
        CHECK_CONTAINS(files, *file);
    free(files);
    free(test_command(NULL,
                      "cd %s/usr && touch bin/other lib/libother.so && cd - &&\n"
                      "make -s uninstall PREFIX=/usr DESTDIR=%s",
                      test_dir(), test_dir()));
    files = list("usr");
    CHECK_STR(files, "./bin/other\n./lib/libother.so\n");
    free(files);
    free(test_command(NULL, "cd %s/usr/include && ! ls counterpoint", test_dir()));
    /* finds no file to remove */
    free(test_command(NULL, "make -s uninstall PREFIX=/usr DESTDIR=%s", test_dir()));
}

/* The installed command finds the library that it preloads. */
CP_TEST(the_installed_command_runs_a_program)
{
    install();
    char *said = test_command(NULL, "cd %s && usr/bin/counterpoint run -e timer -o out true", test_dir());
    CHECK_CONTAINS(said, "timer: ");
    free(said);
}

CP_TEST(install_tells_how_the_libraries_are_found)
{
    install();
    char *text = test_command(NULL, "make -s install PREFIX=%s/local", test_dir());
    CHECK_CONTAINS(text, "'ldconfig'");
    CHECK_CONTAINS(text, "-Wl,-rpath,/");
    free(text);
    test_write_file("program.c", http_program);
    free(test_command(
        NULL,
        "cd %s && cc program.c -o program -Wl,-rpath,$PWD/local/lib -Wl,--as-needed"
        " $(PKG_CONFIG_PATH=local/lib/pkgconfig pkg-config --cflags --libs counterpoint-http) &&\n"
        "env -u LD_LIBRARY_PATH ./program",
        test_dir()));
}

CP_TEST(everybody_can_read_what_is_installed)
{
    install();
    free(test_command(NULL, "umask 077 && make -s install PREFIX=/usr DESTDIR=%s/private", test_dir()));
    char *files = test_command(NULL, "cd %s/private/usr && find . ! -perm -o=r", test_dir());
    CHECK_STR(files, "");
    free(files);
}

/* With a relative prefix, the paths in the .pc files would lead nowhere. */
CP_TEST(a_relative_prefix_is_refused)
{
    int status;

    install();
    char *text = test_command(&status, "make -s install PREFIX=rel DESTDIR=%s/not/", test_dir());
    CHECK_CONTAINS(text, "PREFIX must be an absolute path, and \"rel\" is none.");
    CHECK(status != 0);
    free(text);
    text = test_command(&status, "make -s install LIBDIR=lib64 DESTDIR=%s/not/", test_dir());
    CHECK_CONTAINS(text, "LIBDIR must be an absolute path");
    CHECK(status != 0);
    free(text);
    free(test_command(NULL, "! ls %s/not", test_dir()));
}

/* ---- The documents' fragments ---------------------------------------------------------------- */

/* A fragment of C in a document: the n-th below a heading. */
struct fragment {
    const char *document;
    const char *heading;
    int n;
    const char *before; /* what the fragment assumes; it defines REST, which replaces the fragment's "..." */
    bool is_body;       /* all but the #include lines belongs into a function */
};

/* Writes the fragment to fragment.c in the test's directory. */
static void write_fragment(const struct fragment *f)
{
    free(
        test_command(NULL,
                     "awk -v heading='## %s' -v wanted=%d '\n"
                     "    /^```/ { is_code = !is_code; is_c = $0 == \"```c\"; n += is_c && is_there; next }\n"
                     "    !is_code && /^##+ / { sub(/^#+/, \"##\"); is_there = $0 == heading }\n"
                     "    is_c && is_there && n == wanted' %s > %s/fragment\n"
                     "cd %s && test -s fragment && sed -i 's/^\\( *\\)\\.\\.\\./\\1REST;/' fragment\n"
                     "{ grep '^#' fragment; echo '%s'; %s grep -v '^#' fragment; %s } "
                     "> fragment.c",
                     f->heading, f->n, f->document, test_dir(), test_dir(), f->before,
                     f->is_body ? "echo 'int main(void) {';" : "", f->is_body ? "echo '}';" : ""));
}

static void compile(const char *compiler, const char *more)
{
    int status;

    free(test_command(&status, "command -v %.*s", (int)strcspn(compiler, " "), compiler));
    if (status != 0)
        SKIP("%.*s is not here", (int)strcspn(compiler, " "), compiler);
    free(test_command(NULL, "cd %s && %s -Wall -Wextra -Wpedantic -Werror -Iusr/include fragment.c %s",
                      test_dir(), compiler, more));
}

static void compile_as_c_and_cpp(const char *more)
{
    compile("cc -std=c11", more);
    compile("g++ -x c++ -std=c++11", more);
    compile("g++ -x c++ -std=c++20", more);
    compile("clang++-14 -x c++ -std=c++11", more);
}

static const char link_and_run[] =
    "-x none -Lusr/lib -lcounterpoint -o fragment && LD_LIBRARY_PATH=usr/lib ./fragment";

CP_TEST(the_readmes_pthread_program_builds_and_runs)
{
    const struct fragment fragment = {.document = "README.md",
                                      .heading = "Embed it",
                                      .n = 1,
                                      .before = "static void *work(void *arg) { return arg; }\n"
                                                "#define REST thread(NULL)"};

    install();
    write_fragment(&fragment);
    compile_as_c_and_cpp(link_and_run);
}

CP_TEST(the_lines_for_a_runtime_compile)
{
    const struct fragment fragment = {
        .document = "docs/embedding.md",
        .heading = "A green-thread runtime",
        .n = 1,
        .before = "struct task;\nvoid switch_to(struct task *task);\n#define REST int rest"};

    install();
    write_fragment(&fragment);
    compile_as_c_and_cpp("-c");
    free(test_command(NULL, "cd %s && grep -q cp_g_init fragment.c && grep -q cp_g_fini fragment.c",
                      test_dir()));
}

/* The braces of the fragment name members, which C++ allows from C++20 on. g++ warns about members that are
 * missing. */
CP_TEST(the_lines_for_the_endpoint_compile)
{
    const struct fragment start = {.document = "README.md",
                                   .heading = "Over HTTP",
                                   .n = 1,
                                   .before = "static struct cp_error err;\n#define REST",
                                   .is_body = true};
    const struct fragment options = {.document = "docs/http.md",
                                     .heading = "Who may ask",
                                     .n = 1,
                                     .before = "#include <counterpoint/http.h>\n"
                                               "static struct cp_error err;\n"
                                               "static struct cp_http *http;\n"
                                               "static const char *token, *pem, *key;",
                                     .is_body = true};

    install();
    write_fragment(&start);
    compile_as_c_and_cpp("-c");
    write_fragment(&options);
    compile("cc -std=c11", "-c");
    compile("g++ -x c++ -std=c++20", "-c -Wno-missing-field-initializers");
    compile("clang++-14 -x c++ -std=c++20", "-c");
}

/* Each function ends in a call, which a compiler might turn into a jump. The listed stack is that of a
 * waiting G, so that it is the same each time. */
static const char last_calls[] =
    "#include <counterpoint/pprof.h>\n"
    "#include <counterpoint/sched.h>\n"
    "static struct cp_g *waiter;\n"
    "__attribute__((noinline)) static void wait_here(void) { waiter = cp_sched_self(); cp_park(); }\n"
    "static void entry(void *unused) { (void)unused; wait_here(); }\n"
    "__attribute__((noinline)) static int start(void) { return cp_go(entry, NULL); }\n"
    "static void first(void *unused)\n"
    "{\n"
    "    (void)unused;\n"
    "    if (start() < 0)\n"
    "        return;\n"
    "    while (!waiter)\n"
    "        cp_yield();\n"
    "    cp_g_profile(cp_writer_file(stdout), CP_FORM_STATES, NULL, NULL);\n"
    "    cp_ready(waiter);\n"
    "}\n"
    "int main(void)\n"
    "{\n"
    "    struct cp_sched_options options = {.size = sizeof options, .threads = 1};\n"
    "    return cp_sched_run(&options, first, NULL, NULL) < 0;\n"
    "}\n";

CP_TEST(with_the_documents_flags_stacks_are_whole)
{
    install();
    test_write_file("program.c", last_calls);
    char *text = test_command(
        NULL,
        "flags=$(grep -ohE -e '-fno-[a-z-]+' README.md docs/embedding.md | sort -u) &&\n"
        "cd %s && cc -O2 $flags program.c -o program $(" PKG_CONFIG " --cflags --libs counterpoint)"
        " && LD_LIBRARY_PATH=usr/lib ./program",
        test_dir());
    CHECK_CONTAINS(text, "\nwait_here(");
    CHECK_CONTAINS(text, "\nentry(");
    CHECK_CONTAINS(text, "\ncreated by start ");
    free(text);
}

/* The default session refuses the second option. So a refusal shows that both options arrived. */
CP_TEST(several_options_arrive_from_cpp)
{
    install();
    free(test_command(NULL, "cat > %s/fragment.c << 'end'\n%send\n", test_dir(), two_options));
    compile_as_c_and_cpp(link_and_run);
}

CP_TEST(the_shared_library_exports_its_api_only)
{
    install();
    char *names =
        test_command(NULL,
                     "cd %s/usr/lib && nm -D --defined-only libcounterpoint.so libcounterpoint-http.so "
                     "| awk 'NF == 3 && $2 != \"A\" { print $3 }'",
                     test_dir());
    CHECK_CONTAINS(names, "\ncp_start_cpu_profile_with_options@@COUNTERPOINT_0\n");
    CHECK_CONTAINS(names, "\ncp_generation@@COUNTERPOINT_0\n");
    CHECK_CONTAINS(names, "\ncp_http_handle@@COUNTERPOINT_0\n");
    for (char *name = strtok(names, "\n"); name; name = strtok(NULL, "\n"))
        CHECKF(strncmp(name, "cp_", 3) == 0 && name[3] != '_' && strstr(name, "@@COUNTERPOINT_0") != NULL,
               "%s is exported", name);
    free(names);
}

CP_TEST(the_shared_library_stays_and_is_bound_at_once)
{
    install();
    char *dynamic = test_command(NULL, "readelf -dW %s/usr/lib/libcounterpoint.so", test_dir());
    CHECK_CONTAINS(dynamic, "soname: [libcounterpoint.so.0]");
    CHECK_CONTAINS(dynamic, "NODELETE");
    CHECK_CONTAINS(dynamic, "BIND_NOW");
    free(dynamic);
    free(test_command(NULL, "test -f %s/usr/lib/libcounterpoint.so.0", test_dir()));
}
