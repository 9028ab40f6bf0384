// SPDX-License-Identifier: Apache-2.0
// A volume whose commands go through a ring to the resident server: the host loads blocks and
// commits, the server does the rest.
//
// Invariant: the host's Store is touched only while the server is paused, or through calls of the
// DeviceStore that are allowed beside commands.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "fs/commit/superblock_io.hpp"
#include "fs/engine/cuda/server/server.hpp"
#include "fs/engine/cuda/store/device_store.hpp"
#include "fs/volume/volume_implementation.hpp"
#include "tests/fs/engine/store_copies.hpp"
#include "tests/support/fault_disk.hpp"

namespace warren {

class ServedVolume {
 public:
    static constexpr u32 patience_ms = 30'000;

    /// Opens the volume on `disk`, which outlives this, and starts the server with a trusted ring.
    Errc open(Disk& disk, const cuda_engine::ServerOptions& options = {}) {
        format::Superblock superblock;
        WARREN_TRY(read_superblock(disk, "image", superblock).code);
        host_ = std::make_unique<VolumeImplementation>(
            std::make_unique<FaultDisk>(disk), superblock,
            OpenOptions{.workers = 1, .engine = EngineChoice::cpu});
        WARREN_TRY(host_->start());
        WARREN_TRY(device_.open(host_->store()));
        return start_server(options, {}, true);
    }

    Handle root() {
        ops::Command command;
        ops::Reply reply;
        command.verb = ops::Verb::handle_of;
        command.from = device_.store().root_inode;
        return execute(command, reply) == Errc::ok ? reply.attributes.handle : Handle{};
    }

    /// Runs a command to its end and returns the code of the reply.
    Errc execute(const ops::Command& command, ops::Reply& reply) {
        for (u32 round = 0; round < 1000; ++round) {
            WARREN_TRY(attempt(command, reply));
            if (is_final(reply.code)) return reply.code;
            WARREN_TRY(serve(reply));
        }
        return Errc::io;
    }

    /// Runs commands that are independent of each other, as many at once as the ring holds.
    Errc execute_many(const std::vector<ops::Command>& commands, std::vector<ops::Reply>& replies) {
        replies.resize(commands.size());
        std::vector<u64> tickets(commands.size());
        for (u64 begin = 0; begin < commands.size();) {
            Errc failure;
            const u32 count = client_->submit_many(std::span(commands).subspan(begin),
                                                   std::span(tickets).subspan(begin), failure);
            if (failure != Errc::ok && failure != Errc::busy) return failure;
            for (u64 i = begin; i < begin + count; ++i)
                WARREN_TRY(client_->wait(tickets[i], replies[i], patience_ms));
            begin += count;
        }
        for (u64 i = 0; i < commands.size(); ++i) {
            if (is_final(replies[i].code)) continue;
            WARREN_TRY(serve(replies[i]));
            static_cast<void>(execute(commands[i], replies[i]));
        }
        return Errc::ok;
    }

    Errc commit() {
        const std::lock_guard lock(mutex_);
        WARREN_TRY(server_->pause());
        WARREN_TRY(download(host_->store(), device_.store()));
        WARREN_TRY(host_->commit());
        WARREN_TRY(upload_tables(host_->store(), device_.store()));
        return server_->resume(device_.store());
    }

    /// Restarts the server with other options and a new ring.
    Errc restart(const cuda_engine::ServerOptions& options, const ring::Peer& peer = {},
                 bool is_trusted = true) {
        WARREN_TRY(server_->stop());
        server_ = std::make_unique<cuda_engine::ResidentServer>();
        client_ = nullptr;
        return start_server(options, peer, is_trusted);
    }

    /// Makes everything durable and closes the volume.
    Errc close() {
        WARREN_TRY(server_->stop());
        WARREN_TRY(download(host_->store(), device_.store()));
        return host_->close();
    }

    ring::SharedRing& ring() { return ring_; }
    ring::RingClient& client() { return *client_; }
    cuda_engine::ResidentServer& server() { return *server_; }
    const core::Store& device_store() { return device_.store(); }

 private:
    Errc start_server(const cuda_engine::ServerOptions& options, const ring::Peer& peer,
                      bool is_trusted) {
        WARREN_TRY(ring_.create({4096, 4 * mib}, peer, is_trusted));
        client_ = std::make_unique<ring::RingClient>(ring_.ring(), ring_.doorbell(), ring_.status(),
                                                     is_trusted);
        return server_->start(device_.store(), ring_, options);
    }

    Errc attempt(const ops::Command& command, ops::Reply& reply) {
        const Result<u64> ticket = client_->submit(command);
        if (!ticket) return ticket.code();
        return client_->wait(*ticket, reply, patience_ms);
    }

    Errc serve(const ops::Reply& retry_reason) {
        switch (retry_reason.code) {
            case Errc::retry:
                return Errc::ok;
            case Errc::need_block:
                WARREN_TRY(host_->loader().load(retry_reason.needed_place));
                return device_.show_block(retry_reason.needed_place);
            case Errc::need_commit:
            case Errc::need_space:
                return commit();
            case Errc::need_frame:
                return device_.add_frames();
            case Errc::need_inodes:
                return add_inode_frame();
            default:
                return Errc::io;
        }
    }

    Errc add_inode_frame() {
        const std::lock_guard lock(inode_frame_mutex_);
        ops::Command command;
        ops::Reply reply;
        command.verb = ops::Verb::claim_inode_frame;
        WARREN_TRY(execute(command, reply));
        if (reply.value == 0) return Errc::ok;
        command.verb = ops::Verb::start_inode_frame;
        command.from = reply.value;
        WARREN_TRY(device_.prepare_inode_frame(command.from));
        return execute(command, reply);
    }

    std::mutex mutex_;
    std::mutex inode_frame_mutex_;
    std::unique_ptr<VolumeImplementation> host_;
    cuda_engine::DeviceStore device_;
    ring::SharedRing ring_;
    std::unique_ptr<ring::RingClient> client_;
    std::unique_ptr<cuda_engine::ResidentServer> server_ =
        std::make_unique<cuda_engine::ResidentServer>();
};

/// A command about `name` in `directory`.
inline ops::Command name_command(ops::Verb verb, Handle directory, std::string_view name) {
    ops::Command command;
    command.verb = verb;
    command.handle = directory;
    command.name = name.data();
    command.name_length = static_cast<u32>(name.size());
    command.mode = 0100644;
    command.caller.check = false;
    command.now = 1'700'000'000'000'000'000;
    return command;
}

}  // namespace warren
