// SPDX-License-Identifier: Apache-2.0
// A FUSE mount may have 1% of the system's dirty limit (max_ratio, strict_limit), which is a fifth
// of the memory: a gigabyte on a machine with 512 GiB, which a small volume may not have room for.
#include "apps/fuse/backing_device.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/descriptor.hpp"

namespace warren::fuse {

namespace {

constexpr u64 read_ahead_kib = 1024;  // the default is 128; each request costs two context switches

// Bounds on the dirty pages that the kernel may hold back, which are an eighth of the volume. Below
// the lower bound writers stall; the upper bound is more than a disk can write between two wake-ups
// of the kernel's flusher.
constexpr u64 credit_min_bytes = 16u << 20;
constexpr u64 credit_max_bytes = 256u << 20;

std::string path_of(const std::string& device, const char* name) {
    return "/sys/class/bdi/" + device + "/" + name;
}

void set(const std::string& device, const char* name, u64 value) {
    const Descriptor file(::open(path_of(device, name).c_str(), O_WRONLY | O_CLOEXEC));
    if (!file) return;
    const std::string text = std::to_string(value);
    // If the system forbids the change, the setting stays as it is.
    static_cast<void>(!::write(file.get(), text.data(), text.size()));
}

std::optional<u64> get(const std::string& device, const char* name) {
    const Descriptor file(::open(path_of(device, name).c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 32> text{};
    const ssize_t length = file ? ::read(file.get(), text.data(), text.size()) : 0;
    u64 value = 0;
    if (length <= 0 || std::from_chars(text.data(), text.data() + length, value).ec != std::errc())
        return std::nullopt;
    return value;
}

}  // namespace

u64 set_up_page_cache(const std::string& device, u64 volume_bytes) {
    set(device, "read_ahead_kb", read_ahead_kib);
    const u64 wanted = std::clamp(volume_bytes / 8, credit_min_bytes, credit_max_bytes);
    const std::optional<u64> before = get(device, "max_bytes");
    if (!before) return wanted;  // before Linux 6.3 the limit cannot be read
    if (*before > wanted) set(device, "max_bytes", wanted);
    return get(device, "max_bytes").value_or(wanted);
}

}  // namespace warren::fuse
