// SPDX-License-Identifier: Apache-2.0
// The walk of one process: workers take directories from the pool, read them in parts, pass the
// entries to the callback and queue the directories among them.
//
// Invariant: a directory's `pending` counts its reader, every worker that processes a part of it,
// its unfinished children and tasks, and its results due from other ranks. The thread that reduces
// it to zero finishes the directory and releases a count of the one above. The walk is over when
// the last root is finished. If memory runs out no count is lost: the walk stops as if a callback
// had ended it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "walk/names.hpp"
#include "walk/node.hpp"
#include "walk/pool.hpp"
#include "walk/rate_limit.hpp"
#include "walk/visit.hpp"

namespace warren::walk {

/// Bytes queued with an item; they follow this header.
struct Payload {
    size_t size;
    std::byte* bytes() { return reinterpret_cast<std::byte*>(this + 1); }
    static Payload* make(std::span<const std::byte> bytes);
    static void destroy(Payload* payload);
};

/// Deleter of OwnPayload.
struct PayloadEnd {
    void operator()(Payload* payload) const { Payload::destroy(payload); }
};
using OwnPayload = std::unique_ptr<Payload, PayloadEnd>;

class Courier;

/// A group that consists of this process only.
std::unique_ptr<Group> lone_group();

class Engine {
 public:
    Engine(const Options& options, const Callbacks& callbacks, void* result);

    Totals run(std::span<const std::string> roots);

    int status_flags() const { return status_flags_; }
    RateLimit& limit() { return limit_; }
    void add_task(Visit& visit, std::span<const std::byte> payload);
    void report(std::string path, const char* action, i32 error);
    void count_once(Visit& visit, u64 device, u64 inode, u32 names, const void* amount);
    LinkSet& links() { return options_.links == nullptr ? own_links_ : *options_.links; }

 private:
    friend class Courier;
    struct Worker;
    class Hold;

    bool shows_roots() const { return is_first_rank() && !options_.resume; }
    bool seek(Node& node);

    void run_with_ranks(std::vector<std::string> roots);
    bool prepare_checkpoints(Courier& courier, const std::vector<std::string>& roots);
    std::vector<std::string> roots_of_rank_0(std::span<const std::string> roots);
    Totals totals() const;
    Totals totals_of_all_ranks() const;
    bool is_first_rank() const;

    /// Runs `body`; if memory runs out in it, gives up the walk.
    template <class Body>
    void or_give_up(const Body& body) {
        try {
            body();
        } catch (const std::bad_alloc&) {
            give_up();
        }
    }
    void give_up();
    void lead(Courier& courier);

    void work(u32 number, std::span<const std::string> roots);
    void prepare(Worker& worker);
    void show_roots(Worker& worker, std::span<const std::string> roots);
    void show_root(Worker& worker, const std::string& root);
    void process(Worker& worker, Item item);
    void run_task(Worker& worker, Item item);
    void show_names(Worker& worker, Item item);
    void take_result(Item item);
    void take_link_answers(Item item);
    void read_directory(Worker& worker, Node& node);
    bool begin(Node& node, Hold& hold);
    bool admit(Node& node);
    void read(Worker& worker, Node& node);
    void share_reading(Worker& worker, Node& node);
    void show_part(Worker& worker, Node& node, std::span<const std::byte> part);
    u64 show_in_order(Worker& worker, Node& node);
    u64 show_name(Worker& worker, Node& node, const Name& name);
    bool asks_ahead(const Worker& worker) const;
    void queue_name(Worker& worker, Node& node, const Name& name);
    void show_entry(Worker& worker);
    bool find_type(Worker& worker);
    void queue_directory(Worker& worker, Node* above);
    void keep_own_result(Worker& worker, Node* above);
    void settle(Worker& worker, Node* node);
    void release(Node* node);
    void finish(Node& node);
    void call_finish(Node& node);
    void return_result(Node& node);
    void merge_into(Node* node, const void* from);
    void root_done();

    Options options_;
    const Callbacks& callbacks_;
    void* result_;
    std::mutex result_mutex_;
    Pool pool_;
    Descriptors descriptors_;
    RateLimit limit_;
    int status_flags_;
    bool needs_identity_;
    bool is_central_;   // everything that is found goes to rank 0
    bool gives_files_;  // files are items of their own
    std::atomic<u64> roots_left_{1};
    std::atomic<u64> entries_{0};
    std::atomic<u64> directories_{0};
    std::atomic<u64> failures_{0};
    std::atomic<bool> stopped_{false};
    std::atomic<bool> given_up_{false};  // memory ran out; stopped_ is set too
    LinkSet own_links_;
    bool interrupted_ = false;
    Courier* courier_ = nullptr;  // null in a walk without a group
    u64 messages_ = 0;
    u64 message_bytes_ = 0;
};

}  // namespace warren::walk
