// SPDX-License-Identifier: Apache-2.0
// Many paths resolved at once give the results of each alone: through links, ".", "..", loops,
// files, missing names, and trailing slashes.
#include "warren/volume_path.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/support/memory_volume.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::volume_path_test {
namespace {

const Caller root_user{};

constexpr const char* names[] = {"a", "b", "c", "file", "link", "loop", "up", "none"};

/// Nested directories a, b and c to a depth of 3, each with a file and links.
void fill(Volume& volume, Handle directory, u32 depth) {
    for (const char* name : {"a", "b", "c"}) {
        if (depth == 3) break;
        const auto made = volume.create(root_user, directory, name, {.mode = 040755});
        ASSERT_TRUE(made);
        fill(volume, made->handle, depth + 1);
    }
    const auto add = [&](const char* name, u32 mode, std::string_view target) {
        ASSERT_TRUE(volume.create(root_user, directory, name, {.mode = mode, .target = target}));
    };
    add("file", 0100644, "");
    add("link", 0120777, depth % 2 == 0 ? "/b/./a" : "../a/file");
    add("loop", 0120777, "loop");
    add("up", 0120777, "..");
}

std::string random_path(std::mt19937& random) {
    std::string path;
    if (random() % 3 == 0) path = "/";
    for (auto left = random() % 6; left > 0; --left) {
        const auto pick = random() % 12;
        path += pick < 8 ? names[pick] : pick < 9 ? "." : "..";
        if (left > 1 || random() % 4 == 0) path += random() % 5 == 0 ? "//" : "/";
    }
    return path;
}

TEST(VolumePath, ManyPathsLeadWhereEachLeads) {
    const u32 seed = std::random_device()();
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    MemoryVolume volume(64 * mib);
    fill(*volume, volume->root(), 0);
    const Handle from = resolve(*volume, root_user, "/a/b")->handle;
    std::vector<std::string> texts;
    for (u32 i = 0; i < 5000; ++i)
        texts.push_back(random_path(random));
    const std::vector<std::string_view> paths(texts.begin(), texts.end());
    std::vector<LocatedName> located(paths.size());
    locate_many(*volume, root_user, from, paths, located);
    std::vector<Result<Attributes>> found(paths.size(), Errc::io);
    u32 good = 0;
    for (const Follow follow : {Follow::no, Follow::yes}) {
        find_many(*volume, root_user, from, paths, follow, found);
        for (std::size_t i = 0; i < paths.size(); ++i) {
            Located alone;
            PathWalker walker(*volume, root_user);
            const Errc code = walker.locate(from, paths[i], alone);
            EXPECT_EQ(located[i].code, code) << paths[i];
            if (code == Errc::ok && alone.name != "") {
                EXPECT_EQ(located[i].directory, alone.directory) << paths[i];
                EXPECT_EQ(located[i].name, alone.name) << paths[i];
            }
            const auto wanted = PathWalker(*volume, root_user).find(from, paths[i], follow);
            ASSERT_EQ(found[i].code(), wanted.code()) << paths[i];
            if (!wanted) continue;
            EXPECT_EQ(found[i]->handle, wanted->handle) << paths[i];
            EXPECT_EQ(found[i]->mode, wanted->mode) << paths[i];
            ++good;
        }
    }
    EXPECT_GT(good, 1000u);
}

}  // namespace
}  // namespace warren::volume_path_test
