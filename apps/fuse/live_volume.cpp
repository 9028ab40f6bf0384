// SPDX-License-Identifier: Apache-2.0
// To exchange the volume: close it, open the image again, and repeat the kernel's references and
// opens. Closing a read-only volume loses nothing. After the loss of a GPU the uncommitted changes
// are gone already, and inodes created in them return Errc::stale.
#include "apps/fuse/live_volume.hpp"

#include <cstdlib>

#include "apps/fuse/log.hpp"

namespace warren::fuse {

namespace {

/// Repeats on the new volume the references and opens that the kernel holds on the old one.
void take_again(Volume& volume, const NodeTable& nodes) {
    for (const NodeTable::Use& use : nodes.in_use()) {
        for (u64 i = 0; i < use.held; ++i) {
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
    // Acquire: pairs with the releases in open_for_writing() and leave_gpu().
    if (exchangeable_.load(std::memory_order_acquire)) {
        std::lock_guard turn(turn_);
        access.lock_ = std::shared_lock(mutex_);
    }
    access.volume_ = volume_.get();
    return access;
}

bool LiveVolume::open_again(Failure& failure) {
    volume_ = open_(image_, how_, failure);
    return volume_ != nullptr;
}

Failure LiveVolume::open_for_writing(const NodeTable& nodes) {
    std::lock_guard turn(turn_);
    std::unique_lock lock(mutex_);
    if (!how_.read_only) return {};
    volume_.reset();
    how_.read_only = false;
    Failure failure, second;
    const bool opened = open_again(failure);
    how_.read_only = !opened;
    if (!opened && !open_again(second)) {
        log_line(second.message + "; the read-only mount of this image ends");
        std::_Exit(EXIT_FAILURE);
    }
    take_again(*volume_, nodes);
    // Release: pairs with the acquire in access().
    exchangeable_.store(may_be_exchanged(), std::memory_order_release);
    return opened ? Failure{} : failure;
}

void LiveVolume::leave_gpu(const NodeTable& nodes, const std::function<void()>& at_exchange) {
    std::lock_guard turn(turn_);
    std::unique_lock lock(mutex_);
    if (volume_->engine() == name_of(EngineChoice::cpu)) return;
    at_exchange();
    volume_.reset();
    how_.engine = EngineChoice::cpu;
    Failure failure;
    if (!open_again(failure)) {
        log_line(failure.message + "; the mount of this image ends");
        std::_Exit(EXIT_FAILURE);
    }
    take_again(*volume_, nodes);
    // Release: pairs with the acquire in access().
    exchangeable_.store(may_be_exchanged(), std::memory_order_release);
}

Errc LiveVolume::close() {
    const Errc code = volume_->close();
    volume_.reset();
    return code;
}

}  // namespace warren::fuse
