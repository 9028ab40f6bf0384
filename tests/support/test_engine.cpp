// SPDX-License-Identifier: Apache-2.0
// A name that is no engine's ends the tests: nothing may run on another engine than was asked.
#include "tests/support/test_engine.hpp"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "fs/engine/cpu/cpu_engine.hpp"
#include "fs/volume/open_volume.hpp"
#include "fs/volume/volume_implementation.hpp"
#include "tests/support/host_batch.hpp"

namespace warren {
namespace {

/// Runs commands on the host's Store, as an engine does that has memory of its own.
class CommandEngine : public Engine {
 public:
    explicit CommandEngine(const core::Store& store) : store_(store), cpu_(store) {}

    std::string_view name() const override { return "commands"; }
    void attempt(const ops::Command& command, ops::Reply& reply) override {
        const std::shared_lock lock = share();
        cpu_.attempt(command, reply);
    }
    void attempt_many(std::span<const ops::Command> commands,
                      std::span<ops::Reply> replies) override {
        const std::shared_lock lock = share();
        cpu_.attempt_many(commands, replies);
    }
    Errc pause() override {
        const std::lock_guard turn(turn_);
        running_.lock();
        return Errc::ok;
    }
    Errc resume() override {
        running_.unlock();
        return Errc::ok;
    }
    Errc show_block(u64 /*place*/) override { return Errc::ok; }
    Errc add_frames() override { return Errc::ok; }
    Errc make_file_memory(u64 bytes, std::unique_ptr<FileMemory>& memory) override {
        return cpu_.make_file_memory(bytes, memory);
    }

    Result<ops::BatchMemory> open_batch(const ops::BatchShape& shape) override {
        if (store_.heads != nullptr) return Errc::not_supported;
        batch_mutex_.lock();
        return batch_.open(shape);
    }
    Errc run_batch(const ops::BatchHeader& header, ops::BatchWindow& window) override {
        turn_.lock();
        const std::lock_guard alone(running_);
        turn_.unlock();
        return batch_.run(store_, header, window);
    }
    void close_batch() override { batch_mutex_.unlock(); }

 private:
    std::shared_lock<std::shared_mutex> share() {
        const std::lock_guard turn(turn_);
        return std::shared_lock(running_);
    }

    const core::Store& store_;
    CpuEngine cpu_;
    std::mutex turn_;
    std::shared_mutex running_;
    std::mutex batch_mutex_;
    HostBatch batch_;
};

void use_command_engine(VolumeImplementation& volume) {
    volume.use_engine(make_command_engine(volume.store()));
}

}  // namespace

std::unique_ptr<Engine> make_command_engine(const core::Store& store) {
    return std::make_unique<CommandEngine>(store);
}

std::string test_engine_name(std::string_view otherwise) {
    const char* const wanted = std::getenv("WARREN_TEST_ENGINE");
    return wanted == nullptr || wanted[0] == '\0' ? std::string(otherwise) : wanted;
}

std::unique_ptr<Volume> open_on_engine(std::unique_ptr<Disk> disk, std::string_view engine,
                                       const OpenOptions& options, Failure& failure,
                                       u64 hash_mask) {
    OpenOptions chosen = options;
    OpenChanges changes;
    changes.hash_mask = hash_mask;
    if (engine == "commands") {
        chosen.engine = EngineChoice::cpu;
        changes.adjust = use_command_engine;
    } else if (!find_engine(engine, chosen.engine)) {
        std::fprintf(stderr, "WARREN_TEST_ENGINE=%s: must be auto, cpu, cuda or commands\n",
                     std::string(engine).c_str());
        std::exit(2);
    }
    return open_volume(std::move(disk), "image", chosen, failure, changes);
}

std::unique_ptr<Volume> open_on_test_engine(std::unique_ptr<Disk> disk, const OpenOptions& options,
                                            Failure& failure, u64 hash_mask) {
    std::string engine(name_of(options.engine));
    if (options.engine == EngineChoice::automatic) {
        engine = test_engine_name(engine);
        if (options.meta_buffer_bytes != 0 && engine == "cuda") engine = "cpu";
    }
    return open_on_engine(std::move(disk), engine, options, failure, hash_mask);
}

}  // namespace warren
