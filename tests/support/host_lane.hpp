// SPDX-License-Identifier: Apache-2.0
// A lane of staging memory without a device. Copies are made as late as a device might make them,
// so that a test finds memory that is reused or released too early.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "fs/volume/staged_reads.hpp"

namespace warren {

class HostLane final : public StagingLane {
 public:
    HostLane(u64 room_bytes, u64 pieces_max, bool reads_held)
        : pieces_max_(pieces_max), reads_held_(reads_held) {
        for (Buffer& buffer : buffers_) {
            buffer.room.resize(room_bytes + pieces_max * alignment);
            buffer.pieces.resize(pieces_max);
        }
    }

    bool can_read(const HeldContents& held) const override {
        return reads_held_ && !held.bytes().empty();
    }
    Errc next(std::span<std::byte>& room, std::span<CopyPiece>& pieces) override {
        now_ ^= 1;
        Buffer& buffer = buffers_[now_];
        make_copies(buffer);
        std::ranges::fill(buffer.room, std::byte{0xee});
        room = buffer.room;
        pieces = buffer.pieces;
        return Errc::ok;
    }
    Errc copy(u64 count) override {
        EXPECT_LE(count, pieces_max_);
        EXPECT_EQ(buffers_[now_].queued, 0u);
        buffers_[now_].queued = count;
        return code;
    }
    Errc wait() override {
        for (Buffer& buffer : buffers_)
            make_copies(buffer);
        return Errc::ok;
    }

    Errc code = Errc::ok;     // of copy()
    u64 copied_in_place = 0;  // bytes that did not pass through the room

 private:
    struct Buffer {
        std::vector<std::byte> room;
        std::vector<CopyPiece> pieces;
        u64 queued = 0;
    };

    void make_copies(Buffer& buffer) {
        for (const CopyPiece& piece : std::span(buffer.pieces).first(buffer.queued)) {
            EXPECT_EQ(reinterpret_cast<u64>(piece.from) % alignment, 0u);
            std::memcpy(piece.to, piece.from, piece.bytes);
            const bool is_staged =
                piece.from >= buffer.room.data() &&
                piece.from + piece.bytes <= buffer.room.data() + buffer.room.size();
            if (!is_staged) copied_in_place += piece.bytes;
        }
        buffer.queued = 0;
    }

    const u64 pieces_max_;
    const bool reads_held_;
    Buffer buffers_[2];
    u32 now_ = 0;
};

}  // namespace warren
