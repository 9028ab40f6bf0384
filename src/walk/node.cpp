// SPDX-License-Identifier: Apache-2.0
// A descriptor is closed early only when the limit is exceeded, and then it is one of a directory
// above the new one: in a chain of any depth the last few stay open, and from a finished directory
// the walk gets back up by "..".
#include "walk/node.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <vector>

namespace warren::walk {

namespace {

constexpr int open_flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
constexpr u32 rooms_looked_at = 64;  // directories above that are considered for closing

}  // namespace

Node* Node::make(Node* above, std::string_view name, u32 result_bytes) {
    const u32 result_size = (result_bytes + 15) & ~15u;
    void* memory = ::operator new(sizeof(Node) + result_size + name.size() + 1);
    Node* node = new (memory) Node;
    node->above = above;
    node->depth = above == nullptr ? 0 : above->depth + 1;
    node->name_size = static_cast<u32>(name.size());
    node->result_size = result_size;
    std::memset(node->result(), 0, result_size);
    char* bytes = reinterpret_cast<char*>(node + 1) + result_size;
    name.copy(bytes, name.size());
    bytes[name.size()] = '\0';
    // Relaxed: the caller holds a count of the directory above.
    if (above != nullptr) above->pending.fetch_add(1, std::memory_order_relaxed);
    return node;
}

void Node::destroy(Node* node) {
    node->~Node();
    ::operator delete(node);
}

void append_name(std::string& path, std::string_view name) {
    if (!path.empty() && path.back() != '/') path += '/';
    path += name;
}

std::string path_of(const Node& node) {
    size_t size = 0;
    std::vector<const Node*> chain;
    for (const Node* at = &node; at != nullptr; at = at->above) {
        chain.push_back(at);
        size += at->name_size + 1;
    }
    std::string path;
    path.reserve(size + 256);
    for (auto at = chain.rbegin(); at != chain.rend(); ++at) {
        append_name(path, (*at)->name_view());
    }
    return path;
}

bool identify(int descriptor, Identity& identity) {
    struct statx found {};
    if (::statx(descriptor, "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT, STATX_INO, &found) != 0) {
        return false;
    }
    identity = {device_of(found), found.stx_ino};
    return true;
}

bool has_inode(const Node* node, u64 inode) {
    for (; node != nullptr; node = node->above) {
        if (node->has_identity && node->identity.inode == inode) return true;
    }
    return false;
}

bool is_loop(const Node* node, const Identity& identity) {
    for (; node != nullptr; node = node->above) {
        if (node->has_identity && node->identity == identity) return true;
    }
    return false;
}

std::optional<Identity> Descriptors::identify_root(const Node& node) const {
    const int flags = AT_NO_AUTOMOUNT | (follow_roots_ ? 0 : AT_SYMLINK_NOFOLLOW);
    struct statx found {};
    if (::statx(AT_FDCWD, node.name(), flags, STATX_INO, &found) != 0) return {};
    return Identity{device_of(found), found.stx_ino};
}

int Descriptors::open(Node& node) {
    make_room(node);
    int descriptor = open_from_above(node);
    if (descriptor < 0) return errno;
    if (!is_known(descriptor, node)) {
        ::close(descriptor);
        return ESTALE;
    }
    std::lock_guard lock(node.mutex);
    node.descriptor = descriptor;
    node.users = 1;
    node.opened = true;
    open_.fetch_add(1, std::memory_order_relaxed);
    return 0;
}

/// Whether the directory has the identity that another rank has sent, if one did.
bool Descriptors::is_known(int descriptor, const Node& node) {
    Identity identity;
    return !node.has_identity || (identify(descriptor, identity) && identity == node.identity);
}

/// Opens the directory by its name in the directory above it.
int Descriptors::open_from_above(Node& node) {
    if (node.above == nullptr) {
        return ::openat(AT_FDCWD, node.name(), open_flags | (follow_roots_ ? 0 : O_NOFOLLOW));
    }
    const int above = use(*node.above);
    if (above < 0) return -1;
    const int flags = open_flags | (follow_all_ ? 0 : O_NOFOLLOW);
    const int descriptor = ::openat(above, node.name(), flags);
    const int error = errno;
    done(*node.above);
    errno = error;
    return descriptor;
}

int Descriptors::use(Node& node) {
    {
        std::lock_guard lock(node.mutex);
        if (node.descriptor >= 0) {
            ++node.users;
            return node.descriptor;
        }
    }
    return take(node, reopen(node));
}

void Descriptors::done(Node& node) {
    {
        std::lock_guard lock(node.mutex);
        if (--node.users != 0 || !work_goes_away_) return;
    }
    if (open_.load(std::memory_order_relaxed) > limit_) close_idle(node);
}

/// Makes `descriptor` the node's, if it refers to the directory with the node's identity.
int Descriptors::take(Node& node, int descriptor) {
    if (descriptor < 0) return -1;
    Identity identity;
    const bool known = identify(descriptor, identity);
    const int error = known ? ENOENT : errno;  // ENOENT: its path leads to another one
    std::lock_guard lock(node.mutex);
    if (node.descriptor >= 0) {  // another thread was faster
        ::close(descriptor);
    } else if (!known || (node.has_identity && identity != node.identity)) {
        ::close(descriptor);
        errno = error;
        return -1;
    } else {
        node.descriptor = descriptor;
        open_.fetch_add(1, std::memory_order_relaxed);
    }
    ++node.users;
    return node.descriptor;
}

/// Opens the path from the nearest open directory above, or from the root.
int Descriptors::reopen(Node& node) {
    std::vector<Node*> chain;
    int at = -1;
    Node* start = &node;
    for (; start != nullptr; start = start->above) {
        std::lock_guard lock(start->mutex);
        if (start != &node && start->descriptor >= 0) {
            ++start->users;
            at = start->descriptor;
            break;
        }
        chain.push_back(start);
    }
    bool own = false;
    for (auto step = chain.rbegin(); step != chain.rend(); ++step) {
        const bool is_root = (*step)->above == nullptr;
        const bool follows = is_root ? follow_roots_ : follow_all_;
        const int kind = *step == &node ? open_flags : O_PATH | O_DIRECTORY | O_CLOEXEC;
        const int next =
            ::openat(is_root ? AT_FDCWD : at, (*step)->name(), kind | (follows ? 0 : O_NOFOLLOW));
        const int error = errno;
        if (own) ::close(at);
        errno = error;
        at = next;
        own = true;
        if (at < 0) break;
    }
    const int error = errno;
    if (start != nullptr) done(*start);
    errno = error;
    return at;
}

int Descriptors::reopen_from_below(Node& above, Node& below) {
    int descriptor = -1;
    {
        std::lock_guard lock(below.mutex);
        if (below.descriptor < 0) return -1;
        ++below.users;
        descriptor = below.descriptor;
    }
    const int found = ::openat(descriptor, "..", open_flags);
    done(below);
    return take(above, found);
}

int Descriptors::use_above(Node& node) {
    Node& above = *node.above;
    {
        std::lock_guard lock(above.mutex);
        if (above.descriptor >= 0) {
            ++above.users;
            return above.descriptor;
        }
    }
    const int quick = reopen_from_below(above, node);
    return quick >= 0 ? quick : use(above);
}

void Descriptors::close(Node& node) {
    std::lock_guard lock(node.mutex);
    if (node.descriptor < 0) return;
    ::close(node.descriptor);
    node.descriptor = -1;
    open_.fetch_sub(1, std::memory_order_relaxed);
}

/// Closes a directory above that no thread uses at the moment, if too many are open.
void Descriptors::make_room(const Node& node) {
    if (open_.load(std::memory_order_relaxed) < limit_ || node.above == nullptr) return;
    u32 looked_at = 0;
    for (Node* at = node.above->above; at != nullptr && looked_at < rooms_looked_at;
         at = at->above, ++looked_at) {
        if (close_idle(*at)) return;
    }
}

/// Closes a directory that is not in use and can be opened again. Returns whether it has.
bool Descriptors::close_idle(Node& node) {
    std::lock_guard lock(node.mutex);
    if (node.descriptor < 0 || node.users != 0) return false;
    if (!node.has_identity) node.has_identity = identify(node.descriptor, node.identity);
    if (!node.has_identity) return false;
    ::close(node.descriptor);
    node.descriptor = -1;
    open_.fetch_sub(1, std::memory_order_relaxed);
    return true;
}

}  // namespace warren::walk
