// SPDX-License-Identifier: Apache-2.0
// Implements warren/mount_ring.h by warren/mount_ring.hpp. std::bad_alloc becomes ENOMEM.
#include "warren/mount_ring.h"

#include <cerrno>
#include <new>
#include <vector>

#include "warren/mount_ring.hpp"

struct warren_mount_ring {
    std::unique_ptr<warren::MountRing> ring;
};

namespace {

using warren::Attributes;
using warren::Errc;
using warren::Result;

int number_of(Errc code) {
    return static_cast<int>(code);
}

warren::Handle handle_of(const warren_handle& handle) {
    return {handle.inode, handle.generation};
}

warren::Lookup lookup_of(const warren_name& name) {
    return {handle_of(name.directory), {name.name, name.length}};
}

std::vector<warren::Lookup> lookups_of(const warren_name* names, size_t count) {
    std::vector<warren::Lookup> lookups;
    lookups.reserve(count);
    for (size_t i = 0; i < count; ++i)
        lookups.push_back(lookup_of(names[i]));
    return lookups;
}

warren_found found_of(const Result<Attributes>& result) {
    warren_found found{};
    found.error = number_of(result.code());
    if (!result) return found;
    found.mode = result->mode;
    found.links = result->links;
    found.user = result->user;
    found.group = result->group;
    found.handle = {result->handle.inode, result->handle.generation};
    found.size = result->size;
    found.blocks = result->blocks;
    found.accessed = result->accessed;
    found.modified = result->modified;
    found.changed = result->changed;
    return found;
}

/// Calls `work()`; if it runs out of memory, calls `refuse()`.
template <class Work, class Refuse>
void guarded(const Work& work, const Refuse& refuse) {
    try {
        work();
    } catch (const std::bad_alloc&) {
        refuse();
    }
}

/// Calls `work(results)` and converts the result of each item.
template <class Work>
void find_all(size_t count, warren_found* found, const Work& work) {
    guarded(
        [&] {
            std::vector<Result<Attributes>> results(count, Errc::io);
            work(results);
            for (size_t i = 0; i < count; ++i)
                found[i] = found_of(results[i]);
        },
        [&] {
            for (size_t i = 0; i < count; ++i)
                found[i] = found_of(Errc::no_memory);
        });
}

template <class Work>
void change_all(size_t count, int* errors, const Work& work) {
    guarded(
        [&] {
            std::vector<Errc> results(count, Errc::io);
            work(results);
            for (size_t i = 0; i < count; ++i)
                errors[i] = number_of(results[i]);
        },
        [&] {
            for (size_t i = 0; i < count; ++i)
                errors[i] = ENOMEM;
        });
}

}  // namespace

int warren_mount_ring_open(const char* path, warren_mount_ring** ring) {
    int error = ENOMEM;
    *ring = nullptr;
    guarded(
        [&] {
            warren::Failure failure;
            auto made = std::make_unique<warren_mount_ring>();
            made->ring = warren::MountRing::open(path, failure);
            error = number_of(failure.code);
            if (made->ring != nullptr) *ring = made.release();
        },
        [] {});
    return *ring != nullptr ? 0 : error;
}

void warren_mount_ring_close(warren_mount_ring* ring) {
    delete ring;
}

int warren_mount_ring_attach(warren_mount_ring* ring, int directory, warren_handle* handle) {
    int error = ENOMEM;
    guarded(
        [&] {
            const Result<warren::Handle> attached = ring->ring->attach(directory);
            error = number_of(attached.code());
            if (attached) *handle = {attached->inode, attached->generation};
        },
        [] {});
    return error;
}

void warren_mount_ring_lookup(warren_mount_ring* ring, const warren_name* names, size_t count,
                              warren_found* found) {
    find_all(count, found, [&](std::vector<Result<Attributes>>& results) {
        ring->ring->lookup_many(lookups_of(names, count), results);
    });
}

void warren_mount_ring_create(warren_mount_ring* ring, const warren_name* names, size_t count,
                              uint32_t mode, uint32_t umask, warren_found* made) {
    find_all(count, made, [&](std::vector<Result<Attributes>>& results) {
        std::vector<warren::Creation> creations;
        creations.reserve(count);
        for (size_t i = 0; i < count; ++i) {
            const warren::Lookup place = lookup_of(names[i]);
            creations.push_back({place.directory, place.name, {.mode = mode}});
        }
        ring->ring->create_many(creations, umask, results);
    });
}

void warren_mount_ring_unlink(warren_mount_ring* ring, const warren_name* names, size_t count,
                              int* errors) {
    change_all(count, errors, [&](std::vector<Errc>& results) {
        ring->ring->unlink_many(lookups_of(names, count), results);
    });
}

void warren_mount_ring_move(warren_mount_ring* ring, const warren_name* sources,
                            const warren_name* targets, size_t count, int* errors) {
    change_all(count, errors, [&](std::vector<Errc>& results) {
        std::vector<warren::Move> moves;
        moves.reserve(count);
        for (size_t i = 0; i < count; ++i) {
            const warren::Lookup from = lookup_of(sources[i]);
            const warren::Lookup to = lookup_of(targets[i]);
            moves.push_back({from.directory, from.name, to.directory, to.name});
        }
        ring->ring->move_many(moves, results);
    });
}
