// SPDX-License-Identifier: Apache-2.0
// A volume whose operations run as warps on a GPU: the CPU engine opens it, its state is copied to
// device memory as a Store, and is copied back to be committed and closed as any other.
//
// Invariant: while commands run, the host's copy is at rest; after run() nothing on the device is
// reserved or locked, and no journal credits are held.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fs/engine/cuda/launch/operations.hpp"
#include "tests/support/open_inside.hpp"

namespace warren {

/// Whether there is a GPU to run on.
inline bool has_device() {
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

/// Device memory for `count` values.
template <class T>
class DeviceArray {
 public:
    explicit DeviceArray(u64 count) : count_(count) {
        EXPECT_EQ(cudaMalloc(&data_, count * sizeof(T)), cudaSuccess);
    }
    explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
        EXPECT_EQ(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyDefault),
                  cudaSuccess);
    }
    ~DeviceArray() { cudaFree(data_); }
    DeviceArray(const DeviceArray&) = delete;
    DeviceArray& operator=(const DeviceArray&) = delete;

    T* data() const { return data_; }
    u64 count() const { return count_; }
    std::vector<T> read() const {
        std::vector<T> values(count_);
        EXPECT_EQ(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDefault),
                  cudaSuccess);
        return values;
    }

 private:
    T* data_ = nullptr;
    u64 count_;
};

/// A command with its names. For links `target` is the inode that gets an additional name.
struct Request {
    ops::Verb verb = ops::Verb::lookup;
    Handle directory = {};
    std::string name = {};
    Handle target = {};
    std::string new_name = {};
    u32 mode = 0100644;
    u64 from = 0;
    AttributeChange change = {};
};

struct Answer {
    Errc code = Errc::io;
    u64 value = 0;
    Handle orphan;
    Attributes attributes;
};

/// How a run divides the volume's memory among warps.
struct Launch {
    u32 blocks = 264;
    u32 warps_per_block = 4;
};

class DeviceVolume {
 public:
    /// Opens the volume on `disk`, which outlives this. With `keeps_journal_room` commands respect
    /// the limit of the real journal and the host commits between runs; else there is no limit.
    explicit DeviceVolume(Disk& disk, bool keeps_journal_room = false, Launch launch = {})
        : keeps_journal_room_(keeps_journal_room), launch_(launch) {
        host_ = open_inside(disk);
        device_ = host_->store();
        journal_room_ = device_.state->journal_room;
        load_all();
        mirror_all();
        upload();
    }
    ~DeviceVolume() {
        for (const Mirror& mirror : mirrors_)
            cudaFree(mirror.device);
    }
    DeviceVolume(const DeviceVolume&) = delete;
    DeviceVolume& operator=(const DeviceVolume&) = delete;

    Handle root() {
        return *host_->run(
            [&](CpuOperation& op) { return ops::handle_of(op, op.store.root_inode); });
    }
    u32 commits() const { return commits_; }
    /// Milliseconds of kernel time so far, by the device's clock.
    float launched_ms() const { return launched_ms_; }
    /// The bytes that the last Verb::read_leaf copied.
    const format::DirectoryLeaf& leaf() const { return leaf_; }

    /// Runs all requests at once, one warp each, serving what they need; returns their answers.
    std::vector<Answer> run(const std::vector<Request>& requests);

    /// Block groups that hold metadata, at the last close() or commit.
    u64 metadata_frames() const {
        u64 count = 0;
        for (u64 frame = 0; frame < device_.frame_count; ++frame)
            count += core::kind_of(host_->store(), frame) == format::FrameKind::metadata ? 1 : 0;
        return count;
    }

    /// Copies everything back to the host, makes it durable and closes the volume.
    void close() {
        download();
        commit_in_parts();
        EXPECT_EQ(host_->close(), Errc::ok);
    }

 private:
    /// Memory of the host with its counterpart on the device.
    struct Mirror {
        void* host;
        void* device;
        u64 bytes;
    };

    template <class T>
    void mirror(T*& pointer, u64 count) {
        void* device = nullptr;
        EXPECT_EQ(cudaMalloc(&device, count * sizeof(T)), cudaSuccess);
        mirrors_.push_back({pointer, device, count * sizeof(T)});
        pointer = static_cast<T*>(device);
    }

    void load_all();
    void mirror_all();
    void upload();
    void download();
    void expect_at_rest();
    void commit_in_parts();
    void serve(Errc retry_reason);
    Answer run_one(const Request& request);
    void launch(const DeviceArray<ops::Command>& commands, const DeviceArray<ops::Reply>& replies);
    std::vector<u32> run_some(const std::vector<Request>& requests, const std::vector<u32>& which,
                              std::vector<Answer>& answers);

    static constexpr u32 idle_rounds_max = 8;  // in which no request gets its answer

    const bool keeps_journal_room_;
    const Launch launch_;
    std::unique_ptr<VolumeImplementation> host_;
    core::Store device_{};
    u64 journal_room_ = 0;
    u32 commits_ = 0;
    float launched_ms_ = 0;
    format::DirectoryLeaf leaf_{};
    std::vector<Mirror> mirrors_;
};

/// Loads every block that holds metadata into the host's memory; the others are zero there.
inline void DeviceVolume::load_all() {
    const core::Store& store = host_->store();
    for (u64 frame = 0; frame < store.frame_count; ++frame) {
        const format::FrameKind kind = core::kind_of(store, frame);
        if (kind != format::FrameKind::inodes && kind != format::FrameKind::metadata) continue;
        for (u64 block = 0; block < format::blocks_per_frame; ++block) {
            const u64 place = frame * format::frame_size + block * format::block_size;
            EXPECT_EQ(host_->loader().load(place), Errc::ok);
        }
    }
    for (u64 word = 0; word <= store.block_count() / 64; ++word)
        store.resident[word] = ~u64{0};
}

inline void DeviceVolume::mirror_all() {
    const u64 frame_words = device_.frame_count / 64 + 1;
    const u64 block_words = device_.block_count() / 64 + 1;
    mirror(device_.state, 1);
    mirror(device_.frame_table, host_->superblock().frame_table_blocks);
    mirror(device_.overlays, device_.frame_count);
    mirror(device_.frames_free, frame_words);
    for (u64*& room : device_.frames_with_space)
        mirror(room, frame_words);
    mirror(device_.versions, core::version_stripes);
    mirror(device_.dirty, block_words);
    mirror(device_.dirty_frames, frame_words);
    mirror(device_.base, device_.size_bytes);
    mirror(device_.resident, block_words);
}

inline void DeviceVolume::upload() {
    host_->store().state->journal_room = keeps_journal_room_ ? journal_room_ : u64{1} << 40;
    for (const Mirror& mirror : mirrors_) {
        EXPECT_EQ(cudaMemcpy(mirror.device, mirror.host, mirror.bytes, cudaMemcpyDefault),
                  cudaSuccess);
    }
}

inline void DeviceVolume::download() {
    for (const Mirror& mirror : mirrors_) {
        EXPECT_EQ(cudaMemcpy(mirror.host, mirror.device, mirror.bytes, cudaMemcpyDefault),
                  cudaSuccess);
    }
    expect_at_rest();
}

/// Commands have given back all that they took.
inline void DeviceVolume::expect_at_rest() {
    const core::Store& store = host_->store();
    u64 locked = 0;
    for (u32 i = 0; i < core::version_stripes; ++i)
        locked += store.versions[i] & 1;
    u64 reserved = 0;
    u64 held = 0;
    for (u64 frame = 0; frame < store.frame_count; ++frame) {
        for (const u64 word : store.overlays[frame].reserved)
            reserved += word != 0 ? 1 : 0;
        if (core::kind_of(store, frame) != format::FrameKind::inodes) continue;
        const auto* bitmap =
            reinterpret_cast<const format::InodeBitmap*>(store.base + frame * format::frame_size);
        for (const u64 word : bitmap->held)
            held += word != 0 ? 1 : 0;
    }
    u64 inside = 0;
    for (const core::BarrierSlot& slot : store.state->freeze_barrier)
        inside += slot.inside;
    EXPECT_EQ(locked, 0u);
    EXPECT_EQ(reserved, 0u);
    EXPECT_EQ(held, 0u);
    EXPECT_EQ(inside, 0u);
    EXPECT_EQ(store.state->reserved_credits, 0u);
}

/// Commits what is dirty in parts that the journal can hold. No command runs meanwhile, so the
/// parts need not be consistent one by one.
inline void DeviceVolume::commit_in_parts() {
    const core::Store& store = host_->store();
    store.state->journal_room = journal_room_;
    const u64 words = store.block_count() / 64;
    const std::vector<u64> dirty(store.dirty, store.dirty + words);
    std::fill_n(store.dirty, words, 0);
    u64 marked = 0;
    u64 all = 0;
    const u64 counted = store.state->dirty_blocks;
    for (u64 word = 0; word < words; ++word) {
        if (dirty[word] == 0) continue;
        store.dirty[word] = dirty[word];
        core::set_bit(store.dirty_frames, word * 64 / format::blocks_per_frame);
        marked += static_cast<u64>(std::popcount(dirty[word]));
        all += static_cast<u64>(std::popcount(dirty[word]));
        if (marked + 64 < journal_room_) continue;
        EXPECT_EQ(host_->commit(), Errc::ok);
        marked = 0;
    }
    EXPECT_EQ(host_->commit(), Errc::ok);
    EXPECT_EQ(all, counted);
    ++commits_;
}

/// Serves for all waiting requests what the engine requires of the host.
inline void DeviceVolume::serve(Errc retry_reason) {
    if (retry_reason == Errc::retry || retry_reason == Errc::ok) return;
    if (retry_reason == Errc::need_inodes) {
        const u64 frame = run_one({ops::Verb::claim_inode_frame, {}}).value;
        if (frame != 0) run_one({.verb = ops::Verb::start_inode_frame, .from = frame});
        return;
    }
    EXPECT_TRUE(retry_reason == Errc::need_commit || retry_reason == Errc::need_space)
        << static_cast<int>(retry_reason);
    download();
    commit_in_parts();
    upload();
}

/// Runs a request that needs no help of the host.
inline Answer DeviceVolume::run_one(const Request& request) {
    std::vector<Answer> answers(1);
    EXPECT_TRUE(run_some({request}, {0}, answers).empty());
    EXPECT_EQ(answers[0].code, Errc::ok);
    return answers[0];
}

inline std::vector<Answer> DeviceVolume::run(const std::vector<Request>& requests) {
    std::vector<Answer> answers(requests.size());
    std::vector<u32> waiting(requests.size());
    for (u32 i = 0; i < waiting.size(); ++i)
        waiting[i] = i;
    for (u32 idle_rounds = 0; !waiting.empty();) {
        const u64 waited = waiting.size();
        waiting = run_some(requests, waiting, answers);
        if (waiting.empty()) break;
        idle_rounds = waiting.size() == waited ? idle_rounds + 1 : 0;
        EXPECT_LT(idle_rounds, idle_rounds_max)
            << waiting.size() << " requests wait, the first for "
            << static_cast<int>(answers[waiting[0]].code) << ", that of "
            << requests[waiting[0]].name;
        if (idle_rounds == idle_rounds_max) download();
        if (testing::Test::HasFailure()) break;
        // Serve every reason: a request that took the last inodes may itself lack journal room.
        std::set<Errc> retry_reasons;
        for (const u32 index : waiting)
            retry_reasons.insert(answers[index].code);
        for (const Errc retry_reason : retry_reasons)
            serve(retry_reason);
    }
    return answers;
}

inline void DeviceVolume::launch(const DeviceArray<ops::Command>& commands,
                                 const DeviceArray<ops::Reply>& replies) {
    cudaEvent_t begin;
    cudaEvent_t end;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    cudaEventRecord(begin);
    const Errc launched = cuda_engine::launch_batch(
        device_, commands.data(), replies.data(), static_cast<u32>(commands.count()),
        launch_.blocks, launch_.warps_per_block, nullptr);
    EXPECT_EQ(launched, Errc::ok) << cudaGetErrorString(cudaGetLastError());
    cudaEventRecord(end);
    EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, begin, end);
    launched_ms_ += milliseconds;
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
}

/// The commands of some requests, with their names in `names` on the device.
inline std::vector<ops::Command> commands_for(const std::vector<Request>& requests,
                                              const std::vector<u32>& which, const char* names,
                                              format::DirectoryLeaf* leaf) {
    std::vector<ops::Command> commands(which.size());
    for (u32 i = 0; i < which.size(); ++i) {
        const Request& request = requests[which[i]];
        const bool is_link = request.verb == ops::Verb::link;
        ops::Command& command = commands[i];
        command.verb = request.verb;
        command.caller = {0, 0, nullptr, 0, 022, false};
        command.handle = is_link ? request.target : request.directory;
        command.target = is_link ? request.directory : request.target;
        command.mode = request.mode;
        command.from = request.from;
        command.buffer = leaf;
        command.buffer_bytes = sizeof *leaf;
        command.change = request.change;
        command.now = now_nanoseconds();
        command.name_length = static_cast<u32>(request.name.size());
        command.new_name_length = static_cast<u32>(request.new_name.size());
        command.name = names;
        command.new_name = names + command.name_length;
        names += command.name_length + command.new_name_length;
    }
    return commands;
}

/// Runs the requests named by `which` once; returns those that need help of the host.
inline std::vector<u32> DeviceVolume::run_some(const std::vector<Request>& requests,
                                               const std::vector<u32>& which,
                                               std::vector<Answer>& answers) {
    std::vector<char> names;
    for (const u32 index : which) {
        names.insert(names.end(), requests[index].name.begin(), requests[index].name.end());
        names.insert(names.end(), requests[index].new_name.begin(), requests[index].new_name.end());
    }
    names.resize((names.size() + 8) / 8 * 8);  // a warp reads names in words
    const DeviceArray<char> device_names(names);
    const DeviceArray<format::DirectoryLeaf> leaf(1);
    const DeviceArray<ops::Command> commands(
        commands_for(requests, which, device_names.data(), leaf.data()));
    const DeviceArray<ops::Reply> replies(which.size());
    launch(commands, replies);
    const std::vector<ops::Reply> read_replies = replies.read();
    leaf_ = leaf.read()[0];
    std::vector<u32> waiting;
    for (u32 i = 0; i < which.size(); ++i) {
        const ops::Reply& reply = read_replies[i];
        answers[which[i]] = {reply.code, reply.value, reply.removed.reclaim, reply.attributes};
        const bool has_more = requests[which[i]].verb == ops::Verb::truncate && reply.value == 0;
        if (!is_final(reply.code) || (reply.code == Errc::ok && has_more)) {
            waiting.push_back(which[i]);
        }
    }
    return waiting;
}

}  // namespace warren
