// SPDX-License-Identifier: Apache-2.0
// A disk that forwards everything to another one that it does not own. Derived disks that count,
// delay or falsify something override just that.
//
// Invariant: read_many() and write_many() forward each range separately, and zero() writes zeros,
// so that a derived disk sees every write in write().
#pragma once

#include "fs/disk/disk.hpp"

namespace warren {

class PassingDisk : public Disk {
 public:
    /// Requires: `below` outlives this.
    explicit PassingDisk(Disk& below) : below_(below) {}
    /// Not copyable: PassingDisk(another PassingDisk) would copy it, and so bypass its overrides.
    PassingDisk(const PassingDisk&) = delete;

    u64 size_bytes() const override { return below_.size_bytes(); }
    Result<u64> present_size() const override { return below_.present_size(); }
    Errc read(u64 offset, std::span<std::byte> target) override {
        return below_.read(offset, target);
    }
    Errc write(u64 offset, std::span<const std::byte> source) override {
        return below_.write(offset, source);
    }
    Errc flush() override { return below_.flush(); }
    Errc discard(u64 offset, u64 length_bytes) override {
        return below_.discard(offset, length_bytes);
    }

 protected:
    Disk& below() { return below_; }

 private:
    Disk& below_;
};

}  // namespace warren
