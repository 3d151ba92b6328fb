/*
 * Between these two calls, a fork's child resets what the threads of its parent have used.
 *
 * ThreadSanitizer does not know that everything those threads did before the fork is ordered before the
 * child, and that the child does not have those threads. So it would call each reset a race with whatever
 * they did last. The threads cannot tell it the order, because they do not take part in the fork. So it does
 * not look at what the child's handlers read and write: no other thread exists there that a race could be
 * with. Without ThreadSanitizer, both calls are empty.
 */
#ifndef COUNTERPOINT_RUNTIME_BASE_FORK_CHILD_H
#define COUNTERPOINT_RUNTIME_BASE_FORK_CHILD_H

#if defined(__has_feature)
#define CP__HAS_FEATURE_OF_CLANG(x) __has_feature(x)
#else
#define CP__HAS_FEATURE_OF_CLANG(x) 0
#endif

#if defined(__SANITIZE_THREAD__) || CP__HAS_FEATURE_OF_CLANG(thread_sanitizer)

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
