/*
 * What a test tells the runner: packets over a socket from the test's process, or calls where the test runs
 * in the runner's own.
 */
#ifndef COUNTERPOINT_TESTING_EVENT_H
#define COUNTERPOINT_TESTING_EVENT_H

#include <stdbool.h>
#include <stddef.h>

enum cp__outcome { CP__PASSED, CP__FAILED, CP__SKIPPED };

enum cp__event_kind {
    CP__EVENT_RUN,     /* the test begins */
    CP__EVENT_LOG,     /* text: lines that it logged, each with its newline */
    CP__EVENT_PRINTED, /* text: what was printed to stdout and stderr, as it came; made by the runner */
    CP__EVENT_RESULT,  /* text: a benchmark's line behind its name, without a newline; number: its ns/op,
                        * 0: it is to have none */
    CP__EVENT_END,     /* outcome; number: the seconds it took */
    CP__EVENT_STOPPED, /* the process is about to end, by a signal or exit(). It waits until it is answered,
                        * so that its stacks can be looked at; number: the thread that it is about; text: the
                        * reason, where there is more to say than the signal's number; or "" */
    CP__EVENT_GS,      /* text: the stacks of all Gs, as they were asked for; "" where that is all */
};

struct cp__event {
    enum cp__event_kind kind;
    enum cp__outcome outcome;
    double number;
    size_t printed;   /* bytes that were printed before it: see output.h */
    const char *name; /* the test's whole name; "" where it is about the process */
    const char *text;
};

/* One packet's most text; longer ones are sent in several, which only LOG and GS need. */
#define CP__EVENT_TEXT_MAX 16384
struct cp__event_packet {
    struct cp__event_head {
        enum cp__event_kind kind;
        enum cp__outcome outcome;
        double number;
        size_t printed;
        size_t name_size; /* of both with the terminating zero */
        size_t text_size;
    } head;
    char body[512 + CP__EVENT_TEXT_MAX];
};

/* Sends an event. From any thread; where text is short enough for a packet, in a signal handler too. */
void cp__event_send_from_handler(int socket, const struct cp__event *event);
/* Receives one, which lives in *packet; false where none is there. */
bool cp__event_receive(int socket, struct cp__event *event, struct cp__event_packet *packet);

#endif
