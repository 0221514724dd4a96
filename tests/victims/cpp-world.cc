// C++: static objects and their order, guards of local statics, thread-local objects, streams,
// exceptions and containers. With the argument `throw` the run ends by an exception nobody catches.
#define VICTIM_END
#include "victim.h"
#include <iostream>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

int made, destroyed;

struct Counted {
    int number = ++made;
    std::string text = "fresh and longer than any string that is kept inside its object";
    ~Counted() { destroyed++; }
};

Counted first, second;
std::map<std::string, int> table{{"one", 1}, {"two", 2}};
std::vector<int> numbers(1000, 7);
thread_local Counted per_thread;

Counted &local_static()
{
    static Counted object;
    return object;
}

int caught()
{
    try {
        throw std::runtime_error("thrown");
    } catch (const std::exception &error) {
        return std::string(error.what()) == "thrown";
    }
}

void new_handler() { throw std::bad_alloc(); }

} // namespace

static void check(void)
{
    same("objects made before main", made, 2);
    same("objects destroyed", destroyed, 0);
    same("number of the second object", second.number, 2);
    same_text("text of the first object", first.text.substr(0, 5).c_str(), "fresh");
    same("entries of the map", (long long)table.size(), 2);
    same("size of the vector", (long long)numbers.size(), 1000);
    same("last of the vector", numbers.back(), 7);
    same("number of the thread-local object", per_thread.number, 3);
    same("number of the local static", local_static().number, 4);
    same("number of the local static again", local_static().number, 4);
    same("an exception is caught", caught(), 1);
    same("exceptions in flight", std::uncaught_exceptions(), 0);
    same("the state of cout", std::cout.rdstate(), 0);
    same("the width of cout", std::cout.width(), 0);
    same("the base of cout", (std::cout.flags() & std::ios::hex) != 0, 0);
    same("the new handler", std::get_new_handler() != nullptr, 0);
    std::thread other([] { same("number in another thread", per_thread.number, 5); });
    other.join();
    same("objects destroyed by another thread's end", destroyed, 1);
}

static void dirty(void)
{
    table["stale"] = 9;
    table.erase("one");
    numbers.assign(100000, 8);
    first.text = "stale";
    second.number = 99;
    std::cout << std::hex;
    std::cout.width(9);
    std::cout.setstate(std::ios::failbit);
    std::set_new_handler(new_handler);
    new Counted;
}

static void end(void)
{
    if (victim_argc > 1 && std::string(victim_argv[1]) == "throw")
        throw std::logic_error("nobody catches this");
    exit(0);
}
