/* What is installed, as projects of others use it: through CMake and through pkg-config, from "make install".
 * tests/consumer/ is such a project. */
#include "tests/support/test.h"

#include "version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- What is installed ----------------------------------------------------------------------- */

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
