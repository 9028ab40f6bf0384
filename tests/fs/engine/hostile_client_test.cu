// SPDX-License-Identifier: Apache-2.0
// A client of a ring that writes arbitrary data: random words, commands that are right except for
// one field, and commands that change while the engine works on them. Each gets a completion of its
// own; commands of a trusted ring succeed afterwards; the volume is clean in the end.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/random.hpp"
#include "fs/ring/encode_command.hpp"
#include "fs/ring/parking.hpp"
#include "gpu/device.hpp"
#include "tests/fs/engine/served_volume.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/seed.hpp"

namespace warren::hostile_client_test {
namespace {

using ops::Verb;
using Words = std::array<u32, ring::words_per_slot>;

constexpr u64 arena_bytes = 4 * mib;  // of ServedVolume's ring
constexpr Errc no_answer = Errc::retry;

/// The client's side of a ring without a client's precautions.
class HostileClient {
 public:
    explicit HostileClient(const ring::SharedRing& ring)
        : memory_(ring.ring()), doorbell_(ring.doorbell()), status_(ring.status()) {}

    /// Writes a head and the words behind it as the next command; returns its ticket.
    u64 submit(const Words& head, const Words& name) {
        const u64 ticket = next_++;
        write(ticket, head, name);
        ring::ring_doorbell(doorbell_, status_);
        return ticket;
    }
    /// Overwrites a command that was submitted, keeping its phase.
    void write(u64 ticket, const Words& head, const Words& name) {
        ring::CommandCell& cell = memory_.commands[ticket % memory_.cells];
        const u32 phase = ring::phase_of(ticket, memory_.cells);
        ring::store_slots(cell, 1, 1, name.data(), phase);
        ring::store_slots(cell, 0, 1, head.data(), phase);
    }
    /// The code of a command's completion; `no_answer` if none comes.
    Errc wait(u64 ticket) const {
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
        const auto& first = memory_.completions[ticket % memory_.cells].pieces[0];
        const u32 phase = ring::phase_of(ticket, memory_.cells);
        while (std::chrono::steady_clock::now() < until) {
            const ring::Piece piece = ring::load_piece(first);
            if (piece.phase() == phase) return static_cast<Errc>(piece.word(1) & 0xffff);
        }
        return no_answer;
    }
    std::byte* arena() { return memory_.arena.base; }
    u64 next_ticket() const { return next_; }

 private:
    const ring::RingMemory memory_;
    ring::Doorbell& doorbell_;
    const ring::ServerStatus& status_;
    std::atomic<u64> next_{0};
};

class HostileClients : public testing::Test {
 protected:
    void SetUp() override {
        if (gpu::device_count() == 0) GTEST_SKIP() << "there is no GPU";
        disk_ = make_memory_disk(128 * mib);
        ASSERT_EQ(volume_.open(*disk_), Errc::ok);
        root_ = volume_.root();
        ops::Command command = name_command(Verb::create, root_, "everybody's");
        command.mode = 040777;
        command.caller.umask = 0;
        ops::Reply reply;
        ASSERT_EQ(volume_.execute(command, reply), Errc::ok);
        open_to_all_ = reply.attributes.handle;
        ASSERT_EQ(volume_.restart({}, {1000, 1000, {}}, false), Errc::ok);
        client_ = std::make_unique<HostileClient>(volume_.ring());
    }
    void close() {
        ASSERT_EQ(volume_.restart({}), Errc::ok);
        ops::Reply reply;
        ASSERT_EQ(volume_.execute(name_command(Verb::create, root_, "ours"), reply), Errc::ok);
        ASSERT_EQ(volume_.execute(name_command(Verb::unlink, root_, "ours"), reply), Errc::ok);
        ASSERT_EQ(volume_.close(), Errc::ok);
        expect_clean(*disk_);
    }

    /// A well-formed command: on a name in the directory that all users may change.
    ring::Head good_head(Random& random) {
        constexpr Verb verbs[] = {Verb::lookup, Verb::create,         Verb::unlink,
                                  Verb::rename, Verb::set_attributes, Verb::get_attributes};
        ring::Head head{};
        head.verb = static_cast<u32>(verbs[random.below(std::size(verbs))]);
        head.flags = ring::head_has_name | (random.one_in(2) ? u32{ring::head_has_block} : 0);
        head.generation = open_to_all_.generation;
        head.inode = open_to_all_.inode;
        head.name_bytes = 1 + static_cast<u32>(random.below(8));
        head.mode = 0100644;
        head.block = {random.below(64) * 1024, 1024};
        head.now = 1'700'000'000'000'000'000;
        return head;
    }
    static Words words_of(const ring::Head& head) {
        Words words{};
        ring::pack_head(head, words.data());
        return words;
    }
    static Words random_words(Random& random) {
        Words words;
        for (u32& word : words)
            word = static_cast<u32>(random.next());
        return words;
    }

    std::unique_ptr<MemoryDisk> disk_;
    ServedVolume volume_;
    std::unique_ptr<HostileClient> client_;
    Handle root_;
    Handle open_to_all_;
};

TEST_F(HostileClients, MalformedCommandsGetTheirOwnErrors) {
    const Seed seed;
    Random random(seed.value());
    const u64 count = 3000 * test_load();
    for (u64 i = 0; i < arena_bytes; i += 8)
        *reinterpret_cast<u64*>(client_->arena() + i) = random.one_in(3) ? random.next() : 0;
    for (u64 i = 0; i < count && !HasFailure(); ++i) {
        Words head = words_of(good_head(random));
        const Words name = random_words(random);
        if (random.one_in(4)) {
            head = random_words(random);
        } else {
            head[random.below(head.size())] ^= u32{1} << random.below(32);
        }
        ASSERT_NE(client_->wait(client_->submit(head, name)), no_answer) << "command " << i;
    }
    close();
}

TEST_F(HostileClients, CommandsMayChangeAfterSubmission) {
    const Seed seed;
    const u64 count = 3000 * test_load();
    std::atomic<bool> ends{false};
    std::thread vandal([&] {
        Random random(seed.part(1));
        while (!ends.load(std::memory_order_relaxed)) {
            for (u32 i = 0; i < 64; ++i) {
                u64& word = *reinterpret_cast<u64*>(client_->arena() + random.below(8192) * 8);
                system_atomic<u64>(word).store(random.one_in(2) ? random.below(2048) : 0,
                                               hd::memory_order_relaxed);
            }
            const u64 next = client_->next_ticket();
            if (next > 0) client_->write(next - 1, random_words(random), random_words(random));
        }
    });
    Random random(seed.value());
    for (u64 i = 0; i < count && !HasFailure(); ++i) {
        const u64 ticket = client_->submit(words_of(good_head(random)), random_words(random));
        EXPECT_NE(client_->wait(ticket), no_answer) << "command " << i;
    }
    ends = true;
    vandal.join();
    close();
}

}  // namespace
}  // namespace warren::hostile_client_test
