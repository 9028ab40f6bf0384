// SPDX-License-Identifier: Apache-2.0
// C++: how many entries the tree at the argument has.
#include <warren/walk.hpp>

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
    using namespace warren;
    if (argc != 2) return 2;
    const std::string root = argv[1];
    walk::Callbacks callbacks;
    callbacks.visit = [](const walk::Entry&) { return walk::Next::go_on; };
    const walk::Totals totals = walk::walk(std::span(&root, 1), {}, callbacks);
    std::printf("%llu entries\n", static_cast<unsigned long long>(totals.entries));
    return totals.failures == 0 ? 0 : 1;
}
