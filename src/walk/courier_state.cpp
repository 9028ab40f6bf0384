// SPDX-License-Identifier: Apache-2.0
// The state of one rank between two checkpoints as bytes: directories that are not finished, with
// what they have so far, what waits, what was lent, and which files are remembered. A directory is
// numbered after that above it, from 1; 0 stands for none. Whoever reads it may have another rank.
#include <unistd.h>

#include "walk/courier.hpp"

namespace warren::walk {

namespace {

/// The fixed part of a directory.
struct NodeRecord {
    u32 above;
    NodeKind kind;
    bool has_identity;
    bool complete;
    Home home;
    Identity identity;
    i64 position;
    u32 children;
};

struct Counts {
    u64 loans_made;
    u64 entries;
    u64 directories;
    u64 failures;
};

/// What is in the file of a rank's queue; no file if there is nothing. The numbers of ranks are of
/// the walks that have gone on since.
struct QueueRecord {
    u64 parcels;
    u64 walks_since;
};

/// Gives numbers to directories, those above first.
class Numbers {
 public:
    u32 of(Node* node) {
        std::vector<Node*> way;
        for (; node != nullptr && !numbers_.contains(node); node = node->above)
            way.push_back(node);
        u32 number = node == nullptr ? 0 : numbers_[node];
        for (auto at = way.rbegin(); at != way.rend(); ++at) {
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
    for (const auto& [number, loan] : loans_.out())
        static_cast<void>(numbers.of(loan.place));
    ByteWriter writer;
    writer.put(QueueRecord{central_.parcels(), walks_since_.size()});
    for (const u32 ranks : walks_since_)
        writer.put(ranks);
    writer.put(Counts{loans_.made(), engine_.entries_.load(std::memory_order_relaxed),
                      engine_.directories_.load(std::memory_order_relaxed),
                      engine_.failures_.load(std::memory_order_relaxed)});
    const u32 result_bytes = engine_.result_ == nullptr ? 0 : engine_.options_.result_bytes;
    writer.put_bytes({static_cast<const char*>(engine_.result_), result_bytes});
    writer.put_bytes(caller_state_);
    writer.put(static_cast<u32>(numbers.order().size()));
    for (Node* node : numbers.order())
        put_node(writer, *node, numbers.of(node->above));
    writer.put(static_cast<u32>(items.size()));
    for (const Item& item : items) {
        writer.put(item.work);
        writer.put(numbers.of(item.node));
        writer.put(item.payload != nullptr);
        if (item.payload == nullptr) continue;
        writer.put_bytes(
            {reinterpret_cast<const char*>(item.payload->bytes()), item.payload->size});
    }
    writer.put(static_cast<u32>(loans_.out().size()));
    for (const auto& [number, loan] : loans_.out()) {
        writer.put(number);
        writer.put(numbers.of(loan.place));
        writer.put(loan.due);
    }
    engine_.links().visit([&](u64 device, u64 inode, u32 names_left) {
        writer.put(device);
        writer.put(inode);
        writer.put(names_left);
    });
    bytes = writer.take();
    return save_queue();
}

/// The parcels of a central queue, into their own file.
Errc Courier::save_queue() {
    if (central_.is_empty()) return Errc::ok;
    const CheckpointFolder folder(engine_.options_.checkpoint);
    CheckpointFile file = folder.begin_queue(manifest_.epoch, group_.rank());
    WARREN_TRY(central_.visit(
        [&](std::string_view parcel) { CheckpointFolder::write_parcel(file, parcel); }));
    return file.finish();
}

void Courier::put_node(ByteWriter& writer, Node& node, u32 above) {
    NodeRecord record{};
    record.above = above;
    record.kind = node.kind;
    record.has_identity = node.has_identity;
    record.complete = node.complete;
    record.home = node.home;
    record.identity = node.identity;
    record.position = node.position;
    record.children = node.children.load(std::memory_order_relaxed);
    writer.put(record);
    writer.put_bytes(node.name_view());
    writer.put_bytes({static_cast<const char*>(node.result()), node.result_size});
}

Node* Courier::get_node(ByteReader& reader, const std::vector<Node*>& nodes) {
    const auto record = reader.get<NodeRecord>();
    const std::string_view name = reader.get_bytes();
    const std::string_view result = reader.get_bytes();
    WARREN_CHECK(record.above < nodes.size());
    const bool is_ghost = record.kind == NodeKind::ghost;
    Node* const above = nodes[record.above];
    Node* node = Node::make(above, name, is_ghost ? 0 : engine_.options_.result_bytes);
    WARREN_CHECK(result.size() == node->result_size);
    result.copy(static_cast<char*>(node->result()), result.size());
    node->kind = record.kind;
    node->has_identity = record.has_identity;
    node->identity = record.identity;
    node->complete = record.complete;
    node->position = record.position;
    // Its loans have been taken over too.
    node->home = {record.home.rank % group_.ranks(), record.home.loan};
    node->children.store(record.children, std::memory_order_relaxed);
    if (!is_owed(node->kind, above != nullptr)) return node;
    engine_.roots_left_.fetch_add(1, std::memory_order_relaxed);
    return node;
}

/// Takes what the rank was that has written it, if `takes`; of the files that are remembered those
/// that are this rank's now.
void Courier::load(std::string_view state, bool takes) {
    ByteReader reader(state);
    const auto queue = reader.get<QueueRecord>();
    reader.take(queue.walks_since * sizeof(u32));
    const auto counts = reader.get<Counts>();
    loans_.go_on_from(counts.loans_made);
    const std::string result(reader.get_bytes());
    const std::string caller_state(reader.get_bytes());
    if (takes) {
        engine_.entries_.fetch_add(counts.entries, std::memory_order_relaxed);
        engine_.directories_.fetch_add(counts.directories, std::memory_order_relaxed);
        engine_.failures_.fetch_add(counts.failures, std::memory_order_relaxed);
        if (!result.empty()) engine_.merge_into(nullptr, result.data());
        if (engine_.callbacks_.load) engine_.callbacks_.load(caller_state);
    }
    load_work(reader, takes);
    while (!reader.at_end()) {
        const u64 device = reader.get<u64>();
        const u64 inode = reader.get<u64>();
        const u32 names_left = reader.get<u32>();
        if (owner_of(device, inode) != group_.rank()) continue;
        engine_.links().remember(device, inode, names_left);
    }
}

void Courier::load_work(ByteReader& reader, bool takes) {
    std::vector<Node*> nodes = {nullptr};
    for (u32 left = reader.get<u32>(); left > 0; --left) {
        if (takes) {
            nodes.push_back(get_node(reader, nodes));
        } else {
            static_cast<void>(reader.get<NodeRecord>());
            static_cast<void>(reader.get_bytes());
            static_cast<void>(reader.get_bytes());
        }
    }
    // Each is counted by what waits in it, what was lent of it and what lies in it.
    const auto hold = [&](Node* node, u32 times) {
        if (node == nullptr) {
            engine_.roots_left_.fetch_add(times, std::memory_order_relaxed);
        } else {
            node->pending.fetch_add(times, std::memory_order_relaxed);
        }
    };
    for (u32 left = reader.get<u32>(); left > 0; --left) {
        Item item;
        item.work = reader.get<Work>();
        const u32 number = reader.get<u32>();
        const bool has_payload = reader.get<bool>();
        const std::string_view payload = has_payload ? reader.get_bytes() : std::string_view();
        if (!takes) continue;
        item.node = nodes.at(number);
        if (has_payload) item.payload = Payload::make(std::as_bytes(std::span(payload)));
        hold(item.node, 1);
        loaded_.push_back(item);
    }
    for (u32 left = reader.get<u32>(); left > 0; --left) {
        const u64 loan = reader.get<u64>();
        const u32 number = reader.get<u32>();
        const u64 due = reader.get<u64>();
        if (!takes) continue;
        loans_.set(loan, {nodes.at(number), due});
        hold(nodes.at(number), static_cast<u32>(due));
    }
    // Its first count was that of whoever makes a directory.
    for (size_t at = 1; at < nodes.size(); ++at)
        nodes[at]->pending.fetch_sub(1, std::memory_order_relaxed);
}

bool Courier::resume() {
    const CheckpointFolder folder(engine_.options_.checkpoint);
    const Manifest mine = manifest_;
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
    code = reader.get<Errc>();
    manifest_ = written_ = reader.get<Manifest>();
    // All files are read before any of it is used.
    std::vector<std::string> states(code == Errc::ok ? manifest_.ranks : 0);
    for (u32 rank = 0; rank < states.size() && code == Errc::ok; ++rank) {
        code = folder.read_rank(manifest_.epoch, rank, states[rank]);
        if (code == Errc::ok && takes(rank)) code = load_queue(rank, states[rank]);
    }
    bool all_good = true;
    for (const std::string& of_rank : group_.gather(code == Errc::ok ? "good" : "bad"))
        all_good = all_good && of_rank == "good";
    if (!all_good) {
        if (code != Errc::ok) {
            engine_.report(engine_.options_.checkpoint, "resume from", static_cast<i32>(code));
        }
        return false;
    }
    for (u32 rank = 0; rank < states.size(); ++rank)
        load(states[rank], takes(rank));
    return true;
}

/// Whether this rank goes on with what a rank of the walk before had.
bool Courier::takes(u32 rank) const {
    return rank % group_.ranks() == group_.rank();
}

/// The parcels of a rank's central queue go into this one's, whatever the scheduler: that of a
/// rank which walks itself is looked into when there is nothing else to do. Only rank 0 ever has
/// some, so they are of one walk.
Errc Courier::load_queue(u32 rank, std::string_view state) {
    ByteReader reader(state);
    const auto queue = reader.get<QueueRecord>();
    if (queue.parcels == 0) return Errc::ok;
    for (u64 left = queue.walks_since; left > 0; --left)
        walks_since_.push_back(reader.get<u32>());
    walks_since_.push_back(group_.ranks());
    const CheckpointFolder folder(engine_.options_.checkpoint);
    return folder.read_queue(manifest_.epoch, rank, queue.parcels,
                             [&](std::string_view parcel) { keep(std::string(parcel)); });
}

/// Queues what was loaded.
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
