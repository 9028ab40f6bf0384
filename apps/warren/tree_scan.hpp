// SPDX-License-Identifier: Apache-2.0
// Walks a tree for find and du with the engine's scan, in an image or through a mount's daemon. The
// engine speaks of directories by inode; this gives the entries their paths back.
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

/// A directory met by a scan, with room for what du adds up.
struct DirectoryRecord {
    DirectoryRecord* above = nullptr;  // null: where the scan starts
    std::string name;                  // there: as given on the command line
    u32 depth = 0;
    bool pruned = false;  // nothing below is to be visited
    std::atomic<u64> total{0};
    std::atomic<u64> shared{0};
};

/// Tells what is known of an entry when a test needs it.
class AttributeSource {
 public:
    virtual ~AttributeSource() = default;
    /// False if they cannot be had, which has been reported. `sectors` are units of 512 bytes.
    virtual bool load(Attributes& attributes, u64& sectors) = 0;
    /// What a symbolic link leads to; empty if that is not known.
    virtual std::string link_target() { return {}; }
};

struct Found {
    DirectoryRecord* directory = nullptr;  // that holds the entry; null for the start, or outside
    DirectoryRecord* self = nullptr;       // of a volume; likewise
    std::string_view name;                 // of the start: as given on the command line
    std::string_view start;                // as given
    u32 depth = 0;
    char type = '?';                            // as find -type
    AttributeSource* source = nullptr;          // asked for attributes that are not known
    mutable const Attributes* known = nullptr;  // those of one of the volume's
    FileSpace space = {};                       // likewise, if ScanFilter::counts_shared
    mutable Attributes loaded = {};
    mutable u64 sectors = 0;
    mutable bool failed = false;  // to load them

    /// All zero if they cannot be had.
    const Attributes& attributes() const {
        if (known == nullptr) {
            failed = !source->load(loaded, sectors);
            known = &loaded;
        }
        return *known;
    }
};

/// The path as find prints it: the start as given, then the names below it.
std::string path_of(const Found& found);
std::string path_of(const DirectoryRecord& directory);

class TreeScan {
 public:
    /// Where `location` leads; null, with a complaint naming the tool for other file systems.
    static std::unique_ptr<TreeScan> open(Session& session, const Location& location,
                                          std::string_view other_tool);

    /// Visits the start and all below it down to `max_depth`, from many threads at once; `visit`
    /// returns whether to descend. Of files that `filter` does not want some may be left out.
    Errc run(u32 max_depth, const std::function<bool(const Found&)>& visit,
             const ScanFilter& filter = {});
    /// What the start and the directories below it take; see Volume::usage().
    Errc usage(const UsageOptions& options, std::vector<DirectoryUsage>& answer);

    /// Whether a directory that was found holds nothing. May be called by `visit`.
    bool is_empty(const Found& found);
    /// What a link that was found leads to; empty if it is gone. Likewise.
    std::string link_target(const Found& found);
    /// The file system that the inode numbers belong to.
    u64 file_system() const { return start_.file_system; }
    /// All directories met, in no order. Requires: run() has returned.
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
