// SPDX-License-Identifier: Apache-2.0
// The arrays are filled with garbage, as device memory may be.
#include "tests/support/host_batch.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "fs/bulk/batch/batch_frames.hpp"
#include "fs/bulk/batch/batch_run.hpp"

namespace warren {
namespace {

/// Runs the parts of a phase one after the other.
class Loop {
 public:
    static constexpr bool is_near = true;
    static constexpr bool can_clone = true;

    template <class Phase>
    void each(u64 count, const Phase& phase) {
        is_backwards_ = !is_backwards_;
        for (u64 i = 0; i < count; ++i)
            phase(is_backwards_ ? count - 1 - i : i);
    }
    void sort(ops::Batch& batch, u64 count, u32 bits) {
        const u64 mask = ops::batch::all_ones(bits);
        std::vector<u64> places(count);
        std::iota(places.begin(), places.end(), u64{0});
        std::stable_sort(places.begin(), places.end(), [&](u64 one, u64 other) {
            return (batch.sort_keys[one] & mask) < (batch.sort_keys[other] & mask);
        });
        for (u64 i = 0; i < count; ++i) {
            batch.sort_keys_other[i] = batch.sort_keys[places[i]];
            batch.order_other[i] = batch.order[places[i]];
        }
        std::swap(batch.sort_keys, batch.sort_keys_other);
        std::swap(batch.order, batch.order_other);
    }
    void sum(const u32* from, u32* to, u64 count) {
        u32 sum = 0;
        for (u64 i = 0; i < count; ++i) {
            const u32 value = from[i];
            to[i] = sum;
            sum += value;
        }
    }
    ops::BatchState look(const ops::BatchState& state) { return state; }

 private:
    bool is_backwards_ = false;
};

}  // namespace

template <class T>
T* HostBatch::take(u64 count) {
    arrays_.push_back(std::make_unique_for_overwrite<std::byte[]>(count * sizeof(T) + sizeof(T)));
    std::memset(arrays_.back().get(), 0xa5, std::min<u64>(count * sizeof(T), 64 * kib));
    return reinterpret_cast<T*>(arrays_.back().get());
}

Result<ops::BatchMemory> HostBatch::open(const ops::BatchShape& shape) {
    arrays_.clear();
    sent_.clear();
    batch_ = {};
    batch_.shape = shape;
    ops::batch::lay_out(batch_, ops::batch::records_for(shape),
                        [&]<class T>(T*& at, u64 count) { at = take<T>(count); });
    memory_ = {};
    memory_.operands = take<ops::BatchOperand>(shape.operands());
    memory_.names = take<u64>(shape.name_words);
    memory_.modes = shape.has_modes ? take<u16>(shape.items) : nullptr;
    const bool clones = shape.kind == ops::BatchKind::clone;
    memory_.sources = clones ? take<Handle>(shape.items) : nullptr;
    memory_.codes = take<Errc>(shape.items);
    memory_.made = take<ops::BatchMade>(shape.items);
    memory_.attributes = take<Attributes>(shape.items);
    static_cast<ops::BatchMemory&>(batch_) = memory_;
    return memory_;
}

void HostBatch::send(const ops::BatchPart& part) {
    const std::lock_guard lock(sent_mutex_);
    sent_.push_back(part);
}

/// Fails the test if items or words were omitted, or sent twice.
void HostBatch::expect_all_sent() {
    std::ranges::sort(sent_, {}, &ops::BatchPart::begin);
    ops::BatchPart all;
    for (const ops::BatchPart& part : sent_) {
        if (part.begin != all.end || part.words_begin != all.words_end) break;
        all.end = part.end;
        all.words_end = part.words_end;
    }
    if (all.end == batch_.shape.items && all.words_end == batch_.shape.name_words) return;
    std::fprintf(stderr, "only the first %llu items of a batch were sent\n",
                 static_cast<unsigned long long>(all.end));
    std::abort();
}

Errc HostBatch::run(const core::Store& store, const ops::BatchHeader& header,
                    ops::BatchWindow& window) {
    expect_all_sent();
    Loop loop;
    batch_.header = header;
    batch_.begin = window.begin;
    batch_.end = window.end;
    // Tests both methods: editing leaves in place, and rewriting whole directories.
    const ops::BatchKind kind = batch_.shape.kind;
    batch_.may_edit = (kind == ops::BatchKind::move || kind == ops::BatchKind::remove) &&
                      batch_.shape.items % 2 == 0;
    for (;;) {
        *batch_.state = {};
        batch_.state->limit = window.end;
        const ops::BatchState state = ops::batch::run(loop, batch_, store);
        window.done = state.limit;
        window.wanted_blocks = state.new_blocks;
        window.needed_count = std::min(state.needed_count, ops::needed_places_max);
        std::copy_n(batch_.needed_places, window.needed_count, window.needed_places);
        if (state.status != Errc::need_inodes) return state.status;
        *batch_.state = {};
        WARREN_TRY(ops::batch::add_inode_frames(loop, batch_, store, state.needed_inodes));
    }
}

}  // namespace warren
