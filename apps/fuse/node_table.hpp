// SPDX-License-Identifier: Apache-2.0
// The kernel identifies inodes by 64-bit node numbers without a generation; this table adds it. It
// has one entry for each inode that the kernel has in its caches.
//
// Invariant: a node's number is its inode number, except that the root of the volume and node 1
// (which the kernel reserves for the root) are exchanged. An entry exists as long as the kernel
// holds a reference, and so does the volume's own hold on the number; so a number never changes its
// meaning for the kernel. The kernel's references are counted here, in 64 bits. Each look-up also
// takes a reference of the volume, of which the table keeps at most `held_max` for all of them.
#pragma once

#include <array>
#include <functional>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "apps/fuse/spare.hpp"
#include "warren/volume.hpp"

namespace warren::fuse {

class NodeTable {
 public:
    static constexpr u32 held_max = 64;

    explicit NodeTable(Handle root);

    u64 node_of(u64 inode) const { return exchanged(inode); }
    u64 inode_of(u64 node) const { return exchanged(node); }

    /// Allocates the memory that this thread's next remember() needs. Throws std::bad_alloc.
    static void prepare() { Spare<Nodes>::take(); }
    struct Remembered {
        u32 generation = 0;  // as shown to the kernel
        u64 surplus = 0;     // references that the caller must return to the volume
    };
    /// Counts a reference that the kernel gets with a reply and that the volume has counted.
    /// Requires: prepare() before each call.
    Remembered remember(const Attributes& attributes);
    /// Records that a file has got another link, if the kernel has this node.
    void note_shared(u64 node);
    struct Forgotten {
        Handle handle;
        u64 held = 0;  // references that the caller must return to the volume
    };
    /// Subtracts `count` references; returns what to release if these were the last. The root
    /// stays.
    std::optional<Forgotten> forget(u64 node, u64 count);
    /// The inode of a node; nullopt if the kernel has no reference to it.
    std::optional<Handle> find(u64 node) const;

    /// Makes the kernel treat this node as a different one at the next look-up of its name: the
    /// size that it caches is wrong, and no call corrects it. Has no effect while the file is open.
    void renew(u64 node);

    /// Whether the kernel has this node and it is a directory.
    bool is_directory(u64 node) const;

    /// Counts an open for writing or only for reading, and its end. count_release() returns whether
    /// it was the last, and the kernel should forget the node because of its new times.
    void count_open(u64 node, bool writes);
    bool count_release(u64 node, bool writes);
    /// The open file `node` has new times that the kernel neither knows nor can be told of.
    void note_new_times(u64 node);
    /// Whether it is open for writing, so that the kernel may hold back dirty pages.
    bool is_written(u64 node) const { return writers(node) > 0; }
    /// The number of opens for writing.
    u64 writers(u64 node) const;

    /// Nodes whose attributes may change when other names are removed: with several links, or open.
    std::vector<u64> shared_or_open() const;

    /// Releases memory of tables that once had many more entries.
    void shrink();

    struct Use {
        Handle handle;
        u64 held = 0;  // references to the volume
        u64 opens = 0;
    };
    /// Every inode in use, including the root.
    std::vector<Use> in_use() const;

 private:
    struct Node {
        u32 generation = 0;
        u32 held = 0;         // references to the volume
        bool shared = false;  // was seen with more than one link
        bool directory = false;
        bool renewed = false;
        bool has_new_times = false;
        u64 opens = 0;
        u64 references = 0;  // held by the kernel
        u64 writers = 0;     // opens for writing
    };
    using Nodes = std::unordered_map<u64, Node>;
    struct alignas(64) Shard {
        std::mutex mutex;
        Nodes nodes;
    };

    u64 exchanged(u64 number) const;
    Shard& shard(u64 node) const { return shards_[node * 0x9e3779b97f4a7c15u >> 58]; }
    template <class Action>
    auto with(u64 node, const Action& action) const;

    Handle root_;
    mutable std::array<Shard, 64> shards_;  // each with a lock of its own
};

}  // namespace warren::fuse
