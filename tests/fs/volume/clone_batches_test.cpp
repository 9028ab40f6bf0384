// SPDX-License-Identifier: Apache-2.0
// Clones of large trees, on both kinds of engines: by batches on one with a memory of its own, and
// by operations on the CPU engine. What a clone shows is compared with its source.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "tests/fs/volume/sharing_volume.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/test_engine.hpp"

namespace warren::clone_batches_test {
namespace {

class CloneBatches : public testing::TestWithParam<std::string> {
 protected:
    void open(u64 size_bytes) {
        disk_ = make_memory_disk(size_bytes);
        Failure failure;
        volume_ = open_on_engine(std::make_unique<FaultDisk>(*disk_), GetParam(), {.workers = 2},
                                 failure);
        ASSERT_TRUE(volume_) << failure.message;
    }
    void close_and_check() {
        expect_counts_agree(*volume_);
        EXPECT_EQ(volume_->close(), Errc::ok);
        expect_clean(*disk_);
    }

    Handle make(Handle in, const std::string& name, const CreateOptions& options = {}) {
        const Result<Attributes> made = volume_->create(anybody, in, name, options);
        EXPECT_TRUE(made) << name << ": " << static_cast<int>(made.code());
        return made ? made->handle : Handle{};
    }
    void fill(Handle file, u64 offset, u64 length) {
        ASSERT_EQ(volume_->open_file(file), Errc::ok);
        put(*volume_, file, offset, random_bytes(random_, length));
        ASSERT_EQ(volume_->release(file), Errc::ok);
    }
    void clone(const std::string& from, const std::string& to) {
        ClonedTree done;
        const Result<Attributes> source = resolve(*volume_, anybody, from);
        ASSERT_TRUE(source);
        ASSERT_EQ(volume_->clone(anybody, source->handle, volume_->root(), to, done), Errc::ok);
    }
    void remove(const std::string& name) {
        Removal removal;
        ASSERT_EQ(volume_->remove_tree(anybody, volume_->root(), name, removal), Errc::ok);
    }

    void make_random_file(Handle in, const std::string& name);
    void make_random_tree(Handle in, u32 depth);
    std::map<std::string, std::string> look(const std::string& path);
    void look_below(Handle handle, const std::string& path,
                    std::map<std::string, std::string>& seen);

    u64 files_left_ = 0;  // that the random tree may have
    std::unique_ptr<MemoryDisk> disk_;
    std::unique_ptr<Volume> volume_;
    Seed seed_;
    Random random_{seed_.value()};
};

void CloneBatches::make_random_file(Handle in, const std::string& name) {
    const u64 kind = random_.below(24);
    if (kind == 0) {
        make(in, name, {.mode = 0120777, .target = std::string(1 + random_.below(300), 't')});
        return;
    }
    if (kind == 1) {
        make(in, name, {.mode = 0020600, .device = 5});
        return;
    }
    const Handle file = make(in, name, {.mode = 0100000 | static_cast<u32>(random_.below(07777))});
    if (kind < 6) return;
    if (kind < 10) return fill(file, 0, 1 + random_.below(128));
    fill(file, 0, 1 + random_.below(kind < 20 ? 3 * block_bytes : 40 * block_bytes));
    if (kind == 22) fill(file, 60 * block_bytes, block_bytes);  // another extent
    if (kind == 23) {
        const Bytes value = random_bytes(random_, 20);
        ASSERT_EQ(volume_->set_attribute(anybody, file, "user.note", value), Errc::ok);
        ASSERT_TRUE(volume_->link(anybody, file, in, name + " too"));
    }
}

void CloneBatches::make_random_tree(Handle in, u32 depth) {
    const u64 files = random_.below(random_.one_in(4) ? 400 : 40);
    for (u64 i = 0; i < files && files_left_ > 0; ++i, --files_left_)
        make_random_file(in, "file" + std::to_string(i) + std::string(random_.below(60), 'n'));
    if (depth == 0) return;
    const u64 directories = random_.below(random_.one_in(3) ? 40 : 6);
    for (u64 i = 0; i < directories; ++i) {
        const Handle below = make(in, "directory" + std::to_string(i),
                                  {.mode = 0040000 | static_cast<u32>(random_.below(07777))});
        if (random_.one_in(3)) make_random_tree(below, depth - 1);
    }
}

/// What can be seen of a file and of all below it, by path.
std::map<std::string, std::string> CloneBatches::look(const std::string& path) {
    std::map<std::string, std::string> seen;
    const Result<Attributes> root = resolve(*volume_, anybody, path);
    EXPECT_TRUE(root) << path;
    if (root) look_below(root->handle, "", seen);
    return seen;
}

void CloneBatches::look_below(Handle handle, const std::string& path,
                              std::map<std::string, std::string>& seen) {
    const Attributes at = *volume_->attributes(handle);
    std::string text;
    const auto add = [&](i64 number) { text += std::to_string(number) + " "; };
    for (const u32 number : {at.mode, at.links, at.user, at.group, at.device})
        add(number);
    add(at.accessed);
    add(at.modified);
    if ((at.mode & 0170000) == 0120000) text += *volume_->read_link(handle);
    if ((at.mode & 0170000) == 0100000) {
        EXPECT_EQ(volume_->open_file(handle), Errc::ok);
        for (const std::byte byte : contents(*volume_, handle))
            text += static_cast<char>(byte);
        EXPECT_EQ(volume_->release(handle), Errc::ok);
        std::array<char, 4096> names;
        text += std::string(names.data(), *volume_->list_attributes(handle, names));
    }
    seen[path] = text;
    if ((at.mode & 0170000) != 0040000) return;
    for (const auto& [name, inode] : list_names(*volume_, handle))
        look_below(*volume_->handle_of(inode), path + "/" + name, seen);
}

TEST_P(CloneBatches, ShowWhatTheirSourceShows) {
    for (u32 round = 0; round < 3; ++round) {
        open(256 * mib);
        files_left_ = 1000;
        make_random_tree(make(volume_->root(), "tree", {.mode = 040755}), 3);
        const auto source = look("/tree");
        clone("/tree", "one");  // adds counts
        if (random_.one_in(2)) {
            ASSERT_EQ(volume_->sync(), Errc::ok);
        }
        clone("/tree", "two");  // adds to counts
        clone("/one", "three");
        for (const std::string path : {"/one", "/two", "/three"})
            EXPECT_TRUE(look(path) == source) << path;
        // Each goes its own way from here on.
        const Handle one = resolve(*volume_, anybody, "/one")->handle;
        for (const auto& [name, inode] : list_names(*volume_, one)) {
            const Attributes file = *volume_->attributes(*volume_->handle_of(inode));
            if ((file.mode & 0170000) == 0100000)
                fill(file.handle, 0, 1 + random_.below(2 * block_bytes));
        }
        remove("two");
        EXPECT_TRUE(look("/tree") == source);
        EXPECT_TRUE(look("/three") == source);
        remove("tree");
        EXPECT_TRUE(look("/three") == source);
        close_and_check();
    }
}

/// As `cp -a` by a user: the clone is the user's, and a file that the user may not read ends it.
TEST_P(CloneBatches, NeedThePermissionThatACopyNeeds) {
    open(64 * mib);
    const Caller user{.user = 50, .group = 60};
    AttributeChange open_to_all{.which = AttributeChange::mode, .new_mode = 0777};
    ASSERT_TRUE(volume_->set_attributes(anybody, volume_->root(), open_to_all));
    const Handle tree = make(volume_->root(), "tree", {.mode = 040755});
    for (u32 i = 0; i < 100; ++i)
        fill(make(tree, "file" + std::to_string(i), {.mode = 0104755}), 0, block_bytes);
    const auto clone_as_user = [&](const std::string& name) {
        ClonedTree done;
        const Errc code = volume_->clone(user, tree, volume_->root(), name, done);
        EXPECT_EQ(done.failed, code == Errc::ok ? "" : "file70");
        return code;
    };
    ASSERT_EQ(clone_as_user("copy"), Errc::ok);
    for (const auto& [name, inode] :
         list_names(*volume_, resolve(*volume_, anybody, "/copy")->handle)) {
        const Attributes copy = *volume_->attributes(*volume_->handle_of(inode));
        EXPECT_EQ(copy.user, 50u);
        EXPECT_EQ(copy.group, 60u);
        EXPECT_EQ(copy.mode, 0100755u) << "the bit that lends the old owner's rights is gone";
    }
    const u64 inodes = volume_->statistics().inodes_used;
    AttributeChange secret{.which = AttributeChange::mode, .new_mode = 0600};
    const Handle file = resolve(*volume_, anybody, "/tree/file70")->handle;
    ASSERT_TRUE(volume_->set_attributes(anybody, file, secret));
    EXPECT_EQ(clone_as_user("another"), Errc::access);
    EXPECT_EQ(volume_->statistics().inodes_used, inodes);
    close_and_check();
}

/// Files with a block each.
class ManyFiles : public CloneBatches {
 protected:
    void make_files(u64 count) {
        const Handle tree = make(volume_->root(), "tree", {.mode = 040755});
        for (u64 i = 0; i < count; ++i)
            fill(make(tree, "file" + std::to_string(i)), 0, block_bytes);
    }
};

/// Inodes, leaves and counts lie in more blocks than a transaction holds.
TEST_P(ManyFiles, ThatNoCommitHoldsAreClonedInParts) {
    open(64 * mib);
    make_files(6000);
    const auto source = look("/tree");
    clone("/tree", "copy");
    EXPECT_TRUE(look("/copy") == source);
    EXPECT_TRUE(look("/tree") == source);
    close_and_check();
}

TEST_P(ManyFiles, ThatDoNotFitLeaveNothing) {
    open(40 * mib);
    make_files(5000);
    // Names arrive in any order, so a clone may need some leaves more than one that was removed.
    fill(make(volume_->root(), "slack"), 0, 4 * mib);
    const u64 inodes = volume_->statistics().inodes_used;
    const auto source = look("/tree");
    u64 clones = 0;
    Errc code = Errc::ok;
    for (; code == Errc::ok; ++clones) {
        ClonedTree done;
        code = volume_->clone(anybody, resolve(*volume_, anybody, "/tree")->handle, volume_->root(),
                              "copy" + std::to_string(clones), done);
    }
    EXPECT_EQ(code, Errc::no_space);
    ASSERT_GT(--clones, 0u);
    EXPECT_EQ(volume_->statistics().inodes_used - inodes, 5001 * clones);
    EXPECT_TRUE(look("/tree") == source);
    remove("copy0");
    ASSERT_EQ(volume_->unlink(anybody, volume_->root(), "slack"), Errc::ok);
    ASSERT_EQ(volume_->sync(), Errc::ok);
    clone("/tree", "copy0");
    EXPECT_TRUE(look("/copy0") == source);
    close_and_check();
}

const auto engines = testing::Values(std::string("cpu"), engine_of_its_own());
const auto name_of_engine = [](const auto& way) { return way.param; };
INSTANTIATE_TEST_SUITE_P(Engines, CloneBatches, engines, name_of_engine);
INSTANTIATE_TEST_SUITE_P(Engines, ManyFiles, engines, name_of_engine);

}  // namespace
}  // namespace warren::clone_batches_test
