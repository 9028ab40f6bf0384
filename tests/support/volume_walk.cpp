// SPDX-License-Identifier: Apache-2.0
// The walk keeps a list of directories instead of recursing: trees may be deeper than the stack.
#include "tests/support/volume_walk.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "fs/core/permission.hpp"

namespace warren {
namespace {

constexpr u32 type_mask = 0170000;
constexpr u32 directory_type = 0040000;

/// What the walk has found.
struct Census {
    std::map<u64, u32> names;  // number of names found for each file
    std::map<u64, u32> links;  // link counts of the files
    std::set<u64> directories;
    std::vector<Handle> left;
};

void visit(Volume& volume, Handle directory, Census& census) {
    EXPECT_TRUE(census.directories.insert(directory.inode).second) << "a directory is met twice";
    u32 subdirectories = 0;
    for (const auto& [name, inode] : list_names(volume, directory)) {
        const auto found = volume.lookup(anybody, directory, name);
        ASSERT_TRUE(found) << name;
        EXPECT_EQ(found->handle.inode, inode) << name;
        if ((found->mode & type_mask) != directory_type) {
            ++census.names[inode];
            census.links[inode] = found->links;
            continue;
        }
        EXPECT_EQ(found->parent, directory.inode) << name;
        ++subdirectories;
        census.left.push_back(found->handle);
    }
    const auto attributes = volume.attributes(directory);
    ASSERT_TRUE(attributes);
    EXPECT_EQ(attributes->links, 2 + subdirectories);
}

}  // namespace

Handle make_directory(Volume& volume, Handle in, const std::string& name, u32 mode) {
    const auto made = volume.create(anybody, in, name, {.mode = mode});
    EXPECT_TRUE(made) << name << ": " << static_cast<int>(made.code());
    return made ? made->handle : Handle{};
}

Handle make_file(Volume& volume, Handle in, const std::string& name) {
    return make_directory(volume, in, name, 0100666);
}

Result<Attributes> resolve(Volume& volume, const Caller& caller, std::string_view path) {
    Result<Attributes> at = volume.attributes(volume.root());
    while (at) {
        const std::size_t start = path.find_first_not_of('/');
        if (start == std::string_view::npos) return at;
        path.remove_prefix(start);
        const std::string_view name = path.substr(0, path.find('/'));
        path.remove_prefix(name.size());
        if (name == "." || name == "..") {
            if ((at->mode & type_mask) != directory_type) return Errc::not_directory;
            WARREN_TRY(volume.check_access(caller, at->handle, core::may_execute));
            if (name == ".") continue;
            WARREN_LET(parent, volume.handle_of(at->parent));
            at = volume.attributes(*parent);
            continue;
        }
        at = volume.lookup(caller, at->handle, name);
    }
    return at;
}

void leave_foreign_bytes(Volume& volume) {
    const Handle file = make_file(volume, volume.root(), "foreign");
    ASSERT_EQ(volume.open_file(file), Errc::ok);
    const std::vector<std::byte> bytes(256 * kib, std::byte{'#'});
    u64 size = 0;
    while (volume.write(file, size, bytes))
        size += bytes.size();
    ASSERT_GT(size / bytes.size(), volume.statistics().blocks * 4096 / bytes.size() / 4);
    ASSERT_EQ(volume.release(file), Errc::ok);
    ASSERT_EQ(volume.sync(), Errc::ok);
    ASSERT_EQ(volume.unlink(anybody, volume.root(), "foreign"), Errc::ok);
}

std::map<std::string, u64> list_names(Volume& volume, Handle directory) {
    std::map<std::string, u64> names;
    const Errc listed = volume.read_directory(directory, 0, [&](const DirectoryEntry& entry) {
        EXPECT_TRUE(names.emplace(std::string(entry.name), entry.inode).second) << entry.name;
        return true;
    });
    EXPECT_EQ(listed, Errc::ok);
    return names;
}

void expect_counts_agree(Volume& volume) {
    Census census;
    census.left.push_back(volume.root());
    while (!census.left.empty()) {
        const Handle directory = census.left.back();
        census.left.pop_back();
        visit(volume, directory, census);
    }
    EXPECT_EQ(census.names, census.links);
    // The orphan directory is the only inode without a name.
    EXPECT_EQ(census.directories.size() + census.names.size() + 1, volume.statistics().inodes_used);
}

}  // namespace warren
