// SPDX-License-Identifier: Apache-2.0
// An engine that forwards commands to another one, and has what that one has. Derived engines that
// count or delay something override just that.
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
    Errc make_file_memory(u64 bytes, std::unique_ptr<FileMemory>& memory) override {
        return below_->make_file_memory(bytes, memory);
    }
    EngineMemory* memory() override { return below_->memory(); }
    BulkCommands* bulk() override { return below_->bulk(); }
    ItemBatches* batches() override { return below_->batches(); }
    LookupStreams* lookups() override { return below_->lookups(); }

 private:
    std::unique_ptr<Engine> below_;
};

}  // namespace warren
