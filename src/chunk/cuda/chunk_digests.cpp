// SPDX-License-Identifier: Apache-2.0
// Chunks are sorted by length in steps of 512 bytes (longer ones first, so that they do not come
// last) within what arrives together.
#include "chunk/cuda/chunk_digests.hpp"

#include <algorithm>
#include <cstring>

#include "hash/cuda/kernels.hpp"

namespace warren::chunk::cuda {

namespace {

constexpr u64 least_together = 16384;  // chunks: fewer leave most of the GPU idle
constexpr u64 step_bytes = 512;
constexpr u64 steps = 256;

u64 step_of(u64 length) {
    return steps - 1 - std::min(length / step_bytes, steps - 1);
}

}  // namespace

Errc ChunkDigests::open(hash::Algorithm algorithm, u64 most_chunks) {
    algorithm_ = algorithm;
    most_ = most_chunks;
    const u64 bytes = most_chunks * hash::digest_bytes(algorithm);
    for (gpu::Stream& stream : streams_)
        WARREN_TRY(stream.open());
    WARREN_TRY(places_.allocate(2 * most_chunks));
    WARREN_TRY(device_places_.allocate(2 * most_chunks));
    WARREN_TRY(device_digests_.allocate(bytes));
    order_.resize(most_chunks);
    return digests_.allocate(bytes);
}

void ChunkDigests::begin(const u8* data, u64 count) {
    data_ = data;
    data_bytes_ = count;
    done_ = 0;
}

Errc ChunkDigests::add(std::span<const u64> ends, bool is_last) {
    const u64 count = ends.size() - done_;
    if (ends.size() > most_) return Errc::no_space;
    if (count == 0 || (count < least_together && !is_last)) return Errc::ok;
    std::array<u64, steps + 1> begins{};
    auto start_of = [&](u64 chunk) { return chunk == 0 ? 0 : ends[chunk - 1]; };
    for (u64 chunk = done_; chunk < ends.size(); ++chunk)
        ++begins[step_of(ends[chunk] - start_of(chunk)) + 1];
    for (u64 step = 0; step < steps; ++step)
        begins[step + 1] += begins[step];
    u64* const offsets = places_.data();
    u64* const lengths = places_.data() + most_;
    for (u64 chunk = done_; chunk < ends.size(); ++chunk) {
        const u64 length = ends[chunk] - start_of(chunk);
        const u64 at = done_ + begins[step_of(length)]++;
        offsets[at] = start_of(chunk);
        lengths[at] = length;
        order_[at] = static_cast<u32>(chunk);
    }
    const gpu::Stream& stream = streams_[turn_++ % streams_.size()];
    u64* const device_offsets = device_places_.data() + done_;
    u64* const device_lengths = device_places_.data() + most_ + done_;
    WARREN_TRY(stream.copy(device_offsets, offsets + done_, count * sizeof(u64)));
    WARREN_TRY(stream.copy(device_lengths, lengths + done_, count * sizeof(u64)));
    const u64 size = hash::digest_bytes(algorithm_);
    u8* const to = device_digests_.data() + done_ * size;
    const hash::cuda::DevicePieces pieces{data_,          data_bytes_,    0,
                                          device_offsets, device_lengths, count};
    WARREN_TRY(hash::cuda::hash_pieces(algorithm_, pieces, {}, to, stream.get()));
    WARREN_TRY(stream.copy(digests_.data() + done_ * size, to, count * size));
    done_ = ends.size();
    return Errc::ok;
}

Errc ChunkDigests::finish(std::span<u8> digests) {
    Errc code = Errc::ok;
    for (const gpu::Stream& stream : streams_) {
        const Errc waited = stream.wait();
        if (code == Errc::ok) code = waited;
    }
    WARREN_TRY(code);
    const u64 size = hash::digest_bytes(algorithm_);
    if (digests.size() != done_ * size) return Errc::invalid;
    for (u64 at = 0; at < done_; ++at)
        std::memcpy(&digests[order_[at] * size], digests_.data() + at * size, size);
    return Errc::ok;
}

}  // namespace warren::chunk::cuda
