// SPDX-License-Identifier: Apache-2.0
// What is a GPU worth to a file system's metadata? Every row of the goals' table through Volume's
// public calls on the CUDA engine, on the CPU engine with all cores, on tmpfs, and on ext4 over a
// loop device in memory, in one process and in 16; how many files make one command worth it; how
// removal's time depends on its shape, in blocks and warps, and (--sharing) on shared blocks.
//
//   gpu_bench [--table 0] [--sweep 1] [--shapes 1] [--sharing 1] [--clones 1]     what is done
//             [--runs N] [--large-runs N]              runs of small and of large rows (5)
//             [--directories N] [--files N]            of large rows: 1,000 with 1,000 files each
//             [--peers 0] [--share N]                  no peers; they do an Nth of large rows (1)
//
// Each writes a CSV file, gpu_bench, gpu_clones and so on; tools/plot_sweeps.py draws gpu_sweep and
// gpu_shapes. What is missing (a GPU, root, loop devices) has no rows; a note says so.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <thread>

#include "bench/support/engine_rows.hpp"
#include "bench/support/peer_rows.hpp"
#include "bench/support/removal_shapes.cuh"
#include "bench/support/shared_removal.hpp"
#include "gpu/device.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

const std::string cuda_label = "CUDA engine";
const std::string cpu_label = "CPU engine, all cores";
constexpr u64 volume_bytes = 64 * gib;
constexpr u64 peer_processes = 16;
constexpr u64 sweep_most = 1u << 14;

bool has_loop_ext4() {
    return ::geteuid() == 0 && std::filesystem::exists("/dev/loop-control") &&
           run_program({"sh", "-c", "command -v mkfs.ext4"}) == 0;
}

/// tmpfs, and ext4 if it is available.
class Peers {
 public:
    Peers(const Scale& scale, Report& report)
        : tmpfs_(memory_.path() + "/tmpfs", "tmpfs", nullptr, scale, report) {
        std::filesystem::create_directory(memory_.path() + "/tmpfs");
        if (!has_loop_ext4()) {
            report.note("ext4 was not measured: it needs root, a loop device and mkfs.ext4");
            return;
        }
        disk_.emplace(memory_.path(), 16 * gib, 3 * scale.files() + 100'000);
        ext4_.emplace(
            disk_->path(), "ext4", [this] { disk_->sync(); }, scale, report);
    }
    template <class Work>
    void for_each(const Work& work) {
        work(tmpfs_);
        if (ext4_) work(*ext4_);
    }

 private:
    Scratch memory_{"/dev/shm"};
    std::optional<LoopExt4> disk_;
    PeerRows tmpfs_;
    std::optional<PeerRows> ext4_;
};

void measure_engine(EngineChoice engine, const Scale& scale, Report& report) {
    const Scratch memory("/dev/shm");
    const std::string& label = engine == EngineChoice::cuda ? cuda_label : cpu_label;
    EngineRows rows(memory.path(), volume_bytes, engine, label, scale, report);
    if (engine == EngineChoice::cuda) report.note("GPU: " + rows.volume().engine_note());
    rows.measure_first_calls();
    rows.measure_single_calls();
    rows.measure_small_trees();
    rows.measure_moves();
    rows.measure_many_files();
    rows.measure_rebuild();
    rows.measure_clones();
}

void measure_clones(EngineChoice engine, const Scale& scale, Report& report) {
    const Scratch memory("/dev/shm");
    const std::string& label = engine == EngineChoice::cuda ? cuda_label : cpu_label;
    EngineRows(memory.path(), volume_bytes, engine, label, scale, report).measure_clones();
}

/// Holds the CUDA engine to `must_seconds` an item.
void hold_below(Report& report, const std::string& row, double items, double must_seconds,
                const std::string& how = {}) {
    report.must(row + how + ": must over CUDA engine",
                must_seconds * items / report.median(row, cuda_label + how), 1);
}

void hold_clone_bound(const Scale& scale, Report& report) {
    if (scale.files() < 1'000'000) return;
    const double million = static_cast<double>(scale.files()) / 1e6;
    hold_below(report, rows::clone(scale), million, 30e-3);
}

/// The bounds of the goals, for the sizes that they name.
void hold_bounds(const Scale& scale, Report& report) {
    const auto below = [&](const std::string& row, double items, double must_seconds,
                           const std::string& how = {}) {
        hold_below(report, row, items, must_seconds, how);
    };
    below(rows::unlink_one, static_cast<double>(scale.singles), 8e-6);
    for (const std::string& how : {std::string(), between_suffix}) {
        below(rows::deep, 1, 1.5e-3, how);
        below(rows::wide, 1, 0.08e-3, how);
        below(rows::mix, 1, 0.12e-3, how);
    }
    const double million = static_cast<double>(scale.files()) / 1e6;
    if (scale.files() >= 1'000'000) {
        below(rows::remove(scale), million, 1.5e-3);
        below(rows::move(scale), million, 20e-3);
        below(rows::create(scale), million, 20e-3);
        below(rows::find(scale), million, 3e-3);
        below(rows::du(scale), million, 3e-3);
        below(rows::stat(scale), million, 10e-3);
        below(rows::rebuild(scale), million, 5e-3);
    }
    for (const std::string& row : {rows::remove(scale), rows::find(scale), rows::rebuild(scale)}) {
        report.must(row + ": CPU engine over CUDA engine",
                    report.median(row, cpu_label) / report.median(row, cuda_label), 5);
    }
}

/// `share`: peers do that many times less in the large rows; 0: there are no peers.
int print_table(const Scale& scale, bool has_gpu, u64 share, Report& report) {
    if (share != 0) {
        Peers peers(scale, report);
        peers.for_each([&](PeerRows& peer) {
            peer.measure_single_calls();
            peer.measure_small_trees();
            peer.measure_moves();
            peer.measure_many_files(1, share);
            peer.measure_many_files(peer_processes, share);
        });
    }
    measure_engine(EngineChoice::cpu, scale, report);
    if (has_gpu) {
        measure_engine(EngineChoice::cuda, scale, report);
        hold_bounds(scale, report);
        hold_clone_bound(scale, report);
    }
    for (const std::string& row : {rows::unlink_one,
                                   rows::unlink_many,
                                   rows::create_one,
                                   rows::stat_one,
                                   rows::rename_one,
                                   rows::deep,
                                   rows::wide,
                                   rows::mix,
                                   rows::move_shared,
                                   rows::move_own,
                                   rows::create(scale),
                                   rows::remove(scale),
                                   rows::move(scale),
                                   rows::find(scale),
                                   rows::find_few(scale),
                                   rows::du(scale),
                                   rows::stat(scale),
                                   rows::rebuild(scale),
                                   rows::clone(scale),
                                   rows::clone_again(scale)}) {
        report.set_reference(row, has_gpu ? cuda_label : cpu_label);
    }
    return report.finish();
}

int print_clones(const Scale& scale, bool has_gpu, Report& report) {
    measure_clones(EngineChoice::cpu, scale, report);
    if (has_gpu) {
        measure_clones(EngineChoice::cuda, scale, report);
        hold_clone_bound(scale, report);
    }
    for (const std::string& row : {rows::clone(scale), rows::clone_again(scale)})
        report.set_reference(row, has_gpu ? cuda_label : cpu_label);
    return report.finish();
}

int print_sweep(const Scale& scale, bool has_gpu, bool with_peers, Report& report) {
    if (with_peers) {
        Peers peers(scale, report);
        peers.for_each([&](PeerRows& peer) { peer.measure_crossover(sweep_most); });
    }
    for (const EngineChoice engine : {EngineChoice::cpu, EngineChoice::cuda}) {
        if (engine == EngineChoice::cuda && !has_gpu) continue;
        const Scratch memory("/dev/shm");
        const std::string& label = engine == EngineChoice::cuda ? cuda_label : cpu_label;
        EngineRows rows(memory.path(), 8 * gib, engine, label, scale, report);
        rows.measure_crossover(sweep_most);
    }
    return report.finish();
}

int print_sharing(const Scale& scale, bool has_gpu, Report& report) {
    for (const EngineChoice engine : {EngineChoice::cpu, EngineChoice::cuda}) {
        if (engine == EngineChoice::cuda && !has_gpu) continue;
        const Scratch memory("/dev/shm");
        const OpenVolume volume(memory.path(), volume_bytes, engine);
        const std::string& label = engine == EngineChoice::cuda ? cuda_label : cpu_label;
        measure_shared_removal(*volume, label, scale, report);
    }
    return report.finish();
}

}  // namespace

int main(int argument_count, char** arguments) {
    const auto number = [&](const char* name, u64 otherwise) {
        return option(argument_count, arguments, name, otherwise);
    };
    Scale scale;
    scale.runs = number("runs", 5);
    scale.large_runs = number("large-runs", 5);
    scale.directories = number("directories", 1000);
    scale.files_each = number("files", 1000);
    const bool with_peers = number("peers", 1) != 0;
    const bool has_gpu = gpu::device_count() > 0;
    raise_open_file_limit();
    int code = 0;
    if (number("table", 1) != 0) {
        Report report("gpu_bench", argument_count, arguments);
        if (!has_gpu) report.note("there is no GPU: the CUDA engine was not measured");
        const u64 share = with_peers ? std::max<u64>(1, number("share", 1)) : 0;
        code |= print_table(scale, has_gpu, share, report);
    }
    if (number("clones", 0) != 0) {
        Report report("gpu_bench", argument_count, arguments);
        report.name_file("gpu_clones");
        code |= print_clones(scale, has_gpu, report);
    }
    if (number("sweep", 0) != 0) {
        Report report("gpu_bench", argument_count, arguments);
        report.name_file("gpu_sweep");
        code |= print_sweep(scale, has_gpu, with_peers, report);
    }
    if (number("shapes", 0) != 0 && has_gpu) {
        Report report("gpu_bench", argument_count, arguments);
        report.name_file("gpu_shapes");
        measure_shapes(report);
        code |= report.finish();
    }
    if (number("sharing", 0) != 0) {
        Report report("gpu_bench", argument_count, arguments);
        report.name_file("gpu_sharing");
        code |= print_sharing(scale, has_gpu, report);
    }
    return code;
}
