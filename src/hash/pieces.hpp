// SPDX-License-Identifier: Apache-2.0
// Many messages, as a list or as one buffer that is divided into equal pieces, and how the CPU
// hashes them.
#pragma once

#include <algorithm>

#include "hash/lanes.hpp"

namespace warren::hash {

class Pieces {
 public:
    explicit Pieces(std::span<const Bytes> list) : list_(list), count_(list.size()) {}
    Pieces(Bytes data, u64 piece_bytes)
        : data_(data),
          piece_bytes_(piece_bytes),
          count_(data.size() / piece_bytes + (data.size() % piece_bytes != 0 ? 1 : 0)) {}

    u64 count() const { return count_; }
    bool is_list() const { return piece_bytes_ == 0; }
    std::span<const Bytes> list() const { return list_; }
    Bytes data() const { return data_; }
    u64 piece_bytes() const { return piece_bytes_; }
    u64 bytes() const;

    Bytes operator[](u64 i) const {
        if (is_list()) return list_[i];
        const u64 offset = i * piece_bytes_;
        return data_.subspan(offset, std::min<u64>(data_.size() - offset, piece_bytes_));
    }

 private:
    std::span<const Bytes> list_;
    Bytes data_;
    u64 piece_bytes_ = 0;
    u64 count_ = 0;
};

/// How many threads to use for `bytes` of work, of those that the options allow.
u32 threads_for(const Options& options, u64 bytes);

/// Hashes each piece on the CPU, preceded by the beginning (not for BLAKE3 and XXH3).
void hash_on_cpu(Algorithm algorithm, const Pieces& pieces, const Beginning& beginning, u8* digests,
                 const Options& options);

/// Like hash_on_cpu(), on the processor that the options select. Implements hash_many() and others.
Errc hash_anywhere(Algorithm algorithm, const Pieces& pieces, const Beginning& beginning,
                   u8* digests, const Options& options, Stages* stages);

}  // namespace warren::hash
