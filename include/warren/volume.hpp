// SPDX-License-Identifier: Apache-2.0
// The Warren volume for C++ programs: opens an image or a block device and works on the files in
// it, with or without a mount.
//
// Every call can be made from any thread. Files are named by handles (inode number and generation):
// the handle of a removed file gives Errc::stale and never names another file. A name is 1 to 255
// bytes, any but '/' and NUL. A change is visible to every later call at once, and durable after
// sync() or a clean close.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "warren/disk_refusal.hpp"
#include "warren/failure.hpp"
#include "warren/held_contents.hpp"
#include "warren/mapped_file.hpp"
#include "warren/result.hpp"
#include "warren/types.hpp"
#include "warren/volume_modes.hpp"
#include "warren/volume_results.hpp"

namespace warren {

/// Names an inode for as long as the inode exists.
struct Handle {
    u64 inode = 0;
    u32 generation = 0;
    friend bool operator==(const Handle&, const Handle&) = default;
};

/// The credentials of a call. `check` is false if permissions have been checked already (with a
/// mount, by the kernel); owner and group of new inodes are still taken from here.
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
    u64 parent = 0;    // directories only: inode number of the parent
    i64 accessed = 0;  // nanoseconds since 1970
    i64 modified = 0;
    i64 changed = 0;
    i64 born = 0;
};

/// Whether a lookup or creation also counts a reference. It keeps the inode number from being
/// reused until forget(), as a kernel that caches inodes needs. An inode can have fewer than 2^32
/// references; one more gives Errc::overflow.
enum class Hold : u8 { no, yes };

struct CreateOptions {
    u32 mode = 0100644;  // type and permission bits; the caller's umask is applied
    u32 device = 0;
    std::string_view target = {};  // of a symbolic link
    Hold hold = Hold::no;
    bool open = false;  // also count an open; release() must follow
};

/// As new_modified or new_changed: keep the inode's time, even if another call changes it
/// meanwhile.
inline constexpr i64 time_kept = -0x7fffffffffffffff;

/// What set_attributes() changes; members whose bit is not in `which` are ignored. The time of
/// change does not go back: a new_changed slightly older than the inode's is ignored.
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
    u64 cookie = 0;  // pass it to read_directory() to continue after this entry
};

/// What rename() does with the two names. The last two values leave a whiteout under the old name:
/// a character device 0/0, with which overlayfs hides a name of the layers below (RENAME_WHITEOUT).
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
/// Whether a change of contents sets the times modified and changed. `no` is for a kernel that
/// caches writes: it keeps these times itself, and sends them when they differ.
enum class Stamp : u8 { yes, no };
/// Whether the caller of a write waits until it is durable, as with O_SYNC or O_DSYNC. The write
/// alone does not make it durable: a sync must follow.
enum class Awaited : u8 { no, yes };
enum class AttributeSet : u8 { any, create, replace };

/// One item of move_many(): renames (from, name) to (to, new_name).
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

/// One item of read_many(). `done` receives the number of bytes read, or the error.
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

/// One entry that scan() passes to its visitor, which runs on many threads at once.
struct Scanned {
    Handle directory;
    std::string_view name;  // empty for the root of the scan
    u32 depth = 0;
    Attributes attributes;
    FileSpace space = {};  // for regular files, if ScanFilter::counts_shared
};

/// Which files scan() visits. The directories above them are always visited.
struct ScanFilter {
    u32 depth_max = ~u32{0};        // nothing below this depth; the root's is 0
    std::string_view pattern = {};  // for names: bytes with * ? [a-z] [!a-z] \; empty: any name
    bool folds_case = false;        // ignore the case of ASCII letters
    u16 types = 0xffff;             // bit n: files of DT_ value n
    u64 size_min = 0;
    u64 size_max = ~u64{0};
    i64 modified_min = INT64_MIN;
    i64 modified_max = INT64_MAX;
    bool counts_shared = false;  // fill in Scanned::space, which takes some microseconds per file
};

/// Where a scan continues: in a directory at this depth, at the names in a range of keys.
struct ScanPosition {
    Handle directory;
    u32 depth = 0;
    u64 from = 0;
    u64 end = ~u64{0};
};

/// For a visitor that passes entries to a consumer that may be slower.
struct ScanSteps {
    std::function<bool()> is_full = {};  // called by workers; if true, the step ends soon
    /// Waits for room, or returns the error because of which there will be none. It is called on
    /// the caller's thread: by an engine that cannot end a step early, each time it has passed some
    /// entries to the visitor; by the CPU that finishes a step which a GPU began, each time
    /// `is_full` has ended a part of the rest.
    std::function<Errc()> wait = {};
};

/// Called by a long call, in its caller's thread and at most ten times a second, with the number of
/// names done so far; if it returns false, the call ends with Errc::canceled. An engine on a GPU,
/// or one with a metadata buffer of fixed size, may never call it. It must not throw.
using ProgressCallback = std::function<bool(u64 done)>;

/// Options of usage().
struct UsageOptions {
    u32 depth_max = 0;          // directories below this depth get no sum of their own
    bool counts_links = false;  // count a file with several names once for each name
    ProgressCallback progress = {};
};

/// The space used by a directory and everything below it.
struct DirectoryUsage {
    Handle directory;
    u32 above = 0;  // index of its parent in the answer; 0 for the first
    u32 depth = 0;
    std::string name;  // empty for the first
    u64 entries = 0;   // the directory itself and the names below it
    u64 blocks = 0;    // 4 KiB blocks
    u64 bytes = 0;     // sum of the sizes; devices count 0
};

struct OpenOptions {
    bool read_only = false;
    u32 workers = 0;            // threads of bulk operations; 0: all cores
    u64 meta_buffer_bytes = 0;  // 0: keep all metadata in memory; else the maximum kept
    /// Memory for file contents; 0: they are read from and written to the disk directly.
    /// DataMode::journal uses some memory in any case.
    u64 file_buffer_bytes = 0;
    /// Pin that memory when it is first used, so that a GPU can read it. Without a GPU, or if the
    /// system refuses, it is memory as any other.
    bool pins_file_buffer = false;
    DataMode data = DataMode::ordered;
    Dedup dedup = Dedup::as_made;
    u64 dedup_index_bytes = 0;  // 0: 1/1024 of the volume, but at most 1/8 of the memory
    /// Bytes per second read in the background after opening, to enter the existing contents of the
    /// volume into the index. 0: none.
    u64 dedup_fill_bytes = u64{128} << 20;
    ErrorMode errors = ErrorMode::remount_ro;
    EngineChoice engine = EngineChoice::automatic;
    /// With EngineChoice::automatic: memory of a GPU for a copy of the metadata beside the CPU
    /// engine and for scan(), usage(), lookup_many(), remove_tree(), create_many(), move_many(),
    /// remove_many() and rebuild() there, where that is predicted to be faster. It is taken at
    /// once, and all metadata are loaded. 0: it is taken once a call has been slower without it, at
    /// most a quarter of what is free then.
    u64 device_memory_bytes = 0;
    u32 device = 0;  // number of the GPU, if one is used
    DiskAccess disk = DiskAccess::plain;
    /// Called with a one-line message when an error ends the engine while the volume is open. If
    /// empty, the message goes to standard error.
    std::function<void(const std::string&)> report = {};
    /// Likewise, about something that the volume goes on without.
    std::function<void(const std::string&)> warn = {};
    /// Called at most once, with the write after which the volume is read-only: with
    /// ErrorMode::remount_ro the first refused write, in any mode a write that finds the disk
    /// smaller. It is called on the thread of that write, must not use the volume, and may throw
    /// std::bad_alloc.
    std::function<void(const DiskRefusal&)> refused = {};
};

struct FormatOptions {
    u64 size_bytes = 0;  // 0: the size of an existing file or device
    std::string label;
    bool force = false;  // overwrite what looks like a file system
    bool dedup = false;  // what Dedup::as_made means for this volume
};

/// Makes an empty volume in the file or device at `path`. A file is created if it does not exist.
Failure make_volume(const std::string& path, const FormatOptions& options);

/// Grows the volume at `path` to the size of its file or device, or to `size_bytes`. A volume
/// cannot shrink.
Failure grow_volume(const std::string& path, u64 size_bytes);

class VolumeImplementation;
struct ScanTableOrder;  // scan_table.hpp

class Volume {
 public:
    /// Opens the volume at `path`, replays its journal and resumes interrupted removals in the
    /// background. If that is not possible, returns null and sets `failure`.
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
    std::string_view engine() const;  // where operations run: "cpu" or "cuda"
    /// Describes the engine: which GPU, what one beside it did, or why there is none.
    std::string engine_note() const;
    /// What queries are predicted to take on the CPU and on the GPU beside it, as learnt so far: a
    /// line for each kind; none without such a GPU.
    std::vector<std::string> predictions() const;
    /// Frees the memory of the GPU beside the CPU engine, for other programs. A later bulk command
    /// takes it again if that is predicted to be faster, and if there is as much by then. Waits for
    /// those that are reading there. Errc::no_device: no GPU works beside the engine.
    Errc release_device_memory();
    /// Describes for the user how the disk is accessed and why: what was measured, or what was
    /// refused.
    std::string disk_note() const;
    Statistics statistics() const;
    DedupStatistics dedup_statistics() const;

    // Names.
    Result<Attributes> lookup(const Caller& caller, Handle directory, std::string_view name,
                              Hold hold = Hold::no);
    /// Makes a file, directory, symbolic link or device node, according to the mode.
    Result<Attributes> create(const Caller& caller, Handle directory, std::string_view name,
                              const CreateOptions& options);
    /// Makes an open regular file without a name. It is removed at release() unless link() has
    /// given it a name.
    Result<Attributes> create_unnamed(const Caller& caller, Handle directory,
                                      const CreateOptions& options);
    Result<Attributes> link(const Caller& caller, Handle file, Handle directory,
                            std::string_view name, Hold hold = Hold::no);
    Errc unlink(const Caller& caller, Handle directory, std::string_view name);
    Errc remove_directory(const Caller& caller, Handle directory, std::string_view name);
    Errc rename(const Caller& caller, Handle from, std::string_view name, Handle to,
                std::string_view new_name, Rename how = Rename::replace);
    /// Calls `emit` for the entries after `cookie` (0: from the start) until it returns false. "."
    /// and ".." are not reported. Cookies are at least 3, below 2^63, and stay valid across every
    /// change.
    Errc read_directory(Handle directory, u64 cookie,
                        const std::function<bool(const DirectoryEntry&)>& emit);
    Result<std::string> read_link(Handle link);

    // Inodes.
    Result<Attributes> attributes(Handle handle, Hold hold = Hold::no);
    Result<Attributes> set_attributes(const Caller& caller, Handle handle,
                                      const AttributeChange& change);
    /// The handle of an inode number in use (for NFS export and fsck); Errc::stale if there is
    /// none.
    Result<Handle> handle_of(u64 inode);
    /// Checks whether the caller may read (4), write (2) or execute (1), as access(2) does.
    Errc check_access(const Caller& caller, Handle handle, u32 mask);
    /// Counts an open of the file: a file that loses its last name exists until the last release().
    Errc open_file(Handle handle);
    Errc release(Handle handle);
    /// Drops `count` references taken with Hold::yes.
    void forget(Handle handle, u64 count);

    // Contents. Requires: the file is open (open_file or CreateOptions::open).
    Result<u64> read(Handle file, u64 offset, std::span<std::byte> target);
    /// Performs read() for each item, with few requests for items that are adjacent on the disk.
    /// The files need not be open: a file that is removed meanwhile gives Errc::stale.
    void read_many(std::span<FileRead> reads);
    /// Shows bytes of a file where the volume has them in memory, and loads them if need be: from
    /// `offset` on as many of `length` as lie together. The file need not be open. Waits for no
    /// other call (Errc::busy). Errc::no_data: there are none, or they are not in blocks;
    /// Errc::not_supported: the volume was opened without memory for contents.
    Errc hold(Handle file, u64 offset, u64 length, HeldContents& held);
    /// The address on the disk of the byte at `offset`; 0 if no block is allocated there. For
    /// sorting reads.
    Result<u64> address_of(Handle file, u64 offset);
    Result<u64> write(Handle file, u64 offset, std::span<const std::byte> source,
                      Stamp stamp = Stamp::yes, Awaited awaited = Awaited::no);
    Errc allocate(Handle file, Allocate how, u64 offset, u64 length, Stamp stamp = Stamp::yes);
    Result<u64> seek(Handle file, u64 offset, Seek whence);
    /// Makes [target_offset, target_offset + length) of `target` share the blocks of `source` from
    /// `offset` on, like FICLONERANGE: both files then refer to the same blocks, and a later write
    /// to one of them does not change the other. Holes of the source become holes. The target grows
    /// if needed. Returns the number of bytes, which is less than `length` if the source ends
    /// before. Errc::invalid: an offset is not a multiple of 4096; or the length is not, and the
    /// range does not end at the end of the source or ends before the end of the target; or the
    /// ranges overlap in one file. Errc::not_supported: the volume was made without shared blocks.
    /// Errc::too_many_links: a block has 2^32 references.
    Result<u64> share_range(Handle source, u64 offset, Handle target, u64 target_offset, u64 length,
                            Stamp stamp = Stamp::yes);
    /// If the bytes of the two ranges are equal, makes both files refer to the blocks of `source`,
    /// like FIDEDUPERANGE; no other call changes the ranges meanwhile. Contents, sizes and times do
    /// not change, and after a crash each block of the target is at its old address or at the new
    /// one. A call handles at most dedupe_bytes_max. If the length is not a multiple of 4096, only
    /// whole blocks are shared, unless both ranges end at the ends of their files. Contents stored
    /// in an inode are not shared. Errc::access, Errc::not_permitted: `caller` may not read the
    /// source, or neither owns the target nor may write to it. Errc::invalid: an offset is not a
    /// multiple of 4096; or a range extends past the end of its file; or the ranges overlap in one
    /// file. Errc::not_supported, Errc::too_many_links: as for share_range().
    Result<Deduped> dedupe_range(const Caller& caller, Handle source, u64 offset, Handle target,
                                 u64 target_offset, u64 length);
    /// How many blocks of a regular file are shared, according to their reference counts. The file
    /// need not be open. While files change, the result does not describe a single moment.
    Result<FileSpace> space_of(Handle file);
    /// Brings part of a file's contents into the memory of the engine, where kernels (on the CPU
    /// engine: the program) can work on them in place. Errc::no_memory: they do not fit there.
    /// Errc::invalid: the range is empty.
    Errc map_file(Handle file, const MapOptions& options, std::unique_ptr<MappedFile>& mapped);

    // Extended attributes. With an empty `target` the calls return the size needed.
    Result<u64> get_attribute(Handle handle, std::string_view name, std::span<std::byte> target);
    Result<u64> list_attributes(Handle handle, std::span<char> target);
    Errc set_attribute(const Caller& caller, Handle handle, std::string_view name,
                       std::span<const std::byte> value, AttributeSet how = AttributeSet::any);
    Errc remove_attribute(const Caller& caller, Handle handle, std::string_view name);

    // Durability.
    Errc sync();
    /// Whether sync() would make anything durable or return an error. Costs a few loads from
    /// memory, and on a GPU engine one small copy.
    bool has_unsaved();
    Errc sync_file(Handle handle);

    // Bulk operations, on all workers of the engine.
    /// Removes (directory, name) and everything below it, and checks permissions in every directory
    /// as `rm -r` would. At return the names are gone; the space is free after the next commit.
    /// `progress` cannot end the removal, because the tree loses its name first.
    Errc remove_tree(const Caller& caller, Handle directory, std::string_view name,
                     Removal& removal, const ProgressCallback& progress = {});
    /// Makes (directory, name) a copy of the file or tree `source` that shares the blocks of its
    /// files, preserves what `cp -a` preserves and needs the permissions that `cp -a` needs. The
    /// whole copy appears at once. Each file is copied atomically but a tree is not: a change made
    /// meanwhile may or may not be in the copy. The name must not exist or must be an empty
    /// directory, else Errc::exists or Errc::not_empty. Errc::invalid: the copy would be its source
    /// or lie below it. Errc::not_supported, Errc::too_many_links: as for share_range().
    Errc clone(const Caller& caller, Handle source, Handle directory, std::string_view name,
               ClonedTree& done);
    /// Equivalent to rename() for each item, in order; results[i] receives the error of item i.
    void move_many(const Caller& caller, std::span<const Move> moves, std::span<Errc> results);
    /// Equivalent to create() for each item, in order.
    void create_many(const Caller& caller, std::span<const Creation> creations,
                     std::span<Result<Attributes>> results);
    /// Equivalent to unlink() or remove_directory() for each item, in order. (An item whose
    /// directory is a file that another item removes may give not_directory or stale, as in
    /// move_many().)
    void remove_many(const Caller& caller, std::span<const Unlink> names, std::span<Errc> results);
    /// Equivalent to lookup() for each item, in any order.
    void lookup_many(const Caller& caller, std::span<const Lookup> lookups,
                     std::span<Result<Attributes>> results);
    /// Packs the directory's tree into as few blocks as possible while others read and write the
    /// directory. If `progress` ends it, a part of the tree is packed.
    Errc rebuild(const Caller& caller, Handle directory, Rebuilt& rebuilt,
                 const ProgressCallback& progress = {});
    /// Visits `directory` and then everything below it that matches `filter`; a directory comes
    /// before its entries. `visit` is called from many threads at once, and returns whether to
    /// descend.
    Errc scan(const Caller& caller, Handle directory,
              const std::function<bool(const Scanned&)>& visit, const ScanFilter& filter = {});
    /// Like scan(), one step at a time, with nothing held between steps. The scan begins or
    /// continues at `left`, which receives the positions still to be visited and is empty when the
    /// scan is complete. To begin, `left` contains the position of one directory with depth 0.
    /// Where a GPU scans and has room for the results, it makes the `table` of all of them in one
    /// step instead, with the root among them, which alone is visited.
    Errc scan_step(const Caller& caller, std::vector<ScanPosition>& left,
                   const std::function<bool(const Scanned&)>& visit, const ScanFilter& filter,
                   const ScanSteps& steps, ScanTableOrder* table = nullptr);
    /// Adds up the space of `directory` and everything below it. The first element of the answer is
    /// `directory` itself; a directory comes before its subdirectories. A file with several names
    /// is counted at one of them.
    Errc usage(const Caller& caller, Handle directory, const UsageOptions& options,
               std::vector<DirectoryUsage>& answer);

 private:
    std::unique_ptr<VolumeImplementation> implementation_;
};

/// Options of check_volume().
struct CheckOptions {
    bool repair = false;
    std::function<void(const std::string&)> report = {};  // a line per problem, naming the path
    /// Runs the quick check, which examines all metadata in parallel; `automatic` means all cores.
    /// What it does not find sound gets the full check, which uses one core and less memory.
    EngineChoice engine = EngineChoice::automatic;
    bool is_full = false;  // run the full check on everything, without a quick check
};

struct CheckResult {
    u64 problems = 0;
    u64 repaired = 0;
    u64 inodes = 0;
    u64 directories = 0;
    u64 blocks_used = 0;
    u64 orphans = 0;  // inodes without a name; the next open for writing frees them
    /// Where the quick check ran: cpu or cuda; `automatic` if there was none.
    EngineChoice engine = EngineChoice::automatic;
    bool was_full = false;
    std::string note;  // why there was no quick check; empty if there was one
    // Times of the quick check: until memory and device were ready; loading the metadata, of which
    // `disk_seconds` was spent waiting for the disk; examining them.
    double start_seconds = 0;
    double load_seconds = 0;
    double disk_seconds = 0;
    double examine_seconds = 0;
};

/// Checks the structure of a volume that is not open elsewhere, and repairs it on request.
Failure check_volume(const std::string& path, const CheckOptions& options, CheckResult& result);

}  // namespace warren
