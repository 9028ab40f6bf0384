// SPDX-License-Identifier: Apache-2.0
// Does who reads what is in memory wait for a disk that others wait for? The seed's table 5.1: a
// file of 27 KiB is read again and again, alone, and beside other callers who read a file that is
// not in memory and larger than the file buffer. The image lies in /var/tmp, on the machine's disk,
// reached by io_uring past the page cache.
//
//   hit_bench [--reads N] [--missers N]    N reads a run (200,000); N callers who miss (1)
#include <algorithm>
#include <atomic>
#include <thread>

#include "base/random.hpp"
#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "warren/volume.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

constexpr u64 hit_bytes = 27 * kib;
constexpr u64 cold_bytes = 256 * mib;
constexpr u64 file_buffer_bytes = 16 * mib;
constexpr u64 miss_bytes = 64 * kib;
constexpr int runs = 5;

const char* const alone = "alone";
const char* const beside = "beside misses";
const char* const median_row = "a hit of 27 KiB, median";
const char* const slow_row = "a hit of 27 KiB, one in a hundred is slower";

Handle make_file(Volume& volume, const std::string& name, u64 size) {
    CreateOptions options;
    options.open = true;
    const Result<Attributes> made = volume.create({}, volume.root(), name, options);
    require(static_cast<bool>(made), "cannot make a file");
    std::vector<std::byte> bytes(std::min<u64>(size, mib), std::byte{1});
    for (u64 at = 0; at < size; at += bytes.size()) {
        const Result<u64> done = volume.write(made->handle, at, bytes);
        require(done && *done == bytes.size(), "cannot write");
    }
    return made->handle;
}

/// Callers who read where nothing is in memory until they are told to stop.
class Missers {
 public:
    Missers(Volume& volume, Handle file, u64 count) {
        for (u64 i = 0; i < count; ++i) {
            crowd_.emplace_back([this, &volume, file, i] {
                Random random(i + 1);
                std::vector<std::byte> bytes(miss_bytes);
                while (!stop_.load(std::memory_order_relaxed)) {
                    const u64 at = random.below(cold_bytes / miss_bytes) * miss_bytes;
                    require(static_cast<bool>(volume.read(file, at, bytes)), "cannot read");
                    misses_.fetch_add(1, std::memory_order_relaxed);
                }
            });
        }
    }
    u64 stop() {
        stop_.store(true, std::memory_order_relaxed);
        for (std::thread& one : crowd_)
            one.join();
        crowd_.clear();
        return misses_.load(std::memory_order_relaxed);
    }

 private:
    std::atomic<bool> stop_{false};
    std::atomic<u64> misses_{0};
    std::vector<std::thread> crowd_;
};

/// Seconds of each of `reads` hits, sorted.
std::vector<double> read_hits(Volume& volume, Handle file, u64 reads) {
    std::vector<std::byte> bytes(hit_bytes);
    std::vector<double> seconds;
    seconds.reserve(reads);
    for (u64 i = 0; i < reads; ++i) {
        seconds.push_back(time_of([&] {
            const Result<u64> done = volume.read(file, 0, bytes);
            require(done && *done == hit_bytes, "cannot read");
        }));
    }
    std::ranges::sort(seconds);
    return seconds;
}

void add(Report& report, const char* subject, const std::vector<double>& seconds) {
    report.add(median_row, subject, seconds[seconds.size() / 2], 1);
    report.add(slow_row, subject, seconds[seconds.size() * 99 / 100], 1);
}

}  // namespace

int main(int argument_count, char** arguments) {
    const u64 reads = option(argument_count, arguments, "reads", 200'000);
    const u64 missers = option(argument_count, arguments, "missers", 1);
    Report report("hit_bench", argument_count, arguments);
    const Scratch scratch("/var/tmp");
    const std::string image = scratch.path() + "/image";
    FormatOptions format;
    format.size_bytes = 1 * gib;
    Failure failure = make_volume(image, format);
    require(failure.code == Errc::ok, failure.message);
    OpenOptions options;
    options.engine = EngineChoice::cpu;
    options.file_buffer_bytes = file_buffer_bytes;
    options.disk = DiskAccess::direct;
    const auto volume = Volume::open(image, options, failure);
    require(volume != nullptr, failure.message);
    const Handle hot = make_file(*volume, "hot", hit_bytes);
    const Handle cold = make_file(*volume, "cold", cold_bytes);
    require(volume->sync() == Errc::ok, "cannot sync");

    double fastest = 1;
    double slowest = 0;
    u64 misses = 0;
    for (int run = 0; run < runs; ++run) {
        const std::vector<double> quiet = read_hits(*volume, hot, reads);
        fastest = std::min(fastest, quiet[reads / 2]);
        slowest = std::max(slowest, quiet[reads / 2]);
        add(report, alone, quiet);
        Missers others(*volume, cold, missers);
        add(report, beside, read_hits(*volume, hot, reads));
        misses += others.stop();
    }
    report.set_reference(median_row, alone);
    report.set_reference(slow_row, alone);
    report.note(std::to_string(misses) + " misses of 64 KiB meanwhile");
    require(misses > 0, "nobody missed");
    const double allowed = std::max(1.02, slowest / fastest);
    report.must("median: 2% or the spread of the runs alone, over what misses add",
                allowed * report.median(median_row, alone) / report.median(median_row, beside),
                1.0);
    report.must("one in a hundred: twice what it takes alone, over what it takes beside misses",
                2 * report.median(slow_row, alone) / report.median(slow_row, beside), 1.0);
    require(volume->close() == Errc::ok, "cannot close the volume");
    return report.finish();
}
