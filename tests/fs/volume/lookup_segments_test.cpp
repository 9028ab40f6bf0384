// SPDX-License-Identifier: Apache-2.0
// Look-ups in segments against a stream that answers in any order, has few slots, little room for
// names, and fails.
#include "fs/volume/lookup_segments.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "tests/support/lookup_memory.hpp"
#include "tests/support/seed.hpp"

namespace warren::lookup_segments_test {
namespace {

/// Answers a name with its length and its first word; a name that begins with "left" is left to the
/// caller, one that begins with "none" is not there.
class FakeStream final : public LookupStream {
 public:
    FakeStream(const LookupStreamShape& shape, u64 seed)
        : shape_(shape), random_(seed), slots_(shape.slots, Slot(shape)) {}

    u64 starts() const { return starts_; }
    /// Pieces from this one on fail: the even ones at their start, for lack of memory or by a
    /// device error, the others later.
    void fail_from(u64 segment) { fails_from_ = segment; }
    /// One in so many queries finds a segment done.
    void take_long(u64 odds) { done_odds_ = odds; }

    LookupStreamShape shape() const override { return shape_; }
    ops::BatchMemory memory(u32 slot) override { return slots_[slot].shown(); }
    Errc start(u32 slot, u64 items, u64 words) override {
        const u64 segment = starts_++;
        Slot& one = slots_[slot];
        EXPECT_FALSE(one.is_under_way);
        EXPECT_GT(items, 0u);
        EXPECT_LE(items, shape_.items_max);
        EXPECT_LE(words, shape_.words_max);
        one.fails = segment >= fails_from_;
        if (one.fails && segment % 4 == 0) throw std::bad_alloc();
        if (one.fails && segment % 4 == 2) return Errc::io;
        for (u64 i = 0; i < items; ++i)
            answer(one, i);
        one.is_under_way = true;
        return Errc::ok;
    }
    Errc poll(u32 slot) override {
        Slot& one = slots_[slot];
        EXPECT_TRUE(one.is_under_way);
        if (!random_.one_in(done_odds_)) return Errc::busy;
        one.is_under_way = false;
        return one.fails ? Errc::io : Errc::ok;
    }

 private:
    struct Slot : LookupMemory {
        using LookupMemory::LookupMemory;
        bool is_under_way = false;
        bool fails = false;
    };

    static void answer(Slot& one, u64 i) {
        const ops::BatchOperand& operand = one.operands[i];
        if (operand.length() > format::name_length_max) {
            one.codes[i] = Errc::retry;
            return;
        }
        const std::string name(reinterpret_cast<const char*>(one.names.data() + operand.name),
                               operand.length());
        one.codes[i] = name.starts_with("left")   ? Errc::retry
                       : name.starts_with("none") ? Errc::no_entry
                                                  : Errc::ok;
        one.attributes[i] = Attributes{};
        one.attributes[i].handle = {operand.directory(), operand.generation};
        one.attributes[i].size = std::hash<std::string>{}(name);
    }

    const LookupStreamShape shape_;
    Random random_;
    std::vector<Slot> slots_;
    u64 starts_ = 0;
    u64 fails_from_ = ~u64{0};
    u64 done_odds_ = 4;
};

struct Question {
    Handle directory;
    std::string name;
};

std::vector<Question> random_questions(Random& random, u64 count) {
    std::vector<Question> all;
    for (u64 i = 0; i < count; ++i) {
        std::string name = "name" + std::to_string(i);
        if (random.one_in(20)) name = "left" + name;
        if (random.one_in(20)) name = "none" + name;
        if (random.one_in(10)) name += std::string(random.below(260), 'x');
        all.push_back({{i + 2, static_cast<u32>(random.below(100))}, name});
    }
    return all;
}

Errc wanted_code(const std::string& name) {
    if (name.size() > format::name_length_max || name.starts_with("left")) return Errc::retry;
    return name.starts_with("none") ? Errc::no_entry : Errc::ok;
}

/// The answers. Expects that exactly the items with Errc::retry are reported as left, once each.
std::vector<Result<Attributes>> look_up(FakeStream& stream, const std::vector<Question>& questions,
                                        u32 workers) {
    std::vector<Lookup> lookups;
    for (const Question& one : questions)
        lookups.push_back({one.directory, one.name});
    std::vector<Result<Attributes>> answers(lookups.size(), Errc::corrupt);
    LookupSegments segments(stream, lookups, answers, workers);
    std::vector<std::thread> others;
    for (u32 i = 1; i < workers; ++i)
        others.emplace_back([&] { segments.work(); });
    segments.work();
    for (std::thread& other : others)
        other.join();
    std::vector<u64> left;
    for (u64 i = 0; i < answers.size(); ++i) {
        if (answers[i].code() == Errc::retry) left.push_back(i);
    }
    std::sort(segments.left().begin(), segments.left().end());
    EXPECT_EQ(segments.left(), left);
    return answers;
}

TEST(LookupSegments, AnswerEveryItem) {
    const Seed seed;
    Random random(seed.value());
    // Room for one name of any length at a time, for a few, for more than there are.
    for (const LookupStreamShape& shape :
         {LookupStreamShape{1, 1, 32}, LookupStreamShape{2, 64, 32}, LookupStreamShape{3, 100, 170},
          LookupStreamShape{24, 16'384, 65'536}}) {
        for (const u32 workers : {1u, 2u, 5u}) {
            SCOPED_TRACE(std::to_string(shape.items_max) + " by " + std::to_string(workers));
            const auto questions = random_questions(random, 1 + random.below(5000));
            FakeStream stream(shape, random.next());
            // Slow enough that a worker without work goes through every kind of wait.
            if (shape.items_max >= 100) stream.take_long(1 + random.below(300));
            const auto answers = look_up(stream, questions, workers);
            for (std::size_t i = 0; i < questions.size(); ++i) {
                const Question& asked = questions[i];
                const Errc wanted = wanted_code(asked.name);
                ASSERT_EQ(answers[i].code(), wanted) << i << " " << asked.name;
                if (wanted != Errc::ok) continue;
                ASSERT_EQ(answers[i]->handle.inode, asked.directory.inode);
                ASSERT_EQ(answers[i]->handle.generation, asked.directory.generation);
                ASSERT_EQ(answers[i]->size, std::hash<std::string>{}(asked.name));
            }
        }
    }
}

TEST(LookupSegments, LeaveWhatAStreamFails) {
    const Seed seed;
    Random random(seed.value());
    const auto questions = random_questions(random, 2000);
    constexpr LookupStreamShape shape{3, 128, 300};
    u64 segments = 1;
    for (u64 first = 0; first < segments; ++first) {
        SCOPED_TRACE(first);
        FakeStream stream(shape, random.next());
        stream.fail_from(first);
        const auto answers = look_up(stream, questions, 2);
        segments = stream.starts();
        for (std::size_t i = 0; i < questions.size(); ++i) {
            if (answers[i].code() == Errc::retry) continue;
            ASSERT_EQ(answers[i].code(), wanted_code(questions[i].name)) << i;
        }
    }
    EXPECT_GT(segments, 10u);
}

}  // namespace
}  // namespace warren::lookup_segments_test
