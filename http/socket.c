#include "socket.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "atomic.h"

/* Never freed, since a child of fork() may be looking at it. */
struct cp__http_socket {
    struct cp__http_socket *next; /* immutable */
    dev_t device;                 /* written before fd is */
    ino_t inode;                  /* too: no other socket has both while this one is open */
    int32_t fd;                   /* -1: none */
    uint32_t is_used;             /* becomes 1 under the lock, and 0 anywhere */
};
static struct cp__http_socket *sockets; /* written under the lock; grows at its head only */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Whether a descriptor of that number, if there is one, is the socket's. */
static bool is_open(const struct cp__http_socket *socket, int fd)
{
    struct stat now;

    return fd >= 0 && fstat(fd, &now) == 0 && now.st_dev == socket->device && now.st_ino == socket->inode;
}

/* Takes no lock, since the thread that had the lock may not be in the child, and calls close(2) past the C
 * library, in which it is a cancellation point. */
static void close_sockets(void)
{
    /* pairs with the release in add_socket() */
    for (struct cp__http_socket *socket = cp_load_acquire(&sockets); socket != NULL; socket = socket->next) {
        int fd = cp_load_acquire(&socket->fd); /* pairs with the release in cp__http_socket_new() */

        if (is_open(socket, fd))
            syscall(SYS_close, fd);
        cp_store_relaxed(&socket->fd, -1); /* relaxed: the child has this thread only */
    }
}

static void forget_sockets_in_child(void)
{
    close_sockets();
    pthread_mutex_init(&lock, NULL);
}

static void set_up_sockets(void)
{
    pthread_atfork(NULL, NULL, forget_sockets_in_child);
}

/* Under the lock. */
static struct cp__http_socket *find_unused(void)
{
    struct cp__http_socket *socket = sockets;

    /* acquire: pairs with the release in cp__http_socket_forget(), whose fd must not stand after ours */
    while (socket != NULL && cp_load_acquire(&socket->is_used) != 0)
        socket = socket->next;
    return socket;
}

/* Under the lock. */
static struct cp__http_socket *add_socket(void)
{
    struct cp__http_socket *socket = malloc(sizeof *socket);

    if (socket == NULL)
        return NULL;
    *socket = (struct cp__http_socket){.next = sockets, .fd = -1};
    cp_store_release(&sockets, socket); /* pairs with the acquire in close_sockets() */
    return socket;
}

struct cp__http_socket *cp__http_socket_new(int fd)
{
    struct cp__http_socket *socket;
    struct stat now = {.st_ino = 0};

    fstat(fd, &now);
    pthread_once(&once, set_up_sockets);
    pthread_mutex_lock(&lock);
    socket = find_unused();
    if (socket == NULL)
        socket = add_socket();
    if (socket != NULL) {
        cp_store_relaxed(&socket->is_used, 1); /* relaxed: the lock orders it for who looks for one */
        socket->device = now.st_dev;
        socket->inode = now.st_ino;
        cp_store_release(&socket->fd, fd); /* pairs with the acquire in close_sockets() */
    }
    pthread_mutex_unlock(&lock);
    return socket;
}

int cp__http_socket_forget(struct cp__http_socket *socket)
{
    int fd = cp_load_relaxed(&socket->fd); /* relaxed: only the server's owner is here */

    cp_store_relaxed(&socket->fd, -1);     /* relaxed: as above */
    cp_store_release(&socket->is_used, 0); /* pairs with the acquire in find_unused() */
    return fd;
}

void cp__http_socket_close(struct cp__http_socket *socket)
{
    const int fd = cp_load_relaxed(&socket->fd); /* relaxed: only the server's owner is here */

    if (is_open(socket, fd))
        close(fd);
    cp__http_socket_forget(socket);
}
