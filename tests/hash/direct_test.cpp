// SPDX-License-Identifier: Apache-2.0
// Direct hashing against test vectors for its definition (docs/HASHING.md), computed with Python's
// hashlib by a program of twenty lines, and the C interface against the C++ one.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

#include "tests/hash/messages.hpp"
#define WARREN_STOREGPU_NAMES
#include "warren/hash.h"
#include "warren/hash.hpp"

namespace warren::hash::direct_test {
namespace {

struct DirectVector {
    u64 length;
    u64 piece_bytes;
    const char* digests[3];
};

// Of the bytes i % 251.
constexpr DirectVector direct_vectors[] = {
    {0,
     4096,
     {"9e1e31f4d3ccbe2035c69e5ab27fe14e", "c9f0f8969531ba27ab22809979724c40be1f7603",
      "96026c15e5302d6cabee1febe8dc3895a89d1429597aa9ba126aa238b0108e23"}},
    {1,
     4096,
     {"fb48531d9e3b48e478ed97deeb0469b1", "1a40f897a2cc3ead8e2c77fdef792ae5e2d4ac30",
      "6c549bb48c1c727ed395bbf0ffbba8bb39f48d9cc4d4b6ae122da18e45644187"}},
    {4095,
     4096,
     {"bae6720e4eebb7f752ec7d2b98685dd7", "5433b6ae7b0f96d3f4e3c44ea90c610266eac87e",
      "5f943f035a879efde5bdad00918c76429a359508099f64b713682233f003496f"}},
    {4096,
     4096,
     {"0cad5a0d081b8ba1d5b823fd9e697913", "14392cbd062272affa866bb6c2545374ff66f42f",
      "8e0c5e125d33ae275ab27efd983c72bb500aef53300a68ca5bf4967bb8935754"}},
    {4097,
     4096,
     {"232233fafd0d7d261f27ba3b7e5cad51", "2b68beb53d4def2872a8515fa7ae711b9a94c6cc",
      "dfadff2afa622d909a684c74d276b8f30c3f73b3d842a25a39797e4cdaf22041"}},
    {8192,
     4096,
     {"40b4f38ba7c30ba003b74d44389b157d", "3ece8078e7947872b24ad0d4a4d0d43c83cf9a0c",
      "e861e2d7400ffbfae5dd101e7903120749ffc2694bf208a5c587f69d7268b840"}},
    {100000,
     1,
     {"78d552892eea34a0ce2d0cc86888dafa", "6f761a60cea515344c72d448dc76b9e9a6c41272",
      "f97f22293cfac15fcd8cc12741b5f20a818ffdee98160f8e81619827e8764662"}},
    {100000,
     7,
     {"743e027430ac663dca867ebe0422ade3", "97987a9f0b895fa38a3330d5c5eaab3173aaa52c",
      "b0603e557fa6a5a69bb3909268a723d7e6e751fd47e6bb47e03f78c0022dc845"}},
    {100000,
     64,
     {"c7620a24662c965c3708785a5d7a8373", "edb9f5538fddcf05ea81853131e869c47bed4f25",
      "b603281aab3c0f92cf18c74fefacbdb428578f4633529f445ef18190d89697e9"}},
    {100000,
     1000,
     {"90d8cad46e1527afe6815db575483f59", "3b9ed0bdf2281464c4d29230f1fdc3954aabbde8",
      "363bd79b3686649618329f8850a0507cdc5ac28b640b7a3e165c688cc04d0fd4"}},
    {100000,
     4096,
     {"403f3cbf5b8cf5d6af653cc52117b603", "f2b3c349c0bc0f8ada00cf492c11e1681e625549",
      "93bf29e73ff364f44f3d90e42864534f4c7cb20d4c5e20dd5e25dc6a701daabd"}},
    {100000,
     200000,
     {"052928f465d6455e371f6fc0d3422c7e", "31acf453334a83c9d81652edfcf7ef70e3f6b996",
      "2625e1450273e9840cd83c0a9bdb1a5b74ea415655810726a8073f0306f26917"}},
    {1000000,
     4096,
     {"433124feb20f24f506bd447374fda7f6", "5281c5bc586566ef24720753608c9c531a1f422a",
      "0ba2de1197ac7b8685dda73ad31b20378d7f311e75834c15b83c0538d2c79756"}},
    {5000000,
     4096,
     {"2d1e5a4e85a86fc878b602815edbc330", "f034df7528979c5a4da0912b623d38048cca2ad9",
      "d3838f593ff7454beffc737e355a649113a5c7710fcb794303b3563d9f15df08"}},
};

std::string direct(Algorithm algorithm, Bytes data, u64 piece_bytes, u32 threads) {
    std::vector<u8> digest(digest_bytes(algorithm));
    EXPECT_EQ(hash_direct(algorithm, data, digest, piece_bytes, {threads, Processor::cpu}),
              Errc::ok);
    return hex(digest);
}

TEST(HashDirect, AgreesWithItsDefinition) {
    const std::vector<std::byte> data = pattern_message(5'000'000);
    for (const DirectVector& vector : direct_vectors) {
        for (const Algorithm algorithm : {Algorithm::md5, Algorithm::sha1, Algorithm::sha256}) {
            const Bytes message = Bytes(data).first(vector.length);
            const char* expected = vector.digests[static_cast<u32>(algorithm)];
            EXPECT_EQ(direct(algorithm, message, vector.piece_bytes, 1), expected)
                << name(algorithm) << " of " << vector.length << " in " << vector.piece_bytes;
            EXPECT_EQ(direct(algorithm, message, vector.piece_bytes, 3), expected);
        }
    }
}

TEST(HashDirect, IsNeitherThePlainDigestNorThatOfOtherPieces) {
    const std::vector<std::byte> data = pattern_message(10'000);
    std::vector<u8> plain(20);
    ASSERT_EQ(hash_one(Algorithm::sha1, data, plain), Errc::ok);
    EXPECT_NE(direct(Algorithm::sha1, data, 4096, 1), hex(plain));
    EXPECT_NE(direct(Algorithm::sha1, data, 4096, 1), direct(Algorithm::sha1, data, 8192, 1));
    // Possible with the paper's construction: a block that consists of a longer one's digests.
    std::vector<u8> leaves(3 * 20);
    ASSERT_EQ(hash_pieces(Algorithm::sha1, data, 4096, leaves), Errc::ok);
    EXPECT_NE(direct(Algorithm::sha1, data, 4096, 1),
              direct(Algorithm::sha1, std::as_bytes(std::span(leaves)), 4096, 1));
}

TEST(HashDirect, SaysWhatCannotBe) {
    std::vector<u8> digest(32);
    EXPECT_EQ(hash_direct(Algorithm::sha256, {}, digest, 0), Errc::invalid);
    EXPECT_EQ(hash_direct(Algorithm::blake3, {}, digest), Errc::invalid);
    EXPECT_EQ(hash_direct(Algorithm::sha1, {}, digest), Errc::invalid);
}

TEST(StoreGpu, HashesDirectly) {
    const std::vector<std::byte> data = pattern_message(100'000);
    std::vector<u8> sha(20);
    std::vector<u8> md5(16);
    EXPECT_EQ(storegpu_sha(data.data(), data.size(), sha.data(), sha.size()), 0);
    EXPECT_EQ(storegpu_md5(data.data(), data.size(), md5.data(), md5.size()), 0);
    EXPECT_EQ(hex(sha), direct(Algorithm::sha1, data, 4096, 1));
    EXPECT_EQ(hex(md5), direct(Algorithm::md5, data, 4096, 1));
    EXPECT_EQ(storegpu_sha(data.data(), data.size(), sha.data(), 16), EINVAL);
}

TEST(StoreGpu, HashesWindows) {
    const std::vector<std::byte> data = pattern_message(1000);
    const size_t count = storegpu_window_count(data.size(), 20, 4);
    EXPECT_EQ(count, 246u);
    for (const Algorithm algorithm : {Algorithm::md5, Algorithm::sha1}) {
        std::vector<u8> expected(count * 4);
        ASSERT_EQ(hash_windows({algorithm, 20, 4}, data, 4, expected), Errc::ok);
        const auto function =
            algorithm == Algorithm::md5 ? storegpu_md5_windows : storegpu_sha_windows;
        std::vector<u8> digests(count * 4);
        EXPECT_EQ(function(data.data(), data.size(), 20, 4, 4, digests.data(), digests.size()), 0);
        EXPECT_EQ(digests, expected);
        EXPECT_EQ(function(data.data(), data.size(), 20, 0, 4, digests.data(), digests.size()),
                  EINVAL);
        EXPECT_EQ(function(data.data(), data.size(), 20, 4, 99, digests.data(), digests.size()),
                  EINVAL);
        EXPECT_EQ(function(data.data(), data.size(), 20, 4, 4, digests.data(), 3), EINVAL);
    }
}

TEST(StoreGpu, HasThePapersNames) {
    const std::vector<std::byte> data = pattern_message(1000);
    char* const whole = SHA(data.data(), data.size());
    ASSERT_NE(whole, nullptr);
    EXPECT_EQ(hex({reinterpret_cast<const u8*>(whole), 20}),
              direct(Algorithm::sha1, data, 4096, 1));
    std::free(whole);
    char* const windows = MD5(data.data(), data.size(), 20, 4);
    ASSERT_NE(windows, nullptr);
    std::vector<u8> expected(246 * 16);
    ASSERT_EQ(hash_windows({Algorithm::md5, 20, 4}, data, 16, expected), Errc::ok);
    EXPECT_EQ(hex({reinterpret_cast<const u8*>(windows), expected.size()}), hex(expected));
    std::free(windows);
    EXPECT_EQ(MD5(data.data(), data.size(), 2000, 4), nullptr);
}

TEST(StoreGpu, CountsDigestsInC) {
    const std::vector<std::byte> data = pattern_message(300);
    const void* pieces[] = {data.data(), data.data() + 100};
    const size_t lengths[] = {100, 200};
    std::vector<u8> digests(64);
    EXPECT_EQ(warren_hash_digest_bytes(WARREN_HASH_BLAKE3), 32u);
    EXPECT_EQ(warren_hash_many(WARREN_HASH_BLAKE3, pieces, lengths, 2, digests.data(), 64), 0);
    std::vector<u8> expected(32);
    ASSERT_EQ(hash_one(Algorithm::blake3, Bytes(data).subspan(100, 200), expected), Errc::ok);
    EXPECT_EQ(hex(std::span(digests).subspan(32)), hex(expected));
    EXPECT_EQ(warren_hash_many(WARREN_HASH_BLAKE3, pieces, lengths, 2, digests.data(), 63), EINVAL);
}

}  // namespace
}  // namespace warren::hash::direct_test
