// SPDX-License-Identifier: Apache-2.0
// What moves a caller's bytes to the disk between the plan and the apply of an operation.
#pragma once

#include <span>

#include "fs/volume/volume_implementation.hpp"

namespace warren {

/// Whether bytes take the place of others that the file shows already.
enum class Replaces : u8 { no, yes };

/// Writes the caller's bytes [offset, offset + source.size()) of a file, piece by piece.
class DataWriter {
 public:
    DataWriter(VolumeImplementation& volume, u64 offset, std::span<const std::byte> source,
               Replaces replaces)
        : volume_(volume), offset_(offset), source_(source), replaces_(replaces) {}

    /// Writes and notes the bytes, in this order and before the apply that shows them: the commit
    /// that takes the note flushes them, and none shows them before it.
    Errc operator()(const ops::Piece& piece) const;

 private:
    Errc write(const ops::Piece& piece) const;
    Errc write_large(const ops::Piece& piece, u64 begin, u64 stop) const;
    Errc write_mixed(const ops::Piece& piece, u64 at, u64 begin, u64 stop) const;
    Errc read_old(const ops::Piece& piece, u64 at, std::span<std::byte> target) const;

    VolumeImplementation& volume_;
    const u64 offset_;
    const std::span<const std::byte> source_;
    const Replaces replaces_;
};

/// Writes nothing of a caller's: only what a file has moves, to a block or to new ones.
inline DataWriter moving_writer(VolumeImplementation& volume) {
    return {volume, 0, {}, Replaces::no};
}

/// Room for bytes in the next commit, for as long as this lives.
class DataRoom {
 public:
    DataRoom(VolumeImplementation& volume, u64 length)
        // A range may begin and end within a block.
        : volume_(volume),
          blocks_(length / format::block_size + 2),
          code_(volume.take_data_room(blocks_)) {}
    ~DataRoom() {
        if (code_ == Errc::ok) volume_.give_back_data_room(blocks_);
    }
    DataRoom(const DataRoom&) = delete;
    DataRoom& operator=(const DataRoom&) = delete;
    Errc code() const { return code_; }

 private:
    VolumeImplementation& volume_;
    const u64 blocks_;
    const Errc code_;
};

}  // namespace warren
