// SPDX-License-Identifier: Apache-2.0
// Names to ask a volume for, of which some do not exist, and what their answers have to be.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fs/format/inode.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren {

struct Asked {
    Handle directory;
    std::string name;
    bool is_plain;  // an entry of a directory that everybody may pass
};

/// Every name of the tree and missing names; names below files, and by handles that are stale.
inline std::vector<Asked> questions_about(Volume& volume) {
    std::vector<Asked> all;
    std::vector<Handle> directories = {volume.root()};
    while (!directories.empty()) {
        const Handle in = directories.back();
        directories.pop_back();
        for (const auto& [name, inode] : list_names(volume, in)) {
            const Result<Attributes> found = volume.lookup(anybody, in, name);
            EXPECT_TRUE(found) << name;
            all.push_back({in, name, true});
            all.push_back({in, name + "x", name.size() < 255});
            all.push_back({in, name.substr(1), false});
            all.push_back({{in.inode, in.generation + 1}, name, false});
            all.push_back({found->handle, name, false});
            if (format::is_directory(found->mode)) {
                directories.push_back(found->handle);
            }
        }
    }
    return all;
}

inline std::vector<u64> words_of(const Attributes& at) {
    const auto number = [](i64 time) { return static_cast<u64>(time); };
    return {at.handle.inode,
            at.handle.generation,
            at.mode,
            at.links,
            at.user,
            at.group,
            at.device,
            at.size,
            at.blocks,
            at.parent,
            number(at.accessed),
            number(at.modified),
            number(at.changed),
            number(at.born)};
}

/// lookup_many() answers as lookup() does. Requires: nothing changes meanwhile.
inline void expect_lookups(Volume& volume, const Caller& caller, const std::vector<Asked>& asked) {
    std::vector<Lookup> lookups;
    for (const Asked& one : asked)
        lookups.push_back({one.directory, one.name});
    std::vector<Result<Attributes>> found(asked.size(), Errc::io);
    volume.lookup_many(caller, lookups, found);
    for (std::size_t i = 0; i < asked.size(); ++i) {
        SCOPED_TRACE(asked[i].name + " in " + std::to_string(asked[i].directory.inode));
        const Result<Attributes> wanted = volume.lookup(caller, asked[i].directory, asked[i].name);
        ASSERT_EQ(found[i].code(), wanted.code());
        if (wanted) {
            ASSERT_EQ(words_of(*found[i]), words_of(*wanted));
        }
    }
}

}  // namespace warren
