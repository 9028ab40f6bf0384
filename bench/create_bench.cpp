// SPDX-License-Identifier: Apache-2.0
// How fast are files made, found and listed through the library? 100,000 files in 100 directories
// and in one: create_many() and create(), lookup() and attributes(), scan(), beside the system
// calls and find and du on tmpfs and ext4.
//
//   create_bench [--runs N] [--large N]    with --large 1 also 1,000,000 files, walked
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "bench/support/trees.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

struct Places {
    Scratch memory{"/dev/shm"};
    Scratch tmpfs{"/dev/shm"};
    LoopExt4 ext4{memory.path(), 8 * gib, 6'000'000};
    OpenVolume volume{memory.path(), 12 * gib};
};

struct Shape {
    std::string label;
    u32 parents;
    u32 entries;
};

double items_of(const Shape& shape) {
    return static_cast<double>(u64{shape.parents} * shape.entries);
}

Handle find(Volume& volume, Handle directory, const std::string& name) {
    const Result<Attributes> found = volume.lookup({}, directory, name);
    require(bool(found), "cannot find " + name);
    return (*found).handle;
}

/// The directories of a tree, where the loops work; names are made before the time starts.
std::vector<Handle> directories_of(Volume& volume, Handle root, const Shape& shape) {
    std::vector<Handle> directories;
    for (u32 i = 0; i < shape.parents; ++i)
        directories.push_back(find(volume, root, "directory" + std::to_string(i)));
    return directories;
}

std::vector<std::string> entry_names(const Shape& shape) {
    std::vector<std::string> names;
    for (u32 i = 0; i < shape.entries; ++i)
        names.push_back("entry" + std::to_string(i));
    return names;
}

template <class Call>
double each_in_volume(const std::vector<Handle>& directories, const std::vector<std::string>& names,
                      const Call& call) {
    return time_of([&] {
        for (const Handle directory : directories) {
            for (const std::string& name : names)
                require(call(directory, name), "failed in the volume: " + name);
        }
    });
}

template <class Call>
double each_on_host(const std::string& tree, const Shape& shape,
                    const std::vector<std::string>& names, const Call& call) {
    double seconds = 0;
    for (u32 i = 0; i < shape.parents; ++i) {
        const std::string path = tree + "/directory" + std::to_string(i);
        const int directory = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        require(directory >= 0, "cannot open " + path);
        seconds += time_of([&] {
            for (const std::string& name : names)
                require(call(directory, name.c_str()), "failed: " + path + "/" + name);
        });
        ::close(directory);
    }
    return seconds;
}

void measure_volume(Report& report, Places& places, const Shape& shape, const std::string& root) {
    Volume& volume = *places.volume;
    const std::vector<std::string> names = entry_names(shape);
    const double items = items_of(shape);
    make_in_volume(volume, volume.root(), flat_tree(root, shape.parents, 0, false));
    make_in_volume(volume, volume.root(), flat_tree(root + "-many", shape.parents, 0, false));
    const std::vector<Handle> directories =
        directories_of(volume, find(volume, volume.root(), root), shape);
    std::vector<Creation> batch;
    for (const Handle directory :
         directories_of(volume, find(volume, volume.root(), root + "-many"), shape)) {
        for (const std::string& name : names)
            batch.push_back({directory, name, {}});
    }
    std::vector<Result<Attributes>> results(batch.size(), Errc::io);
    const double made = time_of([&] { volume.create_many({}, batch, results); });
    for (const Result<Attributes>& result : results)
        require(bool(result), "create_many failed");
    report.add("create, " + shape.label, "Warren create_many", made, items);
    report.add("create, " + shape.label, "Warren create_many + sync, durable",
               made + time_of([&] { require(volume.sync() == Errc::ok, "sync failed"); }), items);
    std::vector<Handle> files;
    files.reserve(static_cast<std::size_t>(items));
    report.add("create, " + shape.label, "Warren create, one by one",
               each_in_volume(directories, names,
                              [&](Handle directory, const std::string& name) {
                                  const Result<Attributes> file =
                                      volume.create({}, directory, name, {});
                                  if (file) files.push_back((*file).handle);
                                  return bool(file);
                              }),
               items);
    report.add("look up and stat, " + shape.label, "Warren lookup",
               each_in_volume(directories, names,
                              [&](Handle directory, const std::string& name) {
                                  return bool(volume.lookup({}, directory, name));
                              }),
               items);
    report.add("look up and stat, " + shape.label, "Warren attributes, by handle", time_of([&] {
                   for (const Handle file : files)
                       require(bool(volume.attributes(file)), "attributes failed");
               }),
               items);
}

void measure_host(Report& report, const std::string& where, const std::string& folder,
                  const Shape& shape, const std::string& root) {
    const std::vector<std::string> names = entry_names(shape);
    const double items = items_of(shape);
    make_on_host(folder, flat_tree(root, shape.parents, 0, false));
    const std::string tree = folder + "/" + root;
    report.add("create, " + shape.label, where + " openat(O_CREAT) + close",
               each_on_host(tree, shape, names,
                            [](int directory, const char* name) {
                                const int file =
                                    ::openat(directory, name, O_CREAT | O_EXCL | O_WRONLY, 0644);
                                return file >= 0 && ::close(file) == 0;
                            }),
               items);
    report.add("look up and stat, " + shape.label, where + " fstatat",
               each_on_host(tree, shape, names,
                            [](int directory, const char* name) {
                                struct stat facts {};
                                return ::fstatat(directory, name, &facts, 0) == 0;
                            }),
               items);
}

void walk_volume(Report& report, Volume& volume, const std::string& label, const std::string& root,
                 double items) {
    const Handle top = find(volume, volume.root(), root);
    std::atomic<u64> seen{0};
    report.add("walk, " + label, "Warren scan", time_of([&] {
                   require(volume.scan({}, top,
                                       [&](const Scanned& entry) {
                                           seen.fetch_add(entry.attributes.links > 0 ? 1 : 0,
                                                          std::memory_order_relaxed);
                                           return true;
                                       }) == Errc::ok,
                           "scan failed");
               }),
               items);
    require(static_cast<double>(seen.load()) > items, "scan saw too little");
}

void walk_host(Report& report, const std::string& where, const std::string& tree,
               const std::string& label, double items) {
    report.add("walk, " + label, where + " find -printf '%p %s\\n'", time_of([&] {
                   run_or_die({"find", tree, "-printf", "%p %s\n"});
               }),
               items);
    report.add("walk, " + label, where + " du -s", time_of([&] {
                   run_or_die({"du", "-s", tree});
               }),
               items);
}

void measure(Report& report, Places& places, const Shape& shape, u64 runs) {
    const double items = items_of(shape);
    for (u64 run = 0; run < runs; ++run) {
        const std::string root = std::to_string(shape.parents) + "-" + std::to_string(run);
        measure_volume(report, places, shape, root);
        measure_host(report, "tmpfs", places.tmpfs.path(), shape, root);
        measure_host(report, "ext4", places.ext4.path(), shape, root);
        walk_volume(report, *places.volume, shape.label, root, items);
        walk_host(report, "tmpfs", places.tmpfs.path() + "/" + root, shape.label, items);
        walk_host(report, "ext4", places.ext4.path() + "/" + root, shape.label, items);
    }
    report.set_reference("create, " + shape.label, "Warren create_many");
    report.set_reference("look up and stat, " + shape.label, "Warren lookup");
    report.set_reference("walk, " + shape.label, "Warren scan");
}

void measure_large(Report& report, Places& places) {
    const std::string label = "1,000,000 in 1,000 directories";
    const Tree tree = flat_tree("large", 1000, 1000, false);
    const double items = static_cast<double>(tree.size());
    report.add("create, " + label, "Warren create_many, 1,000 a call",
               time_of([&] { make_in_volume(*places.volume, places.volume->root(), tree); }),
               items);
    report.add("create, " + label, "tmpfs mknodat",
               time_of([&] { make_on_host(places.tmpfs.path(), tree); }), items);
    report.add("create, " + label, "ext4 mknodat",
               time_of([&] { make_on_host(places.ext4.path(), tree); }), items);
    report.set_reference("create, " + label, "Warren create_many, 1,000 a call");
    for (u64 run = 0; run < 3; ++run) {
        walk_volume(report, *places.volume, label, "large", 1e6);
        walk_host(report, "tmpfs", places.tmpfs.path() + "/large", label, items);
        walk_host(report, "ext4", places.ext4.path() + "/large", label, items);
    }
    report.set_reference("walk, " + label, "Warren scan");
}

}  // namespace

int main(int argument_count, char** arguments) {
    raise_open_file_limit();
    const u64 runs = option(argument_count, arguments, "runs", 5);
    Report report("create_bench", argument_count, arguments);
    Places places;
    measure(report, places, {"100,000 in 100 directories", 100, 1000}, runs);
    measure(report, places, {"100,000 in one directory", 1, 100'000}, runs);
    if (option(argument_count, arguments, "large", 1) != 0) measure_large(report, places);
    return report.finish();
}
