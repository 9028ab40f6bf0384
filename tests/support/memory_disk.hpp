// SPDX-License-Identifier: Apache-2.0
// A disk in memory that remembers what was written and when it was flushed, so that a test can
// simulate a power cut after any event and examine what a real medium might then hold.
//
// Invariant: every image that image_after() makes is one that the contract of Disk allows: events
// before the last flush are there in full, of later ones any 512-byte sectors.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "fs/disk/disk.hpp"

namespace warren {

enum class DiskEventKind : u8 { write, discard, flush };

struct DiskEvent {
    DiskEventKind kind = DiskEventKind::flush;
    u64 offset = 0;
    u64 length_bytes = 0;
    std::vector<std::byte> bytes = {};  // of a write
};

/// What may happen at a power cut to the writes and discards since the last flush.
struct Cut {
    bool drop = false;     // each may be lost
    bool tear = false;     // each 512-byte sector of a write may be lost
    bool reorder = false;  // they reach the medium in any order
    u64 seed = 0;          // chooses among all that
    u64 lost = 0;          // bit n: the n-th of them is lost in any case
};

/// The bytes of a disk in pieces that exist once they are written. A copy shares the pieces.
class SparseBytes {
 public:
    SparseBytes() = default;
    SparseBytes(const SparseBytes& other);
    SparseBytes& operator=(const SparseBytes&) = delete;

    void read(u64 offset, std::span<std::byte> target) const;
    void write(u64 offset, std::span<const std::byte> source);
    void zero(u64 offset, u64 length_bytes);
    u64 piece_count() const { return pieces_.size(); }

    static constexpr u64 piece_bytes = 64 * kib;

 private:
    using Piece = std::array<std::byte, piece_bytes>;
    struct Slot {
        std::shared_ptr<Piece> piece;
        bool is_own = false;  // no copy shares it, so it may be written
    };
    Piece& own_piece(u64 number);

    mutable std::unordered_map<u64, Slot> pieces_;
};

class MemoryDisk final : public Disk {
 public:
    explicit MemoryDisk(u64 size_bytes) : size_bytes_(size_bytes) {}

    u64 size_bytes() const override { return size_bytes_; }
    Errc read(u64 offset, std::span<std::byte> target) override;
    Errc write(u64 offset, std::span<const std::byte> source) override;
    Errc flush() override;
    /// The range reads as zeros afterwards.
    Errc discard(u64 offset, u64 length_bytes) override;

    /// Starts an empty log at the present contents.
    void start_recording();
    /// Stops adding to the log; what is in it stays.
    void stop_recording();
    u64 event_count() const;
    DiskEvent event(u64 index) const;
    /// How many of the first `events` events come after the last flush among them.
    u64 count_unflushed(u64 events) const;
    /// The disk as a power cut after the first `events` events of the log leaves it, with nothing
    /// recorded. Without options in `cut` all those events are there in full.
    std::unique_ptr<MemoryDisk> image_after(u64 events, const Cut& cut = {}) const;
    /// A disk of its own with the same contents and no log.
    std::unique_ptr<MemoryDisk> copy() const;
    /// Memory in use for contents, without the log.
    u64 resident_bytes() const;

 private:
    MemoryDisk(u64 size_bytes, const SparseBytes& bytes) : size_bytes_(size_bytes), bytes_(bytes) {}
    bool contains(u64 offset, u64 length_bytes) const {
        return offset <= size_bytes_ && length_bytes <= size_bytes_ - offset;
    }
    void advance_prefix(u64 events) const;
    u64 unflushed_before(u64 events) const;

    const u64 size_bytes_;
    mutable std::mutex mutex_;  // guards all below
    SparseBytes bytes_;
    bool is_recording_ = false;
    std::vector<DiskEvent> log_;
    std::unique_ptr<SparseBytes> base_;  // contents at start_recording()
    // Contents after the first prefix_events_ events: cuts are mostly asked for in rising order.
    mutable std::unique_ptr<SparseBytes> prefix_;
    mutable u64 prefix_events_ = 0;
};

}  // namespace warren
