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
    ManyRetries(VolumeImplementation& volume, std::span<const ops::Command> commands,
                std::span<ops::Reply> replies)
        : volume_(volume), commands_(commands), replies_(replies) {
        for (u64 i = 0; i < replies.size(); ++i) {
            if (is_open(replies[i])) left_.push_back({i, {}, false});
        }
    }

    /// Runs the commands until each has a result. A command whose retry reason cannot be served
    /// ends with an error.
    void run() {
        std::vector<ops::Command> again;
        std::vector<ops::Reply> answers;
        u64 width = left_.size();  // how many commands may be run again
        for (u64 round = left_.size();;) {
            serve_all(std::span(left_).first(round));
            width = std::max(width, 2 * drop_done());
            const u64 count = std::min<u64>(width, left_.size());
            if (count == 0) return;
            again.clear();
            for (u64 i = 0; i < count; ++i)
                again.push_back(commands_[left_[i].item]);
            answers.resize(count);
            volume_.engine_->attempt_many(again, answers);
            for (u64 i = 0; i < count; ++i) {
                replies_[left_[i].item] = answers[i];
                left_[i].is_done = !is_open(answers[i]);
            }
            const u64 done = drop_done();
            round = count - done;
            width = std::max(width_min, 2 * done);
        }
    }

 private:
    struct Left {
        u64 item;
        Attempts attempts;
        bool is_done = false;
    };

    /// Drops finished commands and returns their number.
    u64 drop_done() {
        return std::erase_if(left_, [](const Left& one) { return one.is_done; });
    }
    void end(Left& one, Errc code) {
        replies_[one.item].code = code;
        one.is_done = true;
    }

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
    bool is_same(const Left& one, const Left& other) const {
        const auto first = retry_order(one);
        const auto second = retry_order(other);
        return std::get<0>(first) == std::get<0>(second) &&
               std::get<1>(first) == std::get<1>(second);
    }

    /// Serves the retry reasons of `round`.
    void serve_all(std::span<Left> round) {
        std::ranges::sort(round, {}, [&](const Left& one) { return retry_order(one); });
        load_blocks(round);
        for (u64 begin = 0, end = 0; begin < round.size(); begin = end) {
            const bool shares_leaf = is_structure(replies_[round[begin].item].code);
            const u64 most = shares_leaf ? format::leaf_entries_max : round.size();
            for (end = begin + 1; end < std::min(begin + most, round.size()); ++end) {
                if (!is_same(round[begin], round[end])) break;
            }
            serve_same(round.subspan(begin, end - begin));
        }
        std::ranges::sort(round, {}, &Left::item);
    }

    /// Whether a command may be run again: for lack of space as may_find_space() decides, after
    /// apparent damage only a few times.
    bool may_go_on(Attempts& attempts, Errc code) {
        if (code == Errc::need_space) return volume_.may_find_space(attempts);
        return code != Errc::corrupt || ++attempts.damaged < damaged_max;
    }

    /// Loads all blocks that `round` requests in one call.
    void load_blocks(std::span<const Left> round) {
        places_.clear();
        for (const Left& one : round) {
            const ops::Reply& reply = replies_[one.item];
            const bool is_block = reply.code == Errc::need_block;
            if (is_block && (places_.empty() || places_.back() != reply.needed_place)) {
                places_.push_back(reply.needed_place);
            }
        }
        loaded_.resize(places_.size());
        volume_.load_blocks(places_, loaded_);
    }

    /// Serves the retry reason that these commands share.
    void serve_same(std::span<Left> same) {
        const ops::Reply& reply = replies_[same.front().item];
        const RetryReason retry_reason{reply.code, reply.needed_place, reply.needed_inode,
                                       reply.needed_key, reply.may_use_reserve};
        bool is_wanted = false;
        for (Left& one : same) {
            if (may_go_on(one.attempts, retry_reason.code)) {
                is_wanted = true;
            } else {
                end(one, retry_reason.code == Errc::need_space ? Errc::no_space : Errc::corrupt);
            }
        }
        if (!is_wanted) return;
        const Errc served = serve(retry_reason, same.front().attempts);
        if (served == Errc::ok) return;
        for (Left& one : same) {
            if (!one.is_done) end(one, served);
        }
    }
    Errc serve(const RetryReason& retry_reason, Attempts& attempts) {
        if (retry_reason.code == Errc::need_block) {
            const auto found = std::ranges::lower_bound(places_, retry_reason.place);
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
    const std::span<const ops::Command> commands_;
    const std::span<ops::Reply> replies_;
    std::vector<Left> left_;    // sorted by item
    std::vector<u64> places_;   // addresses of the requested blocks, sorted
    std::vector<Errc> loaded_;  // the result of each load
};

std::vector<ops::Reply> VolumeImplementation::execute_many(std::span<const ops::Command> commands) {
    std::vector<ops::Reply> replies(commands.size());
    engine_->attempt_many(commands, replies);
    ManyRetries(*this, commands, replies).run();
    return replies;
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
