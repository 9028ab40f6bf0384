// SPDX-License-Identifier: Apache-2.0
// What does it cost to pack a directory after many names went, and what does it give? The thesis's
// FxUy (y of x files unlinked) and 1,000,000 names of which every second went: Volume::rebuild(),
// and the same as a command to a mount, beside making the directory anew on tmpfs and ext4, which
// is what one does there (and, for ext4 unmounted, e2fsck -D over the whole file system).
//
//   rebuild_bench [--runs N] [--large N]    with --large 0 without 1,000,000 names
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "apps/fuse/control.hpp"
#include "bench/support/mounts.hpp"
#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "bench/support/trees.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

struct Case {
    u64 files;
    u64 unlinked;
    u64 runs;
};

std::string name_of(u64 number) {
    return "file" + std::to_string(number);
}

/// Whether this file is removed: the removed ones are spread evenly.
bool goes(const Case& which, u64 number) {
    return (number + 1) * which.unlinked / which.files != number * which.unlinked / which.files;
}

Tree tree_of(const Case& which, const std::string& directory) {
    Tree tree = {{0, directory, true}};
    for (u64 i = 0; i < which.files; ++i)
        tree.push_back({1, name_of(i), false});
    return tree;
}

Handle prepare_volume(Volume& volume, const Case& which, const std::string& directory) {
    make_in_volume(volume, volume.root(), tree_of(which, directory));
    const Handle handle = (*volume.lookup({}, volume.root(), directory)).handle;
    for (u64 i = 0; i < which.files; ++i) {
        if (!goes(which, i)) continue;
        require(volume.unlink({}, handle, name_of(i)) == Errc::ok, "cannot unlink");
    }
    require(volume.sync() == Errc::ok, "cannot sync the volume");
    return handle;
}

void prepare_host(const std::string& folder, const Case& which, const std::string& directory) {
    make_on_host(folder, tree_of(which, directory));
    for (u64 i = 0; i < which.files; ++i) {
        if (!goes(which, i)) continue;
        require(::unlink((folder + "/" + directory + "/" + name_of(i)).c_str()) == 0,
                "cannot unlink");
    }
}

u64 directory_blocks(const std::string& path) {
    struct stat facts {};
    require(::stat(path.c_str(), &facts) == 0, "cannot stat " + path);
    return static_cast<u64>(facts.st_blocks) / 8;
}

/// Moves every name into a new directory that takes the old one's place.
double make_anew(const std::string& folder, const std::string& directory) {
    const std::string old_path = folder + "/" + directory;
    const std::string new_path = old_path + ".new";
    return time_of([&] {
        require(::mkdir(new_path.c_str(), 0755) == 0, "cannot make " + new_path);
        const int target = ::open(new_path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR* stream = ::opendir(old_path.c_str());
        require(target >= 0 && stream != nullptr, "cannot open " + old_path);
        const int source = ::dirfd(stream);
        while (const dirent* entry = ::readdir(stream)) {
            const char* name = entry->d_name;
            if (std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0) continue;
            require(::renameat(source, name, target, name) == 0, "cannot move a name");
        }
        ::closedir(stream);
        ::close(target);
        require(::rmdir(old_path.c_str()) == 0 && ::rename(new_path.c_str(), old_path.c_str()) == 0,
                "cannot replace " + old_path);
    });
}

struct Places {
    Scratch memory{"/dev/shm"};
    Scratch tmpfs{"/dev/shm"};
    LoopExt4 ext4{memory.path(), 6 * gib, 4'000'000};
    OpenVolume volume{memory.path(), 8 * gib};
    WarrenMount mounted{memory.path(), 8 * gib};
};

std::string label_of(const Case& which) {
    return "F" + std::to_string(which.files) + "U" + std::to_string(which.unlinked);
}

std::string mounted_directory(const Case& which, u64 run, Names names) {
    return label_of(which) + "-" + std::to_string(run) + suffix_of(names);
}

void fill_mounted(const Places& places, const std::vector<Case>& cases) {
    places.mounted.fill([&](Volume& volume) {
        for (const Case& which : cases) {
            for (u64 run = 0; run < which.runs; ++run) {
                for (const Names names : {Names::cached, Names::not_cached})
                    prepare_volume(volume, which, mounted_directory(which, run, names));
            }
        }
    });
}

void measure_mounted(Report& report, const Places& places, const Case& which, u64 run) {
    for (const Names names : {Names::cached, Names::not_cached}) {
        const std::string path = places.mounted.path() + "/" + mounted_directory(which, run, names);
        prepare_names(names, path);
        Rebuilt rebuilt;
        report.add(label_of(which), "mount, one command" + suffix_of(names), time_of([&] {
                       auto connection = fuse::ControlConnection::for_path(path);
                       require(connection && connection->rebuild(path, rebuilt) == Errc::ok,
                               "rebuild on the mount failed");
                   }),
                   static_cast<double>(which.files));
        require(rebuilt.entries == which.files - which.unlinked, "names were lost");
    }
}

void measure(Report& report, Places& places, const Case& which) {
    const std::string label = label_of(which);
    const double items = static_cast<double>(which.files);
    std::string blocks;
    for (u64 run = 0; run < which.runs; ++run) {
        const std::string directory = label + "-" + std::to_string(run);
        const Handle handle = prepare_volume(*places.volume, which, directory);
        prepare_host(places.tmpfs.path(), which, directory);
        prepare_host(places.ext4.path(), which, directory);
        places.ext4.sync();
        Rebuilt rebuilt;
        const double packed = time_of([&] {
            require(places.volume->rebuild({}, handle, rebuilt) == Errc::ok, "rebuild failed");
        });
        require(rebuilt.entries == which.files - which.unlinked, "names were lost");
        report.add(label, "Warren rebuild", packed, items);
        report.add(
            label, "Warren rebuild + sync, durable",
            packed + time_of([&] { require(places.volume->sync() == Errc::ok, "sync failed"); }),
            items);
        measure_mounted(report, places, which, run);
        report.add(label, "tmpfs, made anew", make_anew(places.tmpfs.path(), directory), items);
        const std::string path = places.ext4.path() + "/" + directory;
        const u64 before = directory_blocks(path);
        report.add(label, "ext4, made anew", make_anew(places.ext4.path(), directory), items);
        blocks = label + ": blocks of the directory, Warren " +
                 std::to_string(rebuilt.blocks_before) + " to " +
                 std::to_string(rebuilt.blocks_after) + ", ext4 " + std::to_string(before) +
                 " to " + std::to_string(directory_blocks(path));
    }
    report.note(blocks);
    report.set_reference(label, "Warren rebuild");
}

/// e2fsck works on the whole file system, and only while it is not mounted.
void measure_e2fsck(Report& report, Places& places, const Case& which) {
    prepare_host(places.ext4.path(), which, "packed-by-e2fsck");
    places.ext4.sync();
    const u64 before = directory_blocks(places.ext4.path() + "/packed-by-e2fsck");
    places.ext4.unmount();
    report.add(label_of(which), "ext4 unmounted, e2fsck -D of everything", time_of([&] {
                   run_program({"e2fsck", "-fyD", places.ext4.image()});
               }),
               static_cast<double>(which.files));
    places.ext4.mount();
    report.note(label_of(which) + ": blocks of the directory, e2fsck -D " + std::to_string(before) +
                " to " +
                std::to_string(directory_blocks(places.ext4.path() + "/packed-by-e2fsck")));
}

}  // namespace

int main(int argument_count, char** arguments) {
    const u64 runs = option(argument_count, arguments, "runs", 5);
    const bool with_large = option(argument_count, arguments, "large", 1) != 0;
    Report report("rebuild_bench", argument_count, arguments);
    std::vector<Case> cases = {{100, 10, runs},   {100, 50, runs},   {100, 100, runs},
                               {1000, 100, runs}, {1000, 500, runs}, {1000, 1000, runs}};
    if (with_large) cases.push_back({1'000'000, 500'000, 3});
    Places places;
    fill_mounted(places, cases);
    places.mounted.mount();
    for (const Case& which : cases)
        measure(report, places, which);
    measure_e2fsck(report, places, cases.back());
    return report.finish();
}
