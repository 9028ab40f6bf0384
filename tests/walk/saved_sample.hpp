// SPDX-License-Identifier: Apache-2.0
// A state of a rank with every kind of content, as a rank could write it, and a work batch of its
// queue: the starting point for forged ones.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "walk/names.hpp"
#include "walk/saved_rank.hpp"
#include "walk/work_batch.hpp"

namespace warren::walk {

inline constexpr std::string_view sample_amount("\1\0\0\0\0\0\0\0", 8);  // a result
inline constexpr u64 sample_lease = u64{1} << lease_rank_shift | 7;

/// One name as getdents64(2) writes it.
inline std::string record_of(std::string_view name) {
    const size_t size = (offsetof(Name, text) + name.size() + 8) & ~size_t{7};
    std::string record(size, '\0');
    Name head{};
    head.size = static_cast<u16>(size);
    head.type = 8;
    std::memcpy(record.data(), &head, offsetof(Name, text));
    name.copy(record.data() + offsetof(Name, text), name.size());
    return record;
}

/// A root that is being read, with a directory below it that has names and a task waiting; and a
/// root that was taken over, for which the rank has a lease.
inline SavedRank sample_state(std::string_view root, std::string_view records) {
    SavedRank saved;
    const auto add = [&](u32 above, NodeKind kind, std::string_view name) {
        SavedRank::Directory& directory = saved.directories.emplace_back();
        directory.above = above;
        directory.kind = kind;
        directory.name = name;
        if (kind != NodeKind::ghost) directory.result = sample_amount;
    };
    add(0, NodeKind::own, root);
    add(1, NodeKind::own, "child");
    add(0, NodeKind::ghost, root);
    add(3, NodeKind::adopted, "adopted");
    saved.directories[3].owner.lease = sample_lease;
    saved.walks_since = {3};
    saved.counts = {7, 10, 2, 1};
    saved.result = sample_amount;
    saved.caller = "caller";
    saved.waiting = {{Work::directory, 1, {}},
                     {Work::names, 2, records},
                     {Work::task, 2, "task"},
                     {Work::merge, 0, sample_amount},
                     {Work::merge, 2, std::string_view()},
                     {Work::directory, 4, {}}};
    saved.leases = {{sample_lease, 1, 1}};
    saved.files = {{1, 2, 3}, {4, 5, 6}};
    return saved;
}

/// A work batch with one item, below the directories of `path`.
inline std::string batch_of(const std::vector<std::string>& path,
                            const WorkBatch::Content& content) {
    std::vector<Node*> nodes;
    const auto add = [&](std::string_view name) {
        nodes.push_back(Node::make(nodes.empty() ? nullptr : nodes.back(), name, 0));
    };
    for (const std::string& name : path)
        add(name);
    add(content.directory.name);
    WorkBatch batch;
    WARREN_CHECK(batch.begin_item(*nodes.back(), content.payload.size()));
    batch.add_item(*nodes.back(), content);
    for (Node* node : nodes)
        Node::destroy(node);
    return batch.take();
}

}  // namespace warren::walk
