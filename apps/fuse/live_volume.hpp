// SPDX-License-Identifier: Apache-2.0
// The volume behind a mount. A mount that began read-only has opened its image read-only; when it
// is remounted for writing the image is opened anew, under the feet of the kernel, which keeps its
// inodes and open files.
//
// Invariant: whoever works on the volume holds an Access; the volume is exchanged only while there
// is none. A volume that was opened for writing is never exchanged, and its Access costs one load.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "apps/fuse/node_table.hpp"
#include "warren/volume.hpp"

namespace warren::fuse {

class LiveVolume {
 public:
    class Access {
     public:
        Volume* operator->() const { return volume_; }
        Volume& operator*() const { return *volume_; }

     private:
        friend class LiveVolume;
        Volume* volume_ = nullptr;
        std::shared_lock<std::shared_mutex> lock_;
    };

    LiveVolume(std::unique_ptr<Volume> volume, std::string image, bool read_only)
        : volume_(std::move(volume)), image_(std::move(image)), exchangeable_(read_only) {}

    Access access();

    /// Opens the image for writing, unless it is so already. A failure leaves it as it was.
    Failure open_for_writing(const NodeTable& nodes);

    /// Closes the volume. Requires: no Access is left or will be taken.
    Errc close();

 private:
    std::unique_ptr<Volume> volume_;
    std::string image_;
    std::shared_mutex mutex_;
    // Once false, always false. Cleared with release after the exchange of volume_, so whoever
    // reads false in access(), with acquire, sees the volume that stays.
    std::atomic<bool> exchangeable_;
};

}  // namespace warren::fuse
