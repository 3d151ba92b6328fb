/*
 * Boost.Fiber with the profiler: an algorithm of Boost's is told of each fiber that becomes ready or runs next,
 * and so tells the profiler. Each fiber is a G, with labels, samples, watches and an account.
 *
 *     g++ boost_fiber.cpp $(pkg-config --cflags --libs counterpoint) -lboost_fiber -lboost_context
 *
 * The lines marked "waits" are what accounts and profiles of waits need beside CPU profiles. The program prints
 * where the time of its fibers went.
 */
#include <boost/fiber/algo/algorithm.hpp>
#include <boost/fiber/buffered_channel.hpp>
#include <boost/fiber/fiber.hpp>
#include <boost/fiber/mutex.hpp>
#include <boost/fiber/operations.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>

#include <counterpoint/runtime.h>

using boost::fibers::context;
using clock_type = std::chrono::steady_clock;

static thread_local cp_m *this_m;

/* ---- The embedding --------------------------------------------------------------------------- */

static constexpr size_t stack_size = 64 * 1024;

/* What a fiber is for the profiler. Boost makes it when the fiber is ready for the first time, and deletes it
 * when the fiber has ended. */
struct fiber_g : boost::fibers::fiber_properties {
    cp_g g{};
    const bool is_g;                       /* the main fiber and Boost's dispatcher are the thread itself */
    cp_wait_reason reason = CP_WAIT_OTHER; /* waits */
    const void *object = nullptr;          /* waits */
    clock_type::time_point before, after;  /* the clock around cp_g_init() */

    explicit fiber_g(context *fiber)
        : fiber_properties(fiber), is_g(fiber->is_context(boost::fibers::type::worker_context))
    {
        /* Boost puts the context at the upper end of the fiber's stack. */
        char *end = reinterpret_cast<char *>(fiber);
        before = clock_type::now();
        if (is_g)
            cp_g_init(&g, end - stack_size, end, cp_g_self());
        after = clock_type::now();
    }
    ~fiber_g() override
    {
        if (is_g)
            cp_g_fini(&g);
    }
};

/* Returns NULL for what is the thread itself. */
static fiber_g *g_of(context *fiber)
{
    fiber_g *f = fiber ? static_cast<fiber_g *>(fiber->get_properties()) : nullptr;
    return f && f->is_g ? f : nullptr;
}

/* Round-robin on one thread. */
class telling_round_robin : public boost::fibers::algo::algorithm_with_properties<fiber_g>
{
    boost::fibers::scheduler::ready_queue_type ready;
    std::mutex lock;
    std::condition_variable woken;
    bool is_notified = false;

  public:
    void awakened(context *fiber, fiber_g &f) noexcept override
    {
        cp_g_ready(&f.g); /* waits */
        fiber->ready_link(ready);
    }

    /* Runs on the stack of the fiber that gives the thread up. */
    context *pick_next() noexcept override
    {
        context *leaving = context::active(), *next = nullptr;
        fiber_g *f = g_of(leaving);                                                     /* waits */
        if (f && (leaving->wait_is_linked() || leaving->sleep_is_linked())) {           /* waits */
            if (!f->object) /* nobody has told */                                       /* waits */
                f->reason = leaving->sleep_is_linked() ? CP_WAIT_SLEEP : CP_WAIT_OTHER; /* waits */
            cp_g_park_in_hook(&f->g, f->reason, f->object);                             /* waits */
        }                                                                               /* waits */
        if (!ready.empty()) {
            next = &ready.front();
            ready.pop_front();
        }
        f = g_of(next);
        cp_execute(this_m, f ? &f->g : nullptr);
        return next;
    }

    bool has_ready_fibers() const noexcept override
    {
        return !ready.empty();
    }

    void suspend_until(const clock_type::time_point &until) noexcept override
    {
        std::unique_lock<std::mutex> hold(lock);
        auto is_over = [this] { return is_notified; };
        if (until == (clock_type::time_point::max)())
            woken.wait(hold, is_over);
        else
            woken.wait_until(hold, until, is_over);
        is_notified = false;
    }

    void notify() noexcept override
    {
        std::lock_guard<std::mutex> hold(lock);
        is_notified = true;
        woken.notify_all();
    }
};

/* On a fiber: says what its waits are for, until the end of the block. */
struct waiting_for {                                       /* waits */
    fiber_g &f = boost::this_fiber::properties<fiber_g>(); /* waits */
    waiting_for(cp_wait_reason reason, const void *object) /* waits */
    {                                                      /* waits */
        f.reason = reason;                                 /* waits */
        f.object = object;                                 /* waits */
    }                                                      /* waits */
    ~waiting_for() { f.object = nullptr; }                 /* waits */
};                                                         /* waits */

/* ---- What it is tried with ------------------------------------------------------------------- */

static const auto a_while = std::chrono::milliseconds(20);
static boost::fibers::mutex mutex;
static boost::fibers::buffered_channel<int> channel(2);

static void sleeps()
{
    boost::this_fiber::sleep_for(a_while);
}

static void locks()
{
    waiting_for a_lock(CP_WAIT_LOCK, &mutex);
    mutex.lock();
}

static void owns()
{
    locks();
    boost::this_fiber::yield(); /* to the one that waits from then on */
    boost::this_fiber::sleep_for(a_while);
    mutex.unlock();
}

static void waits_for_owner()
{
    locks();
    mutex.unlock();
}

static void sends()
{
    for (int i = 0; i < 4; i++) {
        waiting_for room(CP_WAIT_CHANNEL_SEND, &channel);
        channel.push(i);
    }
}

static void receives_later()
{
    boost::this_fiber::sleep_for(a_while);
    for (int i = 0; i < 4; i++)
        channel.value_pop();
}

static void yields()
{
    for (int i = 0; i < 1000; i++)
        boost::this_fiber::yield();
}

static unsigned long long ns_since(clock_type::time_point then)
{
    return std::chrono::duration_cast<std::chrono::nanoseconds>(clock_type::now() - then).count();
}

/* Prints the account of the fiber that runs, in ns: how long it has lived, between which times by the clock, and
 * what that is the sum of. */
static void print_account(const char *name)
{
    const fiber_g &f = boost::this_fiber::properties<fiber_g>();
    const unsigned long long least = ns_since(f.after);
    cp_account account{};
    account.size = sizeof account;
    if (cp_g_stats(&f.g, &account) < 0) {
        std::printf("%s: no account\n", name);
        return;
    }
    std::printf("%s: %llu (%llu to %llu) = running %llu + runnable %llu", name,
                (unsigned long long)account.lifetime_ns, least, ns_since(f.before),
                (unsigned long long)account.running_ns, (unsigned long long)account.runnable_ns);
    for (int reason = 0; reason < CP_WAIT_REASONS; reason++)
        if (account.waits[reason] > 0)
            std::printf(" + %s %llu", cp_wait_reason_name((cp_wait_reason)reason),
                        (unsigned long long)account.waited_ns[reason]);
    std::printf("\n");
}

int main()
{
    static const struct {
        const char *name;
        void (*run)();
    } fibers[] = {{"sleeper", sleeps},          {"owner", owns},
                  {"waiter", waits_for_owner},  {"sender", sends},
                  {"receiver", receives_later}, {"yielder", yields}};
    boost::fibers::fiber started[sizeof fibers / sizeof fibers[0]];
    cp_error err;

    if (cp_m_attach(&this_m, &err) < 0) {
        std::fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    boost::fibers::use_scheduling_algorithm<telling_round_robin>();
    for (size_t i = 0; i < sizeof fibers / sizeof fibers[0]; i++)
        started[i] =
            boost::fibers::fiber(std::allocator_arg, boost::fibers::fixedsize_stack(stack_size), [i] {
                fibers[i].run();
                print_account(fibers[i].name);
            });
    for (auto &fiber : started)
        fiber.join();
}
