// SPDX-License-Identifier: Apache-2.0
// The extension module `warren._native`: a volume and open files in it, by paths that are bytes.
// python/warren gives them the shape that Python programs expect.
//
// Every call lets the GIL go before it takes the lock of the volume: no thread waits for the lock
// while it holds the GIL.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "warren/volume.hpp"

namespace nb = nanobind;

namespace {

using namespace warren;

// Raises the subclass of OSError that belongs to the code.
[[noreturn]] void raise_error(Errc code, const nb::bytes& path) {
    nb::object name = nb::steal(
        PyUnicode_DecodeFSDefaultAndSize(path.c_str(), static_cast<Py_ssize_t>(path.size())));
    if (!name.is_valid()) throw nb::python_error();
    errno = is_final(code) ? static_cast<int>(code) : EIO;
    PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, name.ptr());
    throw nb::python_error();
}

[[noreturn]] void raise_failure(const Failure& failure, const nb::bytes& path) {
    const int code = is_final(failure.code) ? static_cast<int>(failure.code) : EIO;
    nb::object name = nb::steal(
        PyUnicode_DecodeFSDefaultAndSize(path.c_str(), static_cast<Py_ssize_t>(path.size())));
    if (!name.is_valid()) throw nb::python_error();
    nb::object error = nb::steal(PyObject_CallFunction(
        PyExc_OSError, "iNO", code, nb::str(failure.message.c_str()).release().ptr(), name.ptr()));
    if (error.is_valid())
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
    throw nb::python_error();
}

// On whose behalf this process calls.
struct Process {
    std::vector<u32> groups;
    Caller caller;

    Process() {
        const int count = getgroups(0, nullptr);
        groups.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
        if (count > 0 && getgroups(count, groups.data()) < 0) groups.clear();
        caller = {.user = geteuid(), .group = getegid(), .groups = groups, .umask = 022};
    }
};

// What volume and files share. A process that was forked from the opener's never touches the
// volume: its threads are not there.
struct Shared {
    std::unique_ptr<Volume> volume;
    std::shared_mutex lock;  // held alone by close()
    Process process;
    pid_t opener = getpid();

    ~Shared() {
        if (getpid() != opener) static_cast<void>(volume.release());
    }
};

// A path as the folder it is in and its last name.
struct Place {
    std::string folder;
    std::string name;  // empty: the root
};

Errc split(std::string_view path, Place& place) {
    std::vector<std::string_view> names;
    while (!path.empty()) {
        const std::size_t end = std::min(path.find('/'), path.size());
        const std::string_view name = path.substr(0, end);
        path.remove_prefix(std::min(end + 1, path.size()));
        if (name.empty() || name == ".") continue;
        if (name == ".." || name.find('\0') != name.npos) return Errc::invalid;
        names.push_back(name);
    }
    if (names.empty()) return Errc::ok;
    place.name = names.back();
    names.pop_back();
    for (const std::string_view name : names)
        (place.folder += '/') += name;
    return Errc::ok;
}

std::string_view view(const nb::bytes& bytes) {
    return {bytes.c_str(), bytes.size()};
}

// Calls work(volume, caller) without the GIL.
template <class Work>
auto with_volume(Shared& shared, Work work) {
    if (getpid() != shared.opener)
        throw std::runtime_error("the volume was opened before fork(): open it in this process");
    bool is_closed = false;
    decltype(work(*shared.volume, shared.process.caller)) answer{};
    {
        nb::gil_scoped_release release;
        std::shared_lock hold(shared.lock);
        is_closed = !shared.volume;
        if (!is_closed) answer = work(*shared.volume, shared.process.caller);
    }
    if (is_closed) throw nb::value_error("I/O operation on a closed volume");
    return answer;
}

Result<Attributes> resolve(Volume& volume, const Caller& caller, const Place& place) {
    if (place.name.empty()) return volume.attributes(volume.root());
    return volume.resolve(caller, place.folder + '/' + place.name);
}

// Calls work(volume, caller, folder, name) for the last name of the path, without the GIL.
template <class Work>
void with_name(Shared& shared, const nb::bytes& path, Work work) {
    const std::string text(view(path));
    const Errc code = with_volume(shared, [&](Volume& volume, const Caller& caller) -> Errc {
        Place place;
        WARREN_TRY(split(text, place));
        if (place.name.empty()) return Errc::busy;
        Handle folder = volume.root();
        if (!place.folder.empty()) {
            const Result<Attributes> found = volume.resolve(caller, place.folder);
            if (!found) return found.code();
            folder = found->handle;
        }
        return work(volume, caller, folder, std::string_view(place.name));
    });
    if (code != Errc::ok) raise_error(code, path);
}

class NativeFile {
 public:
    NativeFile(std::shared_ptr<Shared> shared, Handle handle, nb::bytes path)
        : shared_(std::move(shared)), handle_(handle), path_(std::move(path)) {}
    NativeFile(NativeFile&&) = default;
    ~NativeFile() {
        if (!shared_ || getpid() != shared_->opener) return;
        nb::gil_scoped_release release;
        std::shared_lock hold(shared_->lock);
        if (shared_->volume) static_cast<void>(shared_->volume->release(handle_));
    }

    nb::bytes read(u64 offset, std::size_t size) {
        nb::object bytes =
            nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)));
        if (!bytes.is_valid()) throw nb::python_error();
        auto* start = reinterpret_cast<std::byte*>(PyBytes_AS_STRING(bytes.ptr()));
        const u64 count = finish(with_volume(*shared_, [&](Volume& volume, const Caller&) {
            return volume.read(handle_, offset, {start, size});
        }));
        if (count == size) return nb::borrow<nb::bytes>(bytes);
        return nb::bytes(reinterpret_cast<const char*>(start), count);
    }
    u64 write(u64 offset, const nb::bytes& data) {
        const auto* start = reinterpret_cast<const std::byte*>(data.c_str());
        const std::size_t size = data.size();
        return finish(with_volume(*shared_, [&](Volume& volume, const Caller&) {
            return volume.write(handle_, offset, {start, size});
        }));
    }
    void truncate(u64 size) {
        const AttributeChange change{.which = AttributeChange::size, .new_size = size};
        finish(with_volume(*shared_, [&](Volume& volume, const Caller& caller) -> Result<u64> {
            const auto set = volume.set_attributes(caller, handle_, change);
            return set ? Result<u64>(set->size) : Result<u64>(set.code());
        }));
    }
    u64 size() {
        return finish(with_volume(*shared_, [&](Volume& volume, const Caller&) -> Result<u64> {
            const auto found = volume.attributes(handle_);
            return found ? Result<u64>(found->size) : Result<u64>(found.code());
        }));
    }
    void sync() {
        const Errc code = with_volume(
            *shared_, [&](Volume& volume, const Caller&) { return volume.sync_file(handle_); });
        if (code != Errc::ok) raise_error(code, path_);
    }

 private:
    u64 finish(const Result<u64>& result) {
        if (!result) raise_error(result.code(), path_);
        return *result;
    }

    std::shared_ptr<Shared> shared_;
    Handle handle_;
    nb::bytes path_;
};

class NativeVolume {
 public:
    static void make(const nb::bytes& path, u64 size, const std::string& label, bool force) {
        const std::string text(view(path));
        Failure failure;
        {
            nb::gil_scoped_release release;
            failure = make_volume(text, {.size_bytes = size, .label = label, .force = force});
        }
        if (failure.code != Errc::ok) raise_failure(failure, path);
    }
    NativeVolume(const nb::bytes& path, bool read_only) : shared_(std::make_shared<Shared>()) {
        const std::string text(view(path));
        Failure failure;
        {
            nb::gil_scoped_release release;
            shared_->volume =
                Volume::open(text, {.read_only = read_only, .engine = EngineChoice::cpu}, failure);
        }
        if (!shared_->volume) raise_failure(failure, path);
    }
    bool is_closed() const { return !shared_->volume; }
    void close(const nb::bytes& path) {
        if (getpid() != shared_->opener)
            throw std::runtime_error(
                "the volume was opened before fork(): open it in this process");
        Errc code = Errc::ok;
        {
            nb::gil_scoped_release release;
            std::unique_lock hold(shared_->lock);
            if (shared_->volume) code = shared_->volume->close();
            shared_->volume.reset();
        }
        if (code != Errc::ok) raise_error(code, path);
    }
    void sync() {
        const Errc code =
            with_volume(*shared_, [](Volume& volume, const Caller&) { return volume.sync(); });
        if (code != Errc::ok) raise_error(code, nb::bytes("/", 1));
    }

    nb::tuple stat(const nb::bytes& path) {
        const std::string text(view(path));
        const auto found =
            with_volume(*shared_, [&](Volume& volume, const Caller& caller) -> Result<Attributes> {
                Place place;
                WARREN_TRY(split(text, place));
                return resolve(volume, caller, place);
            });
        if (!found) raise_error(found.code(), path);
        return nb::make_tuple(found->mode, found->handle.inode, found->links, found->user,
                              found->group, found->size, found->accessed, found->modified,
                              found->changed, found->blocks);
    }
    nb::list list(const nb::bytes& path) {
        const std::string text(view(path));
        std::vector<std::string> names;
        const Errc code = with_volume(*shared_, [&](Volume& volume, const Caller& caller) -> Errc {
            Place place;
            WARREN_TRY(split(text, place));
            const auto found = resolve(volume, caller, place);
            if (!found) return found.code();
            if ((found->mode & 0170000) != 0040000) return Errc::not_directory;
            WARREN_TRY(volume.check_access(caller, found->handle, 4));
            return volume.read_directory(found->handle, 0, [&](const DirectoryEntry& entry) {
                names.emplace_back(entry.name);
                return true;
            });
        });
        if (code != Errc::ok) raise_error(code, path);
        nb::list answer;
        for (const std::string& name : names)
            answer.append(nb::bytes(name.data(), name.size()));
        return answer;
    }
    void make_directory(const nb::bytes& path, u32 mode) {
        with_name(*shared_, path,
                  [&](Volume& volume, const Caller& caller, Handle folder, std::string_view name) {
                      return volume.create(caller, folder, name, {.mode = 0040000 | (mode & 07777)})
                          .code();
                  });
    }
    void unlink(const nb::bytes& path) {
        with_name(*shared_, path,
                  [](Volume& volume, const Caller& caller, Handle folder, std::string_view name) {
                      return volume.unlink(caller, folder, name);
                  });
    }
    void remove_directory(const nb::bytes& path) {
        with_name(*shared_, path,
                  [](Volume& volume, const Caller& caller, Handle folder, std::string_view name) {
                      return volume.remove_directory(caller, folder, name);
                  });
    }
    nb::tuple remove_tree(const nb::bytes& path) {
        Removal removal;
        with_name(*shared_, path,
                  [&](Volume& volume, const Caller& caller, Handle folder, std::string_view name) {
                      return volume.remove_tree(caller, folder, name, removal);
                  });
        return nb::make_tuple(removal.files, removal.directories, removal.blocks);
    }
    void rename(const nb::bytes& path, const nb::bytes& target) {
        const std::string text(view(target));
        with_name(*shared_, path,
                  [&](Volume& volume, const Caller& caller, Handle folder,
                      std::string_view name) -> Errc {
                      Place place;
                      WARREN_TRY(split(text, place));
                      if (place.name.empty()) return Errc::busy;
                      const auto found = place.folder.empty()
                                             ? volume.attributes(volume.root())
                                             : volume.resolve(caller, place.folder);
                      if (!found) return found.code();
                      return volume.rename(caller, folder, name, found->handle, place.name);
                  });
    }
    // Opens a regular file. `access` is the mask of check_access(); it is made if `creates`.
    NativeFile open(const nb::bytes& path, u32 access, bool creates, bool exclusive, bool empties) {
        Handle file;
        with_name(*shared_, path,
                  [&](Volume& volume, const Caller& caller, Handle folder,
                      std::string_view name) -> Errc {
                      if (creates) {
                          const auto made =
                              volume.create(caller, folder, name, {.mode = 0100666, .open = true});
                          if (made) file = made->handle;
                          if (made || exclusive || made.code() != Errc::exists) return made.code();
                      }
                      const auto found = volume.lookup(caller, folder, name);
                      if (!found) return found.code();
                      const u32 type = found->mode & 0170000;
                      if (type == 0040000) return Errc::is_directory;
                      if (type == 0120000) return Errc::loop;
                      if (type != 0100000) return Errc::not_supported;
                      WARREN_TRY(volume.check_access(caller, found->handle, access));
                      file = found->handle;
                      WARREN_TRY(volume.open_file(file));
                      if (!empties) return Errc::ok;
                      const AttributeChange change{.which = AttributeChange::size, .new_size = 0};
                      const Errc code = volume.set_attributes(caller, file, change).code();
                      if (code != Errc::ok) static_cast<void>(volume.release(file));
                      return code;
                  });
        return {shared_, file, path};
    }

 private:
    std::shared_ptr<Shared> shared_;
};

}  // namespace

NB_MODULE(_native, module) {
    nb::class_<NativeFile>(module, "File")
        .def("read", &NativeFile::read)
        .def("write", &NativeFile::write)
        .def("truncate", &NativeFile::truncate)
        .def("size", &NativeFile::size)
        .def("sync", &NativeFile::sync);
    nb::class_<NativeVolume>(module, "Volume")
        .def(nb::init<const nb::bytes&, bool>())
        .def_static("make", &NativeVolume::make)
        .def("is_closed", &NativeVolume::is_closed)
        .def("close", &NativeVolume::close)
        .def("sync", &NativeVolume::sync)
        .def("stat", &NativeVolume::stat)
        .def("list", &NativeVolume::list)
        .def("make_directory", &NativeVolume::make_directory)
        .def("unlink", &NativeVolume::unlink)
        .def("remove_directory", &NativeVolume::remove_directory)
        .def("remove_tree", &NativeVolume::remove_tree)
        .def("rename", &NativeVolume::rename)
        .def("open", &NativeVolume::open);
}
