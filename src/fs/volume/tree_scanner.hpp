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

    /// Visits everything below the root that the caller may see.
    Errc scan(const ScanCall& call);

    /// Errc::access or Errc::not_permitted if `caller` could not remove everything below `root`.
    Errc check_removable(const core::Credentials& caller, Handle root, core::TreeCheck check);

    /// Where the parts of a directory begin that workers can take apart, the first at 0.
    Result<std::vector<u64>> ranges(Handle directory);

 private:
    /// What is done with each directory before its entries, and with each entry.
    struct Visitor {
        u32 permission = 0;  // needed in every directory that has names
        ops::FileFilter files;
        std::function<bool(const Scanned&)> entry;
        std::function<Errc(const Attributes& directory, const Attributes& entry)> check;
        core::TreeCheck tree_check = core::TreeCheck::as_rm;
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

    /// A name of a leaf that the visitor may want.
    struct Named {
        std::string_view name;
        format::DirectorySlot slot;
    };

    std::vector<ops::Reply> ask_for(const std::vector<Named>& names);
    Errc visit_name(Crew::Worker& worker, const Directory& directory, const Named& named,
                    const Attributes& attributes, const Visitor& visitor);

    VolumeImplementation& volume_;
    std::atomic<Errc> error_{Errc::ok};
};

}  // namespace warren
