/* What watches have measured. */
#include "watches.h"

#include <errno.h>
#include <string.h>

#include "exchange.h"
#include "runtime/base/fail.h"
#include "watch.h"

int cp__http_print_watches(FILE *out, enum cp_watch_form form, struct cp_error *err)
{
    struct cp_watch_snapshot *snapshot;
    int result = cp_watch_take_all(&snapshot, err);

    if (result < 0)
        return result;
    result = cp_watch_print(snapshot, form, out);
    cp_watch_snapshot_free(snapshot);
    return result < 0 ? cp__error(err, result,
                                  "There is no memory for what the watches have measured. Ask again later.")
                      : 0;
}

/* Finds the form that the query asks for. */
static int asked_form(const char *query, enum cp_watch_form *form, struct cp_error *err)
{
    char name[16] = "text";
    int result = cp__http_query(query, "format", name, sizeof name, err);

    if (result < 0)
        return result;
    if (strcmp(name, "text") == 0)
        *form = CP_WATCH_TEXT;
    else if (strcmp(name, "json") == 0)
        *form = CP_WATCH_JSON;
    else
        return cp__error(err, -EINVAL,
                         "There is no format \"%s\". Take text or json; /metrics has what Prometheus reads.",
                         name);
    return 0;
}

int cp__http_watches(struct cp__exchange *exchange)
{
    const struct cp_http_header json = {"Content-Type", "application/json"},
                                text = {"Content-Type", cp__http_text};
    enum cp_watch_form form = CP_WATCH_TEXT;
    struct cp__http_page page;
    struct cp_error err;
    int result = asked_form(exchange->request->query, &form, &err);

    if (result < 0)
        return cp__http_refuse(exchange, cp__http_status_of(result), "%s", err.message);
    cp__http_page_open(&page);
    if (page.out != NULL && cp__http_print_watches(page.out, form, &err) < 0)
        page.is_cut = true; /* 503 */
    return cp__http_page_send(exchange, &page, form == CP_WATCH_JSON ? &json : &text, 1);
}
