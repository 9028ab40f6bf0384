// SPDX-License-Identifier: Apache-2.0
// Threads take ranges of pieces that are large enough to fill the lanes, and smaller towards the
// end, so that all threads finish at about the same time. Within a range the longest pieces come
// first, so that the lanes do, too.
#include "hash/pieces.hpp"

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "base/workers.hpp"
#include "hash/alone.hpp"
#include "hash/blake3_tree.hpp"

namespace warren::hash {
namespace {

// For less work than this per thread, starting another thread takes longer than it saves.
constexpr u64 least_bytes_per_thread = 256 * kib;
constexpr u64 least_share_bytes = 256 * kib;
constexpr u64 most_share_bytes = 8 * mib;

/// Divides pieces into ranges by bytes: a thread gets half of its part of what is left.
class Shares {
 public:
    Shares(const Pieces& pieces, u32 threads, u32 lanes)
        : pieces_(pieces),
          threads_(threads),
          left_bytes_(pieces.bytes()),
          pieces_at_least_(pieces.count() / threads >= lanes ? lanes : 1) {}

    /// Fills `share` with the next pieces. Returns false if none are left.
    bool take(u64& first, std::vector<Bytes>& share) {
        constexpr u64 most_pieces = 65536;
        const std::lock_guard lock(mutex_);
        share.clear();
        first = next_;
        const u64 part_bytes = threads_ == 1 ? left_bytes_ : left_bytes_ / threads_ / 2;
        const u64 share_bytes = std::clamp(part_bytes, least_share_bytes, most_share_bytes);
        u64 bytes = 0;
        for (; next_ < pieces_.count() && share.size() < most_pieces; ++next_) {
            if (bytes >= share_bytes && share.size() >= pieces_at_least_) break;
            share.push_back(pieces_[next_]);
            bytes += share.back().size();
        }
        left_bytes_ -= bytes;
        return !share.empty();
    }

 private:
    const Pieces& pieces_;
    u32 threads_;
    u64 left_bytes_;
    u64 pieces_at_least_;
    std::mutex mutex_;
    u64 next_ = 0;
};

void hash_each_alone(Algorithm algorithm, std::span<const Bytes> share, u8* digests) {
    for (const Bytes& piece : share) {
        hash_alone(algorithm, piece, digests);
        digests += digest_bytes(algorithm);
    }
}

/// Whether lengths differ, and sorting takes little time compared to hashing.
bool is_worth_sorting(std::span<const Bytes> share) {
    constexpr u64 least_piece_bytes = 4 * kib;
    if (share.size() <= 1) return false;
    u64 bytes = 0;
    bool is_equal = true;
    for (const Bytes& piece : share) {
        bytes += piece.size();
        is_equal = is_equal && piece.size() == share[0].size();
    }
    return !is_equal && bytes / share.size() >= least_piece_bytes;
}

/// Calls hash(pieces, digests) with the longest pieces first, so that the lanes hash pieces of
/// similar length and finish together. The digests are stored in the order of the share.
template <class Hash>
void hash_longest_first(u64 digest_bytes, std::span<const Bytes> share, u8* digests,
                        const Hash& hash) {
    std::vector<std::pair<u64, u32>> order(share.size());  // length, index
    for (u32 index = 0; index < order.size(); ++index)
        order[index] = {share[index].size(), index};
    std::sort(order.begin(), order.end(), std::greater<>());
    std::vector<Bytes> pieces;
    pieces.reserve(order.size());
    for (const auto& [length, index] : order)
        pieces.push_back(share[index]);
    std::vector<u8> sorted(order.size() * digest_bytes);
    hash(pieces, sorted.data());
    const u8* digest = sorted.data();
    for (const auto& [length, index] : order) {
        std::copy_n(digest, digest_bytes, digests + index * digest_bytes);
        digest += digest_bytes;
    }
}

void hash_share(Algorithm algorithm, std::span<const Bytes> share, const Beginning& beginning,
                u8* digests) {
    const LaneSet& lanes = widest_lanes();
    if (algorithm == Algorithm::blake3) return hash_blake3_many(lanes, share, digests);
    if (algorithm == Algorithm::xxh3_128) return hash_each_alone(algorithm, share, digests);
    // With few lanes and SHA instructions, one message after the other is as fast or faster.
    const u32 alone = alone_at_most(algorithm, lanes.lanes);
    if (alone >= lanes.lanes && beginning.bytes == 0) {
        return hash_each_alone(algorithm, share, digests);
    }
    const auto hash = [&](std::span<const Bytes> pieces, u8* to) {
        lanes.many[static_cast<u32>(algorithm)](pieces, to, beginning, finish_alone(algorithm),
                                                alone);
    };
    if (!is_worth_sorting(share)) return hash(share, digests);
    hash_longest_first(digest_bytes(algorithm), share, digests, hash);
}

/// Hashes a few long BLAKE3 messages one after the other, each on all threads.
void hash_long_blake3(const Pieces& pieces, u8* digests, u32 threads) {
    for (u64 i = 0; i < pieces.count(); ++i) {
        hash_blake3_tree(widest_lanes(), pieces[i], 0, true, digests + 32 * i, threads);
    }
}

}  // namespace

u64 Pieces::bytes() const {
    if (!is_list()) return data_.size();
    u64 bytes = 0;
    for (const Bytes& piece : list_)
        bytes += piece.size();
    return bytes;
}

u32 threads_for(const Options& options, u64 bytes) {
    const u64 allowed = options.threads != 0 ? options.threads : usable_processors();
    return static_cast<u32>(std::clamp<u64>(bytes / least_bytes_per_thread, 1, allowed));
}

void hash_on_cpu(Algorithm algorithm, const Pieces& pieces, const Beginning& beginning, u8* digests,
                 const Options& options) {
    const u32 threads = threads_for(options, pieces.bytes());
    if (algorithm == Algorithm::blake3 && pieces.count() < 2 * threads) {
        return hash_long_blake3(pieces, digests, threads);
    }
    Shares shares(pieces, threads, widest_lanes().lanes);
    run_once(threads, [&](u32) {
        std::vector<Bytes> share;
        for (u64 first = 0; shares.take(first, share);)
            hash_share(algorithm, share, beginning, digests + first * digest_bytes(algorithm));
    });
}

}  // namespace warren::hash
