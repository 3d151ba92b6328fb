/* What is installed, as projects of others use it: through CMake and through pkg-config, from "make install"
 * and from Debian's packages. tests/consumer/ is such a project. */
#include "tests/support/test.h"

#include "version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- What is installed ----------------------------------------------------------------------- */

/* Returns the folder of the libraries below a folder "usr", as Debian has it. */
static const char *library_dir(void)
{
    static char *dir;

    if (dir == NULL)
        dir = test_command(NULL, "printf lib/; dpkg-architecture -qDEB_HOST_MULTIARCH | tr -d '\\n'");
    return dir;
}

/* The packages are those of the default build, whose programs alone can be linked with what is in them. */
static void need_packages(void)
{
    int status;

    free(test_command(&status, "command -v dpkg-buildpackage"));
    if (status != 0)
        SKIP("dpkg-buildpackage is not here");
    free(test_command(&status, "[ %s -ef build ]", test_build_dir()));
    if (status != 0)
        SKIP("Debian's packages are those of the default build");
}

/* Unpacks all packages into "tree" in the test's directory. */
static void unpack(void)
{
    need_packages();
    free(test_command(NULL, "for deb in build/deb/*.deb; do dpkg-deb -x $deb %s/tree || exit; done",
                      test_dir()));
}

/* Installs into "tree", and moves that: nothing may know the path that it was installed to. */
static void install(const char *where)
{
    if (TEST_ASAN || TEST_TSAN)
        SKIP("a library with a sanitizer in it is not for others");
    free(test_command(NULL, "make -s install PREFIX=/usr %s DESTDIR=%s/first && mv %s/first %s/tree", where,
                      test_dir(), test_dir(), test_dir()));
}

/* ---- Consumers ------------------------------------------------------------------------------- */

static void copy_consumer(void)
{
    free(test_command(NULL, "cp -r tests/consumer %s", test_dir()));
}

static void check_programs(const char *dir, const char *libraries)
{
    char *text = test_command(NULL,
                              "cd %s && export LD_LIBRARY_PATH=%s/tree/usr/%s\n"
                              "./core && ./server && ./tests -v",
                              dir, test_dir(), libraries);
    CHECK_CONTAINS(text, "core " CP_VERSION "\nhttp\n");
    CHECK_CONTAINS(text, "--- PASS: Test_one");
    free(text);
}

static void use_by_pkg_config(const char *libraries)
{
    char dir[400];

    copy_consumer();
    snprintf(dir, sizeof dir, "%s/consumer", test_dir());
    free(test_command(NULL,
                      "cd %s && PKG_CONFIG_PATH=%s/tree/usr/%s/pkgconfig PKG_CONFIG_SYSROOT_DIR=%s/tree"
                      " make -s -f Makefile",
                      dir, test_dir(), libraries, test_dir()));
    check_programs(dir, libraries);
}

/* Runs cmake in the consumer, and returns what it says. */
static char *configure(int *status, const char *more)
{
    return test_command(status, "cd %s/consumer && cmake -S . -B out -DCMAKE_PREFIX_PATH=%s/tree/usr %s",
                        test_dir(), test_dir(), more);
}

static void need_cmake(void)
{
    int status;

    free(test_command(&status, "command -v cmake"));
    if (status != 0)
        SKIP("cmake is not here");
}

static void use_by_cmake(const char *libraries)
{
    char dir[400];

    copy_consumer();
    free(configure(NULL, ""));
    snprintf(dir, sizeof dir, "%s/consumer/out", test_dir());
    free(test_command(NULL, "cmake --build %s", dir));
    check_programs(dir, libraries);
}

CP_TEST(what_is_installed_is_used_by_pkg_config)
{
    install("");
    use_by_pkg_config("lib");
}

CP_TEST(what_is_installed_is_used_by_cmake)
{
    need_cmake();
    install("");
    use_by_cmake("lib");
}

CP_TEST(cmake_finds_libraries_in_any_folder)
{
    need_cmake();
    install("LIBDIR=/opt/deep/lib64");
    copy_consumer();
    char more[400];
    snprintf(more, sizeof more, "-Dcounterpoint_DIR=%s/tree/opt/deep/lib64/cmake/counterpoint", test_dir());
    free(configure(NULL, more));
    free(test_command(
        NULL, "cd %s/consumer && cmake --build out && LD_LIBRARY_PATH=%s/tree/opt/deep/lib64 out/core",
        test_dir(), test_dir()));
}

static void check_refusal(const char *find_package, const char *says)
{
    int status;

    free(test_command(NULL, "sed -i 's/^find_package.*/find_package(%s)/' %s/consumer/CMakeLists.txt",
                      find_package, test_dir()));
    char *text = configure(&status, "");
    CHECK(status != 0);
    CHECK_CONTAINS(text, says);
    free(text);
}

CP_TEST(cmake_refuses_what_is_not_there)
{
    need_cmake();
    install("");
    copy_consumer();
    check_refusal("counterpoint 1.0 REQUIRED", "compatible with requested version \"1.0\"");
    check_refusal("counterpoint 0.99 REQUIRED", "compatible with requested version \"0.99\"");
    check_refusal("counterpoint REQUIRED COMPONENTS graphics", "no library \"graphics\"");
    free(test_command(NULL, "rm %s/tree/usr/lib/libcounterpoint-http.so*", test_dir()));
    check_refusal("counterpoint REQUIRED COMPONENTS http", "no library \"http\"");
}

CP_TEST(packages_are_used_by_pkg_config)
{
    unpack();
    use_by_pkg_config(library_dir());
}

CP_TEST(packages_are_used_by_cmake)
{
    need_cmake();
    unpack();
    use_by_cmake(library_dir());
}

/* ---- The packages ---------------------------------------------------------------------------- */

/* Returns a field of a package. */
static char *field(const char *package, const char *name)
{
    return test_command(NULL, "dpkg-deb -f build/deb/%s_[0-9]*.deb %s", package, name);
}

CP_TEST(packages_have_the_librarys_version)
{
    static const char *const packages[] = {"libcounterpoint0", "libcounterpoint-http0",
                                           "libcounterpoint-testing0", "libcounterpoint-dev", "counterpoint"};

    need_packages();
    for (size_t i = 0; i < sizeof packages / sizeof packages[0]; i++) {
        char *version = field(packages[i], "Version");
        CHECK_STR(version, CP_VERSION "\n");
        free(version);
    }
}

/* Each folder with sources of what is installed has objects of it. */
CP_TEST(packages_are_made_anew_if_a_source_changes)
{
    need_packages();
    char *text = test_command(
        NULL,
        "env -u MAKEFLAGS make -pn build/deb/.done | grep '^build/deb/.done:' | tr ' ' '\\n' > %s/sources\n"
        "for room in $(ls build/obj | grep -vxE 'bench|examples|tests')\n"
        "do grep -q \"^$room/.*\\.c\" %s/sources && echo made || echo \"not of $room\"\n"
        "done | sort -u",
        test_dir(), test_dir());
    CHECK_STR(text, "made\n");
    free(text);
}

CP_TEST(packages_depend_on_what_they_are_linked_with)
{
    need_packages();
    char *depends = field("libcounterpoint-http0", "Depends");
    CHECK_CONTAINS(depends, "libcounterpoint0 (>= ");
    CHECK_CONTAINS(depends, "libmicrohttpd12");
    free(depends);
    depends = field("libcounterpoint0", "Depends");
    CHECK_CONTAINS(depends, "libprotobuf-c1");
    CHECK(strstr(depends, "microhttpd") == NULL);
    free(depends);
    depends = field("libcounterpoint-dev", "Depends");
    CHECK_CONTAINS(depends, "libcounterpoint-testing0 (= " CP_VERSION ")");
    free(depends);
    depends = field("counterpoint", "Depends");
    CHECK(strstr(depends, "libcounterpoint") == NULL); /* the command has the library in it */
    free(depends);
}

CP_TEST(libraries_have_sonames_and_versions_of_symbols)
{
    unpack();
    char *text = test_command(NULL,
                              "cd %s/tree/usr/%s\n"
                              "for l in libcounterpoint libcounterpoint-http libcounterpoint-testing\n"
                              "do objdump -p $l.so.0 | grep SONAME && objdump -T $l.so.0 |\n"
                              "    awk '/ g .*DF \\.text/ { n++; if ($6 !~ /COUNTERPOINT_0/) print }\n"
                              "         END { if (n == 0) print \"no call\" }'; done",
                              test_dir(), library_dir());
    CHECK_STR(text, "  SONAME               libcounterpoint.so.0\n"
                    "  SONAME               libcounterpoint-http.so.0\n"
                    "  SONAME               libcounterpoint-testing.so.0\n");
    free(text);
}

/* The packages are built with Debian's flags, of which some add calls. */
CP_TEST(the_packaged_handler_calls_nothing_forbidden)
{
    unpack();
    free(test_command(NULL, "tests/handler_calls %s/tree/usr/%s/libcounterpoint.a", test_dir(),
                      library_dir()));
}

CP_TEST(the_packages_command_and_manual_work)
{
    unpack();
    char *text =
        test_command(NULL,
                     "cd %s/tree/usr && bin/counterpoint --version && bin/counterpoint events --names |\n"
                     "    head -n 1 && MANWIDTH=80 man -M share/man 3 cp_ready | grep -w cp_park,",
                     test_dir());
    CHECK_STR(text, "counterpoint " CP_VERSION
                    "\ntimer\n       cp_park, cp_ready - wait for a permit, and give one\n");
    free(text);
}

CP_TEST(lintian_complains_of_nothing)
{
    int status;

    need_packages();
    free(test_command(&status, "command -v lintian"));
    if (status != 0)
        SKIP("lintian is not here");
    char *text = test_command(NULL, "lintian --allow-root --fail-on none build/deb/*.changes");
    CHECK_STR(text, "");
    free(text);
}
