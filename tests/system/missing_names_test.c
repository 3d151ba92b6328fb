/* What a profile says of modules whose files lack names, or parts of their debug information. */
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "tests/support/library_tools.h"

/* ---- Files without symbols ------------------------------------------------------------------- */

/* Changes the file of a library, and checks what a sample in a local function lacks, and a sample in another
 * function that the local one has called. */
static void check_changed_form(const char *flags, const char *name, const char *change, const char *why,
                               const char *why_of_caller)
{
    struct library library = build_and_load(flags, name);
    struct cp__profile *profile;
    const uintptr_t hidden = library.hidden - library.functions[0];
    uintptr_t stack[2];

    dlclose(library.handle);
    free(test_command(NULL, change, library.path));
    library = load(library.path);
    stack[0] = library.functions[0];
    stack[1] = hidden + library.functions[0] + 1;
    profile = new_profile();
    add(profile, stack, 2, 1, 0, NULL);
    check_missing(profile, name, why_of_caller);
    stack[1]--;
    add(profile, &stack[1], 1, 1, 0, NULL);
    check_missing(profile, name, why);
    cp__profile_free(profile);
}

static void check_changed(const char *name, const char *change, const char *why, const char *why_of_caller)
{
    check_changed_form("", name, change, why, why_of_caller);
}

CP_TEST(what_a_file_lacks_is_told)
{
    check_changed("libwhole.so", "test -f %s", NULL, NULL);
    check_changed("libstripped.so", "strip %s", "no symbols but the exported ones", NULL);
    check_changed("libnodebug.so", "strip -g %s", NULL, NULL);
    check_changed("libzlib.so", "objcopy --compress-debug-sections=zlib %s", NULL, NULL);
    check_changed("libzstd.so", "objcopy --compress-debug-sections=zstd %s", "compressed in a way",
                  "compressed in a way");
}

/* Debug information in a form that is not in ELF's specification: one section is compressed in the way 99. */
CP_TEST(unknown_compression_is_told)
{
    static const char *const sections[] = {"info", "str"};
    char name[40], change[512];

    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        snprintf(name, sizeof name, "lib%s.so", sections[i]);
        snprintf(change, sizeof change,
                 "objcopy --compress-debug-sections=zlib %%1$s && at=$(readelf -SW %%1$s | sed -n 's/.* "
                 "\\.debug_%s *PROGBITS *[0-9a-f]* *\\([0-9a-f]*\\) .*C .*/\\1/p') && printf '\\143' | dd "
                 "of=%%1$s bs=1 seek=$((0x$at)) conv=notrunc status=none",
                 sections[i]);
        check_changed_form("-g3", name, change, "compressed in a way", "compressed in a way");
    }
}

/* Outermost functions have their names by the symbols, so only a comment tells what else is missing. */
CP_TEST(debug_information_in_a_missing_file_is_told)
{
    static const char lost[] = "a .dwo file";
    static const char pack[] = "%s -e %%1$s -o %%1$s.dwp && rm %%1$s-*.dwo";
    const char *const packers[] = {"-gdwarf-4", "dwp", "-gdwarf-5", "llvm-dwp-14"};
    char flags[40], change[200], name[40];
    int status;

    check_changed_form("-gsplit-dwarf", "libsplit.so", "test -f %1$s-copied_target.dwo", NULL, NULL);
    check_changed_form("-gsplit-dwarf", "libsplit2.so", "rm %s-*.dwo", lost, lost);
    check_changed_form("-gsplit-dwarf -gdwarf-4", "libsplit4.so", "rm %s-*.dwo", lost, lost);
    free(test_command(&status, "command -v dwz"));
    if (status == 0)
        check_changed("libdwz.so", "cp %1$s %1$s.2 && dwz -m %1$s.common %1$s %1$s.2 && rm %1$s.common", lost,
                      lost);
    for (size_t i = 0; i < sizeof packers / sizeof packers[0]; i += 2) {
        free(test_command(&status, "command -v %s", packers[i + 1]));
        if (status != 0)
            continue;
        snprintf(flags, sizeof flags, "-gsplit-dwarf %s", packers[i]);
        snprintf(change, sizeof change, pack, packers[i + 1]);
        snprintf(name, sizeof name, "libpacked%zu.so", i);
        check_changed_form(flags, name, change, lost, lost);
    }
}

/* The file is in order, but nothing more can be opened. */
CP_TEST(a_file_that_cannot_be_opened_now_is_told)
{
    struct library library = build_and_load("", "libfull.so");
    struct cp__profile *profile = new_profile();
    struct rlimit limit, none;

    CHECK_EQ(cp__profile_note_mappings(profile), 0);
    add(profile, &library.hidden, 1, 1, 0, NULL);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 3;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    check_missing(profile, "/libfull.so", "too many files are open");
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    cp__profile_free(profile);
}

/* The kernel's vDSO is no deleted file. */
CP_TEST(what_the_vdso_lacks_is_told)
{
    uintptr_t base = getauxval(AT_SYSINFO_EHDR);
    struct cp__profile *profile = new_profile();

    if (base == 0)
        SKIP("The kernel provides no [vdso] here.");
    add(profile, &base, 1, 1, 0, NULL); /* the ELF header, which is no function */
    check_missing(profile, "[vdso]", "no symbols but the exported ones");
    cp__profile_free(profile);
}

/* A reader skips mappings whose names are in brackets, and complains of other names that are no files. */
CP_TEST(readers_do_not_look_for_code_in_no_file)
{
    const uintptr_t address =
        (uintptr_t)mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct cp__profile *profile = new_profile();
    char *text;

    add(profile, &address, 1, 1, 0, NULL);
    text = pprof("-raw", write_profile(profile, &cpu_meta, "anonymous"));
    CHECK_CONTAINS(text, " [anon] ");
    CHECK(strstr(text, "no such file") == NULL);
    CHECK(strstr(text, "not available") == NULL);
    free(text);
    cp__profile_free(profile);
}

/* Executable memory in no file, and in files that are no objects. */
CP_TEST(code_in_no_object_is_told)
{
    struct cp__profile *profile;
    char path[256], *code = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uintptr_t address = (uintptr_t)code;
    int fd;

    profile = new_profile();
    add(profile, &address, 1, 1, 0, NULL);
    check_missing(profile, "[anon]", "in no file");
    cp__profile_free(profile);
    snprintf(path, sizeof path, "%s/code.cache", test_dir());
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0700);
    CHECK_EQ(ftruncate(fd, PAGE), 0);
    code = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    CHECK(code != MAP_FAILED);
    address = (uintptr_t)code;
    profile = new_profile();
    add(profile, &address, 1, 1, 0, NULL);
    check_missing(profile, "/code.cache", "no ELF object");
    cp__profile_free(profile);
    close(fd);
}
