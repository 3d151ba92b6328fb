/* See apart.h. */
#include "apart.h"

#include <string.h>

#define NOT_CHOSEN 0xffu

void cp__apart_begin(struct cp__apart *apart)
{
    apart->physical = 1;
    apart->n = 0;
}

/* Returns the place in the table; n: the page is not there. */
static unsigned find_page(const struct cp__apart *apart, uint64_t page)
{
    unsigned i = 0;

    while (i < apart->n && apart->page[i] != page)
        i++;
    return i;
}

static unsigned take_page(struct cp__apart *apart, uint64_t page)
{
    const unsigned i = find_page(apart, page);

    if (i == CP__APART_PAGES || i < apart->n)
        return i;
    apart->page[i] = page;
    apart->chosen[i] = (uint8_t)(page % apart->physical);
    for (unsigned k = 0; k <= i; k++)
        apart->is_apart[i][k] = apart->is_apart[k][i] = false;
    apart->n++;
    return i;
}

void cp__apart_add(struct cp__apart *apart, uint64_t page, uint64_t other)
{
    const unsigned i = take_page(apart, page), k = take_page(apart, other);

    if (i < CP__APART_PAGES && k < CP__APART_PAGES && i != k)
        apart->is_apart[i][k] = apart->is_apart[k][i] = true;
}

static unsigned count_others(const struct cp__apart *apart, unsigned i)
{
    unsigned n = 0;

    for (unsigned k = 0; k < apart->n; k++)
        n += apart->is_apart[i][k];
    return n;
}

/* The first physical page that none of the others has that were chosen; any if there is none. */
static unsigned choose_page(const struct cp__apart *apart, unsigned i)
{
    for (unsigned physical = 0; physical < apart->physical; physical++) {
        bool is_free = true;

        for (unsigned k = 0; k < apart->n; k++)
            is_free = is_free && !(apart->is_apart[i][k] && apart->chosen[k] == physical);
        if (is_free)
            return physical;
    }
    return (unsigned)(apart->page[i] % apart->physical);
}

/* Pages that should be apart from the most others have the first choice. */
void cp__apart_choose(struct cp__apart *apart, unsigned physical)
{
    apart->physical = physical;
    memset(apart->chosen, NOT_CHOSEN, sizeof apart->chosen);
    for (unsigned round = 0; round < apart->n; round++) {
        unsigned next = apart->n, most = 0;

        for (unsigned i = 0; i < apart->n; i++) {
            const unsigned others = apart->chosen[i] == NOT_CHOSEN ? count_others(apart, i) + 1 : 0;

            if (others > most) {
                most = others;
                next = i;
            }
        }
        apart->chosen[next] = (uint8_t)choose_page(apart, next);
    }
}

unsigned cp__apart_physical(const struct cp__apart *apart, uint64_t page)
{
    const unsigned i = apart->physical == 1 ? apart->n : find_page(apart, page);

    return i < apart->n ? apart->chosen[i] : (unsigned)(page % apart->physical);
}
