// SPDX-License-Identifier: Apache-2.0
// Both ends of a ring at once: client threads and an engine on a host thread, with a ring small
// enough to be full and to wrap all the time, commands of all sizes, completions out of order, and
// an engine that parks whenever it finds nothing.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <thread>

#include "fs/ring/client.hpp"
#include "fs/ring/parking.hpp"
#include "fs/ring/reader.hpp"
#include "fs/ring/shared_ring.hpp"
#include "tests/fs/ring/command_sample.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/seed.hpp"

namespace warren::ring::protocol_test {
namespace {

constexpr u32 patience_ms = 60'000;

/// The answer of this test's engine: a sum over the command, and its text in the buffer.
u64 sum_of(const ops::Command& command) {
    u64 sum = static_cast<u64>(command.verb) + command.handle.inode * 3 + command.from * 5 +
              static_cast<u64>(command.now);
    for (u32 i = 0; i < command.name_length; ++i)
        sum = sum * 31 + static_cast<u8>(command.name[i]);
    for (u64 i = 0; i < command.text_bytes; ++i)
        sum = sum * 37 + static_cast<u8>(static_cast<const char*>(command.text)[i]);
    return sum;
}

/// Serves a ring, as the resident server does.
class HostEngine {
 public:
    HostEngine(SharedRing& ring, u64 seed, u32 idle_looks)
        : ring_(ring),
          random_(seed),
          idle_looks_(idle_looks),
          reader_(ring.ring(), ring.stamp()),
          thread_([this] { run(); }) {}
    ~HostEngine() {
        stops_.store(true, std::memory_order_relaxed);
        wake(ring_.doorbell());
        thread_.join();
    }

    u64 parks() const { return parks_.load(std::memory_order_relaxed); }

 private:
    void answer(const Received& received) {
        ops::Reply reply;
        reply.code = received.verdict;
        const ops::Command& command = received.command;
        if (reply.code == Errc::ok) {
            reply.attributes.handle = {1, 1};
            reply.attributes.size = sum_of(command);
            reply.value = std::min(command.text_bytes, command.buffer_bytes);
            const auto* text = static_cast<const std::byte*>(command.text);
            if (reply.value != 0)
                std::copy_n(text, reply.value, static_cast<std::byte*>(command.buffer));
        }
        reader_.complete(received, reply);
    }

    bool look() {
        bool found = false;
        for (;;) {
            auto received = std::make_unique<Received>();
            if (!reader_.take(*received)) return found;
            found = true;
            // Some are held back for a while, so that answers come in another order.
            if (random_.below(2) == 0) {
                answer(*received);
            } else {
                held_.push_back(std::move(received));
            }
        }
    }

    void park() {
        const u32 seen = wakes_seen(ring_.doorbell());
        begin_parking(ring_.status());
        if (!reader_.has_command() && !stops_.load(std::memory_order_relaxed)) {
            parks_.fetch_add(1, std::memory_order_relaxed);
            // Far longer than the test takes: a lost wake is noticed.
            wait_for_wake(ring_.doorbell(), seen, patience_ms);
        }
        end_parking(ring_.status());
    }

    void run() {
        u32 idle = 0;
        while (!stops_.load(std::memory_order_relaxed)) {
            if (look()) {
                idle = 0;
                continue;
            }
            if (!held_.empty()) {
                const u64 which = random_.below(held_.size());
                std::swap(held_[which], held_.front());
                answer(*held_.front());
                held_.pop_front();
            } else if (++idle > idle_looks_) {
                park();
                idle = 0;
            } else {
                std::this_thread::yield();
            }
        }
    }

    SharedRing& ring_;
    Random random_;
    const u32 idle_looks_;
    RingReader reader_;
    std::deque<std::unique_ptr<Received>> held_;
    std::atomic<bool> stops_{false};
    std::atomic<u64> parks_{0};
    std::thread thread_;
};

/// A command of this test: mostly small, sometimes with a text and a buffer.
std::unique_ptr<CommandSample> small_command(Random& random) {
    auto sample = std::make_unique<CommandSample>();
    ops::Command& command = sample->command;
    command.verb = ops::Verb::get_attribute;
    command.handle = {random.below(1000), 1};
    command.now = static_cast<i64>(random.below(1000));
    sample->name = random_name(random, random.below(8) == 0 ? 255 : 40);
    command.name = sample->name.data();
    command.name_length = static_cast<u32>(sample->name.size());
    if (random.below(8) != 0) return sample;
    command.from = random.next();
    sample->text.resize(random.below(2000));
    for (std::byte& byte : sample->text)
        byte = static_cast<std::byte>(random.below(256));
    sample->buffer.resize(sample->text.size());
    command.text = sample->text.data();
    command.text_bytes = sample->text.size();
    command.buffer = sample->buffer.data();
    command.buffer_bytes = sample->buffer.size();
    return sample;
}

void expect_answer(const CommandSample& sample, const ops::Reply& reply) {
    ASSERT_EQ(reply.code, Errc::ok);
    ASSERT_EQ(reply.attributes.size, sum_of(sample.command));
    ASSERT_EQ(reply.value, sample.text.size());
    ASSERT_EQ(sample.buffer, sample.text);
}

/// Submits `count` commands, never more than some at once, and collects their replies. Adds to
/// `refused` how often the ring was full.
void converse(RingClient& client, u64 seed, u64 count, std::atomic<u64>& refused) {
    Random random(seed);
    struct Out {
        u64 ticket;
        std::unique_ptr<CommandSample> sample;
    };
    std::deque<Out> out;
    const auto take_one = [&] {
        std::swap(out[random.below(out.size())], out.front());
        ops::Reply reply;
        ASSERT_EQ(client.wait(out.front().ticket, reply, patience_ms), Errc::ok);
        expect_answer(*out.front().sample, reply);
        out.pop_front();
    };
    for (u64 i = 0; i < count && !testing::Test::HasFailure();) {
        auto sample = small_command(random);
        const Result<u64> ticket = client.submit(sample->command);
        if (ticket) {
            out.push_back({*ticket, std::move(sample)});
            ++i;
        } else {
            ASSERT_EQ(ticket.code(), Errc::busy);
            refused.fetch_add(1, std::memory_order_relaxed);
            // The ring is full with other threads' commands: let them go on.
            if (out.empty()) std::this_thread::yield();
        }
        const bool is_quiet = random.below(200) == 0;
        while (!out.empty() && (is_quiet || !ticket || out.size() > 20)) {
            take_one();
            if (!is_quiet) break;
        }
    }
    while (!out.empty() && !testing::Test::HasFailure())
        take_one();
}

TEST(RingProtocol, ManyThreadsAndAnEngineThatParks) {
    const Seed seed;
    SharedRing ring;
    ASSERT_EQ(ring.create({16, 32 * kib}, {}, true), Errc::ok);
    RingClient client(ring.ring(), ring.doorbell(), ring.status(), true);
    u64 parks = 0;
    std::atomic<u64> refused{0};
    {
        HostEngine engine(ring, seed.part(99), 3);
        std::vector<std::thread> threads;
        for (u32 i = 0; i < 3; ++i) {
            threads.emplace_back(
                [&, i] { converse(client, seed.part(i), 20'000 * test_load(), refused); });
        }
        for (std::thread& thread : threads)
            thread.join();
        // On a loaded machine the engine may not have been idle until here.
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (engine.parks() == 0 && std::chrono::steady_clock::now() < deadline)
            std::this_thread::yield();
        parks = engine.parks();
        converse(client, seed.part(98), 100, refused);
    }
    EXPECT_GT(refused.load(), 0u);
    EXPECT_GT(parks, 0u);
}

TEST(RingProtocol, OneAtATimeAgainstAnEngineThatAlwaysParks) {
    const Seed seed;
    SharedRing ring;
    ASSERT_EQ(ring.create({4, 64 * kib}, {}, true), Errc::ok);
    RingClient client(ring.ring(), ring.doorbell(), ring.status(), true);
    HostEngine engine(ring, seed.part(1), 0);
    Random random(seed.value());
    for (u32 i = 0; i < 10'000; ++i) {
        const auto sample = small_command(random);
        const Result<u64> ticket = client.submit(sample->command);
        ASSERT_TRUE(ticket);
        ops::Reply reply;
        ASSERT_EQ(client.wait(*ticket, reply, patience_ms), Errc::ok);
        expect_answer(*sample, reply);
    }
    EXPECT_GT(engine.parks(), 100u);
}

TEST(RingProtocol, BatchesWithOneStroke) {
    const Seed seed;
    SharedRing ring;
    ASSERT_EQ(ring.create({1024, mib}, {}, true), Errc::ok);
    RingClient client(ring.ring(), ring.doorbell(), ring.status(), true);
    HostEngine engine(ring, seed.part(1), 10);
    Random random(seed.value());
    for (u32 round = 0; round < 50; ++round) {
        std::vector<std::unique_ptr<CommandSample>> samples;
        std::vector<ops::Command> commands;
        for (u64 i = 0; i < 1 + random.below(1500); ++i) {
            samples.push_back(small_command(random));
            commands.push_back(samples.back()->command);
        }
        std::vector<u64> tickets(commands.size());
        for (u64 begin = 0; begin < commands.size();) {
            Errc failure;
            const u32 count = client.submit_many(std::span(commands).subspan(begin),
                                                 std::span(tickets).subspan(begin), failure);
            for (u64 i = begin; i < begin + count; ++i) {
                ops::Reply reply;
                ASSERT_EQ(client.wait(tickets[i], reply, patience_ms), Errc::ok);
                expect_answer(*samples[i], reply);
            }
            begin += count;
            ASSERT_TRUE(failure == Errc::busy || begin == commands.size());
        }
    }
}

TEST(RingProtocol, AFullRingSaysSoAndALostEngineToo) {
    SharedRing ring;
    ASSERT_EQ(ring.create({4, 4 * kib}, {}, true), Errc::ok);
    RingClient client(ring.ring(), ring.doorbell(), ring.status(), true);
    const ops::Command command;
    for (u32 i = 0; i < 4; ++i)
        ASSERT_TRUE(client.submit(command));
    EXPECT_EQ(client.submit(command).code(), Errc::busy);
    ops::Reply reply;
    EXPECT_EQ(client.wait(0, reply, 10), Errc::busy);
    ring.status().lost = 1;
    EXPECT_EQ(client.wait(0, reply, patience_ms), Errc::io);
    ops::Command large;
    std::vector<std::byte> buffer(5 * kib);
    large.buffer = buffer.data();
    large.buffer_bytes = buffer.size();
    EXPECT_EQ(client.submit(large).code(), Errc::invalid);
}

TEST(ArenaSpace, GivesAndTakes) {
    const Seed seed;
    Random random(seed.value());
    constexpr u64 parts = 1024;  // as many as fit
    ArenaSpace space(64 * kib, parts);
    std::vector<ArenaRange> taken;
    taken.reserve(parts);
    std::vector<bool> used(parts);
    const auto mark = [&](const ArenaRange& range, bool value) {
        for (u64 i = range.offset / 64; i < (range.offset + range.bytes) / 64; ++i) {
            ASSERT_NE(used[i], value);
            used[i] = value;
        }
    };
    for (u32 i = 0; i < 20'000; ++i) {
        const FailingAllocation any(1);  // there is none
        const u64 bytes_max = random.one_in(2) ? arena_granule : 8 * kib;
        const Result<ArenaRange> range = space.take(1 + random.below(bytes_max));
        if (range) {
            mark(*range, true);
            taken.push_back(*range);
        }
        if (!range || random.below(3) == 0) {
            std::swap(taken[random.below(taken.size())], taken.back());
            mark(taken.back(), false);
            space.give_back(taken.back());
            taken.pop_back();
        }
        ASSERT_EQ(any.count(), 0u);
        if (testing::Test::HasFailure()) return;
    }
    for (const ArenaRange& range : taken)
        space.give_back(range);
    EXPECT_TRUE(space.take(64 * kib));
}

}  // namespace
}  // namespace warren::ring::protocol_test
