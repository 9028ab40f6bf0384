// SPDX-License-Identifier: Apache-2.0
// The volume behind a mount. It may be replaced by another opening of the same image while the
// kernel keeps its inodes and open files: when a read-only mount is remounted for writing, or when
// the GPU that runs the operations is lost.
//
// Invariant: a thread that uses the volume holds an Access; the volume is replaced only while no
// Access exists. Once the volume cannot be replaced any more, an Access costs one load.
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

/// Opens an image: Volume::open, or a replacement in tests.
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

    /// `how`: the options with which the volume was opened.
    LiveVolume(std::unique_ptr<Volume> volume, std::string image, const OpenOptions& how,
               VolumeOpener open)
        : volume_(std::move(volume)),
          image_(std::move(image)),
          how_(how),
          open_(std::move(open)),
          exchangeable_(may_be_exchanged()) {}

    Access access();

    /// Reopens the image for writing, unless it is already writable. After a failure it is as
    /// before.
    Failure open_for_writing(const NodeTable& nodes);

    /// Reopens the image with the CPU engine after the GPU was lost, in the state of the last
    /// commit; calls `at_exchange` while no thread uses it. Ends the process if that fails.
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
    std::mutex turn_;  // taken before mutex_, so that new readers cannot starve an exchange
    std::shared_mutex mutex_;
    // Changes only from true to false, with release after the exchange of volume_. A thread that
    // reads false in access(), with acquire, therefore sees the final volume.
    std::atomic<bool> exchangeable_;
};

}  // namespace warren::fuse
