// SPDX-License-Identifier: Apache-2.0
// DLPack exchanges plain C structs, which are defined here, so no library is needed for them.
#include "python/src/array.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <numeric>
#include <optional>
#include <string>

#include <nanobind/stl/string.h>

#include "python/src/gpu_memory.hpp"
#include "python/src/shared.hpp"

namespace warren::python {
namespace {

using Code = nb::dlpack::dtype_code;

constexpr nb::dlpack::dtype code_of(Code code, u8 bits) {
    return {static_cast<u8>(code), bits, 1};
}

constexpr ElementType types[] = {
    {"bool", code_of(Code::Bool, 8), "?"},
    {"uint8", code_of(Code::UInt, 8), "B"},
    {"int8", code_of(Code::Int, 8), "b"},
    {"uint16", code_of(Code::UInt, 16), "H"},
    {"int16", code_of(Code::Int, 16), "h"},
    {"uint32", code_of(Code::UInt, 32), "I"},
    {"int32", code_of(Code::Int, 32), "i"},
    {"uint64", code_of(Code::UInt, 64), "Q"},
    {"int64", code_of(Code::Int, 64), "q"},
    {"float16", code_of(Code::Float, 16), "e"},
    {"float32", code_of(Code::Float, 32), "f"},
    {"float64", code_of(Code::Float, 64), "d"},
    {"complex64", code_of(Code::Complex, 64), "Zf"},
    {"complex128", code_of(Code::Complex, 128), "Zd"},
    {"bfloat16", code_of(Code::Bfloat, 16), nullptr},
    {"float8_e4m3fn", code_of(Code::Float8_E4M3FN, 8), nullptr},
    {"float8_e5m2", code_of(Code::Float8_E5M2, 8), nullptr},
};

/// The structs of DLPack, which define its ABI.
struct ManagedTensor {
    nb::dlpack::dltensor tensor;
    void* context;
    void (*deleter)(ManagedTensor*);
};
struct ManagedTensorVersioned {
    u32 major;
    u32 minor;
    void* context;
    void (*deleter)(ManagedTensorVersioned*);
    u64 flags;
    nb::dlpack::dltensor tensor;
};
constexpr u64 flag_read_only = 1;
constexpr u64 flag_copied = 2;

template <class Managed>
constexpr const char* tensor_capsule = "dltensor";
template <>
constexpr const char* tensor_capsule<ManagedTensorVersioned> = "dltensor_versioned";

/// The tensor of a capsule, and the array whose memory it refers to.
template <class Managed>
struct Exported {
    Managed managed{};
    Array array;
    std::vector<i64> shape;
    std::vector<i64> strides;
};

constexpr i32 device_cpu = 1;
constexpr i32 device_cuda = 2;

nb::dlpack::device device_of(const Array& array) {
    if (array.gpu() >= 0) return {device_cuda, array.gpu()};
    return {device_cpu, 0};
}

template <class Managed>
nb::object make_capsule(Array array, u64 flags) {
    auto exported = std::make_unique<Exported<Managed>>();
    exported->array = std::move(array);
    exported->shape = exported->array.shape();
    exported->strides.resize(exported->shape.size());
    i64 stride = 1;
    for (std::size_t i = exported->shape.size(); i-- > 0;) {
        exported->strides[i] = stride;
        stride *= exported->shape[i];
    }
    Managed& managed = exported->managed;
    managed.tensor.data = exported->array.template data<void>();
    managed.tensor.device = device_of(exported->array);
    managed.tensor.ndim = static_cast<i32>(exported->shape.size());
    managed.tensor.dtype = exported->array.type().code;
    managed.tensor.shape = exported->shape.data();
    managed.tensor.strides = exported->strides.data();
    managed.context = exported.get();
    managed.deleter = [](Managed* self) { delete static_cast<Exported<Managed>*>(self->context); };
    if constexpr (requires { managed.flags; }) {
        managed.major = 1;
        managed.minor = 0;
        managed.flags = flags;
    }
    // A consumer renames the capsule and then frees the tensor itself.
    PyObject* capsule = PyCapsule_New(&managed, tensor_capsule<Managed>, [](PyObject* self) {
        if (PyCapsule_IsValid(self, tensor_capsule<Managed>) == 0) return;
        auto* held = static_cast<Managed*>(PyCapsule_GetPointer(self, tensor_capsule<Managed>));
        held->deleter(held);
    });
    if (capsule == nullptr) throw nb::python_error();
    exported.release();
    return nb::steal(capsule);
}

[[noreturn]] void raise_buffer_error(const char* message) {
    PyErr_SetString(PyExc_BufferError, message);
    throw nb::python_error();
}

/// Whether the consumer accepts versioned capsules.
bool takes_versions(nb::handle max_version) {
    if (max_version.is_none()) return false;
    nb::tuple pair;
    long major = 0;
    if (!nb::try_cast(max_version, pair) || pair.size() != 2 || !nb::try_cast(pair[0], major))
        throw nb::type_error("max_version: None or a tuple of two numbers is needed");
    return major >= 1;
}

/// What an array shows has been written when Python sees it, so no stream has to wait for it.
void check_stream(nb::handle stream, bool is_on_gpu) {
    if (stream.is_none()) return;
    if (!is_on_gpu) throw nb::value_error("stream: not allowed for an array in host memory");
    i64 number = 0;
    if (!nb::try_cast(stream, number) || number < -1 || number == 0)
        throw nb::value_error("stream: -1, 1, 2 or the address of a stream is needed");
}

struct BufferShape {
    std::vector<Py_ssize_t> shape;
    std::vector<Py_ssize_t> strides;
};

nb::list to_list(nb::handle self) {
    const auto& array = nb::cast<const Array&>(self);
    const nb::object shown = array.gpu() < 0 ? nb::borrow(self) : self.attr("to_host")();
    const nb::object memory = nb::steal(PyMemoryView_FromObject(shown.ptr()));
    if (!memory.is_valid()) throw nb::python_error();
    return nb::cast<nb::list>(memory.attr("tolist")());
}

int get_array_buffer(PyObject* self, Py_buffer* buffer, int flags) {
    if (!is_made(self)) return -1;
    return nb::inst_ptr<Array>(nb::handle(self))->fill_buffer(self, buffer, flags);
}

PyType_Slot array_slots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_array_buffer)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(Array::release_buffer)},
    {0, nullptr},
};

/// Of two arrays Python would say whether they are one, where others say which elements are equal.
[[noreturn]] void refuse_comparison(nb::handle, nb::handle) {
    throw nb::type_error("an Array has no comparison: compare numpy.asarray(array), or tolist()");
}

}  // namespace

bool is_made(PyObject* self) {
    if (nb::inst_ready(nb::handle(self))) return true;
    PyErr_SetString(PyExc_BufferError, "it was not initialized");
    return false;
}

const ElementType* find_type(std::string_view name) {
    for (const ElementType& type : types) {
        if (type.name == name) return &type;
    }
    return nullptr;
}

template <>
const ElementType& type_of<bool>() {
    static const ElementType& type = *find_type("bool");
    return type;
}
template <>
const ElementType& type_of<u8>() {
    static const ElementType& type = *find_type("uint8");
    return type;
}
template <>
const ElementType& type_of<i32>() {
    static const ElementType& type = *find_type("int32");
    return type;
}
template <>
const ElementType& type_of<i64>() {
    static const ElementType& type = *find_type("int64");
    return type;
}

Array Array::make(const ElementType& type, std::vector<i64> shape) {
    Array array(nullptr, nullptr, type, std::move(shape));
    constexpr u64 alignment = 64;
    const u64 bytes = (std::max<u64>(array.size_bytes(), 1) + alignment - 1) / alignment;
    array.data_ = std::aligned_alloc(alignment, bytes * alignment);
    if (array.data_ == nullptr) throw std::bad_alloc();
    array.owner_ = std::shared_ptr<void>(array.data_, std::free);
    return array;
}

i64 Array::elements() const {
    return std::accumulate(shape_.begin(), shape_.end(), i64{1}, std::multiplies<>());
}

std::string Array::description() const {
    std::string text(type_->name);
    const char* before = "[";
    for (const i64 count : shape_) {
        text += before + std::to_string(count);
        before = ", ";
    }
    text += shape_.empty() ? "[]" : "]";
    return gpu_ < 0 ? text : text + ", cuda:" + std::to_string(gpu_);
}

Array Array::on_host() const {
    if (gpu_ < 0) return *this;
    Array copy = make(*type_, shape_);
    Errc code = Errc::ok;
    {
        const GilRelease release;
        code = copy_to_host(*this, copy.data_);
    }
    if (code != Errc::ok) raise_failure(gpu_failure(code), "");
    return copy;
}

Array Array::on_gpu(i32 gpu) const {
    Array copy;
    const Errc code = take_gpu_memory([&] {
        const GilRelease release;
        return copy_to_gpu(*this, gpu, copy);
    });
    if (code != Errc::ok) raise_failure(gpu_failure(code), "");
    return copy;
}

nb::dict Array::cuda_interface() const {
    if (gpu_ < 0) {
        PyErr_SetString(PyExc_AttributeError, "the array is in the memory of the host");
        throw nb::python_error();
    }
    const bool has_format = type_->format != nullptr;
    const u64 item_bytes = has_format ? type_->bytes() : 1;
    constexpr std::string_view kinds = "iufxVcb";  // by the codes of DLPack
    const char kind = has_format ? kinds[type_->code.code] : 'u';
    nb::list shape;
    for (const i64 count : shape_)
        shape.append(count);
    if (!has_format) {  // its bytes, as in the buffer protocol
        if (shape_.empty()) shape.append(1);
        const std::size_t last = nb::len(shape) - 1;
        shape[last] = nb::cast<i64>(shape[last]) * static_cast<i64>(type_->bytes());
    }
    nb::dict answer;
    answer["shape"] = nb::steal<nb::tuple>(PyList_AsTuple(shape.ptr()));
    answer["typestr"] =
        (item_bytes == 1 ? "|" : "<") + std::string(1, kind) + std::to_string(item_bytes);
    answer["data"] = nb::make_tuple(reinterpret_cast<std::uintptr_t>(data_), is_read_only_);
    answer["version"] = 3;
    answer["strides"] = nb::none();
    answer["stream"] = nb::none();  // nothing is queued that a consumer must wait for
    return answer;
}

Array Array::rows(i64 begin, i64 count) const {
    Array part = *this;
    part.shape_[0] = count;
    if (shape_[0] != 0)
        part.data_ = data<std::byte>() + size_bytes() / static_cast<u64>(shape_[0]) *
                                             static_cast<u64>(begin);
    return part;
}

nb::object Array::item(nb::handle self, nb::handle index) {
    const auto& array = nb::cast<const Array&>(self);
    if (array.shape().empty()) throw nb::type_error("an array of no dimensions has no items");
    const i64 count = array.shape()[0];
    if (nb::isinstance<nb::slice>(index)) {
        const auto [begin, end, step, length] =
            nb::cast<nb::slice>(index).compute(static_cast<std::size_t>(count));
        if (step != 1) throw nb::value_error("a slice takes every row: use numpy for steps");
        return nb::cast(array.rows(begin, static_cast<i64>(length)));
    }
    i64 at = PyNumber_AsSsize_t(index.ptr(), PyExc_IndexError);
    if (at == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    if (at < 0) at += count;
    if (at < 0 || at >= count) throw nb::index_error("the index is outside of the array");
    Array row = array.rows(at, 1);
    const bool is_one = row.shape_.size() == 1;
    if (!is_one) row.shape_.erase(row.shape_.begin());
    const nb::list values = to_list(nb::cast(std::move(row)));
    // An element without a buffer format is exposed as its bytes.
    if (is_one && nb::len(values) == 1) return values[0];
    return nb::steal(PyList_AsTuple(values.ptr()));
}

Array Array::copied() const {
    if (gpu_ >= 0) return on_gpu(gpu_);
    constexpr u64 few_bytes = 256 * kib;
    Array copy = make(*type_, shape_);
    std::optional<GilRelease> release;
    if (size_bytes() > few_bytes) release.emplace();
    std::memcpy(copy.data_, data_, size_bytes());
    return copy;
}

int Array::fill_buffer(PyObject* self, Py_buffer* buffer, int flags) const {
    buffer->obj = nullptr;
    if (gpu_ >= 0) {
        PyErr_SetString(PyExc_BufferError,
                        "the array is in the memory of a GPU: take it by DLPack, as CuPy and torch "
                        "do, or copy it by to_host()");
        return -1;
    }
    if (is_read_only_ && (flags & PyBUF_WRITABLE) == PyBUF_WRITABLE) {
        PyErr_SetString(PyExc_BufferError, "the array is read-only");
        return -1;
    }
    auto made = std::make_unique<BufferShape>();
    for (const i64 count : shape_)
        made->shape.push_back(count);
    const bool has_format = type_->format != nullptr;
    // Elements without a buffer format are exposed as bytes.
    if (!has_format && made->shape.empty()) made->shape.push_back(1);
    if (!has_format) made->shape.back() *= static_cast<Py_ssize_t>(type_->bytes());
    const auto item_bytes = static_cast<Py_ssize_t>(has_format ? type_->bytes() : 1);
    made->strides.resize(made->shape.size());
    Py_ssize_t stride = item_bytes;
    for (std::size_t i = made->shape.size(); i-- > 0;) {
        made->strides[i] = stride;
        stride *= made->shape[i];
    }
    buffer->buf = data_;
    buffer->len = static_cast<Py_ssize_t>(size_bytes());
    buffer->readonly = is_read_only_ ? 1 : 0;
    buffer->itemsize = item_bytes;
    buffer->format =
        (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(has_format ? type_->format : "B") : nullptr;
    buffer->ndim = static_cast<int>(made->shape.size());
    buffer->shape = (flags & PyBUF_ND) != 0 ? made->shape.data() : nullptr;
    buffer->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? made->strides.data() : nullptr;
    buffer->suboffsets = nullptr;
    buffer->internal = made.release();
    buffer->obj = Py_NewRef(self);
    return 0;
}

void Array::release_buffer(PyObject* /*self*/, Py_buffer* buffer) {
    delete static_cast<BufferShape*>(buffer->internal);
}

nb::object Array::dlpack(nb::handle stream, nb::handle max_version, nb::handle device,
                         nb::handle copy) const {
    const nb::dlpack::device own = device_of(*this);
    const bool may_copy = copy.is_none() || nb::cast<bool>(copy);
    if (gpu_ >= 0 && may_copy && device.equal(nb::make_tuple(device_cpu, 0)))
        return on_host().dlpack(nb::none(), max_version, nb::none(), nb::none());
    if (!device.is_none() && !device.equal(nb::make_tuple(own.device_type, own.device_id)))
        raise_buffer_error("dl_device: the array is in other memory; __dlpack_device__() tells");
    check_stream(stream, gpu_ >= 0);
    const bool copies = !copy.is_none() && nb::cast<bool>(copy);
    const bool is_versioned = takes_versions(max_version);
    if (is_read_only_ && !copies && !is_versioned)
        raise_buffer_error(
            "the array is read-only, which DLPack without versions cannot say: pass copy=True, or "
            "max_version=(1, 0)");
    const u64 flags = copies ? flag_copied : is_read_only_ ? flag_read_only : 0;
    Array shown = copies ? copied() : *this;
    if (is_versioned) return make_capsule<ManagedTensorVersioned>(std::move(shown), flags);
    return make_capsule<ManagedTensor>(std::move(shown), flags);
}

Errc take_gpu_memory(const std::function<Errc()>& take) {
    Errc code = take();
    if (code != Errc::no_memory) return code;
    bool has_released = false;
    {
        const GilRelease release;
        has_released = release_device_memory();
    }
    if (has_released) code = take();
    if (code != Errc::no_memory) return code;
    std::string text = gpu_failure(code).message;
    if (has_released)
        text += ", although open volumes gave back what they use beside the CPU engine";
    text += ": free memory of the GPU (torch.cuda.empty_cache() returns what torch keeps), ";
    text += "take less at once, or use memory of the host";
    PyErr_SetString(PyExc_MemoryError, text.c_str());
    throw nb::python_error();
}

// python/warren/_native.pyi has the same documentation, which tests compare.
void add_array(nb::module_& module) {
    nb::class_<Array> array(
        module, "Array", nb::type_slots(array_slots),
        "Memory with a shape: numpy.asarray(), memoryview() and from_dlpack() take it.\n\n"
        "That of a GPU is taken by from_dlpack() and, as it has __cuda_array_interface__, by\n"
        "cupy.asarray(); all of it has been written by then. Nothing is copied. Several threads\n"
        "may read an array; they must agree on who writes to it.");
    Array::add_dlpack(array, &Array::dlpack);
    array
        .def_prop_ro("shape",
                     [](const Array& array) {
                         nb::list shape;
                         for (const i64 count : array.shape())
                             shape.append(count);
                         return nb::steal<nb::tuple>(PyList_AsTuple(shape.ptr()));
                     })
        .def_prop_ro("dtype",
                     [](const Array& array) {
                         return nb::str(array.type().name.data(), array.type().name.size());
                     },
                     "The name that numpy, or for types without one torch, has for it.")
        .def_prop_ro("readonly", &Array::is_read_only)
        .def_prop_ro("nbytes", &Array::size_bytes)
        .def("tolist", [](nb::handle self) { return to_list(self); })
        .def("__repr__",
             [](const Array& array) { return "<warren.Array " + array.description() + ">"; })
        .def(
            "__getitem__",
            [](nb::handle self, nb::handle index) { return Array::item(self, index); },
            Array::item_doc)
        .def("__eq__", &refuse_comparison, "TypeError: compare numpy.asarray(array), or tolist().")
        .def("__ne__", &refuse_comparison)
        .def("__iter__", [](nb::handle self) { return nb::iter(to_list(self)); })
        .def("__len__",
             [](const Array& array) { return array.shape().empty() ? 0 : array.shape()[0]; })
        .def("__dlpack_device__",
             [](const Array& array) {
                 const nb::dlpack::device device = device_of(array);
                 return nb::make_tuple(device.device_type, device.device_id);
             })
        .def_prop_ro("__cuda_array_interface__", &Array::cuda_interface,
                     "AttributeError for memory of the host.")
        .def("to_host", &Array::on_host, Array::to_host_doc)
        .def("to_gpu", &Array::on_gpu, nb::arg(), Array::to_gpu_doc);
}

}  // namespace warren::python
