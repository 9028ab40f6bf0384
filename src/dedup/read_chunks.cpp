// SPDX-License-Identifier: Apache-2.0
// A file passes through one buffer: it is filled, cut, the whole chunks in it are digested side by
// side and handed on, and the open one moves to the front.
//
// Invariant: the buffer begins with the open chunk, and grows only if one chunk does not fit.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "warren/dedup.hpp"

namespace warren::dedup {

namespace {

constexpr u64 buffer_bytes = 16 * mib;

bool is_all_zero(std::span<const std::byte> bytes) {
    if (bytes.empty()) return true;
    return bytes[0] == std::byte{0} &&
           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

/// Cuts into blocks of one size, with the calls of chunk::Chunker.
class Cutter {
 public:
    Errc open(const Splitter& splitter) {
        block_bytes_ = splitter.block_bytes;
        return block_bytes_ != 0 ? Errc::ok : chunker_.open(splitter.rule, splitter.threads);
    }
    void feed(std::span<const std::byte> bytes, std::vector<u64>& ends) {
        if (block_bytes_ == 0) return chunker_.feed(bytes, ends);
        position_ += bytes.size();
        while (last_end_ + block_bytes_ <= position_)
            ends.push_back(last_end_ += block_bytes_);
    }
    void finish(std::vector<u64>& ends) {
        if (block_bytes_ == 0) return chunker_.finish(ends);
        if (last_end_ < position_) ends.push_back(position_);
    }

 private:
    u64 block_bytes_ = 0;
    u64 position_ = 0;
    u64 last_end_ = 0;
    chunk::Chunker chunker_;
};

class Reader {
 public:
    Reader(int descriptor, const Splitter& splitter,
           const std::function<bool(std::span<const FileChunk>)>& visit, u64 most_bytes)
        : descriptor_(descriptor),
          splitter_(splitter),
          visit_(visit),
          left_(most_bytes),
          buffer_(std::min(buffer_bytes, std::max(most_bytes, u64{1}))) {}

    Errc run() {
        WARREN_TRY(cutter_.open(splitter_));
        while (true) {
            if (filled_ == buffer_.size()) buffer_.resize(buffer_.size() * 2);
            const u64 before = filled_;
            bool is_end = false;
            WARREN_TRY(fill(is_end));
            const std::span<const std::byte> all(buffer_);
            ends_.clear();
            cutter_.feed(all.subspan(before, filled_ - before), ends_);
            if (is_end) cutter_.finish(ends_);
            WARREN_TRY(hand_on());
            if (is_end) return Errc::ok;
        }
    }

 private:
    Errc fill(bool& is_end) {
        while (filled_ < buffer_.size()) {
            const u64 wanted = std::min(left_, buffer_.size() - filled_);
            const ssize_t count = ::read(descriptor_, buffer_.data() + filled_, wanted);
            if (count < 0 && errno == EINTR) continue;
            if (count < 0) return static_cast<Errc>(errno);
            if (count == 0) {
                is_end = true;
                return Errc::ok;
            }
            filled_ += static_cast<u64>(count);
            left_ -= static_cast<u64>(count);
        }
        return Errc::ok;
    }

    /// Digests and hands on the chunks that end in the buffer.
    Errc hand_on() {
        if (ends_.empty()) return Errc::ok;
        const u32 size = hash::digest_bytes(splitter_.algorithm);
        const std::span<const std::byte> all(buffer_);
        pieces_.clear();
        u64 start = base_;
        for (u64 end : ends_) {
            pieces_.push_back(all.subspan(start - base_, end - start));
            start = end;
        }
        digests_.resize(pieces_.size() * size);
        WARREN_TRY(
            hash::hash_many(splitter_.algorithm, pieces_, digests_,
                            {.threads = splitter_.threads, .processor = hash::Processor::cpu}));
        chunks_.clear();
        for (size_t index = 0; index < pieces_.size(); ++index) {
            const u64 offset = base_ + static_cast<u64>(pieces_[index].data() - all.data());
            chunks_.push_back({offset, pieces_[index],
                               std::span<const u8>(digests_).subspan(index * size, size),
                               is_all_zero(pieces_[index])});
        }
        if (!visit_(chunks_)) return Errc::canceled;
        const u64 done = ends_.back() - base_;
        std::memmove(buffer_.data(), buffer_.data() + done, filled_ - done);
        filled_ -= done;
        base_ = ends_.back();
        return Errc::ok;
    }

    int descriptor_;
    const Splitter& splitter_;
    const std::function<bool(std::span<const FileChunk>)>& visit_;
    u64 left_;  // to read
    std::vector<std::byte> buffer_;
    u64 filled_ = 0;
    u64 base_ = 0;  // position in the file of the buffer's first byte
    Cutter cutter_;
    std::vector<u64> ends_;
    std::vector<hash::Bytes> pieces_;
    std::vector<u8> digests_;
    std::vector<FileChunk> chunks_;
};

}  // namespace

Errc read_chunks(int descriptor, const Splitter& splitter,
                 const std::function<bool(std::span<const FileChunk>)>& visit, u64 most_bytes) {
    return Reader(descriptor, splitter, visit, most_bytes).run();
}

}  // namespace warren::dedup
