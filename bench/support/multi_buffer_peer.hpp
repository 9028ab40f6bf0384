// SPDX-License-Identifier: Apache-2.0
// Intel's Multi-Buffer Crypto (Debian's libipsec-mb-dev, BSD-3-Clause): several SHA-1 or SHA-256
// messages side by side in vectors, from the authors of isa-l_crypto, which Debian has not. It is
// a peer where it is installed; plain MD5 it has none.
#pragma once

#include <span>

#include "warren/hash.hpp"

#if defined(HAS_IPSEC_MB)
#include <intel-ipsec-mb.h>

#include <memory>
#endif

namespace warren::bench {

#if defined(HAS_IPSEC_MB)

/// A manager of jobs for the widest vectors that the processor has.
class MultiBufferPeer {
 public:
    MultiBufferPeer() : manager_(alloc_mb_mgr(0), free_mb_mgr) {
        if (manager_ != nullptr) init_mb_mgr_auto(manager_.get(), nullptr);
    }
    /// Whether it is there and has the algorithm.
    bool has(hash::Algorithm algorithm) const {
        return manager_ != nullptr &&
               (algorithm == hash::Algorithm::sha1 || algorithm == hash::Algorithm::sha256);
    }
    /// The digests of the messages, one behind the other.
    void hash(hash::Algorithm algorithm, std::span<const hash::Bytes> messages, u8* digests) {
        const u32 size = hash::digest_bytes(algorithm);
        IMB_MGR* const manager = manager_.get();
        for (const hash::Bytes& message : messages) {
            IMB_JOB* const job = IMB_GET_NEXT_JOB(manager);
            job->cipher_mode = IMB_CIPHER_NULL;
            job->cipher_direction = IMB_DIR_ENCRYPT;
            job->chain_order = IMB_ORDER_HASH_CIPHER;
            job->hash_alg = algorithm == hash::Algorithm::sha1 ? IMB_AUTH_SHA_1 : IMB_AUTH_SHA_256;
            job->src = reinterpret_cast<const u8*>(message.data());
            job->hash_start_src_offset_in_bytes = 0;
            job->msg_len_to_hash_in_bytes = message.size();
            job->auth_tag_output = digests;
            job->auth_tag_output_len_in_bytes = size;
            static_cast<void>(IMB_SUBMIT_JOB_NOCHECK(manager));
            digests += size;
        }
        while (IMB_FLUSH_JOB(manager) != nullptr) {
        }
    }

 private:
    std::unique_ptr<IMB_MGR, void (*)(IMB_MGR*)> manager_;
};

#else

/// It is not installed.
class MultiBufferPeer {
 public:
    bool has(hash::Algorithm) const { return false; }
    void hash(hash::Algorithm, std::span<const hash::Bytes>, u8*) {}
};

#endif

}  // namespace warren::bench
