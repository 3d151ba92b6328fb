// A program of C++ that knows nothing of the profiler, for run_waits_test.c to run under `counterpoint run`.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

#define CAUSE extern "C" __attribute__((noinline, noipa)) void

static const std::chrono::milliseconds known(100);
static std::mutex mutex;
static std::condition_variable notice;
static bool is_held, is_ready;
static volatile int sink;

CAUSE wait_for_mutex()
{
    const std::lock_guard<std::mutex> guard(mutex);

    sink = 1;
}

CAUSE wait_for_notice()
{
    std::unique_lock<std::mutex> guard(mutex);

    notice.wait(guard, [] { return is_ready; });
    sink = 2;
}

CAUSE wait_for_end(std::thread &thread)
{
    thread.join();
    sink = 3;
}

static void end_waits()
{
    {
        const std::lock_guard<std::mutex> guard(mutex);

        __atomic_store_n(&is_held, true, __ATOMIC_SEQ_CST);
        std::this_thread::sleep_for(known);
    }
    std::this_thread::sleep_for(known);
    {
        const std::lock_guard<std::mutex> guard(mutex);

        is_ready = true;
    }
    notice.notify_one();
    std::this_thread::sleep_for(known);
}

int main()
{
    std::thread thread(end_waits);

    while (!__atomic_load_n(&is_held, __ATOMIC_SEQ_CST))
        std::this_thread::yield();
    wait_for_mutex();
    wait_for_notice();
    wait_for_end(thread);
    std::printf("%d\n", sink);
    return 0;
}
