// SPDX-License-Identifier: Apache-2.0
// Reads directories for a scan where blocks have no fixed address: with a meta buffer, or with an
// engine with its own memory that does not scan by itself. Each leaf, and the inodes of its
// entries, are read by commands, which load the blocks that they need.
#pragma once

#include <array>
#include <vector>

#include "base/out_of_memory.hpp"
#include "fs/bulk/scan/resident_way.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {

/// Has the interface of bulk::ResidentWay.
class CommandWay {
 public:
    static constexpr bool lists = false;

    CommandWay(VolumeImplementation& volume, bulk::ScanPurpose purpose)
        : volume_(volume), purpose_(purpose) {}

    /// Offers nothing to other workers, because it does not see the nodes above the leaf.
    template <class Share>
    Errc go_down(Handle directory, u64 from, u64& upper, const Share& /*share*/) {
        directory_ = directory;
        return or_no_memory([&]() -> Errc {
            ops::Command read = command_on(directory);
            read.from = from;
            read.buffer = &leaf_;
            read.buffer_bytes = sizeof leaf_;
            WARREN_LET(next, volume_.ask<ops::Verb::read_leaf>(read));
            upper = *next;
            if (purpose_ != bulk::ScanPurpose::removal) return Errc::ok;
            WARREN_LET(own, volume_.attributes(directory));
            mode_ = own->mode;
            user_ = own->user;
            return Errc::ok;
        });
    }

    const format::DirectoryLeaf& leaf() const { return leaf_; }
    bool must_own_entries(const core::Credentials& caller) const {
        return core::must_own_entries(caller, mode_, user_);
    }
    Errc check_caller(const core::Credentials& caller, u32 wanted) {
        ops::Command check = command_on(directory_);
        check.caller = caller;
        check.mode = wanted;
        return or_no_memory([&] { return volume_.ask<ops::Verb::check_access>(check); });
    }

    /// On an engine with its own memory, reads all inodes by one request. On the host's Store,
    /// read_inode() reads a few at a time, before the first of them is reported.
    Errc bring_inodes(const bulk::LaneSlots<ThreadTeam>& wanted) {
        wanted_ = wanted;
        read_end_ = 0;
        if (volume_.works_on_host()) return Errc::ok;
        read_end_ = wanted.rounds;
        return or_no_memory([&] { return ask_at_once(wanted); });
    }
    Errc read_inode(u32 slot, bool /*whole*/, Attributes& attributes) {
        if (slot >= read_end_) WARREN_TRY(or_no_memory([&] { return read_some(slot); }));
        const u32 at = volume_.works_on_host() ? slot % some : slot;
        if (codes_[at] == Errc::ok) attributes = attributes_[at];
        return codes_[at];
    }

    /// The leaf is as old as the command that read it, so this looks the name up again.
    Errc explain_stray(u32 slot, Handle met, u64 root) const {
        return or_no_memory([&]() -> Errc {
            const format::DirectorySlot& named = leaf_.slots[slot];
            ops::Command command = command_on(directory_);
            command.name = reinterpret_cast<const char*>(leaf_.heap) + named.name_offset();
            command.name_length = named.name_length();
            const Result<Attributes> now = volume_.ask<ops::Verb::lookup>(command);
            if (now.code() == Errc::stale || now.code() == Errc::no_entry) return Errc::ok;
            if (!now) return now.code();
            const bool is_here = now->parent == directory_.inode && now->handle.inode != root;
            return now->handle == met && !is_here ? Errc::corrupt : Errc::ok;
        });
    }

 private:
    Errc ask_at_once(const bulk::LaneSlots<ThreadTeam>& wanted) {
        std::vector<ops::Command> commands;
        std::vector<u32> slots;
        for (u32 i = wanted.next(0); i < wanted.rounds; i = wanted.next(i + 1)) {
            ops::Command& command = commands.emplace_back();
            command.verb = ops::Verb::attributes_of;
            command.from = leaf_.slots[i].inode();
            slots.push_back(i);
        }
        const std::vector<ops::Reply> replies = volume_.execute_many(commands);
        for (std::size_t i = 0; i < slots.size(); ++i) {
            attributes_[slots[i]] = replies[i].attributes;
            codes_[slots[i]] = replies[i].code;
        }
        return Errc::ok;
    }
    /// Reads the inodes of some wanted slots, from `slot` on, in one operation, whose loads
    /// overlap.
    Errc read_some(u32 slot) {
        u32 next = slot;
        const u32 end = std::min(slot / some * some + some, wanted_.rounds);
        WARREN_TRY(volume_.run([&](CpuOperation& op) -> Errc {
            std::array<core::InodeRef, some> inodes;
            Errc pinned = Errc::ok;
            u32 pinned_end = next;
            for (; pinned_end < end; pinned_end = wanted_.next(pinned_end + 1)) {
                const Result<core::InodeRef> inode =
                    core::pin_inode(op, leaf_.slots[pinned_end].inode());
                pinned = inode.code();
                if (!inode && pinned != Errc::stale) break;
                codes_[pinned_end % some] = pinned;
                if (!inode) continue;
                inodes[pinned_end % some] = *inode;
                bulk::fetch(inode->at, bulk::inode_head_bytes);
            }
            for (; next < pinned_end; next = wanted_.next(next + 1)) {
                Errc& code = codes_[next % some];
                if (code == Errc::ok) {
                    code = read_pinned(op, inodes[next % some], attributes_[next % some]);
                }
                if (code != Errc::ok && code != Errc::stale) return code;
            }
            return pinned == Errc::stale ? Errc::ok : pinned;
        }));
        read_end_ = end;
        return Errc::ok;
    }

    /// Writes the attributes of a pinned inode to `at`.
    static Errc read_pinned(CpuOperation& op, core::InodeRef& inode, Attributes& at) {
        WARREN_TRY(core::read_generation(op, inode));
        // Constructed in place: the loads of a copy would be wider than the stores before them, and
        // would stall.
        new (&at) Attributes(core::read_attributes(inode));
        return op.confirm(inode.seen);
    }

    static constexpr u32 some = 16;

    VolumeImplementation& volume_;
    const bulk::ScanPurpose purpose_;
    bulk::LaneSlots<ThreadTeam> wanted_;
    u32 read_end_ = 0;  // the slots below it have been read
    Handle directory_;
    u32 mode_ = 0;  // of the directory; for ScanPurpose::removal
    u32 user_ = 0;
    format::DirectoryLeaf leaf_;
    std::array<Errc, format::leaf_entries_max> codes_;  // of the entries that were read
    std::array<Attributes, format::leaf_entries_max> attributes_;
};

}  // namespace warren
