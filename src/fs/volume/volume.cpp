// SPDX-License-Identifier: Apache-2.0
// Opening and closing a volume, and the calls about the volume as a whole.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "base/out_of_memory.hpp"
#include "base/quote.hpp"
#include "fs/commit/overlay_disk.hpp"
#include "fs/commit/superblock_io.hpp"
#include "fs/disk/choose_access.hpp"
#include "fs/disk/file_disk.hpp"
#include "fs/volume/inline_dedup.hpp"
#include "fs/volume/open_volume.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {
namespace {

/// The smallest meta buffer that holds all blocks that any operation pins at the same time.
constexpr u64 meta_buffer_min_bytes = mib;
// A quarter of it may be dirty.
static_assert(meta_buffer_min_bytes / format::block_size / 4 >= core::journal_room_min);

/// Reads the superblock of the volume on `disk` as of the last durable commit. If the volume is
/// opened read-only, replaces `disk` by an overlay that shows logged blocks at their home
/// locations.
Failure prepare(std::unique_ptr<Disk>& disk, const std::string& path, const OpenOptions& options,
                format::Superblock& superblock) {
    WARREN_TRY(read_superblock(*disk, path, superblock));
    if (must_stay_read_only(superblock) && !options.read_only) {
        return {Errc::read_only,
                path + ": has features that this program can only read; open it read-only"};
    }
    Result<u64> replayed = 0;
    if (options.read_only) {
        auto overlay = std::make_unique<OverlayDisk>(std::move(disk));
        replayed = overlay->show_logged(superblock);
        disk = std::move(overlay);
    } else {
        replayed = Journal::replay(*disk, superblock);
    }
    if (!replayed) {
        return {replayed.code(), path + ": cannot replay the journal: input/output error"};
    }
    return *replayed == 0 ? Failure{} : read_superblock(*disk, path, superblock);
}

/// Sets the requested access of `disk`; `note` describes the choice.
Failure set_access(FileDisk& disk, const std::string& path, const OpenOptions& options,
                   std::string& note) {
    note = name_of(options.disk);
    if (options.disk != DiskAccess::automatic) {
        std::string why;
        if (disk.use(options.disk, why) == Errc::ok) return {};
        return {Errc::not_supported, path + ": cannot be reached by disk=" + note + ": " + why +
                                         "; use disk=auto or disk=plain"};
    }
    format::Superblock superblock;
    WARREN_TRY(read_superblock(disk, path, superblock));
    // Measures writes in the journal's region, and writes its bytes back unchanged.
    const bool gathers = options.file_buffer_bytes != 0 || options.data == DataMode::journal;
    const WriteHabit habit = options.read_only ? WriteHabit::none
                             : gathers         ? WriteHabit::many
                                               : WriteHabit::single;
    note = choose_access(disk, habit, superblock.journal_offset,
                         superblock.journal_blocks * format::block_size)
               .text();
    return {};
}

std::unique_ptr<Volume> open_on_disk(std::unique_ptr<Disk> disk, const std::string& path,
                                     const OpenOptions& options, Failure& failure,
                                     const OpenChanges& changes) {
    format::Superblock superblock;
    failure = prepare(disk, path, options, superblock);
    if (failure.code != Errc::ok) return nullptr;
    OpenOptions effective = options;
    if (options.meta_buffer_bytes != 0) {
        effective.meta_buffer_bytes = std::max(options.meta_buffer_bytes, meta_buffer_min_bytes);
    }
    auto implementation =
        std::make_unique<VolumeImplementation>(std::move(disk), superblock, effective);
    Errc started = implementation->start(changes.hash_mask);
    if (started == Errc::no_device && options.engine == EngineChoice::cuda) {
        failure = {started, path + ": cannot open the volume with the CUDA engine: " +
                                implementation->engine_failure() + "; use the CPU engine"};
        return nullptr;
    }
    if (started == Errc::ok && changes.adjust) changes.adjust(*implementation);
    if (started == Errc::ok) started = implementation->start_dedup();
    if (started == Errc::not_supported && options.dedup == Dedup::on) {
        failure = {started, path +
                                ": the volume cannot share blocks; open it without dedup, or "
                                "make a new one (warren mkfs)"};
        return nullptr;
    }
    if (started != Errc::ok) {
        failure = {started, path + ": cannot open the volume: " +
                                (started == Errc::corrupt
                                     ? "its metadata are damaged; run warren fsck --repair"
                                     : std::strerror(static_cast<int>(started)))};
        return nullptr;
    }
    implementation->watch_disk();
    if (!options.read_only) implementation->start_reclaimer(path);
    if (changes.finishes_removals) implementation->finish_reclaiming();
    InlineDedup* const dedup = implementation->dedup();
    if (dedup != nullptr && options.dedup_fill_bytes != 0) dedup->start_filling();
    return std::make_unique<Volume>(std::move(implementation));
}

/// The result of `open()`. If memory runs out, null, with `failure` filled.
template <class Open>
std::unique_ptr<Volume> open_or_tell(const std::string& path, Failure& failure, const Open& open) {
    std::unique_ptr<Volume> volume;
    const Errc memory = or_no_memory([&] { volume = open(); });
    if (memory != Errc::ok) {
        failure = {memory,
                   quoted_if_needed(path) + ": cannot open the volume: there is not enough memory"};
    }
    return volume;
}

}  // namespace

std::unique_ptr<Volume> open_volume(std::unique_ptr<Disk> disk, const std::string& path,
                                    const OpenOptions& options, Failure& failure,
                                    const OpenChanges& changes) {
    return open_or_tell(path, failure, [&] {
        return open_on_disk(std::move(disk), path, options, failure, changes);
    });
}

std::unique_ptr<Volume> Volume::open(const std::string& path, const OpenOptions& options,
                                     Failure& failure) {
    return open_or_tell(path, failure, [&]() -> std::unique_ptr<Volume> {
        std::unique_ptr<FileDisk> disk = FileDisk::open(
            path, options.read_only ? OpenMode::read_only : OpenMode::read_write, failure);
        if (disk == nullptr) return nullptr;
        std::string note;
        const std::string shown = quoted_if_needed(path);
        failure = set_access(*disk, shown, options, note);
        if (failure.code != Errc::ok) return nullptr;
        auto volume = open_volume(std::move(disk), shown, options, failure);
        if (volume != nullptr) volume->implementation_->set_disk_note(note);
        return volume;
    });
}

Volume::Volume(std::unique_ptr<VolumeImplementation> implementation)
    : implementation_(std::move(implementation)) {}

Volume::~Volume() {
    static_cast<void>(implementation_->close());
}

Errc Volume::close() {
    return implementation_->close();
}

Handle Volume::root() const {
    VolumeImplementation& volume = *implementation_;
    const Result<Handle> root = volume.handle_of(volume.store().root_inode);
    return root ? *root : Handle{};
}

std::string Volume::label() const {
    const u8* label = implementation_->superblock().label;
    const auto* text = reinterpret_cast<const char*>(label);
    return std::string(text, strnlen(text, sizeof implementation_->superblock().label));
}

std::string Volume::uuid() const {
    const u8* b = implementation_->superblock().uuid;
    std::string text;
    for (int i = 0; i < 16; ++i) {
        std::array<char, 3> digits;
        std::snprintf(digits.data(), digits.size(), "%02x", b[i]);
        if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        text += digits.data();
    }
    return text;
}

std::string_view Volume::engine() const {
    return implementation_->engine().name();
}

std::string Volume::engine_note() const {
    return implementation_->engine_note();
}

std::vector<std::string> Volume::predictions() const {
    const ReplicaQueries* const replica = implementation_->replica();
    return replica == nullptr ? std::vector<std::string>() : replica->predictions();
}

Errc Volume::release_device_memory() {
    ReplicaQueries* const replica = implementation_->replica();
    return replica == nullptr ? Errc::no_device : replica->release();
}

std::string DiskRefusal::text() const {
    if (has_shrunk()) {
        return "it has become smaller: " + std::to_string(found_size) + " bytes of " +
               std::to_string(expected_size) + " are left; what lay behind them is lost";
    }
    std::string what = "a flush";
    if (bytes > 0) {
        what = "a write of " + std::to_string(bytes) + " bytes ";
        if (places > 1) what += "in " + std::to_string(places) + " places, the first ";
        what += "at offset " + std::to_string(offset);
    }
    return "the disk refused " + what + ": " + std::strerror(static_cast<int>(code));
}

std::string DiskRefusal::remedy() const {
    if (!has_shrunk()) return "mend its disk, then run warren fsck";
    return "bring back a copy of it, or make it " + std::to_string(expected_size) +
           " bytes long again and save what is left with warren fsck --repair";
}

std::string Volume::disk_note() const {
    return implementation_->disk_note();
}

Errc Volume::sync() {
    return implementation_->commit();
}

bool Volume::has_unsaved() {
    return implementation_->has_unsaved();
}

Errc Volume::sync_file(Handle handle) {
    const Result<Attributes> exists = attributes(handle);
    return exists ? implementation_->commit() : exists.code();
}

}  // namespace warren
