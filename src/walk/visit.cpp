// SPDX-License-Identifier: Apache-2.0
// No system call is made and no path is built before a callback needs the result.
#include "walk/visit.hpp"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <new>

#include "walk/engine.hpp"
#include "walk/work_batch.hpp"

namespace warren::walk {

namespace {

u64 nanoseconds_now() {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<u64>(time.tv_sec) * 1'000'000'000 + static_cast<u64>(time.tv_nsec);
}

}  // namespace

void Visit::enter(Node* parent, int directory, u32 depth) {
    node = parent;
    prefix_bytes = 0;
    entry.visit_ = this;
    entry.directory_ = directory;
    entry.depth_ = depth;
}

void Visit::show(const char* name, u32 size, Type type, u64 inode) {
    entry.name_ = name;
    entry.name_size_ = size;
    entry.type_ = type;
    entry.inode_ = inode;
    has_path = false;
    status_mask = 0;
    status_error = 0;
    status_flags = engine->status_flags();
    was_asked = false;
}

i32 Visit::load_status(u32 mask) {
    if (status_error != 0) return status_error;
    if ((status_mask & mask) == mask && status_mask != 0) return 0;
    was_asked = true;
    if (const struct statx* found = ahead.find(mask)) {
        status = *found;
        status_mask = ahead.mask();
        return 0;
    }
    ahead.learn_mask(mask);
    engine->limit().take();
    const int directory = entry.directory();
    const u64 begun = pace.is_due() ? nanoseconds_now() : 0;
    int answer = ::statx(directory, entry.name(), status_flags, mask, &status);
    if (begun != 0) pace.note(nanoseconds_now() - begun);
    const bool follows = (status_flags & AT_SYMLINK_NOFOLLOW) == 0;
    if (answer != 0 && follows && (errno == ENOENT || errno == ELOOP)) {
        // A dangling link stands for itself.
        status_flags |= AT_SYMLINK_NOFOLLOW;
        answer = ::statx(directory, entry.name(), status_flags, mask, &status);
    }
    if (answer != 0) return status_error = errno;
    status_mask = mask | STATX_TYPE;
    return 0;
}

std::string_view Visit::entry_path() {
    if (has_path) return path;
    if (node == nullptr) {
        path.assign(entry.name_view());
    } else {
        if (prefix_bytes == 0) {
            path = path_of(*node);
            if (path.empty() || path.back() != '/') path += '/';
            prefix_bytes = path.size();
        }
        path.resize(prefix_bytes);
        path += entry.name_view();
    }
    has_path = true;
    return path;
}

Type type_of_mode(u32 mode) {
    switch (mode & S_IFMT) {
        case S_IFIFO:
            return Type::fifo;
        case S_IFCHR:
            return Type::character;
        case S_IFDIR:
            return Type::directory;
        case S_IFBLK:
            return Type::block;
        case S_IFREG:
            return Type::regular;
        case S_IFLNK:
            return Type::link;
        case S_IFSOCK:
            return Type::socket;
        default:
            return Type::unknown;
    }
}

std::string_view Entry::path() const {
    return visit_->entry_path();
}

const struct statx* Entry::status(u32 mask, bool quiet) const {
    const bool fresh = visit_->status_error == 0;
    const i32 error = visit_->load_status(mask);
    if (error == 0) return &visit_->status;
    if (fresh && !quiet) fail("stat", error);
    return nullptr;
}

u32 Entry::worker() const {
    return visit_->worker;
}

void* Entry::result_memory() const {
    visit_->has_result = true;
    return visit_->result.data();
}

void* Entry::own_result_memory() const {
    visit_->has_own_result = true;
    return visit_->own_result.data();
}

void Engine::add_task(Visit& visit, std::span<const std::byte> payload) {
    // A task of a root, which is in no directory, is run at once.
    if (visit.node == nullptr) {
        visit.has_result = true;
        if (callbacks_.work) callbacks_.work({AT_FDCWD, "", payload, visit.result.data()});
        return;
    }
    Payload* const copy = Payload::make(payload);
    // Relaxed, here and below: the caller holds a count of the directory.
    visit.node->pending.fetch_add(1, std::memory_order_relaxed);
    try {
        pool_.push(visit.worker, {visit.node, copy, Work::task});
    } catch (const std::bad_alloc&) {
        visit.node->pending.fetch_sub(1, std::memory_order_relaxed);
        Payload::destroy(copy);
        throw;
    }
}

void Entry::add(std::span<const std::byte> payload) const {
    visit_->engine->add_task(*visit_, payload);
}

void Entry::add_once(u64 device, u64 inode, u32 links, const void* amount) const {
    visit_->engine->count_once(*visit_, device, inode, links, amount);
}

void Entry::fail(const char* action, i32 error) const {
    visit_->engine->report(std::string(path()), action, error);
}

const char* Finished::name() const {
    return node_.name();
}

std::string Finished::path() const {
    return path_of(node_);
}

u32 Finished::depth() const {
    return node_.depth;
}

bool Finished::complete() const {
    return node_.complete;
}

bool Finished::is_read(int descriptor) const {
    learn_identity(node_);
    Identity identity;
    return node_.has_identity && identify(descriptor, identity) && identity == node_.identity;
}

void* Finished::result_memory() const {
    return node_.result();
}

}  // namespace warren::walk
