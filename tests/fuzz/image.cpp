// SPDX-License-Identifier: Apache-2.0
// Trees of several levels in a volume of 16 MiB.
#include "tests/fuzz/image.hpp"

#include "base/check.hpp"
#include "fs/volume/open_volume.hpp"
#include "tests/support/image_builder.hpp"
#include "tests/support/passing_disk.hpp"
#include "warren/volume_path.hpp"

namespace warren::fuzz {

namespace {

std::unique_ptr<MemoryDisk> make_closed() {
    test::ImageBuilder image(16 * mib);
    test::build_one_of_everything(image, 20, 14);
    return image.disk().copy();
}

std::unique_ptr<MemoryDisk> make_cut() {
    const std::unique_ptr<MemoryDisk> disk = closed_image().copy();
    const std::unique_ptr<Volume> volume = open(*disk);
    WARREN_CHECK(volume != nullptr);
    const auto directory =
        PathWalker(*volume, anybody).find(volume->root(), "outer/inner", Follow::no);
    WARREN_CHECK(directory);
    for (const char* name : {"one", "two", "three"})
        WARREN_CHECK(volume->create(anybody, directory->handle, name, {}));
    Removal removal;
    WARREN_CHECK(volume->remove_tree(anybody, volume->root(), "directory", removal) == Errc::ok);
    WARREN_CHECK(volume->sync() == Errc::ok);
    return disk->copy();
}

}  // namespace

const MemoryDisk& closed_image() {
    static const std::unique_ptr<MemoryDisk> disk = make_closed();
    return *disk;
}

const MemoryDisk& cut_image() {
    static const std::unique_ptr<MemoryDisk> disk = make_cut();
    return *disk;
}

std::unique_ptr<Volume> open(Disk& disk, OpenOptions options) {
    Failure failure;
    options.workers = 1;
    options.report = [](const std::string&) {};
    return open_volume(std::make_unique<PassingDisk>(disk), "image", options, failure);
}

}  // namespace warren::fuzz
