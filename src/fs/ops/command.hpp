// SPDX-License-Identifier: Apache-2.0
// A command is one operation on a volume with its arguments; a reply is its result. Both are plain
// values: an engine runs a command on the caller's thread or hands it to a warp, and both call the
// same operation through execute().
//
// Invariant: if the code of a reply is a retry reason (Errc from 4096 on; "retry_reason" in names),
// the command has changed nothing; the driver serves the reason and runs the command again.
#pragma once

#include <type_traits>

#include "fs/core/permission.hpp"
#include "fs/format/directory.hpp"
#include "fs/ops/fill.hpp"
#include "fs/ops/rename.hpp"

namespace warren::ops {

/// What a command does. The comments list the arguments besides caller, handle and now, and after
/// -> the fields of the reply.
enum class Verb : u8 {
    // Names.
    lookup,            // name, references
    create,            // name, mode, device, text, references
    create_unnamed,    // mode, device, references
    link,              // handle: the inode; target: the directory; name, references
    unlink,            // name
    remove_directory,  // name
    rename,            // name, target, new_name, how
    read_leaf,         // from: a key -> value: the next leaf's first key; buffer: a DirectoryLeaf
    read_link,         // buffer -> value: the target's length
    // Inodes.
    get_attributes,    // references
    set_attributes,    // change, without a new size
    handle_of,         // from: an inode number -> attributes.handle
    attributes_of,     // from: an inode number -> attributes
    check_access,      // mode: the wanted permission
    open_file,         //
    release_file,      // -> value: 1 if the inode must be reclaimed
    forget,            // references: how many lookups
    get_attribute,     // name, buffer -> value: the value's length
    list_attributes,   // buffer -> value: the length of all names
    set_attribute,     // name, text, how
    remove_attribute,  // name
    // Contents: where data are; the data themselves are not in a command.
    map,           // from: a block of the file -> mapping
    tail_to_zero,  // from: a byte -> value: a place; length: see put() for Gap
    store_inline,  // from, text -> value: 1 if the bytes are in the inode now
    fill,          // from, length -> value: how many bytes; piece
    truncate,      // from: the new size -> value: 1 if it is reached; piece
    allocate,      // how, from, length -> value: how many bytes; piece
    seek,          // from, how -> value: an offset; length: 1 if that is the result
    unshare,       // from, length: blocks -> value: how many blocks; piece
    share,         // from, length: blocks; target, to: a block; references: the target's size
                   // -> value: how many blocks; piece
    count_shared,  // from: a block of the file -> value, length: see SharedCount
    // Parts of larger commands.
    reclaim_step,      // handle: an orphan; how: 1 if even an open one -> value: 1 if done; removed
    count_names,       // -> value
    change_structure,  // retry_reason, from: the inode's number, length: the key
    claim_inode_frame,  // -> value: a frame, which is claimed; 0 if an inode frame has room
    start_inode_frame,  // from: a claimed frame
    unclaim_frame,      // from: a claimed frame
    look_at_tree,       // name -> attributes.handle, value: see TreeBeforeCheck
    detach_tree,        // name; how: 1 with target, from: a TreeBeforeCheck -> attributes.handle
    start_dying,        // handle: a directory in a tree that is being removed
    clone,              // handle: the source; target: a directory; name; text: of a link
                        // -> attributes.handle, value, length: see Cloned
    pack,  // how, mode: a height, from: a key -> value: the next key, length: 1 if done
};

WARREN_HD constexpr Verb verb_after(Verb verb) {
    return static_cast<Verb>(static_cast<u8>(verb) + 1);
}

/// Verbs [begin, end) of one group.
struct Verbs {
    Verb begin;
    Verb end;

    WARREN_HD constexpr bool contain(Verb verb) const { return begin <= verb && verb < end; }
};
inline constexpr Verbs name_verbs{Verb::lookup, Verb::get_attributes};
inline constexpr Verbs inode_verbs{Verb::get_attributes, Verb::map};
inline constexpr Verbs content_verbs{Verb::map, Verb::reclaim_step};
inline constexpr Verbs part_verbs{Verb::reclaim_step, verb_after(Verb::pack)};

/// What a step of packing a directory's tree works on (Verb::pack).
enum class Pack : u8 { leaves, nodes, root };

struct Command {
    Verb verb = Verb::lookup;
    u8 how = 0;  // Rename, Allocate, Seek, AttributeSet, Pack or a flag, depending on the verb
    bool may_use_reserve = false;
    Errc retry_reason = Errc::ok;
    core::Credentials caller;
    Handle handle;  // what the verb works on, mostly a directory
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
    const void* text = nullptr;  // input: a link's target, an attribute's value, a file's bytes
    u64 text_bytes = 0;
    void* buffer = nullptr;  // output
    u64 buffer_bytes = 0;
    MoveWalk* walk = nullptr;  // for rename: state that lasts over several attempts; may be null
};

struct Reply {
    Errc code = Errc::ok;
    bool has_piece = false;        // the host must write bytes before the next commit
    bool may_use_reserve = false;  // with a retry reason: serving it may use the last blocks
    u64 value = 0;
    u64 length = 0;
    // With a retry reason: what it is about.
    u64 needed_place = 0;
    u64 needed_inode = 0;
    u64 needed_key = 0;
    Attributes attributes;
    Removed removed;
    union {
        Mapping mapping;  // for Verb::map
        Piece piece;      // with has_piece
    };

    /// Leaves the union uninitialized, since most commands use neither member.
    WARREN_HD Reply() {}
    WARREN_HD explicit Reply(Errc of) : code(of) {}
};
static_assert(std::is_trivially_copyable_v<Command> && std::is_trivially_copyable_v<Reply>);

}  // namespace warren::ops
