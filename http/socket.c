/* Listening sockets that children of fork() close; see socket.h. */
#include "socket.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "atomic.h"
#include "runtime/base/fork_child.h"

/* A registered socket, or an unused entry. Entries are never freed, because a child of fork() may be reading
 * them. */
struct cp__http_socket {
    struct cp__http_socket *next; /* immutable */
    dev_t device;                 /* written before fd */
    ino_t inode;      /* as device; no other socket has the same two numbers while this one is open */
    int32_t fd;       /* -1: no socket */
    uint32_t is_used; /* set to 1 with the lock held, and to 0 without it */
};
static struct cp__http_socket *sockets; /* written with the lock held; grows only at its head */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Returns whether the descriptor is still the socket, and not another file with the same number. */
static bool is_open(const struct cp__http_socket *socket, int fd)
{
    struct stat now;

    return fd >= 0 && fstat(fd, &now) == 0 && now.st_dev == socket->device && now.st_ino == socket->inode;
}

/* Closes all registered sockets in a child of fork(). Takes no lock, because a thread that only the parent
 * has may have held it. Calls close(2) directly, because the C library's close() is a cancellation point. */
static void close_sockets(void)
{
    /* pairs with the release in add_socket() */
    for (struct cp__http_socket *socket = cp_load_acquire(&sockets); socket != NULL; socket = socket->next) {
        int fd = cp_load_acquire(&socket->fd); /* pairs with the release in cp__http_socket_new() */

        if (is_open(socket, fd))
            syscall(SYS_close, fd);
        cp_store_relaxed(&socket->fd, -1); /* relaxed: the child has only this thread */
    }
}

static void forget_sockets_in_child(void)
{
    cp__fork_child_resets();
    close_sockets();
    pthread_mutex_init(&lock, NULL);
    cp__fork_child_has_reset();
}

static void set_up_sockets(void)
{
    pthread_atfork(NULL, NULL, forget_sockets_in_child);
}

/* Returns an entry that is not used, or NULL. Called with the lock held. */
static struct cp__http_socket *find_unused(void)
{
    struct cp__http_socket *socket = sockets;

    /* acquire: pairs with the release in cp__http_socket_forget(), so that its store of fd precedes ours */
    while (socket != NULL && cp_load_acquire(&socket->is_used) != 0)
        socket = socket->next;
    return socket;
}

/* Adds an entry to the list. Called with the lock held. */
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
        cp_store_relaxed(&socket->is_used, 1); /* relaxed: others read the flag with the lock held */
        socket->device = now.st_dev;
        socket->inode = now.st_ino;
        cp_store_release(&socket->fd, fd); /* pairs with the acquire in close_sockets() */
    }
    pthread_mutex_unlock(&lock);
    return socket;
}

int cp__http_socket_forget(struct cp__http_socket *socket)
{
    int fd = cp_load_relaxed(&socket->fd); /* relaxed: only the owner of the server calls this */

    cp_store_relaxed(&socket->fd, -1);     /* relaxed: the release below orders the store */
    cp_store_release(&socket->is_used, 0); /* pairs with the acquire in find_unused() */
    return fd;
}

void cp__http_socket_close(struct cp__http_socket *socket)
{
    const int fd = cp_load_relaxed(&socket->fd); /* relaxed: only the owner of the server calls this */

    if (is_open(socket, fd))
        close(fd);
    cp__http_socket_forget(socket);
}
