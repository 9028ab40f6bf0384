// SPDX-License-Identifier: Apache-2.0
// A launch of one warp places one block. That is fast enough, because the host has waited for the
// disk before, which takes longer.
#include "fs/engine/cuda/store/device_meta_buffer.hpp"

#include <bit>
#include <vector>

#include "gpu/failure.hpp"
#include "team/warp_team.hpp"

namespace warren::cuda_engine {
namespace {

__global__ void place_kernel(core::Store store, u32* hand, u64 place, const format::Block* from,
                             ops::Evicted* evicted, Errc* code) {
    const WarpTeam team{0};
    const Errc placed = ops::place_block(team, store, *hand, place, *from, *evicted);
    once(team, [&] { *code = placed; });
}

__global__ void read_kernel(core::Store store, u64 place, format::Block* to, Errc* code) {
    const WarpTeam team{0};
    const Errc read = ops::read_block(team, store, place, *to);
    once(team, [&] { *code = read; });
}

}  // namespace

Errc DeviceMetaBuffer::open(u64 blocks, core::Store& store) {
    const std::lock_guard lock(mutex_);
    const u32 count = static_cast<u32>(blocks);
    const u32 bucket_count = std::bit_ceil(count);
    WARREN_TRY(stream_.open(true));
    WARREN_TRY(table_.allocate(1));
    WARREN_TRY(heads_.allocate(count));
    WARREN_TRY(buckets_.allocate(bucket_count));
    WARREN_TRY(blocks_.allocate(count));
    WARREN_TRY(hand_.allocate(1));
    WARREN_TRY(exchange_.allocate(1));
    const std::vector<core::Head> heads(count, {core::place_none, core::head_none, 0, 0, 0});
    const std::vector<core::Bucket> buckets(bucket_count, {0, core::head_none});
    const core::HeadTable table{count, bucket_count - 1, heads_.data(), buckets_.data(),
                                blocks_.data()};
    WARREN_TRY(stream_.copy(heads_.data(), heads.data(), heads_.bytes()));
    WARREN_TRY(stream_.copy(buckets_.data(), buckets.data(), buckets_.bytes()));
    WARREN_TRY(stream_.copy(table_.data(), &table, sizeof table));
    WARREN_TRY(stream_.fill(hand_.data(), 0, sizeof(u32)));
    store.heads = table_.data();
    store.base = nullptr;
    store.resident = nullptr;
    return stream_.wait();
}

Errc DeviceMetaBuffer::place_block(const core::Store& store, u64 place, const format::Block& block,
                                   ops::Evicted& evicted) {
    const std::lock_guard lock(mutex_);
    Exchange& exchange = *exchange_.data();
    exchange.block = block;
    exchange.code = Errc::io;
    place_kernel<<<1, WarpTeam::width, 0, stream_.get()>>>(
        store, hand_.data(), place, &exchange.block, &exchange.evicted, &exchange.code);
    WARREN_TRY(gpu::check(cudaGetLastError(), "place_block"));
    WARREN_TRY(stream_.wait());
    evicted.place = exchange.evicted.place;
    if (evicted.place != core::place_none) evicted.block = exchange.evicted.block;
    return exchange.code;
}

Errc DeviceMetaBuffer::read_block(const core::Store& store, u64 place, format::Block& block) {
    const std::lock_guard lock(mutex_);
    Exchange& exchange = *exchange_.data();
    exchange.code = Errc::io;
    read_kernel<<<1, WarpTeam::width, 0, stream_.get()>>>(store, place, &exchange.block,
                                                          &exchange.code);
    WARREN_TRY(gpu::check(cudaGetLastError(), "read_block"));
    WARREN_TRY(stream_.wait());
    if (exchange.code == Errc::ok) block = exchange.block;
    return exchange.code;
}

}  // namespace warren::cuda_engine
