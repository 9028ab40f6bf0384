// SPDX-License-Identifier: Apache-2.0
// Computing the size of a batch and filling it use the same function, so that they agree.
#include "fs/engine/cuda/launch/command_batch.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "fs/engine/cuda/launch/operations.hpp"
#include "fs/ring/client.hpp"

namespace warren::cuda_engine {
namespace {

constexpr u64 alignment = 16;
constexpr u64 first_bytes = 64 * kib;
constexpr u64 buffer_bytes_max = 128 * kib;  // the most that a command writes
constexpr u32 warps_per_block = 4;
constexpr u32 blocks_max = 264;

constexpr u64 aligned(u64 bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
}

u64 buffer_bytes_of(const ops::Command& command) {
    return command.buffer == nullptr ? 0 : std::min(command.buffer_bytes, buffer_bytes_max);
}

/// Calls `take(pointer, bytes)` for each argument that a command only reads.
template <class Take>
void for_each_input(ops::Command& command, const Take& take) {
    take(command.name, command.name_length);
    take(command.new_name, command.new_name_length);
    take(command.caller.groups, u64{command.caller.group_count} * sizeof(u32));
    take(command.text, command.text_bytes);
}

}  // namespace

Errc CommandBatch::open() {
    WARREN_TRY(stream_.open());
    return make_room({first_bytes, first_bytes});
}

CommandBatch::Layout CommandBatch::layout_of(std::span<const ops::Command> commands) {
    Layout layout{aligned(commands.size_bytes()), aligned(commands.size() * sizeof(ops::Reply))};
    for (const ops::Command& command : commands) {
        ops::Command counted = command;
        for_each_input(counted,
                       [&](auto* /*from*/, u64 bytes) { layout.in_bytes += aligned(bytes); });
        if (command.walk != nullptr) layout.in_bytes += aligned(sizeof *command.walk);
        layout.out_bytes += aligned(buffer_bytes_of(command));
    }
    return layout;
}

Errc CommandBatch::make_room(Layout layout) {
    WARREN_TRY(host_in_.reserve(layout.in_bytes));
    WARREN_TRY(device_in_.reserve(layout.in_bytes));
    WARREN_TRY(host_out_.reserve(layout.out_bytes));
    return device_out_.reserve(layout.out_bytes);
}

/// Writes the commands and the data that they read to pinned memory, with device pointers.
void CommandBatch::stage(std::span<const ops::Command> commands) {
    u64 in = aligned(commands.size_bytes());
    u64 out = aligned(commands.size() * sizeof(ops::Reply));
    for (std::size_t i = 0; i < commands.size(); ++i) {
        ops::Command command = commands[i];
        for_each_input(command, [&](auto*& pointer, u64 bytes) {
            if (bytes > 0) std::memcpy(host_in_.data() + in, pointer, bytes);
            pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(
                device_in_.data() + in);
            in += aligned(bytes);
        });
        const u64 buffer_bytes = buffer_bytes_of(command);
        if (command.buffer != nullptr) {
            command.buffer = device_out_.data() + out;
            command.buffer_bytes = buffer_bytes;
            out += aligned(buffer_bytes);
        }
        if (command.walk != nullptr) {
            // The device accesses it in pinned memory; few commands have one.
            command.walk = new (host_in_.data() + in) ops::MoveWalk(*command.walk);
            in += aligned(sizeof *command.walk);
        }
        new (host_in_.data() + i * sizeof command) ops::Command(command);
    }
}

void CommandBatch::fetch(std::span<const ops::Command> commands,
                         std::span<ops::Reply> replies) const {
    u64 out = aligned(commands.size() * sizeof(ops::Reply));
    for (std::size_t i = 0; i < commands.size(); ++i) {
        std::memcpy(static_cast<void*>(&replies[i]), host_out_.data() + i * sizeof(ops::Reply),
                    sizeof(ops::Reply));
        const u64 written =
            ring::output_bytes(commands[i].verb, replies[i], buffer_bytes_of(commands[i]));
        if (commands[i].buffer != nullptr && written > 0) {
            std::memcpy(commands[i].buffer, host_out_.data() + out, written);
        }
        out += aligned(buffer_bytes_of(commands[i]));
        if (commands[i].walk == nullptr) continue;
        const auto* staged = reinterpret_cast<const ops::Command*>(host_in_.data()) + i;
        *commands[i].walk = *staged->walk;
    }
}

Errc CommandBatch::run(const core::Store& store, std::span<const ops::Command> commands,
                       std::span<ops::Reply> replies) {
    const Layout layout = layout_of(commands);
    WARREN_TRY(make_room(layout));
    stage(commands);
    const u32 count = static_cast<u32>(commands.size());
    const u32 warps = std::min(count, warps_per_block);
    const u32 blocks = std::min((count + warps - 1) / warps, blocks_max);
    WARREN_TRY(stream_.copy(device_in_.data(), host_in_.data(), layout.in_bytes));
    WARREN_TRY(launch_batch(store, reinterpret_cast<const ops::Command*>(device_in_.data()),
                            reinterpret_cast<ops::Reply*>(device_out_.data()), count, blocks, warps,
                            stream_.get()));
    WARREN_TRY(stream_.copy(host_out_.data(), device_out_.data(), layout.out_bytes));
    WARREN_TRY(stream_.wait());
    fetch(commands, replies);
    return Errc::ok;
}

Errc CommandBatches::run(const core::Store& store, std::span<const ops::Command> commands,
                         std::span<ops::Reply> replies) {
    std::unique_ptr<CommandBatch> batch = idle_.take();
    if (batch == nullptr) {
        batch = std::make_unique<CommandBatch>();
        WARREN_TRY(batch->open());
    }
    const Errc code = batch->run(store, commands, replies);
    if (code == Errc::ok) idle_.keep(std::move(batch));
    return code;
}

}  // namespace warren::cuda_engine
