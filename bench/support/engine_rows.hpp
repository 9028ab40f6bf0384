// SPDX-License-Identifier: Apache-2.0
// One engine's column of the table: every row of bench/support/rows.hpp through Volume's public
// calls, on a volume in a file in memory.
//
// Invariant: the time is that for which a caller of the library waits: names to the engine, the
// work, answers back. Lists of items and room for their answers are made before, answers are looked
// at afterwards. Each row is measured twice: until the call returns, which is when names are gone
// or there, and until a sync behind it is done, when that is durable and its space can be used
// again. The first call of each row is a row of its own.
#pragma once

#include <string>
#include <vector>

#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "bench/support/rows.hpp"
#include "warren/volume.hpp"

namespace warren::bench {

// Appended to an engine's label. Freed space can be used again when the commit that makes the
// removal durable is done, so those two are one time.
inline const std::string durable_suffix = ", durable and reusable";
/// The first call of its kind: kernels are loaded, memory is allocated.
inline const std::string first_suffix = ", first call";
/// Each call follows a creation and a commit: caches hold other data.
inline const std::string between_suffix = ", between other work";

class EngineRows {
 public:
    EngineRows(const std::string& folder, u64 size_bytes, EngineChoice engine, std::string label,
               const Scale& scale, Report& report);

    /// The first call of each kind in this program, and the second.
    void measure_first_calls();
    void measure_single_calls();
    void measure_small_trees();
    void measure_moves();
    void measure_many_files();
    void measure_rebuild();
    void measure_clones();
    /// From one item to `most`: a bulk command against single calls.
    void measure_crossover(u64 most);

    Volume& volume() { return *volume_; }

 private:
    /// Adds a run of `work` alone, and of `work` with a sync behind it.
    template <class Work>
    void add_both(const std::string& row, double items, u64 run, const Work& work) {
        const double named = time_of(work);
        const double durable = named + time_of([&] { sync(); });
        add(row, run, named, items);
        if (run > 0) report_.add(row, label_ + durable_suffix, durable, items);
    }
    void add(const std::string& row, u64 run, double seconds, double items);
    template <class Work>
    void add_first(const std::string& what, const Work& work);
    Handle make_directory(Handle in, const std::string& name);
    std::vector<Handle> make_directories(Handle in, u64 count);
    void make_files(const std::vector<Handle>& directories, u64 each);
    void remove_tree(const std::string& name);
    Handle make_filled_tree(const std::string& name);
    void find_all(Handle top, u64 entries, u64 run);
    void measure_walks(Handle top, const std::vector<Handle>& directories, u64 run);
    void sync();
    void measure_tree_in_a_row(const std::string& row, const std::string& kind);
    void measure_tree(const std::string& row, const std::string& kind);
    void measure_move(const std::string& row, u64 directories, u64 each);
    void measure_single_round(Handle top, u64 run);
    void measure_crossover_at(u64 count);

    OpenVolume volume_;
    const Handle root_;
    const std::string label_;
    const Scale scale_;
    Report& report_;
};

}  // namespace warren::bench
