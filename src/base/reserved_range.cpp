// SPDX-License-Identifier: Apache-2.0
// Memory that the system reserves no swap for.
#include "base/reserved_range.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

namespace warren {

ReservedRange::ReservedRange(u64 bytes) : bytes_(bytes) {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at != MAP_FAILED) data_ = static_cast<std::byte*>(at);
}

ReservedRange::~ReservedRange() {
    if (data_ != nullptr) munmap(data_, bytes_);
}

ReservedRange::ReservedRange(ReservedRange&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(other.bytes_),
      populated_bytes_(other.populated_bytes_) {}

ReservedRange& ReservedRange::operator=(ReservedRange&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(populated_bytes_, other.populated_bytes_);
    return *this;
}

void ReservedRange::populate(u64 bytes) {
    bytes = std::min(bytes, bytes_);
    if (bytes <= populated_bytes_) return;
#ifdef MADV_POPULATE_WRITE  // Linux 5.14
    static_cast<void>(
        madvise(data_ + populated_bytes_, bytes - populated_bytes_, MADV_POPULATE_WRITE));
#endif
    populated_bytes_ = bytes;
}

void ReservedRange::give_back(u64 bytes) {
    if (data_ == nullptr || bytes >= bytes_) return;
    static_cast<void>(madvise(data_ + bytes, bytes_ - bytes, MADV_DONTNEED));
    populated_bytes_ = std::min(populated_bytes_, bytes);
}

}  // namespace warren
