// SPDX-License-Identifier: Apache-2.0
// Mode bits and sticky directories for each kind of caller, against path_resolution(7) written down
// case by case.
#include "fs/core/permission.hpp"

#include <gtest/gtest.h>

namespace warren::core::permission_test {
namespace {

constexpr u32 owner = 1000;
constexpr u32 group = 100;
constexpr u32 other_group = 200;
constexpr u32 groups[] = {group};

Credentials caller_of(u32 user, bool is_member) {
    Credentials caller;
    caller.user = user;
    caller.group = other_group;
    caller.groups = groups;
    caller.group_count = is_member ? 1 : 0;
    return caller;
}

TEST(ModeBits, CountForOwnerOrGroupOrOthersAndNeverForTwo) {
    for (u32 bits = 0; bits <= 0777; ++bits) {
        const u32 mode = format::type_regular | bits;
        for (u32 wanted = 0; wanted <= 7; ++wanted) {
            const auto ask = [&](const Credentials& caller) {
                return ask_mode(caller, mode, owner, group, wanted);
            };
            const auto has = [&](u32 three) { return (three & wanted) == wanted; };
            const ModeAnswer of_owner = ask(caller_of(owner, true));
            EXPECT_EQ(of_owner.allows, has(bits / 64)) << bits << ' ' << wanted;
            EXPECT_FALSE(of_owner.yields_to_acl);
            const ModeAnswer of_member = ask(caller_of(7, true));
            EXPECT_EQ(of_member.allows, has(bits / 8 % 8)) << bits << ' ' << wanted;
            EXPECT_TRUE(of_member.yields_to_acl);
            const ModeAnswer of_others = ask(caller_of(7, false));
            EXPECT_EQ(of_others.allows, has(bits % 8)) << bits << ' ' << wanted;
            EXPECT_TRUE(of_others.yields_to_acl);
        }
    }
}

TEST(ModeBits, LetRootDoAllButExecuteWhatNobodyMay) {
    const Credentials root = caller_of(0, false);
    const auto may = [&](u32 mode, u32 wanted) {
        const ModeAnswer answer = ask_mode(root, mode, owner, group, wanted);
        EXPECT_FALSE(answer.yields_to_acl);
        return answer.allows;
    };
    EXPECT_TRUE(may(format::type_regular, may_read | may_write));
    EXPECT_FALSE(may(format::type_regular | 0666, may_execute));
    EXPECT_TRUE(may(format::type_regular | 0001, may_execute));
    EXPECT_TRUE(may(format::type_directory, may_execute));
    Credentials unchecked = caller_of(7, false);
    unchecked.check = false;
    EXPECT_TRUE(ask_mode(unchecked, format::type_regular, owner, group, 7).allows);
}

TEST(StickyDirectory, BindsAllButItsOwnerAndThePrivileged) {
    constexpr u32 sticky = format::type_directory | format::mode_sticky | 0777;
    EXPECT_TRUE(must_own_entries(caller_of(7, true), sticky, owner));
    EXPECT_FALSE(must_own_entries(caller_of(owner, false), sticky, owner));
    EXPECT_FALSE(must_own_entries(caller_of(0, false), sticky, owner));
    EXPECT_FALSE(must_own_entries(caller_of(7, true), format::type_directory | 0777, owner));
    Credentials unchecked = caller_of(7, false);
    unchecked.check = false;
    EXPECT_FALSE(must_own_entries(unchecked, sticky, owner));
}

}  // namespace
}  // namespace warren::core::permission_test
