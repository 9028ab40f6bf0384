// SPDX-License-Identifier: Apache-2.0
// Packs items into an engine's batch on all cores, in chunks of items. The names of each chunk are
// measured first, so that each chunk knows where its names begin.
//
// Invariant: a name's words are padded with zeros. A name that is too long takes no words.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string_view>
#include <vector>

#include "fs/volume/volume_implementation.hpp"

namespace warren {

/// Items that one worker packs at a time.
inline constexpr u64 packed_items = 4096;
/// A batch is sent in parts of this many chunks, because each part costs several driver calls.
inline constexpr u64 sent_chunks = 16;

class BatchPacker {
 public:
    BatchPacker(ThreadPool& thread_pool, u64 items) : thread_pool_(thread_pool), items_(items) {}

    /// Calls `body(chunk, begin, end)` for each chunk of items; on the calling thread if there is
    /// only one chunk or the thread pool is in use.
    template <class Body>
    void for_each_chunk(const Body& body) {
        const u64 chunks = (items_ + packed_items - 1) / packed_items;
        const auto run = [&](u64 chunk) {
            const u64 begin = chunk * packed_items;
            body(chunk, begin, std::min(begin + packed_items, items_));
        };
        if (chunks <= 1) return run(0);
        thread_pool_.for_each_at_once(chunks, run);
    }

    /// Measures the names: `words(i)` returns the number of words for item i. Returns the sum.
    template <class Words>
    u64 measure(const Words& words) {
        begins_.assign((items_ + packed_items - 1) / packed_items + 1, 0);
        for_each_chunk([&](u64 chunk, u64 begin, u64 end) {
            u64 sum = 0;
            for (u64 i = begin; i < end; ++i)
                sum += words(i);
            begins_[chunk + 1] = sum;
        });
        for (std::size_t i = 1; i < begins_.size(); ++i)
            begins_[i] += begins_[i - 1];
        return begins_.back();
    }

    /// Packs the items: `pack(i, word)` writes item i, whose names begin at `word`, and advances
    /// `word`. The worker that completes a part of the batch calls `send(part)`.
    template <class Pack, class Send>
    void pack(const Pack& pack, const Send& send) {
        const u64 chunks = begins_.size() - 1;
        std::vector<std::atomic<u64>> packed((chunks + sent_chunks - 1) / sent_chunks);
        for_each_chunk([&](u64 chunk, u64 begin, u64 end) {
            u64 word = begins_[chunk];
            for (u64 i = begin; i < end; ++i)
                pack(i, word);
            const u64 part = chunk / sent_chunks;
            const u64 first = part * sent_chunks;
            const u64 last = std::min(first + sent_chunks, chunks);
            // Acquire and release, paired among the part's workers: the worker that completes the
            // part sees all of it.
            if (packed[part].fetch_add(1, std::memory_order_acq_rel) + 1 < last - first) return;
            send(ops::BatchPart{first * packed_items, std::min(last * packed_items, items_),
                                begins_[first], begins_[last]});
        });
    }

 private:
    ThreadPool& thread_pool_;
    const u64 items_;
    std::vector<u64> begins_;  // the first word of each chunk
};

/// The number of words that a name takes.
inline u64 words_of(std::string_view name) {
    return name.size() > format::name_length_max ? 0 : (name.size() + 7) / 8;
}

/// Writes a name at `word`, advances `word`, and returns the operand for the name.
inline ops::BatchOperand pack_operand(u64* names, Handle directory, std::string_view name,
                                      u64& word) {
    const u64 words = words_of(name);
    if (words > 0) {
        names[word + words - 1] = 0;
        std::memcpy(names + word, name.data(), name.size());
    }
    // A number too large for any volume must remain invalid.
    const u64 inode = std::min(directory.inode, ops::BatchOperand::number_mask);
    const ops::BatchOperand operand{inode | u64{length_of(name)} << 48, directory.generation,
                                    static_cast<u32>(word)};
    word += words;
    return operand;
}

}  // namespace warren
