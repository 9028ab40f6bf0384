// SPDX-License-Identifier: Apache-2.0
// A disk in memory that records writes and flushes, so that a test can simulate a power cut after
// any event and examine what a real medium might contain then.
//
// Invariant: every image that image_after() returns is allowed by the contract of Disk: events
// before the last flush are complete, of later ones any 512-byte sectors may be present.
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

/// What a power cut may do to the writes and discards since the last flush.
struct Cut {
    bool drop = false;     // each may be lost
    bool tear = false;     // each 512-byte sector of a write may be lost
    bool reorder = false;  // they reach the medium in any order
    u64 seed = 0;          // selects among these possibilities
    u64 lost = 0;          // bit n: the n-th of them is lost in any case
};

/// The bytes of a disk, in pieces that are allocated when they are written. Copies share pieces.
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
        bool is_own = false;  // not shared with a copy, so it may be written
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
    /// Frees memory instead of writing zeros to it.
    Errc zero(u64 offset, u64 length_bytes) override { return discard(offset, length_bytes); }

    /// Starts an empty log from the present contents.
    void start_recording();
    /// Stops recording; the log is kept.
    void stop_recording();
    u64 event_count() const;
    DiskEvent event(u64 index) const;
    /// The number of events after the last flush among the first `events` events.
    u64 count_unflushed(u64 events) const;
    /// The disk that a power cut after the first `events` events of the log leaves, without a log.
    /// If `cut` has no options set, all these events are complete.
    std::unique_ptr<MemoryDisk> image_after(u64 events, const Cut& cut = {}) const;
    /// An independent disk with the same contents and no log.
    std::unique_ptr<MemoryDisk> copy() const;
    /// The memory used for contents, without the log.
    u64 resident_bytes() const;

 private:
    MemoryDisk(u64 size_bytes, const SparseBytes& bytes) : size_bytes_(size_bytes), bytes_(bytes) {}
    bool contains(u64 offset, u64 length_bytes) const {
        return offset <= size_bytes_ && length_bytes <= size_bytes_ - offset;
    }
    void advance_prefix(u64 events) const;
    u64 unflushed_before(u64 events) const;

    const u64 size_bytes_;
    mutable std::mutex mutex_;  // guards the members below
    SparseBytes bytes_;
    bool is_recording_ = false;
    std::vector<DiskEvent> log_;
    std::unique_ptr<SparseBytes> base_;  // contents at start_recording()
    // Contents after the first prefix_events_ events: tests mostly cut at ascending events.
    mutable std::unique_ptr<SparseBytes> prefix_;
    mutable u64 prefix_events_ = 0;
};

}  // namespace warren
