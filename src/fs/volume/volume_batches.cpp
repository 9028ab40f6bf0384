// SPDX-License-Identifier: Apache-2.0
// A part of the items at a time becomes a batch. It is run window by window: a window ends before
// an item that depends on one in it. What the engine leaves over of a window is given as commands
// before the next one begins.
#include "fs/volume/volume_batches.hpp"

#include <utility>
#include <vector>

#include "fs/volume/batch_packer.hpp"

namespace warren {
namespace {

/// A batch of fewer takes longer than commands.
constexpr u64 batch_items_min = 16;
/// So many windows a batch may need; else its items depend on each other too much.
constexpr u64 windows_max = 16;

/// An engine's batch for as long as it is open.
class OpenBatch {
 public:
    OpenBatch(Engine& engine, const ops::BatchShape& shape)
        : engine_(engine), memory_(engine.open_batch(shape)) {}
    ~OpenBatch() {
        if (memory_) engine_.close_batch();
    }
    OpenBatch(const OpenBatch&) = delete;
    OpenBatch& operator=(const OpenBatch&) = delete;

    bool is_open() const { return bool(memory_); }
    const ops::BatchMemory& memory() const { return *memory_; }

 private:
    Engine& engine_;
    const Result<ops::BatchMemory> memory_;
};

/// How far a batch came, and how many items one run could take.
struct Progress {
    u64 done = 0;
    u64 span = 0;
};

/// Runs a batch of `items` to its end, or as far as that is worth it. `finish(begin, end)` takes
/// the answers of a window.
template <class Finish>
Progress run_windows(VolumeImplementation& volume, const ops::BatchHeader& header, u64 items,
                     const Finish& finish) {
    Progress progress{0, items};
    for (u64 windows = 0; progress.done < items && windows < windows_max;) {
        // Each run looks at all items: of a batch much larger than a run others are made.
        if (progress.span < items / 4) break;
        ops::BatchWindow window;
        window.begin = progress.done;
        window.end = std::min(items, progress.done + progress.span);
        const Errc code = volume.run_batch(header, window);
        if (code == Errc::need_commit && progress.span > batch_items_min) {
            // It is more than one commit can hold.
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

/// Those of the items [begin, end) that are left to commands.
std::vector<u64> left_over(const Errc* codes, u64 begin, u64 end) {
    std::vector<u64> left;
    for (u64 i = begin; i < end; ++i) {
        if (codes[i] == Errc::retry) left.push_back(i);
    }
    return left;
}

template <class T>
std::vector<T> chosen(std::span<const T> all, const std::vector<u64>& items) {
    std::vector<T> some;
    some.reserve(items.size());
    for (const u64 i : items)
        some.push_back(all[i]);
    return some;
}

/// Gives the items that a window left over as commands and puts the answers where they belong.
template <class Item, class Answer, class ByCommands>
void give_left_over(std::span<const Item> all, std::span<Answer> answers, const Errc* codes,
                    u64 begin, u64 end, const ByCommands& by_commands) {
    const std::vector<u64> left = left_over(codes, begin, end);
    if (left.empty()) return;
    const std::vector<Item> items = chosen(all, left);
    std::vector<Answer> some(items.size(), Answer(Errc::io));
    by_commands(std::span<const Item>(items), std::span<Answer>(some));
    for (std::size_t i = 0; i < left.size(); ++i)
        answers[left[i]] = some[i];
}

/// Does all items: by batches, as large as they can be, and where these come to an end by commands.
/// `by_batch(begin, count)` tells how far it came, `by_commands(begin, count)` does all.
template <class ByBatch, class ByCommands>
void in_parts(u64 items, const ByBatch& by_batch, const ByCommands& by_commands) {
    u64 part = ops::batch_items_max;
    for (u64 begin = 0; begin < items;) {
        const u64 count = std::min(part, items - begin);
        Progress progress{0, count};
        if (count >= batch_items_min) progress = by_batch(begin, count);
        begin += progress.done;
        if (progress.done == count) continue;
        if (progress.span < count && progress.span >= batch_items_min) {
            part = progress.span;
            continue;
        }
        by_commands(begin, count - progress.done);
        begin += count - progress.done;
    }
}

/// Whether a batch can make `one`: it has no room for links, and `first` tells it how all are held.
bool is_plain(const CreateOptions& one, const CreateOptions& first) {
    return one.target.empty() && one.device == first.device && one.hold == first.hold &&
           one.open == first.open && ops::can_be_made(one.mode) &&
           (one.mode & format::type_mask) != format::type_symlink;
}

/// The attributes of an inode that a batch has made.
Attributes attributes_of(const ops::BatchMade& made, const ops::BatchHeader& header,
                         Handle directory) {
    const bool is_directory = (made.mode & format::type_mask) == format::type_directory;
    Attributes attributes;
    attributes.handle = {made.inode, made.generation};
    attributes.mode = made.mode;
    attributes.links = is_directory ? 2 : 1;
    attributes.user = header.caller.user;
    attributes.group = made.group;
    attributes.device = header.device;
    attributes.parent = is_directory ? directory.inode : 0;
    attributes.accessed = header.now;
    attributes.modified = header.now;
    attributes.changed = header.now;
    attributes.born = header.now;
    return attributes;
}

/// As create_in_batches(), for one batch.
Progress create_batch(VolumeImplementation& volume, const Caller& caller,
                      std::span<const Creation> creations, std::span<Result<Attributes>> results) {
    BatchPacker packer(volume.crew(), creations.size());
    const CreateOptions& options = creations[0].options;
    if (!packer.all([&](u64 i) { return is_plain(creations[i].options, options); })) {
        return {0, creations.size()};
    }
    ops::BatchShape shape;
    shape.kind = ops::BatchKind::create;
    shape.items = creations.size();
    shape.name_words = packer.measure([&](u64 i) { return words_of(creations[i].name); });
    shape.has_modes = !packer.all([&](u64 i) { return creations[i].options.mode == options.mode; });
    OpenBatch batch(volume.engine(), shape);
    if (!batch.is_open()) return {0, shape.items};
    const ops::BatchMemory& memory = batch.memory();
    packer.pack([&](u64 i, u64& word) {
        const Creation& one = creations[i];
        memory.ends[i] = pack_end(memory.names, one.directory, one.name, word);
        if (shape.has_modes) memory.modes[i] = static_cast<u16>(one.options.mode);
    });
    ops::BatchHeader header = header_of(caller);
    header.mode = options.mode;
    header.device = options.device;
    header.references = volume.references_for(options.hold, options.open);
    return run_windows(volume, header, shape.items, [&](u64 begin, u64 end) {
        packer.for_each_chunk([&](u64, u64 first, u64 last) {
            for (u64 i = std::max(first, begin); i < std::min(last, end); ++i) {
                if (memory.codes[i] == Errc::ok) {
                    results[i] = attributes_of(memory.made[i], header, creations[i].directory);
                } else {
                    results[i] = memory.codes[i];
                }
            }
        });
        give_left_over(creations, results, memory.codes, begin, end, [&](auto items, auto answers) {
            create_by_commands(volume, caller, items, answers);
        });
    });
}

/// As move_in_batches(), for one batch.
Progress move_batch(VolumeImplementation& volume, const Caller& caller, std::span<const Move> moves,
                    std::span<Errc> results) {
    BatchPacker packer(volume.crew(), moves.size());
    const auto second_name = [&](u64 i) {
        return moves[i].name == moves[i].new_name ? std::string_view() : moves[i].new_name;
    };
    ops::BatchShape shape;
    shape.kind = ops::BatchKind::move;
    shape.items = moves.size();
    shape.name_words =
        packer.measure([&](u64 i) { return words_of(moves[i].name) + words_of(second_name(i)); });
    OpenBatch batch(volume.engine(), shape);
    if (!batch.is_open()) return {0, shape.items};
    const ops::BatchMemory& memory = batch.memory();
    packer.pack([&](u64 i, u64& word) {
        const Move& one = moves[i];
        ops::BatchEnd* ends = memory.ends + 2 * i;
        ends[0] = pack_end(memory.names, one.from, one.name, word);
        ends[1] = pack_end(memory.names, one.to, second_name(i), word);
        if (one.name != one.new_name) return;
        ends[1].name = ends[0].name;
        ends[1].where |= u64{length_of(one.name)} << 48;
    });
    return run_windows(volume, header_of(caller), shape.items, [&](u64 begin, u64 end) {
        std::copy(memory.codes + begin, memory.codes + end,
                  results.begin() + static_cast<std::ptrdiff_t>(begin));
        give_left_over(moves, results, memory.codes, begin, end, [&](auto items, auto answers) {
            move_by_commands(volume, caller, items, answers);
        });
    });
}

/// As look_up_in_batches(), for one batch.
Progress look_up_batch(VolumeImplementation& volume, const Caller& caller,
                       std::span<const Lookup> lookups, std::span<Result<Attributes>> results) {
    BatchPacker packer(volume.crew(), lookups.size());
    ops::BatchShape shape;
    shape.kind = ops::BatchKind::look_up;
    shape.items = lookups.size();
    shape.name_words = packer.measure([&](u64 i) { return words_of(lookups[i].name); });
    OpenBatch batch(volume.engine(), shape);
    if (!batch.is_open()) return {0, shape.items};
    const ops::BatchMemory& memory = batch.memory();
    packer.pack([&](u64 i, u64& word) {
        memory.ends[i] = pack_end(memory.names, lookups[i].directory, lookups[i].name, word);
    });
    return run_windows(volume, header_of(caller), shape.items, [&](u64 begin, u64 end) {
        packer.for_each_chunk([&](u64, u64 first, u64 last) {
            for (u64 i = std::max(first, begin); i < std::min(last, end); ++i) {
                if (memory.codes[i] == Errc::ok) {
                    results[i] = memory.attributes[i];
                } else {
                    results[i] = memory.codes[i];
                }
            }
        });
        give_left_over(lookups, results, memory.codes, begin, end, [&](auto items, auto answers) {
            look_up_by_commands(volume, caller, items, answers);
        });
    });
}

}  // namespace

void create_in_batches(VolumeImplementation& volume, const Caller& caller,
                       std::span<const Creation> creations, std::span<Result<Attributes>> results) {
    if (volume.is_read_only()) return create_by_commands(volume, caller, creations, results);
    in_parts(
        creations.size(),
        [&](u64 begin, u64 count) {
            return create_batch(volume, caller, creations.subspan(begin, count),
                                results.subspan(begin, count));
        },
        [&](u64 begin, u64 count) {
            create_by_commands(volume, caller, creations.subspan(begin, count),
                               results.subspan(begin, count));
        });
}

void move_in_batches(VolumeImplementation& volume, const Caller& caller,
                     std::span<const Move> moves, std::span<Errc> results) {
    if (volume.is_read_only()) return move_by_commands(volume, caller, moves, results);
    in_parts(
        moves.size(),
        [&](u64 begin, u64 count) {
            return move_batch(volume, caller, moves.subspan(begin, count),
                              results.subspan(begin, count));
        },
        [&](u64 begin, u64 count) {
            move_by_commands(volume, caller, moves.subspan(begin, count),
                             results.subspan(begin, count));
        });
}

void look_up_in_batches(VolumeImplementation& volume, const Caller& caller,
                        std::span<const Lookup> lookups, std::span<Result<Attributes>> results) {
    in_parts(
        lookups.size(),
        [&](u64 begin, u64 count) {
            return look_up_batch(volume, caller, lookups.subspan(begin, count),
                                 results.subspan(begin, count));
        },
        [&](u64 begin, u64 count) {
            look_up_by_commands(volume, caller, lookups.subspan(begin, count),
                                results.subspan(begin, count));
        });
}

}  // namespace warren
