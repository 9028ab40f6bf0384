// SPDX-License-Identifier: Apache-2.0
// OpenSSL's low-level functions are used although it calls them deprecated since 3.0: only they can
// go on in the middle of a message, which is how the last of many messages leaves its lane, and
// only they cost nothing for short messages.
#include "hash/alone.hpp"

#include "hash/portable.hpp"

#if defined(WARREN_HASH_OPENSSL)
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/md5.h>
#include <openssl/sha.h>
#endif
#if defined(WARREN_HASH_XXHASH)
#include "hash/xxh3_library.hpp"
#endif

namespace warren::hash {
namespace {

#if defined(WARREN_HASH_OPENSSL)

/// How OpenSSL does one of the three.
struct OpensslMd5 {
    using Context = MD5_CTX;
    static void begin(Context& context) { MD5_Init(&context); }
    static void resume(Context& context, const u32* state) {
        context.A = state[0];
        context.B = state[1];
        context.C = state[2];
        context.D = state[3];
    }
    static void update(Context& context, Bytes part) {
        MD5_Update(&context, part.data(), part.size());
    }
    static void finish(Context& context, u8* digest) { MD5_Final(digest, &context); }
};

struct OpensslSha1 {
    using Context = SHA_CTX;
    static void begin(Context& context) { SHA1_Init(&context); }
    static void resume(Context& context, const u32* state) {
        context.h0 = state[0];
        context.h1 = state[1];
        context.h2 = state[2];
        context.h3 = state[3];
        context.h4 = state[4];
    }
    static void update(Context& context, Bytes part) {
        SHA1_Update(&context, part.data(), part.size());
    }
    static void finish(Context& context, u8* digest) { SHA1_Final(digest, &context); }
};

struct OpensslSha256 {
    using Context = SHA256_CTX;
    static void begin(Context& context) { SHA256_Init(&context); }
    static void resume(Context& context, const u32* state) { std::copy_n(state, 8, context.h); }
    static void update(Context& context, Bytes part) {
        SHA256_Update(&context, part.data(), part.size());
    }
    static void finish(Context& context, u8* digest) { SHA256_Final(digest, &context); }
};

template <class Library>
class OpensslStream final : public Sequential {
 public:
    OpensslStream() { Library::begin(context_); }
    OpensslStream(const u32* state, u64 length_bytes) : OpensslStream() {
        Library::resume(context_, state);
        context_.Nl = static_cast<u32>(length_bytes << 3);
        context_.Nh = static_cast<u32>(length_bytes >> 29);
    }
    void update(Bytes part) override { Library::update(context_, part); }
    void finish(u8* digest) override { Library::finish(context_, digest); }

 private:
    typename Library::Context context_;
};

using Md5Stream = OpensslStream<OpensslMd5>;
using Sha1Stream = OpensslStream<OpensslSha1>;
using Sha256Stream = OpensslStream<OpensslSha256>;

#else

using Md5Stream = PortableStream<Md5>;
using Sha1Stream = PortableStream<Sha1>;
using Sha256Stream = PortableStream<Sha256>;

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

/// Long messages by our own vectors, which keep the accumulators in registers, as xxHash does only
/// from version 0.8.2 on.
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
    switch (algorithm) {
        case Algorithm::md5:
            return std::make_unique<PortableStream<Md5>>();
        case Algorithm::sha1:
            return std::make_unique<PortableStream<Sha1>>();
        case Algorithm::sha256:
            return std::make_unique<PortableStream<Sha256>>();
        default:
            return std::make_unique<PortableXxh3>();
    }
}

std::unique_ptr<Sequential> open_sequential(Algorithm algorithm) {
    switch (algorithm) {
        case Algorithm::md5:
            return std::make_unique<Md5Stream>();
        case Algorithm::sha1:
            return std::make_unique<Sha1Stream>();
        case Algorithm::sha256:
            return std::make_unique<Sha256Stream>();
        default:
#if defined(WARREN_HASH_XXHASH)
            return open_xxh3();
#else
            return std::make_unique<PortableXxh3>();
#endif
    }
}

void hash_alone(Algorithm algorithm, Bytes data, u8* digest) {
    switch (algorithm) {
        case Algorithm::md5:
            return hash_with<Md5Stream>(data, digest);
        case Algorithm::sha1:
            return hash_with<Sha1Stream>(data, digest);
        case Algorithm::sha256:
            return hash_with<Sha256Stream>(data, digest);
        default:
            return hash_xxh3_alone(data, digest);
    }
}

FinishOne finish_alone(Algorithm algorithm) {
    constexpr FinishOne functions[] = {finish_with<Md5Stream>, finish_with<Sha1Stream>,
                                       finish_with<Sha256Stream>};
    return functions[static_cast<u32>(algorithm)];
}

u32 alone_at_most(Algorithm algorithm, u32 lanes) {
#if defined(WARREN_HASH_OPENSSL)
    // How many times faster one message alone is than one in a lane; bench/hash_bench prints both.
#if defined(__x86_64__)
    static const bool has_sha = [] {
        u32 a = 7, b = 0, c = 0, d = 0;
        __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
        return (b >> 29 & 1) != 0;
    }();
#else
    constexpr bool has_sha = false;
#endif
    const u32 alone[2][3] = {{2, 2, 2}, {2, 5, 9}};
    return std::min(alone[has_sha ? 1 : 0][static_cast<u32>(algorithm)], lanes);
#else
    static_cast<void>(algorithm);
    return std::min(2u, lanes);
#endif
}

}  // namespace warren::hash
