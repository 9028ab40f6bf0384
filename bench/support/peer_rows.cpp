// SPDX-License-Identifier: Apache-2.0
// Directories are opened once and names are given relative to them, which is the fastest way that
// the system calls have.
#include "bench/support/peer_rows.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "bench/support/engine_rows.hpp"
#include "bench/support/places.hpp"
#include "bench/support/trees.hpp"

namespace warren::bench {

namespace {

/// An open directory of the host.
class OpenDirectory {
 public:
    explicit OpenDirectory(const std::string& path)
        : descriptor_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
        require(descriptor_ >= 0, "cannot open " + path);
    }
    ~OpenDirectory() { ::close(descriptor_); }
    OpenDirectory(const OpenDirectory&) = delete;
    OpenDirectory& operator=(const OpenDirectory&) = delete;
    int get() const { return descriptor_; }

 private:
    int descriptor_;
};

std::string name_of(u64 number) {
    return "file" + std::to_string(number);
}

std::string path_of(const std::string& base, u64 directory) {
    return base + "/" + name_of(directory);
}

void make_directory(const std::string& path) {
    require(::mkdir(path.c_str(), 0755) == 0, "cannot make " + path);
}

void make_directories(const std::string& base, u64 count) {
    make_directory(base);
    for (u64 i = 0; i < count; ++i)
        make_directory(path_of(base, i));
}

void make_files(const std::string& path, u64 count) {
    const OpenDirectory directory(path);
    for (u64 i = 0; i < count; ++i) {
        require(::mknodat(directory.get(), name_of(i).c_str(), S_IFREG | 0644, 0) == 0,
                "cannot make a file");
    }
}

void move_files(const std::string& from, const std::string& to, u64 count) {
    const OpenDirectory source(from);
    const OpenDirectory target(to);
    for (u64 i = 0; i < count; ++i) {
        const std::string name = name_of(i);
        require(::renameat(source.get(), name.c_str(), target.get(), name.c_str()) == 0,
                "cannot move a file");
    }
}

void remove_files(const std::string& path, u64 count) {
    const OpenDirectory directory(path);
    for (u64 i = 0; i < count; ++i) {
        require(::unlinkat(directory.get(), name_of(i).c_str(), 0) == 0, "cannot remove a file");
    }
}

void stat_files(const std::string& path, u64 count) {
    const OpenDirectory directory(path);
    struct stat facts {};
    for (u64 i = 0; i < count; ++i) {
        require(::fstatat(directory.get(), name_of(i).c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0,
                "cannot stat a file");
    }
}

/// Calls `work(i)` for all i below `count`, shared out among processes.
template <class Work>
void for_each(u64 count, u64 processes, const Work& work) {
    if (processes == 1) {
        for (u64 i = 0; i < count; ++i)
            work(i);
        return;
    }
    std::vector<pid_t> children;
    for (u64 p = 0; p < processes; ++p) {
        const pid_t child = ::fork();
        require(child >= 0, "cannot fork");
        if (child == 0) {
            for (u64 i = p; i < count; i += processes)
                work(i);
            ::_exit(0);
        }
        children.push_back(child);
    }
    for (const pid_t child : children) {
        int status = 0;
        ::waitpid(child, &status, 0);
        require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a process failed");
    }
}

}  // namespace

PeerRows::PeerRows(std::string folder, std::string label, std::function<void()> sync,
                   const Scale& scale, Report& report)
    : folder_(std::move(folder)),
      label_(std::move(label)),
      sync_(std::move(sync)),
      scale_(scale),
      report_(report) {}

template <class Work>
void PeerRows::add_both(const std::string& row, const std::string& label, double items,
                        const Work& work) {
    const double named = time_of(work);
    report_.add(row, label, named, items);
    if (sync_) report_.add(row, label + durable_suffix, named + time_of(sync_), items);
}

void PeerRows::measure_single_calls() {
    const double items = static_cast<double>(scale_.singles);
    const std::string from = folder_ + "/single";
    const std::string to = folder_ + "/other";
    for (u64 run = 0; run < scale_.runs; ++run) {
        make_directory(from);
        make_directory(to);
        add_both(rows::create_one, label_, items, [&] { make_files(from, scale_.singles); });
        report_.add(rows::stat_one, label_, time_of([&] { stat_files(from, scale_.singles); }),
                    items);
        add_both(rows::rename_one, label_, items, [&] { move_files(from, to, scale_.singles); });
        add_both(rows::unlink_one, label_, items, [&] { remove_files(to, scale_.singles); });
        make_files(to, batch_items);
        if (sync_) sync_();
        add_both(rows::unlink_many, label_, batch_items, [&] { remove_files(to, batch_items); });
        run_or_die({"rm", "-rf", from, to});
    }
}

void PeerRows::measure_tree(const std::string& row, const std::string& kind) {
    Tree tree = deep_tree(kind, 1000);
    if (kind == "wide") tree = wide_tree(kind, 1000);
    if (kind == "mix") tree = flat_tree(kind, 100, 100, true);
    for (u64 run = 0; run < scale_.runs; ++run) {
        make_on_host(folder_, tree);
        if (sync_) sync_();
        add_both(row, label_ + ", rm -rf", static_cast<double>(tree.size()), [&] {
            run_or_die({"rm", "-rf", folder_ + "/" + kind});
        });
    }
}

void PeerRows::measure_small_trees() {
    measure_tree(rows::deep, "deep");
    measure_tree(rows::wide, "wide");
    measure_tree(rows::mix, "mix");
}

void PeerRows::measure_move(const std::string& row, u64 directories, u64 each) {
    std::string from = folder_ + "/from";
    std::string to = folder_ + "/to";
    make_directories(from, directories);
    make_directories(to, directories);
    for (u64 d = 0; d < directories; ++d)
        make_files(path_of(from, d), each);
    for (u64 run = 0; run < scale_.runs; ++run) {
        add_both(row, label_, static_cast<double>(directories * each), [&] {
            for (u64 d = 0; d < directories; ++d)
                move_files(path_of(from, d), path_of(to, d), each);
        });
        std::swap(from, to);
    }
    run_or_die({"rm", "-rf", from, to});
}

void PeerRows::measure_moves() {
    measure_move(rows::move_shared, 1, batch_items);
    measure_move(rows::move_own, batch_items, 1);
}

void PeerRows::measure_walks(const std::string& label, u64 directories) {
    const std::string from = folder_ + "/many";
    const double items = static_cast<double>(directories * scale_.files_each);
    const auto add = [&](const std::string& row, const auto& work) {
        report_.add(row, label, time_of(work), items);
    };
    add(rows::find(scale_), [&] { run_or_die({"find", from, "-printf", "%p %s\n"}); });
    add(rows::find_few(scale_), [&] { run_or_die({"find", from, "-name", "*7*7*7*"}); });
    add(rows::du(scale_), [&] { run_or_die({"du", "-s", from}); });
    add(rows::stat(scale_), [&] {
        for (u64 d = 0; d < directories; ++d)
            stat_files(path_of(from, d), scale_.files_each);
    });
}

void PeerRows::measure_large_run(const std::string& label, u64 processes, u64 directories) {
    const double items = static_cast<double>(directories * scale_.files_each);
    const std::string from = folder_ + "/many";
    const std::string to = folder_ + "/moved";
    make_directories(from, directories);
    make_directories(to, directories);
    const auto in_all = [&](const auto& work) { for_each(directories, processes, work); };
    add_both(rows::create(scale_), label, items,
             [&] { in_all([&](u64 d) { make_files(path_of(from, d), scale_.files_each); }); });
    if (processes == 1) measure_walks(label, directories);
    add_both(rows::move(scale_), label, items, [&] {
        in_all([&](u64 d) { move_files(path_of(from, d), path_of(to, d), scale_.files_each); });
    });
    add_both(rows::remove(scale_), label + (processes == 1 ? ", rm -rf" : ", unlinkat"), items,
             [&] {
                 if (processes > 1) {
                     in_all([&](u64 d) { remove_by_loop(to, name_of(d)); });
                 }
                 run_or_die({"rm", "-rf", to});
             });
    run_or_die({"rm", "-rf", from});
}

void PeerRows::measure_many_files(u64 processes, u64 share) {
    const u64 directories = std::max<u64>(1, scale_.directories / share);
    std::string label = label_;
    if (processes > 1) label += ", " + std::to_string(processes) + " processes";
    if (share > 1) label += ", " + with_commas(directories * scale_.files_each) + " files";
    for (u64 run = 0; run < scale_.large_runs; ++run)
        measure_large_run(label, processes, directories);
}

void PeerRows::measure_crossover_at(u64 count) {
    const double items = static_cast<double>(count);
    const std::string behind = " " + std::to_string(count);
    const std::string from = folder_ + "/sweep";
    const std::string to = folder_ + "/moved";
    make_directory(from);
    make_directory(to);
    report_.add("create" + behind, label_, time_of([&] { make_files(from, count); }), items);
    report_.add("move" + behind, label_, time_of([&] { move_files(from, to, count); }), items);
    report_.add("delete" + behind, label_, time_of([&] { remove_files(to, count); }), items);
    ::rmdir(from.c_str());
    ::rmdir(to.c_str());
}

void PeerRows::measure_crossover(u64 most) {
    for (u64 run = 0; run < scale_.runs; ++run) {
        for (u64 count = 1; count <= most; count *= 2)
            measure_crossover_at(count);
    }
}

}  // namespace warren::bench
