// SPDX-License-Identifier: Apache-2.0
// A directory that fills a buffer is put back into the queue before its names are looked at, so
// that an idle worker reads the next part meanwhile and a directory of any size is never in memory
// as a whole: what it queues lies above it and is done first.
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

namespace warren::walk {

namespace {

constexpr size_t buffer_bytes = 128 * kib;
constexpr size_t sorted_buffer_bytes = 2 * mib;  // inode order is worth more the more is sorted
constexpr u64 names_a_look = 64;        // until it is asked again whether statuses take long
constexpr u32 children_at_once = 4096;  // queued before a directory counts as large
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

/// And what the file server allows.
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

/// The types of <dirent.h> are the upper bits of a mode.
Type type_of_name(u8 type) {
    return type_of_mode(static_cast<u32>(type) << 12);
}

}  // namespace

struct Engine::Worker {
    explicit Worker(u32 own_number) : number(own_number) {}
    u32 number;
    Visit visit;
    std::vector<std::byte> buffer;
    std::vector<const Name*> order;
    bool gives_files = false;  // of the part at hand
};

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
    // A walk with checkpoints has one who makes them.
    const std::unique_ptr<Group> lone = lone_group();
    if (options_.group == nullptr && !options_.checkpoint.empty()) options_.group = lone.get();
    if (options_.group != nullptr) {
        run_with_ranks(roots_of_rank_0(roots));
        return totals_of_all_ranks();
    }
    pool_.take_in_hand();
    pool_.run([&](u32 number) { work(number, roots); });
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

void Engine::work(u32 number, std::span<const std::string> roots) {
    Worker worker(number);
    worker.buffer.resize(options_.inode_order ? sorted_buffer_bytes : buffer_bytes);
    worker.visit.engine = this;
    worker.visit.worker = number;
    worker.visit.result.assign((options_.result_bytes + 7) / 8, 0);
    worker.visit.own_result = worker.visit.result;
    if (number == 0 && shows_roots()) {
        show_roots(worker, roots);
        root_done();  // that of the roots themselves
        pool_.done();
    }
    Item item;
    while (pool_.take(number, item)) {
        process(worker, item);
        pool_.done(item.work != Work::merge && item.work != Work::verdicts);
    }
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
        queue_directory(worker, nullptr);
    }
    keep_own_result(worker, nullptr);
}

void Engine::process(Worker& worker, Item item) {
    switch (item.work) {
        case Work::directory:
            // One that is open is in use since the part before.
            return item.node->opened ? read(worker, *item.node) : begin(worker, *item.node);
        case Work::task:
            return run_task(worker, item);
        case Work::names:
            return show_names(worker, item);
        case Work::merge:
            return take_result(item);
        case Work::verdicts:
            return take_verdicts(item);
    }
}

void Engine::run_task(Worker& worker, Item item) {
    if (callbacks_.work && !stopped_.load(std::memory_order_relaxed)) {
        Visit& visit = worker.visit;
        const int directory = descriptors_.use(*item.node);
        visit.has_result = true;
        callbacks_.work({directory,
                         path_of(*item.node),
                         {item.payload->bytes(), item.payload->size},
                         visit.result.data()});
        if (directory >= 0) descriptors_.done(*item.node);
    }
    Payload::destroy(item.payload);
    settle(worker, item.node);
    release(item.node);
}

/// Opens the directory and reads it, unless it is not to be read.
void Engine::begin(Worker& worker, Node& node) {
    if (stopped_.load(std::memory_order_relaxed)) return release(&node);
    limit_.take();
    const int error = descriptors_.open(node);
    if (error != 0) {
        report(path_of(node), "open", error);
        return release(&node);
    }
    if (!admit(node)) {
        descriptors_.done(node);
        return release(&node);
    }
    if (!seek(node)) return release(&node);
    read(worker, node);
}

/// Whether the opened directory is one that is walked.
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

/// Reads parts of the directory until its end or until another worker may go on.
void Engine::read(Worker& worker, Node& node) {
    while (true) {
        limit_.take();
        const long size =
            ::syscall(SYS_getdents64, node.descriptor, worker.buffer.data(), worker.buffer.size());
        if (size < 0) report(path_of(node), "read", errno);
        if (size <= 0 || stopped_.load(std::memory_order_relaxed)) {
            node.complete = size == 0;
            break;
        }
        const auto part = std::span(worker.buffer).first(static_cast<size_t>(size));
        const bool is_full = part.size() > worker.buffer.size() / 2;
        const bool is_large = node.children.load(std::memory_order_relaxed) >= children_at_once;
        // Names that are given away would else all be queued first.
        const bool may_share = options_.share_directories || gives_files_;
        const bool hands_on = is_large || (is_full && may_share);
        if (hands_on) {
            // Relaxed: this worker holds a count. The part is one more; the reader's own goes with
            // the item, and so does the use of the descriptor, of which the part needs its own.
            node.pending.fetch_add(1, std::memory_order_relaxed);
            static_cast<void>(descriptors_.use(node));  // it is open
            pool_.push(worker.number, {&node});
        }
        worker.gives_files = gives_files_;
        show_part(worker, node, part);
        worker.gives_files = false;
        if (!hands_on) continue;
        descriptors_.done(node);
        return release(&node);
    }
    descriptors_.done(node);
    release(&node);
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

/// Shows the names that were kept, with the statuses of the next ones under way where that pays; so
/// many entries.
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
        entries += show_name(worker, node, *names[at]);
    }
    if (asks) ahead.end();
    return entries;
}

/// 1 if it is an entry that was shown.
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

/// Whether it pays to ask for statuses before they are wanted.
bool Engine::asks_ahead(const Worker& worker) const {
    // With a limit one at a time is what is wanted; files that are given away are not shown.
    if (options_.operations_per_second != 0 || worker.gives_files) return false;
    return options_.ahead == Ahead::always ||
           (options_.ahead == Ahead::measured && worker.visit.pace.is_slow());
}

/// As an item of the queue, for which some rank will ask.
void Engine::queue_name(Worker& worker, Node& node, const Name& name) {
    // Relaxed: the caller holds a count of the directory.
    node.pending.fetch_add(1, std::memory_order_relaxed);
    const auto bytes = std::as_bytes(std::span(&name, 1)).data();
    pool_.push(worker.number, {&node, Payload::make({bytes, name.size}), Work::names});
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

/// Asks for the type where the directory does not tell it, or tells that of a link to follow.
/// False if there is nothing to show.
bool Engine::find_type(Worker& worker) {
    Visit& visit = worker.visit;
    const Type told = visit.entry.type();
    const bool follows = (visit.status_flags & AT_SYMLINK_NOFOLLOW) == 0;
    const bool may_be_loop =
        follows && visit.node != nullptr &&
        (told != Type::directory || has_inode(visit.node, visit.entry.inode()));
    if (told != Type::unknown && !(follows && told == Type::link) &&
        !(told == Type::directory && may_be_loop)) {
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
    pool_.push(worker.number, {node});
}

/// What no directory has begun with goes to the one above.
void Engine::keep_own_result(Worker& worker, Node* above) {
    Visit& visit = worker.visit;
    if (!visit.has_own_result) return;
    merge_into(above, visit.own_result.data());
    std::fill(visit.own_result.begin(), visit.own_result.end(), 0);
    visit.has_own_result = false;
}

/// Gives what the worker has gathered to the directory (null: to the whole walk).
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
    // Acquire and release: whoever finishes a directory sees what all the others have done.
    while (node != nullptr && node->pending.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        Node* const above = node->above;
        const bool is_root = above == nullptr && node->kind == NodeKind::own;
        finish(*node);
        if (is_root) root_done();
        node = above;
    }
}

void Engine::finish(Node& node) {
    const bool is_here = node.kind == NodeKind::own || node.kind == NodeKind::adopted;
    if (is_here && callbacks_.finish && !stopped_.load(std::memory_order_relaxed)) {
        const bool is_root = node.above == nullptr;
        const int above = is_root ? AT_FDCWD : descriptors_.use_above(node);
        callbacks_.finish(Finished(node, above));
        if (!is_root && above >= 0) descriptors_.done(*node.above);
    }
    const ResultGoes goes = result_of(node.kind);
    if (goes == ResultGoes::above) {
        merge_into(node.above, node.result());
    } else if (goes == ResultGoes::home) {
        courier_->return_result(node.home, node.result(), options_.result_bytes);
    }
    descriptors_.close(node);
    Node::destroy(&node);
}

void Engine::root_done() {
    // Acquire and release: whoever closes the pool sees what all the others have done, and so does
    // Courier::owes().
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
