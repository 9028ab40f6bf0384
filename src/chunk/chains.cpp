// SPDX-License-Identifier: Apache-2.0
// The length of a segment is a multiple of the maximum, and a chain begins one maximum before its
// segment: without matches every guess is right; otherwise the chains have usually met before the
// segment begins.
#include "chunk/chains.hpp"

#include <algorithm>

#include "chunk/tables.hpp"

namespace warren::chunk {

namespace {

constexpr u64 least_segment_bytes = 256 * kib;
constexpr u64 most_segment_bytes = 2 * mib;
constexpr u64 segments_for_item = chain_lanes;
constexpr u64 items_for_thread = 2;                       // so that a late thread has less to do
constexpr u64 segments_in_round = 8 * segments_for_item;  // per thread

/// The bits that are clear in the hash of every match.
u64 common_mask(const Rule& rule) {
    return rule.method == Method::gear ? rule.mask : rule.mask & rule.early_mask;
}

}  // namespace

/// Follows chains from segment to segment. A lane without a chain runs in parallel to another lane.
class Chains::Walk {
 public:
    Walk(const Rule& rule, const u8* bytes, u64 known)
        : rule_(rule),
          table_(rule.method == Method::gear ? gear_table.data() : fastcdc_table.data()),
          common_(common_mask(rule)),
          bytes_(bytes),
          known_(known) {}

    void run(std::span<Segment> segments) {
        segments_ = segments;
        for (u32 lane = 0; lane < chain_lanes; ++lane)
            take_segment(lane);
        while (true) {
            u64 steps = ~u64{0};
            u32 busy = chain_lanes;
            for (u32 lane = 0; lane < chain_lanes; ++lane) {
                if (heads_[lane].segment == nullptr) continue;
                busy = lane;
                steps = std::min(steps, heads_[lane].stop - lanes_[lane].at);
            }
            if (busy == chain_lanes) return;
            for (u32 lane = 0; lane < chain_lanes; ++lane) {
                if (heads_[lane].segment == nullptr) lanes_[lane].at = lanes_[busy].at;
            }
            step(steps);
        }
    }

 private:
    /// The chunk that a lane works on.
    struct Head {
        Segment* segment = nullptr;
        u64 start = 0;  // start of the chunk
        u64 stop = 0;   // where the mask changes or the chunk ends
    };

    void step(u64 steps) {
        if (can_step_lanes_by_vector()) {
            step_lanes_by_vector(table_, common_, bytes_, lanes_, steps);
        } else {
            step_lanes_by_number(table_, common_, bytes_, lanes_, steps);
        }
        for (u32 lane = 0; lane < chain_lanes; ++lane) {
            ChainLane& at = lanes_[lane];
            const u64 found = at.found;
            at.found = 0;
            if (heads_[lane].segment == nullptr) continue;
            if (found != 0) {
                // With gear a match ends the chunk; with fastcdc the matching byte opens the next
                // chunk.
                const u64 behind = begins_[lane] + found;
                begin_chunk(lane, rule_.method == Method::gear ? behind : behind - 1);
            } else if (at.at == heads_[lane].stop && !takes_late_mask(lane)) {
                begin_chunk(lane, heads_[lane].start + rule_.maximum_bytes);
            }
            begins_[lane] = at.at;
        }
    }

    void take_segment(u32 lane) {
        heads_[lane].segment = nullptr;
        if (next_ == segments_.size()) {
            lanes_[lane].mask = ~u64{0};
            return;
        }
        heads_[lane].segment = &segments_[next_++];
        heads_[lane].segment->starts.clear();
        begin_chunk(lane, heads_[lane].segment->guess);
        begins_[lane] = lanes_[lane].at;
    }

    void begin_chunk(u32 lane, u64 start) {
        Head& head = heads_[lane];
        for (;; start += rule_.maximum_bytes) {
            head.start = start;
            if (start >= head.segment->begin) head.segment->starts.push_back(start);
            if (start >= head.segment->end || known_ - start < rule_.maximum_bytes)
                return take_segment(lane);
            rule_.method == Method::gear ? begin_gear(lane) : begin_fastcdc(lane);
            if (lanes_[lane].at < head.stop || takes_late_mask(lane)) return;
        }
    }

    /// The first window that counts ends at the minimum. The hash begins without the window's last
    /// byte.
    void begin_gear(u32 lane) {
        const u64 first = heads_[lane].start + rule_.minimum_bytes - 1;
        u64 hash = 0;
        for (u64 at = first - (gear_window - 1); at < first; ++at)
            hash = hash + hash + table_[bytes_[at]];
        lanes_[lane] = {first, hash, rule_.mask, 0};
        heads_[lane].stop = heads_[lane].start + rule_.maximum_bytes - 1;
    }

    void begin_fastcdc(u32 lane) {
        const u64 start = heads_[lane].start;
        lanes_[lane] = {start + rule_.minimum_bytes / 2 * 2, 0, rule_.early_mask, 0};
        heads_[lane].stop = start + rule_.average_bytes / 2 * 2;
    }

    /// At a stop: whether the chunk continues, with the second mask of fastcdc.
    bool takes_late_mask(u32 lane) {
        Head& head = heads_[lane];
        const u64 last = head.start + rule_.maximum_bytes / 2 * 2;
        if (rule_.method != Method::fastcdc || head.stop == last) return false;
        lanes_[lane].mask = rule_.mask;
        head.stop = last;
        return true;
    }

    const Rule& rule_;
    const u64* table_;
    u64 common_;
    const u8* bytes_;
    u64 known_;
    std::span<Segment> segments_;
    size_t next_ = 0;
    ChainLanes lanes_;
    std::array<Head, chain_lanes> heads_;
    std::array<u64, chain_lanes> begins_{};  // where the lanes were before the last steps
};

Chains::Chains(const Rule& rule) : rule_(rule) {
    least_bytes_ = std::max(4 * least_segment_bytes, 16 * rule.maximum_bytes);
}

bool Chains::has_way(const Rule& rule) {
    constexpr u64 longest_bytes = 64 * mib;
    constexpr int least_bits = 4;
    if (rule.method != Method::gear && rule.method != Method::fastcdc) return false;
    if (rule.maximum_bytes > longest_bytes || rule.minimum_bytes < gear_window) return false;
    return rule.value == 0 && std::popcount(common_mask(rule)) >= least_bits;
}

u64 Chains::run(Workers& workers, const Stretch& stretch, u64 start, u64 known,
                std::vector<u64>& ends) {
    const u64 first = ends.size();
    u64 at = start - stretch.base;
    const u64 last = known - stretch.base;
    while (is_worth_it_ && last - at >= least_bytes_) {
        run_round(workers, stretch.bytes, at, last);
        u64 met = 0;
        for (Segment& segment : segments_)
            met += join(stretch.bytes, segment, last, at, ends);
        is_worth_it_ = met * 2 > segments_.size();
    }
    for (u64 index = first; index < ends.size(); ++index)
        ends[index] += stretch.base;
    return at + stretch.base;
}

/// Follows chains in segments from `start` to `known`, or as far as one round reaches.
void Chains::run_round(Workers& workers, const u8* bytes, u64 start, u64 known) {
    const u64 threads = workers.threads();
    const u64 share = (known - start) / (threads * items_for_thread * segments_for_item);
    u64 length = std::clamp(share, least_segment_bytes, most_segment_bytes);
    length = std::max(8 * rule_.maximum_bytes, (length + rule_.maximum_bytes - 1) /
                                                   rule_.maximum_bytes * rule_.maximum_bytes);
    const u64 count = std::min((known - start + length - 1) / length, threads * segments_in_round);
    segments_.resize(count);
    for (u64 index = 0; index < count; ++index) {
        Segment& segment = segments_[index];
        segment.begin = start + index * length;
        segment.guess = index == 0 ? start : segment.begin - rule_.maximum_bytes;
        segment.end = std::min(segment.begin + length, known);
    }
    const u64 in_item =
        threads == 1 ? count : std::clamp<u64>(count / threads, chain_lanes, segments_for_item);
    workers.run_ranges(count, in_item, [&](u64 first, u64 last, u32) {
        Walk(rule_, bytes, known).run(std::span(segments_).subspan(first, last - first));
    });
}

/// Continues from `start`, a cut in the segment or after it: chunk by chunk until a cut is also one
/// of the segment's chain, then along that chain. Returns false if they did not meet.
bool Chains::join(const u8* bytes, Segment& segment, u64 known, u64& start,
                  std::vector<u64>& ends) {
    auto is_over = [&] { return start >= segment.end || known - start < rule_.maximum_bytes; };
    if (is_over()) return true;
    while (true) {
        const auto met = std::lower_bound(segment.starts.begin(), segment.starts.end(), start);
        if (met != segment.starts.end() && *met == start) {
            ends.insert(ends.end(), met + 1, segment.starts.end());
            start = segment.starts.back();
            return true;
        }
        if (is_over()) return false;
        Segment one{start, start + 1, start + 1, {}};
        Walk(rule_, bytes, known).run(std::span(&one, 1));
        start = one.starts.front();
        ends.push_back(start);
    }
}

}  // namespace warren::chunk
