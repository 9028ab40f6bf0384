// SPDX-License-Identifier: Apache-2.0
// Cuts by other programs for the same million bytes (splitmix64 from 0, numbers little-endian):
// gearhash 0.1.4 from crates.io under the rules of the presets, whose xet cuts are also those in
// the tests of Hugging Face's xet-core; and pyfastcdc 0.3.1 from PyPI.
// tests/apps/chunk_peers_test.py runs restic and borg themselves.
#include <gtest/gtest.h>

#include <cstring>

#include "base/random.hpp"
#include "warren/chunk.hpp"
#include "warren/hash.hpp"

namespace warren::chunk::vectors_test {
namespace {

std::vector<std::byte> million_bytes() {
    std::vector<std::byte> bytes(1'000'000);
    Random random(0);
    for (size_t at = 0; at < bytes.size(); at += 8) {
        const u64 number = random.next();
        std::memcpy(&bytes[at], &number, 8);
    }
    return bytes;
}

TEST(Vectors, XetOfGearhash) {
    const std::vector<u64> expected = {84493,  134421, 144853, 243318, 271793, 336457, 467529,
                                       494581, 582000, 596735, 616815, 653164, 678202, 724510,
                                       815591, 827760, 958832, 991092, 1000000};
    EXPECT_EQ(cut_serial(*preset("xet"), million_bytes()), expected);
    EXPECT_EQ(cut(*preset("xet"), million_bytes(), 2), expected);
}

TEST(Vectors, XetOfConstantBytes) {
    const std::vector<std::byte> bytes(1'000'000, std::byte{59});
    const std::vector<u64> expected = {131072, 262144, 393216, 524288,
                                       655360, 786432, 917504, 1000000};
    EXPECT_EQ(cut(*preset("xet"), bytes), expected);
}

TEST(Vectors, GearOfGearhash) {
    const std::vector<u64> expected = {
        7796,   14079,  51594,  78859,  84493,  86628,  89912,  102218, 106050, 112494, 118441,
        133800, 139336, 144853, 162820, 165177, 187954, 206034, 212639, 231951, 243318, 267716,
        271793, 274752, 288369, 293854, 301210, 303278, 324937, 336457, 342022, 346894, 387249,
        401917, 419675, 430611, 435438, 437747, 456962, 462093, 469885, 474865, 482236, 494581,
        500258, 521259, 524453, 533381, 548542, 554739, 566103, 571005, 574902, 582000, 588846,
        596735, 606484, 609590, 616815, 621788, 624596, 653164, 678202, 680772, 684628, 687098,
        698085, 712882, 724510, 735537, 763907, 769645, 777013, 784163, 804829, 811385, 813731,
        823466, 827145, 842260, 853817, 857625, 870741, 874803, 896366, 911768, 918666, 934057,
        943892, 961364, 984523, 988897, 991092, 1000000};
    EXPECT_EQ(cut_serial(*preset("gear"), million_bytes()), expected);
    EXPECT_EQ(cut(*preset("gear"), million_bytes(), 2), expected);
}

/// MD5 over the ends as 64-bit numbers, in hexadecimal.
std::string md5_of(const std::vector<u64>& ends) {
    u8 digest[16];
    EXPECT_EQ(hash::hash_one(hash::Algorithm::md5, std::as_bytes(std::span(ends)), digest),
              Errc::ok);
    std::string text;
    for (const u8 byte : digest) {
        text += "0123456789abcdef"[byte >> 4];
        text += "0123456789abcdef"[byte & 15];
    }
    return text;
}

TEST(Vectors, FastcdcOfPyfastcdc) {
    struct Vector {
        u64 average_bytes;
        u32 normalization;
        size_t chunks;
        const char* md5;
    };
    constexpr Vector vectors[] = {
        {256, 1, 3237, "fa235dc41753abb00cef0b737b708d93"},
        {4096, 0, 210, "a3b7ff92bbed509224f0c79a209ce7ea"},
        {16384, 1, 50, "750bb3eb803d0ae40dfce71bcceb5a90"},
        {65536, 3, 14, "fb8aecf9ffba9fa450893ab0da6fb32f"},
    };
    for (const Vector& vector : vectors) {
        const Rule rule = *fastcdc_rule(vector.average_bytes, vector.normalization);
        const std::vector<u64> ends = cut_serial(rule, million_bytes());
        EXPECT_EQ(ends.size(), vector.chunks) << vector.average_bytes;
        EXPECT_EQ(md5_of(ends), vector.md5) << vector.average_bytes;
        EXPECT_EQ(cut(rule, million_bytes(), 2), ends) << vector.average_bytes;
    }
}

}  // namespace
}  // namespace warren::chunk::vectors_test
