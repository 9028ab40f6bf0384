// SPDX-License-Identifier: Apache-2.0
// A stream is scanned in blocks by several threads, and the cuts are selected in order, block by
// block. Between calls only the last bytes, to which windows reach back, and the start of the
// current chunk are kept.
//
// Invariant: history_ holds the last bytes of the stream, preceded by zeros if the stream is
// shorter.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/workers.hpp"
#include "chunk/block_sizes.hpp"
#include "chunk/chains.hpp"
#include "chunk/scanner.hpp"
#include "chunk/select.hpp"
#include "warren/chunk.hpp"
#include "warren/chunk_gpu.hpp"

namespace warren::chunk {

namespace {

constexpr u64 blocks_in_round = 16;  // per thread

/// Output of one worker's scan.
struct Workspace {
    std::vector<u64> bits;
    std::vector<u64> early;
};

struct Block {
    CandidateList candidates;
    CandidateList early;
};

}  // namespace

class Chunker::Implementation {
 public:
    Implementation(const Rule& rule, u32 threads)
        : scanner_(rule),
          selector_(rule),
          workers_(threads),
          spaces_(workers_.threads()),
          history_(scanner_.history_bytes()),
          has_chains_(sizes_.has_chains && Chains::has_way(rule)),
          chains_(rule) {}

    void feed(std::span<const u8> bytes, std::vector<u64>& ends) {
        if (bytes.empty()) return;
        const Stretch stretch{bytes.data(), position_};
        u64 done = take_chains(stretch, bytes.size(), 0, ends);
        if (done == 0) {
            done = std::min<u64>(bytes.size(), history_.size());
            scan_seam(bytes.first(done));
            choose(position_ + done, stretch, blocks_[0], ends);
        }
        while (done < bytes.size()) {
            done = take_chains(stretch, bytes.size(), done, ends);
            done += skippable(position_ + done, bytes.size() - done);
            const u64 size = size_of_round(bytes.size() - done);
            scan_round(bytes.data() + done, position_ + done, size);
            for (u64 block = 0; block * sizes_.block_bytes < size; ++block) {
                const u64 known =
                    position_ + done + std::min((block + 1) * sizes_.block_bytes, size);
                choose(known, stretch, blocks_[block], ends);
            }
            done += size;
        }
        remember(bytes);
        position_ += bytes.size();
    }

    size_t feed_to_end(std::span<const u8> bytes, bool& is_end) {
        const Rule& rule = scanner_.rule();
        const RabinTables& tables = scanner_.rabin();
        const u64 start = selector_.start();
        const u64 known = position_ + bytes.size();
        auto byte = [&](u64 at) {
            return at < position_ ? history_[history_.size() - (position_ - at)]
                                  : bytes[at - position_];
        };
        u64 end = std::max(position_, start + rule.minimum_bytes);
        is_end = false;
        if (end <= known) {
            // The bytes before the stream count as zeros, which contribute nothing.
            u64 fingerprint = 0;
            for (u64 at = end - std::min<u64>(end, rule.window_bytes); at < end; ++at)
                fingerprint = tables.roll(fingerprint, byte(at), 0);
            while (true) {
                is_end =
                    (fingerprint & rule.mask) == rule.value || end - start == rule.maximum_bytes;
                if (is_end || end == known) break;
                const u8 out = end >= rule.window_bytes ? byte(end - rule.window_bytes) : u8{0};
                fingerprint = tables.roll(fingerprint, byte(end), out);
                ++end;
            }
        }
        const u64 taken = std::min(end, known) - position_;
        if (is_end) selector_.cut_at(end);
        remember(bytes.first(taken));
        position_ += taken;
        return taken;
    }

    Errc feed_by_gpu(GpuChunker& gpu, std::span<const u8> bytes, std::vector<u64>& ends) {
        const Stretch stretch{bytes.data(), position_};
        u64 done = 0;
        const Errc code = gpu.scan(bytes, position_, history_.data() + history_.size(),
                                   [&](CandidateList& candidates, CandidateList& early, u64 known) {
                                       selector_.run(candidates, early, known, stretch, ends);
                                       done = known - position_;
                                       return Errc::ok;
                                   });
        remember(bytes.first(done));
        position_ += done;
        feed(bytes.subspan(done), ends);
        return code;
    }

    void finish(std::vector<u64>& ends) {
        selector_.finish(position_, ends);
        reset();
    }

    void reset() {
        selector_ = Selector(scanner_.rule());
        if (has_chains_) chains_ = Chains(scanner_.rule());
        position_ = 0;
        std::fill(history_.begin(), history_.end(), u8{0});
    }

    u64 position() const { return position_; }
    u64 open_chunk() const { return selector_.start(); }

 private:
    /// If the rule has chains and the current chunk begins in this call: appends whole chunks as
    /// far as they are certain. Returns how many bytes of the call need no scan.
    u64 take_chains(const Stretch& stretch, u64 size, u64 done, std::vector<u64>& ends) {
        const u64 start = selector_.start();
        const u64 known = position_ + size;
        if (!has_chains_ || !chains_.is_worth_it() || start < position_) return done;
        if (known - start < chains_.least_bytes()) return done;
        const u64 end = chains_.run(workers_, stretch, start, known, ends);
        selector_.cut_at(end);
        return end - position_;
    }

    /// How many of the `left` bytes at `position` are within the minimum of the current chunk and
    /// need no scan. Whole cache lines only, and never the last byte, so that the selector learns
    /// how far the bytes reach.
    u64 skippable(u64 position, u64 left) const {
        // Fastcdc's selector reads some of these bytes itself.
        const u64 first = selector_.first_end();
        if (left == 0 || first <= position + 1 || scanner_.rule().method == Method::fastcdc)
            return 0;
        return std::min(first - 1 - position, left - 1) / 64 * 64;
    }

    u64 size_of_round(u64 left) const {
        const bool is_large = left >= sizes_.least_for_threads && workers_.threads() > 1;
        // One block at a time until chains can begin.
        if (!is_large || (has_chains_ && chains_.is_worth_it()))
            return std::min(left, sizes_.block_bytes);
        return std::min(left, blocks_in_round * workers_.threads() * sizes_.block_bytes);
    }

    /// Scans the windows that end near the beginning of a call and begin in the bytes before it.
    void scan_seam(std::span<const u8> bytes) {
        seam_.resize(2 * history_.size());
        std::memcpy(seam_.data(), history_.data(), history_.size());
        std::memcpy(seam_.data() + history_.size(), bytes.data(), bytes.size());
        if (blocks_.empty()) blocks_.resize(1);
        scan(seam_.data() + history_.size(), position_, bytes.size(), blocks_[0], spaces_[0]);
    }

    void scan_round(const u8* bytes, u64 base, u64 size) {
        const u64 count = (size + sizes_.block_bytes - 1) / sizes_.block_bytes;
        if (blocks_.size() < count) blocks_.resize(count);
        workers_.run_ranges(count, 1, [&](u64 block, u64, u32 worker) {
            const u64 from = block * sizes_.block_bytes;
            scan(bytes + from, base + from, std::min(sizes_.block_bytes, size - from),
                 blocks_[block], spaces_[worker]);
        });
    }

    void scan(const u8* bytes, u64 base, u64 count, Block& block, Workspace& space) const {
        const u64 words = (count + 63) / 64;
        space.bits.assign(words, 0);
        const bool has_two = scanner_.rule().method == Method::fastcdc;
        if (has_two) space.early.assign(words, 0);
        scanner_.scan(bytes, base, count, space.bits.data(), space.early.data());
        // Rabin's window starts filled with zeros; the others have no window before the first whole
        // one.
        const bool is_filled = scanner_.rule().method == Method::rabin;
        const u64 least = is_filled ? 0 : scanner_.rule().window_bytes;
        block.candidates.assign(space.bits, base, count, least);
        if (has_two) block.early.assign(space.early, base, count, least);
    }

    void choose(u64 known, const Stretch& stretch, Block& block, std::vector<u64>& ends) {
        selector_.run(block.candidates, block.early, known, stretch, ends);
    }

    void remember(std::span<const u8> bytes) {
        const size_t size = history_.size();
        if (bytes.size() >= size) {
            std::memcpy(history_.data(), bytes.data() + bytes.size() - size, size);
        } else {
            std::memmove(history_.data(), history_.data() + bytes.size(), size - bytes.size());
            std::memcpy(history_.data() + size - bytes.size(), bytes.data(), bytes.size());
        }
    }

    const BlockSizes sizes_ = block_sizes();
    Scanner scanner_;
    Selector selector_;
    Workers workers_;
    std::vector<Workspace> spaces_;
    std::vector<u8> history_;
    std::vector<u8> seam_;
    std::vector<Block> blocks_;
    bool has_chains_;
    Chains chains_;
    u64 position_ = 0;
};

namespace {

std::span<const u8> as_numbers(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const u8*>(bytes.data()), bytes.size()};
}

}  // namespace

Chunker::Chunker() = default;
Chunker::~Chunker() = default;
Chunker::Chunker(Chunker&&) noexcept = default;
Chunker& Chunker::operator=(Chunker&&) noexcept = default;

Errc Chunker::open(const Rule& rule, u32 threads) {
    if (!describe_problem(rule).empty()) return Errc::invalid;
    implementation_ = std::make_unique<Implementation>(rule, threads);
    return Errc::ok;
}

void Chunker::feed(std::span<const std::byte> bytes, std::vector<u64>& ends) {
    implementation_->feed(as_numbers(bytes), ends);
}

size_t Chunker::feed_to_end(std::span<const std::byte> bytes, bool& is_end) {
    return implementation_->feed_to_end(as_numbers(bytes), is_end);
}

Errc Chunker::feed_by_gpu(GpuChunker& gpu, std::span<const std::byte> bytes,
                          std::vector<u64>& ends) {
    return implementation_->feed_by_gpu(gpu, as_numbers(bytes), ends);
}

void Chunker::finish(std::vector<u64>& ends) {
    implementation_->finish(ends);
}

void Chunker::reset() {
    implementation_->reset();
}

u64 Chunker::position() const {
    return implementation_->position();
}

u64 Chunker::open_chunk() const {
    return implementation_->open_chunk();
}

std::vector<u64> cut(const Rule& rule, std::span<const std::byte> bytes, u32 threads) {
    std::vector<u64> ends;
    Chunker chunker;
    if (chunker.open(rule, threads) != Errc::ok) return ends;
    chunker.feed(bytes, ends);
    chunker.finish(ends);
    return ends;
}

}  // namespace warren::chunk
