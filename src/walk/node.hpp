// SPDX-License-Identifier: Apache-2.0
// A directory of the walk, from the moment its name is met until all below it is done, and its
// descriptor, which may be closed in between when too many are open.
//
// Invariant: a node lives as long as anything below it does, so the way up is always there. A
// directory that is opened a second time is reached from an open one above it without following
// links, and must have the identity (device, inode) that it had: a tree that is changed under the
// walk cannot lead it elsewhere.
#pragma once

#include <atomic>
#include <compare>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "warren/walk.hpp"

namespace warren::walk {

struct Identity {
    u64 device = 0;
    u64 inode = 0;
    bool operator==(const Identity&) const = default;
};

enum class NodeKind : u8 {
    own,      // met here
    adopted,  // taken over from another rank as a whole
    part,     // names or tasks of a directory that is another rank's
    ghost     // only on the path to an adopted or part node: nothing of it is done here
};

/// A lease's number: the rank that has issued it above these bits, and below them its counter.
inline constexpr u32 lease_rank_shift = 40;

/// The rank that waits for a result, and its lease of the directory that the result belongs to.
struct Owner {
    u32 rank = 0;
    u64 lease = 0;
    auto operator<=>(const Owner&) const = default;
};

struct Node {
    Node* above = nullptr;  // null: a root
    /// One for each thread that reads the directory or works in it, one for each unfinished child
    /// or task.
    std::atomic<u32> pending{1};
    u32 depth = 0;
    u32 name_size = 0;
    u32 result_size = 0;
    std::mutex mutex;  // descriptor, users, identity, result
    int descriptor = -1;
    u32 users = 0;  // of the descriptor, which then stays open
    Identity identity;
    bool has_identity = false;
    bool opened = false;  // once
    bool complete = false;
    NodeKind kind = NodeKind::own;
    Owner owner;                   // unless own
    std::atomic<u32> children{0};  // directories queued
    i64 position = 0;              // where reading goes on after a checkpoint; 0: at the begin

    const char* name() const { return reinterpret_cast<const char*>(this + 1) + result_size; }
    std::string_view name_view() const { return {name(), name_size}; }
    void* result() { return this + 1; }

    /// A node with a result of zeros; counted in `pending` of `above`.
    static Node* make(Node* above, std::string_view name, u32 result_bytes);
    static void destroy(Node* node);
};

/// The path: the root's as it was given, then the names below it.
std::string path_of(const Node& node);
/// directory + "/" + name, with one slash between them.
void append_name(std::string& path, std::string_view name);

/// Whether the directory (null: none) or one above it has this number on some file system.
bool has_inode(const Node* node, u64 inode);
/// Whether it is the directory or one above it.
bool is_loop(const Node* node, const Identity& identity);

/// Opens and closes the descriptors of nodes, no more than `limit` at once as far as possible.
class Descriptors {
 public:
    /// `work_goes_away`: a directory that no thread uses any more is not needed soon, for other
    /// ranks go on with what lies in it; beyond the limit it is closed at once.
    Descriptors(u32 limit, bool follow_roots, bool follow_all, bool work_goes_away)
        : limit_(limit),
          follow_roots_(follow_roots),
          follow_all_(follow_all),
          work_goes_away_(work_goes_away) {}

    /// Opens the directory for reading, for the first time; 0 or errno, ESTALE if it is known to be
    /// another one. It is in use then.
    int open(Node& node);
    /// The open descriptor, in use until done(); -1 with errno if it cannot be reached any more.
    int use(Node& node);
    void done(Node& node);
    /// The same for the directory above, where `node` is already finished and may help to find it.
    int use_above(Node& node);
    void close(Node& node);
    /// What the path of a root leads to, if anything.
    std::optional<Identity> identify_root(const Node& node) const;

 private:
    int open_from_above(Node& node);
    bool is_known(int descriptor, const Node& node);
    int reopen(Node& node);
    int reopen_from_below(Node& above, Node& below);
    int take(Node& node, int descriptor);
    void make_room(const Node& node);
    bool close_idle(Node& node);

    std::atomic<u32> open_{0};
    u32 limit_;
    bool follow_roots_;
    bool follow_all_;
    bool work_goes_away_;
};

/// The identity of what is open; false with errno if there is none.
bool identify(int descriptor, Identity& identity);

}  // namespace warren::walk
