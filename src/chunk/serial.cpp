// SPDX-License-Identifier: Apache-2.0
// The rules as they are defined, one byte after the other: the reference for every faster
// implementation, and the "serial" of the measurements. Like the programs that define these cuts,
// they skip bytes that no window needs.
#include <algorithm>
#include <array>

#include "chunk/rabin.hpp"
#include "chunk/tables.hpp"
#include "warren/chunk.hpp"
#include "warren/hash.hpp"

namespace warren::chunk {

namespace {

using Bytes = std::span<const u8>;

u64 end_of_rabin(const Rule& rule, const RabinTables& tables, Bytes bytes, u64 start) {
    const u64 limit = std::min<u64>(start + rule.maximum_bytes, bytes.size());
    const u64 window = rule.window_bytes;
    u64 end = start + rule.minimum_bytes;
    if (end >= limit) return limit;
    u64 fingerprint = 0;
    for (u64 at = end > window ? end - window : 0; at < end; ++at)
        fingerprint = tables.roll(fingerprint, bytes[at], 0);
    while (end < limit && (fingerprint & rule.mask) != rule.value) {
        const u8 out = end >= window ? bytes[end - window] : u8{0};
        fingerprint = tables.roll(fingerprint, bytes[end], out);
        ++end;
    }
    return end;
}

u64 end_of_gear(const Rule& rule, Bytes bytes, u64 start) {
    const u64 limit = std::min<u64>(start + rule.maximum_bytes, bytes.size());
    u64 end = start + rule.minimum_bytes;
    if (end >= limit) return limit;
    u64 hash = 0;
    for (u64 at = end > 64 ? end - 64 : 0; at < end; ++at)
        hash = (hash << 1) + gear_table[bytes[at]];
    while (end < limit && (end < 64 || (hash & rule.mask) != rule.value)) {
        hash = (hash << 1) + gear_table[bytes[end]];
        ++end;
    }
    return end;
}

/// The matching byte opens the next chunk, bytes are processed in pairs, and the hash begins at the
/// minimum, as in the programs that define these cuts.
u64 end_of_fastcdc(const Rule& rule, Bytes bytes, u64 start) {
    const u64 left = std::min<u64>(bytes.size() - start, rule.maximum_bytes);
    if (left <= rule.minimum_bytes) return start + left;
    const u64 middle = std::min(rule.average_bytes, left) / 2 * 2;
    u64 hash = 0;
    for (u64 at = rule.minimum_bytes / 2 * 2; at < left / 2 * 2; ++at) {
        hash = (hash << 1) + fastcdc_table[bytes[start + at]];
        if ((hash & (at < middle ? rule.early_mask : rule.mask)) == 0) return start + at;
    }
    return start + left;
}

u32 rotate(u32 word, u32 by) {
    return std::rotl(word, static_cast<int>(by % 32));
}

/// The window follows the cut, and a window that reaches the limit is not tested.
u64 end_of_buzhash(const Rule& rule, Bytes bytes, u64 start) {
    const u64 limit = std::min<u64>(start + rule.maximum_bytes, bytes.size());
    const u32 window = rule.window_bytes;
    u64 end = start + rule.minimum_bytes;
    if (end + window >= limit) return limit;
    auto entry = [&](u64 at) { return buzhash_table[bytes[at]] ^ rule.seed; };
    u32 hash = 0;
    for (u64 at = end; at < end + window; ++at)
        hash = rotate(hash, 1) ^ entry(at);
    while ((hash & rule.mask) != rule.value) {
        if (end + window + 1 >= limit) return limit;
        hash = rotate(hash, 1) ^ rotate(entry(end), window) ^ entry(end + window);
        ++end;
    }
    return end;
}

/// Windows begin at multiples of the stride from the beginning of the stream.
u64 end_of_digest(const Rule& rule, std::span<const std::byte> bytes, u64 start) {
    const u64 limit = std::min<u64>(start + rule.maximum_bytes, bytes.size());
    const u64 window = rule.window_bytes;
    const auto algorithm =
        rule.method == Method::md5 ? hash::Algorithm::md5 : hash::Algorithm::sha1;
    for (u64 end = std::max(start + rule.minimum_bytes, window); end <= limit; ++end) {
        if ((end - window) % rule.stride_bytes != 0) continue;
        std::array<u8, 20> digest{};
        const u32 size = hash::digest_bytes(algorithm);
        if (hash::hash_one(algorithm, bytes.subspan(end - window, window),
                           std::span(digest).first(size), {.threads = 1}) != Errc::ok) {
            return limit;
        }
        u64 low = 0;
        for (u32 byte = size - 4; byte < size; ++byte)
            low = low << 8 | digest[byte];
        if ((low & rule.mask) == 0) return end;
    }
    return limit;
}

}  // namespace

std::vector<u64> cut_serial(const Rule& rule, std::span<const std::byte> input) {
    const Bytes bytes(reinterpret_cast<const u8*>(input.data()), input.size());
    RabinTables tables{};
    if (rule.method == Method::rabin)
        tables = make_rabin_tables(rule.polynomial, rule.window_bytes);
    std::vector<u64> ends;
    for (u64 start = 0; start < bytes.size(); start = ends.back()) {
        switch (rule.method) {
            case Method::rabin:
                ends.push_back(end_of_rabin(rule, tables, bytes, start));
                break;
            case Method::gear:
                ends.push_back(end_of_gear(rule, bytes, start));
                break;
            case Method::fastcdc:
                ends.push_back(end_of_fastcdc(rule, bytes, start));
                break;
            case Method::buzhash:
                ends.push_back(end_of_buzhash(rule, bytes, start));
                break;
            case Method::md5:
            case Method::sha1:
                ends.push_back(end_of_digest(rule, input, start));
                break;
        }
    }
    return ends;
}

}  // namespace warren::chunk
