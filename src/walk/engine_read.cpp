// SPDX-License-Identifier: Apache-2.0
// A directory that fills a buffer is queued again before its names are processed, so that an idle
// worker can read the next part meanwhile. A directory of any size is never in memory as a whole:
// the subdirectories that it queues are younger than its own item, so they are processed first.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "walk/engine.hpp"
#include "walk/worker.hpp"

namespace warren::walk {

namespace {

constexpr u64 names_a_look = 64;        // names between checks for slow statuses
constexpr u32 children_at_once = 4096;  // of a large directory, at least

/// The types of <dirent.h> are the upper bits of a mode.
Type type_of_name(u8 type) {
    return type_of_mode(static_cast<u32>(type) << 12);
}

}  // namespace

void Engine::read_directory(Worker& worker, Node& node) {
    // An open directory is still in use since its previous part.
    Hold hold(*this, node, node.opened);
    if (node.opened || begin(node, hold)) read(worker, node);
}

/// Opens the directory. Returns whether it is to be read.
bool Engine::begin(Node& node, Hold& hold) {
    if (stopped_.load(std::memory_order_relaxed)) return false;
    limit_.take();
    const int error = descriptors_.open(node);
    if (error != 0) {
        report(path_of(node), "open", error);
        return false;
    }
    hold.use();
    return admit(node) && seek(node);
}

/// Whether the opened directory belongs to the walk: on the same file system if required, and no
/// loop.
bool Engine::admit(Node& node) {
    if (!needs_identity_) return true;
    Identity identity;
    if (!identify(node.descriptor, identity)) {
        report(path_of(node), "stat", errno);
        return false;
    }
    {
        std::lock_guard lock(node.mutex);
        node.identity = identity;
        node.has_identity = true;
    }
    if (options_.one_file_system && node.above != nullptr) {
        const Node* root = &node;
        while (root->above != nullptr)
            root = root->above;
        if (identity.device != root->identity.device) return false;
    }
    if (is_loop(node.above, identity)) {
        report(path_of(node), "loop", ELOOP);
        return false;
    }
    return true;
}

/// Reads parts of the directory until its end, or until another worker may continue.
void Engine::read(Worker& worker, Node& node) {
    while (!stopped_.load(std::memory_order_relaxed)) {
        limit_.take();
        const long size =
            ::syscall(SYS_getdents64, node.descriptor, worker.buffer.data(), worker.buffer.size());
        if (size < 0) report(path_of(node), "read", errno);
        if (size <= 0) {
            node.complete = size == 0;
            return;
        }
        const auto part = std::span(worker.buffer).first(static_cast<size_t>(size));
        const bool is_full = part.size() > worker.buffer.size() / 2;
        const bool is_large = node.children.load(std::memory_order_relaxed) >= children_at_once;
        // Otherwise all names to be given away would be queued first.
        const bool may_share = options_.share_directories || gives_files_;
        const bool hands_on = is_large || (is_full && may_share);
        if (hands_on) share_reading(worker, node);
        worker.gives_files = gives_files_;
        show_part(worker, node, part);
        worker.gives_files = false;
        if (hands_on) return;
    }
}

/// Queues the directory again, while the caller processes the part that it has read.
void Engine::share_reading(Worker& worker, Node& node) {
    // Relaxed: this worker holds a count. The item gets a count and a use of the descriptor of its
    // own.
    node.pending.fetch_add(1, std::memory_order_relaxed);
    static_cast<void>(descriptors_.use(node));  // it is open
    try {
        pool_.push(worker.number, {&node});
    } catch (const std::bad_alloc&) {
        descriptors_.done(node);
        node.pending.fetch_sub(1, std::memory_order_relaxed);
        throw;
    }
}

void Engine::show_part(Worker& worker, Node& node, std::span<const std::byte> part) {
    Visit& visit = worker.visit;
    visit.enter(&node, node.descriptor, node.depth + 1);
    u64 entries = 0;
    worker.order.clear();
    bool keeps_order = options_.inode_order || asks_ahead(worker);
    for (size_t offset = 0; offset < part.size();) {
        const auto& name = *reinterpret_cast<const Name*>(part.data() + offset);
        offset += name.size;
        if (keeps_order) {
            worker.order.push_back(&name);
            continue;
        }
        if (stopped_.load(std::memory_order_relaxed)) break;
        entries += show_name(worker, node, name);
        if (entries % names_a_look == 0) keeps_order = asks_ahead(worker);
    }
    if (options_.inode_order) {
        std::sort(worker.order.begin(), worker.order.end(),
                  [](const Name* left, const Name* right) { return left->inode < right->inode; });
    }
    entries += show_in_order(worker, node);
    entries_.fetch_add(entries, std::memory_order_relaxed);
    settle(worker, &node);
    if (options_.meter == nullptr || courier_ != nullptr) return;
    options_.meter->entries.fetch_add(entries, std::memory_order_relaxed);
    options_.meter->directories.store(directories_.load(std::memory_order_relaxed),
                                      std::memory_order_relaxed);
    options_.meter->queued.store(pool_.queued(), std::memory_order_relaxed);
}

/// Processes the collected names, with the statuses of the next ones requested ahead if that is
/// worthwhile. Returns the number of entries.
u64 Engine::show_in_order(Worker& worker, Node& node) {
    StatusAhead& ahead = worker.visit.ahead;
    const std::span<const Name* const> names = worker.order;
    u64 entries = 0;
    bool asks = false;
    size_t begun_at = 0;
    for (size_t at = 0; at < names.size() && !stopped_.load(std::memory_order_relaxed); ++at) {
        if (!asks && at % names_a_look == 0 && asks_ahead(worker)) {
            asks = ahead.begin(node.descriptor, status_flags_, names.subspan(at));
            begun_at = at;
        }
        if (asks) ahead.go_to(at - begun_at);
        try {
            entries += show_name(worker, node, *names[at]);
        } catch (const std::bad_alloc&) {
            if (asks) ahead.end();  // the kernel still writes the statuses it was asked for
            throw;
        }
    }
    if (asks) ahead.end();
    return entries;
}

/// Returns 1 if the name is an entry that was shown, else 0.
u64 Engine::show_name(Worker& worker, Node& node, const Name& name) {
    if (is_dot(name.text)) return 0;
    if (worker.gives_files && type_of_name(name.type) != Type::directory) {
        queue_name(worker, node, name);
        return 0;
    }
    Visit& visit = worker.visit;
    visit.show(name.text, static_cast<u32>(std::strlen(name.text)), type_of_name(name.type),
               name.inode);
    show_entry(worker);
    visit.ahead.learn(name.type, visit.was_asked);
    return 1;
}

/// Whether it is worthwhile to request statuses ahead.
bool Engine::asks_ahead(const Worker& worker) const {
    // Under a rate limit requests must be made one at a time; files that are given away are not
    // shown.
    if (options_.operations_per_second != 0 || worker.gives_files) return false;
    return options_.ahead == Ahead::always ||
           (options_.ahead == Ahead::measured && worker.visit.pace.is_slow());
}

/// Queues the name as an item, which some rank will request.
void Engine::queue_name(Worker& worker, Node& node, const Name& name) {
    const auto bytes = std::as_bytes(std::span(&name, 1)).data();
    OwnPayload payload(Payload::make({bytes, name.size}));
    // Relaxed, here and below: the caller holds a count of the directory.
    node.pending.fetch_add(1, std::memory_order_relaxed);
    try {
        pool_.push(worker.number, {&node, payload.get(), Work::names});
    } catch (const std::bad_alloc&) {
        node.pending.fetch_sub(1, std::memory_order_relaxed);
        throw;
    }
    static_cast<void>(payload.release());
}

}  // namespace warren::walk
