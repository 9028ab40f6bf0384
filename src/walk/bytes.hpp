// SPDX-License-Identifier: Apache-2.0
// Numbers and strings one after the other, as they travel between ranks of one program on machines
// of one kind.
//
// Invariant: a reader never looks behind its end: what is cut short stops the program.
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
        bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    /// Seven bits a byte, the lowest first: small numbers are short.
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
    /// Leaves the first `size` bytes.
    void cut(size_t size) { bytes_.resize(size); }
    std::string take() { return std::move(bytes_); }

 private:
    std::string bytes_;
};

class ByteReader {
 public:
    explicit ByteReader(std::string_view bytes) : left_(bytes) {}

    template <class T>
    T get() {
        static_assert(std::is_trivially_copyable_v<T>);
        WARREN_CHECK(left_.size() >= sizeof(T));
        T value;
        std::memcpy(&value, left_.data(), sizeof value);
        left_.remove_prefix(sizeof value);
        return value;
    }
    u64 get_number() {
        u64 value = 0;
        for (u32 shift = 0;; shift += 7) {
            const u8 byte = get<u8>();
            WARREN_CHECK(shift < 64);
            value |= u64{byte & 0x7fu} << shift;
            if (byte < 0x80) return value;
        }
    }
    std::string_view get_bytes() { return take(get_number()); }
    std::string_view take(u64 size) {
        WARREN_CHECK(left_.size() >= size);
        const std::string_view bytes = left_.substr(0, size);
        left_.remove_prefix(size);
        return bytes;
    }
    bool at_end() const { return left_.empty(); }
    std::string_view rest() const { return left_; }

 private:
    std::string_view left_;
};

}  // namespace warren::walk
