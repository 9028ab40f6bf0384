// SPDX-License-Identifier: Apache-2.0
// What `warren dedup` finds out: files read in the order of their names, each chunk looked up, and
// for every chunk that is there twice where its original lies.
//
// Invariant: a byte counts as a saving only if it takes space of its own on disk now: not for what
// an earlier run has noted of the same file.
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
    bool keeps_index = false;  // for later runs, which may begin in another folder
    u64 bytes_per_second = 0;  // to read at most; 0: no limit
};

struct DedupTotals {
    u64 files = 0;
    u64 other_names = 0;  // hard links beyond the first name
    u64 bytes = 0;        // of data, holes left out
    u64 hole_bytes = 0;
    u64 zero_bytes = 0;    // of data that are zeros
    u64 equal_bytes = 0;   // in chunks whose original is elsewhere
    u64 shared_bytes = 0;  // of those, on the same place of the disk already
    u64 savings_bytes = 0;
};

struct DedupFile {
    std::string path;
    u64 bytes = 0;
    u64 savings_bytes = 0;
    std::string most_like;  // where most of the originals are
};

struct SharingResult {
    u64 shared_bytes = 0;
    u64 failures = 0;
};

class DedupScan {
 public:
    /// The session opens the images that trees are in, and is closed after this has gone.
    DedupScan(const DedupOptions& how, dedup::Index& index, Session& session)
        : how_(how), index_(index), session_(session), limit_(how.bytes_per_second) {}

    /// Gets ready to read. Errc::no_device if a GPU was asked for and there is none.
    Errc open();
    const dedup::ReadWork& work() const { return reader_.work(); }

    /// Adds a file or all files below a directory, of the host or IMAGE:/path. False, with a
    /// complaint, if one was not read. `access` is what share() will need.
    bool add_tree(const std::string& text, Access access);
    /// Shares what add_tree() found, if the file system can.
    SharingResult share();

    const DedupTotals& totals() const { return totals_; }
    /// The files with savings, those with most first.
    std::vector<const DedupFile*> files_by_savings() const;

 private:
    /// File system and inode: one file, whatever its path.
    using FileName = std::pair<u64, u64>;

    /// A run of bytes that are those of an original, both without a gap.
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
    std::multimap<FileName, size_t> known_;  // the index's sources of earlier runs
    std::vector<DedupFile> files_;
    std::map<std::string, u64> likeness_;             // of the file at hand, by path of originals
    std::map<u64, std::vector<DiskExtent>> extents_;  // by base of the source
    std::map<u64, Location> locations_;               // of files of images, by base of the source
    std::vector<Run> runs_;
    std::shared_ptr<Directory> root_;     // of the tree at hand
    std::unique_ptr<OpenFile> original_;  // compared last
    u64 original_base_ = 0;
    std::vector<std::byte> original_bytes_;
    Location place_;  // of the file at hand
    u64 base_ = 0;
};

}  // namespace warren::cli
