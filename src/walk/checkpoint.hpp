// SPDX-License-Identifier: Apache-2.0
// The files of a checkpoint: one of each rank, one more of a rank that keeps a central queue, and a
// manifest that names them, all in one folder. A queue may be larger than memory: its work batches
// are written and read one by one.
//
// Invariant: the manifest is written when all that it names is on the disk, and replaces the one
// before in one step; so whenever the power goes, it names a whole checkpoint.
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
    u64 roots_hash = 0;  // of what the walk was begun with
};
static_assert(std::has_unique_object_representations_v<Manifest>, "it has padding");

/// A file that is written bit by bit and is there whole, with a checksum, or not at all.
class CheckpointFile {
 public:
    /// `name` is in `folder`.
    CheckpointFile(std::string folder, std::string name);
    ~CheckpointFile();
    CheckpointFile(const CheckpointFile&) = delete;
    CheckpointFile& operator=(const CheckpointFile&) = delete;

    /// An error is returned by finish().
    void put(std::string_view bytes);
    /// When it is on the disk under its name.
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

    /// Makes the folder if it is not there. exists: there is a checkpoint in it.
    Errc prepare() const;
    /// Removes the checkpoint that the manifest names.
    void remove(const Manifest& manifest) const;
    Errc write_rank(u64 epoch, u32 rank, std::string_view bytes) const;
    Errc write_manifest(const Manifest& manifest) const;
    /// no_entry: there is none; corrupt: it makes no sense.
    Errc read_manifest(Manifest& manifest) const;
    bool has_manifest() const;
    /// The paths of the files.
    std::string manifest_name() const { return path_ + "/manifest"; }
    std::string rank_name(u64 epoch, u32 rank) const;
    std::string queue_name(u64 epoch, u32 rank) const;
    /// What a program says of itself, which the walk does not look at.
    Errc write_command(std::string_view bytes) const;
    Errc read_command(std::string& bytes) const;
    void remove_command() const;
    Errc read_rank(u64 epoch, u32 rank, std::string& bytes) const;
    /// The file of a rank's queue, for write_batch().
    CheckpointFile begin_queue(u64 epoch, u32 rank) const;
    static void write_batch(CheckpointFile& queue, std::string_view batch);
    /// Shows the work batches in the order in which they were written, as they were written, until
    /// there is an error. corrupt: one is not, or they are not all.
    Errc read_queue(u64 epoch, u32 rank, u64 work_batches,
                    const std::function<Errc(std::string_view)>& visitor) const;
    /// Removes what only an older checkpoint needed. What fails here is tried again by the next.
    void remove_ranks(u64 epoch, u32 ranks) const;

 private:
    Errc write_whole(const std::string& name, std::string_view bytes) const;
    Errc read_whole(const std::string& name, std::string& bytes) const;

    std::string path_;
};

}  // namespace warren::walk
