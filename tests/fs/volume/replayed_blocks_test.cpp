// SPDX-License-Identifier: Apache-2.0
// Every metadata block gets back its earlier contents on the disk, one block at a time, and
// the volume is used. Nothing crashes or hangs. If the contents belong to another inode or
// another generation, every reader detects that: access to the object returns Errc::corrupt,
// never names or bytes of others, and everything else works as if nothing were wrong.
//
// Earlier contents of the same generation, and earlier inode blocks, bitmaps, frame table
// and reference counts, cannot be told from the present ones (docs/DESIGN.md, Stale
// metadata).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <tuple>

#include "base/random.hpp"
#include "fs/format/check_block.hpp"
#include "tests/support/block_history.hpp"
#include "tests/support/bounded_disk.hpp"
#include "tests/support/image_builder.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/reused_blocks.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/two_looks.hpp"
#include "tests/support/volume_walk.hpp"
#include "tests/support/watchdog.hpp"

namespace warren::replayed_blocks_test {
namespace {

using format::BlockKind;

constexpr u64 visits_max = 20'000;  // the volume has some hundred names

void expect_final(Errc code) {
    EXPECT_TRUE(is_final(code)) << static_cast<int>(code);
}
template <class T>
void expect_final(const Result<T>& result) {
    expect_final(result.code());
}

/// One reader's answer, and the single facts that it returned.
struct Answer {
    Errc code = Errc::ok;
    std::set<std::string> told = {};

    friend bool operator==(const Answer&, const Answer&) = default;
    /// Whether this equals `sound`, or reports corruption and returns no other facts.
    bool is_sound_or_corrupt(const Answer& sound) const {
        return *this == sound || (code == Errc::corrupt && std::ranges::includes(sound.told, told));
    }
};

/// By path and reader.
using Answers = std::map<std::pair<std::string, std::string>, Answer>;

/// Calls every kind of reader.
class Reader {
 public:
    explicit Reader(Volume& volume) : volume_(volume) {}

    Answers ask_all(const std::set<std::string>& paths) {
        for (const std::string& path : paths)
            ask(path);
        ask_in_batch();
        ask_scan();
        return std::move(answers_);
    }

 private:
    Answer& at(const std::string& path, const char* reader) { return answers_[{path, reader}]; }

    void ask(const std::string& path) {
        const auto found = resolve(volume_, anybody, path);
        Answer& looked = at(path, "look-up");
        looked.code = found.code();
        if (!found) return;
        const u32 type = found->mode & 0170000;
        const bool is_directory = type == 0040000;
        looked.told.insert(std::to_string(found->mode) + " " +
                           std::to_string(is_directory ? 0 : found->size));
        const Handle handle = found->handle;
        if (is_directory) {
            list(path, handle);
        } else if (type == 0120000) {
            const auto target = volume_.read_link(handle);
            tell(at(path, "target"), target.code(), target ? *target : "");
        } else {
            read(path, handle, found->size);
        }
        std::vector<char> names(4096);
        const auto length = volume_.list_attributes(handle, names);
        tell(at(path, "attributes"), length.code(), {names.data(), length ? *length : 0});
        std::vector<std::byte> value(4096);
        const auto bytes = volume_.get_attribute(handle, "user.note", value);
        tell(at(path, "attribute"), bytes.code(),
             {reinterpret_cast<const char*>(value.data()), bytes ? *bytes : 0});
        const Caller user{.user = 1000, .group = 1000};
        at(path, "access").code = volume_.check_access(user, handle, 2);
    }

    static void tell(Answer& answer, Errc code, const std::string& text) {
        answer.code = code;
        if (code == Errc::ok) answer.told.insert(text);
    }

    void list(const std::string& path, Handle handle) {
        Answer& listed = at(path, "list");
        listed.code = volume_.read_directory(handle, 0, [&](const DirectoryEntry& entry) {
            listed.told.insert(std::string(entry.name) + " " + std::to_string(entry.inode));
            const std::string name(entry.name);
            children_.push_back({handle, name, (path == "/" ? "" : path) + "/" + name});
            return listed.told.size() < visits_max;
        });
    }

    void read(const std::string& path, Handle handle, u64 size) {
        std::vector<std::byte> bytes(size);
        EXPECT_EQ(volume_.open_file(handle), Errc::ok);
        const auto got = volume_.read(handle, 0, bytes);
        EXPECT_EQ(volume_.release(handle), Errc::ok);
        tell(at(path, "contents"), got.code(),
             {reinterpret_cast<const char*>(bytes.data()), got ? *got : 0});
    }

    void ask_in_batch() {
        std::vector<Lookup> lookups;
        for (const Child& child : children_)
            lookups.push_back({child.in, child.name});
        std::vector<Result<Attributes>> results(lookups.size(), Errc::ok);
        volume_.lookup_many(anybody, lookups, results);
        for (u64 i = 0; i < results.size(); ++i) {
            tell(at(children_[i].path, "batch"), results[i].code(),
                 results[i] ? std::to_string(results[i]->handle.inode) : "");
        }
    }

    void ask_scan() {
        Answer& scanned = at("", "scan");
        std::mutex mutex;
        scanned.code = volume_.scan(anybody, volume_.root(), [&](const Scanned& found) {
            const std::lock_guard guard(mutex);
            scanned.told.insert(std::to_string(found.directory.inode) + " " +
                                std::string(found.name) + " " +
                                std::to_string(found.attributes.handle.inode));
            return ++visits_ < visits_max;
        });
        EXPECT_LT(visits_, visits_max) << "the scan leads in a circle";
        std::vector<DirectoryUsage> usage;
        const Errc code = volume_.usage(anybody, volume_.root(), {}, usage);
        tell(at("", "usage"), code,
             code == Errc::ok
                 ? std::to_string(usage.at(0).entries) + " " + std::to_string(usage.at(0).blocks)
                 : "");
    }

    struct Child {
        Handle in;
        std::string name;
        std::string path;
    };
    Volume& volume_;
    Answers answers_;
    std::vector<Child> children_;
    u64 visits_ = 0;
};

/// Changes the object at `path` in every way; any answer is right except a retry reason.
void change(Volume& volume, const std::string& path) {
    const auto found = resolve(volume, anybody, path);
    expect_final(found);
    if (!found) return;
    const Handle handle = found->handle;
    const std::string text(5000, 'x');
    const auto bytes = std::as_bytes(std::span(text));
    if ((found->mode & 0170000) == 0100000) {
        EXPECT_EQ(volume.open_file(handle), Errc::ok);
        for (const u64 at : {u64{0}, u64{40'000}, found->size / 2})
            expect_final(volume.write(handle, at, bytes));
        expect_final(volume.allocate(handle, Allocate::punch_hole, 8192, 20'000));
        expect_final(volume.allocate(handle, Allocate::reserve, 0, 50'000));
        AttributeChange cut;
        cut.which = AttributeChange::size;
        cut.new_size = found->size / 3;
        expect_final(volume.set_attributes(anybody, handle, cut));
        EXPECT_EQ(volume.release(handle), Errc::ok);
    }
    expect_final(volume.set_attribute(anybody, handle, "user.note", bytes.first(100)));
    expect_final(volume.remove_attribute(anybody, handle, "user.note"));
    if ((found->mode & 0170000) != 0040000) return;
    std::vector<std::string> names;
    expect_final(volume.read_directory(handle, 0, [&](const DirectoryEntry& entry) {
        names.emplace_back(entry.name);
        return names.size() < 40;
    }));
    names.resize(40, "absent");
    expect_final(volume.create(anybody, handle, "added", {}));
    expect_final(volume.rename(anybody, handle, names[0], handle, "renamed"));
    expect_final(volume.unlink(anybody, handle, names[1]));
    std::vector<Creation> creations;
    std::vector<Unlink> unlinks;
    std::vector<Move> moves;
    std::vector<std::string> fresh;
    for (u32 i = 0; i < 16; ++i)
        fresh.push_back("fresh" + std::to_string(i));
    for (u32 i = 0; i < 16; ++i) {
        creations.push_back({handle, fresh[i], {}});
        unlinks.push_back({handle, names[2 + i]});
        moves.push_back({handle, names[20 + i], handle, fresh[i]});
    }
    std::vector<Result<Attributes>> made(creations.size(), Errc::ok);
    std::vector<Errc> codes(unlinks.size());
    volume.remove_many(anybody, unlinks, codes);
    std::ranges::for_each(codes, [](Errc code) { expect_final(code); });
    volume.move_many(anybody, moves, codes);
    std::ranges::for_each(codes, [](Errc code) { expect_final(code); });
    volume.create_many(anybody, creations, made);
    for (const auto& one : made)
        expect_final(one);
    Rebuilt rebuilt;
    expect_final(volume.rebuild(anybody, handle, rebuilt));
}

void remove(Volume& volume, const std::string& path) {
    const u64 slash = path.rfind('/');
    const auto in = resolve(volume, anybody, path.substr(0, slash + 1));
    expect_final(in);
    if (!in) return;
    Removal removal;
    const Caller owner{.user = 0, .group = 0};
    expect_final(volume.remove_tree(owner, in->handle, path.substr(slash + 1), removal));
}

/// The options for opening a volume with a replayed block.
struct Way {
    std::string engine;
    u64 meta_buffer_bytes;
};

std::vector<Way> ways() {
    const std::string engine = test_engine_name("cpu");
    std::vector<Way> all = {{engine, 0}, {engine, small_meta_buffer}};
    if (engine != "cpu") all.push_back({"cpu", 0});
    return all;
}

class ReplayedBlocks : public testing::Test {
 protected:
    /// Builds a volume, and records the answers of all readers while it is sound.
    void record(u64 seed) {
        disk_ = record_reused_blocks(seed);
        ASSERT_TRUE(expect_clean(*disk_));
        contents_ = earlier_contents(*disk_);
        const auto copy = disk_->copy();
        const auto volume = open_on(*copy, {.workers = 1, .engine = EngineChoice::cpu});
        collect(*volume, volume->root(), "");
        paths_.insert("/");
        sound_ = Reader(*volume).ask_all(paths_);
        EXPECT_EQ(volume->close(), Errc::ok);
    }

    /// The owner of earlier contents, from the point of view of the inode that has the block.
    enum class Owner : u8 { unknown, same, earlier_life, other };

    Owner owner_of(const EarlierContent& content) {
        if (!is_owned(content.kind_now)) return Owner::unknown;
        const Block now = test::ImageEditor(*disk_).read(content.place);
        const auto& header = reinterpret_cast<const format::BlockHeader&>(now);
        if (content.kind != content.kind_now || content.header().owner != header.owner) {
            return Owner::other;
        }
        return content.header().owner_generation == header.owner_generation ? Owner::same
                                                                            : Owner::earlier_life;
    }
    bool is_foreign(const EarlierContent& content) {
        const Owner owner = owner_of(content);
        return owner == Owner::earlier_life || owner == Owner::other;
    }

    /// Whether the owner of the block has a path: the root and the orphan directory have none.
    bool has_path(const EarlierContent& content) {
        const Block now = test::ImageEditor(*disk_).read(content.place);
        return path_of_.contains(reinterpret_cast<const format::BlockHeader&>(now).owner);
    }

    /// The block's contents, as if its owner's number had then belonged to another inode.
    EarlierContent earlier_life_of(u64 place) {
        EarlierContent content{place, {}, {}, test::ImageEditor(*disk_).read(place)};
        auto& header = reinterpret_cast<format::BlockHeader&>(content.block);
        content.kind = content.kind_now = static_cast<BlockKind>(header.kind);
        --header.owner_generation;
        format::seal_block(content.block, header.volume, place, header.transaction);
        return content;
    }

    void put_back_and_use(const EarlierContent& content, const Way& way, Random& random) {
        const bool foreign = is_foreign(content);
        const std::string what =
            "block " + std::to_string(content.place) + ", kind " +
            std::to_string(static_cast<int>(content.kind_now)) + ", as it was in transaction " +
            std::to_string(content.header().transaction) + ", kind " +
            std::to_string(static_cast<int>(content.kind)) + (foreign ? ", another's" : "") +
            ", on " + way.engine + (way.meta_buffer_bytes != 0 ? " with a small buffer" : "");
        SCOPED_TRACE(what);
        watchdog_.begin(what);
        const auto copy = disk_->copy();
        put_back(*copy, content);
        if (foreign) {
            EXPECT_GT(test::check_once(*copy, false, false).result.problems, 0u);
        }
        Failure failure;
        const auto volume =
            open_on_engine(std::make_unique<BoundedDisk>(*copy), way.engine,
                           {.workers = 1, .meta_buffer_bytes = way.meta_buffer_bytes}, failure);
        EXPECT_NE(volume == nullptr, failure.code == Errc::ok);
        EXPECT_TRUE(volume || !foreign) << failure.message;
        if (volume) use(*volume, content, foreign, random);
        check_after(*copy);
    }

    std::unique_ptr<MemoryDisk> disk_;
    std::vector<EarlierContent> contents_;

 private:
    using Block = format::Block;

    void collect(Volume& volume, Handle in, const std::string& path) {
        for (const auto& [name, number] : list_names(volume, in)) {
            const std::string below = path + "/" + name;
            paths_.insert(below);
            path_of_[number] = below;
            const Result<Handle> handle = volume.handle_of(number);
            ASSERT_TRUE(handle);
            const bool is_directory = (volume.attributes(*handle)->mode & 0170000) == 0040000;
            if (is_directory) collect(volume, *handle, below);
        }
    }

    void use(Volume& volume, const EarlierContent& content, bool foreign, Random& random) {
        const Answers found = Reader(volume).ask_all(paths_);
        std::set<std::string> changed;
        if (foreign) {
            const Block now = test::ImageEditor(*disk_).read(content.place);
            const u64 owner = reinterpret_cast<const format::BlockHeader&>(now).owner;
            const auto path = path_of_.find(owner);
            ASSERT_NE(path, path_of_.end()) << "inode " << owner;
            expect_damage_at(path->second, found);
            change(volume, path->second);
            remove(volume, path->second);
            expect_others_as_they_were(path->second, Reader(volume).ask_all(paths_));
        } else {
            auto at = paths_.begin();
            std::advance(at, static_cast<i64>(random.below(paths_.size())));
            change(volume, *at);
            remove(volume, *at);
            for (const char* path : {"/all/wide", "/all/deep", "/all/note-3", "/all/dir-2"})
                change(volume, path);
        }
        expect_final(volume.sync());
        if (random.one_in(2)) remove(volume, "/all");
        expect_final(volume.close());
    }

    /// Whether `path` is `owner` or below it.
    static bool is_below(const std::string& path, const std::string& owner) {
        return path == owner || path.starts_with(owner + "/");
    }

    void expect_damage_at(const std::string& owner, const Answers& found) {
        u64 told = 0;
        for (const auto& [key, sound] : sound_) {
            const auto& [path, reader] = key;
            const auto answer = found.find(key);
            if (answer == found.end()) {
                EXPECT_TRUE(is_below(path, owner)) << reader << " says nothing of " << path;
                continue;
            }
            const bool may_differ = path.empty() || is_below(path, owner);
            const bool is_good =
                may_differ ? answer->second.is_sound_or_corrupt(sound) : answer->second == sound;
            EXPECT_TRUE(is_good) << reader << " of '" << path.substr(0, 40) << "' answers "
                                 << static_cast<int>(answer->second.code);
            told += answer->second.code == Errc::corrupt ? 1 : 0;
        }
        EXPECT_GT(told, 0u) << "nobody has noticed";
    }

    /// Expects unchanged answers about objects unrelated to `owner`, which was removed if possible.
    void expect_others_as_they_were(const std::string& owner, const Answers& found) {
        const std::string parent = owner.substr(0, std::max<u64>(owner.rfind('/'), 1));
        for (const auto& [key, sound] : sound_) {
            const auto& [path, reader] = key;
            const bool is_other = !path.empty() && !is_below(path, owner) && path != parent;
            if (!is_other) continue;
            const auto answer = found.find(key);
            ASSERT_NE(answer, found.end()) << reader << " says nothing of " << path;
            EXPECT_TRUE(answer->second == sound) << reader << " of '" << path.substr(0, 40) << "'";
        }
    }

    /// A check accepts the volume after its use, and repairs it.
    void check_after(Disk& disk) {
        BoundedDisk bounded(disk);
        expect_final(test::check_once(bounded, false, false).failure.code);
        const test::Outcome repaired = test::check_once(bounded, true, false);
        expect_final(repaired.failure.code);
        if (repaired.failure.code != Errc::ok) return;
        const test::Outcome again = test::check_once(bounded, false, true);
        EXPECT_EQ(again.result.problems, 0u) << again.all().substr(0, 2000);
    }

    Watchdog watchdog_;
    std::set<std::string> paths_;
    std::map<u64, std::string> path_of_;
    Answers sound_;
};

TEST_F(ReplayedBlocks, ofEveryKindAreFoundOutOrHarmless) {
    const Seed seed;
    Random random(seed.value());
    record(seed.value());
    // By present kind, earlier kind, and owner: some of each.
    std::map<std::tuple<BlockKind, BlockKind, Owner>, std::vector<const EarlierContent*>> groups;
    for (const EarlierContent& content : contents_) {
        if (is_foreign(content) && !has_path(content)) continue;
        groups[{content.kind_now, content.kind, owner_of(content)}].push_back(&content);
    }
    std::set<BlockKind> kinds;
    u64 count = 0;
    for (const auto& [key, group] : groups) {
        kinds.insert(std::get<0>(key));
        if (random.below(volume_step) != 0) continue;
        for (u64 i = 0; i < test_load() && !HasFailure(); ++i) {
            const auto all = ways();
            put_back_and_use(*group[random.below(group.size())], all[count++ % all.size()], random);
        }
    }
    std::printf("[ CONTENTS ] %zu, of %zu sorts, %llu put back\n", contents_.size(), groups.size(),
                static_cast<unsigned long long>(count));
    // Superblock, frame table, bitmap, inodes, reference counts, and the six kinds with an owner.
    EXPECT_EQ(kinds.size(), 11u);
}

/// The same bytes with an earlier generation of their owner: only that is wrong.
TEST_F(ReplayedBlocks, thatNameAnEarlierGenerationAreFoundOut) {
    const Seed seed;
    Random random(seed.value());
    record(seed.value());
    std::map<BlockKind, std::vector<u64>> places;
    for (const EarlierContent& content : contents_) {
        if (is_owned(content.kind_now) && has_path(content)) {
            places[content.kind_now].push_back(content.place);
        }
    }
    EXPECT_EQ(places.size(), 6u);
    for (const auto& [kind, all] : places) {
        const u64 place = all[random.below(all.size())];
        const EarlierContent content = earlier_life_of(place);
        for (const Way& way : ways()) {
            if (random.below(volume_step) == 0) put_back_and_use(content, way, random);
        }
    }
}

/// All earlier contents of one workload, divided among processes.
class ReplayedBlocksPart : public ReplayedBlocks, public testing::WithParamInterface<u64> {
 public:
    static constexpr u64 parts = 8;
};
INSTANTIATE_TEST_SUITE_P(Parts, ReplayedBlocksPart,
                         testing::Range(u64{0}, ReplayedBlocksPart::parts));

TEST_P(ReplayedBlocksPart, isFoundOutOrHarmlessLong) {
    const Seed seed;
    Random random(seed.value());
    record(1);  // the same in each part
    u64 count = 0;
    u64 foreign = 0;
    for (u64 i = GetParam(); i < contents_.size(); i += parts) {
        ++count;
        foreign += is_foreign(contents_[i]) ? 1 : 0;
        for (const Way& way : ways()) {
            if (!HasFailure()) put_back_and_use(contents_[i], way, random);
        }
    }
    std::printf("[ CONTENTS ] %llu of %zu put back, %llu of them another's\n",
                static_cast<unsigned long long>(count), contents_.size(),
                static_cast<unsigned long long>(foreign));
}

}  // namespace
}  // namespace warren::replayed_blocks_test
