/* The endpoint "symbol": the names of addresses. */
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "share.h"

/* The most addresses that a request may ask for, and the most bytes of the names of their functions. Names
 * of C++ templates can have thousands of bytes. */
enum { MAX_ADDRESSES = 1 << 16, MAX_NAMES = 8 << 20 };

/* The addresses of a request, and the names that were found. */
struct symbols {
    uintptr_t *addresses;
    char **names; /* names[i] belongs to addresses[i]; NULL: unknown */
    size_t n;
    size_t names_size;
    bool is_cut; /* there are too many addresses, or the names are too long */
};

/* Returns whether the word is a hexadecimal number with "0x" that fits into 64 bits. */
static bool is_address(const char *word, size_t n)
{
    static const char digits[] = "0123456789abcdefABCDEF";

    return n > 2 && n <= 18 && strncasecmp(word, "0x", 2) == 0 && strspn(word + 2, digits) == n - 2;
}

/* Reads the addresses, which "+" separates. Words that are not addresses are skipped: the others may be
 * good. */
static void read_addresses(struct symbols *symbols, const char *text, size_t size)
{
    const char *end = text + size;

    while (text < end && !symbols->is_cut) {
        const char *word_end = memchr(text, '+', (size_t)(end - text));
        char word[24] = "";
        size_t n;

        word_end = word_end != NULL ? word_end : end;
        n = (size_t)(word_end - text);
        if (n < sizeof word) {
            memcpy(word, text, n);
            n = strcspn(word, " \r\n"); /* text from curl may end in a newline */
            word[n] = '\0';
            symbols->is_cut = is_address(word, n) && symbols->n == MAX_ADDRESSES;
            if (is_address(word, n) && !symbols->is_cut)
                symbols->addresses[symbols->n++] = (uintptr_t)strtoull(word, NULL, 16);
        }
        text = word_end + 1;
    }
}

/* Called by cp_symbol_each() with the name of the i-th address. */
static int take_function_name(void *context, size_t i, const char *function)
{
    struct symbols *symbols = context;
    const size_t size = strlen(function) + 1;

    if (size > MAX_NAMES - symbols->names_size) {
        symbols->is_cut = true;
        return 0;
    }
    symbols->names_size += size;
    symbols->names[i] = strdup(function);
    return 0;
}

/* Allocates as many addresses as a text of size bytes can have, but at most MAX_ADDRESSES. */
static bool make_room_for_addresses(struct symbols *symbols, size_t size)
{
    const size_t n = size / 2 + 1 < MAX_ADDRESSES ? size / 2 + 1 : MAX_ADDRESSES;

    symbols->addresses = calloc(n, sizeof *symbols->addresses);
    symbols->names = calloc(n, sizeof *symbols->names);
    return symbols->addresses != NULL && symbols->names != NULL;
}

static int send_symbols(struct cp__exchange *exchange, const struct symbols *symbols)
{
    const struct cp_http_header type = {"Content-Type", cp__http_text};
    struct cp__http_page page;

    cp__http_page_open(&page);
    if (page.out != NULL) {
        fputs("num_symbols: 1\n", page.out); /* pprof tools only check that the number is not 0 */
        for (size_t i = 0; i < symbols->n; i++) {
            if (symbols->names[i] != NULL)
                fprintf(page.out, "%#" PRIxPTR "\t%s\n", symbols->addresses[i], symbols->names[i]);
        }
    }
    return cp__http_page_send(exchange, &page, &type, 1);
}

/* Looks the addresses up when the request has the turn, and answers. */
static int look_up_symbols(struct cp__exchange *exchange, struct symbols *symbols)
{
    int result = 0;

    if (symbols->n > 0 && !symbols->is_cut) {
        if (!cp__http_turn_or_refuse(exchange, &result))
            return result;
        result = cp_symbol_each(symbols->addresses, symbols->n, take_function_name, symbols);
        cp__http_turn_give();
    }
    if (symbols->is_cut)
        return cp__http_refuse(
            exchange, 413, "The request has too many addresses: at most %d, with at most %d bytes of names.",
            MAX_ADDRESSES, MAX_NAMES);
    if (result < 0)
        return cp__http_refuse(exchange, cp__http_status_of(result), "The names could not be looked up: %s.",
                               strerror(-result));
    return send_symbols(exchange, symbols);
}

int cp__http_symbol(struct cp__exchange *exchange)
{
    const struct cp_http_request *request = exchange->request;
    const char *text = request->query != NULL ? request->query : "";
    size_t size = strlen(text);
    struct symbols symbols = {.n = 0};
    int result;

    if (strcmp(request->method, "POST") == 0) {
        text = request->body != NULL ? request->body : "";
        size = request->body_size;
    }
    if (make_room_for_addresses(&symbols, size)) {
        read_addresses(&symbols, text, size);
        result = look_up_symbols(exchange, &symbols);
    } else {
        result = cp__http_refuse(exchange, 503, "There is not enough memory for the answer.");
    }
    for (size_t i = 0; i < symbols.n; i++)
        free(symbols.names[i]);
    free(symbols.addresses);
    free(symbols.names);
    return result;
}
