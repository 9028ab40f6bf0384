// SPDX-License-Identifier: Apache-2.0
// A reference implementation of a file system in the simplest form: maps of names and pages, no
// disk, no concurrency. A random driver makes the same calls on it and on a volume and compares the
// results.
//
// Its rules are those of POSIX and Linux. Where these do not define which of several errors is
// returned, the order is: handle, not a directory, search permission, form of the name, existence,
// write permission, sticky bit, type of the existing file, the rest. Member names are those of
// Volume.
// Invariant: an inode exists as long as it has a name, is open, or is the root, and no longer.
#pragma once

#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/model_access.hpp"
#include "warren/volume.hpp"

namespace warren {

/// A time of which the test knows only within which bounds it lies.
struct ModelTime {
    i64 earliest = 0;
    i64 latest = 0;
    bool contains(i64 time) const { return earliest <= time && time <= latest; }
};

struct ModelTimes {
    ModelTime accessed;
    ModelTime modified;
    ModelTime changed;
    ModelTime born;
};

using ModelPage = std::array<std::byte, 4096>;

struct ModelInode {
    u32 mode = 0;
    u32 links = 0;
    u32 user = 0;
    u32 group = 0;
    u32 device = 0;
    u64 parent = 0;  // directories
    u64 size = 0;    // of a directory it means nothing
    u64 opens = 0;
    bool is_unnamed = false;  // made without a name: link() may give it one
    ModelTimes times;
    std::map<std::string, u64, std::less<>> entries;
    std::string target;
    std::map<u64, ModelPage> pages;  // by number; others are zeros
    ModelAttributes attributes;      // extended ones
};

class ModelFileSystem {
 public:
    /// An empty root directory that belongs to user 0.
    explicit ModelFileSystem(u32 root_mode = 0755);

    /// Between which times what is asked next happens.
    void set_clock(i64 earliest, i64 latest) { now_ = {earliest, latest}; }

    Handle root() const { return {root_number, 1}; }

    Result<Attributes> lookup(const Caller& caller, Handle directory, std::string_view name) const;
    Result<Attributes> create(const Caller& caller, Handle directory, std::string_view name,
                              const CreateOptions& options);
    Result<Attributes> create_unnamed(const Caller& caller, Handle directory,
                                      const CreateOptions& options);
    Result<Attributes> link(const Caller& caller, Handle file, Handle directory,
                            std::string_view name);
    Errc unlink(const Caller& caller, Handle directory, std::string_view name);
    Errc remove_directory(const Caller& caller, Handle directory, std::string_view name);
    Errc rename(const Caller& caller, Handle from, std::string_view name, Handle to,
                std::string_view new_name, Rename how = Rename::replace);
    Result<std::string> read_link(Handle link) const;
    Result<Attributes> resolve(const Caller& caller, std::string_view path) const;

    Result<Attributes> attributes(Handle handle) const;
    Result<Attributes> set_attributes(const Caller& caller, Handle handle,
                                      const AttributeChange& change);
    Errc check_access(const Caller& caller, Handle handle, u32 mask) const;
    Errc open_file(Handle handle);
    Errc release(Handle handle);

    Result<u64> read(Handle file, u64 offset, std::span<std::byte> target);
    Result<u64> write(Handle file, u64 offset, std::span<const std::byte> source);
    Errc allocate(Handle file, Allocate how, u64 offset, u64 length);
    Result<u64> share_range(Handle source, u64 offset, Handle target, u64 target_offset,
                            u64 length);
    /// As if no contents were in an inode, where the volume shares nothing.
    Result<Deduped> dedupe_range(const Caller& caller, Handle source, u64 offset, Handle target,
                                 u64 target_offset, u64 length);
    /// Whether `answer` is right for seek(); where holes are is up to the volume.
    bool is_right_seek(Handle file, u64 offset, Seek whence, const Result<u64>& answer) const;

    Result<u64> get_attribute(Handle handle, std::string_view name,
                              std::span<std::byte> target) const;
    Errc set_attribute(const Caller& caller, Handle handle, std::string_view name,
                       std::span<const std::byte> value, AttributeSet how = AttributeSet::any);
    Errc remove_attribute(const Caller& caller, Handle handle, std::string_view name);

    std::set<Errc> why_not_copied(const Caller& caller, u64 number) const;
    Errc clone(const Caller& caller, Handle source, Handle directory, std::string_view name,
               ClonedTree& done);

    /// The answers of which the volume may give any: one, unless several things stand in the way.
    std::set<Errc> remove_tree(const Caller& caller, Handle directory, std::string_view name,
                               Removal& removal);

    // For the driver.

    /// The inode of a handle, null if it is gone.
    const ModelInode* find(Handle handle) const;
    const std::map<u64, ModelInode>& inodes() const { return inodes_; }
    static Handle handle_of(u64 number) { return {number, 1}; }
    /// The times may have become those of the clock, or not.
    void blur_times(Handle handle);
    /// All opens end, as they do when a volume is closed.
    void release_all();
    /// Directories and names taken out of them since the last call.
    std::vector<std::pair<u64, std::string>> take_removals() {
        return std::exchange(removals_, {});
    }

    static constexpr u64 root_number = 1;

 private:
    /// A directory, a name and what the name leads to.
    struct Found {
        u64 directory = 0;
        u64 inode = 0;  // 0: the name is free
    };

    ModelInode& at(u64 number) { return inodes_.at(number); }
    const ModelInode& at(u64 number) const { return inodes_.at(number); }
    bool allows(const Caller& caller, u64 number, u32 wanted) const;
    bool is_kept_by_sticky(const Caller& caller, const Found& found) const;
    bool is_dead(u64 directory) const { return at(directory).links == 0; }
    bool lies_at_or_below(u64 directory, u64 above) const;
    Result<Found> look(const Caller& caller, Handle directory, std::string_view name) const;
    Attributes describe(u64 number) const;
    u64 make_inode(const Caller& caller, u64 parent, const CreateOptions& options);
    void add_entry(u64 directory, std::string_view name, u64 inode);
    void drop_entry(u64 directory, std::string_view name);
    void drop_name_of(u64 inode);
    void erase_if_unused(u64 inode);
    void touch_directory(u64 directory);
    Errc remove(const Caller& caller, Handle directory, std::string_view name, bool is_rmdir);
    Errc check_rename(const Caller& caller, const Found& from, const Found& to, Rename how) const;
    void arrive(u64 inode, u64 from, u64 to);
    void exchange(const Found& from, std::string_view name, const Found& to,
                  std::string_view new_name);
    Errc check_clone(const Caller& caller, Handle source, Handle directory,
                     std::string_view name) const;
    u64 copy_inode(const Caller& caller, u64 number, u64 parent, std::map<u64, u64>& copies,
                   ClonedTree& done);
    std::set<Errc> why_not_removable(const Caller& caller, u64 root) const;
    void erase_tree(u64 root, Removal& removal);
    Errc check_change(const Caller& caller, Handle handle, const AttributeChange& change) const;
    void truncate(ModelInode& inode, u64 size);
    Result<ModelInode*> find_content(Handle file);
    void touch_contents(ModelInode& inode);
    static void zero_bytes(ModelInode& inode, u64 begin, u64 end);
    static bool is_zero(const ModelInode& inode, u64 begin, u64 end);
    Errc check_attribute_write(const Caller& caller, Handle handle, std::string_view name) const;
    Errc set_acl(const Caller& caller, ModelInode& inode, std::string_view name, std::string value);

    std::map<u64, ModelInode> inodes_;
    u64 next_ = root_number + 1;
    ModelTime now_;
    std::vector<std::pair<u64, std::string>> removals_;
};

/// Whether `mode` is that of a directory, and so on.
constexpr bool is_mode_of(u32 mode, u32 type) {
    return (mode & 0170000) == type;
}
inline constexpr u32 directory_mode = 0040000;
inline constexpr u32 regular_mode = 0100000;
inline constexpr u32 symlink_mode = 0120000;

}  // namespace warren
