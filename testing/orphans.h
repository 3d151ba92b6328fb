/* Processes that a test has started and that left its process group, as daemons do. */
#ifndef COUNTERPOINT_TESTING_ORPHANS_H
#define COUNTERPOINT_TESTING_ORPHANS_H

/* Before the tests: from here on such a process becomes the runner's child when its parent ends. Does nothing
 * if the program has children of its own, which cannot be told from them. */
void cp__orphans_adopt(void);
/* After a test, whose own process has been reaped: ends all of them. */
void cp__orphans_end(void);
/* After the tests: what the program starts itself from here on is left alone. */
void cp__orphans_release(void);

#endif
