// SPDX-License-Identifier: Apache-2.0
// How many names a second does the GPU look up, if the keys (directory and name) and the answers
// (attributes) are in its memory? Over one directory of many names and over many directories;
// beside it the CPU engine with all cores. The names are asked for in random order, each once; the
// time is that of the kernel by the device's clock.
//
//   lookup_bench [--names N] [--runs N]
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "bench/support/memory_volume.hpp"
#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "fs/engine/cuda/launch/lookup_many.hpp"
#include "fs/engine/cuda/store/device_store.hpp"
#include "fs/volume/volume_implementation.hpp"
#include "gpu/device.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

constexpr u32 name_length = 16;
constexpr u32 name_words = name_length / sizeof(u64);
constexpr u64 size_bytes = 8 * gib;

struct Place {
    Handle directory;
    char name[name_length];
    u64 inode;
};

/// A volume in memory with `count` names of 16 bytes, spread over `directories`.
class Names {
 public:
    Names(u32 directories, u32 count) : volume_(size_bytes), places_(count) {
        std::vector<Handle> parents = {volume_->root()};
        for (u32 i = 0; directories > 1 && i < directories; ++i) {
            if (i == 0) parents.clear();
            parents.push_back(
                add_entry(*volume_, volume_->root(), "d" + std::to_string(i), directory_mode));
        }
        by_all_cores([&](u32 worker, u32 workers) {
            for (u32 i = worker; i < count; i += workers)
                fill(places_[i], parents[i % parents.size()], i);
        });
        require(volume_->sync() == Errc::ok, "cannot sync");
        Random random(1);
        for (u32 i = count; i > 1; --i)
            std::swap(places_[i - 1], places_[random.below(i)]);
    }

    const core::Store& store() const { return volume_.store(); }
    const std::vector<Place>& places() const { return places_; }

    double look_up_by_cpu() {
        return time_of([&] {
            by_all_cores([&](u32 worker, u32 workers) {
                for (std::size_t i = worker; i < places_.size(); i += workers) {
                    const Place& place = places_[i];
                    const auto found =
                        volume_->lookup({}, place.directory, {place.name, name_length});
                    require(found && found->handle.inode == place.inode, "a wrong answer");
                }
            });
        });
    }

 private:
    void fill(Place& place, Handle directory, u32 number) {
        std::string name = "n" + std::to_string(number);
        name.resize(name_length, 'x');
        place.directory = directory;
        std::memcpy(place.name, name.data(), name_length);
        place.inode = add_entry(*volume_, directory, name, file_mode).inode;
    }

    MemoryVolume volume_;
    std::vector<Place> places_;
};

/// The keys and room for the answers, on the device.
struct Batch {
    gpu::DeviceBuffer<u64> names;
    gpu::DeviceBuffer<ops::BatchOperand> keys;
    gpu::DeviceBuffer<Attributes> attributes;
    gpu::DeviceBuffer<Errc> codes;
    gpu::Stream stream;
    gpu::Event begin;
    gpu::Event end;

    explicit Batch(const std::vector<Place>& places) {
        const u64 count = places.size();
        require(names.allocate(count * name_words) == Errc::ok &&
                    keys.allocate(count) == Errc::ok && attributes.allocate(count) == Errc::ok &&
                    codes.allocate(count) == Errc::ok && stream.open() == Errc::ok &&
                    begin.open() == Errc::ok && end.open() == Errc::ok,
                "no memory for the keys");
        std::vector<u64> words(count * name_words);
        std::vector<ops::BatchOperand> all(count);
        for (u64 i = 0; i < count; ++i) {
            std::memcpy(&words[i * name_words], places[i].name, name_length);
            const Handle directory = places[i].directory;
            all[i] = {directory.inode | u64{name_length} << 48, directory.generation,
                      static_cast<u32>(i * name_words)};
        }
        require(stream.copy(names.data(), words.data(), names.bytes()) == Errc::ok &&
                    stream.copy(keys.data(), all.data(), keys.bytes()) == Errc::ok &&
                    stream.wait() == Errc::ok,
                "cannot copy the keys");
    }

    double seconds(const core::Store& store) {
        const core::Credentials anyone{.check = false};
        require(begin.record(stream) == Errc::ok &&
                    cuda_engine::launch_lookups(store, anyone, keys.data(), names.data(),
                                                static_cast<u32>(keys.count()), attributes.data(),
                                                codes.data(), stream.get()) == Errc::ok &&
                    end.record(stream) == Errc::ok && stream.wait() == Errc::ok,
                "the look-ups failed");
        const Result<float> milliseconds = end.milliseconds_since(begin);
        require(bool(milliseconds), "no time");
        return static_cast<double>(*milliseconds) / 1000;
    }

    /// Returns how many were left to the CPU; all others must be right.
    u64 check(const std::vector<Place>& places) {
        std::vector<Errc> all(places.size());
        std::vector<Attributes> found(places.size());
        require(stream.copy(all.data(), codes.data(), codes.bytes()) == Errc::ok &&
                    stream.copy(found.data(), attributes.data(), attributes.bytes()) == Errc::ok &&
                    stream.wait() == Errc::ok,
                "cannot copy the answers");
        u64 left = 0;
        for (std::size_t i = 0; i < places.size(); ++i) {
            if (all[i] == Errc::retry) {
                ++left;
                continue;
            }
            require(all[i] == Errc::ok && found[i].handle.inode == places[i].inode &&
                        found[i].mode == 0100644 && found[i].links == 1,
                    "a wrong answer: " + std::to_string(static_cast<int>(all[i])));
        }
        require(left <= places.size() / 1000, "too many are left: " + std::to_string(left));
        return left;
    }
};

void measure(u32 directories, u32 count, u64 runs, Report& report) {
    Names names(directories, count);
    const std::string scenario =
        std::to_string(count) + " names in " + std::to_string(directories) + " directories";
    cuda_engine::DeviceStore device;
    require(device.open(names.store()) == Errc::ok, "cannot upload the volume");
    Batch batch(names.places());
    const std::string by_gpu = "8 lanes, 32 warps a multiprocessor";
    for (u64 run = 0; run <= runs; ++run) {
        const double seconds = batch.seconds(device.store());
        if (run > 0) report.add(scenario, by_gpu, seconds, count);
    }
    std::printf("%s: %llu left\n", scenario.c_str(),
                static_cast<unsigned long long>(batch.check(names.places())));
    const std::string by_cpu = "Warren CPU engine, all cores";
    for (u64 run = 0; run < runs; ++run)
        report.add(scenario, by_cpu, names.look_up_by_cpu(), count);
    report.set_reference(scenario, by_gpu);
    report.must(scenario + ": M/s over 500", count / report.median(scenario, by_gpu) / 500e6, 1);
}

}  // namespace

int main(int argument_count, char** arguments) {
    const u64 runs = option(argument_count, arguments, "runs", 5);
    const auto count = static_cast<u32>(option(argument_count, arguments, "names", 1'000'000));
    gpu::DeviceInfo info;
    if (gpu::describe_device(0, info) != Errc::ok) {
        std::printf("lookup_bench: there is no GPU\n");
        return 0;
    }
    Report report("lookup_bench", argument_count, arguments);
    measure(1, count, runs, report);
    measure(std::max(1u, count / 1000), count, runs, report);
    return report.finish();
}
