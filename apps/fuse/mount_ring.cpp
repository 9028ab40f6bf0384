// SPDX-License-Identifier: Apache-2.0
// The client's end of a mount's ring: the control connection, which the ring lives as long as, and
// the ring received over it. Commands are submitted while there is room and completed in order, so
// the daemon works on some while the client writes and reads others.
#include "warren/mount_ring.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "apps/fuse/control.hpp"
#include "fs/ring/client.hpp"
#include "fs/ring/shared_ring.hpp"

namespace warren {

namespace {

using ops::Verb;

/// How many commands are submitted between two checks for completions.
constexpr std::size_t stride = 512;

void set_name(ops::Command& command, std::string_view name) {
    command.name = name.data();
    // Any name that is too long counts as one byte too long.
    command.name_length = static_cast<u32>(std::min<std::size_t>(name.size(), 256));
}

Result<Attributes> attributes_in(const ops::Reply& reply) {
    if (reply.code != Errc::ok) return reply.code;
    return reply.attributes;
}

}  // namespace

class MountRing::Implementation {
 public:
    explicit Implementation(fuse::ControlConnection connection)
        : connection_(std::move(connection)) {}

    Errc open() {
        WARREN_TRY(connection_.open_ring(remote_));
        client_ = std::make_unique<ring::RingClient>(remote_.ring(), remote_.doorbell(),
                                                     remote_.status(), false);
        return Errc::ok;
    }

    Result<Handle> attach(int directory) {
        const std::lock_guard lock(mutex_);
        Result<Handle> handle = Errc::io;
        WARREN_TRY(connection_.attach({&directory, 1}, {&handle, 1}));
        return handle;
    }

    /// Submits `count` commands of `verb`, which `fill(i, command)` fills in; `take(i, reply)` gets
    /// each reply.
    template <class Fill, class Take>
    void run(Verb verb, std::size_t count, const Fill& fill, const Take& take) {
        std::vector<ops::Command> commands(std::min(count, stride));
        std::vector<u64> tickets(count);
        std::size_t submitted = 0;
        std::size_t taken = 0;
        while (taken < count) {
            const std::size_t here = std::min(stride, count - submitted);
            for (std::size_t i = 0; i < here; ++i) {
                commands[i] = ops::Command();
                commands[i].verb = verb;
                fill(submitted + i, commands[i]);
            }
            Errc failure = Errc::ok;
            const u32 more = client_->submit_many({commands.data(), here},
                                                  std::span(tickets).subspan(submitted), failure);
            submitted += more;
            const bool travels = failure == Errc::ok || failure == Errc::busy;
            std::size_t goal = taken;
            if (submitted == count || !travels) goal = submitted;
            if (failure == Errc::busy) goal = std::min(submitted, taken + stride);
            if (failure == Errc::busy && goal == taken) std::this_thread::yield();
            for (; taken < goal; ++taken)
                take(taken, reply_to(tickets[taken]));
            if (!travels) {
                take(taken++, refusal(failure));
                ++submitted;
            }
            if (is_broken_) break;
        }
        for (; taken < count; ++taken)
            take(taken, refusal(Errc::io));
    }
    /// The same, with one command for each name.
    template <class Take>
    void run_on(Verb verb, std::span<const Lookup> names, const Take& take) {
        const auto fill = [&](std::size_t i, ops::Command& command) {
            command.handle = names[i].directory;
            set_name(command, names[i].name);
        };
        run(verb, names.size(), fill, take);
    }

 private:
    static ops::Reply refusal(Errc code) {
        ops::Reply reply;
        reply.code = code;
        return reply;
    }
    ops::Reply reply_to(u64 ticket) {
        constexpr u32 patience_ms = 200;
        ops::Reply reply;
        Errc code = Errc::busy;
        while (code == Errc::busy && !is_broken_) {
            code = client_->wait(ticket, reply, patience_ms);
            if (code == Errc::busy && connection_.is_broken()) is_broken_ = true;
        }
        if (code != Errc::ok) {
            is_broken_ = true;
            return refusal(Errc::io);
        }
        return reply;
    }

    fuse::ControlConnection connection_;
    std::mutex mutex_;  // one request at a time uses the connection
    ring::RemoteRing remote_;
    std::unique_ptr<ring::RingClient> client_;
    std::atomic<bool> is_broken_{false};  // the daemon does not answer any more
};

MountRing::MountRing(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}
MountRing::~MountRing() = default;

std::unique_ptr<MountRing> MountRing::open(const std::string& path, Failure& failure) {
    std::optional<fuse::ControlConnection> connection = fuse::ControlConnection::for_path(path);
    if (!connection) {
        failure = {Errc::no_device, path + ": on no Warren mount whose daemon can be reached"};
        return nullptr;
    }
    auto implementation = std::make_unique<Implementation>(std::move(*connection));
    const Errc code = implementation->open();
    if (code != Errc::ok) {
        failure = {code, path + (code == Errc::busy ? ": the mount has no more rings to give"
                                                    : ": the mount's daemon gave no ring")};
        return nullptr;
    }
    return std::unique_ptr<MountRing>(new MountRing(std::move(implementation)));
}

Result<Handle> MountRing::attach(int directory) {
    return implementation_->attach(directory);
}

void MountRing::lookup_many(std::span<const Lookup> names, std::span<Result<Attributes>> results) {
    implementation_->run_on(Verb::lookup, names, [&](std::size_t i, const ops::Reply& reply) {
        results[i] = attributes_in(reply);
    });
}

void MountRing::create_many(std::span<const Creation> creations, u32 umask,
                            std::span<Result<Attributes>> results) {
    implementation_->run(
        Verb::create, creations.size(),
        [&](std::size_t i, ops::Command& command) {
            const Creation& one = creations[i];
            command.handle = one.directory;
            set_name(command, one.name);
            command.mode = one.options.mode;
            command.device = one.options.device;
            command.text = one.options.target.data();
            command.text_bytes = one.options.target.size();
            command.caller.umask = umask;
        },
        [&](std::size_t i, const ops::Reply& reply) { results[i] = attributes_in(reply); });
}

void MountRing::unlink_many(std::span<const Lookup> names, std::span<Errc> results) {
    implementation_->run_on(Verb::unlink, names, [&](std::size_t i, const ops::Reply& reply) {
        results[i] = reply.code;
    });
}

void MountRing::remove_directories(std::span<const Lookup> names, std::span<Errc> results) {
    implementation_->run_on(
        Verb::remove_directory, names,
        [&](std::size_t i, const ops::Reply& reply) { results[i] = reply.code; });
}

void MountRing::move_many(std::span<const Move> moves, std::span<Errc> results) {
    implementation_->run(
        Verb::rename, moves.size(),
        [&](std::size_t i, ops::Command& command) {
            command.handle = moves[i].from;
            set_name(command, moves[i].name);
            command.target = moves[i].to;
            command.new_name = moves[i].new_name.data();
            command.new_name_length =
                static_cast<u32>(std::min<std::size_t>(moves[i].new_name.size(), 256));
            command.how = static_cast<u8>(Rename::replace);
        },
        [&](std::size_t i, const ops::Reply& reply) { results[i] = reply.code; });
}

void MountRing::attributes_many(std::span<const Handle> files,
                                std::span<Result<Attributes>> results) {
    implementation_->run(
        Verb::get_attributes, files.size(),
        [&](std::size_t i, ops::Command& command) { command.handle = files[i]; },
        [&](std::size_t i, const ops::Reply& reply) { results[i] = attributes_in(reply); });
}

}  // namespace warren
