#include "server_work.h"

#include "sched.h"

#include <string.h>

/* ---- Text ------------------------------------------------------------------------------------ */

static void put_text(struct work *w, const char *text)
{
    size_t n = strlen(text);
    if (n > sizeof(w->text) - w->size)
        n = sizeof(w->text) - w->size;
    memcpy(w->text + w->size, text, n);
    w->size += n;
}

static void put_number(struct work *w, uint64_t number)
{
    char digits[21], *p = digits + sizeof(digits) - 1;
    *p = 0;
    do
        *--p = (char)('0' + number % 10);
    while (number /= 10);
    put_text(w, p);
}

static uint32_t next_random(uint32_t random)
{
    return random * 1664525 + 1013904223;
}

/* ---- /hash ----------------------------------------------------------------------------------- */

/* The work functions are not inlined, so that a profile shows each of them on a line of its own. */
__attribute__((noinline)) static uint32_t checksum(uint32_t sum, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        sum = (sum ^ (i & 0xff)) * 16777619;
    return sum;
}

void work_hash(struct work *w, unsigned n)
{
    const uint32_t piece = 65536;
    uint32_t sum = 2166136261;
    for (uint32_t i = 0; i < n; i += piece) {
        sum = checksum(sum, i, n - i < piece ? n : i + piece);
        /* a green thread keeps its thread until it waits or yields, and others need the thread too */
        cp_yield();
    }
    put_number(w, sum);
    put_text(w, "\n");
}

/* ---- /sort ----------------------------------------------------------------------------------- */

__attribute__((noinline)) static void sift_down(uint32_t *heap, unsigned i, unsigned n)
{
    uint32_t sinking = heap[i];
    for (unsigned child; (child = 2 * i + 1) < n; i = child) {
        child += child + 1 < n && heap[child] < heap[child + 1];
        if (heap[child] <= sinking)
            break;
        heap[i] = heap[child];
    }
    heap[i] = sinking;
}

__attribute__((noinline)) static void heap_sort(uint32_t *numbers, unsigned n)
{
    for (unsigned i = n / 2; i-- > 0;)
        sift_down(numbers, i, n);
    for (unsigned end = n; end-- > 1;) {
        uint32_t largest = numbers[0];
        numbers[0] = numbers[end];
        numbers[end] = largest;
        sift_down(numbers, 0, end);
    }
}

void work_sort(struct work *w, unsigned n)
{
    uint32_t random = n;
    for (unsigned i = 0; i < n; i++)
        w->numbers[i] = random = next_random(random);
    heap_sort(w->numbers, n);
    put_number(w, w->numbers[n / 2]);
    put_text(w, "\n");
}

/* ---- /json ----------------------------------------------------------------------------------- */

__attribute__((noinline)) static void render_item(struct work *w, unsigned id, uint32_t random)
{
    static const char *const kinds[] = {"bolt", "nut", "screw", "washer"};
    put_text(w, "{\"id\":");
    put_number(w, id);
    put_text(w, ",\"kind\":\"");
    put_text(w, kinds[random >> 30]);
    put_text(w, "\",\"price\":");
    put_number(w, (random >> 16) % 1000);
    put_text(w, "}");
}

void work_json(struct work *w, unsigned n)
{
    uint32_t random = n;
    w->type = "application/json";
    put_text(w, "{\"items\":[");
    for (unsigned i = 0; i < n; i++) {
        random = next_random(random);
        put_text(w, i ? "," : "");
        render_item(w, i + 1, random);
    }
    put_text(w, "]}\n");
}
