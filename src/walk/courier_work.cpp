// SPDX-License-Identifier: Apache-2.0
// Packs work for other ranks and unpacks what they send. Of a directory that is being read, the
// next part is read and its names are given away; the directory itself stays, and this rank
// continues reading it after that part.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/temporary_file.hpp"
#include "walk/courier.hpp"
#include "walk/names.hpp"
#include "walk/saved_rank.hpp"
#include "walk/work_batch.hpp"

namespace warren::walk {

namespace {

constexpr u64 items_most = 16384;

bool is_being_read(const Item& item) {
    return item.work == Work::directory && (item.node->opened || item.node->position != 0);
}

}  // namespace

std::string Courier::give(Split split) {
    refill();
    // If all workers are idle, one item is kept for them.
    const u64 kept = engine_.pool_.in_hand() == 0 ? 1 : 0;
    std::vector<Item> items = engine_.pool_.take_part(split, random_, items_most, kept);
    if (items.empty() && in_rounds()) {
        // The kept item may be a directory being read: it can stay and still give away its next
        // names.
        items = engine_.pool_.take_part(split, random_, 1, 0);
        if (!std::all_of(items.begin(), items.end(), is_being_read)) {
            engine_.pool_.put_back(items);
            return {};
        }
    }
    return pack(items);
}

std::string Courier::give_one() {
    refill();
    return pack(engine_.pool_.take_part(Split::half, random_, 1, 0));
}

std::string Courier::give_all_but(u32 kept) {
    return pack(engine_.pool_.take_part({}, random_, items_most, kept));
}

/// Packs items; those that cannot be given away are put back. Names are many bytes for little work,
/// so they are given only if there is nothing else.
std::string Courier::pack(const std::vector<Item>& items) {
    WorkBatch batch;
    std::vector<Item> kept;
    const bool gives_names = std::all_of(items.begin(), items.end(), is_being_read);
    for (const Item& item : items) {
        if (is_being_read(item)) {
            // In h-drqs-batches as many parts as a round has items, if they fit into the batch;
            // else one part.
            const i64 parts = !gives_names ? 0 : in_rounds() ? round_items() : 1;
            for (i64 part = 0; part < parts && pack_part(item, batch); ++part) {
            }
            kept.push_back(item);
        } else if (batch.begin_item(*item.node, item.payload == nullptr ? 0 : item.payload->size)) {
            pack_item(item, batch);
        } else {
            kept.push_back(item);
        }
    }
    engine_.pool_.put_back(kept);
    return batch.take();
}

/// Packs the next names of a directory whose reader waits in the queue, if there are any.
bool Courier::pack_part(const Item& item, WorkBatch& batch) {
    Node& node = *item.node;
    if (!node.opened) return false;  // not reopened since the walk was resumed
    // If files are items of their own, the reader gives them away itself. With a single worker
    // rank, rank 0 would only store the names for the rank that has read them.
    if (engine_.gives_files_ || (is_central() && group_.ranks() == 2)) return false;
    buffer_.resize(records_most);
    learn_identity(node);
    if (!node.has_identity || !batch.begin_item(node, buffer_.size())) return false;
    engine_.limit().take();
    const long size = ::syscall(SYS_getdents64, node.descriptor, buffer_.data(), buffer_.size());
    if (size <= 0) return false;  // the reader will meet the end or the error too
    // Relaxed: the item holds a count of the node.
    node.pending.fetch_add(1, std::memory_order_relaxed);
    const std::string names =
        pack_names({reinterpret_cast<const char*>(buffer_.data()), static_cast<size_t>(size)});
    const Owner owner = leases_.issue(group_.rank(), &node);
    batch.add_item(node, {Work::names, owner, {{}, node.identity}, {}, names});
    return true;
}

/// Packs a directory that has not been opened, or a payload that belongs to a directory. Work that
/// came from another rank keeps its owner, so its result does not pass through this rank.
void Courier::pack_item(const Item& item, WorkBatch& batch) {
    Node& node = *item.node;
    Node* const above = node.above;
    WorkBatch::Content content{item.work, {}, {}, {}, {}};
    if (item.work == Work::directory) {
        content.result = {static_cast<const char*>(node.result()), engine_.options_.result_bytes};
        content.owner =
            passes_on(node.kind, item.work, 1) ? node.owner : leases_.issue(group_.rank(), above);
        if (above == nullptr) content.directory.identity = engine_.descriptors_.identify_root(node);
        batch.add_item(node, content);
        forget(node);
        return;
    }
    content.payload = {reinterpret_cast<const char*>(item.payload->bytes()), item.payload->size};
    std::string names;
    if (item.work == Work::names) content.payload = names = pack_names(content.payload);
    learn_identity(node);
    if (node.has_identity) content.directory.identity = node.identity;
    // If this item's count is the only one, no other thread uses the node, and it may be destroyed
    // here. Acquire: pairs with release() by a thread that has dropped another count.
    const bool is_whole =
        passes_on(node.kind, item.work, node.pending.load(std::memory_order_acquire));
    content.owner = is_whole ? node.owner : leases_.issue(group_.rank(), &node);
    batch.add_item(node, content);
    Payload::destroy(item.payload);
    if (is_whole) forget(node);
}

/// Removes a node whose work another rank has taken. The count that an `own` node holds of the
/// directory above it passes to the lease; other nodes release theirs.
void Courier::forget(Node& node) {
    Node* const above = node.above;
    const bool was_own = node.kind == NodeKind::own;  // the lease is one of the directory above
    engine_.descriptors_.close(node);
    Node::destroy(&node);
    if (was_own) return;
    engine_.root_done();
    engine_.release(above);  // `above` is a ghost or null
}

/// Makes `ghosts` the nodes of the path to the next group, starting at the root.
void Courier::enter_path(const WorkBatchReader& reader, std::vector<Node*>& ghosts) {
    WARREN_CHECK(reader.kept_steps() <= ghosts.size());
    leave_path(ghosts, reader.kept_steps());
    for (const WorkBatch::Directory& step : reader.steps()) {
        Node* const ghost = Node::make(ghosts.empty() ? nullptr : ghosts.back(), step.name, 0);
        ghost->kind = NodeKind::ghost;
        ghost->has_identity = step.identity.has_value();
        if (step.identity) ghost->identity = *step.identity;
        ghosts.push_back(ghost);
    }
}

/// Releases ghosts, the deepest first, until `kept` are left. After that only the nodes below them
/// keep them alive.
void Courier::leave_path(std::vector<Node*>& ghosts, u64 kept) {
    for (; ghosts.size() > kept; ghosts.pop_back())
        engine_.release(ghosts.back());
}

/// Rank 0 with a central queue keeps the work batch packed until it is needed.
void Courier::accept(const std::string& work) {
    if (!keeps_queue()) return unpack(work);
    keep(work);
}

/// Adds a work batch to the central queue. Reports the first error.
void Courier::keep(std::string batch) {
    const Errc code = central_.push(std::move(batch));
    if (code == Errc::ok || has_reported_no_room_) return;
    has_reported_no_room_ = true;
    engine_.report(temporary_folder(), action_keep_queue, static_cast<i32>(code));
}

/// Unpacks work batches of the central queue while the pool has nothing queued.
void Courier::refill() {
    while (engine_.pool_.queued() == 0 && !central_.is_empty())
        unpack_youngest();
}

/// Moves the youngest work batch into the pool. If it cannot be read, its entries are missing from
/// the walk, and its owners get empty results.
void Courier::unpack_youngest() {
    std::string batch;
    std::vector<CentralQueue::Due> lost;
    const Errc code = central_.pop(batch, lost);
    if (code == Errc::ok) return unpack(batch, walks_since_);
    if (!has_reported_lost_) {
        engine_.report(temporary_folder(), action_read_queue, static_cast<i32>(code));
    }
    has_reported_lost_ = true;
    end_without(lost);
}

void Courier::unpack(std::string_view work, std::span<const u32> walks) {
    std::vector<Node*> ghosts;
    WorkBatch::Content content{};
    for (WorkBatchReader reader(work); reader.begin_group();) {
        enter_path(reader, ghosts);
        while (reader.next_item(content))
            take_over(ghosts.empty() ? nullptr : ghosts.back(), content,
                      owner_after(content.owner, walks));
    }
    leave_path(ghosts, 0);
}

void Courier::take_over(Node* under, const WorkBatch::Content& content, const Owner& owner) {
    Node* node = Node::make(under, content.directory.name, engine_.options_.result_bytes);
    node->kind = content.work == Work::directory ? NodeKind::adopted : NodeKind::part;
    node->owner = owner;
    node->has_identity = content.directory.identity.has_value();
    if (content.directory.identity) node->identity = *content.directory.identity;
    content.result.copy(static_cast<char*>(node->result()), content.result.size());
    Payload* payload = nullptr;
    if (content.work != Work::directory) {
        std::optional<std::string> names;
        if (content.work == Work::names) names = unpack_names(content.payload);
        WARREN_CHECK(names || content.work != Work::names);
        const std::string_view bytes = names ? *names : content.payload;
        payload = Payload::make(std::as_bytes(std::span(bytes)));
    }
    // Relaxed: only this thread bases decisions on it.
    engine_.roots_left_.fetch_add(1, std::memory_order_relaxed);
    engine_.pool_.push(0, {node, payload, content.work});
}

void Courier::decline(const std::string& work) {
    end_all(work, {});
}

void Courier::end_all(std::string_view work, std::span<const u32> walks) {
    WorkBatch::Content content{};
    for (WorkBatchReader reader(work); reader.begin_group();) {
        while (reader.next_item(content))
            end_without(owner_after(content.owner, walks), content.result);
    }
}

/// Returns the result of an item that is not processed to its owner: the result that it arrived
/// with.
void Courier::end_without(const Owner& owner, std::string_view result) {
    engine_.roots_left_.fetch_add(1, std::memory_order_relaxed);
    return_result(owner, result.data(), result.size());
}

void Courier::end_without(const std::vector<CentralQueue::Due>& lost) {
    for (const CentralQueue::Due& due : lost) {
        for (u64 result = 0; result < due.results; ++result)
            end_without(owner_after(due.owner, walks_since_), {});
    }
}

}  // namespace warren::walk
