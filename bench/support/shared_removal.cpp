// SPDX-License-Identifier: Apache-2.0
// What the clone is to share is written before it is made, the rest afterwards; without a clone in
// the same order, so that files, inodes and blocks lie in the same order in both trees.
#include "bench/support/shared_removal.hpp"

#include <cstddef>
#include <vector>

#include "bench/support/memory_volume.hpp"

namespace warren::bench {
namespace {

constexpr u64 block_bytes = 4096;
constexpr double ratio_max = 2;  // the bound: with shared blocks over without

/// What is written before the tree is cloned, and what behind that.
enum class Halves : u8 { of_the_files, of_each_file };

class SharedRemoval {
 public:
    SharedRemoval(Volume& volume, const std::string& label, const Scale& scale, Report& report)
        : volume_(volume), label_(label), scale_(scale), report_(report) {}

    void measure(Halves halves) {
        const bool is_split = halves == Halves::of_each_file;
        const std::string plain = "delete " + with_commas(scale_.files()) +
                                  (is_split ? " files of 8 KiB" : " files of 4 KiB");
        const std::string shared =
            plain + (is_split ? ", half of each shared" : ", half of them shared");
        for (u64 run = 0; run <= scale_.large_runs; ++run) {
            const double alone = time_removal(halves, false);
            const double cloned = time_removal(halves, true);
            if (run == 0) continue;
            const double items = static_cast<double>(scale_.files());
            report_.add(plain, label_, alone, items);
            report_.add(shared, label_, cloned, items);
        }
        report_.must(shared + ", " + label_ + ": twice the time without over that",
                     ratio_max * report_.median(plain, label_) / report_.median(shared, label_), 1);
    }

 private:
    /// Writes block `index` of the files with these numbers in each directory; makes those files
    /// that do not exist.
    void write(u64 first, u64 step, u64 index) {
        by_all_cores([&](u32 worker, u32 workers) {
            for (u64 d = worker; d < directories_.size(); d += workers) {
                for (u64 f = first; f < scale_.files_each; f += step)
                    write_block(directories_[d], "file" + std::to_string(f), index);
            }
        });
    }
    void write_block(Handle directory, const std::string& name, u64 index) {
        const Result<Attributes> file =
            index == 0 ? volume_.create({}, directory, name, {.mode = file_mode})
                       : volume_.lookup({}, directory, name);
        require(bool(file) && volume_.open_file(file->handle) == Errc::ok, "cannot open " + name);
        const Result<u64> done = volume_.write(file->handle, index * block_bytes, block_);
        require(bool(done) && *done == block_bytes, "cannot write " + name);
        require(volume_.release(file->handle) == Errc::ok, "cannot close " + name);
    }
    void clone() {
        const Result<Attributes> tree = volume_.lookup({}, volume_.root(), "doomed");
        ClonedTree cloned;
        require(bool(tree) &&
                    volume_.clone({}, tree->handle, volume_.root(), "clone", cloned) == Errc::ok,
                "cannot clone");
    }
    double remove(const char* name) {
        Removal removal;
        return time_of([&] {
            require(volume_.remove_tree({}, volume_.root(), name, removal) == Errc::ok,
                    std::string("cannot remove ") + name);
        });
    }
    void sync() { require(volume_.sync() == Errc::ok, "cannot sync the volume"); }

    double time_removal(Halves halves, bool is_cloned) {
        const Handle top = add_entry(volume_, volume_.root(), "doomed", directory_mode);
        directories_.clear();
        for (u64 d = 0; d < scale_.directories; ++d)
            directories_.push_back(add_entry(volume_, top, std::to_string(d), directory_mode));
        const bool is_split = halves == Halves::of_each_file;
        write(0, is_split ? 1 : 2, 0);
        if (is_cloned) clone();
        write(is_split ? 0 : 1, is_split ? 1 : 2, is_split ? 1 : 0);
        sync();
        std::vector<DirectoryUsage> usage;  // brings a replica up to date
        require(volume_.usage({}, volume_.root(), {}, usage) == Errc::ok, "du failed");
        const double seconds = remove("doomed");
        sync();
        if (is_cloned) remove("clone");
        sync();
        return seconds;
    }

    Volume& volume_;
    const std::string label_;
    const Scale scale_;
    Report& report_;
    std::vector<Handle> directories_;
    const std::vector<std::byte> block_ = std::vector<std::byte>(block_bytes, std::byte{0x5a});
};

}  // namespace

void measure_shared_removal(Volume& volume, const std::string& label, const Scale& scale,
                            Report& report) {
    SharedRemoval removal(volume, label, scale, report);
    removal.measure(Halves::of_the_files);
    removal.measure(Halves::of_each_file);
}

}  // namespace warren::bench
