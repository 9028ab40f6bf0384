// SPDX-License-Identifier: Apache-2.0
// The disk of an open volume. The returned code tells the caller of a write that the disk has
// refused it; this class informs the volume as a whole.
//
// Invariant: after a refusal that ends all writing, no further write begins.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "fs/disk/disk.hpp"
#include "warren/volume.hpp"

namespace warren {

class VolumeDisk final : public Disk {
 public:
    using Told = std::function<void(const DiskRefusal&)>;

    explicit VolumeDisk(std::unique_ptr<Disk> below) : below_(std::move(below)) {}

    /// Installs `told`, which is called for the first write or flush that is refused, before its
    /// caller gets the code; all later ones are refused with Errc::read_only. With ErrorMode::go_on
    /// this happens only if the disk has become smaller, because then more than that write is lost.
    /// `told` must not write. Requires: no other thread uses the disk during this call.
    void watch(ErrorMode errors, Told told) {
        errors_ = errors;
        told_ = std::move(told);
    }

    u64 size_bytes() const override { return below_->size_bytes(); }
    Errc read(u64 offset, std::span<std::byte> target) override {
        return below_->read(offset, target);
    }
    Errc read_many(std::span<const DiskRead> reads) override { return below_->read_many(reads); }
    Errc write(u64 offset, std::span<const std::byte> source) override {
        if (is_over()) return refuse();
        if (source.empty()) return Errc::ok;
        return note(below_->write(offset, source), {.offset = offset, .bytes = source.size()});
    }
    Errc write_many(std::span<const DiskWrite> writes) override {
        if (writes.empty()) return Errc::ok;
        if (is_over()) return refuse();
        const Errc code = below_->write_many(writes);
        if (code == Errc::ok) return code;
        DiskRefusal refusal{.offset = writes[0].offset, .bytes = 0, .places = writes.size()};
        for (const DiskWrite& one : writes) {
            refusal.offset = std::min(refusal.offset, one.offset);
            refusal.bytes += one.source.size();
        }
        return note(code, refusal);
    }
    Errc flush() override { return is_over() ? refuse() : note(below_->flush(), {}); }
    Errc discard(u64 offset, u64 length_bytes) override {
        return is_over() ? Errc::ok : below_->discard(offset, length_bytes);
    }

 private:
    // Relaxed: a write that begins while the volume is being informed may proceed, as if it had
    // begun earlier.
    bool is_over() const { return is_over_.load(std::memory_order_relaxed); }
    /// The code for all writes after the first refusal. Waits until the volume has been informed of
    /// that one, so that the volume does not take this code for the cause.
    Errc refuse() {
        const std::lock_guard lock(mutex_);
        return Errc::read_only;
    }
    Errc note(Errc code, DiskRefusal refusal) {
        // A lack of memory is not an error of the disk.
        if (code == Errc::ok || code == Errc::no_memory || !told_) return code;
        const Result<u64> size = below_->present_size();
        refusal.expected_size = below_->size_bytes();
        refusal.found_size = size ? *size : refusal.expected_size;
        if (errors_ == ErrorMode::go_on && !refusal.has_shrunk()) return code;
        // A thread with a second refusal waits until the volume has been informed of the first.
        const std::lock_guard lock(mutex_);
        if (is_over_.exchange(true, std::memory_order_relaxed)) return code;
        refusal.code = code;
        told_(refusal);
        return code;
    }

    const std::unique_ptr<Disk> below_;
    Told told_;
    ErrorMode errors_ = ErrorMode::remount_ro;
    std::mutex mutex_;
    std::atomic<bool> is_over_{false};
};

}  // namespace warren
