/* Records of perf_event_open(2) as bytes: each form of record, all places of a ring, and bytes that are no
 * record. */
#include "runtime/perf/record.h"

#include <string.h>

#include "tests/support/test.h"

#define ID 7
/* A ring of so many words. */
#define N_WORDS 64

struct ring {
    uint64_t words[N_WORDS];
    uint64_t head;
};

static void put_size(struct ring *ring, uint32_t type, uint16_t size, const uint64_t *words, size_t n)
{
    const struct perf_event_header header = {.type = type, .misc = 2, .size = size};
    uint64_t at = ring->head / sizeof(uint64_t);

    memcpy(&ring->words[at % N_WORDS], &header, sizeof header);
    for (size_t i = 0; i < n; i++)
        ring->words[(at + 1 + i) % N_WORDS] = words[i];
    ring->head += (n + 1) * sizeof(uint64_t);
}

static void put(struct ring *ring, uint32_t type, const uint64_t *words, size_t n)
{
    put_size(ring, type, (uint16_t)((n + 1) * sizeof(uint64_t)), words, n);
}

static struct cp__records records_from(const struct ring *ring, uint64_t tail)
{
    return (struct cp__records){.words = ring->words, .n_words = N_WORDS, .at = tail, .end = ring->head};
}

/* Reads the ring's only record, whose number and misc bits are as put_size() has written them. */
static struct cp__record only_record(const struct ring *ring, struct cp__records *records)
{
    struct cp__record record, other;

    *records = records_from(ring, 0);
    CHECK(cp__record_next_from_handler(records, &record));
    CHECK_EQ(record.misc, 2);
    CHECK_EQ(record.position, 0);
    CHECK(!cp__record_next_from_handler(records, &other));
    CHECK_EQ(records->at, records->end);
    return record;
}

/* ---- The forms of records -------------------------------------------------------------------- */

CP_TEST(records_name_their_event)
{
    static const struct {
        uint32_t type;
        uint64_t words[4];
        size_t n;
        uint64_t id;
    } cases[] = {
        {PERF_RECORD_SAMPLE, {ID, 1, 2, 3}, 4, ID},
        {PERF_RECORD_LOST, {ID, 99}, 2, ID},
        {PERF_RECORD_THROTTLE, {12345, ID, ID + 1}, 3, ID}, /* the stream has another number */
        {PERF_RECORD_UNTHROTTLE, {12345, ID, ID + 1}, 3, ID},
        {PERF_RECORD_LOST_SAMPLES, {99}, 1, 0},
        {PERF_RECORD_EXIT, {1, 2, 3}, 3, 0},
        /* cut short */
        {PERF_RECORD_SAMPLE, {0}, 0, 0},
        {PERF_RECORD_LOST, {ID}, 1, 0},
        {PERF_RECORD_THROTTLE, {12345, ID}, 2, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ring ring = {.head = 0};
        struct cp__records records;
        struct cp__record record;

        put(&ring, cases[i].type, cases[i].words, cases[i].n);
        record = only_record(&ring, &records);
        CHECK_EQ(record.type, cases[i].type);
        CHECKF(record.id == cases[i].id, "case %zu: %llu", i, (unsigned long long)record.id);
    }
}

CP_TEST(losses_and_times_are_read)
{
    struct ring lost = {.head = 0}, throttle = {.head = 0};
    struct cp__records records;
    struct cp__record record;

    put(&lost, PERF_RECORD_LOST, (const uint64_t[]){ID, 99}, 2);
    record = only_record(&lost, &records);
    CHECK_EQ(cp__record_lost_from_handler(&record), 99);
    put(&throttle, PERF_RECORD_THROTTLE, (const uint64_t[]){12345, ID, ID}, 3);
    record = only_record(&throttle, &records);
    CHECK_EQ(cp__record_time_from_handler(&record), 12345);
}

/* ---- Samples --------------------------------------------------------------------------------- */

/* Each part that an event can be asked for; bit number i of a combination asks for parts[i]. */
static const uint64_t parts[] = {PERF_SAMPLE_IP, PERF_SAMPLE_ADDR, PERF_SAMPLE_READ, PERF_SAMPLE_CALLCHAIN,
                                 PERF_SAMPLE_REGS_USER};
#define N_PARTS (sizeof parts / sizeof parts[0])

static uint64_t type_of(unsigned combination)
{
    uint64_t type = PERF_SAMPLE_IDENTIFIER;

    for (size_t i = 0; i < N_PARTS; i++)
        type |= (combination >> i & 1) != 0 ? parts[i] : 0;
    return type;
}

/* Writes a sample's words as perf_event_open(2) orders them; returns how many. */
static size_t write_sample(uint64_t type, uint64_t *words)
{
    size_t n = 0;

    words[n++] = ID;
    if ((type & PERF_SAMPLE_IP) != 0)
        words[n++] = 0x1111;
    if ((type & PERF_SAMPLE_ADDR) != 0)
        words[n++] = 0x2222;
    if ((type & PERF_SAMPLE_READ) != 0)
        for (uint64_t i = 0; i < (cp__perf_has_lost_count ? 4 : 3); i++)
            words[n++] = 100 + i;
    if ((type & PERF_SAMPLE_CALLCHAIN) != 0)
        for (uint64_t i = 0; i < 4; i++)
            words[n++] = i == 0 ? 3 : 0x3330 + i;
    if ((type & PERF_SAMPLE_REGS_USER) != 0) {
        words[n++] = PERF_SAMPLE_REGS_ABI_64;
        words[n++] = 0x7777;
        words[n++] = 0x8888;
    }
    return n;
}

static void check_sample(const struct cp__record *record, uint64_t type,
                         const struct cp__record_sample *sample)
{
    const struct cp__record_layout layout = cp__record_layout_from_handler(type);
    bool has_count = (type & PERF_SAMPLE_READ) != 0;

    CHECK_EQ(cp__record_part_from_handler(record, layout.ip), (type & PERF_SAMPLE_IP) != 0 ? 0x1111 : 0);
    CHECK_EQ(cp__record_part_from_handler(record, layout.addr), (type & PERF_SAMPLE_ADDR) != 0 ? 0x2222 : 0);
    CHECK_EQ(sample->count.value, has_count ? 100 : 0);
    CHECK_EQ(sample->count.time_enabled, has_count ? 101 : 0);
    CHECK_EQ(sample->count.time_running, has_count ? 102 : 0);
    CHECK_EQ(sample->count.lost, has_count && cp__perf_has_lost_count ? 103 : 0);
    CHECK_EQ(sample->n_chain, (type & PERF_SAMPLE_CALLCHAIN) != 0 ? 3 : 0);
    for (size_t i = 0; i < sample->n_chain; i++)
        CHECK_EQ(cp__record_word_from_handler(record, sample->chain + i), 0x3331 + i);
    CHECK_EQ(sample->has_user_pc, (type & PERF_SAMPLE_REGS_USER) != 0);
    CHECK_EQ(sample->user_sp, sample->has_user_pc ? 0x7777 : 0);
    CHECK_EQ(sample->user_pc, sample->has_user_pc ? 0x8888 : 0);
}

static bool reads(const struct cp__record *record, uint64_t type, struct cp__record_sample *sample)
{
    const struct cp__record_layout layout = cp__record_layout_from_handler(type);

    return cp__record_sample_from_handler(record, &layout, sample);
}

static void check_combination(uint64_t type)
{
    struct ring ring = {.head = 0};
    struct cp__record_sample sample;
    struct cp__records records;
    struct cp__record record;
    uint64_t words[N_WORDS];

    put(&ring, PERF_RECORD_SAMPLE, words, write_sample(type, words));
    record = only_record(&ring, &records);
    CHECK(reads(&record, type, &sample));
    check_sample(&record, type, &sample);
}

/* Kernels before 6.0 do not write how many records were lost. */
CP_TEST(each_combination_of_parts_is_read)
{
    for (unsigned combination = 0; combination < 1u << N_PARTS; combination++) {
        cp__perf_has_lost_count = false;
        check_combination(type_of(combination));
        cp__perf_has_lost_count = true;
        check_combination(type_of(combination));
    }
}

/* In a kernel thread, or in a 32-bit program, the kernel may have found no registers. */
CP_TEST(a_sample_may_lack_registers)
{
    struct ring ring = {.head = 0};
    struct cp__record_sample sample;
    struct cp__records records;
    struct cp__record record;

    put(&ring, PERF_RECORD_SAMPLE, (const uint64_t[]){ID, PERF_SAMPLE_REGS_ABI_NONE}, 2);
    record = only_record(&ring, &records);
    CHECK(reads(&record, PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_REGS_USER, &sample));
    CHECK(!sample.has_user_pc);
}

/* Each length of a record but the right one is refused, and so is a chain that goes beyond the record. */
CP_TEST(a_sample_of_another_length_is_refused)
{
    const uint64_t type = type_of((1u << N_PARTS) - 1);
    static const uint64_t lengths[] = {4,         17, N_WORDS, UINT32_MAX, UINT64_MAX / 8, UINT64_MAX - 5,
                                       UINT64_MAX};
    uint64_t words[N_WORDS] = {0};
    size_t n;

    cp__perf_has_lost_count = true;
    n = write_sample(type, words);
    for (size_t length = 1; length < n + 4; length++) {
        struct ring ring = {.head = 0};
        struct cp__record_sample sample;
        struct cp__records records;
        struct cp__record record;

        put(&ring, PERF_RECORD_SAMPLE, words, length);
        record = only_record(&ring, &records);
        CHECKF(reads(&record, type, &sample) == (length == n), "%zu words", length);
    }
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct ring ring = {.head = 0};
        struct cp__record_sample sample;
        struct cp__records records;
        struct cp__record record;

        words[7] = lengths[i];
        put(&ring, PERF_RECORD_SAMPLE, words, n);
        record = only_record(&ring, &records);
        CHECKF(!reads(&record, type, &sample), "a chain of %llu", (unsigned long long)lengths[i]);
    }
}

/* ---- The ring -------------------------------------------------------------------------------- */

/* Records of all lengths end at all places of the ring. */
CP_TEST(records_go_on_at_the_rings_begin)
{
    struct ring ring = {.head = 0};

    for (unsigned i = 0; i < 1000; i++) {
        uint64_t words[N_WORDS] = {ID}, tail = ring.head;
        size_t n = 1 + i % (N_WORDS / 2 - 1);
        struct cp__records records;
        struct cp__record record;

        for (size_t w = 1; w < n; w++)
            words[w] = 1000 * i + w;
        put(&ring, PERF_RECORD_SAMPLE, words, n);
        put(&ring, PERF_RECORD_LOST, (const uint64_t[]){ID, i}, 2);
        records = records_from(&ring, tail);
        CHECK(cp__record_next_from_handler(&records, &record));
        CHECK_EQ(record.n_words, n + 1);
        for (size_t w = 1; w < n; w++)
            CHECK_EQ(cp__record_word_from_handler(&record, 1 + w), 1000 * i + w);
        CHECK(cp__record_next_from_handler(&records, &record));
        CHECK_EQ(cp__record_lost_from_handler(&record), i);
        CHECK(!cp__record_next_from_handler(&records, &record));
        CHECK_EQ(records.at, ring.head);
    }
}

/* What is left when reading ends tells that bytes were no record. */
CP_TEST(bytes_that_are_no_record_end_the_reading)
{
    static const uint16_t sizes[] = {0, 4, 7, 9, 25, 32, 4096, UINT16_MAX};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct ring ring = {.head = 0};
        struct cp__records records;
        struct cp__record record;

        put(&ring, PERF_RECORD_LOST, (const uint64_t[]){ID, 1}, 2);
        put_size(&ring, PERF_RECORD_LOST, sizes[i], (const uint64_t[]){ID, 1}, 2);
        records = records_from(&ring, 0);
        CHECK(cp__record_next_from_handler(&records, &record));
        CHECKF(!cp__record_next_from_handler(&records, &record), "a record of %u bytes", sizes[i]);
        CHECK_EQ(records.end - records.at, 24);
    }
}

/* The positions are in memory that the program can write to. Reading ends in any case, and reads no word
 * outside the ring. */
CP_TEST(more_bytes_than_the_ring_has_are_no_record)
{
    static const uint64_t lengths[] = {sizeof(uint64_t) * N_WORDS + 8, 1ull << 32, UINT64_MAX - 7,
                                       UINT64_MAX};
    struct cp__record record;

    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct ring ring = {.head = 0};
        struct cp__records records;

        put(&ring, PERF_RECORD_LOST, (const uint64_t[]){ID, 1}, 2);
        records = records_from(&ring, 0);
        records.end = lengths[i];
        CHECKF(!cp__record_next_from_handler(&records, &record), "%llu bytes",
               (unsigned long long)lengths[i]);
        CHECK_EQ(records.at, 0);
    }
}

/* Each word is any number. Records then have all types and lengths, and name any event. */
CP_TEST(any_bytes_are_read_to_an_end)
{
    static const uint64_t type =
        PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_READ | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER;
    const struct cp__record_layout layout = cp__record_layout_from_handler(type);
    struct cp__record_sample sample;
    struct cp__record record;
    uint64_t random = 88172645463325252, read = 0;

    for (unsigned i = 0; i < 20000; i++) {
        struct ring ring = {.head = (i % (N_WORDS + 1)) * sizeof(uint64_t)};
        struct cp__records records = records_from(&ring, 0);

        for (unsigned w = 0; w < N_WORDS; w++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            /* most words are headers of short records */
            ring.words[w] = random % 4 != 0 ? random & 0x003f00070000000full : random;
        }
        for (uint64_t at = 0; cp__record_next_from_handler(&records, &record); at = records.at) {
            CHECK(record.position == at && records.at == at + record.n_words * sizeof(uint64_t));
            CHECK(records.at <= records.end);
            if (cp__record_sample_from_handler(&record, &layout, &sample))
                CHECK(sample.n_chain == 0 || sample.chain + sample.n_chain <= record.n_words);
            read++;
        }
    }
    CHECK(read > 1000);
}
