/*
 * Which of the physical pages each page of a block is mapped to. A page that stores go to and one that loads
 * come from should not share a physical one if a load could wait for a store because of that.
 */
#ifndef COUNTERPOINT_BLOCK_APART_H
#define COUNTERPOINT_BLOCK_APART_H

#include <stdbool.h>
#include <stdint.h>

/* How many pages can be kept apart; what is known of more is forgotten. */
#define CP__APART_PAGES 256u

/* Pages are numbers here: addresses divided by the size of a page. */
struct cp__apart {
    unsigned physical; /* pages there are */
    unsigned n;
    uint64_t page[CP__APART_PAGES];
    uint8_t chosen[CP__APART_PAGES]; /* the physical page of each */
    bool is_apart[CP__APART_PAGES][CP__APART_PAGES];
};

/* Begins with one physical page, and no page that should be apart from another one. */
void cp__apart_begin(struct cp__apart *apart);
/* From the next choice on, both pages should be apart. */
void cp__apart_add(struct cp__apart *apart, uint64_t page, uint64_t other);
/* Chooses one of so many physical pages for each page that is known. */
void cp__apart_choose(struct cp__apart *apart, unsigned physical);
/* Returns the number of the physical page of any page. */
unsigned cp__apart_physical(const struct cp__apart *apart, uint64_t page);

#endif
