// SPDX-License-Identifier: Apache-2.0
// Work that is sent to another rank: directories, names of a large directory, tasks. Items are
// grouped by the directory that contains them. A group begins with the path of that directory from
// its root, without the leading steps that it shares with the path of the previous group.
//
// Invariant: a work batch has at most `most` bytes. Directories of a path are written with their
// device and inode if these are known; those of the directory that contains the items are looked up
// if it is open.
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

    /// A directory of a path, or the directory that an item concerns.
    struct Directory {
        std::string_view name;
        std::optional<Identity> identity;
    };
    struct Content {
        Work work;
        Owner owner;
        Directory directory;
        std::string_view result;   // empty: zeros
        std::string_view payload;  // names, or the bytes of a task
    };

    /// Whether an item with `payload_bytes` fits. If so, writes the path to it unless it is the
    /// last one written.
    bool begin_item(Node& node, size_t payload_bytes);
    /// Requires: begin_item(node) was the previous call.
    void add_item(const Node& node, const Content& content);
    bool is_empty() const { return writer_.bytes().empty(); }
    std::string take();

 private:
    struct Step {
        const Node* node;
        bool is_known;  // written with its identity
    };
    void put_directory(std::string_view name, const Identity* identity);
    void put_identity(const Identity* identity);

    ByteWriter writer_;
    std::vector<Step> path_;  // to the items of the group, from the root
    const Node* last_ = nullptr;
    bool has_group_ = false;
    u64 device_ = 0;  // the last one written
};

/// Reads a work batch: groups, and the items of each.
class WorkBatchReader {
 public:
    explicit WorkBatchReader(std::string_view batch, Origin origin = Origin::peer)
        : reader_(batch, origin) {}

    /// Goes to the next group. Returns false if there is none.
    bool begin_group();
    /// How many steps of the path are shared with the previous group; steps() are the others.
    u64 kept_steps() const { return kept_steps_; }
    const std::vector<WorkBatch::Directory>& steps() const { return steps_; }
    /// Gets the next item of the group. Returns false if there is none.
    bool next_item(WorkBatch::Content& content);
    /// Whether everything read so far is well-formed.
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

/// The format of an owner and of a lease in a work batch.
void put_owner(ByteWriter& writer, const Owner& owner);
Owner get_owner(ByteReader& reader);
void put_lease(ByteWriter& writer, u64 lease);
u64 get_lease(ByteReader& reader);

/// Reads the identity of an open directory unless it is known.
void learn_identity(Node& node);

}  // namespace warren::walk
