// SPDX-License-Identifier: Apache-2.0
// C++: zeros never match under lbfs, so each chunk has the maximum size.
#include <warren/chunk.hpp>

#include <cstdio>
#include <vector>

int main() {
    using namespace warren;
    const Result<chunk::Rule> rule = chunk::preset("lbfs");
    if (!rule) return 1;
    const std::vector<std::byte> bytes(200000);
    for (const u64 end : chunk::cut(*rule, bytes, 2)) {
        if (end < bytes.size()) std::printf("%llu\n", static_cast<unsigned long long>(end));
    }
    return 0;
}
