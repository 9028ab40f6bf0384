// SPDX-License-Identifier: Apache-2.0
// One stream in parts. For BLAKE3, whole spans, each a power of two of chunks, become subtrees once
// more data follow; the bytes held back determine the shape of the tree's end.
//
// Invariant: the stack has one chaining value for each bit set in the number of spans, with the
// largest subtree at its bottom.
#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "hash/alone.hpp"
#include "hash/blake3.hpp"
#include "hash/blake3_tree.hpp"
#include "hash/pieces.hpp"

namespace warren::hash {
namespace {

class Blake3Stream final : public Sequential {
 public:
    explicit Blake3Stream(u32 threads)
        : threads_(threads),
          span_bytes_(threads == 1 ? 128 * kib : std::bit_ceil(threads) * 4 * mib) {}

    void update(Bytes part) override {
        while (!part.empty()) {
            if (held_.empty() && part.size() > span_bytes_) {
                take_span(part.first(span_bytes_));
                part = part.subspan(span_bytes_);
                continue;
            }
            if (held_.size() == span_bytes_) {
                take_span(held_);
                held_.clear();
            }
            const u64 taken = std::min<u64>(part.size(), span_bytes_ - held_.size());
            held_.insert(held_.end(), part.begin(), part.begin() + static_cast<i64>(taken));
            part = part.subspan(taken);
        }
    }

    void finish(u8* digest) override {
        if (stack_.empty()) {
            hash_blake3_tree(lanes_, held_, 0, true, digest, threads_);
            return;
        }
        Value right;
        hash_blake3_tree(lanes_, held_, first_chunk(), false, reinterpret_cast<u8*>(right.data()),
                         threads_);
        while (!stack_.empty())
            join(right, stack_.size() == 1);
        std::memcpy(digest, right.data(), Blake3::digest_bytes);
    }

 private:
    using Value = std::array<u32, 8>;

    u64 first_chunk() const { return spans_ * (span_bytes_ / Blake3::chunk_bytes); }

    void take_span(Bytes data) {
        Value value;
        hash_blake3_tree(lanes_, data, first_chunk(), false, reinterpret_cast<u8*>(value.data()),
                         threads_);
        ++spans_;
        for (u64 joined = spans_; joined % 2 == 0; joined /= 2)
            join(value, false);
        stack_.push_back(value);
    }

    /// Pops the top of the stack and replaces `right` by the parent of both.
    void join(Value& right, bool is_root) {
        u32 children[16];
        std::copy_n(stack_.back().data(), 8, children);
        std::copy_n(right.data(), 8, children + 8);
        stack_.pop_back();
        const ParentJob job = {children, is_root, right.data()};
        lanes_.parents(blake3_unkeyed, std::span(&job, 1));
    }

    const LaneSet& lanes_ = widest_lanes();
    u32 threads_;
    u64 span_bytes_;
    u64 spans_ = 0;
    std::vector<std::byte> held_;
    std::vector<Value> stack_;
};

std::unique_ptr<Sequential> open(Algorithm algorithm, u32 threads) {
    if (algorithm == Algorithm::blake3) return std::make_unique<Blake3Stream>(threads);
    return open_sequential(algorithm);
}

}  // namespace

struct Stream::State {
    Algorithm algorithm;
    u32 threads;
    std::unique_ptr<Sequential> stream;
};

Stream::Stream(Algorithm algorithm, u32 threads) {
    const u32 used = threads_for({.threads = threads}, ~u64{0});
    state_ = std::make_unique<State>(State{algorithm, used, open(algorithm, used)});
}

Stream::~Stream() = default;
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;

void Stream::update(Bytes part) {
    state_->stream->update(part);
}

void Stream::finish(std::span<u8> digest) {
    u8 whole[most_digest_bytes];
    state_->stream->finish(whole);
    std::copy_n(whole, std::min<u64>(digest.size(), digest_bytes(state_->algorithm)),
                digest.data());
    state_->stream = open(state_->algorithm, state_->threads);
}

}  // namespace warren::hash
