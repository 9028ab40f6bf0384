// SPDX-License-Identifier: Apache-2.0
// An open file: reads and writes bytes at offsets.
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <mutex>

#include "python/src/native.hpp"

namespace warren::python {
namespace {

/// Transfers `size` bytes in pieces by move(volume, done, count); Ctrl-C ends the call between two
/// pieces. Returns the number of bytes, fewer than `size` at the end of the file.
template <class Move>
Result<u64> in_pieces(Shared& shared, u64 size, const Move& move) {
    constexpr u64 piece_bytes = 32 * mib;
    LongCall call{nb::none()};
    const auto moved = with_volume(shared, [&](Volume& volume, const Caller&) -> Result<u64> {
        u64 done = 0;
        while (done < size && call.goes_on(done)) {
            const Result<u64> got = move(volume, done, std::min(size - done, piece_bytes));
            if (!got) return got;
            if (*got == 0) break;
            done += *got;
        }
        return done;
    });
    if (call.is_stopped()) call.finish(0);
    return moved;
}

}  // namespace

NativeFile::~NativeFile() {
    if (shared_ && !shared_->is_forked()) {
        const GilRelease release;
        const VolumeHold hold(*shared_);
        if (shared_->volume) static_cast<void>(shared_->volume->release(handle_));
    }
    drop(shared_);
}

nb::bytes NativeFile::read(u64 offset, std::size_t size) {
    nb::object bytes = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)));
    if (!bytes.is_valid()) throw nb::python_error();
    auto* start = reinterpret_cast<std::byte*>(PyBytes_AsString(bytes.ptr()));
    const u64 count = finish(in_pieces(*shared_, size, [&](Volume& volume, u64 done, u64 part) {
        return volume.read(handle_, offset + done, {start + done, part});
    }));
    if (count == size) return nb::borrow<nb::bytes>(bytes);
    return nb::bytes(reinterpret_cast<const char*>(start), count);
}

u64 NativeFile::write(u64 offset, const nb::bytes& data) {
    const auto* start = reinterpret_cast<const std::byte*>(data.c_str());
    const std::size_t size = data.size();
    return finish(in_pieces(*shared_, size, [&](Volume& volume, u64 done, u64 part) {
        return volume.write(handle_, offset + done, {start + done, part});
    }));
}

u64 NativeFile::append(const nb::bytes& data) {
    const auto* start = reinterpret_cast<const std::byte*>(data.c_str());
    u64 end = 0;
    finish(in_pieces(*shared_, data.size(), [&](Volume& volume, u64 done, u64 part) -> Result<u64> {
        // Released before a signal handler can run, which may append too.
        const std::lock_guard lock(shared_->append_lock(handle_));
        WARREN_LET(found, volume.attributes(handle_));
        const Result<u64> wrote = volume.write(handle_, found->size, {start + done, part});
        if (wrote) end = found->size + *wrote;
        return wrote;
    }));
    return end;
}

template <class Move>
u64 NativeFile::move_on_gpu(const GpuBytes& bytes, const Move& move) {
    LongCall call{nb::none()};
    const auto moved = with_volume(
        *shared_, [&](Volume& volume, const Caller&) { return move(volume, bytes, call); });
    if (call.is_stopped()) call.finish(0);
    if (is_of_gpu(moved.code())) raise_failure(gpu_failure(moved.code()), view(path_));
    return finish(moved);
}

u64 NativeFile::read_into(nb::handle given, u64 offset, std::optional<u64> stream) {
    const auto target = array_in<nb::ndarray<nb::c_contig>>(
        given, "target", "a writable, C-contiguous array of numbers or buffer");
    if (const auto on_gpu = gpu_bytes(target, stream, "target")) {
        return move_on_gpu(*on_gpu, [&](Volume& volume, const GpuBytes& bytes, LongCall& call) {
            return read_to_gpu(volume, handle_, offset, bytes, call);
        });
    }
    const std::span bytes(static_cast<std::byte*>(target.data()), target.nbytes());
    return finish(in_pieces(*shared_, bytes.size(), [&](Volume& volume, u64 done, u64 part) {
        return volume.read(handle_, offset + done, bytes.subspan(done, part));
    }));
}

u64 NativeFile::write_from(nb::handle given, u64 offset, std::optional<u64> stream) {
    const auto source = array_in<nb::ndarray<nb::ro, nb::c_contig>>(
        given, "source", "a C-contiguous array of numbers or buffer");
    if (const auto on_gpu = gpu_bytes(source, stream, "source")) {
        return move_on_gpu(*on_gpu, [&](Volume& volume, const GpuBytes& bytes, LongCall& call) {
            return write_from_gpu(volume, handle_, offset, bytes, call);
        });
    }
    const std::span bytes(static_cast<const std::byte*>(source.data()), source.nbytes());
    return finish(in_pieces(*shared_, bytes.size(), [&](Volume& volume, u64 done, u64 part) {
        return volume.write(handle_, offset + done, bytes.subspan(done, part));
    }));
}

u64 NativeFile::share_from(const NativeFile& source) {
    if (source.shared_ != shared_) throw nb::value_error("source: it is a file of another volume");
    const auto work = [&](Volume& volume, const Caller& caller) -> Result<u64> {
        if (source.handle_ == handle_) return Errc::invalid;
        WARREN_LET(found, volume.attributes(source.handle_));
        const AttributeChange change{.which = AttributeChange::size, .new_size = 0};
        WARREN_TRY(volume.set_attributes(caller, handle_, change).code());
        return volume.share_range(source.handle_, 0, handle_, 0, found->size);
    };
    return finish(with_volume(*shared_, work));
}

void NativeFile::truncate(u64 size) {
    const AttributeChange change{.which = AttributeChange::size, .new_size = size};
    finish(with_volume(*shared_, [&](Volume& volume, const Caller& caller) -> Result<u64> {
        const auto set = volume.set_attributes(caller, handle_, change);
        return set ? Result<u64>(set->size) : Result<u64>(set.code());
    }));
}

u64 NativeFile::size() {
    return finish(with_volume_briefly(*shared_, [&](Volume& volume, const Caller&) -> Result<u64> {
        const auto found = volume.attributes(handle_);
        return found ? Result<u64>(found->size) : Result<u64>(found.code());
    }));
}

void NativeFile::sync() {
    const Errc code = with_volume(
        *shared_, [&](Volume& volume, const Caller&) { return volume.sync_file(handle_); });
    if (code != Errc::ok) raise_error(code, view(path_));
}

u64 NativeFile::finish(const Result<u64>& result) {
    if (!result) raise_error(result.code(), view(path_));
    return *result;
}

void add_file(nb::module_& module) {
    nb::class_<NativeFile>(module, "File")
        .def("read", &NativeFile::read)
        .def("write", &NativeFile::write)
        .def("append", &NativeFile::append)
        .def("read_into", &NativeFile::read_into, nb::arg().none(), nb::arg(), nb::arg().none())
        .def("write_from", &NativeFile::write_from, nb::arg().none(), nb::arg(), nb::arg().none())
        .def("share_from", &NativeFile::share_from)
        .def("truncate", &NativeFile::truncate)
        .def("size", &NativeFile::size)
        .def("sync", &NativeFile::sync);
}

}  // namespace warren::python
