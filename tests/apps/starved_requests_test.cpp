// SPDX-License-Identifier: Apache-2.0
// Each allocation within each request of the kernel fails once, in every run; see
// starved_mount.hpp. The requests are in the kernel's format, and libfuse and the callbacks are
// those of a mount.
#include <cstdio>
#include <functional>

#include "apps/fuse/ring_commands.hpp"
#include "tests/apps/starved_mount.hpp"

namespace warren::fuse::test::starved_requests_test {
namespace {

struct Call {
    const char* name;
    u32 opcode;
    u64 Mount::*node;  // null: the root
    std::function<Body(Mount&)> body;
    /// Whether it is one transaction: done completely or not at all.
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

class StarvedRequests : public StarvedMount {
 protected:
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
        EXPECT_GT(failures_ * case_step, calls.size()) << "requests that ask for no memory";
        std::printf("%llu allocations failed\n", static_cast<unsigned long long>(failures_));
    }
};
// The second records uncommitted changes: see UnsavedWrites.
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

/// A ring owned by root, with the commands to run.
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
    /// Returns 0, or the error of a command that failed.
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
    EXPECT_GT(failures_ * case_step, 20u);
}

}  // namespace
}  // namespace warren::fuse::test::starved_requests_test
