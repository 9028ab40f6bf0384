// SPDX-License-Identifier: Apache-2.0
// For how long does a commit keep others waiting? A volume on a disk in memory gets many dirty
// blocks, large trees are removed, clients look names up and change them, and then everything is
// made durable. A client's wait is the longest time between two of its answers; the same without a
// commit is what the machine and the removal do to it anyway.
//
//   commit_pause [--files N] [--runs N] [--dirty N]
//     files removed in each run (100,000), runs (3), dirty blocks (three sizes)
//
// A bulk step claims a quarter of the journal, so 90,000 blocks are about what can be dirty beside
// one; 120,000 are committed without.
#include <atomic>
#include <mutex>
#include <thread>

#include "bench/support/memory_volume.hpp"
#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "fs/admin/make_volume.hpp"
#include "fs/volume/open_volume.hpp"
#include "tests/support/fault_disk.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

constexpr u64 volume_bytes = 40 * gib;  // of which the journal takes as much as it ever does
constexpr u32 trees = 4;
constexpr double must_seconds = 2e-3;
constexpr double must_blocks = 100'000;

/// A volume in memory, open for one engine.
struct Place {
    MemoryDisk memory{volume_bytes};
    VolumeImplementation* inside = nullptr;
    std::unique_ptr<Volume> volume;

    /// False if the engine is not available.
    bool open(EngineChoice engine) {
        Failure failure = make_volume_on(memory, "memory", volume_bytes, "bench");
        require(failure.code == Errc::ok, failure.message);
        OpenOptions options;
        options.engine = engine;
        OpenChanges changes;
        changes.adjust = [this](VolumeImplementation& opened) { inside = &opened; };
        volume =
            open_volume(std::make_unique<FaultDisk>(memory), "memory", options, failure, changes);
        return volume != nullptr;
    }
    void sync() const { require(volume->sync() == Errc::ok, "cannot sync the volume"); }
};

/// A client that makes one call after the other and records its longest wait.
class Client {
 public:
    template <class Call>
    explicit Client(const Call& call) : thread_([this, call] { run(call); }) {}
    ~Client() {
        is_over_ = true;
        thread_.join();
    }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    /// Drops the waits before this call.
    void restart() {
        const std::lock_guard lock(mutex_);
        longest_ = 0;
        last_ = now_seconds();
    }
    /// The longest wait since restart(), including one that has not ended.
    double longest() {
        const std::lock_guard lock(mutex_);
        return std::max(longest_, now_seconds() - last_);
    }

 private:
    template <class Call>
    void run(const Call& call) {
        for (u64 i = 0; !is_over_; ++i) {
            call(i);
            const std::lock_guard lock(mutex_);
            const double now = now_seconds();
            longest_ = std::max(longest_, now - last_);
            last_ = now;
        }
    }

    std::mutex mutex_;
    double longest_ = 0;
    double last_ = now_seconds();
    std::atomic<bool> is_over_{false};
    std::thread thread_;
};

/// About `blocks` dirty blocks in a new directory: a leaf for each directory, and inodes.
void make_dirty(Volume& volume, const std::string& name, u64 blocks) {
    const Handle top = add_entry(volume, volume.root(), name, directory_mode);
    build_flat(volume, top, static_cast<u32>(blocks * 8 / 9), 1, file_mode);
}

/// One engine's rows.
class Bench {
 public:
    Bench(Report& report, Place& place, std::string engine, u64 files)
        : report_(report), place_(place), engine_(std::move(engine)), files_(files) {
        work_ = add_entry(volume(), volume().root(), "work", directory_mode);
        add_entry(volume(), work_, "stays", file_mode);
        place_.sync();
    }

    void run(u64 blocks, bool with_removal) {
        const std::string name = "dirty";
        for (u32 t = 0; t < trees && with_removal; ++t) {
            const Handle top =
                add_entry(volume(), volume().root(), "tree" + std::to_string(t), directory_mode);
            build_flat(volume(), top, 16, static_cast<u32>(files_ / trees / 16), file_mode);
        }
        place_.sync();
        Client changes([this](u64 i) {
            const std::string entry = "entry" + std::to_string(i);
            add_entry(volume(), work_, entry, file_mode);
            require(volume().unlink({}, work_, entry) == Errc::ok, "cannot unlink");
        });
        Client looks(
            [this](u64) { require(bool(volume().lookup({}, work_, "stays")), "cannot look up"); });
        const std::string scenario =
            std::to_string(blocks) + " blocks" + (with_removal ? ", trees go" : "");
        if (with_removal) measure(scenario + ", no commit", "tree0", {}, changes, looks);
        make_dirty(volume(), name, blocks);
        const double taken = measure(
            scenario, with_removal ? "tree" : "", [this] { place_.sync(); }, changes, looks);
        const CommitFigures figures = place_.inside->committer().figures();
        const double held = static_cast<double>(figures.held_ns) / 1e9;
        report_.add(scenario, engine_ + ": gate closed", held, 1);
        report_.add(scenario, engine_ + ": the commit itself", taken, 1);
        report_.note(engine_ + ", " + scenario + ": " + std::to_string(figures.blocks) +
                     " blocks were committed, gate closed for " +
                     std::to_string(figures.held_ns / 1000) + " us");
        held_for_100_000_ =
            std::max(held_for_100_000_, held * must_blocks / static_cast<double>(figures.blocks));
        Removal removal;
        require(volume().remove_tree({}, volume().root(), name, removal) == Errc::ok, "no removal");
        place_.sync();
    }

    /// Of large commits; the cost of a small one says little about many blocks.
    void add_must() const {
        report_.must("2 ms with the gate closed for 100,000 dirty blocks, " + engine_,
                     must_seconds / held_for_100_000_, 1.0);
    }
    void forget_small() { held_for_100_000_ = 0; }

 private:
    Volume& volume() const { return *place_.volume; }

    /// Removes the trees whose names begin with `tree` beside `call()`; the seconds of that.
    double measure(const std::string& scenario, const std::string& tree,
                   const std::function<void()>& call, Client& changes, Client& looks) {
        std::atomic<bool> has_begun = false;
        std::thread remover([&] {
            has_begun = true;
            for (u32 t = 0; t < trees && !tree.empty(); ++t) {
                const std::string name = "tree" + std::to_string(t);
                Removal removal;
                if (!name.starts_with(tree) || !volume().lookup({}, volume().root(), name))
                    continue;
                require(volume().remove_tree({}, volume().root(), name, removal) == Errc::ok,
                        "cannot remove the tree");
            }
        });
        while (!has_begun)
            std::this_thread::yield();
        changes.restart();
        looks.restart();
        const double seconds = call ? time_of(call) : 0;
        if (!call) remover.join();
        report_.add(scenario, engine_ + ": longest wait of a change", changes.longest(), 1);
        report_.add(scenario, engine_ + ": longest wait of a look-up", looks.longest(), 1);
        if (call) remover.join();
        return seconds;
    }

    Report& report_;
    Place& place_;
    const std::string engine_;
    const u64 files_;
    Handle work_;
    double held_for_100_000_ = 0;
};

}  // namespace

int main(int argument_count, char** arguments) {
    const u64 files = option(argument_count, arguments, "files", 100'000);
    const u64 runs = option(argument_count, arguments, "runs", 3);
    const u64 dirty = option(argument_count, arguments, "dirty", 0);
    Report report("commit_pause", argument_count, arguments);
    for (const EngineChoice engine : {EngineChoice::cpu, EngineChoice::cuda}) {
        Place place;
        const std::string name(name_of(engine));
        if (!place.open(engine)) {
            report.note(name + ": cannot be had here, so it is left out");
            continue;
        }
        Bench bench(report, place, name, files);
        for (u64 i = 0; i < runs && dirty == 0; ++i) {
            bench.run(1'000, true);
            bench.run(10'000, true);
        }
        bench.forget_small();
        for (u64 i = 0; i < runs; ++i) {
            bench.run(dirty != 0 ? dirty : 90'000, true);
            if (dirty == 0) bench.run(120'000, false);
        }
        // No goal for the CPU engine, which copies the blocks itself.
        if (engine == EngineChoice::cuda) bench.add_must();
        require(place.volume->close() == Errc::ok, "cannot close the volume");
    }
    return report.finish();
}
