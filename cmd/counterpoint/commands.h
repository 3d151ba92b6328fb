/* The subcommands of counterpoint. */
#ifndef COUNTERPOINT_CMD_COMMANDS_H
#define COUNTERPOINT_CMD_COMMANDS_H

/* The exit statuses of all subcommands. */
enum status {
    STATUS_OK,
    STATUS_NO,      /* the answer is no: the event does not work here, or the profile has no samples */
    STATUS_USAGE,   /* the command line makes no sense, or names something that does not exist */
    STATUS_FAILURE, /* no memory, the input could not be read, or the output could not be written */
};

/* Runs the subcommand; argv[0] is its name. */
enum status command_events(int argc, char **argv);
enum status command_run(int argc, char **argv);
enum status command_report(int argc, char **argv);
enum status command_watch(int argc, char **argv);
enum status command_block(int argc, char **argv);
enum status command_annotate(int argc, char **argv);

/* Prints "counterpoint: " and a sentence to stderr; returns status. */
enum status complain(enum status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
