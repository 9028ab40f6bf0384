// SPDX-License-Identifier: Apache-2.0
// The exchange: close the read-only volume, open the image for writing, take the kernel's
// references and opens again. A read-only volume loses nothing by being closed.
#include "apps/fuse/live_volume.hpp"

#include <cstdlib>

#include "apps/fuse/log.hpp"

namespace warren::fuse {

namespace {

/// Takes the references and opens that the kernel holds on the new volume as on the old one.
void take_again(Volume& volume, const NodeTable& nodes) {
    for (const NodeTable::Use& use : nodes.in_use()) {
        for (u64 i = 0; i < use.references; ++i) {
            if (!volume.attributes(use.handle, Hold::yes)) break;
        }
        for (u64 i = 0; i < use.opens; ++i) {
            if (volume.open_file(use.handle) != Errc::ok) break;
        }
    }
}

}  // namespace

LiveVolume::Access LiveVolume::access() {
    Access access;
    // Acquire: pairs with the release in open_for_writing().
    if (exchangeable_.load(std::memory_order_acquire)) {
        access.lock_ = std::shared_lock(mutex_);
    }
    access.volume_ = volume_.get();
    return access;
}

Failure LiveVolume::open_for_writing(const NodeTable& nodes) {
    std::unique_lock lock(mutex_);
    // Acquire: pairs with the release below, of an earlier call.
    if (!exchangeable_.load(std::memory_order_acquire)) return {};
    volume_.reset();
    Failure failure;
    volume_ = Volume::open(image_, OpenOptions{}, failure);
    const bool opened = volume_ != nullptr;
    if (!opened) {
        Failure second;
        OpenOptions as_before;
        as_before.read_only = true;
        volume_ = Volume::open(image_, as_before, second);
        if (volume_ == nullptr) {
            log_line(second.message + "; the read-only mount of this image ends");
            std::_Exit(EXIT_FAILURE);
        }
    }
    take_again(*volume_, nodes);
    // Release: pairs with the acquire in access().
    if (opened) exchangeable_.store(false, std::memory_order_release);
    return opened ? Failure{} : failure;
}

Errc LiveVolume::close() {
    const Errc code = volume_->close();
    volume_.reset();
    return code;
}

}  // namespace warren::fuse
