// SPDX-License-Identifier: Apache-2.0
// How much should be loaded for a reader if nothing says how far it will read? The seed's
// figure 5.1: the time it takes to read the first N blocks of an extent, one block a request, where
// the file buffer loads a fixed number of blocks (2 to 512) or one that grows by every load. The
// file lies in /var/tmp, on the machine's disk, reached by io_uring past the page cache; nothing of
// it is in memory, and each measurement reads another place.
//
//   load_bench [--runs N]    N runs of each (5)
#include <algorithm>
#include <filesystem>

#include "base/random.hpp"
#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "fs/cache/file_buffer.hpp"
#include "fs/disk/file_disk.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

constexpr u64 block = format::block_size;
constexpr u64 file_bytes = 512 * mib;
constexpr u64 buffer_bytes = 32 * mib;
constexpr u64 longest = 512;  // blocks that a load has at most

struct Way {
    std::string name;
    u64 first;  // blocks of the first load
    u64 most;
    bool told;  // the reader says how much it wants
};

std::vector<Way> ways() {
    std::vector<Way> all;
    for (u64 limit = 2; limit <= longest; limit *= 2)
        all.push_back({std::to_string(limit) + " blocks", limit, limit, false});
    all.push_back({"growing from 2", 2, longest, false});
    all.push_back({"growing from 8 (as mounted)", 8, longest, false});
    all.push_back({"one request for all", 8, longest, true});
    return all;
}

std::unique_ptr<FileDisk> make_disk(const std::string& path) {
    Failure failure;
    auto disk = FileDisk::open(path, OpenMode::create, failure);
    require(disk != nullptr, failure.message);
    require(disk->resize(file_bytes) == Errc::ok, "cannot make " + path);
    Random random(1);
    std::vector<std::byte> bytes(mib);
    for (u64 at = 0; at < file_bytes; at += bytes.size()) {
        for (std::byte& byte : bytes)
            byte = static_cast<std::byte>(random.next());
        require(disk->write(at, bytes) == Errc::ok, "cannot write " + path);
    }
    require(disk->flush() == Errc::ok, "cannot flush " + path);
    std::string why;
    require(disk->use(DiskAccess::direct, why) == Errc::ok, why);
    return disk;
}

/// Seconds until `count` blocks from `place` on are read; `loads` gets the requests that took.
double read_blocks(FileDisk& disk, const Way& way, u64 place, u64 count, u64& loads) {
    FileBufferShape shape;
    shape.size_bytes = buffer_bytes;
    shape.first_load_blocks = way.first;
    shape.load_blocks_max = way.most;
    FileBuffer buffer(disk, shape);
    std::vector<std::byte> bytes((way.told ? count : 1) * block);
    const u64 end = place + 2 * longest * block;  // the file's extent goes on behind what is read
    const double seconds = time_of([&] {
        for (u64 done = 0; done < count * block; done += bytes.size())
            require(buffer.read(place + done, bytes, end) == Errc::ok, "cannot read");
    });
    loads = buffer.figures().loads;
    return seconds;
}

}  // namespace

int main(int argument_count, char** arguments) {
    const u64 runs = option(argument_count, arguments, "runs", 5);
    Report report("load_bench", argument_count, arguments);
    const Scratch scratch("/var/tmp");
    const auto disk = make_disk(scratch.path() + "/file");
    Random random(3);
    std::string loads_text;
    for (u64 count = 1; count <= longest; count *= 2) {
        const std::string scenario = "read " + std::to_string(count) + " blocks";
        std::string line = "loads for " + std::to_string(count) + " blocks:";
        for (u64 run = 0; run < runs; ++run) {
            for (const Way& way : ways()) {
                const u64 places = file_bytes / block / (2 * longest);
                const u64 place = random.below(places) * 2 * longest * block;
                u64 loads = 0;
                report.add(scenario, way.name, read_blocks(*disk, way, place, count, loads),
                           static_cast<double>(count));
                if (run == 0) line += " " + std::to_string(loads);
            }
        }
        report.set_reference(scenario, "growing from 8 (as mounted)");
        report.note(line);
    }
    return report.finish();
}
