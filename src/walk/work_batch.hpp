// SPDX-License-Identifier: Apache-2.0
// Work on its way to another rank: directories, names of a large one, tasks, grouped by the
// directory that they lie in, which is named once by the path to it from its root, as far as the
// path of the group before does not name it already.
//
// Invariant: a work batch has at most `most` bytes. A directory on the way is told with its device
// and inode as far as they are known, and that which holds the items always is.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "walk/bytes.hpp"
#include "walk/node.hpp"
#include "walk/pool.hpp"

namespace warren::walk {

class WorkBatch {
 public:
    static constexpr size_t most = 1 * mib;

    /// What is said of a directory on the way, or of an item.
    struct Directory {
        std::string_view name;
        std::optional<Identity> identity;
    };
    struct Content {
        Work work;
        Owner owner;
        Directory directory;
        std::string_view result;   // empty: zeros
        std::string_view payload;  // names, or a task's bytes
    };

    /// Whether an item with so much payload fits in; then the directory above it is named.
    bool begin_item(Node& node, size_t payload_bytes);
    /// Requires: begin_item(node) was the last call.
    void add_item(const Node& node, const Content& content);
    bool is_empty() const { return writer_.bytes().empty(); }
    std::string take();

 private:
    struct Step {
        const Node* node;
        bool is_known;  // its identity was told
    };
    void put_directory(std::string_view name, const Identity* identity);
    void put_identity(const Identity* identity);

    ByteWriter writer_;
    std::vector<Step> path_;  // to the group's items, from the root
    const Node* last_ = nullptr;
    bool has_group_ = false;
    u64 device_ = 0;  // the last that was told
};

/// Takes a work batch apart: groups, and the items of each.
class WorkBatchReader {
 public:
    explicit WorkBatchReader(std::string_view batch, Origin origin = Origin::peer)
        : reader_(batch, origin) {}

    /// Goes to the next group, if there is one.
    bool begin_group();
    /// How many steps of the way are those of the group before; steps() are the others.
    u64 kept_steps() const { return kept_steps_; }
    const std::vector<WorkBatch::Directory>& steps() const { return steps_; }
    /// The next item of the group, if there is one.
    bool next_item(WorkBatch::Content& content);
    /// Whether all that was read can be right.
    bool good() const { return reader_.good(); }

 private:
    WorkBatch::Directory read_directory();
    std::optional<Identity> read_identity();

    ByteReader reader_;
    u64 kept_steps_ = 0;
    std::vector<WorkBatch::Directory> steps_;
    WorkBatch::Directory last_;
    u64 device_ = 0;
};

/// Of the numbers by which a result finds its way home.
void put_owner(ByteWriter& writer, const Owner& owner);
Owner get_owner(ByteReader& reader);
void put_lease(ByteWriter& writer, u64 lease);
u64 get_lease(ByteReader& reader);

/// Asks for the identity of a directory that is open, if it is not known yet.
void learn_identity(Node& node);

}  // namespace warren::walk
