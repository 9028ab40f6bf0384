// SPDX-License-Identifier: Apache-2.0
// Names and their order are fixed; which core makes which is not.
#include "bench/support/memory_volume.hpp"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "bench/support/report.hpp"
#include "fs/admin/make_volume.hpp"
#include "fs/commit/superblock_io.hpp"
#include "tests/support/fault_disk.hpp"

namespace warren::bench {

MemoryVolume::MemoryVolume(u64 size_bytes, u64 device_memory_bytes) : disk_(size_bytes) {
    const Failure made = make_volume_on(disk_, "image", size_bytes, "bench");
    require(made.code == Errc::ok, made.message);
    format::Superblock superblock;
    require(read_superblock(disk_, "image", superblock).code == Errc::ok, "no superblock");
    auto implementation = std::make_unique<VolumeImplementation>(
        std::make_unique<FaultDisk>(disk_), superblock,
        OpenOptions{
            .engine = device_memory_bytes == 0 ? EngineChoice::cpu : EngineChoice::automatic,
            .device_memory_bytes = device_memory_bytes});
    inside_ = implementation.get();
    require(inside_->start() == Errc::ok, "cannot open the volume");
    volume_ = std::make_unique<Volume>(std::move(implementation));
}

void by_all_cores(const std::function<void(u32, u32)>& work) {
    const u32 workers = std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::thread> threads;
    for (u32 w = 0; w < workers; ++w)
        threads.emplace_back([&work, w, workers] { work(w, workers); });
    for (std::thread& thread : threads)
        thread.join();
}

Handle add_entry(Volume& volume, Handle in, const std::string& name, u32 mode) {
    const auto made = volume.create({}, in, name, {.mode = mode});
    require(bool(made), "cannot create " + name);
    return made->handle;
}

Handle build_deep(Volume& volume, Handle root, u32 levels) {
    for (u32 i = 1; i < levels; ++i)
        root = add_entry(volume, root, "down", directory_mode);
    return root;
}

void build_flat(Volume& volume, Handle root, u32 parents, u32 entries, u32 mode) {
    std::vector<Handle> directories;
    for (u32 p = 0; p < parents; ++p)
        directories.push_back(
            add_entry(volume, root, "directory" + std::to_string(p), directory_mode));
    by_all_cores([&](u32 worker, u32 workers) {
        for (u32 p = worker; p < parents; p += workers) {
            for (u32 e = 0; e < entries; ++e)
                add_entry(volume, directories[p], "entry" + std::to_string(e), mode);
        }
    });
}

}  // namespace warren::bench
