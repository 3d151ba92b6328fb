#include "table.h"

#include <string.h>

#include "text.h"

void *cp__grown(void *array, size_t *capacity, size_t n, size_t element_size)
{
    size_t doubled = *capacity < 8 ? 16 : 2 * *capacity;
    size_t wanted = n > doubled ? n : doubled;
    size_t bytes;

    if (n <= *capacity && array != NULL)
        return array;
    if (__builtin_mul_overflow(wanted, element_size, &bytes))
        return NULL;
    array = realloc(array, bytes);
    if (array != NULL)
        *capacity = wanted;
    return array;
}

/* Stores an entry in the first free slot from its hash on. */
static void put_entry(struct cp__table *table, uint32_t hash, uint32_t number_plus_1)
{
    size_t at = hash;

    while (table->slots[at & (table->capacity - 1)].number != 0)
        at++;
    table->slots[at & (table->capacity - 1)] = (struct cp__table_slot){hash, number_plus_1};
}

int cp__table_reserve(struct cp__table *table, size_t n)
{
    struct cp__table old = *table;
    size_t needed = old.used + n;
    size_t i;

    if (needed <= old.capacity / 4 * 3)
        return 0;
    if (needed >= UINT32_MAX)
        return -ENOMEM;
    table->capacity = old.capacity == 0 ? 16 : old.capacity;
    while (needed > table->capacity / 4 * 3)
        table->capacity *= 2;
    table->slots = calloc(table->capacity, sizeof *table->slots);
    if (table->slots == NULL) {
        *table = old;
        return -ENOMEM;
    }
    for (i = 0; i < old.capacity; i++)
        if (old.slots[i].number != 0)
            put_entry(table, old.slots[i].hash, old.slots[i].number);
    free(old.slots);
    return 0;
}

void cp__table_insert(struct cp__table *table, uint32_t hash, uint32_t number)
{
    put_entry(table, hash, number + 1);
    table->used++;
}

void cp__table_free(struct cp__table *table)
{
    free(table->slots);
    *table = (struct cp__table){0};
}

uint64_t cp__hash_add_string(uint64_t hash, const char *text)
{
    size_t size = strlen(text);
    size_t at, n;
    uint64_t word;

    hash = cp__hash_add(hash, size);
    for (at = 0; at < size; at += n) {
        word = 0;
        n = size - at < sizeof word ? size - at : sizeof word;
        memcpy(&word, text + at, n);
        hash = cp__hash_add(hash, word);
    }
    return hash;
}

/* Replaces each byte that is not UTF-8 by "?". */
static void make_utf8(char *text)
{
    size_t size;

    for (; *text != '\0'; text += size) {
        size = cp__utf8_size(text, SIZE_MAX);
        if (size == 0) {
            *text = '?';
            size = 1;
        }
    }
}

int cp__strings_add(struct cp__strings *strings, const char *text, uint32_t *number)
{
    size_t size = strlen(text) + 1;
    uint32_t hash;
    char *copy;
    size_t at;

    if (CP__RESERVE(strings->bytes, strings->bytes_capacity, strings->n_bytes + size) < 0 ||
        CP__RESERVE(strings->offsets, strings->capacity, strings->n + 1) < 0 ||
        cp__table_reserve(&strings->table, 1) < 0)
        return -ENOMEM;
    copy = memcpy(strings->bytes + strings->n_bytes, text, size);
    make_utf8(copy);
    hash = cp__hash_end(cp__hash_add_string(0, copy));
    at = hash;
    while (cp__table_next(&strings->table, hash, &at, number))
        if (strcmp(cp__strings_get(strings, *number), copy) == 0)
            return 0; /* the copy lies in unused room and is overwritten later */
    strings->offsets[strings->n] = strings->n_bytes;
    strings->n_bytes += size;
    *number = (uint32_t)strings->n++;
    cp__table_insert(&strings->table, hash, *number);
    return 0;
}

void cp__strings_free(struct cp__strings *strings)
{
    free(strings->bytes);
    free(strings->offsets);
    cp__table_free(&strings->table);
}

/* ---- Tuples ---------------------------------------------------------------------------------- */

static uint32_t hash_words(const uint64_t *words, size_t n)
{
    uint64_t hash = n;

    for (size_t i = 0; i < n; i++)
        hash = cp__hash_add(hash, words[i]);
    return cp__hash_end(hash);
}

const uint64_t *cp__tuples_get(const struct cp__tuples *tuples, size_t number, size_t *n)
{
    size_t end = number + 1 < tuples->n ? tuples->offsets[number + 1] : tuples->n_words;

    *n = end - tuples->offsets[number];
    return tuples->words + tuples->offsets[number];
}

bool cp__tuples_find(const struct cp__tuples *tuples, const uint64_t *words, size_t n, uint32_t *number)
{
    const uint32_t hash = hash_words(words, n);
    const uint64_t *other;
    size_t at = hash, n_other;

    while (cp__table_next(&tuples->table, hash, &at, number)) {
        other = cp__tuples_get(tuples, *number, &n_other);
        if (n_other == n && memcmp(other, words, n * sizeof *words) == 0)
            return true;
    }
    return false;
}

int cp__tuples_add(struct cp__tuples *tuples, const uint64_t *words, size_t n, uint32_t *number)
{
    if (cp__tuples_find(tuples, words, n, number))
        return 0;
    if (CP__RESERVE(tuples->words, tuples->words_capacity, tuples->n_words + n) < 0 ||
        CP__RESERVE(tuples->offsets, tuples->capacity, tuples->n + 1) < 0 ||
        cp__table_reserve(&tuples->table, 1) < 0)
        return -ENOMEM;
    memcpy(tuples->words + tuples->n_words, words, n * sizeof *words);
    tuples->offsets[tuples->n] = tuples->n_words;
    tuples->n_words += n;
    *number = (uint32_t)tuples->n++;
    cp__table_insert(&tuples->table, hash_words(words, n), *number);
    return 0;
}

size_t cp__tuples_copy(const struct cp__tuples *tuples, size_t number, size_t skipped, uint64_t *words)
{
    size_t n;
    const uint64_t *from = cp__tuples_get(tuples, number, &n);

    memcpy(words, from + skipped, (n - skipped) * sizeof *words);
    return n - skipped;
}

size_t cp__tuples_longest(const struct cp__tuples *tuples, size_t least)
{
    size_t most = least, n;

    for (size_t i = 0; i < tuples->n; i++) {
        cp__tuples_get(tuples, i, &n);
        most = n > most ? n : most;
    }
    return most;
}

void cp__tuples_free(struct cp__tuples *tuples)
{
    free(tuples->words);
    free(tuples->offsets);
    cp__table_free(&tuples->table);
}
