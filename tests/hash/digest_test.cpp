// SPDX-License-Identifier: Apache-2.0
// Digests against the examples of the standards and against other programs (vectors.hpp), for every
// vector width that this processor supports, every length around a padding boundary, any alignment,
// any number of threads.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "hash/alone.hpp"
#include "hash/blake3_tree.hpp"
#include "tests/hash/messages.hpp"
#include "tests/hash/vectors.hpp"
#include "tests/support/seed.hpp"
#include "warren/hash.hpp"

namespace warren::hash::digest_test {
namespace {

struct Example {
    const char* message;
    const char* digests[3];
};

// RFC 1321, appendix A.5, and the examples of FIPS 180 for the messages that both contain.
constexpr Example examples[] = {
    {"",
     {"d41d8cd98f00b204e9800998ecf8427e", "da39a3ee5e6b4b0d3255bfef95601890afd80709",
      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}},
    {"abc",
     {"900150983cd24fb0d6963f7d28e17f72", "a9993e364706816aba3e25717850c26c9cd0d89d",
      "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}},
    {"message digest", {"f96b697d7cb7938d525a2f31aaf161d0", nullptr, nullptr}},
    {"abcdefghijklmnopqrstuvwxyz", {"c3fcd3d76192e4007dfb496cca67e13b", nullptr, nullptr}},
    {"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
     {"57edf4a22be3c955ac49da2e2107b67a", nullptr, nullptr}},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     {nullptr, "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"}},
};

std::string hex_of_one(Algorithm algorithm, Bytes message, u32 threads = 1) {
    u8 digest[most_digest_bytes];
    const std::span<u8> used(digest, digest_bytes(algorithm));
    EXPECT_EQ(hash_one(algorithm, message, used, {threads, Processor::cpu}), Errc::ok);
    return hex(used);
}

/// The digest by the single-threaded code that uses no library.
std::vector<u8> portable_digest(Algorithm algorithm, Bytes message) {
    std::vector<u8> digest(digest_bytes(algorithm));
    const auto stream = open_portable(algorithm);
    stream->update(message);
    stream->finish(digest.data());
    return digest;
}

/// All digests of `messages` with one vector width.
std::vector<u8> digests_in_lanes(const LaneSet& lanes, Algorithm algorithm,
                                 std::span<const Bytes> messages) {
    std::vector<u8> digests(messages.size() * digest_bytes(algorithm));
    if (algorithm == Algorithm::blake3) {
        hash_blake3_many(lanes, messages, digests.data());
    } else {
        lanes.many[static_cast<u32>(algorithm)](messages, digests.data(), {},
                                                finish_alone(algorithm),
                                                alone_at_most(algorithm, lanes.lanes));
    }
    return digests;
}

TEST(HashDigest, AgreesWithTheExamplesOfTheStandards) {
    for (const Example& example : examples) {
        const std::string_view text = example.message;
        for (const Algorithm algorithm : {Algorithm::md5, Algorithm::sha1, Algorithm::sha256}) {
            const char* expected = example.digests[static_cast<u32>(algorithm)];
            if (expected == nullptr) continue;
            EXPECT_EQ(hex_of_one(algorithm, bytes_of(text)), expected) << text;
            EXPECT_EQ(hex(portable_digest(algorithm, bytes_of(text))), expected) << text;
        }
    }
}

TEST(HashDigest, AgreesOnAMillionLetters) {
    const std::string letters(1'000'000, 'a');
    EXPECT_EQ(hex_of_one(Algorithm::md5, bytes_of(letters)), "7707d6ae4e027c70eea2a935c2296f21");
    EXPECT_EQ(hex_of_one(Algorithm::sha1, bytes_of(letters)),
              "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    EXPECT_EQ(hex_of_one(Algorithm::sha256, bytes_of(letters)),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(HashDigest, AgreesWithOtherPrograms) {
    const std::vector<std::byte> pattern = pattern_message(1'048'577);
    for (const PatternVector& vector : pattern_vectors) {
        const Bytes message = Bytes(pattern).first(vector.length);
        for (const Algorithm algorithm : all_algorithms) {
            const char* expected = vector.digests[static_cast<u32>(algorithm)];
            EXPECT_EQ(hex_of_one(algorithm, message), expected)
                << name(algorithm) << " of " << vector.length;
            EXPECT_EQ(hex_of_one(algorithm, message, 3), expected)
                << name(algorithm) << " of " << vector.length << " by three threads";
            if (algorithm == Algorithm::blake3) continue;
            EXPECT_EQ(hex(portable_digest(algorithm, message)), expected)
                << "portable " << name(algorithm) << " of " << vector.length;
        }
    }
}

/// The key is that of BLAKE3's own test vectors; the digests were computed by the package blake3 of
/// PyPI.
TEST(HashDigest, AgreesWithAKeyInLanesOfEveryWidth) {
    const std::string_view text = "whats the Elvish word for friend";
    Blake3Key key{{}, Blake3::keyed};
    ASSERT_EQ(text.size(), sizeof key.words);
    std::memcpy(key.words, text.data(), text.size());
    const std::vector<std::byte> pattern = pattern_message(1'048'577);
    std::vector<Bytes> messages;
    for (u64 length = 0; length < 1200; ++length)
        messages.push_back(Bytes(pattern).first(length));
    messages.push_back(pattern);
    for (const LaneSet* lanes : lane_sets()) {
        std::vector<u8> digests(messages.size() * Blake3::digest_bytes);
        hash_blake3_many(*lanes, messages, digests.data(), key);
        const auto all = std::span(digests).first(1200 * Blake3::digest_bytes);
        EXPECT_EQ(hex(std::span(digests).first(Blake3::digest_bytes)),
                  "92b2b75604ed3c761f9d6f62392c8a9227ad0ea3f09573e783f1498a4ed60d26");
        std::vector<u8> digest_of_all(Blake3::digest_bytes);
        const Bytes bytes = std::as_bytes(all);
        hash_blake3_many(*lanes, std::span(&bytes, 1), digest_of_all.data(), key);
        EXPECT_EQ(hex(digest_of_all),
                  "17a4fed9fc9808f22cf3e6fae8bf898616b711287c3b29cca763e722bcbe1677")
            << lanes->name;
        EXPECT_EQ(hex(std::span(digests).last(Blake3::digest_bytes)),
                  "a0c8e093827da3e07e22fa684eb60fc1600cf44c5036c80fb0b587d0f39ef421")
            << lanes->name;
    }
}

TEST(HashDigest, AgreesForAllLengthsInLanesOfEveryWidth) {
    const std::vector<std::byte> pattern = pattern_message(1200);
    std::vector<Bytes> messages;
    for (u64 length = 0; length < 1200; ++length)
        messages.push_back(Bytes(pattern).first(length));
    for (const LaneSet* lanes : lane_sets()) {
        for (const Algorithm algorithm : all_algorithms) {
            if (algorithm == Algorithm::xxh3_128) continue;
            const std::vector<u8> digests = digests_in_lanes(*lanes, algorithm, messages);
            EXPECT_EQ(hex_of_one(algorithm, std::as_bytes(std::span(digests))),
                      digests_of_all_lengths[static_cast<u32>(algorithm)])
                << name(algorithm) << " in " << lanes->name;
        }
    }
    std::vector<u8> digests(messages.size() * 16);
    ASSERT_EQ(hash_many(Algorithm::xxh3_128, messages, digests, {2, Processor::cpu}), Errc::ok);
    EXPECT_EQ(hex_of_one(Algorithm::xxh3_128, std::as_bytes(std::span(digests))),
              digests_of_all_lengths[static_cast<u32>(Algorithm::xxh3_128)]);
}

TEST(HashDigest, AgreesForRandomPiecesInLanesOfEveryWidth) {
    const Seed seed;
    Random random(seed.value());
    const std::vector<std::byte> data = random_message(random, 1 * mib);
    for (const Algorithm algorithm : {Algorithm::md5, Algorithm::sha1, Algorithm::sha256}) {
        const std::vector<Bytes> pieces = random_pieces(random, data, 500, 6000);
        for (const LaneSet* lanes : lane_sets()) {
            const std::vector<u8> digests = digests_in_lanes(*lanes, algorithm, pieces);
            for (u64 i = 0; i < pieces.size(); ++i) {
                const std::vector<u8> expected = portable_digest(algorithm, pieces[i]);
                ASSERT_TRUE(std::equal(expected.begin(), expected.end(),
                                       digests.data() + i * expected.size()))
                    << name(algorithm) << " in " << lanes->name << ", piece " << i << " of "
                    << pieces[i].size();
            }
        }
    }
}

TEST(HashDigest, ThreadsAndLibrariesDoNotShow) {
    const Seed seed;
    Random random(seed.value());
    const std::vector<std::byte> data = random_message(random, 3 * mib);
    for (const Algorithm algorithm : all_algorithms) {
        for (const u64 usual : {5'000, 10'000, 100'000}) {
            const std::vector<Bytes> pieces = random_pieces(random, data, 300, usual);
            const u32 size = digest_bytes(algorithm);
            std::vector<u8> one(pieces.size() * size);
            std::vector<u8> many(one.size());
            ASSERT_EQ(hash_many(algorithm, pieces, one, {1, Processor::cpu}), Errc::ok);
            ASSERT_EQ(hash_many(algorithm, pieces, many, {5, Processor::cpu}), Errc::ok);
            EXPECT_EQ(one, many) << name(algorithm);
            for (u64 i = 0; i < pieces.size(); i += 7) {
                ASSERT_EQ(hex_of_one(algorithm, pieces[i]),
                          hex(std::span(one).subspan(i * size, size)))
                    << name(algorithm) << ", piece " << i << " of " << pieces[i].size();
            }
        }
    }
}

TEST(HashDigest, CutsABufferIntoPieces) {
    const std::vector<std::byte> data = pattern_message(10'000);
    for (const Algorithm algorithm : all_algorithms) {
        const u32 size = digest_bytes(algorithm);
        std::vector<u8> digests(4 * size);
        ASSERT_EQ(hash_pieces(algorithm, data, 3000, digests), Errc::ok);
        for (u64 i = 0; i < 4; ++i) {
            const Bytes piece = Bytes(data).subspan(3000 * i, i == 3 ? 1000 : 3000);
            EXPECT_EQ(hex_of_one(algorithm, piece),
                      hex(std::span(digests).subspan(i * size, size)));
        }
        EXPECT_EQ(hash_pieces(algorithm, {}, 3000, {}), Errc::ok);
    }
}

TEST(HashDigest, StreamsMayArriveInAnyParts) {
    const Seed seed;
    Random random(seed.value());
    const std::vector<std::byte> data = random_message(random, 2 * mib);
    for (const Algorithm algorithm : all_algorithms) {
        Stream stream(algorithm);
        for (int round = 0; round < 30; ++round) {
            const Bytes message = Bytes(data).first(random.below(round < 20 ? 5000 : 2 * mib));
            const u64 largest_part = 1 + random.below(random.one_in(2) ? 200 : 300'000);
            for (Bytes rest = message; !rest.empty();) {
                const u64 taken = std::min(rest.size(), random.below(largest_part + 1));
                stream.update(rest.first(taken));
                rest = rest.subspan(taken);
            }
            u8 digest[most_digest_bytes];
            const std::span<u8> used(digest, digest_bytes(algorithm));
            stream.finish(used);
            ASSERT_EQ(hex(used), hex_of_one(algorithm, message))
                << name(algorithm) << " of " << message.size();
        }
    }
}

TEST(HashDigest, SequentialStreamsMayArriveInAnyParts) {
    const std::vector<std::byte> data = pattern_message(5000);
    for (const Algorithm algorithm : all_algorithms) {
        if (algorithm == Algorithm::blake3) continue;
        for (const auto open : {open_portable, open_sequential, open_by_library}) {
            for (const u64 part : {1, 63, 64, 65, 1000, 1024, 1025, 5000}) {
                const auto stream = open(algorithm);
                if (stream == nullptr) continue;  // a build without the library
                for (u64 at = 0; at < data.size(); at += part)
                    stream->update(Bytes(data).subspan(at, std::min(part, data.size() - at)));
                std::vector<u8> digest(digest_bytes(algorithm));
                stream->finish(digest.data());
                EXPECT_EQ(hex(digest), hex_of_one(algorithm, data))
                    << name(algorithm) << " " << part;
            }
        }
    }
}

TEST(HashDigest, SaysWhatCannotBe) {
    const std::vector<std::byte> data = pattern_message(100);
    const Bytes piece = data;
    std::vector<u8> digests(32);
    EXPECT_EQ(hash_many(Algorithm::md5, std::span(&piece, 1), digests), Errc::invalid);
    EXPECT_EQ(hash_pieces(Algorithm::sha256, data, 0, digests), Errc::invalid);
    EXPECT_EQ(hash_pieces(Algorithm::sha256, data, 10, digests), Errc::invalid);
    EXPECT_EQ(hash_many(Algorithm::sha256, {}, {}), Errc::ok);
}

TEST(HashDigest, NamesAreUnderstood) {
    for (const Algorithm algorithm : all_algorithms)
        EXPECT_EQ(algorithm_by_name(name(algorithm)), algorithm);
    EXPECT_EQ(algorithm_by_name("SHA-256"), Algorithm::sha256);
    EXPECT_EQ(algorithm_by_name("XXH128"), Algorithm::xxh3_128);
    EXPECT_EQ(algorithm_by_name("sha-512"), std::nullopt);
    EXPECT_EQ(algorithm_by_name(""), std::nullopt);
}

/// Zeros that take no memory.
class Zeros {
 public:
    explicit Zeros(u64 bytes) : bytes_(bytes) {
        constexpr int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        at_ = ::mmap(nullptr, bytes, PROT_READ, how, -1, 0);
    }
    ~Zeros() {
        if (is_there()) ::munmap(at_, bytes_);
    }
    Zeros(const Zeros&) = delete;
    Zeros& operator=(const Zeros&) = delete;

    bool is_there() const { return at_ != MAP_FAILED; }
    Bytes bytes() const { return {static_cast<const std::byte*>(at_), bytes_}; }

 private:
    void* at_;
    u64 bytes_;
};

TEST(HashDigestLong, OfMoreThanFourGib) {
    const Zeros zeros(long_message_bytes);
    ASSERT_TRUE(zeros.is_there());
    for (const Algorithm algorithm : all_algorithms) {
        const std::string expected = long_message_digests[static_cast<u32>(algorithm)];
        EXPECT_EQ(hex_of_one(algorithm, zeros.bytes(), 0), expected) << name(algorithm);
        Stream stream(algorithm, 0);
        stream.update(zeros.bytes().first(1'000'000'007));
        stream.update(zeros.bytes().subspan(1'000'000'007));
        std::vector<u8> digest(digest_bytes(algorithm));
        stream.finish(digest);
        EXPECT_EQ(hex(digest), expected) << "a stream of " << name(algorithm);
    }
}

TEST(HashDigestLong, OfMoreThanFourGibInLanes) {
    const Zeros zeros(long_message_bytes);
    ASSERT_TRUE(zeros.is_there());
    for (const Algorithm algorithm : {Algorithm::md5, Algorithm::sha1, Algorithm::sha256}) {
        const std::vector<Bytes> messages(16, zeros.bytes());
        const std::vector<u8> digests = digests_in_lanes(widest_lanes(), algorithm, messages);
        const u32 size = digest_bytes(algorithm);
        for (u64 i = 0; i < messages.size(); ++i) {
            EXPECT_EQ(hex(std::span(digests).subspan(i * size, size)),
                      long_message_digests[static_cast<u32>(algorithm)])
                << name(algorithm) << ", lane " << i;
        }
    }
}

}  // namespace
}  // namespace warren::hash::digest_test
