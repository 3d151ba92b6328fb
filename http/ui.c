/* /debug/pprof/ui/: the page that records profiles and shows them. Its source files are in http/ui/. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "events.h"
#include "runtime/base/text.h"
#include "share.h"

/* The files of the page, which ui_files.S defines. */
#define FILE_(name) extern const char cp__http_ui_##name[], cp__http_ui_##name##_end[]
FILE_(index);
FILE_(icon);
FILE_(licenses);
FILE_(style);
FILE_(script);
FILE_(version);

static const struct file {
    const char *path;
    const char *type;
    const char *data, *end;
} files[] = {
#define ROW(path, type, name)                                                                                \
    {                                                                                                        \
        CP__HTTP_ROOT "/ui/" path, type, cp__http_ui_##name, cp__http_ui_##name##_end                        \
    }
    ROW("", "text/html; charset=utf-8", index),
    ROW("icon.svg", "image/svg+xml", icon),
    ROW("licenses.txt", cp__http_text, licenses),
    ROW("page.css", "text/css; charset=utf-8", style),
    ROW("page.js", "text/javascript; charset=utf-8", script),
};

/* ---- Files ----------------------------------------------------------------------------------- */

static const struct file *find_page_file(const char *path)
{
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (strcmp(path, files[i].path) == 0)
            return &files[i];
    }
    return NULL;
}

/* Returns whether If-None-Match lists the tag. Weak and strong tags compare as equal there. */
static bool has_tag(const char *list, const char *tag)
{
    return list != NULL && (strcmp(list, "*") == 0 || strstr(list, tag) != NULL);
}

/* Sends a file of the page. The browser keeps the file, but asks each time whether it has changed, because
 * another program, or another version of this program, may listen on the same port tomorrow. */
int cp__http_ui(struct cp__exchange *exchange)
{
    const struct file *file = find_page_file(exchange->request->path);
    char tag[40];
    const struct cp_http_header headers[] = {
        {"Content-Type", file->type},
        {"Content-Security-Policy",
         "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
         "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
        {"Referrer-Policy", "no-referrer"},
        {"Cache-Control", "private, no-cache"},
        {"ETag", tag}};

    snprintf(tag, sizeof tag, "\"%.*s\"", (int)(cp__http_ui_version_end - cp__http_ui_version),
             cp__http_ui_version);
    if (has_tag(cp__http_header(exchange, "if-none-match"), tag))
        return cp__http_reply(exchange, 304, headers + 1, 4, NULL, 0);
    return cp__http_reply(exchange, 200, headers, 5, file->data, (size_t)(file->end - file->data));
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* The context of print_event(). */
struct list {
    FILE *out;
    const char *separator;
};

static void print_page_event(void *context, const struct cp__http_event *event)
{
    struct list *list = context;
    const char *description = event->info->description;

    fprintf(list->out, "%s{\"name\":", list->separator);
    cp__json_string(list->out, event->info->name);
    fputs(",\"description\":", list->out);
    cp__json_string(list->out, description != NULL ? description : "");
    fputs(",\"use\":", list->out);
    cp__json_string(list->out, event->use);
    fputs(",\"reason\":", list->out);
    cp__json_string(list->out, event->refusal);
    fprintf(list->out,
            ",\"period\":%" PRIu64 ",\"isTime\":%s,\"isWait\":%s,\"isWall\":%s,\"maxRate\":%" PRIu64 "}",
            event->period, event->is_time ? "true" : "false", event->is_wait ? "true" : "false",
            event->is_wall ? "true" : "false", event->max_rate);
    list->separator = ",\n";
}

int cp__http_ui_events(struct cp__exchange *exchange)
{
    static const struct cp_http_header type = {"Content-Type", "application/json"};
    struct cp__http_page page;
    int result;

    if (!cp__http_turn_or_refuse(exchange, &result))
        return result;
    cp__http_page_open(&page);
    if (page.out != NULL) {
        fprintf(page.out, "{\"maxSeconds\":%u,\"events\":[\n", cp__http_max_seconds(exchange));
        cp__http_events(exchange, print_page_event, &(struct list){page.out, ""});
        fputs("]}\n", page.out);
    }
    cp__http_turn_give();
    return cp__http_page_send(exchange, &page, &type, 1);
}
