// SPDX-License-Identifier: Apache-2.0
// Serializes numbers and strings one after the other: for messages between ranks, which run the
// same program on machines of one architecture, and for checkpoints.
//
// Invariant: a reader never reads past its end, and no uninitialized byte is written.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/check.hpp"
#include "warren/types.hpp"

namespace warren::walk {

class ByteWriter {
 public:
    template <class T>
    void put(const T& value) {
        static_assert(std::is_trivially_copyable_v<T>);
        static_assert(std::has_unique_object_representations_v<T>, "its padding would be written");
        bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    /// Writes seven bits per byte, the lowest first, so that small numbers take few bytes.
    void put_number(u64 value) {
        for (; value >= 0x80; value >>= 7)
            bytes_.push_back(static_cast<char>(value | 0x80));
        bytes_.push_back(static_cast<char>(value));
    }
    void put_bytes(std::string_view bytes) {
        put_number(bytes.size());
        bytes_.append(bytes);
    }
    const std::string& bytes() const { return bytes_; }
    /// Drops all but the first `size` bytes.
    void truncate(size_t size) { bytes_.resize(size); }
    std::string take() { return std::move(bytes_); }

 private:
    std::string bytes_;
};

/// Where the bytes that a reader reads come from, which decides what malformed bytes cause.
enum class Origin : u8 {
    peer,  // a rank of this job, or this process: malformed bytes abort the program
    file   // a file, which may be forged: malformed bytes make the reader fail
};

/// A reader that has failed is at its end: it returns zeros, and good() is false.
class ByteReader {
 public:
    explicit ByteReader(std::string_view bytes, Origin origin = Origin::peer)
        : left_(bytes), origin_(origin) {}

    template <class T>
    T get() {
        static_assert(std::is_trivially_copyable_v<T>);
        if constexpr (std::is_same_v<T, bool>) {
            const u8 byte = get<u8>();
            return expect(byte <= 1) && byte == 1;
        } else {
            T value{};
            const std::string_view bytes = take(sizeof value);
            if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof value);
            return value;
        }
    }
    u64 get_number() {
        u64 value = 0;
        for (u32 shift = 0; expect(shift < 64); shift += 7) {
            const u8 byte = get<u8>();
            value |= u64{byte & 0x7fu} << shift;
            if (byte < 0x80) return value;
        }
        return 0;
    }
    /// Reads the number of elements that follow, each of which takes at least `least_bytes`.
    u64 get_count(size_t least_bytes) { return expect_count(get<u32>(), least_bytes); }
    /// Checks a count that has been read already; 0 if so many elements cannot follow.
    u64 expect_count(u64 count, size_t least_bytes) {
        return expect(count <= left_.size() / least_bytes) ? count : 0;
    }
    std::string_view get_bytes() { return take(get_number()); }
    std::string_view take(u64 size) {
        if (!expect(left_.size() >= size)) return {};
        const std::string_view bytes = left_.substr(0, size);
        left_.remove_prefix(size);
        return bytes;
    }
    /// Makes the reader fail unless `is_so`. Returns whether the reader is still good.
    bool expect(bool is_so) {
        WARREN_CHECK(is_so || origin_ == Origin::file);
        if (is_so) return good_;
        good_ = false;
        left_ = {};
        return false;
    }
    bool good() const { return good_; }
    bool at_end() const { return left_.empty(); }
    std::string_view rest() const { return left_; }

 private:
    std::string_view left_;
    Origin origin_;
    bool good_ = true;
};

}  // namespace warren::walk
