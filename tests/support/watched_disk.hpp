// SPDX-License-Identifier: Apache-2.0
// A disk that calls the test before each read and after each write, so that it can act at that
// moment.
#pragma once

#include <functional>

#include "tests/support/passing_disk.hpp"

namespace warren {

class WatchedDisk final : public PassingDisk {
 public:
    using PassingDisk::PassingDisk;

    std::function<void(u64 offset)> before_read = [](u64) {};
    std::function<void(std::span<const std::byte> source)> after_write = [](auto) {};

    Errc read(u64 offset, std::span<std::byte> target) override {
        before_read(offset);
        return below().read(offset, target);
    }
    Errc write(u64 offset, std::span<const std::byte> source) override {
        const Errc code = below().write(offset, source);
        after_write(source);
        return code;
    }
};

}  // namespace warren
