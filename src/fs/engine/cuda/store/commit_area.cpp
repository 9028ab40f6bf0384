// SPDX-License-Identifier: Apache-2.0
// Memory is allocated before commands are stopped, because the driver takes long for it. It has
// room for a third more blocks than are dirty at that time, and then some, for those that become
// dirty meanwhile. If the device has no memory left for copies, they are written to pinned host
// memory: then commands wait longer, but nothing is lost.
#include "fs/engine/cuda/store/commit_area.hpp"

#include <cstddef>
#include <cstring>
#include <mutex>

#include "base/stopwatch.hpp"
#include "fs/engine/cuda/store/commit_kernels.hpp"

namespace warren::cuda_engine {
namespace {

constexpr u64 blocks_min = 4096;  // 16 MiB

}  // namespace

Errc CommitArea::open() {
    WARREN_TRY(load_commit_kernels());
    WARREN_TRY(staging_.open(true));
    WARREN_TRY(device_header_.allocate(1));
    WARREN_TRY(header_.allocate(1));
    WARREN_TRY(state_.allocate(1));
    WARREN_TRY(frames_.reserve(publish_max));
    WARREN_TRY(empty_.reserve(publish_max));
    return make_room(blocks_min);
}

Errc CommitArea::make_room(u64 blocks) {
    if (blocks <= capacity_) return Errc::ok;
    capacity_ = 0;
    WARREN_TRY(places_.reserve(blocks));
    host_blocks_.clear();
    Errc made = device_blocks_.reserve(blocks);
    blocks_ = device_blocks_.data();
    if (made == Errc::no_memory) {
        made = host_blocks_.allocate(blocks);
        blocks_ = host_blocks_.data();
    }
    WARREN_TRY(made);
    capacity_ = blocks;
    return Errc::ok;
}

/// Makes room for the blocks that are dirty, and more. Commands may run meanwhile.
Errc CommitArea::prepare(const core::Store& store) {
    WARREN_TRY(stream_.copy(state_.data(), store.state, sizeof(core::StoreState)));
    WARREN_TRY(stream_.wait());
    const u64 dirty = state_.data()->dirty_blocks + state_.data()->reserved_credits;
    // The journal's room bounds the number of dirty blocks, so cut() finds enough room in the end.
    return make_room(dirty + dirty / 3 + blocks_min);
}

/// Copies the dirty blocks. Errc::need_space if there are more than prepare() made room for; then
/// nothing has changed. Requires: no operation applies.
Errc CommitArea::take(const core::Store& store) {
    const ops::CutArea area{blocks_, places_.data(), capacity_, device_header_.data()};
    WARREN_TRY(stream_.fill(device_header_.data(), 0, sizeof(ops::CutHeader)));
    WARREN_TRY(launch_cut(store, area, stream_.get()));
    WARREN_TRY(stream_.copy(header_.data(), device_header_.data(), sizeof(ops::CutHeader)));
    WARREN_TRY(stream_.wait());
    return header_.data()->count <= area.capacity ? Errc::ok : Errc::need_space;
}

/// The part of a commit snapshot during which commands wait.
Errc CommitArea::take_alone(const core::Store& store, const Givers& givers,
                            const std::function<void()>& at_rest, CommitSnapshot& cut) {
    const Stopwatch held;
    const std::lock_guard alone(givers.commands);
    const Errc code = givers.server.while_at_rest(store, [&] {
        WARREN_TRY(take(store));
        at_rest();
        return Errc::ok;
    });
    cut.held_ns = held.nanoseconds();
    return code;
}

Errc CommitArea::cut(const core::Store& store, const Givers& givers,
                     const std::function<void()>& at_rest, CommitSnapshot& cut) {
    Errc code = Errc::need_space;
    while (code == Errc::need_space) {
        WARREN_TRY(prepare(store));
        code = take_alone(store, givers, at_rest, cut);
    }
    WARREN_TRY(code);
    cut.counters = header_.data()->counters;
    cut.count = header_.data()->count;
    if (cut.count > cut.places.size()) return Errc::no_space;
    const Errc copied = stream_.copy(cut.places.data(), places_.data(), cut.count * sizeof(u64));
    return copied == Errc::ok && stream_.wait() == Errc::ok ? Errc::ok : Errc::io;
}

Errc CommitArea::fetch(format::Block* blocks) {
    const u64 bytes = header_.data()->count * sizeof(format::Block);
    return staging_.get(reinterpret_cast<const std::byte*>(blocks_), bytes,
                        [&](u64 at, std::span<const std::byte> piece) {
                            std::memcpy(blocks + at / sizeof *blocks, piece.data(), piece.size());
                            return Errc::ok;
                        });
}

Errc CommitArea::release(const core::Store& store) const {
    WARREN_TRY(launch_release(store, places_.data(), header_.data()->count, stream_.get()));
    return stream_.wait();
}

Errc CommitArea::publish(const core::Store& store, std::span<ops::CommittedFrame> frames,
                         std::span<const u64> empty_inode_frames) {
    WARREN_TRY(stream_.copy(frames_.data(), frames.data(), frames.size_bytes()));
    WARREN_TRY(
        stream_.copy(empty_.data(), empty_inode_frames.data(), empty_inode_frames.size_bytes()));
    WARREN_TRY(launch_publish(store, frames_.data(), frames.size(), empty_.data(),
                              empty_inode_frames.size(), stream_.get()));
    WARREN_TRY(stream_.copy(frames.data(), frames_.data(), frames.size_bytes()));
    return stream_.wait();
}

Errc CommitArea::allow_generations(const core::Store& store, u64 limit) {
    WARREN_TRY(stream_.copy(&store.state->generation_limit, &limit, sizeof limit));
    return stream_.wait();
}

Errc CommitArea::forbid(const core::Store& store) const {
    constexpr u32 yes = 1;
    WARREN_TRY(stream_.copy(&store.state->read_only, &yes, sizeof yes));
    return stream_.wait();
}

}  // namespace warren::cuda_engine
