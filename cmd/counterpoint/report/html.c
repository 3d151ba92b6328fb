/* A file of HTML that shows profiles in any browser, without a network. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "report.h"
#include "runtime/base/text.h"

/* The page that http/ui/bundle.mjs has made, up to where the profiles stand. page.S has it. */
extern const char html_page[], html_page_end[];

/* Base64 in lines of as many bytes as make 76 digits, for editors and mailers. */
#define LINE_BYTES 57

static void print_base64_line(FILE *out, const unsigned char *from, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char line[LINE_BYTES / 3 * 4 + 1];
    size_t length = 0;

    for (size_t i = 0; i < n; i += 3) {
        uint32_t bits =
            (uint32_t)from[i] << 16 | (i + 1 < n ? from[i + 1] << 8 : 0) | (i + 2 < n ? from[i + 2] : 0);

        line[length++] = digits[bits >> 18];
        line[length++] = digits[bits >> 12 & 63];
        line[length++] = i + 1 < n ? digits[bits >> 6 & 63] : '=';
        line[length++] = i + 2 < n ? digits[bits & 63] : '=';
    }
    line[length++] = '\n';
    fwrite(line, 1, length, out);
}

static void print_base64(FILE *out, const unsigned char *from, size_t size)
{
    for (size_t i = 0; i < size; i += LINE_BYTES)
        print_base64_line(out, from + i, size - i < LINE_BYTES ? size - i : LINE_BYTES);
}

/* Prints the value of an attribute, with U+FFFD for each byte that is not UTF-8, or a control character. */
static void print_attribute(FILE *out, const char *text)
{
    for (size_t n; *text != '\0'; text += n) {
        n = cp__utf8_size(text, strlen(text));
        if (n == 0 || (n == 1 && ((unsigned char)*text < ' ' || *text == 0x7f))) {
            fputs("&#xfffd;", out);
            n = 1;
        } else if (strchr("&\"<>", *text) != NULL) {
            fprintf(out, "&#%d;", *text);
        } else {
            fwrite(text, 1, n, out);
        }
    }
}

/* Gzips the data into *zipped, which the caller frees. Returns 0 or -ENOMEM. */
static int gzip(const void *data, size_t size, unsigned char **zipped, size_t *zipped_size)
{
    const int with_gzip_header = MAX_WBITS + 16, default_memory = 8;
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)size};
    int result = -ENOMEM;

    *zipped = NULL;
    if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, with_gzip_header, default_memory,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return result;
    *zipped_size = deflateBound(&z, size);
    *zipped = malloc(*zipped_size);
    if (*zipped != NULL) {
        z.next_out = *zipped;
        z.avail_out = (uInt)*zipped_size;
        result = deflate(&z, Z_FINISH) == Z_STREAM_END ? 0 : -ENOMEM;
        *zipped_size = z.total_out;
    }
    deflateEnd(&z);
    return result;
}

static bool is_gzipped(const struct source *source)
{
    return source->size >= 2 && memcmp(source->data, "\x1f\x8b", 2) == 0;
}

/* Prints an element that report.js finds: no browser runs a script of this type, and base64 has no character
 * that ends the element. Returns 0 or -ENOMEM. */
static int print_embedded(FILE *out, const struct source *source, size_t type)
{
    size_t size = source->size;
    unsigned char *zipped = NULL;
    int result = is_gzipped(source) ? 0 : gzip(source->data, source->size, &zipped, &size);

    if (result == 0) {
        fputs("<script type=\"text/plain\" class=\"profile\" data-name=\"", out);
        print_attribute(out, strcmp(source->name, "-") == 0 ? "standard input" : source->name);
        fprintf(out, "\" data-value=\"%zu\">\n", type);
        print_base64(out, zipped != NULL ? zipped : source->data, size);
        fputs("</script>\n", out);
    }
    free(zipped);
    return result;
}

static int print_page(const struct view *view, FILE *out)
{
    int result = 0;

    fwrite(html_page, 1, (size_t)(html_page_end - html_page), out);
    for (size_t i = 0; i < view->n_sources && result == 0; i++)
        result = print_embedded(out, &view->sources[i], view->type);
    fputs("</body>\n</html>\n", out);
    errno = 0;
    if (result == 0 && (fflush(out) != 0 || ferror(out)))
        result = errno != 0 ? -errno : -EIO;
    return result;
}

enum status print_html(const struct view *view, FILE *out)
{
    const bool is_file = strcmp(view->argument, "-") != 0;
    FILE *file;
    int result;

    file = is_file ? fopen(view->argument, "we") : out;
    result = file != NULL ? print_page(view, file) : -errno;
    if (is_file && file != NULL && fclose(file) != 0 && result == 0)
        result = -errno;
    if (result == 0)
        return STATUS_OK;
    return complain(STATUS_FAILURE, "The page cannot be written to %s: %s.%s", view->argument,
                    strerror(-result), file != NULL ? " What is there now is incomplete." : "");
}
