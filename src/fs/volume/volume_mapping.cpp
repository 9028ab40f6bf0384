// SPDX-License-Identifier: Apache-2.0
// Mapping a file: all cores fill memory of the engine, a slice at a time under the file's data
// lock, so that other threads can read and write the file meanwhile. They write it back under one
// hold of the lock, which then is exclusive, for some slices.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/out_of_memory.hpp"
#include "base/workers.hpp"
#include "fs/volume/inline_dedup.hpp"
#include "fs/volume/mapped_files.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {
namespace {

constexpr u64 slice_bytes = 4 * mib;  // copied under one hold of the data lock

/// As many threads as processors, for at most so many slices.
u32 workers_for(u64 slices) {
    return static_cast<u32>(std::clamp<u64>(slices, 1, usable_processors()));
}

/// Calls move(begin, end) for the parts of [begin, end) that lie in one slice each, on the workers.
/// Returns the first error, after which no further part begins.
template <class Move>
Errc in_slices(Workers& workers, u64 begin, u64 end, const Move& move) {
    if (begin >= end) return Errc::ok;
    const u64 first_slice = begin / slice_bytes;
    std::atomic<Errc> failed{Errc::ok};
    workers.run_ranges((end - 1) / slice_bytes + 1 - first_slice, 1, [&](u64 first, u64, u32) {
        if (failed.load(std::memory_order_relaxed) != Errc::ok) return;
        const u64 slice = (first_slice + first) * slice_bytes;
        const Errc code = or_no_memory(
            [&] { return move(std::max(begin, slice), std::min(end, slice + slice_bytes)); });
        if (code != Errc::ok) failed.store(code, std::memory_order_relaxed);
    });
    return failed.load(std::memory_order_relaxed);
}

/// The part of a file of `size` bytes that `options` selects.
Errc find_range(const MapOptions& options, u64 size, FileView& view) {
    view.offset = options.offset;
    view.bytes = options.length;
    if (options.length == 0 && options.offset < size) view.bytes = size - options.offset;
    if (view.bytes == 0) return Errc::invalid;
    return format::fits_in_file(options.offset, view.bytes) ? Errc::ok : Errc::file_too_big;
}

/// Fills the first `length` bytes of a mapping. Requires: the mapping is in mapped_files().
Errc fill_mapping(VolumeImplementation& volume, FileMapping& mapping, u64 length) {
    Workers workers(workers_for((length + slice_bytes - 1) / slice_bytes));
    return in_slices(workers, 0, length, [&](u64 begin, u64 end) {
        const std::shared_lock lock(volume.data_lock(mapping.file.inode));
        return volume.load_mapping(mapping, begin, end - begin);
    });
}

/// Writes all of `bytes`, which come from `mapping`. Requires: the exclusive data lock.
Errc write_all(VolumeImplementation& volume, const FileMapping& mapping, u64 offset,
               std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        DedupStep step;
        DedupStep* const found = volume.look_up(mapping.file, offset, bytes, Awaited::no, step);
        WARREN_LET(put, volume.write_alone(mapping.file, offset, bytes, now_nanoseconds(), &mapping,
                                           found));
        offset += *put;
        bytes = bytes.subspan(*put);
    }
    return Errc::ok;
}

}  // namespace

/// Fills [at, at + length) of a mapping from the file. Requires: the data lock.
Errc VolumeImplementation::load_mapping(FileMapping& mapping, u64 at, u64 length) {
    return mapping.memory->put(at, length, [&](u64 done, std::span<std::byte> piece) {
        WARREN_LET(got, read_contents(mapping.file, mapping.view.offset + at + done, piece));
        std::memset(piece.data() + *got, 0, piece.size() - *got);
        return Errc::ok;
    });
}

/// Allocates memory for a part of an open file, and fills it.
Errc VolumeImplementation::map_contents(const MapOptions& options, FileMapping& mapping) {
    u64 held_bytes = 0;
    {
        const std::unique_lock lock(data_lock(mapping.file.inode));
        WARREN_LET(file, attributes(mapping.file));
        if (format::is_directory(file->mode)) return Errc::is_directory;
        if (!format::is_regular(file->mode)) return Errc::invalid;
        WARREN_TRY(find_range(options, file->size, mapping.view));
        WARREN_TRY(engine_->make_file_memory(mapping.view.bytes, mapping.memory));
        mapping.view.data = mapping.memory->data();
        if (file->size > mapping.view.offset) {
            held_bytes = std::min(file->size, mapping.end()) - mapping.view.offset;
        }
        mapped_files_.add(mapping);
    }
    const Errc filled = or_no_memory([&] { return fill_mapping(*this, mapping, held_bytes); });
    if (filled != Errc::ok) forget_mapping(mapping);
    return filled;
}

void VolumeImplementation::forget_mapping(FileMapping& mapping) {
    const std::unique_lock lock(data_lock(mapping.file.inode));
    mapped_files_.remove(mapping);
}

/// Writes [offset, offset + length) of the file from what its mapping has there. The slices of a
/// hold of the data lock are of different blocks, so that several threads can write them.
Errc VolumeImplementation::write_mapping(FileMapping& mapping, u64 offset, u64 length) {
    const u64 stop = offset + length;
    return or_no_memory([&]() -> Errc {
        // Sharing blocks is for one thread alone.
        Workers workers(dedup_ == nullptr ? workers_for(length / slice_bytes + 2) : 1);
        const u64 turn_bytes = workers.threads() * slice_bytes;
        for (u64 begin = offset, end = 0; begin < stop; begin = end) {
            end = std::min(stop, begin / slice_bytes * slice_bytes + turn_bytes);
            const std::unique_lock lock(data_lock(mapping.file.inode));
            WARREN_TRY(in_slices(workers, begin, end, [&](u64 from, u64 to) {
                return mapping.memory->get(from - mapping.view.offset, to - from,
                                           [&](u64 behind, std::span<const std::byte> piece) {
                                               return write_all(*this, mapping, from + behind,
                                                                piece);
                                           });
            }));
        }
        return Errc::ok;
    });
}

Errc Volume::map_file(Handle file, const MapOptions& options, std::unique_ptr<MappedFile>& mapped) {
    VolumeImplementation& volume = *implementation_;
    mapped.reset();
    return or_no_memory([&]() -> Errc {
        auto mapping = std::make_unique<FileMapping>();
        mapping->file = file;
        mapping->home = volume.mapped_files().home();
        WARREN_TRY(open_file(file));
        Errc code = or_no_memory([&] { return volume.map_contents(options, *mapping); });
        if (code == Errc::ok) {
            code = or_no_memory([&] { mapped = std::make_unique<MappedFile>(std::move(mapping)); });
            if (code != Errc::ok) volume.forget_mapping(*mapping);
        }
        if (code != Errc::ok) static_cast<void>(release(file));
        return code;
    });
}

MappedFile::MappedFile(std::unique_ptr<FileMapping> mapping) : mapping_(std::move(mapping)) {}

MappedFile::~MappedFile() {
    static_cast<void>(mapping_->with_volume([&](VolumeImplementation& volume) {
        volume.forget_mapping(*mapping_);
        return volume.release(mapping_->file);
    }));
}

const FileView& MappedFile::view() const {
    return mapping_->view;
}

bool MappedFile::is_on_device() const {
    return mapping_->memory->is_on_device();
}

Errc MappedFile::write_back(u64 offset, u64 length) {
    if (!mapping_->covers(offset, length)) return Errc::invalid;
    return mapping_->with_volume([&](VolumeImplementation& volume) {
        return volume.write_mapping(*mapping_, offset, length);
    });
}

Errc MappedFile::write_back() {
    return mapping_->with_volume([&](VolumeImplementation& volume) -> Errc {
        WARREN_LET(file, volume.attributes(mapping_->file));
        const FileView& view = mapping_->view;
        if (file->size <= view.offset) return Errc::ok;
        const u64 length = std::min(file->size - view.offset, view.bytes);
        return volume.write_mapping(*mapping_, view.offset, length);
    });
}

Errc MappedFile::copy_out(u64 offset, std::span<std::byte> target) const {
    if (!mapping_->covers(offset, target.size())) return Errc::invalid;
    return mapping_->memory->get(offset - mapping_->view.offset, target.size(),
                                 [&](u64 at, std::span<const std::byte> piece) {
                                     std::memcpy(target.data() + at, piece.data(), piece.size());
                                     return Errc::ok;
                                 });
}

Errc MappedFile::copy_in(u64 offset, std::span<const std::byte> source) {
    if (!mapping_->covers(offset, source.size())) return Errc::invalid;
    return mapping_->memory->put(offset - mapping_->view.offset, source.size(),
                                 [&](u64 at, std::span<std::byte> piece) {
                                     std::memcpy(piece.data(), source.data() + at, piece.size());
                                     return Errc::ok;
                                 });
}

}  // namespace warren
