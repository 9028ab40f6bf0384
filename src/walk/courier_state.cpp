// SPDX-License-Identifier: Apache-2.0
// Saves the state of a rank in a checkpoint and loads it. All files are read and checked before any
// of them is used.
#include <unistd.h>

#include "walk/courier.hpp"
#include "walk/saved_rank.hpp"
#include "walk/work_batch.hpp"

namespace warren::walk {

namespace {

/// Numbers directories so that a parent's number is lower than those of its children.
class Numbers {
 public:
    u32 of(Node* node) {
        std::vector<Node*> path;
        for (; node != nullptr && !numbers_.contains(node); node = node->above)
            path.push_back(node);
        u32 number = node == nullptr ? 0 : numbers_[node];
        for (auto at = path.rbegin(); at != path.rend(); ++at) {
            order_.push_back(*at);
            number = numbers_[*at] = static_cast<u32>(order_.size());
        }
        return number;
    }
    const std::vector<Node*>& order() const { return order_; }

 private:
    std::unordered_map<const Node*, u32> numbers_;
    std::vector<Node*> order_;
};

}  // namespace

Errc Courier::state(std::string& bytes) {
    Numbers numbers;
    const std::vector<Item> items = engine_.pool_.all_items();
    for (const Item& item : items) {
        static_cast<void>(numbers.of(item.node));
        if (item.work != Work::directory || !item.node->opened) continue;
        learn_identity(*item.node);
        item.node->position = ::lseek(item.node->descriptor, 0, SEEK_CUR);
    }
    for (const auto& [number, lease] : leases_.out())
        static_cast<void>(numbers.of(lease.directory));
    SavedRank saved;
    saved.work_batches = central_.work_batches();
    saved.walks_since = walks_since_;
    saved.counts = {leases_.issued(), engine_.entries_.load(std::memory_order_relaxed),
                    engine_.directories_.load(std::memory_order_relaxed),
                    engine_.failures_.load(std::memory_order_relaxed)};
    const u32 result_bytes = engine_.result_ == nullptr ? 0 : engine_.options_.result_bytes;
    saved.result = {static_cast<const char*>(engine_.result_), result_bytes};
    saved.caller = caller_state_;
    for (Node* node : numbers.order())
        saved.directories.push_back(saved_directory(*node, numbers.of(node->above)));
    for (const Item& item : items) {
        auto& waiting = saved.waiting.emplace_back(item.work, numbers.of(item.node));
        if (item.payload == nullptr) continue;
        waiting.payload.emplace(reinterpret_cast<const char*>(item.payload->bytes()),
                                item.payload->size);
    }
    for (const auto& [number, lease] : leases_.out())
        saved.leases.push_back({number, numbers.of(lease.directory), lease.due});
    engine_.links().visit([&](u64 device, u64 inode, u32 names_left) {
        saved.files.push_back({device, inode, names_left});
    });
    bytes = write_saved(saved);
    return save_queue();
}

/// Writes the work batches of a central queue to a file of their own.
Errc Courier::save_queue() {
    if (central_.is_empty()) return Errc::ok;
    const CheckpointFolder folder(engine_.options_.checkpoint);
    CheckpointFile file = folder.begin_queue(manifest_.epoch, group_.rank());
    WARREN_TRY(central_.visit(
        [&](std::string_view batch) { CheckpointFolder::write_batch(file, batch); }));
    return file.finish();
}

SavedRank::Directory Courier::saved_directory(Node& node, u32 above) const {
    const bool is_ghost = node.kind == NodeKind::ghost;
    learn_identity(node);  // for Finished::is_read()
    return {
        above,
        node.kind,
        node.has_identity,
        node.complete,
        node.owner,
        node.identity,
        node.position,
        node.children.load(std::memory_order_relaxed),
        node.name_view(),
        {static_cast<const char*>(node.result()), is_ghost ? 0 : engine_.options_.result_bytes}};
}

Node* Courier::make_node(const SavedRank::Directory& saved, Node* above) {
    const auto result_bytes = static_cast<u32>(saved.result.size());
    Node* const node = Node::make(above, saved.name, result_bytes);
    saved.result.copy(static_cast<char*>(node->result()), result_bytes);
    node->kind = saved.kind;
    node->has_identity = saved.has_identity;
    node->identity = saved.identity;
    node->complete = saved.complete;
    node->position = saved.position;
    // The rank that loads the owner's state loads its leases too.
    node->owner = {saved.owner.rank % group_.ranks(), saved.owner.lease};
    node->children.store(saved.children, std::memory_order_relaxed);
    if (!is_owed(node->kind, above != nullptr)) return node;
    engine_.roots_left_.fetch_add(1, std::memory_order_relaxed);
    return node;
}

/// Loads the state that a rank has saved, if `takes`. In any case loads the counts of those files
/// with several names that this rank counts in the resumed walk.
void Courier::load(const SavedRank& saved, bool takes) {
    leases_.go_on_from(saved.counts.leases_issued);
    if (takes) {
        engine_.entries_.fetch_add(saved.counts.entries, std::memory_order_relaxed);
        engine_.directories_.fetch_add(saved.counts.directories, std::memory_order_relaxed);
        engine_.failures_.fetch_add(saved.counts.failures, std::memory_order_relaxed);
        const std::string result(saved.result);  // a copy, which is aligned
        if (!result.empty()) engine_.merge_into(nullptr, result.data());
        load_work(saved);
    }
    for (const SavedRank::File& file : saved.files) {
        if (rank_of_file(file.device, file.inode) != group_.rank()) continue;
        engine_.links().remember(file.device, file.inode, file.names_left);
    }
}

void Courier::load_work(const SavedRank& saved) {
    std::vector<Node*> nodes = {nullptr};
    for (const SavedRank::Directory& directory : saved.directories)
        nodes.push_back(make_node(directory, nodes[directory.above]));
    // A directory is held by its waiting items, the results due to it and its unfinished
    // subdirectories.
    const auto hold = [&](Node* node, u64 times) {
        if (node == nullptr) {
            engine_.roots_left_.fetch_add(times, std::memory_order_relaxed);
        } else {
            node->pending.fetch_add(static_cast<u32>(times), std::memory_order_relaxed);
        }
    };
    for (const SavedRank::Waiting& waiting : saved.waiting) {
        Item item{nodes[waiting.directory], nullptr, waiting.work};
        if (waiting.payload) {
            item.payload = Payload::make(std::as_bytes(std::span(*waiting.payload)));
        }
        hold(item.node, 1);
        loaded_.push_back(item);
    }
    for (const SavedRank::Lease& lease : saved.leases) {
        leases_.set(lease.number, {nodes[lease.directory], lease.due});
        hold(nodes[lease.directory], lease.due);
    }
    // Releases the count with which Node::make() starts.
    for (size_t at = 1; at < nodes.size(); ++at)
        nodes[at]->pending.fetch_sub(1, std::memory_order_relaxed);
}

/// Whether `code` is Errc::ok on all ranks. A rank with an error reports it.
bool Courier::agrees(Errc code, const std::string& path) {
    bool all_good = true;
    for (const std::string& of_rank : group_.gather(code == Errc::ok ? "good" : "bad"))
        all_good = all_good && of_rank == "good";
    if (code != Errc::ok) engine_.report(path, action_resume, static_cast<i32>(code));
    return all_good;
}

bool Courier::resume(std::span<const std::string> roots) {
    const CheckpointFolder folder(engine_.options_.checkpoint);
    const Manifest mine = manifest_;
    std::string path = folder.manifest_name();  // the file that was read last
    Errc code = group_.rank() == 0 ? folder.read_manifest(manifest_) : Errc::ok;
    if (code == Errc::ok && group_.rank() == 0 &&
        (manifest_.roots_hash != mine.roots_hash || manifest_.result_bytes != mine.result_bytes)) {
        code = Errc::invalid;
    }
    ByteWriter writer;
    writer.put(code);
    writer.put(manifest_);
    const std::string shared = group_.share(writer.bytes());
    ByteReader reader(shared);
    const Errc found = reader.get<Errc>();
    manifest_ = written_ = reader.get<Manifest>();
    if (found != Errc::ok) return agrees(code, path);
    SavedRanks saved;
    code = read_ranks({manifest_.ranks, manifest_.result_bytes, roots}, saved, path);
    if (code == Errc::no_entry) code = Errc::corrupt;  // the manifest names the file
    if (!agrees(code, path)) return false;
    for (u32 rank = 0; rank < manifest_.ranks && code == Errc::ok; ++rank) {
        if (!takes(rank) || !engine_.callbacks_.load) continue;
        path = folder.rank_name(manifest_.epoch, rank);
        if (!engine_.callbacks_.load(saved[rank].parts.caller)) code = Errc::corrupt;
    }
    if (!agrees(code, path)) return false;
    for (u32 rank = 0; rank < manifest_.ranks; ++rank)
        load(saved[rank].parts, takes(rank));
    return true;
}

/// Reads the files of all ranks. Rank 0 also checks that leases and results due match.
Errc Courier::read_ranks(const SavedWalk& walk, SavedRanks& ranks, std::string& path) {
    const CheckpointFolder folder(engine_.options_.checkpoint);
    SavedLeases leases;
    for (u32 rank = 0; rank < walk.ranks; ++rank) {
        path = folder.rank_name(manifest_.epoch, rank);
        auto& [bytes, saved] = ranks.emplace_back();
        WARREN_TRY(folder.read_rank(manifest_.epoch, rank, bytes));
        WARREN_TRY(read_saved(bytes, walk, saved));
        if (rank > 0 && saved.work_batches > 0) return Errc::corrupt;
        if (group_.rank() == 0 && !leases.add(rank, saved)) return Errc::corrupt;
    }
    if (group_.rank() != 0) return Errc::ok;
    if (ranks[0].parts.work_batches > 0) {
        path = folder.queue_name(manifest_.epoch, 0);
        WARREN_TRY(load_queue(walk, ranks[0].parts, leases));
    }
    path = engine_.options_.checkpoint;
    return leases.will_all_come() ? Errc::ok : Errc::corrupt;
}

/// Whether this rank takes over the state of `rank` of the saved walk.
bool Courier::takes(u32 rank) const {
    return rank % group_.ranks() == group_.rank();
}

/// Loads the saved central queue into that of rank 0, under any scheduler: a rank that processes
/// items itself unpacks one of its work batches whenever it has nothing else to do.
Errc Courier::load_queue(const SavedWalk& walk, const SavedRank& saved, SavedLeases& leases) {
    walks_since_ = saved.walks_since;
    walks_since_.push_back(group_.ranks());
    const CheckpointFolder folder(engine_.options_.checkpoint);
    return folder.read_queue(manifest_.epoch, 0, saved.work_batches, [&](std::string_view batch) {
        const auto owe = [&](const Owner& owner) {
            leases.owe(owner_after(owner, saved.walks_since));
        };
        if (!check_saved_batch(batch, walk, owe)) return Errc::corrupt;
        keep(std::string(batch));
        return Errc::ok;
    });
}

/// Moves the loaded items into the pool.
void Courier::queue_loaded() {
    for (const Item& item : loaded_) {
        if (item.work == Work::merge) {
            engine_.pool_.push_here(item);
        } else {
            engine_.pool_.push(0, item);
        }
    }
    loaded_.clear();
}

}  // namespace warren::walk
