// SPDX-License-Identifier: Apache-2.0
// A single command goes to the resident server through a ring of the engine. For many commands at
// once, or if the ring is full, a caller takes a batch (a stream and its staging memory) for the
// duration of its call and launches a kernel.
#include "fs/engine/cuda/cuda_engine.hpp"

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "base/fair_lock.hpp"
#include "base/notice.hpp"
#include "base/out_of_memory.hpp"
#include "fs/engine/cuda/engine_loss.hpp"
#include "fs/engine/cuda/launch/command_batch.hpp"
#include "fs/engine/cuda/launch/directory_rebuild.hpp"
#include "fs/engine/cuda/launch/item_batch.hpp"
#include "fs/engine/cuda/launch/lookup_slots.hpp"
#include "fs/engine/cuda/launch/tree_reading.hpp"
#include "fs/engine/cuda/launch/tree_removal.hpp"
#include "fs/engine/cuda/server/server.hpp"
#include "fs/engine/cuda/server/server_fault.hpp"
#include "fs/engine/cuda/store/commit_area.hpp"
#include "fs/engine/cuda/store/device_file_memory.hpp"
#include "fs/engine/cuda/store/device_store.hpp"
#include "fs/ring/client.hpp"
#include "fs/ring/shared_ring.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"

namespace warren {
namespace {

using cuda_engine::CommandBatch;
using cuda_engine::DeviceStore;

class CudaEngine final : public Engine,
                         EngineMemory,
                         MetaBuffer,
                         BulkCommands,
                         ItemBatches,
                         LookupStreams {
 public:
    CudaEngine(const core::Store& host, const CudaEngineOptions& options)
        : host_(host), options_(options) {}
    ~CudaEngine() override { closing_.emplace(info_.index); }

    Errc open();

    std::string_view name() const override { return "cuda"; }
    void attempt(const ops::Command& command, ops::Reply& reply) override;
    void attempt_many(std::span<const ops::Command> commands,
                      std::span<ops::Reply> replies) override;
    Errc make_file_memory(u64 bytes, std::unique_ptr<FileMemory>& memory) override;
    EngineMemory* memory() override { return this; }
    BulkCommands* bulk() override { return has_bulk() ? this : nullptr; }
    ItemBatches* batches() override { return has_all_metadata() ? this : nullptr; }
    LookupStreams* lookups() override { return has_all_metadata() ? this : nullptr; }

    CudaEngineFigures figures() const;

 private:
    MetaBuffer* meta_buffer() override { return has_all_metadata() ? nullptr : this; }
    FairLock& steps() override { return steps_; }
    Errc cut(const std::function<void()>& at_rest, CommitSnapshot& cut) override;
    Errc fetch_cut(format::Block* blocks) override {
        return loss_.on_device([&] { return area_.fetch(blocks); });
    }
    Errc release_cut() override {
        return loss_.on_device([&] { return area_.release(store_.store()); });
    }
    u64 meta_buffer_blocks() const override { return options_.meta_buffer_blocks; }
    Errc place_block(u64 place, const format::Block& block, ops::Evicted& evicted) override;
    Errc read_block(u64 place, format::Block& block) override;
    Errc publish(std::span<ops::CommittedFrame> frames,
                 std::span<const u64> empty_inode_frames) override;
    Errc allow_generations(u64 limit) override {
        return loss_.on_device([&] { return area_.allow_generations(store_.store(), limit); });
    }
    Errc forbid() override {
        return loss_.on_device([&] { return area_.forbid(store_.store()); });
    }
    Errc show_block(u64 place) override {
        return loss_.on_device([&] { return store_.show_block(place); });
    }
    Errc add_frames() override { return add_frames(1); }
    Errc refresh_counters() override;
    Result<OpenBatch> open_batch(const ops::BatchShape& shape) override;
    void send_batch(u32 /*number*/, const ops::BatchPart& part) override {
        const gpu::DeviceScope device = loss_.enter_device();
        if (device.code() == Errc::ok) item_batch_.send(part);
    }
    Errc run_batch(u32 number, const ops::BatchHeader& header, ops::BatchWindow& window) override;
    void close_batch(u32 /*number*/) override { item_batch_mutex_.unlock(); }
    Errc prepare_lookups() override;
    Errc look_up(const core::Credentials& caller, const UseStream& use) override;
    Errc remove_tree(u64 root, Removal& removal) override;
    Errc remove_named_tree(const ops::Command& detach, Removal& removal,
                           ops::Removed& removed) override;
    Errc scan(const ScanCall& call) override;
    Errc rebuild(const core::Credentials& caller, Handle directory, u64 blocks) override;

    class BulkCalls;
    template <class Remove>
    Errc run_removal(const Remove& remove);
    template <class Body>
    Errc run_bulk(const Body& body);

    bool has_all_metadata() const { return options_.meta_buffer_blocks == 0; }
    /// Whether bulk commands can run: they need all metadata in device memory, and VolumeCalls.
    bool has_bulk() const { return options_.volume.commit && has_all_metadata(); }
    Errc add_frames(u64 count);
    Errc open_server();
    void report_loss(const std::string& reason) const;
    void take_memory_ahead();
    Errc serve(const ops::Command& command, ops::Reply& reply);
    Errc run_some(std::span<const ops::Command> commands, std::span<ops::Reply> replies);

    // Selects the device while the other members are destroyed, and therefore comes first.
    std::optional<gpu::DeviceScope> closing_;
    const core::Store& host_;
    const CudaEngineOptions options_;
    gpu::DeviceInfo info_;
    DeviceStore store_;
    cuda_engine::CommitArea area_;
    FairLock steps_;     // shared by bulk steps; a thread that needs both locks takes this first
    FairLock commands_;  // shared by commands
    cuda_engine::EngineLoss loss_{[this](const std::string& reason) { report_loss(reason); },
                                  [this] { return server_.statistics().loss; }};
    cuda_engine::CommandBatches batches_;
    std::mutex item_batch_mutex_;  // held while a batch of items is open
    cuda_engine::ItemBatch item_batch_;
    std::mutex lookups_mutex_;  // held while a lookup stream is open
    cuda_engine::LookupSlots lookup_slots_{loss_};
    std::jthread memory_ahead_;  // allocates that of item_batch_ and lookup_slots_
    // One removal and one rebuild at a time. Lock it before steps_, which they release for commits.
    std::mutex removal_mutex_;
    std::mutex rebuild_mutex_;
    std::unique_ptr<cuda_engine::TreeRemoval> removal_;
    cuda_engine::TreeReading reading_;
    std::unique_ptr<cuda_engine::DirectoryRebuild> rebuild_;
    ring::SharedRing ring_;
    std::unique_ptr<ring::RingClient> client_;
    cuda_engine::ResidentServer server_;  // last member: it stops before the others go
};

/// Starts the resident server with a ring that this process uses.
Errc CudaEngine::open_server() {
    WARREN_TRY(ring_.create(ring::RingShape{}, ring::Peer{}, true));
    WARREN_TRY(server_.start(store_.store(), ring_, {.device = info_.index}));
    client_ =
        std::make_unique<ring::RingClient>(ring_.ring(), ring_.doorbell(), ring_.status(), true);
    return Errc::ok;
}

void CudaEngine::report_loss(const std::string& reason) const {
    notice_or(options_.report,
              "the GPU engine has stopped (" + reason +
                  "); the volume is as its last commit left it: close it and open it "
                  "again");
}

/// Allocates the memory of large batches and then that of lookup streams in the background. One
/// thread allocates all of it: the driver pins memory for one thread at a time. If the thread
/// cannot be started, callers allocate the memory when they need it, as they do if they come before
/// the thread.
void CudaEngine::take_memory_ahead() {
    // A volume has no more files than this, so batches need not be larger.
    const u64 files = host_.block_count();
    const auto take = [this, files](const std::stop_token& must_stop) {
        if (gpu::use_device(info_.index) != Errc::ok) return;
        item_batch_.prepare(std::min(ops::batch_items_max, files), must_stop);
        lookup_slots_.prepare(files, must_stop);
    };
    static_cast<void>(or_no_memory([&] { memory_ahead_ = std::jthread(take); }));
}

/// After an error gpu::last_failure() has the reason.
Errc CudaEngine::open() {
    WARREN_TRY(gpu::choose_device(options_.device, info_));
    const gpu::DeviceScope device(info_.index);
    WARREN_TRY(device.code());
    loss_.set_device(info_.index);
    WARREN_TRY(cuda_engine::prepare_fault_record());
    // The metadata get into host memory, from which they are then uploaded.
    if (options_.volume.load_metadata) options_.volume.load_metadata();
    WARREN_TRY(store_.open(host_, options_.meta_buffer_blocks));
    WARREN_TRY(area_.open());
    // Before the server starts, because allocating memory takes longer while it runs.
    if (has_all_metadata()) item_batch_.prepare_small();
    WARREN_TRY(open_server());
    if (has_all_metadata()) take_memory_ahead();
    return Errc::ok;
}

Errc CudaEngine::run_some(std::span<const ops::Command> commands, std::span<ops::Reply> replies) {
    for (const ops::Command& command : commands) {
        if (command.verb != ops::Verb::start_inode_frame) continue;
        WARREN_TRY(store_.prepare_inode_frame(command.from));
    }
    return batches_.run(store_.store(), commands, replies);
}

/// Runs one command on the resident server. Errc::busy if its ring is full.
Errc CudaEngine::serve(const ops::Command& command, ops::Reply& reply) {
    constexpr u32 patience_ms = 1000;
    if (command.verb == ops::Verb::start_inode_frame) {
        WARREN_TRY(store_.prepare_inode_frame(command.from));
    }
    const Result<u64> ticket = client_->submit(command);
    if (!ticket) return Errc::busy;
    Errc waited = Errc::busy;
    while (waited == Errc::busy)
        waited = client_->wait(*ticket, reply, patience_ms);
    return waited;
}

void CudaEngine::attempt(const ops::Command& command, ops::Reply& reply) {
    // A ring cannot carry Command::walk, the memory that a rename keeps over several attempts. It
    // is needed only with a buffer cache.
    if (command.walk == nullptr || has_all_metadata()) {
        const std::shared_lock lock(commands_);
        const Errc code = loss_.unless_lost([&] { return serve(command, reply); });
        if (code == Errc::ok) return;
        if (code != Errc::busy) {
            reply = ops::Reply(loss_.answer(code));
            return;
        }
    }
    attempt_many({&command, 1}, {&reply, 1});
}

void CudaEngine::attempt_many(std::span<const ops::Command> commands,
                              std::span<ops::Reply> replies) {
    const std::shared_lock lock(commands_);
    for (std::size_t begin = 0; begin < commands.size(); begin += CommandBatch::commands_max) {
        const std::size_t count = std::min(commands.size() - begin, CommandBatch::commands_max);
        const Errc code = loss_.on_device([&] {
            return run_some(commands.subspan(begin, count), replies.subspan(begin, count));
        });
        if (code == Errc::ok) continue;
        std::ranges::fill(replies.subspan(begin, count), ops::Reply(code));
    }
}

Errc CudaEngine::cut(const std::function<void()>& at_rest, CommitSnapshot& cut) {
    return loss_.on_device([&] {
        return area_.cut(store_.store(), {commands_, server_}, at_rest, cut);
    });
}

Errc CudaEngine::publish(std::span<ops::CommittedFrame> frames,
                         std::span<const u64> empty_inode_frames) {
    // Shared: beside commands, but not beside a batch, which holds it alone. A batch uses numbers
    // of inode frames without setting the bits by which this sees that a frame is in use.
    const std::shared_lock beside_commands(commands_);
    return loss_.on_device(
        [&] { return area_.publish(store_.store(), frames, empty_inode_frames); });
}

Errc CudaEngine::place_block(u64 place, const format::Block& block, ops::Evicted& evicted) {
    return loss_.on_device(
        [&] { return store_.meta_buffer().place_block(store_.store(), place, block, evicted); });
}

Errc CudaEngine::read_block(u64 place, format::Block& block) {
    return loss_.on_device(
        [&] { return store_.meta_buffer().read_block(store_.store(), place, block); });
}

Errc CudaEngine::add_frames(u64 count) {
    const Errc added = loss_.on_device([&] { return store_.add_frames(count); });
    // Errc::no_space means that all frames have memory, so the volume is short of free frames.
    return added == Errc::no_space ? Errc::need_space : added;
}

Errc CudaEngine::make_file_memory(u64 bytes, std::unique_ptr<FileMemory>& memory) {
    if (loss_.is_lost()) return Errc::io;
    if (bytes > info_.memory_bytes) return Errc::no_memory;  // else the driver would report a fault
    auto made = std::make_unique<cuda_engine::DeviceFileMemory>(info_.index);
    WARREN_TRY(loss_.answer(made->open(bytes)));
    memory = std::move(made);
    return Errc::ok;
}

Errc CudaEngine::refresh_counters() {
    core::StoreState now;
    WARREN_TRY(loss_.on_device([&] { return store_.read_counters(now); }));
    using State = core::StoreState;
    for (u64 State::*counter :
         {&State::blocks_used, &State::inodes_used, &State::inode_slots, &State::free_frames,
          &State::metadata_frames_end, &State::data_frames_begin, &State::dirty_blocks})
        relaxed_store(host_.state->*counter, now.*counter);
    return Errc::ok;
}

Result<OpenBatch> CudaEngine::open_batch(const ops::BatchShape& shape) {
    std::unique_lock lock(item_batch_mutex_);
    const gpu::DeviceScope device = loss_.enter_device();
    WARREN_TRY(device.code());
    OpenBatch batch{};
    WARREN_TRY(item_batch_.open(shape, batch.memory));
    lock.release();  // close_batch() unlocks
    return batch;
}

/// Holds the engine exclusively and at rest, as a commit snapshot does, because the phases of a
/// batch take no locks.
Errc CudaEngine::run_batch(u32 /*number*/, const ops::BatchHeader& header,
                           ops::BatchWindow& window) {
    const std::lock_guard no_steps(steps_);
    const std::lock_guard alone(commands_);
    const gpu::DeviceScope device = loss_.enter_device();
    WARREN_TRY(device.code());
    Errc status = Errc::ok;
    const auto add_more = [this](u64 frames) { return add_frames(frames); };
    const Errc code = server_.while_at_rest(store_.store(), [&] {
        return item_batch_.run(store_.store(), header, add_more, window, status);
    });
    if (code == Errc::ok) return status;
    return code == Errc::no_memory ? Errc::not_supported : loss_.answer(code);
}

Errc CudaEngine::prepare_lookups() {
    return loss_.on_device([&] { return lookup_slots_.make_ready(); });
}

/// Lookups change nothing, so they share the engine with commands.
Errc CudaEngine::look_up(const core::Credentials& caller, const UseStream& use) {
    const std::lock_guard turn(lookups_mutex_);
    const std::shared_lock lock(commands_);
    const gpu::DeviceScope device = loss_.enter_device();
    WARREN_TRY(device.code());
    WARREN_TRY(loss_.answer(lookup_slots_.open(store_.store(), caller)));
    use(lookup_slots_);
    return Errc::ok;
}

/// The calls of a bulk command between its kernels. The lock of steps is released during calls of
/// the volume that may need the engine: for a commit or for commands.
class CudaEngine::BulkCalls final : public cuda_engine::BulkHost {
 public:
    BulkCalls(CudaEngine& engine, std::shared_lock<FairLock>& lock) : engine_(engine), lock_(lock) {
        make_way();
    }

    Errc bring(const std::vector<u64>& places) override {
        Errc first = Errc::ok;
        for (const u64 place : places) {
            Errc code = engine_.options_.volume.load_block(place);
            if (code == Errc::ok) code = engine_.show_block(place);
            if (first == Errc::ok) first = code;
        }
        return first;
    }
    Errc commit() override {
        return let_go([&] { return engine_.options_.volume.commit(); });
    }
    Errc remove_leftovers(u64 directory, u64& files) override {
        return let_go([&] { return engine_.options_.volume.remove_leftovers(directory, files); });
    }
    Errc remove_by_names(u64 directory, Removal& removal) override {
        return let_go([&] { return engine_.options_.volume.remove_by_names(directory, removal); });
    }
    Errc add_frames() override { return engine_.add_frames(); }
    Errc let_go(const std::function<Errc()>& call) override {
        lock_.unlock();
        const Errc code = call();
        lock_.lock();
        make_way();  // a small batch or commands may have run meanwhile
        return code == Errc::ok && engine_.loss_.is_lost() ? Errc::io : code;
    }

 private:
    /// Some kernels need all multiprocessors at once.
    void make_way() {
        engine_.item_batch_.make_way();
        engine_.server_.make_way();
    }

    CudaEngine& engine_;
    std::shared_lock<FairLock>& lock_;
};

/// Calls `remove(removal, host)`. One removal runs at a time.
template <class Remove>
Errc CudaEngine::run_removal(const Remove& remove) {
    const std::lock_guard turn(removal_mutex_);
    const cuda_engine::RemovalShape shape = cuda_engine::removal_shape_for(host_);
    if (!cuda_engine::has_room_for_steps(host_, shape.warps())) return Errc::not_supported;
    std::shared_lock lock(steps_);
    const gpu::DeviceScope device = loss_.enter_device();
    WARREN_TRY(device.code());
    if (removal_ == nullptr || !cuda_engine::has_room_for_steps(host_, removal_->warps())) {
        auto made = std::make_unique<cuda_engine::TreeRemoval>();
        WARREN_TRY(loss_.answer(made->open(shape)));
        removal_ = std::move(made);
    }
    BulkCalls calls(*this, lock);
    const Errc code = or_no_memory([&] { return remove(*removal_, calls); });
    return code == Errc::ok || removal_->is_sound() ? code : loss_.answer(Errc::io);
}

Errc CudaEngine::remove_tree(u64 root, Removal& removal) {
    return run_removal([&](cuda_engine::TreeRemoval& kernels, BulkCalls& host) {
        return kernels.remove(store_.store(), root, host, removal);
    });
}

Errc CudaEngine::remove_named_tree(const ops::Command& detach, Removal& removal,
                                   ops::Removed& removed) {
    const std::string_view name(detach.name, detach.name_length);
    return run_removal([&](cuda_engine::TreeRemoval& kernels, BulkCalls& host) {
        return kernels.remove_name(store_.store(), detach.caller, detach.handle, name, host,
                                   removal, removed);
    });
}

/// Calls `body(host)` while a bulk step may run.
template <class Body>
Errc CudaEngine::run_bulk(const Body& body) {
    std::shared_lock lock(steps_);
    const gpu::DeviceScope device = loss_.enter_device();
    WARREN_TRY(device.code());
    BulkCalls calls(*this, lock);
    const Errc code = or_no_memory([&] { return body(calls); });
    return reading_.is_sound() ? code : loss_.answer(Errc::io);
}

Errc CudaEngine::scan(const ScanCall& call) {
    return run_bulk([&](BulkCalls& host) { return reading_.scan(store_.store(), host, call); });
}

Errc CudaEngine::rebuild(const core::Credentials& caller, Handle directory, u64 blocks) {
    const std::lock_guard turn(rebuild_mutex_);
    return run_bulk([&](BulkCalls& host) {
        if (rebuild_ == nullptr) {
            auto made = std::make_unique<cuda_engine::DirectoryRebuild>();
            WARREN_TRY(made->open());
            rebuild_ = std::move(made);
        }
        const Errc code = rebuild_->rebuild(store_.store(), caller, directory, blocks, host);
        return code == Errc::io && !rebuild_->is_sound() ? loss_.answer(code) : code;
    });
}

CudaEngineFigures CudaEngine::figures() const {
    CudaEngineFigures figures{.device = info_.name};
    if (removal_ == nullptr) return figures;
    const cuda_engine::RemovalTimes& times = removal_->times();
    figures.removal_ns[0] = times.seeded - times.begun;
    figures.removal_ns[1] = times.reclaimed - times.seeded;
    figures.removal_ns[2] = times.ended - times.reclaimed;
    return figures;
}

}  // namespace

std::unique_ptr<Engine> make_cuda_engine(const core::Store& host, std::string& failure,
                                         const CudaEngineOptions& options) {
    auto engine = std::make_unique<CudaEngine>(host, options);
    if (engine->open() == Errc::ok) return engine;
    failure = gpu::last_failure().message;
    return nullptr;
}

CudaEngineFigures figures_of(const Engine& engine) {
    return static_cast<const CudaEngine&>(engine).figures();
}

}  // namespace warren
