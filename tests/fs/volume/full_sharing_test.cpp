// SPDX-License-Identifier: Apache-2.0
// A volume on which neither contents nor metadata find room still takes everything that drops
// references to shared blocks: a count is lowered where it is, and allocates nothing.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>

#include "fs/format/layout.hpp"
#include "tests/fs/volume/sharing_volume.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::full_sharing_test {
namespace {

class FullSharing : public SharingVolume {
 public:
    FullSharing() : SharingVolume(16 * mib) {}

    u64 free_blocks() {
        EXPECT_EQ(volume_->sync(), Errc::ok);
        return volume_->statistics().blocks_free;
    }
    Handle find(const std::string& path) {
        const auto found = resolve(*volume_, anybody, path);
        EXPECT_TRUE(found) << path;
        return found ? found->handle : Handle{};
    }
    /// A tree with a file in two block groups, and one with extents in a tree of several leaves.
    void make_origin() {
        const Handle origin = make_directory(*volume_, volume_->root(), "origin");
        const Handle large = make_file(*volume_, origin, "large");
        const Handle scattered = make_file(*volume_, origin, "scattered");
        for (const Handle file : {large, scattered})
            ASSERT_EQ(volume_->open_file(file), Errc::ok);
        put(*volume_, large, 0, large_);
        for (u64 i = 0; i < 400; ++i)
            put(*volume_, scattered, 2 * i * block_bytes,
                Bytes(large_.data(), large_.data() + block_bytes));
        for (const Handle file : {large, scattered})
            ASSERT_EQ(volume_->release(file), Errc::ok);
    }
    Errc clone_origin(u64 number) {
        ClonedTree cloned;
        return volume_->clone(anybody, find("origin"), volume_->root(),
                              "copy" + std::to_string(number), cloned);
    }
    /// Shares single blocks, so that each is an extent, until there is no space.
    void fill_by_sharing() {
        const Handle source = find("origin/large");
        Errc code = Errc::ok;
        for (; code == Errc::ok; ++parts_)
            code = volume_->share_range(source, 0, part_, 2 * parts_ * block_bytes, block_bytes)
                       .code();
        EXPECT_EQ(code, Errc::no_space);
    }
    /// Takes all space for contents, then all for metadata.
    void fill() {
        for (const u64 size : {256 * block_bytes, block_bytes}) {
            const Bytes bytes(size, std::byte{7});
            Result<u64> done = 0;
            for (; done; data_end_ += done ? *done : 0)
                done = volume_->write(data_, data_end_, bytes);
            EXPECT_EQ(done.code(), Errc::no_space);
        }
        const std::string target(1000, 't');
        Errc code = Errc::ok;
        for (; code == Errc::ok; ++links_) {
            const std::string name = "link" + std::to_string(links_);
            code =
                volume_->create(anybody, volume_->root(), name, {.mode = 0120777, .target = target})
                    .code();
        }
        EXPECT_EQ(code, Errc::no_space);
    }
    /// The action works on the full volume and costs no block.
    void expect_dropped(const char* what, const std::function<Errc()>& drop) {
        SCOPED_TRACE(what);
        fill();
        const u64 before = free_blocks();
        EXPECT_EQ(drop(), Errc::ok);
        EXPECT_GE(free_blocks(), before);
    }
    Errc punch(const std::string& path) {
        return volume_->allocate(find(path), Allocate::punch_hole, 100 * block_bytes,
                                 300 * block_bytes);
    }
    Errc resize(const std::string& path, u64 size) {
        AttributeChange change;
        change.which = AttributeChange::size;
        change.new_size = size;
        return volume_->set_attributes(anybody, find(path), change).code();
    }
    Errc unlink(const std::string& directory, std::string_view name) {
        return volume_->unlink(anybody, find(directory), name);
    }
    Errc remove_tree(const std::string& name) {
        Removal removal;
        return volume_->remove_tree(anybody, volume_->root(), name, removal);
    }
    void expect_shared(const std::string& path, bool is_shared) {
        const Result<FileSpace> space = volume_->space_of(find(path));
        ASSERT_TRUE(space);
        EXPECT_EQ(space->shared, is_shared ? space->blocks : 0) << path;
    }

 protected:
    const Bytes large_ = random_bytes(random_, 900 * block_bytes);
    Handle data_ = open_new("data");
    Handle part_ = open_new("part");
    u64 data_end_ = 0;
    u64 parts_ = 0;
    u64 links_ = 0;
};
INSTANTIATE_TEST_SUITE_P(BlockMaps, FullSharing, testing::ValuesIn(block_maps));

TEST_P(FullSharing, dropsReferencesWithoutABlock) {
    const u64 first = free_blocks();
    make_origin();
    constexpr u64 copies = 6;
    for (u64 i = 0; i < copies; ++i)
        ASSERT_EQ(clone_origin(i), Errc::ok);
    fill();
    fill_by_sharing();
    EXPECT_EQ(clone_origin(copies), Errc::no_space);

    expect_dropped("punch", [&] { return punch("origin/large"); });
    expect_dropped("punch scattered", [&] { return punch("copy0/scattered"); });
    expect_dropped("truncate", [&] { return resize("copy0/large", 10 * block_bytes + 5); });
    expect_dropped("truncate scattered",
                   [&] { return resize("copy1/scattered", 5 * block_bytes); });
    expect_dropped("unlink", [&] { return unlink("copy2", "large"); });
    expect_dropped("unlink scattered", [&] { return unlink("copy2", "scattered"); });
    expect_dropped("remove_tree", [&] { return remove_tree("copy3"); });
    expect_dropped("remove the origin", [&] { return remove_tree("origin"); });

    for (const char* const path : {"copy4/large", "copy4/scattered"})
        expect_shared(path, true);
    for (const char* const name : {"copy0", "copy1", "copy2", "copy4"})
        EXPECT_EQ(remove_tree(name), Errc::ok);
    remove(part_, "part");
    for (const char* const path : {"copy5/large", "copy5/scattered"})
        expect_shared(path, false);
    EXPECT_EQ(contents(*volume_, find("copy5/large")), large_);
    volume_.close_and_check();

    volume_.open();
    EXPECT_EQ(remove_tree("copy5"), Errc::ok);
    for (const auto& [name, inode] : list_names(*volume_, volume_->root()))
        EXPECT_EQ(volume_->unlink(anybody, volume_->root(), name), Errc::ok) << name;
    // Counts stay with their block groups.
    EXPECT_GE(free_blocks() + volume_->statistics().blocks / format::blocks_per_frame, first);
    expect_counts_agree(*volume_);
    volume_.close_and_check();
}

}  // namespace
}  // namespace warren::full_sharing_test
