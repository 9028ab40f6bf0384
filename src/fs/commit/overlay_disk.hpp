// SPDX-License-Identifier: Apache-2.0
// A read-only disk over another one. It presents a volume that was not closed as it would be after
// a replay of its journal: logged blocks are read from the journal, all others from their home
// locations. For programs that cannot or must not write to the volume.
//
// Invariant: nothing is ever written. A logged block takes a few dozen bytes of memory, not 4 KiB.
#pragma once

#include <memory>
#include <unordered_map>

#include "fs/disk/disk.hpp"
#include "fs/format/superblock.hpp"

namespace warren {

class OverlayDisk final : public Disk {
 public:
    /// Requires: `below` outlives this.
    explicit OverlayDisk(Disk& below) : below_(below) {}
    explicit OverlayDisk(std::unique_ptr<Disk> below) : owned_(std::move(below)), below_(*owned_) {}

    /// Makes logged blocks readable at their home locations. Returns as Journal::find_logged().
    /// Read the superblock again afterwards: it is one of the blocks.
    Result<u64> show_logged(const format::Superblock& superblock);

    u64 size_bytes() const override { return below_.size_bytes(); }
    Errc read(u64 offset, std::span<std::byte> target) override;
    Errc read_many(std::span<const DiskRead> reads) override;
    Errc write(u64, std::span<const std::byte>) override { return Errc::read_only; }
    Errc flush() override { return Errc::ok; }
    Errc discard(u64, u64) override { return Errc::ok; }

 private:
    Errc patch(u64 offset, std::span<std::byte> target);

    const std::unique_ptr<Disk> owned_;
    Disk& below_;
    std::unordered_map<u64, u64> logged_;  // place in the journal, by block number
};

}  // namespace warren
