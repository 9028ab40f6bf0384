// SPDX-License-Identifier: Apache-2.0
// Visits every entry of a tree with all workers of the crew: find, du, and the check that a caller
// may remove a tree.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "fs/volume/volume_implementation.hpp"

namespace warren {

class TreeScanner {
 public:
    explicit TreeScanner(VolumeImplementation& volume) : volume_(volume) {}

    /// Calls `visit` for `root` and everything below it that `caller` may see.
    Errc scan(const core::Credentials& caller, Handle root,
              const std::function<bool(const Scanned&)>& visit);

    /// Errc::access or Errc::not_permitted if `caller` could not remove everything below `root`.
    Errc check_removable(const core::Credentials& caller, Handle root);

    /// Where the parts of a directory begin that workers can take apart, the first at 0.
    Result<std::vector<u64>> ranges(Handle directory);

 private:
    /// What is done with each directory before its entries, and with each entry.
    struct Visitor {
        u32 permission;  // needed in every directory
        std::function<bool(const Scanned&)> entry;
        std::function<Errc(const Attributes& directory, const Attributes& entry)> check;
    };
    struct Directory {
        Attributes attributes;
        u32 depth;
    };

    Errc walk(const core::Credentials& caller, const Attributes& root, const Visitor& visitor);
    Errc list(Crew::Worker& worker, const core::Credentials& caller, const Directory& directory,
              const Visitor& visitor);
    Errc list_leaf(Crew::Worker& worker, const Directory& directory,
                   const format::DirectoryLeaf& leaf, u64 from, const Visitor& visitor);

    std::vector<ops::Reply> ask_for_leaf(const format::DirectoryLeaf& leaf, u64 from);

    VolumeImplementation& volume_;
    std::atomic<Errc> error_{Errc::ok};
};

}  // namespace warren
