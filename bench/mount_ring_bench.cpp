// SPDX-License-Identifier: Apache-2.0
// What is a ring of a mount worth beside system calls? Names of one directory are made, looked up,
// moved and removed through the mount: one call for each; by a ring of the mount (public header
// warren/mount_ring.hpp); and by `warren rm` with all names on its line. Beside them the same calls
// on ext4 over a loop device in memory, and on tmpfs.
//
//   mount_ring_bench [--names N] [--runs N] [--engine N]    N names (1,000 and 10,000), N runs (5);
//                                                           engine 1 for the GPU's, 0 for the CPU's
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "bench/support/mounts.hpp"
#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "warren/mount_ring.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

std::vector<std::string> names_of(u64 count) {
    std::vector<std::string> names;
    for (u64 i = 0; i < count; ++i)
        names.push_back("file" + std::to_string(i));
    return names;
}

/// An open directory of the host.
class Folder {
 public:
    explicit Folder(std::string path) : path_(std::move(path)) {
        ::mkdir(path_.c_str(), 0755);
        descriptor_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        require(descriptor_ >= 0, "cannot open " + path_);
    }
    ~Folder() { ::close(descriptor_); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    int get() const { return descriptor_; }
    const std::string& path() const { return path_; }

 private:
    std::string path_;
    int descriptor_ = -1;
};

/// The measurements of one number of names.
class Bench {
 public:
    Bench(u64 count, Report& report)
        : names_(names_of(count)), report_(report), behind_(" " + std::to_string(count)) {}

    void add(const std::string& what, const std::string& who, double seconds) {
        report_.add(what + behind_, who, seconds, static_cast<double>(names_.size()));
    }
    std::string row(const std::string& what) const { return what + behind_; }

    template <class Call>
    void each(const std::string& what, const std::string& who, const Call& call) {
        add(what, who, time_of([&] {
                for (const std::string& name : names_)
                    require(call(name.c_str()) == 0, what + ": a call failed, " + who);
            }));
    }

    /// One call for each name, in a directory of some file system.
    void measure_calls(const std::string& base, const std::string& who, bool forgets) {
        const Folder from(base + "/from");
        const Folder to(base + "/to");
        make(from, who);
        const auto stat = [&](const char* name) {
            struct stat facts {};
            return ::fstatat(from.get(), name, &facts, AT_SYMLINK_NOFOLLOW);
        };
        if (forgets) drop_caches(2);
        each("look up, not cached", who, stat);
        each("look up, cached", who, stat);
        each("move", who,
             [&](const char* name) { return ::renameat(from.get(), name, to.get(), name); });
        each("delete", who, [&](const char* name) { return ::unlinkat(to.get(), name, 0); });
    }

    void measure_ring(const std::string& base, const std::string& who) {
        const Folder from(base + "/from");
        const Folder to(base + "/to");
        Failure failure;
        std::unique_ptr<MountRing> ring;
        Result<Handle> in = Errc::io;
        Result<Handle> out = Errc::io;
        add("open a ring, for", who, time_of([&] {
                ring = MountRing::open(base, failure);
                require(ring != nullptr, failure.message);
                in = ring->attach(from.get());
                out = ring->attach(to.get());
            }));
        require(in && out, "cannot attach a directory");
        measure_names(*ring, *in, *out, who);
    }

    /// All names on the command line of a program that removes them.
    void measure_program(const std::string& base, const std::string& who,
                         const std::vector<std::string>& program) {
        const Folder from(base + "/from");
        make(from, "");
        std::vector<std::string> words = program;
        for (const std::string& name : names_)
            words.push_back(from.path() + "/" + name);
        add("delete", who, time_of([&] { run_or_die(words); }));
    }

 private:
    void make(const Folder& folder, const std::string& who) {
        const double seconds = time_of([&] {
            for (const std::string& name : names_) {
                require(::mknodat(folder.get(), name.c_str(), S_IFREG | 0644, 0) == 0,
                        "cannot make a file in " + folder.path());
            }
        });
        if (!who.empty()) add("create", who, seconds);
    }

    void measure_names(MountRing& ring, Handle in, Handle out, const std::string& who) {
        std::vector<Creation> creations;
        std::vector<Lookup> there;
        std::vector<Lookup> moved;
        std::vector<Move> moves;
        for (const std::string& name : names_) {
            creations.push_back({in, name, {}});
            there.push_back({in, name});
            moved.push_back({out, name});
            moves.push_back({in, name, out, name});
        }
        std::vector<Result<Attributes>> found(names_.size(), Errc::io);
        std::vector<Errc> codes(names_.size(), Errc::io);
        const auto all_found = [&] {
            for (const Result<Attributes>& one : found)
                require(bool(one), "an item of a ring failed");
        };
        const auto all_done = [&] {
            for (const Errc code : codes)
                require(code == Errc::ok, "an item of a ring failed");
        };
        add("create", who, time_of([&] { ring.create_many(creations, 022, found); }));
        all_found();
        add("look up, not cached", who, time_of([&] { ring.lookup_many(there, found); }));
        all_found();
        add("look up, cached", who, time_of([&] { ring.lookup_many(there, found); }));
        add("move", who, time_of([&] { ring.move_many(moves, codes); }));
        all_done();
        add("delete", who, time_of([&] { ring.unlink_many(moved, codes); }));
        all_done();
    }

    const std::vector<std::string> names_;
    Report& report_;
    const std::string behind_;
};

}  // namespace

int main(int argument_count, char** arguments) {
    const u64 runs = option(argument_count, arguments, "runs", 5);
    const u64 one = option(argument_count, arguments, "names", 0);
    const bool on_gpu = option(argument_count, arguments, "engine", 0) == 1;
    const std::vector<u64> counts =
        one != 0 ? std::vector<u64>{one} : std::vector<u64>{1000, 10000};
    Report report("mount_ring_bench", argument_count, arguments);
    const Scratch memory("/dev/shm");
    WarrenMount mount(memory.path(), 4 * gib);
    mount.mount(on_gpu ? "cuda" : "cpu");
    const LoopExt4 ext4(memory.path(), 2 * gib, 100'000);
    const std::string engine = on_gpu ? "mount, CUDA engine" : "mount, CPU engine";
    for (const u64 count : counts) {
        Bench bench(count, report);
        for (u64 run = 0; run < runs; ++run) {
            bench.measure_calls(memory.path(), "tmpfs, a call each", true);
            bench.measure_calls(ext4.path(), "ext4, a call each", true);
            bench.measure_calls(mount.path(), engine + ", a call each", true);
            bench.measure_ring(mount.path(), engine + ", ring");
            bench.measure_program(ext4.path(), "ext4, rm", {"rm", "-f"});
            bench.measure_program(mount.path(), engine + ", rm", {"rm", "-f"});
            bench.measure_program(mount.path(), engine + ", warren rm",
                                  {warren_program(), "rm", "-f"});
        }
        for (const char* what :
             {"create", "look up, not cached", "look up, cached", "move", "delete"}) {
            report.set_reference(bench.row(what), engine + ", ring");
        }
    }
    return report.finish();
}
