// SPDX-License-Identifier: Apache-2.0
// Packs items of each kind into batches (batch_windows.hpp). Removals of directories are always
// commands, because whether a directory is empty depends on the items before it. Large numbers of
// lookups use a stream (lookup_segments.hpp); a batch handles those that the stream leaves.
#include "fs/volume/volume_batches.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/out_of_memory.hpp"
#include "fs/volume/batch_packer.hpp"
#include "fs/volume/batch_windows.hpp"
#include "fs/volume/data_locks.hpp"
#include "fs/volume/item_parts.hpp"
#include "fs/volume/lookup_segments.hpp"
#include "fs/volume/tree_cloner.hpp"

namespace warren {
namespace {

/// Whether a batch can create `one`: it does not support symbolic links and devices, and all items
/// must have the same references as `first`.
bool is_plain(const CreateOptions& one, const CreateOptions& first) {
    return one.target.empty() && one.device == 0 && one.hold == first.hold &&
           one.open == first.open && !format::is_device(one.mode) && ops::can_be_made(one.mode) &&
           !format::is_symlink(one.mode);
}

std::unique_ptr<PackedBatch> pack_creations(ItemBatches& batches, const Creations& request) {
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
    shape.name_words = packer.measure([&](u64 i) {
        const Creation& one = creations[i];
        if (!is_plain(one.options, options)) note(has_others);
        if (one.options.mode != options.mode) note(has_modes);
        return words_of(one.name);
    });
    if (has_others.load(std::memory_order_relaxed)) return nullptr;
    shape.has_modes = has_modes.load(std::memory_order_relaxed);
    ops::BatchHeader header = header_of(request.caller);
    header.mode = options.mode;
    header.references = request.volume.references_for(options.hold, options.open);
    const auto pack = [&](const ops::BatchMemory& memory, u64 i, u64& word) {
        const Creation& one = creations[i];
        memory.operands[i] = pack_operand(memory.names, one.directory, one.name, word);
        if (shape.has_modes) memory.modes[i] = static_cast<u16>(one.options.mode);
    };
    const auto answer = [creations, header](const ops::BatchMemory& memory, u64 i) {
        return ops::made_attributes(memory.made[i], header, creations[i].directory.inode);
    };
    return pack_measured(batches, request, std::move(packer), shape, header, pack, answer,
                         NoLocks());
}

std::unique_ptr<PackedBatch> pack_moves(ItemBatches& batches, const Moves& request) {
    const std::span<const Move> moves = request.items;
    const auto second_name = [&](u64 i) {
        return moves[i].name == moves[i].new_name ? std::string_view() : moves[i].new_name;
    };
    const auto words = [&](u64 i) { return words_of(moves[i].name) + words_of(second_name(i)); };
    const auto pack = [&](const ops::BatchMemory& memory, u64 i, u64& word) {
        const Move& one = moves[i];
        ops::BatchOperand* operands = memory.operands + 2 * i;
        operands[0] = pack_operand(memory.names, one.from, one.name, word);
        operands[1] = pack_operand(memory.names, one.to, second_name(i), word);
        if (one.name != one.new_name) return;
        operands[1].name = operands[0].name;
        operands[1].where |= u64{length_of(one.name)} << 48;
    };
    return pack_batch(batches, request, ops::BatchKind::move, header_of(request.caller), words,
                      pack, [](const ops::BatchMemory&, u64) { return Errc::ok; });
}

/// Packs a batch of items with one name each. `answer`: see PackedItems.
template <class Item, class Answer, class AnswerOf>
std::unique_ptr<PackedBatch> pack_named(ItemBatches& batches, const Request<Item, Answer>& request,
                                        ops::BatchKind kind, const AnswerOf& answer) {
    const std::span<const Item> items = request.items;
    const auto words = [&](u64 i) { return words_of(items[i].name); };
    const auto pack = [&](const ops::BatchMemory& memory, u64 i, u64& word) {
        memory.operands[i] = pack_operand(memory.names, items[i].directory, items[i].name, word);
    };
    return pack_batch(batches, request, kind, header_of(request.caller), words, pack, answer);
}

std::unique_ptr<PackedBatch> pack_removals(ItemBatches& batches, const Unlinks& request) {
    return pack_named(batches, request, ops::BatchKind::remove,
                      [](const ops::BatchMemory&, u64) { return Errc::ok; });
}

std::unique_ptr<PackedBatch> pack_lookups(ItemBatches& batches, const Lookups& request) {
    return pack_named(batches, request, ops::BatchKind::look_up,
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

template <class Answer>
std::unique_ptr<PackedBatch> pack_clones(ItemBatches& batches, const Clones<Answer>& request,
                                         i64 now) {
    const std::span<const CloneEntry* const> entries = request.items;
    ops::BatchHeader header = header_of(request.caller);
    header.now = now;
    const auto words = [&](u64 i) { return words_of(entries[i]->name()); };
    const auto pack = [&](const ops::BatchMemory& memory, u64 i, u64& word) {
        const CloneEntry& one = *entries[i];
        memory.operands[i] = pack_operand(memory.names, one.into()->target, one.name(), word);
        memory.sources[i] = one.source();
    };
    const auto answer = [](const ops::BatchMemory& memory, u64 i) -> Answer {
        if constexpr (std::is_same_v<Answer, Errc>)
            return Errc::ok;
        else
            return Handle{memory.made[i].inode, memory.made[i].generation};
    };
    const auto hold = [&volume = request.volume, entries](u64 begin, u64 end) {
        auto locks =
            lock_data<std::unique_lock>(volume, entries.subspan(begin, end - begin),
                                        [](const CloneEntry* entry) { return entry->inode; });
        volume.note_shared_data();
        return locks;
    };
    return pack_batch(batches, request, ops::BatchKind::clone, header, words, pack, answer, hold);
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
    const auto use = [&](LookupStream& stream) {
        LookupSegments segments(stream, request.items, request.answers, thread_pool.width());
        thread_pool.run_in_turn(std::vector<Task>(thread_pool.width()),
                                [&](ThreadPool::Worker&, const Task&) { segments.work(); });
        left = std::move(segments.left());
    };
    return streams->look_up(credentials_of(request.caller), use) == Errc::ok;
}

/// Looks up through the engine's stream if it can be used, otherwise by batches.
void look_up_part(const Lookups& request) {
    std::vector<u64> left;
    if (request.items.size() < streamed_items_min || !look_up_by_stream(request, left)) {
        return in_parts(request, QueryKind::look_up, pack_lookups);
    }
    const auto by_batches = [&](std::span<const Lookup> items,
                                std::span<Result<Attributes>> answers) {
        u64 answered = 0;  // not used: the other items have their results
        in_parts(
            Lookups{request.volume, request.caller, items, answers, request.by_commands, answered},
            QueryKind::look_up, pack_lookups);
    };
    if (or_no_memory([&] { answer_some(request, left, by_batches); }) != Errc::ok) {
        for (const u64 i : left)
            request.answers[i] = Errc::no_memory;
    }
    request.answered += request.items.size();
}

}  // namespace

void run_in_batches(const Creations& all) {
    in_parts(all, QueryKind::create_items, pack_creations);
}

void run_in_batches(const Moves& all) {
    in_parts(all, QueryKind::move_items, pack_moves);
}

void run_in_batches(const Unlinks& all) {
    for_each_kind(all.items, [&](u64 begin, u64 count) {
        const Unlinks alike = all.part(begin, count);
        if (all.items[begin].is_directory) return alike.give();
        in_parts(alike, QueryKind::remove_items, pack_removals);
    });
}

void run_in_batches(const Lookups& all) {
    // In parts, because an open stream blocks commits.
    for (u64 begin = 0; begin < all.items.size(); begin += ops::batch_items_max)
        look_up_part(
            all.part(begin, std::min<u64>(ops::batch_items_max, all.items.size() - begin)));
}

template <class Answer>
void clone_in_batches(VolumeImplementation& volume, const Caller& caller, i64 now,
                      std::span<const CloneEntry* const> entries, std::span<Answer> answers) {
    const ByCommands<const CloneEntry*, Answer> leave = [](auto /*some*/, auto left) {
        std::ranges::fill(left, Answer(Errc::retry));
    };
    u64 answered = 0;  // not used: all entries are left to the caller first
    leave(entries, answers);
    in_parts(
        Clones<Answer>{volume, caller, entries, answers, leave, answered}, QueryKind::create_items,
        [&](ItemBatches& batches, const Clones<Answer>& part) {
            return pack_clones(batches, part, now);
        },
        clones_at_once);
}
template void clone_in_batches(VolumeImplementation&, const Caller&, i64,
                               std::span<const CloneEntry* const>, std::span<Errc>);
template void clone_in_batches(VolumeImplementation&, const Caller&, i64,
                               std::span<const CloneEntry* const>, std::span<Result<Handle>>);

}  // namespace warren
