// SPDX-License-Identifier: Apache-2.0
// A disk that keeps what is written to it in memory, over another disk that is only read: a check
// that must not write sees the volume as it would be after a replay of its journal.
//
// Invariant: the disk below is never written.
#pragma once

#include <memory>
#include <unordered_map>

#include "fs/disk/disk.hpp"
#include "fs/format/layout.hpp"

namespace warren {

/// Takes whole aligned blocks only, at most as many as half a journal holds.
class OverlayDisk final : public Disk {
 public:
    /// Requires: `below` outlives this.
    explicit OverlayDisk(Disk& below) : below_(below) {}

    u64 size_bytes() const override { return below_.size_bytes(); }
    Errc read(u64 offset, std::span<std::byte> target) override;
    Errc write(u64 offset, std::span<const std::byte> source) override;
    Errc flush() override { return Errc::ok; }
    Errc discard(u64, u64) override { return Errc::ok; }

 private:
    Disk& below_;
    std::unordered_map<u64, std::unique_ptr<format::Block>> blocks_;  // by block number
};

}  // namespace warren
