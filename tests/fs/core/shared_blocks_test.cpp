// SPDX-License-Identifier: Apache-2.0
// The reference counts of shared blocks in a buffer cache. Counts that an operation has not pinned
// may be evicted while it works, so it must not touch their memory.
#include "fs/core/shared_blocks.hpp"

#include <gtest/gtest.h>

#include "fs/engine/cpu/store_memory.hpp"
#include "fs/ops/place_block.hpp"
#include "tests/support/by_team.hpp"

namespace warren::shared_blocks_test {
namespace {

using format::Block;
using format::ReferenceBlock;

constexpr u64 frame = 2;
constexpr u64 counts_place = format::frame_size;

/// Blocks 0 and 1 of a frame, which an extent is about to drop; block 1 has another reference.
template <class By>
class DropExtent : public testing::Test {
 protected:
    void SetUp() override {
        const StoreShape shape{4 * format::frame_size, 4 * format::block_size, 1, 64};
        ASSERT_EQ(memory_.open(shape), Errc::ok);
        store().state->journal_room = 64;
        store().state->blocks_used = 3;
        format::FrameEntry& entry = store().frame(frame);
        entry.kind = static_cast<u64>(format::FrameKind::data);
        entry.used[0] = 3;
        entry.references = format::BlockPointer::to(counts_place).raw;
        Block block{};
        auto& counts = reinterpret_cast<ReferenceBlock&>(block);
        core::start_header(counts.header, core::counts_identity(frame));
        counts.extra[1] = 1;
        u32 hand = 0;
        ops::Evicted evicted;
        ASSERT_EQ(ops::place_block(ThreadTeam{}, store(), hand, counts_place, block, evicted),
                  Errc::ok);
    }
    const core::Store& store() { return memory_.store(); }

    void drop(bool pins) {
        const Errc code = by_([&](const auto& team) {
            core::Operation op(team, store());
            if (pins) WARREN_TRY(core::pin_counts(op, frame * format::frame_size, 2));
            WARREN_TRY(op.begin_apply(WARREN_CREDITS(2)));
            core::drop_extent(op, {0, format::BlockPointer::to(frame * format::frame_size), 2,
                                   format::extent_shared});
            op.end_apply();
            core::finish(op);
            return Errc::ok;
        });
        ASSERT_EQ(code, Errc::ok);
    }
    u32 other_references() {
        Block block{};
        EXPECT_EQ(ops::read_block(ThreadTeam{}, store(), counts_place, block), Errc::ok);
        return reinterpret_cast<const ReferenceBlock&>(block).extra[1];
    }

    By by_;
    StoreMemory memory_;
};
using Teams = testing::Types<ByThread, ByLanes>;
TYPED_TEST_SUITE(DropExtent, Teams);

TYPED_TEST(DropExtent, keepsWhatOthersReferTo) {
    this->drop(true);
    EXPECT_EQ(this->other_references(), 0u);
    EXPECT_EQ(this->store().frame(frame).used[0], 2u);
    EXPECT_EQ(this->store().state->blocks_used, 2u);
}

TYPED_TEST(DropExtent, touchesNoCountsThatThePlanHasNotPinned) {
    this->drop(false);
    EXPECT_EQ(this->other_references(), 1u) << "the memory may hold another block by now";
    EXPECT_EQ(this->store().frame(frame).used[0], 0u);
    EXPECT_EQ(this->store().state->blocks_used, 1u);
}

}  // namespace
}  // namespace warren::shared_blocks_test
