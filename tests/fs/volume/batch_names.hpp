// SPDX-License-Identifier: Apache-2.0
// Many files of one directory, each change of which is one call for all.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/fs/bulk/scan_answers.hpp"
#include "warren/volume.hpp"

namespace warren {

/// The items of one call: `count` names in a directory.
struct Names {
    Names(Handle directory, u64 count, const std::string& prefix = "f") : in(directory) {
        for (u64 i = 0; i < count; ++i)
            names.push_back(prefix + std::to_string(i));
    }
    /// Creates them; returns how many there are then. Each has got `code` otherwise.
    u64 create(Volume& volume, const CreateOptions& options = {}, Errc code = Errc::exists) {
        std::vector<Creation> items;
        for (const std::string& name : names)
            items.push_back({in, name, options});
        std::vector<Result<Attributes>> results(names.size(), Errc::io);
        volume.create_many(anybody, items, results);
        u64 made = 0;
        for (const Result<Attributes>& result : results) {
            made += result ? 1 : 0;
            EXPECT_TRUE(result || result.code() == code) << static_cast<int>(result.code());
            if (result) handles.push_back(result->handle);
        }
        return made;
    }
    void remove(Volume& volume) {
        std::vector<Unlink> items;
        for (const std::string& name : names)
            items.push_back({in, name, false});
        std::vector<Errc> results(names.size(), Errc::io);
        volume.remove_many(anybody, items, results);
        for (const Errc code : results)
            EXPECT_EQ(code, Errc::ok);
    }
    void move(Volume& volume, Handle to) {
        std::vector<Move> items;
        for (const std::string& name : names)
            items.push_back({in, name, to, name});
        std::vector<Errc> results(names.size(), Errc::io);
        volume.move_many(anybody, items, results);
        for (const Errc code : results)
            EXPECT_EQ(code, Errc::ok);
        in = to;
    }

    Handle in;
    std::vector<std::string> names;
    std::vector<Handle> handles;
};

}  // namespace warren
