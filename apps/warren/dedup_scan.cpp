// SPDX-License-Identifier: Apache-2.0
// Reads the files of a tree and looks every chunk up. What the kernel says of holes and of places
// on disk is asked once for a file.
#include "apps/warren/dedup_scan.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "apps/warren/disk_extents.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/progress.hpp"
#include "apps/warren/splitting.hpp"

namespace warren::cli {

namespace {

bool refuse(const std::string& path, Errc code) {
    complain({quote(path), ": ", reason(code)});
    return false;
}

}  // namespace

Errc DedupScan::open() {
    const std::vector<dedup::Source>& sources = index_.sources();
    for (size_t number = 0; number < sources.size(); ++number) {
        struct stat status;
        if (::lstat(sources[number].path.c_str(), &status) != 0) continue;
        known_.insert({{status.st_dev, status.st_ino}, number});
    }
    return reader_.open(how_.splitter);
}

bool DedupScan::add_tree(const std::string& path) {
    struct stat status;
    if (::lstat(path.c_str(), &status) != 0) return refuse(path, static_cast<Errc>(errno));
    if (S_ISREG(status.st_mode)) {
        Progress progress("reading " + quote(path));
        return add_file(path);
    }
    if (!S_ISDIR(status.st_mode)) return true;
    std::vector<std::string> names;
    std::error_code error;
    std::filesystem::directory_iterator directory(path, error);
    for (; !error && directory != std::filesystem::directory_iterator(); directory.increment(error))
        names.push_back(directory->path().filename().string());
    if (error) return refuse(path, static_cast<Errc>(error.value()));
    std::sort(names.begin(), names.end());
    bool good = true;
    for (const std::string& name : names)
        good = add_tree(path + (path.ends_with('/') ? "" : "/") + name) && good;
    return good;
}

bool DedupScan::add_file(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return refuse(path, static_cast<Errc>(errno));
    struct stat status;
    bool good = ::fstat(file, &status) == 0;
    if (!good) refuse(path, static_cast<Errc>(errno));
    const FileName name{status.st_dev, status.st_ino};
    if (good && !seen_.insert(name).second) {
        ++totals_.other_names;
    } else if (good) {
        const ChangeWatch watch(file);
        forget(name);
        good = read_file(path, file, static_cast<u64>(status.st_size));
        if (watch.complains(path)) good = false;
    }
    ::close(file);
    return good;
}

/// What earlier runs noted of the file gives way to what it is now.
void DedupScan::forget(const FileName& file) {
    const auto [first, last] = known_.equal_range(file);
    for (auto known = first; known != last; ++known)
        index_.forget_source(known->second);
}

bool DedupScan::read_file(const std::string& path, int descriptor, u64 size) {
    path_ = path;
    likeness_.clear();
    std::error_code unknown;  // then the name stays as it was given
    const std::string absolute = std::filesystem::absolute(path, unknown).lexically_normal();
    base_ = index_.add_source(how_.keeps_index && !unknown ? absolute : path, size);
    std::vector<DiskExtent> shared = shared_extents(descriptor);
    if (!shared.empty()) extents_[base_] = std::move(shared);
    ++totals_.files;
    files_.push_back({path, 0, 0, ""});
    bool good = true;
    u64 done = 0;
    for (const DataRange& range : data_ranges(descriptor, size)) {
        // Blocks begin at multiples of their size, wherever a hole ends.
        const u64 block = how_.splitter.block_bytes;
        const u64 begin = std::max(done, block == 0 ? range.begin : range.begin / block * block);
        const u64 end =
            block == 0 ? range.end : std::min(size, (range.end + block - 1) / block * block);
        if (begin >= end) continue;
        totals_.hole_bytes += begin - done;
        totals_.bytes += end - begin;
        files_.back().bytes += end - begin;
        good = read_data(descriptor, begin, end) && good;
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

bool DedupScan::read_data(int descriptor, u64 begin, u64 end) {
    if (::lseek(descriptor, static_cast<off_t>(begin), SEEK_SET) < 0)
        return refuse(path_, static_cast<Errc>(errno));
    Errc failure = Errc::ok;
    const Errc code = reader_.read(
        descriptor,
        [&](std::span<const dedup::FileChunk> chunks) {
            failure = look_up(chunks, begin);
            return failure == Errc::ok;
        },
        end - begin);
    if (failure != Errc::ok) {
        complain(
            {"the index cannot spill to ", quote(how_.index.spill_folder), ": ", reason(failure)});
        return false;
    }
    return code == Errc::ok || refuse(path_, code);
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
        !originals_.equal(*source, original_offset, chunk.bytes)) {
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

void DedupScan::note_run(const dedup::Source& source, u64 offset, u64 original_offset, u64 length) {
    const size_t file = files_.size() - 1;
    if (!runs_.empty()) {
        Run& last = runs_.back();
        if (last.file == file && last.offset + last.length == offset &&
            last.original_offset + last.length == original_offset && last.original == source.path) {
            last.length += length;
            return;
        }
    }
    runs_.push_back({file, offset, source.path, original_offset, length});
}

SharingResult DedupScan::share() {
    SharingResult result;
    Progress progress("sharing");
    for (const Run& run : runs_) {
        u64 shared = 0;
        const std::string& path = files_[run.file].path;
        const Errc code =
            share_range(run.original, run.original_offset, path, run.offset, run.length, shared);
        result.shared_bytes += shared;
        progress.add(1, shared);
        if (code == Errc::ok) continue;
        ++result.failures;
        if (code == Errc::not_supported || code == Errc::cross_device) {
            complain({quote(path), ": cannot share blocks with ", quote(run.original), ": ",
                      code == Errc::cross_device
                          ? "they are on different file systems"
                          : "this file system cannot (btrfs and xfs with reflink can)"});
            if (code == Errc::not_supported) return result;
        } else {
            complain({quote(path), ": cannot share blocks with ", quote(run.original), ": ",
                      code == Errc::stale ? "one of them has changed" : reason(code)});
        }
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
