// SPDX-License-Identifier: Apache-2.0
// The kernel copies where it can: copy_file_range shares blocks on some file systems and avoids
// network traffic on others. Whatever it refuses is read and written, which also reveals which side
// has the error.
#include "apps/warren/file_contents.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>

#include "base/last_error.hpp"
#include "base/whole_io.hpp"

namespace warren::cli {

namespace {

constexpr u64 copy_buffer_bytes = 256 * kib;
constexpr u64 call_bytes = gib;    // for one call of copy_file_range
constexpr u64 block_bytes = 4096;  // granularity at which zeros are skipped

bool is_targets_fault(int error) {
    return error == ENOSPC || error == EDQUOT || error == EFBIG || error == EROFS;
}

std::byte* buffer(u32 which) {
    thread_local std::unique_ptr<std::byte[]> memory[2];
    if (!memory[which]) memory[which] = std::make_unique<std::byte[]>(copy_buffer_bytes);
    return memory[which].get();
}

Fault reading(Errc code, bool at_target = false) {
    return {static_cast<i32>(code), "read from", at_target};
}

Fault writing(Errc code) {
    return {static_cast<i32>(code), "write", true};
}

bool is_zero(const std::byte* bytes, u64 size) {
    return bytes[0] == std::byte{0} && std::memcmp(bytes, bytes + 1, size - 1) == 0;
}

/// Writes those blocks of `source` that are not all zero.
Errc write_nonzero(int file, u64 offset, std::span<const std::byte> source) {
    const u64 size = source.size();
    for (u64 begin = 0; begin < size;) {
        // Align to the blocks of the file.
        u64 end = std::min(size, begin + block_bytes - (offset + begin) % block_bytes);
        const u64 start = begin;
        while (begin < size && !is_zero(&source[begin], end - begin)) {
            begin = end;
            end = std::min(size, begin + block_bytes);
        }
        WARREN_TRY(write_fully(file, offset + start, source.subspan(start, begin - start)));
        begin = end;
    }
    return Errc::ok;
}

/// Copies [offset, end), or up to the end of the file; advances `offset` to where it stopped.
Fault copy_range(int from, int to, u64& offset, u64 end, bool leaves_zeros, InKernel in_kernel) {
    if (!leaves_zeros && in_kernel == InKernel::yes) {
        if (const Fault fault = copy_in_kernel(from, to, offset, end)) return fault;
    }
    while (offset < end) {
        const std::span bytes(buffer(0), std::min(end - offset, copy_buffer_bytes));
        const Result<u64> got = warren::read_fully(from, offset, bytes);
        if (!got) return reading(got.code());
        if (*got == 0) break;
        const auto source = bytes.first(*got);
        const Errc code =
            leaves_zeros ? write_nonzero(to, offset, source) : write_fully(to, offset, source);
        if (code != Errc::ok) return writing(code);
        offset += *got;
    }
    return {};
}

}  // namespace

int clone_file(int from, int to) {
    return ::ioctl(to, FICLONE, from) == 0 ? 0 : errno;
}

Fault copy_in_kernel(int from, int to, u64& offset, u64 end) {
    while (offset < end) {
        auto in = static_cast<off64_t>(offset);
        auto out = in;
        const ssize_t done =
            ::copy_file_range(from, &in, to, &out, std::min(end - offset, call_bytes), 0);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0 && is_targets_fault(errno)) return {errno, "write", true};
        if (done <= 0) return {};
        offset += static_cast<u64>(done);
    }
    return {};
}

Fault copy_part(int from, int to, u64 begin, u64 end, Written written, InKernel in_kernel) {
    if (written == Written::all) return copy_range(from, to, begin, end, false, in_kernel);
    const bool leaves_zeros = written == Written::nonzero;
    for (u64 offset = begin; offset < end;) {
        const off_t data = ::lseek(from, static_cast<off_t>(offset), SEEK_DATA);
        if (data < 0 && errno == ENXIO) break;  // a hole until the end
        u64 stop = end;
        if (data >= 0) {  // else the file system cannot tell holes
            const off_t hole = ::lseek(from, data, SEEK_HOLE);
            if (hole > data) stop = std::min(end, static_cast<u64>(hole));
            offset = static_cast<u64>(data);
        }
        if (offset >= end) break;
        const Fault fault = copy_range(from, to, offset, stop, leaves_zeros, in_kernel);
        if (fault) return fault;
        if (offset < stop) break;  // the file was shortened
    }
    return {};
}

Fault copy_stream(int from, int to) {
    std::byte* bytes = buffer(0);
    while (true) {
        const ssize_t got = ::read(from, bytes, copy_buffer_bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return reading(last_error());
        if (got == 0) return {};
        const Errc code = write_fully(to, {bytes, static_cast<size_t>(got)});
        if (code != Errc::ok) return writing(code);
    }
}

Fault compare_part(int first, int second, u64 begin, u64 end,
                   std::optional<Difference>& difference) {
    for (u64 offset = begin; offset < end;) {
        const u64 wanted = std::min(end - offset, copy_buffer_bytes);
        const Result<u64> one = warren::read_fully(first, offset, {buffer(0), wanted});
        if (!one) return reading(one.code());
        const Result<u64> two = warren::read_fully(second, offset, {buffer(1), wanted});
        if (!two) return reading(two.code(), true);
        const u64 both = std::min(*one, *two);
        if (std::memcmp(buffer(0), buffer(1), both) != 0) {
            const std::byte* const place =
                std::mismatch(buffer(0), buffer(0) + both, buffer(1)).first;
            difference = {offset + static_cast<u64>(place - buffer(0)), false, false};
            return {};
        }
        if (*one != *two) {
            difference = {offset + both, true, *one < *two};
            return {};
        }
        if (both < wanted) return {};
        offset += both;
    }
    return {};
}

}  // namespace warren::cli
