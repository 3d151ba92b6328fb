/* The names of sources in a profile, by which readers find the sources from wherever they run. */
#include <dlfcn.h>
#include <inttypes.h>

#include "tests/support/profile_tools.h"

/* Builds a library in a directory of its own, of sources that the compiler gets by relative names. The path
 * is valid until the next call. */
static const char *build_relative(const char *compile)
{
    static char path[256];
    static unsigned n_built;

    snprintf(path, sizeof path, "%s/%u/listed.so", test_dir(), n_built);
    free(test_command(NULL,
                      "mkdir -p %s/%u/sub && cd %s/%u &&\n"
                      "echo 'static inline __attribute__((always_inline)) int inlined(int x)\n"
                      "{ return x * 7 + (x >> 3); /* the header */ }' > sub/inlined.h &&\n"
                      "echo '#include \"inlined.h\"\n"
                      "int listed(int x)\n"
                      "{ return inlined(x) ^ 5; /* the source */ }' > sub/listed.c &&\n"
                      "%s -shared -fPIC -o listed.so sub/listed.c",
                      test_dir(), n_built, test_dir(), n_built, compile));
    n_built++;
    return path;
}

/* Writes a profile of samples at each byte of the library's function. */
static const char *sample_all(const char *library)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    struct cp__profile *profile = new_profile();
    char *text = test_command(NULL, "nm -S %s | sed -n 's/^[^ ]* \\([^ ]*\\) T listed$/\\1/p'", library);
    const uint64_t size = strtoull(text, NULL, 16);
    uintptr_t address = (uintptr_t)dlsym(handle, "listed");
    const char *path;

    CHECK(address != 0 && size > 0 && size < 200);
    for (uint64_t i = 0; i < size; i++, address++)
        add(profile, &address, 1, 1, 0, NULL);
    path = write_profile(profile, &cpu_meta, "listed");
    cp__profile_free(profile);
    dlclose(handle);
    free(text);
    return path;
}

/* Lists the functions from another working directory than that of the compiler. */
static char *list_elsewhere(const char *path)
{
    return test_command(
        NULL, "cd / && HOME=%s PPROF_TMPDIR=%s XDG_CACHE_HOME=%s go tool pprof -list 'listed|inlined' %s",
        test_dir(), test_dir(), test_dir(), path);
}

CP_TEST(readers_find_sources_from_another_directory, .timeout_s = 60 * TEST_SLOWDOWN)
{
    static const char *const compiles[] = {"gcc -O1 -gdwarf-4",        "gcc -O1 -gdwarf-5",
                                           "gcc -O1 -g -gsplit-dwarf", "clang-14 -O1 -gdwarf-4",
                                           "clang-14 -O1 -gdwarf-5",   "clang-14 -O1 -g -gsplit-dwarf"};
    int status;

    free(test_command(&status, "command -v clang-14"));
    for (size_t i = 0; i < sizeof compiles / sizeof compiles[0] - (status == 0 ? 0 : 3); i++) {
        char *text = list_elsewhere(sample_all(build_relative(compiles[i])));

        CHECKF(strstr(text, "the header */ }") != NULL, "%s: no line of the header in:\n%s", compiles[i],
               text);
        CHECKF(strstr(text, "the source */ }") != NULL, "%s: no line of the source in:\n%s", compiles[i],
               text);
        CHECKF(strstr(text, "Error") == NULL, "%s:\n%s", compiles[i], text);
        free(text);
    }
}

/* A build that hides its directory, so that it is the same in each, has relative names that stay so. */
CP_TEST(names_without_a_directory_stay_relative)
{
    char *text = pprof("-raw", sample_all(build_relative("gcc -O1 -g -ffile-prefix-map=$PWD=.")));

    CHECKF(strstr(text, " sub/listed.c:") != NULL || strstr(text, " ./sub/listed.c:") != NULL, "%s", text);
    free(text);
}
