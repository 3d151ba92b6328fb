#include "output.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEAST_WIDTH = 40, NO_SHELL_COMMAND = 127 };

struct terminal terminal_of_stdout(void)
{
    const char *kind = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    struct terminal terminal = {0};
    struct winsize size;

    if (!isatty(STDOUT_FILENO))
        return terminal;
    terminal.width = 80;
    terminal.height = 24;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
        terminal.width = size.ws_col < LEAST_WIDTH ? LEAST_WIDTH : size.ws_col;
        terminal.height = size.ws_row;
    }
    terminal.has_colours = (no_colour == NULL || no_colour[0] == '\0') && kind != NULL && kind[0] != '\0' &&
                           strcmp(kind, "dumb") != 0;
    return terminal;
}

static int count_lines(const char *text, size_t size)
{
    int n = 0;

    for (size_t i = 0; i < size; i++)
        n += text[i] == '\n';
    return n;
}

/* Returns false if there is no pager. A user who leaves the pager before the end has seen enough, and what
 * the pager did not take is no error. */
static bool page(const char *text, size_t size)
{
    const char *pager = getenv("PAGER");
    FILE *pipe;
    int status;

    setenv("LESS", "FRX", 0); /* $PAGER may be less, which without R shows colours as codes */
    pipe = popen(pager != NULL && pager[0] != '\0' ? pager : "less -FRX 2> /dev/null", "w");
    if (pipe == NULL)
        return false;
    signal(SIGPIPE, SIG_IGN);
    fwrite(text, 1, size, pipe);
    status = pclose(pipe);
    return !(WIFEXITED(status) && WEXITSTATUS(status) == NO_SHELL_COMMAND);
}

void output_text(const struct terminal *terminal, const char *text, size_t size)
{
    if (terminal->height > 0 && count_lines(text, size) >= terminal->height && page(text, size))
        return;
    fwrite(text, 1, size, stdout);
}

const char *colour_of(bool has_colours, double share)
{
    if (!has_colours)
        return "";
    return share >= 0.1 ? "\033[1;31m" : share >= 0.03 ? "\033[33m" : share < 0.005 ? "\033[2m" : "";
}

const char *colour_end(bool has_colours)
{
    return has_colours ? "\033[0m" : "";
}
