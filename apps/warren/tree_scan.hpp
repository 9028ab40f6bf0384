// SPDX-License-Identifier: Apache-2.0
// Walks a tree for find and du with the engine's scan, in an image or through a mount's daemon. The
// engine identifies directories by inode; this class maps entries back to paths.
//
// Invariant: a directory is recorded before any of its entries is visited. Records live as long as
// the scan object.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "apps/warren/location.hpp"
#include "apps/warren/mounts.hpp"
#include "apps/warren/per_thread.hpp"

namespace warren::cli {

/// A directory found by a scan, with room for the sums of du.
struct DirectoryRecord {
    DirectoryRecord* above = nullptr;  // null: where the scan starts
    std::string name;                  // there: as given on the command line
    u32 depth = 0;
    bool pruned = false;  // do not visit anything below
    std::atomic<u64> total{0};
    std::atomic<u64> shared{0};
};

/// Loads the attributes of an entry when a test needs them.
class AttributeSource {
 public:
    virtual ~AttributeSource() = default;
    /// Returns false if they cannot be read, which has been reported. `sectors` are units of 512
    /// bytes.
    virtual bool load(Attributes& attributes, u64& sectors) = 0;
    /// The target of a symbolic link; empty if it is not known.
    virtual std::string link_target() { return {}; }
};

struct Found {
    DirectoryRecord* directory = nullptr;  // that holds the entry; null for the start, or outside
    DirectoryRecord* self = nullptr;       // a volume (both members)
    std::string_view name;                 // for the start: as given on the command line
    std::string_view start;                // as given
    u32 depth = 0;
    char type = '?';                            // as in find -type
    AttributeSource* source = nullptr;          // loads the attributes if they are not known
    mutable const Attributes* known = nullptr;  // from the scan, in a volume
    FileSpace space = {};                       // likewise, if ScanFilter::counts_shared
    mutable Attributes loaded = {};
    mutable u64 sectors = 0;
    mutable bool failed = false;  // they could not be loaded

    /// All zero if they cannot be read.
    const Attributes& attributes() const {
        if (known == nullptr) {
            failed = !source->load(loaded, sectors);
            known = &loaded;
        }
        return *known;
    }
};

/// The path as find prints it: the start as given, followed by the names below it.
std::string path_of(const Found& found);
std::string path_of(const DirectoryRecord& directory);

class TreeScan {
 public:
    /// The tree at `location`; null, after an error message that names the tool for other file
    /// systems.
    static std::unique_ptr<TreeScan> open(Session& session, const Location& location,
                                          std::string_view other_tool);

    /// Visits the start and everything below it down to `max_depth`, from many threads at once;
    /// `visit` returns whether to descend. Entries that do not match `filter` may be skipped.
    Errc run(u32 max_depth, const std::function<bool(const Found&)>& visit,
             const ScanFilter& filter = {});
    /// The usage of the start and of the directories below it; see Volume::usage().
    Errc usage(const UsageOptions& options, std::vector<DirectoryUsage>& answer);

    /// Whether a directory that was found is empty. May be called by `visit`.
    bool is_empty(const Found& found);
    /// The target of a link that was found; empty if it has vanished. May be called by `visit`.
    std::string link_target(const Found& found);
    /// The file system that the inode numbers belong to.
    u64 file_system() const { return start_.file_system; }
    /// All directories that were found, in no order. Requires: run() has returned.
    std::vector<DirectoryRecord*> directories();

 private:
    using Visit = std::function<bool(const Found&)>;
    struct Shard {
        std::mutex mutex;
        std::unordered_map<u64, std::unique_ptr<DirectoryRecord>> records;
    };

    struct Recent {
        u64 inode = 0;
        DirectoryRecord* record = nullptr;
    };

    TreeScan() = default;
    DirectoryRecord* record(u64 inode);
    DirectoryRecord* add_record(u64 inode, DirectoryRecord* above, std::string_view name);
    bool visit_entry(const Scanned& entry, u32 max_depth, const Visit& visit);

    Location location_;
    Volume* volume_ = nullptr;
    std::optional<fuse::ControlConnection> connection_;
    Facts start_;
    std::array<Shard, 64> shards_;
    PerThread<Recent> recent_;
};

}  // namespace warren::cli
