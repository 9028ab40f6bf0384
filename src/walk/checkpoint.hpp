// SPDX-License-Identifier: Apache-2.0
// The files of a checkpoint: one of each rank and a manifest that names them, all in one folder.
//
// Invariant: the manifest is written when all that it names is on the disk, and replaces the one
// before in one step; so whenever the power goes, it names a whole checkpoint.
#pragma once

#include <string>
#include <string_view>

#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren::walk {

struct Manifest {
    static constexpr u64 expected_magic = 0x334b4c41574e5257;  // "WRNWALK3"

    u64 magic = expected_magic;
    u64 epoch = 0;  // part of the names of the ranks' files
    u32 ranks = 0;
    u32 result_bytes = 0;
    u64 roots_hash = 0;  // of what the walk was begun with
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
    /// What a program says of itself, which the walk does not look at.
    Errc write_command(std::string_view bytes) const;
    Errc read_command(std::string& bytes) const;
    void remove_command() const;
    Errc read_rank(u64 epoch, u32 rank, std::string& bytes) const;
    /// Removes what only an older checkpoint needed. What fails here is tried again by the next.
    void remove_ranks(u64 epoch, u32 ranks) const;

 private:
    std::string rank_name(u64 epoch, u32 rank) const;
    Errc write_whole(const std::string& name, std::string_view bytes) const;
    Errc read_whole(const std::string& name, std::string& bytes) const;

    std::string path_;
};

}  // namespace warren::walk
