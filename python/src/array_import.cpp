// SPDX-License-Identifier: Apache-2.0
// Takes arrays of other libraries by the buffer protocol or DLPack, whose errors go to the caller.
#include <optional>
#include <string>

#include "python/src/array.hpp"

namespace warren::python {
namespace {

/// Makes the GPU of a tensor of torch the current one of torch: only then does torch export it.
class CurrentGpu {
 public:
    CurrentGpu(nb::handle given, nb::handle gpu) {
        const nb::object torch = nb::module_::import_("sys").attr("modules").attr("get")("torch");
        if (torch.is_none() || !nb::isinstance(given, torch.attr("Tensor"))) return;
        context_ = torch.attr("cuda").attr("device")(gpu);
        context_.attr("__enter__")();
    }
    ~CurrentGpu() {
        if (!context_.is_valid()) return;
        try {
            context_.attr("__exit__")(nb::none(), nb::none(), nb::none());
        } catch (nb::python_error& error) {
            error.discard_as_unraisable("torch.cuda.device");
        }
    }
    CurrentGpu(const CurrentGpu&) = delete;
    CurrentGpu& operator=(const CurrentGpu&) = delete;

 private:
    nb::object context_;
};

/// The capsule of an argument's __dlpack__().
nb::object dlpack_capsule(nb::handle given, Maker maker) {
    nb::dict options;
    const nb::object device = given.attr("__dlpack_device__")();
    std::optional<CurrentGpu> current;
    if (device[0].equal(nb::int_(nb::device::cuda::value))) {
        current.emplace(given, device[1]);
        if (maker == Maker::awaited) options["stream"] = 1;  // the default stream
    }
    const nb::object make = given.attr("__dlpack__");
    options["max_version"] = nb::make_tuple(1, 0);
    try {
        return make(**options);
    } catch (const nb::python_error& error) {
        if (!error.matches(PyExc_TypeError)) throw;
    }
    nb::del(options["max_version"]);  // which producers of before DLPack 1.0 do not know
    return make(**options);
}

}  // namespace

nb::object exported(nb::handle given, const char* what, const char* needed, Maker maker) {
    const bool has_dlpack = nb::hasattr(given, "__dlpack__");
    try {
        if (PyObject_CheckBuffer(given.ptr()) != 0) {
            nb::object view = nb::steal(PyMemoryView_FromObject(given.ptr()));
            if (view.is_valid()) return view;
            if (!has_dlpack) throw nb::python_error();
            PyErr_Clear();  // DLPack knows more types, and memory of GPUs
        }
        return has_dlpack ? dlpack_capsule(given, maker) : nb::borrow(given);
    } catch (nb::python_error& error) {
        if (!error.matches(PyExc_BufferError)) throw;
        nb::raise_from(error, PyExc_TypeError, "%s: %s is needed", what, needed);
    }
}

void raise_needed(const char* what, const char* needed) {
    throw nb::type_error((std::string(what) + ": " + needed + " is needed").c_str());
}

}  // namespace warren::python
