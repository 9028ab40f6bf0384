// SPDX-License-Identifier: Apache-2.0
// Does a reader of cached data wait for a disk that others wait for? The seed's table 5.1: a file
// of 27 KiB is read again and again, alone, and beside other callers that read a file that is not
// in memory and larger than the file buffer. The image is accessed by io_uring, bypassing the page
// cache.
//
// Disturbance by the machine itself (interrupts of the disk, memory) is measured in the same way:
// 27 KiB are copied beside callers that read a file with no buffer and no volume.
//
//   hit_bench [--reads N] [--missers N] [--core N] [FOLDER]
//       N reads a run (200,000); N callers with misses (1); the reader is pinned to core N, the
//       others to other cores; FOLDER holds the image (/var/tmp)
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

#include "base/random.hpp"
#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "fs/disk/file_disk.hpp"
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

/// Reads `miss_bytes` at an offset that is not in memory.
using Miss = std::function<void(u64 at, std::span<std::byte> target)>;

/// What is measured: a hit, what other threads do meanwhile, and the labels of both.
struct Trial {
    std::string name;
    std::function<void()> hit;
    Miss miss;

    std::string median() const { return name + ", median"; }
    std::string slow() const { return name + ", one in a hundred is slower"; }
};

struct Plan {
    u64 reads;
    u64 missers;
    u64 core;  // of the reader; ~0: any
};

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

/// Pins the calling thread to that core, or to all others.
void hold(u64 core, bool is_reader) {
    const u64 cores = std::thread::hardware_concurrency();
    if (core >= cores) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (u64 i = 0; i < cores; ++i) {
        if ((i == core) == is_reader) CPU_SET(i, &set);
    }
    require(::sched_setaffinity(0, sizeof set, &set) == 0, "cannot hold a thread on a core");
}

/// Callers that read uncached data until they are told to stop.
class Missers {
 public:
    Missers(const Miss& miss, const Plan& plan) {
        for (u64 i = 0; i < plan.missers; ++i) {
            executor_.emplace_back([this, &miss, &plan, i] {
                hold(plan.core, false);
                Random random(i + 1);
                std::vector<std::byte> bytes(miss_bytes);
                while (!stop_.load(std::memory_order_relaxed)) {
                    miss(random.below(cold_bytes / miss_bytes) * miss_bytes, bytes);
                    misses_.fetch_add(1, std::memory_order_relaxed);
                }
            });
        }
    }
    u64 stop() {
        stop_.store(true, std::memory_order_relaxed);
        for (std::thread& one : executor_)
            one.join();
        executor_.clear();
        return misses_.load(std::memory_order_relaxed);
    }

 private:
    std::atomic<bool> stop_{false};
    std::atomic<u64> misses_{0};
    std::vector<std::thread> executor_;
};

/// Seconds of each of `reads` hits, sorted.
std::vector<double> read_hits(const std::function<void()>& hit, u64 reads) {
    std::vector<double> seconds;
    seconds.reserve(reads);
    for (u64 i = 0; i < reads; ++i)
        seconds.push_back(time_of(hit));
    std::ranges::sort(seconds);
    return seconds;
}

void add(Report& report, const Trial& trial, const char* subject,
         const std::vector<double>& seconds) {
    report.add(trial.median(), subject, seconds[seconds.size() / 2], 1);
    report.add(trial.slow(), subject, seconds[seconds.size() * 99 / 100], 1);
}

std::string in_hundredths(u64 part, u64 whole) {
    const u64 hundredths = part * 100 / std::max<u64>(whole, 1);
    const std::string behind = std::to_string(hundredths % 100);
    return std::to_string(hundredths / 100) + (behind.size() == 1 ? ".0" : ".") + behind;
}

/// The number of voluntary context switches of this thread.
u64 sleeps() {
    rusage used{};
    ::getrusage(RUSAGE_THREAD, &used);
    return static_cast<u64>(used.ru_nvcsw);
}

/// All runs of a trial. How much the medians of those alone differ: slowest over fastest.
double measure(Report& report, const Trial& trial, const Plan& plan) {
    double fastest = 1;
    double slowest = 0;
    u64 misses = 0;
    u64 slow = 0;
    u64 slept = 0;
    for (int run = 0; run < runs; ++run) {
        const std::vector<double> quiet = read_hits(trial.hit, plan.reads);
        const double median = quiet[quiet.size() / 2];
        fastest = std::min(fastest, median);
        slowest = std::max(slowest, median);
        add(report, trial, alone, quiet);
        Missers others(trial.miss, plan);
        const u64 before = sleeps();
        const std::vector<double> seconds = read_hits(trial.hit, plan.reads);
        slept += sleeps() - before;
        misses += others.stop();
        add(report, trial, beside, seconds);
        const double limit = 2 * quiet[quiet.size() * 99 / 100];
        slow += static_cast<u64>(
            std::ranges::count_if(seconds, [limit](double one) { return one > limit; }));
    }
    require(misses > 0, "nobody missed");
    report.set_reference(trial.median(), alone);
    report.set_reference(trial.slow(), alone);
    report.note(trial.name + ": " + std::to_string(misses) + " misses of 64 KiB meanwhile, " +
                in_hundredths(slow, misses) +
                " for each are slower than the bound; the reader slept " + std::to_string(slept) +
                " times");
    return slowest / fastest;
}

/// 27 KiB copied in memory, beside requests to a file of its own.
void measure_machine(Report& report, const std::string& path, const Plan& plan) {
    Failure failure;
    const auto disk = FileDisk::open(path, OpenMode::create, failure);
    require(disk != nullptr, failure.message);
    require(disk->resize(cold_bytes) == Errc::ok, "cannot make a file");
    const std::vector<std::byte> part(mib, std::byte{1});
    for (u64 at = 0; at < cold_bytes; at += part.size())
        require(disk->write(at, part) == Errc::ok, "cannot write");
    require(disk->flush() == Errc::ok, "cannot sync");
    std::string why;
    require(disk->use(DiskAccess::direct, why) == Errc::ok, why);
    const std::vector<std::byte> source(hit_bytes, std::byte{1});
    std::vector<std::byte> target(hit_bytes);
    const Trial copies{"a copy of 27 KiB, no volume",
                       [&] {
                           std::memcpy(target.data(), source.data(), hit_bytes);
                           asm volatile("" ::"r"(target.data()) : "memory");
                       },
                       [&](u64 at, std::span<std::byte> bytes) {
                           require(disk->read(at, bytes) == Errc::ok, "cannot read");
                       }};
    measure(report, copies, plan);
}

void measure_volume(Report& report, const std::string& image, const Plan& plan) {
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
    std::vector<std::byte> target(hit_bytes);
    const Trial hits{"a hit of 27 KiB",
                     [&] {
                         const Result<u64> done = volume->read(hot, 0, target);
                         require(done && *done == hit_bytes, "cannot read");
                     },
                     [&](u64 at, std::span<std::byte> bytes) {
                         require(static_cast<bool>(volume->read(cold, at, bytes)), "cannot read");
                     }};
    const double allowed = std::max(1.02, measure(report, hits, plan));
    report.must(
        "median: 2% or the spread of the runs alone, over what misses add",
        allowed * report.median(hits.median(), alone) / report.median(hits.median(), beside), 1.0);
    report.must("one in a hundred: twice what it takes alone, over what it takes beside misses",
                2 * report.median(hits.slow(), alone) / report.median(hits.slow(), beside), 1.0);
    require(volume->close() == Errc::ok, "cannot close the volume");
}

}  // namespace

int main(int argument_count, char** arguments) {
    const Plan plan{option(argument_count, arguments, "reads", 200'000),
                    option(argument_count, arguments, "missers", 1),
                    option(argument_count, arguments, "core", ~u64{0})};
    // An odd number of words: all options, each with a value, and a folder after them.
    const bool has_folder = argument_count % 2 == 0;
    const Scratch scratch(has_folder ? arguments[argument_count - 1] : "/var/tmp");
    Report report("hit_bench", argument_count, arguments);
    hold(plan.core, true);
    measure_volume(report, scratch.path() + "/image", plan);
    measure_machine(report, scratch.path() + "/file", plan);
    return report.finish();
}
