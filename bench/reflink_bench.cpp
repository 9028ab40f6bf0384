// SPDX-License-Identifier: Apache-2.0
// What do a reflink of a large file and a clone of a tree take? cp(1) and warren clone on a Warren
// mount, cp(1) on xfs and on btrfs, each in a sparse file of the same directory, the last two on a
// loop device. The source is clean: durable, and its pages are not in the page cache; nor are, of a
// tree, its names and inodes. Each run makes the file systems anew.
//
//   reflink_bench [--runs N] [--gib N] [--large N] [--peers 0]
//
// --gib: size of the file; --large: files in the larger tree, 0 for none; --peers 0: Warren alone
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/random.hpp"
#include "base/whole_io.hpp"
#include "bench/support/mounts.hpp"
#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "bench/support/rows.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

constexpr const char* disk_folder = "/var/tmp";

/// xfs or btrfs with default options on a loop device.
class LoopFileSystem {
 public:
    LoopFileSystem(const std::string& folder, const std::string& kind, u64 size_bytes)
        : image_(folder + "/" + kind + ".img"), path_(folder + "/" + kind) {
        run_or_die({"truncate", "-s", std::to_string(size_bytes), image_});
        run_or_die({"mkfs." + kind, image_});
        std::filesystem::create_directory(path_);
        run_or_die({"mount", "-o", "loop", image_, path_});
    }
    ~LoopFileSystem() {
        run_program({"umount", path_});
        run_program({"rm", "-f", image_});
    }
    LoopFileSystem(const LoopFileSystem&) = delete;
    LoopFileSystem& operator=(const LoopFileSystem&) = delete;
    const std::string& path() const { return path_; }

 private:
    std::string image_;
    std::string path_;
};

void write_file(const std::string& path, u64 size_bytes) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    require(file >= 0, "cannot create " + path);
    Random random(1);
    std::vector<u64> words(8 * mib / sizeof(u64));
    for (u64& word : words)
        word = random.next();
    const auto bytes = std::as_bytes(std::span(words));
    for (u64 at = 0; at < size_bytes; at += bytes.size())
        require(write_fully(file, at, bytes) == Errc::ok, "cannot write " + path);
    require(::fsync(file) == 0 && ::close(file) == 0, "cannot write " + path);
}

class Bench {
 public:
    Bench(Report& report, u64 size_gib, bool has_peers)
        : report_(report), size_gib_(size_gib), has_peers_(has_peers) {}

    void run() {
        copy_file();
        clone_trees();
    }
    void add_tree(u64 directories, u64 files_in_each) {
        trees_.push_back({directories, files_in_each});
    }

    struct Tree {
        u64 directories;
        u64 files_in_each;
        u64 files() const { return directories * files_in_each; }
        std::string name() const { return "tree" + std::to_string(files()); }
        std::string visible() const { return "clone, " + with_commas(files()) + " files of 4 KiB"; }
        std::string durable() const { return visible() + ", then sync"; }
    };
    const std::vector<Tree>& trees() const { return trees_; }
    std::string first() const { return times("of a clean file"); }
    std::string again() const { return times("once more"); }
    std::string durable() const { return times("then fsync"); }
    std::string empty() const { return "cp, an empty file"; }

 private:
    void copy_file() {
        const Scratch scratch(disk_folder);
        const u64 size_bytes = size_gib_ * gib + size_gib_ * gib / 2 + 4 * gib;
        {
            WarrenMount warren(scratch.path(), size_bytes);
            warren.mount();
            measure("Warren", warren.path(), {"cp"});
            const std::string copy = warren.path() + "/own";
            measure_copy(
                again(), "Warren, warren cp --reflink=always",
                {warren_program(), "cp", "--reflink=always", warren.path() + "/file", copy});
        }
        std::filesystem::remove(scratch.path() + "/mounted.img");
        for (const char* kind : peers()) {
            const LoopFileSystem peer(scratch.path(), kind, size_bytes);
            measure(kind, peer.path(), {"cp", "--reflink=always"});
        }
    }
    void clone_trees() {
        u64 most = 0;
        for (const Tree& tree : trees_)
            most = std::max(most, tree.files());
        const Scratch scratch(disk_folder);
        const u64 size_bytes = most * 16 * kib + 4 * gib;
        {
            WarrenMount warren(scratch.path(), size_bytes);
            warren.fill([&](Volume& volume) {
                for (const Tree& tree : trees_)
                    make_in_volume(volume, tree);
            });
            warren.mount();
            for (const Tree& tree : trees_)
                measure_clone(tree, "Warren", warren.path(), {warren_program(), "clone"});
        }
        std::filesystem::remove(scratch.path() + "/mounted.img");
        for (const char* kind : peers()) {
            const LoopFileSystem peer(scratch.path(), kind, size_bytes);
            for (const Tree& tree : trees_)
                make_on_host(peer.path(), tree);
            run_or_die({"sync", "-f", peer.path()});
            for (const Tree& tree : trees_)
                measure_clone(tree, kind, peer.path(), {"cp", "-a", "--reflink=always"});
        }
    }
    void measure_clone(const Tree& tree, const std::string& subject, const std::string& folder,
                       std::vector<std::string> clone) {
        const std::string source = folder + "/" + tree.name();
        drop_caches(3);
        run_program({clone[0], "--version"});  // reads the program from the disk
        clone.insert(clone.end(), {source, source + ".clone"});
        const auto files = static_cast<double>(tree.files());
        report_.add(tree.visible(), subject, time_of([&] { run_or_die(clone); }), files);
        // syncfs(2) does not reach a FUSE daemon.
        const bool is_warren = clone[0] == warren_program();
        const std::vector<std::string> sync = {is_warren ? warren_program() : "sync",
                                               is_warren ? "sync" : "-f", folder};
        report_.add(tree.durable(), subject, time_of([&] { run_or_die(sync); }), files);
        const std::string last =
            std::to_string(tree.directories - 1) + "/" + std::to_string(tree.files_in_each - 1);
        require(std::filesystem::file_size(source + ".clone/" + last) == 4 * kib,
                source + ".clone is not whole");
    }
    static void make_in_volume(Volume& volume, const Tree& tree) {
        const Caller caller{.check = false};
        const auto make = [&](Handle in, const std::string& name, u32 mode, bool open) {
            CreateOptions options;
            options.mode = mode;
            options.open = open;
            const Result<Attributes> made = volume.create(caller, in, name, options);
            require(made.code() == Errc::ok, "cannot make " + name);
            return made->handle;
        };
        const Handle root = make(volume.root(), tree.name(), 040755, false);
        for (u64 d = 0; d < tree.directories; ++d) {
            const Handle below = make(root, std::to_string(d), 040755, false);
            for (u64 f = 0; f < tree.files_in_each; ++f) {
                const Handle file = make(below, std::to_string(f), 0100644, true);
                const Result<u64> done = volume.write(file, 0, block);
                require(done && *done == block.size() && volume.release(file) == Errc::ok,
                        "cannot write a file");
            }
        }
    }
    static void make_on_host(const std::string& folder, const Tree& tree) {
        const std::string root = folder + "/" + tree.name();
        std::filesystem::create_directory(root);
        for (u64 d = 0; d < tree.directories; ++d) {
            const std::string below = root + "/" + std::to_string(d);
            std::filesystem::create_directory(below);
            for (u64 f = 0; f < tree.files_in_each; ++f) {
                const std::string path = below + "/" + std::to_string(f);
                const int file =
                    ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
                require(file >= 0 && write_fully(file, 0, block) == Errc::ok && ::close(file) == 0,
                        "cannot write " + path);
            }
        }
    }

    std::vector<const char*> peers() const {
        return has_peers_ ? std::vector{"xfs", "btrfs"} : std::vector<const char*>();
    }
    std::string times(const std::string& what) const {
        return "cp, " + std::to_string(size_gib_) + " GiB, " + what;
    }
    void measure_copy(const std::string& scenario, const std::string& subject,
                      const std::vector<std::string>& words) {
        report_.add(scenario, subject, time_of([&] { run_or_die(words); }), 1);
        require(std::filesystem::file_size(words.back()) == size_gib_ * gib,
                words.back() + " is not whole");
    }
    void measure(const std::string& subject, const std::string& folder,
                 std::vector<std::string> copy) {
        const std::string file = folder + "/file";
        write_file(file, size_gib_ * gib);
        run_or_die({"touch", folder + "/empty"});
        drop_caches(1);
        copy.insert(copy.end(), {folder + "/empty", folder + "/warm"});
        run_or_die(copy);  // reads the program from the disk
        copy.back() = folder + "/empty too";
        report_.add(empty(), subject, time_of([&] { run_or_die(copy); }), 1);
        for (const bool is_first : {true, false}) {
            copy[copy.size() - 2] = file;
            copy.back() = folder + (is_first ? "/copy" : "/other");
            measure_copy(is_first ? first() : again(), subject, copy);
            const double synced = time_of([&] { run_or_die({"sync", copy.back()}); });
            if (is_first) report_.add(durable(), subject, synced, 1);
        }
    }

    static inline const std::vector<std::byte> block =
        std::vector<std::byte>(4 * kib, std::byte{0x5a});

    Report& report_;
    const u64 size_gib_;
    const bool has_peers_;
    std::vector<Tree> trees_;
};

}  // namespace

int main(int argument_count, char** arguments) {
    const u64 runs = option(argument_count, arguments, "runs", 3);
    const u64 size_gib = option(argument_count, arguments, "gib", 10);
    const u64 large = option(argument_count, arguments, "large", 1'000'000);
    const u64 peers = option(argument_count, arguments, "peers", 1);
    require(size_gib > 0, "--gib must be at least 1");
    Report report("reflink_bench", argument_count, arguments);
    Bench bench(report, size_gib, peers != 0);
    bench.add_tree(342, 100);
    if (large >= 1000) bench.add_tree(large / 1000, 1000);
    for (u64 run = 0; run < runs; ++run)
        bench.run();
    for (const std::string& scenario :
         {bench.empty(), bench.first(), bench.again(), bench.durable()})
        report.set_reference(scenario, "Warren");
    for (const Bench::Tree& tree : bench.trees()) {
        report.set_reference(tree.visible(), "Warren");
        report.set_reference(tree.durable(), "Warren");
    }
    for (const std::string& scenario : {bench.first(), bench.again()})
        report.must("20 ms over " + scenario, 0.020 / report.median(scenario, "Warren"), 1);
    const std::string few = bench.trees()[0].visible();
    report.must("60 ms over " + few, 0.060 / report.median(few, "Warren"), 1);
    if (large == 1'000'000) {
        const std::string many = bench.trees()[1].visible();
        report.must("1.5 s over " + many, 1.5 / report.median(many, "Warren"), 1);
    }
    return report.finish();
}
