// SPDX-License-Identifier: Apache-2.0
// The extension module `warren._native`: a volume and open files in it, with paths as bytes. The
// package python/warren builds the interface for Python programs on it.
#include "python/src/native.hpp"

#if defined(Py_GIL_DISABLED)
#error "The extension needs the GIL, which a free-threaded Python does not have."
#endif

#include <warren/version.h>

#include <mutex>

namespace warren::python {

void NativeVolume::format(const nb::bytes& path, u64 size, const std::string& label, bool force) {
    const std::string text(view(path));
    Failure failure;
    {
        const GilRelease release;
        failure = make_volume(text, {.size_bytes = size, .label = label, .force = force});
    }
    if (failure.code != Errc::ok) raise_failure(failure, text);
}

NativeVolume::NativeVolume(const nb::bytes& path, bool read_only, const std::string& engine,
                           u64 host_memory, u32 gpu)
    : shared_(Shared::make()) {
    EngineChoice choice = EngineChoice::automatic;
    if (!find_engine(engine, choice)) throw nb::value_error("engine: it is auto, cpu or cuda");
    shared_->is_read_only = read_only;
    const std::string text(view(path));
    Failure failure;
    {
        const GilRelease release;
        const OpenOptions options{.read_only = read_only,
                                  .file_buffer_bytes = host_memory,
                                  .pins_file_buffer = true,
                                  .engine = choice,
                                  .device = gpu};
        std::unique_ptr<Volume> opened = Volume::open(text, options, failure);
        const std::lock_guard lock(shared_->lock);  // other threads look at all volumes
        shared_->volume = std::move(opened);
    }
    if (!shared_->volume) raise_failure(failure, text);
}

void NativeVolume::close(const nb::bytes& path) {
    shared_->refuse_forked();
    if (shared_->is_held_here())
        throw std::runtime_error("close() was called by a callback of a call of the volume");
    Errc code = Errc::ok;
    {
        const GilRelease release;
        const std::unique_lock hold(shared_->lock);
        if (shared_->volume) code = shared_->volume->close();
        shared_->volume.reset();
    }
    if (code != Errc::ok) raise_error(code, view(path));
}

void NativeVolume::sync() {
    const Errc code =
        with_volume(*shared_, [](Volume& volume, const Caller&) { return volume.sync(); });
    if (code != Errc::ok) raise_error(code, "/");
}

nb::tuple NativeVolume::engine() {
    std::string name;
    std::string note;
    with_volume_briefly(*shared_, [&](Volume& volume, const Caller&) {
        name = volume.engine();
        note = volume.engine_note();
        return 0;
    });
    return nb::make_tuple(name, note);
}

}  // namespace warren::python

NB_MODULE(_native, module) {
    using namespace warren::python;
    // Objects of one interpreter would be used on threads of another.
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0)
        throw std::runtime_error("warren cannot be used in a subinterpreter");
    prepare_exit();
    add_array(module);
    add_file(module);
    VolumeClass volume(module, "Volume");
    volume.def(nb::init<const nb::bytes&, bool, const std::string&, warren::u64, warren::u32>())
        .def_static("format", &NativeVolume::format)
        .def("is_closed", &NativeVolume::is_closed)
        .def("is_forked", &NativeVolume::is_forked)
        .def("close", &NativeVolume::close)
        .def("sync", &NativeVolume::sync)
        .def("engine", &NativeVolume::engine);
    add_names(volume);
    add_attributes(volume);
    add_bulk_names(volume);
    add_bulk_contents(volume);
    add_bulk_writes(volume);
    add_scan(volume);
    add_arrow(module);
    add_mapping(module, volume);
    add_similar(volume);
    add_digests(module, volume);
    module.attr("__version__") = WARREN_VERSION;
}
