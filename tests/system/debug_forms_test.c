/*
 * Debug information in all forms in which it comes: each byte of code of a C++ program has the names and
 * lines that llvm-symbolizer finds. What moves the information elsewhere or packs it leaves the code as it
 * was, so llvm-symbolizer is asked before.
 */
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "tests/support/name_tools.h"

static void need_tools(void)
{
    if (!is_there("llvm-symbolizer-14") || !is_there("clang++-14") || !is_there("ld.lld-14"))
        SKIP("There is no clang-14, lld-14 or llvm-14 here.");
}

/* Builds the program in the test's directory. Stores what llvm-symbolizer says, then makes the change. */
static struct target *build_form(const char *compile, const char *change, char **theirs)
{
    struct target *target;

    CHECK_EQ(chdir(test_dir()), 0);
    target = build_target(compile);
    *theirs = ask(llvm_names, target->path, target->addresses, target->n);
    CHECK(strstr(*theirs, "names_target.c:") != NULL);
    free(test_command(NULL, "source=%s; %s", test_source("names_target.c"), change));
    return target;
}

static void check_form(const char *compile, const char *change)
{
    char form[512], *theirs;
    struct target *target = build_form(compile, change, &theirs);
    char *ours = name_all(target);

    snprintf(form, sizeof form, "%s; %s", compile, change);
    check_names(form, ours, theirs);
    printf("%s: %zu addresses\n", form, target->n);
    free(ours);
    free(theirs);
    free(target);
}

#define GCC "g++ -x c++ -O2 -g "
#define CLANG "clang++-14 -x c++ -O2 -g "

CP_TEST(both_versions_of_dwarf_are_read, .timeout_s = 60 * TEST_SLOWDOWN)
{
    need_tools();
    check_form(GCC "-gdwarf-4", "true");
    check_form(GCC "-gdwarf-5", "true");
    check_form(GCC "-gdwarf-4 -fdebug-types-section", "true");
    check_form(CLANG "-gdwarf-4", "true");
    check_form(CLANG "-gdwarf-5", "true");
}

/* Builds a program again, with the same code. */
#define AGAIN(compile, option) "cp target whole && " compile option " -o target $source && " SAME
#define SAME                                                                                                 \
    "for f in whole target; do objcopy -O binary -j .text $f $f.text; done && cmp whole.text target.text"
#define SPLIT(compile) AGAIN(compile, " -gsplit-dwarf") " && ls *.dwo"

/* llvm-symbolizer 14 misses some of the functions that are inlined in the files of clang's split information,
 * and is asked about the whole. */
CP_TEST(split_debug_information_is_read, .timeout_s = 60 * TEST_SLOWDOWN)
{
    need_tools();
    check_form(GCC "-gdwarf-4", SPLIT(GCC "-gdwarf-4"));
    check_form(GCC "-gdwarf-5", SPLIT(GCC "-gdwarf-5"));
    check_form(CLANG "-gdwarf-4", SPLIT(CLANG "-gdwarf-4"));
    check_form(CLANG "-gdwarf-5", SPLIT(CLANG "-gdwarf-5"));
}

/* gcc leaves a symbol that marks the debug information of a source in the midst of the code, which
 * llvm-symbolizer takes for a function. */
CP_TEST(link_time_optimisation_keeps_names, .timeout_s = 60 * TEST_SLOWDOWN)
{
    need_tools();
    check_form("lto() { " GCC "-flto \"$@\" && objcopy -w -N 'names_target.c.*' $2; }; lto", "true");
    check_form(CLANG "-flto -fuse-ld=lld-14", "true");
    check_form(CLANG "-flto=thin -fuse-ld=lld-14", "true");
}

CP_TEST(sections_packed_by_zlib_are_read, .timeout_s = 60 * TEST_SLOWDOWN)
{
    need_tools();
    check_form(GCC "-gz=zlib", "readelf -t target | grep -q COMPRESSED");
    check_form(GCC, "objcopy --compress-debug-sections=zlib-gnu target && "
                    "readelf -SW target | grep -q zdebug_info");
    check_form(CLANG "-gz", "readelf -t target | grep -q COMPRESSED");
}

#define KEEP_DEBUG "objcopy --only-keep-debug target names.debug && strip target && "

CP_TEST(separate_files_are_found_by_their_link, .timeout_s = 60 * TEST_SLOWDOWN)
{
    need_tools();
    check_form(GCC "-Wl,--build-id=none", KEEP_DEBUG "objcopy --add-gnu-debuglink=names.debug target");
    check_form(GCC "-Wl,--build-id=none", KEEP_DEBUG
               "objcopy --add-gnu-debuglink=names.debug target && mkdir .debug && mv names.debug .debug");
    check_form(GCC "-gz -Wl,--build-id=none", KEEP_DEBUG "objcopy --add-gnu-debuglink=names.debug target");
}

CP_TEST(separate_files_are_found_by_the_build_id, .timeout_s = 60 * TEST_SLOWDOWN)
{
    need_tools();
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        (mkdir("/usr/lib/debug", 0755) < 0 && errno != EEXIST) ||
        mount("tmpfs", "/usr/lib/debug", "tmpfs", 0, NULL) < 0)
        SKIP("Only root may mount a folder for the debug files.");
    check_form(GCC "-Wl,--build-id=0x1234567890abcdef1234567890abcdef12345678",
               KEEP_DEBUG "mkdir -p /usr/lib/debug/.build-id/12 && mv names.debug "
                          "/usr/lib/debug/.build-id/12/34567890abcdef1234567890abcdef12345678.debug");
}

CP_TEST(what_dwz_has_made_smaller_is_read, .timeout_s = 60 * TEST_SLOWDOWN)
{
    need_tools();
    if (!is_there("dwz"))
        SKIP("There is no dwz here (package dwz).");
    check_form(GCC "-gdwarf-4", "dwz target");
    check_form(GCC "-gdwarf-5", "dwz target");
    check_form(GCC "-gdwarf-5", "cp target other && dwz -m common.dwz target other && rm other");
}

/* ---- What libdw 0.188 does not read ---------------------------------------------------------- */

/* Stores the name of the outermost function of an answer. *at moves to the next answer. */
static void next_outermost(char **at, char *name, size_t size)
{
    char *line, *end = *at;

    name[0] = '\0';
    for (line = strchr(*at, '\n') + 1; line[0] != '\0' && strncmp(line, "0x", 2) != 0;) {
        end = strchr(line, '\n');
        snprintf(name, size, "%.*s", (int)(end - line), line);
        line = strchr(end + 1, '\n') + 1; /* behind the place */
    }
    *at = line;
}

/* Cuts off what compilers add to the symbols of parts and copies, and demanglers make of it. */
static void cut_suffix(char *name)
{
    char *clone = strstr(name, " [clone ");

    if (clone != NULL)
        *clone = '\0';
    else if (strchr(name, '(') == NULL)
        name[strcspn(name, ".")] = '\0';
}

/* Checks that each function has its name, by the symbol table, or that all is read. */
static void check_outermost(const char *compile, const char *change)
{
    char *theirs, ours_name[1024], theirs_name[1024];
    struct target *target = build_form(compile, change, &theirs);
    char *ours = name_all(target), *a = ours, *b = theirs;

    printf("%s; %s: lines are %s\n", compile, change,
           strstr(ours, "names_target.c:") != NULL ? "read" : "not read");
    while (*a != '\0' && *b != '\0') {
        next_outermost(&a, ours_name, sizeof ours_name);
        next_outermost(&b, theirs_name, sizeof theirs_name);
        cut_suffix(ours_name);
        CHECKF(strcmp(ours_name, theirs_name) == 0, "%s; %s:\nours: %s\ntheirs: %s", compile, change,
               ours_name, theirs_name);
    }
    CHECK(*a == '\0' && *b == '\0');
    free(ours);
    free(theirs);
    free(target);
}

CP_TEST(packages_of_split_debug_information_leave_the_symbols, .timeout_s = 60 * TEST_SLOWDOWN)
{
    need_tools();
    check_outermost(GCC "-gdwarf-4", SPLIT(GCC "-gdwarf-4") " && dwp -e target -o target.dwp && rm *.dwo");
    check_outermost(GCC "-gdwarf-5",
                    SPLIT(GCC "-gdwarf-5") " && llvm-dwp-14 -e target -o target.dwp && rm *.dwo");
    check_outermost(CLANG "-gdwarf-5",
                    SPLIT(CLANG "-gdwarf-5") " && llvm-dwp-14 -e target -o target.dwp && rm *.dwo");
    check_outermost(CLANG "-gdwarf-5", SPLIT(CLANG "-gdwarf-5") " && rm *.dwo");
}

CP_TEST(sections_packed_by_zstd_leave_the_symbols, .timeout_s = 60 * TEST_SLOWDOWN)
{
    need_tools();
    check_outermost(GCC, "objcopy --compress-debug-sections=zstd target && readelf -t target | grep -q ZSTD");
}
