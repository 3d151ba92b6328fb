/* Blocks of this processor cannot be measured yet. */
#include <errno.h>

#include "block/code.h"
#include "block/flow.h"
#include "runtime/base/fail.h"

int cp_block_open(struct cp_block **block, const struct cp_block_options *options, struct cp_error *err)
{
    (void)options;
    *block = NULL;
    return cp__error(err, -ENOSYS, "Blocks can be measured on x86-64 only, so far.");
}

void cp_block_close(struct cp_block *block)
{
    (void)block;
}

int cp_block_measure(struct cp_block *block, const void *code, size_t size, struct cp_block_result *result,
                     struct cp_error *err)
{
    (void)block, (void)code, (void)size, (void)result;
    return cp__error(err, -ENOSYS, "Blocks can be measured on x86-64 only, so far.");
}

void cp__code_print(FILE *out, const void *bytes, size_t size)
{
    (void)out, (void)bytes, (void)size;
}

bool cp__flow_decode(const void *bytes, size_t size, uint64_t address, struct cp__step *step)
{
    (void)bytes, (void)size, (void)address, (void)step;
    return false;
}
