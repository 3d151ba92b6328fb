/*
 * Reads a jitdump file: a header, and records in the order in which code was made, moved or described. Each
 * record begins with its type, its size and its time.
 *
 * The last record before the end of the profile that claims an address counts, because code may be thrown
 * away and other code take its place. A record that code was moved does not have the code's name. So if
 * such a record counts, the file is read again, for the record that the code was loaded. The lines of code
 * are in a record before the one that the code was loaded.
 *
 * A compiler may write meanwhile, or have been killed: the file counts up to the first record that makes no
 * sense.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jit.h"
#include "runtime/base/table.h"

enum { MAGIC = 0x4A695444, ARCH_TIMESTAMP = 1 };

/* V8 and LLVM add the size of an ELF header to the addresses of lines, because perf inject puts the code
 * behind one. V8 can be told by this value of the header's unused word, and LLVM by the first line, which
 * is that of the beginning of the code. */
enum { V8_PAD = 0xDEADBEEF, SHIFT = 0x40 };

enum record_type { CODE_LOAD, CODE_MOVE, CODE_DEBUG_INFO };

struct dump_header {
    uint32_t magic, version, total_size, elf_mach, pad, pid;
    uint64_t timestamp, flags;
};

struct record_header {
    uint32_t type, total_size;
    uint64_t timestamp;
};

struct record_load {
    uint32_t pid, tid;
    uint64_t vma, address, size, index; /* then the name, and the code */
};

struct record_move {
    uint32_t pid, tid;
    uint64_t vma, old_address, address, size, index;
};

struct record_lines {
    uint64_t address, n; /* then n times struct line and the name of a file */
};

struct line {
    uint64_t address;
    uint32_t line, column;
};

/* The walk over a file's records. */
struct records {
    FILE *file;
    uint64_t at, end; /* the bytes of the record, without its header */
    struct record_header header;
    bool has_times; /* of CLOCK_MONOTONIC */
    bool is_of_v8;
};

/* ---- The walk -------------------------------------------------------------------------------- */

static bool is_read(FILE *file, void *to, size_t size)
{
    return fread_unlocked(to, size, 1, file) == 1;
}

static bool begin_records(struct records *records, FILE *file)
{
    struct dump_header header;

    *records = (struct records){.file = file};
    if (fseeko(file, 0, SEEK_SET) != 0 || !is_read(file, &header, sizeof header) || header.magic != MAGIC ||
        header.total_size < sizeof header)
        return false;
    records->has_times = (header.flags & ARCH_TIMESTAMP) == 0;
    records->is_of_v8 = header.pad == V8_PAD;
    records->end = header.total_size;
    return true;
}

/* Goes to the next record. */
static bool next_record(struct records *records)
{
    if (fseeko(records->file, (off_t)records->end, SEEK_SET) != 0 ||
        !is_read(records->file, &records->header, sizeof records->header) ||
        records->header.total_size < sizeof records->header)
        return false;
    records->at = records->end + sizeof records->header;
    records->end += records->header.total_size;
    return true;
}

/* Reads the fixed part of a record. */
static bool read_record(const struct records *records, enum record_type type, void *to, size_t size)
{
    return records->header.type == type && records->end - records->at >= size &&
           is_read(records->file, to, size);
}

/* Reads a string that ends before "end", and goes behind it. The rest of a long one is dropped. Returns false
 * if the string does not end. */
static bool read_string(FILE *file, uint64_t *at, uint64_t end, char text[CP__JIT_NAME])
{
    size_t n = 0;
    int c;

    while (*at < end && (c = getc_unlocked(file)) != EOF) {
        ++*at;
        text[n] = (char)c;
        if (c == 0)
            return true;
        n += n < CP__JIT_NAME - 1;
    }
    text[0] = '\0';
    return false;
}

/* ---- Who has an address ---------------------------------------------------------------------- */

/* Notes that the code of a hit is at "size" bytes from its start on. */
static void claim_code(struct cp__jit_search *search, const struct cp__jit_hit *hit, uint64_t size)
{
    size_t i, end;

    if (cp__jit_find(search, hit->start, size, &i, &end))
        for (; i < end; i++)
            if (search->hits[i].at == 0 || hit->stamp >= search->hits[i].stamp)
                search->hits[i] = *hit;
}

/* The last record with lines. */
struct lines_before {
    uint64_t at;
    uint64_t address; /* of the code */
};

/* Reads the fixed part of a record that code was loaded into *load, and what it says into *hit. */
static bool read_load(const struct records *records, struct lines_before *lines, struct record_load *load,
                      struct cp__jit_hit *hit)
{
    struct record_lines described;

    if (read_record(records, CODE_DEBUG_INFO, &described, sizeof described))
        *lines = (struct lines_before){records->at, described.address};
    if (!read_record(records, CODE_LOAD, load, sizeof *load))
        return false;
    *hit = (struct cp__jit_hit){.at = records->at + 1,
                                .start = load->address,
                                .stamp = records->header.timestamp,
                                .index = load->index,
                                .origin = load->address,
                                .lines_at = lines->address == load->address ? lines->at : 0};
    *lines = (struct lines_before){0};
    return true;
}

/* Finds the records that have the addresses. Returns whether code was moved there. */
static bool scan_records(struct cp__jit_search *search, struct records *records)
{
    struct lines_before lines = {0};
    struct record_load load;
    struct record_move move;
    struct cp__jit_hit hit;
    bool is_any_moved = false;

    while (next_record(records)) {
        if (records->has_times && search->ended_ns != 0 &&
            records->header.timestamp > (uint64_t)search->ended_ns)
            continue;
        if (read_load(records, &lines, &load, &hit)) {
            claim_code(search, &hit, load.size);
        } else if (read_record(records, CODE_MOVE, &move, sizeof move)) {
            hit = (struct cp__jit_hit){.at = records->at + 1,
                                       .start = move.address,
                                       .stamp = records->header.timestamp,
                                       .index = move.index,
                                       .is_moved = true};
            claim_code(search, &hit, move.size);
            is_any_moved = true;
        }
    }
    return is_any_moved;
}

/* ---- Moved code ------------------------------------------------------------------------------ */

struct moved {
    uint64_t index;
    size_t hit;
};

static int compare_moved(const void *left, const void *right)
{
    const struct moved *a = left, *b = right;

    return a->index < b->index ? -1 : a->index > b->index;
}

/* Gives the hits with that index what the record that the code was loaded says. */
static void take_loaded(struct cp__jit_search *search, const struct moved *moved, size_t n,
                        const struct cp__jit_hit *loaded)
{
    size_t first = CP__COUNT_BEFORE(n, i, moved[i].index < loaded->index);

    for (; first < n && moved[first].index == loaded->index; first++) {
        struct cp__jit_hit *hit = &search->hits[moved[first].hit];

        hit->at = loaded->at;
        hit->origin = loaded->origin;
        hit->lines_at = loaded->lines_at;
        hit->is_moved = false;
    }
}

/* Finds the names of the hits that are code that was moved. */
static int scan_for_moved(struct cp__jit_search *search, struct records *records)
{
    struct moved *moved = malloc(search->n * sizeof *moved);
    struct lines_before lines = {0};
    struct record_load load;
    struct cp__jit_hit hit;
    size_t n = 0;

    if (moved == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < search->n; i++)
        if (search->hits[i].is_moved)
            moved[n++] = (struct moved){search->hits[i].index, i};
    qsort(moved, n, sizeof *moved, compare_moved);
    while (next_record(records))
        if (read_load(records, &lines, &load, &hit))
            take_loaded(search, moved, n, &hit);
    free(moved);
    for (size_t i = 0; i < search->n; i++)
        if (search->hits[i].is_moved)
            search->hits[i].at = 0; /* nothing names the code */
    return 0;
}

int cp__jit_dump_scan(struct cp__jit_search *search)
{
    struct records records;

    if (!begin_records(&records, search->file) || !scan_records(search, &records) ||
        !begin_records(&records, search->file))
        return 0;
    return scan_for_moved(search, &records);
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* Finds the record whose bytes begin there, and what follows its fixed part. */
static bool find_record(struct records *records, const struct cp__jit_search *search, uint64_t at)
{
    if (!begin_records(records, search->file))
        return false;
    records->end = at - sizeof records->header;
    return next_record(records);
}

static void answer_name(const struct cp__jit_search *search, uint64_t at, struct cp__jit_answer *answer)
{
    struct records records;
    struct record_load load;

    if (!find_record(&records, search, at) || !read_record(&records, CODE_LOAD, &load, sizeof load))
        return;
    records.at += sizeof load;
    read_string(records.file, &records.at, records.end, answer->name);
}

/* Reads a line, and its file unless that is the file of the line before. Returns false if there is no more,
 * or what there is makes no sense: V8 of 2023 has written bytes of an object for the names of some files. */
static bool read_line_of(struct records *records, struct line *line, char file[CP__JIT_NAME])
{
    static const char same[] = "\xff";
    char name[CP__JIT_NAME];

    if (records->end - records->at < sizeof *line || !is_read(records->file, line, sizeof *line))
        return false;
    records->at += sizeof *line;
    if (!read_string(records->file, &records->at, records->end, name) || name[0] == '\0')
        return false;
    for (const char *at = name; *at != '\0'; at++)
        if ((unsigned char)*at < ' ')
            return false;
    if (strcmp(name, same) != 0)
        strcpy(file, name);
    return true;
}

/* Finds the last line that begins at or before an address. Stores nothing if any line of the record makes no
 * sense. */
static void answer_jit_line(const struct cp__jit_search *search, uint64_t at, uint64_t address,
                            struct cp__jit_answer *answer)
{
    char file[CP__JIT_NAME] = "";
    struct records records;
    struct record_lines lines;
    struct line line;
    uint64_t best = 0, shift = 0;
    bool is_first = true;

    if (!find_record(&records, search, at) || !read_record(&records, CODE_DEBUG_INFO, &lines, sizeof lines))
        return;
    records.at += sizeof lines;
    for (; lines.n > 0; lines.n--) {
        if (!read_line_of(&records, &line, file)) {
            answer->file[0] = '\0';
            answer->line = 0;
            return;
        }
        if (is_first && (records.is_of_v8 || line.address == lines.address + SHIFT))
            shift = SHIFT;
        is_first = false;
        line.address -= shift;
        if (line.address > address || line.address < best)
            continue;
        best = line.address;
        answer->line = line.line;
        strcpy(answer->file, file);
    }
}

void cp__jit_dump_answer(const struct cp__jit_search *search, size_t i, struct cp__jit_answer *answer)
{
    const struct cp__jit_hit *hit = &search->hits[i];

    answer->name[0] = answer->file[0] = '\0';
    answer->line = 0;
    answer_name(search, hit->at - 1, answer);
    if (hit->lines_at != 0)
        answer_jit_line(search, hit->lines_at, search->addresses[i] - hit->start + hit->origin, answer);
}
