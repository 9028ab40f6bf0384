// SPDX-License-Identifier: Apache-2.0
// The scans by table lookup. They differ in how a hash rolls and in what matches; for_each_window()
// iterates over the input.
#include "chunk/scanner.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/check.hpp"
#include "chunk/streams.hpp"
#include "chunk/tables.hpp"
#include "warren/hash.hpp"

namespace warren::chunk {

namespace {

struct RollingRabin {
    const RabinTables& tables;
    u32 window;

    u64 begin(const u8* at) const {
        u64 fingerprint = 0;
        for (const u8* byte = at - window; byte < at; ++byte)
            fingerprint = tables.roll(fingerprint, *byte, 0);
        return fingerprint;
    }
    u64 roll(u64 fingerprint, const u8* at) const {
        return tables.roll(fingerprint, *at, *(at - window));
    }
};

struct RollingGear {
    const u64* table;

    u64 begin(const u8* at) const {
        u64 hash = 0;
        for (const u8* byte = at - 64; byte < at; ++byte)
            hash = roll(hash, byte);
        return hash;
    }
    u64 roll(u64 hash, const u8* at) const { return hash + hash + table[*at]; }
};

template <u32 streams, class Hash>
void scan_for(const Hash& rolling, const Rule& rule, const u8* bytes, u64 count, u64* bits) {
    const auto mask = static_cast<decltype(rolling.begin(bytes))>(rule.mask);
    const auto value = static_cast<decltype(rolling.begin(bytes))>(rule.value);
    if (value == 0) {
        for_each_window<streams>(rolling, bytes, count, [=](auto hash, u64 index) {
            if ((hash & mask) == 0) [[unlikely]]
                set_bit(bits, index);
        });
    } else {
        for_each_window<streams>(rolling, bytes, count, [=](auto hash, u64 index) {
            if ((hash & mask) == value) [[unlikely]]
                set_bit(bits, index);
        });
    }
}

/// The table of fastcdc with each entry shifted up by one.
constexpr std::array<u64, 256> make_shifted(const std::array<u64, 256>& table) {
    std::array<u64, 256> shifted{};
    for (size_t byte = 0; byte < table.size(); ++byte)
        shifted[byte] = table[byte] << 1;
    return shifted;
}

/// Processes two bytes per step: after the first byte the hash is available shifted up by one, so
/// it is tested with the mask shifted likewise. Calls note(hash, place) for the matches; only the
/// low 63 bits of that hash are valid. Requires: the top bit of the mask is clear.
template <class Note>
void scan_pairs(const u8* bytes, u64 count, u64 mask, const Note& note) {
    static const std::array<u64, 256> shifted_table = make_shifted(fastcdc_table);
    constexpr u32 streams = 3;
    const RollingGear rolling{fastcdc_table.data()};
    const u64* const table = fastcdc_table.data();
    const u64* const shifted = shifted_table.data();
    const u64 part = count / streams / 64 * 64;
    u64 hashes[streams];
    for (u32 stream = 0; stream < streams; ++stream)
        hashes[stream] = rolling.begin(bytes + stream * part);
    for (u64 index = 0; index < part; index += 2) {
#pragma GCC unroll 4
        for (u32 stream = 0; stream < streams; ++stream) {
            const u64 place = stream * part + index;
            u64& hash = hashes[stream];
            hash = (hash << 2) + shifted[bytes[place]];
            if ((hash & (mask << 1)) == 0) [[unlikely]]
                note(hash >> 1, place);
            hash += table[bytes[place + 1]];
            if ((hash & mask) == 0) [[unlikely]]
                note(hash, place + 1);
        }
    }
    u64 hash = rolling.begin(bytes + streams * part);
    for (u64 index = streams * part; index < count; ++index) {
        hash = rolling.roll(hash, bytes + index);
        if ((hash & mask) == 0) note(hash, index);
    }
}

void scan_fastcdc(const Rule& rule, const u8* bytes, u64 count, u64* bits, u64* early) {
    const u64 late_mask = rule.mask;
    const u64 early_mask = rule.early_mask;
    if ((late_mask & ~early_mask) == 0 && early_mask >> 63 == 0) {
        scan_pairs(bytes, count, late_mask, [=](u64 hash, u64 index) {
            set_bit(bits, index);
            if ((hash & early_mask) == 0) set_bit(early, index);
        });
        return;
    }
    const RollingGear rolling{fastcdc_table.data()};
    for_each_window<3>(rolling, bytes, count, [=](u64 hash, u64 index) {
        if ((hash & late_mask) == 0) [[unlikely]]
            set_bit(bits, index);
        if ((hash & early_mask) == 0) [[unlikely]]
            set_bit(early, index);
    });
}

/// Windows begin at multiples of the stride in the stream, not in the scanned range.
void scan_digests(const Rule& rule, const u8* bytes, u64 position, u64 count, u64* bits) {
    const u64 stride = rule.stride_bytes;
    const u64 window = rule.window_bytes;
    const u64 least = position + 1 > window ? position + 1 - window : 0;
    const u64 first = (least + stride - 1) / stride * stride;
    if (first + window > position + count) return;
    const hash::Windows windows{
        rule.method == Method::md5 ? hash::Algorithm::md5 : hash::Algorithm::sha1, window, stride};
    const u64 size = position + count - first;
    // The first window may begin in the bytes before `position`.
    const auto offset = static_cast<std::ptrdiff_t>(first - position);
    const hash::Bytes data(reinterpret_cast<const std::byte*>(bytes + offset), size);
    std::vector<u64> found((hash::window_count(windows, size) + 63) / 64);
    const auto zero_bits = static_cast<u32>(std::popcount(rule.mask));
    const Errc code = hash::match_windows(windows, data, zero_bits, found,
                                          {.threads = 1, .processor = hash::Processor::cpu});
    WARREN_CHECK(code == Errc::ok);
    for (size_t index = 0; index < found.size(); ++index) {
        for (u64 word = found[index]; word != 0; word &= word - 1) {
            const u64 number = index * 64 + static_cast<u64>(std::countr_zero(word));
            set_bit(bits, first + number * stride + window - position - 1);
        }
    }
}

}  // namespace

Scanner::Scanner(const Rule& rule) : rule_(rule) {
    history_bytes_ = std::max(128u, (rule.window_bytes + 63) / 64 * 64);
    if (rule.method == Method::rabin)
        rabin_ = make_rabin_tables(rule.polynomial, rule.window_bytes);
    if (rule.method == Method::buzhash) {
        for (u32 byte = 0; byte < 256; ++byte)
            buzhash_[byte] = buzhash_table[byte] ^ rule.seed;
    }
}

void scan_rabin_by_table(const Rule& rule, const RabinTables& tables, const u8* bytes, u64 count,
                         u64* bits) {
    scan_for<4>(RollingRabin{tables, rule.window_bytes}, rule, bytes, count, bits);
}

void Scanner::scan(const u8* bytes, u64 position, u64 count, u64* bits, u64* early) const {
    constexpr u64 least_for_vector = 1024;
    switch (rule_.method) {
        case Method::rabin:
            if (count >= least_for_vector && rule_.window_bytes <= 64 &&
                can_scan_rabin_by_vector()) {
                scan_rabin_by_vector(rule_, rabin_, bytes, count, bits);
            } else {
                scan_rabin_by_table(rule_, rabin_, bytes, count, bits);
            }
            break;
        case Method::gear:
            scan_for<3>(RollingGear{gear_table.data()}, rule_, bytes, count, bits);
            break;
        case Method::fastcdc:
            scan_fastcdc(rule_, bytes, count, bits, early);
            break;
        case Method::buzhash:
            scan_buzhash(rule_, buzhash_.data(), bytes, count, bits);
            break;
        case Method::md5:
        case Method::sha1:
            scan_digests(rule_, bytes, position, count, bits);
            break;
    }
}

}  // namespace warren::chunk
