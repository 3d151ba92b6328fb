/* Growing arrays, tables that find an array's elements by their contents, and sets of strings and tuples. */
#ifndef COUNTERPOINT_RUNTIME_BASE_TABLE_H
#define COUNTERPOINT_RUNTIME_BASE_TABLE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Makes room for n elements in total. Returns 0, or -ENOMEM and changes nothing. */
#define CP__RESERVE(array, capacity, n)                                                                      \
    ({                                                                                                       \
        size_t capacity_ = (capacity);                                                                       \
        void *array_ = cp__grown((array), &capacity_, (n), sizeof *(array));                                 \
        if (array_ != NULL) {                                                                                \
            (array) = array_;                                                                                \
            (capacity) = capacity_;                                                                          \
        }                                                                                                    \
        array_ != NULL ? 0 : -ENOMEM;                                                                        \
    })
/* Returns the array, moved if it had to grow; NULL if there is no memory, and then the array is unchanged. */
void *cp__grown(void *array, size_t *capacity, size_t n, size_t element_size);

/* Returns the number of elements, of n that are sorted, for which the expression is_before of their number i
 * holds: it holds for the first ones, and for none after these. */
#define CP__COUNT_BEFORE(n, i, is_before)                                                                    \
    ({                                                                                                       \
        size_t low_ = 0, high_ = (n), i;                                                                     \
        while (low_ < high_) {                                                                               \
            i = low_ + (high_ - low_) / 2;                                                                   \
            if (is_before)                                                                                   \
                low_ = i + 1;                                                                                \
            else                                                                                             \
                high_ = i;                                                                                   \
        }                                                                                                    \
        low_;                                                                                                \
    })

/* An index of numbered elements, with open addressing, at most three quarters full. The index stores only
 * hashes and numbers; a caller that looks an element up compares the elements. All zeros means empty. */
struct cp__table {
    struct cp__table_slot {
        uint32_t hash;
        uint32_t number; /* the element's number plus 1; 0: free */
    } * slots;
    size_t capacity; /* a power of 2, or 0 */
    size_t used;
};

/* Makes room for n more elements. Returns 0, or -ENOMEM and changes nothing. */
int cp__table_reserve(struct cp__table *table, size_t n);
/* Adds an element that the index does not have. cp__table_reserve() must have made room before. */
void cp__table_insert(struct cp__table *table, uint32_t hash, uint32_t number);
void cp__table_free(struct cp__table *table);

/*
 * Finds the elements that have one hash, one after the other:
 *
 *     size_t at = hash;
 *     while (cp__table_next(table, hash, &at, &number))
 */
static inline bool cp__table_next(const struct cp__table *table, uint32_t hash, size_t *at, uint32_t *number)
{
    const struct cp__table_slot *slot;

    if (table->capacity == 0)
        return false;
    do {
        slot = &table->slots[(*at)++ & (table->capacity - 1)];
        if (slot->number == 0)
            return false;
    } while (slot->hash != hash);
    *number = slot->number - 1;
    return true;
}

/* Mixes a word into a hash. cp__hash_end() turns the result into 32 bits. */
static inline uint64_t cp__hash_add(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u; /* 2^64 divided by the golden ratio */
    return hash ^ hash >> 29;
}
static inline uint32_t cp__hash_end(uint64_t hash)
{
    return (uint32_t)(cp__hash_add(hash, 0) >> 32);
}
uint64_t cp__hash_add_string(uint64_t hash, const char *text);

/* A set of strings, numbered in the order in which they were added. All zeros means empty. */
struct cp__strings {
    char *bytes;
    size_t n_bytes;
    size_t bytes_capacity;
    size_t *offsets; /* the offset of each string in bytes */
    size_t n;
    size_t capacity;
    struct cp__table table;
};

/* Finds the number of a string, and adds the string if it is new. Each byte that is not UTF-8 becomes "?",
 * because readers of protocol buffers refuse such bytes. Returns 0, or -ENOMEM and changes nothing. */
int cp__strings_add(struct cp__strings *strings, const char *text, uint32_t *number);
void cp__strings_free(struct cp__strings *strings);
static inline char *cp__strings_get(const struct cp__strings *strings, uint32_t number)
{
    return strings->bytes + strings->offsets[number];
}

/* A set of sequences of words, numbered in the order in which they were added. All zeros means empty. */
struct cp__tuples {
    uint64_t *words;
    size_t n_words;
    size_t words_capacity;
    size_t *offsets; /* the offset of each tuple in words */
    size_t n;
    size_t capacity;
    struct cp__table table;
};

/* Finds the number of a tuple; returns whether the tuple is there. */
bool cp__tuples_find(const struct cp__tuples *tuples, const uint64_t *words, size_t n, uint32_t *number);
/* Finds the number of a tuple, and adds the tuple if it is new. Returns 0, or -ENOMEM and changes nothing. */
int cp__tuples_add(struct cp__tuples *tuples, const uint64_t *words, size_t n, uint32_t *number);
/* Returns the words of a tuple; *n is their number. Valid until the next tuple is added. */
const uint64_t *cp__tuples_get(const struct cp__tuples *tuples, size_t number, size_t *n);
/* Copies the words of a tuple but the first `skipped` ones. Returns how many these are. */
size_t cp__tuples_copy(const struct cp__tuples *tuples, size_t number, size_t skipped, uint64_t *words);
/* Returns the number of words of the longest tuple, or `least` if that is more. */
size_t cp__tuples_longest(const struct cp__tuples *tuples, size_t least);
void cp__tuples_free(struct cp__tuples *tuples);

#endif
