/* The endpoints that are small: threadcreate and symbol. */
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "exchange.h"

/* ---- threadcreate ---------------------------------------------------------------------------- */

int cp__http_threadcreate(struct cp__exchange *exchange)
{
    static const struct cp_http_header binary[] = {
        {"Content-Type", "application/octet-stream"},
        {"Content-Disposition", "attachment; filename=\"threadcreate\""}};
    struct cp_memory profile = {.data = NULL};
    unsigned long long debug = 0;
    struct cp_error err;
    int result = cp__http_query_number(exchange->request->query, "debug", 0, 2, &debug, &err);

    if (result >= 0)
        result = cp_thread_profile(cp_writer_memory(&profile), debug > 0, &err);
    if (result < 0)
        result = cp__http_refuse(exchange, cp__http_status_of(result), "%s", err.message);
    else if (debug > 0)
        result = cp__http_reply_body(exchange, cp__http_text, profile.data, profile.size);
    else
        result = cp__http_reply(exchange, 200, binary, 2, profile.data, profile.size);
    free(profile.data);
    return result;
}

/* ---- symbol ---------------------------------------------------------------------------------- */

struct symbols {
    uintptr_t *addresses;
    char **names; /* NULL: unknown */
    size_t n;
};

/* What is no address is nothing to look up, and no reason to refuse the others. */
static void read_addresses(struct symbols *symbols, const char *text, size_t size)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    const char *end = text + size;

    while (text < end) {
        const char *word_end = memchr(text, '+', (size_t)(end - text));
        char word[24] = "";
        size_t n;

        word_end = word_end != NULL ? word_end : end;
        n = (size_t)(word_end - text);
        if (n < sizeof word) {
            memcpy(word, text, n);
            word[n] = '\0';
            n = strcspn(word, " \r\n"); /* what is typed into curl may end in a line's end */
            if (n > 2 && n <= 18 && strncasecmp(word, "0x", 2) == 0 && strspn(word + 2, digits) == n - 2)
                symbols->addresses[symbols->n++] = (uintptr_t)strtoull(word, NULL, 16);
        }
        text = word_end + 1;
    }
}

static void take_name(void *context, size_t i, const char *function)
{
    struct symbols *symbols = context;

    symbols->names[i] = strdup(function);
}

/* As many addresses as there can be words. */
static bool make_room(struct symbols *symbols, size_t size)
{
    symbols->addresses = calloc(size / 2 + 1, sizeof *symbols->addresses);
    symbols->names = calloc(size / 2 + 1, sizeof *symbols->names);
    return symbols->addresses != NULL && symbols->names != NULL;
}

static int send_symbols(struct cp__exchange *exchange, const struct symbols *symbols)
{
    const struct cp_http_header type = {"Content-Type", cp__http_text};
    struct cp__http_page page;

    cp__http_page_open(&page);
    if (page.out != NULL) {
        fputs("num_symbols: 1\n", page.out); /* tools want to know only whether there are any */
        for (size_t i = 0; i < symbols->n; i++) {
            if (symbols->names[i] != NULL)
                fprintf(page.out, "%#" PRIxPTR "\t%s\n", symbols->addresses[i], symbols->names[i]);
        }
    }
    return cp__http_page_send(exchange, &page, &type, 1);
}

int cp__http_symbol(struct cp__exchange *exchange)
{
    const struct cp_http_request *request = exchange->request;
    const char *text = request->query != NULL ? request->query : "";
    size_t size = strlen(text);
    struct symbols symbols = {.n = 0};
    int result = -ENOMEM;

    if (strcmp(request->method, "POST") == 0) {
        text = request->body != NULL ? request->body : "";
        size = request->body_size;
    }
    if (make_room(&symbols, size)) {
        read_addresses(&symbols, text, size);
        result = cp_symbol_lookup(symbols.addresses, symbols.n, take_name, &symbols);
    }
    if (result < 0)
        result = cp__http_refuse(exchange, cp__http_status_of(result),
                                 "The names could not be looked up: %s.", strerror(-result));
    else
        result = send_symbols(exchange, &symbols);
    for (size_t i = 0; i < symbols.n; i++)
        free(symbols.names[i]);
    free(symbols.addresses);
    free(symbols.names);
    return result;
}
