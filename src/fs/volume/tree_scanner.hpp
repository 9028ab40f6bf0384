// SPDX-License-Identifier: Apache-2.0
// Visits every entry of a tree with all workers of the crew: find, du, and the check that a caller
// may remove a tree.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "fs/volume/directory_entries.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {

class TreeScanner {
 public:
    explicit TreeScanner(VolumeImplementation& volume) : volume_(volume) {}

    /// Visits everything below the root that the caller may see.
    Errc scan(const ScanCall& call);
    /// Goes on at some of the positions in `left`, until `steps.is_full`; `left` gets what is still
    /// to be listed.
    Errc scan_on(const core::Credentials& caller, const ops::FileFilter& files,
                 const std::function<bool(const Scanned&)>& visit, const ScanSteps& steps,
                 std::vector<ScanPosition>& left);

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
        std::function<bool()> is_full;  // if set, whether directories are left for later
        core::TreeCheck tree_check = core::TreeCheck::as_rm;
    };
    struct Directory {
        Attributes attributes;  // of a scan that goes on: the handle alone
        u32 depth;
        u64 from = 0;  // the names from this key on
    };

    Errc walk(const core::Credentials& caller, std::span<const Directory> first,
              const Visitor& visitor);
    Errc list(Crew::Worker& worker, const core::Credentials& caller, const Directory& directory,
              const Visitor& visitor);
    Errc list_leaf(Crew::Worker& worker, const Directory& directory,
                   const format::DirectoryLeaf& leaf, u64 from, const Visitor& visitor);

    std::vector<ops::Reply> ask_for(const std::vector<EntryView>& names);
    Errc explain_stray(const Directory& directory, const EntryView& named, Handle met);
    Errc visit_name(Crew::Worker& worker, const Directory& directory, const EntryView& named,
                    const Attributes& attributes, const Visitor& visitor);

    VolumeImplementation& volume_;
    u64 root_ = 0;  // number of the first directory; 0 if a scan goes on below it
    std::atomic<Errc> error_{Errc::ok};
    std::mutex mutex_;                // guards what follows
    std::vector<ScanPosition> left_;  // for later
};

}  // namespace warren
