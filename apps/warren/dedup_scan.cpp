// SPDX-License-Identifier: Apache-2.0
// Reads the files of a tree and looks up every chunk. The holes and disk addresses of a file are
// requested from the kernel once.
#include "apps/warren/dedup_scan.hpp"

#include <algorithm>
#include <filesystem>

#include "apps/fuse/control_protocol.hpp"
#include "apps/warren/disk_extents.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/progress.hpp"

namespace warren::cli {

namespace {

bool refuse(const Location& place, Errc code) {
    complain({quote(place.text), ": ", reason(code)});
    return false;
}

}  // namespace

Errc DedupScan::open() {
    const std::vector<dedup::Source>& sources = index_.sources();
    for (size_t number = 0; number < sources.size(); ++number) {
        const Result<Facts> facts = host_directory()->stat(sources[number].path, Follow::no);
        if (facts) known_.insert({{facts->file_system, facts->attributes.handle.inode}, number});
    }
    return reader_.open(how_.splitter);
}

bool DedupScan::add_tree(const std::string& text, Access access) {
    const Location place = parse_location(text);
    root_ = session_.directory(place, access);
    return root_ != nullptr && add_below(place);
}

bool DedupScan::add_below(const Location& place) {
    const Result<Facts> facts = root_->stat(place.path, Follow::no);
    if (!facts) return refuse(place, facts.code());
    if (facts->is_regular()) {
        Progress progress("reading " + quote(place.text));
        return add_file(place, *facts);
    }
    if (!facts->is_directory()) return true;
    std::shared_ptr<Directory> directory;
    std::vector<Name> names;
    Errc code = root_->open_directory(place.path, Follow::no, directory);
    if (code == Errc::ok) code = directory->list(names);
    if (code != Errc::ok) return refuse(place, code);
    directory.reset();
    std::ranges::sort(names, {}, &Name::name);
    bool good = true;
    for (const Name& name : names) {
        const Location below{joined(place.text, name.name), place.image,
                             joined(place.path, name.name)};
        good = add_below(below) && good;
    }
    return good;
}

bool DedupScan::add_file(const Location& place, const Facts& facts) {
    std::unique_ptr<OpenFile> file;
    const Errc code = root_->open_file(place.path, Follow::no, Access::read, file);
    if (code != Errc::ok) return refuse(place, code);
    const FileName name{facts.file_system, facts.attributes.handle.inode};
    if (!seen_.insert(name).second) {
        ++totals_.other_names;
        return true;
    }
    forget(name);
    place_ = place;
    const bool good = read_file(*file, facts.attributes.size);
    const Result<Facts> after = root_->stat(place.path, Follow::no);
    const bool has_changed = after && (after->attributes.size != facts.attributes.size ||
                                       after->attributes.modified != facts.attributes.modified);
    if (has_changed) complain({quote(place.text), ": changed while it was read; run again"});
    return good && !has_changed;
}

/// Removes what earlier runs recorded about the file; its current contents replace that.
void DedupScan::forget(const FileName& file) {
    const auto [first, last] = known_.equal_range(file);
    for (auto known = first; known != last; ++known)
        index_.forget_source(known->second);
}

bool DedupScan::read_file(OpenFile& file, u64 size) {
    const std::string& path = place_.text;
    likeness_.clear();
    std::error_code unknown;  // on an error the name stays as given
    const std::string absolute = std::filesystem::absolute(path, unknown).lexically_normal();
    base_ = index_.add_source(how_.keeps_index && !unknown ? absolute : path, size);
    if (place_.in_image()) {
        locations_[base_] = place_;
    } else if (std::vector<DiskExtent> shared = shared_extents(place_.path); !shared.empty()) {
        extents_[base_] = std::move(shared);
    }
    ++totals_.files;
    files_.push_back({path, 0, 0, ""});
    bool good = true;
    u64 done = 0;
    for (const DataRange& range : data_ranges(file, size)) {
        // Blocks are aligned to their size, wherever a hole ends.
        const u64 block = how_.splitter.block_bytes;
        const u64 begin = std::max(done, block == 0 ? range.begin : range.begin / block * block);
        const u64 end =
            block == 0 ? range.end : std::min(size, (range.end + block - 1) / block * block);
        if (begin >= end) continue;
        totals_.hole_bytes += begin - done;
        totals_.bytes += end - begin;
        files_.back().bytes += end - begin;
        good = read_data(file, begin, end) && good;
        done = end;
    }
    totals_.hole_bytes += size - done;
    u64 most = 0;
    for (const auto& [original, bytes] : likeness_) {
        if (bytes <= most) continue;
        most = bytes;
        files_.back().most_like = original;
    }
    return good;
}

bool DedupScan::read_data(OpenFile& file, u64 begin, u64 end) {
    u64 at = begin;
    const auto next = [&](std::span<std::byte> target) {
        const Result<u64> got = file.read(at, target.first(std::min(target.size(), end - at)));
        if (!got) return got;
        at += *got;
        limit_.wait_after(*got);
        return got;
    };
    Errc failure = Errc::ok;
    const Errc code =
        reader_.read(next, end - begin, [&](std::span<const dedup::FileChunk> chunks) {
            failure = look_up(chunks, begin);
            return failure == Errc::ok;
        });
    if (failure != Errc::ok) {
        complain(
            {"the index cannot spill to ", quote(how_.index.spill_folder), ": ", reason(failure)});
        return false;
    }
    return code == Errc::ok || refuse(place_, code);
}

Errc DedupScan::look_up(std::span<const dedup::FileChunk> chunks, u64 begin) {
    std::vector<dedup::Chunk> wanted;
    for (const dedup::FileChunk& chunk : chunks) {
        wanted.push_back({index_.key_of(chunk.digest), base_ + begin + chunk.offset,
                          static_cast<u32>(chunk.bytes.size())});
        if (chunk.is_zero) totals_.zero_bytes += chunk.bytes.size();
    }
    std::vector<dedup::Entry> found(wanted.size());
    WARREN_TRY(index_.add(wanted, found));
    for (size_t index = 0; index < chunks.size(); ++index) {
        const u64 length = chunks[index].bytes.size();
        if (found[index].place == wanted[index].place || found[index].length != length) continue;
        note_equal(chunks[index], begin + chunks[index].offset, found[index]);
    }
    return Errc::ok;
}

void DedupScan::note_equal(const dedup::FileChunk& chunk, u64 offset, const dedup::Entry& entry) {
    const dedup::Source* source = index_.source_of(entry.place);
    if (source == nullptr) return;
    const u64 length = chunk.bytes.size();
    const u64 original_offset = entry.place - source->base;
    if (dedup::needs_comparison(how_.splitter.algorithm) &&
        !has_bytes(*source, original_offset, chunk.bytes)) {
        return;
    }
    totals_.equal_bytes += length;
    if (is_shared(offset, *source, original_offset, length)) {
        totals_.shared_bytes += length;
        return;
    }
    totals_.savings_bytes += length;
    files_.back().savings_bytes += length;
    likeness_[source->path] += length;
    note_run(*source, offset, original_offset, length);
}

bool DedupScan::is_shared(u64 offset, const dedup::Source& source, u64 original_offset,
                          u64 length) const {
    const auto mine = extents_.find(base_);
    const auto its = extents_.find(source.base);
    if (mine == extents_.end() || its == extents_.end()) return false;
    return same_place(mine->second, offset, its->second, original_offset, length);
}

Location DedupScan::location_of(const dedup::Source& source) const {
    const auto known = locations_.find(source.base);
    return known == locations_.end() ? Location{source.path, "", source.path} : known->second;
}

/// Whether the source still has these bytes at `offset`; false if it cannot be read.
bool DedupScan::has_bytes(const dedup::Source& original, u64 offset,
                          std::span<const std::byte> bytes) {
    if (original_ == nullptr || original_base_ != original.base) {
        original_.reset();
        const Location place = location_of(original);
        const std::shared_ptr<Directory> root = session_.directory(place, Access::read);
        if (root == nullptr) return false;
        if (root->open_file(place.path, Follow::no, Access::read, original_) != Errc::ok)
            return false;
        original_base_ = original.base;
    }
    original_bytes_.resize(bytes.size());
    const Result<u64> got = read_fully(*original_, offset, original_bytes_);
    return got && *got == bytes.size() && std::ranges::equal(bytes, original_bytes_);
}

void DedupScan::note_run(const dedup::Source& source, u64 offset, u64 original_offset, u64 length) {
    if (!runs_.empty()) {
        Run& last = runs_.back();
        if (last.range.file.text == place_.text && last.range.offset + last.length == offset &&
            last.original.offset + last.length == original_offset &&
            last.original.file.text == source.path) {
            last.length += length;
            return;
        }
    }
    runs_.push_back({{place_, offset}, {location_of(source), original_offset}, length});
}

SharingResult DedupScan::share() {
    SharingResult result;
    RangeSharer sharer(session_, limit_);
    Progress progress("sharing");
    for (const Run& run : runs_) {
        u64 shared = 0;
        const Errc code = sharer.share(run.original, run.range, run.length, shared);
        result.shared_bytes += shared;
        progress.add(1, shared);
        if (code == Errc::ok) continue;
        ++result.failures;
        std::string why = reason(code);
        if (code == Errc::cross_device) why = "they are on different file systems";
        if (code == Errc::not_supported)
            why = "this file system cannot (Warren, btrfs and xfs with reflink can)";
        if (code == Errc::stale) why = "one of them has changed";
        if (code == daemon_out_of_reach)
            why = "the daemon of this mount cannot be reached (ended, or another user's?)";
        complain({quote(run.range.file.text), ": cannot share blocks with ",
                  quote(run.original.file.text), ": ", why});
        const bool is_hopeless = code == Errc::not_supported || code == daemon_out_of_reach ||
                                 code == fuse::other_protocol;
        if (is_hopeless) return result;
    }
    return result;
}

std::vector<const DedupFile*> DedupScan::files_by_savings() const {
    std::vector<const DedupFile*> files;
    for (const DedupFile& file : files_) {
        if (file.savings_bytes != 0) files.push_back(&file);
    }
    std::stable_sort(files.begin(), files.end(), [](const auto* left, const auto* right) {
        return left->savings_bytes > right->savings_bytes;
    });
    return files;
}

}  // namespace warren::cli
