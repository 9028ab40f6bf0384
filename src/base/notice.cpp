// SPDX-License-Identifier: Apache-2.0
// Lines are passed one at a time: the sink is called under the lock that guards it.
#include "base/notice.hpp"

#include <cstdio>
#include <mutex>
#include <utility>

namespace warren {
namespace {

struct Notices {
    std::mutex mutex;
    NoticeSink sink;
};

Notices& notices() {
    static Notices all;
    return all;
}

}  // namespace

void set_notice_sink(NoticeSink sink) {
    const std::lock_guard lock(notices().mutex);
    notices().sink = std::move(sink);
}

void notice(const std::string& line) {
    const std::lock_guard lock(notices().mutex);
    if (notices().sink) return notices().sink(line);
    std::fprintf(stderr, "warren: %s\n", line.c_str());
}

}  // namespace warren
