// SPDX-License-Identifier: Apache-2.0
// What does a reflink of a large file take? cp(1) on a Warren mount, on xfs and on btrfs, each in a
// sparse file of the same directory, the last two on a loop device. The source is clean: durable,
// and its pages are not in the page cache. Each run makes the file systems anew.
//
//   reflink_bench [--runs N] [--gib N]   N: size of the file
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/random.hpp"
#include "base/whole_io.hpp"
#include "bench/support/mounts.hpp"
#include "bench/support/places.hpp"
#include "bench/support/report.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

constexpr const char* disk_folder = "/var/tmp";

/// xfs or btrfs with default options on a loop device.
class LoopFileSystem {
 public:
    LoopFileSystem(const std::string& folder, const std::string& kind, u64 size_bytes)
        : image_(folder + "/" + kind + ".img"), path_(folder + "/" + kind) {
        run_or_die({"truncate", "-s", std::to_string(size_bytes), image_});
        run_or_die({"mkfs." + kind, image_});
        std::filesystem::create_directory(path_);
        run_or_die({"mount", "-o", "loop", image_, path_});
    }
    ~LoopFileSystem() {
        run_program({"umount", path_});
        run_program({"rm", "-f", image_});
    }
    LoopFileSystem(const LoopFileSystem&) = delete;
    LoopFileSystem& operator=(const LoopFileSystem&) = delete;
    const std::string& path() const { return path_; }

 private:
    std::string image_;
    std::string path_;
};

void write_file(const std::string& path, u64 size_bytes) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    require(file >= 0, "cannot create " + path);
    Random random(1);
    std::vector<u64> words(8 * mib / sizeof(u64));
    for (u64& word : words)
        word = random.next();
    const auto bytes = std::as_bytes(std::span(words));
    for (u64 at = 0; at < size_bytes; at += bytes.size())
        require(write_fully(file, at, bytes) == Errc::ok, "cannot write " + path);
    require(::fsync(file) == 0 && ::close(file) == 0, "cannot write " + path);
}

class Bench {
 public:
    Bench(Report& report, u64 size_gib) : report_(report), size_gib_(size_gib) {}

    void run() {
        const Scratch scratch(disk_folder);
        const u64 size_bytes = size_gib_ * gib + size_gib_ * gib / 2 + 4 * gib;
        {
            WarrenMount warren(scratch.path(), size_bytes);
            warren.mount();
            measure("Warren", warren.path(), {"cp"});
            const std::string copy = warren.path() + "/own";
            measure_copy(
                again(), "Warren, warren cp --reflink=always",
                {warren_program(), "cp", "--reflink=always", warren.path() + "/file", copy});
        }
        std::filesystem::remove(scratch.path() + "/mounted.img");
        for (const char* kind : {"xfs", "btrfs"}) {
            const LoopFileSystem peer(scratch.path(), kind, size_bytes);
            measure(kind, peer.path(), {"cp", "--reflink=always"});
        }
    }
    std::string first() const { return times("of a clean file"); }
    std::string again() const { return times("once more"); }
    std::string durable() const { return times("then fsync"); }
    std::string empty() const { return "cp, an empty file"; }

 private:
    std::string times(const std::string& what) const {
        return "cp, " + std::to_string(size_gib_) + " GiB, " + what;
    }
    void measure_copy(const std::string& scenario, const std::string& subject,
                      const std::vector<std::string>& words) {
        report_.add(scenario, subject, time_of([&] { run_or_die(words); }), 1);
        require(std::filesystem::file_size(words.back()) == size_gib_ * gib,
                words.back() + " is not whole");
    }
    void measure(const std::string& subject, const std::string& folder,
                 std::vector<std::string> copy) {
        const std::string file = folder + "/file";
        write_file(file, size_gib_ * gib);
        run_or_die({"touch", folder + "/empty"});
        drop_caches(1);
        copy.insert(copy.end(), {folder + "/empty", folder + "/warm"});
        run_or_die(copy);  // reads the program from the disk
        copy.back() = folder + "/empty too";
        report_.add(empty(), subject, time_of([&] { run_or_die(copy); }), 1);
        for (const bool is_first : {true, false}) {
            copy[copy.size() - 2] = file;
            copy.back() = folder + (is_first ? "/copy" : "/other");
            measure_copy(is_first ? first() : again(), subject, copy);
            const double synced = time_of([&] { run_or_die({"sync", copy.back()}); });
            if (is_first) report_.add(durable(), subject, synced, 1);
        }
    }

    Report& report_;
    const u64 size_gib_;
};

}  // namespace

int main(int argument_count, char** arguments) {
    const u64 runs = option(argument_count, arguments, "runs", 3);
    const u64 size_gib = option(argument_count, arguments, "gib", 10);
    require(size_gib > 0, "--gib must be at least 1");
    Report report("reflink_bench", argument_count, arguments);
    Bench bench(report, size_gib);
    for (u64 run = 0; run < runs; ++run)
        bench.run();
    for (const std::string& scenario :
         {bench.empty(), bench.first(), bench.again(), bench.durable()})
        report.set_reference(scenario, "Warren");
    for (const std::string& scenario : {bench.first(), bench.again()})
        report.must("20 ms over " + scenario, 0.020 / report.median(scenario, "Warren"), 1);
    return report.finish();
}
