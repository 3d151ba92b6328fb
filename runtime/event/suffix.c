/* What follows an event's name: the modes that count, and the precision. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "rows.h"
#include "runtime/base/fail.h"

bool cp__event_print(char *name, const char *format, ...)
{
    const size_t size = sizeof((struct cp_event_spec *)NULL)->name;
    va_list arguments;
    int n;

    va_start(arguments, format);
    n = vsnprintf(name, size, format, arguments);
    va_end(arguments);
    return n >= 0 && (size_t)n < size;
}

/* perf's modifiers that say which modes count, in the order in which names have them. */
static const struct {
    char letter;
    unsigned mode;
} modes[] = {{'u', CP_EVENT_USER}, {'k', CP_EVENT_KERNEL}, {'h', CP_EVENT_HV}};

/* perf's other modifiers, which this library does not support. */
static const struct {
    char letter;
    const char *meaning;
} others[] = {
    {'G', "counting in guests only"},
    {'H', "counting outside of guests only"},
    {'I', "leaving the idle task out, as is always done"},
    {'S', "reading a group of events at each sample"},
    {'D', "keeping the event on its counter"},
    {'P', "the highest precision there is: use :ppp"},
    {'W', "taking a group of events apart"},
    {'e', "having the PMU for this event alone"},
    {'b', "counting by BPF"},
};

#define SIZE(array) (sizeof(array) / sizeof(array)[0])

bool cp__event_is_suffix(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "ukhpGHISDPWeb")] == '\0';
}

/* Explains why the suffix is wrong from a letter on; '\0' is an empty suffix. */
static int refuse_letter(const char *at, const char *base, struct cp_error *err)
{
    const char letter = *at;

    if (letter == '\0')
        return cp__error(err, -EINVAL,
                         "The event \"%.60s:\" ends in a colon. Remove the colon, or write after the colon "
                         "which modes count, as in \"%.60s:u\".",
                         base, base);
    for (size_t i = 0; i < SIZE(others); i++) {
        if (letter == others[i].letter)
            return cp__error(
                err, -EINVAL,
                "perf's modifier \"%c\" of \"%s\" (%s) has no meaning here. Use u, k and h for the "
                "modes that count, and p, pp or ppp for precision.",
                letter, base, others[i].meaning);
    }
    if (letter >= '0' && letter <= '9')
        return cp__error(err, -EINVAL,
                         "The event \"%.60s\" cannot have \"%.40s\" after its colon. A period, if one can be "
                         "given here, is a whole number and comes last; a clock's period may have a unit: "
                         "taskClock:uk:1ms.",
                         base, at);
    return cp__error(
        err, -EINVAL,
        "The event \"%.60s\" cannot have a suffix with \"%c\" in it. Use u, k and h for the modes "
        "that count, and p, pp or ppp for precision, as in \"%.60s:u\".",
        base, letter, base);
}

/* Applies one letter. Returns false if the letter is unknown or was used before. */
static bool take_letter(char letter, struct cp_event_spec *spec)
{
    if (letter == 'p' && spec->precise_ip < CP_CPUPROF_IP_NO_SKID) {
        spec->precise_ip++;
        return true;
    }
    for (size_t i = 0; i < SIZE(modes); i++) {
        if (letter == modes[i].letter && (spec->modes & modes[i].mode) == 0) {
            spec->modes |= modes[i].mode;
            return true;
        }
    }
    return false;
}

/* Returns whether the suffix leaves out the only mode in which the event happens. */
static bool counts_nothing(const struct cp_event_spec *spec)
{
    return spec->modes != 0 && (spec->modes & CP_EVENT_KERNEL) == 0 &&
           cp__event(spec->event, &spec->encoding)->kernel_mode == CP__KERNEL_REQUIRED;
}

/* Completes the name: base, mark, and the modifiers in their order. */
static int name_spec(struct cp_event_spec *spec, const char *base, const char *mark, struct cp_error *err)
{
    char letters[8] = "";
    size_t n = 0;

    for (size_t i = 0; i < SIZE(modes); i++) {
        if ((spec->modes & modes[i].mode) != 0)
            letters[n++] = modes[i].letter;
    }
    for (int level = 0; level < (int)spec->precise_ip; level++)
        letters[n++] = 'p';
    if (cp__event_print(spec->name, "%s%s%s", base, n > 0 ? mark : "", letters))
        return 0;
    return cp__error(err, -ENAMETOOLONG, "The event \"%.60s...\" has a name of more than %zu characters.",
                     base, sizeof spec->name - 1);
}

/* Explains why an event that perf_event_open(2) does not know has no suffix. */
static int refuse_suffix(const struct cp_event_spec *spec, const char *base, const char *suffix,
                         struct cp_error *err)
{
    if (spec->kind == CP_EVENT_TIMER)
        return cp__error(err, -EINVAL,
                         "The timer cannot have the suffix \"%.40s\": the timer measures CPU time in all "
                         "modes. Use taskClock, which can have a suffix.",
                         suffix);
    if (suffix[0] == '\0' || (suffix[0] >= '0' && suffix[0] <= '9'))
        return refuse_letter(suffix, base, err);
    return cp__error(
        err, -EINVAL,
        "The event %s cannot have the suffix \"%.40s\": a wait passes in no mode of the processor, "
        "and its place is known. Remove the suffix; a period may follow the name: \"%s:10us\".",
        base, suffix, base);
}

int cp__event_take_suffix(struct cp_event_spec *spec, const char *base, const char *mark, const char *suffix,
                          struct cp_error *err)
{
    if (suffix != NULL && !cp__event_kind_is_perf(spec->kind))
        return refuse_suffix(spec, base, suffix, err);
    if (suffix != NULL && suffix[0] == '\0')
        return refuse_letter(suffix, base, err);
    for (; suffix != NULL && *suffix != '\0'; suffix++) {
        if (!take_letter(*suffix, spec))
            return refuse_letter(suffix, base, err);
    }
    if (counts_nothing(spec))
        return cp__error(err, -EINVAL,
                         "The event %.80s happens in the kernel only, and its suffix leaves the kernel out. "
                         "Add k to the suffix, or remove the suffix.",
                         base);
    return name_spec(spec, base, mark, err);
}
