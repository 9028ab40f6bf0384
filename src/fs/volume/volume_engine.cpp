// SPDX-License-Identifier: Apache-2.0
// Which engine an open volume has, and whether a GPU works beside it.
#include <utility>
#include <vector>

#include "base/notice.hpp"
#include "fs/volume/host_scan.hpp"
#include "fs/volume/volume_implementation.hpp"
#if defined(WARREN_CUDA)
#include "fs/engine/cuda/cuda_engine.hpp"
#include "fs/engine/cuda/replica/device_replica.hpp"
#endif

namespace warren {

/// Loads all metadata into the host's Store, frame by frame. A block that fails is loaded again
/// when it is needed, and the error is reported then.
void VolumeImplementation::load_metadata() {
    thread_pool_.for_each(relaxed_load(store().state->metadata_frames_end),
                          [this](const ThreadTeam&, u64 frame) { loader_->load_frame(frame); });
}

/// Creates the requested engine. Requires: the Store is ready.
Errc VolumeImplementation::start_engine() {
    if (options_.engine == EngineChoice::cuda) return start_cuda_engine();
    engine_ = std::make_unique<CpuEngine>(memory_.store());
    if (options_.engine == EngineChoice::automatic) start_replica();
    return Errc::ok;
}

Errc VolumeImplementation::start_cuda_engine() {
#if defined(WARREN_CUDA)
    CudaEngineOptions options;
    options.device = options_.device;
    options.report = options_.report;
    options.volume.load_block = [this](u64 place) { return loader_->load(place); };
    options.meta_buffer_blocks = options_.meta_buffer_bytes / format::block_size;
    if (options.meta_buffer_blocks == 0) {
        options.volume.load_metadata = [this] { load_metadata(); };
    }
    // A removal commits between two steps.
    options.volume.commit = [this] { return must_stop_reclaiming() ? Errc::busy : commit(); };
    options.volume.remove_leftovers = [this](u64 directory, u64& files) {
        return remove_leftovers(directory, files);
    };
    options.volume.remove_by_names = [this](u64 directory, Removal& removal) {
        return remove_by_commands(directory, removal);
    };
    if (auto engine = make_cuda_engine(memory_.store(), engine_failure_, options)) {
        use_engine(std::move(engine));
        return Errc::ok;
    }
#else
    engine_failure_ = "this program was built without it";
#endif
    return Errc::no_device;
}

ReplicaOptions VolumeImplementation::replica_options() {
    ReplicaOptions options;
    options.workers = thread_pool_.width();
    options.freeze = [this](const std::function<void()>& action) { freeze(action); };
    options.for_each = [this](u64 count, const std::function<void(u64)>& body) {
        thread_pool_.for_each_at_once(count, body);
    };
    return options;
}

/// Puts a GPU beside the CPU engine, or says why not: now, if memory of it was asked for, else when
/// there is work for it.
void VolumeImplementation::start_replica() {
    const bool is_wanted = options_.device_memory_bytes != 0;
    std::string failure;
    if (add_replica(is_wanted, failure) == Errc::ok) return;
    engine_failure_ = "no GPU works beside the CPU engine (" + failure + ")";
    if (is_wanted) notice_or(options_.warn, engine_failure_ + "; the CPU does all work");
}

Errc VolumeImplementation::add_replica([[maybe_unused]] bool is_loaded, std::string& failure) {
    if (store().heads != nullptr) {
        failure = "a meta buffer limits the metadata in memory";
        return Errc::not_supported;
    }
#if defined(WARREN_CUDA)
    failure = "there is not enough memory";
    WARREN_TRY(mark_changes());
    ReplicaOptions options = replica_options();
    options.device = options_.device;
    options.device_bytes = options_.device_memory_bytes;
    options.report = [this](const std::string& line) { notice_or(options_.warn, line); };
    if (is_loaded) options.prepare = [this] { load_metadata(); };
    auto replica = make_device_replica(store(), options);
    if (is_loaded) WARREN_TRY(replica->load(failure));
    use_replica(std::move(replica));
    return Errc::ok;
#else
    failure = "this program was built without CUDA";
    return Errc::not_supported;
#endif
}

void VolumeImplementation::use_replica(std::unique_ptr<ReplicaQueries> replica) {
    replica_ = std::move(replica);
    if (!replica_->is_loaded()) return;
    // The first predictions come from du of the whole volume on both sides.
    const Result<Handle> root = handle_of(store().root_inode);
    if (!root) return;
    std::vector<DirectoryUsage> usage(1);
    ScanCall call{bulk::plan_scan(bulk::ScanPurpose::measure, {}), *root};
    call.usage = &usage;
    replica_->measure(call, [&](u64& listed) { return scan_on_host(*this, call, listed); });
}

void VolumeImplementation::freeze(const std::function<void()>& action) {
    // Nothing applies to a read-only volume.
    if (committer_ == nullptr) return action();
    committer_->freeze(action);
}

std::string VolumeImplementation::engine_note() const {
#if defined(WARREN_CUDA)
    if (engine_->name() == name_of(EngineChoice::cuda)) return figures_of(*engine_).device;
#endif
    return replica_ != nullptr ? replica_->note() : engine_failure_;
}

void VolumeImplementation::use_engine(std::unique_ptr<Engine> engine) {
    engine_ = std::move(engine);
    engine_memory_ = engine_->memory();
    WARREN_CHECK(engine_memory_ != nullptr);
    if (committer_ == nullptr) return;
    committer_->use_engine(*engine_memory_, [this](const std::function<Errc()>& action) {
        const std::lock_guard alone(pieces_);
        return action();
    });
}

}  // namespace warren
