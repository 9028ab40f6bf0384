// SPDX-License-Identifier: Apache-2.0
// FUSE lets a mount hold back 1% of what all may (max_ratio, strict_limit), a fifth of the memory:
// a gigabyte where there are 512, which a small volume may not have.
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

constexpr u64 read_ahead_kib = 1024;  // the default is 128; a request costs two switches

// What the kernel may hold back: an eighth of the volume within these bounds. With less than the
// lower one writers stand still; the upper one is more than a disk takes between two looks of the
// kernel.
constexpr u64 credit_min_bytes = 16u << 20;
constexpr u64 credit_max_bytes = 256u << 20;

std::string path_of(const std::string& device, const char* name) {
    return "/sys/class/bdi/" + device + "/" + name;
}

void set(const std::string& device, const char* name, u64 value) {
    const Descriptor file(::open(path_of(device, name).c_str(), O_WRONLY | O_CLOEXEC));
    if (!file) return;
    const std::string text = std::to_string(value);
    // A system that forbids it keeps what it has.
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
    if (!before) return wanted;  // a kernel before 6.3: what it may hold back cannot be known
    if (*before > wanted) set(device, "max_bytes", wanted);
    return get(device, "max_bytes").value_or(wanted);
}

}  // namespace warren::fuse
