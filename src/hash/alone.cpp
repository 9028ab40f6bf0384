// SPDX-License-Identifier: Apache-2.0
// OpenSSL's EVP cannot resume in the middle of a message, as is needed for the last messages of a
// list, and its overhead exceeds the time of a short message. So it is used only for long messages,
// and only where it is faster: for SHA on processors without the instructions of sha_blocks.hpp.
#include "hash/alone.hpp"

#include "base/check.hpp"
#include "hash/portable.hpp"
#include "hash/sha_blocks.hpp"

#if defined(WARREN_HASH_OPENSSL)
#include <openssl/evp.h>
#endif
#if defined(WARREN_HASH_XXHASH)
#include "hash/xxh3_library.hpp"
#endif

namespace warren::hash {
namespace {

#if defined(WARREN_HASH_OPENSSL)

class OpensslStream final : public Sequential {
 public:
    explicit OpensslStream(const EVP_MD* type) : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
        is_ready_ = context_ != nullptr && EVP_DigestInit_ex2(context_.get(), type, nullptr) == 1;
    }
    /// False if memory runs out, or if OpenSSL's configuration forbids the digest.
    bool is_ready() const { return is_ready_; }
    void update(Bytes part) override {
        WARREN_CHECK(EVP_DigestUpdate(context_.get(), part.data(), part.size()) == 1);
    }
    void finish(u8* digest) override {
        WARREN_CHECK(EVP_DigestFinal_ex(context_.get(), digest, nullptr) == 1);
    }

 private:
    std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
    bool is_ready_;
};

#endif

template <class Stream>
void finish_with(const Unfinished& message, u8* digest) {
    Stream stream(message.state, message.length_bytes - message.rest.size());
    stream.update(message.rest);
    stream.finish(digest);
}

template <class Stream>
void hash_with(Bytes data, u8* digest) {
    Stream stream;
    stream.update(data);
    stream.finish(digest);
}

template <class Stream>
std::unique_ptr<Sequential> open_with() {
    return std::make_unique<Stream>();
}

/// One message of MD5, SHA-1 or SHA-256 on one thread, by Warren's own code.
struct Alone {
    std::unique_ptr<Sequential> (*open)();
    void (*hash)(Bytes data, u8* digest);
    FinishOne finish;
};

template <class Stream>
constexpr Alone alone_with = {open_with<Stream>, hash_with<Stream>, finish_with<Stream>};

constexpr Alone portable[] = {alone_with<BlockStream<Md5>>, alone_with<BlockStream<Sha1>>,
                              alone_with<BlockStream<Sha256>>};
constexpr Alone by_sha_instructions[] = {alone_with<BlockStream<Md5>>,
                                         alone_with<BlockStream<Sha1, take_sha1_blocks>>,
                                         alone_with<BlockStream<Sha256, take_sha256_blocks>>};

const Alone& fastest(Algorithm algorithm) {
    return (has_sha_instructions() ? by_sha_instructions : portable)[static_cast<u32>(algorithm)];
}

bool is_faster_by_library(Algorithm algorithm) {
    return !has_sha_instructions() &&
           (algorithm == Algorithm::sha1 || algorithm == Algorithm::sha256);
}

/// Hashes long messages with Warren's own vector code, which keeps the accumulators in registers;
/// xxHash does so only from version 0.8.2 on.
void hash_xxh3_alone(Bytes data, u8* digest) {
    const auto* at = reinterpret_cast<const u8*>(data.data());
    if (data.size() > Xxh3::most_short_bytes) {
        u64 accumulators[Xxh3::lanes];
        std::copy_n(Xxh3::initial, Xxh3::lanes, accumulators);
        widest_lanes().xxh3(accumulators, at, data.size());
        Xxh3::store(Xxh3::finish_long(accumulators, Xxh3::secret_words, data.size()), digest);
        return;
    }
#if defined(WARREN_HASH_XXHASH)
    hash_xxh3(data, digest);
#else
    Xxh3::store(Xxh3::hash_short(at, data.size(), Xxh3::secret_words), digest);
#endif
}

}  // namespace

std::unique_ptr<Sequential> open_portable(Algorithm algorithm) {
    if (algorithm == Algorithm::xxh3_128) return std::make_unique<PortableXxh3>();
    return portable[static_cast<u32>(algorithm)].open();
}

std::unique_ptr<Sequential> open_by_library([[maybe_unused]] Algorithm algorithm) {
#if defined(WARREN_HASH_XXHASH)
    if (algorithm == Algorithm::xxh3_128) return open_xxh3();
#endif
#if defined(WARREN_HASH_OPENSSL)
    if (algorithm != Algorithm::xxh3_128) {
        const EVP_MD* const types[] = {EVP_md5(), EVP_sha1(), EVP_sha256()};
        auto stream = std::make_unique<OpensslStream>(types[static_cast<u32>(algorithm)]);
        if (stream->is_ready()) return stream;
    }
#endif
    return nullptr;
}

std::unique_ptr<Sequential> open_sequential(Algorithm algorithm) {
    if (algorithm == Algorithm::xxh3_128 || is_faster_by_library(algorithm)) {
        if (auto stream = open_by_library(algorithm)) return stream;
        return open_portable(algorithm);
    }
    return fastest(algorithm).open();
}

void hash_alone(Algorithm algorithm, Bytes data, u8* digest) {
    constexpr u64 least_library_bytes = 4 * kib;
    if (algorithm == Algorithm::xxh3_128) return hash_xxh3_alone(data, digest);
    if (data.size() >= least_library_bytes && is_faster_by_library(algorithm)) {
        const auto stream = open_sequential(algorithm);
        stream->update(data);
        return stream->finish(digest);
    }
    fastest(algorithm).hash(data, digest);
}

FinishOne finish_alone(Algorithm algorithm) {
    return fastest(algorithm).finish;
}

u32 alone_at_most(Algorithm algorithm, u32 lanes) {
    // How many times faster one message alone is than one in a lane, as bench/hash_bench prints.
    constexpr u32 alone[2][3] = {{2, 2, 2}, {2, 5, 9}};
    return std::min(alone[has_sha_instructions() ? 1 : 0][static_cast<u32>(algorithm)], lanes);
}

}  // namespace warren::hash
