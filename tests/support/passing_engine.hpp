// SPDX-License-Identifier: Apache-2.0
// An engine that passes commands, commits, batches and look-ups on to one below. Those that count
// or hold back something override just that.
#pragma once

#include <memory>

#include "fs/engine/engine.hpp"

namespace warren {

class PassingEngine : public Engine {
 public:
    explicit PassingEngine(std::unique_ptr<Engine> below) : below_(std::move(below)) {}

    std::string_view name() const override { return below_->name(); }
    void attempt(const ops::Command& command, ops::Reply& reply) override {
        below_->attempt(command, reply);
    }
    void attempt_many(std::span<const ops::Command> commands,
                      std::span<ops::Reply> replies) override {
        below_->attempt_many(commands, replies);
    }
    void hold_steps() override { below_->hold_steps(); }
    void release_steps() override { below_->release_steps(); }
    Errc cut(const std::function<void()>& at_rest, CommitSnapshot& cut) override {
        return below_->cut(at_rest, cut);
    }
    Errc fetch_cut(format::Block* blocks) override { return below_->fetch_cut(blocks); }
    Errc release_cut() override { return below_->release_cut(); }
    Errc publish(std::span<ops::CommittedFrame> frames,
                 std::span<const u64> empty_inode_frames) override {
        return below_->publish(frames, empty_inode_frames);
    }
    Errc allow_generations(u64 limit) override { return below_->allow_generations(limit); }
    Errc forbid() override { return below_->forbid(); }
    Errc show_block(u64 place) override { return below_->show_block(place); }
    u64 meta_buffer_blocks() const override { return below_->meta_buffer_blocks(); }
    Errc place_block(u64 place, const format::Block& block, ops::Evicted& evicted) override {
        return below_->place_block(place, block, evicted);
    }
    Errc read_block(u64 place, format::Block& block) override {
        return below_->read_block(place, block);
    }
    Errc add_frames() override { return below_->add_frames(); }
    Errc make_file_memory(u64 bytes, std::unique_ptr<FileMemory>& memory) override {
        return below_->make_file_memory(bytes, memory);
    }
    Errc refresh_counters() override { return below_->refresh_counters(); }
    Result<ops::BatchMemory> open_batch(const ops::BatchShape& shape) override {
        return below_->open_batch(shape);
    }
    void send_batch(const ops::BatchPart& part) override { below_->send_batch(part); }
    Errc run_batch(const ops::BatchHeader& header, ops::BatchWindow& window) override {
        return below_->run_batch(header, window);
    }
    void close_batch() override { below_->close_batch(); }
    Errc prepare_lookups() override { return below_->prepare_lookups(); }
    Result<LookupStream*> open_lookups(const core::Credentials& caller) override {
        return below_->open_lookups(caller);
    }
    void close_lookups() override { below_->close_lookups(); }

 private:
    std::unique_ptr<Engine> below_;
};

}  // namespace warren
