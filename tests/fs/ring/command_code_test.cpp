// SPDX-License-Identifier: Apache-2.0
// A command written into a cell is read back unchanged, for every verb, and any bytes that a
// hostile client writes there end as an error for that client.
#include "fs/ring/command_code.hpp"

#include <gtest/gtest.h>

#include "fs/ring/encode_command.hpp"
#include "fs/ring/reader.hpp"
#include "tests/fs/ring/command_sample.hpp"
#include "tests/support/seed.hpp"

namespace warren::ring::command_code_test {
namespace {

constexpr RingShape small_shape{8, 64 * kib};

/// A ring in plain memory with one writer.
struct Bench {
    Bench() : memory(small_shape.bytes() / 64 + 1) {
        ring = ring_at(reinterpret_cast<std::byte*>(memory.data()), small_shape);
    }

    /// Writes a command into cell `ticket`, its block at `block_offset` of the arena.
    void write(const ops::Command& command, bool names_caller, u64 ticket, u64 block_offset = 0) {
        const Result<u64> bytes = block_bytes_of(command, names_caller);
        ASSERT_TRUE(bytes);
        ArenaRange block;
        if (*bytes != 0) {
            block = {block_offset, *bytes};
            ASSERT_TRUE(ring.arena.holds(block));
            write_block(command, names_caller, 32 * kib, ring.arena.base + block_offset);
        }
        write_cell(command, names_caller, block, phase_of(ticket, ring.cells),
                   ring.commands[ticket % ring.cells]);
    }
    void write_head(const Head& head, u64 ticket) {
        u32 words[words_per_slot];
        pack_head(head, words);
        for (u32 i = 0; i < pieces_per_slot; ++i) {
            ring.commands[ticket % ring.cells].pieces[i] =
                Piece::make(words + i * words_per_piece, phase_of(ticket, ring.cells));
        }
    }
    Arguments& arguments() { return *reinterpret_cast<Arguments*>(ring.arena.base); }

    struct alignas(64) Line {
        std::byte bytes[64];
    };
    std::vector<Line> memory;
    RingMemory ring;
};

Stamp trusted_stamp() {
    Stamp stamp;
    stamp.is_trusted = true;
    return stamp;
}

Stamp client_stamp(const std::vector<u32>& groups) {
    Stamp stamp;
    stamp.caller = {1000, 2000, groups.data(), static_cast<u32>(groups.size()), 0, true};
    return stamp;
}

TEST(CommandCode, EveryVerbTravelsOnATrustedRing) {
    const Seed seed;
    Random random(seed.value());
    Bench bench;
    RingReader reader(bench.ring, trusted_stamp());
    for (u32 i = 0; i < 200 * verb_count; ++i) {
        const auto sample = sample_command(random, static_cast<ops::Verb>(i % verb_count));
        bench.write(sample->command, true, i, random.below(100) * arena_granule);
        Received received;
        ASSERT_TRUE(reader.take(received));
        ASSERT_EQ(received.verdict, Errc::ok);
        expect_same_command(sample->command, received.command);
        expect_same_caller(sample->command.caller, received.command.caller);
        ASSERT_FALSE(reader.has_command());
        if (testing::Test::HasFailure()) return;
    }
}

TEST(CommandCode, AClientIsWhoTheStampSays) {
    const Seed seed;
    Random random(seed.value());
    Bench bench;
    const std::vector<u32> groups{7, 8, 9};
    const Stamp stamp = client_stamp(groups);
    RingReader reader(bench.ring, stamp);
    for (u32 i = 0; i < 200 * verb_count; ++i) {
        const auto verb = static_cast<ops::Verb>(i % verb_count);
        const auto sample = sample_command(random, verb);
        // The command claims another user's identity.
        bench.write(sample->command, random.below(2) == 0, i);
        Received received;
        ASSERT_TRUE(reader.take(received));
        const ops::Command& sent = sample->command;
        const bool is_allowed =
            is_open_to_clients(verb) && sent.references == 0 && !sent.may_use_reserve;
        ASSERT_EQ(received.verdict, is_allowed ? Errc::ok : Errc::not_permitted);
        if (!is_allowed) continue;
        expect_same_command(sent, received.command);
        core::Credentials expected = stamp.caller;
        expected.umask = sent.caller.umask;
        expect_same_caller(expected, received.command.caller);
        if (testing::Test::HasFailure()) return;
    }
}

TEST(CommandCode, ACellIsTakenOnlyWhole) {
    const Seed seed;
    Random random(seed.value());
    Bench bench;
    const auto sample = sample_command(random, ops::Verb::unlink);
    sample->command.name_length = std::min(sample->command.name_length, 48u);
    bench.write(sample->command, true, 0);
    const u32 pieces = sample->command.name_length != 0 ? 8 : 4;
    for (u32 i = 0; i < pieces; ++i) {
        Piece& piece = bench.ring.commands[0].pieces[i];
        const Piece right = piece;
        for (const u32 phase : {0u, 2u, 0x80000001u, ~0u}) {
            piece.high = (right.high & 0xffffffff) | u64{phase} << 32;
            RingReader reader(bench.ring, trusted_stamp());
            Received received;
            ASSERT_FALSE(reader.take(received)) << "piece " << i << " of phase " << phase;
            ASSERT_EQ(reader.next_ticket(), 0u);
        }
        piece = right;
    }
    RingReader reader(bench.ring, trusted_stamp());
    Received received;
    ASSERT_TRUE(reader.take(received));
    // The cell's present contents belong to this lap, not to the next one.
    RingReader later(bench.ring, trusted_stamp(), small_shape.cells);
    ASSERT_FALSE(later.take(received));
}

Errc verdict_of(Bench& bench, const Head& head, const Stamp& stamp = trusted_stamp()) {
    bench.write_head(head, 0);
    RingReader reader(bench.ring, stamp);
    Received received;
    EXPECT_TRUE(reader.take(received));
    return received.verdict;
}

TEST(CommandCode, HostileHeads) {
    Bench bench;
    Head head{};
    EXPECT_EQ(verdict_of(bench, head), Errc::ok);
    for (const u32 verb : {verb_count, 200u, 255u}) {
        head.verb = verb;
        EXPECT_EQ(verdict_of(bench, head), Errc::not_supported);
    }
    head = {};
    head.flags = 128;
    EXPECT_EQ(verdict_of(bench, head), Errc::invalid);
    head.flags = 0;
    head.name_bytes = 5;
    EXPECT_EQ(verdict_of(bench, head), Errc::invalid);
    head.flags = head_has_block;
    head.name_bytes = 0;
    const u64 arena = small_shape.arena_bytes;
    const ArenaRange ranges[] = {{0, 0},           {0, 64},
                                 {arena, 192},     {arena - 64, 192},
                                 {0, arena + 64},  {arena_bytes_max - 64, 1 * mib - 64},
                                 {64 * 100, arena}};
    for (const ArenaRange& range : ranges) {
        head.block = range;
        EXPECT_EQ(verdict_of(bench, head), Errc::invalid) << range.offset << " " << range.bytes;
    }
    head.block = {arena - 192, 192};
    EXPECT_EQ(verdict_of(bench, head), Errc::ok);
}

TEST(CommandCode, HostileBlocks) {
    Bench bench;
    Head head{};
    head.flags = head_has_block;
    head.block = {0, 256};
    const auto expect_bad = [&](auto&& spoil) {
        bench.arguments() = Arguments{};
        spoil(bench.arguments());
        EXPECT_EQ(verdict_of(bench, head), Errc::invalid);
    };
    bench.arguments() = Arguments{};
    EXPECT_EQ(verdict_of(bench, head), Errc::ok);
    expect_bad([](Arguments& it) { it.name_bytes = 97; });
    expect_bad([](Arguments& it) { it.name_bytes = ~0u; });
    expect_bad([](Arguments& it) { it.new_name_bytes = ~0u - 14; });
    expect_bad([](Arguments& it) { it.text_bytes = 100; });
    expect_bad([](Arguments& it) { it.text_bytes = 0x80000000; });
    expect_bad([](Arguments& it) { it.group_count = 25; });
    expect_bad([](Arguments& it) { it.group_count = 0x40000000; });
    expect_bad([](Arguments& it) { it.group_count = ~0u; });
    expect_bad([](Arguments& it) { it.buffer_bytes = small_shape.arena_bytes + 1; });
    expect_bad([](Arguments& it) { it.buffer_bytes = ~u64{0}; });
    expect_bad([](Arguments& it) { it.buffer_offset = small_shape.arena_bytes + 64; });
    expect_bad([](Arguments& it) {
        it.buffer_offset = ~u64{63};
        it.buffer_bytes = 128;
    });
    expect_bad([](Arguments& it) {
        it.buffer_offset = 8;
        it.buffer_bytes = 8;
    });
    expect_bad([](Arguments& it) {
        it.name_bytes = 49;
        it.new_name_bytes = 49;
    });
}

/// Whatever the bytes are, the command stays within its copies and the arena.
TEST(CommandCode, RandomBytes) {
    const Seed seed;
    Random random(seed.value());
    Bench bench;
    const std::vector<u32> groups{1};
    u32 accepted = 0;
    for (u32 i = 0; i < 200'000; ++i) {
        CommandCell& cell = bench.ring.commands[0];
        for (Piece& piece : cell.pieces)
            piece = {random.next(), (random.next() & 0xffffffff) | u64{1} << 32};
        // Mostly plausible, or nothing would get past the first check.
        if (random.below(4) != 0) {
            Head head = unpack_head([&](u32 word) { return cell_word(cell, word); });
            head.verb %= verb_count;
            head.flags &= head_flags_all;
            head.name_bytes = (head.flags & head_has_name) != 0 ? head.name_bytes % 49 : 0;
            head.block = {random.below(900) * 64, (2 + random.below(60)) * 64};
            bench.write_head(head, 0);
            auto* words = reinterpret_cast<u32*>(bench.ring.arena.base + head.block.offset);
            for (u32 word = 0; word < 48; ++word)
                words[word] = static_cast<u32>(random.next() >> random.below(64));
            words[39] = 0;
        }
        RingReader reader(bench.ring, client_stamp(groups));
        Received received;
        ASSERT_TRUE(reader.take(received));
        if (received.verdict != Errc::ok) continue;
        ++accepted;
        const ops::Command& command = received.command;
        ASSERT_EQ(command.caller.user, 1000u);
        ASSERT_TRUE(command.caller.check);
        const auto* arena = bench.ring.arena.base;
        const auto* buffer = static_cast<std::byte*>(command.buffer);
        ASSERT_TRUE(buffer == nullptr || (buffer >= arena && buffer + command.buffer_bytes <=
                                                                 arena + bench.ring.arena.bytes));
        // The sanitizers notice a pointer that leads out of the copies.
        u64 sum = 0;
        for (u32 at = 0; at < command.name_length; ++at)
            sum += static_cast<u8>(command.name[at]);
        for (u32 at = 0; at < command.new_name_length; ++at)
            sum += static_cast<u8>(command.new_name[at]);
        for (u64 at = 0; at < command.text_bytes; ++at)
            sum += static_cast<u8>(static_cast<const char*>(command.text)[at]);
        ASSERT_LT(sum, u64{1} << 32);
    }
    EXPECT_GT(accepted, 0u);
}

TEST(CommandCode, ChangedAfterSubmission) {
    const Seed seed;
    Random random(seed.value());
    Bench bench;
    auto sample = sample_command(random, ops::Verb::create);
    sample->name.assign(200, 'n');
    sample->command.name = sample->name.data();
    sample->command.name_length = 200;
    bench.write(sample->command, true, 0);
    RingReader reader(bench.ring, trusted_stamp());
    Received received;
    ASSERT_TRUE(reader.take(received));
    ASSERT_EQ(received.verdict, Errc::ok);
    for (Bench::Line& line : bench.memory)
        std::memset(line.bytes, 0xff, sizeof line.bytes);
    expect_same_command(sample->command, received.command);
    expect_same_caller(sample->command.caller, received.command.caller);
}

TEST(CommandCode, TooMuchForTheArena) {
    std::vector<u32> groups(core::groups_max + 1);
    ops::Command command;
    command.caller.groups = groups.data();
    command.caller.group_count = core::groups_max;
    EXPECT_TRUE(block_bytes_of(command, true));
    command.caller.group_count = core::groups_max + 1;
    EXPECT_EQ(block_bytes_of(command, true).code(), Errc::invalid);
    command.caller.group_count = 0;
    command.text = groups.data();
    command.text_bytes = text_bytes_max + 1;
    EXPECT_EQ(block_bytes_of(command, true).code(), Errc::invalid);
}

void fill_attributes(Random& random, Attributes& attributes) {
    attributes.handle = {1 + random.next() % 1000, static_cast<u32>(random.next())};
    u32* const words[] = {&attributes.mode, &attributes.links, &attributes.user, &attributes.group,
                          &attributes.device};
    for (u32* word : words)
        *word = static_cast<u32>(random.next());
    attributes.size = random.next();
    attributes.blocks = random.next();
    attributes.parent = random.next();
    i64* const times[] = {&attributes.accessed, &attributes.modified, &attributes.changed,
                          &attributes.born};
    for (i64* time : times)
        *time = static_cast<i64>(random.next());
}

ops::Reply back_and_forth(u32 ticket, ops::Verb verb, const ops::Reply& reply) {
    ReplyWords words;
    encode_reply(ticket, verb, reply, words);
    EXPECT_LE(words.slots(), completion_slots);
    EXPECT_EQ(words.count % words_per_slot, 0u);
    EXPECT_EQ((words_of(words.mask()) + words_per_slot - 1) / words_per_slot, words.slots());
    ops::Reply got;
    EXPECT_EQ(decode_reply(words, got), ticket);
    return got;
}

/// A reply as an operation of `verb` might give it.
ops::Reply sample_reply(Random& random, ops::Verb verb) {
    ops::Reply reply;
    reply.code = random.below(4) != 0   ? Errc::ok
                 : random.below(2) != 0 ? Errc::need_block
                                        : Errc::no_entry;
    if (verb == ops::Verb::map) {
        reply.mapping = {ops::MappingKind::bytes, random.below(2) != 0, 1, 2, 3, {},
                         {4, random.next()}};
        for (u64& word : reply.mapping.bytes.words)
            word = random.next();
    } else if (verb == ops::Verb::fill) {
        reply.value = sometimes(random, ~u64{0});
        reply.has_piece = true;
        reply.piece = {6,  random.next(), 8, random.below(2) != 0, random.below(2) != 0,
                       {}, random.next()};
        for (u64& word : reply.piece.bytes.words)
            word = random.next();
    } else {
        reply.value = sometimes(random, ~u64{0});
        reply.length = sometimes(random, ~u64{0});
        if (random.below(2) == 0) fill_attributes(random, reply.attributes);
        reply.removed = {{sometimes(random, 99), 1}, sometimes(random, 99), random.next()};
    }
    reply.may_use_reserve = random.below(2) != 0;
    reply.needed_place = random.next();
    reply.needed_inode = random.next();
    reply.needed_key = random.next();
    return reply;
}

void expect_same_answer(ops::Verb verb, const ops::Reply& sent, const ops::Reply& got) {
    ASSERT_EQ(got.attributes.handle, sent.attributes.handle);
    ASSERT_EQ(got.attributes.born, sent.attributes.born);
    ASSERT_EQ(got.attributes.size, sent.attributes.size);
    ASSERT_EQ(got.attributes.device, sent.attributes.device);
    if (sent.removed.reclaim.inode != 0 || sent.removed.prune_inode != 0) {
        ASSERT_EQ(got.removed.reclaim, sent.removed.reclaim);
        ASSERT_EQ(got.removed.prune_inode, sent.removed.prune_inode);
        ASSERT_EQ(got.removed.prune_key, sent.removed.prune_key);
    }
    if (verb == ops::Verb::map) {
        ASSERT_EQ(got.mapping.kind, sent.mapping.kind);
        ASSERT_EQ(got.mapping.is_shared, sent.mapping.is_shared);
        ASSERT_EQ(got.mapping.place, sent.mapping.place);
        ASSERT_EQ(got.mapping.blocks, sent.mapping.blocks);
        ASSERT_EQ(got.mapping.size, sent.mapping.size);
        ASSERT_EQ(got.mapping.bytes, sent.mapping.bytes);
        ASSERT_EQ(got.mapping.seen.version, sent.mapping.seen.version);
    }
    ASSERT_EQ(got.has_piece, sent.has_piece);
    if (!sent.has_piece) return;
    ASSERT_EQ(got.piece.file_block, sent.piece.file_block);
    ASSERT_EQ(got.piece.place, sent.piece.place);
    ASSERT_EQ(got.piece.old_place, sent.piece.old_place);
    ASSERT_EQ(got.piece.blocks, sent.piece.blocks);
    ASSERT_EQ(got.piece.keeps_rest, sent.piece.keeps_rest);
    ASSERT_EQ(got.piece.has_bytes, sent.piece.has_bytes);
    if (sent.piece.has_bytes) {
        ASSERT_EQ(got.piece.bytes, sent.piece.bytes);
    }
}

TEST(ReplyCode, EveryPartTravels) {
    const Seed seed;
    Random random(seed.value());
    for (u32 i = 0; i < 20'000; ++i) {
        const auto verb = static_cast<ops::Verb>(i % verb_count);
        const ops::Reply sent = sample_reply(random, verb);
        const ops::Reply got = back_and_forth(i, verb, sent);
        ASSERT_EQ(got.code, sent.code);
        ASSERT_EQ(got.value, sent.value);
        ASSERT_EQ(got.length, sent.length);
        ASSERT_EQ(got.may_use_reserve, sent.may_use_reserve);
        if (!is_final(sent.code)) {
            ASSERT_EQ(got.needed_place, sent.needed_place);
            ASSERT_EQ(got.needed_inode, sent.needed_inode);
            ASSERT_EQ(got.needed_key, sent.needed_key);
        }
        if (sent.code == Errc::ok) expect_same_answer(verb, sent, got);
        if (testing::Test::HasFailure()) return;
    }
}

// The engine on a GPU copies the words of a completion straight from the inode.
TEST(ReplyCode, AttributesLieInTheInodeWhereItSays) {
    alignas(16) u32 words[format::inode_size / 4];
    for (u32 i = 0; i < std::size(words); ++i)
        words[i] = i * 0x01010101u;
    core::InodeRef at;
    at.at = reinterpret_cast<format::Inode*>(words);
    at.number = 77;
    at.generation = at.at->generation;
    ops::Reply reply;
    reply.attributes = core::read_attributes(at);
    ring::ReplyWords out;
    ring::encode_reply(5, ops::Verb::get_attributes, reply, out);
    ASSERT_EQ(out.count, ring::attribute_words_end);
    EXPECT_EQ(out.words[2], 77u);
    for (u32 i = ring::reply_header_words + 2; i < ring::attribute_words_end; ++i)
        EXPECT_EQ(out.words[i], words[ring::attribute_source(i)]) << i;
}

}  // namespace
}  // namespace warren::ring::command_code_test
