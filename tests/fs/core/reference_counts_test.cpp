// SPDX-License-Identifier: Apache-2.0
// The reference counts of an inode at the limit of their 32 bits: a reference that cannot be
// counted is refused and changes nothing, for a team of one lane and of four.
#include <gtest/gtest.h>

#include "fs/ops/answer.hpp"
#include "tests/support/by_team.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/open_inside.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::reference_counts_test {
namespace {

using ops::lookups_mask;
using ops::one_lookup;
using ops::one_open;

template <class By>
class ReferenceCounts : public testing::Test {
 protected:
    ReferenceCounts() {
        {
            const auto volume = open_on(*disk_, {.workers = 1});
            file_ = make_file(*volume, volume->root(), "file");
            root_ = volume->root();
            EXPECT_EQ(volume->close(), Errc::ok);
        }
        volume_ = open_inside(*disk_);
        EXPECT_EQ(take(0), Errc::ok);  // its blocks are in memory from now on
    }
    ~ReferenceCounts() override {
        EXPECT_EQ(volume_->close(), Errc::ok);
        volume_.reset();
        expect_clean(*disk_);
    }

    /// Runs an operation by a team, and serves its requests.
    template <class Body>
    Errc run(const Body& body) {
        for (;;) {
            u64 place = 0;
            const Errc code = by_([&](const auto& team) {
                core::Operation op(team, volume_->store());
                const Errc one = body(op);
                if (team.is_leader()) place = op.needed_place;
                core::finish(op);
                return one;
            });
            if (code == Errc::need_block) {
                EXPECT_EQ(volume_->loader().load(place), Errc::ok);
            } else if (code != Errc::retry) {
                return code;
            }
        }
    }
    Errc take(u64 references) {
        return run([&](auto& op) { return ops::get_attributes(op, file_, references).code(); });
    }
    Errc look_up(u64 references) {
        return run([&](auto& op) {
            return ops::lookup(op, anyone_, root_, "file", 4, references).code();
        });
    }
    Errc open() {
        return run([&](auto& op) { return ops::open_file(op, file_); });
    }
    Errc release() {
        return run([&](auto& op) { return ops::release_file(op, file_).code(); });
    }
    Errc link(u64 references) {
        return run([&](auto& op) {
            return ops::link(op, anyone_, file_, root_, "more", 4, references, 1).code();
        });
    }
    void forget(u64 count) {
        EXPECT_EQ(run([&](auto& op) { return ops::forget(op, file_, count); }), Errc::ok);
    }
    u64 references() {
        return reinterpret_cast<const format::Inode*>(volume_->store().base +
                                                      file_.inode * format::inode_size)
            ->references;
    }

    By by_;
    std::unique_ptr<MemoryDisk> disk_ = make_memory_disk(16 * mib);
    std::unique_ptr<VolumeImplementation> volume_;
    Handle file_, root_;
    const core::Credentials anyone_{.check = false};
};
using Teams = testing::Types<ByThread, ByLanes>;
TYPED_TEST_SUITE(ReferenceCounts, Teams);

TYPED_TEST(ReferenceCounts, LookUpsEndBelowTheOpens) {
    ASSERT_EQ(this->take(lookups_mask - 2), Errc::ok);
    EXPECT_EQ(this->take(one_lookup), Errc::ok);
    EXPECT_EQ(this->look_up(one_lookup), Errc::ok);
    EXPECT_EQ(this->references(), lookups_mask);
    EXPECT_EQ(this->take(one_lookup), Errc::overflow);
    EXPECT_EQ(this->look_up(one_lookup), Errc::overflow);
    EXPECT_EQ(this->look_up(one_lookup + one_open), Errc::overflow);
    EXPECT_EQ(this->link(one_lookup), Errc::overflow);
    EXPECT_EQ(this->references(), lookups_mask);
    EXPECT_EQ(this->look_up(0), Errc::ok) << "who holds nothing finds it";
    EXPECT_EQ(this->release(), Errc::bad_handle) << "nobody has opened it";
    EXPECT_EQ(this->open(), Errc::ok);
    EXPECT_EQ(this->references(), lookups_mask + one_open);
    this->forget(1);
    EXPECT_EQ(this->take(one_lookup), Errc::ok);
    this->forget(~u64{0});
    EXPECT_EQ(this->references(), one_open);
    EXPECT_EQ(this->release(), Errc::ok);
    EXPECT_EQ(this->references(), 0u);
}

TYPED_TEST(ReferenceCounts, OpensEndAtTheirBits) {
    ASSERT_EQ(this->take(one_lookup + (lookups_mask - 1) * one_open), Errc::ok);
    EXPECT_EQ(this->open(), Errc::ok);
    EXPECT_EQ(this->references(), lookups_mask * one_open + one_lookup);
    EXPECT_EQ(this->open(), Errc::overflow);
    EXPECT_EQ(this->look_up(one_open), Errc::overflow);
    EXPECT_EQ(this->look_up(one_lookup), Errc::ok);
    EXPECT_EQ(this->release(), Errc::ok);
    EXPECT_EQ(this->open(), Errc::ok);
    this->forget(2);
    EXPECT_EQ(this->references(), lookups_mask * one_open);
}

}  // namespace
}  // namespace warren::reference_counts_test
