/* Ends processes with all that they have started, and notices what cannot be ended. */
#ifndef COUNTERPOINT_TESTING_END_H
#define COUNTERPOINT_TESTING_END_H

#include "processes.h"

/* Which processes end together, and how. */
struct cp__ending {
    pid_t child;  /* a child of the caller, and the leader of a process group */
    double ask_s; /* seconds that the processes have for their end by SIGTERM; 0: SIGKILL comes at once */
    double patience_s; /* seconds for their end by SIGKILL; taking events may need half as long */
    bool is_reaped;    /* set once the child has ended; its exit status is in "status" */
    bool is_late;      /* set if taking events took too long; then nobody tries again */
    int status;
};

/* Called before the caller starts anything: from now on, a process that has left its group, as daemons do,
 * becomes the caller's child when its parent ends. Does nothing if the caller already has children, because
 * those could not be told from such daemons. */
void cp__end_adopt(void);
/* Takes that back: processes that the caller starts from now on are left alone. */
void cp__end_release(void);

/* Reads the processes, and chooses those that are to end: the child, its group, all descendants of both; or
 * all descendants of the caller if the caller adopts. Reaps what has ended. Returns their number; if that is
 * not 0, the caller frees "at". */
size_t cp__end_look(struct cp__ending *ending, struct cp__processes *all);
/* Takes the events of these processes: see cp__disarm(), also for what is returned. */
char *cp__end_disarm(struct cp__ending *ending);
/* Takes the events of these processes, ends the processes by SIGTERM (if ask_s is not 0) and SIGKILL, and
 * waits until they are gone, but not for ever. Returns NULL, or text with a line for each thread that is
 * still there, and for each process whose events could not be taken. The caller frees the text. */
char *cp__end(struct cp__ending *ending);
/* Returns text with a line for each thread of the chosen processes. The caller frees the text. */
char *cp__end_text(const struct cp__processes *all);

#endif
