// SPDX-License-Identifier: Apache-2.0
// Virtual memory management belongs to the driver. Its functions are looked up at run time, so that
// the program also starts without a driver.
#include "gpu/reserved_range.hpp"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include "base/check.hpp"
#include "gpu/failure.hpp"

namespace warren::gpu {
namespace {

/// The driver functions used here.
struct Driver {
    PFN_cuMemAddressReserve_v10020 reserve = nullptr;
    PFN_cuMemAddressFree_v10020 free = nullptr;
    PFN_cuMemCreate_v10020 create = nullptr;
    PFN_cuMemRelease_v10020 release = nullptr;
    PFN_cuMemMap_v10020 map = nullptr;
    PFN_cuMemUnmap_v10020 unmap = nullptr;
    PFN_cuMemSetAccess_v10020 set_access = nullptr;
};

template <class Function>
bool find(const char* name, Function& function) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
    constexpr unsigned since_version = 10020;
    const Errc asked = check(
        cudaGetDriverEntryPointByVersion(name, &found, since_version, cudaEnableDefault, &status),
        name);
    if (asked != Errc::ok || status != cudaDriverEntryPointSuccess) return false;
    function = reinterpret_cast<Function>(found);
    return true;
}

/// Null if the driver lacks one of the functions.
const Driver* driver() {
    static Driver functions;
    static const bool is_complete =
        find("cuMemAddressReserve", functions.reserve) &&
        find("cuMemAddressFree", functions.free) && find("cuMemCreate", functions.create) &&
        find("cuMemRelease", functions.release) && find("cuMemMap", functions.map) &&
        find("cuMemUnmap", functions.unmap) && find("cuMemSetAccess", functions.set_access);
    return is_complete ? &functions : nullptr;
}

CUmemLocation location_of(int device) {
    CUmemLocation location{};
    location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    location.id = device;
    return location;
}

}  // namespace

ReservedRange::~ReservedRange() {
    if (address_ == 0) return;
    // Unlike cudaFree(), cuMemUnmap() does not wait for kernels that use the memory.
    static_cast<void>(check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"));
    const Driver& call = *driver();
    for (const Piece& piece : pieces_) {
        static_cast<void>(
            check_driver(call.unmap(address_ + piece.offset, piece.bytes), "cuMemUnmap"));
        static_cast<void>(check_driver(call.release(piece.memory), "cuMemRelease"));
    }
    static_cast<void>(check_driver(call.free(address_, bytes_), "cuMemAddressFree"));
}

Errc ReservedRange::reserve(u64 bytes) {
    WARREN_CHECK(address_ == 0);
    // The driver's functions need a context, which the runtime creates at its first use.
    WARREN_TRY(check(cudaFree(nullptr), "cudaFree"));
    WARREN_TRY(check(cudaGetDevice(&device_), "cudaGetDevice"));
    if (driver() == nullptr) {
        return fail(Errc::not_supported,
                    "the driver has no virtual memory management (cuMemAddressReserve)");
    }
    const u64 rounded = (bytes + granularity - 1) / granularity * granularity;
    CUdeviceptr address = 0;
    WARREN_TRY(check_driver(driver()->reserve(&address, rounded, 0, 0, 0), "cuMemAddressReserve"));
    address_ = address;
    bytes_ = rounded;
    return Errc::ok;
}

Errc ReservedRange::map(u64 offset, u64 bytes) {
    WARREN_CHECK(offset % granularity == 0 && bytes % granularity == 0 && offset + bytes <= bytes_);
    // Recorded first: once the mapping exists, nothing except the driver may fail.
    pieces_.push_back({offset, bytes, 0});
    const Errc mapped = map_piece(pieces_.back());
    if (mapped == Errc::ok) {
        mapped_bytes_ += bytes;
    } else {
        pieces_.pop_back();
    }
    return mapped;
}

/// Allocates memory for the piece and makes it accessible to the device.
Errc ReservedRange::map_piece(Piece& piece) {
    const Driver& call = *driver();
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = location_of(device_);
    CUmemGenericAllocationHandle memory = 0;
    WARREN_TRY(check_driver(call.create(&memory, piece.bytes, &properties, 0), "cuMemCreate"));
    const CUdeviceptr address = address_ + piece.offset;
    Errc mapped = check_driver(call.map(address, piece.bytes, 0, memory, 0), "cuMemMap");
    if (mapped == Errc::ok) {
        CUmemAccessDesc access{};
        access.location = location_of(device_);
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        mapped = check_driver(call.set_access(address, piece.bytes, &access, 1), "cuMemSetAccess");
        if (mapped != Errc::ok) static_cast<void>(call.unmap(address, piece.bytes));
    }
    if (mapped != Errc::ok) static_cast<void>(call.release(memory));
    piece.memory = memory;
    return mapped;
}

}  // namespace warren::gpu
