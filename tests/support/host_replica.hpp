// SPDX-License-Identifier: Apache-2.0
// The image of a replica in the host's memory, in the place of a device's, and the comparison of
// two images. Errors of the device can be called for.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "fs/engine/cpu/store_memory.hpp"
#include "fs/engine/replica/replica_memory.hpp"
#include "fs/ops/commit_snapshot.hpp"

namespace warren {

class HostReplica : public ReplicaMemory {
 public:
    explicit HostReplica(const core::Store& of) : of_(of) {
        StoreShape shape;
        shape.size_bytes = of.size_bytes;
        shape.frame_table_offset = of.frame_table_offset;
        shape.frame_table_blocks = ops::table_bytes(of) / format::block_size;
        WARREN_CHECK(memory_.open(shape) == Errc::ok);
        core::Store& image = memory_.store();
        image.hash_key[0] = of.hash_key[0];
        image.hash_key[1] = of.hash_key[1];
        image.hash_mask = of.hash_mask;
        image.root_inode = of.root_inode;
        image.orphan_directory = of.orphan_directory;
    }

    static bool is_there() { return true; }
    /// The image where the host can read it.
    const core::Store& look() const { return image(); }
    u64 blocks_sent() const { return blocks_sent_; }

    /// After so many more calls of send() one fails.
    void fail_after(u64 sends, Errc code = Errc::io) {
        fails_with_.store(code, std::memory_order_relaxed);
        sends_left_.store(sends, std::memory_order_relaxed);
    }

    Errc open_stage(ReplicaStage& stage) override {
        stage = {places_, blocks_.get()};
        return Errc::ok;
    }
    Errc send(u64 count) override {
        if (sends_left_.fetch_sub(1, std::memory_order_relaxed) == 0)
            return fails_with_.load(std::memory_order_relaxed);
        blocks_sent_ += count;
        for (u64 i = 0; i < count; ++i) {
            if (places_[i] % format::block_size == places_dropped) {
                image_.resident[places_[i] / format::block_size / 64] &= ~blocks_[i].words[0];
            } else {
                put(places_[i], blocks_[i]);
            }
        }
        return Errc::ok;
    }
    Errc finish(const ReplicaValues& values) override {
        core::StoreState& state = *image_.state;
        relaxed_store(state.metadata_frames_end, values.metadata_frames_end);
        relaxed_store(state.blocks_used, values.blocks_used);
        relaxed_store(state.inodes_used, values.inodes_used);
        return Errc::ok;
    }
    const core::Store& image() const override { return image_; }

    Errc prepare_changes(u64 blocks) override {
        WARREN_TRY(next_step());
        if (blocks > changed_places_.size()) {
            // Not filled: a run changes few of so many.
            changed_ = std::make_unique_for_overwrite<format::Block[]>(blocks);
            changed_places_.resize(blocks);
        }
        return Errc::ok;
    }
    Errc open_run(const RunRoom& room) override {
        WARREN_TRY(next_step());
        core::StoreState& state = *image_.state;
        state = room.state;
        memory_.store().reserve_blocks = room.reserve_blocks;
        for (u64* hints : image_.frames_with_space) {
            for (u64 w = 0; w <= image_.frame_count / 64; ++w)
                hints[w] = 0;
        }
        for (u64 w = 0; w <= image_.block_count() / 64; ++w)
            image_.dirty[w] = 0;
        for (const core::Run& run : room.blocks)
            shut_frame_of(image_, run);
        for (const core::Run& run : room.blocks)
            offer_blocks(image_, run);
        for (u64 frame = 0; frame < state.metadata_frames_end; ++frame) {
            for (u32 w = 0; w < core::bitmap_words; ++w)
                hold_numbers(image_, frame, w, 0);
        }
        for (const FreeNumbers& numbers : room.numbers) {
            for (u32 w = 0; w < core::bitmap_words; ++w)
                offer_numbers(image_, numbers, w);
            for (u64 block = 0; block < format::blocks_per_frame; ++block)
                show_new_block(ThreadTeam{}, image_, numbers, block);
        }
        return Errc::ok;
    }
    Errc fetch_changes(ImageChanges& changes) override {
        WARREN_TRY(next_step());
        ops::CutHeader header{};
        const ops::CutArea area{changed_.get(), changed_places_.data(), changed_places_.size(),
                                &header};
        ops::list_dirty(ThreadTeam{}, image_, area, {});
        WARREN_CHECK(header.count <= area.capacity);
        changes.places = {changed_places_.data(), header.count};
        changes.blocks = changed_.get();
        changes.state = *image_.state;
        coming_ = header.count;
        arrived_ = 0;
        return Errc::ok;
    }
    /// In two parts.
    Result<u64> await_changes() override {
        if (await_failure_ == Errc::ok) await_failure_ = next_step();
        WARREN_TRY(await_failure_);
        if (arrived_ > 0 && before_the_rest)
            before_the_rest(std::span(changed_places_).first(arrived_));
        const u64 end = arrived_ == 0 ? (coming_ + 1) / 2 : coming_;
        for (; arrived_ < end; ++arrived_)
            changed_[arrived_] = block_at(changed_places_[arrived_]);
        return arrived_;
    }

    /// Called before the second part of the changes arrives, with the places of the first.
    std::function<void(std::span<const u64> arrived)> before_the_rest;

    /// The step of a run with this number, counted from 0 on, fails: each has five, if it changes
    /// more than one block.
    void fail_at_step(u64 step, Errc code) {
        fails_with_.store(code, std::memory_order_relaxed);
        steps_left_.store(step, std::memory_order_relaxed);
    }
    /// Fails if the step is the one that has to.
    Errc next_step() {
        const bool fails = steps_left_.fetch_sub(1, std::memory_order_relaxed) == 0;
        return fails ? fails_with_.load(std::memory_order_relaxed) : Errc::ok;
    }

    /// Takes all blocks that are in use and resident. Requires: nothing applies there.
    void take_all() {
        const core::StoreState& state = *of_.state;
        for (u64 i = 0; i * format::block_size < ops::table_bytes(of_); ++i) {
            put(of_.frame_table_offset + i * format::block_size,
                reinterpret_cast<const format::Block&>(of_.frame_table[i]));
        }
        const u64 end = relaxed_load(state.metadata_frames_end);
        for (u64 block = 0; block < end * format::blocks_per_frame; ++block) {
            const u64 frame = block / format::blocks_per_frame;
            const format::FrameKind kind = core::kind_of(image(), frame);
            if (kind != format::FrameKind::inodes && kind != format::FrameKind::metadata) continue;
            if (!core::is_resident(of_, block * format::block_size)) continue;
            if (!core::test_bit(image().frame(frame).used, block % format::blocks_per_frame))
                continue;
            const u64 place = block * format::block_size;
            put(place, *reinterpret_cast<const format::Block*>(of_.base + place));
        }
        static_cast<void>(
            finish({relaxed_load(state.metadata_frames_end), relaxed_load(state.blocks_used),
                    relaxed_load(state.inodes_used)}));
    }

 private:
    format::Block& block_at(u64 place) {
        const core::Store& image = image_;
        const u64 index = (place - image.frame_table_offset) / format::block_size;
        return ops::is_table_place(image, place)
                   ? reinterpret_cast<format::Block&>(image.frame_table[index])
                   : *reinterpret_cast<format::Block*>(image.base + place);
    }
    void put(u64 place, const format::Block& block) {
        ops::CopyWords()(ThreadTeam{}, block, block_at(place));
        core::set_bit(image_.resident, place / format::block_size);
    }

    const core::Store& of_;
    StoreMemory memory_;
    const core::Store& image_ = memory_.store();
    std::atomic<u64> sends_left_{~u64{0}};
    std::atomic<u64> steps_left_{~u64{0}};
    std::atomic<Errc> fails_with_{Errc::io};
    std::vector<u64> changed_places_;
    std::unique_ptr<format::Block[]> changed_;
    u64 coming_ = 0;
    u64 arrived_ = 0;
    Errc await_failure_ = Errc::ok;
    u64 blocks_sent_ = 0;
    static constexpr u64 stage_blocks = 512;
    std::vector<u64> places_ = std::vector<u64>(stage_blocks);
    const std::unique_ptr<format::Block[]> blocks_ =
        std::make_unique_for_overwrite<format::Block[]>(stage_blocks);
};

/// Whether the word at `at` of the block at `place` is used by the host alone: held numbers of
/// inodes; checksum and transaction of a block's header, which mean nothing in memory and in which
/// a bulk removal counts.
inline bool is_host_word(const core::Store& store, u64 place, u64 at) {
    using format::BlockHeader;
    constexpr u64 held = offsetof(format::InodeBitmap, held) / 8;
    const bool has_inodes =
        core::kind_of(store, place / format::frame_size) == format::FrameKind::inodes;
    const bool is_bitmap = place % format::frame_size == 0;
    if (has_inodes && is_bitmap) return at >= held && at < held + format::inodes_per_frame / 64;
    return !has_inodes && at == offsetof(BlockHeader, transaction) / 8;
}

/// The first word in which the image of a replica is not as it must be; empty if there is none.
/// Frames without blocks in use have any kind. With `beside_others`, threads may have been loading
/// blocks, which may be missing.
inline std::string difference(const core::Store& wanted, const core::Store& found,
                              bool beside_others) {
    std::ostringstream out;
    const auto words_differ = [&](u64 place, const format::Block& left,
                                  const format::Block& right) {
        for (u64 i = 0; i < format::block_size / 8; ++i) {
            u64 differing = left.words[i] ^ right.words[i];
            const bool has_header =
                core::kind_of(wanted, place / format::frame_size) == format::FrameKind::metadata;
            if (i == 0 && has_header) differing &= ~u64{0xffffffff};  // its checksum
            if (differing == 0 || is_host_word(wanted, place, i)) continue;
            out << "block " << place / format::block_size << " of frame "
                << place / format::frame_size << ", word " << i << ": " << std::hex
                << right.words[i] << " instead of " << left.words[i];
            return true;
        }
        return false;
    };
    for (u64 frame = 0; frame < wanted.frame_count; ++frame) {
        const format::FrameEntry& left = wanted.frame(frame);
        const format::FrameEntry& right = found.frame(frame);
        bool is_empty = true;
        bool is_same = left.references == right.references;
        for (u32 w = 0; w < 8; ++w) {
            is_empty = is_empty && left.used[w] == 0;
            is_same = is_same && left.used[w] == right.used[w];
        }
        is_same = is_same && (left.kind == right.kind || is_empty);
        if (is_same) continue;
        out << "entry of frame " << frame << ": kind " << right.kind << " instead of " << left.kind
            << ", used" << std::hex;
        for (u32 w = 0; w < 8; ++w)
            out << ' ' << right.used[w] << '/' << left.used[w];
        return out.str();
    }
    const u64 end = relaxed_load(wanted.state->metadata_frames_end);
    for (u64 block = 0; block < end * format::blocks_per_frame; ++block) {
        const u64 place = block * format::block_size;
        if (!core::test_bit(wanted.resident, block) || ops::is_table_place(wanted, place)) continue;
        if (!core::test_bit(found.resident, block)) {
            if (beside_others) continue;
            out << "block " << block << " is missing";
            return out.str();
        }
        const auto* const left = reinterpret_cast<const format::Block*>(wanted.base + place);
        const auto* const right = reinterpret_cast<const format::Block*>(found.base + place);
        if (words_differ(place, *left, *right)) return out.str();
    }
    const core::StoreState& left = *wanted.state;
    const core::StoreState& right = *found.state;
    if (left.blocks_used != right.blocks_used || left.inodes_used != right.inodes_used ||
        left.metadata_frames_end > right.metadata_frames_end) {
        out << "counters: " << right.blocks_used << ", " << right.inodes_used << " instead of "
            << left.blocks_used << ", " << left.inodes_used;
    }
    return out.str();
}

}  // namespace warren
