/* Writers: each kind gets a profile that go tool pprof reads, and a writer that fails loses no profile. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pprof/writer.h"
#include "tests/support/memory_limit.h"
#include "tests/support/refuse.h"
#include "tests/support/session_tools.h"

static ssize_t one_byte_at_a_time(void *context, const void *data, size_t size)
{
    static int calls;
    struct cp_memory *memory = context;
    (void)size;
    if (++calls % 3 == 0)
        return -EINTR;
    if (memory->size == memory->capacity) {
        memory->capacity = memory->capacity * 2 + 64;
        memory->data = realloc(memory->data, memory->capacity);
    }
    memory->data[memory->size++] = *(const unsigned char *)data;
    return 1;
}

SIM_TEST(every_writer_gets_a_profile_that_pprof_reads)
{
    struct cp_memory memory = {0};
    const char *path = file_in_dir("x.pb.gz");
    struct stat st;
    FILE *file;
    int fd;

    attach();
    profile_to(cp_writer_path(path));
    check_burnt(path, PROFILED);
    profile_to(cp_writer_path(path)); /* replaces the file */
    check_burnt(path, PROFILED);
    CHECK_EQ(stat(path, &st), 0);

    file = fopen(path, "w");
    profile_to(cp_writer_file(file));
    check_burnt(path, PROFILED); /* the stream has been flushed, but not closed */
    CHECK_EQ(fclose(file), 0);

    fd = open(path, O_RDWR | O_TRUNC);
    profile_to(cp_writer_fd(fd));
    check_burnt(path, PROFILED);
    CHECK_EQ(close(fd), 0);

    profile_to(cp_writer_memory(&memory));
    save(&memory, path);
    check_burnt(path, PROFILED);
    free(memory.data);

    memset(&memory, 0, sizeof memory);
    profile_to(cp_writer_callback(one_byte_at_a_time, &memory));
    save(&memory, path);
    check_burnt(path, PROFILED);
    free(memory.data);
}

SIM_TEST(a_path_is_checked_at_the_start_and_changed_at_the_stop)
{
    const char *path = file_in_dir("old.pb.gz");
    char other[600];
    struct cp_error err;
    struct cp_memory memory = {0};
    FILE *file = fopen(path, "w");
    char *text;
    struct state before;

    fputs("old contents\n", file);
    fclose(file);
    attach();
    before = state_now();
    check_refused(cp_start_cpu_profile(cp_writer_path("/nonexistent/x.pb.gz"), &err), -ENOENT, &err,
                  "/nonexistent/x.pb.gz", &before);
    /* two paths of one file */
    setenv("CP_PPROF_ENABLE_MULTIPLE_CPU_PROFILES", "true", 1);
    snprintf(other, sizeof other, "%s/./old.pb.gz", test_dir());
    check_refused(cp_start_cpu_profile_with_config(&err,
                                                   cp_option_event(cp_writer_path(path), "taskClock", 0),
                                                   cp_option_event(cp_writer_path(other), "cpuClock", 0)),
                  -EINVAL, &err, "the same file", &before);
    CHECK_EQ(cp_start_cpu_profile(cp_writer_path(path), &err), 0);
    text = test_command(NULL, "cat %s", path);
    CHECK_STR(text, "old contents\n");
    free(text);
    CHECK_EQ(cp_start_cpu_profile(cp_writer_memory(&memory), &err), -EBUSY);
    CHECK_EQ(cp_stop_cpu_profile(&err), 0);
    text = test_command(NULL, "gzip -t %s && echo whole", path);
    CHECK_STR(text, "whole\n");
    free(text);
}

/* A writer's callback takes some bytes, then fails with this error. */
struct failing {
    size_t takes;
    int error;
    struct cp_memory memory;
};

static ssize_t fail_later(void *context, const void *data, size_t size)
{
    struct failing *failing = context;

    (void)data;
    if (failing->takes == 0)
        return failing->error;
    if (size > failing->takes)
        size = failing->takes;
    failing->takes -= size;
    return (ssize_t)size;
}

SIM_TEST(a_failing_writer_loses_nothing)
{
    struct failing failing = {.takes = 100, .error = -ENOSPC};
    struct cp_memory memory = {0};
    struct cp_memory again = {0};
    const char *path = file_in_dir("kept.pb.gz");
    struct cp_error err;

    attach();
    CHECK_EQ(cp_start_cpu_profile_with_config(
                 &err, cp_option_event(cp_writer_callback(fail_later, &failing), "taskClock", 100000)),
             0);
    burn_here(50000000);
    CHECK_EQ(cp_stop_cpu_profile(&err), -ENOSPC);
    CHECK_CONTAINS(err.message, "No space left on device");
    CHECK_CONTAINS(err.message, "It can be written again.");
    CHECK_EQ(cp_start_cpu_profile(cp_writer_memory(&again), &err), -EBUSY);
    CHECK_CONTAINS(err.message, "kept");

    CHECK_EQ(cp_session_write(cp_default_session(), 0, cp_writer_memory(&memory), &err), 0);
    CHECK_EQ(cp_session_write(cp_default_session(), 0, cp_writer_memory(&again), &err), 0);
    CHECK_EQ(memory.size, again.size);
    CHECK(memcmp(memory.data, again.data, memory.size) == 0);
    CHECK_EQ(cp_session_write(cp_default_session(), 1, cp_writer_memory(&again), &err), -EINVAL);
    save(&memory, path);
    check_burnt(path, 500);
    CHECK_EQ(cp_stop_cpu_profile(&err), 0); /* the profile has been written, so there is nothing left to do */
    CHECK(cp_default_session() == NULL);
    free(memory.data);
    free(again.data);
}

/* A text is for people to look at. Writing it does not count as writing the profile. */
SIM_TEST(a_profile_that_was_looked_at_is_kept)
{
    struct failing failing = {.takes = 0, .error = -EIO};
    struct cp_memory text = {0};
    struct cp_error err;

    attach();
    CHECK_EQ(cp_start_cpu_profile(cp_writer_callback(fail_later, &failing), &err), 0);
    CHECK_EQ(cp_stop_cpu_profile(&err), -EIO);
    CHECK_EQ(cp_session_write_text(cp_default_session(), 0, cp_writer_memory(&text), &err), 0);
    CHECK(text.size > 0);
    CHECK_EQ(cp_stop_cpu_profile(&err), -EIO);
    failing.takes = SIZE_MAX;
    CHECK_EQ(cp_stop_cpu_profile(&err), 0);
    free(text.data);
}

SIM_TEST(a_stop_can_be_retried)
{
    struct failing failing = {.takes = 0, .error = -EIO};
    struct cp_error err;

    attach();
    CHECK_EQ(cp_start_cpu_profile(cp_writer_callback(fail_later, &failing), &err), 0);
    CHECK_EQ(cp_stop_cpu_profile(&err), -EIO);
    CHECK_EQ(cp_stop_cpu_profile(&err), -EIO);
    failing.takes = SIZE_MAX;
    CHECK_EQ(cp_stop_cpu_profile(&err), 0);
    CHECK_EQ(cp_stop_cpu_profile(&err), -ESRCH);
}

SIM_TEST(a_kept_profile_can_be_dropped)
{
    struct failing failing = {.takes = 0, .error = 0}; /* takes nothing and returns no error */
    struct cp_memory memory = {0};
    struct cp_error err;

    attach();
    CHECK_EQ(cp_start_cpu_profile(cp_writer_callback(fail_later, &failing), &err), 0);
    CHECK_EQ(cp_stop_cpu_profile(&err), -EIO);
    cp_session_close(cp_default_session());
    CHECK(cp_default_session() == NULL);
    CHECK_EQ(cp_start_cpu_profile(cp_writer_memory(&memory), &err), 0);
    CHECK_EQ(cp_stop_cpu_profile(&err), 0);
    free(memory.data);
}

static ssize_t end_the_thread(void *context, const void *data, size_t size)
{
    (void)context, (void)data, (void)size;
    pthread_exit(NULL);
}

SIM_TEST(a_callback_that_ends_its_thread_has_not_written)
{
    struct cp_error err;

    if (TEST_ASAN)
        SKIP("what the thread had is not freed, and AddressSanitizer says so");
    attach();
    CHECK_EQ(cp_start_cpu_profile(cp_writer_callback(end_the_thread, NULL), &err), 0);
    CHECK_EQ(cp_stop_cpu_profile(&err), -ECANCELED);
    CHECK_CONTAINS(err.message, "ended the thread");
    CHECK_EQ(cp_session_write(cp_default_session(), 0, cp_writer_callback(end_the_thread, NULL), &err),
             -ECANCELED);
    CHECK_CONTAINS(err.message, "ended the thread");
    CHECK_EQ(cp_stop_cpu_profile(&err), -ECANCELED);
    cp_session_close(cp_default_session());
}

/* clone() fails with EAGAIN if the process may have no more threads. */
SIM_TEST(without_a_thread_to_write_on_a_profile_is_kept)
{
    struct cp_memory memory = {0};
    struct cp_session *session;
    struct cp_error err;

    if (TEST_TSAN || TEST_ASAN)
        SKIP("the sanitizers end a program that can start no thread");
    attach();
    CHECK_EQ(cp_start_cpu_profile(cp_writer_memory(&memory), &err), 0);
    session = cp_default_session();
    refuse_call(SYS_clone3, EAGAIN);
    refuse_call(SYS_clone, EAGAIN);
    CHECK_EQ(cp_stop_cpu_profile(&err), -EAGAIN);
    CHECK_CONTAINS(err.message, "No thread could be started to write the profile");
    CHECK(cp_default_session() == session);
    CHECK_EQ(cp_start_cpu_profile(cp_writer_memory(&memory), &err), -EBUSY);
    CHECK_EQ(memory.size, 0);
}

/* Looking names up takes more memory than the limit; everything else takes less. */
SIM_TEST(without_memory_for_names_a_profile_is_written_without_them)
{
    static const char unnamed[] = "Comment: unnamed: ";
    struct cp_memory memory = {0}, later = {0};
    const struct cp_profiling_option option = cp_option_event(cp_writer_memory(&memory), "taskClock", 100000);
    const char *path = file_in_dir("unnamed.pb.gz");
    struct cp_session *session;
    struct cp_error err;
    char *text;
    int result;

    if (TEST_ASAN || TEST_TSAN)
        SKIP("A sanitizer takes more address space than there is memory.");
    attach();
    CHECKF(cp_session_start(&session, &option, 1, &err) == 0, "%s", err.message);
    burn_here(50000000);
    limit_memory(32 << 20);
    result = cp_session_stop(session, &err);
    limit_memory(UINT64_MAX);
    CHECKF(result == 0, "%s", err.message);
    save(&memory, path);
    text = pprof("-symbolize=none -raw", path);
    CHECK_CONTAINS(text, "samples/count cpu/nanoseconds[dflt]\n        500   50000000: 1 2 3 ");
    CHECK_CONTAINS(text, unnamed);
    CHECK_CONTAINS(text, "writer_test"); /* the name of the mapping's file */
    CHECK(strstr(text, "burn_here") == NULL);
    free(text);
    check_names_burn(path); /* pprof finds the names in the program's file */
    CHECKF(cp_session_write(session, 0, cp_writer_memory(&later), &err) == 0, "%s", err.message);
    save(&later, path);
    check_burnt(path, 500);
    text = pprof("-symbolize=none -raw", path);
    CHECK(strstr(text, unnamed) == NULL);
    free(text);
    cp_session_close(session);
    free(memory.data);
    free(later.data);
}

static ssize_t profile_meanwhile(void *context, const void *data, size_t size)
{
    struct cp_memory *memory = context;
    const struct cp_profiling_option option = cp_os_timer(cp_writer_memory(memory));
    struct cp_session *session;
    struct cp_error err;

    (void)data;
    CHECKF(cp_session_start(&session, &option, 1, &err) == 0, "%s", err.message);
    CHECKF(cp_session_stop(session, &err) == 0, "%s", err.message);
    cp_session_close(session);
    return (ssize_t)size;
}

/* The writer of the default session takes a profile of its own, which must not wait for the default session:
 * for example, a request of an HTTP server must not. */
SIM_TEST(a_session_ends_while_the_default_one_is_written)
{
    struct cp_memory memory = {0};
    struct cp_error err;

    attach();
    CHECK_EQ(cp_start_cpu_profile(cp_writer_callback(profile_meanwhile, &memory), &err), 0);
    CHECK_EQ(cp_stop_cpu_profile(&err), 0);
    CHECK(memory.size > 0);
    free(memory.data);
}

/* cp_writer_file(NULL) is, for example, what a program makes after fopen() has failed. */
CP_TEST(writers_of_nothing_are_refused_at_the_start)
{
    const struct cp_writer writers[] = {cp_writer_file(NULL), cp_writer_callback(NULL, NULL),
                                        cp_writer_memory(NULL), cp_writer_path(NULL)};
    static const char *const names[] = {"stream", "callback", "buffer", "file"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct cp_error err = {0};
        char said[64];

        CHECK_EQ(cp_start_cpu_profile(writers[i], &err), -EINVAL);
        snprintf(said, sizeof said, "The profile's %s is NULL, so no profile can go there.", names[i]);
        CHECK_STR(err.message, said);
    }
}

CP_TEST(a_writer_that_was_not_made_is_refused)
{
    struct cp_error err = {0};

    CHECK_EQ(cp_thread_profile((struct cp_writer){0}, CP_FORM_PPROF, &err), -EINVAL);
    CHECK_CONTAINS(err.message, "Make one with cp_writer_path()");
}

static int print_and_flush(const void *what, FILE *out)
{
    (void)what;
    fputs("text", out);
    fflush(out);
    return 0;
}

/* The error comes at fflush(), so fclose() has nothing to flush and finds no error. */
CP_TEST(an_error_in_the_midst_of_text_is_told)
{
    struct cp_writer w = cp_writer_fd(open("/dev/full", O_WRONLY | O_CLOEXEC));

    CHECK_EQ(cp__write_text(&w, print_and_flush, NULL), -ENOSPC);
    close(w.fd);
}

SIM_TEST(a_full_disk_and_a_pipe_without_reader_are_told)
{
    struct cp_error err;
    int pipe_fds[2];
    int full = open("/dev/full", O_WRONLY);
    FILE *stream = fopen("/dev/full", "w");

    attach();
    CHECK_EQ(cp_start_cpu_profile(cp_writer_fd(full), &err), 0);
    CHECK_EQ(cp_stop_cpu_profile(&err), -ENOSPC);
    CHECK_STR(err.message, "The profile could not be written to its descriptor: No space left on device. "
                           "It can be written again.");
    cp_session_close(cp_default_session());
    CHECK_EQ(cp_start_cpu_profile(cp_writer_path("/dev/full"), &err), 0);
    CHECK_EQ(cp_stop_cpu_profile(&err), -ENOSPC);
    CHECK_EQ(cp_stop_cpu_profile(&err), -ENOSPC);
    cp_session_close(cp_default_session());
    CHECK_EQ(cp_start_cpu_profile(cp_writer_file(stream), &err), 0);
    CHECK_EQ(cp_stop_cpu_profile(&err), -ENOSPC);
    cp_session_close(cp_default_session());

    CHECK_EQ(pipe(pipe_fds), 0);
    close(pipe_fds[0]);
    CHECK_EQ(cp_start_cpu_profile(cp_writer_fd(pipe_fds[1]), &err), 0);
    CHECK_EQ(cp_stop_cpu_profile(&err), -EPIPE); /* SIGPIPE did not end the process */
    CHECK_CONTAINS(err.message, "Broken pipe");
    cp_session_close(cp_default_session());

    CHECK_EQ(cp_start_cpu_profile(cp_writer_fd(-1), &err), -EBADF);
    CHECK_EQ(cp_start_cpu_profile(cp_writer_fd(open("/dev/null", O_RDONLY)), &err), -EBADF);
}

SIM_TEST(one_writer_of_two_fails)
{
    struct failing failing = {.takes = 10, .error = -ENOSPC};
    struct cp_profiling_option options[2];
    struct cp_memory memory = {0};
    struct cp_session *session;
    struct cp_error err;

    attach();
    options[0] = cp_option_event(cp_writer_callback(fail_later, &failing), "taskClock", 200000);
    options[1] = cp_option_event(cp_writer_memory(&memory), "cpuClock", 200000);
    CHECK_EQ(cp_session_start(&session, options, 2, &err), 0);
    burn_here(20000000);
    CHECK_EQ(cp_session_write(session, 0, cp_writer_memory(&memory), &err), -EBUSY);
    CHECK_EQ(cp_session_stop(session, &err), -ENOSPC);
    save(&memory, file_in_dir("second.pb.gz"));
    check_burnt(file_in_dir("second.pb.gz"), 100);
    failing.takes = SIZE_MAX;
    CHECK_EQ(cp_session_stop(session, &err), 0);
    cp_session_close(session);
    free(memory.data);
}
