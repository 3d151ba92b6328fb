/* Instructions with their values, as go tool pprof -disasm prints them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"

/* A symbol that a routine's instructions are in. */
struct piece {
    struct code *code;
    struct code_symbol symbol;
    struct instruction *instructions;
    size_t n;
    int64_t flat, cum;
};

/* ---- Files ----------------------------------------------------------------------------------- */

static bool is_same_file(const struct profile_mapping *a, const struct profile_mapping *b)
{
    return strcmp(a->file, b->file) == 0 && strcmp(a->build_id, b->build_id) == 0;
}

/* Opens the file of a mapping, once: an object has several mappings, and a merged profile has several
 * processes. */
static struct opened *open_mapping(struct listing *listing, const struct profile_mapping *mapping)
{
    const struct profile_mapping *mappings = listing->view->profile->mappings;
    size_t index = (size_t)(mapping - mappings);
    struct opened *opened = &listing->opened[index];

    for (size_t i = 0; i < index && !opened->is_tried; i++) {
        if (listing->opened[i].is_tried && is_same_file(&mappings[i], mapping)) {
            *opened = listing->opened[i];
            opened->is_shared = true;
        }
    }
    if (!opened->is_tried)
        opened->code = code_open(mapping, &opened->err);
    opened->is_tried = true;
    return opened;
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

/* Returns where in the piece a location is; NULL: elsewhere. */
static struct instruction *instruction_of(struct listing *listing, const struct piece *piece,
                                          const struct profile_location *location)
{
    size_t low = 0, high = piece->n;
    uint64_t address;

    if (location->mapping == NULL || location->address == 0 ||
        open_mapping(listing, location->mapping)->code != piece->code ||
        !code_address(piece->code, location->mapping, location->address, &address) ||
        address < piece->symbol.start || address >= piece->symbol.end)
        return NULL;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (piece->instructions[middle].address <= address)
            low = middle;
        else
            high = middle;
    }
    return &piece->instructions[low];
}

/* Gives the instructions their values. The address of a caller is in its call: the byte before the one that
 * the call returns to. */
static void count_piece(struct listing *listing, struct piece *piece)
{
    const struct profile *profile = listing->view->profile;
    struct instruction **instructions =
        arena_array(&listing->arena, profile->n_locations, sizeof *instructions);

    for (size_t i = 0; i < profile->n_locations; i++)
        instructions[i] = instruction_of(listing, piece, &profile->locations[i]);
    for (size_t i = 0; i < profile->n_samples; i++) {
        const struct profile_sample *sample = &profile->samples[i];
        const int64_t value = sample->values[listing->view->type];
        bool is_counted = false;

        for (size_t j = 0; j < sample->n_locations; j++) {
            struct instruction *found = instructions[sample->locations[j] - profile->locations];

            if (found == NULL)
                continue;
            found->flat += j == 0 ? value : 0;
            found->cum += found->seen != i + 1 ? value : 0;
            found->seen = i + 1;
            piece->flat += j == 0 ? value : 0;
            piece->cum += is_counted ? 0 : value;
            is_counted = true;
        }
    }
}

/* Prints an instruction, and the line that it is of if that is another one than that of the one before. */
static void print_instruction(const struct listing *listing, const struct piece *piece,
                              const struct instruction *instruction, char *place, size_t size)
{
    int line = 0;
    const char *file = code_line(piece->code, instruction->address, &line);
    const char *slash = file != NULL ? strrchr(file, '/') : NULL;
    char now[256] = "";

    if (file != NULL)
        snprintf(now, sizeof now, "%s:%d", slash != NULL ? slash + 1 : file, line);
    print_values(listing, instruction->flat, instruction->cum);
    if (now[0] != '\0' && strcmp(now, place) != 0)
        fprintf(listing->out, "%10" PRIx64 ": %-40s ; %s\n", instruction->address, instruction->text, now);
    else
        fprintf(listing->out, "%10" PRIx64 ": %s\n", instruction->address, instruction->text);
    snprintf(place, size, "%s", now);
}

static void print_piece(struct listing *listing, struct piece *piece)
{
    struct cp_error err;
    char place[256] = "";

    if (code_disassemble(piece->code, &piece->symbol, &listing->arena, &piece->instructions, &piece->n,
                         &err) < 0) {
        fprintf(listing->out, " Instructions of %s cannot be shown: %s\n", piece->symbol.name, err.message);
        return;
    }
    count_piece(listing, piece);
    print_routine_title(listing, "INSTRUCTIONS", piece->symbol.name, code_file(piece->code), piece->flat,
                        piece->cum);
    if (!code_is_sure(piece->code))
        fputs(" The profile or the file has no build id: nobody can tell whether this is what ran.\n",
              listing->out);
    for (size_t i = 0; i < piece->n; i++)
        print_instruction(listing, piece, &piece->instructions[i], place, sizeof place);
}

/* ---- A routine ------------------------------------------------------------------------------- */

/* What was found for a routine. */
struct pieces {
    struct piece *list;
    size_t n, room;
    const char **said; /* why something is missing, and what the routine was inlined in */
    size_t n_said, said_room;
};

/* Remembers a text. Returns false if it was remembered before. */
static bool say_once(struct pieces *pieces, const char *text)
{
    for (size_t i = 0; i < pieces->n_said; i++) {
        if (strcmp(pieces->said[i], text) == 0)
            return false;
    }
    pieces->said = grow_array(pieces->said, pieces->n_said, &pieces->said_room, sizeof *pieces->said);
    pieces->said[pieces->n_said++] = text;
    return true;
}

static void add_piece(struct pieces *pieces, struct code *code, const struct code_symbol *symbol)
{
    for (size_t i = 0; i < pieces->n; i++) {
        if (pieces->list[i].code == code && pieces->list[i].symbol.start == symbol->start)
            return;
    }
    pieces->list = grow_array(pieces->list, pieces->n, &pieces->room, sizeof *pieces->list);
    pieces->list[pieces->n++] = (struct piece){.code = code, .symbol = *symbol};
}

/* Adds the symbol of a location that is the routine's own code, or says why there is none. */
static void add_location(struct listing *listing, struct pieces *pieces,
                         const struct profile_location *location)
{
    struct opened *opened = location->mapping != NULL ? open_mapping(listing, location->mapping) : NULL;
    struct code_symbol symbol;
    const char *why = NULL;
    uint64_t address;

    if (opened == NULL || location->address == 0)
        why = "the profile does not say where they are.";
    else if (opened->code == NULL)
        why = opened->err.message;
    else if (!code_address(opened->code, location->mapping, location->address, &address))
        why = arena_print(&listing->arena, "0x%" PRIx64 " is in no segment of %s.", location->address,
                          location->mapping->file);
    else if (!code_symbol(opened->code, address, &symbol))
        why = arena_print(&listing->arena,
                          "%s has no symbol there, and no debug file of it is on this machine.",
                          location->mapping->file);
    else
        add_piece(pieces, opened->code, &symbol);
    if (why != NULL && say_once(pieces, why))
        fprintf(listing->out, " Instructions cannot be shown: %s\n", why);
}

/* Returns whether the routine is one of the inlined functions of a location. */
static bool is_inlined_at(const struct listing *listing, const struct routine *routine,
                          const struct profile_location *location)
{
    for (size_t i = 0; i + 1 < location->n_lines; i++) {
        if (listing->routine_of[location->lines[i].function - listing->view->profile->functions] == routine)
            return true;
    }
    return false;
}

static void find_pieces(struct listing *listing, const struct routine *routine, struct pieces *pieces)
{
    const struct profile *profile = listing->view->profile;

    for (size_t i = 0; i < profile->n_locations; i++) {
        const struct profile_location *location = &profile->locations[i];
        const struct profile_function *outer =
            location->n_lines > 0 ? location->lines[location->n_lines - 1].function : NULL;

        if (outer != NULL && listing->routine_of[outer - profile->functions] == routine)
            add_location(listing, pieces, location);
        else if (outer != NULL && is_inlined_at(listing, routine, location) && say_once(pieces, outer->name))
            fprintf(listing->out, " The function was inlined in %s, which has its instructions.\n",
                    outer->name);
    }
}

void print_instructions(struct listing *listing, const struct routine *routine)
{
    struct pieces pieces = {0};

    find_pieces(listing, routine, &pieces);
    for (size_t i = 0; i < pieces.n; i++)
        print_piece(listing, &pieces.list[i]);
    free(pieces.list);
    free(pieces.said);
}
