// SPDX-License-Identifier: Apache-2.0
// Changes the size of a file. Growing only changes the number; shrinking frees blocks from the end
// of the file in bounded steps, and each step lowers the size.
//
// Invariant: after each step no written block lies beyond the size. So an interrupted shrink leaves
// a shorter file, and a file that grows again reads as zeros there.
#pragma once

#include "fs/ops/cut.hpp"
#include "fs/ops/fill.hpp"

namespace warren::ops {

/// One step towards a size of `new_size` bytes. True if the size is reached; otherwise the caller
/// calls again. All blocks after the new end are freed, also preallocated ones. `now` = 0 leaves
/// the times as they are. Before growing, see tail_to_zero(). `writer` is as in fill(); it is given
/// block 0 if the contents must leave the inode.
template <class Team, class Writer>
WARREN_HD Result<bool> truncate(Operation<Team>& op, Handle handle, u64 new_size, i64 now,
                                Writer&& writer) {
    if (new_size > format::file_size_max) return Errc::file_too_big;
    WARREN_LET(file, find_file(op, handle));
    const InodeRef& inode = file->inode;
    if (file->kind == AreaKind::bytes) {
        WARREN_LET(bytes, inline_bytes(op, *file));
        if (new_size > format::area_bytes && !bytes->is_zero()) {
            WARREN_TRY(move_out(op, handle, *file, writer));
            return false;
        }
        WARREN_TRY(change_inline(op, inode, new_size, format::area_bytes, nullptr, now, [&] {
            if (new_size > format::area_bytes) clear_area(inode, AreaKind::extents);
            relaxed_store(inode.at->size, new_size);
        }));
        return true;
    }
    Cut cut;
    WARREN_TRY(plan_cut(op, *file, blocks_of(new_size), key_end, CutFrom::end, cut));
    // Nothing to free was found in the last leaf, which must then hold extents that do not belong
    // there.
    if (!cut.is_finished && !cut.range.frees && !cut.empties) return Errc::corrupt;
    u64 size = new_size;
    if (!cut.is_finished) {
        const u64 reached = cut.range.frees ? bytes_of(cut.range.begin) : file->size;
        size = file->size < reached ? file->size : reached;
    }
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(cut_dirties(cut))));
    apply_cut(op, *file, cut);
    end_contents(op, inode, now, [&] {
        if (cut.is_finished && new_size == 0) clear_area(inode, AreaKind::bytes);
        relaxed_store(inode.at->size, size);
    });
    return cut.is_finished;
}

}  // namespace warren::ops
