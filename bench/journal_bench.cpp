// SPDX-License-Identifier: Apache-2.0
// How much does a removal write to the journal? A million files in a thousand directories, removed
// by one command and name by name, on a disk in memory that counts what goes where. A file system
// that logs what it changes block by block would write every inode: 256 MB for a million.
//
//   journal_bench [--files N]    N files (1,000,000)
#include <atomic>

#include "bench/support/memory_volume.hpp"
#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "bench/support/trees.hpp"
#include "fs/admin/make_volume.hpp"
#include "fs/commit/superblock_io.hpp"
#include "fs/volume/open_volume.hpp"
#include "tests/support/passing_disk.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

constexpr u64 volume_bytes = 16 * gib;
constexpr double megabyte = 1e6;

/// Counts the bytes that are written, those of one range separately.
class MeterDisk final : public PassingDisk {
 public:
    using PassingDisk::PassingDisk;

    Errc write(u64 offset, std::span<const std::byte> source) override {
        const bool is_within = offset >= begin && offset < end;
        (is_within ? within : elsewhere).fetch_add(source.size(), std::memory_order_relaxed);
        return below().write(offset, source);
    }
    Errc flush() override {
        flushes.fetch_add(1, std::memory_order_relaxed);
        return below().flush();
    }

    void reset() { within = elsewhere = flushes = 0; }

    u64 begin = 0;
    u64 end = 0;
    std::atomic<u64> within{0};
    std::atomic<u64> elsewhere{0};
    std::atomic<u64> flushes{0};
};

struct Place {
    MemoryDisk memory{volume_bytes};
    MeterDisk meter{memory};
    std::unique_ptr<Volume> volume;

    Place() {
        Failure failure = make_volume_on(memory, "memory", volume_bytes, "bench");
        require(failure.code == Errc::ok, failure.message);
        format::Superblock superblock;
        failure = read_superblock(memory, "memory", superblock);
        require(failure.code == Errc::ok, failure.message);
        meter.begin = superblock.journal_offset;
        meter.end = meter.begin + superblock.journal_blocks * format::block_size;
        OpenOptions options;
        options.engine = EngineChoice::cpu;
        volume = open_volume(std::make_unique<PassingDisk>(static_cast<Disk&>(meter)), "memory",
                             options, failure);
        require(volume != nullptr, failure.message);
    }
};

void sync(Volume& volume) {
    require(volume.sync() == Errc::ok, "cannot sync the volume");
}

std::string figures(const MeterDisk& meter) {
    char text[160];
    std::snprintf(text, sizeof text,
                  "%.2f MB to the journal, %.2f MB to their places, %llu flushes",
                  static_cast<double>(meter.within) / megabyte,
                  static_cast<double>(meter.elsewhere) / megabyte,
                  static_cast<unsigned long long>(meter.flushes));
    return text;
}

/// Removes what build_flat() made, name by name.
void remove_by_name(Volume& volume, Handle root) {
    std::vector<std::pair<std::string, Handle>> parents;
    static_cast<void>(volume.read_directory(root, 0, [&](const DirectoryEntry& entry) {
        parents.emplace_back(entry.name, (*volume.handle_of(entry.inode)));
        return true;
    }));
    for (const auto& [name, handle] : parents) {
        std::vector<std::string> names;
        static_cast<void>(volume.read_directory(handle, 0, [&](const DirectoryEntry& entry) {
            names.emplace_back(entry.name);
            return true;
        }));
        for (const std::string& one : names)
            require(volume.unlink({}, handle, one) == Errc::ok, "cannot unlink");
        require(volume.remove_directory({}, root, name) == Errc::ok, "cannot remove");
    }
}

}  // namespace

int main(int argument_count, char** arguments) {
    const u64 files = option(argument_count, arguments, "files", 1'000'000);
    const auto parents = static_cast<u32>(std::max<u64>(1, files / 1000));
    Report report("journal_bench", argument_count, arguments);
    const std::string scenario = std::to_string(files) + " files, removed and durable";
    Place place;
    Volume& volume = *place.volume;
    for (const bool in_bulk : {true, false}) {
        const Handle top = add_entry(volume, volume.root(), "top", directory_mode);
        build_flat(volume, top, parents, static_cast<u32>(files / parents), file_mode);
        sync(volume);
        place.meter.reset();
        const double seconds = time_of([&] {
            if (in_bulk) {
                Removal removal;
                require(volume.remove_tree({}, volume.root(), "top", removal) == Errc::ok,
                        "cannot remove the tree");
                require(removal.files == files / parents * parents, "files are missing");
            } else {
                remove_by_name(volume, top);
                require(volume.remove_directory({}, volume.root(), "top") == Errc::ok,
                        "cannot remove the directory");
            }
            sync(volume);
        });
        const std::string subject = in_bulk ? "remove_tree" : "unlink, one after the other";
        report.add(scenario, subject, seconds, static_cast<double>(files));
        report.note(subject + ": " + figures(place.meter));
        require(place.meter.within > 0, "the journal's writes were not counted");
        if (in_bulk) {
            report.must(
                "100 MB for 1,000,000 files over what remove_tree logs",
                100.0 * static_cast<double>(files) / static_cast<double>(place.meter.within), 1.0);
        }
    }
    report.set_reference(scenario, "remove_tree");
    return report.finish();
}
