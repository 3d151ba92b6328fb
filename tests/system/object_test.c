/* Profiles of loaded code: its names, lines and mappings, as pprof shows them. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <time.h>

#include "tests/support/profile_tools.h"

/* ---- Addresses of this program --------------------------------------------------------------- */

static uintptr_t return_address;

__attribute__((noinline)) static void remember_caller(void)
{
    return_address = (uintptr_t)__builtin_return_address(0);
    __asm__ volatile("");
}

enum { REMEMBER_LINE = __LINE__ + 4 };
__attribute__((always_inline)) static inline void inlined_twice(void)
{
    return_address = 0;
    remember_caller();
    __asm__ volatile("nop"); /* the call returns to this line, not to its own */
}

enum { TWICE_LINE = __LINE__ + 4 };
__attribute__((always_inline)) static inline void inlined_once(void)
{
    __asm__ volatile("nop");
    inlined_twice();
    __asm__ volatile("nop");
}

enum { ONCE_LINE = __LINE__ + 4 };
__attribute__((noinline)) static void not_inlined(void)
{
    __asm__ volatile("nop");
    inlined_once();
    __asm__ volatile("nop");
}

/* Checks the line numbers that pprof -raw shows for a location: of the instruction, and of the function's
 * start. */
static void check_lines(const char *raw, const char *location, const char *function, int line, int start)
{
    char name[64], lines[64], *text;

    snprintf(name, sizeof name, "%s %s ", location, function);
    snprintf(lines, sizeof lines, "object_test.c:%d s=%d", line, start);
    text = find_line(raw, name, 0);
    CHECK_CONTAINS(text != NULL ? text : raw, lines);
    free(text);
}

CP_TEST(lines_and_inlined_functions_are_told)
{
    struct cp__profile *profile = new_profile();
    uintptr_t frames[2] = {(uintptr_t)remember_caller};
    char expected[64], *text;
    const char *path;

    not_inlined();
    frames[1] = return_address;
    add(profile, frames, 2, 1, 0, NULL);
    path = write_profile(profile, &cpu_meta, "inlined");
    text = pprof("-symbolize=none -raw", path);
    check_lines(text, "M=1", "remember_caller", REMEMBER_LINE - 9, REMEMBER_LINE - 10);
    check_lines(text, "M=1", "inlined_twice", REMEMBER_LINE, REMEMBER_LINE - 3);
    check_lines(text, "       ", "inlined_once", TWICE_LINE, TWICE_LINE - 3);
    check_lines(text, "       ", "not_inlined", ONCE_LINE, ONCE_LINE - 3);
    snprintf(expected, sizeof expected, "     2: %#zx M=1 ", (size_t)return_address - 1);
    CHECK_CONTAINS(text, expected);
    free(text);
    text = pprof("-list not_inlined", path);
    CHECK_CONTAINS(text, "inlined_once();");
    free(text);
    text = pprof("-symbolize=none -traces", path);
    CHECK_CONTAINS(text, "       1ms   remember_caller\n"
                         "             inlined_twice (inline)\n"
                         "             inlined_once (inline)\n"
                         "             not_inlined\n");
    free(text);
    cp__profile_free(profile);
}

/* Returns the build ID that readelf finds in a file. */
static const char *build_id(const char *path)
{
    static char id[65];
    char *text = test_command(NULL, "readelf -n %s | sed -n 's/ *Build ID: *//p'", path);

    snprintf(id, sizeof id, "%.*s", (int)strcspn(text, "\n"), text);
    CHECK(strlen(id) >= 16);
    free(text);
    return id;
}

CP_TEST(mappings_have_build_ids)
{
    struct cp__profile *profile = new_profile();
    uintptr_t frames[2] = {(uintptr_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_version"),
                           (uintptr_t)remember_caller + 1};
    char expected[128], exe[64], *text;
    const char *path;
    Dl_info libc;

    CHECK(dladdr((void *)frames[0], &libc) != 0);
    add(profile, frames, 2, 1, 0, NULL);
    path = write_profile(profile, &cpu_meta, "ids");
    text = pprof("-symbolize=none -raw", path);
    snprintf(exe, sizeof exe, "/proc/%d/exe", (int)getpid());
    CHECK_CONTAINS(text, "\nMappings\n1: 0x");
    snprintf(expected, sizeof expected, "object_test %s [FN][FL][LN][IN]\n2: 0x", build_id(exe));
    CHECK_CONTAINS(text, expected);
    snprintf(expected, sizeof expected, " %s [FN]", build_id(libc.dli_fname));
    CHECK_CONTAINS(text, expected);
    free(text);
    text = decode(path);
    CHECK_EQ(count_lines(text, "mapping {"), 2);
    free(text);
    cp__profile_free(profile);
}

/* Checks the mapping of an address against /proc/self/maps. */
static void check_mapping_of(const char *decoded, uintptr_t address)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long start, limit, offset;
    char line[600], expected[200];
    bool found = false;

    while (!found && fgets(line, sizeof line, maps) != NULL)
        found = sscanf(line, "%lx-%lx %*s %lx", &start, &limit, &offset) == 3 && address >= start &&
                address < limit;
    fclose(maps);
    CHECK(found && offset > 0);
    snprintf(expected, sizeof expected, "  memory_start: %lu\n  memory_limit: %lu\n  file_offset: %lu\n",
             start, limit, offset);
    CHECK_CONTAINS(decoded, expected);
}

CP_TEST(mappings_are_those_of_the_kernel)
{
    struct cp__profile *profile = new_profile();
    uintptr_t frames[2] = {(uintptr_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_version"),
                           (uintptr_t)remember_caller + 1};
    char *text;

    add(profile, frames, 2, 1, 0, NULL);
    text = decode(write_profile(profile, &cpu_meta, "maps"));
    check_mapping_of(text, frames[0]);
    check_mapping_of(text, frames[1]);
    free(text);
    cp__profile_free(profile);
}

/* ---- Objects that are loaded ----------------------------------------------------------------- */

struct object {
    void *handle;
    uintptr_t outer; /* addresses of code in the target's functions */
    uintptr_t exported;
    uintptr_t hidden; /* directly before target_outer or behind target_exported */
};

static struct object load(const char *path)
{
    struct object object = {.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)};

    CHECKF(object.handle != NULL, "%s", dlerror());
    object.outer = (uintptr_t)dlsym(object.handle, "target_outer");
    object.exported = (uintptr_t)dlsym(object.handle, "target_exported");
    CHECK(object.outer != 0 && object.exported != 0);
    return object;
}

/* Adds a sample in target_exported, which the start of target_outer called. */
static void add_object(struct cp__profile *profile, const struct object *object)
{
    uintptr_t frames[2] = {object->exported, object->outer + 1};

    add(profile, frames, 2, 1, 0, NULL);
}

/* Returns what pprof shows without the program's and the objects' files. */
static char *raw_profile(struct cp__profile *profile, const char *name)
{
    return pprof("-symbolize=none -raw", write_profile(profile, &cpu_meta, name));
}

static void check_object(const char *raw, const char *file, const char *id)
{
    char expected[400];

    CHECK_CONTAINS(raw, " target_exported ");
    CHECK_CONTAINS(raw, " target_outer ");
    CHECK_CONTAINS(raw, "symbol_target.c:");
    snprintf(expected, sizeof expected, "%s %s [FN][FL][LN][IN]\n", file, id);
    CHECK_CONTAINS(raw, expected);
}

CP_TEST(objects_come_and_go)
{
    const char *path = build("gcc -O2 -g -shared -fPIC", "libtarget.so");
    struct object object = load(path);
    struct cp__profile *before = new_profile(), *after, *between;
    char *raw;

    add_object(before, &object); /* the object is unloaded before the profile is written */
    dlclose(object.handle);
    after = new_profile();
    between = new_profile();
    object = load(path);
    add_object(after, &object); /* the object was loaded after the profile's start */
    raw = raw_profile(after, "after");
    check_object(raw, path, build_id(path));
    free(raw);

    nanosleep(&(struct timespec){.tv_nsec = 150000000}, NULL);
    /* the object was loaded after the start and is unloaded before the profile is written */
    add_object(between, &object);
    dlclose(object.handle);
    raw = raw_profile(before, "before");
    check_object(raw, path, build_id(path));
    free(raw);
    raw = raw_profile(between, "between");
    check_object(raw, path, build_id(path));
    free(raw);
    cp__profile_free(before);
    cp__profile_free(after);
    cp__profile_free(between);
}

CP_TEST(objects_that_are_gone_for_pprof_have_names)
{
    const char *path = build("gcc -O2 -g -shared -fPIC", "libtarget.so");
    struct object object = load(path);
    struct cp__profile *profile = new_profile();
    const char *file;
    char *text;

    add_object(profile, &object);
    file = write_profile(profile, &cpu_meta, "gone");
    CHECK_EQ(unlink(path), 0);
    text = pprof("-top", file);
    CHECK_CONTAINS(text, " target_exported\n");
    CHECK_CONTAINS(text, " target_outer\n");
    free(text);
    text = pprof("-list target_exported", file);
    CHECK_CONTAINS(text, "int target_exported(int n)");
    free(text);
    cp__profile_free(profile);
}

/* Exported functions have names without debug information. */
CP_TEST(a_stripped_object_has_its_exported_names)
{
    const char *path = build("gcc -O2 -g -shared -fPIC", "libtarget.so");
    struct cp__profile *profile = new_profile();
    struct object object;
    char expected[128], *text;
    uintptr_t inside;

    inside =
        (uintptr_t)strtoull(text = test_command(NULL, "nm %s | sed -n 's/ t hidden//p'", path), NULL, 16);
    free(text);
    free(test_command(NULL, "strip %s", path));
    object = load(path);
    add_object(profile, &object);
    inside += ((struct link_map *)object.handle)->l_addr;
    add(profile, &inside, 1, 5, 0, NULL);
    text = raw_profile(profile, "stripped");
    CHECK_CONTAINS(text, " target_exported :0 s=0\n");
    CHECK_CONTAINS(text, " target_outer :0 s=0\n");
    snprintf(expected, sizeof expected, ": %#zx M=2 \n", (size_t)inside);
    CHECK_CONTAINS(text, expected); /* without a name, rather than with the next symbol's */
    snprintf(expected, sizeof expected, " %s [FN]\n", build_id(path));
    CHECK_CONTAINS(text, expected);
    free(text);
    text = pprof("-symbolize=none -top", write_profile(profile, &cpu_meta, "stripped"));
    CHECK_CONTAINS(text, "[libtarget.so]");
    free(text);
    dlclose(object.handle);
    cp__profile_free(profile);
}

static void check_named(const char *path, bool has_lines)
{
    struct cp__profile *profile = new_profile();
    struct object object = load(path);
    char *text;

    add_object(profile, &object);
    text = raw_profile(profile, "named");
    if (has_lines)
        check_object(text, path, build_id(path));
    else
        CHECK_CONTAINS(text, " target_exported :0 s=0\n");
    free(text);
    dlclose(object.handle);
    cp__profile_free(profile);
}

CP_TEST(a_separate_debug_file_is_read_if_it_belongs_there)
{
    const char *path = build("gcc -O2 -g -shared -fPIC", "libtarget.so");

    free(test_command(
        NULL,
        "cd %s && objcopy --only-keep-debug libtarget.so libtarget.debug && strip libtarget.so && "
        "objcopy --add-gnu-debuglink=libtarget.debug libtarget.so",
        test_dir()));
    check_named(path, true);
    free(test_command(NULL, "cd %s && mkdir .debug && mv libtarget.debug .debug", test_dir()));
    check_named(path, true);
    free(test_command(NULL, "cd %s && printf x >> .debug/libtarget.debug",
                      test_dir())); /* no longer the file that belongs to the object */
    check_named(path, false);
}

static void check_replaced(const char *compile, const char *id, bool is_late)
{
    const char *path = build(compile, "libtarget.so");
    struct cp__profile *profile = NULL;
    struct object object = load(path);
    char expected[128], *text;

    snprintf(expected, sizeof expected, "/libtarget.so %s [FN]", id != NULL ? id : build_id(path));
    if (is_late)
        profile = new_profile();
    build("gcc -O1 -g -shared -fPIC -Dtarget_exported=wrong_exported -Dtarget_outer=wrong_outer",
          "libnew.so");
    free(test_command(NULL, "cd %s && mv libnew.so libtarget.so", test_dir()));
    if (!is_late)
        profile = new_profile();
    add_object(profile, &object);
    text = raw_profile(profile, "replaced");
    CHECK(strstr(text, "wrong_") == NULL);
    CHECK_CONTAINS(text, " target_exported ");
    CHECK_CONTAINS(text, " target_outer ");
    CHECK_CONTAINS(text, expected);
    free(text);
    dlclose(object.handle);
    cp__profile_free(profile);
}

/* A file that replaced the mapped file has other code, so its names are not used. Those of the mapped file
 * are read from /proc/self/map_files, or those of exported functions from memory. */
CP_TEST(an_object_that_was_replaced_keeps_its_names)
{
    for (int is_late = 0; is_late < 2; is_late++) {
        check_replaced("gcc -O2 -g -shared -fPIC", NULL, is_late);
        check_replaced("gcc -O2 -g -shared -fPIC -Wl,--build-id=none", "", is_late);
    }
}

/* ---- Unusual objects ------------------------------------------------------------------------- */

CP_TEST(the_vdso_has_names)
{
    uintptr_t base = getauxval(AT_SYSINFO_EHDR);
    struct cp__profile *profile = new_profile();
    char *text;

    if (base == 0)
        SKIP("The kernel provides no [vdso] here.");
    for (uintptr_t at = base; at < base + 4096; at += 16)
        add(profile, &at, 1, 1, 0, NULL);
    text = raw_profile(profile, "vdso");
    CHECK_CONTAINS(text, " [vdso] ");
    CHECKF(count_lines(text, "clock_gettime") > 2, "%s", text);
    free(text);
    cp__profile_free(profile);
}

/* Runs in a copy of this program, which deletes its own file and then looks its own names up. */
static void look_up_deleted_self(const char *path)
{
    struct cp__profile *profile;
    uintptr_t here = (uintptr_t)remember_caller;
    char *text;

    CHECK_EQ(unlink(path), 0);
    profile = new_profile();
    add(profile, &here, 1, 1, 0, NULL);
    text = raw_profile(profile, "deleted");
    check_lines(text, "M=1", "remember_caller", REMEMBER_LINE - 9, REMEMBER_LINE - 10);
    CHECK_CONTAINS(text, "/copy "); /* the path without "(deleted)" */
    CHECK(strstr(text, "deleted)") == NULL);
    free(text);
    cp__profile_free(profile);
    puts("looked itself up");
}

CP_TEST(a_deleted_program_looks_itself_up)
{
    static const char *const ways[] = {
        "cp", "objcopy --remove-section .note.gnu.build-id",
        /* the file has a build id that is in no segment: program headers have 56 bytes, and begin at 64 */
        "hide() { cp $1 $2; at=64; for type in $(readelf -lW $2 | sed -n 's/^  \\([A-Z_]*\\) .* "
        "0x.*/\\1/p'); do "
        "[ $type != NOTE ] || printf '\\0\\0\\0\\0' | dd of=$2 bs=1 seek=$at conv=notrunc status=none; "
        "at=$((at + 56)); done; readelf -n $2 | grep -q Build && ! readelf -lW $2 | grep -q NOTE; }; hide"};
    const char *self = getenv("CP_TEST_COPY");
    char *text;

    if (self != NULL) {
        look_up_deleted_self(self);
        return;
    }
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        text = test_command(NULL,
                            "copy=%s/copy; %s /proc/$PPID/exe $copy && CP_TEST_COPY=$copy $copy -inprocess "
                            "-run a_deleted_program",
                            test_dir(), ways[i]);
        CHECK_CONTAINS(text, "looked itself up");
        free(text);
    }
}

/* DEBUGINFOD_URLS names a server for debug files. The library does not ask that server. */
CP_TEST(nothing_is_asked_of_the_network)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    char *text;

    CHECK(listener >= 0);
    CHECK_EQ(bind(listener, (struct sockaddr *)&address, size), 0);
    CHECK_EQ(listen(listener, 8), 0);
    CHECK_EQ(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    text = test_command(NULL,
                        "DEBUGINFOD_URLS=http://127.0.0.1:%d DEBUGINFOD_TIMEOUT=1 "
                        "/proc/$PPID/exe -inprocess -v -run a_stripped_object",
                        ntohs(address.sin_port));
    CHECK_CONTAINS(text, "--- PASS: Test_a_stripped_object_has_its_exported_names");
    free(text);
    CHECK_EQ(accept(listener, NULL, NULL), -1);
    CHECK_EQ(errno, EAGAIN);
    close(listener);
}
