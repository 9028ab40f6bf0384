// SPDX-License-Identifier: Apache-2.0
// Exports a table as a stream of one record batch, or as a device array, by the C data interface of
// Arrow. The interface consists of C structs, so no library is needed. The columns are not copied.
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "python/src/native.hpp"

namespace {

// Names and layout are those of the specification.
struct ArrowSchema {
    const char* format;
    const char* name;
    const char* metadata;
    int64_t flags;
    int64_t n_children;
    ArrowSchema** children;
    ArrowSchema* dictionary;
    void (*release)(ArrowSchema*);
    void* private_data;
};
struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void** buffers;
    ArrowArray** children;
    ArrowArray* dictionary;
    void (*release)(ArrowArray*);
    void* private_data;
};
struct ArrowDeviceArray {
    ArrowArray array;
    int64_t device_id;
    int32_t device_type;
    void* sync_event;
    int64_t reserved[3];
};
struct ArrowArrayStream {
    int (*get_schema)(ArrowArrayStream*, ArrowSchema*);
    int (*get_next)(ArrowArrayStream*, ArrowArray*);
    const char* (*get_last_error)(ArrowArrayStream*);
    void (*release)(ArrowArrayStream*);
    void* private_data;
};

}  // namespace

namespace warren::python {
namespace {

/// A column and Arrow's format of its type. A text column has offsets. A column of width above 1 is
/// a list of that length, whose items are a child.
struct ArrowColumn {
    std::string name;
    std::string format;
    Array values;
    std::optional<Array> offsets;
    i64 width = 1;
    std::string item_format;
    i64 rows = 0;
};

using Columns = std::shared_ptr<std::vector<ArrowColumn>>;

const char* format_of(std::string_view type) {
    if (type == "int64") return "l";
    if (type == "int32") return "i";
    if (type == "uint8") return "C";
    throw nb::type_error("Arrow has no column of this type");
}

bool is_utf8(std::string_view bytes) {
    PyObject* text =
        PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "strict");
    if (text == nullptr) PyErr_Clear();
    const bool is_text = text != nullptr;
    Py_XDECREF(text);
    return is_text;
}

/// Whether each of the strings is UTF-8, that is, all bytes together are, and none of the strings
/// begins within a character. Then none ends within one.
bool are_utf8(const Array& bytes, const Array& offsets) {
    const std::string_view text(bytes.data<const char>(), bytes.size_bytes());
    const std::span begins(offsets.data<const i64>(), static_cast<u64>(offsets.elements()));
    return is_utf8(text) && std::ranges::none_of(begins, [&](i64 begin) {
        const auto at = static_cast<u64>(begin);
        return at < text.size() && (static_cast<u8>(text[at]) & 0xc0) == 0x80;
    });
}

/// What a schema or an array owns, including its children.
template <class Node>
struct Owned {
    Columns columns;
    std::vector<Node> nodes;
    std::vector<Node*> pointers;
    std::vector<const void*> buffers;
};

template <class Node>
void release_node(Node* node) {
    for (i64 i = 0; i < node->n_children; ++i) {
        Node* child = node->children[i];
        if (child->release != nullptr) child->release(child);
    }
    delete static_cast<Owned<Node>*>(node->private_data);
    node->release = nullptr;
}

template <class Node>
Owned<Node>* own(Node* node, const Columns& columns, std::size_t children) {
    auto* owned = new Owned<Node>{columns, std::vector<Node>(children), {}, {}};
    for (Node& child : owned->nodes)
        owned->pointers.push_back(&child);
    node->n_children = static_cast<i64>(children);
    node->children = owned->pointers.data();
    node->private_data = owned;
    node->release = release_node<Node>;
    return owned;
}

void fill_schema(ArrowSchema* schema, const Columns& columns) {
    *schema = {};
    schema->format = "+s";
    schema->name = "";
    auto* owned = own(schema, columns, columns->size());
    for (std::size_t i = 0; i < columns->size(); ++i) {
        const ArrowColumn& column = (*columns)[i];
        ArrowSchema& child = owned->nodes[i];
        auto* below = own(&child, columns, column.width > 1 ? 1 : 0);
        child.format = column.format.c_str();
        child.name = column.name.c_str();
        if (column.width == 1) continue;
        own(&below->nodes[0], columns, 0);
        below->nodes[0].format = column.item_format.c_str();
        below->nodes[0].name = "item";
    }
}

void set_buffers(ArrowArray& array, Owned<ArrowArray>* owned, std::vector<const void*> buffers) {
    owned->buffers = std::move(buffers);
    array.buffers = owned->buffers.data();
    array.n_buffers = static_cast<i64>(owned->buffers.size());
}

void fill_array(ArrowArray* array, const Columns& columns) {
    *array = {};
    array->length = columns->empty() ? 0 : columns->front().rows;
    auto* owned = own(array, columns, columns->size());
    set_buffers(*array, owned, {nullptr});
    for (std::size_t i = 0; i < columns->size(); ++i) {
        const ArrowColumn& column = (*columns)[i];
        ArrowArray& child = owned->nodes[i];
        child.length = column.rows;
        auto* below = own(&child, columns, column.width > 1 ? 1 : 0);
        const void* values = column.values.data<void>();
        if (column.offsets) {
            set_buffers(child, below, {nullptr, column.offsets->data<void>(), values});
        } else if (column.width == 1) {
            set_buffers(child, below, {nullptr, values});
        } else {
            set_buffers(child, below, {nullptr});
            ArrowArray& items = below->nodes[0];
            items.length = column.rows * column.width;
            set_buffers(items, own(&items, columns, 0), {nullptr, values});
        }
    }
}

struct StreamState {
    Columns columns;
    bool is_told = false;
};

std::unique_ptr<ArrowArrayStream> make_stream(Columns columns) {
    auto stream = std::make_unique<ArrowArrayStream>();
    stream->private_data = new StreamState{std::move(columns)};
    stream->get_schema = [](ArrowArrayStream* self, ArrowSchema* schema) {
        fill_schema(schema, static_cast<StreamState*>(self->private_data)->columns);
        return 0;
    };
    stream->get_next = [](ArrowArrayStream* self, ArrowArray* array) {
        auto* state = static_cast<StreamState*>(self->private_data);
        *array = {};  // an array without release() ends the stream
        if (!std::exchange(state->is_told, true)) fill_array(array, state->columns);
        return 0;
    };
    stream->get_last_error = [](ArrowArrayStream*) -> const char* { return nullptr; };
    stream->release = [](ArrowArrayStream* self) {
        delete static_cast<StreamState*>(self->private_data);
        self->release = nullptr;
    };
    return stream;
}

/// What `given` shows, or with `on_host` a copy of it if a GPU has it.
ArrowColumn make_column(std::string name, nb::handle given, bool on_host) {
    const auto take = [on_host](nb::handle part) {
        const auto array = nb::cast<Array>(part);
        return on_host ? array.on_host() : array;
    };
    ArrowColumn column;
    column.name = std::move(name);
    nb::tuple text;
    if (nb::try_cast(given, text)) {
        column.values = take(text[0]);
        column.offsets = take(text[1]);
        column.rows = column.offsets->shape()[0] - 1;
        const bool is_text = are_utf8(column.values.on_host(), column.offsets->on_host());
        column.format = is_text ? "U" : "Z";
        return column;
    }
    column.values = take(given);
    column.rows = column.values.shape()[0];
    column.format = format_of(column.values.type().name);
    if (column.values.shape().size() == 1) return column;
    column.width = column.values.shape()[1];
    column.item_format = std::exchange(column.format, "+w:" + std::to_string(column.width));
    return column;
}

Columns make_columns(const nb::dict& given, bool on_host) {
    auto made = std::make_shared<std::vector<ArrowColumn>>();
    for (const auto& [name, column] : given)
        made->push_back(make_column(nb::cast<std::string>(name), column, on_host));
    return made;
}

// The names of the capsules are those of the specification.
template <class Exported>
constexpr const char* capsule_name = nullptr;
template <>
constexpr const char* capsule_name<ArrowArrayStream> = "arrow_array_stream";
template <>
constexpr const char* capsule_name<ArrowSchema> = "arrow_schema";
template <>
constexpr const char* capsule_name<ArrowDeviceArray> = "arrow_device_array";

void release(ArrowDeviceArray& exported) {
    if (exported.array.release != nullptr) exported.array.release(&exported.array);
}
void release(auto& exported) {
    if (exported.release != nullptr) exported.release(&exported);
}

/// Makes a capsule that frees the struct, and releases what a consumer has not taken from it.
template <class Exported>
nb::object make_capsule(std::unique_ptr<Exported> exported) {
    PyObject* capsule = PyCapsule_New(exported.get(), capsule_name<Exported>, [](PyObject* self) {
        auto* held = static_cast<Exported*>(PyCapsule_GetPointer(self, capsule_name<Exported>));
        release(*held);
        delete held;
    });
    if (capsule == nullptr) {
        release(*exported);
        throw nb::python_error();
    }
    exported.release();
    return nb::steal(capsule);
}

nb::object arrow_stream(const nb::dict& columns) {
    return make_capsule(make_stream(make_columns(columns, true)));
}

/// The schema, and the record batch as a struct array.
nb::tuple arrow_device_array(const nb::dict& given) {
    constexpr i32 cpu = 1;
    constexpr i32 cuda = 2;
    const Columns columns = make_columns(given, false);
    const i32 gpu = columns->empty() ? -1 : columns->front().values.gpu();
    for (const ArrowColumn& column : *columns) {
        if (column.values.gpu() != gpu)
            throw nb::value_error("the columns are in the memory of several devices");
    }
    auto schema = std::make_unique<ArrowSchema>();
    fill_schema(schema.get(), columns);
    nb::object shown_schema = make_capsule(std::move(schema));
    auto array = std::make_unique<ArrowDeviceArray>();
    fill_array(&array->array, columns);
    array->device_type = gpu < 0 ? cpu : cuda;
    array->device_id = gpu;
    return nb::make_tuple(shown_schema, make_capsule(std::move(array)));
}

}  // namespace

void add_arrow(nb::module_& module) {
    module.def("arrow_stream", &arrow_stream);
    module.def("arrow_device_array", &arrow_device_array);
}

}  // namespace warren::python
