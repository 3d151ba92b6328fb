#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/counterpoint/commands.h"

enum { NO_PROGRAM = 127, LONGEST_LINE = 300 };

/* In the child: only calls that are safe after fork(). */
static void become(const char *const *arguments, int out, int err)
{
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
        dup2(err, STDERR_FILENO) < 0)
        _exit(NO_PROGRAM);
    execvp(arguments[0], (char *const *)(uintptr_t)arguments);
    _exit(NO_PROGRAM);
}

/* Returns all that was written to a file in memory. */
static char *text_of(int fd, size_t *size)
{
    struct stat state;
    char *text;

    *size = 0;
    if (fstat(fd, &state) < 0 || (text = malloc((size_t)state.st_size + 1)) == NULL)
        exit(complain(STATUS_FAILURE, "There is not enough memory for what another program has printed."));
    while (*size < (size_t)state.st_size) {
        ssize_t n = pread(fd, text + *size, (size_t)state.st_size - *size, (off_t)*size);

        if (n <= 0)
            break;
        *size += (size_t)n;
    }
    text[*size] = '\0';
    return text;
}

static int wait_for_program(pid_t child)
{
    int status;

    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR)
            return PROGRAM_IS_ABSENT;
    }
    if (WIFSIGNALED(status))
        return 128 + WTERMSIG(status);
    return WEXITSTATUS(status) == NO_PROGRAM ? PROGRAM_IS_ABSENT : WEXITSTATUS(status);
}

int program_run(const char *const *arguments, struct printed *printed)
{
    int out = memfd_create("out", MFD_CLOEXEC), err = memfd_create("err", MFD_CLOEXEC);
    int status = PROGRAM_IS_ABSENT;
    pid_t child = out < 0 || err < 0 ? -1 : fork();

    if (child == 0)
        become(arguments, out, err);
    if (child < 0)
        exit(complain(STATUS_FAILURE, "%s cannot be run: %s.", arguments[0], strerror(errno)));
    status = wait_for_program(child);
    printed->out = text_of(out, &printed->out_size);
    printed->err = text_of(err, &printed->err_size);
    close(out);
    close(err);
    return status;
}

void program_free(struct printed *printed)
{
    free(printed->out);
    free(printed->err);
}

char *last_line(char *text)
{
    size_t end = strlen(text), start;

    while (end > 0 && (unsigned char)text[end - 1] <= ' ')
        end--;
    for (start = end; start > 0 && text[start - 1] != '\n'; start--)
        continue;
    text[end] = '\0';
    if (end - start > LONGEST_LINE)
        text[start + LONGEST_LINE] = '\0';
    for (char *at = text + start; *at != '\0'; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = '?';
    }
    return text + start;
}
