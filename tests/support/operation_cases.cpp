// SPDX-License-Identifier: Apache-2.0
// Allocations that the test itself makes for an operation do not count as the operation's.
#include "tests/support/operation_cases.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "base/random.hpp"
#include "fs/volume/volume_implementation.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/uncounted_disk.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren {
namespace {

using Place = OperationPlace;
using Operation = OperationCase;

const std::vector<std::byte> block_bytes(9000, std::byte{'w'});
const std::vector<std::byte> large_bytes(300'000, std::byte{'l'});
const std::vector<std::byte> zero_bytes(64 * kib);
const std::string long_name(200, 'n');
const std::string long_target(1000, 't');

constexpr u64 block = format::block_size;
constexpr u64 shared_blocks = 20;  // enough for deduplication to share or zero half of them

/// The contents of the file whose blocks others share: no block equals another.
const std::vector<std::byte> distinct_bytes = [] {
    std::vector<std::byte> bytes(shared_blocks * block);
    Random random(1);
    for (std::byte& byte : bytes)
        byte = static_cast<std::byte>(random.next());
    return bytes;
}();

Errc resize(Place& at, Handle file, u64 size) {
    AttributeChange change;
    change.which = AttributeChange::size;
    change.new_size = size;
    return at.volume.set_attributes(anybody, file, change).code();
}

/// As an error of a call that tells by a short count that it has failed.
Errc told(const Result<u64>& done, u64 wanted) {
    return done && *done < wanted ? Errc::no_memory : done.code();
}

Errc write(Place& at, Handle file, u64 offset, std::span<const std::byte> bytes) {
    return told(at.volume.write(file, offset, bytes), bytes.size());
}

Errc share(Place& at, Handle source, Handle target) {
    const u64 size = large_bytes.size();
    return told(at.volume.share_range(source, 0, target, 0, size), size);
}

std::vector<Operation> name_operations() {
    return {{"lookup", [](Place& at) { return at.volume.lookup(anybody, at.root, "file").code(); }},
            {"create",
             [](Place& at) { return at.volume.create(anybody, at.directory, "new", {}).code(); }},
            {"symlink",
             [](Place& at) {
                 return at.volume
                     .create(anybody, at.root, "new", {.mode = 0120777, .target = long_target})
                     .code();
             }},
            {"link",
             [](Place& at) {
                 return at.volume.link(anybody, at.file, at.directory, long_name).code();
             }},
            {"unlink", [](Place& at) { return at.volume.unlink(anybody, at.root, "link"); }},
            {"unlink open", [](Place& at) { return at.volume.unlink(anybody, at.root, "file"); }},
            {"unlink scattered",
             [](Place& at) { return at.volume.unlink(anybody, at.root, "scattered"); }},
            {"rename",
             [](Place& at) {
                 return at.volume.rename(anybody, at.directory, "file7", at.root, "small");
             }},
            {"unnamed",
             [](Place& at) { return at.volume.create_unnamed(anybody, at.root, {}).code(); }},
            {"read_link",
             [](Place& at) {
                 const auto link = at.volume.lookup(anybody, at.root, "link");
                 return link ? at.volume.read_link(link->handle).code() : link.code();
             }},
            {"resolve", [](Place& at) { return resolve(at.volume, anybody, "tree/d3/f7").code(); }},
            {"read_directory", [](Place& at) {
                 return at.volume.read_directory(at.directory, 0,
                                                 [](const DirectoryEntry&) { return true; });
             }}};
}

std::vector<Operation> content_operations() {
    return {
        {"write", [](Place& at) { return write(at, at.file, 0, block_bytes); }, false},
        {"write new",
         [](Place& at) {
             const std::span<const std::byte> in_a_block = std::span(block_bytes).first(1000);
             return write(at, at.file, 400'001, in_a_block);
         }},
        {"write new blocks", [](Place& at) { return write(at, at.file, 400'001, block_bytes); },
         false},
        {"write much", [](Place& at) { return write(at, at.file, 400'001, large_bytes); }, false},
        {"outgrow", [](Place& at) { return write(at, at.small, 60, block_bytes); }, false},
        {"read",
         [](Place& at) {
             static std::vector<std::byte> bytes(300'000);
             const Result<u64> got = at.volume.read(at.file, 0, bytes);
             EXPECT_TRUE(!got || bytes == large_bytes) << "other bytes than the file's";
             return got.code();
         }},
        {"shrink", [](Place& at) { return resize(at, at.file, 1000); }},
        {"grow", [](Place& at) { return resize(at, at.file, 500'000); }},
        {"reserve",
         [](Place& at) { return at.volume.allocate(at.file, Allocate::reserve, 0, 600'000); },
         false},
        {"punch",
         [](Place& at) { return at.volume.allocate(at.file, Allocate::punch_hole, 1000, 50'000); },
         false},
        {"attribute",
         [](Place& at) {
             return at.volume.set_attribute(anybody, at.file, "user.note",
                                            std::span(block_bytes).first(2000));
         }},
        {"map",
         [](Place& at) {
             std::unique_ptr<MappedFile> mapped;
             return at.volume.map_file(at.file, {}, mapped);
         }},
        {"sync_file", [](Place& at) { return at.volume.sync_file(at.file); }},
        {"write, sync",
         [](Place& at) {
             const Errc written = write(at, at.small, 0, block_bytes);
             const Errc synced = at.volume.sync();
             return written == Errc::ok ? synced : written;
         },
         false},
        {"shrink, sync",
         [](Place& at) {
             const Errc shrunk = resize(at, at.file, 1000);
             const Errc synced = at.volume.sync();
             return shrunk == Errc::ok ? synced : shrunk;
         },
         false}};
}

std::vector<Operation> sharing_operations() {
    return {{"share", [](Place& at) { return share(at, at.file, at.small); }, false},
            {"dedupe",
             [](Place& at) {
                 const u64 half = large_bytes.size() / 2 / 4096 * 4096;
                 const auto done = at.volume.dedupe_range(anybody, at.file, 0, at.file, half, half);
                 EXPECT_TRUE(!done || done->bytes == half) << "other bytes than the file's";
                 return done.code();
             }},
            {"clone file",
             [](Place& at) {
                 ClonedTree cloned;
                 return at.volume.clone(anybody, at.file, at.root, "clone", cloned);
             }},
            {"clone", [](Place& at) {
                 ClonedTree cloned;
                 const auto tree = at.volume.lookup(anybody, at.root, "tree");
                 if (!tree) return tree.code();
                 return at.volume.clone(anybody, tree->handle, at.directory, "clone", cloned);
             }}};
}

/// A directory of the root.
Result<Handle> directory_of(Place& at, std::string_view name) {
    WARREN_LET(found, at.volume.lookup(anybody, at.root, name));
    return found->handle;
}
Errc unlink_below(Place& at, std::string_view directory, std::string_view name) {
    WARREN_LET(found, directory_of(at, directory));
    return at.volume.unlink(anybody, *found, name);
}

/// What drops references to shared blocks: some of a block's, or the last.
std::vector<Operation> dropping_operations() {
    return {
        {"write to shared", [](Place& at) { return write(at, at.shared, 100, block_bytes); },
         false},
        {"overwrite shared", [](Place& at) { return write(at, at.shared, 0, large_bytes); }, false},
        {"punch shared",
         [](Place& at) {
             return at.volume.allocate(at.shared, Allocate::punch_hole, 10 * block,
                                       shared_blocks * block);
         }},
        {"shrink shared", [](Place& at) { return resize(at, at.shared, 1000); }},
        {"share over shared", [](Place& at) { return share(at, at.file, at.shared); }, false},
        {"unlink shared", [](Place& at) { return unlink_below(at, "origin", "blocks"); }},
        {"unlink scattered shared",
         [](Place& at) { return unlink_below(at, "copy", "scattered"); }},
        {"replace shared",
         [](Place& at) -> Errc {
             WARREN_LET(copy, directory_of(at, "copy"));
             WARREN_LET(origin, directory_of(at, "origin"));
             return at.volume.rename(anybody, *copy, "blocks", *origin, "scattered");
         }},
        {"remove_tree shared",
         [](Place& at) {
             Removal removal;
             return at.volume.remove_tree(anybody, at.root, "copy", removal);
         }},
        {"drop the last references",
         [](Place& at) {
             Removal removal;
             Errc code = resize(at, at.shared, 0);
             for (const char* const name : {"copy", "origin"}) {
                 if (code == Errc::ok)
                     code = at.volume.remove_tree(anybody, at.root, name, removal);
             }
             return code;
         },
         false}};
}

/// Writes of which deduplication shares or zeroes a part, into a hole and over shared blocks.
std::vector<Operation> deduplicated_operations() {
    return {{"write duplicates",
             [](Place& at) { return write(at, at.file, 100 * block, distinct_bytes); }, false},
            {"write duplicates to shared",
             [](Place& at) { return write(at, at.shared, 10 * block, distinct_bytes); }, false},
            {"write zeros", [](Place& at) { return write(at, at.file, 100 * block, zero_bytes); },
             false},
            {"write zeros to shared",
             [](Place& at) { return write(at, at.shared, 2 * block, zero_bytes); }, false},
            {"write zeros, new bytes and duplicates",
             [](Place& at) {
                 static const std::vector<std::byte> bytes = [] {
                     std::vector<std::byte> all = zero_bytes;
                     all.insert(all.end(), block_bytes.begin(), block_bytes.begin() + 2 * block);
                     all.insert(all.end(), distinct_bytes.begin(), distinct_bytes.end());
                     return all;
                 }();
                 return write(at, at.shared, 0, bytes);
             },
             false}};
}

/// Enough names that bulk commands share them among workers, and the arguments of these commands.
struct Many {
    static constexpr u64 count = 1200;
    std::vector<std::string> names;
    std::vector<Creation> creations;
    std::vector<Move> moves;
    std::vector<Lookup> lookups;
    std::vector<Unlink> unlinks;
    std::vector<Result<Attributes>> found{count, Errc::io};
    std::vector<Errc> codes{std::vector<Errc>(count, Errc::io)};

    void prepare(Handle root, Handle directory) {
        const UncountedAllocations uncounted;
        names.clear();
        creations.clear();
        moves.clear();
        lookups.clear();
        unlinks.clear();
        for (u64 i = 0; i < count; ++i)
            names.push_back("many" + std::to_string(i));
        for (const std::string& name : names) {
            creations.push_back({directory, name, {}});
            moves.push_back({directory, name, root, name});
            lookups.push_back({directory, name});
            unlinks.push_back({root, name});
        }
    }
};

/// The result of a command with many items: the last error other than Errc::no_entry, which follows
/// from an earlier item that failed.
template <class Answers>
void take_codes(const Answers& answers, Errc& code) {
    for (const auto& answer : answers) {
        const Errc one = code_of(answer);
        if (one != Errc::ok && one != Errc::no_entry) code = one;
    }
}

/// Runs bulk commands, each on the results of the one before.
Errc work_on_many(Place& at) {
    static Many many;
    many.prepare(at.root, at.directory);
    Errc code = Errc::ok;
    at.volume.create_many(anybody, many.creations, many.found);
    take_codes(many.found, code);
    at.volume.lookup_many(anybody, many.lookups, many.found);
    take_codes(many.found, code);
    at.volume.move_many(anybody, many.moves, many.codes);
    take_codes(many.codes, code);
    at.volume.remove_many(anybody, many.unlinks, many.codes);
    take_codes(many.codes, code);
    return code;
}

std::vector<Operation> bulk_operations() {
    return {{"remove_tree",
             [](Place& at) {
                 Removal removal;
                 return at.volume.remove_tree(anybody, at.root, "tree", removal);
             }},
            {"rebuild",
             [](Place& at) {
                 Rebuilt rebuilt;
                 return at.volume.rebuild(anybody, at.directory, rebuilt);
             }},
            {"scan",
             [](Place& at) {
                 return at.volume.scan(anybody, at.root, [](const Scanned&) { return true; });
             }},
            {"usage",
             [](Place& at) {
                 std::vector<DirectoryUsage> answer;
                 return at.volume.usage(anybody, at.root, {.depth_max = 2}, answer);
             }},
            {"many", work_on_many, false, true}};
}

/// A file with so many extents that they are in a tree of their own.
void make_scattered(Volume& volume, Handle directory) {
    const Handle scattered = make_file(volume, directory, "scattered");
    ASSERT_EQ(volume.open_file(scattered), Errc::ok);
    for (u64 i = 0; i < 12; ++i)
        ASSERT_TRUE(volume.write(scattered, 4 * i * block, block_bytes));
    ASSERT_EQ(volume.release(scattered), Errc::ok);
}

/// The directories `origin` and `copy` share their files, and the file `shared` has all blocks of
/// one of these files twice. They are in a block group of their own, so that sharing the other
/// files' blocks has to create counts.
void make_shared_files(Volume& volume) {
    const Handle reserved = make_file(volume, volume.root(), "reserved");
    ASSERT_EQ(volume.open_file(reserved), Errc::ok);
    ASSERT_EQ(volume.allocate(reserved, Allocate::reserve_keep_size, 0, format::frame_size),
              Errc::ok);
    ASSERT_EQ(volume.release(reserved), Errc::ok);
    const Handle origin = make_directory(volume, volume.root(), "origin");
    make_scattered(volume, origin);
    const Handle blocks = make_file(volume, origin, "blocks");
    const Handle shared = make_file(volume, volume.root(), "shared");
    const u64 size = distinct_bytes.size();
    for (const Handle file : {blocks, shared})
        ASSERT_EQ(volume.open_file(file), Errc::ok);
    ASSERT_TRUE(volume.write(blocks, 0, distinct_bytes));
    for (const u64 at : {u64{0}, size})
        ASSERT_TRUE(volume.share_range(blocks, 0, shared, at, size));
    for (const Handle file : {blocks, shared})
        ASSERT_EQ(volume.release(file), Errc::ok);
    ClonedTree cloned;
    ASSERT_EQ(volume.clone(anybody, origin, volume.root(), "copy", cloned), Errc::ok);
}

}  // namespace

void make_operation_base(Volume& volume) {
    const Handle directory = make_directory(volume, volume.root(), "directory");
    for (int i = 0; i < 130; ++i)
        make_file(volume, directory, "file" + std::to_string(i));
    const Handle tree = make_directory(volume, volume.root(), "tree");
    for (int i = 0; i < 6; ++i) {
        const Handle below = make_directory(volume, tree, "d" + std::to_string(i));
        for (int k = 0; k < 30; ++k)
            make_file(volume, below, "f" + std::to_string(k));
    }
    for (const char* const name : {"file", "small"}) {
        const Handle file = make_file(volume, volume.root(), name);
        ASSERT_EQ(volume.open_file(file), Errc::ok);
        const bool is_small = std::string_view(name) == "small";
        const std::span<const std::byte> bytes =
            is_small ? std::span(block_bytes).first(60) : std::span(large_bytes);
        ASSERT_TRUE(volume.write(file, 0, bytes));
        ASSERT_EQ(volume.release(file), Errc::ok);
    }
    make_scattered(volume, volume.root());
    ASSERT_EQ(
        volume.create(anybody, volume.root(), "link", {.mode = 0120777, .target = long_target})
            .code(),
        Errc::ok);
    make_shared_files(volume);
}

OperationPlace open_operation_place(Volume& volume) {
    while (volume.dedup_statistics().is_filling)
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    OperationPlace at{volume, volume.root(), {}, {}, {}, {}};
    at.directory = volume.lookup(anybody, at.root, "directory")->handle;
    at.file = volume.lookup(anybody, at.root, "file")->handle;
    at.small = volume.lookup(anybody, at.root, "small")->handle;
    at.shared = volume.lookup(anybody, at.root, "shared")->handle;
    for (const Handle file : {at.file, at.small, at.shared})
        EXPECT_EQ(volume.open_file(file), Errc::ok);
    return at;
}

void release_operation_place(OperationPlace& place) {
    for (const Handle file : {place.file, place.small, place.shared})
        EXPECT_EQ(place.volume.release(file), Errc::ok);
}

std::vector<OperationWay> operation_ways() {
    const OpenOptions small{
        .workers = 2, .meta_buffer_bytes = small_meta_buffer, .file_buffer_bytes = 256 * kib};
    const auto deduplicating = [](OpenOptions options) {
        options.dedup = Dedup::on;
        options.dedup_fill_bytes = u64{1} << 40;  // a second: the filler waits for nothing
        return options;
    };
    return {{"Resident", "cpu", {.workers = 2}},
            {"SmallBuffers", "cpu", small},
            {"JournalData", "cpu", {.workers = 2, .data = DataMode::journal}},
            {"Deduplicating", "cpu", deduplicating({.workers = 2})},
            {"DeduplicatingOwnSmallBuffers", engine_of_its_own(), deduplicating(small)},
            {"OwnMemory", engine_of_its_own(), {.workers = 2}},
            {"OwnSmallBuffers", engine_of_its_own(), small}};
}

std::vector<OperationCase> operation_cases(Dedup dedup) {
    std::vector<OperationCase> all;
    const auto add = [&](const std::vector<OperationCase>& more) {
        all.insert(all.end(), more.begin(), more.end());
    };
    add(content_operations());
    if (dedup == Dedup::on) {
        add(deduplicated_operations());
        return all;
    }
    for (const auto& more :
         {name_operations(), sharing_operations(), dropping_operations(), bulk_operations()})
        add(more);
    return all;
}

/// Everything that a volume shows, as text.
std::string shown_by(Volume& volume) {
    std::string text;
    std::vector<std::pair<std::string, Handle>> left = {{"", volume.root()}};
    while (!left.empty()) {
        const auto [path, handle] = left.back();
        left.pop_back();
        const Result<Attributes> inode = volume.attributes(handle);
        if (!inode) return text + path + " is not there";
        text += path + " " + std::to_string(inode->mode) + " " + std::to_string(inode->links);
        if ((inode->mode & 0170000) == 0100000) {
            std::vector<char> bytes(inode->size);
            EXPECT_EQ(volume.open_file(handle), Errc::ok);
            EXPECT_TRUE(volume.read(handle, 0, std::as_writable_bytes(std::span(bytes))));
            EXPECT_EQ(volume.release(handle), Errc::ok);
            const std::string_view all(bytes.data(), bytes.size());
            text += " " + std::to_string(all.size()) + ":" +
                    std::to_string(std::hash<std::string_view>()(all));
            text += " " + std::to_string(volume.get_attribute(handle, "user.note", {}).code() ==
                                         Errc::ok);
        }
        text += "\n";
        if ((inode->mode & 0170000) != 0040000) continue;
        for (const auto& [name, number] : list_names(volume, handle)) {
            const Result<Handle> child = volume.handle_of(number);
            if (!child) return text + path + "/" + name + " leads to nothing";
            left.push_back({path + "/" + name, *child});
        }
    }
    return text;
}

OperationBase::OperationBase(const OperationWay& way)
    : way_(way), disk_(make_memory_disk(16 * mib)) {
    const auto volume = open(*disk_);
    make_operation_base(*volume);
    EXPECT_EQ(volume->close(), Errc::ok);
    before_ = shown(*disk_);
}

std::unique_ptr<Volume> OperationBase::open(Disk& disk) const {
    Failure failure;
    auto volume =
        open_on_engine(std::make_unique<UncountedDisk>(disk), way_.engine, way_.options, failure);
    EXPECT_TRUE(volume) << failure.message;
    return volume;
}

std::string OperationBase::shown(Disk& disk) const {
    const auto volume = open(disk);
    std::string text = shown_by(*volume);
    EXPECT_EQ(volume->close(), Errc::ok);
    return text;
}

}  // namespace warren
