/* The subcommands of counterpoint. */
#ifndef COUNTERPOINT_CMD_COMMANDS_H
#define COUNTERPOINT_CMD_COMMANDS_H

/* Exit statuses of all of them. */
enum status {
    STATUS_OK,
    STATUS_NO,      /* what was asked about is not so: the event does not work here */
    STATUS_USAGE,   /* a command line that makes no sense, or names what does not exist */
    STATUS_FAILURE, /* no memory, or the output could not be written */
};

/* argv[0] is the subcommand's name. */
enum status command_events(int argc, char **argv);

/* "counterpoint: " and a sentence on stderr; returns status. */
enum status complain(enum status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
