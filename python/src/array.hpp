// SPDX-License-Identifier: Apache-2.0
// Arrays for Python: memory with a shape. Memory of the host is exported by the buffer protocol,
// memory of a GPU by __cuda_array_interface__, and both by DLPack.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "warren/types.hpp"

namespace warren::python {

namespace nb = nanobind;

/// An element type.
struct ElementType {
    std::string_view name;
    nb::dlpack::dtype code;
    const char* format;  // of the buffer protocol; null: exposed as bytes

    u64 bytes() const { return (u64{code.bits} + 7) / 8; }
};

/// The type with this name; null if there is none.
const ElementType* find_type(std::string_view name);
template <class T>
const ElementType& type_of();

/// An n-dimensional, C-contiguous array. Copies share the memory, which `owner` keeps alive.
class Array {
 public:
    Array() = default;
    Array(std::shared_ptr<void> owner, void* data, const ElementType& type, std::vector<i64> shape,
          bool is_read_only = false)
        : owner_(std::move(owner)),
          data_(data),
          type_(&type),
          shape_(std::move(shape)),
          is_read_only_(is_read_only) {}

    /// Allocates memory, aligned to 64 bytes and not initialized. May throw std::bad_alloc.
    static Array make(const ElementType& type, std::vector<i64> shape);
    template <class T>
    static Array make(std::vector<i64> shape) {
        return make(type_of<T>(), std::move(shape));
    }
    /// Makes an array of the elements of a vector, without copying them.
    template <class T>
    static Array of(std::vector<T> values) {
        auto owner = std::make_shared<std::vector<T>>(std::move(values));
        return {owner, owner->data(), type_of<T>(), {static_cast<i64>(owner->size())}};
    }

    template <class T>
    T* data() const {
        return static_cast<T*>(data_);
    }
    const ElementType& type() const { return *type_; }
    const std::vector<i64>& shape() const { return shape_; }
    i64 elements() const;
    u64 size_bytes() const { return static_cast<u64>(elements()) * type_->bytes(); }
    bool is_read_only() const { return is_read_only_; }
    /// Its type, shape and place.
    std::string description() const;
    /// The GPU whose memory it is; -1: the host's.
    i32 gpu() const { return gpu_; }
    void set_gpu(i32 gpu) { gpu_ = gpu; }
    /// The same elements in the memory of the host: a copy if they are in that of a GPU.
    Array on_host() const;
    /// A copy in the memory of a GPU.
    Array on_gpu(i32 gpu) const;

    static constexpr const char* to_host_doc =
        "The array itself, or a copy of one that is in the memory of a GPU. Kernels that write to\n"
        "it must have ended.";
    static constexpr const char* to_gpu_doc =
        "A copy in the memory of a GPU. OSError ENODEV if there is none of that number,\n"
        "MemoryError if it has too little memory.";

    /// Implement the methods with these names of Python's and DLPack's protocols.
    int fill_buffer(PyObject* self, Py_buffer* buffer, int flags) const;
    nb::object dlpack(nb::handle stream, nb::handle max_version, nb::handle device,
                      nb::handle copy) const;
    nb::dict cuda_interface() const;
    static nb::object item(nb::handle self, nb::handle index);
    static constexpr const char* item_doc =
        "The item of an array of one dimension; of others a tuple. A slice is an array that\n"
        "shares the memory; ValueError if it has a step.";
    static void release_buffer(PyObject* self, Py_buffer* buffer);
    /// Adds the method `__dlpack__` to a class.
    template <class Class, class Method>
    static void add_dlpack(Class& to, Method method) {
        to.def("__dlpack__", method, nb::kw_only(), nb::arg("stream") = nb::none(),
               nb::arg("max_version") = nb::none(), nb::arg("dl_device") = nb::none(),
               nb::arg("copy") = nb::none());
    }

 private:
    Array copied() const;
    /// `count` rows from `begin` on, which share the memory.
    Array rows(i64 begin, i64 count) const;

    std::shared_ptr<void> owner_;
    void* data_ = nullptr;
    const ElementType* type_ = nullptr;
    std::vector<i64> shape_;
    bool is_read_only_ = false;
    i32 gpu_ = -1;
};

/// Whether the default stream waits for the stream on which an array in GPU memory is made.
enum class Maker { not_awaited, awaited };

/// What nanobind imports an argument from: a view of its buffer, or the capsule of its
/// __dlpack__(). nanobind itself would ignore an error of the argument's methods and try others;
/// here it goes to the caller, and only a BufferError becomes the cause of the TypeError that
/// array_in() raises.
nb::object exported(nb::handle given, const char* what, const char* needed, Maker maker);

/// Raises TypeError: "`what`: `needed` is needed".
[[noreturn]] void raise_needed(const char* what, const char* needed);

/// The array or buffer of an argument as it is, never a converted copy. Raises TypeError if it is
/// not what is `needed`, and what its __dlpack__() raises.
template <class Taken>
Taken array_in(nb::handle given, const char* what, const char* needed,
               Maker maker = Maker::not_awaited) {
    Taken array;
    if (given.is_none() || !nb::try_cast(exported(given, what, needed, maker), array, false))
        raise_needed(what, needed);
    return array;
}

/// False, with BufferError set, for what only __new__() has made.
bool is_made(PyObject* self);

/// Adds the class `Array` to the module.
void add_array(nb::module_& module);

}  // namespace warren::python
