/* The listening sockets that a child of fork() closes. */
#include "http/socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

/* libmicrohttpd closes the socket a moment before the socket is forgotten. */
CP_TEST(a_number_that_is_another_descriptors_by_now_is_left_alone)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), status;
    struct cp__http_socket *noted = cp__http_socket_new(fd);
    pid_t pid;

    CHECK(noted != NULL);
    CHECK_EQ(dup2(0, fd), fd);
    pid = fork();
    if (pid == 0)
        _exit(fcntl(fd, F_GETFD) < 0);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    cp__http_socket_close(noted);
    CHECK(fcntl(fd, F_GETFD) >= 0);
    close(fd);
}
