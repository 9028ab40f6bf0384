// SPDX-License-Identifier: Apache-2.0
// One engine's column of the table: every row of bench/support/rows.hpp through Volume's public
// calls, on a volume in a file in memory.
//
// Invariant: each row is measured twice: until the call returns, which is when names are gone or
// there, and until a sync behind it is done, when that is durable and its space can be used again.
#pragma once

#include <string>
#include <vector>

#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "bench/support/rows.hpp"
#include "warren/volume.hpp"

namespace warren::bench {

/// Behind an engine's label, of the second time.
inline const std::string durable_suffix = ", durable";

class EngineRows {
 public:
    EngineRows(const std::string& folder, u64 size_bytes, EngineChoice engine, std::string label,
               const Scale& scale, Report& report);

    void measure_single_calls();
    void measure_small_trees();
    void measure_moves();
    void measure_many_files();
    void measure_rebuild();
    /// From one item to `most`: a bulk command against single calls.
    void measure_crossover(u64 most);

    Volume& volume() { return *volume_; }

 private:
    template <class Work>
    void add_both(const std::string& row, double items, bool counts, const Work& work);
    Handle make_directory(Handle in, const std::string& name);
    std::vector<Handle> make_directories(Handle in, u64 count);
    void make_files(const std::vector<Handle>& directories, u64 each);
    void move_files(const std::vector<Handle>& from, const std::vector<Handle>& to, u64 each);
    void remove_tree(const std::string& name);
    void measure_walks(Handle top, const std::vector<Handle>& directories, bool counts);
    void sync();
    void measure_tree(const std::string& row, const std::string& kind);
    void measure_move(const std::string& row, u64 directories, u64 each);
    void measure_single_round(Handle top, bool counts);
    void measure_crossover_at(u64 count);

    OpenVolume volume_;
    const std::string label_;
    const Scale scale_;
    Report& report_;
};

}  // namespace warren::bench
