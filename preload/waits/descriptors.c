/* The program's calls that wait until a descriptor is ready, and those that may wait because it is not.
 * */
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "telling.h"

/* What the C library's headers call instead if a program is built with -D_FORTIFY_SOURCE. */
int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t size);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *limit, const sigset_t *mask,
                size_t size);
ssize_t __read_chk(int fd, void *buffer, size_t size, size_t room);
ssize_t __recv_chk(int fd, void *buffer, size_t size, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *buffer, size_t size, size_t room, int flags, __SOCKADDR_ARG from,
                       socklen_t *length);

/* ---- Until one of several is ready ----------------------------------------------------------- */

/* Without descriptors, such a call sleeps. */
static enum cp_wait_reason reason_to_wait(unsigned long n)
{
    return n == 0 ? CP_WAIT_SLEEP : CP_WAIT_DESCRIPTOR;
}

/* The C library reads the limit of such calls, too. What only the kernel reads is left alone, because a
 * bad address is an error to the kernel. */
static bool is_positive(const struct timespec *limit)
{
    return limit == NULL || limit->tv_sec != 0 || limit->tv_nsec != 0;
}

#define POLL(name, parameters, arguments, may_wait)                                                          \
    CALL(int, name, parameters, arguments, may_wait, reason_to_wait(n), NULL, CP__CALL_NS)

POLL(poll, (struct pollfd * fds, nfds_t n, int timeout), (fds, n, timeout), timeout != 0)
POLL(__poll_chk, (struct pollfd * fds, nfds_t n, int timeout, size_t size), (fds, n, timeout, size),
     timeout != 0)
POLL(ppoll, (struct pollfd * fds, nfds_t n, const struct timespec *limit, const sigset_t *mask),
     (fds, n, limit, mask), is_positive(limit))
POLL(__ppoll_chk,
     (struct pollfd * fds, nfds_t n, const struct timespec *limit, const sigset_t *mask, size_t size),
     (fds, n, limit, mask, size), is_positive(limit))

CALL(int, select, (int n, fd_set *reads, fd_set *writes, fd_set *others, struct timeval *limit),
     (n, reads, writes, others, limit), limit == NULL || limit->tv_sec != 0 || limit->tv_usec != 0,
     reason_to_wait((unsigned long)n), NULL, CP__CALL_NS)
CALL(int, pselect,
     (int n, fd_set *reads, fd_set *writes, fd_set *others, const struct timespec *limit,
      const sigset_t *mask),
     (n, reads, writes, others, limit, mask), is_positive(limit), reason_to_wait((unsigned long)n), NULL,
     CP__CALL_NS)

#define EPOLL(name, parameters, arguments, may_wait)                                                         \
    CALL(int, name, parameters, arguments, may_wait, CP_WAIT_DESCRIPTOR, cp__object_of(fd), CP__CALL_NS)

EPOLL(epoll_wait, (int fd, struct epoll_event *events, int most, int timeout), (fd, events, most, timeout),
      timeout != 0)
EPOLL(epoll_pwait, (int fd, struct epoll_event *events, int most, int timeout, const sigset_t *mask),
      (fd, events, most, timeout, mask), timeout != 0)
EPOLL(epoll_pwait2,
      (int fd, struct epoll_event *events, int most, const struct timespec *limit, const sigset_t *mask),
      (fd, events, most, limit, mask), true)

/* ---- Connections ----------------------------------------------------------------------------- */

CALL(int, accept, (int fd, __SOCKADDR_ARG address, socklen_t *length), (fd, address, length), true,
     CP_WAIT_DESCRIPTOR, cp__object_of(fd), CP__CALL_NS)
CALL(int, accept4, (int fd, __SOCKADDR_ARG address, socklen_t *length, int flags),
     (fd, address, length, flags), true, CP_WAIT_DESCRIPTOR, cp__object_of(fd), CP__CALL_NS)
CALL(int, connect, (int fd, __CONST_SOCKADDR_ARG address, socklen_t length), (fd, address, length), true,
     CP_WAIT_DESCRIPTOR, cp__object_of(fd), CP__CALL_NS)

/* ---- Reading and writing --------------------------------------------------------------------- */

#define IO(name, parameters, arguments, flags)                                                               \
    CALL(ssize_t, name, parameters, arguments, ((flags)&MSG_DONTWAIT) == 0, CP_WAIT_IO, cp__object_of(fd),   \
         CP__CALL_NS)

IO(read, (int fd, void *buffer, size_t size), (fd, buffer, size), 0)
IO(__read_chk, (int fd, void *buffer, size_t size, size_t room), (fd, buffer, size, room), 0)
IO(readv, (int fd, const struct iovec *parts, int n), (fd, parts, n), 0)
IO(write, (int fd, const void *data, size_t size), (fd, data, size), 0)
IO(writev, (int fd, const struct iovec *parts, int n), (fd, parts, n), 0)

IO(recv, (int fd, void *buffer, size_t size, int flags), (fd, buffer, size, flags), flags)
IO(__recv_chk, (int fd, void *buffer, size_t size, size_t room, int flags), (fd, buffer, size, room, flags),
   flags)
IO(recvfrom, (int fd, void *buffer, size_t size, int flags, __SOCKADDR_ARG from, socklen_t *length),
   (fd, buffer, size, flags, from, length), flags)
IO(__recvfrom_chk,
   (int fd, void *buffer, size_t size, size_t room, int flags, __SOCKADDR_ARG from, socklen_t *length),
   (fd, buffer, size, room, flags, from, length), flags)
IO(recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags), flags)
IO(send, (int fd, const void *data, size_t size, int flags), (fd, data, size, flags), flags)
IO(sendto, (int fd, const void *data, size_t size, int flags, __CONST_SOCKADDR_ARG to, socklen_t length),
   (fd, data, size, flags, to, length), flags)
IO(sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags), flags)

CALL(int, recvmmsg, (int fd, struct mmsghdr *messages, unsigned n, int flags, struct timespec *limit),
     (fd, messages, n, flags, limit), (flags & MSG_DONTWAIT) == 0, CP_WAIT_IO, cp__object_of(fd), CP__CALL_NS)
CALL(int, sendmmsg, (int fd, struct mmsghdr *messages, unsigned n, int flags), (fd, messages, n, flags),
     (flags & MSG_DONTWAIT) == 0, CP_WAIT_IO, cp__object_of(fd), CP__CALL_NS)
