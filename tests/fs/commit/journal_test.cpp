// SPDX-License-Identifier: Apache-2.0
// The journal against a model: the contents of every address after every commit. The power is cut
// after each event, with writes lost, torn and reordered, also while a replay runs; each I/O fails
// once; the journal is filled with garbage and with well-sealed but false transactions.
#include "fs/commit/journal.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "base/random.hpp"
#include "fs/admin/make_volume.hpp"
#include "fs/commit/overlay_disk.hpp"
#include "fs/commit/superblock_io.hpp"
#include "fs/format/check_block.hpp"
#include "tests/support/fault_disk.hpp"
#include "tests/support/memory_disk.hpp"
#include "tests/support/sanitized.hpp"

namespace warren::journal_test {
namespace {

using format::Block;
using format::block_size;
using format::Superblock;

constexpr u64 volume_bytes = 16 * mib;
constexpr u64 first_place = 4 * mib;
constexpr u64 place_count = 160;

Superblock load(Disk& disk) {
    Block block{};
    auto& superblock = reinterpret_cast<Superblock&>(block);
    const Failure failure = read_superblock(disk, "image", superblock);
    EXPECT_EQ(failure.code, Errc::ok) << failure.message;
    return superblock;
}

/// Contents that depend on address and version; no checksum, for the journal takes any bytes.
void fill(Block& block, u64 place, u64 version) {
    Random random(place * 1'000'003 + version);
    for (u64& word : block.words)
        word = version == 0 ? 0 : random.next();
}

bool holds(Disk& disk, u64 place, u64 version) {
    Block found;
    Block expected;
    fill(expected, place, version);
    EXPECT_EQ(disk.read(place, std::as_writable_bytes(std::span(&found, 1))), Errc::ok);
    return std::memcmp(&found, &expected, sizeof found) == 0;
}

struct Option {
    u64 commits = 6;
    bool closes = true;  // some commits are followed by a clean close and a reopening
};

/// Commits random sets of blocks and records what every address holds after each number. After a
/// commit one address is given up and its bytes are written directly, as file data would be.
class Writer {
 public:
    using State = std::map<u64, u64>;  // place to version
    struct Data {
        u64 place;
        u64 since;          // the commit that gave the place up
        u64 durable_event;  // number of log events after which it is surely on disk
    };

    Writer(Disk& disk, MemoryDisk& log, u64 seed) : disk_(disk), log_(log), random_(seed) {
        for (u64 i = 0; i < place_count; ++i)
            state_[first_place + i * block_size] = 0;
    }

    /// The first error, which ends the run.
    Errc run(const Option& option) {
        WARREN_TRY(open());
        for (u64 i = 0; i < option.commits; ++i) {
            WARREN_TRY(commit());
            if (!option.closes || !random_.one_in(3)) continue;
            WARREN_TRY(outside(1));
            WARREN_TRY(open());
        }
        return option.closes ? outside(1) : Errc::ok;
    }

    const State& state(u64 transaction) const { return states_.at(transaction); }
    bool knows(u64 transaction) const { return states_.contains(transaction); }
    const std::vector<Data>& data() const { return data_; }
    /// The last commit number that was acknowledged when the log had `events` events.
    u64 acknowledged(u64 events) const {
        u64 found = 1;
        for (const auto& [number, event] : acknowledged_) {
            if (event <= events) found = std::max(found, number);
        }
        return found;
    }

 private:
    Errc open() {
        superblock_ = load(disk_);
        const Result<u64> replayed = Journal::replay(disk_, superblock_);
        WARREN_TRY(replayed.code());
        if (*replayed != 0) superblock_ = load(disk_);
        number_ = std::max(*replayed, superblock_.header.transaction);
        states_.try_emplace(number_, state_);
        WARREN_TRY(outside(0));
        journal_ = std::make_unique<Journal>(disk_, superblock_);
        return Errc::ok;
    }

    /// Writes a superblock outside of the journal, as open and close do.
    Errc outside(u32 clean) {
        superblock_.clean = clean;
        states_[++number_] = state_;
        WARREN_TRY(write_superblock(disk_, superblock_, number_));
        acknowledge();
        return Errc::ok;
    }

    void acknowledge() { acknowledged_.emplace_back(number_, log_.event_count()); }

    Errc commit() {
        ++number_;
        std::vector<u64> places;
        const u64 odds = 1 + random_.below(8);
        for (const auto& [place, version] : state_) {
            if (random_.one_in(odds) && places.size() + 1 < journal_->capacity_blocks()) {
                places.push_back(place);
            }
        }
        std::vector<Block> blocks(places.size() + 1);
        std::vector<SealedBlock> sealed;
        std::memcpy(&blocks[0], &superblock_, sizeof superblock_);
        format::seal_block(blocks[0], superblock_.header.volume, 0, number_);
        sealed.push_back({0, &blocks[0]});
        for (u64 i = 0; i < places.size(); ++i) {
            fill(blocks[i + 1], places[i], number_);
            state_[places[i]] = number_;
            sealed.push_back({places[i], &blocks[i + 1]});
        }
        const u64 given_up = give_up(places);
        states_[number_] = state_;
        WARREN_TRY(journal_->write(number_, sealed, fresh_data()));
        acknowledge();
        WARREN_TRY(journal_->write_places(sealed));
        return given_up == 0 ? Errc::ok : write_data(given_up);
    }

    FreshData fresh_data() { return random_.one_in(3) ? FreshData::yes : FreshData::no; }

    /// Removes an address that this commit does not write from the state; 0 if there is none.
    u64 give_up(const std::vector<u64>& places) {
        for (const auto& [place, version] : state_) {
            if (version == 0 || std::ranges::find(places, place) != places.end()) continue;
            const u64 found = place;
            state_.erase(found);
            return found;
        }
        return 0;
    }

    Errc write_data(u64 place) {
        Block block;
        fill(block, place, ~number_);
        WARREN_TRY(disk_.write(place, std::as_bytes(std::span(&block, 1))));
        const bool is_flushed = random_.one_in(2);
        if (is_flushed) WARREN_TRY(disk_.flush());
        data_.push_back({place, number_, is_flushed ? log_.event_count() : ~u64{0}});
        return Errc::ok;
    }

    Disk& disk_;
    MemoryDisk& log_;
    Random random_;
    Superblock superblock_{};
    std::unique_ptr<Journal> journal_;
    u64 number_ = 0;
    State state_;
    std::map<u64, State> states_;
    std::vector<std::pair<u64, u64>> acknowledged_;
    std::vector<Data> data_;
};

std::unique_ptr<MemoryDisk> make_disk() {
    auto disk = std::make_unique<MemoryDisk>(volume_bytes);
    EXPECT_EQ(make_volume_on(*disk, "image", volume_bytes, "").code, Errc::ok);
    return disk;
}

/// The superblock and the block at each address, by one read each.
std::vector<std::byte> read_all(Disk& disk) {
    std::vector<std::byte> bytes((1 + place_count) * block_size);
    const auto all = std::span(bytes);
    const DiskRead reads[] = {{0, all.first(block_size)}, {first_place, all.subspan(block_size)}};
    EXPECT_EQ(disk.read_many(reads), Errc::ok);
    return bytes;
}

/// Replays `image` as open does and compares it with the model, and with what a reader found
/// before. Returns the commit number.
u64 expect_recovered(const Writer& writer, MemoryDisk& image, u64 events) {
    const Superblock before = load(image);
    OverlayDisk overlay(image);
    const Result<u64> found = overlay.show_logged(before);
    const std::vector<std::byte> seen = read_all(overlay);
    const Result<u64> replayed = Journal::replay(image, before);
    EXPECT_TRUE(found && replayed && *found == *replayed);
    // At -O1 the == of vectors takes a third of these tests.
    EXPECT_EQ(std::memcmp(seen.data(), read_all(image).data(), seen.size()), 0)
        << "a reader sees something else than a replay makes";
    const u64 number = load(image).header.transaction;
    EXPECT_TRUE(writer.knows(number)) << number;
    EXPECT_GE(number, writer.acknowledged(events));
    if (!writer.knows(number)) return 0;
    u64 wrong = 0;
    for (const auto& [place, version] : writer.state(number)) {
        if (!holds(image, place, version)) ++wrong;
    }
    EXPECT_EQ(wrong, 0u) << "places that do not fit commit " << number;
    for (const Writer::Data& data : writer.data()) {
        if (data.durable_event > events) continue;
        EXPECT_GE(number, data.since);
        EXPECT_TRUE(holds(image, data.place, ~data.since)) << "data at " << data.place;
    }
    return number;
}

Cut cut_of(u64 seed) {
    return {(seed & 1) != 0, (seed & 2) != 0, (seed & 4) != 0, seed};
}

TEST(Journal, survivesACutAfterEveryEvent) {
    for (u64 seed = 1; seed <= 4; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        auto disk = make_disk();
        disk->start_recording();
        Writer writer(*disk, *disk, seed);
        ASSERT_EQ(writer.run({}), Errc::ok);
        u64 last = 0;
        for (u64 events = 0; events <= disk->event_count(); ++events) {
            SCOPED_TRACE(testing::Message() << events << " events");
            auto image = disk->image_after(events);
            const u64 number = expect_recovered(writer, *image, events);
            ASSERT_GE(number, last);
            last = number;
            for (u64 i = events / 2 % volume_step; i < 8; i += volume_step) {
                SCOPED_TRACE(testing::Message() << "cut " << seed * 1000 + i);
                image = disk->image_after(events, cut_of(seed * 1000 + i));
                expect_recovered(writer, *image, events);
            }
            if (testing::Test::HasFailure()) return;
        }
        EXPECT_GE(last, 7u);
    }
}

TEST(Journal, replaySurvivesACutAfterEveryEvent) {
    u64 replays = 0;
    for (u64 seed = 1; seed <= 2; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        auto disk = make_disk();
        disk->start_recording();
        Writer writer(*disk, *disk, seed);
        ASSERT_EQ(writer.run({.commits = 4}), Errc::ok);
        for (u64 events = 0; events <= disk->event_count(); ++events) {
            const Cut cut = cut_of(seed * 7919 + events);
            auto image = disk->image_after(events, cut);
            image->start_recording();
            const u64 number = expect_recovered(writer, *image, events);
            if (image->event_count() == 0) continue;
            ++replays;
            EXPECT_EQ(image->event(image->event_count() - 1).kind, DiskEventKind::flush);
            for (u64 inner = events % case_step; inner <= image->event_count();
                 inner += case_step) {
                SCOPED_TRACE(testing::Message() << "cut " << cut.seed << ", " << events
                                                << " events, replay cut after " << inner);
                for (u64 i = 0; i < 3; ++i) {
                    auto again = image->image_after(inner, cut_of(i == 0 ? 0 : cut.seed + i));
                    ASSERT_EQ(expect_recovered(writer, *again, events), number);
                }
            }
        }
    }
    EXPECT_GT(replays, 20u);
}

/// A second mount after a power cut: its commits must not be confused with those of the first.
TEST(Journal, goesOnAfterACut) {
    for (u64 seed = 1; seed <= 60; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        auto disk = make_disk();
        disk->start_recording();
        Writer first(*disk, *disk, seed);
        ASSERT_EQ(first.run({.commits = 5}), Errc::ok);
        const u64 events = Random(seed).below(disk->event_count() + 1);
        auto image = disk->image_after(events, cut_of(seed));
        const u64 number = expect_recovered(first, *image, events);
        for (const auto& [place, version] : first.state(number)) {
            Block zero{};
            ASSERT_EQ(image->write(place, std::as_bytes(std::span(&zero, 1))), Errc::ok);
        }
        for (u64 i = 0; i < place_count; ++i) {
            ASSERT_EQ(image->discard(first_place + i * block_size, block_size), Errc::ok);
        }
        Superblock superblock = load(*image);
        ASSERT_EQ(write_superblock(*image, superblock, number + 1), Errc::ok);
        image->start_recording();
        Writer second(*image, *image, seed + 1000);
        ASSERT_EQ(second.run({.commits = 3, .closes = false}), Errc::ok);
        for (u64 inner = seed % case_step; inner <= image->event_count(); inner += case_step) {
            auto again = image->image_after(inner, cut_of(seed + inner));
            if (load(*again).header.transaction == number + 1) continue;
            expect_recovered(second, *again, inner);
        }
        if (testing::Test::HasFailure()) return;
    }
}

TEST(Journal, survivesEveryFailingIo) {
    for (const bool is_once : {false, true}) {
        for (u64 nth = 1;; ++nth) {
            SCOPED_TRACE(testing::Message() << "I/O " << nth << (is_once ? " once" : " and on"));
            auto disk = make_disk();
            disk->start_recording();
            FaultDisk fault(*disk);
            fault.set_plan(
                {.reads = false, .nth = nth, .is_once = is_once, .is_torn = nth % 2 == 0});
            Writer writer(fault, *disk, 5);
            const Errc code = writer.run({.commits = 4});
            if (fault.failed_count() == 0) {
                ASSERT_EQ(code, Errc::ok);
                break;
            }
            ASSERT_EQ(code, Errc::io);
            expect_recovered(writer, *disk, disk->event_count());
            if (testing::Test::HasFailure()) return;
        }
    }
}

TEST(Journal, failedReplayCanBeRepeated) {
    auto disk = make_disk();
    disk->start_recording();
    Writer writer(*disk, *disk, 11);
    ASSERT_EQ(writer.run({.commits = 3, .closes = false}), Errc::ok);
    const u64 events = disk->event_count();
    u64 tried = 0;
    for (u64 nth = 1;; ++nth) {
        auto image = disk->image_after(events, {.drop = true, .seed = nth});
        const Superblock superblock = load(*image);
        FaultDisk fault(*image);
        fault.set_plan({.nth = nth, .is_torn = true});
        const Result<u64> result = Journal::replay(fault, superblock);
        if (fault.failed_count() == 0) {
            EXPECT_TRUE(result);
            break;
        }
        ++tried;
        EXPECT_EQ(result.code(), Errc::io);
        expect_recovered(writer, *image, events);
    }
    EXPECT_GT(tried, 5u);
}

TEST(Journal, anErrorEndsItsUse) {
    auto disk = make_disk();
    FaultDisk fault(*disk);
    Superblock superblock = load(*disk);
    Journal journal(fault, superblock);
    Block block{};
    const SealedBlock sealed{first_place, &block};
    ASSERT_EQ(journal.write(2, std::span(&sealed, 1), FreshData::no), Errc::ok);
    fault.set_plan({.nth = 1, .is_once = true});
    EXPECT_EQ(journal.write_places(std::span(&sealed, 1)), Errc::io);
    EXPECT_EQ(journal.write(3, std::span(&sealed, 1), FreshData::no), Errc::io);
    EXPECT_EQ(journal.write_places(std::span(&sealed, 1)), Errc::io);
    EXPECT_EQ(fault.count(), 1u) << "a failed journal must not write";
}

TEST(Journal, writesNeighboursAtOnceAndTheLargestTransaction) {
    auto disk = std::make_unique<MemoryDisk>(1 * gib);
    ASSERT_EQ(make_volume_on(*disk, "image", 1 * gib, "").code, Errc::ok);
    const Superblock superblock = load(*disk);
    Journal journal(*disk, superblock);
    ASSERT_EQ(superblock.journal_blocks, 8192u);
    const u64 count = journal.capacity_blocks();
    std::vector<Block> blocks(count);
    std::vector<SealedBlock> sealed(count);
    for (u64 i = 0; i < count; ++i) {
        const u64 place = 512 * mib + i * block_size + (i < count / 2 ? 0 : 64 * mib);
        fill(blocks[i], place, 2);
        sealed[i] = {place, &blocks[i]};
    }
    disk->start_recording();
    ASSERT_EQ(journal.write(2, sealed, FreshData::no), Errc::ok);
    const u64 before = disk->event_count();
    EXPECT_LE(before, 4096 / 64 + 3);
    auto image = disk->image_after(before);
    ASSERT_EQ(journal.write_places(sealed), Errc::ok);
    EXPECT_LE(disk->event_count() - before, count / 64 + 2);
    const Result<u64> replayed = Journal::replay(*image, superblock);
    ASSERT_TRUE(replayed);
    EXPECT_EQ(*replayed, 2u);
    for (u64 i = 0; i < count; ++i) {
        ASSERT_TRUE(holds(*image, sealed[i].place, 2)) << i;
        ASSERT_TRUE(holds(*disk, sealed[i].place, 2)) << i;
    }
}

TEST(JournalDeathTest, stopsOnABrokenContract) {
    auto disk = make_disk();
    Superblock superblock = load(*disk);
    Journal journal(*disk, superblock);
    Block block;
    std::memcpy(&block, &superblock, sizeof block);  // clean
    const SealedBlock clean{0, &block};
    EXPECT_DEATH((void)journal.write(2, std::span(&clean, 1), FreshData::no), "broken invariant");
    const SealedBlock sealed{first_place, &block};
    EXPECT_DEATH((void)journal.write(1, std::span(&sealed, 1), FreshData::no), "broken invariant");
    EXPECT_DEATH((void)journal.write(2, {}, FreshData::no), "broken invariant");
    ASSERT_EQ(journal.write(2, std::span(&sealed, 1), FreshData::no), Errc::ok);
    EXPECT_DEATH((void)journal.write(3, std::span(&sealed, 1), FreshData::no), "broken invariant");
}

}  // namespace
}  // namespace warren::journal_test
