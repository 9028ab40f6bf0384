// SPDX-License-Identifier: Apache-2.0
// A thread that calls a volume again, from a callback, does not lock it again.
#include "python/src/shared.hpp"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <set>
#include <thread>

#include "python/src/kept_threads.hpp"

namespace warren::python {
namespace {

/// The number of threads that are taking the GIL again, and the thread that ends the process. A
/// thread counts itself before it reads `exiting`, and the exiting thread sets `exiting` before it
/// reads `returning`: either the exiting thread sees the count, or the other thread sees `exiting`.
std::atomic<u64> returning{0};
std::atomic<pid_t> exiting{0};

/// Whether this thread may take the GIL. If so, end_return() must follow.
bool begin_return() {
    returning.fetch_add(1);
    const pid_t thread = exiting.load();
    if (thread == 0 || thread == gettid()) return true;
    returning.fetch_sub(1);
    return false;
}

void end_return() {
    returning.fetch_sub(1);
}

/// All open volumes.
std::mutex volumes_mutex;
std::set<Shared*> volumes;

void begin_exit() {
    exiting = gettid();
    // Daemon threads keep alive what they use.
    const nb::object threads = nb::module_::import_("threading").attr("active_count")();
    if (nb::cast<int>(threads) > 1) nb::set_leak_warnings(false);
    const GilRelease release;
    constexpr std::chrono::milliseconds turn{1};
    while (returning != 0)
        std::this_thread::sleep_for(turn);
    const std::lock_guard lock(volumes_mutex);
    for (Shared* shared : volumes) {
        if (shared->is_forked()) continue;
        const VolumeHold hold(*shared);
        if (shared->volume) static_cast<void>(shared->volume->sync());
    }
}

/// The volumes whose lock this thread holds, for callbacks that call them again.
thread_local std::vector<const Shared*> held_here;

}  // namespace

GilRelease::~GilRelease() {
    while (!begin_return())
        pause();
    PyEval_RestoreThread(state_);
    end_return();
}

void prepare_exit() {
    nb::module_::import_("atexit").attr("register")(nb::cpp_function(&begin_exit));
    // The mutex is taken without the GIL when a volume is freed, so a fork may come meanwhile. The
    // threads that the parent process has counted do not exist in the child.
    pthread_atfork([] { volumes_mutex.lock(); }, [] { volumes_mutex.unlock(); },
                   [] {
                       volumes_mutex.unlock();
                       returning = 0;
                       forget_kept_threads();
                   });
}

nb::object file_name(std::string_view path) {
    nb::object name = nb::steal(
        PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size())));
    if (!name.is_valid()) throw nb::python_error();
    return name;
}

int errno_of(Errc code) {
    return is_final(code) ? static_cast<int>(code) : EIO;
}

void raise_error(Errc code, std::string_view path, std::optional<std::string_view> target) {
    const nb::object name = file_name(path);
    const nb::object second = target ? file_name(*target) : nb::object();
    errno = errno_of(code);
    PyErr_SetFromErrnoWithFilenameObjects(PyExc_OSError, name.ptr(), second.ptr());
    throw nb::python_error();
}

void raise_failure(const Failure& failure, std::string_view path) {
    std::string_view text = failure.message;
    // OSError shows the path behind the message.
    const std::string prefix = std::string(path) + ": ";
    if (!path.empty() && text.starts_with(prefix)) text.remove_prefix(prefix.size());
    nb::object name = path.empty() ? nb::none() : file_name(path);
    nb::object message = nb::str(text.data(), text.size());
    nb::object error = nb::steal(PyObject_CallFunction(PyExc_OSError, "iOO", errno_of(failure.code),
                                                       message.ptr(), name.ptr()));
    if (error.is_valid())
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
    throw nb::python_error();
}

void raise_closed() {
    throw nb::value_error("I/O operation on a closed volume");
}

Process::Process() {
    const int count = getgroups(0, nullptr);
    groups.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    if (count > 0 && getgroups(count, groups.data()) < 0) groups.clear();
    caller = {.user = geteuid(), .group = getegid(), .groups = groups, .umask = 022};
}

std::shared_ptr<Shared> Shared::make() {
    auto made = std::make_shared<Shared>();
    const std::lock_guard lock(volumes_mutex);
    volumes.insert(made.get());
    return made;
}

Shared::~Shared() {
    {
        const std::lock_guard lock(volumes_mutex);
        volumes.erase(this);
    }
    if (is_forked()) static_cast<void>(volume.release());
}

void Shared::refuse_forked() const {
    if (is_forked()) throw std::runtime_error(forked_message);
}

Errc Shared::check_access(const Caller& caller, Handle handle, u32 mask) const {
    const Errc code = volume->check_access(caller, handle, mask);
    return code == Errc::ok && is_read_only && (mask & 2) != 0 ? Errc::read_only : code;
}

bool Shared::is_held_here() const {
    return std::ranges::find(held_here, this) != held_here.end();
}

VolumeHold::VolumeHold(Shared& shared) : shared_(shared), locked_(!shared.is_held_here()) {
    held_here.push_back(&shared);
    if (locked_) shared.lock.lock_shared();
}

VolumeHold::~VolumeHold() {
    if (locked_) shared_.lock.unlock_shared();
    held_here.pop_back();
}

bool release_device_memory() {
    if (!held_here.empty()) return false;
    // A volume waits for calls that read its copy on the GPU, so the mutex is not held meanwhile.
    std::vector<std::shared_ptr<Shared>> opened;
    {
        const std::lock_guard lock(volumes_mutex);
        for (Shared* shared : volumes)
            opened.push_back(shared->weak_from_this().lock());
    }
    bool has_released = false;
    for (const auto& shared : opened) {
        if (!shared || shared->is_forked()) continue;
        const VolumeHold hold(*shared);
        if (shared->volume && shared->volume->release_device_memory() == Errc::ok)
            has_released = true;
    }
    return has_released;
}

LongCall::LongCall(nb::object progress) : progress_(std::move(progress)) {
    if (!progress_.is_none() && !PyCallable_Check(progress_.ptr()))
        throw nb::type_error("progress: a callable or None is needed");
}

bool LongCall::goes_on(u64 done) {
    if (is_stopped()) return false;
    if (std::chrono::steady_clock::now() - last_ < pause) return true;
    if (!begin_return()) {
        is_stopped_.store(true, std::memory_order_relaxed);
        return false;
    }
    {
        const nb::gil_scoped_acquire gil;
        end_return();
        try {
            turn(done);
        } catch (...) {
            failure_ = std::current_exception();
            is_stopped_.store(true, std::memory_order_relaxed);
        }
    }
    last_ = std::chrono::steady_clock::now();
    return !is_stopped();
}

void LongCall::turn(u64 done) {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (progress_.is_none() || done <= told_) return;
    const u64 more = done - told_;
    told_ = done;
    progress_(more);
}

void LongCall::finish(u64 done) {
    if (failure_) std::rethrow_exception(failure_);
    turn(done);
}

}  // namespace warren::python
