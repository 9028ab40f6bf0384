// SPDX-License-Identifier: Apache-2.0
// What a folder lists, against what was made in it.
#include "tests/support/folder.hpp"

#include <gtest/gtest.h>

namespace warren::walk::folder_test {

TEST(Folder, ListsWhatWasMade) {
    const Folder folder;
    folder.make_directory("d");
    folder.make_file("d/f", 7);
    folder.make_link("d", "l");
    const std::vector<Listed> all = list_tree(folder.path());
    ASSERT_EQ(all.size(), 4u);
    EXPECT_EQ(all[1].path, folder / "d");
    EXPECT_EQ(all[1].type, 'd');
    EXPECT_EQ(all[2], (Listed{folder / "d/f", 'f', 7}));
    EXPECT_EQ(all[3], (Listed{folder / "l", 'l', 1}));
}

}  // namespace warren::walk::folder_test
