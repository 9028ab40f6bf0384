// SPDX-License-Identifier: Apache-2.0
// Work in transit: names and work batches are decoded as encoded, and encodings are short.
#include "walk/work_batch.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <map>

#include "base/random.hpp"
#include "support/seed.hpp"
#include "walk/names.hpp"

namespace warren::walk::work_batch_test {

namespace {

struct Listed {
    std::string name;
    u64 inode;
    u8 type;
    bool operator==(const Listed&) const = default;
};

/// In the format of getdents64(2).
std::string records_of(const std::vector<Listed>& names) {
    std::string records;
    for (const Listed& listed : names) {
        const size_t at = records.size();
        const size_t size = (offsetof(Name, text) + listed.name.size() + 8) & ~size_t{7};
        records.resize(at + size);
        Name name{};
        name.inode = listed.inode;
        name.next = static_cast<i64>(at) * 77;
        name.size = static_cast<u16>(size);
        name.type = listed.type;
        std::memcpy(records.data() + at, &name, offsetof(Name, text));
        listed.name.copy(records.data() + at + offsetof(Name, text), listed.name.size());
    }
    return records;
}

std::vector<Listed> names_of(const std::string& records) {
    std::vector<Listed> names;
    for (size_t at = 0; at < records.size();) {
        const auto& name = *reinterpret_cast<const Name*>(records.data() + at);
        names.push_back({name.text, name.inode, name.type});
        at += name.size;
    }
    return names;
}

std::string random_name(Random& random, const std::string& before) {
    std::string name = before.substr(0, random.below(before.size() + 1));
    while (name.empty() || (name.size() < 255 && !random.one_in(8))) {
        const char byte = static_cast<char>(1 + random.below(255));
        if (byte != '/') name += byte;
    }
    return name;
}

/// The entries that a reader returned for one item, with the names of the path to it.
struct Arrived {
    std::vector<std::string> path;
    std::vector<std::optional<Identity>> identities;
    Work work;
    Owner owner;
    std::string name, result, payload;
};

std::vector<Arrived> arrivals_of(const std::string& batch) {
    std::vector<Arrived> all;
    Arrived at{};
    WorkBatch::Content content{};
    for (WorkBatchReader reader(batch); reader.begin_group();) {
        at.path.resize(reader.kept_steps());
        at.identities.resize(reader.kept_steps());
        for (const WorkBatch::Directory& step : reader.steps()) {
            at.path.emplace_back(step.name);
            at.identities.push_back(step.identity);
        }
        while (reader.next_item(content)) {
            at.work = content.work;
            at.owner = content.owner;
            at.name = content.directory.name;
            at.result = content.result;
            at.payload = content.payload;
            all.push_back(at);
        }
    }
    return all;
}

}  // namespace

TEST(Names, AreWhatTheyWereAfterATrip) {
    const Seed seed;
    for (u64 part = 0; part < 200 * test_load(); ++part) {
        Random random(seed.part(part));
        std::vector<Listed> names;
        std::string before;
        for (u64 left = random.below(60); left > 0; --left) {
            before = random_name(random, before);
            if (is_dot(before.c_str())) continue;
            const u64 inode = random.one_in(9) ? random.next()
                              : names.empty()  ? 1
                                               : names.back().inode + random.below(5) - 2;
            names.push_back({before, inode, static_cast<u8>(random.below(16))});
        }
        const std::string records = records_of(names);
        const std::string packed = pack_names(records);
        EXPECT_LE(packed.size(), records.size());
        EXPECT_EQ(names_of(unpack_names(packed).value()), names);
    }
}

TEST(Names, AreShortAndWithoutDots) {
    std::vector<Listed> names = {{".", 5, 4}, {"..", 4, 4}};
    for (u32 number = 1000; number < 2000; ++number)
        names.push_back({"file_" + std::to_string(number), u64{1} << 33 | number, 8});
    const std::string packed = pack_names(records_of(names));
    EXPECT_LE(packed.size(), 6 * names.size());  // of 32
    const std::vector<Listed> expected(names.begin() + 2, names.end());
    EXPECT_EQ(names_of(unpack_names(packed).value()), expected);
}

TEST(WorkBatch, ReadAgainIsWhatWasWritten) {
    const Seed seed;
    for (u64 part = 0; part < 200 * test_load(); ++part) {
        Random random(seed.part(part));
        std::vector<Node*> nodes = {Node::make(nullptr, "/root", 8)};
        for (u32 number = 1; number < 40; ++number) {
            Node* const above = nodes[random.below(nodes.size())];
            nodes.push_back(Node::make(above, random_name(random, ""), 8));
            nodes.back()->has_identity = random.one_in(2);
            nodes.back()->identity = {random.below(2), random.next()};
        }
        WorkBatch batch;
        std::vector<std::pair<const Node*, Arrived>> sent;
        for (u32 left = 30; left > 0; --left) {
            Node& node = *nodes[random.below(nodes.size())];
            Arrived item{{}, {}, static_cast<Work>(random.below(3)), {}, {}, {}, {}};
            item.owner = {static_cast<u32>(random.below(300)), random.next()};
            item.name = node.name_view();
            item.result = random.one_in(2) ? std::string(16, 'r') : std::string();
            if (item.work != Work::directory) item.payload = random_name(random, "p");
            ASSERT_TRUE(batch.begin_item(node, item.payload.size()));
            batch.add_item(node,
                           {item.work, item.owner, {{}, node.identity}, item.result, item.payload});
            for (const Node* at = node.above; at != nullptr; at = at->above)
                item.path.insert(item.path.begin(), std::string(at->name_view()));
            sent.emplace_back(&node, item);
        }
        const std::vector<Arrived> arrived = arrivals_of(batch.take());
        ASSERT_EQ(arrived.size(), sent.size());
        for (size_t at = 0; at < sent.size(); ++at) {
            const auto& [node, item] = sent[at];
            EXPECT_EQ(arrived[at].path, item.path);
            EXPECT_EQ(arrived[at].work, item.work);
            EXPECT_EQ(arrived[at].owner.rank, item.owner.rank);
            EXPECT_EQ(arrived[at].owner.lease, item.owner.lease);
            EXPECT_EQ(arrived[at].name, item.name);
            EXPECT_EQ(arrived[at].result, item.result);
            EXPECT_EQ(arrived[at].payload, item.payload);
            // The parent directory is encoded with its identity if that is known.
            if (node->above == nullptr) continue;
            EXPECT_EQ(arrived[at].identities.back().has_value(), node->above->has_identity);
            if (node->above->has_identity) {
                EXPECT_EQ(*arrived[at].identities.back(), node->above->identity);
            }
        }
        for (Node* node : nodes)
            Node::destroy(node);
    }
}

// Any number of items: those that do not fit go with the next work batch.
TEST(WorkBatch, HasAtMostAMebibyte) {
    const Seed seed;
    Random random(seed.value());
    Node* const root = Node::make(nullptr, "/root", 8);
    Node* const directory = Node::make(root, std::string(200, 'd'), 8);
    Node* const item = Node::make(directory, std::string(250, 'i'), 8);
    for (u32 round = 0; round < 4; ++round) {
        const std::string payload(random.below(round % 2 == 0 ? 100 : 200 * kib), 'p');
        WorkBatch batch;
        u64 items = 0;
        for (; batch.begin_item(*item, payload.size()); ++items)
            batch.add_item(*item, {Work::task, {}, {{}, item->identity}, {}, payload});
        const std::string bytes = batch.take();
        EXPECT_LE(bytes.size(), 1u << 20);
        EXPECT_GT(bytes.size() + payload.size() + 1000, 1u << 20);
        EXPECT_EQ(arrivals_of(bytes).size(), items);
        WorkBatch next;
        EXPECT_TRUE(next.begin_item(*item, payload.size()));
    }
    Node::destroy(item);
    Node::destroy(directory);
    Node::destroy(root);
}

}  // namespace warren::walk::work_batch_test
