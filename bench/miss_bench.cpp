// SPDX-License-Identifier: Apache-2.0
// Do callers that miss metadata wait for the disk in parallel? Attributes of files whose inodes are
// not in memory, asked for by more and more callers: at random with the smallest meta buffer, where
// nearly each is a miss, and of each file once in a volume that was just opened. What the disk can
// do: reads of the same blocks without a volume. All by io_uring past the page cache.
//
//   miss_bench [--questions N] [FOLDER]
//       N questions a run in all (20,000); FOLDER holds the image (/var/tmp)
#include <thread>

#include "base/random.hpp"
#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "fs/disk/file_disk.hpp"
#include "fs/format/inode.hpp"
#include "warren/volume.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

constexpr u64 file_count = 200'000;  // 50 MB of inodes
constexpr u64 buffer_bytes = 1 * mib;
constexpr u64 callers[] = {1, 2, 4, 8, 16, 32};
constexpr int runs = 5;

const std::string at_random = "attributes at random, 1 MiB of metadata in memory";
const std::string no_volume = "their blocks at random, no volume";
const std::string each_once = "attributes of each file once after opening";

std::unique_ptr<Volume> open(const std::string& image, u64 meta_buffer_bytes) {
    Failure failure;
    OpenOptions options;
    options.engine = EngineChoice::cpu;
    options.meta_buffer_bytes = meta_buffer_bytes;
    options.disk = DiskAccess::direct;
    auto volume = Volume::open(image, options, failure);
    require(volume != nullptr, failure.message);
    return volume;
}

std::vector<Handle> make_files(const std::string& image) {
    FormatOptions format;
    format.size_bytes = 1 * gib;
    const Failure failure = make_volume(image, format);
    require(failure.code == Errc::ok, failure.message);
    const auto volume = open(image, 0);
    std::vector<Handle> files;
    for (u64 i = 0; i < file_count; ++i) {
        const auto made = volume->create({.check = false}, volume->root(), std::to_string(i), {});
        require(static_cast<bool>(made), "cannot make a file");
        files.push_back(made->handle);
    }
    require(volume->close() == Errc::ok, "cannot close the volume");
    return files;
}

std::string name_of_executor(u64 count) {
    return std::to_string(count) + (count == 1 ? " caller" : " callers");
}

/// Lets `count` callers run at once: `body(i)` is the i-th of them.
template <class Body>
double time_crowd(u64 count, const Body& body) {
    return time_of([&] {
        std::vector<std::thread> executor;
        for (u64 i = 0; i < count; ++i)
            executor.emplace_back([&body, i] { body(i); });
        for (std::thread& one : executor)
            one.join();
    });
}

void ask(Volume& volume, Handle file) {
    require(static_cast<bool>(volume.attributes(file)), "cannot read attributes");
}

/// Lets callers make `questions` calls for random files: `body(file)` is one call.
template <class Body>
void measure_random(Report& report, const std::string& scenario, const std::vector<Handle>& files,
                    u64 questions, const Body& body) {
    for (int run = 0; run < runs; ++run) {
        for (const u64 count : callers) {
            const u64 each = questions / count;
            const double seconds = time_crowd(count, [&](u64 i) {
                Random random(static_cast<u64>(run) * 100 + i + 1);
                for (u64 k = 0; k < each; ++k)
                    body(files[random.below(files.size())]);
            });
            report.add(scenario, name_of_executor(count), seconds,
                       static_cast<double>(each * count));
        }
    }
}

void measure_volume(Report& report, const std::string& image, const std::vector<Handle>& files,
                    u64 questions) {
    const auto volume = open(image, buffer_bytes);
    measure_random(report, at_random, files, questions, [&](Handle file) { ask(*volume, file); });
    require(volume->close() == Errc::ok, "cannot close the volume");
}

void measure_disk(Report& report, const std::string& image, const std::vector<Handle>& files,
                  u64 questions) {
    Failure failure;
    const auto disk = FileDisk::open(image, OpenMode::read_only, failure);
    require(disk != nullptr, failure.message);
    std::string why;
    require(disk->use(DiskAccess::direct, why) == Errc::ok, why);
    measure_random(report, no_volume, files, questions, [&](Handle file) {
        format::Block block;
        const u64 place = file.inode / format::inodes_per_block * format::block_size;
        require(disk->read(place, std::as_writable_bytes(std::span(&block, 1))) == Errc::ok,
                "cannot read a block");
    });
}

/// Each caller reads the attributes of all files of blocks of its own.
void measure_each_once(Report& report, const std::string& image, const std::vector<Handle>& files) {
    for (int run = 0; run < runs; ++run) {
        for (const u64 count : callers) {
            const auto volume = open(image, 0);
            const double seconds = time_crowd(count, [&](u64 i) {
                for (const Handle& file : files) {
                    if (file.inode / format::inodes_per_block % count == i) ask(*volume, file);
                }
            });
            report.add(each_once, name_of_executor(count), seconds, file_count);
            require(volume->close() == Errc::ok, "cannot close the volume");
        }
    }
}

}  // namespace

int main(int argument_count, char** arguments) {
    const u64 questions = option(argument_count, arguments, "questions", 20'000);
    // An odd number of words: all options, each with a value, and a folder after them.
    const bool has_folder = argument_count % 2 == 0;
    const Scratch scratch(has_folder ? arguments[argument_count - 1] : "/var/tmp");
    Report report("miss_bench", argument_count, arguments);
    const std::string image = scratch.path() + "/image";
    const std::vector<Handle> files = make_files(image);
    measure_disk(report, image, files, questions);
    measure_volume(report, image, files, questions);
    measure_each_once(report, image, files);
    for (const std::string& scenario : {no_volume, at_random, each_once})
        report.set_reference(scenario, name_of_executor(1));
    return report.finish();
}
