/*
 * Events that a test sends to the runner: as packets over a socket from the test's process, or as calls if
 * the test runs in the runner's own process.
 */
#ifndef COUNTERPOINT_TESTING_EVENT_H
#define COUNTERPOINT_TESTING_EVENT_H

#include <stdbool.h>
#include <stddef.h>

enum cp__outcome { CP__PASSED, CP__FAILED, CP__SKIPPED };

enum cp__event_kind {
    CP__EVENT_RUN,     /* the test begins */
    CP__EVENT_LOG,     /* text: lines that the test logged, each with its newline */
    CP__EVENT_PRINTED, /* text: output to stdout and stderr, unchanged; the runner makes this event itself */
    CP__EVENT_RESULT,  /* text: a benchmark's line after the name, without a newline; number: the ns/op, or 0
                        * if the line has no ns/op */
    CP__EVENT_END,     /* outcome; number: the test's duration in seconds */
    CP__EVENT_STOPPED, /* the process is about to end, by a signal or exit(), and waits for an answer, so that
                        * the runner can read the stacks; number: the thread that ends the process; text: the
                        * reason if the signal's number does not say everything, or "" */
    CP__EVENT_GS,      /* text: a part of the stacks of all Gs, which the runner has asked for; "": the end */
};

struct cp__event {
    enum cp__event_kind kind;
    enum cp__outcome outcome;
    double number;
    size_t printed;   /* bytes that were printed before the event: see output.h */
    const char *name; /* the test's full name; "" if the event is about the process */
    const char *text;
};

/* The longest text of a packet. Longer texts are split into several packets; only LOG and GS events have
 * such texts. */
#define CP__EVENT_TEXT_MAX 16384
struct cp__event_packet {
    struct cp__event_head {
        enum cp__event_kind kind;
        enum cp__outcome outcome;
        double number;
        size_t printed;
        size_t name_size; /* name_size and text_size include the terminating zero */
        size_t text_size;
    } head;
    char body[512 + CP__EVENT_TEXT_MAX];
};

/* Sends an event, from any thread. Signal-safe if the text fits into one packet. */
void cp__event_send_from_handler(int socket, const struct cp__event *event);
/* Receives an event, whose strings live in *packet. Returns false if no event has arrived. */
bool cp__event_receive(int socket, struct cp__event *event, struct cp__event_packet *packet);

#endif
