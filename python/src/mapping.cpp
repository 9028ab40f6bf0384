// SPDX-License-Identifier: Apache-2.0
// A file mapped into memory, as an array of its bytes in place.
#include <optional>

#include <nanobind/stl/optional.h>

#include "python/src/gpu_memory.hpp"
#include "python/src/operands.hpp"

namespace warren::python {
namespace {

/// What the arrays of a mapping keep alive: the file and the volume, destroyed in this order.
struct Mapped {
    std::shared_ptr<Shared> shared;
    std::unique_ptr<MappedFile> file;

    ~Mapped() {
        // In a forked process the threads of the volume do not exist.
        if (shared->is_forked()) static_cast<void>(file.release());
    }
};

class NativeMap : public Array {
 public:
    NativeMap(std::shared_ptr<Mapped> mapped, Array array, nb::bytes path)
        : Array(std::move(array)), mapped_(std::move(mapped)), path_(std::move(path)) {}
    NativeMap(NativeMap&&) = default;
    ~NativeMap() {
        static_cast<Array&>(*this) = Array();  // another owner of the mapping
        drop(mapped_);
    }

    /// Like Array::fill_buffer(). RuntimeError in a forked process.
    int fill_buffer(PyObject* self, Py_buffer* buffer, int flags) const {
        buffer->obj = nullptr;
        if (!mapped_->shared->is_forked()) return Array::fill_buffer(self, buffer, flags);
        PyErr_SetString(PyExc_RuntimeError, forked_message);
        return -1;
    }
    nb::object dlpack(nb::handle stream, nb::handle max_version, nb::handle device,
                      nb::handle copy) const {
        mapped_->shared->refuse_forked();
        return Array::dlpack(stream, max_version, device, copy);
    }

    nb::str repr() const {
        return nb::str("<warren.Map of {!r}, {}>").format(file_name(view(path_)), description());
    }

    nb::dict cuda_interface() const {
        mapped_->shared->refuse_forked();
        return Array::cuda_interface();
    }
    static nb::object item(nb::handle self, nb::handle index) {
        nb::cast<const NativeMap&>(self).mapped_->shared->refuse_forked();
        return Array::item(self, index);
    }

    Array on_host() const {
        mapped_->shared->refuse_forked();
        return Array::on_host();
    }
    Array on_gpu(i32 gpu) const {
        mapped_->shared->refuse_forked();
        return Array::on_gpu(gpu);
    }

    void write_back(std::optional<u64> stream) {
        if (is_read_only()) raise_error(Errc::bad_handle, view(path_));
        if (stream && gpu() < 0)
            throw nb::value_error("stream: not allowed for a map in host memory");
        const Errc code = with_volume(*mapped_->shared, [&](Volume&, const Caller&) -> Errc {
            if (gpu() >= 0) WARREN_TRY(wait_for_stream(gpu(), stream.value_or(0)));
            return mapped_->file->write_back();
        });
        if (code != Errc::ok) raise_error(code, view(path_));
    }

 private:
    std::shared_ptr<Mapped> mapped_;
    nb::bytes path_;
};

/// The shape given, in which one length of -1 is computed from `bytes`. Raises ValueError if it
/// does not fit.
std::vector<i64> shape_for(nb::handle given, u64 bytes, const ElementType& type) {
    const auto whole = static_cast<i64>(bytes / type.bytes());
    if (given.is_none()) return {whole};
    std::vector<i64> shape;
    i64 known = 1;
    std::optional<std::size_t> open;
    for (const nb::handle each : nb::iter(given)) {
        i64 length = 0;
        if (!nb::try_cast(each, length)) throw nb::type_error("shape: integers are needed");
        if (length < -1 || (length == -1 && open)) throw nb::value_error("shape: bad length");
        if (length == -1) {
            open = shape.size();
        } else if (length != 0 && known > whole / length) {
            throw nb::value_error("shape: the file is shorter");
        } else {
            known *= length;
        }
        shape.push_back(length);
    }
    if (open) shape[*open] = known == 0 ? 0 : whole / known;
    if (!open && known > whole) throw nb::value_error("shape: the file is shorter");
    return shape;
}

NativeMap map_file(NativeVolume& self, const nb::bytes& path, const std::string& type_name,
                   nb::handle shape, u64 offset, bool is_writable) {
    const ElementType* type = find_type(type_name);
    if (type == nullptr) throw nb::type_error(("dtype: there is no '" + type_name + "'").c_str());
    const std::string text(view(path));
    auto mapped = std::make_shared<Mapped>();
    mapped->shared = self.shared();
    const auto map = [&](Volume& volume, const Caller& caller) -> Errc {
        WARREN_LET(found, PathWalker(volume, caller).find(volume.root(), text, Follow::yes));
        WARREN_TRY(volume.check_access(caller, found->handle, is_writable ? 6 : 4));
        return volume.map_file(found->handle, {.offset = offset}, mapped->file);
    };
    const bool is_on_gpu = with_volume_briefly(
        *self, [](Volume& volume, const Caller&) { return volume.engine() == "cuda"; });
    const auto map_it = [&] { return with_volume(*self, map); };
    const Errc code = is_on_gpu ? take_gpu_memory(map_it) : map_it();
    if (code != Errc::ok) raise_error(code, text);
    const FileView& shown = mapped->file->view();
    std::vector<i64> lengths = shape_for(shape, shown.bytes, *type);
    Array array(mapped, shown.data, *type, std::move(lengths), !is_writable);
    if (mapped->file->is_on_device()) {
        array.set_gpu(gpu_of(shown.data));
        if (array.gpu() < 0) raise_failure(gpu_failure(Errc::io), text);
    }
    return {std::move(mapped), std::move(array), path};
}

int get_map_buffer(PyObject* self, Py_buffer* buffer, int flags) {
    if (!is_made(self)) return -1;
    return nb::inst_ptr<NativeMap>(nb::handle(self))->fill_buffer(self, buffer, flags);
}

PyType_Slot map_slots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_map_buffer)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(Array::release_buffer)},
    {0, nullptr},
};

}  // namespace

void add_mapping(nb::module_& module, VolumeClass& volume) {
    nb::class_<NativeMap, Array> map(
        module, "Map", nb::type_slots(map_slots),
        "A file's bytes in place. It keeps the file open, and stays as it is when the volume is\n"
        "closed.\n\n"
        "A map that is not writable shows later writes to the file. A writable one is a private\n"
        "copy until write_back().");
    map.def("write_back", &NativeMap::write_back, nb::arg("stream") = nb::none(),
            "Writes the map to the file, up to the file's present end. OSError EBADF if\n"
            "read-only.\n\n"
            "A map in the memory of a GPU is written when `stream`, the address of a CUDA stream,\n"
            "or else the default stream, has come to its end.")
        .def("__repr__", &NativeMap::repr)
        .def("__getitem__", &NativeMap::item, Array::item_doc)
        .def_prop_ro("__cuda_array_interface__", &NativeMap::cuda_interface)
        .def("to_host", &NativeMap::on_host, Array::to_host_doc)
        .def("to_gpu", &NativeMap::on_gpu, nb::arg(), Array::to_gpu_doc);
    Array::add_dlpack(map, &NativeMap::dlpack);
    using nb::arg;
    volume.def("map", &map_file, arg(), arg(), arg().none(), arg(), arg());
}

}  // namespace warren::python
