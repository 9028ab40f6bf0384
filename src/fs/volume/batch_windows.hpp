// SPDX-License-Identifier: Apache-2.0
// Divides items of one kind into batches, of the engine or of a replica. A batch is run window by
// window: a window ends before an item that depends on another one in it. Items of a window that
// the batch does not handle are run as commands before the next window begins.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/out_of_memory.hpp"
#include "fs/volume/batch_packer.hpp"
#include "fs/volume/volume_batches.hpp"

namespace warren {

/// With fewer items a batch takes longer than commands.
inline constexpr u64 batch_items_min = 16;
/// A batch that needs more windows has too many dependencies between its items.
inline constexpr u64 windows_max = 16;

/// How many items of a batch are done, and how many items one run could handle.
struct Progress {
    u64 done = 0;
    u64 span = 0;
};

/// Holds nothing during a window.
struct NoLocks {
    int operator()(u64 /*begin*/, u64 /*end*/) const { return 0; }
};

/// Runs an open batch of `items` items to its end, or for as long as that is efficient.
/// `finish(begin, end)` processes the results of a window. What `hold(begin, end)` returns lives
/// while the engine runs the window.
template <class Finish, class Hold>
Progress run_windows(VolumeImplementation& volume, ItemBatches& batches, u32 batch,
                     const ops::BatchHeader& header, u64 items, const Finish& finish,
                     const Hold& hold) {
    Progress progress{0, items};
    for (u64 windows = 0; progress.done < items && windows < windows_max;) {
        // Each run reads all items, so a batch much larger than a run is divided again.
        if (progress.span < items / 4) break;
        ops::BatchWindow window;
        window.begin = progress.done;
        window.end = std::min(items, progress.done + progress.span);
        // Not held while a commit, a load or space is waited for.
        const auto run = [&] {
            [[maybe_unused]] const auto held = hold(window.begin, window.end);
            return batches.run_batch(batch, header, window);
        };
        const Errc code = or_no_memory([&] { return volume.run_batch(run, window); });
        if (code == Errc::need_commit && progress.span > batch_items_min) {
            // The window changes more than one commit can hold.
            progress.span = (window.end - window.begin + 1) / 2;
            continue;
        }
        if (code != Errc::ok) break;
        finish(progress.done, window.done);
        if (window.done < window.end) ++windows;
        progress.done = window.done;
    }
    return progress;
}

inline ops::BatchHeader header_of(const Caller& caller) {
    ops::BatchHeader header;
    header.caller = credentials_of(caller);
    header.now = now_nanoseconds();
    return header;
}

/// Answers the items whose numbers are `some` by `run(items, answers)`.
template <class Item, class Answer, class Run>
void answer_some(const Request<Item, Answer>& request, const std::vector<u64>& some,
                 const Run& run) {
    if (some.empty()) return;
    std::vector<Item> items;
    items.reserve(some.size());
    for (const u64 i : some)
        items.push_back(request.items[i]);
    std::vector<Answer> answers(items.size(), Answer(Errc::no_memory));
    static_cast<void>(or_no_memory([&] { run(items, answers); }));
    for (std::size_t i = 0; i < some.size(); ++i)
        request.answers[some[i]] = answers[i];
}

/// A batch that is open and packed. When this ends it is closed, and all results are written.
class PackedBatch {
 public:
    virtual ~PackedBatch() = default;
    /// Items that the batch leaves have become commands when this returns.
    virtual Progress run() = 0;
};

/// `answer(memory, i)` returns the result of item i on success. `hold`: see run_windows().
template <class Item, class Answer, class AnswerOf, class Hold>
class PackedItems final : public PackedBatch {
 public:
    PackedItems(ItemBatches& batches, const Request<Item, Answer>& request, BatchPacker packer,
                const ops::BatchHeader& header, AnswerOf answer, Hold hold)
        : batches_(batches),
          request_(request),
          packer_(std::move(packer)),
          header_(header),
          answer_(std::move(answer)),
          hold_(std::move(hold)) {}
    ~PackedItems() override {
        if (!open_) return;
        write_answers();
        batches_.close_batch(open_->number);
    }

    /// Opens a batch and packs it: `pack(memory, i, word)` writes item i. Once.
    template <class Pack>
    Errc open(const ops::BatchShape& shape, const Pack& pack) {
        WARREN_LET(opened, batches_.open_batch(shape));
        open_ = *opened;
        packer_.pack([&](u64 i, u64& word) { pack(open_->memory, i, word); },
                     [&](const ops::BatchPart& part) { batches_.send_batch(open_->number, part); });
        return Errc::ok;
    }

    Progress run() override {
        const auto finish = [this](u64 begin, u64 end) { finish_window(begin, end); };
        return run_windows(request_.volume, batches_, open_->number, header_, request_.items.size(),
                           finish, hold_);
    }

 private:
    /// The results of the last window are written later.
    void finish_window(u64 begin, u64 end) {
        write_answers();
        unwritten_begin_ = begin;
        unwritten_end_ = end;
        request_.answered += end - begin;
        const Errc* const codes = open_->memory.codes;
        if (std::find(codes + begin, codes + end, Errc::retry) == codes + end) return;
        write_answers();
        std::vector<u64> left;
        for (u64 i = begin; i < end; ++i) {
            if (codes[i] == Errc::retry) left.push_back(i);
        }
        answer_some(request_, left, request_.by_commands);
    }

    void write_answers() {
        const u64 begin = unwritten_begin_;
        const u64 end = std::exchange(unwritten_end_, begin);
        if (begin == end) return;
        packer_.for_each_chunk([&](u64, u64 first, u64 last) {
            for (u64 i = std::max(first, begin); i < std::min(last, end); ++i) {
                const Errc code = open_->memory.codes[i];
                if (code == Errc::ok) {
                    request_.answers[i] = answer_(open_->memory, i);
                } else {
                    // The command for this item may run out of memory.
                    request_.answers[i] = code == Errc::retry ? Errc::no_memory : code;
                }
            }
        });
    }

    ItemBatches& batches_;
    const Request<Item, Answer> request_;
    BatchPacker packer_;
    const ops::BatchHeader header_;
    std::optional<OpenBatch> open_;
    u64 unwritten_begin_ = 0;
    u64 unwritten_end_ = 0;
    const AnswerOf answer_;
    const Hold hold_;
};

/// Opens a batch of this shape, whose names `packer` has measured, and packs it; null if it cannot
/// be opened. For `pack`, `answer` and `hold` see PackedItems, which keeps the last two.
template <class Item, class Answer, class Pack, class AnswerOf, class Hold>
std::unique_ptr<PackedBatch> pack_measured(ItemBatches& batches,
                                           const Request<Item, Answer>& request, BatchPacker packer,
                                           ops::BatchShape shape, const ops::BatchHeader& header,
                                           const Pack& pack, const AnswerOf& answer,
                                           const Hold& hold) {
    shape.items = request.items.size();
    shape.call_items = std::min(request.call_items, ops::batch_items_max);
    auto packed = std::make_unique<PackedItems<Item, Answer, AnswerOf, Hold>>(
        batches, request, std::move(packer), header, answer, hold);
    if (packed->open(shape, pack) != Errc::ok) return nullptr;
    return packed;
}

/// As pack_measured(); `words(i)` returns the number of words for the names of item i.
template <class Item, class Answer, class Words, class Pack, class AnswerOf, class Hold = NoLocks>
std::unique_ptr<PackedBatch> pack_batch(ItemBatches& batches, const Request<Item, Answer>& request,
                                        ops::BatchKind kind, const ops::BatchHeader& header,
                                        const Words& words, const Pack& pack,
                                        const AnswerOf& answer, const Hold& hold = {}) {
    BatchPacker packer(request.volume.thread_pool(), request.items.size());
    const ops::BatchShape shape{.kind = kind, .name_words = packer.measure(words)};
    return pack_measured(batches, request, std::move(packer), shape, header, pack, answer, hold);
}

/// Runs the first items by batches of at most `part` items, until fewer than `items_min` are left
/// or batches cannot continue; makes `part` smaller if one run cannot handle as many. While a batch
/// runs, the results of the one before are written and the next one is packed, where the engine
/// does that. `pack_part(batches, part)` returns the packed batch, or null. Returns how many are
/// done.
template <class Item, class Answer, class PackPart>
u64 run_batches(ItemBatches& batches, const Request<Item, Answer>& request,
                const PackPart& pack_part, u64 items_min, u64& part) {
    const u64 items = request.items.size();
    u64 done = 0;
    std::unique_ptr<PackedBatch> before;
    std::unique_ptr<PackedBatch> packed;
    std::unique_ptr<PackedBatch> next;
    while (items - done >= items_min) {
        const u64 count = std::min(part, items - done);
        packed = std::move(next);
        if (packed == nullptr) {
            before.reset();
            packed = pack_part(batches, request.part(done, count));
        }
        if (packed == nullptr) break;
        const u64 end = done + count;
        const auto pack_next = [&, end] {
            before.reset();
            if (items - end < items_min) return;
            const Request after = request.part(end, std::min(part, items - end));
            static_cast<void>(or_no_memory([&] { next = pack_part(batches, after); }));
        };
        static_cast<void>(batches.call_beside(pack_next));
        const Progress progress = packed->run();
        before = std::move(packed);
        done += progress.done;
        if (progress.done == count) continue;
        next.reset();
        if (progress.span >= count || progress.span < items_min) break;
        part = progress.span;
    }
    return done;
}

/// Runs all items on the side that is predicted to be faster: the replica or the CPU.
template <class Item, class Answer, class PackPart>
void on_either_side(const Request<Item, Answer>& request, QueryKind kind, const PackPart& pack_part,
                    u64 part) {
    const u64 before = request.answered;
    part = std::min(part, request.volume.replica()->window_items());
    const u64 items_min = request.volume.replica()->changes_min();
    const auto by_batches = [&](ItemBatches& batches) {
        // If memory runs out, the items that have a result are counted.
        static_cast<void>(
            or_no_memory([&] { run_batches(batches, request, pack_part, items_min, part); }));
    };
    const auto by_cpu = [&] {
        const u64 done = request.answered - before;
        if (done < request.items.size()) request.part(done, request.items.size() - done).give();
    };
    request.volume.replica()->change_items(kind, request.items.size(), by_batches, by_cpu);
}

/// Runs all items: by batches as large as possible, and by commands where batches cannot continue.
/// An engine may have none: one with its own memory, if a buffer limits that.
/// `pack_part`: see run_batches(); parts have at most `part` items.
template <class Item, class Answer, class PackPart>
void in_parts(const Request<Item, Answer>& request, QueryKind kind, const PackPart& pack_part,
              u64 part = ops::batch_items_max) {
    ItemBatches* const batches = request.volume.engine().batches();
    if (may_ask_replica(request.volume, request.items.size())) {
        return on_either_side(request, kind, pack_part, part);
    }
    const u64 items = request.items.size();
    for (u64 begin = 0; begin < items;) {
        if (batches != nullptr) {
            begin += run_batches(*batches, request.part(begin, items - begin), pack_part,
                                 batch_items_min, part);
        }
        if (begin == items) return;
        const u64 count = std::min(part, items - begin);
        request.part(begin, count).give();
        begin += count;
    }
}

}  // namespace warren
