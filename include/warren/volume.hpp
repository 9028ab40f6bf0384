// SPDX-License-Identifier: Apache-2.0
// The Warren volume for C++ programs: open an image or a block device and work on the files in it,
// with or without a mount.
//
// Every call is safe from any thread. Files are named by handles (inode number and generation): a
// handle of a removed file answers Errc::stale, never another file. Names are bytes: anything but
// '/' and NUL, up to 255 of them. A change is visible to every later call at once, and durable
// after sync() or a clean close.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "warren/mapped_file.hpp"
#include "warren/result.hpp"
#include "warren/types.hpp"
#include "warren/volume_modes.hpp"
#include "warren/volume_results.hpp"

namespace warren {

/// Why a volume could not be made, opened, resized or checked: one line for people that names the
/// path.
struct Failure {
    Errc code = Errc::ok;
    std::string message;
};

/// Names an inode for as long as it lives.
struct Handle {
    u64 inode = 0;
    u32 generation = 0;
    friend bool operator==(const Handle&, const Handle&) = default;
};

/// The credentials of a call. `check` off means that permission has been checked already (by the
/// kernel, for a mount); owner and group of new inodes still come from here.
struct Caller {
    u32 user = 0;
    u32 group = 0;
    std::span<const u32> groups = {};  // supplementary groups
    u32 umask = 0;
    bool check = true;
};

struct Attributes {
    Handle handle;
    u32 mode = 0;  // type and permission bits as in stat(2)
    u32 links = 0;
    u32 user = 0;
    u32 group = 0;
    u32 device = 0;  // major << 20 | minor
    u64 size = 0;
    u64 blocks = 0;    // 4 KiB blocks in use
    u64 parent = 0;    // directories: inode number of the parent
    i64 accessed = 0;  // nanoseconds since 1970
    i64 modified = 0;
    i64 changed = 0;
    i64 born = 0;
};

/// Whether a look-up or creation also counts a reference, which keeps the inode's number from being
/// reused until forget() (as a kernel that caches inodes needs). An inode holds fewer than 2^32:
/// Errc::overflow.
enum class Hold : u8 { no, yes };

struct CreateOptions {
    u32 mode = 0100644;  // type and permission bits; the caller's umask is applied
    u32 device = 0;
    std::string_view target = {};  // of a symbolic link
    Hold hold = Hold::no;
    bool open = false;  // count an open as well: release() must follow
};

/// As new_modified or new_changed: keep the inode's time, even if another call sets it meanwhile.
inline constexpr i64 time_kept = -0x7fffffffffffffff;

/// What set_attributes() changes; unset members stay. The time of change does not go back: a
/// new_changed a little older than the inode's is ignored.
struct AttributeChange {
    enum : u32 {
        mode = 1,
        user = 2,
        group = 4,
        size = 8,
        accessed = 16,
        modified = 32,
        changed = 64
    };
    u32 which = 0;
    u32 new_mode = 0;
    u32 new_user = 0;
    u32 new_group = 0;
    u64 new_size = 0;
    i64 new_accessed = 0;
    i64 new_modified = 0;
    i64 new_changed = 0;
};

struct DirectoryEntry {
    std::string_view name;  // valid during the callback
    u64 inode = 0;
    u8 type = 0;     // DT_ value
    u64 cookie = 0;  // pass it to read_directory() to go on behind this entry
};

/// What becomes of the two names of a rename. The last two leave a whiteout, a character device
/// 0/0, under the old name, which is how overlayfs hides a name of the layers below
/// (RENAME_WHITEOUT).
enum class Rename : u8 { replace, no_replace, exchange, whiteout, whiteout_no_replace };
inline constexpr Rename rename_last = Rename::whiteout_no_replace;

enum class Allocate : u8 {
    reserve,
    reserve_keep_size,
    punch_hole,
    zero_range,
    zero_range_keep_size
};
enum class Seek : u8 { data, hole };
/// Whether a change of contents sets the times modified and changed. Off if the kernel caches
/// writes: it keeps these times itself and sends them when they differ.
enum class Stamp : u8 { yes, no };
/// Whether the caller of a write waits until it is durable, as with O_SYNC or O_DSYNC. The write
/// itself is not: a sync must follow.
enum class Awaited : u8 { no, yes };
enum class AttributeSet : u8 { any, create, replace };

/// One item of move_many(): rename of (from, name) to (to, new_name).
struct Move {
    Handle from;
    std::string_view name;
    Handle to;
    std::string_view new_name;
};

/// One item of create_many().
struct Creation {
    Handle directory;
    std::string_view name;
    CreateOptions options;
};

/// One item of read_many(), with how much was read.
struct FileRead {
    Handle file;
    u64 offset;
    std::span<std::byte> target;
    Result<u64> done = Errc::io;
};

/// One item of remove_many(): unlink(), or remove_directory() if `is_directory`.
struct Unlink {
    Handle directory;
    std::string_view name;
    bool is_directory = false;
};

/// One item of lookup_many().
struct Lookup {
    Handle directory;
    std::string_view name;
};

/// One entry met by scan(). Called from many threads at once.
struct Scanned {
    Handle directory;
    std::string_view name;  // empty for the root of the scan
    u32 depth = 0;
    Attributes attributes;
    FileSpace space = {};  // of a regular file, if ScanFilter::counts_shared
};

/// Which files scan() visits. Directories above the matching files are always visited.
struct ScanFilter {
    u32 depth_max = ~u32{0};        // nothing below this depth; the root's is 0
    std::string_view pattern = {};  // of names: bytes with * ? [a-z] [!a-z] \; empty: any name
    bool folds_case = false;        // of ASCII letters
    u16 types = 0xffff;             // bit n: files of the DT_ value n
    u64 size_min = 0;
    u64 size_max = ~u64{0};
    i64 modified_min = INT64_MIN;
    i64 modified_max = INT64_MAX;
    bool counts_shared = false;  // fill in Scanned::space, at some microseconds a file
};

/// Where a scan continues: in a directory of this depth, with the names of a range of keys.
struct ScanPosition {
    Handle directory;
    u32 depth = 0;
    u64 from = 0;
    u64 end = ~u64{0};
};

/// For a visitor that passes entries on to a consumer that may be slower.
struct ScanSteps {
    std::function<bool()> is_full = {};  // asked by workers; true: the step ends soon
    /// Waits for room, or says why there will be none. Called by an engine that cannot end a step
    /// in the middle, in the caller's thread, when it has given the visitor a part.
    std::function<Errc()> wait = {};
};

/// Called in the caller's thread by a call that may be long, some times a second at most, with the
/// number of names that are done; false ends the call with Errc::canceled. A GPU's engine, and one
/// with a meta buffer of fixed size, may call it never. It must not throw.
using ProgressCallback = std::function<bool(u64 done)>;

/// Options of usage().
struct UsageOptions {
    u32 depth_max = 0;          // directories below this depth get no sum of their own
    bool counts_links = false;  // a file with several names counts once for each
    ProgressCallback progress = {};
};

/// The space that a directory takes with everything below it.
struct DirectoryUsage {
    Handle directory;
    u32 above = 0;  // index in the answer of its parent; 0 for the first
    u32 depth = 0;
    std::string name;  // empty for the first
    u64 entries = 0;   // itself and the names below it
    u64 blocks = 0;    // 4 KiB blocks
    u64 bytes = 0;     // sizes; devices have none
};

/// A write or flush that the disk of a volume refused, or a write that was not made because the
/// disk had become smaller.
struct DiskRefusal {
    Errc code = Errc::ok;
    u64 offset = 0;         // the lowest
    u64 bytes = 0;          // in all; 0: a flush
    u64 places = 1;         // written at once; one or more of them were refused
    u64 found_size = 0;     // of the disk
    u64 expected_size = 0;  // of the disk

    bool has_shrunk() const { return found_size < expected_size; }
    /// What was refused and why, for people.
    std::string text() const;
    /// What people can do about it.
    std::string remedy() const;
};

struct OpenOptions {
    bool read_only = false;
    u32 workers = 0;            // threads of bulk operations; 0: all cores
    u64 meta_buffer_bytes = 0;  // 0: everything resident; else at most so much metadata in memory
    /// Memory for file contents; 0: they go straight to the disk and back. DataMode::journal keeps
    /// some in any case.
    u64 file_buffer_bytes = 0;
    DataMode data = DataMode::ordered;
    Dedup dedup = Dedup::as_made;
    u64 dedup_index_bytes = 0;  // 0: 1/1024 of the volume, 1/8 of the memory at most
    /// After the opening so many bytes a second are read in the background, to put what the volume
    /// holds into the index. 0: none.
    u64 dedup_fill_bytes = u64{128} << 20;
    ErrorMode errors = ErrorMode::remount_ro;
    EngineChoice engine = EngineChoice::automatic;
    DiskAccess disk = DiskAccess::plain;
    /// Called with one line about what ends the engine while the volume is open; if empty, the line
    /// goes to the standard error stream.
    std::function<void(const std::string&)> report = {};
    /// Called, once at most, with the write after which the volume is read-only: with
    /// ErrorMode::remount_ro the first that is refused, in any mode one that finds the disk
    /// smaller. Called in the thread of that write; it must not use the volume, and may throw
    /// std::bad_alloc.
    std::function<void(const DiskRefusal&)> refused = {};
};

struct FormatOptions {
    u64 size_bytes = 0;  // 0: the size of an existing file or device
    std::string label;
    bool force = false;  // overwrite something that looks like a file system
    bool dedup = false;  // Dedup::as_made is Dedup::on
};

/// Makes an empty volume in the file or device at `path` (the file is created if need be).
Failure make_volume(const std::string& path, const FormatOptions& options);

/// Makes the volume at `path` as large as the file, device or `size_bytes` (growing only).
Failure grow_volume(const std::string& path, u64 size_bytes);

class VolumeImplementation;

class Volume {
 public:
    /// Opens the volume at `path`, replays its journal and resumes interrupted removals in the
    /// background. Null and a filled `failure` if that is not possible.
    static std::unique_ptr<Volume> open(const std::string& path, const OpenOptions& options,
                                        Failure& failure);
    explicit Volume(std::unique_ptr<VolumeImplementation> implementation);
    ~Volume();  // closes if close() was not called
    Volume(const Volume&) = delete;
    Volume& operator=(const Volume&) = delete;

    /// Commits, marks the volume clean and closes it. Returns the first error.
    Errc close();

    Handle root() const;
    std::string label() const;
    std::string uuid() const;         // 8-4-4-4-12 hexadecimal digits
    std::string_view engine() const;  // what runs the operations: "cpu" or "cuda"
    /// More about the engine for people: which GPU, or why EngineChoice::automatic took none.
    std::string engine_note() const;
    /// How the disk is reached and why, for people: what was measured, or what was refused.
    std::string disk_note() const;
    Statistics statistics() const;
    DedupStatistics dedup_statistics() const;

    // Names.
    Result<Attributes> lookup(const Caller& caller, Handle directory, std::string_view name,
                              Hold hold = Hold::no);
    /// Makes a file, directory, symbolic link or device node (mode says which).
    Result<Attributes> create(const Caller& caller, Handle directory, std::string_view name,
                              const CreateOptions& options);
    /// Makes a regular file without a name, open, gone at release() unless link() named it before.
    Result<Attributes> create_unnamed(const Caller& caller, Handle directory,
                                      const CreateOptions& options);
    Result<Attributes> link(const Caller& caller, Handle file, Handle directory,
                            std::string_view name, Hold hold = Hold::no);
    Errc unlink(const Caller& caller, Handle directory, std::string_view name);
    Errc remove_directory(const Caller& caller, Handle directory, std::string_view name);
    Errc rename(const Caller& caller, Handle from, std::string_view name, Handle to,
                std::string_view new_name, Rename how = Rename::replace);
    /// Calls `emit` for entries behind `cookie` (0: from the start) until it returns false. "." and
    /// ".." are not among them. Cookies are below 2^63, at least 3, and survive every change.
    Errc read_directory(Handle directory, u64 cookie,
                        const std::function<bool(const DirectoryEntry&)>& emit);
    Result<std::string> read_link(Handle link);
    /// Follows `path` ('/'-separated) from the root without following symbolic links.
    Result<Attributes> resolve(const Caller& caller, std::string_view path);

    // Inodes.
    Result<Attributes> attributes(Handle handle, Hold hold = Hold::no);
    Result<Attributes> set_attributes(const Caller& caller, Handle handle,
                                      const AttributeChange& change);
    /// The handle of a live inode number (for NFS export and fsck); Errc::stale if there is none.
    Result<Handle> handle_of(u64 inode);
    /// Whether the caller may read (4), write (2), execute (1): access(2).
    Errc check_access(const Caller& caller, Handle handle, u32 mask);
    /// Counts an open of the file: it outlives its name until the last release().
    Errc open_file(Handle handle);
    Errc release(Handle handle);
    /// Gives back `count` references taken with Hold::yes.
    void forget(Handle handle, u64 count);

    // Contents. Requires: the file is open (open_file or CreateOptions::open).
    Result<u64> read(Handle file, u64 offset, std::span<std::byte> target);
    /// read() of each, in few requests where they adjoin on the disk. The files need not be open:
    /// one that is removed meanwhile gets Errc::stale.
    void read_many(std::span<FileRead> reads);
    /// Where on the disk the byte at `offset` is; 0 if it is in no block. For sorting reads.
    Result<u64> address_of(Handle file, u64 offset);
    Result<u64> write(Handle file, u64 offset, std::span<const std::byte> source,
                      Stamp stamp = Stamp::yes, Awaited awaited = Awaited::no);
    Errc allocate(Handle file, Allocate how, u64 offset, u64 length, Stamp stamp = Stamp::yes);
    Result<u64> seek(Handle file, u64 offset, Seek whence);
    /// Makes [target_offset, target_offset + length) of `target` show the bytes of `source` from
    /// `offset` on, as FICLONERANGE: both files then refer to the same blocks, and a later write to
    /// one of them does not change the other. Holes of the source become holes. The size of the
    /// target grows if need be. The answer is the number of bytes, fewer where the source ends.
    /// Errc::invalid: an offset is no multiple of 4096; or the length is none, unless the range
    /// ends with the source and not before the end of the target; or the ranges overlap in one
    /// file. Errc::not_supported: the volume was made without shared blocks.
    Result<u64> share_range(Handle source, u64 offset, Handle target, u64 target_offset, u64 length,
                            Stamp stamp = Stamp::yes);
    /// Makes both files refer to the blocks of `source`, as FIDEDUPERANGE, if the bytes of the
    /// ranges are equal; no other call changes them meanwhile. Contents, sizes and times stay, and
    /// a crash leaves each block of the target with its old place or the new one.
    /// One call does at most dedupe_bytes_max; of a length that is no multiple of 4096 it does
    /// whole blocks, unless both ranges end with their files. Bytes in an inode are not shared.
    /// Errc::access, Errc::not_permitted: `caller` may not read the source, or neither owns the
    /// target nor may write to it. Errc::invalid: an offset is no multiple of 4096; or a range ends
    /// behind its file; or the ranges overlap in one file. Errc::not_supported: as share_range().
    Result<Deduped> dedupe_range(const Caller& caller, Handle source, u64 offset, Handle target,
                                 u64 target_offset, u64 length);
    /// How much of a regular file is shared, by the reference counts of its blocks. (The file need
    /// not be open; while files change, the answer is of several moments.)
    Result<FileSpace> space_of(Handle file);
    /// Brings a part of a file's contents into the memory of the engine, for kernels (on the CPU
    /// engine: for the program) to work on in place. Errc::no_memory if they do not fit there,
    /// Errc::invalid if there is nothing to map.
    Errc map_file(Handle file, const MapOptions& options, std::unique_ptr<MappedFile>& mapped);

    // Extended attributes. An empty `target` asks for the size.
    Result<u64> get_attribute(Handle handle, std::string_view name, std::span<std::byte> target);
    Result<u64> list_attributes(Handle handle, std::span<char> target);
    Errc set_attribute(const Caller& caller, Handle handle, std::string_view name,
                       std::span<const std::byte> value, AttributeSet how = AttributeSet::any);
    Errc remove_attribute(const Caller& caller, Handle handle, std::string_view name);

    // Durability.
    Errc sync();
    /// Whether sync() would make anything durable, or return an error. It costs a few loads from
    /// memory, and on a GPU's engine one small copy.
    bool has_unsaved();
    Errc sync_file(Handle handle);

    // Bulk operations, on all workers of the engine.
    /// Removes (directory, name) and all below it. Checks permission in every directory as `rm`
    /// would; the names are gone at return and the space is free after the next commit. `progress`
    /// cannot end it, for the tree loses its name first.
    Errc remove_tree(const Caller& caller, Handle directory, std::string_view name,
                     Removal& removal, const ProgressCallback& progress = {});
    /// Makes (directory, name) a copy of the file or tree `source` that shares the blocks of its
    /// files, with what `cp -a` keeps, and with the permission that `cp -a` needs. All of it
    /// appears at once. Each file is copied at one moment, a tree is not: what changes meanwhile
    /// may be in the copy or not. The name must be free or an empty directory's: Errc::exists,
    /// Errc::not_empty. Errc::invalid: the copy would be its source or lie below it.
    /// Errc::not_supported: as share_range().
    Errc clone(const Caller& caller, Handle source, Handle directory, std::string_view name,
               ClonedTree& done);
    /// Equal to rename() item by item, in order; `results` gets the error of each.
    void move_many(const Caller& caller, std::span<const Move> moves, std::span<Errc> results);
    /// Equal to create() item by item, in order.
    void create_many(const Caller& caller, std::span<const Creation> creations,
                     std::span<Result<Attributes>> results);
    /// Equal to unlink() or remove_directory() item by item, in order. (An item whose directory is
    /// a file that another item removes may get not_directory or stale, as in move_many().)
    void remove_many(const Caller& caller, std::span<const Unlink> names, std::span<Errc> results);
    /// As lookup() for each item, in any order.
    void lookup_many(const Caller& caller, std::span<const Lookup> lookups,
                     std::span<Result<Attributes>> results);
    /// Packs the directory's tree into as few blocks as it needs, beside readers and writers. One
    /// that `progress` ended is packed in part.
    Errc rebuild(const Caller& caller, Handle directory, Rebuilt& rebuilt,
                 const ProgressCallback& progress = {});
    /// Visits everything below `directory` that `filter` lets pass, itself first; directories come
    /// before their entries. `visit` is called from many threads and returns whether to descend.
    Errc scan(const Caller& caller, Handle directory,
              const std::function<bool(const Scanned&)>& visit, const ScanFilter& filter = {});
    /// As scan(), step by step, holding nothing in between: begins or continues at `left`, which
    /// gets the positions still to be visited; empty when done. To begin, `left` is the position of
    /// one directory with depth 0.
    Errc scan_step(const Caller& caller, std::vector<ScanPosition>& left,
                   const std::function<bool(const Scanned&)>& visit, const ScanFilter& filter,
                   const ScanSteps& steps);
    /// Adds up the space of `directory` and everything below it. The answer begins with `directory`
    /// itself; a directory comes before its subdirectories. A file with several names counts at one
    /// of them.
    Errc usage(const Caller& caller, Handle directory, const UsageOptions& options,
               std::vector<DirectoryUsage>& answer);

 private:
    std::unique_ptr<VolumeImplementation> implementation_;
};

/// What check_volume() found. Exit codes follow fsck(8): see the command.
struct CheckOptions {
    bool repair = false;
    std::function<void(const std::string&)> report = {};  // one line a problem, naming the path
    /// Runs the quick check, which looks at all metadata in parallel; `automatic` is all cores.
    /// What it does not find sound gets the full check, which takes one core and less memory.
    EngineChoice engine = EngineChoice::automatic;
    bool is_full = false;  // full check of everything, without a quick one
};

struct CheckResult {
    u64 problems = 0;
    u64 repaired = 0;
    u64 inodes = 0;
    u64 directories = 0;
    u64 blocks_used = 0;
    u64 orphans = 0;  // inodes without a name; the next open for writing frees them
    /// What ran the quick check: cpu or cuda; `automatic` if there was none.
    EngineChoice engine = EngineChoice::automatic;
    bool was_full = false;
    std::string note;  // why there was no quick check; empty if there was
    // Times of the quick check: until memory and the device were ready; to bring the metadata
    // there, `disk_seconds` of it waiting for the disk; to examine them.
    double start_seconds = 0;
    double load_seconds = 0;
    double disk_seconds = 0;
    double examine_seconds = 0;
};

/// Checks the structure of a volume that is not open elsewhere; repairs it if asked to.
Failure check_volume(const std::string& path, const CheckOptions& options, CheckResult& result);

}  // namespace warren
