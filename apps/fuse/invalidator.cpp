// SPDX-License-Identifier: Apache-2.0
// A removed directory is reported to the kernel as deleted. The kernel then drops everything it
// caches below, which takes about as long as unlinking the files one by one, and locks the parent
// directory meanwhile. Therefore the directory's contents are dropped first, name by name, under
// the lock of the removed directory, which no process needs. The attributes of the parent are
// dropped in any case, since the kernel leaves them alone if it does not cache the name.
//
// A queue with names is served by one thread. Another thread is started when none is free, so there
// are as many as queues whose notifications are under way, stuck ones included.
#include "apps/fuse/invalidator.hpp"

#include <atomic>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

#include "apps/fuse/device.hpp"
#include "apps/fuse/log.hpp"
#include "base/out_of_memory.hpp"

namespace warren::fuse {

namespace {

/// A queue that is stuck takes no more names than this: the kernel looks up the rest later.
constexpr std::size_t waiting_max = std::size_t{1} << 16;
constexpr std::size_t idle_threads_max = 4;
constexpr std::chrono::seconds last_patience{1};

enum class Work : u8 { drop, clean_up, forget };

}  // namespace

/// What waits in one queue. Guarded by Shared::mutex_, except `work`.
struct Invalidator::Pending {
    explicit Pending(Work kind) : work(kind) {}

    const Work work;
    std::vector<StaleName> names;
    bool can_expire = false;
    bool is_begun = false;          // a thread serves it, or it is among the ready ones
    bool is_reported = false;       // that it is stuck
    u64 asked = 0, told = 0;        // calls of drop()
    std::shared_ptr<Pending> next;  // of the ready ones
};

class Invalidator::Shared : public std::enable_shared_from_this<Invalidator::Shared> {
 public:
    Shared(fuse_session* session, IsThere is_there)
        : session_(session), is_there_(std::move(is_there)) {}

    /// Starts the first thread. Throws if there is none.
    void start() {
        const std::lock_guard lock(mutex_);
        add_thread();
    }
    bool drop(const std::shared_ptr<Pending>& queue, std::vector<StaleName> stale, bool can_expire);
    void finish(const Pending& queue);
    void forget(u64 node);
    void end();
    bool has_ended();
    void wait_for_end();

 private:
    bool add(const std::shared_ptr<Pending>& queue, std::vector<StaleName>& names);
    void make_ready(const std::shared_ptr<Pending>& queue);
    std::shared_ptr<Pending> take_ready();
    void add_thread();
    void run();
    void serve(const std::shared_ptr<Pending>& queue, std::unique_lock<std::mutex>& lock);
    void tell(const StaleName& stale, bool can_expire);
    void drop_listing(u64 directory);
    void tell_all(const std::vector<StaleName>& all, bool can_expire);
    void clean_up(const StaleName& removed);
    void note_removed(const StaleName& stale);

    fuse_session* session_;
    IsThere is_there_;
    std::mutex is_there_turn_;  // held while is_there_ runs
    std::atomic<bool> ending_{false};
    std::mutex mutex_;
    std::condition_variable work_;     // for a thread without a queue
    std::condition_variable changed_;  // for all others
    std::shared_ptr<Pending> first_;   // of the queues that are ready to be served
    Pending* last_ = nullptr;
    std::size_t ready_ = 0;  // their number
    std::size_t threads_ = 0, idle_ = 0;
    // What no command waits for: names in removed directories and these directories; closed nodes.
    const std::shared_ptr<Pending> removed_ = std::make_shared<Pending>(Work::clean_up);
    const std::shared_ptr<Pending> closed_ = std::make_shared<Pending>(Work::forget);
};

/// Requires: mutex_ is held.
void Invalidator::Shared::make_ready(const std::shared_ptr<Pending>& queue) {
    queue->is_begun = true;
    (last_ == nullptr ? first_ : last_->next) = queue;
    last_ = queue.get();
    ++ready_;
}

/// Requires: mutex_ is held, and a queue is ready.
std::shared_ptr<Invalidator::Pending> Invalidator::Shared::take_ready() {
    const std::shared_ptr<Pending> queue = std::move(first_);
    first_ = std::move(queue->next);
    if (first_ == nullptr) last_ = nullptr;
    --ready_;
    return queue;
}

/// Appends the names, unless the queue is stuck and has too many; an empty queue needs no memory.
/// Requires: mutex_ is held.
bool Invalidator::Shared::add(const std::shared_ptr<Pending>& queue,
                              std::vector<StaleName>& names) {
    std::vector<StaleName>& waiting = queue->names;
    if (ending_) return false;
    if (waiting.empty()) {
        waiting.swap(names);
    } else {
        const Errc code = or_no_memory([&] {
            if (waiting.size() + names.size() > waiting_max) return Errc::no_memory;
            waiting.insert(waiting.end(), std::make_move_iterator(names.begin()),
                           std::make_move_iterator(names.end()));
            return Errc::ok;
        });
        if (code != Errc::ok) return false;
    }
    if (!queue->is_begun) make_ready(queue);
    // Without memory for another thread, the queue waits for one of the others.
    if (ready_ > idle_) {
        static_cast<void>(or_no_memory([&] { add_thread(); }));
    }
    work_.notify_one();
    return true;
}

/// Requires: mutex_ is held. Throws if there is none.
void Invalidator::Shared::add_thread() {
    std::thread([self = shared_from_this()] { self->run(); }).detach();
    ++threads_;
}

void Invalidator::Shared::run() {
    std::unique_lock lock(mutex_);
    while (!ending_ && (ready_ > 0 || idle_ < idle_threads_max)) {
        ++idle_;
        work_.wait(lock, [&] { return ending_ || ready_ > 0; });
        --idle_;
        if (ending_) break;
        serve(take_ready(), lock);
    }
    --threads_;
    changed_.notify_all();
}

void Invalidator::Shared::serve(const std::shared_ptr<Pending>& queue,
                                std::unique_lock<std::mutex>& lock) {
    std::vector<StaleName> names = std::exchange(queue->names, {});
    const u64 asked = queue->asked;
    const bool can_expire = queue->can_expire;
    lock.unlock();
    switch (queue->work) {
        case Work::drop:
            tell_all(names, can_expire);
            break;
        case Work::clean_up:
            for (const StaleName& removed : names)
                clean_up(removed);
            break;
        case Work::forget:
            for (const StaleName& closed : names) {
                if (!ending_) make_kernel_forget(session_, closed.parent);
            }
            break;
    }
    names.clear();
    lock.lock();
    queue->told = asked;
    queue->is_reported = false;
    queue->is_begun = false;
    if (!queue->names.empty()) make_ready(queue);
    changed_.notify_all();
}

bool Invalidator::Shared::drop(const std::shared_ptr<Pending>& queue, std::vector<StaleName> stale,
                               bool can_expire) {
    std::unique_lock lock(mutex_);
    const u64 asked = ++queue->asked;
    queue->can_expire = can_expire;
    const bool is_added = add(queue, stale);
    changed_.wait_for(lock, patience, [&] { return queue->told >= asked || ending_; });
    if (is_added && queue->told >= asked) return true;
    if (!ending_ && !std::exchange(queue->is_reported, true)) {
        lock.unlock();
        log_line(
            "a process holds the lock of a directory (does it list it into memory that is "
            "mapped from a dead mount?): names in it that a command has removed or moved may "
            "be seen until the lock is released, an hour at most");
    }
    return false;
}

void Invalidator::Shared::finish(const Pending& queue) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !queue.is_begun || ending_; });
}

void Invalidator::Shared::forget(u64 node) {
    static_cast<void>(or_no_memory([&] {
        std::vector<StaleName> one{{node, 0, "", {}}};
        const std::lock_guard lock(mutex_);
        add(closed_, one);
    }));
}

void Invalidator::Shared::end() {
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    work_.notify_all();
    changed_.notify_all();
    const std::lock_guard turn(is_there_turn_);  // a call that runs is done
}

bool Invalidator::Shared::has_ended() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, last_patience, [&] { return threads_ == 0; });
}

void Invalidator::Shared::wait_for_end() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return threads_ == 0; });
}

void Invalidator::Shared::tell(const StaleName& stale, bool can_expire) {
    const char* name = stale.name.c_str();
    if (stale.name.empty()) {
        // Only attributes, which are dropped below.
    } else if (stale.child == 0) {
        fuse_lowlevel_notify_inval_entry(session_, stale.parent, name, stale.name.size());
    } else if (can_expire) {
        fuse_lowlevel_notify_expire_entry(session_, stale.parent, name, stale.name.size(),
                                          FUSE_LL_EXPIRE_ONLY);
        note_removed(stale);
    } else {
        fuse_lowlevel_notify_delete(session_, stale.parent, stale.child, name, stale.name.size());
    }
}

/// The entries below only use memory of the kernel: without memory for a note they stay cached.
void Invalidator::Shared::note_removed(const StaleName& stale) {
    static_cast<void>(or_no_memory([&] {
        std::vector<StaleName> names;
        for (const std::string& below : stale.below)
            names.push_back({stale.child, 0, below, {}});
        names.push_back({stale.parent, stale.child, stale.name, {}});
        const std::lock_guard lock(mutex_);
        add(removed_, names);
    }));
}

/// Drops the attributes of a directory, and the names of a listing that was read with readdir(3).
void Invalidator::Shared::drop_listing(u64 directory) {
    fuse_lowlevel_notify_inval_inode(session_, directory, 0, 0);
}

void Invalidator::Shared::tell_all(const std::vector<StaleName>& all, bool can_expire) {
    for (std::size_t i = 0; i < all.size() && !ending_; ++i) {
        tell(all[i], can_expire);
        // Once for consecutive names of one directory, after the last of them.
        const bool is_last = i + 1 == all.size() || all[i + 1].parent != all[i].parent;
        if (is_last) drop_listing(all[i].parent);
    }
}

void Invalidator::Shared::clean_up(const StaleName& removed) {
    {
        const std::lock_guard turn(is_there_turn_);
        // If the name exists again, a look-up of it has made the kernel drop the old entries.
        if (ending_ || is_there_(removed.parent, removed.name)) return;
    }
    tell(removed, false);
    drop_listing(removed.parent);
}

Invalidator::Invalidator(fuse_session* session, IsThere is_there)
    : shared_(std::make_shared<Shared>(session, std::move(is_there))) {
    shared_->start();
}

Invalidator::~Invalidator() {
    shared_->end();
    shared_->wait_for_end();
}

void Invalidator::forget(u64 node) {
    shared_->forget(node);
}

void Invalidator::end() {
    shared_->end();
}

bool Invalidator::has_ended() {
    return shared_->has_ended();
}

Invalidator::Queue::Queue(Invalidator& invalidator)
    : shared_(invalidator.shared_), pending_(std::make_shared<Pending>(Work::drop)) {}

bool Invalidator::Queue::drop(std::vector<StaleName> stale, bool can_expire) {
    return shared_->drop(pending_, std::move(stale), can_expire);
}

void Invalidator::Queue::finish() {
    shared_->finish(*pending_);
}

}  // namespace warren::fuse
