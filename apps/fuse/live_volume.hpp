// SPDX-License-Identifier: Apache-2.0
// The volume behind a mount, which may be exchanged for another opening of the same image under the
// feet of the kernel, which keeps its inodes and open files: a mount that began read-only is
// remounted for writing, or the GPU that ran the operations is lost.
//
// Invariant: a thread that works on the volume holds an Access; the volume is exchanged only while
// there is none. Once a volume can no longer be exchanged, an Access costs one load.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "apps/fuse/node_table.hpp"
#include "warren/volume.hpp"

namespace warren::fuse {

/// Opens an image: Volume::open, or what a test puts in its place.
using VolumeOpener = std::function<std::unique_ptr<Volume>(const std::string& image,
                                                           const OpenOptions& how, Failure&)>;

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

    /// `how`: the options that the volume was opened with.
    LiveVolume(std::unique_ptr<Volume> volume, std::string image, const OpenOptions& how,
               VolumeOpener open)
        : volume_(std::move(volume)),
          image_(std::move(image)),
          how_(how),
          open_(std::move(open)),
          exchangeable_(may_be_exchanged()) {}

    Access access();

    /// Opens the image for writing, unless it is so already. A failure leaves it as it was.
    Failure open_for_writing(const NodeTable& nodes);

    /// Opens the image on the CPU engine, after its GPU was lost: as the last commit left it; calls
    /// `at_exchange` while nobody works on it. Ends the process if that is not possible.
    void leave_gpu(const NodeTable& nodes, const std::function<void()>& at_exchange);

    /// Closes the volume. Requires: no Access is left or will be taken.
    Errc close();

 private:
    bool may_be_exchanged() const {
        return how_.read_only || volume_->engine() != name_of(EngineChoice::cpu);
    }
    bool open_again(Failure& failure);

    std::unique_ptr<Volume> volume_;
    std::string image_;
    OpenOptions how_;
    VolumeOpener open_;
    std::mutex turn_;  // passed on the way to mutex_, so that an exchange gets its turn
    std::shared_mutex mutex_;
    // Once false, always false. Cleared with release after the exchange of volume_, so a thread
    // that reads false in access(), with acquire, sees the volume that stays.
    std::atomic<bool> exchangeable_;
};

}  // namespace warren::fuse
