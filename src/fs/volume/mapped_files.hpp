// SPDX-License-Identifier: Apache-2.0
// The files of a volume whose contents are also in the engine's memory (Volume::map_file()). Every
// change of a file's contents is copied to its mappings before the data lock for the change is
// released.
//
// Invariant: mappings of a file are added and removed, and the contents of a mapped file change,
// only under its exclusive data lock. So a mapping differs from its file only in what kernels have
// written.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "fs/engine/file_memory.hpp"
#include "warren/mapped_file.hpp"
#include "warren/volume.hpp"

namespace warren {

class VolumeImplementation;

/// The pointer by which mappings find their volume while it is open.
struct MappingHome {
    std::shared_mutex mutex;  // shared to use `volume`; exclusive to close it
    VolumeImplementation* volume = nullptr;
};

/// The implementation of MappedFile.
class FileMapping {
 public:
    Handle file;
    FileView view;
    std::unique_ptr<FileMemory> memory;
    std::shared_ptr<MappingHome> home;

    u64 end() const { return view.offset + view.bytes; }
    /// Whether bytes [offset, offset + length) of the file are mapped.
    bool covers(u64 offset, u64 length) const {
        return offset >= view.offset && length <= view.bytes &&
               offset - view.offset <= view.bytes - length;
    }
    /// Errc::stale after the volume is closed, otherwise the result of `body(volume)`, during which
    /// the volume stays open.
    template <class Body>
    Errc with_volume(const Body& body) {
        const std::shared_lock lock(home->mutex);
        return home->volume == nullptr ? Errc::stale : body(*home->volume);
    }
};

class MappedFiles {
 public:
    explicit MappedFiles(VolumeImplementation& volume);
    ~MappedFiles() { leave(); }

    const std::shared_ptr<MappingHome>& home() const { return home_; }
    /// After this call no mapping finds the volume. Waits for mappings that are using it.
    void leave();

    // Requires: the caller holds the file's data lock, exclusive for all members but has().
    bool has(u64 inode) const { return !mappings_of(inode).empty(); }
    void add(FileMapping& mapping);
    void remove(FileMapping& mapping);
    /// Copies the bytes written at `offset` to all mappings of the file but `except`.
    Errc show(Handle file, u64 offset, std::span<const std::byte> bytes,
              const FileMapping* except = nullptr) const;
    /// Reads [begin, end) of the file into all its mappings but `except`. Bytes that cannot be read
    /// become zeros.
    Errc reload(Handle file, u64 begin, u64 end, const FileMapping* except = nullptr) const;

 private:
    /// Costs one load if no file is mapped.
    std::vector<FileMapping*> mappings_of(u64 inode) const;

    VolumeImplementation& volume_;
    std::shared_ptr<MappingHome> home_;
    std::atomic<u64> count_{0};  // of mappings; for a single file, its data lock orders it
    mutable std::mutex mutex_;
    std::unordered_multimap<u64, FileMapping*> mappings_;  // by inode number
};

}  // namespace warren
