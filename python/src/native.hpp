// SPDX-License-Identifier: Apache-2.0
// The classes of the extension module, each defined in the file of its topic.
#pragma once

#include <optional>
#include <utility>

#include "python/src/array.hpp"
#include "python/src/gpu_memory.hpp"
#include "python/src/shared.hpp"

namespace warren::python {

/// An open file.
class NativeFile {
 public:
    NativeFile(std::shared_ptr<Shared> shared, Handle handle, nb::bytes path)
        : shared_(std::move(shared)), handle_(handle), path_(std::move(path)) {}
    NativeFile(NativeFile&&) = default;
    ~NativeFile();

    nb::bytes read(u64 offset, std::size_t size);
    u64 write(u64 offset, const nb::bytes& data);
    /// Writes at the end of the file. Each piece of the bytes, 32 MiB, is in one place, whatever
    /// other threads append. Returns the offset after the last byte; 0 without any.
    u64 append(const nb::bytes& data);
    /// Transfer bytes to or from an array or buffer of the host or a GPU, whatever its type and
    /// shape. `stream`: the cudaStream_t on which copies from and to a GPU are queued.
    u64 read_into(nb::handle target, u64 offset, std::optional<u64> stream);
    u64 write_from(nb::handle source, u64 offset, std::optional<u64> stream);
    /// Empties the file and makes it share the blocks of the source. Returns the number of bytes.
    u64 share_from(const NativeFile& source);
    void truncate(u64 size);
    u64 size();
    void sync();

 private:
    u64 finish(const Result<u64>& result);
    template <class Move>
    u64 move_on_gpu(const GpuBytes& bytes, const Move& move);

    std::shared_ptr<Shared> shared_;
    Handle handle_;
    nb::bytes path_;
};

/// An open volume. Further methods are functions in the files of their topics.
class NativeVolume {
 public:
    static void format(const nb::bytes& path, u64 size, const std::string& label, bool force);
    NativeVolume(const nb::bytes& path, bool read_only, const std::string& engine, u64 host_memory,
                 u32 gpu);
    ~NativeVolume() { drop(shared_); }
    NativeVolume(const NativeVolume&) = delete;
    NativeVolume& operator=(const NativeVolume&) = delete;

    bool is_closed() const { return !shared_->volume; }
    bool is_forked() const { return shared_->is_forked(); }
    void close(const nb::bytes& path);
    void sync();
    /// Its name, and what there is to say of it.
    nb::tuple engine();

    const std::shared_ptr<Shared>& shared() const { return shared_; }
    Shared& operator*() const { return *shared_; }

 private:
    std::shared_ptr<Shared> shared_;
};

using VolumeClass = nb::class_<NativeVolume>;

void add_file(nb::module_& module);
void add_names(VolumeClass& volume);
void add_attributes(VolumeClass& volume);
void add_bulk_names(VolumeClass& volume);
void add_bulk_contents(VolumeClass& volume);
void add_bulk_writes(VolumeClass& volume);
void add_scan(VolumeClass& volume);
void add_arrow(nb::module_& module);
void add_mapping(nb::module_& module, VolumeClass& volume);
void add_similar(VolumeClass& volume);
void add_digests(nb::module_& module, VolumeClass& volume);

}  // namespace warren::python
