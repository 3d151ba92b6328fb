/*
 * The processes in which blocks run, which the calling thread traces.
 *
 * A host has nothing mapped but what layout.h lists, and the pages that blocks have touched. It never runs a
 * block: it makes mappings, and guests. A guest is a copy of the host for one run. It may make no system call
 * (seccomp), has no descriptor, gets little CPU time, and ends with the monitor.
 */
#ifndef COUNTERPOINT_BLOCK_PROCESS_H
#define COUNTERPOINT_BLOCK_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "apart.h"
#include "error.h"
#include "traced.h"

/* How many pages of a block can be mapped. */
#define CP__BLOCK_PAGES 256

struct cp__host {
    pid_t pid;  /* 0: there is none */
    int memory; /* its memory as a file */
    unsigned pages;
    uint64_t page[CP__BLOCK_PAGES]; /* those that are mapped */
    unsigned physical;              /* how many physical pages they share */
    const struct cp__apart *apart;  /* which ones; NULL: the first */
};

/* Makes a host. Returns 0 or a negative errno value, with a sentence. */
int cp__host_open(struct cp__host *host, struct cp_error *err);
void cp__host_close(struct cp__host *host);

/* Writes to the host's memory, whatever its protection is, and reads a guest's. False: it is no more. */
bool cp__host_write(const struct cp__host *host, uint64_t to, const void *bytes, size_t size);
bool cp__guest_read(pid_t guest, uint64_t from, void *bytes, size_t size);

/* Whether there can be a page of a block at that address. */
bool cp__host_may_map(uint64_t address);
/* Maps the page of an address to a physical one. Returns 0; -ENOSPC: there are CP__BLOCK_PAGES already; or
 * the system's errno value. */
int cp__host_map(struct cp__host *host, uint64_t address);
/* Unmaps all pages of blocks. From then on, pages are mapped to the physical ones that *apart says, which
 * must outlive that. */
int cp__host_clear(struct cp__host *host, const struct cp__apart *apart);

/* Starts a guest of the host, stopped. Returns its id or a negative errno value. */
pid_t cp__guest_start(const struct cp__host *host);
/* Unmaps what is the library's, but the code: a block that touches it is seen to do so. */
int cp__guest_bare(pid_t guest);
/* From then on, a system call ends the guest, and SIGPROF stops it when it has had its CPU time. */
int cp__guest_confine(pid_t guest);
/* Ends the guest, however it stands, and tells what it has used. */
void cp__guest_end(pid_t guest, struct rusage *usage);

#endif
