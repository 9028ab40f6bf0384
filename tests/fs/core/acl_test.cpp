// SPDX-License-Identifier: Apache-2.0
// ACLs against cases worked out by hand from acl(5) and against a naive model: entries in maps, and
// each rule written as the manual page states it, without the sort order that the real code relies
// on.
#include "fs/core/acl.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "base/random.hpp"

namespace warren::core::acl_test {
namespace {

using Entries = std::vector<AclEntry>;
using Bytes = std::vector<std::byte>;

Bytes pack(const Entries& entries, u32 version = acl_version) {
    Bytes bytes(acl_header_bytes + entries.size() * acl_entry_bytes);
    const auto put = [&](size_t at, u32 value, size_t size) {
        for (size_t i = 0; i < size; ++i)
            bytes[at + i] = static_cast<std::byte>(value >> 8 * i);
    };
    put(0, version, 4);
    for (size_t i = 0; i < entries.size(); ++i) {
        put(4 + i * 8, entries[i].tag, 2);
        put(6 + i * 8, entries[i].permissions, 2);
        put(8 + i * 8, entries[i].id, 4);
    }
    return bytes;
}

AclValue value_of(const Bytes& bytes) {
    return {bytes.data(), static_cast<u32>(bytes.size())};
}
Errc check(const Entries& entries) {
    return check_acl(value_of(pack(entries)));
}

const Entries minimal = {
    {acl_user_object, 6, ~0u}, {acl_group_object, 4, ~0u}, {acl_other, 0, ~0u}};
const Entries extended = {{acl_user_object, 7, ~0u},  {acl_user, 6, 1000}, {acl_user, 5, 1001},
                          {acl_group_object, 5, ~0u}, {acl_group, 7, 100}, {acl_mask, 6, ~0u},
                          {acl_other, 1, ~0u}};

Entries with(Entries entries, size_t index, AclEntry entry) {
    entries[index] = entry;
    return entries;
}
Entries without(Entries entries, size_t index) {
    entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(index));
    return entries;
}

/// An attribute block with some records before the ACL, so that offsets matter.
struct BlockWithAcl {
    std::unique_ptr<AttributeBlock> block = std::make_unique<AttributeBlock>();
    AttributeRecord record;

    explicit BlockWithAcl(const Entries& entries, bool is_default = false) {
        const Bytes bytes = pack(entries);
        const std::byte other[3] = {};
        append_record(*block, "user.before", 11, other, 3);
        append_record(*block, is_default ? acl_default_name : acl_access_name,
                      is_default ? acl_default_length : acl_access_length, bytes.data(),
                      static_cast<u32>(bytes.size()));
        append_record(*block, "user.behind", 11, other, 2);
        record = is_default ? find_record(*block, acl_default_name, acl_default_length)
                            : find_record(*block, acl_access_name, acl_access_length);
    }
};

Entries unpack(const AttributeBlock& block, const AttributeRecord& record) {
    Entries entries;
    const AclInBlock acl{block, record};
    for (u32 i = 0; i < acl_count(acl); ++i)
        entries.push_back(acl_entry(acl, i));
    return entries;
}

bool same(const Entries& a, const Entries& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](AclEntry x, AclEntry y) {
        return std::tie(x.tag, x.permissions, x.id) == std::tie(y.tag, y.permissions, y.id);
    });
}

TEST(Acl, FormIsChecked) {
    EXPECT_EQ(check(minimal), Errc::ok);
    EXPECT_EQ(check(extended), Errc::ok);
    EXPECT_EQ(check_acl(value_of(pack(minimal, 1))), Errc::not_supported);
    for (u32 length = 0; length < 4; ++length) {
        EXPECT_EQ(check_acl(AclValue{pack(minimal).data(), length}), Errc::invalid);
    }
    Bytes cut = pack(minimal);
    cut.pop_back();
    EXPECT_EQ(check_acl(value_of(cut)), Errc::invalid);
    EXPECT_TRUE(acl_is_empty({nullptr, 0}));
    EXPECT_TRUE(acl_is_empty(value_of(pack({}))));
    EXPECT_FALSE(acl_is_empty(value_of(pack({}, 3))));
    EXPECT_FALSE(acl_is_empty(value_of(pack(minimal))));
    EXPECT_EQ(check({}), Errc::invalid);
}

TEST(Acl, EntriesAreChecked) {
    for (size_t i = 0; i < minimal.size(); ++i)
        EXPECT_EQ(check(without(minimal, i)), Errc::invalid);
    EXPECT_EQ(check(without(extended, 5)), Errc::invalid) << "names without a mask";
    EXPECT_EQ(check(with(extended, 2, {acl_user, 5, 1000})), Errc::invalid) << "a user twice";
    EXPECT_EQ(check(with(extended, 2, {acl_user, 5, 7})), Errc::ok) << "ids need no order";
    EXPECT_EQ(check(with(extended, 2, {acl_user, 5, ~0u})), Errc::invalid) << "no such user";
    EXPECT_EQ(check(with(extended, 2, {acl_user, 8, 1001})), Errc::invalid) << "no such permission";
    EXPECT_EQ(check(with(extended, 6, {0x40, 1, ~0u})), Errc::invalid) << "no such tag";
    EXPECT_EQ(check(with(extended, 5, {acl_mask | acl_group, 1, ~0u})), Errc::invalid);
    EXPECT_EQ(check(with(extended, 5, {0, 1, ~0u})), Errc::invalid) << "tag 0";
    EXPECT_EQ(check({minimal[0], minimal[1], {acl_mask, 7, ~0u}, minimal[2]}), Errc::ok);
    EXPECT_EQ(check({minimal[0], minimal[2], minimal[1]}), Errc::invalid) << "out of order";
    EXPECT_EQ(check({minimal[0], minimal[0], minimal[1], minimal[2]}), Errc::invalid);
    EXPECT_EQ(check({minimal[0], minimal[1], minimal[2], minimal[2]}), Errc::invalid);
    // A user and a group with the same number are different qualifiers.
    EXPECT_EQ(check(with(extended, 4, {acl_group, 7, 1000})), Errc::ok);
    // Not ascending, and the repeated entries are not adjacent.
    EXPECT_EQ(check({minimal[0],
                     {acl_user, 7, 9},
                     {acl_user, 7, 5},
                     {acl_user, 7, 7},
                     {acl_user, 7, 5},
                     minimal[1],
                     {acl_mask, 7, ~0u},
                     minimal[2]}),
              Errc::invalid);
}

TEST(Acl, StandsForModeBits) {
    const AclMode small = mode_of_acl(value_of(pack(minimal)));
    EXPECT_EQ(small.bits, 0640u);
    EXPECT_TRUE(small.is_equivalent);
    const AclMode large = mode_of_acl(value_of(pack(extended)));
    EXPECT_EQ(large.bits, 0761u) << "the mask is the group's bits";
    EXPECT_FALSE(large.is_equivalent);
    const AclMode masked =
        mode_of_acl(value_of(pack({minimal[0], minimal[1], {acl_mask, 7, ~0u}, minimal[2]})));
    EXPECT_EQ(masked.bits, 0670u);
    EXPECT_FALSE(masked.is_equivalent) << "a mask is more than mode bits can say";
}

TEST(Acl, FollowsChmod) {
    BlockWithAcl large(extended);
    store_acl_mode(*large.block, large.record, 0100751);
    Entries expected = with(extended, 0, {acl_user_object, 7, ~0u});
    expected[5].permissions = 5;
    expected[6].permissions = 1;
    EXPECT_TRUE(same(unpack(*large.block, large.record), expected)) << "names and group stay";

    BlockWithAcl small(minimal);
    store_acl_mode(*small.block, small.record, 0100027);
    EXPECT_EQ(mode_of_acl(AclInBlock{*small.block, small.record}).bits, 0027u);
    EXPECT_NE(find_record(*small.block, "user.behind", 11).offset, attribute_none);
}

struct Model {
    std::map<u32, u32> single;  // by tag
    std::map<u32, u32> users;
    std::map<u32, u32> groups;
    bool is_valid = true;

    explicit Model(const Entries& entries) {
        u32 last = 0;
        for (const AclEntry& entry : entries) {
            const bool is_name = entry.tag == acl_user || entry.tag == acl_group;
            auto& into = entry.tag == acl_user ? users : entry.tag == acl_group ? groups : single;
            const u32 key = is_name ? entry.id : entry.tag;
            if (!into.emplace(key, entry.permissions).second) is_valid = false;
            if (entry.permissions > 7 || (is_name && entry.id == ~0u)) is_valid = false;
            if (entry.tag < last) is_valid = false;
            last = entry.tag;
        }
        const std::set<u32> known = {acl_user_object, acl_group_object, acl_mask, acl_other};
        for (const auto& [tag, bits] : single)
            is_valid = is_valid && known.contains(tag);
        for (const u32 tag : {acl_user_object, acl_group_object, acl_other}) {
            is_valid = is_valid && single.contains(tag);
        }
        if (!users.empty() || !groups.empty()) is_valid = is_valid && single.contains(acl_mask);
    }
    u32 group_tag() const { return single.contains(acl_mask) ? acl_mask : acl_group_object; }
    u32 mode() const {
        return single.at(acl_user_object) << 6 | single.at(group_tag()) << 3 | single.at(acl_other);
    }
    bool is_equivalent() const { return !single.contains(acl_mask); }
    void set_mode(u32 mode) {
        single[acl_user_object] = mode >> 6 & 7;
        single[group_tag()] = mode >> 3 & 7;
        single[acl_other] = mode & 7;
    }
    Entries entries() const {
        Entries all;
        const auto add = [&](u32 tag) {
            if (single.contains(tag)) all.push_back({tag, single.at(tag), ~0u});
        };
        add(acl_user_object);
        for (const auto& [id, bits] : users)
            all.push_back({acl_user, bits, id});
        add(acl_group_object);
        for (const auto& [id, bits] : groups)
            all.push_back({acl_group, bits, id});
        add(acl_mask);
        add(acl_other);
        return all;
    }
    /// The access check algorithm of acl(5), for a caller who is not the owner.
    bool allows(const Credentials& caller, u32 owning_group, u32 wanted) const {
        const u32 mask = single.contains(acl_mask) ? single.at(acl_mask) : 7;
        const auto grants = [&](u32 bits) { return (wanted & ~bits) == 0; };
        if (users.contains(caller.user)) return grants(users.at(caller.user) & mask);
        std::vector<u32> matching;
        if (caller.is_in(owning_group)) matching.push_back(single.at(acl_group_object));
        for (const auto& [id, bits] : groups) {
            if (caller.is_in(id)) matching.push_back(bits);
        }
        if (matching.empty()) return grants(single.at(acl_other));
        for (const u32 bits : matching) {
            if (grants(bits & mask)) return true;
        }
        return false;
    }
};

/// An ACL that is valid more often than not.
Entries random_acl(Random& random) {
    const auto bits = [&] { return static_cast<u32>(random.below(8)); };
    std::set<u32> users;
    std::set<u32> groups;
    for (u64 i = random.below(4); i > 0; --i)
        users.insert(static_cast<u32>(random.below(6)));
    for (u64 i = random.below(4); i > 0; --i)
        groups.insert(static_cast<u32>(random.below(6)));
    Entries all = {{acl_user_object, bits(), ~0u}};
    for (const u32 id : users)
        all.push_back({acl_user, bits(), id});
    all.push_back({acl_group_object, bits(), ~0u});
    for (const u32 id : groups)
        all.push_back({acl_group, bits(), id});
    if (!users.empty() || !groups.empty() || random.one_in(3))
        all.push_back({acl_mask, bits(), ~0u});
    all.push_back({acl_other, bits(), ~0u});
    return all;
}

/// Makes one change to an ACL that may make it invalid.
void damage(Random& random, Entries& entries) {
    const size_t at = random.below(entries.size());
    const size_t to = random.below(entries.size());
    switch (random.below(5)) {
        case 0:
            std::swap(entries[at], entries[to]);
            break;
        case 1:
            entries = without(entries, at);
            break;
        case 2:
            entries.push_back(entries[at]);
            break;
        case 3:
            entries[at].tag = static_cast<u32>(random.below(66));
            break;
        default:
            entries[at].permissions = static_cast<u32>(random.below(16));
            break;
    }
}

TEST(Acl, RandomAgreesWithTheModel) {
    constexpr u64 seed = 20250611;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    u32 valid = 0;
    for (u32 round = 0; round < 20000; ++round) {
        Entries entries = random_acl(random);
        if (random.one_in(2)) damage(random, entries);
        Model model(entries);
        const bool is_sound = check(entries) == Errc::ok;
        ASSERT_EQ(is_sound, model.is_valid) << "round " << round;
        if (!is_sound) continue;
        ++valid;
        const AclMode mode = mode_of_acl(value_of(pack(entries)));
        ASSERT_EQ(mode.bits, model.mode());
        ASSERT_EQ(mode.is_equivalent, model.is_equivalent());
        BlockWithAcl stored(entries);
        const u32 wanted = static_cast<u32>(random.below(01000));
        store_acl_mode(*stored.block, stored.record, wanted);
        model.set_mode(wanted);
        const Model after(unpack(*stored.block, stored.record));
        ASSERT_TRUE(same(after.entries(), model.entries())) << "round " << round;
        ASSERT_EQ(mode_of_acl(AclInBlock{*stored.block, stored.record}).bits, wanted);
        for (u32 i = 0; i < 8; ++i) {
            const u32 groups[] = {static_cast<u32>(random.below(6)),
                                  static_cast<u32>(random.below(6))};
            const Credentials caller{.user = static_cast<u32>(random.below(6)),
                                     .group = static_cast<u32>(random.below(6)),
                                     .groups = groups,
                                     .group_count = static_cast<u32>(random.below(3))};
            const u32 asked = static_cast<u32>(random.below(8));
            ASSERT_EQ(acl_allows({*stored.block, stored.record}, caller, 3, asked),
                      model.allows(caller, 3, asked))
                << "round " << round;
        }
    }
    EXPECT_GT(valid, 8000u);
    EXPECT_LT(valid, 19000u);
}

/// One directory and its attribute block in a volume of 16 MiB, all of it in memory.
class Parent {
 public:
    static constexpr u64 frames = 8;
    static constexpr u64 number = 1 * format::inodes_per_frame + 16;
    static constexpr u64 block_place = 2 * format::frame_size;

    Parent() {
        for (u64& word : versions_)
            word = 2;
        for (u64& word : resident_)
            word = ~u64{0};
        state_->journal_room = 100;
        store_.size_bytes = frames * format::frame_size;
        store_.frame_count = frames;
        store_.state = state_.get();
        store_.frame_table = table_.get();
        store_.versions = versions_.data();
        store_.resident = resident_.data();
        store_.base = reinterpret_cast<std::byte*>(blocks_.data());
        table_->entries[1].kind = static_cast<u64>(FrameKind::inodes);
        table_->entries[2].kind = static_cast<u64>(FrameKind::metadata);
        auto& inode = *reinterpret_cast<Inode*>(store_.base + number * format::inode_size);
        inode.generation = 1;
        inode.mode = format::type_directory | 0755;
    }
    void hang(const AttributeBlock& attributes) {
        auto& block = *reinterpret_cast<AttributeBlock*>(store_.base + block_place);
        std::memcpy(&block, &attributes, sizeof block);
        block.header.kind = static_cast<u16>(format::BlockKind::attributes);
        block.header.owner = number;
        block.header.owner_generation = 1;
        auto& inode = *reinterpret_cast<Inode*>(store_.base + number * format::inode_size);
        inode.attributes = format::BlockPointer::to(block_place);
    }
    const Store& store() const { return store_; }

 private:
    std::vector<format::Block> blocks_{frames * format::blocks_per_frame};
    std::vector<u64> versions_ = std::vector<u64>(version_stripes);
    std::vector<u64> resident_ = std::vector<u64>(frames * format::blocks_per_frame / 64);
    std::unique_ptr<StoreState> state_ = std::make_unique<StoreState>();
    std::unique_ptr<format::FrameTableBlock> table_ = std::make_unique<format::FrameTableBlock>();
    Store store_{};
};

struct Inherited {
    Errc code = Errc::ok;
    InheritPlan plan;
    std::unique_ptr<AttributeBlock> block = std::make_unique<AttributeBlock>();
};

Inherited inherit(const Parent& parent, u32 mode, u32 umask) {
    Inherited out;
    Operation<ThreadTeam> op(ThreadTeam{}, parent.store());
    const Result<InodeRef> inode = find_inode(op, Parent::number);
    EXPECT_TRUE(inode);
    const bool is_directory = format::is_directory(mode);
    const Result<InheritPlan> plan = plan_inherit(op, *inode, mode, umask, is_directory);
    out.code = plan.code();
    if (plan) {
        out.plan = *plan;
        EXPECT_EQ(op.begin_apply(WARREN_CREDITS(inode_blocks_max)), Errc::ok);
        if (plan->needs_block) apply_inherit(op, *plan, *inode, *out.block);
        op.end_apply();
    }
    op.forget_locks();
    op.release_pins();
    return out;
}

Entries stored_acl(const AttributeBlock& block, const char* name, u32 length) {
    const AttributeRecord record = find_record(block, name, length);
    return record.offset == attribute_none ? Entries{} : unpack(block, record);
}

TEST(AclInheritance, WithoutADefaultAclTheUmaskCounts) {
    Parent parent;
    for (const bool has_other_attributes : {false, true}) {
        if (has_other_attributes) parent.hang(*BlockWithAcl(extended).block);
        const Inherited file = inherit(parent, 0106777, 0027);
        ASSERT_EQ(file.code, Errc::ok);
        EXPECT_EQ(file.plan.mode, 0106750u) << "set-user-id and set-group-id are not masked";
        EXPECT_FALSE(file.plan.needs_block);
        EXPECT_EQ(inherit(parent, 0120777, 0777).plan.mode, 0120777u) << "symbolic links";
    }
}

TEST(AclInheritance, ADefaultAclTakesThePlaceOfTheUmask) {
    Parent parent;
    parent.hang(*BlockWithAcl(extended, true).block);  // u 7, g 5, mask 6, o 1
    const Inherited file = inherit(parent, 0100644, 0777);
    EXPECT_EQ(file.plan.mode, 0100640u);
    Entries expected = extended;
    expected[0].permissions = 6;
    expected[5].permissions = 4;
    expected[6].permissions = 0;
    EXPECT_TRUE(same(stored_acl(*file.block, acl_access_name, acl_access_length), expected));
    EXPECT_TRUE(stored_acl(*file.block, acl_default_name, acl_default_length).empty());

    const Inherited directory = inherit(parent, 0042777, 0777);
    EXPECT_EQ(directory.plan.mode, 0042761u);
    EXPECT_TRUE(same(stored_acl(*directory.block, acl_access_name, acl_access_length), extended));
    EXPECT_TRUE(same(stored_acl(*directory.block, acl_default_name, acl_default_length), extended));
    EXPECT_EQ(inherit(parent, 0120777, 0777).plan.mode, 0120777u) << "symbolic links";
}

TEST(AclInheritance, AMinimalDefaultAclLeavesModeBitsOnly) {
    Parent parent;
    parent.hang(*BlockWithAcl(minimal, true).block);  // u 6, g 4, o 0
    const Inherited file = inherit(parent, 0100755, 0);
    EXPECT_EQ(file.plan.mode, 0100640u);
    EXPECT_FALSE(file.plan.needs_block);
    const Inherited directory = inherit(parent, 0040755, 0);
    EXPECT_EQ(directory.plan.mode, 0040640u);
    EXPECT_TRUE(stored_acl(*directory.block, acl_access_name, acl_access_length).empty());
    EXPECT_TRUE(same(stored_acl(*directory.block, acl_default_name, acl_default_length), minimal));
}

TEST(AclInheritance, ADamagedDefaultAclIsFound) {
    Parent parent;
    parent.hang(*BlockWithAcl(without(extended, 5), true).block);
    EXPECT_EQ(inherit(parent, 0100644, 0).code, Errc::corrupt);
}

TEST(AclInheritance, RandomAgreesWithTheModel) {
    constexpr u64 seed = 8124;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    Parent parent;
    for (u32 round = 0; round < 3000; ++round) {
        const Entries entries = random_acl(random);
        parent.hang(*BlockWithAcl(entries, true).block);
        const bool is_directory = random.one_in(2);
        const u32 bits = static_cast<u32>(random.below(010000));
        const u32 type = is_directory ? format::type_directory : format::type_regular;
        const Inherited made = inherit(parent, type | bits, static_cast<u32>(random.below(01000)));
        ASSERT_EQ(made.code, Errc::ok);
        Model model(entries);
        const u32 expected = (bits & 07000) | (bits & model.mode());
        ASSERT_EQ(made.plan.mode, type | expected) << "round " << round;
        model.set_mode(expected);
        const Entries access = stored_acl(*made.block, acl_access_name, acl_access_length);
        ASSERT_TRUE(same(access, model.is_equivalent() ? Entries{} : model.entries()));
        const Entries inherited = stored_acl(*made.block, acl_default_name, acl_default_length);
        ASSERT_TRUE(same(inherited, is_directory ? entries : Entries{}));
        ASSERT_EQ(made.plan.needs_block, !access.empty() || !inherited.empty());
    }
}

}  // namespace
}  // namespace warren::core::acl_test
