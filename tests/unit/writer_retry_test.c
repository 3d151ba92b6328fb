/* Writers that fail in the middle of a profile: a second attempt writes the whole profile, or is refused. */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pprof/writer.h"
#include "tests/support/session_tools.h"

/* ---- What is written here -------------------------------------------------------------------- */

enum { SIZE = 20000 };

static int write_much(const void *what, struct cp_writer *w)
{
    static char text[SIZE];

    (void)what;
    memset(text, 'x', sizeof text);
    return cp__write_all(w, text, sizeof text);
}

static int attempt(struct cp_writer *w, struct cp_error *err)
{
    return cp__write_attempt(w, write_much, NULL, err);
}

/* Limits the size of files. */
static void limit_files(rlim_t size)
{
    struct rlimit limit;

    signal(SIGXFSZ, SIG_IGN);
    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = size;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void check_size(const char *path, long size)
{
    struct stat file;

    CHECK_EQ(stat(path, &file), 0);
    CHECK_EQ(file.st_size, size);
}

/* The file begins with four bytes of the caller's. Behind these stands the whole profile or nothing. */
static void check_retry(struct cp_writer *w, const char *path)
{
    struct cp_error err;
    char *head;

    limit_files(10000);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(attempt(w, &err), -EFBIG);
        CHECK_CONTAINS(err.message, "It can be written again.");
        check_size(path, 4);
    }
    limit_files(RLIM_INFINITY);
    CHECKF(attempt(w, &err) == 0, "%s", err.message);
    check_size(path, 4 + SIZE);
    head = test_command(NULL, "head -c 6 %s", path);
    CHECK_STR(head, "mine"
                    "xx");
    free(head);
}

/* ---- Descriptors ----------------------------------------------------------------------------- */

static int open_file(const char *path, int flags)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | flags, 0600);

    CHECK_EQ(write(fd, "mine", 4), 4);
    return fd;
}

CP_TEST(a_part_of_a_profile_is_taken_back_from_a_descriptor)
{
    const char *path = file_in_dir("fd");
    struct cp_writer w = cp_writer_fd(open_file(path, 0));

    check_retry(&w, path);
    close(w.fd);
    w = cp_writer_fd(open_file(path, O_APPEND));
    check_retry(&w, path);
    close(w.fd);
}

/* An attempt overwrites what stood behind the file's position, but does not truncate the file. */
CP_TEST(what_is_behind_a_profile_stays)
{
    const char *path = file_in_dir("fd");
    struct cp_writer w = cp_writer_fd(open_file(path, 0));
    struct cp_error err;

    CHECK_EQ(ftruncate(w.fd, SIZE + 1000), 0);
    limit_files(10000);
    CHECK_EQ(attempt(&w, &err), -EFBIG);
    check_size(path, SIZE + 1000);
    CHECK_EQ(lseek(w.fd, 0, SEEK_CUR), 4);
    limit_files(RLIM_INFINITY);
    CHECK_EQ(attempt(&w, &err), 0);
    check_size(path, SIZE + 1000);
    close(w.fd);
}

static int append_and_fail(const void *what, struct cp_writer *w)
{
    const int *other = what;

    CHECK_EQ(cp__write_all(w, "x", 1), 0);
    CHECK_EQ(write(*other, "others", 6), 6);
    return -EIO;
}

CP_TEST(what_others_append_stays)
{
    const char *path = file_in_dir("fd");
    struct cp_writer w = cp_writer_fd(open_file(path, O_APPEND));
    int other = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    struct cp_error err;

    CHECK_EQ(cp__write_attempt(&w, append_and_fail, &other, &err), -EIO);
    check_size(path, 11);
    CHECK_CONTAINS(err.message, "A part of it stays there, so that the whole must be written elsewhere.");
    CHECK_EQ(attempt(&w, &err), -EIO);
    check_size(path, 11);
    close(w.fd);
    close(other);
}

CP_TEST(behind_a_part_in_a_pipe_nothing_is_written)
{
    struct cp_writer w;
    struct cp_error err;
    char part[SIZE];
    int fds[2];

    CHECK_EQ(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
    CHECK(fcntl(fds[1], F_SETPIPE_SZ, 4096) >= 4096);
    w = cp_writer_fd(fds[1]);
    CHECK_EQ(attempt(&w, &err), -EAGAIN);
    CHECK_CONTAINS(err.message, "A part of it stays there, so that the whole must be written elsewhere.");
    CHECK(read(fds[0], part, sizeof part) > 0);
    CHECK_EQ(attempt(&w, &err), -EAGAIN);
    CHECK_EQ(read(fds[0], part, sizeof part), -1);
    close(fds[0]);
    close(fds[1]);
}

/* The pipe took no byte of the first attempt, so a second one may follow. */
CP_TEST(a_pipe_that_was_full_can_be_tried_again)
{
    struct cp_writer w;
    struct cp_error err;
    char part[1 << 16];
    int fds[2];

    CHECK_EQ(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
    while (write(fds[1], "0123456789abcdef", 16) == 16)
        ;
    w = cp_writer_fd(fds[1]);
    CHECK_EQ(attempt(&w, &err), -EAGAIN);
    CHECK_CONTAINS(err.message, "It can be written again.");
    while (read(fds[0], part, sizeof part) > 0)
        ;
    CHECK_EQ(attempt(&w, &err), 0);
    close(fds[0]);
    close(fds[1]);
}

/* ---- Streams --------------------------------------------------------------------------------- */

/* The caller's four bytes are still in the stream's buffer when the profile is written. */
CP_TEST(a_part_of_a_profile_is_taken_back_from_a_stream)
{
    const char *path = file_in_dir("stream");
    FILE *file = fopen(path, "we");
    struct cp_writer w = cp_writer_file(file);

    fputs("mine", file);
    check_retry(&w, path);
    CHECK(fputs("!", file) >= 0);
    CHECK_EQ(fclose(file), 0);
    check_size(path, 4 + SIZE + 1);
}

static int begin_and_fail(const void *what, struct cp_writer *w)
{
    (void)what;
    CHECK_EQ(cp__write_all(w, "x", 1), 0);
    return -ENOMEM;
}

/* The failed attempt's byte may still be in the stream's buffer. */
CP_TEST(a_part_of_a_profile_is_taken_back_from_a_buffer)
{
    const char *path = file_in_dir("stream");
    FILE *file = fopen(path, "we");
    struct cp_writer w = cp_writer_file(file);
    struct cp_error err;

    fputs("mine", file);
    CHECK_EQ(cp__write_attempt(&w, begin_and_fail, NULL, &err), -ENOMEM);
    check_size(path, 4);
    CHECK_EQ(attempt(&w, &err), 0);
    CHECK_EQ(fclose(file), 0);
    check_size(path, 4 + SIZE);
}

CP_TEST(from_a_stream_that_appends_nothing_is_taken_back)
{
    const char *path = file_in_dir("stream");
    FILE *file = fopen(path, "ae");
    struct cp_writer w = cp_writer_file(file);
    struct cp_error err;

    limit_files(10000);
    CHECK_EQ(attempt(&w, &err), -EFBIG);
    CHECK_CONTAINS(err.message, "A part of it stays there");
    limit_files(RLIM_INFINITY);
    check_size(path, 10000);
    CHECK_EQ(attempt(&w, &err), -EFBIG);
    CHECK_EQ(fclose(file), 0);
    check_size(path, 10000);
}
