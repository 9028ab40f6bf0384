// SPDX-License-Identifier: Apache-2.0
// The input of a batch is contiguous and has the same layout in pinned and in device memory, so a
// part of it can be copied while others are being packed. The same holds for the answers.
#include "fs/engine/cuda/launch/item_batch.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/array_layout.hpp"
#include "fs/bulk/batch/batch_frames.hpp"
#include "fs/bulk/batch/batch_run.hpp"
#include "fs/engine/cuda/launch/grid_executor.cuh"

namespace warren::cuda_engine {
namespace {

/// Lays out the input of a batch at `base`; returns its size. The groups come last, so that only
/// those that the caller has are copied.
u64 lay_out_input(const ops::BatchShape& shape, std::byte* base, ops::BatchMemory& in,
                  u32*& groups) {
    ArrayLayout take(base);
    take(in.operands, shape.operands());
    if (shape.has_modes) take(in.modes, shape.items);
    if (shape.kind == ops::BatchKind::clone) take(in.sources, shape.items);
    take(in.names, shape.name_words);
    take(groups, core::groups_max);
    return take.bytes();
}

u64 lay_out_answers(const ops::BatchShape& shape, std::byte* base, ops::BatchMemory& out) {
    ArrayLayout take(base);
    take(out.codes, shape.items);
    if (shape.makes_inodes()) take(out.made, shape.items);
    if (shape.kind == ops::BatchKind::look_up) take(out.attributes, shape.items);
    return take.bytes();
}

u64 input_bytes(const ops::BatchShape& shape) {
    ops::BatchMemory none;
    u32* groups = nullptr;
    return lay_out_input(shape, nullptr, none, groups);
}

u64 answer_bytes(const ops::BatchShape& shape) {
    ops::BatchMemory none;
    return lay_out_answers(shape, nullptr, none);
}

u64 array_bytes(const ops::BatchShape& shape) {
    ops::Batch batch;
    batch.shape = shape;
    ArrayLayout count;
    ops::batch::lay_out(batch, ops::batch::records_for(shape), count);
    return count.bytes();
}

/// How many bytes a batch needs.
struct Needs {
    u64 in;
    u64 out;
    u64 arrays;
};

/// The memory for batches of any kind with `items` items and `name_words` words of names. The input
/// is that of moves, which have most operands; the answers are those of the kind `answers`.
Needs needs_of(u64 items, u64 name_words, ops::BatchKind answers) {
    const ops::BatchShape moves{ops::BatchKind::move, items, name_words, false};
    const ops::BatchShape answered{answers, items, name_words, false};
    return {input_bytes(moves), answer_bytes(answered), array_bytes(moves)};
}

}  // namespace

u64 ItemBatch::device_bytes(const ops::BatchShape& shape) {
    constexpr u64 for_sorting = 16 * mib;
    const u64 bytes = input_bytes(shape) + answer_bytes(shape) + array_bytes(shape);
    // Buffers that grow do so by half.
    return bytes + bytes / 2 + for_sorting;
}

void ItemBatch::prepare_small() {
    // Two names of 64 bytes for each item, because growing later would free memory, and freeing
    // waits for all kernels.
    const Needs needs = needs_of(small_items_max, 16 * small_items_max, ops::BatchKind::look_up);
    static_cast<void>(make_room(needs.in, needs.out));
    static_cast<void>(room_.arrays.reserve(needs.arrays));
    static_cast<void>(needed_.reserve(ops::needed_places_max));
    static_cast<void>(small_.open());
}

void ItemBatch::prepare(u64 items, const std::stop_token& must_stop) {
    if (items <= small_items_max) return;
    const std::lock_guard lock(prepared_mutex_);
    static_cast<void>(prepare_room(items, must_stop));
}

/// Allocates for names of 16 bytes, or two of 8. Of the batches that change something, creations
/// have the longest answers. Large numbers of lookups use streams instead (lookup_slots.hpp).
Errc ItemBatch::prepare_room(u64 items, const std::stop_token& must_stop) {
    const Needs needs = needs_of(items, 2 * items, ops::BatchKind::create);
    const auto goes_on = [&] { return !must_stop.stop_requested(); };
    if (goes_on()) WARREN_TRY(prepared_.host_in.allocate(needs.in));
    if (goes_on()) WARREN_TRY(prepared_.in.allocate(needs.in));
    if (goes_on()) WARREN_TRY(prepared_.host_out.allocate(needs.out));
    if (goes_on()) WARREN_TRY(prepared_.out.allocate(needs.out));
    if (goes_on()) WARREN_TRY(prepared_.arrays.allocate(needs.arrays));
    return Errc::ok;
}

/// Replaces smaller buffers by those that prepare() has allocated. The smaller ones are kept,
/// because freeing them would wait for all kernels.
void ItemBatch::take_prepared() {
    const std::lock_guard lock(prepared_mutex_);
    const auto take = [](auto& buffer, auto& prepared) {
        if (prepared.bytes() > buffer.bytes()) std::swap(buffer, prepared);
    };
    take(room_.host_in, prepared_.host_in);
    take(room_.host_out, prepared_.host_out);
    take(room_.in, prepared_.in);
    take(room_.out, prepared_.out);
    take(room_.arrays, prepared_.arrays);
}

Errc ItemBatch::make_room(u64 in_bytes, u64 out_bytes) {
    WARREN_TRY(stream_.open());
    WARREN_TRY(state_.reserve(2));
    WARREN_TRY(room_.host_in.reserve(in_bytes));
    WARREN_TRY(room_.in.reserve(in_bytes));
    WARREN_TRY(room_.host_out.reserve(out_bytes));
    return room_.out.reserve(out_bytes);
}

Errc ItemBatch::open(const ops::BatchShape& shape, ops::BatchMemory& memory) {
    // Parts of an earlier batch that was closed before it ran may still be copied to this memory.
    const bool has_parts = items_sent_.exchange(0, std::memory_order_relaxed) != 0;
    if (has_parts && !is_copied_) WARREN_TRY(stream_.wait());
    is_small_ = shape.items <= small_items_max && shape.kind != ops::BatchKind::clone;
    if (!is_small_) take_prepared();
    WARREN_TRY(make_room(input_bytes(shape), answer_bytes(shape)));
    batch_ = {};
    batch_.shape = shape;
    WARREN_TRY(lay_out(is_small_ ? small_records_max : ops::batch::records_for(shape)));

    memory_ = {};
    lay_out_input(shape, room_.host_in.data(), memory_, host_groups_);
    lay_out_answers(shape, room_.host_out.data(), memory_);
    in_bytes_ = static_cast<u64>(reinterpret_cast<std::byte*>(host_groups_) - room_.host_in.data());
    lay_out_input(shape, room_.in.data(), batch_, groups_);
    lay_out_answers(shape, room_.out.data(), batch_);
    is_copied_ = false;
    memory = memory_;
    return Errc::ok;
}

/// Lays out the arrays of the phases.
Errc ItemBatch::lay_out(u64 records_max) {
    ArrayLayout count;
    ops::batch::lay_out(batch_, records_max, count);
    WARREN_TRY(room_.arrays.reserve(count.bytes()));
    ops::batch::lay_out(batch_, records_max, ArrayLayout(room_.arrays.data()));
    return Errc::ok;
}

void ItemBatch::set_header(const ops::BatchHeader& header) {
    const u32 groups = header.caller.group_count;
    batch_.header = header;
    batch_.header.caller.group_count = groups < core::groups_max ? groups : core::groups_max;
    batch_.header.caller.groups = groups_;
    if (groups > 0) {
        std::memcpy(host_groups_, header.caller.groups,
                    batch_.header.caller.group_count * sizeof(u32));
    }
}

void ItemBatch::send(const ops::BatchPart& part) {
    if (is_small_) return;
    const auto copy = [&](const auto* from, u64 begin, u64 end) {
        if (from == nullptr) return Errc::ok;
        const auto* const bytes = reinterpret_cast<const std::byte*>(from + begin);
        return stream_.copy(room_.in.data() + (bytes - room_.host_in.data()), bytes,
                            (end - begin) * sizeof *from);
    };
    const u64 operands = batch_.shape.operands_per_item();
    const bool is_sent =
        copy(memory_.operands, part.begin * operands, part.end * operands) == Errc::ok &&
        copy(memory_.modes, part.begin, part.end) == Errc::ok &&
        copy(memory_.sources, part.begin, part.end) == Errc::ok &&
        copy(memory_.names, part.words_begin, part.words_end) == Errc::ok;
    // Relaxed: the threads that call send() are waited for before run() reads the count.
    if (is_sent) items_sent_.fetch_add(part.end - part.begin, std::memory_order_relaxed);
}

/// Copies the input to the device, once; only the groups if send() has copied all items.
Errc ItemBatch::copy_in() {
    if (is_copied_) return Errc::ok;
    is_copied_ = true;
    const bool is_sent = items_sent_.load(std::memory_order_relaxed) == batch_.shape.items;
    const u64 from = is_sent ? in_bytes_ : 0;
    const u64 bytes = in_bytes_ + batch_.header.caller.group_count * sizeof(u32);
    WARREN_TRY(stream_.copy(room_.in.data() + from, room_.host_in.data() + from, bytes - from));
    return stream_.wait();
}

Errc ItemBatch::copy_out(u64 begin, u64 end) {
    if (begin >= end) return Errc::ok;
    const auto copy = [&]<class T>(T* to, const T* from) {
        if (to == nullptr) return Errc::ok;
        return stream_.copy(to + begin, from + begin, (end - begin) * sizeof(T));
    };
    WARREN_TRY(copy(memory_.codes, batch_.codes));
    WARREN_TRY(copy(memory_.made, batch_.made));
    WARREN_TRY(copy(memory_.attributes, batch_.attributes));
    return stream_.wait();
}

/// Resets the batch's state for a run.
Errc ItemBatch::begin_run(const ops::BatchWindow& window) {
    ops::BatchState& state = state_.data()[0];
    state = {};
    state.limit = window.end;
    return stream_.copy(batch_.state, &state, sizeof state);
}

/// Runs the batch on one block. Errc::overflow in the state means that it is too large for that.
Errc ItemBatch::run_small(const core::Store& store, const ops::BatchWindow& window,
                          ops::BatchState& state) {
    batch_.begin = window.begin;
    batch_.end = window.end;
    batch_.is_small = true;
    batch_.may_edit =
        batch_.shape.kind == ops::BatchKind::move || batch_.shape.kind == ops::BatchKind::remove;
    const u64 bytes = in_bytes_ + batch_.header.caller.group_count * sizeof(u32);
    const SmallItems items{reinterpret_cast<const uint4*>(room_.host_in.data()),
                           reinterpret_cast<uint4*>(room_.in.data()),
                           (bytes + sizeof(uint4) - 1) / sizeof(uint4)};
    WARREN_TRY(small_.run(
        {store, batch_, memory_.codes, memory_.made, memory_.attributes, state_.data() + 1},
        items));
    state = state_.data()[1];
    return Errc::ok;
}

Errc ItemBatch::run_large(const core::Store& store, const AddFrames& add_frames,
                          const ops::BatchWindow& window, ops::BatchState& state) {
    small_.make_way();
    WARREN_TRY(copy_in());
    batch_.begin = window.begin;
    batch_.end = window.end;
    batch_.is_small = false;
    batch_.may_edit = false;
    WARREN_TRY(add_inodes_ahead(store, add_frames));
    GridExecutor executor(stream_, sort_memory_, state_.data() + 1);
    WARREN_TRY(begin_run(window));
    state = ops::batch::run(executor, batch_, store);
    WARREN_TRY(executor.code());
    WARREN_TRY(stream_.wait());
    return state.status == Errc::ok ? copy_out(window.begin, state.limit) : Errc::ok;
}

/// Adds inode frames for `inodes` inodes.
Errc ItemBatch::add_inode_frames(const core::Store& store, const AddFrames& add_frames, u64 inodes,
                                 Errc& status) {
    constexpr u64 in_frame = format::inode_slots_per_frame;
    const u64 wanted = (inodes + in_frame - 1) / in_frame;
    // The new names need frames for tree blocks as well.
    status = add_frames(wanted + wanted / 4 + 1);
    if (status == Errc::need_space) status = Errc::ok;  // the free frames may suffice
    if (status != Errc::ok) return Errc::ok;
    WARREN_TRY(begin_run({}));
    GridExecutor executor(stream_, sort_memory_, state_.data() + 1);
    status = ops::batch::add_inode_frames(executor, batch_, store, inodes);
    return executor.code();
}

/// Adds inode frames in advance if a large batch of creations is likely to need them: a run that
/// finds too few inodes has processed all items in vain. Only if there is plenty of free space,
/// because items may fail and not need their inodes.
Errc ItemBatch::add_inodes_ahead(const core::Store& store, const AddFrames& add_frames) {
    constexpr u64 plenty = 8;
    if (!add_frames || is_small_ || !batch_.shape.makes_inodes()) return Errc::ok;
    WARREN_TRY(needed_.reserve(ops::needed_places_max));
    u64* counters = needed_.data();
    WARREN_TRY(stream_.copy(counters, &store.state->inodes_used, 2 * sizeof(u64)));
    WARREN_TRY(stream_.copy(counters + 2, &store.state->free_frames, sizeof(u64)));
    WARREN_TRY(stream_.wait());
    const u64 free = counters[1] > counters[0] ? counters[1] - counters[0] : 0;
    const u64 items = batch_.end - batch_.begin;
    if (free >= items || counters[2] < plenty * (items / format::inode_slots_per_frame + 1))
        return Errc::ok;
    Errc status = Errc::ok;  // ignored: the run will return a retry reason again
    return add_inode_frames(store, add_frames, items - free, status);
}

/// Reads the list of blocks that a run has missed.
Errc ItemBatch::read_needed(ops::BatchWindow& window) {
    WARREN_TRY(needed_.reserve(ops::needed_places_max));
    WARREN_TRY(
        stream_.copy(needed_.data(), batch_.needed_places, ops::needed_places_max * sizeof(u64)));
    WARREN_TRY(stream_.wait());
    std::copy_n(needed_.data(), window.needed_count, window.needed_places);
    return Errc::ok;
}

Errc ItemBatch::run(const core::Store& store, const ops::BatchHeader& header,
                    const AddFrames& add_frames, ops::BatchWindow& window, Errc& status) {
    set_header(header);
    for (;;) {
        ops::BatchState state{};
        WARREN_TRY(is_small_ ? run_small(store, window, state)
                             : run_large(store, add_frames, window, state));
        status = state.status;
        window.done = state.limit;
        window.wanted_blocks = state.new_blocks;
        window.needed_count = std::min(state.needed_count, ops::needed_places_max);
        if (window.needed_count > 0) WARREN_TRY(read_needed(window));
        if (status == Errc::overflow && std::exchange(is_small_, false)) {
            WARREN_TRY(lay_out(ops::batch::records_for(batch_.shape)));
            continue;
        }
        if (!add_frames) return Errc::ok;
        if (status == Errc::need_frame) {
            status = add_frames(state.new_blocks / format::blocks_per_frame + 1);
        } else if (status == Errc::need_inodes) {
            WARREN_TRY(add_inode_frames(store, add_frames, state.needed_inodes, status));
        } else {
            return Errc::ok;
        }
        if (status != Errc::ok) return Errc::ok;
    }
}

}  // namespace warren::cuda_engine
