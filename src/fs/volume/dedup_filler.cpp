// SPDX-License-Identifier: Apache-2.0
// The thread reads from the disk itself, so that it evicts nothing from the file buffer. It skips
// files created after the volume was opened, because their writers have added them to the index. If
// the clock was set back, it takes older files for such files, and they are not shared.
//
// If the volume has more anchors than the index has entries, every n-th anchor of each file is
// added, starting with the first.
#include "fs/volume/dedup_filler.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/out_of_memory.hpp"
#include "base/wait_for_stop.hpp"
#include "fs/volume/dedup_anchors.hpp"

namespace warren {
namespace {

using std::chrono::milliseconds;

using format::block_size;
constexpr milliseconds pause_for_writers{5};
constexpr int niceness = 10;

}  // namespace

DedupFiller::DedupFiller(VolumeImplementation& volume, const DedupHash& hash, DedupIndex& index,
                         const std::atomic<u64>& lookups, u64 bytes_per_second)
    : volume_(volume),
      hash_(hash),
      index_(index),
      lookups_(lookups),
      limit_(bytes_per_second),
      opened_(now_nanoseconds()) {}

void DedupFiller::start() {
    const u64 used = relaxed_load(volume_.store().state->blocks_used);
    step_ = std::max<u64>(1, (anchors_among(used) + index_.entries() - 1) / index_.entries());
    is_running_ = true;
    const Errc started = or_no_memory([this] {
        piece_ = std::make_unique_for_overwrite<format::Block[]>(piece_blocks);
        thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    });
    if (started != Errc::ok) is_running_ = false;
}

void DedupFiller::stop() {
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
}

void DedupFiller::run(const std::stop_token& stop) {
    stop_ = stop;
    // Affects only this thread. A failure is harmless.
    static_cast<void>(::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), niceness));
    static_cast<void>(or_no_memory([this] {
        const core::Store& store = volume_.store();
        // Inode frames beyond this end are newer, and so are their files.
        const u64 end = relaxed_load(store.state->metadata_frames_end);
        for (u64 frame = 0; frame < end; ++frame) {
            if (core::kind_of(store, frame) != format::FrameKind::inodes) continue;
            if (!add_frame(frame)) break;
        }
    }));
    is_running_ = false;
}

/// Adds the files of an inode frame. False: the thread must stop.
bool DedupFiller::add_frame(u64 frame) {
    for (u64 slot = format::inodes_per_block; slot < format::inodes_per_frame; ++slot) {
        if (slot % format::inodes_per_block == 0 && !pause(block_size)) return false;
        if (!add_file(frame * format::inodes_per_frame + slot)) return false;
    }
    return true;
}

/// Adds the blocks of `inode` if it is a file. Skips what cannot be read. False: the thread must
/// stop.
bool DedupFiller::add_file(u64 inode) {
    const Result<Attributes> found = volume_.attributes_of(inode);
    const bool is_file = found && format::is_regular(found->mode);
    // At opened_ itself a file may have been created before: the clock is coarse.
    if (!is_file || found->born > opened_) return true;
    anchors_seen_ = 0;
    for (u64 at = 0; at < found->size;) {
        if (stop_.stop_requested()) return false;
        const Result<ops::Mapping> run = volume_.map_block(found->handle, at / block_size);
        if (!run || run->kind == ops::MappingKind::bytes || at >= run->size) return true;
        const u64 blocks = std::min(run->blocks, ops::blocks_of(run->size - at));
        if (run->kind != ops::MappingKind::data) {
            at += blocks * block_size;
            continue;
        }
        const u64 bytes = std::min(std::min(blocks, piece_blocks) * block_size, run->size - at);
        add_piece(inode, at / block_size, run->place, bytes);
        if (!pause(bytes)) return false;
        at += bytes;
    }
    return true;
}

void DedupFiller::add_piece(u64 inode, u64 first_block, u64 place, u64 bytes) {
    const auto piece = std::as_writable_bytes(std::span(piece_.get(), piece_blocks)).first(bytes);
    if (volume_.disk().read(place, piece) != Errc::ok) return;
    bytes_read_.fetch_add(bytes, std::memory_order_relaxed);
    std::array<u32, anchored_blocks_max> anchors;
    const u64 found = find_anchors(piece, anchors);
    std::array<hash::Bytes, piece_blocks> elements;
    u64 count = 0;
    for (u64 i = 0; i < found; ++i) {
        if (anchors_seen_++ % step_ != 0) continue;
        const u64 at = anchors[i] * block_size;
        elements[count] = piece.subspan(at, std::min(block_size, bytes - at));
        anchors[count++] = anchors[i];
    }
    std::array<DedupDigest, piece_blocks> digests;
    hash_.digest(std::span(elements).first(count), digests);
    for (u64 i = 0; i < count; ++i)
        index_.put_if_free(digests[i], {inode, first_block + anchors[i]});
}

/// Waits as long as the rate requires, and longer if there were writes. False: the thread must
/// stop.
bool DedupFiller::pause(u64 bytes) {
    milliseconds time = limit_.pause_after(bytes);
    const u64 lookups = lookups_.load(std::memory_order_relaxed);
    if (std::exchange(lookups_seen_, lookups) != lookups) time = std::max(time, pause_for_writers);
    return time.count() == 0 ? !stop_.stop_requested() : !wait_for_stop(stop_, time);
}

}  // namespace warren
