// SPDX-License-Identifier: Apache-2.0
// OpenSSL as a peer of the hashing library: one message after the other, in a context that is used
// again, which is the fastest way to use it for small messages.
#pragma once

#include "warren/hash.hpp"

#if __has_include(<openssl/evp.h>)
#include <openssl/evp.h>
#define WARREN_BENCH_OPENSSL 1
#endif

namespace warren::bench {

#if defined(WARREN_BENCH_OPENSSL)

inline constexpr bool has_openssl = true;

/// Requires: MD5, SHA-1 or SHA-256.
class Openssl {
 public:
    explicit Openssl(hash::Algorithm algorithm)
        : type_(EVP_MD_fetch(nullptr, names[static_cast<u32>(algorithm)], nullptr)),
          context_(EVP_MD_CTX_new()) {
        EVP_DigestInit_ex2(context_, type_, nullptr);
    }
    ~Openssl() {
        EVP_MD_CTX_free(context_);
        EVP_MD_free(type_);
    }
    Openssl(const Openssl&) = delete;
    Openssl& operator=(const Openssl&) = delete;

    void hash(hash::Bytes message, u8* digest) {
        EVP_DigestInit_ex2(context_, nullptr, nullptr);
        EVP_DigestUpdate(context_, message.data(), message.size());
        EVP_DigestFinal_ex(context_, digest, nullptr);
    }

 private:
    static constexpr const char* names[] = {"MD5", "SHA1", "SHA256"};
    EVP_MD* type_;
    EVP_MD_CTX* context_;
};

#else

inline constexpr bool has_openssl = false;

class Openssl {
 public:
    explicit Openssl(hash::Algorithm) {}
    void hash(hash::Bytes, u8*) {}
};

#endif

}  // namespace warren::bench
