// SPDX-License-Identifier: Apache-2.0
// Replaces cuda/gpu_memory.cpp in a build without CUDA: there is no GPU.
#include "python/src/gpu_memory.hpp"

#if !defined(WARREN_CUDA)

namespace warren::python {

i32 gpu_of(const void* /*at*/) {
    return -1;
}

Failure gpu_failure(Errc code) {
    return {code, "this build of warren has no CUDA engine: install warren-cu13"};
}

Errc make_on_gpu(i32 /*gpu*/, const ElementType& /*type*/, std::vector<i64> /*shape*/,
                 Array& /*made*/) {
    return Errc::no_device;
}

Errc copy_to_gpu(const Array& /*from*/, i32 /*gpu*/, Array& /*to*/) {
    return Errc::no_device;
}

Errc copy_to_host(const Array& /*from*/, void* /*to*/) {
    return Errc::no_device;
}

Errc copy_to_host(const GpuBytes& /*from*/, void* /*to*/) {
    return Errc::no_device;
}

Errc cut_on_gpu(const chunk::Rule& /*rule*/, const GpuBytes& /*data*/,
                std::vector<u64>& /*ends*/) {
    return Errc::no_device;
}

Result<u64> read_to_gpu(Volume& /*volume*/, Handle /*file*/, u64 /*offset*/,
                        const GpuBytes& /*target*/, LongCall& /*call*/) {
    return Errc::no_device;
}

Errc read_many_to_gpu(Volume& /*volume*/, std::span<StagedRead> /*reads*/, i32 /*gpu*/,
                      u64 /*stream*/, LongCall& /*call*/) {
    return Errc::no_device;
}

Result<u64> write_from_gpu(Volume& /*volume*/, Handle /*file*/, u64 /*offset*/,
                           const GpuBytes& /*source*/, LongCall& /*call*/) {
    return Errc::no_device;
}

Errc fetch_pieces(
    const GpuBytes& /*source*/, std::span<const StagedWrite::Piece> /*pieces*/,
    const std::function<bool(u32 worker)>& /*goes_on*/,
    const std::function<void(const StagedWrite::Piece&, std::span<const std::byte>)>& /*put*/) {
    return Errc::no_device;
}

Errc wait_for_stream(i32 /*gpu*/, u64 /*stream*/) {
    return Errc::no_device;
}

}  // namespace warren::python

#endif
