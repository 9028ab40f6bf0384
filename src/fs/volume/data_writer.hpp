// SPDX-License-Identifier: Apache-2.0
// Writes a caller's bytes to the disk between the plan and the apply of an operation.
#pragma once

#include <array>
#include <span>

#include "fs/volume/volume_implementation.hpp"

namespace warren {

/// Writes the caller's bytes [offset, offset + source.size()) of a file, one piece at a time.
class DataWriter {
 public:
    /// FreshData::no: the bytes replace bytes that are visible in the file.
    DataWriter(VolumeImplementation& volume, u64 offset, std::span<const std::byte> source,
               FreshData fresh_data)
        : volume_(volume),
          offset_(offset),
          source_(source),
          fresh_data_(fresh_data),
          keeps_every_edge_(!volume.works_on_host() && volume.file_buffer() != nullptr) {}

    /// Writes the bytes of a piece, then calls note_data(), before apply makes the piece visible.
    /// So the commit that makes the bytes visible flushes them first.
    Errc operator()(const ops::Piece& piece) const;

    /// Reads a block of the file if it is shared, or if the file buffer would read it to change a
    /// part: its piece then needs no read. The blocks of an engine with memory of its own are
    /// written when they are visible, and a read that fails then could not be told without harm.
    /// Requires: exclusive access to the file's data; at most two blocks.
    Errc keep_block(Handle file, u64 block);
    /// keep_block() for the blocks of a file of `size` bytes that [offset, offset + source.size())
    /// covers in part.
    Errc keep_edges(Handle file, u64 size);

 private:
    using BlockSpan = std::span<std::byte, format::block_size>;
    struct KeptBlock {
        u64 block;
        std::array<std::byte, format::block_size> bytes;
    };

    Errc write(const ops::Piece& piece) const;
    Errc read_old(const ops::Piece& piece, u64 at, BlockSpan target) const;

    VolumeImplementation& volume_;
    const u64 offset_;
    const std::span<const std::byte> source_;
    const FreshData fresh_data_;  // of bytes that are written in place
    const bool keeps_every_edge_;
    u32 kept_count_ = 0;
    std::array<KeptBlock, 2> kept_;  // kept_count_ of them
};

/// A writer without bytes of a caller: it only moves contents of the file to other blocks.
inline DataWriter moving_writer(VolumeImplementation& volume) {
    return {volume, 0, {}, FreshData::yes};
}

/// Reserves space for bytes in the next commit, for the lifetime of this object; commits first if
/// there is none left. Reserves nothing without a file buffer. Requires: no piece is being written.
class DataRoom {
 public:
    DataRoom(VolumeImplementation& volume, u64 length)
        // A range may begin and end within a block.
        : buffer_(volume.file_buffer()),
          blocks_(length / format::block_size + 2),
          code_(take(volume)) {}
    ~DataRoom() {
        if (buffer_ != nullptr && code_ == Errc::ok) buffer_->give_back_room(blocks_);
    }
    DataRoom(const DataRoom&) = delete;
    DataRoom& operator=(const DataRoom&) = delete;
    Errc code() const { return code_; }

 private:
    Errc take(VolumeImplementation& volume) const {
        while (buffer_ != nullptr && buffer_->take_room(blocks_) == Errc::need_commit)
            WARREN_TRY(volume.commit());
        return Errc::ok;
    }

    FileBuffer* const buffer_;
    const u64 blocks_;
    const Errc code_;
};

}  // namespace warren
