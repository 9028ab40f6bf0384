// SPDX-License-Identifier: Apache-2.0
// The snapshot of a commit. The functions that list, gather and publish are run by a thread and by
// a team of four lanes in several shares and compared with a model; whole volumes are committed
// while threads change them, and every commit must hold a state between two commands: each token in
// one directory, each link counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <set>

#include "base/reserved_range.hpp"
#include "fs/commit/gatherers.hpp"
#include "fs/ops/commit_snapshot.hpp"
#include "fs/volume/open_volume.hpp"
#include "tests/support/by_team.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/thread_executor.hpp"
#include "tests/support/twin_store.hpp"

namespace warren::commit_snapshot_test {
namespace {

using format::Block;
using format::FrameKind;

constexpr u64 frames = 80;
constexpr u64 metadata_frames = 12;
constexpr u64 table_place = 4 * format::block_size;
const Caller anybody{.check = false};

/// A store with metadata that have no meaning.
class LooseStore {
 public:
    explicit LooseStore(Random& random) {
        EXPECT_EQ(memory_.open({frames * format::frame_size, table_place,
                                format::table_blocks_for(frames), 0}),
                  Errc::ok);
        core::StoreState& state = *store().state;
        state = {};
        state.metadata_frames_end = metadata_frames;
        state.data_frames_begin = frames - 3;
        state.blocks_used = random.next();
        state.inodes_used = random.next();
        state.generation = random.next();
        for (u64 frame = 0; frame < frames; ++frame) {
            format::FrameEntry& entry = store().frame(frame);
            entry.kind = frame == 0 ? 1 : frame < metadata_frames ? 3 : 4;
            for (u64& word : entry.used)
                word = random.next() & random.next();
            for (u64& word : store().overlays[frame].committed)
                word = random.next();
        }
    }

    core::Store& store() { return memory_.store(); }
    Block& block(u64 place) {
        if (!ops::is_table_place(store(), place))
            return *reinterpret_cast<Block*>(store().base + place);
        return reinterpret_cast<Block*>(
            store().frame_table)[(place - table_place) / format::block_size];
    }
    void mark_dirty(u64 place) {
        core::Operation<ThreadTeam> op(ThreadTeam{}, store());
        op.mark_dirty(place);
    }

 private:
    StoreMemory memory_;
};

std::map<u64, Block> make_dirty(LooseStore& loose, Random& random, u64 count) {
    std::map<u64, Block> model;
    for (u64 i = 0; i < count; ++i) {
        const bool is_table = random.one_in(20);
        const u64 place = is_table ? table_place + random.below(3) * format::block_size
                                   : format::frame_size + random.below((metadata_frames - 1) *
                                                                       format::blocks_per_frame) *
                                                              format::block_size;
        Block& block = loose.block(place);
        if (!is_table) block.words[random.below(512)] = random.next();
        loose.mark_dirty(place);
        model[place] = block;
    }
    return model;
}

template <class By>
void cut_by(By& by, core::Store& store, const ops::CutArea& area, u64 shares, u64 part) {
    for (u64 i = 0; i < shares; ++i)
        by([&](const auto& team) { ops::list_dirty(team, store, area, {i, shares}); });
    for (u64 i = 0; i < shares; ++i) {
        by([&](const auto& team) {
            ops::gather_dirty(team, store, area, {i, shares, part}, ops::CopyWords());
        });
    }
}

template <class By>
class CommitSnapshotBodies : public testing::Test {};
using Teams = testing::Types<ByThread, ByLanes>;
TYPED_TEST_SUITE(CommitSnapshotBodies, Teams);

TYPED_TEST(CommitSnapshotBodies, gatherWhatIsDirtyAndNothingElse) {
    const Seed seed;
    Random random(seed.value());
    LooseStore loose(random);
    core::Store& store = loose.store();
    TypeParam by;
    for (const u64 shares : {1, 3, 7}) {
        const std::map<u64, Block> model = make_dirty(loose, random, 1 + random.below(400));
        ASSERT_EQ(store.state->dirty_blocks, model.size());
        std::vector<Block> blocks(model.size());
        std::vector<u64> places(model.size());
        ops::CutHeader header{};
        // Too little room: all blocks stay dirty.
        cut_by(by, store, {blocks.data(), places.data(), model.size() - 1, &header}, shares, 1);
        EXPECT_EQ(header.count, model.size());
        EXPECT_EQ(store.state->dirty_blocks, model.size());

        header = {};
        const std::vector<core::FrameOverlay> before(store.overlays, store.overlays + frames);
        cut_by(by, store, {blocks.data(), places.data(), model.size(), &header}, shares,
               1 + random.below(70));
        ASSERT_EQ(header.count, model.size());
        EXPECT_EQ(std::set<u64>(places.begin(), places.end()).size(), model.size());
        for (u64 i = 0; i < places.size(); ++i) {
            const auto found = model.find(places[i]);
            ASSERT_NE(found, model.end()) << places[i];
            EXPECT_EQ(std::memcmp(&found->second, &blocks[i], sizeof(Block)), 0) << places[i];
        }
        for (u64 frame = 0; frame < frames; ++frame) {
            const bool is_held = model.contains(store.table_place(frame));
            for (u32 w = 0; w < 8; ++w) {
                const u64 held = is_held ? store.frame(frame).used[w] : 0;
                EXPECT_EQ(store.overlays[frame].committed[w], before[frame].committed[w] | held)
                    << frame;
            }
        }
        EXPECT_EQ(store.state->dirty_blocks, 0u);
        EXPECT_EQ(header.counters.blocks_used, store.state->blocks_used);
        EXPECT_EQ(header.counters.inodes_used, store.state->inodes_used);
        EXPECT_EQ(header.counters.generation, store.state->generation);
        EXPECT_EQ(header.counters.metadata_frames_end, metadata_frames);
        EXPECT_EQ(header.counters.data_frames_begin, frames - 3);
        header = {};
        cut_by(by, store, {nullptr, nullptr, 0, &header}, shares, 1);
        EXPECT_EQ(header.count, 0u);
    }
}

TEST(Gatherers, TakeTogetherWhatOneTakesAlone) {
    const Seed seed;
    Random random(seed.value());
    LooseStore loose(random);
    core::Store& store = loose.store();
    Gatherers gatherers;
    for (const u32 width : {1, 4, 2, 3}) {
        gatherers.set_width(width);
        for (const bool is_prepared : {true, false}) {
            const std::map<u64, Block> model = make_dirty(loose, random, 2000 + random.below(500));
            ReservedRange copies(model.size() * sizeof(Block));
            std::vector<u64> places(model.size());
            ops::CutHeader header{};
            const ops::CutArea area{copies.as<Block>(), places.data(), model.size(), &header};
            if (is_prepared) gatherers.prepare(model.size());
            ops::list_dirty(ThreadTeam{}, store, area, {});
            gatherers.gather(store, area);
            ASSERT_EQ(header.count, model.size());
            for (u64 i = 0; i < places.size(); ++i) {
                ASSERT_TRUE(model.contains(places[i]));
                EXPECT_EQ(std::memcmp(&model.at(places[i]), &area.blocks[i], sizeof(Block)), 0);
            }
            EXPECT_EQ(store.state->dirty_blocks, 0u);
            ops::CutHeader rest{};
            ops::list_dirty(ThreadTeam{}, store, {nullptr, nullptr, 0, &rest}, {});
            EXPECT_EQ(rest.count, 0u);
        }
    }
}

TYPED_TEST(CommitSnapshotBodies, publishWhatWasFreed) {
    const Seed seed;
    Random random(seed.value());
    LooseStore loose(random);
    core::Store& store = loose.store();
    TypeParam by;
    const auto publish = [&](ops::CommittedFrame what) {
        by([&](const auto& team) { ops::publish_committed(team, store, what); });
        return what.was_released != 0;
    };
    // Some blocks are free from here on.
    ops::CommittedFrame some{5, FrameKind::metadata, {1, 2, 3, 4, 5, 6, 7, 8}, 1};
    EXPECT_FALSE(publish(some));
    EXPECT_TRUE(std::equal(some.used, some.used + 8, store.overlays[5].committed));
    EXPECT_TRUE(core::test_bit(core::space_hints(store, FrameKind::metadata), 5));
    // The frame is empty, but a block of it is still held.
    std::fill_n(store.frame(6).used, 8, 0);
    store.overlays[6].reserved[3] = 4;
    EXPECT_FALSE(publish({6, FrameKind::metadata, {}, 1}));
    EXPECT_EQ(core::kind_of(store, 6), FrameKind::metadata);
    // No block of it is held.
    store.overlays[6].reserved[3] = 0;
    EXPECT_TRUE(publish({6, FrameKind::metadata, {}, 0}));
    EXPECT_EQ(core::kind_of(store, 6), FrameKind::free);
    EXPECT_TRUE(core::test_bit(store.frames_free, 6));
    EXPECT_EQ(store.state->free_frames, 1u);
    EXPECT_EQ(store.state->dirty_blocks, 0u) << "nobody has journal credits for it";
    // A frame that held inodes.
    store.frame(7).kind = static_cast<u64>(FrameKind::free);
    std::fill_n(store.overlays[7].committed, 8, ~u64{0});
    EXPECT_FALSE(publish({7, FrameKind::free, {}, 0}));
    EXPECT_TRUE(core::test_bit(store.frames_free, 7));
    EXPECT_EQ(store.overlays[7].committed[7], 0u);
}

/// Directories among which threads move tokens by single commands; and pairs of names of one file.
class Tokens {
 public:
    static constexpr u32 directories = 6;
    static constexpr u32 tokens = 40;

    explicit Tokens(Volume& volume) {
        for (u32 i = 0; i < directories; ++i)
            EXPECT_TRUE(
                volume.create(anybody, volume.root(), "d" + std::to_string(i), {.mode = 040777}));
        for (u32 i = 0; i < tokens; ++i)
            EXPECT_TRUE(volume.create(anybody, directory(volume, i % directories), name(i), {}));
    }

    /// Moves a token from wherever it is; creates and removes a second name of it.
    static void step(Volume& volume, Random& random) {
        const u32 token = static_cast<u32>(random.below(tokens));
        const Handle from = directory(volume, static_cast<u32>(random.below(directories)));
        const Handle to = directory(volume, static_cast<u32>(random.below(directories)));
        static_cast<void>(volume.rename(anybody, from, name(token), to, name(token)));
        const auto found = volume.lookup(anybody, to, name(token));
        if (!found) return;
        const std::string further = "l" + std::to_string(random.next());
        if (volume.link(anybody, found->handle, from, further)) {
            EXPECT_EQ(volume.unlink(anybody, from, further), Errc::ok);
        }
        static_cast<void>(volume.create(anybody, to, further, {.mode = 040777}));
        static_cast<void>(volume.remove_directory(anybody, to, further));
    }

    /// Every token lies in one directory, and has as many names as its link count says.
    static void expect_all(Volume& volume) {
        std::map<std::string, u32> seen;
        std::map<u64, u32> names;
        std::map<u64, Handle> handles;
        for (u32 i = 0; i < directories; ++i) {
            const Errc code =
                volume.read_directory(directory(volume, i), 0, [&](const DirectoryEntry& entry) {
                    const auto at = volume.handle_of(entry.inode);
                    EXPECT_TRUE(at);
                    if (entry.name[0] == 't') ++seen[std::string(entry.name)];
                    ++names[entry.inode];
                    handles[entry.inode] = *at;
                    return true;
                });
            EXPECT_EQ(code, Errc::ok);
        }
        EXPECT_EQ(seen.size(), tokens);
        for (const auto& [token, count] : seen)
            EXPECT_EQ(count, 1u) << token;
        for (const auto& [inode, count] : names) {
            const auto found = volume.attributes(handles[inode]);
            ASSERT_TRUE(found);
            EXPECT_EQ(found->links, (found->mode & 0170000) == 0040000 ? 2 : count);
        }
    }

 private:
    static std::string name(u32 token) { return "t" + std::to_string(token); }
    static Handle directory(Volume& volume, u32 number) {
        return volume.lookup(anybody, volume.root(), "d" + std::to_string(number))->handle;
    }
};

struct Where {
    std::string engine;
    u64 meta_buffer_bytes = 0;

    std::string name() const { return engine + (meta_buffer_bytes == 0 ? "" : "WithABuffer"); }
};

std::ostream& operator<<(std::ostream& to, const Where& where) {
    return to << where.name();
}

class CommitMoment : public testing::TestWithParam<Where> {};

TEST_P(CommitMoment, holdsAStateBetweenTwoCommands) {
    const Seed seed;
    const auto disk = make_memory_disk(256 * mib);
    Failure failure;
    const auto volume =
        open_on_engine(std::make_unique<FaultDisk>(*disk), GetParam().engine,
                       {.workers = 2, .meta_buffer_bytes = GetParam().meta_buffer_bytes}, failure);
    ASSERT_NE(volume, nullptr) << failure.message;
    const Tokens tokens(*volume);
    ASSERT_EQ(volume->sync(), Errc::ok);
    std::atomic<bool> is_over = false;
    u32 commits = 0;
    const auto work = [&](Random& random) {
        while (!is_over)
            Tokens::step(*volume, random);
    };
    // The threads dirty far too little to fill the journal, so no other commit starts.
    const auto commit = [&](Random&) {
        for (u64 i = 0; i < 12 * test_load() && !testing::Test::HasFailure(); ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(3));
            EXPECT_EQ(volume->sync(), Errc::ok);
            const auto image = disk->copy();
            ++commits;
            const auto cut = open_on(*image, {.workers = 1, .engine = EngineChoice::cpu});
            ASSERT_NE(cut, nullptr);
            Tokens::expect_all(*cut);
            EXPECT_EQ(cut->close(), Errc::ok);
            EXPECT_TRUE(expect_clean(*image));
        }
        is_over = true;
    };
    run_executor(seed.value(), {work, work, work, commit});
    EXPECT_GE(commits, 12u);
    EXPECT_EQ(volume->close(), Errc::ok);
    EXPECT_TRUE(expect_clean(*disk));
}

INSTANTIATE_TEST_SUITE_P(Engines, CommitMoment,
                         testing::Values(Where{"cpu"}, Where{"cpu", small_meta_buffer},
                                         Where{engine_of_its_own()},
                                         Where{engine_of_its_own(), small_meta_buffer}),
                         [](const auto& instance) { return instance.param.name(); });

}  // namespace
}  // namespace warren::commit_snapshot_test
