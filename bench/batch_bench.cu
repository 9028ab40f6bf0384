// SPDX-License-Identifier: Apache-2.0
// How long do many items take in one call on the GPU? create_many(), lookup_many(), move_many() and
// remove_many() through the library, names and answers over the bus included, beside rename(2) and
// unlink(2) on tmpfs. Every run makes and moves names of its own; what it changed is made durable
// between runs, outside of the time.
//
//   batch_bench [--runs N] [--items N] [--engine N] [--pause N] [--largest N]
//
// N runs (5); items of the large scenarios (1,000,000; 0 for none); engine 1 for the CPU's;
// milliseconds of rest before each of the small moves (0); of the small scenarios those of as many
// items at most (10,000)
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "fs/admin/make_volume.hpp"
#include "fs/commit/superblock_io.hpp"
#include "fs/volume/volume_implementation.hpp"
#include "tests/support/fault_disk.hpp"
#include "tests/support/memory_disk.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

const Caller anybody{};

/// A volume on a disk in memory, large enough that no commit starts during a batch.
class MemoryVolume {
 public:
    explicit MemoryVolume(EngineChoice engine) : disk_(64 * gib) {
        const Failure made = make_volume_on(disk_, "image", disk_.size_bytes(), "bench");
        require(made.code == Errc::ok, made.message);
        format::Superblock superblock;
        require(read_superblock(disk_, "image", superblock).code == Errc::ok, "no superblock");
        auto implementation = std::make_unique<VolumeImplementation>(
            std::make_unique<FaultDisk>(disk_), superblock, OpenOptions{.engine = engine});
        require(implementation->start() == Errc::ok,
                "cannot open: " + implementation->engine_failure());
        volume_ = std::make_unique<Volume>(std::move(implementation));
    }
    Volume& operator*() { return *volume_; }
    void sync() { require(volume_->sync() == Errc::ok, "cannot sync"); }

 private:
    MemoryDisk disk_;
    std::unique_ptr<Volume> volume_;
};

std::vector<std::string> names_of(u64 count) {
    std::vector<std::string> names;
    for (u64 i = 0; i < count; ++i)
        names.push_back("entry" + std::to_string(i));
    return names;
}

std::vector<Handle> make_directories(Volume& volume, const std::string& name, u64 count) {
    std::vector<std::string> names;
    std::vector<Creation> creations;
    for (u64 i = 0; i < count; ++i)
        names.push_back(name + std::to_string(i));
    for (const std::string& one : names)
        creations.push_back({volume.root(), one, {.mode = 040755}});
    std::vector<Result<Attributes>> results(count, Errc::io);
    volume.create_many(anybody, creations, results);
    std::vector<Handle> made;
    for (const Result<Attributes>& result : results) {
        require(bool(result), "cannot make a directory");
        made.push_back(result->handle);
    }
    return made;
}

/// The number of files in each directory and of directories, and the directories they move to.
struct Files {
    std::vector<std::string> names;
    std::vector<Handle> from;
    std::vector<Handle> to;

    u64 count() const { return from.size() * names.size(); }
    std::vector<Move> moves(bool back) const {
        std::vector<Move> all;
        all.reserve(count());
        for (std::size_t d = 0; d < from.size(); ++d) {
            const Handle to_here = to[d % to.size()];
            for (const std::string& name : names) {
                if (back) {
                    all.push_back({to_here, name, from[d], name});
                } else {
                    all.push_back({from[d], name, to_here, name});
                }
            }
        }
        return all;
    }
};

double create_all(Volume& volume, const Files& files) {
    std::vector<Creation> creations;
    creations.reserve(files.count());
    for (const Handle directory : files.from) {
        for (const std::string& name : files.names)
            creations.push_back({directory, name, {}});
    }
    std::vector<Result<Attributes>> results(creations.size(), Errc::io);
    const double seconds = time_of([&] { volume.create_many(anybody, creations, results); });
    for (const Result<Attributes>& result : results)
        require(bool(result),
                "create_many failed: " + std::to_string(static_cast<int>(result.code())));
    return seconds;
}

double look_up_all(Volume& volume, const Files& files) {
    std::vector<Lookup> lookups;
    lookups.reserve(files.count());
    for (const Handle directory : files.from) {
        for (const std::string& name : files.names)
            lookups.push_back({directory, name});
    }
    std::vector<Result<Attributes>> results(lookups.size(), Errc::io);
    const double seconds = time_of([&] { volume.lookup_many(anybody, lookups, results); });
    for (const Result<Attributes>& result : results)
        require(bool(result),
                "lookup_many failed: " + std::to_string(static_cast<int>(result.code())));
    return seconds;
}

double move_all(Volume& volume, const Files& files, bool back) {
    const std::vector<Move> moves = files.moves(back);
    std::vector<Errc> results(moves.size(), Errc::io);
    const double seconds = time_of([&] { volume.move_many(anybody, moves, results); });
    for (const Errc result : results)
        require(result == Errc::ok,
                "move_many failed: " + std::to_string(static_cast<int>(result)));
    return seconds;
}

/// Removes the first `count` names of each directory.
double remove_some(Volume& volume, const Files& files, u64 count) {
    std::vector<Unlink> names;
    for (const Handle directory : files.from) {
        for (u64 i = 0; i < count; ++i)
            names.push_back({directory, files.names[i]});
    }
    std::vector<Errc> results(names.size(), Errc::io);
    const double seconds = time_of([&] { volume.remove_many(anybody, names, results); });
    for (const Errc result : results)
        require(result == Errc::ok,
                "remove_many failed: " + std::to_string(static_cast<int>(result)));
    return seconds;
}

void measure_large(Report& report, MemoryVolume& volume, u64 directories, u64 items, u64 runs) {
    const std::string shape = std::to_string(items) + " in " + std::to_string(directories);
    const double count = static_cast<double>(items);
    for (u64 run = 0; run < runs; ++run) {
        const std::string number = std::to_string(directories) + "-" + std::to_string(run) + "-";
        Files files;
        files.names = names_of(items / directories);
        files.from = make_directories(*volume, "from" + number, directories);
        files.to = make_directories(*volume, "to" + number, directories);
        volume.sync();
        report.add("create, " + shape, "create_many", create_all(*volume, files), count);
        volume.sync();
        report.add("look up, " + shape, "lookup_many", look_up_all(*volume, files), count);
        report.add("move, " + shape, "move_many", move_all(*volume, files, false), count);
        volume.sync();
        report.add("move, " + shape, "move_many", move_all(*volume, files, true), count);
        volume.sync();
        report.add("remove, " + shape, "remove_many",
                   remove_some(*volume, files, files.names.size()), count);
        volume.sync();
    }
}

/// Seconds of rename(2) of the same files on tmpfs.
double rename_on_tmpfs(const std::string& folder, u64 directories, u64 files_each, bool back) {
    const int root = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY);
    require(root >= 0, "cannot open " + folder);
    std::vector<std::pair<std::string, std::string>> paths;
    for (u64 d = 0; d < directories; ++d) {
        const std::string own = std::to_string(d) + "/";
        for (u64 f = 0; f < files_each; ++f) {
            const std::string name = "entry" + std::to_string(f);
            paths.emplace_back("from" + own + name, "to" + own + name);
            if (back) std::swap(paths.back().first, paths.back().second);
        }
    }
    const double seconds = time_of([&] {
        for (const auto& [from, to] : paths)
            require(::renameat(root, from.c_str(), root, to.c_str()) == 0, "cannot move " + from);
    });
    ::close(root);
    return seconds;
}

void make_on_tmpfs(const std::string& folder, u64 directories, u64 files_each) {
    for (u64 d = 0; d < directories; ++d) {
        const std::string own = std::to_string(d);
        const std::string from = folder + "/from" + own;
        require(::mkdir(from.c_str(), 0755) == 0, "cannot make " + from);
        require(::mkdir((folder + "/to" + own).c_str(), 0755) == 0, "cannot make a directory");
        for (u64 f = 0; f < files_each; ++f)
            require(::mknod((from + "/entry" + std::to_string(f)).c_str(), S_IFREG | 0644, 0) == 0,
                    "cannot make a file");
    }
}

void measure_moves(Report& report, MemoryVolume& volume, u64 directories, u64 files_each, u64 runs,
                   std::chrono::milliseconds pause) {
    const u64 items = directories * files_each;
    const std::string label = "move " + std::to_string(items) +
                              (directories == 1 ? ", one shared directory" : ", each its own");
    const std::string number = std::to_string(directories) + "." + std::to_string(files_each) + ".";
    const double count = static_cast<double>(items);
    Files files;
    files.names = names_of(files_each);
    files.from = make_directories(*volume, "small-from" + number, directories);
    files.to = make_directories(*volume, "small-to" + number, directories);
    create_all(*volume, files);
    Scratch tmpfs("/dev/shm");
    make_on_tmpfs(tmpfs.path(), directories, files_each);
    for (u64 run = 0; run < 2 * runs; ++run) {
        const bool back = run % 2 != 0;
        if (pause.count() > 0) std::this_thread::sleep_for(pause);
        report.add(label, "move_many", move_all(*volume, files, back), count);
        report.add(label, "tmpfs rename(2)",
                   rename_on_tmpfs(tmpfs.path(), directories, files_each, back), count);
    }
    report.set_reference(label, "tmpfs rename(2)");
    volume.sync();
}

/// Seconds of unlink(2) of the same files in `folder`.
double unlink_on_host(const std::string& folder, u64 count) {
    const std::string path = folder + "/from0";
    const int directory = ::open(path.c_str(), O_RDONLY | O_DIRECTORY);
    require(directory >= 0, "cannot open " + path);
    const std::vector<std::string> names = names_of(count);
    const double seconds = time_of([&] {
        for (const std::string& name : names)
            require(::unlinkat(directory, name.c_str(), 0) == 0, "cannot unlink " + name);
    });
    ::close(directory);
    return seconds;
}

/// Removes `count` names of a directory of `entries`.
void measure_removals(Report& report, MemoryVolume& volume, u64 count, u64 entries, u64 runs) {
    const std::string label = "remove " + std::to_string(count) + " of " + std::to_string(entries);
    for (u64 run = 0; run < runs; ++run) {
        const std::string number = std::to_string(entries) + "." + std::to_string(run);
        Files files;
        files.names = names_of(entries);
        files.from = make_directories(*volume, "of" + std::to_string(count) + "." + number, 1);
        create_all(*volume, files);
        volume.sync();
        Scratch tmpfs("/dev/shm");
        make_on_tmpfs(tmpfs.path(), 1, entries);
        report.add(label, "remove_many", remove_some(*volume, files, count),
                   static_cast<double>(count));
        report.add(label, "tmpfs unlink(2)", unlink_on_host(tmpfs.path(), count),
                   static_cast<double>(count));
    }
    report.set_reference(label, "tmpfs unlink(2)");
}

}  // namespace

int main(int argument_count, char** arguments) {
    const u64 runs = option(argument_count, arguments, "runs", 5);
    const u64 items = option(argument_count, arguments, "items", 1'000'000);
    const bool on_cpu = option(argument_count, arguments, "engine", 0) == 1;
    const std::chrono::milliseconds pause(option(argument_count, arguments, "pause", 0));
    const u64 largest = option(argument_count, arguments, "largest", 10'000);
    Report report("batch_bench", argument_count, arguments);
    MemoryVolume volume(on_cpu ? EngineChoice::cpu : EngineChoice::cuda);
    for (const u64 count : {32u, 100u, 1000u, 10'000u}) {
        if (count > largest) continue;
        measure_moves(report, volume, 1, count, runs, pause);
        measure_moves(report, volume, count, 1, runs, pause);
    }
    for (const u64 count : {32u, 100u, 1000u}) {
        if (count > largest) continue;
        measure_removals(report, volume, count, count, runs);
        measure_removals(report, volume, count, 20 * count, runs);
    }
    if (items > 0) {
        measure_large(report, volume, items / 1000, items, runs);
        measure_large(report, volume, 1, items, runs);
    }
    return report.finish();
}
