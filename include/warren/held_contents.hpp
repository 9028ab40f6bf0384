// SPDX-License-Identifier: Apache-2.0
// Bytes of a file in the memory of its volume (OpenOptions::file_buffer_bytes), for a caller that
// copies them from there by itself; see Volume::hold().
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace warren {

class FileBuffer;

/// While this lives, the bytes stay where they are and do not change: a write to them waits, and so
/// may any call that waits for this write. So a thread that has one uses the volume only to get
/// more. The volume must outlive it. Any thread may release it.
class HeldContents {
 public:
    HeldContents() = default;
    ~HeldContents() { release(); }
    HeldContents(HeldContents&& other) noexcept { swap(other); }
    HeldContents& operator=(HeldContents&& other) noexcept {
        swap(other);
        return *this;
    }

    std::span<const std::byte> bytes() const { return bytes_; }
    /// Whether a GPU may read them.
    bool is_pinned() const { return is_pinned_; }
    void release();

 private:
    friend FileBuffer;
    void swap(HeldContents& other) {
        std::swap(buffer_, other.buffer_);
        std::swap(extent_, other.extent_);
        std::swap(bytes_, other.bytes_);
        std::swap(is_pinned_, other.is_pinned_);
    }

    FileBuffer* buffer_ = nullptr;
    void* extent_ = nullptr;
    std::span<const std::byte> bytes_;
    bool is_pinned_ = false;
};

}  // namespace warren
