// SPDX-License-Identifier: Apache-2.0
// How long does fsck take? A check of a sound volume of 1,000,000 files and, with --large 1, of
// 10,000,000: the quick check by all cores, by the GPU, and the full check that a damaged volume
// gets, by one core. The image lies in /dev/shm; what the disk took, a copy out of memory here, is
// given apart and is not in "net". The first check by the GPU in a process starts it. Where there
// is a GPU the results are check_bench_gpu.csv, beside those of a machine with none.
//
//   check_bench [--runs N] [--large N]
#include <cstdio>
#include <string>
#include <utility>

#include "bench/support/memory_volume.hpp"
#include "bench/support/places.hpp"
#include "bench/support/report.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

constexpr u32 entries = 1000;
constexpr double gpu_seconds = 1;  // of 10,000,000 inodes, net of the disk
constexpr double cpu_seconds = 30;

struct Way {
    std::string subject;
    EngineChoice engine;
    bool is_full;
};

std::string make_image(const Scratch& scratch, u64 files) {
    const std::string path = scratch.path() + "/" + std::to_string(files) + ".img";
    FormatOptions format;
    format.size_bytes = files / 1'000'000 * 4 * gib;
    const Failure made = make_volume(path, format);
    require(made.code == Errc::ok, made.message);
    Failure failure;
    const auto volume = Volume::open(path, {.engine = EngineChoice::cpu}, failure);
    require(volume != nullptr, failure.message);
    build_flat(*volume, volume->root(), static_cast<u32>(files / entries), entries, file_mode);
    require(volume->close() == Errc::ok, "cannot close");
    return path;
}

/// False if this engine is not available here.
bool check_once(Report& report, const std::string& path, const std::string& scenario,
                const Way& way, const std::string& subject, u64 inodes) {
    CheckOptions options;
    options.engine = way.engine;
    options.is_full = way.is_full;
    CheckResult result;
    Failure failure;
    const double seconds = time_of([&] { failure = check_volume(path, options, result); });
    if (failure.code == Errc::no_device) return false;
    require(failure.code == Errc::ok, failure.message);
    require(result.problems == 0 && result.inodes == inodes, "the volume is not as it was made");
    require(result.was_full == way.is_full, "the first look was in doubt");
    const auto count = static_cast<double>(inodes);
    report.add(scenario, subject, seconds, count);
    if (way.is_full) return true;
    report.add(scenario, subject + ", net of the disk", seconds - result.disk_seconds, count);
    report.add(scenario, subject + ", of it the disk", result.disk_seconds, count);
    report.add(scenario, subject + ", of it ready", result.start_seconds, count);
    report.add(scenario, subject + ", of it disk to device", result.load_seconds, count);
    report.add(scenario, subject + ", of it examined", result.examine_seconds, count);
    return true;
}

void measure(Report& report, u64 files, u64 runs) {
    const Scratch scratch("/dev/shm");
    const std::string path = make_image(scratch, files);
    const std::string scenario = std::to_string(files) + " files";
    const u64 inodes = files + files / entries + 2;
    const Way gpu{"Warren CUDA", EngineChoice::cuda, false};
    const Way cpu{"Warren CPU engine, all cores", EngineChoice::cpu, false};
    const Way closer{"Warren, closer look", EngineChoice::cpu, true};
    const std::string first = gpu.subject + ", first in a process";
    static bool is_first = true;
    const bool has_gpu = check_once(report, path, scenario, gpu,
                                    std::exchange(is_first, false) ? first : gpu.subject, inodes);
    if (has_gpu) {
        report.name_file("check_bench_gpu");
    } else {
        report.note("no GPU that CUDA can use");
    }
    for (u64 run = 0; run < runs; ++run) {
        if (has_gpu) check_once(report, path, scenario, gpu, gpu.subject, inodes);
        check_once(report, path, scenario, cpu, cpu.subject, inodes);
    }
    check_once(report, path, scenario, closer, closer.subject, inodes);  // once: it takes long
    report.set_reference(scenario, cpu.subject);
    if (files < 10'000'000) return;
    const std::string net = ", net of the disk";
    report.must(scenario + ": 30 s over the CPU engine's" + net,
                cpu_seconds / report.median(scenario, cpu.subject + net), 1);
    if (!has_gpu) return;
    report.must(scenario + ": 1 s over the CUDA engine's" + net,
                gpu_seconds / report.median(scenario, gpu.subject + net), 1);
    report.must(scenario + ": 1 s over the CUDA engine's" + net + ", first in a process",
                gpu_seconds / report.median(scenario, first + net), 1);
}

}  // namespace

int main(int argument_count, char** arguments) {
    const u64 runs = option(argument_count, arguments, "runs", 5);
    const u64 large = option(argument_count, arguments, "large", 0);
    Report report("check_bench", argument_count, arguments);
    if (large > 0) measure(report, 10'000'000, runs);
    measure(report, 1'000'000, runs);
    return report.finish();
}
