// SPDX-License-Identifier: Apache-2.0
// The first round of everything is not counted: it makes the memory that the others use again.
#include "bench/support/engine_rows.hpp"

#include <atomic>

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
      label_(std::move(label)),
      scale_(scale),
      report_(report) {}

/// Adds a run of `work` alone, and of `work` with a sync behind it.
template <class Work>
void EngineRows::add_both(const std::string& row, double items, bool counts, const Work& work) {
    const double named = time_of(work);
    const double durable = named + time_of([&] { sync(); });
    if (!counts) return;
    report_.add(row, label_, named, items);
    report_.add(row, label_ + durable_suffix, durable, items);
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
    std::vector<Creation> creations;
    creations.reserve(directories.size() * each);
    static_cast<void>(file_name(each));
    for (const Handle directory : directories) {
        for (u64 i = 0; i < each; ++i)
            creations.push_back({directory, file_name(i), {}});
    }
    std::vector<Result<Attributes>> results(creations.size(), Errc::io);
    volume_->create_many(anybody, creations, results);
    for (const Result<Attributes>& result : results)
        require(bool(result), "cannot make a file");
}

void EngineRows::move_files(const std::vector<Handle>& from, const std::vector<Handle>& to,
                            u64 each) {
    std::vector<Move> moves;
    moves.reserve(from.size() * each);
    for (std::size_t d = 0; d < from.size(); ++d) {
        for (u64 i = 0; i < each; ++i)
            moves.push_back({from[d], file_name(i), to[d], file_name(i)});
    }
    std::vector<Errc> results(moves.size(), Errc::io);
    volume_->move_many(anybody, moves, results);
    for (const Errc result : results)
        require(result == Errc::ok, "cannot move a file");
}

void EngineRows::remove_tree(const std::string& name) {
    Removal removal;
    require(volume_->remove_tree(anybody, volume_->root(), name, removal) == Errc::ok,
            "cannot remove " + name);
}

void EngineRows::measure_single_round(Handle top, bool counts) {
    const double items = static_cast<double>(scale_.singles);
    const auto for_all = [&](const auto& call) {
        for (u64 i = 0; i < scale_.singles; ++i)
            require(call(file_name(i)) == Errc::ok, "a single call failed");
    };
    static_cast<void>(file_name(scale_.singles));
    add_both(rows::create_one, items, counts, [&] {
        for_all([&](const std::string& name) {
            return volume_->create(anybody, top, name, {}).code();
        });
    });
    const double looked = time_of([&] {
        for_all(
            [&](const std::string& name) { return volume_->lookup(anybody, top, name).code(); });
    });
    if (counts) report_.add(rows::stat_one, label_, looked, items);
    const Handle other = make_directory(top, "other");
    add_both(rows::rename_one, items, counts, [&] {
        for_all([&](const std::string& name) {
            return volume_->rename(anybody, top, name, other, name);
        });
    });
    add_both(rows::unlink_one, items, counts, [&] {
        for_all([&](const std::string& name) { return volume_->unlink(anybody, other, name); });
    });
}

void EngineRows::measure_single_calls() {
    for (u64 run = 0; run <= scale_.runs; ++run) {
        measure_single_round(make_directory(volume_->root(), "single"), run > 0);
        remove_tree("single");
        sync();
    }
}

void EngineRows::measure_tree(const std::string& row, const std::string& kind) {
    Tree tree = deep_tree(kind, 1000);
    if (kind == "wide") tree = wide_tree(kind, 1000);
    if (kind == "mix") tree = flat_tree(kind, 100, 100, true);
    for (u64 run = 0; run <= scale_.runs; ++run) {
        make_in_volume(*volume_, volume_->root(), tree);
        sync();
        add_both(row, static_cast<double>(tree.size()), run > 0, [&] { remove_tree(kind); });
    }
}

void EngineRows::measure_small_trees() {
    measure_tree(rows::deep, "deep");
    measure_tree(rows::wide, "wide");
    measure_tree(rows::mix, "mix");
}

/// All files of some directories there, and once more for the next run.
void EngineRows::measure_move(const std::string& row, u64 directories, u64 each) {
    std::vector<Handle> from =
        make_directories(make_directory(volume_->root(), "from"), directories);
    std::vector<Handle> to = make_directories(make_directory(volume_->root(), "to"), directories);
    make_files(from, each);
    sync();
    for (u64 run = 0; run <= scale_.runs; ++run) {
        add_both(row, static_cast<double>(directories * each), run > 0,
                 [&] { move_files(from, to, each); });
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

/// Questions about a million files: all of them by name, all that a name fits, how much they take.
void EngineRows::measure_walks(Handle top, const std::vector<Handle>& directories, bool counts) {
    const double items = static_cast<double>(scale_.files());
    const auto add = [&](const std::string& row, const auto& work) {
        const double seconds = time_of(work);
        if (counts) report_.add(row, label_, seconds, items);
    };
    std::atomic<u64> seen{0};
    add(rows::find(scale_), [&] {
        const Errc code = volume_->scan(anybody, top, [&](const Scanned& one) {
            if (!one.name.empty()) seen.fetch_add(1, std::memory_order_relaxed);
            return true;
        });
        require(code == Errc::ok, "cannot scan");
    });
    require(seen == scale_.files() + scale_.directories, "the scan counted wrong");
    add(rows::find_few(scale_), [&] {
        const Errc code = volume_->scan(anybody, top, [&](const Scanned&) { return true; },
                                        {.pattern = "*7*7*7*"});
        require(code == Errc::ok, "cannot scan");
    });
    std::vector<DirectoryUsage> usage;
    add(rows::du(scale_),
        [&] { require(volume_->usage(anybody, top, {}, usage) == Errc::ok, "cannot add up"); });
    require(usage[0].entries == scale_.files() + scale_.directories + 1, "du counted wrong");
    std::vector<Lookup> lookups;
    for (const Handle directory : directories) {
        for (u64 i = 0; i < scale_.files_each; ++i)
            lookups.push_back({directory, file_name(i)});
    }
    std::vector<Result<Attributes>> results(lookups.size(), Errc::io);
    add(rows::stat(scale_), [&] { volume_->lookup_many(anybody, lookups, results); });
    for (const Result<Attributes>& result : results)
        require(bool(result), "cannot look a file up");
}

void EngineRows::measure_many_files() {
    const double items = static_cast<double>(scale_.files());
    for (u64 run = 0; run <= scale_.large_runs; ++run) {
        const bool counts = run > 0;
        const Handle top = make_directory(volume_->root(), "many");
        const std::vector<Handle> from = make_directories(top, scale_.directories);
        const std::vector<Handle> to =
            make_directories(make_directory(volume_->root(), "moved"), scale_.directories);
        sync();
        add_both(rows::create(scale_), items, counts, [&] { make_files(from, scale_.files_each); });
        measure_walks(top, from, counts);
        add_both(rows::move(scale_), items, counts,
                 [&] { move_files(from, to, scale_.files_each); });
        add_both(rows::remove(scale_), items, counts, [&] { remove_tree("moved"); });
        remove_tree("many");
        sync();
    }
}

void EngineRows::measure_rebuild() {
    const u64 count = scale_.files();
    for (u64 run = 0; run <= scale_.large_runs; ++run) {
        const std::vector<Handle> packed = {make_directory(volume_->root(), "packed")};
        const std::vector<Handle> gone = {make_directory(volume_->root(), "gone")};
        make_files(packed, count);
        move_files(packed, gone, count / 2);
        sync();
        Rebuilt rebuilt;
        add_both(rows::rebuild(scale_), static_cast<double>(count), run > 0, [&] {
            require(volume_->rebuild(anybody, packed[0], rebuilt) == Errc::ok, "cannot rebuild");
        });
        require(rebuilt.entries == count - count / 2, "the rebuild counted wrong");
        remove_tree("packed");
        remove_tree("gone");
        sync();
    }
}

/// The same number of files as one command, and one after the other.
void EngineRows::measure_crossover_at(u64 count) {
    const double items = static_cast<double>(count);
    const std::string behind = " " + std::to_string(count);
    const std::string one_by_one = label_ + ", one by one";
    const Handle top = make_directory(volume_->root(), "sweep");
    const std::vector<Handle> bulk = make_directories(top, 4);
    const std::vector<Handle> first = {bulk[0]};
    const std::vector<Handle> second = {bulk[1]};
    const auto add = [&](const char* what, const std::string& who, const auto& work) {
        report_.add(what + behind, who, time_of(work), items);
    };
    const auto each = [&](const auto& call) {
        for (u64 i = 0; i < count; ++i)
            require(call(file_name(i)) == Errc::ok, "a single call failed");
    };
    static_cast<void>(file_name(count));
    add("create", label_, [&] { make_files(first, count); });
    add("move", label_, [&] { move_files(first, second, count); });
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
