// SPDX-License-Identifier: Apache-2.0
// What does one command cost on the GPU? Round trips through the ring to the resident server, alone
// and in bursts; beside them kernels that are launched for the same commands. What do the server
// and the host program cost each other: memory calls beside it, copies beside it, waking it up?
//
//   ring_bench [--commands N] [--blocks N] [--epoch-us N] [--idle-us N]
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "bench/support/report.hpp"
#include "fs/admin/make_volume.hpp"
#include "fs/engine/cuda/launch/operations.hpp"
#include "gpu/device.hpp"
#include "gpu/reserved_range.hpp"
#include "tests/fs/engine/served_volume.hpp"
#include "tests/support/memory_disk.hpp"

using namespace warren;
using namespace warren::bench;
using ops::Verb;

namespace {

constexpr Verb empty_verb = static_cast<Verb>(255);  // refused by the worker, after all else

struct Options {
    u32 commands = 5000;
    cuda_engine::ServerOptions server;
};

/// Microseconds of many events.
class Times {
 public:
    void add(double microseconds) { all_.push_back(microseconds); }
    double at(double part) {
        std::sort(all_.begin(), all_.end());
        const auto index = static_cast<std::size_t>(part * static_cast<double>(all_.size() - 1));
        return all_[index];
    }
    void print(const char* what) {
        std::printf("%-44s %6zu  %9.2f %9.2f %9.2f %9.2f\n", what, all_.size(), at(0), at(0.5),
                    at(0.99), at(1));
        std::fflush(stdout);
    }

 private:
    std::vector<double> all_;
};

void print_heading(const char* what) {
    std::printf("\n%-44s %6s  %9s %9s %9s %9s\n", what, "runs", "least", "median", "p99", "most");
}

template <class Work>
double microseconds_of(const Work& work) {
    return time_of(work) * 1e6;
}

std::string name_of(u32 number, u32 length) {
    std::string name = "n" + std::to_string(number);
    name.resize(std::max<std::size_t>(length, name.size()), 'x');
    return name;
}

/// Runs `count` commands one after the other; the time of each, as its caller sees it.
void time_singles(ServedVolume& volume, const char* what, Verb verb, u32 count, u32 length,
                  Errc expected) {
    const Handle root = volume.root();
    Times times;
    for (u32 i = 0; i < count; ++i) {
        const std::string name = name_of(i, length);
        ops::Command command = name_command(verb, root, name);
        if (length == 0) command.name_length = 0;
        ops::Reply reply;
        Errc code = Errc::io;
        times.add(microseconds_of([&] { code = volume.execute(command, reply); }));
        require(code == expected,
                std::string(what) + " gave " + std::to_string(static_cast<int>(code)));
    }
    times.print(what);
}

void time_all_singles(ServedVolume& volume, u32 count) {
    print_heading("one at a time, microseconds");
    for (u32 round = 0; round < 2; ++round)
        time_singles(volume, "empty command", empty_verb, count, 0, Errc::not_supported);
    time_singles(volume, "get_attributes", Verb::get_attributes, count, 0, Errc::ok);
    // A verb that ignores its name: the cost of transferring a name.
    time_singles(volume, "count_names without a name", Verb::count_names, count, 0, Errc::ok);
    time_singles(volume, "count_names, name of 48 in the slot", Verb::count_names, count, 48,
                 Errc::ok);
    time_singles(volume, "count_names, name of 49 in the arena", Verb::count_names, count, 49,
                 Errc::ok);
    time_singles(volume, "count_names, name of 255 in the arena", Verb::count_names, count, 255,
                 Errc::ok);
    time_singles(volume, "create, name of 16", Verb::create, count, 16, Errc::ok);
    time_singles(volume, "lookup, name of 16 in the slot", Verb::lookup, count, 16, Errc::ok);
    time_singles(volume, "lookup, name of 48, not there", Verb::lookup, count, 48, Errc::no_entry);
    time_singles(volume, "lookup, name of 49 in the arena", Verb::lookup, count, 49,
                 Errc::no_entry);
    time_singles(volume, "lookup, name of 255 in the arena", Verb::lookup, count, 255,
                 Errc::no_entry);
    time_singles(volume, "empty, name of 48 in the slot", empty_verb, count, 48,
                 Errc::not_supported);
    time_singles(volume, "unlink, name of 16", Verb::unlink, count, 16, Errc::ok);
}

/// The same lookups by a kernel that is launched for them, commands on the device already.
double launched_microseconds(ServedVolume& volume, const std::vector<ops::Command>& commands) {
    gpu::DeviceBuffer<ops::Command> device;
    gpu::DeviceBuffer<ops::Reply> replies;
    gpu::DeviceBuffer<char> names;
    gpu::Stream stream;
    const u64 count = commands.size();
    std::vector<ops::Command> moved = commands;
    require(device.allocate(count) == Errc::ok && replies.allocate(count) == Errc::ok &&
                names.allocate(count * 64) == Errc::ok && stream.open() == Errc::ok,
            "no memory for a batch");
    for (u64 i = 0; i < count; ++i) {
        require(cudaMemcpy(names.data() + i * 64, moved[i].name, moved[i].name_length,
                           cudaMemcpyDefault) == cudaSuccess,
                "cannot copy a name");
        moved[i].name = names.data() + i * 64;
    }
    require(cudaMemcpy(device.data(), moved.data(), count * sizeof(ops::Command),
                       cudaMemcpyDefault) == cudaSuccess,
            "cannot copy commands");
    Times times;
    for (u32 run = 0; run < 20; ++run) {
        times.add(microseconds_of([&] {
            const u32 blocks = static_cast<u32>(std::min<u64>((count + 3) / 4, 264));
            require(cuda_engine::launch_batch(volume.device_store(), device.data(), replies.data(),
                                              static_cast<u32>(count), blocks, 4,
                                              stream.get()) == Errc::ok &&
                        stream.wait() == Errc::ok,
                    "a batch failed");
        }));
    }
    return times.at(0.5);
}

/// The client's own share of a burst: writing the cells, and taking the replies when all of them
/// arrived long before.
struct ClientShare {
    double submit;
    double take;
};

ClientShare client_share(ServedVolume& volume, const std::vector<ops::Command>& commands) {
    Times submits;
    Times takes;
    std::vector<u64> tickets(commands.size());
    for (u32 run = 0; run < 10; ++run) {
        Errc failure;
        submits.add(microseconds_of([&] {
            require(volume.client().submit_many(commands, tickets, failure) == commands.size(),
                    "the ring is full");
        }));
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        takes.add(microseconds_of([&] {
            for (const u64 ticket : tickets) {
                ops::Reply reply;
                require(volume.client().poll(ticket, reply), "a command of a burst is late");
            }
        }));
    }
    return {submits.at(0.5), takes.at(0.5)};
}

void time_bursts(ServedVolume& volume, Verb verb, Errc expected, const char* what) {
    std::printf("\n%-44s %6s  %12s %14s %12s %12s %12s\n", what, "count", "burst us",
                "us a command", "submit us", "take us", "launched us");
    const Handle root = volume.root();
    for (u32 count = 1; count <= 4096; count *= 4) {
        std::vector<std::string> names;
        std::vector<ops::Command> commands;
        for (u32 i = 0; i < count; ++i)
            names.push_back(name_of(i, 16));
        for (const std::string& name : names)
            commands.push_back(name_command(verb, root, name));
        std::vector<ops::Reply> replies;
        Times times;
        for (u32 run = 0; run < 30; ++run) {
            times.add(microseconds_of([&] {
                require(volume.execute_many(commands, replies) == Errc::ok, "a burst failed");
            }));
            for (const ops::Reply& reply : replies)
                require(reply.code == expected, "a command of a burst failed");
        }
        const ClientShare share = client_share(volume, commands);
        std::printf("%-44s %6u  %12.2f %14.3f %12.2f %12.2f", "", count, times.at(0.5),
                    times.at(0.5) / count, share.submit, share.take);
        if (verb == Verb::lookup) {
            require(volume.server().pause() == Errc::ok, "the server does not pause");
            std::printf(" %12.2f", launched_microseconds(volume, commands));
            require(volume.server().resume(volume.device_store()) == Errc::ok, "no resume");
        }
        std::printf("\n");
        std::fflush(stdout);
    }
}

/// Keeps the server busy with small commands during its lifetime.
class Load {
 public:
    explicit Load(ServedVolume& volume)
        : thread_([this, &volume] {
              const Handle root = volume.root();
              while (!ends_.load(std::memory_order_relaxed)) {
                  ops::Reply reply;
                  const ops::Command command = name_command(Verb::lookup, root, "n");
                  Errc code = Errc::io;
                  times.add(microseconds_of([&] { code = volume.execute(command, reply); }));
                  require(code == Errc::no_entry, "the load failed");
              }
          }) {}
    ~Load() { finish(); }
    void finish() {
        ends_.store(true, std::memory_order_relaxed);
        if (thread_.joinable()) thread_.join();
    }

    Times times;

 private:
    std::atomic<bool> ends_{false};
    std::thread thread_;
};

constexpr const char* empty_module =
    ".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }\n";

template <class Call>
void time_call(const char* what, const Call& call) {
    Times times;
    for (u32 run = 0; run < 25; ++run)
        times.add(microseconds_of([&] { require(call(), std::string(what) + " failed"); }));
    times.print(what);
}

void time_memory_calls() {
    void* at = nullptr;
    std::vector<std::byte> memory(16 * mib);
    time_call("cudaMalloc of 64 MiB", [&] {
        if (at != nullptr) cudaFree(at);
        return cudaMalloc(&at, 64 * mib) == cudaSuccess;
    });
    time_call("cudaFree and cudaMalloc", [&] {
        return cudaFree(at) == cudaSuccess && cudaMalloc(&at, 64 * mib) == cudaSuccess;
    });
    cudaFree(at);
    time_call("cudaHostRegister of 16 MiB, and back", [&] {
        return cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterDefault) ==
                   cudaSuccess &&
               cudaHostUnregister(memory.data()) == cudaSuccess;
    });
    auto range = std::make_unique<gpu::ReservedRange>();
    Times maps;
    Times unmaps;
    for (u32 run = 0; run < 25; ++run) {
        maps.add(microseconds_of([&] {
            require(range->reserve(gib) == Errc::ok && range->map(0, 2 * mib) == Errc::ok,
                    "cannot map memory");
        }));
        unmaps.add(microseconds_of([&] { range = std::make_unique<gpu::ReservedRange>(); }));
    }
    maps.print("reserving 1 GiB and mapping 2 MiB");
    unmaps.print("unmapping 2 MiB and giving it back");
    cudaLibrary_t library = nullptr;
    const auto load = [&] {
        return cudaLibraryLoadData(&library, empty_module, nullptr, nullptr, 0, nullptr, nullptr,
                                   0) == cudaSuccess;
    };
    if (!load()) {
        std::printf("loading a module: not here (%s)\n", cudaGetErrorString(cudaGetLastError()));
        return;
    }
    cudaLibraryUnload(library);
    time_call("loading and unloading a module",
              [&] { return load() && cudaLibraryUnload(library) == cudaSuccess; });
}

double copy_gb_per_second(bool to_device) {
    constexpr u64 bytes = 512 * mib;
    static void* host = nullptr;
    static void* device = nullptr;
    static gpu::Stream stream;
    if (host == nullptr) {
        require(cudaHostAlloc(&host, bytes, cudaHostAllocDefault) == cudaSuccess &&
                    cudaMalloc(&device, bytes) == cudaSuccess && stream.open() == Errc::ok,
                "no memory for copies");
    }
    Times times;
    for (u32 run = 0; run < 9; ++run) {
        times.add(microseconds_of([&] {
            const Errc copied =
                to_device ? stream.copy(device, host, bytes) : stream.copy(host, device, bytes);
            require(copied == Errc::ok && stream.wait() == Errc::ok, "a copy failed");
        }));
    }
    return static_cast<double>(bytes) / times.at(0.5) / 1000;
}

void print_copies(const char* what) {
    const double up = copy_gb_per_second(true);
    std::printf("%-44s %9.2f %9.2f\n", what, up, copy_gb_per_second(false));
    std::fflush(stdout);
}

void restart(ServedVolume& volume, cuda_engine::ServerOptions options) {
    require(volume.restart(options) == Errc::ok, "the server does not start again");
}

void time_copies(ServedVolume& volume, const Options& options) {
    std::printf("\n%-44s %9s %9s\n", "copies of 512 MiB, GB/s", "up", "down");
    require(volume.server().pause() == Errc::ok, "the server does not pause");
    print_copies("without the server");
    cuda_engine::ServerOptions awake = options.server;
    awake.idle_us = 1'000'000;
    restart(volume, awake);
    static_cast<void>(volume.root());
    print_copies("beside the server, polling");
    {
        Load load(volume);
        print_copies("beside the server, at work");
        load.finish();
        print_heading("its commands meanwhile, microseconds");
        load.times.print("lookup beside copies");
    }
    cuda_engine::ServerOptions sleepy = options.server;
    sleepy.idle_us = 100;
    restart(volume, sleepy);
    static_cast<void>(volume.root());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    print_copies("beside the parked server");
    Times wakes;
    for (u32 i = 0; i < 100; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
        wakes.add(microseconds_of([&] { static_cast<void>(volume.root()); }));
    }
    print_heading("waking up, microseconds");
    wakes.print("handle_of to a parked server");
    const auto statistics = volume.server().statistics();
    std::printf("epochs %llu, parks %llu, wakes %llu\n",
                static_cast<unsigned long long>(statistics.epochs),
                static_cast<unsigned long long>(statistics.parks),
                static_cast<unsigned long long>(statistics.wakes));
    restart(volume, options.server);
}

Options options_of(int count, char** arguments) {
    Options options;
    options.server.idle_us = 200'000;
    const auto number = [&](int i) { return static_cast<u32>(std::atoi(arguments[i + 1])); };
    for (int i = 1; i + 1 < count; i += 2) {
        const std::string name = arguments[i];
        if (name == "--commands") options.commands = number(i);
        if (name == "--blocks") options.server.blocks = number(i);
        if (name == "--epoch-us") options.server.epoch_us = number(i);
        if (name == "--idle-us") options.server.idle_us = number(i);
    }
    return options;
}

}  // namespace

int main(int count, char** arguments) {
    const Options options = options_of(count, arguments);
    gpu::DeviceInfo info;
    if (gpu::describe_device(0, info) != Errc::ok) {
        std::printf("ring_bench: there is no GPU\n");
        return 0;
    }
    std::printf("%s, server of %u blocks, epochs of %u us\n", info.name.c_str(),
                options.server.blocks, options.server.epoch_us);
    MemoryDisk disk(gib);
    const Failure made = make_volume_on(disk, "image", gib, "bench");
    require(made.code == Errc::ok, made.message);
    ServedVolume volume;
    require(volume.open(disk, options.server) == Errc::ok, "cannot serve a volume");
    time_all_singles(volume, options.commands);
    time_bursts(volume, empty_verb, Errc::not_supported, "bursts of empty commands");
    for (u32 i = 0; i < 4096; ++i) {
        ops::Reply reply;
        const std::string name = name_of(i, 16);
        require(volume.execute(name_command(Verb::create, volume.root(), name), reply) == Errc::ok,
                "cannot create");
    }
    time_bursts(volume, Verb::lookup, Errc::ok, "bursts of lookups");
    require(volume.server().pause() == Errc::ok, "the server does not pause");
    print_heading("without the server, microseconds");
    time_memory_calls();
    require(volume.server().resume(volume.device_store()) == Errc::ok, "no resume");
    print_heading("beside the server at work, microseconds");
    {
        Load load(volume);
        time_memory_calls();
        load.finish();
        load.times.print("lookup, meanwhile");
    }
    time_copies(volume, options);
    require(volume.close() == Errc::ok, "cannot close the volume");
    return 0;
}
