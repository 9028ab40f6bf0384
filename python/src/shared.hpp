// SPDX-License-Identifier: Apache-2.0
// What all objects of one open volume share, and how a call from Python reaches the volume.
//
// A thread never waits for a lock while it holds the GIL: a call releases the GIL before it takes
// the volume's lock, or takes the lock only if it is free. A thread may take the GIL while it holds
// the lock.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/wait_notice.hpp"
#include "warren/volume_path.hpp"

namespace warren::python {

namespace nb = nanobind;

/// Releases the GIL for the lifetime of this object.
///
/// At the end of the process Python ends any other thread that takes the GIL by unwinding its
/// stack, which C++ does not survive. So once the module's exit handler runs, such a thread
/// waits forever instead, as threads do from Python 3.14 on. It holds no lock then.
class GilRelease {
 public:
    GilRelease() : state_(PyEval_SaveThread()) {}
    ~GilRelease();
    GilRelease(const GilRelease&) = delete;
    GilRelease& operator=(const GilRelease&) = delete;

 private:
    PyThreadState* state_;
};

/// Registers an exit handler that makes threads wait as GilRelease describes, and then makes
/// changes of open volumes durable.
void prepare_exit();

/// The str for a path, as os.fsdecode() makes it.
nb::object file_name(std::string_view path);
/// The errno value for `code`.
int errno_of(Errc code);
/// Raises the subclass of OSError for the error, with the filenames `path` and `target`.
[[noreturn]] void raise_error(Errc code, std::string_view path,
                              std::optional<std::string_view> target = std::nullopt);
/// Without a path the error has no filename.
[[noreturn]] void raise_failure(const Failure& failure, std::string_view path);

inline std::string_view view(const nb::bytes& bytes) {
    return {bytes.c_str(), bytes.size()};
}

/// The credentials with which this process calls.
struct Process {
    std::vector<u32> groups;
    Caller caller;

    Process();
};

inline constexpr const char* forked_message =
    "the volume was opened before fork(): open it in this process";

/// An open volume. A process forked from the one that opened it never uses the volume, whose
/// threads do not exist there.
struct Shared : std::enable_shared_from_this<Shared> {
    std::unique_ptr<Volume> volume;
    std::shared_mutex lock;  // held exclusively by close()
    Process process;
    pid_t opener = getpid();
    bool is_read_only = false;

    static std::shared_ptr<Shared> make();
    Shared() = default;
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;
    ~Shared();

    bool is_forked() const { return getpid() != opener; }
    void refuse_forked() const;
    /// Like Volume::check_access(), but as of a mounted volume: Errc::read_only for what is to be
    /// written and may not be.
    Errc check_access(const Caller& caller, Handle handle, u32 mask) const;
    /// Whether this thread is in a call of this volume, from whose callback it calls again.
    bool is_held_here() const;
    /// Held from when the size of a file is read until bytes are written at that offset.
    std::mutex& append_lock(Handle file) {
        return append_locks_[file.inode % append_locks_.size()];
    }

 private:
    std::array<std::mutex, 64> append_locks_;
};

/// Holds the lock of a volume in shared mode. Requires: the GIL is released.
class VolumeHold {
 public:
    explicit VolumeHold(Shared& shared);
    ~VolumeHold();
    VolumeHold(const VolumeHold&) = delete;
    VolumeHold& operator=(const VolumeHold&) = delete;

 private:
    Shared& shared_;
    bool locked_;
};

/// Drops a reference of an object that Python frees: the last one to a volume closes it, and the
/// last one to a map waits for calls on its file. Requires: the GIL, which is released.
template <class Owned>
void drop(std::shared_ptr<Owned>& owned) {
    if (!owned) return;
    const GilRelease release;
    owned.reset();
}

/// Makes the open volumes give back the GPU memory that they use beside the CPU engine. Returns
/// whether one may have done so. Does nothing within a call of a volume, which may be using that
/// memory. Requires: the GIL is released.
bool release_device_memory();

[[noreturn]] void raise_closed();

/// Calls work(volume, caller) without the GIL.
template <class Work>
auto with_volume(Shared& shared, Work work) {
    shared.refuse_forked();
    bool is_closed = false;
    decltype(work(*shared.volume, shared.process.caller)) answer{};
    {
        const GilRelease release;
        const VolumeHold hold(shared);
        is_closed = !shared.volume;
        if (!is_closed) answer = work(*shared.volume, shared.process.caller);
    }
    if (is_closed) raise_closed();
    return answer;
}

/// Like with_volume(), for work of a few microseconds on metadata in memory: keeps the GIL until it
/// has to wait, because getting it back from busy threads takes longer.
template <class Work>
auto with_volume_briefly(Shared& shared, Work work) {
    shared.refuse_forked();
    std::optional<GilRelease> released;  // ends after the lock: see GilRelease
    std::shared_lock lock(shared.lock, std::defer_lock);
    if (!shared.is_held_here() && !lock.try_lock()) return with_volume(shared, work);
    if (!shared.volume) raise_closed();
    const WaitNotice notice([&released] {
        if (!released) released.emplace();
    });
    return work(*shared.volume, shared.process.caller);
}

/// Lets a long call return to Python ten times per second, to handle signals, so that Ctrl-C ends
/// the call, and to pass `progress`, unless it is None, the number of items done since the last
/// time.
class LongCall {
 public:
    explicit LongCall(nb::object progress);

    /// Whether to continue after `done` items. Called only on the thread of the Python call,
    /// without the GIL.
    bool goes_on(u64 done);
    /// Whether the call is to stop. Can be called from any thread.
    bool is_stopped() const { return is_stopped_.load(std::memory_order_relaxed); }
    /// Raises the exception that stopped the call, or reports the rest of the progress. Requires:
    /// the GIL.
    void finish(u64 done);

    static constexpr std::chrono::milliseconds pause{100};

 private:
    void turn(u64 done);

    nb::object progress_;
    u64 told_ = 0;
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
    std::atomic<bool> is_stopped_{false};
    std::exception_ptr failure_;
};

}  // namespace warren::python
