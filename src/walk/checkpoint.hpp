// SPDX-License-Identifier: Apache-2.0
// The files of a checkpoint, all in one folder: one for each rank, one more for a rank with a
// central queue, and a manifest that names them. A queue may be larger than memory, so its work
// batches are written and read one at a time.
//
// Invariant: the manifest is written only after all files that it names are on the disk, and it
// replaces the previous manifest atomically. So after a crash it always names a complete
// checkpoint.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren::walk {

struct Manifest {
    static constexpr u64 expected_magic = 0x354b4c41574e5257;  // "WRNWALK5"

    u64 magic = expected_magic;
    u64 epoch = 0;  // part of the names of the ranks' files
    u32 ranks = 0;
    u32 result_bytes = 0;
    u64 roots_hash = 0;  // of the roots with which the walk was started
};
static_assert(std::has_unique_object_representations_v<Manifest>, "it has padding");

/// A file that is written piece by piece, and under its name exists completely, with a checksum, or
/// not at all.
class CheckpointFile {
 public:
    /// `name` is the path of the file, in `folder`.
    CheckpointFile(std::string folder, std::string name);
    ~CheckpointFile();
    CheckpointFile(const CheckpointFile&) = delete;
    CheckpointFile& operator=(const CheckpointFile&) = delete;

    /// Appends bytes. An error is kept and returned by finish().
    void put(std::string_view bytes);
    /// Returns when the file is on the disk under its name, or with the first error.
    Errc finish();

 private:
    void note_error();

    std::string folder_;
    std::string name_;
    int file_;
    u32 checksum_ = 0;
    Errc code_ = Errc::ok;
};

class CheckpointFolder {
 public:
    explicit CheckpointFolder(std::string path) : path_(std::move(path)) {}

    /// Creates the folder if it does not exist. Errc::exists: it already contains a checkpoint.
    Errc prepare() const;
    /// Removes the checkpoint that the manifest describes.
    void remove(const Manifest& manifest) const;
    Errc write_rank(u64 epoch, u32 rank, std::string_view bytes) const;
    Errc write_manifest(const Manifest& manifest) const;
    /// Errc::no_entry: there is no manifest; Errc::corrupt: its contents are not valid.
    Errc read_manifest(Manifest& manifest) const;
    bool has_manifest() const;
    /// Paths of the files.
    std::string manifest_name() const { return path_ + "/manifest"; }
    std::string rank_name(u64 epoch, u32 rank) const;
    std::string queue_name(u64 epoch, u32 rank) const;
    /// The program's own record of its command line, which the walk does not interpret.
    Errc write_command(std::string_view bytes) const;
    Errc read_command(std::string& bytes) const;
    void remove_command() const;
    Errc read_rank(u64 epoch, u32 rank, std::string& bytes) const;
    /// Begins the file of a rank's queue, to which write_batch() appends.
    CheckpointFile begin_queue(u64 epoch, u32 rank) const;
    static void write_batch(CheckpointFile& queue, std::string_view batch);
    /// Calls `visitor` with each work batch in the order in which they were written, until there is
    /// an error. Errc::corrupt: a checksum does not match, or the file is incomplete.
    Errc read_queue(u64 epoch, u32 rank, u64 work_batches,
                    const std::function<Errc(std::string_view)>& visitor) const;
    /// Removes the files of an older checkpoint. A file that cannot be removed is left behind.
    void remove_ranks(u64 epoch, u32 ranks) const;

 private:
    Errc write_whole(const std::string& name, std::string_view bytes) const;
    Errc read_whole(const std::string& name, std::string& bytes) const;

    std::string path_;
};

}  // namespace warren::walk
