// SPDX-License-Identifier: Apache-2.0
// How long do find and du take over a million entries in a GPU's memory? From the host's call to
// the answer: launches, the host's wait, what crosses the bus and the visits of what matched are in
// it; opening the volume and printing are not. And how long does it take to pack a directory of a
// million names of which every second went? Beside them the kernels by the device's clock, and the
// CPU engine with all cores on the same volume.
//
//   scan_bench [--runs N] [--parents N] [--entries N] [--blocks N] [--names N]
//       N runs (5); 1000 directories of 1000 files, --parents 0 for no scans; blocks of the scan's
//       kernel; 1,000,000 names to pack, 0 for none
#include <cstdio>
#include <string>
#include <vector>

#include "bench/support/memory_volume.hpp"
#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "bench/support/visit_counter.hpp"
#include "fs/bulk/scan/scan_answer.hpp"
#include "fs/engine/cuda/launch/directory_rebuild.hpp"
#include "fs/engine/cuda/launch/tree_scan.hpp"
#include "fs/engine/cuda/store/device_store.hpp"
#include "fs/volume/volume_implementation.hpp"
#include "gpu/failure.hpp"

using namespace warren;
using namespace warren::bench;
using bulk::ScanOutput;
using bulk::ScanPlan;
using bulk::ScanPurpose;

namespace {

const char* const by_gpu = "Warren CUDA";
const char* const by_kernels = "Warren CUDA, kernels alone";
const char* const by_cpu = "Warren CPU engine, all cores";
constexpr u64 size_bytes = 64 * gib;
constexpr double must_seconds = 0.003;
const char* const visits_label = "a visit for every entry";

/// A volume in memory, open for the CPU engine, with a copy of its metadata on the device.
class Volumes {
 public:
    Volumes() : volume_(size_bytes) {}

    /// Directories with files, made by all cores.
    void fill(u32 parents, u32 entries) {
        by_all_cores([&](u32 worker, u32 workers) {
            for (u32 p = worker; p < parents; p += workers) {
                const Handle in = add_entry(*volume_, volume_->root(),
                                            "directory" + std::to_string(p), directory_mode);
                for (u32 e = 0; e < entries; ++e)
                    add_entry(*volume_, in, "entry" + std::to_string(e), file_mode);
            }
        });
        require(volume_->sync() == Errc::ok, "cannot sync");
    }
    /// One directory of names of which every second is removed again.
    Handle fill_one(u32 names) {
        const Handle in = add_entry(*volume_, volume_->root(), "directory", directory_mode);
        by_all_cores([&](u32 worker, u32 workers) {
            for (u32 e = worker; e < names; e += workers) {
                add_entry(*volume_, in, "entry" + std::to_string(e), file_mode);
                if (e % 2 == 1) continue;
                require(volume_->unlink({}, in, "entry" + std::to_string(e)) == Errc::ok,
                        "cannot unlink");
            }
        });
        require(volume_->sync() == Errc::ok, "cannot sync");
        return in;
    }
    /// What the device's copy says that a directory takes.
    u64 blocks_on_device(Handle directory) {
        gpu::Stream stream;
        format::Inode inode{};
        require(stream.open() == Errc::ok &&
                    stream.copy(&inode, device().base + directory.inode * format::inode_size,
                                sizeof inode) == Errc::ok &&
                    stream.wait() == Errc::ok,
                "cannot read the directory");
        return inode.blocks;
    }
    void upload(const cuda_engine::ScanShape& shape) {
        require(device_.open(volume_.store()) == Errc::ok,
                "cannot upload: " + gpu::last_failure().message);
        require(scan_.open(shape) == Errc::ok, "no GPU: " + gpu::last_failure().message);
    }

    Volume& volume() { return *volume_; }
    VolumeImplementation& inside() { return volume_.inside(); }
    cuda_engine::TreeScan& kernels() { return scan_; }
    const core::Store& device() { return device_.store(); }

 private:
    MemoryVolume volume_;
    cuda_engine::DeviceStore device_;
    cuda_engine::TreeScan scan_;
};

/// Everything is in the device's memory already, and a commit has just been made.
class IdleHost : public cuda_engine::BulkHost {
 public:
    Errc bring(const std::vector<u64>& /*places*/) override { return Errc::io; }
    Errc commit() override { return Errc::io; }
};

struct Question {
    std::string label;
    ScanFilter filter;
    u64 matches;  // entries visited, the root among them
};

class Bench {
 public:
    Bench(Volumes& volumes, u64 runs, double entries, Report& report)
        : volumes_(volumes), runs_(runs), entries_(entries), report_(report) {}

    void find(const Question& question) {
        Volume& volume = volumes_.volume();
        VisitCounter visited;
        const std::function<bool(const Scanned&)> visit = [&](const Scanned&) {
            visited.add();
            return true;
        };
        for (u64 run = 0; run < runs_ + 1; ++run) {
            visited.clear();
            const double by_device = time_of([&] { find_on_device(question, visit); });
            require(visited.sum() + 1 == question.matches, "saw " + std::to_string(visited.sum()));
            visited.clear();
            const double by_threads = time_of([&] {
                require(volume.scan({}, volume.root(), visit, question.filter) == Errc::ok,
                        "the CPU engine failed");
            });
            require(visited.sum() == question.matches, "saw " + std::to_string(visited.sum()));
            if (run > 0) add(question.label, by_device, by_threads);
        }
        finish(question.label);
    }

    void measure(const std::string& label, u32 depth) {
        Volume& volume = volumes_.volume();
        for (u64 run = 0; run < runs_ + 1; ++run) {
            std::vector<DirectoryUsage> ours;
            std::vector<DirectoryUsage> theirs;
            const double by_device = time_of([&] { measure_on_device(depth, ours); });
            const double by_threads = time_of([&] {
                require(volume.usage({}, volume.root(), {.depth_max = depth}, theirs) == Errc::ok,
                        "the CPU engine failed");
            });
            require(ours.size() == theirs.size() && ours[0].blocks == theirs[0].blocks &&
                        ours[0].entries == theirs[0].entries,
                    "counted otherwise");
            if (run > 0) add(label, by_device, by_threads);
        }
        finish(label);
    }

    void check_removable() {
        const std::string label = "may all go?";
        const Caller caller{.user = 0};
        for (u64 run = 0; run < runs_ + 1; ++run) {
            const ScanPlan plan = bulk::plan_scan(ScanPurpose::removal, credentials_of(caller));
            const double by_device = time_of([&] { scan(plan, [](const ScanOutput&) {}); });
            const double by_threads = time_of([&] {
                require(volumes_.inside().check_removable(credentials_of(caller),
                                                          volumes_.volume().root(),
                                                          core::TreeCheck::as_rm) == Errc::ok,
                        "the CPU engine failed");
            });
            if (run > 0) add(label, by_device, by_threads);
        }
        finish(label);
    }

 private:
    template <class Take>
    void scan(const ScanPlan& plan, const Take& take) {
        IdleHost host;
        const auto take_output = [&](const ScanOutput& output) {
            take(output);
            return Errc::ok;
        };
        const Errc code = volumes_.kernels().scan(volumes_.device(), plan, volumes_.volume().root(),
                                                  take_output, host);
        require(code == Errc::ok, "scan failed: " + std::to_string(static_cast<int>(code)) + " " +
                                      gpu::last_failure().message);
    }

    void find_on_device(const Question& question,
                        const std::function<bool(const Scanned&)>& visit) {
        ScanPlan plan = bulk::plan_scan(ScanPurpose::visit, credentials_of({}));
        require(ops::set_filter(plan.files, question.filter) == Errc::ok, "no such filter");
        ScanCall call{plan, volumes_.volume().root(), &visit};
        call.for_each = [&](u64 count, const std::function<void(u64)>& body) {
            volumes_.inside().thread_pool().for_each(count,
                                                     [&](const ThreadTeam&, u64 i) { body(i); });
        };
        bulk::ScanVisits visits(call);
        scan(plan, [&](const ScanOutput& output) { visits.take(output); });
    }

    void measure_on_device(u32 depth, std::vector<DirectoryUsage>& answer) {
        ScanPlan plan = bulk::plan_scan(ScanPurpose::measure, credentials_of({}));
        plan.sums_depth = depth;
        const auto root = volumes_.volume().attributes(volumes_.volume().root());
        require(bool(root), "no root");
        answer.resize(1);
        answer[0].entries = 1;
        answer[0].blocks = root->blocks;
        scan(plan, [&](const ScanOutput& output) { bulk::take_usage(output, answer); });
        std::vector<bulk::ScanSum> sums;
        require(volumes_.kernels().fetch_sums(sums) == Errc::ok, "no sums");
        bulk::add_sums(sums, answer);
        for (std::size_t i = answer.size(); i-- > 1;) {
            answer[answer[i].above].entries += answer[i].entries;
            answer[answer[i].above].blocks += answer[i].blocks;
        }
    }

    void add(const std::string& label, double by_device, double by_threads) {
        report_.add(label, by_gpu, by_device, entries_);
        report_.add(label, by_kernels, static_cast<double>(volumes_.kernels().kernel_ms()) / 1000,
                    entries_);
        report_.add(label, by_cpu, by_threads, entries_);
    }

    void finish(const std::string& label) {
        report_.set_reference(label, by_gpu);
        const double taken = report_.median(label, by_gpu);
        report_.must(label + ": 3 ms over measured", must_seconds / taken, 1);
        report_.must(label + ": CPU engine over CUDA engine", report_.median(label, by_cpu) / taken,
                     5);
    }

    Volumes& volumes_;
    const u64 runs_;
    const double entries_;
    Report& report_;
};

/// Rebuilds directories of `names` names, first made twice as many; one for each run.
void measure_rebuild(u32 names, u64 runs, u64 first_run, Report& report) {
    const std::string label = "rebuild, " + std::to_string(names) + " names";
    cuda_engine::DirectoryRebuild kernels;
    require(kernels.open() == Errc::ok, "no GPU: " + gpu::last_failure().message);
    for (u64 run = first_run; run < runs + 1; ++run) {
        Volumes volumes;
        const Handle directory = volumes.fill_one(2 * names);
        volumes.upload({});
        IdleHost host;
        const core::Credentials root{.check = false};
        const u64 blocks_before = volumes.blocks_on_device(directory);
        const double by_device = time_of([&] {
            const Errc code =
                kernels.rebuild(volumes.device(), root, directory, blocks_before, host);
            require(code == Errc::ok, "rebuild failed: " + std::to_string(static_cast<int>(code)) +
                                          " " + gpu::last_failure().message);
        });
        Rebuilt rebuilt;
        const double by_threads = time_of([&] {
            require(volumes.volume().rebuild({}, directory, rebuilt) == Errc::ok,
                    "the CPU engine failed");
        });
        require(rebuilt.entries == names, "names were lost");
        const u64 blocks = volumes.blocks_on_device(directory);
        report.note("blocks of the directory: " + std::to_string(rebuilt.blocks_before) + " to " +
                    std::to_string(blocks) + " by the GPU, to " +
                    std::to_string(rebuilt.blocks_after) + " by the CPU engine");
        if (run == 0) continue;
        report.add(label, by_gpu, by_device, names);
        report.add(label, by_kernels, static_cast<double>(kernels.kernel_ms()) / 1000, names);
        report.add(label, by_cpu, by_threads, names);
    }
    report.set_reference(label, by_gpu);
    report.must(label + ": 5 ms over measured", 0.005 / report.median(label, by_gpu), 1);
    report.must(label + ": CPU engine over CUDA engine",
                report.median(label, by_cpu) / report.median(label, by_gpu), 5);
}

void measure_scans(int argument_count, char** arguments, u64 runs, Report& report) {
    const u32 parents = static_cast<u32>(option(argument_count, arguments, "parents", 1000));
    const u32 entries = static_cast<u32>(option(argument_count, arguments, "entries", 1000));
    if (parents == 0) return;
    Volumes volumes;
    volumes.fill(parents, entries);
    cuda_engine::ScanShape shape;
    shape.blocks = static_cast<u32>(option(argument_count, arguments, "blocks", shape.blocks));
    volumes.upload(shape);
    const u64 all = 1 + parents + u64{parents} * entries;
    Bench bench(volumes, runs, static_cast<double>(all), report);
    bench.measure("du -s", 0);
    bench.measure("du, each directory", 1);
    bench.find({"find -name 'entry99'", {.pattern = "entry99"}, 1 + 2 * u64{parents}});
    bench.find({"find -size +0", {.size_min = 1}, 1 + u64{parents}});
    bench.find({"find -type d", {.types = 0}, 1 + u64{parents}});
    bench.check_removable();
    bench.find({visits_label, {}, all});
}

}  // namespace

int main(int argument_count, char** arguments) {
    const u64 runs = option(argument_count, arguments, "runs", 5);
    const u32 names = static_cast<u32>(option(argument_count, arguments, "names", 1'000'000));
    Report report("scan_bench", argument_count, arguments);
    measure_scans(argument_count, arguments, runs, report);
    if (names == 0) return report.finish();
    measure_rebuild(1000, runs, 0, report);
    // The kernels are loaded already; creating so many names takes long.
    measure_rebuild(names, std::min<u64>(runs, 2), 1, report);
    return report.finish();
}
