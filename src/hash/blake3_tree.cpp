// SPDX-License-Identifier: Apache-2.0
// A batch has a few hundred chunks: enough to fill all lanes on all but the last levels, and few
// enough for their chaining values to stay in the cache.
#include "hash/blake3_tree.hpp"

#include <algorithm>
#include <cstring>

#include "base/workers.hpp"
#include "hash/blake3.hpp"

namespace warren::hash {
namespace {

constexpr u64 batch_chunks = 512;
constexpr u64 subtree_bytes = 256 * kib;  // in chunks a power of two

}  // namespace

void Blake3Batch::add(Bytes data, u64 first_chunk, bool is_root, u8* result) {
    const u64 width =
        data.empty() ? 1 : (data.size() + Blake3::chunk_bytes - 1) / Blake3::chunk_bytes;
    trees_.push_back({data, first_chunk, is_root, result, chunks_, width});
    chunks_ += width;
}

void Blake3Batch::run() {
    values_.resize(8 * chunks_);
    run_leaves();
    while (run_level()) {
    }
    for (const Tree& tree : trees_)
        std::memcpy(tree.result, value(tree.place), 32);
    trees_.clear();
    chunks_ = 0;
}

void Blake3Batch::run_leaves() {
    whole_.clear();
    partial_.clear();
    for (const Tree& tree : trees_) {
        for (u64 i = 0; i < tree.width; ++i) {
            const u64 offset = i * Blake3::chunk_bytes;
            const u64 bytes = std::min<u64>(tree.data.size() - offset, Blake3::chunk_bytes);
            auto& jobs = bytes == Blake3::chunk_bytes ? whole_ : partial_;
            jobs.push_back({tree.data.subspan(offset, bytes), tree.first_chunk + i,
                            tree.is_root && tree.width == 1, value(tree.place + i)});
        }
    }
    lanes_.chunks(key_, whole_);
    lanes_.chunks(key_, partial_);
}

bool Blake3Batch::run_level() {
    parents_.clear();
    for (const Tree& tree : trees_) {
        for (u64 i = 0; i < tree.width / 2; ++i) {
            parents_.push_back({value(tree.place + 2 * i), tree.is_root && tree.width == 2,
                                value(tree.place + i)});
        }
    }
    if (parents_.empty()) return false;
    lanes_.parents(key_, parents_);
    for (Tree& tree : trees_) {
        if (tree.width % 2 == 1 && tree.width > 1) {
            std::memcpy(value(tree.place + tree.width / 2), value(tree.place + tree.width - 1), 32);
        }
        tree.width = (tree.width + 1) / 2;
    }
    return true;
}

void hash_blake3_many(const LaneSet& lanes, std::span<const Bytes> messages, u8* digests,
                      const Blake3Key& key) {
    Blake3Batch batch(lanes, key);
    for (const Bytes& message : messages) {
        if (message.size() > batch_chunks * Blake3::chunk_bytes) {
            hash_blake3_tree(lanes, message, 0, true, digests, 1, key);
        } else {
            batch.add(message, 0, true, digests);
            if (batch.chunks() >= batch_chunks) batch.run();
        }
        digests += Blake3::digest_bytes;
    }
    batch.run();
}

void hash_blake3_tree(const LaneSet& lanes, Bytes data, u64 first_chunk, bool is_root, u8* result,
                      u32 threads, const Blake3Key& key) {
    const u64 subtrees = (data.size() + subtree_bytes - 1) / subtree_bytes;
    if (subtrees <= 1) {
        Blake3Batch batch(lanes, key);
        batch.add(data, first_chunk, is_root, result);
        batch.run();
        return;
    }
    std::vector<u32> values(8 * subtrees);
    Counter counter(subtrees, 1);
    run_once(threads, [&](u32) {
        Blake3Batch batch(lanes, key);
        for (u64 first = 0, last = 0; counter.take(first, last);) {
            const u64 offset = first * subtree_bytes;
            const u64 bytes = std::min(data.size() - offset, subtree_bytes);
            batch.add(data.subspan(offset, bytes), first_chunk + offset / Blake3::chunk_bytes,
                      false, reinterpret_cast<u8*>(values.data() + 8 * first));
            batch.run();
        }
    });
    join_blake3(lanes, values, is_root, key);
    std::memcpy(result, values.data(), 32);
}

void join_blake3(const LaneSet& lanes, std::vector<u32>& values, bool is_root,
                 const Blake3Key& key) {
    std::vector<ParentJob> jobs;
    for (u64 width = values.size() / 8; width > 1; width = (width + 1) / 2) {
        jobs.clear();
        for (u64 i = 0; i < width / 2; ++i) {
            jobs.push_back({values.data() + 16 * i, is_root && width == 2, values.data() + 8 * i});
        }
        lanes.parents(key, jobs);
        if (width % 2 == 1) {
            std::memcpy(values.data() + 8 * (width / 2), values.data() + 8 * (width - 1), 32);
        }
    }
}

}  // namespace warren::hash
