// SPDX-License-Identifier: Apache-2.0
// Divides the items into batches. A batch is run window by window: a window ends before an item
// that depends on another one in it. Items of a window that the engine does not handle are run as
// commands before the next window begins. Removals of directories are always commands, because
// whether a directory is empty depends on the items before it. Large numbers of lookups use a
// stream (lookup_segments.hpp); a batch handles those that the stream leaves.
#include "fs/volume/volume_batches.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/on_exit.hpp"
#include "base/out_of_memory.hpp"
#include "fs/volume/batch_packer.hpp"
#include "fs/volume/data_locks.hpp"
#include "fs/volume/item_parts.hpp"
#include "fs/volume/lookup_segments.hpp"
#include "fs/volume/tree_cloner.hpp"

namespace warren {
namespace {

/// With fewer items a batch takes longer than commands.
constexpr u64 batch_items_min = 16;
/// A batch that needs more windows has too many dependencies between its items.
constexpr u64 windows_max = 16;

/// How many items of a batch are done, and how many items one run could handle.
struct Progress {
    u64 done = 0;
    u64 span = 0;
};

/// Holds nothing during a window.
struct NoLocks {
    int operator()(u64 /*begin*/, u64 /*end*/) const { return 0; }
};

/// Runs a batch of `items` items to its end, or for as long as that is efficient. `finish(begin,
/// end)` processes the results of a window. What `hold(begin, end)` returns lives while the engine
/// runs the window.
template <class Finish, class Hold>
Progress run_windows(VolumeImplementation& volume, ItemBatches& batches,
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
            return batches.run_batch(header, window);
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

ops::BatchHeader header_of(const Caller& caller) {
    ops::BatchHeader header;
    header.caller = credentials_of(caller);
    header.now = now_nanoseconds();
    return header;
}

/// Items of one kind, and their results.
template <class Item, class Answer>
struct Request {
    using ByCommands = void (*)(VolumeImplementation&, const Caller&, std::span<const Item>,
                                std::span<Answer>);

    VolumeImplementation& volume;
    const Caller& caller;
    std::span<const Item> items;
    std::span<Answer> answers;
    ByCommands by_commands;
    u64& answered;  // of the whole request, counted from the first item on

    Request part(u64 begin, u64 count) const {
        return {volume,      caller,  items.subspan(begin, count), answers.subspan(begin, count),
                by_commands, answered};
    }
    /// Runs all items as commands.
    void give() const {
        std::ranges::fill(answers, Answer(Errc::no_memory));  // in case memory runs out
        answered += items.size();
        by_commands(volume, caller, items, answers);
    }
};

/// Runs the items that a window has left as commands, and stores the results.
template <class Item, class Answer>
void give_left_over(const Request<Item, Answer>& request, const Errc* codes, u64 begin, u64 end) {
    std::vector<u64> left;
    std::vector<Item> items;
    for (u64 i = begin; i < end; ++i) {
        if (codes[i] != Errc::retry) continue;
        left.push_back(i);
        items.push_back(request.items[i]);
    }
    if (left.empty()) return;
    std::vector<Answer> answers(items.size(), Answer(Errc::no_memory));
    static_cast<void>(
        or_no_memory([&] { request.by_commands(request.volume, request.caller, items, answers); }));
    for (std::size_t i = 0; i < left.size(); ++i)
        request.answers[left[i]] = answers[i];
}

/// Opens a batch of this shape, whose names `packer` has measured, and runs it. `pack(memory, i,
/// word)` writes item i; `answer(memory, i)` returns its result on success. `hold`: see
/// run_windows().
template <class Item, class Answer, class Pack, class AnswerOf, class Hold = NoLocks>
Progress run_batch(ItemBatches& batches, const Request<Item, Answer>& request, BatchPacker& packer,
                   const ops::BatchShape& shape, const ops::BatchHeader& header, const Pack& pack,
                   const AnswerOf& answer, const Hold& hold = {}) {
    const Result<ops::BatchMemory> opened = batches.open_batch(shape);
    if (!opened) return {0, shape.items};
    const OnExit close([&] { batches.close_batch(); });
    const ops::BatchMemory& memory = *opened;
    packer.pack([&](u64 i, u64& word) { pack(memory, i, word); },
                [&](const ops::BatchPart& part) { batches.send_batch(part); });
    const auto finish = [&](u64 begin, u64 end) {
        packer.for_each_chunk([&](u64, u64 first, u64 last) {
            for (u64 i = std::max(first, begin); i < std::min(last, end); ++i) {
                const Errc code = memory.codes[i];
                if (code == Errc::ok) {
                    request.answers[i] = answer(memory, i);
                } else {
                    // The command for this item may run out of memory.
                    request.answers[i] = code == Errc::retry ? Errc::no_memory : code;
                }
            }
        });
        request.answered += end - begin;
        give_left_over(request, memory.codes, begin, end);
    };
    return run_windows(request.volume, batches, header, shape.items, finish, hold);
}

/// Runs all items: by batches as large as possible, and by commands where batches cannot continue.
/// `by_batch(batches, part)` returns its progress with a part of at most `part` items.
template <class Item, class Answer, class ByBatch>
void in_parts(const Request<Item, Answer>& request, const ByBatch& by_batch,
              u64 part = ops::batch_items_max) {
    ItemBatches* const batches = request.volume.engine().batches();
    const u64 items = request.items.size();
    for (u64 begin = 0; begin < items;) {
        const u64 count = std::min(part, items - begin);
        Progress progress{0, count};
        if (batches != nullptr && count >= batch_items_min) {
            progress = by_batch(*batches, request.part(begin, count));
        }
        begin += progress.done;
        if (progress.done == count) continue;
        if (progress.span < count && progress.span >= batch_items_min) {
            part = progress.span;
            continue;
        }
        request.part(begin, count - progress.done).give();
        begin += count - progress.done;
    }
}

/// The shape of a batch of items with one name each.
template <class Item, class Answer>
ops::BatchShape measure(ops::BatchKind kind, const Request<Item, Answer>& request,
                        BatchPacker& packer) {
    ops::BatchShape shape;
    shape.kind = kind;
    shape.items = request.items.size();
    shape.name_words = packer.measure([&](u64 i) { return words_of(request.items[i].name); });
    return shape;
}

/// Whether a batch can create `one`: it does not support symbolic links and devices, and all items
/// must have the same references as `first`.
bool is_plain(const CreateOptions& one, const CreateOptions& first) {
    return one.target.empty() && one.device == 0 && one.hold == first.hold &&
           one.open == first.open && !format::is_device(one.mode) && ops::can_be_made(one.mode) &&
           !format::is_symlink(one.mode);
}

using Creations = Request<Creation, Result<Attributes>>;
using Moves = Request<Move, Errc>;
using Unlinks = Request<Unlink, Errc>;
using Lookups = Request<Lookup, Result<Attributes>>;

Progress create_batch(ItemBatches& batches, const Creations& request) {
    const std::span<const Creation> creations = request.items;
    BatchPacker packer(request.volume.thread_pool(), creations.size());
    const CreateOptions& options = creations[0].options;
    std::atomic<bool> has_others{false};  // items that are not plain
    std::atomic<bool> has_modes{false};
    // Relaxed: the end of the workers' run publishes it. Stored only once, because the cache line
    // is shared.
    const auto note = [](std::atomic<bool>& fact) {
        if (!fact.load(std::memory_order_relaxed)) fact.store(true, std::memory_order_relaxed);
    };
    ops::BatchShape shape;
    shape.kind = ops::BatchKind::create;
    shape.items = creations.size();
    shape.name_words = packer.measure([&](u64 i) {
        const Creation& one = creations[i];
        if (!is_plain(one.options, options)) note(has_others);
        if (one.options.mode != options.mode) note(has_modes);
        return words_of(one.name);
    });
    if (has_others.load(std::memory_order_relaxed)) return {0, creations.size()};
    shape.has_modes = has_modes.load(std::memory_order_relaxed);
    ops::BatchHeader header = header_of(request.caller);
    header.mode = options.mode;
    header.references = request.volume.references_for(options.hold, options.open);
    const auto pack = [&](const ops::BatchMemory& memory, u64 i, u64& word) {
        const Creation& one = creations[i];
        memory.operands[i] = pack_operand(memory.names, one.directory, one.name, word);
        if (shape.has_modes) memory.modes[i] = static_cast<u16>(one.options.mode);
    };
    return run_batch(
        batches, request, packer, shape, header, pack, [&](const ops::BatchMemory& memory, u64 i) {
            return ops::made_attributes(memory.made[i], header, creations[i].directory.inode);
        });
}

Progress move_batch(ItemBatches& batches, const Moves& request) {
    const std::span<const Move> moves = request.items;
    BatchPacker packer(request.volume.thread_pool(), moves.size());
    const auto second_name = [&](u64 i) {
        return moves[i].name == moves[i].new_name ? std::string_view() : moves[i].new_name;
    };
    ops::BatchShape shape;
    shape.kind = ops::BatchKind::move;
    shape.items = moves.size();
    shape.name_words =
        packer.measure([&](u64 i) { return words_of(moves[i].name) + words_of(second_name(i)); });
    const auto pack = [&](const ops::BatchMemory& memory, u64 i, u64& word) {
        const Move& one = moves[i];
        ops::BatchOperand* operands = memory.operands + 2 * i;
        operands[0] = pack_operand(memory.names, one.from, one.name, word);
        operands[1] = pack_operand(memory.names, one.to, second_name(i), word);
        if (one.name != one.new_name) return;
        operands[1].name = operands[0].name;
        operands[1].where |= u64{length_of(one.name)} << 48;
    };
    return run_batch(batches, request, packer, shape, header_of(request.caller), pack,
                     [](const ops::BatchMemory&, u64) { return Errc::ok; });
}

/// A function that packs an item with one name.
template <class Item>
auto pack_name(std::span<const Item> items) {
    return [items](const ops::BatchMemory& memory, u64 i, u64& word) {
        memory.operands[i] = pack_operand(memory.names, items[i].directory, items[i].name, word);
    };
}

Progress remove_batch(ItemBatches& batches, const Unlinks& request) {
    BatchPacker packer(request.volume.thread_pool(), request.items.size());
    const ops::BatchShape shape = measure(ops::BatchKind::remove, request, packer);
    return run_batch(batches, request, packer, shape, header_of(request.caller),
                     pack_name(request.items),
                     [](const ops::BatchMemory&, u64) { return Errc::ok; });
}

Progress look_up_batch(ItemBatches& batches, const Lookups& request) {
    BatchPacker packer(request.volume.thread_pool(), request.items.size());
    const ops::BatchShape shape = measure(ops::BatchKind::look_up, request, packer);
    return run_batch(batches, request, packer, shape, header_of(request.caller),
                     pack_name(request.items),
                     [](const ops::BatchMemory& memory, u64 i) { return memory.attributes[i]; });
}

#if defined(__SANITIZE_THREAD__)
constexpr bool has_few_locks = true;
#elif defined(__has_feature)
constexpr bool has_few_locks = __has_feature(thread_sanitizer);
#else
constexpr bool has_few_locks = false;
#endif
constexpr u64 clones_at_once = has_few_locks ? few_data_locks : ops::batch_items_max;

template <class Answer>
using Clones = Request<const CloneEntry*, Answer>;

/// Leaves the entries to the caller.
template <class Answer>
void leave_clones(VolumeImplementation& /*volume*/, const Caller& /*caller*/,
                  std::span<const CloneEntry* const> /*entries*/, std::span<Answer> answers) {
    std::ranges::fill(answers, Answer(Errc::retry));
}

template <class Answer>
Progress clone_batch(ItemBatches& batches, const Clones<Answer>& request, i64 now) {
    const std::span<const CloneEntry* const> entries = request.items;
    BatchPacker packer(request.volume.thread_pool(), entries.size());
    ops::BatchShape shape;
    shape.kind = ops::BatchKind::clone;
    shape.items = entries.size();
    shape.name_words = packer.measure([&](u64 i) { return words_of(entries[i]->name()); });
    ops::BatchHeader header = header_of(request.caller);
    header.now = now;
    const auto pack = [&](const ops::BatchMemory& memory, u64 i, u64& word) {
        const CloneEntry& one = *entries[i];
        memory.operands[i] = pack_operand(memory.names, one.into->target, one.name(), word);
        memory.sources[i] = one.source;
    };
    const auto answer = [](const ops::BatchMemory& memory, u64 i) -> Answer {
        if constexpr (std::is_same_v<Answer, Errc>) {
            return Errc::ok;
        } else {
            return Handle{memory.made[i].inode, memory.made[i].generation};
        }
    };
    const auto hold = [&](u64 begin, u64 end) {
        auto locks = lock_data<std::unique_lock>(
            request.volume, entries.subspan(begin, end - begin),
            [](const CloneEntry* entry) { return entry->source.inode; });
        request.volume.note_shared_data();
        return locks;
    };
    return run_batch(batches, request, packer, shape, header, pack, answer, hold);
}

template <class Answer>
void clone_all(VolumeImplementation& volume, const Caller& caller, i64 now,
               std::span<const CloneEntry* const> entries, std::span<Answer> answers) {
    u64 answered = 0;  // not used: all entries are left to the caller first
    std::ranges::fill(answers, Answer(Errc::retry));
    in_parts(
        Clones<Answer>{volume, caller, entries, answers, leave_clones<Answer>, answered},
        [&](ItemBatches& batches, const Clones<Answer>& part) {
            return clone_batch(batches, part, now);
        },
        clones_at_once);
}

/// With fewer lookups a stream takes longer than a batch.
constexpr u64 streamed_items_min = 1025;

/// Looks up through the engine's stream. False if there is none, or if another call uses the thread
/// pool; then nothing was done. Sets `left` to the items whose result is Errc::retry.
bool look_up_by_stream(const Lookups& request, std::vector<u64>& left) {
    LookupStreams* const streams = request.volume.engine().lookups();
    if (streams == nullptr || streams->prepare_lookups() != Errc::ok) return false;
    ThreadPool& thread_pool = request.volume.thread_pool();
    // Taken before the stream: the thread that uses the pool may wait for what an open stream
    // holds. Not waited for: that thread may wait for what the caller holds.
    std::unique_lock<std::mutex> turn;
    if (!thread_pool.try_turn(turn)) return false;
    const Result<LookupStream*> stream = streams->open_lookups(credentials_of(request.caller));
    if (!stream) return false;
    const OnExit close([&] { streams->close_lookups(); });
    LookupSegments segments(**stream, request.items, request.answers, thread_pool.width());
    thread_pool.run_in_turn(std::vector<Task>(thread_pool.width()),
                            [&](ThreadPool::Worker&, const Task&) { segments.work(); });
    left = std::move(segments.left());
    return true;
}

/// Looks up the items that a stream has left, by batches.
void look_up_left(const Lookups& request, const std::vector<u64>& left) {
    std::vector<Lookup> items;
    items.reserve(left.size());
    for (const u64 i : left)
        items.push_back(request.items[i]);
    std::vector<Result<Attributes>> answers(items.size(), Errc::no_memory);
    u64 answered = 0;  // not used: the other items have their results
    in_parts(Lookups{request.volume, request.caller, items, answers, request.by_commands, answered},
             look_up_batch);
    for (std::size_t i = 0; i < left.size(); ++i)
        request.answers[left[i]] = answers[i];
}

/// Looks up through the engine's stream if it can be used, otherwise by batches.
void look_up_part(const Lookups& request) {
    std::vector<u64> left;
    if (request.items.size() < streamed_items_min || !look_up_by_stream(request, left)) {
        return in_parts(request, look_up_batch);
    }
    if (!left.empty() && or_no_memory([&] { look_up_left(request, left); }) != Errc::ok) {
        for (const u64 i : left)
            request.answers[i] = Errc::no_memory;
    }
    request.answered += request.items.size();
}

}  // namespace

void create_in_batches(VolumeImplementation& volume, const Caller& caller,
                       std::span<const Creation> creations, std::span<Result<Attributes>> results,
                       u64& answered) {
    const Creations all{volume, caller, creations, results, create_by_commands, answered};
    if (volume.is_read_only()) return all.give();
    in_parts(all, create_batch);
}

void move_in_batches(VolumeImplementation& volume, const Caller& caller,
                     std::span<const Move> moves, std::span<Errc> results, u64& answered) {
    const Moves all{volume, caller, moves, results, move_by_commands, answered};
    if (volume.is_read_only()) return all.give();
    in_parts(all, move_batch);
}

void remove_in_batches(VolumeImplementation& volume, const Caller& caller,
                       std::span<const Unlink> names, std::span<Errc> results, u64& answered) {
    const Unlinks all{volume, caller, names, results, remove_by_commands, answered};
    if (volume.is_read_only()) return all.give();
    for_each_kind(names, [&](u64 begin, u64 count) {
        const Unlinks alike = all.part(begin, count);
        if (names[begin].is_directory) return alike.give();
        in_parts(alike, remove_batch);
    });
}

void clone_in_batches(VolumeImplementation& volume, const Caller& caller, i64 now,
                      std::span<const CloneEntry* const> entries, std::span<Errc> answers) {
    clone_all(volume, caller, now, entries, answers);
}
void clone_in_batches(VolumeImplementation& volume, const Caller& caller, i64 now,
                      std::span<const CloneEntry* const> entries,
                      std::span<Result<Handle>> answers) {
    clone_all(volume, caller, now, entries, answers);
}

void look_up_in_batches(VolumeImplementation& volume, const Caller& caller,
                        std::span<const Lookup> lookups, std::span<Result<Attributes>> results,
                        u64& answered) {
    const Lookups all{volume, caller, lookups, results, look_up_by_commands, answered};
    // In parts, because an open stream blocks commits.
    for (u64 begin = 0; begin < lookups.size(); begin += ops::batch_items_max)
        look_up_part(all.part(begin, std::min<u64>(ops::batch_items_max, lookups.size() - begin)));
}

}  // namespace warren
