/* Answers and refusals, and waiting; see exchange.h. */
#include "exchange.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/base/clock.h"

const char cp__http_text[] = "text/plain; charset=utf-8";

enum { MAX_HEADERS = 16 };

unsigned cp__http_max_seconds(const struct cp__exchange *exchange)
{
    return exchange->options->max_seconds != 0 ? exchange->options->max_seconds : CP__HTTP_MAX_SECONDS;
}

unsigned cp__http_max_slots(const struct cp__exchange *exchange)
{
    return exchange->options->max_slots != 0 ? exchange->options->max_slots : CP_EV_MAX / 2;
}

static bool has_header(const struct cp_http_header *headers, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(headers[i].name, name) == 0)
            return true;
    }
    return false;
}

int cp__http_reply(struct cp__exchange *exchange, int status, const struct cp_http_header *headers, size_t n,
                   const void *body, size_t size)
{
    static const struct cp_http_header common[] = {{"X-Content-Type-Options", "nosniff"},
                                                   {"Cache-Control", "no-store"},
                                                   {"Cross-Origin-Resource-Policy", "same-origin"}};
    const size_t n_common = sizeof common / sizeof common[0];
    const struct cp_http_response *response = exchange->response;
    struct cp_http_header all[MAX_HEADERS];
    size_t n_all = n;
    int result;

    if (n > MAX_HEADERS - n_common)
        return -E2BIG;
    memcpy(all, headers, n * sizeof *headers);
    for (size_t i = 0; i < n_common; i++) {
        if (!has_header(headers, n, common[i].name))
            all[n_all++] = common[i];
    }
    result = response->begin(response->context, status, all, n_all);
    if (result == 0 && size > 0)
        result = response->write(response->context, body, size);
    return result;
}

int cp__http_reply_body(struct cp__exchange *exchange, const char *type, const void *body, size_t size)
{
    const struct cp_http_header header = {"Content-Type", type};

    return cp__http_reply(exchange, 200, &header, 1, body, size);
}

int cp__http_reply_profile(struct cp__exchange *exchange, const char *name, const struct cp_memory *profile)
{
    char disposition[80];
    const struct cp_http_header headers[] = {{"Content-Type", "application/octet-stream"},
                                             {"Content-Disposition", disposition}};

    snprintf(disposition, sizeof disposition, "attachment; filename=\"%s\"", name);
    return cp__http_reply(exchange, 200, headers, 2, profile->data, profile->size);
}

int cp__http_refuse_with(struct cp__exchange *exchange, int status, const struct cp_http_header *header,
                         const char *text)
{
    struct cp_http_header headers[3] = {{"Content-Type", cp__http_text}, {"X-Go-Pprof", "1"}};
    size_t n = 2;
    char line[1024];

    if (header != NULL)
        headers[n++] = *header;
    snprintf(line, sizeof line, "%s\n", text);
    return cp__http_reply(exchange, status, headers, n, line, strlen(line));
}

int cp__http_refuse(struct cp__exchange *exchange, int status, const char *format, ...)
{
    char text[1000];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return cp__http_refuse_with(exchange, status, NULL, text);
}

int cp__http_status_of(int error)
{
    static const struct {
        int error;
        int status;
    } known[] = {
        {-EINVAL, 400}, {-ENAMETOOLONG, 400}, {-EBUSY, 409},  {-ENOENT, 501},  {-ENODEV, 501},
        {-ENXIO, 501},  {-ENOTSUP, 501},      {-ENOSYS, 501}, {-ENODATA, 501}, {-EACCES, 403},
        {-EPERM, 403},  {-EMFILE, 503},       {-ENFILE, 503}, {-ENOMEM, 503},  {-EAGAIN, 503},
    };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].error == error)
            return known[i].status;
    }
    return 500;
}

int cp__http_append(struct cp_memory *memory, const void *data, size_t size)
{
    struct cp_memory grown = *memory;

    if (size > memory->capacity - memory->size) {
        grown.capacity = 2 * (memory->size + size);
        grown.data = realloc(memory->data, grown.capacity);
        if (grown.data == NULL)
            return -ENOMEM;
        *memory = grown;
    }
    memcpy(memory->data + memory->size, data, size);
    memory->size += size;
    return 0;
}

/* The write function of a page's stream. A short count tells fclose() that the body is incomplete. */
static ssize_t page_write(void *cookie, const char *data, size_t size)
{
    struct cp__http_page *page = cookie;

    page->is_cut = page->is_cut || cp__http_append(&page->body, data, size) < 0;
    return page->is_cut ? 0 : (ssize_t)size;
}

/* Uses fopencookie(), because open_memstream(3) of glibc does not report that text was lost for lack of
 * memory. */
void cp__http_page_open(struct cp__http_page *page)
{
    *page = (struct cp__http_page){.out = NULL};
    page->out = fopencookie(page, "w", (cookie_io_functions_t){.write = page_write});
}

int cp__http_page_close(struct cp__http_page *page)
{
    return page->out == NULL || fclose(page->out) != 0 || page->is_cut ? -ENOMEM : 0;
}

int cp__http_page_send(struct cp__exchange *exchange, struct cp__http_page *page,
                       const struct cp_http_header *headers, size_t n)
{
    int result;

    if (cp__http_page_close(page) < 0)
        result = cp__http_refuse(exchange, 503, "There is not enough memory for the answer.");
    else
        result = cp__http_reply(exchange, 200, headers, n, page->body.data, page->body.size);
    free(page->body.data);
    return result;
}

const char *cp__http_header(const struct cp__exchange *exchange, const char *name)
{
    return exchange->request->header(exchange->request->context, name);
}

bool cp__http_is_gone(const struct cp__exchange *exchange)
{
    const struct cp_http_request *request = exchange->request;

    return request->is_gone != NULL && request->is_gone(request->context);
}

uint64_t cp__http_now_ms(void)
{
    return (uint64_t)cp__clock_ns(CLOCK_MONOTONIC) / 1000000;
}

int cp__http_wait(const struct cp__exchange *exchange, unsigned long long seconds)
{
    const uint64_t end = cp__http_now_ms() + seconds * 1000;

    for (uint64_t now = cp__http_now_ms(); now < end; now = cp__http_now_ms()) {
        uint64_t ms = end - now < CP__HTTP_LOOK_MS ? end - now : CP__HTTP_LOOK_MS;

        if (cp__http_is_gone(exchange))
            return -ECANCELED;
        nanosleep(&(struct timespec){.tv_nsec = (long)ms * 1000000}, NULL);
    }
    return cp__http_is_gone(exchange) ? -ECANCELED : 0;
}
