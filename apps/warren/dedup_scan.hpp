// SPDX-License-Identifier: Apache-2.0
// The scan of `warren dedup`: reads files in the order of their names, looks up each chunk in the
// index, and notes for each duplicate chunk where its original is.
//
// Invariant: a byte counts as a saving only if it occupies disk space of its own now. A file is not
// compared with what an earlier run recorded about the same file.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "apps/warren/disk_extents.hpp"
#include "apps/warren/range_sharer.hpp"
#include "base/rate_limit.hpp"
#include "warren/dedup.hpp"

namespace warren::cli {

struct DedupOptions {
    dedup::Splitter splitter;
    dedup::Index::Options index;
    bool keeps_index = false;  // keep it for later runs, which may start in another folder
    u64 bytes_per_second = 0;  // read at most that many; 0: no limit
};

struct DedupTotals {
    u64 files = 0;
    u64 other_names = 0;  // hard links beyond the first name
    u64 bytes = 0;        // of data, without holes
    u64 hole_bytes = 0;
    u64 zero_bytes = 0;    // of the data, in zero blocks
    u64 equal_bytes = 0;   // in chunks whose original is elsewhere
    u64 shared_bytes = 0;  // of these, at the same disk address already
    u64 savings_bytes = 0;
};

struct DedupFile {
    std::string path;
    u64 bytes = 0;
    u64 savings_bytes = 0;
    std::string most_like;  // the file that has most of the originals
};

struct SharingResult {
    u64 shared_bytes = 0;
    u64 failures = 0;
};

class DedupScan {
 public:
    /// The session opens the images that contain trees; it must outlive this object.
    DedupScan(const DedupOptions& how, dedup::Index& index, Session& session)
        : how_(how), index_(index), session_(session), limit_(how.bytes_per_second) {}

    /// Prepares for reading. Errc::no_device if a GPU was requested and there is none.
    Errc open();
    const dedup::ReadWork& work() const { return reader_.work(); }

    /// Adds a file or all files below a directory, of the host or IMAGE:/path. Returns false, after
    /// an error message, if a file could not be read. `access` is the access that share() will
    /// need.
    bool add_tree(const std::string& text, Access access);
    /// Shares the duplicates that add_tree() found, if the file system can.
    SharingResult share();

    const DedupTotals& totals() const { return totals_; }
    /// The files with savings, largest savings first.
    std::vector<const DedupFile*> files_by_savings() const;

 private:
    /// File system and inode: identifies a file whatever its path.
    using FileName = std::pair<u64, u64>;

    /// A contiguous run of bytes that equals a contiguous run of an original.
    struct Run {
        FileRange range;
        FileRange original;
        u64 length;
    };

    bool add_below(const Location& place);
    bool add_file(const Location& place, const Facts& facts);
    bool read_file(OpenFile& file, u64 size);
    bool read_data(OpenFile& file, u64 begin, u64 end);
    void forget(const FileName& file);
    Errc look_up(std::span<const dedup::FileChunk> chunks, u64 begin);
    void note_equal(const dedup::FileChunk& chunk, u64 offset, const dedup::Entry& entry);
    bool has_bytes(const dedup::Source& original, u64 offset, std::span<const std::byte> bytes);
    Location location_of(const dedup::Source& source) const;
    bool is_shared(u64 offset, const dedup::Source& source, u64 original_offset, u64 length) const;
    void note_run(const dedup::Source& source, u64 offset, u64 original_offset, u64 length);

    const DedupOptions& how_;
    dedup::Index& index_;
    Session& session_;
    RateLimit limit_;
    dedup::ChunkReader reader_;
    DedupTotals totals_;
    std::set<FileName> seen_;
    std::multimap<FileName, size_t> known_;  // sources in the index from earlier runs
    std::vector<DedupFile> files_;
    std::map<std::string, u64> likeness_;             // of the current file, by original's path
    std::map<u64, std::vector<DiskExtent>> extents_;  // by base of the source
    std::map<u64, Location> locations_;               // of files in images, by base of the source
    std::vector<Run> runs_;
    std::shared_ptr<Directory> root_;     // of the current tree
    std::unique_ptr<OpenFile> original_;  // the one compared last
    u64 original_base_ = 0;
    std::vector<std::byte> original_bytes_;
    Location place_;  // of the current file
    u64 base_ = 0;
};

}  // namespace warren::cli
