// SPDX-License-Identifier: Apache-2.0
// An inode with a name in the orphan directory and another one: the next opening would free what
// the other name leads to.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/support/check_sample.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::check_orphans_test {
namespace {

TEST(CheckOrphans, AnInodeWithAnotherNameIsNone) {
    test::ImageBuilder image(16 * mib);
    const auto add_orphan_name = [&](u64 inode) {
        char name[17];
        std::snprintf(name, sizeof name, "%016llx", static_cast<unsigned long long>(inode));
        image.add_name(image.orphans(), name, inode);
    };
    add_orphan_name(image.add_file(image.root(), "file", "kept"));
    const u64 outer = image.add_directory(image.root(), "outer");
    const u64 inner = image.add_directory(outer, "inner");
    image.add_file(inner, "below", "kept");
    add_orphan_name(inner);
    image.add_orphan("unlinked but open");
    image.finish();
    const test::Outcome found = test::check(image.disk());
    EXPECT_EQ(found.result.problems, 2u) << found.all();
    EXPECT_TRUE(found.says("/file: has a name in the orphan directory too")) << found.all();
    EXPECT_TRUE(found.says("has a second name for the directory")) << found.all();
    const test::Outcome repaired = test::check(image.disk(), true);
    EXPECT_EQ(repaired.result.repaired, 2u) << repaired.all();
    EXPECT_EQ(repaired.result.orphans, 1u);
    EXPECT_TRUE(expect_clean(image.disk()));
    const auto volume = open_on(image.disk());
    ASSERT_TRUE(volume);
    EXPECT_TRUE(resolve(*volume, anybody, "/file"));
    EXPECT_TRUE(resolve(*volume, anybody, "/outer/inner/below"));
    EXPECT_EQ(volume->close(), Errc::ok);
    EXPECT_EQ(volume->statistics().inodes_used, 6u) << "only the orphan is freed";
    EXPECT_TRUE(expect_clean(image.disk()));
}

}  // namespace
}  // namespace warren::check_orphans_test
