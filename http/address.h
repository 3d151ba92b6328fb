/* The addresses on which servers listen. */
#ifndef COUNTERPOINT_HTTP_ADDRESS_H
#define COUNTERPOINT_HTTP_ADDRESS_H

#include "exchange.h"
#include "socket.h"

/* Listens on an address in the form that cp_http_start() takes. Returns the descriptor, which is registered
 * as *noted; or a negative errno value with the reason in *err. */
int cp__http_listen(const char *address, struct cp__http_socket **noted, struct cp_error *err);
/* Returns whether only this machine can connect to the socket. */
bool cp__http_is_loopback(int fd);
/* Writes the socket's address as text, with the port that the kernel chose if port 0 was given. */
void cp__http_address_of(int fd, char *text, size_t size);

#endif
