// SPDX-License-Identifier: Apache-2.0
// Directories to rebuild, and what must hold afterwards, for any implementation of a rebuild.
// `Rebuild` has `Errc operator()(const Caller&, Handle)`.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "fs/core/name_hash.hpp"
#include "tests/fs/bulk/scan_answers.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren {

struct RebuildCase {
    std::string label;
    u32 names;
    u32 kept_one_in;  // of the names
    u32 name_bytes;   // at most
};

inline std::vector<RebuildCase> rebuild_cases() {
    return {{"empty", 0, 1, 10},          {"one", 1, 1, 10},
            {"all gone", 700, 1000, 10},  {"few", 90, 3, 10},
            {"some", 2000, 2, 12},        {"nothing gone", 3000, 1, 12},
            {"many", 30'000, 3, 12},      {"long names", 6000, 3, 255},
            {"mixed names", 9000, 2, 90}, {"most gone", 20'000, 300, 40}};
}

/// A name whose letters and length differ from those of its neighbours.
inline std::string case_name(const RebuildCase& which, u32 number) {
    std::string name = std::to_string(number) + ".";
    Random random(number + 1);
    while (name.size() < which.name_bytes && random.below(which.name_bytes) > 3)
        name += static_cast<char>('a' + random.below(26));
    if (which.name_bytes == 255) name.resize(200 + random.below(50), 'x');
    return name;
}

inline Handle make_case(Volume& volume, const RebuildCase& which) {
    const Handle directory = make_directory(volume, volume.root(), which.label);
    for (u32 i = 0; i < which.names; ++i)
        make_file(volume, directory, case_name(which, i));
    for (u32 i = 0; i < which.names; ++i) {
        if (i % which.kept_one_in == 0 && which.kept_one_in < 1000) continue;
        EXPECT_EQ(volume.unlink(anybody, directory, case_name(which, i)), Errc::ok);
    }
    return directory;
}

/// A directory with more blocks than a commit of its volume holds: `names` names are created and
/// one in six is removed, in the order of their hashes. In any other order each batch of names
/// would touch every leaf, and every few thousand names would need a commit.
struct LargeDirectory {
    Handle handle;
    std::vector<std::string> names;  // that are there

    LargeDirectory(InsideVolume& volume, u32 all)
        : handle(make_directory(*volume, volume->root(), "large")) {
        const core::Store& store = volume.inside().store();
        std::vector<std::pair<u64, std::string>> by_hash;
        for (u32 i = 0; i < all; ++i) {
            std::string name = "n" + std::to_string(i);
            const u64 hash = name_hash(store.hash_key, name.data(), static_cast<u32>(name.size()));
            by_hash.emplace_back(hash & store.hash_mask, std::move(name));
        }
        std::sort(by_hash.begin(), by_hash.end());
        std::vector<Creation> creations;
        std::vector<Unlink> gone;
        for (u32 i = 0; i < all; ++i) {
            creations.push_back({handle, by_hash[i].second, {}});
            if (i % 6 == 0) {
                gone.push_back({handle, by_hash[i].second});
            } else {
                names.push_back(by_hash[i].second);
            }
        }
        std::vector<Result<Attributes>> made(creations.size(), Errc::io);
        volume->create_many(anybody, creations, made);
        for (const Result<Attributes>& one : made)
            EXPECT_TRUE(one);
        std::vector<Errc> removed(gone.size(), Errc::io);
        volume->remove_many(anybody, gone, removed);
        EXPECT_EQ(std::count(removed.begin(), removed.end(), Errc::ok),
                  static_cast<std::ptrdiff_t>(gone.size()));
    }

    /// The number of blocks that its tree may take once it is packed.
    u64 packed_blocks() const { return names.size() / 84 * 103 / 100 + 200; }
};

/// The leaves and nodes that a packed tree of these names needs, with a small margin.
inline u64 packed_blocks(const std::map<std::string, u64>& names) {
    u64 words = 0;
    for (const auto& [name, inode] : names)
        words += (name.size() + 7) / 8;
    const u64 by_count = names.size() / 84 + 1;
    // With long names, the free space at the end of a leaf can be just short of the longest name.
    const u64 by_names = words / (231 - 32) + 1;
    const u64 leaves = std::max(by_count, by_names) * 102 / 100 + 1;
    return leaves + leaves / 252 + 2;
}

/// `rebuild` is made anew for each volume: make_rebuild(InsideVolume&).
template <class MakeRebuild>
void expect_rebuilds(const MakeRebuild& make_rebuild) {
    for (const RebuildCase& which : rebuild_cases()) {
        SCOPED_TRACE(which.label);
        const auto disk = make_memory_disk(512 * mib);
        {
            InsideVolume volume(*disk);
            const Handle directory = make_case(*volume, which);
            const auto before = list_names(*volume, directory);
            const u64 blocks_before = volume->attributes(directory)->blocks;
            auto rebuild = make_rebuild(volume);
            for (u32 round = 0; round < 2; ++round) {
                EXPECT_EQ((*rebuild)(anybody, directory), Errc::ok);
                EXPECT_TRUE(list_names(*volume, directory) == before);
                const u64 blocks_after = volume->attributes(directory)->blocks;
                EXPECT_LE(blocks_after, blocks_before);
                EXPECT_LE(blocks_after, packed_blocks(before));
            }
            for (const auto& [name, inode] : before) {
                const auto found = volume->lookup(anybody, directory, name);
                ASSERT_TRUE(found) << name;
                ASSERT_EQ(found->handle.inode, inode) << name;
            }
            // A packed directory can grow again.
            for (u32 i = 0; i < 300; ++i)
                make_file(*volume, directory, "again" + std::to_string(i));
            EXPECT_EQ(list_names(*volume, directory).size(), before.size() + 300);
            EXPECT_EQ(volume->close(), Errc::ok);
        }
        if (!expect_clean(*disk) || testing::Test::HasFailure()) return;
    }
}

}  // namespace warren
