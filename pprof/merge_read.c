/* Unpacks and checks profiles; see merge.h. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "merge.h"
#include "runtime/base/fail.h"

/* ---- Unpacking ------------------------------------------------------------------------------- */

/* The state while a file is unpacked. */
struct unpacking {
    size_t limit; /* for n */
    unsigned char *bytes;
    size_t n, capacity;
    size_t memory_left; /* bytes that the unpacked profile may still take */
    int result;         /* why an allocation failed */
};

/* Makes room for at least one more byte, but never for more than limit + 1 bytes in all. */
static int reserve_unpacked(struct unpacking *u)
{
    size_t wanted = u->capacity < 4096 ? 4096 : 2 * u->capacity;
    unsigned char *grown;

    if (u->n < u->capacity)
        return 0;
    if (u->n > u->limit)
        return -EFBIG;
    if (wanted > u->limit + 1)
        wanted = u->limit + 1;
    grown = realloc(u->bytes, wanted);
    if (grown == NULL)
        return -ENOMEM;
    u->bytes = grown;
    u->capacity = wanted;
    return 0;
}

/* Inflates until the input ends. */
static int inflate_members(z_stream *z, struct unpacking *u)
{
    int said = Z_OK, result;

    while (said == Z_OK || z->avail_in > 0) {
        if (said == Z_STREAM_END && inflateReset(z) != Z_OK) /* a gzip file may have several members */
            return -EBADMSG;
        result = reserve_unpacked(u);
        if (result < 0)
            return result;
        z->next_out = u->bytes + u->n;
        z->avail_out = u->capacity - u->n < INT_MAX ? (uInt)(u->capacity - u->n) : INT_MAX;
        said = inflate(z, Z_NO_FLUSH);
        u->n = (size_t)(z->next_out - u->bytes);
        if (said != Z_OK && said != Z_STREAM_END)
            return said == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
    }
    return u->n > u->limit ? -EFBIG : 0;
}

static int decompress(const void *data, size_t size, struct unpacking *u)
{
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)data, .avail_in = (uInt)size};
    int result;

    if (size > INT_MAX)
        return -EFBIG;
    if (inflateInit2(&z, 15 + 16) != Z_OK)
        return -ENOMEM;
    result = inflate_members(&z, u);
    inflateEnd(&z);
    return result;
}

/* Allocates for the profile, within the limit: two bytes of a file may stand for a message that takes a
 * hundred times as much. */
static void *allocate(void *context, size_t size)
{
    struct unpacking *u = context;
    void *memory = NULL;

    if (size > u->memory_left) {
        u->result = -EFBIG;
        return NULL;
    }
    u->memory_left -= size;
    memory = malloc(size);
    if (memory == NULL)
        u->result = -ENOMEM;
    return memory;
}

static void release_unpacked(void *context, void *memory)
{
    (void)context;
    free(memory);
}

static Cp__Proto__Profile *unpack(const void *data, size_t size, size_t limit, int *result)
{
    static const unsigned char gzip[] = {0x1f, 0x8b};
    struct unpacking u = {.limit = limit, .memory_left = limit * CP_MERGE_MEMORY_FACTOR, .result = -EBADMSG};
    ProtobufCAllocator allocator = {.alloc = allocate, .free = release_unpacked, .allocator_data = &u};
    Cp__Proto__Profile *p = NULL;

    *result = 0;
    if (size >= sizeof gzip && memcmp(data, gzip, sizeof gzip) == 0) {
        *result = decompress(data, size, &u);
        data = u.bytes;
        size = u.n;
    }
    if (*result == 0)
        p = cp__proto__profile__unpack(&allocator, size, data);
    if (*result == 0 && p == NULL)
        *result = u.result;
    free(u.bytes);
    return p;
}

uint64_t *cp__merge_types(const Cp__Proto__Profile *p, const uint32_t *strings)
{
    uint64_t *types = calloc(p->n_sample_type + 1, 2 * sizeof *types);

    for (size_t i = 0; types != NULL && i <= p->n_sample_type; i++) {
        const Cp__Proto__ValueType *type = i < p->n_sample_type ? p->sample_type[i] : p->period_type;

        types[2 * i] = type == NULL ? 0 : strings[type->type];
        types[2 * i + 1] = type == NULL ? 0 : strings[type->unit];
    }
    return types;
}

/* ---- Ids ------------------------------------------------------------------------------------- */

static uint32_t hash_id(uint64_t id)
{
    return cp__hash_end(cp__hash_add(0, id));
}

int cp__ids_reserve(struct cp__ids *ids, size_t n)
{
    ids->ids = calloc(n + 1, sizeof *ids->ids);
    ids->numbers = calloc(n + 1, sizeof *ids->numbers);
    return ids->ids == NULL || ids->numbers == NULL ? -ENOMEM : cp__table_reserve(&ids->table, n);
}

bool cp__ids_add(struct cp__ids *ids, uint64_t id)
{
    uint32_t other;

    if (id == 0 || cp__ids_find(ids, id, &other))
        return false;
    cp__table_insert(&ids->table, hash_id(id), (uint32_t)ids->n);
    ids->ids[ids->n++] = id;
    return true;
}

bool cp__ids_find(const struct cp__ids *ids, uint64_t id, uint32_t *i)
{
    const uint32_t hash = hash_id(id);
    size_t at = hash;

    while (cp__table_next(&ids->table, hash, &at, i))
        if (ids->ids[*i] == id)
            return true;
    return false;
}

void cp__ids_free(struct cp__ids *ids)
{
    free(ids->ids);
    free(ids->numbers);
    cp__table_free(&ids->table);
}

int cp__id_tables_fill(struct cp__id_tables *tables, const Cp__Proto__Profile *p)
{
    bool good = true;

    if (cp__ids_reserve(&tables->mappings, p->n_mapping) < 0 ||
        cp__ids_reserve(&tables->functions, p->n_function) < 0 ||
        cp__ids_reserve(&tables->locations, p->n_location) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < p->n_mapping && good; i++)
        good = cp__ids_add(&tables->mappings, p->mapping[i]->id);
    for (size_t i = 0; i < p->n_function && good; i++)
        good = cp__ids_add(&tables->functions, p->function[i]->id);
    for (size_t i = 0; i < p->n_location && good; i++)
        good = cp__ids_add(&tables->locations, p->location[i]->id);
    return good ? 0 : -EBADMSG;
}

void cp__id_tables_free(struct cp__id_tables *tables)
{
    cp__ids_free(&tables->mappings);
    cp__ids_free(&tables->functions);
    cp__ids_free(&tables->locations);
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static bool is_string(const Cp__Proto__Profile *p, int64_t number)
{
    return number >= 0 && (uint64_t)number < p->n_string_table;
}

static bool check_type(const Cp__Proto__Profile *p, const Cp__Proto__ValueType *type)
{
    return is_string(p, type->type) && is_string(p, type->unit);
}

static bool check_header(const Cp__Proto__Profile *p)
{
    bool good = p->n_string_table > 0 && p->string_table[0][0] == '\0' && p->n_sample_type > 0 &&
                is_string(p, p->default_sample_type) && is_string(p, p->drop_frames) &&
                is_string(p, p->keep_frames) && is_string(p, p->doc_url);

    for (size_t i = 0; i < p->n_sample_type && good; i++)
        good = check_type(p, p->sample_type[i]);
    for (size_t i = 0; i < p->n_comment && good; i++)
        good = is_string(p, p->comment[i]);
    return good && (p->period_type == NULL || check_type(p, p->period_type));
}

static bool check_mappings(const Cp__Proto__Profile *p)
{
    bool good = true;

    for (size_t i = 0; i < p->n_mapping && good; i++)
        good = is_string(p, p->mapping[i]->filename) && is_string(p, p->mapping[i]->build_id);
    return good;
}

static bool check_functions(const Cp__Proto__Profile *p)
{
    bool good = true;

    for (size_t i = 0; i < p->n_function && good; i++)
        good = is_string(p, p->function[i]->name) && is_string(p, p->function[i]->system_name) &&
               is_string(p, p->function[i]->filename);
    return good;
}

static bool check_locations(const Cp__Proto__Profile *p, const struct cp__id_tables *tables)
{
    uint32_t number;
    bool good = true;

    for (size_t i = 0; i < p->n_location && good; i++) {
        const Cp__Proto__Location *l = p->location[i];

        good = l->mapping_id == 0 || cp__ids_find(&tables->mappings, l->mapping_id, &number);
        for (size_t j = 0; j < l->n_line && good; j++)
            good = cp__ids_find(&tables->functions, l->line[j]->function_id, &number);
    }
    return good;
}

static bool check_samples(const Cp__Proto__Profile *p, const struct cp__id_tables *tables)
{
    uint32_t number;
    bool good = true;

    for (size_t i = 0; i < p->n_sample && good; i++) {
        const Cp__Proto__Sample *s = p->sample[i];

        good = s->n_value == p->n_sample_type;
        for (size_t j = 0; j < s->n_location_id && good; j++)
            good = cp__ids_find(&tables->locations, s->location_id[j], &number);
        for (size_t j = 0; j < s->n_label && good; j++)
            good = is_string(p, s->label[j]->key) && is_string(p, s->label[j]->str) &&
                   is_string(p, s->label[j]->num_unit);
    }
    return good;
}

static int check_references(const Cp__Proto__Profile *p)
{
    struct cp__id_tables tables = {0};
    int result = cp__id_tables_fill(&tables, p);

    if (result == 0 && !(check_header(p) && check_mappings(p) && check_functions(p) &&
                         check_locations(p, &tables) && check_samples(p, &tables)))
        result = -EBADMSG;
    cp__id_tables_free(&tables);
    return result;
}

/* Writes a sentence that says why a profile of size bytes is left out. */
static void explain_unpacking(int result, size_t size, size_t limit, struct cp_error *err)
{
    if (result == -EBADMSG)
        cp__error(
            err, result,
            "A profile to be merged cannot be read: its %zu bytes are not a profile in pprof's format, or "
            "are damaged. It was left out.",
            size);
    else if (result == -EFBIG)
        cp__error(
            err, result,
            "A profile to be merged is too large: its %zu bytes unpack to more than %zu, or take more than "
            "%zu bytes of memory. It was left out. Take a shorter profile, or merge with go tool pprof.",
            size, limit, limit * CP_MERGE_MEMORY_FACTOR);
    else
        cp__error(err, result, "There is not enough memory to merge a profile of %zu bytes.", size);
}

Cp__Proto__Profile *cp__merge_read(const void *data, size_t size, size_t limit, int *result,
                                   struct cp_error *err)
{
    Cp__Proto__Profile *p = unpack(data, size, limit, result);

    if (p != NULL)
        *result = check_references(p);
    if (*result == 0)
        return p;
    if (p != NULL)
        cp__proto__profile__free_unpacked(p, NULL);
    explain_unpacking(*result, size, limit, err);
    return NULL;
}
