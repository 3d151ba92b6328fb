/*
 * A profile's file: a gzip stream of one Profile message, written as many small ones. A message's repeated
 * fields may come in pieces (protocol buffers: concatenated messages merge), so that no more than one sample
 * has to be in memory twice.
 */
#ifndef COUNTERPOINT_PPROF_STREAM_H
#define COUNTERPOINT_PPROF_STREAM_H

#include <zlib.h>

#include "pprof.h"
#include "profile.pb-c.h"

/* Where packed messages go: gathered, compressed, written. */
struct cp__stream {
    ProtobufCBuffer base;
    struct cp_writer *w;
    z_stream z;
    int error; /* the first; nothing more is written after it */
    size_t gathered;
    unsigned char raw[16384];
    unsigned char packed[16384];
};

/* A stream to w (ops->write only); NULL where there is no memory. */
struct cp__stream *cp__stream_new(struct cp_writer *w);
void cp__stream_put(struct cp__stream *s, const Cp__Proto__Profile *piece);
/* Writes what is left; 0, or the first error of all. */
int cp__stream_end(struct cp__stream *s);
/* NULL does nothing. */
void cp__stream_free(struct cp__stream *s);

#endif
