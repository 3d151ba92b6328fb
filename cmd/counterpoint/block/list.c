/* See block_list.h. */
#include "block_list.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int digit_of(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *found = c == '\0' ? NULL : strchr(digits, tolower((unsigned char)c));

    return found != NULL ? (int)(found - digits) : -1;
}

/* Returns false if there is anything but pairs of digits. */
static bool read_digits(const char *hex, size_t length, uint8_t *bytes)
{
    for (size_t i = 0; i + 1 < length; i += 2) {
        const int high = digit_of(hex[i]), low = digit_of(hex[i + 1]);

        if (high < 0 || low < 0)
            return false;
        bytes[i / 2] = (uint8_t)(high << 4 | low);
    }
    return length % 2 == 0;
}

static bool grow_list(struct block_list *list)
{
    const size_t room = list->room == 0 ? 16 : 2 * list->room;
    struct block_row *rows;

    if (list->n < list->room)
        return true;
    rows = reallocarray(list->rows, room, sizeof *rows);
    if (rows == NULL)
        return false;
    list->rows = rows;
    list->room = room;
    return true;
}

enum status block_list_add(struct block_list *list, const char *hex, size_t length, const char *where)
{
    struct block_row *row;

    if (!grow_list(list))
        return complain(STATUS_FAILURE, "There is not enough memory.");
    row = &list->rows[list->n];
    *row =
        (struct block_row){.hex = strndup(hex, length), .bytes = malloc(length / 2 + 1), .size = length / 2};
    list->n++;
    if (row->hex == NULL || row->bytes == NULL)
        return complain(STATUS_FAILURE, "There is not enough memory.");
    if (!read_digits(hex, length, row->bytes))
        return complain(
            STATUS_USAGE,
            "%s: \"%.40s\" is no block. Give the bytes of its instructions as pairs of hexadecimal "
            "digits: 4801c0.",
            where, row->hex);
    return STATUS_OK;
}

static enum status read_lines(struct block_list *list, FILE *file, const char *path)
{
    enum status status = STATUS_OK;
    char *line = NULL, where[80];
    size_t room = 0;

    for (unsigned number = 1; status == STATUS_OK && getline(&line, &room, file) >= 0; number++) {
        const size_t length = strcspn(line, ",\r\n");

        snprintf(where, sizeof where, "%.60s:%u", path, number);
        if (length > 0)
            status = block_list_add(list, line, length, where);
    }
    free(line);
    if (status == STATUS_OK && ferror(file))
        return complain(STATUS_FAILURE, "%s cannot be read: %s.", path, strerror(errno));
    return status;
}

enum status block_list_read(struct block_list *list, const char *path)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    enum status status;

    if (file == NULL)
        return complain(STATUS_USAGE, "%s cannot be opened: %s.", path, strerror(errno));
    status = read_lines(list, file, path);
    if (file != stdin)
        fclose(file);
    return status;
}

void block_list_free(struct block_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        free(list->rows[i].hex);
        free(list->rows[i].bytes);
    }
    free(list->rows);
}
