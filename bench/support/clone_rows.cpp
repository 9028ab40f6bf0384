// SPDX-License-Identifier: Apache-2.0
// The rows of clones. Each run clones a new tree, whose blocks no file has shared yet, and then
// the same tree once more.
#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "bench/support/engine_rows.hpp"

namespace warren::bench {

namespace {

const Caller anybody{.check = false};
constexpr u64 file_bytes = 4096;

/// Writes a block to each file, on all cores.
void fill(Volume& volume, const std::vector<Handle>& files) {
    constexpr u64 part = 256;
    std::atomic<u64> next{0};
    std::atomic<bool> has_failed{false};
    std::vector<std::thread> threads(std::max(1u, std::thread::hardware_concurrency()));
    for (std::thread& thread : threads) {
        thread = std::thread([&] {
            std::array<std::byte, file_bytes> bytes{};
            for (u64 begin; (begin = next.fetch_add(part)) < files.size();) {
                for (u64 i = begin; i < std::min<u64>(begin + part, files.size()); ++i) {
                    bytes[i % file_bytes] = static_cast<std::byte>(i);
                    const bool is_good = volume.open_file(files[i]) == Errc::ok &&
                                         volume.write(files[i], 0, bytes) &&
                                         volume.release(files[i]) == Errc::ok;
                    if (!is_good) has_failed.store(true);
                }
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    require(!has_failed.load(), "cannot fill the files");
}

}  // namespace

/// A tree of new files with a block each.
Handle EngineRows::make_filled_tree(const std::string& name) {
    const Handle top = make_directory(root_, name);
    const std::vector<Handle> directories = make_directories(top, scale_.directories);
    std::vector<std::string> names;
    for (u64 i = 0; i < scale_.files_each; ++i)
        names.push_back("file" + std::to_string(i));
    std::vector<Creation> creations;
    for (const Handle directory : directories) {
        for (const std::string& file : names)
            creations.push_back({directory, file, {}});
    }
    std::vector<Result<Attributes>> made(creations.size(), Errc::io);
    volume_->create_many(anybody, creations, made);
    std::vector<Handle> files;
    for (const Result<Attributes>& one : made) {
        require(bool(one), "cannot make a file");
        files.push_back(one->handle);
    }
    fill(*volume_, files);
    sync();
    return top;
}

void EngineRows::measure_clones() {
    const double items = static_cast<double>(scale_.files());
    const auto clone = [&](Handle source, const std::string& name) {
        ClonedTree done;
        require(volume_->clone(anybody, source, root_, name, done) == Errc::ok &&
                    done.files == scale_.files(),
                "cannot clone");
    };
    for (u64 run = 0; run <= scale_.large_runs; ++run) {
        const Handle source = make_filled_tree("source");
        add_both(rows::clone(scale_), items, run, [&] { clone(source, "clone"); });
        add_both(rows::clone_again(scale_), items, run, [&] { clone(source, "again"); });
        for (const std::string name : {"again", "clone", "source"})
            remove_tree(name);
        sync();
    }
}

}  // namespace warren::bench
