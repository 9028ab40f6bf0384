// SPDX-License-Identifier: Apache-2.0
// Callbacks that remove a tree using only the descriptors of its directories, each directory once
// all below it is done.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <atomic>

#include "warren/walk.hpp"

namespace warren::walk {

/// `missed` counts the entries that could not be removed.
inline Callbacks removing(std::atomic<u32>& missed) {
    Callbacks callbacks;
    callbacks.visit = [&missed](const Entry& entry) {
        const bool stays = entry.type() == Type::directory;
        if (!stays && unlinkat(entry.directory(), entry.name(), 0) != 0) ++missed;
        return Next::go_on;
    };
    callbacks.finish = [&missed](const Finished& directory) {
        if (unlinkat(directory.directory(), directory.name(), AT_REMOVEDIR) != 0) ++missed;
    };
    return callbacks;
}

}  // namespace warren::walk
