// SPDX-License-Identifier: Apache-2.0
// The thread of a rank that exchanges messages with the other ranks while the workers walk. It
// sends and receives work, returns results to their owners, and finds out which name of a file with
// several names was reported first.
//
// Invariant: a directory part of whose work was given away has a lease, and stays unfinished until
// all results under that lease have come back. So a directory is finished on the rank that read it,
// after everything below it has been done on all ranks.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/random.hpp"
#include "walk/bytes.hpp"
#include "walk/central_queue.hpp"
#include "walk/checkpoint.hpp"
#include "walk/engine.hpp"
#include "walk/leases.hpp"
#include "walk/rank.hpp"
#include "walk/saved_rank.hpp"
#include "walk/work_batch.hpp"
#include "warren/walk_group.hpp"

namespace warren::walk {

/// A query about names of files with several names, sent to the rank that counts the names of these
/// files.
struct LinkQuery {
    ByteWriter files;          // device, inode, links
    std::vector<Node*> nodes;  // receive the amounts; null: the whole walk does
    std::string amounts;       // results, one after the other
    std::string firsts;        // the answers: '1' if the name was the first, else '0'
};

class Courier : private RankCallbacks {
 public:
    Courier(Engine& engine, Group& group);

    /// Sets the hash of the roots, which a checkpoint stores and a resumed walk compares.
    void set_roots(u64 hash);
    /// Loads the checkpoint. If that is not possible, reports the reason and returns false. All
    /// ranks call it.
    bool resume(std::span<const std::string> roots);
    /// Exchanges messages until the walk is over on all ranks. Called on the thread that called
    /// walk().
    void run();
    /// Waits until the workers are done, after run() has thrown in a walk that was stopped. For a
    /// group of one rank.
    void end_alone();

    /// Queues the result of work that came from another rank, to be sent to its owner. Can be
    /// called from any thread. If memory runs out it throws, and nothing is queued.
    void return_result(const Owner& owner, const void* bytes, size_t size);
    /// Asks rank_of_file() whether this name of the file is the first. Can be called from any
    /// thread. The caller has added a count to the node's `pending`, which is released when the
    /// answer arrives.
    void query_link(u64 device, u64 inode, u32 links, Node* node, std::string_view amount);
    /// The rank that counts the names of a file.
    u32 rank_of_file(u64 device, u64 inode) const;

    u64 messages() const { return messages_; }
    u64 message_bytes() const { return message_bytes_; }

 private:
    enum class Kind : u8 {
        protocol,
        result,
        link_query,
        link_answer,
        caller_message,
        caller_message_arrived,
        meter,
        // Messages of checkpoints. `interrupt` and `saved` go to rank 0, `pause` and `go_on` come
        // from rank 0, `mark` goes from each rank to each other.
        interrupt,
        pause,
        mark,
        saved,
        go_on
    };
    enum class Pausing : u8 { no, working, flushing, waiting, saved };
    /// Results queued for one owner.
    struct Returning {
        ByteWriter bytes;
        u64 count = 0;
    };

    /// The bytes of a rank's file and its parsed form, which refers to them.
    struct SavedBytes {
        std::string bytes;
        SavedRank parts;
    };
    using SavedRanks = std::deque<SavedBytes>;  // a deque, because elements must not move

    // RankCallbacks
    void send(u32 to, Message message) override;
    u32 choose(u32 count) override { return static_cast<u32>(random_.below(count)); }
    bool has_queued() const override;
    bool is_working() const override;
    bool is_idle() const override;
    bool owes() const override;
    u64 items_done() const override;
    std::string give(Split split) override;
    std::string give_one() override;
    std::string give_all_but(u32 kept) override;
    void accept(const std::string& work) override;
    void decline(const std::string& work) override;
    void drop() override;

    bool is_central() const;
    bool in_rounds() const;
    i64 round_items() const;
    bool keeps_queue() const { return is_central() && group_.rank() == 0; }
    bool pause();
    void step();
    void refill();
    void let_work();
    bool receive_all();
    void receive(u32 from, std::string_view message);
    void receive_protocol(u32 from, ByteReader& reader);
    void answer_query(u32 from, ByteReader& reader);
    void take_answer(ByteReader& reader);
    void take_results(ByteReader& reader);
    bool send_all();
    bool send_results();
    void send_queries();
    void send_caller_messages();
    void send_meter();
    void post(u32 to, std::string message);

    std::string pack(const std::vector<Item>& items);
    bool pack_part(const Item& item, WorkBatch& batch);
    void pack_item(const Item& item, WorkBatch& batch);
    void forget(Node& node);
    void unpack(std::string_view work, std::span<const u32> walks = {});
    void keep(std::string batch);
    void unpack_youngest();
    void take_over(Node* under, const WorkBatch::Content& content, const Owner& owner);
    void end_all(std::string_view work, std::span<const u32> walks);
    void end_without(const Owner& owner, std::string_view result);
    void end_without(const std::vector<CentralQueue::Due>& lost);
    void enter_path(const WorkBatchReader& reader, std::vector<Node*>& ghosts);
    void leave_path(std::vector<Node*>& ghosts, u64 kept);

    void receive_checkpoint(Kind kind, ByteReader& reader);
    bool is_quiet();
    void send_to_all(Kind kind, u64 number);
    void look_at_clock(double now);
    void begin_pause(u64 epoch);
    void step_checkpoint();
    void ask_caller();
    void save();
    void note_saved(Errc code);
    void end_pause();
    void go_on(bool ends);
    Errc state(std::string& bytes);
    Errc save_queue();
    SavedRank::Directory saved_directory(Node& node, u32 above) const;
    Node* make_node(const SavedRank::Directory& saved, Node* above);
    void load(const SavedRank& saved, bool takes);
    void load_work(const SavedRank& saved);
    bool takes(u32 rank) const;
    bool agrees(Errc code, const std::string& path);
    Errc read_ranks(const SavedWalk& walk, SavedRanks& ranks, std::string& path);
    Errc load_queue(const SavedWalk& walk, const SavedRank& saved, SavedLeases& leases);
    void queue_loaded();

    Engine& engine_;
    Group& group_;
    Random random_;
    Rank rank_;
    Leases<Node*> leases_;  // null: the item is a root
    CentralQueue central_;
    // The number of ranks of each run that resumed the walk since the work batches in central_ were
    // packed; see owner_after().
    std::vector<u32> walks_since_;
    bool has_reported_no_room_ = false;
    bool has_reported_lost_ = false;
    std::unordered_map<u64, std::unique_ptr<LinkQuery>> queries_;
    u64 queries_made_ = 0;
    std::vector<std::byte> buffer_;
    u64 messages_ = 0;
    u64 message_bytes_ = 0;
    bool has_aborted_ = false;
    double next_request_ = 0;
    u32 fruitless_ = 0;
    double next_meter_ = 0;
    std::vector<u64> meters_;  // rank 0: the counts of the other ranks, three numbers each
    u32 pauses_ = 0;

    Pausing pausing_ = Pausing::no;
    Manifest manifest_;  // of the checkpoint in progress, or of the last one
    Manifest written_;   // rank 0: of the checkpoint on the disk
    double next_checkpoint_ = 0;
    bool was_interrupted_ = false;
    std::string caller_state_;
    u32 marks_ = 0;
    u32 saved_ = 0;  // rank 0: how many ranks have saved their state
    Errc save_error_ = Errc::ok;
    std::vector<Item> loaded_;

    mutable std::mutex mutex_;          // guards the members below
    std::vector<Returning> returning_;  // by rank
    u64 results_waiting_ = 0;
    std::vector<LinkQuery> next_queries_;  // by rank
};

}  // namespace warren::walk
