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
    const u64 bytes = ItemBatch::device_bytes(shape);
    const u64 has = room->share.bytes();
    if (bytes > has && !room->share.grow(bytes - has)) {
        return gpu::fail(Errc::no_space, "batches find no room beside the copy of the metadata");
    }
    ops::BatchMemory memory;
    WARREN_TRY(room->batch.open(shape, memory));
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
