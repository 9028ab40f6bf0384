// SPDX-License-Identifier: Apache-2.0
// The memory of a rebuild is taken when the first one is asked for and kept for the next.
#include "fs/engine/cuda/launch/directory_packing.hpp"

namespace warren::cuda_engine {
namespace {

class Host final : public RebuildHost {
 public:
    explicit Host(const EngineLoan& engine) : engine_(engine) {}

    Errc bring(const std::vector<u64>& places) override { return engine_.bring(places); }
    Errc commit() override { return engine_.let_go(engine_.commit); }
    Errc rest() override {
        return engine_.let_go([] { return Errc::ok; });
    }

 private:
    const EngineLoan& engine_;
};

}  // namespace

Errc DirectoryPacking::rebuild(const EngineLoan& engine, const core::Credentials& caller,
                               Handle directory, u64 blocks) {
    if (rebuild_ == nullptr) {
        auto made = std::make_unique<DirectoryRebuild>();
        WARREN_TRY(made->open());
        rebuild_ = std::move(made);
    }
    Host host(engine);
    const Errc code = rebuild_->rebuild(engine.store, caller, directory, blocks, host);
    if (code == Errc::io && !rebuild_->is_sound()) {
        is_sound_.store(false, std::memory_order_relaxed);
    }
    return code;
}

}  // namespace warren::cuda_engine
