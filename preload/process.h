/*
 * The profile of the process that the library is preloaded into. A process has one session from its start to
 * its end: process.c starts it, and scribe.c ends it on a thread of the library's own, because a process may
 * end at any place.
 *
 *     who            calls                                what for
 *     constructor    cp__process_begin()                  the program's start
 *     fork           cp__process_begin()                  the child has a session of its own
 *     exit           cp__scribe_finish_from_handler()     see ends.c
 *     exec           cp__scribe_finish_for_exec_from_handler(); cp__process_begin() if it fails: see exec.c
 *     a signal       cp__scribe_first_signal_from_handler(), and as exit does: see deadly.c
 */
#ifndef COUNTERPOINT_PRELOAD_PROCESS_H
#define COUNTERPOINT_PRELOAD_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Starts a session in this process, and attaches the calling thread. Prints why, if that fails. */
void cp__process_begin(void);
/* Returns whether this process has a session that has not been ended, and is not a child of vfork() or of a
 * raw system call, which runs in its parent's memory or has a copy of it. */
bool cp__process_is_profiled_from_handler(void);
/* Returns whether this process has had a session, and so has the library's handlers. */
bool cp__process_has_handlers_from_handler(void);
/* Makes the calling thread an M whose samples carry its name, until the thread ends. Signals are blocked
 * meanwhile: a signal may end the process, and whoever writes the profile then must not wait for a lock of
 * this thread. */
void cp__process_attach_thread(void);
/* Sets the label of the calling thread, if it is an M. */
void cp__process_name_thread(void);

/* ---- For scribe.c ---------------------------------------------------------------------------- */

/* Ends the session, and writes and closes its files. Only by the scribe. */
void cp__process_end(void);
/* Returns the seconds after which the profile ends; 0: never. */
double cp__process_seconds(void);

/* ---- The scribe: scribe.c -------------------------------------------------------------------- */

/* Starts the thread that ends the session of this process. Returns 0 or a negative errno value. */
int cp__scribe_start(void);
/* Returns whether a thread has asked the scribe to end the session. */
bool cp__scribe_is_asked_from_handler(void);
/* How long a process that ends waits for its profile. */
#define CP__SCRIBE_WAIT_MS 30000
/* Has the scribe end the session, and waits until it has, for wait_ms at most. Returns false if it has not.
 * Does nothing, and returns true, if this process has no session. */
bool cp__scribe_finish_from_handler(int wait_ms);
/* The same for a thread that is to execute a program, which may fail. */
bool cp__scribe_finish_for_exec_from_handler(int wait_ms);
/* Returns whether the session has ended only so that a program be executed, and a new one may begin because
 * that has failed. Returns true to one thread. */
bool cp__scribe_lets_begin(void);
/* Notes a signal that ends the process, and returns the one that was noted first. The scribe ends the process
 * by that one if nobody does so soon after the session's end. */
int cp__scribe_first_signal_from_handler(int number);

/* ---- Files: files.c -------------------------------------------------------------------------- */

struct cp__preload_settings;
struct cp_writer;
struct cp_error;

/* Opens the files for the profiles of this process, one for each event. */
int cp__files_open(const struct cp__preload_settings *settings, struct cp_error *err);
/* Returns the writer of the i-th file. */
struct cp_writer cp__files_writer(size_t i);
/* Closes the i-th file; removes it if it is not to be kept. */
void cp__files_close(size_t i, bool is_kept);
/* Closes all files in a child of a fork: they are the parent's. */
void cp__files_forget(void);
/* Returns whether a descriptor is one of the files'. */
bool cp__files_have(int fd);
/* Returns the i-th file's path. */
const char *cp__files_path(size_t i);

/* ---- What ends a process: deadly.c ----------------------------------------------------------- */

/* Installs the handler for the signals that would end the program without a word. */
void cp__deadly_install(void);
/* Of threads.c: in the thread that is there before the library, and in a child of a fork. */
void cp__threads_begin(void);
/* Returns whether all threads of the program's have ended, and the process would have ended with them. */
bool cp__threads_have_ended(void);
void cp__threads_forget(void);
/* Of exec.c: in a child of a fork. */
void cp__exec_forget(void);

#endif
