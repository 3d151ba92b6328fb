/* Watchpoints: accesses to an address, noticed by the processor's debug registers. */
#include <errno.h>
#include <inttypes.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"
#include "runtime/base/fail.h"
#include "watchpoint.h"

static int refuse_form(const char *text, struct cp_error *err)
{
    return cp__error(
        err, -EINVAL,
        "The watchpoint \"%.60s\" cannot be read. Write mem:ADDRESS[/LEN][:ACCESS][:SUFFIX], with a "
        "decimal or 0x address, 1, 2, 4 or 8 bytes, and r, w, rw or x: mem:0x601040/8:w.",
        text);
}

/* Reads a decimal or 0x number, and moves *text past it. */
static bool take_hex_or_decimal(const char **text, uint64_t *value)
{
    bool is_hex = (*text)[0] == '0' && ((*text)[1] == 'x' || (*text)[1] == 'X');
    const char *digits = *text + (is_hex ? 2 : 0);
    size_t n = strspn(digits, is_hex ? "0123456789abcdefABCDEF" : "0123456789");

    errno = 0;
    *value = strtoull(digits, NULL, is_hex ? 16 : 10);
    *text = digits + n;
    return n > 0 && errno == 0;
}

/* Reads "r", "w", "x" and combinations, each letter at most once. */
static bool take_access(const char **text, uint32_t *access)
{
    static const char letters[] = "rwx";
    static const uint32_t types[] = {HW_BREAKPOINT_R, HW_BREAKPOINT_W, HW_BREAKPOINT_X};
    const char *letter;

    for (*access = 0; **text != '\0' && (letter = strchr(letters, **text)) != NULL; (*text)++) {
        if ((*access & types[letter - letters]) != 0)
            return false;
        *access |= types[letter - letters];
    }
    return true;
}

/* Refuses what the kernel would refuse, but explains why. */
static int check_watchpoint(const struct cp_event_encoding *watch, struct cp_error *err)
{
    uint64_t length = watch->config2;

    if ((watch->bp_type & HW_BREAKPOINT_X) != 0 && watch->bp_type != HW_BREAKPOINT_X)
        return cp__error(
            err, -EINVAL,
            "A watchpoint is for data or for code: x cannot stand beside r or w. Use two events.");
    if (watch->bp_type == HW_BREAKPOINT_R && !CP__WATCHPOINTS_READ_ALONE)
        return cp__error(err, -EINVAL,
                         "This processor cannot watch reads alone: its debug registers can watch writes (w), "
                         "reads and writes (rw) and execution (x). Use rw.");
    if (watch->bp_type == HW_BREAKPOINT_X && length != sizeof(long))
        return cp__error(err, -EINVAL,
                         "An instruction's address is watched without a length, or with %zu; %" PRIu64
                         " is neither.",
                         sizeof(long), length);
    if (length != 1 && length != 2 && length != 4 && length != 8)
        return cp__error(err, -EINVAL, "A watchpoint is 1, 2, 4 or 8 bytes long, not %" PRIu64 ".", length);
    if (watch->bp_type != HW_BREAKPOINT_X && watch->config1 % length != 0)
        return cp__error(
            err, -EINVAL,
            "The address 0x%" PRIx64 " is not a multiple of %" PRIu64
            ", the number of bytes to watch. Watch fewer bytes: /1 is possible at every address.",
            watch->config1, length);
    return 0;
}

static void name_watch(const struct cp_event_encoding *watch, char *name)
{
    cp__event_print(name, "mem:0x%" PRIx64 "/%" PRIu64 ":%s%s%s", watch->config1, watch->config2,
                    (watch->bp_type & HW_BREAKPOINT_R) != 0 ? "r" : "",
                    (watch->bp_type & HW_BREAKPOINT_W) != 0 ? "w" : "",
                    (watch->bp_type & HW_BREAKPOINT_X) != 0 ? "x" : "");
}

/* Missing parts have perf's defaults: reads and writes of 4 bytes, and the size of a long for code. */
int cp__event_parse_watch(const char *text, struct cp_event_spec *spec, struct cp_error *err)
{
    struct cp_event_encoding watch = {.type = PERF_TYPE_BREAKPOINT};
    char base[sizeof spec->name];
    const char *rest = text + strlen("mem:");
    int result;

    if (!take_hex_or_decimal(&rest, &watch.config1))
        return refuse_form(text, err);
    if (*rest == '/' && (rest++, !take_hex_or_decimal(&rest, &watch.config2) || watch.config2 == 0))
        return refuse_form(text, err);
    if (*rest == ':' && strchr("rwx", rest[1]) != NULL && rest[1] != '\0' &&
        (rest++, !take_access(&rest, &watch.bp_type)))
        return refuse_form(text, err);
    if (*rest != '\0' && *rest != ':')
        return refuse_form(text, err);
    if (watch.bp_type == 0)
        watch.bp_type = HW_BREAKPOINT_RW;
    if (watch.config2 == 0)
        watch.config2 = watch.bp_type == HW_BREAKPOINT_X ? sizeof(long) : 4;
    result = check_watchpoint(&watch, err);
    if (result < 0)
        return result;
    cp__event_take_named(spec, &watch);
    name_watch(&watch, base);
    return cp__event_take_suffix(spec, base, ":", *rest == ':' ? rest + 1 : NULL, err);
}
