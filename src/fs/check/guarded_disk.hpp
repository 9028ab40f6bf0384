// SPDX-License-Identifier: Apache-2.0
// A disk that refuses writes after a failed read. A block that cannot be read now may be readable
// later or in a copy of the volume, and a repair that treated it as lost would destroy it.
//
// Invariant: once a read has failed, no write passes.
#pragma once

#include <atomic>

#include "fs/disk/disk.hpp"

namespace warren {

class GuardedDisk final : public Disk {
 public:
    /// Requires: `below` outlives this.
    explicit GuardedDisk(Disk& below) : below_(below) {}

    u64 size_bytes() const override { return below_.size_bytes(); }
    Errc read(u64 offset, std::span<std::byte> target) override {
        const Errc code = below_.read(offset, target);
        if (code != Errc::ok) has_failed_.store(true, std::memory_order_relaxed);
        return code;
    }
    Errc write(u64 offset, std::span<const std::byte> source) override {
        return has_failed() ? Errc::io : below_.write(offset, source);
    }
    Errc flush() override { return below_.flush(); }
    Errc discard(u64 offset, u64 length_bytes) override {
        return has_failed() ? Errc::ok : below_.discard(offset, length_bytes);
    }

    /// Whether a read has failed.
    bool has_failed() const { return has_failed_.load(std::memory_order_relaxed); }

 private:
    Disk& below_;
    std::atomic<bool> has_failed_{false};
};

}  // namespace warren
