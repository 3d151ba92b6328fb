/* The writer of a path writes and removes only files that it opened, and loses no profile. */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pprof/writer.h"
#include "tests/support/session_tools.h"

static struct cp_session *start(const char *path)
{
    const struct cp_profiling_option option = cp_os_timer(cp_writer_path(path));
    struct cp_session *session;
    struct cp_error err;

    CHECKF(cp_session_start(&session, &option, 1, &err) == 0, "%s", err.message);
    return session;
}

static void stop(struct cp_session *session)
{
    struct cp_error err;

    CHECKF(cp_session_stop(session, &err) == 0, "%s", err.message);
    cp_session_close(session);
}

/* Makes the directories "a" and "b" in the test's directory, and changes to "a". */
static void make_directories(void)
{
    attach();
    CHECK_EQ(chdir(test_dir()), 0);
    CHECK(mkdir("a", 0777) == 0 && mkdir("b", 0777) == 0);
    CHECK_EQ(chdir("a"), 0);
}

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    CHECK(file != NULL);
    fputs(text, file);
    CHECK_EQ(fclose(file), 0);
}

static void check_text(const char *path, const char *text)
{
    char *found = test_command(NULL, "cat %s", path);

    CHECK_STR(found, text);
    free(found);
}

static void check_is_profile(const char *path)
{
    free(test_command(NULL, "gzip -t %s && test -s %s", path, path));
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

/* ---- What is removed ------------------------------------------------------------------------- */

SIM_TEST(what_was_created_is_removed_from_where_it_was_created)
{
    struct cp_session *session;

    make_directories();
    session = start("cpu.pb.gz");
    CHECK(is_there("cpu.pb.gz"));
    CHECK_EQ(chdir("../b"), 0);
    put("cpu.pb.gz", "precious\n");
    cp_session_close(session);
    check_text("cpu.pb.gz", "precious\n");
    CHECK(!is_there("../a/cpu.pb.gz"));
}

SIM_TEST(another_file_of_that_name_is_not_removed)
{
    struct cp_session *session;

    make_directories();
    session = start("cpu.pb.gz");
    CHECK_EQ(rename("cpu.pb.gz", "older"), 0);
    put("cpu.pb.gz", "precious\n");
    cp_session_close(session);
    check_text("cpu.pb.gz", "precious\n");
}

SIM_TEST(what_somebody_else_wrote_is_not_removed)
{
    struct cp_session *session;

    make_directories();
    session = start("cpu.pb.gz");
    put("cpu.pb.gz", "precious\n");
    cp_session_close(session);
    check_text("cpu.pb.gz", "precious\n");
}

SIM_TEST(what_was_there_is_not_removed)
{
    make_directories();
    put("cpu.pb.gz", "");
    cp_session_close(start("cpu.pb.gz"));
    CHECK(is_there("cpu.pb.gz"));
}

/* ---- Where it is written --------------------------------------------------------------------- */

SIM_TEST(a_profile_is_written_where_its_path_led_at_the_start)
{
    struct cp_session *session;

    make_directories();
    session = start("cpu.pb.gz");
    CHECK_EQ(chdir("../b"), 0);
    stop(session);
    CHECK(!is_there("cpu.pb.gz"));
    check_is_profile("../a/cpu.pb.gz");
}

/* A program that cleans up or renames old files may remove it. */
SIM_TEST(a_file_that_was_removed_is_made_again)
{
    struct cp_session *session;

    make_directories();
    session = start("cpu.pb.gz");
    CHECK_EQ(unlink("cpu.pb.gz"), 0);
    stop(session);
    check_is_profile("cpu.pb.gz");
    session = start("cpu.pb.gz");
    CHECK_EQ(rename("cpu.pb.gz", "cpu.pb.gz.1"), 0);
    stop(session);
    check_is_profile("cpu.pb.gz");
    check_is_profile("cpu.pb.gz.1");
}

SIM_TEST(paths_are_read_as_open_reads_them)
{
    static const char *const bad[] = {"", "../b/", ".", "nowhere/cpu.pb.gz", "file/cpu.pb.gz"};
    static const int codes[] = {-ENOENT, -EISDIR, -EISDIR, -ENOENT, -ENOTDIR};
    struct cp_error err;
    char path[600];

    make_directories();
    put("file", "");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECKF(cp_start_cpu_profile(cp_writer_path(bad[i]), &err) == codes[i], "\"%s\": %s", bad[i],
               err.message);
    memset(path, 'x', sizeof path);
    path[sizeof path - 1] = '\0';
    CHECK_EQ(cp_start_cpu_profile(cp_writer_path(path), &err), -ENAMETOOLONG);
    CHECK_EQ(symlink("../b/behind", "link"), 0); /* the file that the link names does not exist yet */
    stop(start("link"));
    check_is_profile("../b/behind");
    snprintf(path, sizeof path, "../../../../../../../../../..%s/a/cpu.pb.gz", test_dir());
    stop(start(path));
    check_is_profile("cpu.pb.gz");
}

CP_TEST(a_root_directory_is_a_directory)
{
    struct cp_error err;

    attach();
    CHECK_EQ(cp_start_cpu_profile(cp_writer_path("/"), &err), -EISDIR);
    CHECK_EQ(cp_start_cpu_profile(cp_writer_path("/proc"), &err), -EISDIR);
}

/* ---- A disk that is full --------------------------------------------------------------------- */

/* Limits the size of files. */
static void limit_files(rlim_t size)
{
    struct rlimit limit;

    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = size;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

SIM_TEST(a_part_of_a_profile_does_not_stay)
{
    struct cp_session *session;
    struct cp_error err;
    struct stat file;

    make_directories();
    session = start("cpu.pb.gz");
    limit_files(20);
    CHECK_EQ(cp_session_stop(session, &err), -EFBIG);
    CHECK_CONTAINS(err.message, "It can be written again.");
    CHECK_EQ(stat("cpu.pb.gz", &file), 0);
    CHECK_EQ(file.st_size, 0);
    CHECK_EQ(chdir("../b"), 0);
    CHECK_EQ(cp_session_write(session, 0, cp_writer_path("other.pb.gz"), &err), -EFBIG);
    CHECK(!is_there("other.pb.gz"));
    limit_files(RLIM_INFINITY);
    stop(session);
    check_is_profile("../a/cpu.pb.gz");
    CHECK(!is_there("cpu.pb.gz"));
}

SIM_TEST(a_profile_that_was_dropped_leaves_no_file)
{
    struct cp_session *session;
    struct cp_error err;

    make_directories();
    session = start("cpu.pb.gz");
    limit_files(20);
    CHECK_EQ(cp_session_stop(session, &err), -EFBIG);
    cp_session_close(session);
    CHECK(!is_there("cpu.pb.gz"));
}

/* ---- Descriptors ----------------------------------------------------------------------------- */

SIM_TEST(executed_programs_hold_no_file_of_a_profile)
{
    struct cp_session *sessions[2];
    char *held;

    make_directories();
    put("old.pb.gz", "");
    sessions[0] = start("old.pb.gz");
    sessions[1] = start("new.pb.gz");
    held = test_command(NULL, "cd / && ls -l /proc/self/fd");
    CHECKF(strstr(held, ".pb.gz") == NULL, "%s", held);
    CHECKF(strstr(held, "/a\n") == NULL, "%s", held);
    free(held);
    stop(sessions[0]);
    stop(sessions[1]);
}

SIM_TEST(no_descriptor_is_left)
{
    struct cp_session *session;
    struct cp_error err;
    int before;

    make_directories();
    stop(start("cpu.pb.gz"));
    before = open_descriptors();
    stop(start("cpu.pb.gz"));
    cp_session_close(start("cpu.pb.gz"));
    CHECK(cp_start_cpu_profile(cp_writer_path("../b"), &err) < 0);
    session = start("cpu.pb.gz");
    limit_files(20);
    CHECK_EQ(cp_session_stop(session, &err), -EFBIG);
    cp_session_close(session);
    CHECK_EQ(open_descriptors(), before);
}

/* Replaces each descriptor that is open in the directory, or is the directory's, by a duplicate of victim.
 * Returns how many there were. */
static int take_descriptors(const char *directory, int victim)
{
    char link[64], to[512];
    int n = 0;

    for (int fd = 3; fd < 256; fd++) {
        ssize_t size;

        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        size = readlink(link, to, sizeof to - 1);
        if (fd == victim || size < 0)
            continue;
        to[size] = '\0';
        if (strncmp(to, directory, strlen(directory)) != 0)
            continue;
        CHECK_EQ(dup2(victim, fd), fd);
        n++;
    }
    return n;
}

/* A program that becomes a daemon closes all descriptors and opens others, which get the same numbers. */
SIM_TEST(descriptors_that_are_others_by_now_are_left_alone)
{
    char directory[300], path[320];
    struct cp_session *sessions[3];
    struct cp_error err;
    int victim, n;

    make_directories();
    CHECK(getcwd(directory, sizeof directory) != NULL);
    snprintf(path, sizeof path, "%s/absolute.pb.gz", directory);
    put("../b/victim", "precious\n");
    victim = open("../b/victim", O_RDWR | O_CLOEXEC);
    sessions[0] = start(path);
    sessions[1] = start("relative.pb.gz");
    sessions[2] = start("dropped.pb.gz");
    CHECK_EQ(take_descriptors(directory, victim), 6);
    n = open_descriptors();
    stop(sessions[0]);
    check_is_profile(path);
    CHECK_EQ(cp_session_stop(sessions[1], &err), -EBADF);
    CHECKF(cp_session_write(sessions[1], 0, cp_writer_path("other.pb.gz"), &err) == 0, "%s", err.message);
    check_is_profile("other.pb.gz");
    cp_session_close(sessions[1]);
    cp_session_close(sessions[2]);
    check_text("../b/victim", "precious\n");
    CHECK_EQ(open_descriptors(), n);
}

/* Whether the writers of a path say that two of them would write the same file. */
static bool is_same(const char *path)
{
    struct cp_writer a = cp_writer_path(path), b = cp_writer_path(path);
    struct cp_error err;
    bool result;

    CHECKF(a.ops->open(&a, &err) == 0 && b.ops->open(&b, &err) == 0, "%s", err.message);
    result = a.ops->same(&a, &b);
    a.ops->close(&a);
    b.ops->close(&b);
    return result;
}

CP_TEST(two_profiles_go_to_one_device_but_not_to_one_file)
{
    make_directories();
    CHECK(!is_same("/dev/null"));
    CHECK(is_same("cpu.pb.gz"));
    CHECK(!is_there("cpu.pb.gz"));
}
