// SPDX-License-Identifier: Apache-2.0
// Answers in parts to peers that are slow or gone, and the stepwise scan that produces them.
#include "apps/fuse/part_stream.hpp"

#include <gtest/gtest.h>

#include <map>

#include "base/random.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::fuse::part_stream_test {
namespace {

Encoder item_of(u64 number) {
    Encoder item;
    item.number(number).text(std::string(1000, 'x'));
    return item;
}

/// A peer that reads nothing until it is told to.
class SlowPeer {
 public:
    PartSink sink() {
        return {[this](std::string_view part) { return take(part); }, [this] { leave(); }};
    }
    void read_on() { set(true, false); }
    void leave() { set(true, true); }
    u64 items() const { return items_; }

 private:
    bool take(std::string_view part) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return is_reading_; });
        Decoder decoder(part);
        for (; !is_gone_ && !decoder.at_end(); ++items_) {
            EXPECT_EQ(decoder.number(), items_);
            EXPECT_EQ(decoder.text().size(), 1000u);
        }
        return !is_gone_;
    }
    void set(bool is_reading, bool is_gone) {
        {
            const std::lock_guard lock(mutex_);
            is_reading_ = is_reading;
            is_gone_ = is_gone;
        }
        changed_.notify_all();
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    bool is_reading_ = false;
    bool is_gone_ = false;
    u64 items_ = 0;
};

/// Adds items until the stream is full; returns their number.
u64 fill(PartStream& stream, u64 first = 0) {
    u64 count = first;
    // Far more than it should accept, so that the loop ends in any case.
    while (!stream.is_full() && count < first + 100'000 && stream.put(item_of(count)))
        ++count;
    return count;
}

TEST(PartStreams, PuttingInNeverWaitsAndMemoryIsBounded) {
    SlowPeer peer;
    const PartSink sink = peer.sink();
    PartStream stream(sink);
    const u64 count = fill(stream);
    EXPECT_TRUE(stream.is_full());
    EXPECT_LT(count * 1000, PartStream::queue_bytes_max + 2 * PartStream::part_bytes);
    peer.read_on();
    EXPECT_EQ(stream.wait_for_room(), Errc::ok);
    const u64 more = fill(stream, count);
    EXPECT_GT(more, count);
    EXPECT_EQ(stream.finish(), Errc::ok);
    EXPECT_EQ(peer.items(), more);
}

TEST(PartStreams, AShortAnswerIsSentAtTheEnd) {
    SlowPeer peer;
    peer.read_on();
    const PartSink sink = peer.sink();
    PartStream stream(sink);
    EXPECT_TRUE(stream.put(item_of(0)));
    EXPECT_EQ(stream.finish(), Errc::ok);
    EXPECT_EQ(peer.items(), 1u);
}

TEST(PartStreams, APeerThatIsGoneEndsIt) {
    SlowPeer peer;
    const PartSink sink = peer.sink();
    PartStream stream(sink);
    const u64 count = fill(stream);
    peer.leave();
    EXPECT_EQ(stream.wait_for_room(), Errc::canceled);
    EXPECT_TRUE(stream.is_full()) << "nothing more is asked of a scan";
    EXPECT_FALSE(stream.put(item_of(count)));
    EXPECT_EQ(stream.finish(), Errc::canceled);
}

TEST(PartStreams, OneThatIsGivenUpWaitsForNoPeer) {
    SlowPeer peer;
    const PartSink sink = peer.sink();
    {
        PartStream stream(sink);
        fill(stream);
    }
    EXPECT_EQ(peer.items(), 0u);
}

/// A random tree of a few thousand names; some directories have many leaves.
void make_tree(Volume& volume, Handle in, Random& random, int depth) {
    const u64 files = random.one_in(4) ? 600 : random.below(20);
    for (u64 i = 0; i < files; ++i)
        make_file(volume, in, "f" + std::to_string(i));
    for (u64 i = 0; depth > 0 && i < 1 + random.below(6); ++i)
        make_tree(volume, make_directory(volume, in, "d" + std::to_string(i)), random, depth - 1);
}

/// Counts how often each inode is reported.
class Meeting {
 public:
    bool take(const Scanned& entry) {
        const std::lock_guard lock(mutex_);
        ++times_[entry.attributes.handle.inode];
        return true;
    }
    const std::map<u64, int>& times() const { return times_; }

 private:
    std::mutex mutex_;
    std::map<u64, int> times_;
};

TEST(ScanSteps, MeetWhatOneScanMeetsOnceEach) {
    const Seed seed;
    Random random(seed.value());
    for (const u32 workers : {1u, 4u}) {
        MemoryVolume volume(64 * mib, {.workers = workers});
        make_tree(*volume, volume->root(), random, 4);
        Meeting whole, stepwise;
        ASSERT_EQ(volume->scan(anybody, volume->root(),
                               [&](const Scanned& entry) { return whole.take(entry); }),
                  Errc::ok);
        u64 steps = 0;
        std::atomic<i64> room = 0;
        std::vector<ScanPosition> left{{volume->root()}};
        while (!left.empty()) {
            room = static_cast<i64>(random.below(1 + whole.times().size() / 8));
            ASSERT_EQ(volume->scan_step(anybody, left,
                                        [&](const Scanned& entry) {
                                            --room;
                                            return stepwise.take(entry);
                                        },
                                        {}, {.is_full = [&] { return room <= 0; }}),
                      Errc::ok);
            ++steps;
        }
        EXPECT_EQ(stepwise.times(), whole.times());
        EXPECT_GT(steps, 2u);
    }
}

TEST(ScanSteps, DirectoriesThatGoMeanwhileAreSkipped) {
    MemoryVolume volume(64 * mib);
    const Handle doomed = make_directory(*volume, volume->root(), "doomed");
    for (int i = 0; i < 5; ++i)
        make_file(*volume, make_directory(*volume, doomed, "d" + std::to_string(i)), "f");
    std::vector<ScanPosition> left{{volume->root()}};
    const auto visit = [](const Scanned&) { return true; };
    const ScanSteps at_once{.is_full = [] { return true; }};
    ASSERT_EQ(volume->scan_step(anybody, left, visit, {}, at_once), Errc::ok);
    ASSERT_FALSE(left.empty());
    Removal removal;
    ASSERT_EQ(volume->remove_tree(anybody, volume->root(), "doomed", removal), Errc::ok);
    while (!left.empty())
        ASSERT_EQ(volume->scan_step(anybody, left, visit, {}, {}), Errc::ok);
}

}  // namespace
}  // namespace warren::fuse::part_stream_test
