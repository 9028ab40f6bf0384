// SPDX-License-Identifier: Apache-2.0
// A name that is no engine's ends the tests: nothing may run on another engine than was asked.
#include "tests/support/test_engine.hpp"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <string_view>

#include "fs/engine/cpu/cpu_engine.hpp"
#include "fs/volume/open_volume.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {
namespace {

/// Runs commands on the host's Store, as an engine does that has memory of its own.
class CommandEngine : public Engine {
 public:
    explicit CommandEngine(const core::Store& store) : cpu_(store) {}

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

 private:
    std::shared_lock<std::shared_mutex> share() {
        const std::lock_guard turn(turn_);
        return std::shared_lock(running_);
    }

    CpuEngine cpu_;
    std::mutex turn_;
    std::shared_mutex running_;
};

void use_command_engine(VolumeImplementation& volume) {
    volume.use_engine(std::make_unique<CommandEngine>(volume.store()));
}

}  // namespace

std::unique_ptr<Volume> open_on_test_engine(std::unique_ptr<Disk> disk, const OpenOptions& options,
                                            Failure& failure, u64 hash_mask) {
    OpenOptions chosen = options;
    OpenChanges changes;
    changes.hash_mask = hash_mask;
    const char* const wanted = std::getenv("WARREN_TEST_ENGINE");
    const std::string_view name = wanted == nullptr ? "" : wanted;
    if (options.engine != EngineChoice::automatic)
        return open_volume(std::move(disk), "image", chosen, failure, changes);
    if (name == "commands") {
        chosen.engine = EngineChoice::cpu;
        changes.adjust = use_command_engine;
    } else if (name == "cpu" || options.meta_buffer_bytes != 0) {
        chosen.engine = EngineChoice::cpu;
    } else if (name == "cuda") {
        chosen.engine = EngineChoice::cuda;
    } else if (!name.empty()) {
        std::fprintf(stderr, "WARREN_TEST_ENGINE=%s: must be cpu, cuda or commands\n", wanted);
        std::exit(2);
    }
    return open_volume(std::move(disk), "image", chosen, failure, changes);
}

}  // namespace warren
