// SPDX-License-Identifier: Apache-2.0
// The memory of a ring as a client may leave it: cells, blocks of arguments, and completions on the
// way back. An input is the cells' words and the arena; the phases are those of the first lap, for
// a cell without them has not arrived. Commands that are decoded are read to their ends, and some
// inputs run them on a mount.
#include <array>

#include "apps/fuse/ring_commands.hpp"
#include "fs/ring/client.hpp"
#include "fs/ring/reader.hpp"
#include "fs/ring/reply_code.hpp"
#include "tests/fuzz/mounted.hpp"
#include "tests/fuzz/target.hpp"

namespace warren::fuzz {

namespace {

enum Flag : u8 { is_trusted = 1, runs = 2, has_groups = 4 };

constexpr ring::RingShape shape{.cells = 4, .arena_bytes = 16 * kib};

struct alignas(64) Memory {
    std::byte bytes[shape.bytes()];
};

/// Reads all that a command points to.
u64 sum_of(const ops::Command& command) {
    u64 sum = 0;
    const auto add = [&](const void* from, u64 size_bytes) {
        for (u64 i = 0; i < size_bytes; ++i)
            sum += static_cast<u64>(static_cast<const std::byte*>(from)[i]);
    };
    add(command.name, command.name_length);
    add(command.new_name, command.new_name_length);
    add(command.text, command.text_bytes);
    add(command.buffer, command.buffer_bytes);
    add(command.caller.groups, command.caller.group_count * sizeof(u32));
    return sum;
}

/// Decodes an answer whose words are those of the input.
void decode_answer(std::string_view bytes) {
    ring::ReplyWords words;
    std::memcpy(words.words, bytes.data(), std::min(bytes.size(), sizeof words.words));
    ops::Reply reply;
    static_cast<void>(ring::decode_reply(words, reply));
    WARREN_CHECK(words.count <= ring::reply_words_max);
}

/// A command's cell and block, as a client writes them.
std::string seed_of(const ops::Command& command, u8 flags) {
    ring::RingMemory ring;
    static Memory memory;
    memory = {};
    ring = ring::ring_at(memory.bytes, shape);
    ring::Doorbell doorbell{};
    const ring::ServerStatus status{};
    ring::RingClient client(ring, doorbell, status, (flags & is_trusted) != 0);
    WARREN_CHECK(client.submit(command));
    const auto* cells = reinterpret_cast<const char*>(ring.commands);
    const auto* arena = reinterpret_cast<const char*>(ring.arena.base);
    return Output()
        .put(flags)
        .bytes({cells, shape.cells * sizeof(ring::CommandCell)})
        .bytes({arena, 512})
        .take();
}

}  // namespace

std::vector<std::string> seeds() {
    std::vector<std::string> all;
    const auto disk = closed_image().copy();
    const Handle root = open(*disk)->root();
    for (const ops::Verb verb :
         {ops::Verb::lookup, ops::Verb::create, ops::Verb::unlink, ops::Verb::rename,
          ops::Verb::set_attributes, ops::Verb::read_link, ops::Verb::link}) {
        ops::Command command;
        command.verb = verb;
        command.handle = command.target = root;
        command.name = "directory";
        command.name_length = 9;
        if (verb == ops::Verb::rename) {
            command.new_name = "elsewhere";
            command.new_name_length = 9;
        }
        if (verb == ops::Verb::create) command.mode = 040755;
        for (const u8 flags : {u8{is_trusted}, u8{runs}})
            all.push_back(seed_of(command, flags));
    }
    return all;
}

}  // namespace warren::fuzz

extern "C" int LLVMFuzzerTestOneInput(const warren::u8* bytes, size_t size_bytes) {
    using namespace warren;
    using namespace warren::fuzz;
    Input input(bytes, size_bytes);
    const auto flags = input.get<u8>();
    static Memory memory;
    memory = {};
    const ring::RingMemory ring = ring::ring_at(memory.bytes, shape);
    const std::string_view cells = input.take(shape.cells * sizeof(ring::CommandCell));
    std::memcpy(static_cast<void*>(ring.commands), cells.data(), cells.size());
    for (u32 i = 0; i < shape.cells; ++i) {
        for (ring::Piece& piece : ring.commands[i].pieces)
            piece.high = (piece.high & 0xffffffff) | u64{1} << 32;
    }
    const std::string_view arena = input.take(shape.arena_bytes);
    std::memcpy(ring.arena.base, arena.data(), arena.size());
    decode_answer(cells);

    ring::Stamp stamp;
    const std::array<u32, 2> groups{1, 2};
    stamp.is_trusted = (flags & is_trusted) != 0;
    stamp.caller = {1000, 2000, groups.data(), (flags & has_groups) != 0 ? 2u : 0u, 0, true};
    ring::RingReader reader(ring, stamp);
    std::array<ring::Received, shape.cells> received;
    std::array<ops::Reply, shape.cells> replies;
    u32 count = 0;
    while (count < shape.cells && reader.take(received[count])) {
        if (received[count].verdict == Errc::ok) {
            static u64 sum = 0;
            sum += sum_of(received[count].command);
        }
        ++count;
    }
    if ((flags & runs) != 0 && !stamp.is_trusted) {
        Mounted mounted;
        fuse::RingCommands commands(mounted.state, mounted.invalidator, fuse::Peer{});
        static_cast<void>(
            commands.grants().attach(mounted.root(), true, [](Handle) { return true; }));
        commands.run(std::span(received).first(count), std::span(replies).first(count));
    }
    for (u32 i = 0; i < count; ++i)
        reader.complete(received[i], replies[i]);
    return 0;
}
