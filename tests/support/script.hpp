// SPDX-License-Identifier: Apache-2.0
// A workload that is written once and run on both a volume and the model: tests that interrupt it
// anywhere know from the model what the volume must contain.
//
// Invariant: each step has the same effect on the model as on the volume.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/model_file_system.hpp"
#include "tests/support/volume_walk.hpp"
#include "warren/volume.hpp"

namespace warren {

inline Result<Attributes> resolve(const ModelFileSystem& model, const Caller& caller,
                                  std::string_view path) {
    return model.resolve(caller, path);
}
/// The handle at a path of a volume or of the model.
template <class System>
Result<Handle> handle_at(System& system, std::string_view path) {
    const auto found = resolve(system, anybody, path);
    if (!found) return found.code();
    return found->handle;
}
/// The last component of a path.
inline std::string_view name_in(std::string_view path) {
    return path.substr(path.rfind('/') + 1);
}
inline std::string_view directory_of(std::string_view path) {
    return path.substr(0, path.rfind('/'));
}

class Script {
 public:
    struct Step {
        std::string text;
        std::function<Errc(Volume&)> on_volume;
        std::function<Errc(ModelFileSystem&)> on_model;
        bool is_sync = false;
    };

    template <class Body>
    void add(std::string text, const Body& body) {
        steps_.push_back({std::move(text), [body](Volume& volume) { return body(volume); },
                          [body](ModelFileSystem& model) { return body(model); }});
    }
    void add_sync() {
        steps_.push_back({"sync", [](Volume& volume) { return volume.sync(); },
                          [](ModelFileSystem&) { return Errc::ok; }, true});
    }
    /// Adds a step on the directory of `path` and its last component.
    template <class Body>
    void add_at(const std::string& what, const std::string& path, const Body& body) {
        add(what + " " + path, [path, body](auto& system) -> Errc {
            const Result<Handle> directory = handle_at(system, directory_of(path));
            if (!directory) return directory.code();
            return first_of(body(system, *directory, name_in(path)));
        });
    }
    /// Adds a step on the open file at `path`.
    template <class Body>
    void add_on(const std::string& what, const std::string& path, const Body& body) {
        add(what + " " + path, [path, body](auto& system) -> Errc {
            const Result<Handle> file = handle_at(system, path);
            if (!file) return file.code();
            WARREN_TRY(system.open_file(*file));
            const Errc code = first_of(body(system, *file));
            const Errc released = system.release(*file);
            return code == Errc::ok ? released : code;
        });
    }
    const std::vector<Step>& steps() const { return steps_; }

 private:
    static Errc first_of(Errc code) { return code; }
    static Errc first_of(const std::set<Errc>& codes) { return *codes.begin(); }
    template <class T>
    static Errc first_of(const Result<T>& result) {
        return result.code();
    }

    std::vector<Step> steps_;
};

// Steps that are used in many scripts. Paths are absolute.

void add_create(Script& script, const std::string& path, u32 mode = 0100644);
/// A symbolic link whose target has that many letters.
void add_symlink(Script& script, const std::string& path, u64 target_bytes);
void add_link(Script& script, const std::string& file, const std::string& path);
void add_unlink(Script& script, const std::string& path);
void add_remove_directory(Script& script, const std::string& path);
void add_rename(Script& script, const std::string& from, const std::string& to,
                Rename how = Rename::replace);
void add_remove_tree(Script& script, const std::string& path);
void add_clone(Script& script, const std::string& from, const std::string& to);
/// Gives a file the first `length` bytes of another.
void add_share(Script& script, const std::string& from, const std::string& to, u64 length);
/// Shares the first `length` bytes of two files, if they are equal.
void add_dedupe(Script& script, const std::string& from, const std::string& to, u64 length);
/// Writes `length` bytes of this value.
void add_write(Script& script, const std::string& path, u64 offset, u64 length, int value);
/// Writes these bytes.
void add_write(Script& script, const std::string& path, u64 offset,
               const std::vector<std::byte>& bytes);
void add_resize(Script& script, const std::string& path, u64 size);
void add_allocate(Script& script, const std::string& path, Allocate how, u64 offset, u64 length);
void add_change(Script& script, const std::string& path, const AttributeChange& change);
/// Sets an extended attribute to that many letters; a length of 0 removes it.
void add_attribute(Script& script, const std::string& path, u64 length);

}  // namespace warren
