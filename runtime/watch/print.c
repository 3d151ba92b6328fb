/* Printing snapshots: what the forms have in common. */
#include "print.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>

const double cp__watch_percentiles[CP__WATCH_PERCENTILES] = {50, 90, 99, 99.9};

const char *cp__watch_side_name(enum cp_watch_side side)
{
    return side == CP_WATCH_PARENT ? "parent" : side == CP_WATCH_CHILD ? "child" : "";
}

void cp__watch_print_number(FILE *out, double number)
{
    char text[40];

    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) >= number && strtod(text, NULL) <= number)
            break;
    }
    fputs(text, out);
}

static int print_form(const struct cp_watch_snapshot *snapshot, enum cp_watch_form form, FILE *out)
{
    switch (form) {
    case CP_WATCH_TEXT:
        return cp__watch_print_text(snapshot, out);
    case CP_WATCH_JSON:
        cp__watch_print_json(snapshot, out);
        return 0;
    case CP_WATCH_PROMETHEUS:
        return cp__watch_print_prometheus(snapshot, out);
    }
    return -EINVAL;
}

/* The thread's locale may have a comma in numbers. */
int cp_watch_print(const struct cp_watch_snapshot *snapshot, enum cp_watch_form form, FILE *out)
{
    const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const locale_t before = c != (locale_t)0 ? uselocale(c) : (locale_t)0;
    int result = c != (locale_t)0 ? print_form(snapshot, form, out) : -ENOMEM;

    if (c != (locale_t)0) {
        uselocale(before);
        freelocale(c);
    }
    errno = 0;
    if (result == 0 && (fflush(out) != 0 || ferror(out)))
        result = errno != 0 ? -errno : -EIO;
    return result;
}
