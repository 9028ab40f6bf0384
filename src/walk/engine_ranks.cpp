// SPDX-License-Identifier: Apache-2.0
// The walk of one rank among others: what its workers do with messages of other ranks, and what all
// ranks agree on before and after the walk.
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "walk/courier.hpp"
#include "walk/engine.hpp"
#include "walk/worker.hpp"

namespace warren::walk {

bool Engine::is_first_rank() const {
    return options_.group == nullptr || options_.group->rank() == 0;
}

std::vector<std::string> Engine::roots_of_rank_0(std::span<const std::string> roots) {
    ByteWriter writer;
    for (const std::string& root : roots)
        writer.put_bytes(root);
    const std::string shared = options_.group->share(writer.bytes());
    std::vector<std::string> all;
    for (ByteReader reader(shared); !reader.at_end();)
        all.emplace_back(reader.get_bytes());
    return all;
}

void Engine::run_with_ranks(std::vector<std::string> roots) {
    Group& group = *options_.group;
    if (shows_roots()) {
        pool_.take_in_hand();
    } else {
        roots_left_.store(0, std::memory_order_relaxed);
    }
    Courier courier(*this, group);
    if (!options_.checkpoint.empty() && !prepare_checkpoints(courier, roots)) return;
    group.begin_walk();
    courier_ = &courier;
    pool_.run([&](u32 number) { work(number, roots); }, [&] { lead(courier); });
    messages_ = courier.messages();
    message_bytes_ = courier.message_bytes();
    group.end_walk();
}

void Engine::lead(Courier& courier) {
    try {
        courier.run();
    } catch (const std::bad_alloc&) {
        // With other ranks the process must end: they would wait forever for this rank's messages.
        if (options_.group->ranks() > 1) throw;
        give_up();
        courier.end_alone();
    }
}

/// Prepares to write checkpoints, or resumes from one. If that is not possible, reports the reason
/// and returns false; nothing is walked then.
bool Engine::prepare_checkpoints(Courier& courier, const std::vector<std::string>& roots) {
    u64 hash = 0xcbf29ce484222325u;  // FNV-1a over all roots, each with its terminating zero
    for (const std::string& root : roots) {
        for (const char* at = root.c_str(); at <= root.c_str() + root.size(); ++at)
            hash = (hash ^ static_cast<u8>(*at)) * 0x100000001b3u;
    }
    courier.set_roots(hash);
    bool is_good = true;
    if (options_.resume && has_central_queue(options_.scheduler)) {
        is_good = false;
        report(options_.checkpoint, "go on with this scheduler from", ENOTSUP);
    } else if (options_.resume) {
        is_good = courier.resume(roots);
    } else if (is_first_rank()) {
        const Errc code = CheckpointFolder(options_.checkpoint).prepare();
        is_good = code == Errc::ok;
        if (!is_good) report(options_.checkpoint, "make", static_cast<i32>(code));
    }
    is_good = options_.group->share(is_good ? "good" : "bad") == "good";
    if (!is_good) stopped_.store(true, std::memory_order_relaxed);
    return is_good;
}

/// Continues reading where a checkpoint says, or counts a directory that is read from its start.
bool Engine::seek(Node& node) {
    if (node.position == 0) {
        directories_.fetch_add(1, std::memory_order_relaxed);
        return true;
    }
    const i64 position = std::exchange(node.position, 0);
    if (::lseek(node.descriptor, position, SEEK_SET) >= 0) return true;
    report(path_of(node), "read", errno);
    return false;
}

Totals Engine::totals_of_all_ranks() const {
    const Totals own = totals();
    ByteWriter writer;
    for (const u64 count : {own.entries, own.directories, own.failures})
        writer.put(count);
    for (const bool was : {own.stopped, own.interrupted})
        writer.put(was);
    bool is_given_up = given_up_.load(std::memory_order_relaxed);
    writer.put(is_given_up);
    Totals sum = own;
    sum.entries = sum.directories = sum.failures = 0;
    for (const std::string& bytes : options_.group->gather(writer.bytes())) {
        ByteReader reader(bytes);
        for (u64* const count : {&sum.entries, &sum.directories, &sum.failures})
            *count += reader.get<u64>();
        for (bool* const was : {&sum.stopped, &sum.interrupted, &is_given_up})
            *was = reader.get<bool>() || *was;
    }
    if (is_given_up) throw std::bad_alloc();
    return sum;
}

/// Returns the result of a node to its owner, which waits for it. If there is no memory for these
/// few bytes, tries again until there is.
void Engine::return_result(Node& node) {
    for (bool is_queued = false; !is_queued;) {
        or_give_up([&] {
            courier_->return_result(node.owner, node.result(), options_.result_bytes);
            is_queued = true;
        });
        if (!is_queued) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

/// Processes names that another rank has read.
void Engine::show_names(Worker& worker, Item item) {
    Node& node = *item.node;
    Hold hold(*this, node, false);
    const OwnPayload payload(item.payload);
    if (stopped_.load(std::memory_order_relaxed)) return;
    if (descriptors_.use(node) >= 0) {
        hold.use();
        show_part(worker, node, {payload->bytes(), payload->size});
    } else {
        report(path_of(node), "open", errno);
    }
}

/// Merges the result of work that was given away into the directory, and releases its count.
void Engine::take_result(Item item) {
    if (item.payload->size != 0) merge_into(item.node, item.payload->bytes());
    Payload::destroy(item.payload);
    if (item.node == nullptr) return root_done();
    release(item.node);
}

void Engine::count_once(Visit& visit, u64 device, u64 inode, u32 names, const void* amount) {
    const bool is_mine = names < 2 || courier_ == nullptr ||
                         courier_->rank_of_file(device, inode) == options_.group->rank();
    if (is_mine) {
        if (!links().is_first(device, inode, names)) return;
        visit.has_result = true;
        if (callbacks_.merge) callbacks_.merge(visit.result.data(), amount);
        return;
    }
    // Relaxed: the caller holds a count of the directory, or the count of the roots themselves.
    if (visit.node != nullptr) {
        visit.node->pending.fetch_add(1, std::memory_order_relaxed);
    } else {
        roots_left_.fetch_add(1, std::memory_order_relaxed);
    }
    try {
        courier_->query_link(device, inode, names, visit.node,
                             {static_cast<const char*>(amount), options_.result_bytes});
    } catch (const std::bad_alloc&) {
        // Relaxed: the caller's own count is still held.
        if (visit.node != nullptr) {
            visit.node->pending.fetch_sub(1, std::memory_order_relaxed);
        } else {
            roots_left_.fetch_sub(1, std::memory_order_relaxed);
        }
        throw;
    }
}

void Engine::take_link_answers(Item item) {
    LinkQuery* pointer = nullptr;
    std::memcpy(&pointer, item.payload->bytes(), sizeof pointer);
    Payload::destroy(item.payload);
    const std::unique_ptr<LinkQuery> query(pointer);
    // Results must be aligned in memory; in a message they are not.
    std::vector<u64> amount;
    or_give_up([&] { amount.resize((options_.result_bytes + 7) / 8); });
    for (size_t at = 0; at < query->nodes.size(); ++at) {
        Node* const node = query->nodes[at];
        if (query->firsts[at] == '1' && !amount.empty()) {
            std::memcpy(amount.data(), query->amounts.data() + at * options_.result_bytes,
                        options_.result_bytes);
            merge_into(node, amount.data());
        }
        if (node == nullptr) {
            root_done();
        } else {
            release(node);
        }
    }
}

}  // namespace warren::walk
