/*
 * Between these two calls, a fork's child resets what the threads of its parent have used.
 *
 * ThreadSanitizer does not know that all that those threads did before the fork comes before all that the
 * child does, and that the child does not have those threads. So ThreadSanitizer would call each reset a race
 * with whatever they did last. The threads cannot announce the order, because they do not take part in the
 * fork. So ThreadSanitizer is told to ignore what the child reads and writes between the calls: the child has
 * no other thread that a race could be with. In other builds, both calls are empty.
 */
#ifndef COUNTERPOINT_RUNTIME_BASE_FORK_CHILD_H
#define COUNTERPOINT_RUNTIME_BASE_FORK_CHILD_H

#include "sanitizer.h"

#if CP__TSAN

/* ThreadSanitizer's interface has no header that declares these. */
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);

static inline void cp__fork_child_resets(void)
{
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}

static inline void cp__fork_child_has_reset(void)
{
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}

#else

static inline void cp__fork_child_resets(void)
{
}
static inline void cp__fork_child_has_reset(void)
{
}

#endif

#endif
