// SPDX-License-Identifier: Apache-2.0
// Runs many commands at once: each retry reason is served once for all commands that share it, then
// the unfinished commands are run again together. If few have made progress, fewer are run again:
// when a commit makes room for a hundred, thousands need not compete for the next one.
//
// Invariant: the first unfinished command is in every round, after its retry reason was served.
#include <algorithm>
#include <array>
#include <span>
#include <tuple>
#include <vector>

#include "fs/volume/volume_implementation.hpp"

namespace warren {

/// The unfinished commands, with the retries of each so far.
class VolumeImplementation::ManyRetries {
 public:
    ManyRetries(VolumeImplementation& volume, std::span<ops::Reply> replies)
        : volume_(volume), replies_(replies) {
        for (u64 i = 0; i < replies.size(); ++i) {
            if (is_open(replies[i])) left_.push_back({i, {}, false});
        }
        round_ = left_.size();
        width_ = left_.size();
    }

    /// How many commands are run in the next round.
    u64 count() const { return std::min<u64>(width_, left_.size()); }
    u64 item(u64 index) const { return left_[index].item; }

    /// Serves the retry reasons of the last round. A command whose reason cannot be served ends
    /// with an error.
    void serve() {
        const auto round_end = left_.begin() + static_cast<std::ptrdiff_t>(round_);
        std::sort(left_.begin(), round_end, [&](const Left& one, const Left& other) {
            return retry_order(one) < retry_order(other);
        });
        load_blocks();
        for (u64 begin = 0; begin < round_;) {
            u64 end = begin + 1;
            while (end < round_ && end - begin < shared_max(begin) && is_same(begin, end))
                ++end;
            serve_same(begin, end);
            begin = end;
        }
        std::sort(left_.begin(), round_end,
                  [](const Left& one, const Left& other) { return one.item < other.item; });
        width_ = std::max(width_, 2 * drop_done());
    }

    /// Takes the replies of the round that count() and item() have defined.
    void look(std::span<const ops::Reply> answers) {
        for (u64 i = 0; i < answers.size(); ++i) {
            ops::Reply& reply = replies_[left_[i].item];
            reply = answers[i];
            left_[i].is_done = !is_open(reply);
        }
        const u64 done = drop_done();
        round_ = answers.size() - done;
        width_ = std::max(width_min, 2 * done);
    }

 private:
    /// Drops finished commands and returns their number.
    u64 drop_done() {
        return std::erase_if(left_, [](const Left& one) { return one.is_done; });
    }

    struct Left {
        u64 item;
        Attempts attempts;
        bool is_done = false;
    };

    static bool is_open(const ops::Reply& reply) {
        return !is_final(reply.code) || reply.code == Errc::corrupt;
    }
    static bool is_structure(Errc code) {
        return code == Errc::need_split || code == Errc::need_prune;
    }

    /// Sorts by code, then by address or inode, key and item.
    std::tuple<i32, u64, u64, u64> retry_order(const Left& one) const {
        const ops::Reply& reply = replies_[one.item];
        const auto code = static_cast<i32>(reply.code);
        if (reply.code == Errc::need_block) return {code, reply.needed_place, 0, one.item};
        if (!is_structure(reply.code)) return {code, 0, 0, one.item};
        return {code, reply.needed_inode, reply.needed_key, one.item};
    }
    /// Whether two commands share a retry reason. Changes of one tree at neighbouring keys count as
    /// the same, because they probably concern one leaf: splitting it twice would only leave
    /// half-empty leaves.
    bool is_same(u64 one, u64 other) const {
        const auto first = retry_order(left_[one]);
        const auto second = retry_order(left_[other]);
        return std::get<0>(first) == std::get<0>(second) &&
               std::get<1>(first) == std::get<1>(second);
    }
    u64 shared_max(u64 index) const {
        const bool shares_leaf = is_structure(replies_[left_[index].item].code);
        return shares_leaf ? format::leaf_entries_max : round_;
    }

    /// Whether a command may be run again: for lack of space as may_find_space() decides, after
    /// apparent damage only a few times.
    bool may_go_on(Attempts& attempts, Errc code) {
        if (code == Errc::need_space) return volume_.may_find_space(attempts);
        return code != Errc::corrupt || ++attempts.damaged < damaged_max;
    }

    /// Loads all requested blocks in one call.
    void load_blocks() {
        places_.clear();
        for (u64 i = 0; i < round_; ++i) {
            const ops::Reply& reply = replies_[left_[i].item];
            const bool is_block = reply.code == Errc::need_block;
            if (is_block && (places_.empty() || places_.back() != reply.needed_place)) {
                places_.push_back(reply.needed_place);
            }
        }
        loaded_.resize(places_.size());
        volume_.load_blocks(places_, loaded_);
    }

    /// Serves the retry reason that the commands [begin, end) share.
    void serve_same(u64 begin, u64 end) {
        const ops::Reply& reply = replies_[left_[begin].item];
        const RetryReason retry_reason{reply.code, reply.needed_place, reply.needed_inode,
                                       reply.needed_key, reply.may_use_reserve};
        std::vector<u64> waiting;
        for (u64 i = begin; i < end; ++i) {
            if (may_go_on(left_[i].attempts, retry_reason.code)) {
                waiting.push_back(left_[i].item);
            } else {
                const bool is_space = retry_reason.code == Errc::need_space;
                replies_[left_[i].item].code = is_space ? Errc::no_space : Errc::corrupt;
                left_[i].is_done = true;
            }
        }
        if (waiting.empty()) return;
        const Errc served = serve(retry_reason, left_[begin].attempts);
        if (served == Errc::ok) return;
        for (u64 i = begin; i < end; ++i) {
            if (left_[i].is_done) continue;
            replies_[left_[i].item].code = served;
            left_[i].is_done = true;
        }
    }
    Errc serve(const RetryReason& retry_reason, Attempts& attempts) {
        if (retry_reason.code == Errc::need_block) {
            const auto found = std::lower_bound(places_.begin(), places_.end(), retry_reason.place);
            const Errc loaded = loaded_[static_cast<u64>(found - places_.begin())];
            // The commit for another retry reason may have helped since.
            if (loaded == Errc::need_commit)
                return volume_.serve_block(retry_reason.place, attempts);
            return volume_.settle_block(loaded, retry_reason.place, attempts);
        }
        Attempts counted_above;
        const bool is_counted =
            retry_reason.code == Errc::need_space || retry_reason.code == Errc::corrupt;
        return volume_.serve(retry_reason, is_counted ? counted_above : attempts);
    }

    static constexpr u32 damaged_max = 4;
    static constexpr u64 width_min = 64;

    VolumeImplementation& volume_;
    std::span<ops::Reply> replies_;
    std::vector<Left> left_;    // sorted by item
    u64 round_ = 0;             // how many of them, from the first on, were in the last round
    u64 width_ = 0;             // how many will be in the next
    std::vector<u64> places_;   // addresses of the requested blocks, sorted
    std::vector<Errc> loaded_;  // the result of each load
};

std::vector<ops::Reply> VolumeImplementation::execute_many(std::span<const ops::Command> commands) {
    std::vector<ops::Reply> replies(commands.size());
    engine_->attempt_many(commands, replies);
    ManyRetries retry_reasons(*this, replies);
    std::vector<ops::Command> again;
    std::vector<ops::Reply> answers;
    for (;;) {
        retry_reasons.serve();
        if (retry_reasons.count() == 0) return replies;
        again.clear();
        for (u64 i = 0; i < retry_reasons.count(); ++i)
            again.push_back(commands[retry_reasons.item(i)]);
        answers.resize(again.size());
        engine_->attempt_many(again, answers);
        retry_reasons.look(answers);
    }
}

Errc VolumeImplementation::run_batch(const std::function<Errc()>& run,
                                     const ops::BatchWindow& window) {
    constexpr u32 retries_max = 100;
    Attempts attempts;
    bool has_committed = false;
    for (;;) {
        const Errc code = run();
        if (is_final(code)) return code;
        if (code == Errc::need_commit && std::exchange(has_committed, true)) return code;
        if (attempts.retries > retries_max) return code;
        if (code != Errc::need_block) {
            WARREN_TRY(serve({code, 0, 0, 0, false}, attempts));
            continue;
        }
        // Errors are ignored here: the loads below fail again and report them.
        std::array<Errc, ops::needed_places_max> ignored;
        load_blocks(std::span(window.needed_places).first(window.needed_count), ignored);
        for (u32 i = 0; i < window.needed_count; ++i)
            WARREN_TRY(serve({code, window.needed_places[i], 0, 0, false}, attempts));
    }
}

}  // namespace warren
