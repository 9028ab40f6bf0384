// SPDX-License-Identifier: Apache-2.0
// Writes one long range of a file on several threads, which get the bytes from a device piece by
// piece. The blocks are reserved first: then the pieces can be written in any order at once, the
// file gets long extents, and a lack of space is known before any byte is written.
//
// Invariant: a range that was not written whole does not make the file longer than what was written
// from its start on.
#pragma once

#include <algorithm>
#include <mutex>
#include <span>
#include <vector>

#include "fs/format/layout.hpp"
#include "warren/volume.hpp"

namespace warren {

class StagedWrite {
 public:
    /// Pieces end at the multiples of `piece_bytes` in the file, which is open. Requires: they are
    /// multiples of a block.
    StagedWrite(Volume& volume, Handle file, u64 offset, u64 bytes, u64 piece_bytes)
        : volume_(volume), file_(file), offset_(offset), bytes_(bytes), piece_bytes_(piece_bytes) {}

    /// Errc::no_space: no byte was written, though holes below the old size may have got blocks.
    /// Errc::file_too_big: no file can have this range. end() must follow in any case.
    Errc begin() {
        if (bytes_ == 0) return Errc::ok;
        if (!format::fits_in_file(offset_, bytes_)) return code_ = Errc::file_too_big;
        done_.resize((offset_ + bytes_ - 1) / piece_bytes_ - offset_ / piece_bytes_ + 1);
        if (pieces() == 1) return Errc::ok;
        const Result<Attributes> before = volume_.attributes(file_);
        if (!before) return code_ = before.code();
        old_size_ = before->size;
        return code_ = volume_.allocate(file_, Allocate::reserve, offset_, bytes_);
    }
    u64 pieces() const { return done_.size(); }

    /// A part of the range. Its number is that of its piece.
    struct Piece {
        u64 number = 0;
        u64 begin = 0;  // from the start of the range
        u64 bytes = 0;
    };
    /// The next piece; false if there is none, or an error.
    bool take(Piece& piece) {
        const std::lock_guard lock(mutex_);
        if (next_ == pieces() || code_ != Errc::ok) return false;
        const u64 first = offset_ / piece_bytes_;
        const u64 begin = std::max((first + next_) * piece_bytes_, offset_);
        const u64 end = std::min((first + next_ + 1) * piece_bytes_, offset_ + bytes_);
        piece = {next_++, begin - offset_, end - begin};
        return true;
    }
    /// Writes a piece.
    void put(const Piece& piece, std::span<const std::byte> bytes) {
        Errc code = Errc::ok;
        for (u64 done = 0; done < piece.bytes && code == Errc::ok;) {
            const Result<u64> put =
                volume_.write(file_, offset_ + piece.begin + done, bytes.subspan(done));
            code = put && *put == 0 ? Errc::io : put.code();
            if (put) done += *put;
        }
        const std::lock_guard lock(mutex_);
        if (code == Errc::ok) done_[piece.number] = true;
        if (code_ == Errc::ok) code_ = code;
    }
    /// Returns the first error. Requires: no thread uses this any more.
    Errc end() {
        const auto missing = std::ranges::find(done_, false);
        if (missing == done_.end() || pieces() == 1) return code_;
        next_ = static_cast<u64>(missing - done_.begin());
        const u64 written = next_ == 0 ? 0 : (offset_ / piece_bytes_ + next_) * piece_bytes_;
        const Result<Attributes> now = volume_.attributes(file_);
        const u64 size = std::max(old_size_, written);
        // A larger file was extended by another writer, whose bytes stay.
        if (now && now->size > size && now->size <= offset_ + bytes_) {
            const AttributeChange change{.which = AttributeChange::size, .new_size = size};
            static_cast<void>(volume_.set_attributes({.check = false}, file_, change));
        }
        return code_;
    }

 private:
    Volume& volume_;
    const Handle file_;
    const u64 offset_;
    const u64 bytes_;
    const u64 piece_bytes_;
    u64 old_size_ = ~u64{0};
    std::mutex mutex_;  // guards what follows
    std::vector<bool> done_;
    u64 next_ = 0;
    Errc code_ = Errc::ok;
};

}  // namespace warren
