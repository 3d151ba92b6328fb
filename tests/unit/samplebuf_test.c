/* The buffer between a signal handler and the thread that reads it. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runtime/chunk.h"
#include "runtime/label.h"
#include "runtime/samplebuf.h"
#include "tests/support/test.h"

#define WORDS CP__SAMPLEBUF_WORDS
#define HEADER CP__SAMPLE_HEADER_WORDS

/* ---- Samples that tell whether they are whole ------------------------------------------------ */

static uintptr_t frame_of(uint64_t number, unsigned i)
{
    return (uintptr_t)(number * 1000003 + i * 7919 + 1);
}

/* Sample number n has a depth, flags, a weight and frames that are computed from n. */
static void make_sample(uint64_t n, unsigned depth, struct cp_labels *labels, uintptr_t *frames,
                        struct cp_sample *sample)
{
    for (unsigned i = 0; i < depth; i++)
        frames[i] = frame_of(n, i);
    *sample = (struct cp_sample){.weight = n + 1,
                                 .g_id = n,
                                 .labels = labels,
                                 .flags = (unsigned)n & 7,
                                 .depth = depth,
                                 .frames = frames};
}

/* Makes an empty buffer, and a pool from which it can grow to its limit. */
static void make(struct cp__samplebuf *buf)
{
    CHECK_EQ(cp__pool_resize(CP_EV_MAX), 0);
    CHECK_EQ(cp__samplebuf_make(buf), 0);
}

static bool append(struct cp__samplebuf *buf, uint64_t seq, uint64_t n, unsigned depth,
                   struct cp_labels *labels)
{
    uintptr_t frames[CP_MAX_FRAMES];
    struct cp_sample sample;
    bool half;

    make_sample(n, depth, labels, frames, &sample);
    return cp__samplebuf_append_from_handler(buf, seq, &sample, &half);
}

static void check_sample(const struct cp_sample *sample)
{
    uint64_t n = sample->g_id;

    CHECK_EQ(sample->weight, n + 1);
    CHECK_EQ(sample->flags, n & 7);
    CHECK(sample->time_ns == 0 && sample->tid == 0 && sample->pid == 0); /* not told */
    CHECK(sample->depth <= CP_MAX_FRAMES);
    for (unsigned i = 0; i < sample->depth; i++)
        CHECK_EQ(sample->frames[i], frame_of(n, i));
}

/* Which samples a read should find. */
struct expected {
    uint64_t next; /* the number of the next sample */
    uint64_t step; /* the difference from one number to the next */
    int depth;     /* -1: any depth */
    struct cp_labels *labels;
};

static void expect(void *context, const struct cp_sample *sample)
{
    struct expected *expected = context;

    check_sample(sample);
    CHECK_EQ(sample->g_id, expected->next);
    CHECK(sample->labels == expected->labels);
    if (expected->depth >= 0)
        CHECK_EQ(sample->depth, expected->depth);
    expected->next += expected->step;
}

static struct cp_labels *new_labels(void)
{
    struct cp_labels *labels = calloc(1, sizeof *labels);

    CHECK(labels != NULL);
    labels->refs = 1;
    return labels;
}

/* ---- References to labels -------------------------------------------------------------------- */

/* A set of labels that cannot be written: taking or dropping a reference causes a fault, which calls
 * on_reference(). */
static struct {
    struct cp_labels *labels;
    const struct cp__samplebuf *buf;
    bool was_unread; /* the sample was in the buffer when it happened */
} guarded;

static void on_reference(int signal)
{
    (void)signal;
    guarded.was_unread = guarded.buf->read != guarded.buf->write;
    mprotect(guarded.labels, sizeof *guarded.labels, PROT_READ | PROT_WRITE);
}

/* A fork's child drops the references of the samples that have not been read. So a reference may be dropped
 * only when its sample has left the buffer, or the child would drop it again. */
CP_TEST(a_reference_is_dropped_when_its_sample_is_out_of_the_buffer)
{
    struct sigaction action = {.sa_handler = on_reference};
    struct cp__samplebuf buf = {0};
    struct expected one = {.depth = 3};

    guarded.labels =
        mmap(NULL, sizeof *guarded.labels, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(guarded.labels != MAP_FAILED);
    guarded.labels->refs = 1;
    guarded.buf = &buf;
    guarded.was_unread = true;
    one.labels = guarded.labels;
    CHECK_EQ(cp__samplebuf_make(&buf), 0);
    CHECK(append(&buf, 1, 0, 3, guarded.labels));
    CHECK_EQ(sigaction(SIGSEGV, &action, NULL), 0);
    CHECK_EQ(mprotect(guarded.labels, sizeof *guarded.labels, PROT_READ), 0);
    CHECK_EQ(cp__samplebuf_read(&buf, 1, expect, &one), 1);
    CHECK_EQ(guarded.labels->refs, 1);
    CHECK(!guarded.was_unread);
    cp__samplebuf_free(&buf);
}

/* ---- One thread ------------------------------------------------------------------------------ */

CP_TEST(an_empty_buffer_gives_nothing)
{
    struct cp__samplebuf buf = {0};
    struct expected none = {.depth = 3};

    CHECK(!append(&buf, 1, 0, 3, NULL)); /* the buffer has no memory yet */
    CHECK_EQ(cp__samplebuf_read(&buf, 1, expect, &none), 0);
    cp__samplebuf_free(&buf);
    CHECK_EQ(cp__samplebuf_make(&buf), 0);
    uint64_t *write = buf.write;
    CHECK_EQ(cp__samplebuf_make(&buf), 0);
    CHECK(buf.write == write);
    CHECK_EQ(cp__samplebuf_read(&buf, 1, expect, &none), 0);
    cp__samplebuf_free(&buf);
    cp__samplebuf_free(&buf);
    CHECK_EQ(cp__samplebuf_make(&buf), 0); /* makes it again */
    CHECK(append(&buf, 1, 0, 3, NULL));
    CHECK_EQ(cp__samplebuf_read(&buf, 1, expect, &none), 1);
    cp__samplebuf_free(&buf);
}

CP_TEST(samples_may_have_every_depth)
{
    struct cp__samplebuf buf = {0};
    struct cp_labels *labels = new_labels();

    make(&buf);
    for (unsigned depth = 0; depth <= CP_MAX_FRAMES; depth++) {
        struct expected one = {.next = depth, .step = 1, .depth = (int)depth, .labels = labels};

        CHECK(append(&buf, 7, depth, depth, labels));
        CHECK_EQ(buf.head - buf.tail, HEADER + depth);
        CHECK_EQ(labels->refs, 2);
        CHECK_EQ(cp__samplebuf_read(&buf, 7, expect, &one), 1);
        CHECK_EQ(labels->refs, 1);
        CHECK_EQ(buf.head, buf.tail);
        CHECK(cp__samplebuf_is_read_up(&buf));
    }
    cp__samplebuf_free(&buf);
    cp_labels_unref(labels);
}

/* A sample at every place where it does not fit into its chunk, or just fits. */
CP_TEST(samples_go_on_in_the_next_chunk)
{
    static const unsigned depths[] = {0, 1, 25, CP_MAX_FRAMES};
    struct cp__samplebuf buf = {0};

    make(&buf);
    for (size_t d = 0; d < sizeof depths / sizeof depths[0]; d++) {
        for (uint64_t before = 0; before <= HEADER + depths[d]; before++) {
            struct expected two = {.next = before, .step = 1, .depth = (int)depths[d]};
            struct cp__chunk *chunk = cp__chunk_of(buf.read);
            size_t level = cp__pool_level();
            bool fits = before == HEADER + depths[d];

            buf.write = buf.read = buf.write_end - before;
            CHECK(append(&buf, 1, before, depths[d], NULL));
            CHECK_EQ(cp__chunk_of(buf.write) == chunk, fits);
            CHECK(append(&buf, 1, before + 1, depths[d], NULL));
            CHECK_EQ(cp__samplebuf_read(&buf, 1, expect, &two), 2);
            CHECK(cp__chunk_of(buf.read) != chunk || depths[d] == 0);
            CHECK_EQ(cp__pool_level(), level);
        }
    }
    cp__samplebuf_free(&buf);
}

/* Fills a buffer that begins at start to the last word. */
static void check_full(uint64_t start)
{
    struct cp__samplebuf buf = {.head = start, .tail = start};
    struct expected all = {.next = 0, .step = 1, .depth = -1};
    uint64_t n = 0;

    make(&buf);
    while (WORDS - (buf.head - buf.tail) >= 2 * (HEADER + CP_MAX_FRAMES))
        CHECK(append(&buf, 1, n++, CP_MAX_FRAMES, NULL));
    uint64_t left = WORDS - (buf.head - buf.tail) - HEADER - CP_MAX_FRAMES;
    CHECK(append(&buf, 1, n++, (unsigned)(left - HEADER), NULL));
    CHECK_EQ(WORDS - (buf.head - buf.tail), HEADER + CP_MAX_FRAMES);
    CHECK(append(&buf, 1, n++, CP_MAX_FRAMES - 1, NULL)); /* one word remains */
    CHECK(!append(&buf, 1, n, 0, NULL));
    CHECK_EQ(cp__samplebuf_read(&buf, 1, expect, &all), n);
    CHECK(append(&buf, 1, n++, CP_MAX_FRAMES, NULL));
    CHECK_EQ(cp__samplebuf_read(&buf, 1, expect, &all), 1);
    cp__samplebuf_free(&buf);

    buf = (struct cp__samplebuf){.head = start, .tail = start};
    make(&buf);
    buf.head = start + WORDS - HEADER - 10; /* as if so much were unread */
    CHECK(!append(&buf, 1, 0, 11, NULL));
    CHECK(append(&buf, 1, 0, 10, NULL)); /* fills the buffer exactly */
    CHECK_EQ(buf.head - buf.tail, WORDS);
    CHECK(!append(&buf, 1, 1, 0, NULL));
    buf.tail = buf.head - HEADER - 10;
    all = (struct expected){.next = 0, .step = 1, .depth = 10};
    CHECK_EQ(cp__samplebuf_read(&buf, 1, expect, &all), 1);
    cp__samplebuf_free(&buf);
}

CP_TEST(a_full_buffer_takes_no_more)
{
    for (uint64_t start = 0; start < 40; start++)
        check_full(start * 977);
    check_full(WORDS - 1);
    check_full(((uint64_t)1 << 40) + 3);
}

/* A sample that finds no room takes no reference. */
CP_TEST(dropped_samples_hold_nothing)
{
    struct cp__samplebuf buf = {0};
    struct cp_labels *labels = new_labels();
    uint64_t appended = 0;

    CHECK(!append(&buf, 1, 0, 1, labels));
    CHECK_EQ(labels->refs, 1);
    make(&buf);
    while (append(&buf, 1, appended, 20, labels))
        appended++;
    CHECK_EQ(appended, WORDS / (HEADER + 20));
    CHECK_EQ(labels->refs, 1 + appended);
    CHECK(!append(&buf, 1, 0, 20, labels));
    CHECK_EQ(labels->refs, 1 + appended);
    cp__samplebuf_free(&buf);
    CHECK_EQ(labels->refs, 1);
    cp_labels_unref(labels);
}

/* Samples of other configs are not delivered, and their references to labels are dropped. */
CP_TEST(samples_of_other_configs_are_for_nobody)
{
    struct cp__samplebuf buf = {0};
    struct cp_labels *labels = new_labels();
    struct expected second = {.next = 1, .step = 3, .depth = -1, .labels = labels};

    make(&buf);
    for (uint64_t n = 0; n < 99; n++)
        CHECK(append(&buf, n % 3 + 1, n, (unsigned)n, labels));
    CHECK_EQ(labels->refs, 100);
    CHECK_EQ(cp__samplebuf_read(&buf, 2, expect, &second), 33);
    CHECK_EQ(second.next, 100);
    CHECK_EQ(labels->refs, 1);
    CHECK_EQ(buf.head, buf.tail);
    CHECK_EQ(cp__samplebuf_read(&buf, 1, expect, &second), 0);
    cp__samplebuf_free(&buf);
    cp_labels_unref(labels);
}

/* ---- Half full ------------------------------------------------------------------------------- */

static bool becomes_half(struct cp__samplebuf *buf, unsigned depth, bool *appended)
{
    uintptr_t frames[CP_MAX_FRAMES];
    struct cp_sample sample;
    bool half;

    cp__pool_fill(); /* so that the pool does not become half empty */
    make_sample(0, depth, NULL, frames, &sample);
    *appended = cp__samplebuf_append_from_handler(buf, 1, &sample, &half);
    return half;
}

static void ignore(void *context, const struct cp_sample *sample)
{
    (void)context;
    check_sample(sample);
}

/* The sample with which the buffer becomes half full says so, once each time, wherever the buffer begins. */
CP_TEST(half_full_is_told_once)
{
    struct cp__samplebuf buf = {0};

    make(&buf);
    for (unsigned depth = 0; depth <= CP_MAX_FRAMES; depth += 16) {
        bool appended = true;

        while (appended) {
            uint64_t used = buf.head - buf.tail;
            bool half = becomes_half(&buf, depth, &appended);

            CHECK_EQ(half, used < WORDS / 2 && used + HEADER + depth >= WORDS / 2);
        }
        CHECK(cp__samplebuf_read(&buf, 1, ignore, NULL) > 0);
    }
    cp__samplebuf_free(&buf);
}

CP_TEST(half_full_is_exact_to_the_word)
{
    struct cp__samplebuf buf = {0};
    bool appended;

    make(&buf);
    buf.head = WORDS / 2 - HEADER - 4; /* as if so much were unread */
    CHECK(!becomes_half(&buf, 3, &appended));
    buf.head = WORDS / 2 - HEADER - 4;
    CHECK(becomes_half(&buf, 4, &appended));
    CHECK_EQ(buf.head, WORDS / 2);
    CHECK(!becomes_half(&buf, 4, &appended));
    buf.tail = buf.head;
    cp__samplebuf_free(&buf);
}

/* ---- Two threads ----------------------------------------------------------------------------- */

#define SETS 4

struct shared {
    struct cp__samplebuf buf;
    struct cp_labels *sets[SETS];
    uint64_t count; /* how many to append */
    uint64_t dropped;
    uint64_t appended;
    int done;
    /* Of the consumer. */
    uint64_t next;
    uint64_t read;
};

static void produce_one(struct shared *shared, uint64_t n)
{
    unsigned depth = (unsigned)(n * 2654435761u >> 7) % (n % 64 == 0 ? CP_MAX_FRAMES + 1 : 40);

    if (append(&shared->buf, 1, n, depth, shared->sets[n % SETS]))
        shared->appended++;
    else
        shared->dropped++;
}

static void consume_one(void *context, const struct cp_sample *sample)
{
    struct shared *shared = context;

    check_sample(sample);
    CHECK(sample->g_id >= shared->next); /* in order, and each sample once */
    CHECK(sample->labels == shared->sets[sample->g_id % SETS]);
    shared->next = sample->g_id + 1;
    shared->read++;
}

static void *consume(void *arg)
{
    struct shared *shared = arg;
    bool done;

    do {
        done = cp_load_acquire(&shared->done) != 0; /* pairs with the release in finish() */
        cp__samplebuf_read(&shared->buf, 1, consume_one, shared);
        if (shared->read % 16 == 0)
            usleep(100); /* sleeps now and then, so that the buffer fills up */
    } while (!done);
    return NULL;
}

static void start(struct shared *shared, pthread_t *consumer)
{
    make(&shared->buf);
    for (int i = 0; i < SETS; i++)
        shared->sets[i] = new_labels();
    CHECK_EQ(pthread_create(consumer, NULL, consume, shared), 0);
}

static void finish(struct shared *shared, pthread_t consumer)
{
    cp_store_release(&shared->done, 1); /* pairs with the acquire in consume() */
    CHECK_EQ(pthread_join(consumer, NULL), 0);
    printf("%llu read, %llu dropped\n", (unsigned long long)shared->read,
           (unsigned long long)shared->dropped);
    CHECK_EQ(shared->read, shared->appended);
    cp__samplebuf_free(&shared->buf);
    for (int i = 0; i < SETS; i++) {
        CHECK_EQ(shared->sets[i]->refs, 1);
        cp_labels_unref(shared->sets[i]);
    }
}

CP_TEST(a_consumer_gets_what_a_producer_appends)
{
    static struct shared shared = {.count = 1000000 / TEST_SLOWDOWN};
    pthread_t consumer;

    start(&shared, &consumer);
    for (uint64_t n = 0; n < shared.count; n++) {
        produce_one(&shared, n);
        if (n % 1024 == 0)
            sched_yield();
    }
    finish(&shared, consumer);
    CHECK_EQ(shared.appended + shared.dropped, shared.count);
}

/* ---- A producer in a signal handler ---------------------------------------------------------- */

static struct shared from_handler;
static uint64_t produced;

static void on_signal(int signal)
{
    (void)signal;
    for (int i = 0; i < 20; i++)
        produce_one(&from_handler, produced++);
}

/* ThreadSanitizer needs longer for a signal than a shorter period would leave. */
#define SIGNAL_PERIOD_NS (TEST_TSAN ? 2000000 : 100000)
#define PRODUCED (TEST_TSAN ? 20000u : 100000u)

/* SIGEV_THREAD_ID sends the signals to this thread alone, whatever it is doing. */
CP_TEST(a_producer_may_be_a_signal_handler)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    struct itimerspec every = {.it_value.tv_nsec = SIGNAL_PERIOD_NS, .it_interval.tv_nsec = SIGNAL_PERIOD_NS};
    struct itimerspec never = {.it_value.tv_nsec = 0};
    volatile uint64_t *const so_far = &produced;
    pthread_t consumer;
    timer_t timer;

    start(&from_handler, &consumer);
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    event._sigev_un._tid = (int)syscall(SYS_gettid);
    CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    CHECK_EQ(timer_settime(timer, 0, &every, NULL), 0);
    while (*so_far < PRODUCED) {
        if (TEST_TSAN)
            usleep(20); /* ThreadSanitizer delivers signals in such calls */
    }
    CHECK_EQ(timer_settime(timer, 0, &never, NULL), 0);
    CHECK_EQ(timer_delete(timer), 0);
    action.sa_handler = SIG_IGN;
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    finish(&from_handler, consumer);
    CHECK_EQ(from_handler.appended + from_handler.dropped, produced);
}

/* ---- Chunks ---------------------------------------------------------------------------------- */

/* A buffer has the chunks of what is unread, and one more: they come out of the pool, and go back there. */
CP_TEST(a_buffer_has_as_many_chunks_as_are_unread)
{
    struct cp__samplebuf buf = {0};
    struct expected all = {.next = 0, .step = 1, .depth = 20};
    uint64_t in_chunk, n = 0;
    size_t full;

    make(&buf);
    full = cp__pool_level();
    in_chunk = (uint64_t)(buf.write_end - buf.write) / (HEADER + 20);
    while (n < 10 * in_chunk)
        CHECK(append(&buf, 1, n++, 20, NULL));
    CHECK_EQ(cp__pool_level(), full - 9);
    CHECK_EQ(cp__samplebuf_read(&buf, 1, expect, &all), n);
    CHECK_EQ(cp__pool_level(), full);
    while (n < 20 * in_chunk)
        CHECK(append(&buf, 1, n++, 20, NULL));
    CHECK(cp__pool_level() < full);
    cp__samplebuf_free(&buf);
    CHECK_EQ(cp__pool_level(), full);
}

/* Three chunks, again and again. A chunk out of the pool still has what it had when it was read. */
CP_TEST(chunks_are_used_again)
{
    static struct cp__chunk *others[CP__POOL_CHUNKS];
    struct cp__samplebuf buf = {0};
    struct expected all = {.next = 0, .step = 1, .depth = 20};
    size_t held = 0;
    bool low;

    make(&buf);
    while (cp__pool_level() > 3)
        others[held++] = cp__chunk_take_from_handler(&low);
    for (uint64_t n = 0; n < 1000; n++) {
        CHECK(append(&buf, 1, n, 20, NULL));
        if (n % 30 == 29)
            CHECK_EQ(cp__samplebuf_read(&buf, 1, expect, &all), 30);
    }
    cp__samplebuf_free(&buf);
    CHECK_EQ(cp__pool_level(), 4);
    while (held > 0)
        cp__chunk_give(others[--held]);
    CHECK_EQ(cp__pool_level(), cp__pool_target());
}

/* Without a chunk nothing is appended, and the next sample is once there is one. */
CP_TEST(an_empty_pool_drops_what_needs_a_chunk)
{
    struct cp__samplebuf buf = {0};
    struct cp_labels *labels = new_labels();
    struct expected all = {.next = 0, .step = 1, .depth = 20, .labels = labels};
    uint64_t n = 0;

    CHECK_EQ(cp__pool_resize(0), 0);
    CHECK_EQ(cp__samplebuf_make(&buf), 0);
    while (append(&buf, 1, n, 20, labels))
        n++;
    CHECK_EQ(n, (uint64_t)(buf.write_end - buf.read) / (HEADER + 20));
    CHECK_EQ(labels->refs, 1 + n);
    CHECK_EQ(cp__pool_resize(1), 0);
    CHECK(append(&buf, 1, n++, 20, labels));
    CHECK_EQ(cp__samplebuf_read(&buf, 1, expect, &all), n);
    CHECK_EQ(labels->refs, 1);
    cp__samplebuf_free(&buf);
    cp_labels_unref(labels);
}

/* It has no labels, and takes samples again. */
CP_TEST(a_buffer_that_was_freed_is_empty)
{
    struct cp__samplebuf buf = {0};
    struct cp_labels *labels = new_labels();
    struct expected all = {.next = 7, .step = 1, .depth = 20, .labels = labels};

    make(&buf);
    for (int round = 0; round < 2; round++) {
        for (uint64_t n = 0; n < 100; n++)
            CHECK(append(&buf, 1, n, 20, labels));
        cp__samplebuf_free(&buf);
        CHECK_EQ(cp__samplebuf_make(&buf), 0);
        CHECK_EQ(labels->refs, 1);
        CHECK_EQ(buf.head, buf.tail);
        CHECK(cp__samplebuf_is_read_up(&buf));
        CHECK_EQ(cp__pool_level(), cp__pool_target());
    }
    CHECK(append(&buf, 1, 7, 20, labels));
    CHECK_EQ(cp__samplebuf_read(&buf, 1, expect, &all), 1);
    cp__samplebuf_free(&buf);
    CHECK_EQ(labels->refs, 1);
    cp_labels_unref(labels);
}

/* Most of a process's threads may sleep from a start to the stop. */
CP_TEST(a_buffer_without_samples_is_not_touched)
{
    static struct cp__samplebuf bufs[256];
    struct rusage before, after;

    for (int i = 0; i < 256; i++)
        make(&bufs[i]);
    getrusage(RUSAGE_THREAD, &before);
    for (int i = 0; i < 256; i++)
        cp__samplebuf_free(&bufs[i]);
    getrusage(RUSAGE_THREAD, &after);
    CHECK(TEST_TSAN || after.ru_minflt - before.ru_minflt < 64);
}
