// SPDX-License-Identifier: Apache-2.0
// Lists are made anew for each run, as a program would that asks once.
#include "bench/support/engine_rows.hpp"

#include <algorithm>
#include <atomic>
#include <type_traits>

#include "bench/support/trees.hpp"

namespace warren::bench {

namespace {

const Caller anybody{.check = false};
constexpr u32 directory_mode = 040755;

/// name0, name1, and so on; the same for all files of a benchmark.
const std::string& file_name(u64 number) {
    static std::vector<std::string> names;
    while (names.size() <= number)
        names.push_back("file" + std::to_string(names.size()));
    return names[number];
}

/// Calls `take(directory, name)` for `each` names in each directory, from number `first` on.
template <class Take>
void for_each_name(const std::vector<Handle>& directories, u64 each, const Take& take,
                   u64 first = 0) {
    static_cast<void>(file_name(first + each));
    for (const Handle directory : directories) {
        for (u64 i = 0; i < each; ++i)
            take(directory, file_name(first + i));
    }
}

/// The items of one call, and room for what becomes of them.
template <class Item, class Answer>
class ItemList {
 public:
    void call(Volume& volume) {
        if constexpr (std::is_same_v<Item, Creation>) {
            volume.create_many(anybody, items_, answers_);
        } else if constexpr (std::is_same_v<Item, Lookup>) {
            volume.lookup_many(anybody, items_, answers_);
        } else if constexpr (std::is_same_v<Item, Move>) {
            volume.move_many(anybody, items_, answers_);
        } else {
            volume.remove_many(anybody, items_, answers_);
        }
    }
    void check() const {
        for (const Answer& answer : answers_)
            require(is_good(answer), "an item of many failed");
    }
    void run(Volume& volume) {
        call(volume);
        check();
    }

 protected:
    void add(const Item& item) {
        items_.push_back(item);
        answers_.emplace_back(Errc::io);
    }
    void reserve(u64 count) {
        items_.reserve(count);
        answers_.reserve(count);
    }

 private:
    static bool is_good(Errc code) { return code == Errc::ok; }
    static bool is_good(const Result<Attributes>& result) { return bool(result); }

    std::vector<Item> items_;
    std::vector<Answer> answers_;
};

/// Files to be made, looked up or removed; of each directory the names from number `first` on.
template <class Item, class Answer>
class NameList : public ItemList<Item, Answer> {
 public:
    NameList(const std::vector<Handle>& directories, u64 each, u64 first = 0) {
        this->reserve(directories.size() * each);
        const auto add = [&](Handle directory, const std::string& name) {
            Item item;
            item.directory = directory;
            item.name = name;
            this->add(item);
        };
        for_each_name(directories, each, add, first);
    }
};
using CreateList = NameList<Creation, Result<Attributes>>;
using LookupList = NameList<Lookup, Result<Attributes>>;
using UnlinkList = NameList<Unlink, Errc>;

/// Files to be moved, of each directory to the one of the same number.
class MoveList : public ItemList<Move, Errc> {
 public:
    MoveList(const std::vector<Handle>& from, const std::vector<Handle>& to, u64 each) {
        reserve(from.size() * each);
        for (std::size_t d = 0; d < from.size(); ++d) {
            for_each_name({from[d]}, each, [&](Handle directory, const std::string& name) {
                add({directory, name, to[d], name});
            });
        }
    }
};

/// Counts without threads meeting.
class Tally {
 public:
    void add() { slots_[slot()].count.fetch_add(1, std::memory_order_relaxed); }
    u64 sum() const {
        u64 all = 0;
        for (const Slot& slot : slots_)
            all += slot.count.load(std::memory_order_relaxed);
        return all;
    }

 private:
    struct alignas(64) Slot {
        std::atomic<u64> count{0};
    };
    static std::size_t slot() {
        static std::atomic<std::size_t> threads{0};
        thread_local const std::size_t mine = threads.fetch_add(1, std::memory_order_relaxed);
        return mine % 64;
    }
    Slot slots_[64];
};

/// A tree of one of the scenarios, under this name.
Tree tree_of(const std::string& kind, const std::string& name) {
    if (kind == "wide") return wide_tree(name, 1000);
    if (kind == "mix") return flat_tree(name, 100, 100, true);
    return deep_tree(name, 1000);
}

}  // namespace

std::string with_commas(u64 number) {
    std::string text = std::to_string(number);
    for (std::size_t at = text.size(); at > 3;) {
        at -= 3;
        text.insert(at, ",");
    }
    return text;
}

EngineRows::EngineRows(const std::string& folder, u64 size_bytes, EngineChoice engine,
                       std::string label, const Scale& scale, Report& report)
    : volume_(folder, size_bytes, engine),
      root_(volume_->root()),
      label_(std::move(label)),
      scale_(scale),
      report_(report) {}

/// Adds run `run` of a row; run 0 is its first call.
void EngineRows::add(const std::string& row, u64 run, double seconds, double items) {
    report_.add(row, run == 0 ? label_ + first_suffix : label_, seconds, items);
}

void EngineRows::sync() {
    require(volume_->sync() == Errc::ok, "cannot sync the volume");
}

Handle EngineRows::make_directory(Handle in, const std::string& name) {
    const Result<Attributes> made = volume_->create(anybody, in, name, {.mode = directory_mode});
    require(bool(made), "cannot make " + name);
    return made->handle;
}

std::vector<Handle> EngineRows::make_directories(Handle in, u64 count) {
    std::vector<Creation> creations;
    static_cast<void>(file_name(count));
    for (u64 i = 0; i < count; ++i)
        creations.push_back({in, file_name(i), {.mode = directory_mode}});
    std::vector<Result<Attributes>> results(count, Errc::io);
    volume_->create_many(anybody, creations, results);
    std::vector<Handle> handles;
    for (const Result<Attributes>& result : results) {
        require(bool(result), "cannot make a directory");
        handles.push_back((*result).handle);
    }
    return handles;
}

void EngineRows::make_files(const std::vector<Handle>& directories, u64 each) {
    CreateList(directories, each).run(*volume_);
}

void EngineRows::remove_tree(const std::string& name) {
    Removal removal;
    require(volume_->remove_tree(anybody, root_, name, removal) == Errc::ok,
            "cannot remove " + name);
}

/// The first and the second call of one kind, each a row's subject.
template <class Work>
void EngineRows::add_first(const std::string& what, const Work& work) {
    const std::string row = "the first call in a process: " + what;
    report_.add(row, label_, time_of([&] { work(0); }), 1);
    report_.add(row, label_ + ", second call", time_of([&] { work(1); }), 1);
}

void EngineRows::measure_first_calls() {
    const Handle top = make_directory(root_, "first");
    const std::vector<Handle> from = {make_directory(top, "a"), make_directory(top, "b")};
    const std::vector<Handle> to = {make_directory(top, "c"), make_directory(top, "d")};
    std::vector<CreateList> creations;
    std::vector<MoveList> moves;
    std::vector<LookupList> lookups;
    for (u64 i = 0; i < 2; ++i) {
        creations.emplace_back(std::vector<Handle>{from[i]}, batch_items);
        lookups.emplace_back(std::vector<Handle>{from[i]}, batch_items);
        moves.emplace_back(std::vector<Handle>{from[i]}, std::vector<Handle>{to[i]}, batch_items);
    }
    add_first("create 1,000 files", [&](u64 i) { creations[i].run(*volume_); });
    add_first("stat 1,000 files by name", [&](u64 i) { lookups[i].run(*volume_); });
    add_first("move 1,000 files", [&](u64 i) { moves[i].run(*volume_); });
    add_first("find over 2,000 files", [&](u64) {
        const auto visit = [](const Scanned&) { return true; };
        require(volume_->scan(anybody, top, visit) == Errc::ok, "cannot scan");
    });
    std::vector<DirectoryUsage> usage;
    add_first("du over 2,000 files", [&](u64) {
        require(volume_->usage(anybody, top, {}, usage) == Errc::ok, "cannot add up");
    });
    Rebuilt rebuilt;
    add_first("pack a directory of 1,000 names", [&](u64 i) {
        require(volume_->rebuild(anybody, to[i], rebuilt) == Errc::ok, "cannot rebuild");
    });
    add_first("delete 1,000 files of one directory", [&](u64 i) {
        Removal removal;
        require(volume_->remove_tree(anybody, top, i == 0 ? "c" : "d", removal) == Errc::ok,
                "cannot remove");
    });
    remove_tree("first");
    sync();
}

void EngineRows::measure_single_round(Handle top, u64 run) {
    const double items = static_cast<double>(scale_.singles);
    const auto for_all = [&](const auto& call) {
        for (u64 i = 0; i < scale_.singles; ++i)
            require(call(file_name(i)) == Errc::ok, "a single call failed");
    };
    static_cast<void>(file_name(scale_.singles));
    add_both(rows::create_one, items, run, [&] {
        for_all([&](const std::string& name) {
            return volume_->create(anybody, top, name, {}).code();
        });
    });
    const double looked = time_of([&] {
        for_all(
            [&](const std::string& name) { return volume_->lookup(anybody, top, name).code(); });
    });
    add(rows::stat_one, run, looked, items);
    const Handle other = make_directory(top, "other");
    add_both(rows::rename_one, items, run, [&] {
        for_all([&](const std::string& name) {
            return volume_->rename(anybody, top, name, other, name);
        });
    });
    add_both(rows::unlink_one, items, run, [&] {
        for_all([&](const std::string& name) { return volume_->unlink(anybody, other, name); });
    });
    make_files({other}, batch_items);
    sync();
    UnlinkList names({other}, batch_items);
    add_both(rows::unlink_many, batch_items, run, [&] { names.call(*volume_); });
    names.check();
}

void EngineRows::measure_single_calls() {
    for (u64 run = 0; run <= scale_.runs; ++run) {
        measure_single_round(make_directory(root_, "single"), run);
        remove_tree("single");
        sync();
    }
}

/// One removal behind the other, nothing between them.
void EngineRows::measure_tree_in_a_row(const std::string& row, const std::string& kind) {
    for (u64 run = 0; run <= scale_.runs; ++run)
        make_in_volume(*volume_, root_, tree_of(kind, kind + std::to_string(run)));
    sync();
    const double items = static_cast<double>(tree_of(kind, kind).size());
    for (u64 run = 0; run <= scale_.runs; ++run) {
        const std::string name = kind + std::to_string(run);
        add(row, run, time_of([&] { remove_tree(name); }), items);
    }
    sync();
}

void EngineRows::measure_tree(const std::string& row, const std::string& kind) {
    measure_tree_in_a_row(row, kind);
    const Tree tree = tree_of(kind, kind);
    const double items = static_cast<double>(tree.size());
    for (u64 run = 0; run < scale_.runs; ++run) {
        make_in_volume(*volume_, root_, tree);
        sync();
        const double named = time_of([&] { remove_tree(kind); });
        const double durable = named + time_of([&] { sync(); });
        report_.add(row, label_ + between_suffix, named, items);
        report_.add(row, label_ + durable_suffix, durable, items);
    }
}

void EngineRows::measure_small_trees() {
    measure_tree(rows::deep, "deep");
    measure_tree(rows::wide, "wide");
    measure_tree(rows::mix, "mix");
}

/// All files of some directories there, and once more for the next run.
void EngineRows::measure_move(const std::string& row, u64 directories, u64 each) {
    std::vector<Handle> from = make_directories(make_directory(root_, "from"), directories);
    std::vector<Handle> to = make_directories(make_directory(root_, "to"), directories);
    make_files(from, each);
    sync();
    for (u64 run = 0; run <= scale_.runs; ++run) {
        MoveList moves(from, to, each);
        add_both(row, static_cast<double>(directories * each), run, [&] { moves.call(*volume_); });
        moves.check();
        std::swap(from, to);
    }
    remove_tree("from");
    remove_tree("to");
    sync();
}

void EngineRows::measure_moves() {
    measure_move(rows::move_shared, 1, batch_items);
    measure_move(rows::move_own, batch_items, 1);
}

/// A callback for each of the entries below `top`.
void EngineRows::find_all(Handle top, u64 entries, u64 run) {
    Tally seen;
    const double seconds = time_of([&] {
        const Errc code = volume_->scan(anybody, top, [&](const Scanned& one) {
            if (!one.name.empty()) seen.add();
            return true;
        });
        require(code == Errc::ok, "cannot scan");
    });
    add(rows::find(scale_), run, seconds, static_cast<double>(scale_.files()));
    require(seen.sum() == entries, "the scan counted wrong");
}

/// Questions about a million files: all of them by name, all that a name fits, how much they take.
void EngineRows::measure_walks(Handle top, const std::vector<Handle>& directories, u64 run) {
    const double items = static_cast<double>(scale_.files());
    find_all(top, scale_.files() + scale_.directories, run);
    const double few = time_of([&] {
        const Errc code = volume_->scan(anybody, top, [&](const Scanned&) { return true; },
                                        {.pattern = "*7*7*7*"});
        require(code == Errc::ok, "cannot scan");
    });
    add(rows::find_few(scale_), run, few, items);
    std::vector<DirectoryUsage> usage;
    const double added = time_of(
        [&] { require(volume_->usage(anybody, top, {}, usage) == Errc::ok, "cannot add up"); });
    add(rows::du(scale_), run, added, items);
    require(usage[0].entries == scale_.files() + scale_.directories + 1, "du counted wrong");
    LookupList lookups(directories, scale_.files_each);
    add(rows::stat(scale_), run, time_of([&] { lookups.call(*volume_); }), items);
    lookups.check();
}

void EngineRows::measure_many_files() {
    const double items = static_cast<double>(scale_.files());
    for (u64 run = 0; run <= scale_.large_runs; ++run) {
        const Handle top = make_directory(root_, "many");
        const std::vector<Handle> from = make_directories(top, scale_.directories);
        const std::vector<Handle> to =
            make_directories(make_directory(root_, "moved"), scale_.directories);
        sync();
        {
            CreateList creations(from, scale_.files_each);
            add_both(rows::create(scale_), items, run, [&] { creations.call(*volume_); });
            creations.check();
        }
        measure_walks(top, from, run);
        {
            MoveList moves(from, to, scale_.files_each);
            add_both(rows::move(scale_), items, run, [&] { moves.call(*volume_); });
            moves.check();
        }
        add_both(rows::remove(scale_), items, run, [&] { remove_tree("moved"); });
        remove_tree("many");
        sync();
    }
}

/// So many names stay, and as many have gone, from all leaves. They go in calls that are small
/// beside the directory: one call for most of it would leave it packed
/// (fs/bulk/batch/batch_look.hpp).
void EngineRows::measure_rebuild() {
    const u64 count = scale_.files();
    const u64 a_call = std::max<u64>(1, count / 100);
    for (u64 run = 0; run <= scale_.large_runs; ++run) {
        const Handle packed = make_directory(root_, "packed");
        for (u64 half = 0; half < 2; ++half) {
            CreateList({packed}, count, half * count).run(*volume_);
            sync();
        }
        for (u64 first = 0; first < count; first += a_call)
            UnlinkList({packed}, std::min(a_call, count - first), first).run(*volume_);
        sync();
        Rebuilt rebuilt;
        add_both(rows::rebuild(scale_), static_cast<double>(count), run, [&] {
            require(volume_->rebuild(anybody, packed, rebuilt) == Errc::ok, "cannot rebuild");
        });
        require(rebuilt.entries == count, "the rebuild counted wrong");
        if (run == 0) {
            report_.note(label_ + ": the packed directory had " +
                         with_commas(rebuilt.blocks_before) + " blocks and has " +
                         with_commas(rebuilt.blocks_after));
        }
        remove_tree("packed");
        sync();
    }
}

/// The same number of files as one command, and one after the other.
void EngineRows::measure_crossover_at(u64 count) {
    const double items = static_cast<double>(count);
    const std::string behind = " " + std::to_string(count);
    const std::string one_by_one = label_ + ", one by one";
    const Handle top = make_directory(root_, "sweep");
    const std::vector<Handle> bulk = make_directories(top, 4);
    const auto add = [&](const char* what, const std::string& who, const auto& work) {
        report_.add(what + behind, who, time_of(work), items);
    };
    const auto each = [&](const auto& call) {
        for (u64 i = 0; i < count; ++i)
            require(call(file_name(i)) == Errc::ok, "a single call failed");
    };
    static_cast<void>(file_name(count));
    CreateList creations({bulk[0]}, count);
    MoveList moves({bulk[0]}, {bulk[1]}, count);
    add("create", label_, [&] { creations.call(*volume_); });
    add("move", label_, [&] { moves.call(*volume_); });
    creations.check();
    moves.check();
    add("create", one_by_one, [&] {
        each([&](const std::string& name) {
            return volume_->create(anybody, bulk[2], name, {}).code();
        });
    });
    add("move", one_by_one, [&] {
        each([&](const std::string& name) {
            return volume_->rename(anybody, bulk[2], name, bulk[3], name);
        });
    });
    Removal removal;
    add("delete", label_, [&] {
        require(volume_->remove_tree(anybody, top, file_name(1), removal) == Errc::ok,
                "cannot remove");
    });
    add("delete", one_by_one, [&] {
        each([&](const std::string& name) { return volume_->unlink(anybody, bulk[3], name); });
    });
    require(removal.files == count, "the removal counted wrong");
    remove_tree("sweep");
    sync();
}

void EngineRows::measure_crossover(u64 most) {
    for (u64 run = 0; run < scale_.runs; ++run) {
        for (u64 count = 1; count <= most; count *= 2)
            measure_crossover_at(count);
    }
}

}  // namespace warren::bench
