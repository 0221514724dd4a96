// A number goes to another context and back: prints nanoseconds for each switch.
#include <boost/context/fiber.hpp>
#include <chrono>
#include <cstdio>

namespace context = boost::context;

int main() {
    const long count = 5000000;
    long number = 0;
    context::fiber other{[&number](context::fiber &&back) {
        for (;;) {
            number++;
            back = std::move(back).resume();
        }
        return std::move(back);
    }};
    auto begun = std::chrono::steady_clock::now();
    for (long i = 0; i < count; i++)
        other = std::move(other).resume();
    std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begun;
    if (number != count)
        return 1;
    std::printf("%.2f\n", taken.count() / (2.0 * count));
    return 0;
}
