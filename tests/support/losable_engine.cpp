// SPDX-License-Identifier: Apache-2.0
// The loss is noticed by the first call after it: a command, a commit or a block.
#include "tests/support/losable_engine.hpp"

#include <atomic>

#include "fs/disk/file_disk.hpp"
#include "fs/engine/engine.hpp"
#include "tests/support/test_engine.hpp"

namespace warren {
namespace {

class LosableEngine final : public Engine, EngineMemory, MetaBuffer {
 public:
    LosableEngine(std::unique_ptr<Engine> below, std::function<bool()> is_lost,
                  std::function<void(const std::string&)> report)
        : below_(std::move(below)),
          memory_(*below_->memory()),
          is_lost_(std::move(is_lost)),
          report_(std::move(report)) {}

    std::string_view name() const override { return "losable"; }
    void attempt(const ops::Command& command, ops::Reply& reply) override {
        attempt_many({&command, 1}, {&reply, 1});
    }
    void attempt_many(std::span<const ops::Command> commands,
                      std::span<ops::Reply> replies) override {
        if (!notices_loss()) return below_->attempt_many(commands, replies);
        for (ops::Reply& reply : replies) {
            reply = ops::Reply(Errc::io);
        }
    }
    Errc make_file_memory(u64 bytes, std::unique_ptr<FileMemory>& memory) override {
        return notices_loss() ? Errc::io : below_->make_file_memory(bytes, memory);
    }
    EngineMemory* memory() override { return this; }

 private:
    MetaBuffer* meta_buffer() override { return memory_.meta_buffer() == nullptr ? nullptr : this; }
    FairLock& steps() override { return memory_.steps(); }
    Errc cut(const std::function<void()>& at_rest, CommitSnapshot& cut) override {
        return notices_loss() ? Errc::io : memory_.cut(at_rest, cut);
    }
    Errc fetch_cut(format::Block* blocks) override {
        return notices_loss() ? Errc::io : memory_.fetch_cut(blocks);
    }
    Errc publish(std::span<ops::CommittedFrame> frames,
                 std::span<const u64> empty_inode_frames) override {
        return notices_loss() ? Errc::io : memory_.publish(frames, empty_inode_frames);
    }
    Errc allow_generations(u64 limit) override {
        return notices_loss() ? Errc::io : memory_.allow_generations(limit);
    }
    Errc forbid() override { return notices_loss() ? Errc::io : memory_.forbid(); }
    Errc refresh_counters() override {
        return notices_loss() ? Errc::io : memory_.refresh_counters();
    }
    Errc release_cut() override { return notices_loss() ? Errc::io : memory_.release_cut(); }
    u64 meta_buffer_blocks() const override { return memory_.meta_buffer()->meta_buffer_blocks(); }
    Errc place_block(u64 place, const format::Block& block, ops::Evicted& evicted) override {
        return notices_loss() ? Errc::io
                              : memory_.meta_buffer()->place_block(place, block, evicted);
    }
    Errc read_block(u64 place, format::Block& block) override {
        return notices_loss() ? Errc::io : memory_.meta_buffer()->read_block(place, block);
    }
    Errc show_block(u64 place) override {
        return notices_loss() ? Errc::io : memory_.show_block(place);
    }
    Errc add_frames() override { return notices_loss() ? Errc::io : memory_.add_frames(); }

    bool notices_loss() {
        if (!was_lost_.load(std::memory_order_relaxed) && !is_lost_()) return false;
        if (!was_lost_.exchange(true, std::memory_order_relaxed)) report_("the engine is lost");
        return true;
    }

    std::unique_ptr<Engine> below_;
    EngineMemory& memory_;  // of the engine below
    std::function<bool()> is_lost_;
    std::function<void(const std::string&)> report_;
    std::atomic<bool> was_lost_{false};
};

}  // namespace

std::unique_ptr<Volume> open_on_losable_engine(std::unique_ptr<Disk> disk,
                                               const OpenOptions& options, Failure& failure,
                                               std::function<bool()> is_lost) {
    return open_on_commands(std::move(disk), options, failure, [&](std::unique_ptr<Engine> below) {
        return std::make_unique<LosableEngine>(std::move(below), is_lost, options.report);
    });
}

std::unique_ptr<Volume> open_on_losable_engine(const std::string& path, const OpenOptions& options,
                                               Failure& failure, std::function<bool()> is_lost) {
    std::unique_ptr<Disk> disk = FileDisk::open(
        path, options.read_only ? OpenMode::read_only : OpenMode::read_write, failure);
    if (disk == nullptr) return nullptr;
    if (options.engine == EngineChoice::cpu) {
        return open_on_engine(std::move(disk), "cpu", options, failure);
    }
    return open_on_losable_engine(std::move(disk), options, failure, std::move(is_lost));
}

}  // namespace warren
