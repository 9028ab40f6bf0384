// SPDX-License-Identifier: Apache-2.0
// Work on its way to another rank: directories, names of a large one, tasks, grouped by the
// directory that they lie in, which is named once by the path to it from its root.
//
// Invariant: a parcel has at most `most` bytes. A directory on the way is told with its device and
// inode as far as they are known, and that which holds the items always is.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "walk/bytes.hpp"
#include "walk/node.hpp"
#include "walk/pool.hpp"

namespace warren::walk {

class Parcel {
 public:
    static constexpr size_t most = 1 * mib;

    /// What is said of a directory on the way, or of an item.
    struct Place {
        std::string_view name;
        std::optional<Identity> identity;
    };
    struct Content {
        Work work;
        Home home;
        Place place;
        std::string_view result;   // empty: zeros
        std::string_view payload;  // names, or a task's bytes
    };

    /// Whether an item with so much payload fits in; then the directory above it is named.
    bool begin_item(Node& node, size_t payload_bytes);
    void add_item(const Node& node, const Content& content);
    bool is_empty() const { return writer_.bytes().empty(); }
    std::string take() { return writer_.take(); }

    static Place read_place(ByteReader& reader);
    static Content read_content(ByteReader& reader);

 private:
    void put_place(std::string_view name, const Identity* identity);

    ByteWriter writer_;
    const Node* above_ = nullptr;
    bool has_group_ = false;
    size_t count_at_ = 0;  // where the number of the group's items is
    u32 count_ = 0;
};

/// Asks for the identity of a directory that is open, if it is not known yet.
void learn_identity(Node& node);

}  // namespace warren::walk
