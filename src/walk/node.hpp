// SPDX-License-Identifier: Apache-2.0
// A directory of the walk, from the moment its name is found until everything below it is done, and
// its descriptor, which may be closed meanwhile if too many are open.
//
// Invariant: a node exists as long as any node below it, so the path to the root is always
// available. A directory that is opened again is reached from an open directory above it without
// following links, and must have the same identity (device, inode) as before: a concurrent change
// of the tree cannot lead the walk elsewhere.
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
    own,      // found by this rank
    adopted,  // taken over from another rank as a whole
    part,     // names or tasks of a directory that another rank reads
    ghost     // part of the path to an adopted or part node; nothing is done in it here
};

/// A lease number: the rank that issued it in the bits from here on, its counter in the bits below.
inline constexpr u32 lease_rank_shift = 40;

/// The rank that waits for a result, and the lease that it has issued for the result's directory.
struct Owner {
    u32 rank = 0;
    u64 lease = 0;
    auto operator<=>(const Owner&) const = default;
};

struct Node {
    Node* above = nullptr;  // null: a root
    /// One for each thread that reads the directory or processes a part of it, and one for each
    /// unfinished child or task.
    std::atomic<u32> pending{1};
    u32 depth = 0;
    u32 name_size = 0;
    u32 result_size = 0;
    std::mutex mutex;  // guards descriptor, users, identity, result
    int descriptor = -1;
    u32 users = 0;  // threads that use the descriptor, which stays open meanwhile
    Identity identity;
    bool has_identity = false;
    bool opened = false;  // has been opened once
    bool complete = false;
    NodeKind kind = NodeKind::own;
    Owner owner;                   // unset if kind is own
    std::atomic<u32> children{0};  // subdirectories queued
    i64 position = 0;              // where reading resumes after a checkpoint; 0: at the start

    const char* name() const { return reinterpret_cast<const char*>(this + 1) + result_size; }
    std::string_view name_view() const { return {name(), name_size}; }
    void* result() { return this + 1; }

    /// Creates a node whose result is zeros. It is counted in `pending` of `above`.
    static Node* make(Node* above, std::string_view name, u32 result_bytes);
    static void destroy(Node* node);
};

/// The path: the root as it was given, followed by the names below it.
std::string path_of(const Node& node);
/// Appends "/" and the name, without doubling a slash.
void append_name(std::string& path, std::string_view name);

/// Whether the directory or one above it has this inode number on any file system. `node` may be
/// null.
bool has_inode(const Node* node, u64 inode);
/// Whether the directory or one above it has this identity.
bool is_loop(const Node* node, const Identity& identity);

/// Opens and closes the descriptors of nodes. Tries to keep at most `limit` of them open.
class Descriptors {
 public:
    /// `work_goes_away`: other ranks continue in the directories below, so a directory that no
    /// thread uses is not needed soon, and is closed at once if the limit is exceeded.
    Descriptors(u32 limit, bool follow_roots, bool follow_all, bool work_goes_away)
        : limit_(limit),
          follow_roots_(follow_roots),
          follow_all_(follow_all),
          work_goes_away_(work_goes_away) {}

    /// Opens the directory for the first time, and marks its descriptor as used. Returns 0 or an
    /// errno value; ESTALE if it is known to be a different directory.
    int open(Node& node);
    /// Returns the open descriptor, in use until done(); -1 with errno if it cannot be reached any
    /// more.
    int use(Node& node);
    void done(Node& node);
    /// Like use(), for the directory above the finished `node`, whose descriptor may lead to it.
    int use_above(Node& node);
    void close(Node& node);
    /// The identity of what the path of a root leads to, if it exists.
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

/// Reads the identity of an open file. Returns false and sets errno if that fails.
bool identify(int descriptor, Identity& identity);

}  // namespace warren::walk
