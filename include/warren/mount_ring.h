// SPDX-License-Identifier: Apache-2.0
// C interface of warren/mount_ring.hpp. Error numbers are those of errno.h. No exception leaves
// these functions.
//
// Invariant: names are bytes with a length; a terminating zero is not needed.
#ifndef WARREN_MOUNT_RING_H
#define WARREN_MOUNT_RING_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct warren_mount_ring warren_mount_ring;

/// Identifies an inode for as long as it exists. A ring accepts handles of attached directories,
/// and at least the last 524,288 handles that it has found, created or been given. For an older one
/// the error is EBADF: look up its name again.
typedef struct {
    uint64_t inode;
    uint32_t generation;
} warren_handle;

/// A name in a directory.
typedef struct {
    warren_handle directory;
    const char* name;
    size_t length;
} warren_name;

/// Attributes of a file; times are in nanoseconds since 1970. If `error` is not 0, no other member
/// is set.
typedef struct {
    int error;
    uint32_t mode;
    uint32_t links;
    uint32_t user;
    uint32_t group;
    warren_handle handle;
    uint64_t size;
    uint64_t blocks;  // of 4096 bytes
    int64_t accessed;
    int64_t modified;
    int64_t changed;
} warren_found;

/// Opens a ring of the mount that contains `path`. Returns 0 or an error number.
int warren_mount_ring_open(const char* path, warren_mount_ring** ring);
/// Closes the ring; `ring` may be null.
void warren_mount_ring_close(warren_mount_ring* ring);
/// Gets the handle of an open directory. Returns 0 or an error number: EMFILE if 65,536 other
/// directories are attached.
int warren_mount_ring_attach(warren_mount_ring* ring, int directory, warren_handle* handle);

/// Looks up `count` names; found[i] receives the result of names[i].
void warren_mount_ring_lookup(warren_mount_ring* ring, const warren_name* names, size_t count,
                              warren_found* found);
/// Creates an empty file for each name. `mode` is as for mknod(2); bits set in `umask` are cleared.
void warren_mount_ring_create(warren_mount_ring* ring, const warren_name* names, size_t count,
                              uint32_t mode, uint32_t umask, warren_found* made);
/// Removes names of files that are not directories; errors[i] is set to 0 or an error number. As by
/// warren_mount_ring_move(), a name is removed even if it is a mount point.
void warren_mount_ring_unlink(warren_mount_ring* ring, const warren_name* names, size_t count,
                              int* errors);
/// Renames sources[i] to targets[i]; errors[i] is set to 0 or an error number.
void warren_mount_ring_move(warren_mount_ring* ring, const warren_name* sources,
                            const warren_name* targets, size_t count, int* errors);

#ifdef __cplusplus
}
#endif

#endif  // WARREN_MOUNT_RING_H
