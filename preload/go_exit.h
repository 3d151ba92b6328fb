/* The end of programs that Go's runtime is in: see go_exit.c. */
#ifndef COUNTERPOINT_PRELOAD_GO_EXIT_H
#define COUNTERPOINT_PRELOAD_GO_EXIT_H

/* Before the program runs. Does nothing if it is none of Go's. */
void cp__go_exit_install(void);

#endif
