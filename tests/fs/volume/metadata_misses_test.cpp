// SPDX-License-Identifier: Apache-2.0
// Metadata that are not in memory and are requested by several threads at once: on a disk that
// completes reads on request, and on one that fails; by each of the three ways to load blocks.
#include <gtest/gtest.h>

#include <array>
#include <future>
#include <thread>

#include "fs/volume/volume_implementation.hpp"
#include "tests/support/engine_meta_buffer.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/holding_disk.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/thread_executor.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::metadata_misses_test {
namespace {

constexpr u64 file_count = 6400;  // their inodes alone take more blocks than the smallest buffer

/// Forwards all calls unchanged.
class WholeDisk final : public PassingDisk {
 public:
    using PassingDisk::PassingDisk;
    Errc read_many(std::span<const DiskRead> reads) override { return below().read_many(reads); }
};

/// The frames of metadata blocks.
struct Way {
    const char* name;
    bool is_engines;  // the memory of an engine that has its own
    u64 buffer_bytes;
};

class MetadataMisses : public testing::TestWithParam<Way> {
 protected:
    void SetUp() override {
        open();
        for (u64 i = 0; i < file_count; ++i)
            files_.push_back(make_file(*volume_, volume_->root(), name_of(i)));
        for (const Handle& file : files_)
            by_block_[block_of(file)].push_back(file);
        // Keep full blocks: no operation searches them for a free inode.
        std::erase_if(by_block_, [](const auto& block) { return block.second.size() != 16; });
        ASSERT_GT(by_block_.size(), 380u);
        reopen();
    }
    void TearDown() override {
        ASSERT_EQ(volume_->close(), Errc::ok);
        volume_ = nullptr;
        EXPECT_TRUE(expect_clean(*memory_));
    }

    void open() {
        Failure failure;
        volume_ = open_on_engine(
            std::make_unique<WholeDisk>(disk_), GetParam().is_engines ? engine_of_its_own() : "cpu",
            {.workers = 2, .meta_buffer_bytes = GetParam().buffer_bytes}, failure, ~u64{0},
            [this](VolumeImplementation& volume) { implementation_ = &volume; });
        ASSERT_NE(volume_, nullptr) << failure.message;
    }
    /// Afterwards only the block of one file's inode, `warm_`, and their bitmap are in memory.
    void reopen() {
        ASSERT_EQ(volume_->close(), Errc::ok);
        volume_ = nullptr;
        open();
        warm_ = files_of(0)[0];
        ASSERT_TRUE(volume_->attributes(warm_));
    }

    static std::string name_of(u64 number) { return "file" + std::to_string(number); }
    static u64 block_of(Handle file) {
        return file.inode * format::inode_size / format::block_size * format::block_size;
    }
    /// The files whose inodes are in the n-th of the full blocks.
    const std::vector<Handle>& files_of(u64 n) const {
        return std::next(by_block_.begin(), static_cast<std::ptrdiff_t>(n))->second;
    }
    std::string name_of(Handle file) const {
        return name_of(static_cast<u64>(std::ranges::find(files_, file) - files_.begin()));
    }
    /// Whether every block that was read stays in the host's memory.
    static bool has_all_blocks() { return !GetParam().is_engines && GetParam().buffer_bytes == 0; }
    /// The buffer that the loader fills; null: the host's.
    MetaBuffer* buffer() { return implementation_->engine_buffer(); }
    std::future<Errc> ask(Handle file) {
        return std::async(std::launch::async,
                          [this, file] { return volume_->attributes(file).code(); });
    }
    /// Expects `wanted` for five threads that ask for files of one block during its single read.
    void expect_one_read(const std::vector<Handle>& files, Errc wanted) {
        const u64 place = block_of(files[0]);
        disk_.hold(place);
        const u64 before = disk_.count(place);
        std::vector<std::future<Errc>> asked;
        for (u64 i = 0; i < 5; ++i)
            asked.push_back(ask(files[i]));
        wait_for_waiters(4);
        disk_.let_go(place);
        for (auto& one : asked)
            EXPECT_EQ(one.get(), wanted);
        EXPECT_EQ(disk_.count(place), before + 1);
    }
    void wait_for_waiters(u64 count) {
        while (implementation_->loader().waiters() != count)
            std::this_thread::yield();
    }
    void expect_all() {
        for (const Handle& file : files_)
            ASSERT_EQ(volume_->attributes(file).code(), Errc::ok);
    }
    /// Reads the attributes of many files, one by one and all at once; returns how many could not
    /// be read. The others must be right.
    u64 look() {
        u64 failed = 0;
        const auto judge = [&](const Result<Attributes>& found, Handle file) {
            failed += found.code() == Errc::io;
            if (found.code() == Errc::io) return;
            ASSERT_TRUE(found) << static_cast<int>(found.code());
            EXPECT_EQ(found->handle, file);
        };
        for (u64 n = 1; n < 40; n += 2)
            judge(volume_->attributes(files_of(n)[3]), files_of(n)[3]);
        std::vector<Lookup> lookups;
        std::vector<std::string> names;
        for (u64 i = 0; i < file_count; i += 64)
            names.push_back(name_of(i));
        for (const std::string& name : names)
            lookups.push_back({volume_->root(), name});
        std::vector<Result<Attributes>> found(names.size(), Errc::busy);
        volume_->lookup_many(anybody, lookups, found);
        for (u64 i = 0; i < names.size(); ++i)
            judge(found[i], files_[i * 64]);
        return failed;
    }

    std::unique_ptr<MemoryDisk> memory_ = make_memory_disk(128 * mib);
    FaultDisk faults_{*memory_};
    HoldingDisk disk_{faults_};
    VolumeImplementation* implementation_ = nullptr;
    std::unique_ptr<Volume> volume_;
    std::vector<Handle> files_;
    std::map<u64, std::vector<Handle>> by_block_;
    Handle warm_;
};

TEST_P(MetadataMisses, AreReadAtOnceAndKeepNobodyElseWaiting) {
    const Handle one = files_of(10)[0];
    const Handle other = files_of(20)[0];
    disk_.hold(block_of(one));
    disk_.hold(block_of(other));
    auto first = ask(one);
    ASSERT_TRUE(disk_.wait_until_held(block_of(one)));
    auto second = ask(other);
    ASSERT_TRUE(disk_.wait_until_held(block_of(other)));
    // Hits, misses of other blocks, changes and commits.
    EXPECT_TRUE(volume_->attributes(warm_));
    EXPECT_TRUE(volume_->attributes(files_of(30)[0]));
    EXPECT_TRUE(volume_->lookup(anybody, volume_->root(), name_of(4)));
    EXPECT_TRUE(volume_->create(anybody, volume_->root(), "new", {}));
    EXPECT_EQ(volume_->unlink(anybody, volume_->root(), "new"), Errc::ok);
    EXPECT_EQ(volume_->sync(), Errc::ok);
    using std::chrono::seconds;
    EXPECT_EQ(first.wait_for(seconds(0)), std::future_status::timeout);
    EXPECT_EQ(second.wait_for(seconds(0)), std::future_status::timeout);
    disk_.let_go(block_of(other));
    EXPECT_EQ(second.get(), Errc::ok);
    EXPECT_EQ(first.wait_for(seconds(0)), std::future_status::timeout);
    disk_.let_go(block_of(one));
    EXPECT_EQ(first.get(), Errc::ok);
}

TEST_P(MetadataMisses, OfOneBlockAreOneRead) {
    expect_one_read(files_of(10), Errc::ok);
}

TEST_P(MetadataMisses, OfAnUnreadableBlockAreAllTold) {
    const auto& files = files_of(10);
    const u64 place = block_of(files[0]);
    disk_.set_failing(place, true);
    expect_one_read(files, Errc::io);
    const u64 before = disk_.count(place);
    EXPECT_TRUE(volume_->attributes(files_of(11)[0]));
    EXPECT_EQ(volume_->attributes(files[0]).code(), Errc::io);
    EXPECT_EQ(disk_.count(place), before + 1) << "it must be tried again";
    disk_.set_failing(place, false);
    EXPECT_EQ(volume_->attributes(files[0]).code(), Errc::ok);
    EXPECT_EQ(volume_->attributes(files[1]).code(), Errc::ok);
}

TEST_P(MetadataMisses, MoreThanMayBeUnderWayComeInTurn) {
    constexpr u64 count = MetaLoader::reads_max + 8;
    std::vector<std::future<Errc>> asked;
    for (u64 n = 1; n <= count; ++n)
        disk_.hold(block_of(files_of(n)[0]));
    for (u64 n = 1; n <= MetaLoader::reads_max; ++n) {
        asked.push_back(ask(files_of(n)[0]));
        ASSERT_TRUE(disk_.wait_until_held(block_of(files_of(n)[0])));
    }
    for (u64 n = MetaLoader::reads_max + 1; n <= count; ++n)
        asked.push_back(ask(files_of(n)[0]));
    EXPECT_TRUE(volume_->attributes(warm_));
    for (u64 n = 1; n <= count; ++n) {
        ASSERT_TRUE(disk_.wait_until_held(block_of(files_of(n)[0])));
        disk_.let_go(block_of(files_of(n)[0]));
        if (n > 8) continue;
        EXPECT_EQ(asked[n - 1].get(), Errc::ok);
    }
    for (u64 n = 9; n <= count; ++n)
        EXPECT_EQ(asked[n - 1].get(), Errc::ok);
    EXPECT_EQ(disk_.most_held(), MetaLoader::reads_max);
}

TEST_P(MetadataMisses, FailAtEachRead) {
    for (const bool is_once : {true, false}) {
        u64 nth = 0;
        u64 failed = 0;
        do {
            ++nth;
            faults_.set_plan({});
            reopen();
            ASSERT_FALSE(HasFatalFailure());
            faults_.set_plan({.writes = false, .flushes = false, .nth = nth, .is_once = is_once});
            const u64 told = look();
            failed = faults_.failed_count();
            faults_.set_plan({});
            EXPECT_TRUE(told == 0 || failed != 0) << nth;
            // A request that fails once in a batch is repeated.
            EXPECT_TRUE(told != 0 || failed == 0 || is_once) << nth;
            EXPECT_EQ(look(), 0u) << "read " << nth;
        } while (failed != 0 && !HasFailure());
        EXPECT_GT(nth, 30u);
    }
    expect_all();
}

TEST_P(MetadataMisses, KeepReferencesWhateverIsEvicted) {
    const Seed seed;
    std::vector<std::function<void(Random&)>> bodies;
    for (u64 t = 0; t < 4; ++t) {
        bodies.push_back([this, t](Random& random) {
            // Each thread owns one in four of the inodes of a block.
            std::map<u64, u64> holds;
            std::set<u64> removed;
            for (u64 i = 0; i < 4000 * test_load(); ++i) {
                const u64 number = random.below(file_count / 4) * 4 + t;
                const Handle file = files_[number];
                const bool is_held = holds.contains(number);
                const bool is_gone = removed.contains(number);
                if (!is_gone && random.one_in(3)) {
                    ASSERT_TRUE(volume_->attributes(file, Hold::yes));
                    ++holds[number];
                } else if (is_held && !is_gone && random.one_in(4)) {
                    ASSERT_EQ(volume_->unlink(anybody, volume_->root(), name_of(number)), Errc::ok);
                    removed.insert(number);
                } else if (is_held && random.one_in(2)) {
                    volume_->forget(file, holds[number]);
                    holds.erase(number);
                } else {
                    ASSERT_EQ(volume_->attributes(file).code(), is_gone ? Errc::stale : Errc::ok);
                }
            }
            for (const auto& [number, count] : holds)
                volume_->forget(files_[number], count);
        });
    }
    run_executor(seed.value(), bodies);
    expect_counts_agree(*volume_);
}

TEST_P(MetadataMisses, KeepReferencesWhereMemoryRunsOut) {
    constexpr u64 open_count = 8;
    u64 nth = 0;
    for (bool has_failed = true; has_failed && !HasFailure();) {
        reopen();
        ASSERT_FALSE(HasFatalFailure());
        // Other files each time, for they are removed.
        std::vector<Handle> opened;
        for (u64 i = 0; i < open_count; ++i)
            opened.push_back(files_of(1 + nth / 16 * open_count + i)[nth % 16]);
        for (const Handle& file : opened)
            ASSERT_EQ(volume_->open_file(file), Errc::ok);
        ++nth;
        {
            const FailingAllocation failing(nth);
            for (u64 i = 0; i < 560; ++i) {
                const Errc code = volume_->attributes(files_of(100 + i % 280)[0]).code();
                ASSERT_TRUE(code == Errc::ok || code == Errc::no_memory);
            }
            has_failed = failing.has_failed();
        }
        for (const Handle& file : opened) {
            ASSERT_EQ(volume_->unlink(anybody, volume_->root(), name_of(file)), Errc::ok);
            EXPECT_EQ(volume_->attributes(file).code(), Errc::ok) << "allocation " << nth;
            EXPECT_EQ(volume_->release(file), Errc::ok) << "allocation " << nth;
            EXPECT_EQ(volume_->attributes(file).code(), Errc::stale) << "allocation " << nth;
        }
    }
    EXPECT_LT(nth, 12 * 16u) << "what is open must not be among what is asked for";
    expect_counts_agree(*volume_);
}

TEST_P(MetadataMisses, OfManyPlacesHaveEachItsAnswer) {
    std::vector<u64> places{block_of(warm_), 0};
    for (u64 n = 80; n >= 1; --n)
        places.push_back(block_of(files_of(n)[0]));
    places.insert(places.end(), 3, block_of(files_of(81)[0]));
    const u64 unreadable = block_of(files_of(40)[0]);
    disk_.set_failing(unreadable, true);
    // Another thread reads one of them.
    const u64 others = block_of(files_of(10)[0]);
    disk_.hold(others);
    auto other = ask(files_of(10)[0]);
    ASSERT_TRUE(disk_.wait_until_held(others));
    std::vector<Errc> answers(places.size(), Errc::busy);
    auto many = std::async(std::launch::async,
                           [&] { implementation_->loader().load_many(places, answers, buffer()); });
    wait_for_waiters(1);
    disk_.let_go(others);
    many.get();
    EXPECT_EQ(other.get(), Errc::ok);
    for (u64 i = 0; i < places.size(); ++i) {
        const Errc expected = places[i] == 0            ? Errc::corrupt
                              : places[i] == unreadable ? Errc::io
                                                        : Errc::ok;
        EXPECT_EQ(answers[i], expected) << i;
    }
    EXPECT_EQ(disk_.count(others), 1u);
    disk_.set_failing(unreadable, false);
    expect_all();
}

TEST_P(MetadataMisses, OfManyCallersOfManyPlacesKeepNoneForEver) {
    const Seed seed;
    // More callers than reads of whole batches are allowed at once.
    constexpr u64 callers = 2 * MetaLoader::reads_max / MetaLoader::batch_max;
    const auto body = [this](Random& random) {
        for (u64 round = 0; round < 20; ++round) {
            std::vector<u64> places;
            for (u64 i = 0; i < 100; ++i)
                places.push_back(block_of(files_of(random.below(300))[0]));
            std::vector<Errc> answers(places.size(), Errc::busy);
            if (has_all_blocks() && round % 2 == 0) {
                implementation_->loader().load_around(places, answers);
            } else {
                implementation_->loader().load_many(places, answers, buffer());
            }
            for (const Errc answer : answers)
                ASSERT_EQ(answer, Errc::ok);
        }
    };
    run_executor(seed.value(), std::vector<std::function<void(Random&)>>(callers, body));
    EXPECT_EQ(implementation_->loader().waiters(), 0u);
    expect_all();
}

constexpr Way all_that_is_read{"AllThatIsRead", false, 0};
constexpr Way buffer_of_engine{"BufferOfAnEngine", true, small_meta_buffer};
INSTANTIATE_TEST_SUITE_P(Ways, MetadataMisses,
                         testing::Values(all_that_is_read, Way{"Buffer", false, small_meta_buffer},
                                         buffer_of_engine),
                         [](const auto& way) { return std::string(way.param.name); });

class TreeMisses : public MetadataMisses {
 protected:
    /// Whether a look at a tree that misses one of the two blocks brings the other.
    static bool are_near(u64 one, u64 other) {
        constexpr u64 around = MetaLoader::batch_max * format::block_size;
        return one / around == other / around;
    }
};

TEST_P(TreeMisses, BringWhatLiesAroundThemByOneCall) {
    const u64 place = block_of(files_of(200)[0]);
    Errc answer = Errc::busy;
    implementation_->loader().load_around({&place, 1}, {&answer, 1});
    EXPECT_EQ(answer, Errc::ok);
    EXPECT_GT(disk_.largest(), MetaLoader::batch_max / 2);
    u64 near = 0;
    for (const auto& [at, files] : by_block_) {
        if (!are_near(at, place)) continue;
        ++near;
        EXPECT_EQ(volume_->attributes(files[5]).code(), Errc::ok);
        EXPECT_EQ(disk_.count(at), 1u);
    }
    EXPECT_GT(near, MetaLoader::batch_max / 2);
}

TEST_P(TreeMisses, ThatCannotBeReadHideNothingAroundThem) {
    u64 n = 200;
    while (!are_near(block_of(files_of(n)[0]), block_of(files_of(n + 1)[0])))
        ++n;
    const u64 unreadable = block_of(files_of(n)[0]);
    const std::array places{block_of(files_of(n + 1)[0]), unreadable};
    disk_.set_failing(unreadable, true);
    std::array answers{Errc::busy, Errc::busy};
    implementation_->loader().load_around(places, answers);
    EXPECT_EQ(answers, (std::array{Errc::ok, Errc::io}));
    disk_.set_failing(unreadable, false);
    expect_all();
}

TEST_P(TreeMisses, OfBlocksThatNewInodesWillTakeAreServedTogether) {
    const Handle directory = make_directory(*volume_, volume_->root(), "new");
    const u64 before = implementation_->loader().loads();
    constexpr u64 count = 1024;
    for (u64 i = 0; i < count; ++i)
        files_.push_back(make_file(*volume_, directory, name_of(i)));
    const u64 blocks = count / format::inodes_per_block;
    EXPECT_LT(implementation_->loader().loads() - before, blocks / 8);
    expect_all();
}

INSTANTIATE_TEST_SUITE_P(Ways, TreeMisses, testing::Values(all_that_is_read),
                         [](const auto& way) { return std::string(way.param.name); });

using EngineMisses = MetadataMisses;

TEST_P(EngineMisses, OfManyCommandsAreGivenToTheDiskAtOnce) {
    const u64 before = disk_.largest();
    EXPECT_LE(before, 1u);
    EXPECT_EQ(look(), 0u);
    EXPECT_GT(disk_.largest(), 8u);
    EXPECT_LE(disk_.largest(), MetaLoader::batch_max);
}

TEST_P(EngineMisses, OfWhatWasThereAndIsGoneWhileItWasReadBringNothingOld) {
    MetaBuffer& buffer = *implementation_->engine_buffer();
    const Handle file = files_of(10)[0];
    const u64 place = block_of(file);
    ASSERT_TRUE(volume_->attributes(file));
    // A thread that missed the block before it was loaded.
    disk_.hold(place);
    auto late = std::async(std::launch::async,
                           [&] { return implementation_->loader().load(place, &buffer); });
    ASSERT_TRUE(disk_.wait_until_held(place));
    AttributeChange change;
    change.which = AttributeChange::mode;
    change.new_mode = 0600;
    ASSERT_TRUE(volume_->set_attributes(anybody, file, change));
    ASSERT_EQ(volume_->sync(), Errc::ok);
    format::Block block;
    for (u64 round = 0; buffer.read_block(place, block) == Errc::ok; ++round) {
        ASSERT_LT(round, 10u) << "it is never evicted";
        for (u64 n = 11; n < 300; ++n)
            ASSERT_TRUE(volume_->attributes(files_of(n)[0]));
    }
    disk_.let_go(place);
    EXPECT_EQ(late.get(), Errc::ok);
    EXPECT_EQ(buffer.read_block(place, block), Errc::need_block);
    const auto found = volume_->attributes(file);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->mode, 0100600u);
}

INSTANTIATE_TEST_SUITE_P(Ways, EngineMisses, testing::Values(buffer_of_engine),
                         [](const auto& way) { return std::string(way.param.name); });

}  // namespace
}  // namespace warren::metadata_misses_test
