// SPDX-License-Identifier: Apache-2.0
// An unknown engine name ends the tests: they must not run on another engine than requested.
#include "tests/support/test_engine.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "base/fair_lock.hpp"
#include "fs/engine/cpu/cpu_engine.hpp"
#include "fs/volume/open_volume.hpp"
#include "fs/volume/volume_implementation.hpp"
#include "tests/support/carried_command.hpp"
#include "tests/support/host_batch.hpp"
#include "tests/support/host_lookups.hpp"
#include "tests/support/twin_store.hpp"

namespace warren {
namespace {

/// Runs commands with the CPU engine's code, in a memory of its own; commands reach it encoded, as
/// they would reach a GPU.
class CommandEngine final : public Engine, EngineMemory, MetaBuffer, ItemBatches, LookupStreams {
 public:
    Errc open(const core::Store& host, u64 meta_buffer_blocks) {
        return twin_.open(host, meta_buffer_blocks);
    }

    std::string_view name() const override { return "commands"; }
    void attempt(const ops::Command& command, ops::Reply& reply) override {
        attempt_many({&command, 1}, {&reply, 1});
    }
    void attempt_many(std::span<const ops::Command> commands,
                      std::span<ops::Reply> replies) override {
        const std::shared_lock lock(running_);
        for (const ops::Command& command : commands) {
            if (command.verb != ops::Verb::start_inode_frame) continue;
            twin_.prepare_inode_frame(command.from);
        }
        for (u64 i = 0; i < commands.size(); ++i) {
            carry_command(commands[i], replies[i],
                          [this](const ops::Command& command, ops::Reply& reply) {
                              cpu_.attempt(command, reply);
                          });
        }
    }
    Errc make_file_memory(u64 bytes, std::unique_ptr<FileMemory>& memory) override {
        return cpu_.make_file_memory(bytes, memory);
    }
    EngineMemory* memory() override { return this; }
    ItemBatches* batches() override { return has_all_metadata() ? this : nullptr; }
    LookupStreams* lookups() override { return has_all_metadata() ? this : nullptr; }

 private:
    bool has_all_metadata() const { return twin_.meta_buffer_blocks() == 0; }
    MetaBuffer* meta_buffer() override { return has_all_metadata() ? nullptr : this; }
    FairLock& steps() override { return steps_; }
    Errc cut(const std::function<void()>& at_rest, CommitSnapshot& cut) override {
        const std::lock_guard alone(running_);
        WARREN_TRY(twin_.take_cut(cut));
        at_rest();
        return Errc::ok;
    }
    Errc fetch_cut(format::Block* blocks) override {
        twin_.fetch_cut(blocks);
        return Errc::ok;
    }
    Errc release_cut() override {
        twin_.release_cut();
        return Errc::ok;
    }
    u64 meta_buffer_blocks() const override { return twin_.meta_buffer_blocks(); }
    Errc place_block(u64 place, const format::Block& block, ops::Evicted& evicted) override {
        return twin_.place_block(place, block, evicted);
    }
    Errc read_block(u64 place, format::Block& block) override {
        return twin_.read_block(place, block);
    }
    Errc publish(std::span<ops::CommittedFrame> frames,
                 std::span<const u64> empty_inode_frames) override {
        const std::shared_lock beside_commands(running_);
        twin_.publish(frames, empty_inode_frames);
        return Errc::ok;
    }
    Errc allow_generations(u64 limit) override {
        twin_.allow_generations(limit);
        return Errc::ok;
    }
    Errc forbid() override {
        twin_.forbid();
        return Errc::ok;
    }
    Errc show_block(u64 place) override {
        twin_.show_block(place);
        return Errc::ok;
    }
    Errc add_frames() override { return Errc::ok; }
    Errc refresh_counters() override {
        twin_.read_counters();
        return Errc::ok;
    }

    Result<OpenBatch> open_batch(const ops::BatchShape& shape) override {
        std::unique_lock lock(batch_mutex_);
        WARREN_LET(memory, batch_.open(shape));
        lock.release();
        return OpenBatch{0, *memory};
    }
    void send_batch(u32 /*number*/, const ops::BatchPart& part) override { batch_.send(part); }
    Errc run_batch(u32 /*number*/, const ops::BatchHeader& header,
                   ops::BatchWindow& window) override {
        const std::lock_guard alone(running_);
        return batch_.run(twin_.store(), header, window);
    }
    void close_batch(u32 /*number*/) override { batch_mutex_.unlock(); }
    Errc prepare_lookups() override { return Errc::ok; }
    Errc look_up(const core::Credentials& caller, const UseStream& use) override {
        const std::lock_guard turn(lookups_mutex_);
        const std::shared_lock lock(running_);
        lookups_.open(cpu_, caller);
        use(lookups_);
        return Errc::ok;
    }

    mutable TwinStore twin_;
    CpuEngine cpu_{twin_.store()};
    FairLock steps_;    // there are none
    FairLock running_;  // shared by commands
    std::mutex batch_mutex_;
    HostBatch batch_;
    std::mutex lookups_mutex_;
    HostLookups lookups_;
};

}  // namespace

std::unique_ptr<Engine> make_command_engine(const core::Store& store, u64 meta_buffer_blocks) {
    auto engine = std::make_unique<CommandEngine>();
    if (engine->open(store, meta_buffer_blocks) != Errc::ok) {
        std::fprintf(stderr, "no room for a second store of %llu bytes\n",
                     static_cast<unsigned long long>(store.size_bytes));
        std::exit(2);
    }
    return engine;
}

std::string test_engine_name(std::string_view otherwise) {
    const char* const wanted = std::getenv("WARREN_TEST_ENGINE");
    return wanted == nullptr || wanted[0] == '\0' ? std::string(otherwise) : wanted;
}

std::string engine_of_its_own() {
    const std::string name = test_engine_name("commands");
    return name == "cuda" ? name : "commands";
}

std::unique_ptr<Volume> open_on_commands(
    std::unique_ptr<Disk> disk, const OpenOptions& options, Failure& failure,
    const std::function<std::unique_ptr<Engine>(std::unique_ptr<Engine>)>& wrap, u64 hash_mask,
    const AdjustVolume& adjust) {
    OpenOptions chosen = options;
    chosen.engine = EngineChoice::cpu;
    // The engine has the buffer, which must not be smaller than a volume's may be.
    const u64 buffer_bytes =
        options.meta_buffer_bytes == 0 ? 0 : std::max(options.meta_buffer_bytes, mib);
    chosen.meta_buffer_bytes = 0;
    OpenChanges changes;
    changes.hash_mask = hash_mask;
    changes.finishes_removals = true;
    const auto use_commands = [&](VolumeImplementation& volume) {
        volume.use_engine(
            wrap(make_command_engine(volume.store(), buffer_bytes / format::block_size)));
        if (adjust) adjust(volume);
    };
    changes.adjust = std::cref(use_commands);  // no allocation: tests make these fail
    return open_volume(std::move(disk), "image", chosen, failure, changes);
}

std::unique_ptr<Volume> open_on_engine(std::unique_ptr<Disk> disk, std::string_view engine,
                                       const OpenOptions& options, Failure& failure, u64 hash_mask,
                                       const AdjustVolume& adjust) {
    if (engine == "commands") {
        const auto as_it_is = [](std::unique_ptr<Engine> made) { return made; };
        return open_on_commands(std::move(disk), options, failure, as_it_is, hash_mask, adjust);
    }
    OpenOptions chosen = options;
    if (!find_engine(engine, chosen.engine)) {
        std::fprintf(stderr, "WARREN_TEST_ENGINE=%s: must be auto, cpu, cuda or commands\n",
                     std::string(engine).c_str());
        std::exit(2);
    }
    OpenChanges changes;
    changes.hash_mask = hash_mask;
    changes.finishes_removals = true;
    changes.adjust = adjust;
    return open_volume(std::move(disk), "image", chosen, failure, changes);
}

std::unique_ptr<Volume> open_on_test_engine(std::unique_ptr<Disk> disk, const OpenOptions& options,
                                            Failure& failure, u64 hash_mask) {
    std::string engine(name_of(options.engine));
    if (options.engine == EngineChoice::automatic) {
        engine = test_engine_name(engine);
    }
    return open_on_engine(std::move(disk), engine, options, failure, hash_mask);
}

}  // namespace warren
