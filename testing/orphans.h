/* Processes that a test has started and that have left the test's process group, as daemons do. */
#ifndef COUNTERPOINT_TESTING_ORPHANS_H
#define COUNTERPOINT_TESTING_ORPHANS_H

/* Called before the tests: from now on, such a process becomes the runner's child when its parent ends. Does
 * nothing if the program already has children, because those could not be told from a test's daemons. */
void cp__orphans_adopt(void);
/* Called after each test, when the test's process has been reaped: kills all such processes. */
void cp__orphans_end(void);
/* Called after the tests: processes that the program itself starts from now on are left alone. */
void cp__orphans_release(void);

#endif
