/* C++20. Functions whose symbols have more in them than a number and a name: coroutines, which have a type
 * "_Z8countingi.Frame" in gcc's symbols, and functions behind names that end in digits. */
#include <coroutine>

#define APART __attribute__((noinline))

volatile int sink;

struct Task {
    struct promise_type {
        Task get_return_object()
        {
            return {std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        std::suspend_always initial_suspend()
        {
            return {};
        }
        std::suspend_always final_suspend() noexcept
        {
            return {};
        }
        void return_void()
        {
        }
        void unhandled_exception()
        {
            sink = 1;
        }
        std::suspend_always yield_value(int x)
        {
            sink = x;
            return {};
        }
    };
    std::coroutine_handle<promise_type> handle;
};

Task counting(int n)
{
    for (int i = 0; i < n; i++)
        co_yield i + sink;
}

namespace
{
struct v11 {
    static APART int behind(int x)
    {
        return x + sink;
    }
};
} // namespace

/* The cold part makes the function one of two parts. */
namespace v12
{
static APART int parted(int x)
{
    if (__builtin_expect(x < 0, 0))
        __builtin_abort();
    return x * sink;
}
} // namespace v12

int main()
{
    Task task = counting(3);

    task.handle.resume();
    task.handle.destroy();
    return v11::behind(sink) + v12::parted(sink);
}
