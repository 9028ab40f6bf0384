// SPDX-License-Identifier: Apache-2.0
// The resident server on a GPU: commands through a ring do what they say, alone and in bursts; the
// server parks and wakes; calls of the host program return beside it; and a hostile client harms
// only itself.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "base/notice.hpp"
#include "fs/engine/cuda/server/server_fault.hpp"
#include "fs/ring/encode_command.hpp"
#include "fs/ring/parking.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"
#include "tests/fs/engine/served_volume.hpp"
#include "tests/support/memory_volume.hpp"

namespace warren::server_test {
namespace {

using ops::Verb;

class Server : public testing::Test {
 protected:
    void SetUp() override {
        if (gpu::device_count() == 0) GTEST_SKIP() << "there is no GPU";
    }

    void open(const cuda_engine::ServerOptions& options = {}, u64 size_bytes = 64 * mib) {
        disk_ = make_memory_disk(size_bytes);
        ASSERT_EQ(volume.open(*disk_, options), Errc::ok);
        root = volume.root();
        ASSERT_NE(root.inode, 0u);
    }
    /// Closes the volume; the check must find it clean.
    void close() {
        ASSERT_EQ(volume.close(), Errc::ok);
        expect_clean(*disk_);
    }

    Errc run(Verb verb, const std::string& name) {
        return volume.execute(name_command(verb, root, name), reply);
    }
    void run_all(Verb verb, const std::vector<std::string>& names, Errc expected) {
        std::vector<ops::Command> commands;
        for (const std::string& name : names)
            commands.push_back(name_command(verb, root, name));
        std::vector<ops::Reply> replies;
        ASSERT_EQ(volume.execute_many(commands, replies), Errc::ok);
        for (const ops::Reply& one : replies)
            ASSERT_EQ(one.code, expected);
    }

    std::unique_ptr<MemoryDisk> disk_;
    ServedVolume volume;
    Handle root;
    ops::Reply reply;
};

std::vector<std::string> names_of(u32 count) {
    std::vector<std::string> names;
    for (u32 i = 0; i < count; ++i)
        names.push_back("name-" + std::to_string(i) + std::string(i % 97, 'x'));
    return names;
}

TEST_F(Server, OneCommandAtATime) {
    open();
    for (const std::string& name : names_of(300)) {
        ASSERT_EQ(run(Verb::create, name), Errc::ok);
        const Handle made = reply.attributes.handle;
        ASSERT_EQ(run(Verb::create, name), Errc::exists);
        ASSERT_EQ(run(Verb::lookup, name), Errc::ok);
        ASSERT_EQ(reply.attributes.handle, made);
        ASSERT_EQ(reply.attributes.mode, 0100644u);
    }
    for (const std::string& name : names_of(300)) {
        ops::Command command = name_command(Verb::rename, root, name);
        const std::string other = "renamed " + name;
        command.target = root;
        command.new_name = other.data();
        command.new_name_length = static_cast<u32>(other.size());
        ASSERT_EQ(volume.execute(command, reply), Errc::ok);
        ASSERT_EQ(run(Verb::lookup, name), Errc::no_entry);
        ASSERT_EQ(run(Verb::unlink, other), Errc::ok);
    }
    close();
}

TEST_F(Server, Bursts) {
    open({.blocks = 16}, 256 * mib);
    const auto names = names_of(5'000);
    run_all(Verb::create, names, Errc::ok);
    run_all(Verb::lookup, names, Errc::ok);
    run_all(Verb::create, names, Errc::exists);
    ASSERT_EQ(volume.commit(), Errc::ok);
    run_all(Verb::unlink, names, Errc::ok);
    run_all(Verb::unlink, names, Errc::no_entry);
    close();
}

TEST_F(Server, BuffersAndTexts) {
    open();
    const std::string target(300, 't');
    ops::Command command = name_command(Verb::create, root, "link");
    command.mode = 0120777;
    command.text = target.data();
    command.text_bytes = target.size();
    ASSERT_EQ(volume.execute(command, reply), Errc::ok);
    std::string read(4096, 0);
    command = {};
    command.verb = Verb::read_link;
    command.handle = reply.attributes.handle;
    command.buffer = read.data();
    command.buffer_bytes = read.size();
    ASSERT_EQ(volume.execute(command, reply), Errc::ok);
    EXPECT_EQ(read.substr(0, reply.value), target);
    auto leaf = std::make_unique<format::DirectoryLeaf>();
    command = {};
    command.verb = Verb::read_leaf;
    command.handle = root;
    command.buffer = leaf.get();
    command.buffer_bytes = sizeof *leaf;
    ASSERT_EQ(volume.execute(command, reply), Errc::ok);
    EXPECT_EQ(leaf->count, 1u);
    close();
}

TEST_F(Server, ParksAndWakes) {
    open({.idle_us = 300});
    for (u32 i = 0; i < 20; ++i) {
        ASSERT_EQ(run(Verb::create, std::to_string(i)), Errc::ok);
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_TRUE(volume.server().statistics().is_parked);
    const auto statistics = volume.server().statistics();
    EXPECT_GE(statistics.parks, 10u);
    EXPECT_GE(statistics.wakes, 10u);
    close();
}

TEST_F(Server, MakesWayBeforeItsIdleTimeHasPassed) {
    open({.epoch_us = 5'000'000, .idle_us = 5'000'000});
    for (u32 i = 0; i < 5; ++i) {
        ASSERT_EQ(run(Verb::create, std::to_string(i)), Errc::ok);
        const auto begin = std::chrono::steady_clock::now();
        volume.server().make_way();
        const auto waited = [&] { return std::chrono::steady_clock::now() - begin; };
        while (!volume.server().statistics().is_parked && waited() < std::chrono::seconds(1))
            std::this_thread::yield();
        EXPECT_LT(waited(), std::chrono::seconds(1)) << i;
    }
    close();
}

TEST_F(Server, PausesWhileCommandsCome) {
    open();
    std::atomic<bool> ends{false};
    std::thread other([&] {
        while (!ends) {
            ASSERT_EQ(volume.commit(), Errc::ok);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    });
    for (const std::string& name : names_of(500))
        EXPECT_EQ(run(Verb::create, name), Errc::ok);
    ends = true;
    other.join();
    close();
}

TEST_F(Server, CallsOfTheHostProgramGetThrough) {
    open({.idle_us = 1'000'000});
    std::atomic<bool> ends{false};
    std::thread client([&] {
        for (u32 i = 0; !ends; ++i) {
            ops::Reply answer;
            const std::string name = "f" + std::to_string(i % 100);
            const Verb verb = i % 200 < 100 ? Verb::create : Verb::unlink;
            ASSERT_EQ(volume.execute(name_command(verb, root, name), answer), Errc::ok);
        }
    });
    std::vector<std::byte> memory(8 * mib);
    for (u32 i = 0; i < 20; ++i) {
        void* at = nullptr;
        EXPECT_EQ(cudaMalloc(&at, 64 * mib), cudaSuccess);
        EXPECT_EQ(cudaMemset(at, 0, 64 * mib), cudaSuccess);
        EXPECT_EQ(cudaFree(at), cudaSuccess);
        EXPECT_EQ(cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterDefault),
                  cudaSuccess);
        EXPECT_EQ(cudaHostUnregister(memory.data()), cudaSuccess);
    }
    ends = true;
    client.join();
    EXPECT_GT(volume.server().statistics().epochs, 1u);
    close();
}

/// A Store in which a warp searches for free space for very long, and then finds none.
class SlowStore {
 public:
    explicit SlowStore(const core::Store& like) : store_(like) {
        EXPECT_EQ(no_room_.allocate(1 * mib), Errc::ok);
        EXPECT_EQ(cudaMemset(no_room_.data(), 0, no_room_.bytes()), cudaSuccess);
        store_.frame_count = no_room_.count() * 64;
        // A search for metadata and inodes ends where these do.
        EXPECT_EQ(state_.allocate(1), Errc::ok);
        EXPECT_EQ(
            cudaMemcpy(state_.data(), like.state, sizeof(core::StoreState), cudaMemcpyDefault),
            cudaSuccess);
        EXPECT_EQ(cudaMemcpy(&state_.data()->metadata_frames_end, &store_.frame_count, sizeof(u64),
                             cudaMemcpyDefault),
                  cudaSuccess);
        store_.state = state_.data();
        store_.frames_free = no_room_.data();
        for (u64*& room : store_.frames_with_space)
            room = no_room_.data();
    }
    const core::Store& store() const { return store_; }

 private:
    gpu::DeviceBuffer<u64> no_room_;
    gpu::DeviceBuffer<core::StoreState> state_;
    core::Store store_;
};

/// Collects the notices of a server during its lifetime.
class Told {
 public:
    Told() {
        set_notice_sink([this](const std::string& line) {
            const std::lock_guard lock(mutex_);
            text_ += line + "\n";
        });
    }
    ~Told() { set_notice_sink({}); }
    Told(const Told&) = delete;
    Told& operator=(const Told&) = delete;

    std::string text() {
        const std::lock_guard lock(mutex_);
        return text_;
    }
    bool tells_of_a_late_command() {
        return text().find("the server on the GPU has not ended its epoch for 5 ms: a command") !=
               std::string::npos;
    }

 private:
    std::mutex mutex_;
    std::string text_;
};

TEST_F(Server, TellsOfALateCommand) {
    Told told;
    open({.epoch_us = 1'000, .watchdog_ms = 5});
    const SlowStore slow(volume.device_store());
    ASSERT_EQ(volume.server().pause(), Errc::ok);
    ASSERT_EQ(volume.server().resume(slow.store()), Errc::ok);
    const Result<u64> ticket = volume.client().submit(name_command(Verb::create, root, "late"));
    ASSERT_TRUE(ticket);
    ASSERT_EQ(volume.client().wait(*ticket, reply, ServedVolume::patience_ms), Errc::ok)
        << volume.server().statistics().loss;
    EXPECT_FALSE(is_final(reply.code));
    ASSERT_EQ(volume.server().pause(), Errc::ok);
    EXPECT_GE(volume.server().statistics().late, 1u);
    EXPECT_TRUE(told.tells_of_a_late_command()) << told.text();
    ASSERT_EQ(volume.server().resume(volume.device_store()), Errc::ok);
    EXPECT_EQ(run(Verb::create, "in time"), Errc::ok);
    close();
}

/// While all workers are busy some commands have none: the poller that waits for a worker still
/// ends its epoch when the time has passed, and hands out the others in a later one.
TEST_F(Server, TellsOfLateCommandsWhileOthersHaveNoWorker) {
    Told told;
    open({.blocks = 1, .epoch_us = 1'000, .watchdog_ms = 5});
    const SlowStore slow(volume.device_store());
    ASSERT_EQ(volume.server().pause(), Errc::ok);
    constexpr u32 workers = cuda_engine::warps_per_server_block - 1;
    std::vector<std::string> names;
    for (u32 i = 0; i < 2 * workers; ++i)
        names.push_back("late" + std::to_string(i));
    std::vector<u64> tickets;
    for (const std::string& name : names) {
        const Result<u64> ticket = volume.client().submit(name_command(Verb::create, root, name));
        ASSERT_TRUE(ticket);
        tickets.push_back(*ticket);
    }
    ASSERT_EQ(volume.server().resume(slow.store()), Errc::ok);
    for (const u64 ticket : tickets) {
        ASSERT_EQ(volume.client().wait(ticket, reply, ServedVolume::patience_ms), Errc::ok)
            << volume.server().statistics().loss;
        EXPECT_FALSE(is_final(reply.code));
    }
    ASSERT_EQ(volume.server().pause(), Errc::ok);
    EXPECT_TRUE(told.tells_of_a_late_command()) << told.text();
    ASSERT_EQ(volume.server().resume(volume.device_store()), Errc::ok);
    EXPECT_EQ(run(Verb::create, "in time"), Errc::ok);
    close();
}

/// A ring that was given to user 1000, and a client that writes arbitrary data.
TEST_F(Server, AHostileClientHarmsOnlyItself) {
    open();
    ASSERT_EQ(volume.restart({}, {1000, 1000, {}}, false), Errc::ok);
    const ring::RingMemory memory = volume.ring().ring();
    ring::RingClient& client = volume.client();
    u64 next = 0;  // the next ticket
    const auto ask = [&](const ops::Command& command) {
        const Result<u64> ticket = client.submit(command);
        EXPECT_TRUE(ticket);
        next = *ticket + 1;
        EXPECT_EQ(client.wait(*ticket, reply, ServedVolume::patience_ms), Errc::ok);
        return reply.code;
    };
    ops::Command command = name_command(Verb::create, root, "mine");
    command.caller.check = true;
    EXPECT_EQ(ask(command), Errc::access);  // the root directory is user 0's
    command.caller.user = 0;
    command.caller.check = false;
    EXPECT_EQ(ask(command), Errc::access);
    command.verb = static_cast<Verb>(200);
    EXPECT_EQ(ask(command), Errc::not_supported);
    for (const Verb verb : {Verb::forget, Verb::reclaim_step, Verb::change_structure, Verb::pack}) {
        command.verb = verb;
        EXPECT_EQ(ask(command), Errc::not_permitted);
    }
    command = name_command(Verb::lookup, {root.inode, root.generation + 1}, "x");
    EXPECT_EQ(ask(command), Errc::stale);
    command = name_command(Verb::lookup, {u64{1} << 47, 1}, "x");
    EXPECT_EQ(ask(command), Errc::stale);
    const std::string long_name(3000, 'x');
    command = name_command(Verb::lookup, root, long_name);
    EXPECT_EQ(ask(command), Errc::name_too_long);
    // Hand-made cells: a block behind the arena's end; then a phase that is wrong in one part.
    ring::CommandCell& cell = memory.commands[next % memory.cells];
    ring::write_cell(command, false, {4 * mib - 64, 256}, ring::phase_of(next, memory.cells), cell);
    ring::ring_doorbell(volume.ring().doorbell(), volume.ring().status());
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    const auto& answer = memory.completions[next % memory.cells].pieces[0];
    while (ring::load_piece(answer).phase() == 0 && std::chrono::steady_clock::now() < until) {
    }
    EXPECT_EQ(ring::load_piece(answer).word(1) & 0xffff, static_cast<u32>(Errc::invalid));
    ring::CommandCell& torn = memory.commands[(next + 1) % memory.cells];
    ring::write_cell(command, false, {}, ring::phase_of(next + 1, memory.cells), torn);
    torn.pieces[2].high = 0;
    ring::ring_doorbell(volume.ring().doorbell(), volume.ring().status());
    while (!volume.server().statistics().is_parked && std::chrono::steady_clock::now() < until) {
    }
    EXPECT_EQ(ring::load_piece(memory.completions[(next + 1) % memory.cells].pieces[0]).phase(),
              0u);
    ASSERT_EQ(volume.restart({}), Errc::ok);
    for (const std::string& name : names_of(100))
        EXPECT_EQ(run(Verb::create, name), Errc::ok);
    close();
}

TEST_F(Server, NamesTheLaunchThatFailed) {
    open();
    ASSERT_EQ(volume.server().pause(), Errc::ok);
    static_cast<void>(gpu::fail_call(1));
    ASSERT_EQ(volume.server().resume(volume.device_store()), Errc::ok);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!volume.server().statistics().is_lost && std::chrono::steady_clock::now() < until)
        std::this_thread::yield();
    static_cast<void>(gpu::fail_call(0));
    EXPECT_EQ(volume.server().statistics().loss.rfind("serve_epoch: ", 0), 0u);
    EXPECT_EQ(run(Verb::lookup, "x"), Errc::io);
    EXPECT_EQ(volume.server().stop(), Errc::io);
}

/// In a process of its own: the context does not survive a fault.
TEST(ServerLossDeathTest, ALostDeviceIsAnError) {
    if (gpu::device_count() == 0) GTEST_SKIP() << "there is no GPU";
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    const auto lose = [] {
        const auto disk = make_memory_disk(64 * mib);
        ServedVolume volume;
        if (volume.open(*disk) != Errc::ok) _exit(1);
        const Handle root = volume.root();
        core::Store broken = volume.device_store();
        broken.versions = nullptr;
        if (volume.server().pause() != Errc::ok) _exit(2);
        if (volume.server().resume(broken) != Errc::ok) _exit(3);
        ops::Reply reply;
        if (volume.execute(name_command(Verb::lookup, root, "x"), reply) != Errc::io) _exit(4);
        const cuda_engine::ServerStatistics statistics = volume.server().statistics();
        if (!statistics.is_lost || statistics.loss.empty()) _exit(5);
        _exit(volume.server().stop() == Errc::io ? 0 : 6);
    };
    EXPECT_EXIT(lose(), testing::ExitedWithCode(0), "");
}

TEST(ServerLossDeathTest, ABrokenInvariantLeavesWord) {
    if (gpu::device_count() == 0) GTEST_SKIP() << "there is no GPU";
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    const auto break_it = [] {
        if (cuda_engine::prepare_fault_record() != Errc::ok) _exit(1);
        if (cuda_engine::fault_record() != nullptr) _exit(2);
        if (cuda_engine::break_invariant() != Errc::io) _exit(3);
        const cuda_engine::FaultRecord* fault = cuda_engine::fault_record();
        if (fault == nullptr) _exit(4);
        std::fprintf(stderr, "%s at %s:%d\n", fault->what, fault->file, fault->line);
        _exit(0);
    };
    EXPECT_EXIT(break_it(), testing::ExitedWithCode(0), "two . two == 5 at .*server_fault.cu:");
}

}  // namespace
}  // namespace warren::server_test
