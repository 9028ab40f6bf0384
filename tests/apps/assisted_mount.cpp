// SPDX-License-Identifier: Apache-2.0
// Mounts a volume with the CPU engine and beside it a replica in the host's memory, in the place of
// a GPU's, which is asked for every query. Runs in the foreground.
//
//   assisted_mount IMAGE DIRECTORY
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "apps/fuse/mount.hpp"
#include "fs/disk/file_disk.hpp"
#include "tests/support/host_reader.hpp"
#include "tests/support/test_engine.hpp"

int main(int argument_count, char** arguments) {
    if (argument_count != 3) {
        std::fprintf(stderr, "usage: assisted_mount IMAGE DIRECTORY\n");
        return EXIT_FAILURE;
    }
    std::unique_ptr<warren::HostReplicaOf> replica;  // its queries belong to the volume
    const auto assist = [&](warren::VolumeImplementation& volume) {
        replica = std::make_unique<warren::HostReplicaOf>(volume);
        replica->queries->use_only(warren::Side::replica);
    };
    warren::fuse::MountOptions options;
    options.program = "assisted_mount";
    options.image = arguments[1];
    options.mountpoint = arguments[2];
    options.foreground = true;
    options.allow_other = true;
    options.open = [&](const std::string& image, const warren::OpenOptions& how,
                       warren::Failure& failure) -> std::unique_ptr<warren::Volume> {
        std::unique_ptr<warren::Disk> disk =
            warren::FileDisk::open(image, warren::OpenMode::read_write, failure);
        if (disk == nullptr) return nullptr;
        return warren::open_on_engine(std::move(disk), "cpu", how, failure, ~warren::u64{0},
                                      assist);
    };
    return warren::fuse::mount_volume(options);
}
