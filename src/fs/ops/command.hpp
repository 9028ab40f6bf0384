// SPDX-License-Identifier: Apache-2.0
// A command is one operation on a volume with its arguments, a reply is its result. Both are plain
// values: an engine runs a command on the caller's thread or hands it to a warp, and both reach the
// same operation through execute().
//
// Invariant: a reply whose code is a retry reason (Errc from 4096 on, "retry_reason" in names)
// means that nothing has changed; the engine serves it and runs the command again.
#pragma once

#include <type_traits>

#include "fs/core/permission.hpp"
#include "fs/format/directory.hpp"
#include "fs/ops/fill.hpp"
#include "fs/ops/rename.hpp"

namespace warren::ops {

/// What a command does; each verb lists its arguments beside caller, handle and now.
enum class Verb : u8 {
    // Names.
    lookup,            // name, references
    create,            // name, mode, device, text, references
    create_unnamed,    // mode, device, references
    link,              // handle: the inode; target: the directory; name, references
    unlink,            // name
    remove_directory,  // name
    rename,            // name, target, new_name, how
    read_leaf,         // from (a key) -> value: the key behind it; buffer: a DirectoryLeaf
    read_link,         // buffer -> value: its length
    // Inodes.
    get_attributes,    // references
    set_attributes,    // change, which does not name the size
    handle_of,         // from: an inode number -> attributes.handle
    attributes_of,     // from: an inode number -> attributes
    check_access,      // mode: what is wanted
    open_file,         //
    release_file,      // -> value: 1 if the inode must be reclaimed
    forget,            // references: how many
    get_attribute,     // name, buffer -> value: its length
    list_attributes,   // buffer -> value: their length
    set_attribute,     // name, text, how
    remove_attribute,  // name
    // Contents: places of data, never data.
    map,           // from: a block of the file -> mapping
    tail_to_zero,  // from: a byte -> value: a place, length: how many bytes
    store_inline,  // from, text -> value: 1 if the bytes now lie in the inode
    fill,          // from, length -> value: how many bytes; piece
    truncate,      // from: the new size -> value: 1 if done; piece
    allocate,      // how, from, length -> value: how many bytes; piece
    seek,          // from, how -> value: an offset; length: 1 if it is the answer
    unshare,       // from, length: blocks -> value: how many blocks; piece
    share,         // from, length: blocks; target, to: a block; references: the target's size
                   // -> value: how many blocks; piece
    count_shared,  // from: a block of the file -> value, length: see SharedCount
    // Parts of greater things.
    reclaim_step,      // handle: an orphan, how: 1 if even an open one -> value: 1 if done; removed
    count_names,       // -> value
    change_structure,  // retry_reason, from: the inode's number, length: the key
    claim_inode_frame,  // -> value: a frame, claimed, or 0 if one of inodes has room
    start_inode_frame,  // from: a frame, claimed
    unclaim_frame,      // from: a frame, claimed
    look_at_tree,       // name -> attributes.handle, value: see TreeBeforeCheck
    detach_tree,        // name; how: 1 with target, from: a TreeBeforeCheck -> attributes.handle
    start_dying,        // from: the number of a directory that is being removed
    clone,              // handle: the source; target: a directory; name; text: of a link
                        // -> attributes.handle, value: see Cloned
    pack,  // how, mode: a height, from: a key -> value: the next key, length: 1 if done
};

/// What a step of packing a directory's tree works on (Verb::pack).
enum class Pack : u8 { leaves, nodes, root, counter };

struct Command {
    Verb verb = Verb::lookup;
    u8 how = 0;  // Rename, Allocate, Seek, AttributeSet or Pack, as the verb has it
    bool may_use_reserve = false;
    Errc retry_reason = Errc::ok;
    core::Credentials caller;
    Handle handle;  // the object of the verb: mostly a directory
    Handle target;
    const char* name = nullptr;
    const char* new_name = nullptr;
    u32 name_length = 0;
    u32 new_name_length = 0;
    u32 mode = 0;
    u32 device = 0;
    u64 references = 0;
    u64 from = 0;
    u64 to = 0;
    u64 length = 0;
    i64 now = 0;
    AttributeChange change;
    const void* text = nullptr;  // read by the command: a link's target, a value, file bytes
    u64 text_bytes = 0;
    void* buffer = nullptr;  // written by the command
    u64 buffer_bytes = 0;
    MoveWalk* walk = nullptr;  // rename: memory over several attempts, or null
};

struct Reply {
    Errc code = Errc::ok;
    bool has_piece = false;        // bytes must go to the disk before the next commit
    bool may_use_reserve = false;  // with a retry reason: serving it may use the last blocks
    u64 value = 0;
    u64 length = 0;
    // With a retry reason: its object.
    u64 needed_place = 0;
    u64 needed_inode = 0;
    u64 needed_key = 0;
    Attributes attributes;
    Removed removed;
    union {
        Mapping mapping;  // of Verb::map
        Piece piece;      // with has_piece
    };

    /// Leaves the union alone: most commands need neither.
    WARREN_HD Reply() {}
};
static_assert(std::is_trivially_copyable_v<Command> && std::is_trivially_copyable_v<Reply>);

}  // namespace warren::ops
