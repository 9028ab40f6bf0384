// SPDX-License-Identifier: Apache-2.0
// Sixty-four small tables, so that threads serving requests seldom contend for a lock.
#include "apps/fuse/node_table.hpp"

#include <utility>

#include "base/out_of_memory.hpp"

namespace warren::fuse {

namespace {

constexpr u64 root_node = 1;
constexpr u32 renewed_bit = 0x80000000;  // in a generation

}  // namespace

NodeTable::NodeTable(Handle root) : root_(root) {
    Node& node = shard(root_node).nodes[root_node];
    node.generation = root.generation;
    node.directory = true;
    node.references = 1;
}

u64 NodeTable::exchanged(u64 number) const {
    if (number == root_.inode) return root_node;
    return number == root_node ? root_.inode : number;
}

NodeTable::Remembered NodeTable::remember(const Attributes& attributes) {
    const u64 node = node_of(attributes.handle.inode);
    const bool is_directory = (attributes.mode & 0170000) == 0040000;
    Shard& home = shard(node);
    std::lock_guard lock(home.mutex);
    Node& entry = Spare<Nodes>::insert(home.nodes, node);
    // A number is reused only when nothing refers to the old inode any more.
    if (entry.generation != attributes.handle.generation) entry.held = 0;
    entry.generation = attributes.handle.generation;
    entry.shared = entry.shared || (attributes.links > 1 && !is_directory);
    entry.directory = is_directory;
    ++entry.references;
    ++entry.held;
    Remembered result{entry.renewed ? entry.generation ^ renewed_bit : entry.generation};
    if (entry.held == held_max) result.surplus = std::exchange(entry.held, 1) - 1;
    return result;
}

/// Returns `action(Node&)` for the entry of `node`; a value of zero if there is none.
template <class Action>
auto NodeTable::with(u64 node, const Action& action) const {
    using Answer = decltype(action(std::declval<Node&>()));
    Shard& home = shard(node);
    const std::lock_guard lock(home.mutex);
    const auto entry = home.nodes.find(node);
    return entry == home.nodes.end() ? Answer() : action(entry->second);
}

void NodeTable::note_shared(u64 node) {
    with(node, [](Node& entry) { entry.shared = true; });
}

std::optional<NodeTable::Forgotten> NodeTable::forget(u64 node, u64 count) {
    Shard& home = shard(node);
    std::lock_guard lock(home.mutex);
    const auto entry = home.nodes.find(node);
    if (entry == home.nodes.end() || node == root_node) return std::nullopt;
    if (entry->second.references > count) {
        entry->second.references -= count;
        return std::nullopt;
    }
    const Forgotten gone{{inode_of(node), entry->second.generation}, entry->second.held};
    home.nodes.erase(entry);
    return gone;
}

std::optional<Handle> NodeTable::find(u64 node) const {
    if (node == root_node) return root_;
    return with(node, [&](const Node& entry) {
        return std::optional(Handle{inode_of(node), entry.generation});
    });
}

void NodeTable::renew(u64 node) {
    with(node, [](Node& entry) { entry.renewed = entry.renewed || entry.opens == 0; });
}

bool NodeTable::is_directory(u64 node) const {
    return with(node, [](const Node& entry) { return entry.directory; });
}

void NodeTable::count_open(u64 node, bool writes) {
    with(node, [&](Node& entry) {
        ++entry.opens;
        if (writes) ++entry.writers;
    });
}

bool NodeTable::count_release(u64 node, bool writes) {
    return with(node, [&](Node& entry) {
        if (entry.opens == 0) return false;
        --entry.opens;
        if (writes && entry.writers > 0) --entry.writers;
        return entry.opens == 0 && std::exchange(entry.has_new_times, false);
    });
}

void NodeTable::note_new_times(u64 node) {
    with(node, [](Node& entry) { entry.has_new_times = true; });
}

u64 NodeTable::writers(u64 node) const {
    return with(node, [](const Node& entry) { return entry.writers; });
}

std::vector<u64> NodeTable::shared_or_open() const {
    std::vector<u64> nodes;
    for (Shard& home : shards_) {
        std::lock_guard lock(home.mutex);
        for (const auto& [node, entry] : home.nodes) {
            if (entry.shared || entry.opens > 0) nodes.push_back(node);
        }
    }
    return nodes;
}

void NodeTable::shrink() {
    for (Shard& home : shards_) {
        std::lock_guard lock(home.mutex);
        if (home.nodes.bucket_count() <= 8 * home.nodes.size() + 64) continue;
        // Without memory for that it stays as large as it is.
        static_cast<void>(or_no_memory([&] { home.nodes.rehash(2 * home.nodes.size()); }));
    }
}

std::vector<NodeTable::Use> NodeTable::in_use() const {
    std::vector<Use> uses;
    for (Shard& home : shards_) {
        std::lock_guard lock(home.mutex);
        for (const auto& [node, entry] : home.nodes) {
            uses.push_back({{inode_of(node), entry.generation}, entry.held, entry.opens});
        }
    }
    return uses;
}

}  // namespace warren::fuse
