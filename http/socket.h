/* The listening sockets of the servers of this process. */
#ifndef COUNTERPOINT_HTTP_SOCKET_H
#define COUNTERPOINT_HTTP_SOCKET_H

/*
 * A listening socket that a child of fork() closes before fork() returns in the child, so that the parent
 * can end, and listen again, while the child lives. A fork() between socket(2) and the return of
 * cp__http_socket_new() is missed, and so is a child that was made without the C library's fork(). If
 * libmicrohttpd has closed the socket and its number belongs to another file by then, neither the child nor
 * cp__http_socket_close() touches that file.
 */
struct cp__http_socket;

/* Registers a socket. Returns NULL if there is no memory. */
struct cp__http_socket *cp__http_socket_new(int fd);
/* Unregisters a socket that somebody else closes. Returns its descriptor, or -1 if the calling process is a
 * child that has closed the socket. */
int cp__http_socket_forget(struct cp__http_socket *socket);
/* Unregisters the socket, and closes it unless it has been closed. */
void cp__http_socket_close(struct cp__http_socket *socket);

#endif
