/* The listening sockets of this process's servers. */
#ifndef COUNTERPOINT_HTTP_SOCKET_H
#define COUNTERPOINT_HTTP_SOCKET_H

/*
 * A listening socket that is noted here. A child of fork() closes it before fork() returns there, so that the
 * parent can end, and listen again, while the child lives. A fork() between socket(2) and the return of
 * cp__http_socket_new() is missed, and so is a child that was made without the C library's fork(). If the
 * descriptor's number belongs to anything but that socket by then, since libmicrohttpd has closed the socket,
 * neither the child nor cp__http_socket_close() touches it.
 */
struct cp__http_socket;

/* Notes a socket. NULL without memory. */
struct cp__http_socket *cp__http_socket_new(int fd);
/* Forgets the socket, which somebody else closes. Its descriptor, or -1 if this is a child and has closed it.
 */
int cp__http_socket_forget(struct cp__http_socket *socket);
/* Forgets the socket and closes it, unless it has been closed. */
void cp__http_socket_close(struct cp__http_socket *socket);

#endif
