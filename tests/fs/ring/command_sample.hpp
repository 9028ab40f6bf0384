// SPDX-License-Identifier: Apache-2.0
// Commands and replies with random contents, of any verb, for the tests of rings, and the
// comparison of what arrives at the other end.
//
// Invariant: a sample owns what its command points to.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "fs/ring/command_code.hpp"
#include "fs/ring/reply_code.hpp"

namespace warren::ring {

struct CommandSample {
    ops::Command command;
    std::string name;
    std::string new_name;
    std::vector<u32> groups;
    std::vector<std::byte> text;
    std::vector<std::byte> buffer;
};

inline std::string random_name(Random& random, u64 length_max) {
    std::string name(random.below(length_max + 1), ' ');
    for (char& letter : name)
        letter = static_cast<char>(random.below(256));
    return name;
}

/// Zero half of the time, so that short encodings are covered too.
inline u64 sometimes(Random& random, u64 below) {
    return random.below(2) == 0 ? 0 : random.below(below);
}

inline void fill_change(Random& random, AttributeChange& change) {
    change.which = static_cast<u32>(random.below(128));
    change.new_mode = static_cast<u32>(random.below(~u32{0}));
    change.new_user = static_cast<u32>(random.below(~u32{0}));
    change.new_group = static_cast<u32>(random.below(~u32{0}));
    change.new_size = random.next();
    change.new_accessed = static_cast<i64>(random.next());
    change.new_modified = static_cast<i64>(random.next());
    change.new_changed = static_cast<i64>(random.next());
}

/// A command of `verb` whose other fields are random, whether the verb uses them or not.
inline std::unique_ptr<CommandSample> sample_command(Random& random, ops::Verb verb) {
    auto sample = std::make_unique<CommandSample>();
    ops::Command& command = sample->command;
    command.verb = verb;
    command.how = static_cast<u8>(random.below(256));
    command.may_use_reserve = random.below(2) != 0;
    command.handle = {random.below(u64{1} << (random.below(8) == 0 ? 63 : 40)),
                      static_cast<u32>(random.below(~u32{0}))};
    sample->name = random_name(random, random.below(4) == 0 ? 255 : 48);
    command.name = sample->name.data();
    command.name_length = static_cast<u32>(sample->name.size());
    command.mode = static_cast<u32>(random.below(random.below(8) == 0 ? ~u32{0} : 65536));
    const u64 references[] = {0, ops::one_lookup, ops::one_open, ops::one_lookup + ops::one_open,
                              random.next()};
    command.references = references[random.below(5)];
    command.now = static_cast<i64>(random.next());
    command.caller.user = static_cast<u32>(random.below(~u32{0}));
    command.caller.group = static_cast<u32>(random.below(~u32{0}));
    command.caller.umask = static_cast<u32>(random.below(512));
    command.caller.check = random.below(2) != 0;
    command.from = sometimes(random, ~u64{0});
    command.length = sometimes(random, ~u64{0});
    if (random.below(4) == 0) command.to = random.next();
    if (random.below(2) == 0) return sample;
    command.target = {sometimes(random, ~u64{0}), static_cast<u32>(sometimes(random, ~u32{0}))};
    command.device = static_cast<u32>(sometimes(random, ~u32{0}));
    command.retry_reason = random.below(4) == 0 ? Errc::need_split : Errc::ok;
    if (random.below(2) == 0) fill_change(random, command.change);
    sample->new_name = random_name(random, sometimes(random, 256));
    command.new_name = sample->new_name.data();
    command.new_name_length = static_cast<u32>(sample->new_name.size());
    sample->groups.resize(sometimes(random, 100));
    for (u32& group : sample->groups)
        group = static_cast<u32>(random.below(~u32{0}));
    command.caller.groups = sample->groups.data();
    command.caller.group_count = static_cast<u32>(sample->groups.size());
    sample->text.resize(sometimes(random, 5000));
    for (std::byte& byte : sample->text)
        byte = static_cast<std::byte>(random.below(256));
    command.text = sample->text.data();
    command.text_bytes = sample->text.size();
    sample->buffer.resize(sometimes(random, 5000));
    command.buffer = sample->buffer.data();
    command.buffer_bytes = sample->buffer.size();
    return sample;
}

inline bool same_bytes(const void* left, const void* right, u64 bytes) {
    return bytes == 0 || std::memcmp(left, right, bytes) == 0;
}

/// Compares all but the credentials and the addresses of buffers.
inline void expect_same_command(const ops::Command& sent, const ops::Command& got) {
    // Names each member, so that a new member breaks the build here.
    const auto& [verb, how, may_use_reserve, retry_reason, caller, handle, target, name, new_name,
                 name_length, new_name_length, mode, device, references, from, to, length, now,
                 change, text, text_bytes, buffer, buffer_bytes, walk] = sent;
    static_cast<void>(walk);
    EXPECT_EQ(sent.verb, got.verb);
    EXPECT_EQ(sent.how, got.how);
    EXPECT_EQ(sent.may_use_reserve, got.may_use_reserve);
    EXPECT_EQ(sent.retry_reason, got.retry_reason);
    EXPECT_EQ(sent.handle, got.handle);
    EXPECT_EQ(sent.target, got.target);
    EXPECT_EQ(sent.mode, got.mode);
    EXPECT_EQ(sent.device, got.device);
    EXPECT_EQ(sent.references, got.references);
    EXPECT_EQ(sent.from, got.from);
    EXPECT_EQ(sent.to, got.to);
    EXPECT_EQ(sent.length, got.length);
    EXPECT_EQ(sent.now, got.now);
    ASSERT_EQ(sent.name_length, got.name_length);
    EXPECT_TRUE(same_bytes(sent.name, got.name, sent.name_length));
    ASSERT_EQ(sent.new_name_length, got.new_name_length);
    EXPECT_TRUE(same_bytes(sent.new_name, got.new_name, sent.new_name_length));
    ASSERT_EQ(sent.text_bytes, got.text_bytes);
    EXPECT_TRUE(same_bytes(sent.text, got.text, sent.text_bytes));
    EXPECT_EQ(sent.buffer_bytes, got.buffer_bytes);
    EXPECT_EQ(sent.change.which, got.change.which);
    if (sent.change.which == 0) return;
    EXPECT_EQ(sent.change.new_mode, got.change.new_mode);
    EXPECT_EQ(sent.change.new_user, got.change.new_user);
    EXPECT_EQ(sent.change.new_group, got.change.new_group);
    EXPECT_EQ(sent.change.new_size, got.change.new_size);
    EXPECT_EQ(sent.change.new_accessed, got.change.new_accessed);
    EXPECT_EQ(sent.change.new_modified, got.change.new_modified);
    EXPECT_EQ(sent.change.new_changed, got.change.new_changed);
}

inline void expect_same_caller(const core::Credentials& left, const core::Credentials& right) {
    EXPECT_EQ(left.user, right.user);
    EXPECT_EQ(left.group, right.group);
    EXPECT_EQ(left.umask, right.umask);
    EXPECT_EQ(left.check, right.check);
    ASSERT_EQ(left.group_count, right.group_count);
    EXPECT_TRUE(same_bytes(left.groups, right.groups, u64{left.group_count} * sizeof(u32)));
}

}  // namespace warren::ring
