// SPDX-License-Identifier: Apache-2.0
// Reads parts of many files to where only a device can write. Bytes that the volume has in memory
// which the device can read are copied from there; all others are first read into staging memory,
// with few requests for what adjoins on the disk.
//
// The reads are divided in the order given into what fills a buffer. Threads take these parts one
// by one, each with a lane of its own: two buffers of staging memory, of which the one is filled
// while the other is copied.
//
// Invariant: a thread that holds contents waits only for its lane, because a writer that waits for
// these contents may have any lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/copy_piece.hpp"
#include "base/out_of_memory.hpp"
#include "fs/format/layout.hpp"
#include "warren/volume.hpp"

namespace warren {

/// For what a buffer of staging memory has room.
struct StagingRoom {
    u64 bytes;       // and StagingLane::alignment more for each piece
    u64 pieces_max;  // at least 2
};

/// The staging memory of a thread.
class StagingLane {
 public:
    static constexpr u64 alignment = 16;  // of where copies begin

    virtual ~StagingLane() = default;
    /// Whether copies can begin in these contents.
    virtual bool can_read(const HeldContents& held) const = 0;
    /// The next of two buffers, each with the room that StagedReads was given, when its copies have
    /// ended.
    virtual Errc next(std::span<std::byte>& room, std::span<CopyPiece>& pieces) = 0;
    /// Queues the copies of that buffer's first pieces.
    virtual Errc copy(u64 count) = 0;
    /// Waits until all copies have ended.
    virtual Errc wait() = 0;
};

/// Bytes [offset, offset + bytes) of a file, and where they go. The file need not be open.
struct StagedRead {
    Handle file;
    u64 offset = 0;
    std::byte* target = nullptr;
    u64 bytes = 0;
    u64 done = 0;  // of them, from the first on, if the code is Errc::ok
    Errc code = Errc::ok;
    bool may_be_held = true;  // false: it is not looked for in memory that the device can read
};

/// What goes where a file ends before its read does.
enum class AtEnd : u8 { nothing, zeros };

class StagedReads {
 public:
    /// `room`: of each buffer of all lanes.
    StagedReads(Volume& volume, std::span<StagedRead> reads, AtEnd at_end, const StagingRoom& room)
        : volume_(volume), reads_(reads), at_end_(at_end), room_(room) {
        WARREN_CHECK(room.bytes > 0 && room.pieces_max >= 2);
        divide();
    }

    /// The number of parts: more threads have no work.
    u64 parts() const { return begins_.size(); }
    /// Reads that are done or under way.
    u64 taken() const {
        const u64 part = next_.load(std::memory_order_relaxed);
        return part < begins_.size() ? begins_[part].read : reads_.size();
    }

    /// The work of a thread, until nothing is left or goes_on(), which may use the volume, returns
    /// false. Returns the error of the lane; those of the files are in the reads.
    Errc run(StagingLane& lane, const std::function<bool()>& goes_on) {
        Turns turns{lane, {}};
        const Errc code = or_no_memory([&] { return run_turns(turns, goes_on); });
        const Errc ended = code == Errc::ok ? turns.release() : lane.wait();
        return code == Errc::ok ? ended : code;
    }

 private:
    /// A byte of a read.
    struct Position {
        u64 read = 0;
        u64 begin = 0;
        friend bool operator==(const Position&, const Position&) = default;
    };
    /// Bytes of a read that are in one part.
    struct Piece {
        StagedRead* read;
        u64 begin;
        u64 bytes;

        u64 offset() const { return start_of(*read) + begin; }
    };
    /// What a thread holds for the copies of both buffers.
    struct Turns {
        StagingLane& lane;
        std::vector<HeldContents> held[2];

        /// Waits for the copies of contents that are held, and releases these.
        Errc release() {
            if (held[0].empty() && held[1].empty()) return Errc::ok;
            const Errc ended = lane.wait();
            held[0].clear();
            held[1].clear();
            return ended;
        }
    };
    /// A buffer that is being filled.
    struct Filling {
        std::span<std::byte> room;
        std::span<CopyPiece> pieces;
        u64 count = 0;  // of pieces
        u64 used = 0;   // of the room
        bool last_is_staged = false;

        std::span<std::byte> take(u64 bytes) {
            constexpr u64 alignment = StagingLane::alignment;
            WARREN_CHECK(used + bytes <= room.size());
            const std::span<std::byte> taken = room.subspan(used, bytes);
            used += (bytes + alignment - 1) / alignment * alignment;
            return taken;
        }
        void add(const CopyPiece& piece) {
            WARREN_CHECK(count < pieces.size());
            pieces[count++] = piece;
        }
        void add_shown(std::span<const std::byte> bytes, std::byte* to) {
            add({bytes.data(), to, bytes.size()});
            last_is_staged = false;
        }
        void add_staged(std::span<const std::byte> bytes, std::byte* to) {
            if (bytes.empty()) return;
            CopyPiece* const last = last_is_staged ? &pieces[count - 1] : nullptr;
            if (last != nullptr && last->from + last->bytes == bytes.data() &&
                last->to + last->bytes == to) {
                last->bytes += bytes.size();
                return;
            }
            add({bytes.data(), to, bytes.size()});
            last_is_staged = true;
        }
    };

    Errc run_turns(Turns& turns, const std::function<bool()>& goes_on) {
        constexpr u32 turns_at_once = 16;  // between two questions whether to go on
        std::vector<Piece> batch;
        for (u32 turn = 0;; ++turn) {
            if (turn % turns_at_once == 0) {
                WARREN_TRY(turns.release());
                if (!goes_on()) return Errc::ok;
            }
            if (!take(batch)) return Errc::ok;
            Filling filling;
            WARREN_TRY(turns.lane.next(filling.room, filling.pieces));
            WARREN_CHECK(filling.pieces.size() >= room_.pieces_max);
            turns.held[turn % 2].clear();
            WARREN_TRY(fill(turns, batch, filling, turns.held[turn % 2]));
            WARREN_TRY(turns.lane.copy(filling.count));
        }
    }

    /// No file has bytes from there on, and what lies behind it does not overflow.
    static u64 start_of(const StagedRead& read) {
        return std::min(read.offset, format::file_size_max);
    }
    /// Whether a read has pieces in several parts, at multiples of a buffer's length.
    bool is_divided(const StagedRead& read) const { return read.bytes > room_.bytes; }
    /// The length of the piece at a position, which moves behind the piece.
    u64 pass(Position& at) const {
        const StagedRead& read = reads_[at.read];
        u64 bytes = read.bytes - at.begin;
        if (is_divided(read))
            bytes = std::min(bytes, room_.bytes - (start_of(read) + at.begin) % room_.bytes);
        at.begin += bytes;
        if (at.begin == read.bytes) at = {at.read + 1, 0};
        return bytes;
    }

    /// Makes parts of as many pieces as a buffer has room for, even if each needs some copies.
    void divide() {
        u64 room = 0;
        u64 pieces = 0;
        for (Position at; at.read < reads_.size();) {
            const Position begin = at;
            if (is_divided(reads_[at.read])) reads_[at.read].done = reads_[at.read].bytes;
            const u64 bytes = pass(at);
            if (bytes == 0) continue;
            if (bytes > room || pieces == 0) {
                begins_.push_back(begin);
                room = room_.bytes;
                pieces = room_.pieces_max / 2;
            }
            room -= bytes;
            --pieces;
        }
    }

    /// Takes the pieces of the next part. False if none is left.
    bool take(std::vector<Piece>& batch) {
        batch.clear();
        const u64 part = next_.fetch_add(1, std::memory_order_relaxed);
        if (part >= begins_.size()) return false;
        const bool is_last = part + 1 == begins_.size();
        const Position end = is_last ? Position{reads_.size(), 0} : begins_[part + 1];
        for (Position at = begins_[part]; at != end;) {
            StagedRead& read = reads_[at.read];
            const u64 begin = at.begin;
            const u64 bytes = pass(at);
            if (bytes > 0) batch.push_back({&read, begin, bytes});
            if (!is_divided(read)) read.done = bytes;
        }
        return true;
    }

    /// Fills a buffer with the list of copies, and with what has to be read for them.
    Errc fill(Turns& turns, std::span<const Piece> batch, Filling& filling,
              std::vector<HeldContents>& held) {
        std::vector<FileRead> requests;
        std::vector<const Piece*> owners;
        for (std::size_t i = 0; i < batch.size(); ++i) {
            const Piece& piece = batch[i];
            // A copy stays for each piece that is not shown.
            const u64 copies = filling.pieces.size() - filling.count - (batch.size() - i);
            const u64 shown = show(turns.lane, piece, copies, filling, held);
            if (shown == piece.bytes) continue;
            requests.push_back(
                {piece.read->file, piece.offset() + shown, filling.take(piece.bytes - shown)});
            owners.push_back(&piece);
        }
        if (requests.empty()) return Errc::ok;
        if (filling.count > 0) WARREN_TRY(turns.lane.copy(std::exchange(filling.count, 0)));
        filling.last_is_staged = false;
        WARREN_TRY(turns.release());
        volume_.read_many(requests);
        for (std::size_t i = 0; i < requests.size(); ++i)
            add(requests[i], *owners[i], filling);
        return Errc::ok;
    }

    /// Adds at most `copies` copies of bytes where they are; returns how many bytes.
    u64 show(const StagingLane& lane, const Piece& piece, u64 copies, Filling& filling,
             std::vector<HeldContents>& held) {
        u64 done = 0;
        if (!piece.read->may_be_held || piece.offset() % StagingLane::alignment != 0) return done;
        for (; done < piece.bytes && copies > 0; --copies) {
            HeldContents part;
            const u64 begin = piece.begin + done;
            const Errc code =
                volume_.hold(piece.read->file, piece.offset() + done, piece.bytes - done, part);
            if (code != Errc::ok || !lane.can_read(part)) break;
            held.push_back(std::move(part));
            const std::span<const std::byte> bytes = held.back().bytes();
            filling.add_shown(bytes, piece.read->target + begin);
            done += bytes.size();
        }
        return done;
    }

    /// Adds the copy of what was read.
    void add(const FileRead& request, const Piece& piece, Filling& filling) {
        const u64 begin = piece.begin + piece.bytes - request.target.size();
        if (!request.done) {
            const std::lock_guard lock(mutex_);
            piece.read->code = request.done.code();
            return;
        }
        std::span<std::byte> bytes = request.target;
        const std::span<std::byte> rest = bytes.subspan(*request.done);
        if (!rest.empty()) {
            const std::lock_guard lock(mutex_);
            piece.read->done = std::min(piece.read->done, begin + *request.done);
        }
        if (at_end_ == AtEnd::zeros) {
            std::memset(rest.data(), 0, rest.size());
        } else {
            bytes = bytes.first(*request.done);
        }
        filling.add_staged(bytes, piece.read->target + begin);
    }

    Volume& volume_;
    const std::span<StagedRead> reads_;
    const AtEnd at_end_;
    const StagingRoom room_;
    std::vector<Position> begins_;  // of the parts
    std::atomic<u64> next_{0};      // part
    std::mutex mutex_;              // guards the results of the reads
};

}  // namespace warren
