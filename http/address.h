/* Where a server listens. */
#ifndef COUNTERPOINT_HTTP_ADDRESS_H
#define COUNTERPOINT_HTTP_ADDRESS_H

#include "exchange.h"
#include "socket.h"

/* Listens on an address as cp_http_start() takes it. Returns the descriptor, and notes it in *noted; or a
 * negative errno value, and the reason. */
int cp__http_listen(const char *address, struct cp__http_socket **noted, struct cp_error *err);
/* Whether only this machine can connect to a socket. */
bool cp__http_is_loopback(int fd);
/* Its address as text, with the port that it got. */
void cp__http_address_of(int fd, char *text, size_t size);

#endif
