/* Where an object's call-frame information is: in a segment, listed by .eh_frame_hdr or not, and in its
 * file. */
#include "file_linux.h"
#include "functions.h"
#include "image.h"
#include "reader.h"
#include "rows.h"
#include "runtime/base/sys_linux.h"

/* More is not read of what is listed here: .eh_frame takes a tenth of the code's size as a rule. */
#define MOST_BYTES(code) (65536 + 4 * (code))

struct information {
    struct cp__cfi_source source;
    struct cp__window segment; /* which contains .eh_frame */
    struct cp__section debug;  /* .debug_frame */
    bool has_list;             /* .eh_frame_hdr has a table of all functions */
    const uint8_t *frames;     /* .eh_frame, [frames, frames_end), in the window; NULL: there is none */
    const uint8_t *frames_end;
};

/* Opens the segment that contains an address, in the place of one that does not. */
static bool open_segment(const struct cp__image *image, uintptr_t address, struct information *information)
{
    struct cp__cfi_source *source = &information->source;
    struct cp__window *segment = &information->segment;

    if (address + segment->moved - (uintptr_t)segment->bytes >= segment->size) {
        cp__window_close(segment);
        information->frames = NULL;
        *segment = cp__window_open_segment(image, address);
    }
    source->moved = segment->moved;
    source->lo = source->hi = segment->bytes;
    if (segment->bytes == NULL)
        return false;
    source->hi += segment->size;
    return true;
}

/* Finds what .eh_frame_hdr says: where .eh_frame begins, and whether a table follows. */
static void find_frame_header(const struct cp__image *image, struct information *information)
{
    const ElfW(Phdr) *frames = cp__image_header(image, PT_GNU_EH_FRAME);
    const struct cp__cfi_source *source = &information->source;
    struct reader reader;
    uint8_t forms[4];
    uintptr_t at;

    if (frames == NULL || !open_segment(image, image->bias + frames->p_vaddr, information))
        return;
    information->source.header = (const uint8_t *)(image->bias + frames->p_vaddr + source->moved);
    information->source.header_end = source->hi;
    reader = (struct reader){.at = source->header, .end = source->hi};
    for (size_t i = 0; i < sizeof forms; i++)
        forms[i] = (uint8_t)read_fixed(&reader, 1);
    if (reader.is_bad || forms[0] != 1 || forms[1] == DW_EH_PE_omit)
        return;
    at = read_address(&reader, forms[1], source->header);
    information->has_list = forms[2] != DW_EH_PE_omit && forms[3] != DW_EH_PE_omit;
    if (!reader.is_bad && at - (uintptr_t)source->lo < (size_t)(source->hi - source->lo)) {
        information->frames = (const uint8_t *)at;
        information->frames_end = source->hi;
    }
}

/* Finds .eh_frame and .debug_frame in the object's file. */
static void find_sections(const struct cp__image *image, struct information *information)
{
    const size_t most = MOST_BYTES(image->hi - image->lo);
    struct cp__cfi_source *source = &information->source;
    ElfW(Shdr) section;
    uintptr_t at;
    int fd = image->mapping == NULL ? -1 : cp__file_open(image->mapping);

    if (fd < 0)
        return;
    if (!information->has_list && cp__file_find_section(fd, ".eh_frame", true, &section) &&
        open_segment(image, at = image->bias + section.sh_addr, information)) {
        information->frames = (const uint8_t *)(at + source->moved);
        information->frames_end = source->hi;
        if (section.sh_size < (size_t)(source->hi - information->frames))
            information->frames_end = information->frames + section.sh_size;
    }
    if (cp__file_find_section(fd, ".debug_frame", false, &section))
        information->debug = cp__file_read_section(fd, &section, most);
    cp__sys_close_from_handler(fd);
    source->debug_lo = information->debug.bytes;
    if (information->debug.bytes != NULL)
        source->debug_hi = information->debug.bytes + information->debug.size;
}

/* Makes the rows by a list of all functions that are described anywhere. */
static const struct cp__rows *make_by_own_list(struct information *information, bool *is_over_budget)
{
    struct cp__cfi_source *source = &information->source;
    const size_t most = MOST_BYTES(source->code_hi - source->code_lo);
    const uint8_t *lo = information->frames, *hi = information->frames_end;
    struct cp__functions functions;
    const struct cp__rows *rows = NULL;

    if ((size_t)(hi - lo) > most)
        hi = lo + most;
    functions = cp__functions_list(source, lo, hi);
    if (functions.list != NULL) {
        source->header = functions.list;
        source->header_end = functions.list + functions.size;
        rows = cp__rows_make(source, is_over_budget);
    }
    cp__functions_free(&functions);
    return rows;
}

const struct cp__rows *cp__image_rows(const struct cp__image *image, bool *is_over_budget)
{
    struct information information = {.segment = {.bytes = NULL}};
    struct cp__cfi_source *source = &information.source;
    const struct cp__rows *rows = NULL;

    *is_over_budget = false;
    find_frame_header(image, &information);
    find_sections(image, &information);
    source->code_lo = image->lo + source->moved;
    source->code_hi = image->hi + source->moved;
    source->bias = image->bias;
    source->may_vanish = image->may_vanish;
    if (information.has_list && information.debug.bytes == NULL)
        rows = cp__rows_make(source, is_over_budget);
    if (rows == NULL && !*is_over_budget)
        rows = make_by_own_list(&information, is_over_budget);
    cp__window_close(&information.segment);
    cp__section_free(&information.debug);
    return rows;
}
