// SPDX-License-Identifier: Apache-2.0
// One loop implements all rules. They differ in three distances from the start of a chunk, in the
// distance of the cut from the end of its window, and in whether a window may end with the stream.
#include "chunk/select.hpp"

#include <algorithm>

#include "chunk/tables.hpp"

namespace warren::chunk {

void CandidateList::assign(std::span<const u64> bits, u64 base, u64 count, u64 least) {
    list_.clear();
    cursor_ = 0;
    base_ = base;
    is_dense_ = false;
    const size_t most = static_cast<size_t>(count / 64 + 16);
    for (size_t index = 0; index < bits.size(); ++index) {
        for (u64 word = bits[index]; word != 0; word &= word - 1) {
            const u64 end = base + index * 64 + static_cast<u64>(std::countr_zero(word)) + 1;
            if (end < least) continue;
            if (list_.size() == most) {
                is_dense_ = true;
                bits_.assign(bits.begin(), bits.end());
                for (u64 gone = base + 1; gone < least && gone <= base + count; ++gone)
                    bits_[(gone - base - 1) / 64] &= ~(u64{1} << ((gone - base - 1) % 64));
                return;
            }
            list_.push_back(end);
        }
    }
    list_.insert(list_.end(), stops, no_candidate);
}

void CandidateList::assign_list(std::span<const u32> ends, u64 base, u64 least) {
    cursor_ = 0;
    is_dense_ = false;
    list_.resize(ends.size() + stops);
    size_t count = 0;
    for (const u32 end : ends) {
        list_[count] = base + end;
        count += base + end >= least;
    }
    list_.resize(count);
    list_.insert(list_.end(), stops, no_candidate);
}

void CandidateList::assign_flagged(std::span<const u32> entries, u32 flag, u64 base, u64 least) {
    cursor_ = 0;
    is_dense_ = false;
    list_.clear();
    for (const u32 entry : entries) {
        const u64 end = base + (entry & list_end_mask);
        if ((entry & flag) != 0 && end >= least) list_.push_back(end);
    }
    list_.insert(list_.end(), stops, no_candidate);
}

u64 CandidateList::next_in_bits(u64 end) const {
    const u64 from = end > base_ ? end - base_ - 1 : 0;
    size_t index = from / 64;
    if (index >= bits_.size()) return no_candidate;
    u64 word = bits_[index] & (~u64{0} << (from % 64));
    while (word == 0) {
        if (++index == bits_.size()) return no_candidate;
        word = bits_[index];
    }
    return base_ + index * 64 + static_cast<u64>(std::countr_zero(word)) + 1;
}

Selector::Selector(const Rule& rule) : rule_(rule) {
    first_bytes_ = rule.minimum_bytes;
    last_bytes_ = rule.maximum_bytes;
    if (rule.method == Method::buzhash) {
        lag_bytes_ = rule.window_bytes;
        first_bytes_ += rule.window_bytes;
        last_bytes_ -= 1;
    }
    if (rule.method == Method::fastcdc) {
        lag_bytes_ = 1;
        head_bytes_ = rule.minimum_bytes / 2 * 2;
        // The hash begins at the minimum, and covers a whole window from here on.
        first_bytes_ = head_bytes_ + gear_window;
        last_bytes_ = rule.maximum_bytes / 2 * 2;
        early_bytes_ = rule.average_bytes / 2 * 2 + 1;
    }
}

void Selector::cut_at(u64 at) {
    start_ = at;
    pending_ = no_candidate;
    head_bytes_ = rule_.minimum_bytes / 2 * 2;
    head_hash_ = 0;
}

/// Tests the windows of a fastcdc chunk that are shorter because the hash begins at the minimum.
void Selector::look_at_head(u64 known, const Stretch& stretch) {
    while (pending_ == no_candidate && head_bytes_ + 1 < first_bytes_ &&
           head_bytes_ < last_bytes_ && start_ + head_bytes_ < known) {
        const u8 byte = stretch.bytes[start_ + head_bytes_ - stretch.base];
        head_hash_ = (head_hash_ << 1) + fastcdc_table[byte];
        ++head_bytes_;
        const u64 mask = head_bytes_ < early_bytes_ ? rule_.early_mask : rule_.mask;
        if ((head_hash_ & mask) == 0) pending_ = start_ + head_bytes_;
    }
}

u64 Selector::next_candidate(CandidateList& candidates, CandidateList& early) {
    if (pending_ != no_candidate) return pending_;
    const u64 from = start_ + first_bytes_;
    if (rule_.method != Method::fastcdc) return candidates.next(from);
    const u64 border = start_ + early_bytes_;
    if (from < border) {
        const u64 end = early.next(from);
        if (end < border) return end;
    }
    return candidates.next(std::max(from, border));
}

void Selector::run(CandidateList& candidates, CandidateList& early, u64 known,
                   const Stretch& stretch, std::vector<u64>& ends) {
    if (lag_bytes_ == 0) return run_without_lag(candidates, known, ends);
    while (true) {
        if (rule_.method == Method::fastcdc) look_at_head(known, stretch);
        const u64 end = next_candidate(candidates, early);
        if (end <= start_ + last_bytes_) {
            if (end == known) {
                pending_ = end;
                return;
            }
            ends.push_back(end - lag_bytes_);
            cut_at(ends.back());
        } else if (start_ + rule_.maximum_bytes <= known) {
            ends.push_back(start_ + rule_.maximum_bytes);
            cut_at(ends.back());
        } else {
            return;
        }
    }
}

/// The cut is the end of the window, so it is certain once the candidate is seen.
void Selector::run_without_lag(CandidateList& candidates, u64 known, std::vector<u64>& ends) {
    const u64 least = rule_.minimum_bytes;
    const u64 most = rule_.maximum_bytes;
    u64 start = start_;
    candidates.go_through([&](const auto& next) {
        const u64 end = std::min(next(start + least), start + most);
        if (end > known) return false;
        ends.push_back(end);
        start = end;
        return true;
    });
    start_ = start;
}

void Selector::finish(u64 known, std::vector<u64>& ends) {
    // A window of borg that ends with the stream does not count, nor does an unpaired byte of
    // fastcdc.
    if (pending_ != no_candidate && rule_.method == Method::fastcdc &&
        (pending_ - start_) % 2 == 0) {
        ends.push_back(pending_ - lag_bytes_);
        cut_at(ends.back());
    }
    if (start_ < known) {
        ends.push_back(known);
        cut_at(known);
    }
}

}  // namespace warren::chunk
