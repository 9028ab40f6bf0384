// SPDX-License-Identifier: Apache-2.0
// The room of an open batch is the idle one, if there is one.
#include "fs/engine/cuda/replica/device_batch.hpp"

#include <utility>

#include "gpu/device.hpp"
#include "gpu/failure.hpp"

namespace warren::cuda_engine {

Result<ops::BatchMemory> DeviceBatch::open(const ops::BatchShape& shape) {
    const gpu::DeviceScope device(device_);
    WARREN_TRY(device.code());
    std::unique_ptr<Room> room = idle_.take();
    if (room == nullptr) room = std::make_unique<Room>(budget_);
    const auto count = [&room](u64 bytes) {
        const u64 counted = room->share.bytes();
        if (bytes <= counted || room->share.grow(bytes - counted)) return Errc::ok;
        return gpu::fail(Errc::no_space, "batches find no room beside the copy of the metadata");
    };
    WARREN_TRY(count(ItemBatch::device_bytes(shape)));
    ops::BatchMemory memory;
    WARREN_TRY(room->batch.open(shape, memory));
    WARREN_TRY(count(room->batch.device_bytes()));  // if the estimate was too low
    open_ = std::move(room);
    return memory;
}

void DeviceBatch::send(const ops::BatchPart& part) {
    const gpu::DeviceScope device(device_);
    if (device.code() == Errc::ok) open_->batch.send(part);
}

Errc DeviceBatch::run(const core::Store& image, const ops::BatchHeader& header,
                      ops::BatchWindow& window, Errc& status) {
    const gpu::DeviceScope device(device_);
    WARREN_TRY(device.code());
    return open_->batch.run(image, header, {}, window, status);
}

}  // namespace warren::cuda_engine
