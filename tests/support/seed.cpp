// SPDX-License-Identifier: Apache-2.0
// Each test reads the environment again, so that a filter and a seed together identify one run.
#include "tests/support/seed.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/random.hpp"

namespace warren {
namespace {

u64 number_from(const char* variable, u64 otherwise) {
    const char* text = std::getenv(variable);
    if (text == nullptr || *text == '\0') return otherwise;
    char* end = nullptr;
    const u64 number = std::strtoull(text, &end, 0);
    if (*end != '\0') {
        std::fprintf(stderr, "%s=%s: not a number; give one such as 1234\n", variable, text);
        std::exit(2);
    }
    return number;
}

u64 choose_seed() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    // A short number is easier to type.
    return number_from("WARREN_SEED", Random(static_cast<u64>(now)).below(1'000'000'000));
}

}  // namespace

Seed::Seed()
    : value_(choose_seed()),
      trace_("seed", 0, "repeat with WARREN_SEED=" + std::to_string(value_)) {
    std::printf("[     SEED ] %llu\n", static_cast<unsigned long long>(value_));
    std::fflush(stdout);
}

u64 Seed::part(u64 index) const {
    return Random(value_ + index * 0x100000001b3u).next();
}

u64 test_operations(u64 otherwise) {
    return number_from("WARREN_OPERATIONS", otherwise);
}

u64 test_load() {
    const u64 load = number_from("WARREN_LOAD", 1);
    return load == 0 ? 1 : load;
}

}  // namespace warren
