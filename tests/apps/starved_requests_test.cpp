// SPDX-License-Identifier: Apache-2.0
// Each allocation of memory within each request of the kernel fails once, all of them in every run.
// The request is answered, with ENOMEM or done; the volume is as before it or after it, all that
// the kernel was given can be given back, and the mount serves on.
//
// The requests are the kernel's bytes, and libfuse and the callbacks are those of a mount. Each one
// runs in a thread of its own, which has nothing put by from requests before it.
#include <gtest/gtest.h>
#include <linux/fuse.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <thread>

#include "apps/fuse/late_seek.hpp"
#include "apps/fuse/ring_commands.hpp"
#include "tests/apps/fake_kernel.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/uncounted_disk.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::fuse::test {
namespace {

constexpr u64 volume_bytes = 16 * mib;
constexpr u64 never = u64{1} << 62;
constexpr u64 root = FUSE_ROOT_ID;
const std::string long_target(1000, 't');
const std::string note(2000, 'n');

void make_base(Volume& volume) {
    const Handle directory = make_directory(volume, volume.root(), "directory");
    for (int i = 0; i < 20; ++i)
        make_file(volume, directory, "file" + std::to_string(i));
    make_directory(volume, volume.root(), "empty");
    const Handle file = make_file(volume, volume.root(), "file");
    ASSERT_EQ(volume.open_file(file), Errc::ok);
    ASSERT_TRUE(volume.write(file, 0, std::vector(60'000, std::byte{'f'})));
    ASSERT_EQ(volume.release(file), Errc::ok);
    ASSERT_EQ(volume.set_attribute(anybody, file, "user.note", std::as_bytes(std::span(note))),
              Errc::ok);
    ASSERT_TRUE(
        volume.create(anybody, volume.root(), "link", {.mode = 0120777, .target = long_target}));
    for (const char* const name : {"other", "doomed"})
        ASSERT_TRUE(volume.create(anybody, volume.root(), name, {}));
}

/// All that a volume shows but times and contents.
std::string shown_by(Volume& volume, Handle directory) {
    std::string text;
    for (const auto& [name, number] : list_names(volume, directory)) {
        const auto found = volume.lookup(anybody, directory, name);
        if (!found) return text + name + " cannot be found";
        text += name + " " + std::to_string(found->mode) + " " + std::to_string(found->links) +
                " " + std::to_string(found->size) + " " +
                std::to_string(volume.list_attributes(found->handle, {}).code() == Errc::ok) + "\n";
        if (S_ISDIR(found->mode)) text += shown_by(volume, found->handle);
    }
    return text;
}

/// A mount with a kernel that knows some of it.
struct Mount {
    Mount(Disk& disk, std::string_view engine)
        : state(open(disk, engine), options(), {}), kernel(state), seeker(kernel.session()) {
        state.late_seeker = &seeker;
        directory = kernel.look_up(root, "directory");
        file = kernel.look_up(root, "file");
        other = kernel.look_up(root, "other");
        link = kernel.look_up(root, "link");
        file_number = kernel.open(file, false);
        other_number = kernel.open(other, false);
        directory_number = kernel.open(directory, true);
    }
    static std::unique_ptr<Volume> open(Disk& disk, std::string_view engine) {
        Failure failure;
        auto volume =
            open_on_engine(std::make_unique<UncountedDisk>(disk), engine, {.workers = 1}, failure);
        EXPECT_TRUE(volume) << failure.message;
        return volume;
    }
    static MountOptions options() {
        MountOptions options;
        options.image = "image";
        return options;
    }
    Volume& volume() { return *state.volume.access(); }

    MountState state;
    FakeKernel kernel;
    LateSeeker seeker;
    u64 directory = 0, file = 0, other = 0, link = 0;  // nodes
    u64 file_number = 0, other_number = 0, directory_number = 0;
};

struct Call {
    const char* name;
    u32 opcode;
    u64 Mount::*node;  // null: the root
    std::function<Body(Mount&)> body;
    /// Whether it is one transaction: done or not.
    bool is_whole = true;
};

template <class T>
T zeroed(const std::function<void(T&)>& fill) {
    T value{};
    fill(value);
    return value;
}

Body read_at(u64 number, u32 size) {
    return Body().add(zeroed<fuse_read_in>([&](auto& in) { in.fh = number, in.size = size; }));
}

std::vector<Call> name_calls() {
    const auto named = [](const char* name) { return [=](Mount&) { return Body().name(name); }; };
    return {
        {"lookup", FUSE_LOOKUP, nullptr, named("doomed")},
        {"mkdir", FUSE_MKDIR, nullptr,
         [](Mount&) {
             return Body().add(fuse_mkdir_in{0755, 022}).name("new");
         }},
        {"mknod", FUSE_MKNOD, nullptr,
         [](Mount&) {
             return Body().add(fuse_mknod_in{0100644, 0, 022, 0}).name("new");
         }},
        {"symlink", FUSE_SYMLINK, nullptr,
         [](Mount&) { return Body().name("new").name(long_target); }},
        {"readlink", FUSE_READLINK, &Mount::link, [](Mount&) { return Body(); }},
        {"link", FUSE_LINK, nullptr,
         [](Mount& at) { return Body().add(fuse_link_in{at.file}).name("new"); }},
        {"unlink", FUSE_UNLINK, nullptr, named("doomed")},
        {"unlink open", FUSE_UNLINK, nullptr, named("file")},
        {"rmdir", FUSE_RMDIR, nullptr, named("empty")},
        {"rename", FUSE_RENAME2, nullptr,
         [](Mount& at) {
             return Body().add(fuse_rename2_in{at.directory, 0, 0}).name("file").name("file3");
         }},
        {"create", FUSE_CREATE, nullptr,
         [](Mount&) {
             return Body().add(fuse_create_in{2 | 0100, 0644, 022, 0}).name("new");
         }},
        {"create existing", FUSE_CREATE, nullptr,
         [](Mount&) {
             return Body().add(fuse_create_in{2 | 0100, 0644, 022, 0}).name("doomed");
         }},
        {"tmpfile", FUSE_TMPFILE, nullptr,
         [](Mount&) {
             return Body().add(fuse_create_in{2, 0644, 022, 0}).name("/");
         }},
        {"forget", FUSE_FORGET, &Mount::link, [](Mount&) { return Body().add(fuse_forget_in{1}); }},
        {"forget unlinked", FUSE_FORGET, &Mount::link,
         [](Mount& at) {
             EXPECT_EQ(at.kernel.ask(FUSE_UNLINK, root, Body().name("link")).error, 0);
             return Body().add(fuse_forget_in{1});
         },
         false},
    };
}

std::vector<Call> inode_calls() {
    return {
        {"getattr", FUSE_GETATTR, &Mount::file,
         [](Mount&) { return Body().add(fuse_getattr_in{}); }},
        {"truncate", FUSE_SETATTR, &Mount::file,
         [](Mount&) {
             return Body().add(
                 zeroed<fuse_setattr_in>([](auto& in) { in.valid = FATTR_SIZE, in.size = 1000; }));
         }},
        {"chmod", FUSE_SETATTR, &Mount::file,
         [](Mount&) {
             return Body().add(zeroed<fuse_setattr_in>(
                 [](auto& in) { in.valid = FATTR_MODE, in.mode = 0100600; }));
         }},
        {"statfs", FUSE_STATFS, nullptr, [](Mount&) { return Body(); }},
        {"setxattr", FUSE_SETXATTR, &Mount::other,
         [](Mount&) {
             struct {
                 u32 size, flags;
             } head{static_cast<u32>(note.size()), 0};
             return Body().add(head).name("user.note").data(note);
         }},
        {"getxattr", FUSE_GETXATTR, &Mount::file,
         [](Mount&) {
             return Body().add(fuse_getxattr_in{4096, 0}).name("user.note");
         }},
        {"listxattr", FUSE_LISTXATTR, &Mount::file,
         [](Mount&) {
             return Body().add(fuse_getxattr_in{4096, 0});
         }},
        {"removexattr", FUSE_REMOVEXATTR, &Mount::file,
         [](Mount&) { return Body().name("user.note"); }},
        {"opendir", FUSE_OPENDIR, &Mount::directory,
         [](Mount&) { return Body().add(fuse_open_in{}); }},
        {"readdir", FUSE_READDIR, &Mount::directory,
         [](Mount& at) { return read_at(at.directory_number, 4096); }},
        {"readdirplus", FUSE_READDIRPLUS, &Mount::directory,
         [](Mount& at) { return read_at(at.directory_number, 4096); }},
        {"fsyncdir", FUSE_FSYNCDIR, &Mount::directory,
         [](Mount& at) {
             return Body().add(fuse_fsync_in{at.directory_number, 0, 0});
         }},
        {"releasedir", FUSE_RELEASEDIR, &Mount::directory,
         [](Mount& at) {
             return Body().add(
                 zeroed<fuse_release_in>([&](auto& in) { in.fh = at.directory_number; }));
         }},
    };
}

Body write_of(u64 number, u64 offset, const std::string& bytes) {
    return Body()
        .add(zeroed<fuse_write_in>([&](auto& in) {
            in.fh = number, in.offset = offset, in.size = static_cast<u32>(bytes.size());
        }))
        .data(bytes);
}

std::vector<Call> content_calls() {
    return {
        {"open", FUSE_OPEN, &Mount::file, [](Mount&) { return Body().add(fuse_open_in{}); }},
        {"open and cut", FUSE_OPEN, &Mount::file,
         [](Mount&) {
             return Body().add(fuse_open_in{2 | 01000, 0});
         }},
        {"read", FUSE_READ, &Mount::file,
         [](Mount& at) { return read_at(at.file_number, 50'000); }},
        {"write", FUSE_WRITE, &Mount::other,
         [](Mount& at) { return write_of(at.other_number, 0, std::string(9000, 'w')); }, false},
        {"overwrite", FUSE_WRITE, &Mount::file,
         [](Mount& at) { return write_of(at.file_number, 100, std::string(9000, 'w')); }, false},
        {"flush", FUSE_FLUSH, &Mount::file,
         [](Mount& at) {
             return Body().add(zeroed<fuse_flush_in>([&](auto& in) { in.fh = at.file_number; }));
         }},
        {"fsync", FUSE_FSYNC, &Mount::file,
         [](Mount& at) {
             return Body().add(fuse_fsync_in{at.file_number, 0, 0});
         }},
        {"fallocate", FUSE_FALLOCATE, &Mount::file,
         [](Mount& at) {
             return Body().add(fuse_fallocate_in{at.file_number, 0, 200'000, 0, 0});
         },
         false},
        {"punch", FUSE_FALLOCATE, &Mount::file,
         [](Mount& at) {
             return Body().add(fuse_fallocate_in{at.file_number, 5000, 9000, 3, 0});
         },
         false},
        {"seek", FUSE_LSEEK, &Mount::file,
         [](Mount& at) {
             return Body().add(fuse_lseek_in{at.file_number, 0, 4, 0});
         }},
        {"copy", FUSE_COPY_FILE_RANGE, &Mount::file,
         [](Mount& at) {
             return Body().add(fuse_copy_file_range_in{at.file_number, 0, at.other, at.other_number,
                                                       0, 40'000, 0});
         },
         false},
        {"release unlinked", FUSE_RELEASE, &Mount::file,
         [](Mount& at) {
             EXPECT_EQ(at.kernel.ask(FUSE_UNLINK, root, Body().name("file")).error, 0);
             return Body().add(zeroed<fuse_release_in>([&](auto& in) { in.fh = at.file_number; }));
         },
         false},
        {"release", FUSE_RELEASE, &Mount::file,
         [](Mount& at) {
             return Body().add(zeroed<fuse_release_in>([&](auto& in) { in.fh = at.file_number; }));
         }},
    };
}

/// What became of a run, with or without a failure.
struct Outcome {
    int error = 0;
    u64 allocations = 0;
    bool has_failed = false;
    std::string shown;
    u64 inodes_left = 0;  // once all names are gone and all references given back
};

/// Gives everything back and removes everything: what is left is what somebody forgot.
void finish(Mount& mount, Outcome& outcome) {
    // The memory is there again: so is the mount.
    EXPECT_EQ(
        mount.kernel.ask(FUSE_MKDIR, root, Body().add(fuse_mkdir_in{0755, 0}).name("later")).error,
        0);
    EXPECT_EQ(mount.kernel.ask(FUSE_RMDIR, root, Body().name("later")).error, 0);
    mount.kernel.give_back();
    EXPECT_EQ(mount.state.nodes.in_use().size(), 1u)
        << "the kernel has given back all but the root";
    Volume& volume = mount.volume();
    outcome.shown = shown_by(volume, volume.root());
    for (const auto& [name, number] : list_names(volume, volume.root())) {
        Removal removal;
        EXPECT_EQ(volume.remove_tree(anybody, volume.root(), name, removal), Errc::ok) << name;
    }
    outcome.inodes_left = volume.statistics().inodes_used;
}

class StarvedRequests : public testing::TestWithParam<const char*> {
 protected:
    StarvedRequests() {
        const auto volume = Mount::open(*base_, engine());
        make_base(*volume);
        EXPECT_EQ(volume->close(), Errc::ok);
    }
    std::string_view engine() const { return GetParam(); }

    /// Runs `act` on a mount, while its `nth` allocation fails; it answers an errno.
    Outcome run(const std::function<std::function<int()>(Mount&)>& prepare, u64 nth) {
        const auto disk = base_->copy();
        Outcome outcome;
        {
            Mount mount(*disk, engine());
            const std::function<int()> act = prepare(mount);
            std::thread([&] {
                const FailingAllocation failing(nth);
                outcome.error = act();
                outcome.allocations = failing.count();
                outcome.has_failed = failing.has_failed();
            }).join();
            finish(mount, outcome);
            EXPECT_EQ(mount.state.volume.close(), Errc::ok);
        }
        EXPECT_TRUE(expect_clean(*disk));
        return outcome;
    }

    void fail_each(const char* name, bool is_whole,
                   const std::function<std::function<int()>(Mount&)>& prepare) {
        SCOPED_TRACE(name);
        const Outcome nothing = run([](Mount&) { return [] { return 0; }; }, never);
        const Outcome whole = run(prepare, never);
        EXPECT_TRUE(whole.error == 0 || whole.error == ENOSYS) << whole.error;
        bool has_failed = true;
        for (u64 nth = 1; has_failed && !HasFailure(); ++nth) {
            SCOPED_TRACE(testing::Message() << "allocation " << nth << " fails");
            const Outcome outcome = run(prepare, nth);
            has_failed = outcome.has_failed;
            EXPECT_EQ(outcome.inodes_left, nothing.inodes_left);
            if (!has_failed) break;
            ++failures_;
            const bool is_done = outcome.error == whole.error;
            EXPECT_TRUE(is_done || outcome.error == ENOMEM) << outcome.error;
            if (!is_whole) continue;
            EXPECT_TRUE(outcome.shown == whole.shown ||
                        (!is_done && outcome.shown == nothing.shown))
                << outcome.shown;
        }
    }

    void fail_calls(const std::vector<Call>& calls) {
        for (const Call& call : calls) {
            fail_each(call.name, call.is_whole, [&](Mount& mount) -> std::function<int()> {
                const u64 node = call.node == nullptr ? root : mount.*call.node;
                mount.kernel.send(call.opcode, node, call.body(mount));
                return [&mount, &call] {
                    mount.kernel.serve();
                    if (call.opcode == FUSE_FORGET) return 0;
                    const UncountedAllocations uncounted;
                    return mount.kernel.receive().error;
                };
            });
        }
        EXPECT_GT(failures_, calls.size()) << "requests that ask for no memory";
        std::printf("%llu allocations failed\n", static_cast<unsigned long long>(failures_));
    }

    u64 failures_ = 0;

 private:
    std::unique_ptr<MemoryDisk> base_ = make_memory_disk(volume_bytes);
};
// The second keeps notes of what was not committed: see UnsavedWrites.
INSTANTIATE_TEST_SUITE_P(Engines, StarvedRequests, testing::Values("cpu", "commands"),
                         [](const auto& engine) { return std::string(engine.param); });

TEST_P(StarvedRequests, aboutNames) {
    fail_calls(name_calls());
}

TEST_P(StarvedRequests, aboutInodes) {
    fail_calls(inode_calls());
}

TEST_P(StarvedRequests, aboutContents) {
    fail_calls(content_calls());
}

/// A ring of root's, with the commands that it is to run.
struct Ring {
    explicit Ring(Mount& mount)
        : invalidator(mount.kernel.session(), [](u64, const std::string&) { return false; }),
          commands(mount.state, invalidator, Peer{}),
          root(mount.volume().root()),
          file(mount.volume().lookup(anybody, root, "file")->handle) {
        commands.grants().add(root, true);
        commands.grants().add(file, true);
    }
    ops::Command& add(ops::Verb verb, Handle handle, std::string_view name) {
        ops::Command& command = received.emplace_back().command;
        command.verb = verb;
        command.handle = handle;
        command.name = name.data();
        command.name_length = static_cast<u32>(name.size());
        command.mode = 0100644;
        replies.emplace_back();
        return command;
    }
    /// 0, or what one of those that failed was told.
    int run() {
        commands.run(received, replies);
        int error = 0;
        for (const ops::Reply& reply : replies)
            error = reply.code == Errc::ok ? error : static_cast<int>(reply.code);
        return error;
    }

    Invalidator invalidator;
    RingCommands commands;
    Handle root, file;
    std::vector<ring::Received> received;
    std::vector<ops::Reply> replies;
};

struct RingCall {
    const char* name;
    std::function<void(Ring&)> add;
    bool is_whole = true;
};

std::vector<RingCall> ring_calls() {
    using ops::Verb;
    return {
        {"lookups",
         [](Ring& ring) {
             for (const char* const name : {"file", "doomed"})
                 ring.add(Verb::lookup, ring.root, name);
         }},
        {"create", [](Ring& ring) { ring.add(Verb::create, ring.root, "new"); }},
        {"creates",
         [](Ring& ring) {
             for (const char* const name : {"new one", "new two"})
                 ring.add(Verb::create, ring.root, name);
         },
         false},
        {"unlink", [](Ring& ring) { ring.add(Verb::unlink, ring.root, "doomed"); }},
        {"rmdir", [](Ring& ring) { ring.add(Verb::remove_directory, ring.root, "empty"); }},
        {"rename",
         [](Ring& ring) {
             ops::Command& command = ring.add(Verb::rename, ring.root, "doomed");
             command.target = ring.root;
             command.new_name = "new";
             command.new_name_length = 3;
         }},
        {"link", [](Ring& ring) { ring.add(Verb::link, ring.file, "new").target = ring.root; }},
        {"chmod",
         [](Ring& ring) {
             ops::Command& command = ring.add(Verb::set_attributes, ring.file, "");
             command.change.which = AttributeChange::mode;
             command.change.new_mode = 0600;
         }},
        {"getattr", [](Ring& ring) { ring.add(Verb::get_attributes, ring.file, ""); }},
    };
}

TEST_P(StarvedRequests, ofARing) {
    for (const RingCall& call : ring_calls()) {
        fail_each(call.name, call.is_whole, [&](Mount& mount) -> std::function<int()> {
            const auto ring = std::make_shared<Ring>(mount);
            call.add(*ring);
            return [ring] { return ring->run(); };
        });
    }
    EXPECT_GT(failures_, 20u);
}

}  // namespace
}  // namespace warren::fuse::test
