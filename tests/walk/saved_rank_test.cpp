// SPDX-License-Identifier: Apache-2.0
// Forged states of ranks: whatever they contain, a walk that is to resume from them either reports
// that they are damaged, or succeeds.
#include "walk/saved_rank.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>

#include "support/seed.hpp"
#include "tests/support/folder.hpp"
#include "tests/walk/saved_sample.hpp"
#include "walk/checkpoint.hpp"
#include "walk/names.hpp"

namespace warren::walk::saved_rank_test {

namespace {

using Forge = std::function<void(SavedRank&)>;

const std::string root = "/tree";
constexpr u32 result_bytes = sample_amount.size();
constexpr std::string_view amount = sample_amount;
constexpr u64 lease = sample_lease;
enum : u32 { none, top, child, ghost, adopted };  // numbers of the sample's directories

SavedWalk walk_of(u32 ranks = 1) {
    return {ranks, result_bytes, {&root, 1}};
}

const std::string record = record_of("file");
const std::string parent_record = record_of("..");

SavedRank sound_state() {
    return sample_state(root, record);
}

Errc read_again(const std::string& bytes) {
    SavedRank saved;
    return read_saved(bytes, walk_of(), saved);
}

void expect_refused(const char* what, const Forge& forge) {
    SavedRank saved = sound_state();
    forge(saved);
    EXPECT_EQ(read_again(write_saved(saved)), Errc::corrupt) << what;
}

bool is_taken(const std::string& batch) {
    return check_saved_batch(batch, walk_of(), [](const Owner&) {});
}

}  // namespace

TEST(SavedRank, IsReadAsItWasWritten) {
    const std::string bytes = write_saved(sound_state());
    SavedRank saved;
    ASSERT_EQ(read_saved(bytes, walk_of(), saved), Errc::ok);
    EXPECT_EQ(write_saved(saved), bytes);
    EXPECT_EQ(saved.directories[adopted - 1].name, "adopted");
    EXPECT_EQ(saved.waiting[1].payload, record);
}

TEST(SavedRank, WithFieldsThatNoRankWritesIsRefused) {
    const auto directory = [](u32 number, const auto& change) {
        return [=](SavedRank& saved) { change(saved.directories[number - 1]); };
    };
    using Directory = SavedRank::Directory;
    expect_refused("no ranks", [](SavedRank& saved) { saved.walks_since = {0}; });
    expect_refused("no leases left",
                   [](SavedRank& saved) { saved.counts.leases_issued = ~u64{0}; });
    expect_refused("half a result", [](SavedRank& saved) { saved.result.remove_suffix(1); });
    expect_refused("above itself", directory(child, [](Directory& at) { at.above = child; }));
    expect_refused("a circle", directory(top, [](Directory& at) { at.above = child; }));
    expect_refused("above nothing", directory(child, [](Directory& at) { at.above = 99; }));
    expect_refused("no kind", directory(child, [](Directory& at) { at.kind = NodeKind{4}; }));
    expect_refused("own below ghost", directory(child, [](Directory& at) { at.above = ghost; }));
    expect_refused("ghost below own", directory(ghost, [](Directory& at) {
                       at.above = top;
                       at.name = "ghost";
                   }));
    expect_refused("taken over below own", directory(adopted, [](Directory& at) { at.above = 1; }));
    expect_refused("another root", directory(top, [](Directory& at) { at.name = "/etc"; }));
    expect_refused("result of a ghost",
                   directory(ghost, [](Directory& at) { at.result = amount; }));
    expect_refused("no result", directory(child, [](Directory& at) { at.result = ""; }));
    for (const std::string_view name :
         {std::string_view(), std::string_view("."), std::string_view(".."),
          std::string_view("a/b"), std::string_view("/"), std::string_view("a\0b", 3)}) {
        expect_refused("name", directory(child, [=](Directory& at) { at.name = name; }));
    }
    expect_refused("not held", [](SavedRank& saved) { saved.waiting.pop_back(); });
    expect_refused("empty ghost", [](SavedRank& saved) {
        saved.directories.pop_back();
        saved.waiting.pop_back();
    });
}

TEST(SavedRank, WithWorkThatNoRankWritesIsRefused) {
    const auto item = [](const SavedRank::Waiting& added) {
        return [=](SavedRank& saved) { saved.waiting.push_back(added); };
    };
    const auto with_lease = [](const SavedRank::Lease& added) {
        return [=](SavedRank& saved) { saved.leases.push_back(added); };
    };
    expect_refused("link answers, a pointer", item({Work::link_answers, none, amount}));
    expect_refused("no work", item({Work{9}, child, ""}));
    expect_refused("of no directory", item({Work::task, 5, ""}));
    expect_refused("of the whole walk", item({Work::task, none, ""}));
    expect_refused("of a ghost", item({Work::task, ghost, ""}));
    expect_refused("read twice", item({Work::directory, top, {}}));
    expect_refused("read with bytes", item({Work::directory, child, ""}));
    expect_refused("task without bytes", item({Work::task, child, {}}));
    expect_refused("half a result", item({Work::merge, child, amount.substr(1)}));
    expect_refused("names without bytes", item({Work::names, child, {}}));
    expect_refused("half a name", item({Work::names, child, std::string_view(record).substr(8)}));
    expect_refused("way up", item({Work::names, child, parent_record}));
    expect_refused("part is read",
                   [](SavedRank& saved) { saved.directories[adopted - 1].kind = NodeKind::part; });
    expect_refused("lease to come", with_lease({lease + 1, top, 1}));
    expect_refused("lease 0", with_lease({0, top, 1}));
    expect_refused("nothing due", with_lease({lease - 1, top, 0}));
    expect_refused("too much due", with_lease({lease - 1, top, u64{1} << 32 | 1}));
    expect_refused("due at a ghost", with_lease({lease - 1, ghost, 1}));
    expect_refused("due nowhere", with_lease({lease - 1, 5, 1}));
}

TEST(SavedRank, OfOtherBytesIsRefusedOrWhole) {
    const Seed seed;
    Random random(seed.part(0));
    const std::string bytes = write_saved(sound_state());
    SavedRank saved;
    u32 refused = 0;
    for (u64 round = 0; round < 20'000 * test_load(); ++round) {
        std::string forged = bytes;
        if (round < bytes.size()) forged.resize(round);
        for (u64 left = round < bytes.size() ? 0 : 1 + random.below(3); left > 0; --left) {
            const u8 byte = random.one_in(2) ? u8{0xff} : static_cast<u8>(random.next());
            forged[random.below(forged.size())] = static_cast<char>(byte);
        }
        if (read_saved(forged, walk_of(), saved) == Errc::ok) {
            EXPECT_EQ(write_saved(saved), forged);
        } else {
            ++refused;
        }
    }
    EXPECT_GT(refused, bytes.size() / 2);
    // Counts greater than possible are rejected before memory is allocated for them.
    for (size_t at = 0; at + sizeof(u32) <= bytes.size(); ++at) {
        std::string forged = bytes;
        std::memset(forged.data() + at, 0xff, sizeof(u32));
        static_cast<void>(read_again(forged));
    }
}

TEST(SavedLeases, AllComeIfEachResultIsDueOnce) {
    const SavedRank saved = sound_state();
    const auto all_come = [](const std::vector<SavedRank>& ranks, const std::vector<Owner>& queue) {
        SavedLeases leases;
        for (u32 rank = 0; rank < ranks.size(); ++rank)
            if (!leases.add(rank, ranks[rank])) return false;
        for (const Owner& owner : queue)
            leases.owe(owner);
        return leases.will_all_come();
    };
    EXPECT_TRUE(all_come({saved}, {}));
    EXPECT_FALSE(all_come({saved, saved}, {})) << "one lease of two ranks";
    EXPECT_FALSE(all_come({saved}, {{0, lease}})) << "more results than are due";
    SavedRank forged = saved;
    forged.leases[0].due = 2;
    EXPECT_FALSE(all_come({forged}, {})) << "a result that never comes";
    EXPECT_TRUE(all_come({forged}, {{0, lease}}));
    EXPECT_FALSE(all_come({forged}, {{1, lease}})) << "it goes to another rank";
    forged = saved;
    forged.directories[adopted - 1].owner.lease = lease - 1;
    EXPECT_FALSE(all_come({forged}, {})) << "no rank issued that lease";
    forged = saved;
    forged.leases[0].directory = adopted;
    EXPECT_FALSE(all_come({forged}, {})) << "the directory waits for its own result";
    forged.directories.push_back(forged.directories[child - 1]);
    forged.directories.back().above = adopted;
    forged.leases[0].directory = static_cast<u32>(forged.directories.size());
    EXPECT_FALSE(all_come({forged}, {})) << "a directory below it does";
}

TEST(SavedLeases, DoNotAllComeIfTwoRanksWaitForEachOther) {
    const auto all_come = [](bool is_circle) {
        // Each rank has taken over a directory of the other, and given away work of that directory.
        SavedLeases leases;
        for (u32 rank = 0; rank < 2; ++rank) {
            SavedRank saved = sound_state();
            saved.leases[0] = {lease + rank, is_circle || rank == 0 ? adopted : 1u, 1};
            saved.directories[adopted - 1].owner = {1 - rank, lease + 1 - rank};
            if (!leases.add(rank, saved)) return false;
        }
        return leases.will_all_come();
    };
    EXPECT_TRUE(all_come(false));
    EXPECT_FALSE(all_come(true));
}

TEST(SavedWorkBatch, ThatNoRankWroteIsRefused) {
    const std::string names = pack_names(record);
    const Owner owner{0, lease};
    const WorkBatch::Content sound{Work::names, owner, {"d", {}}, {}, names};
    EXPECT_TRUE(is_taken(batch_of({root, "a"}, sound)));
    EXPECT_TRUE(is_taken(batch_of({}, {Work::directory, owner, {root, {}}, amount, {}})));
    EXPECT_TRUE(is_taken(""));
    const std::string whole = batch_of({root, "a"}, sound);
    for (size_t size = 1; size < whole.size(); ++size)
        EXPECT_FALSE(is_taken(whole.substr(0, size))) << size;
    EXPECT_FALSE(is_taken(batch_of({"/etc", "a"}, sound)));
    EXPECT_FALSE(is_taken(batch_of({root, ".."}, sound)));
    EXPECT_FALSE(is_taken(batch_of({}, sound))) << "no root";
    WorkBatch::Content forged = sound;
    forged.directory.name = "a/b";
    EXPECT_FALSE(is_taken(batch_of({root}, forged)));
    forged = sound;
    forged.result = "\1";
    EXPECT_FALSE(is_taken(batch_of({root}, forged)));
    forged = sound;
    forged.work = Work::link_answers;
    EXPECT_FALSE(is_taken(batch_of({root}, forged)));
    forged = sound;
    const std::string way_up = std::string("\4\0\0\2..", 6);
    forged.payload = way_up;
    EXPECT_FALSE(is_taken(batch_of({root}, forged)));
    EXPECT_FALSE(is_taken(std::string("\3\0", 2))) << "steps of no way before";
    EXPECT_FALSE(is_taken(std::string("\0\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10))) << "steps";
}

TEST(SavedNames, FitIntoADirectorysPart) {
    // Each is encoded in a few bytes, and has 60,000.
    const std::string long_name(60'000, 'n');
    std::string packed = pack_names(record_of(long_name));
    EXPECT_TRUE(unpack_names(packed));
    for (int times = 0; times < 3; ++times)
        packed += std::string("\4\0\xe0\xd4\3\0", 6);
    EXPECT_FALSE(unpack_names(packed));
    EXPECT_FALSE(unpack_names(std::string("\4\0\1\1n", 5))) << "more in common than there is";
    EXPECT_TRUE(are_records(record + record));
    for (size_t size = 1; size < record.size(); ++size)
        EXPECT_FALSE(are_records(std::string_view(record).substr(0, size)));
    for (const u16 size : std::initializer_list<u16>{0, 8, 23, 4096}) {
        std::string forged = record;
        std::memcpy(forged.data() + offsetof(Name, size), &size, sizeof size);
        EXPECT_FALSE(are_records(forged)) << size;
    }
    std::string endless = record;
    endless.replace(offsetof(Name, text), std::string::npos, endless.size(), 'n');
    endless.resize(record.size());
    EXPECT_FALSE(are_records(endless)) << "no NUL";
}

/// A walk that was interrupted at its start, and its files with other bytes and right checksums.
class ForgedCheckpoint : public testing::Test {
 protected:
    void SetUp() override {
        folder_.make_directory("tree");
        folder_.make_directory("tree/child");
        folder_.make_file("tree/child/file");
        options_.threads = 1;
        options_.checkpoint = folder_ / "checkpoint";
        options_.interrupt = [] { return true; };
        callbacks_.visit = [](const Entry&) {
            ::usleep(20'000);
            return Next::go_on;
        };
        ASSERT_TRUE(walk({&tree_, 1}, options_, callbacks_).interrupted);
        options_.interrupt = nullptr;
        options_.resume = true;
        ASSERT_EQ(checkpoint_.read_manifest(manifest_), Errc::ok);
        ASSERT_EQ(checkpoint_.read_rank(manifest_.epoch, 0, bytes_), Errc::ok);
        ASSERT_EQ(read_saved(bytes_, {1, 0, {&tree_, 1}}, whole_), Errc::ok);
    }
    void write_rank(const Forge& forge) {
        SavedRank saved = whole_;
        forge(saved);
        ASSERT_EQ(checkpoint_.write_rank(manifest_.epoch, 0, write_saved(saved)), Errc::ok);
    }
    void write_manifest(u64 epoch, u32 ranks) {
        Manifest forged = manifest_;
        forged.epoch = epoch;
        forged.ranks = ranks;
        ASSERT_EQ(checkpoint_.write_manifest(forged), Errc::ok);
    }
    /// The error is about this file, and comes before any entry is visited.
    void expect_error(const std::string& path) {
        u32 failures = 0;
        callbacks_.fail = [&](const Failure& failure) {
            ++failures;
            EXPECT_EQ(failure.error, EUCLEAN);
            EXPECT_EQ(failure.path, path);
            EXPECT_STREQ(failure.action, action_resume);
        };
        const Totals totals = walk({&tree_, 1}, options_, callbacks_);
        EXPECT_TRUE(totals.stopped);
        EXPECT_EQ(totals.entries, 0u);
        EXPECT_EQ(failures, 1u);
        callbacks_.fail = nullptr;
    }
    void expect_whole() {
        const Totals totals = walk({&tree_, 1}, options_, callbacks_);
        EXPECT_FALSE(totals.stopped);
        EXPECT_EQ(totals.entries, 3u);
    }

    const Folder folder_;
    const std::string tree_ = folder_ / "tree";
    const CheckpointFolder checkpoint_{folder_ / "checkpoint"};
    Options options_;
    Callbacks callbacks_;
    Manifest manifest_;
    std::string bytes_;  // of the rank
    SavedRank whole_;
};

TEST_F(ForgedCheckpoint, OfARankIsAnError) {
    const std::string path = checkpoint_.rank_name(manifest_.epoch, 0);
    write_rank([](SavedRank& saved) { saved.directories[0].above = 17; });
    expect_error(path);
    write_rank([](SavedRank& saved) { saved.waiting[0].directory = 17; });
    expect_error(path);
    write_rank([](SavedRank& saved) {
        saved.counts.leases_issued = 1;
        saved.leases.push_back({1, 1, 1});
    });
    expect_error(options_.checkpoint);  // all ranks together
    write_rank([](SavedRank&) {});
    callbacks_.load = [](std::string_view) { return false; };
    expect_error(path);
    callbacks_.load = nullptr;
    expect_whole();
}

TEST_F(ForgedCheckpoint, OfAQueueIsAnError) {
    const std::string path = checkpoint_.queue_name(manifest_.epoch, 0);
    write_rank([](SavedRank& saved) { saved.work_batches = 1; });
    expect_error(path);  // there is none
    CheckpointFile queue = checkpoint_.begin_queue(manifest_.epoch, 0);
    CheckpointFolder::write_batch(queue, "no batch");
    ASSERT_EQ(queue.finish(), Errc::ok);
    expect_error(path);
    write_rank([](SavedRank&) {});
    expect_whole();
}

TEST_F(ForgedCheckpoint, OfAManifestIsAnError) {
    write_manifest(manifest_.epoch, ~0u);
    expect_error(checkpoint_.rank_name(manifest_.epoch, 1));
    for (const u64 epoch : {u64{0}, ~u64{0}}) {
        write_manifest(epoch, 1);
        expect_error(checkpoint_.manifest_name());
    }
    // A queue that belongs to a rank other than the first.
    write_manifest(manifest_.epoch, 2);
    SavedRank second;
    second.work_batches = 1;
    ASSERT_EQ(checkpoint_.write_rank(manifest_.epoch, 1, write_saved(second)), Errc::ok);
    expect_error(checkpoint_.rank_name(manifest_.epoch, 1));
    write_manifest(manifest_.epoch, 1);
    expect_whole();
}

}  // namespace warren::walk::saved_rank_test
