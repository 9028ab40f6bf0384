// SPDX-License-Identifier: Apache-2.0
// The meta buffer of an engine with memory of its own, at the smallest size that a volume accepts.
// The functions that load and evict blocks are run by a thread and by a team of four lanes and
// compared with a model; whole volumes hold more metadata than fit.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "fs/commit/superblock_io.hpp"
#include "fs/engine/cpu/store_memory.hpp"
#include "fs/ops/commit_snapshot.hpp"
#include "tests/support/by_team.hpp"
#include "tests/support/engine_meta_buffer.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/passing_disk.hpp"
#include "tests/support/random_operations.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/thread_executor.hpp"

namespace warren::engine_meta_buffer_test {
namespace {

using format::Block;

constexpr u64 buffer_blocks = small_meta_buffer / format::block_size;
constexpr u64 place_count = 3 * buffer_blocks;
const Caller anybody{.check = false};

/// The block at an address: every word but the first holds the address.
Block block_of(u64 place, u64 first) {
    Block block;
    std::fill(std::begin(block.words), std::end(block.words), place);
    block.words[0] = first;
    return block;
}

/// A meta buffer and the blocks that it must contain.
class Buffer {
 public:
    Buffer() {
        StoreShape shape{512 * mib, 4 * format::block_size, 9, buffer_blocks};
        EXPECT_EQ(memory_.open(shape), Errc::ok);
    }

    const core::Store& store() { return memory_.store(); }
    core::HeadTable& table() { return *memory_.store().heads; }

    /// Loads a block that is not there; an evicted block must have been evictable.
    template <class By>
    void place(By& by, u64 place, u64 first) {
        const Block block = block_of(place, first);
        ops::Evicted evicted;
        const Errc code = by([&](const auto& team) {
            return ops::place_block(team, store(), hand_, place, block, evicted);
        });
        const bool is_full = resident_.size() == buffer_blocks;
        if (resident_.contains(place)) {
            EXPECT_EQ(code, Errc::ok);
            EXPECT_EQ(evicted.place, core::place_none);
            return;
        }
        bool any_may_go = !is_full;
        for (const auto& [other, contents] : resident_)
            any_may_go = any_may_go || may_go(other);
        ASSERT_EQ(code, any_may_go ? Errc::ok : Errc::need_commit);
        if (code != Errc::ok) return;
        ASSERT_EQ(evicted.place != core::place_none, is_full);
        if (is_full) {
            ASSERT_TRUE(resident_.contains(evicted.place)) << evicted.place;
            EXPECT_TRUE(may_go(evicted.place)) << evicted.place;
            const Block went = block_of(evicted.place, resident_[evicted.place]);
            EXPECT_EQ(std::memcmp(&went, &evicted.block, sizeof went), 0);
            resident_.erase(evicted.place);
        }
        resident_[place] = first;
    }

    template <class By>
    void read(By& by, u64 place) {
        Block block;
        const Errc code =
            by([&](const auto& team) { return ops::read_block(team, store(), place, block); });
        ASSERT_EQ(code, resident_.contains(place) ? Errc::ok : Errc::need_block);
        if (code != Errc::ok) return;
        const Block wanted = block_of(place, resident_[place]);
        EXPECT_EQ(std::memcmp(&wanted, &block, sizeof block), 0);
    }

    /// Holds a block, or releases it if it is held.
    template <class By>
    void toggle_hold(By& by, u64 place) {
        if (held_.erase(place) != 0) {
            static_cast<void>(by([&](const auto& team) {
                ops::let_go_block(team, store(), place);
                return Errc::ok;
            }));
            return;
        }
        const Errc code = by([&](const auto& team) {
            return ops::hold_block(team, store(), place) == nullptr ? Errc::need_block : Errc::ok;
        });
        ASSERT_EQ(code, resident_.contains(place) ? Errc::ok : Errc::need_block);
        if (code == Errc::ok) held_.insert(place);
    }
    void toggle_dirty(u64 place) {
        if (!resident_.contains(place)) return;
        store().dirty[place / format::block_size / 64] ^= u64{1} << place / format::block_size % 64;
        if (dirty_.erase(place) == 0) dirty_.insert(place);
    }
    /// Takes the dirty blocks as a commit does, which makes them clean and held; their addresses.
    template <class By>
    std::vector<u64> cut(By& by) {
        store().state->metadata_frames_end = 1 + place_count / format::blocks_per_frame;
        for (const u64 place : dirty_)
            core::set_bit(store().dirty_frames, place / format::frame_size);
        std::vector<Block> blocks(dirty_.size());
        std::vector<u64> places(dirty_.size());
        ops::CutHeader header{};
        const ops::CutArea area{blocks.data(), places.data(), places.size(), &header};
        EXPECT_EQ(by([&](const auto& team) {
                      ops::list_dirty(team, store(), area, {});
                      ops::gather_dirty(team, store(), area, {}, ops::CopyWords());
                      return Errc::ok;
                  }),
                  Errc::ok);
        EXPECT_EQ(header.count, places.size());
        held_.merge(dirty_);
        dirty_.clear();
        return places;
    }
    template <class By>
    void release(By& by, const std::vector<u64>& places) {
        EXPECT_EQ(by([&](const auto& team) {
                      ops::release_cut(team, store(), places.data(), places.size(), {});
                      return Errc::ok;
                  }),
                  Errc::ok);
        for (const u64 place : places)
            held_.erase(place);
    }
    u64 resident_count() const { return resident_.size(); }

 private:
    bool may_go(u64 place) const { return !held_.contains(place) && !dirty_.contains(place); }

    StoreMemory memory_;
    u32 hand_ = 0;
    std::map<u64, u64> resident_;  // the first words, by place
    std::set<u64> held_;
    std::set<u64> dirty_;
};

template <class By>
class PlaceBlock : public testing::Test {};
using Teams = testing::Types<ByThread, ByLanes>;
TYPED_TEST_SUITE(PlaceBlock, Teams);

TYPED_TEST(PlaceBlock, neverLetsGoWhatIsUsedOrDirty) {
    const Seed seed;
    Random random(seed.value());
    Buffer buffer;
    TypeParam by;
    // The number of blocks that may not be evicted changes, up to all of them.
    u64 keeps = 1;
    for (u64 i = 0; i < 2000 && !this->HasFailure(); ++i) {
        if (i % 200 == 0) keeps = 1 + random.below(8);
        const u64 place = (1 + random.below(place_count)) * format::block_size;
        const u64 next = random.below(4 + keeps);
        if (next < 3) {
            buffer.place(by, place, random.next());
        } else if (next == 3) {
            buffer.read(by, place);
        } else if (next % 2 == 0) {
            buffer.toggle_hold(by, place);
        } else {
            buffer.toggle_dirty(place);
        }
    }
    EXPECT_EQ(buffer.resident_count(), buffer_blocks);
}

TYPED_TEST(PlaceBlock, refusesWhenNothingMayGo) {
    Buffer buffer;
    TypeParam by;
    for (u64 i = 1; i <= buffer_blocks; ++i) {
        buffer.place(by, i * format::block_size, i);
        if (i % 2 == 0) buffer.toggle_hold(by, i * format::block_size);
        if (i % 2 == 1) buffer.toggle_dirty(i * format::block_size);
    }
    const u64 further = (buffer_blocks + 1) * format::block_size;
    buffer.place(by, further, 1);  // expects the refusal
    buffer.read(by, further);
    buffer.toggle_dirty(7 * format::block_size);
    buffer.place(by, further, 1);
    buffer.read(by, further);
    buffer.read(by, 7 * format::block_size);
}

TYPED_TEST(PlaceBlock, keepsTheBlocksOfACommitUntilTheyAreOnTheDisk) {
    Buffer buffer;
    TypeParam by;
    constexpr u64 first = 20;  // behind the frame table
    const auto fill = [&](u64 begin, u64 count) {
        for (u64 i = begin; i < begin + count; ++i)
            buffer.place(by, i * format::block_size, i);
    };
    fill(first, buffer_blocks);
    for (u64 i = first; i < first + buffer_blocks - 5; ++i)
        buffer.toggle_dirty(i * format::block_size);
    const std::vector<u64> places = buffer.cut(by);
    ASSERT_EQ(places.size(), buffer_blocks - 5);
    fill(first + buffer_blocks, 40);  // place() expects that none of the cut goes
    for (const u64 place : places)
        buffer.read(by, place);
    buffer.release(by, places);
    fill(first + 2 * buffer_blocks, buffer_blocks);
    for (const u64 place : places)
        buffer.read(by, place);
}

TEST(PlaceBlock, whatIsUsedStaysWhileOthersCome) {
    const Seed seed;
    Buffer buffer;
    const core::HeadTable& table = buffer.table();
    std::atomic<bool> is_over = false;
    std::atomic<u64> found = 0;
    const auto look = [&](Random& random) {
        while (!is_over) {
            const u64 place = (1 + random.below(place_count)) * format::block_size;
            const u32 head = core::link_head(table, place);
            if (head == core::head_none) continue;
            for (u32 i = 1; i < format::block_size / 8; ++i)
                ASSERT_EQ(relaxed_load(table.blocks[head].words[i]), place);
            found.fetch_add(1);
            core::unlink_head(table, head);
        }
    };
    const auto bring = [&](Random& random) {
        u32 hand = 0;
        for (u64 i = 0; i < 4000 || found < 1000; ++i) {
            const u64 place = (1 + random.below(place_count)) * format::block_size;
            ops::Evicted evicted;
            ASSERT_EQ(ops::place_block(ThreadTeam{}, buffer.store(), hand, place,
                                       block_of(place, 0), evicted),
                      Errc::ok);
            if (evicted.place != core::place_none) {
                EXPECT_EQ(evicted.block.words[1], evicted.place);
            }
        }
        is_over = true;
    };
    run_executor(seed.value(), {bring, look, look});
}

class EngineMetaBuffer : public EngineMetaBufferTest {};

TEST_F(EngineMetaBuffer, agreesWithTheModel) {
    const Seed seed;
    open();
    RandomPlan plan;
    plan.entries_max = 3000;
    RandomOperations driver(*volume_, seed.value(), plan);
    for (u64 round = 0; round < 3 && !HasFailure(); ++round) {
        driver.run(1200 * test_load());
        driver.compare();
        driver.let_all_go();
        close_and_check();
        open();
        driver.set_volume(*volume_);
    }
    driver.compare();
    close_and_check();
}

TEST_F(EngineMetaBuffer, holdsAVolumeOfManyTimesItsSize) {
    constexpr u64 directories = 24;
    constexpr u64 files = 400;
    open();
    std::vector<std::vector<Handle>> made(directories);
    std::vector<Handle> parents;
    for (u64 d = 0; d < directories; ++d)
        parents.push_back(make(volume_->root(), "d" + std::to_string(d), 040755));
    const auto name = [](u64 i) { return "a-file-with-a-longer-name-" + std::to_string(i); };
    for (u64 d = 0; d < directories; ++d) {
        for (u64 i = 0; i < files; ++i)
            made[d].push_back(make(parents[d], name(i)));
    }
    // Looked up at once after removal: the number is stale although its block is not written.
    for (u64 d = 0; d < directories; ++d) {
        for (u64 i = d; i < files; i += 7) {
            ASSERT_EQ(volume_->unlink(anybody, parents[d], name(i)), Errc::ok);
            made[d][i].generation |= 1u << 31;  // a mark
        }
    }
    for (u64 d = 0; d < directories && !HasFailure(); ++d) {
        for (u64 i = 0; i < files; ++i) {
            Handle handle = made[d][i];
            const bool is_gone = (handle.generation >> 31) != 0;
            handle.generation &= ~(1u << 31);
            ASSERT_EQ(volume_->attributes(handle).code(), is_gone ? Errc::stale : Errc::ok) << i;
            ASSERT_EQ(volume_->lookup(anybody, parents[d], name(i)).code(),
                      is_gone ? Errc::no_entry : Errc::ok);
        }
    }
    Removal removal;
    ASSERT_EQ(volume_->remove_tree(anybody, volume_->root(), "d3", removal), Errc::ok);
    close_and_check();
}

TEST_F(EngineMetaBuffer, servesManyThreads) {
    const Seed seed;
    open();
    std::vector<std::function<void(Random&)>> bodies;
    for (u64 t = 0; t < 4; ++t) {
        const Handle home = make(volume_->root(), "home" + std::to_string(t), 040755);
        bodies.push_back([this, home](Random& random) {
            std::set<std::string> there;
            for (u64 i = 0; i < 2500 * test_load(); ++i) {
                const std::string name = "entry" + std::to_string(random.below(3000));
                if (there.erase(name) != 0) {
                    ASSERT_EQ(volume_->unlink(anybody, home, name), Errc::ok);
                } else {
                    ASSERT_EQ(volume_->create(anybody, home, name, {}).code(), Errc::ok);
                    there.insert(name);
                }
                if (random.one_in(40)) {
                    ASSERT_EQ(volume_->sync(), Errc::ok);
                }
            }
            for (u64 i = 0; i < 3000; ++i) {
                const std::string name = "entry" + std::to_string(i);
                ASSERT_EQ(volume_->lookup(anybody, home, name).code(),
                          there.contains(name) ? Errc::ok : Errc::no_entry);
            }
        });
    }
    run_executor(seed.value(), bodies);
    close_and_check();
}

/// Blocks before a write that follows the journal until it is released.
class PausingDisk final : public PassingDisk {
 public:
    explicit PausingDisk(Disk& below) : PassingDisk(below) {
        format::Superblock superblock;
        EXPECT_EQ(read_superblock(below, "image", superblock).code, Errc::ok);
        places_begin_ = superblock.journal_offset + superblock.journal_blocks * format::block_size;
    }

    Errc write(u64 offset, std::span<const std::byte> source) override {
        if (offset >= places_begin_) stop_if_asked();
        return PassingDisk::write(offset, source);
    }
    void stop_next() { turn_to(State::asked); }
    void go_on() { turn_to(State::passing); }
    /// False if nothing has been written for very long.
    bool wait_until_stopped() {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, patience, [this] { return state_ == State::stopped; });
    }

 private:
    enum class State : u8 { passing, asked, stopped };
    static constexpr std::chrono::minutes patience{5};

    void turn_to(State state) {
        const std::lock_guard lock(mutex_);
        state_ = state;
        changed_.notify_all();
    }
    void stop_if_asked() {
        std::unique_lock lock(mutex_);
        if (state_ != State::asked) return;
        state_ = State::stopped;
        changed_.notify_all();
        EXPECT_TRUE(changed_.wait_for(lock, patience, [this] { return state_ == State::passing; }));
    }

    u64 places_begin_ = 0;
    std::mutex mutex_;
    std::condition_variable changed_;
    State state_ = State::passing;
};

/// A commit is durable and none of its blocks has been written in place: the meta buffer must not
/// evict the blocks it holds, for the disk still has their old contents.
void read_while_a_commit_writes(std::string_view engine) {
    constexpr u64 file_count = 6400;  // their inodes alone take more blocks than there are
    constexpr u64 changed_step = 200;
    const auto disk = make_memory_disk(512 * mib);
    PausingDisk pausing(*disk);
    Failure failure;
    const auto volume =
        open_on_engine(std::make_unique<FaultDisk>(pausing), engine,
                       {.workers = 1, .meta_buffer_bytes = small_meta_buffer}, failure);
    ASSERT_NE(volume, nullptr) << failure.message;
    std::vector<Handle> files;
    for (u64 i = 0; i < file_count; ++i) {
        const std::string name = "f" + std::to_string(i);
        const auto made = volume->create(anybody, volume->root(), name, {.mode = 0100644});
        ASSERT_TRUE(made);
        files.push_back(made->handle);
    }
    ASSERT_EQ(volume->sync(), Errc::ok);
    AttributeChange change;
    change.which = AttributeChange::mode;
    change.new_mode = 0600;
    for (u64 i = 0; i < file_count; i += changed_step)
        ASSERT_TRUE(volume->set_attributes(anybody, files[i], change));
    const auto expect_changed = [&] {
        for (u64 i = 0; i < file_count; i += changed_step) {
            const auto found = volume->attributes(files[i]);
            ASSERT_TRUE(found);
            EXPECT_EQ(found->mode, 0100600u) << i;
        }
    };

    pausing.stop_next();
    Errc synced = Errc::io;
    std::thread committing([&] { synced = volume->sync(); });
    EXPECT_TRUE(pausing.wait_until_stopped());
    // Second chance: an evictable block is evicted once all others have been used twice.
    for (u64 i = 0; i < 2 * file_count; ++i) {
        if (i % changed_step < 16) continue;
        EXPECT_TRUE(volume->attributes(files[i % file_count]));
    }
    expect_changed();
    pausing.go_on();
    committing.join();
    EXPECT_EQ(synced, Errc::ok);
    expect_changed();
    EXPECT_EQ(volume->close(), Errc::ok);
    EXPECT_TRUE(expect_clean(*disk));
}

TEST(MetaBuffer, keepsWhatACommitWritesOnTheHost) {
    read_while_a_commit_writes("cpu");
}

TEST(MetaBuffer, keepsWhatACommitWritesInAnEngine) {
    read_while_a_commit_writes(engine_of_its_own());
}

}  // namespace
}  // namespace warren::engine_meta_buffer_test
