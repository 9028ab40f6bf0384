// SPDX-License-Identifier: Apache-2.0
// Items, roots and results. If memory runs out, every function here undoes what it has counted and
// throws; the worker then gives up the walk.
#include "walk/engine.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <vector>

#include "base/processors.hpp"
#include "walk/courier.hpp"
#include "walk/worker.hpp"

namespace warren::walk {

namespace {

constexpr size_t buffer_bytes = 128 * kib;
constexpr size_t sorted_buffer_bytes = 2 * mib;  // for a better order by inode
constexpr u32 threads_most = 32;
constexpr u32 open_least = 16;

/// Ranks on one node share its processors.
u32 thread_count(const Options& options) {
    u32 sharing = 1;
    if (options.group != nullptr) {
        const std::vector<u32>& nodes = options.group->nodes();
        sharing =
            static_cast<u32>(std::count(nodes.begin(), nodes.end(), nodes[options.group->rank()]));
    }
    const u32 own = std::max(1u, usable_processors() / sharing);
    return options.threads != 0 ? options.threads : std::min(own, threads_most);
}

bool is_central(const Options& options) {
    return options.group != nullptr && options.group->ranks() > 1 &&
           has_central_queue(options.scheduler);
}

/// This rank's share of the operations per second that the file server allows.
u64 own_rate(const Options& options) {
    const u64 rate = options.operations_per_second;
    return rate == 0 || options.group == nullptr ? rate
                                                 : std::max<u64>(1, rate / options.group->ranks());
}

u32 open_limit(const Options& options) {
    if (options.open_limit != 0) return options.open_limit;
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 256;
    return static_cast<u32>(std::clamp<rlim_t>(limit.rlim_cur / 2, open_least, 1u << 20));
}

}  // namespace

Payload* Payload::make(std::span<const std::byte> bytes) {
    auto* payload = new (::operator new(sizeof(Payload) + bytes.size())) Payload{bytes.size()};
    std::ranges::copy(bytes, payload->bytes());
    return payload;
}

void Payload::destroy(Payload* payload) {
    ::operator delete(payload);
}

Engine::Engine(const Options& options, const Callbacks& callbacks, void* result)
    : options_(options),
      callbacks_(callbacks),
      result_(result),
      pool_(thread_count(options), options.split),
      descriptors_(open_limit(options), options.follow != Follow::none,
                   options.follow == Follow::all, is_central(options)),
      limit_(own_rate(options)),
      status_flags_(AT_NO_AUTOMOUNT | (options.follow == Follow::all ? 0 : AT_SYMLINK_NOFOLLOW) |
                    (options.do_not_sync ? AT_STATX_DONT_SYNC : 0)),
      needs_identity_(options.follow == Follow::all || options.one_file_system),
      is_central_(is_central(options)),
      gives_files_(is_central_ && options.scheduler != Scheduler::cp_directories) {}

Totals Engine::run(std::span<const std::string> roots) {
    // Checkpoints are made by a courier, which needs a group.
    const std::unique_ptr<Group> lone = lone_group();
    if (options_.group == nullptr && !options_.checkpoint.empty()) options_.group = lone.get();
    if (options_.group != nullptr) {
        run_with_ranks(roots_of_rank_0(roots));
        return totals_of_all_ranks();
    }
    pool_.take_in_hand();
    pool_.run([&](u32 number) { work(number, roots); });
    if (given_up_.load(std::memory_order_relaxed)) throw std::bad_alloc();
    return totals();
}

Totals Engine::totals() const {
    Totals totals;
    totals.entries = entries_.load(std::memory_order_relaxed);
    totals.directories = directories_.load(std::memory_order_relaxed);
    totals.failures = failures_.load(std::memory_order_relaxed);
    totals.stopped = stopped_.load(std::memory_order_relaxed);
    totals.messages = messages_;
    totals.message_bytes = message_bytes_;
    totals.own_entries = totals.entries;
    totals.interrupted = interrupted_;
    return totals;
}

void Engine::give_up() {
    // Relaxed: the consequences are drawn after the threads have ended.
    given_up_.store(true, std::memory_order_relaxed);
    stopped_.store(true, std::memory_order_relaxed);
}

void Engine::work(u32 number, std::span<const std::string> roots) {
    Worker worker(number);
    or_give_up([&] { prepare(worker); });
    if (number == 0 && shows_roots()) {
        or_give_up([&] { show_roots(worker, roots); });
        root_done();  // releases the count of the roots themselves
        pool_.done();
    }
    Item item;
    while (pool_.take(number, item)) {
        or_give_up([&] { process(worker, item); });
        pool_.done(item.work != Work::merge && item.work != Work::link_answers);
    }
}

void Engine::prepare(Worker& worker) {
    worker.buffer.resize(options_.inode_order ? sorted_buffer_bytes : buffer_bytes);
    worker.visit.engine = this;
    worker.visit.worker = worker.number;
    worker.visit.result.assign((options_.result_bytes + 7) / 8, 0);
    worker.visit.own_result = worker.visit.result;
}

void Engine::show_roots(Worker& worker, std::span<const std::string> roots) {
    for (const std::string& root : roots) {
        if (stopped_.load(std::memory_order_relaxed)) break;
        show_root(worker, root);
        settle(worker, nullptr);
    }
}

void Engine::show_root(Worker& worker, const std::string& root) {
    Visit& visit = worker.visit;
    visit.enter(nullptr, AT_FDCWD, 0);
    visit.show(root.c_str(), static_cast<u32>(root.size()), Type::unknown, 0);
    if (options_.follow != Follow::none) visit.status_flags &= ~AT_SYMLINK_NOFOLLOW;
    if (!find_type(worker)) return;
    entries_.fetch_add(1, std::memory_order_relaxed);
    const Next next = callbacks_.visit(visit.entry);
    if (next == Next::stop) stopped_.store(true, std::memory_order_relaxed);
    if (visit.entry.type() == Type::directory && next == Next::go_on && options_.max_depth > 0) {
        roots_left_.fetch_add(1, std::memory_order_relaxed);
        try {
            queue_directory(worker, nullptr);
        } catch (const std::bad_alloc&) {
            // Relaxed: the count of the roots themselves is still held.
            roots_left_.fetch_sub(1, std::memory_order_relaxed);
            throw;
        }
    }
    keep_own_result(worker, nullptr);
}

void Engine::process(Worker& worker, Item item) {
    switch (item.work) {
        case Work::directory:
            return read_directory(worker, *item.node);
        case Work::task:
            return run_task(worker, item);
        case Work::names:
            return show_names(worker, item);
        case Work::merge:
            return take_result(item);
        case Work::link_answers:
            return take_link_answers(item);
    }
}

void Engine::run_task(Worker& worker, Item item) {
    Hold hold(*this, *item.node, false);
    const OwnPayload payload(item.payload);
    if (callbacks_.work && !stopped_.load(std::memory_order_relaxed)) {
        Visit& visit = worker.visit;
        const int directory = descriptors_.use(*item.node);
        const i32 error = directory < 0 ? errno : 0;
        if (directory >= 0) hold.use();
        visit.has_result = true;
        callbacks_.work({directory,
                         path_of(*item.node),
                         {payload->bytes(), payload->size},
                         visit.result.data(),
                         error});
    }
    settle(worker, item.node);
}

void Engine::show_entry(Worker& worker) {
    Visit& visit = worker.visit;
    if (!find_type(worker)) return;
    const Next next = callbacks_.visit(visit.entry);
    if (next == Next::stop) {
        stopped_.store(true, std::memory_order_relaxed);
    } else if (visit.entry.type() == Type::directory && next == Next::go_on &&
               visit.entry.depth() < options_.max_depth) {
        visit.node->children.fetch_add(1, std::memory_order_relaxed);
        queue_directory(worker, visit.node);
    }
    keep_own_result(worker, visit.node);
}

/// Reads the type if the directory does not list it, or if the entry is a link to follow. Returns
/// false if there is no entry to show.
bool Engine::find_type(Worker& worker) {
    Visit& visit = worker.visit;
    const Type listed = visit.entry.type();
    const bool follows = (visit.status_flags & AT_SYMLINK_NOFOLLOW) == 0;
    const bool may_be_loop =
        follows && visit.node != nullptr &&
        (listed != Type::directory || has_inode(visit.node, visit.entry.inode()));
    if (listed != Type::unknown && !(follows && listed == Type::link) &&
        !(listed == Type::directory && may_be_loop)) {
        return true;
    }
    const struct statx* status = visit.entry.status(STATX_TYPE | STATX_INO);
    if (status == nullptr) return false;
    visit.set_type(type_of_mode(status->stx_mode));
    if (!may_be_loop || visit.entry.type() != Type::directory) return true;
    if (!is_loop(visit.node, {device_of(*status), status->stx_ino})) return true;
    visit.entry.fail("loop", ELOOP);
    return false;
}

void Engine::queue_directory(Worker& worker, Node* above) {
    Visit& visit = worker.visit;
    Node* node = Node::make(above, visit.entry.name_view(), options_.result_bytes);
    if (visit.has_own_result) {
        std::memcpy(node->result(), visit.own_result.data(), options_.result_bytes);
        std::fill(visit.own_result.begin(), visit.own_result.end(), 0);
        visit.has_own_result = false;
    }
    try {
        pool_.push(worker.number, {node});
    } catch (const std::bad_alloc&) {
        // Relaxed: the caller's own count is still held.
        if (above != nullptr) above->pending.fetch_sub(1, std::memory_order_relaxed);
        Node::destroy(node);
        throw;
    }
}

/// Merges the entry's own result into the directory above, unless a queued directory has taken it.
void Engine::keep_own_result(Worker& worker, Node* above) {
    Visit& visit = worker.visit;
    if (!visit.has_own_result) return;
    merge_into(above, visit.own_result.data());
    std::fill(visit.own_result.begin(), visit.own_result.end(), 0);
    visit.has_own_result = false;
}

/// Merges what the worker has gathered into the result of the directory (null: of the whole walk).
void Engine::settle(Worker& worker, Node* node) {
    Visit& visit = worker.visit;
    if (!visit.has_result) return;
    visit.has_result = false;
    merge_into(node, visit.result.data());
    std::fill(visit.result.begin(), visit.result.end(), 0);
}

void Engine::merge_into(Node* node, const void* from) {
    if (!callbacks_.merge || options_.result_bytes == 0) return;
    if (node != nullptr) {
        std::lock_guard lock(node->mutex);
        callbacks_.merge(node->result(), from);
    } else if (result_ != nullptr) {
        std::lock_guard lock(result_mutex_);
        callbacks_.merge(result_, from);
    }
}

void Engine::release(Node* node) {
    // Acquire and release: the thread that finishes a directory sees what all other threads did in
    // it.
    while (node != nullptr && node->pending.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        Node* const above = node->above;
        const bool is_root = above == nullptr && node->kind == NodeKind::own;
        finish(*node);
        if (is_root) root_done();
        node = above;
    }
}

/// Does not throw: the result must reach the directory above or the owner in any case.
void Engine::finish(Node& node) {
    const bool is_here = node.kind == NodeKind::own || node.kind == NodeKind::adopted;
    if (is_here && callbacks_.finish && !stopped_.load(std::memory_order_relaxed)) {
        or_give_up([&] { call_finish(node); });
    }
    const ResultTarget goes = result_target(node.kind);
    if (goes == ResultTarget::above) {
        merge_into(node.above, node.result());
    } else if (goes == ResultTarget::owner) {
        return_result(node);
    }
    descriptors_.close(node);
    Node::destroy(&node);
}

void Engine::call_finish(Node& node) {
    const bool is_root = node.above == nullptr;
    const int above = is_root ? AT_FDCWD : descriptors_.use_above(node);
    callbacks_.finish(Finished(node, above));
    if (!is_root && above >= 0) descriptors_.done(*node.above);
}

void Engine::root_done() {
    // Acquire and release: the thread that closes the pool sees what all other threads did. Also
    // pairs with Courier::owes().
    const bool was_last = roots_left_.fetch_sub(1, std::memory_order_acq_rel) == 1;
    if (was_last && courier_ == nullptr) pool_.close();
}

void Engine::report(std::string path, const char* action, i32 error) {
    failures_.fetch_add(1, std::memory_order_relaxed);
    if (callbacks_.fail) callbacks_.fail({std::move(path), action, error});
}

Totals walk(std::span<const std::string> roots, const Options& options, const Callbacks& callbacks,
            void* result) {
    return Engine(options, callbacks, result).run(roots);
}

}  // namespace warren::walk
