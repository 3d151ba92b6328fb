/*
 * System calls that the C library offers only as cancellation points. If another thread had cancelled this
 * one, the thread would end at such a call, in the middle of the signal handler, with every lock that the
 * interrupted code holds. So the handler makes these calls through syscall(2), which POSIX does not know and
 * which is no cancellation point.
 *
 * Each function returns what the system call returned, 0 or more, or a negative errno value.
 */
#ifndef COUNTERPOINT_RUNTIME_BASE_SYS_LINUX_H
#define COUNTERPOINT_RUNTIME_BASE_SYS_LINUX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Opens a file for reading; exec closes the descriptor. */
int cp__sys_open_from_handler(const char *path);
int cp__sys_close_from_handler(int fd);
long cp__sys_read_from_handler(int fd, void *data, size_t size);
long cp__sys_readlink_from_handler(const char *path, char *to, size_t size);
/* Maps memory of the process's own, whose bytes are 0; NULL: there is none. Not for signal handlers. */
void *cp__sys_map(size_t size);
/* ThreadSanitizer replaces munmap(), and calls handlers in it. */
int cp__sys_munmap_from_handler(void *memory, size_t size);
int cp__sys_ioctl_from_handler(int fd, unsigned long request, unsigned long argument);
int cp__sys_fcntl_from_handler(int fd, int command, unsigned long argument);
/* Opens an event on a thread of this process (0: the calling thread), on any CPU; exec closes the
 * descriptor. */
struct perf_event_attr;
int cp__sys_perf_event_open_from_handler(const struct perf_event_attr *attr, pid_t tid);

/*
 * In a program that does not know of the library, descriptors that the library opens should neither have low
 * numbers, which such a program may count on, nor be closed with all others. cp__sys_lift_descriptors() has
 * events opened from then on lifted above CP__SYS_LIFTED_MIN, or a lower number if the process may not have
 * so many.
 */
#define CP__SYS_LIFTED_MIN 512
#define CP__SYS_LIFTED_MAX 65535u /* higher ones are not known to be lifted */
void cp__sys_lift_descriptors(void);
/* Lifts a descriptor: returns the new one, and closes the old one; or returns the old one if that fails. */
int cp__sys_lift_from_handler(int fd);
/* Returns whether the descriptor is an event that was lifted, and has not been closed. */
bool cp__sys_is_lifted(int fd);

#define CP__SYS_PAGE ((uintptr_t)4096) /* the size of a page, or a part of one */
/* Returns whether the kernel can read the memory [address, address + size) now. The memory may have been
 * unmapped or protected, its file truncated, and the size be one that no memory has. */
bool cp__sys_can_read_from_handler(uintptr_t address, size_t size);
#define CP__SYS_MOST_MAPPED ((uintptr_t)1 << 20)
/* Returns whether something is mapped at each page of [address, address + size), of at most
 * CP__SYS_MOST_MAPPED bytes, and false if the process may not call mincore(). The address is that of a page.
 * The memory is not touched, so that no stack grows, and it need not be readable. */
bool cp__sys_is_mapped_from_handler(uintptr_t address, size_t size);
/* Copies memory of this process that another thread may unmap at any time. Returns false, and leaves any
 * bytes in *to, if not all of it can be read, or if the process may not call process_vm_readv(). */
bool cp__sys_copy_from_handler(void *to, uintptr_t from, size_t size);

#endif
