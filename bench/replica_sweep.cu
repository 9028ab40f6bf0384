// SPDX-License-Identifier: Apache-2.0
// Does a volume with a GPU beside its CPU engine run each call on the side that is faster? Calls
// for 1, 4, 16, ... names of a directory: by the CPU alone, by the GPU wherever it can, and as the
// volume chooses once it has learnt both sides' times. Nothing is marked before a call, so none
// waits for changes that are sent.
//
//   replica_sweep [--most N] [--runs N]    up to N names (1,048,576); medians of N calls (7), of
//                                          more where a call takes microseconds
#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/support/memory_volume.hpp"
#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "fs/volume/volume_implementation.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

const char* const by_cpu = "Warren CPU engine";
const char* const by_gpu = "a GPU beside it, wherever it can";
const char* const by_choice = "as the volume chooses";
constexpr u64 size_bytes = 16 * gib;
constexpr u64 device_bytes = 8 * gib;
/// The choice is at most this share of the faster side's time away from it.
constexpr double tolerance = 0.25;
constexpr u32 warm_lookups = 100;
constexpr u64 few_names = 1024;
constexpr u64 runs_with_few = 10;  // times as many

/// A volume and the side that its calls take; none: as it chooses.
struct Subject {
    Subject(const char* its_name, u64 device_memory, std::optional<Side> its_side)
        : name(its_name), side(its_side), volume(size_bytes, device_memory) {
        require(device_memory == 0 || replica() != nullptr, volume->engine_note());
        top = add_entry(*volume, volume->root(), "top", directory_mode);
        set_side();
    }
    ReplicaQueries* replica() const { return volume.inside().replica(); }
    void set_side() {
        if (replica() != nullptr) replica()->use_only(side);
    }
    /// Sends all that is marked.
    void bring_up_to_date() {
        require(volume->sync() == Errc::ok, "cannot sync");
        if (replica() == nullptr) return;
        replica()->use_only(Side::replica);
        std::vector<DirectoryUsage> usage;
        require(volume->usage({}, top, {}, usage) == Errc::ok, "du failed");
        set_side();
    }

    const char* name;
    std::optional<Side> side;
    MemoryVolume volume;
    Handle top;
};

/// All calls for `count` names, one after the other. add(operation, seconds) takes the times.
void run_calls(Subject& subject, u64 count, const std::function<void(const char*, double)>& add) {
    Volume& volume = *subject.volume;
    const Handle from = add_entry(volume, subject.top, "from", directory_mode);
    const Handle to = add_entry(volume, subject.top, "to", directory_mode);
    std::vector<std::string> names;
    for (u64 i = 0; i < count; ++i)
        names.push_back("entry" + std::to_string(i));
    std::vector<Creation> creations;
    std::vector<Lookup> lookups;
    std::vector<Move> moves;
    for (const std::string& name : names) {
        creations.push_back({from, name, {}});
        lookups.push_back({from, name});
        moves.push_back({from, name, to, name});
    }
    std::vector<Result<Attributes>> found(count, Errc::io);
    std::vector<Errc> codes(count, Errc::io);
    const auto measure = [&](const char* operation, const auto& call) {
        subject.bring_up_to_date();
        // The subjects' ways to get there leave more or less of the volume in the caches.
        for (u32 i = 0; i < warm_lookups; ++i)
            require(bool(volume.lookup({}, subject.top, "from")), "the directory is gone");
        add(operation, time_of(call));
    };
    const auto require_found = [&] {
        const bool all = std::ranges::all_of(found, [](const auto& one) { return bool(one); });
        require(all, "not all names are there");
    };
    measure("create", [&] { volume.create_many({}, creations, found); });
    require_found();
    measure("look up", [&] { volume.lookup_many({}, lookups, found); });
    require_found();
    measure("du", [&] {
        std::vector<DirectoryUsage> usage;
        require(volume.usage({}, from, {}, usage) == Errc::ok, "du failed");
        require(usage[0].entries == count + 1, "du counted wrong");
    });
    measure("find", [&] {
        ScanFilter filter;
        filter.pattern = "entry1";
        const auto visit = [](const Scanned&) { return true; };
        require(volume.scan({}, from, visit, filter) == Errc::ok, "find failed");
    });
    measure("move", [&] { volume.move_many({}, moves, codes); });
    require(std::ranges::count(codes, Errc::ok) == static_cast<i64>(count), "not all moved");
    Removal removal;
    measure("remove", [&] {
        require(volume.remove_tree({}, subject.top, "to", removal) == Errc::ok, "cannot remove");
    });
    require(removal.files == count, "removed something else");
    require(volume.remove_directory({}, subject.top, "from") == Errc::ok, "cannot remove");
}

}  // namespace

int main(int argument_count, char** arguments) {
    const u64 most = option(argument_count, arguments, "most", u64{1} << 20);
    const u64 runs = option(argument_count, arguments, "runs", 7);
    constexpr u64 learning_runs = 3;
    Report report("replica_sweep", argument_count, arguments);
    std::vector<std::unique_ptr<Subject>> subjects;
    subjects.push_back(std::make_unique<Subject>(by_cpu, 0, std::nullopt));
    subjects.push_back(std::make_unique<Subject>(by_gpu, device_bytes, Side::replica));
    subjects.push_back(std::make_unique<Subject>(by_choice, device_bytes, std::nullopt));
    std::vector<std::string> rows;
    for (u64 count = 1; count <= most; count *= 4) {
        const u64 measured_runs = count <= few_names ? runs_with_few * runs : runs;
        for (u64 run = 0; run < learning_runs + measured_runs; ++run) {
            for (const auto& subject : subjects) {
                run_calls(*subject, count, [&](const char* operation, double seconds) {
                    if (run < learning_runs) return;
                    const std::string row = std::string(operation) + " " + std::to_string(count);
                    report.add(row, subject->name, seconds, static_cast<double>(count));
                    if (std::ranges::find(rows, row) == rows.end()) rows.push_back(row);
                });
            }
        }
    }
    for (const std::string& row : rows) {
        const double faster = std::min(report.median(row, by_cpu), report.median(row, by_gpu));
        report.must(row + ": the faster side's time over that of the choice",
                    faster / report.median(row, by_choice), 1 / (1 + tolerance));
    }
    return report.finish();
}
