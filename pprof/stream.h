/*
 * A profile's file: a gzip stream of one Profile message, which is written as many small ones. Protocol
 * buffers allow that, because concatenated messages merge. So only one part of the profile, such as a
 * sample, has to be in memory twice.
 */
#ifndef COUNTERPOINT_PPROF_STREAM_H
#define COUNTERPOINT_PPROF_STREAM_H

#include <zlib.h>

#include "pprof.h"
#include "profile.pb-c.h"

/* The way of packed messages to the writer: gathered in "raw", compressed to "packed", written. */
struct cp__stream {
    ProtobufCBuffer base;
    struct cp_writer *w;
    z_stream z;
    int error; /* the first error; nothing is written after it */
    size_t gathered;
    unsigned char raw[16384];
    unsigned char packed[16384];
};

/* Makes a stream to w, which is written by ops->write alone. Returns NULL if there is no memory. */
struct cp__stream *cp__stream_new(struct cp_writer *w);
/* Writes a message that has some fields of the profile. */
void cp__stream_put(struct cp__stream *s, const Cp__Proto__Profile *piece);
/* Writes what is left. Returns 0, or the first of all errors. */
int cp__stream_end(struct cp__stream *s);
/* NULL does nothing. */
void cp__stream_free(struct cp__stream *s);

#endif
