// SPDX-License-Identifier: Apache-2.0
// Clones of files and trees: what they preserve, what they share, what is refused, and that a
// failed clone leaves nothing behind. Random clones are among the random operations, power cuts in
// clone_cut_test.cpp.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "fs/volume/tree_cloner.hpp"
#include "tests/fs/volume/sharing_volume.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"

namespace warren::clone_test {
namespace {

constexpr u32 type_mask = 0170000;

class Clone : public SharingVolume {
 public:
    Handle root() { return volume_->root(); }
    Handle at(const std::string& path) {
        const Result<Attributes> found = resolve(*volume_, {.check = false}, path);
        EXPECT_TRUE(found) << path << ": " << static_cast<int>(found.code());
        return found ? found->handle : Handle{};
    }
    Handle make(Handle in, const std::string& name, const CreateOptions& options = {}) {
        const Result<Attributes> made = volume_->create({.check = false}, in, name, options);
        EXPECT_TRUE(made) << name << ": " << static_cast<int>(made.code());
        return made ? made->handle : Handle{};
    }
    /// Writes random bytes.
    void fill(Handle file, u64 offset, u64 length) {
        ASSERT_EQ(volume_->open_file(file), Errc::ok);
        put(*volume_, file, offset, random_bytes(random_, length));
        ASSERT_EQ(volume_->release(file), Errc::ok);
    }
    Errc clone(const std::string& from, Handle directory, const std::string& name,
               const Caller& caller = {.check = false}) {
        done_ = {};
        return volume_->clone(caller, at(from), directory, name, done_);
    }
    Bytes bytes_of(Handle file) {
        EXPECT_EQ(volume_->open_file(file), Errc::ok);
        Bytes bytes = contents(*volume_, file);
        EXPECT_EQ(volume_->release(file), Errc::ok);
        return bytes;
    }
    std::map<std::string, Bytes> attributes_of(Handle handle) {
        std::map<std::string, Bytes> all;
        std::array<char, 4096> names;
        std::array<std::byte, 4096> value;
        const Result<u64> size = volume_->list_attributes(handle, names);
        EXPECT_TRUE(size);
        for (std::string_view rest(names.data(), *size); !rest.empty();) {
            const std::string name(rest.substr(0, rest.find('\0')));
            rest.remove_prefix(name.size() + 1);
            const Result<u64> length = volume_->get_attribute(handle, name, value);
            EXPECT_TRUE(length);
            all[name] = Bytes(value.begin(), value.begin() + static_cast<i64>(*length));
        }
        return all;
    }

    /// Checks that the two look the same, with all below them.
    void expect_same(Handle one, Handle other, const std::string& path);
    void make_tree();
    u64 inodes() { return volume_->statistics().inodes_used; }

 protected:
    ClonedTree done_;
    std::map<u64, u64> pairs_;  // inodes that expect_same() has met, the clone's by the source's
};

void Clone::expect_same(Handle one, Handle other, const std::string& path) {
    SCOPED_TRACE(path);
    const Attributes a = *volume_->attributes(one);
    const Attributes b = *volume_->attributes(other);
    EXPECT_NE(one, other);
    EXPECT_EQ(a.mode, b.mode);
    EXPECT_EQ(a.user, b.user);
    EXPECT_EQ(a.group, b.group);
    EXPECT_EQ(a.device, b.device);
    EXPECT_EQ(a.accessed, b.accessed);
    EXPECT_EQ(a.modified, b.modified);
    EXPECT_EQ(attributes_of(one), attributes_of(other));
    const auto [pair, is_new] = pairs_.try_emplace(one.inode, other.inode);
    EXPECT_EQ(pair->second, other.inode) << "a hard link became a file of its own, or the reverse";
    if ((a.mode & type_mask) == 0120000) {
        EXPECT_EQ(*volume_->read_link(one), *volume_->read_link(other));
    } else if ((a.mode & type_mask) == 0100000) {
        EXPECT_EQ(a.size, b.size);
        EXPECT_EQ(bytes_of(one), bytes_of(other));
    } else if ((a.mode & type_mask) == 0040000) {
        const auto names = list_names(*volume_, one);
        const auto copies = list_names(*volume_, other);
        ASSERT_EQ(names.size(), copies.size());
        for (const auto& [name, inode] : names) {
            ASSERT_TRUE(copies.contains(name)) << name;
            expect_same(*volume_->handle_of(inode), *volume_->handle_of(copies.at(name)),
                        path + "/" + name);
        }
    }
}

/// Every kind of file, with contents in every representation.
void Clone::make_tree() {
    const Handle tree = make(root(), "tree", {.mode = 042751});
    const Handle inner = make(tree, "inner", {.mode = 040700});
    make(tree, "empty", {.mode = 041777});
    make(tree, "nothing");
    fill(make(tree, "small"), 0, 100);
    fill(make(inner, "block", {.mode = 0104755}), 0, 5000);
    fill(make(tree, "large"), 0, 10 * 2 * mib);  // more block groups than one operation takes
    const Handle sparse = make(tree, "sparse");
    for (u64 i = 0; i < 12; ++i)
        fill(sparse, i * 3 * block_bytes, block_bytes);
    AttributeChange size;
    size.which = AttributeChange::size;
    size.new_size = 100 * block_bytes + 7;
    ASSERT_TRUE(volume_->set_attributes({.check = false}, sparse, size));
    ASSERT_TRUE(volume_->set_attributes({.check = false}, make(tree, "hole"), size));
    const Handle reserved = make(inner, "reserved");
    ASSERT_EQ(volume_->open_file(reserved), Errc::ok);
    ASSERT_EQ(volume_->allocate(reserved, Allocate::reserve, 0, 5 * block_bytes), Errc::ok);
    ASSERT_EQ(volume_->release(reserved), Errc::ok);
    make(tree, "link", {.mode = 0120777, .target = "small"});
    const std::string far(1000, 'x');
    make(inner, "far", {.mode = 0120777, .target = far});
    make(tree, "disk", {.mode = 0060640, .device = 7 << 20 | 3});
    make(tree, "pipe", {.mode = 0010600});
    make(inner, "socket", {.mode = 0140755});
    const Handle named = make(tree, "named");
    fill(named, 0, 2 * block_bytes);
    ASSERT_TRUE(volume_->link({.check = false}, named, inner, "again"));
    ASSERT_TRUE(volume_->link({.check = false}, named, root(), "outside"));
    const Bytes value = random_bytes(random_, 300);
    for (const std::string path : {"/tree", "/tree/small", "/tree/large"}) {
        ASSERT_EQ(volume_->set_attribute({.check = false}, at(path), "user.note", value), Errc::ok);
        ASSERT_EQ(volume_->set_attribute({.check = false}, at(path), "trusted.note", value),
                  Errc::ok);
    }
    AttributeChange facts;
    facts.which = AttributeChange::user | AttributeChange::group | AttributeChange::accessed |
                  AttributeChange::modified;
    facts.new_user = 17;
    facts.new_group = 18;
    facts.new_accessed = 1'000'000'007;
    facts.new_modified = 2'000'000'011;
    for (const std::string path : {"/tree", "/tree/inner", "/tree/small", "/tree/link"})
        ASSERT_TRUE(volume_->set_attributes({.check = false}, at(path), facts));
}

TEST_P(Clone, KeepsEverythingAndSharesTheBlocks) {
    make_tree();
    const u64 before = used_blocks(*volume_);
    ASSERT_EQ(clone("/tree", root(), "copy"), Errc::ok);
    EXPECT_EQ(done_.files, 14u);
    EXPECT_EQ(done_.directories, 3u);
    // Two of three names: the third one is outside of the tree.
    EXPECT_EQ(volume_->attributes(at("/copy/named"))->links, 2u);
    ASSERT_TRUE(volume_->link({.check = false}, at("/copy/named"), root(), "outside too"));
    expect_same(at("/tree"), at("/copy"), "");
    // Counts, leaves, attributes, a long target: no contents.
    EXPECT_LE(used_blocks(*volume_) - before, 45u);
    for (const std::string name : {"large", "sparse", "inner/block", "named"}) {
        const FileSpace space = *volume_->space_of(at("/copy/" + name));
        EXPECT_GT(space.shared, 0u) << name;
        EXPECT_EQ(space.exclusive(), 0u) << name;
    }
    const Bytes old = bytes_of(at("/tree/large"));
    fill(at("/copy/large"), 3 * block_bytes, 10 * block_bytes);
    fill(at("/tree/inner/block"), 0, 5000);
    EXPECT_EQ(bytes_of(at("/tree/large")), old);
    EXPECT_NE(bytes_of(at("/copy/inner/block")), bytes_of(at("/tree/inner/block")));
    Removal removal;
    ASSERT_EQ(volume_->remove_tree({.check = false}, root(), "tree", removal), Errc::ok);
    EXPECT_EQ(bytes_of(at("/copy/sparse")).size(), 100 * block_bytes + 7);
    expect_counts_agree(*volume_);
    volume_.close_and_check();
}

TEST_P(Clone, OfOneFile) {
    make_tree();
    for (const std::string name : {"small", "large", "sparse", "link", "pipe", "nothing"}) {
        ASSERT_EQ(clone("/tree/" + name, root(), name), Errc::ok) << name;
        EXPECT_EQ(done_.files, 1u);
        EXPECT_EQ(done_.directories, 0u);
        expect_same(at("/tree/" + name), at("/" + name), name);
    }
    ASSERT_EQ(clone("/tree/named", root(), "single"), Errc::ok);
    EXPECT_EQ(volume_->attributes(at("/single"))->links, 1u);
    EXPECT_EQ(bytes_of(at("/single")), bytes_of(at("/tree/named")));
    volume_.close_and_check();
}

TEST_P(Clone, IsRefusedWhereItCannotBe) {
    make_tree();
    const Handle inner = at("/tree/inner");
    EXPECT_EQ(clone("/tree", at("/tree"), "copy"), Errc::invalid);
    EXPECT_EQ(clone("/tree", inner, "copy"), Errc::invalid);
    EXPECT_EQ(clone("/", inner, "copy"), Errc::invalid);
    EXPECT_EQ(clone("/tree/small", root(), "outside"), Errc::exists);
    EXPECT_EQ(clone("/tree/inner", root(), "outside"), Errc::exists);
    EXPECT_EQ(clone("/tree/small", at("/tree"), "empty"), Errc::exists);
    EXPECT_EQ(clone("/tree/inner", root(), "tree"), Errc::not_empty);
    EXPECT_EQ(clone("/tree/empty", at("/tree"), "empty"), Errc::invalid);
    EXPECT_EQ(clone("/tree/inner", at("/tree/small"), "copy"), Errc::not_directory);
    EXPECT_EQ(clone("/tree/inner", root(), ""), Errc::no_entry);
    EXPECT_EQ(clone("/tree/inner", root(), std::string(256, 'n')), Errc::name_too_long);
    const Handle gone = make(root(), "gone");
    ASSERT_EQ(volume_->unlink({.check = false}, root(), "gone"), Errc::ok);
    EXPECT_EQ(volume_->clone({.check = false}, gone, root(), "copy", done_), Errc::stale);
    EXPECT_EQ(list_names(*volume_, root()).size(), 2u);
    // The clone takes over the name of an empty directory.
    make(root(), "place", {.mode = 040711});
    ASSERT_EQ(clone("/tree/inner", root(), "place"), Errc::ok);
    expect_same(inner, at("/place"), "");
    volume_.close_and_check();
}

TEST_P(Clone, TakesNothingOnAReadOnlyVolume) {
    make_tree();
    volume_.close();
    OpenOptions options = SharingVolume::options();
    options.read_only = true;
    const auto volume = open_on(volume_.disk(), options);
    ASSERT_TRUE(volume);
    const Handle tree = resolve(*volume, {.check = false}, "/tree")->handle;
    EXPECT_EQ(volume->clone({.check = false}, tree, volume->root(), "copy", done_),
              Errc::read_only);
    ASSERT_EQ(volume->close(), Errc::ok);
    volume_.open();
}

TEST_P(Clone, NeedsThePermissionThatACopyNeeds) {
    const u32 groups[] = {18};
    const Caller caller{.user = 50, .group = 60, .groups = groups, .umask = 022};
    AttributeChange open_to_all;
    open_to_all.which = AttributeChange::mode;
    open_to_all.new_mode = 0777;
    ASSERT_TRUE(volume_->set_attributes({.check = false}, root(), open_to_all));
    const Handle tree = make(root(), "tree", {.mode = 042755});
    const Handle below = make(tree, "below", {.mode = 040755});
    const Handle file = make(below, "file", {.mode = 0106644});
    fill(file, 0, 2 * block_bytes);
    AttributeChange owner;
    owner.which = AttributeChange::user | AttributeChange::group | AttributeChange::mode;
    owner.new_user = 17;
    owner.new_group = 18;
    owner.new_mode = 06644;
    ASSERT_TRUE(volume_->set_attributes({.check = false}, file, owner));
    const Bytes value(5, std::byte{1});
    ASSERT_EQ(volume_->set_attribute({.check = false}, file, "trusted.mine", value), Errc::ok);
    ASSERT_EQ(volume_->set_attribute({.check = false}, file, "user.note", value), Errc::ok);

    ASSERT_EQ(clone("/tree", root(), "copy", caller), Errc::ok);
    const Attributes copy = *volume_->attributes(at("/copy/below/file"));
    EXPECT_EQ(copy.user, 50u);
    EXPECT_EQ(copy.group, 18u);
    EXPECT_EQ(copy.mode, 0100644u);
    EXPECT_EQ(volume_->attributes(at("/copy"))->group, 60u);
    EXPECT_EQ(volume_->attributes(at("/copy"))->mode, 040755u);
    EXPECT_EQ(attributes_of(at("/copy/below/file")).size(), 1u);

    const auto expect_refused = [&](const std::string& name, Errc code, const std::string& path) {
        const u64 before = inodes();
        EXPECT_EQ(clone("/tree", root(), name, caller), code);
        EXPECT_EQ(done_.failed, path);
        EXPECT_EQ(inodes(), before);
    };
    const auto set_mode = [&](Handle handle, u32 mode) {
        AttributeChange change;
        change.which = AttributeChange::mode;
        change.new_mode = mode;
        ASSERT_TRUE(volume_->set_attributes({.check = false}, handle, change));
    };
    set_mode(file, 0600);
    expect_refused("other", Errc::access, "below/file");
    expect_refused("", Errc::no_entry, "");  // before anything is cloned
    set_mode(below, 0744);
    expect_refused("other", Errc::access, "below");
    set_mode(tree, 0711);
    expect_refused("other", Errc::access, "");
    make(root(), "place", {.mode = 040777});
    expect_refused("place", Errc::not_permitted, "");  // replaces what another user owns
    set_mode(root(), 0755);
    expect_refused("other", Errc::access, "");
    EXPECT_EQ(list_names(*volume_, root()).size(), 3u);
    volume_.close_and_check();
}

TEST_P(Clone, OfADeviceIsLeftToPrivilegedCallers) {
    const Caller caller{.user = 50, .group = 60, .umask = 022};
    AttributeChange open_to_all;
    open_to_all.which = AttributeChange::mode;
    open_to_all.new_mode = 0777;
    ASSERT_TRUE(volume_->set_attributes({.check = false}, root(), open_to_all));
    const Handle tree = make(root(), "tree", {.mode = 040755});
    const CreateOptions disk{.mode = 0060640, .device = 8 << 20};
    const CreateOptions whiteout{.mode = 0020000};
    make(tree, "disk", disk);
    make(tree, "whiteout", whiteout);
    EXPECT_EQ(clone("/tree/disk", root(), "copy", caller), Errc::not_permitted);
    EXPECT_EQ(clone("/tree", root(), "copy", caller), Errc::not_permitted);
    EXPECT_EQ(done_.failed, "disk");
    EXPECT_EQ(clone("/tree/whiteout", root(), "whiteout", caller), Errc::ok);
    EXPECT_EQ(clone("/tree", root(), "copy"), Errc::ok);
    expect_same(tree, at("/copy"), "/copy");

    // The same holds for new devices, also of many at once.
    EXPECT_EQ(volume_->create(caller, root(), "disk", disk).code(), Errc::not_permitted);
    EXPECT_TRUE(volume_->create(caller, root(), "another whiteout", whiteout));
    for (const u32 device : {8u << 20, 0u}) {
        const CreateOptions options{.mode = 0060640, .device = device};
        const std::vector<Creation> many(2000, {root(), "disk", options});
        std::vector<Result<Attributes>> made(many.size(), Errc::io);
        volume_->create_many(caller, many, made);
        for (const Result<Attributes>& one : made)
            ASSERT_EQ(one.code(), Errc::not_permitted);
    }
}

TEST(ClonedDirectories, AreKnownByNumberAndGeneration) {
    ClonedDirectories directories;
    for (const u32 generation : {7u, 9u}) {
        const Handle source{500, generation};
        EXPECT_EQ(directories.find(source), nullptr);
        directories.add({source, {600 + generation, 1}, nullptr, "name", 0, 0});
        ASSERT_NE(directories.find(source), nullptr);
        EXPECT_EQ(directories.find(source)->target.inode, 600 + generation);
    }
    EXPECT_EQ(directories.find({500, 7})->target.inode, 607u);
}

/// Makes files in `hidden` until one has this number, for a moment; then removes them all. Returns
/// whether one had it.
bool use_again(Volume& volume, Handle hidden, u64 number) {
    const Caller anybody{.check = false};
    // With more files than a word of a bitmap has bits, the search for a free inode moves on.
    constexpr u64 held = 80;
    bool is_reused = false;
    for (u64 tries = 0; tries < 2000 && !is_reused; ++tries) {
        const std::string young = std::to_string(tries % held);
        const Result<Attributes> made = volume.create(anybody, hidden, young, {.mode = 0100600});
        is_reused = made && made->handle.inode == number;
        if (is_reused) std::this_thread::sleep_for(std::chrono::microseconds(50));
        static_cast<void>(volume.unlink(anybody, hidden, std::to_string((tries + 1) % held)));
    }
    for (u64 i = 0; i < held; ++i)
        static_cast<void>(volume.unlink(anybody, hidden, std::to_string(i)));
    return is_reused;
}

/// While a directory is cloned, its files are removed, and their inode numbers go to files that the
/// caller could not reach.
TEST(CloneBesideNewFiles, HoldsOnlyWhatItsNamesLedTo) {
    MemoryVolume volume(16 * mib, {.workers = 2});
    const Caller anybody{.check = false};
    const Handle source = make_directory(*volume, volume->root(), "source");
    const Handle hidden = make_directory(*volume, volume->root(), "hidden");
    const Handle rest = make_directory(*volume, volume->root(), "rest");
    constexpr u64 files = 100;
    const auto make = [&](Handle in, const std::string& name, u32 mode) {
        return volume->create(anybody, in, name, {.mode = mode});
    };
    for (u64 i = 0; i < files; ++i)
        ASSERT_TRUE(make(source, std::to_string(i), 0100644));
    // So few inodes are free that a number is soon used again.
    u64 others = 0;
    while (make(rest, std::to_string(others), 0100644))
        ++others;
    for (u64 i = 0; i < 3 * files; ++i)
        ASSERT_EQ(volume->unlink(anybody, rest, std::to_string(others - 1 - i)), Errc::ok);
    std::atomic<bool> is_over{false};
    std::atomic<u64> reused{0};
    std::thread other([&] {
        for (u64 i = 0; !is_over.load(std::memory_order_relaxed); i = (i + 1) % files) {
            const std::string name = std::to_string(i);
            const u64 number = volume->lookup(anybody, source, name)->handle.inode;
            EXPECT_EQ(volume->unlink(anybody, source, name), Errc::ok);
            if (use_again(*volume, hidden, number)) reused.fetch_add(1, std::memory_order_relaxed);
            while (!make(source, name, 0100644) && !is_over.load(std::memory_order_relaxed))
                std::this_thread::yield();
        }
    });
    u64 foreign = 0;
    constexpr u64 wanted = 300 / size_step;
    for (u32 round = 0; round < 20'000 && reused.load() < wanted; ++round) {
        ClonedTree done;
        const Errc code = volume->clone(anybody, source, volume->root(), "clone", done);
        if (code == Errc::no_space) continue;
        ASSERT_EQ(code, Errc::ok);
        const Handle clone = volume->lookup(anybody, volume->root(), "clone")->handle;
        for (const auto& [name, inode] : list_names(*volume, clone))
            foreign += volume->lookup(anybody, clone, name)->mode != 0100644 ? 1 : 0;
        Removal removal;
        ASSERT_EQ(volume->remove_tree(anybody, volume->root(), "clone", removal), Errc::ok);
    }
    is_over.store(true, std::memory_order_relaxed);
    other.join();
    EXPECT_EQ(foreign, 0u) << "of " << reused.load() << " reused numbers";
    EXPECT_GE(reused.load(), wanted);
}

TEST_P(Clone, OnAFullVolumeLeavesNothing) {
    // Each link has a block of its own, so a copy of them all does not fit.
    const Handle tree = make(root(), "tree", {.mode = 040755});
    const std::string far(2000, 'x');
    const Statistics empty = volume_->statistics();
    for (u64 i = 0; i < empty.blocks_available * 2 / 3; ++i)
        make(tree, "link" + std::to_string(i), {.mode = 0120777, .target = far});
    ASSERT_EQ(volume_->sync(), Errc::ok);
    const u64 before = used_blocks(*volume_);
    const u64 inodes_before = inodes();
    EXPECT_EQ(clone("/tree", root(), "copy"), Errc::no_space);
    EXPECT_EQ(done_.failed.substr(0, 4), "link");
    EXPECT_EQ(inodes(), inodes_before);
    ASSERT_EQ(volume_->sync(), Errc::ok);
    EXPECT_LE(used_blocks(*volume_), before + 2);  // leaves of the orphan directory
    EXPECT_EQ(list_names(*volume_, root()).size(), 1u);
    ASSERT_EQ(clone("/tree/link0", root(), "copy"), Errc::ok);
    volume_.close_and_check();
}

/// A file consists of one letter at any time, and so must its clone, whatever others change.
TEST_P(Clone, BesideWritersAndRenames) {
    const Seed seed;
    constexpr u64 files = 40;
    const Caller anyone{.check = false};
    const Handle tree = make(root(), "tree", {.mode = 040755});
    const Handle one = make(tree, "one", {.mode = 040755});
    const Handle other = make(tree, "other", {.mode = 040755});
    std::vector<Handle> handles;
    for (u64 i = 0; i < files; ++i) {
        handles.push_back(make(one, "f" + std::to_string(i)));
        ASSERT_EQ(volume_->open_file(handles.back()), Errc::ok);
        put(*volume_, handles.back(), 0, Bytes(3 * block_bytes, std::byte{'a'}));
    }
    std::atomic<bool> ends{false};
    std::thread writer([&] {
        Random random(seed.value());
        for (u64 step = 0; !ends.load(); ++step) {
            const u64 i = random.below(files);
            const std::string name = "f" + std::to_string(i);
            if (step % 4 == 0) {
                static_cast<void>(volume_->rename(anyone, one, name, other, name));
            } else if (step % 4 == 1) {
                static_cast<void>(volume_->rename(anyone, other, name, one, name));
            } else {
                put(*volume_, handles[i], 0,
                    Bytes(3 * block_bytes, static_cast<std::byte>('a' + random.below(26))));
            }
        }
    });
    for (u64 round = 0; round < 20; ++round) {
        const std::string name = "copy" + std::to_string(round);
        EXPECT_EQ(clone("/tree", root(), name), Errc::ok);
        for (const std::string part : {"/one", "/other"}) {
            for (const auto& [file, inode] : list_names(*volume_, at("/" + name + part))) {
                const Bytes bytes = bytes_of(*volume_->handle_of(inode));
                ASSERT_EQ(bytes, Bytes(3 * block_bytes, bytes.at(0)))
                    << name << part << "/" << file;
            }
        }
        Removal removal;
        EXPECT_EQ(volume_->remove_tree(anyone, root(), name, removal), Errc::ok);
    }
    ends = true;
    writer.join();
    for (const Handle file : handles)
        ASSERT_EQ(volume_->release(file), Errc::ok);
    expect_counts_agree(*volume_);
    volume_.close_and_check();
}

INSTANTIATE_TEST_SUITE_P(MetaBuffers, Clone, testing::ValuesIn(block_maps));

}  // namespace
}  // namespace warren::clone_test
