// SPDX-License-Identifier: Apache-2.0
// The functions of device.hpp in a build without CUDA: there is no device. A CUDA build has them in
// cuda/.
#if !defined(WARREN_CUDA)

#include "hash/device.hpp"
#include "warren/hash_device.hpp"

namespace warren::hash {

bool has_device() {
    return false;
}

Errc set_device_settings(const DeviceSettings&) {
    return Errc::no_device;
}

bool is_pinned(const void*) {
    return false;
}

Errc hash_on_device(Algorithm, const Pieces&, const Beginning&, u8*, const Options&, Stages&) {
    return Errc::no_device;
}

Errc hash_windows_on_device(const Windows&, Bytes, const WindowOutput&, Stages&) {
    return Errc::no_device;
}

double startup_left_seconds() {
    return 0;
}

Errc measure_device(Algorithm, Rates&) {
    return Errc::no_device;
}

namespace device {

Errc hash_pieces(Algorithm, const void*, u64, u64, void*, Stream) {
    return Errc::no_device;
}

Errc hash_many(Algorithm, const void*, const u64*, const u64*, u64, void*, Stream) {
    return Errc::no_device;
}

Errc hash_one(const void*, u64, void*, Stream) {
    return Errc::no_device;
}

Errc hash_windows(const Windows&, const void*, u64, u32, void*, Stream) {
    return Errc::no_device;
}

Errc match_windows(const Windows&, const void*, u64, u32, u64*, Stream) {
    return Errc::no_device;
}

}  // namespace device
}  // namespace warren::hash

#endif
