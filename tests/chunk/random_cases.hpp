// SPDX-License-Identifier: Apache-2.0
// Random inputs for chunkers: rules whose minimum, maximum and density of candidates are of one
// size, so that skipped minima, forced cuts and seams of buffers meet; bytes that are random,
// constant, periodic, or change from one to the other; and divisions of them into calls.
//
// Invariant: a case is a function of its seed, and shrinks by parts that can be taken away singly.
#pragma once

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "warren/chunk.hpp"

namespace warren::chunk {

struct Case {
    Rule rule;
    std::vector<std::byte> bytes;
    std::vector<size_t> calls;  // sizes of the calls; the last one takes the rest
};

inline std::vector<std::byte> random_bytes(Random& random, size_t size) {
    std::vector<std::byte> bytes(size);
    size_t at = 0;
    while (at < size) {
        const size_t length = std::min<size_t>(size - at, 1 + random.below(size));
        const u64 period = 1 + random.below(100);
        const u64 kind = random.below(6);
        const auto constant = static_cast<std::byte>(random.one_in(2) ? 0 : random.next());
        for (size_t i = 0; i < length; ++i, ++at) {
            if (kind == 0) bytes[at] = constant;
            if (kind == 1) bytes[at] = at >= period ? bytes[at - period] : constant;
            if (kind == 2) bytes[at] = static_cast<std::byte>('a' + random.below(4));
            if (kind >= 3) bytes[at] = static_cast<std::byte>(random.next());
        }
    }
    return bytes;
}

inline u64 low_bits(u64 bits) {
    return (u64{1} << bits) - 1;
}

/// A rule whose chunks are some tens of bytes long.
inline Rule random_rule(Random& random) {
    Rule rule;
    const u64 bits = random.below(random.one_in(3) ? 9 : 6);  // a candidate in 1 to 256 places
    // A digest of every window is slow by the serial rule: fewer of these.
    rule.method = static_cast<Method>(random.below(random.one_in(20) ? 6 : 4));
    rule.minimum_bytes = 1 + random.below(random.one_in(4) ? 3 : 60);
    rule.maximum_bytes = rule.minimum_bytes + random.below(random.one_in(8) ? 400 : 30);
    rule.window_bytes = 64;
    rule.mask = low_bits(bits);
    switch (rule.method) {
        case Method::rabin:
            rule.polynomial = random.one_in(2) ? 0xbfe6b8a5bf378d83 : random.next() | 1;
            rule.polynomial >>= random.below(48);
            rule.polynomial |= u64{1} << 10;
            rule.window_bytes = 1 + static_cast<u32>(random.below(random.one_in(8) ? 300 : 64));
            rule.value = random.next() & rule.mask;
            break;
        case Method::gear:
            if (random.one_in(2)) rule.mask = ~(~u64{0} >> bits);
            rule.value = random.one_in(2) ? 0 : random.next() & rule.mask;
            break;
        case Method::fastcdc:
            rule.minimum_bytes += 63;
            rule.maximum_bytes += 63;
            rule.average_bytes =
                rule.minimum_bytes + random.below(rule.maximum_bytes - rule.minimum_bytes + 1);
            rule.mask <<= random.below(40);
            rule.early_mask = random.one_in(2) ? rule.mask | random.next() << 40
                                               : low_bits(random.below(9)) << random.below(40);
            break;
        case Method::buzhash:
            rule.seed = static_cast<u32>(random.next());
            rule.window_bytes = 1 + static_cast<u32>(random.below(100));
            if (random.one_in(2)) rule.maximum_bytes += rule.window_bytes;
            break;
        case Method::md5:
        case Method::sha1:
            rule.window_bytes = 1 + static_cast<u32>(random.below(random.one_in(4) ? 130 : 56));
            rule.stride_bytes = 1 + static_cast<u32>(random.below(6));
            rule.mask = low_bits(bits == 0 ? 1 : bits);
            break;
    }
    return rule;
}

inline Case random_case(u64 seed, size_t most_bytes) {
    Random random(seed);
    Case made;
    made.rule = random_rule(random);
    const u64 least_bytes = random.one_in(16) ? 0 : most_bytes / 2;
    made.bytes = random_bytes(random, least_bytes + random.below(most_bytes - least_bytes + 1));
    const u64 longest = random.one_in(4) ? 3 : 1 + random.below(most_bytes / 2 + 1);
    for (u64 calls = 1 + random.below(12); calls > 0; --calls)
        made.calls.push_back(static_cast<size_t>(random.below(longest + 1)));
    return made;
}

/// The cuts of a case by a chunker that gets the bytes in the case's calls.
inline std::vector<u64> cut_in_calls(const Case& test, u32 threads = 1) {
    std::vector<u64> ends;
    Chunker chunker;
    if (chunker.open(test.rule, threads) != Errc::ok) return {~u64{0}};
    std::span<const std::byte> rest = test.bytes;
    for (size_t call : test.calls) {
        const size_t size = std::min(call, rest.size());
        chunker.feed(rest.first(size), ends);
        rest = rest.subspan(size);
    }
    chunker.feed(rest, ends);
    chunker.finish(ends);
    return ends;
}

/// The smallest case found by removing calls and bytes for which `fails` is still true.
template <class Fails>
Case shrink(Case test, const Fails& fails) {
    bool goes_on = true;
    while (goes_on) {
        goes_on = false;
        auto try_case = [&](Case smaller) {
            if (!fails(smaller)) return false;
            test = std::move(smaller);
            goes_on = true;
            return true;
        };
        for (size_t call = 0; call < test.calls.size(); ++call) {
            Case smaller = test;
            smaller.calls.erase(smaller.calls.begin() + static_cast<std::ptrdiff_t>(call));
            if (try_case(std::move(smaller))) break;
        }
        for (size_t part = test.bytes.size(); part > 0 && !goes_on; part /= 2) {
            for (size_t at = 0; at + part <= test.bytes.size() && !goes_on; at += part) {
                Case smaller = test;
                const auto first = smaller.bytes.begin() + static_cast<std::ptrdiff_t>(at);
                smaller.bytes.erase(first, first + static_cast<std::ptrdiff_t>(part));
                try_case(std::move(smaller));
            }
        }
    }
    return test;
}

inline std::string describe(const Case& test) {
    const Rule& rule = test.rule;
    std::ostringstream text;
    text << "method " << static_cast<int>(rule.method) << " minimum " << rule.minimum_bytes
         << " average " << rule.average_bytes << " maximum " << rule.maximum_bytes << " window "
         << rule.window_bytes << " seed " << rule.seed << std::hex << " mask 0x" << rule.mask
         << " early 0x" << rule.early_mask << " value 0x" << rule.value << " polynomial 0x"
         << rule.polynomial << std::dec << "\ncalls";
    for (size_t call : test.calls)
        text << ' ' << call;
    text << "\n" << test.bytes.size() << " bytes" << std::hex;
    for (size_t at = 0; at < std::min<size_t>(test.bytes.size(), 400); ++at)
        text << ' ' << static_cast<int>(test.bytes[at]);
    return text.str();
}

}  // namespace warren::chunk
