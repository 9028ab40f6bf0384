// SPDX-License-Identifier: Apache-2.0
// The walk of warren/walk.hpp for C. Nothing is thrown through these functions.
//
// Invariant: callbacks are called from several threads at once; an entry, a finished directory and
// the strings they answer are valid until their callback returns.
#ifndef WARREN_WALK_H
#define WARREN_WALK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct statx;

typedef struct warren_walk_entry warren_walk_entry;
typedef struct warren_walk_finished warren_walk_finished;

/// What a visit answers.
enum { WARREN_WALK_GO_ON = 0, WARREN_WALK_PRUNE = 1, WARREN_WALK_STOP = 2 };
/// Which symbolic links are followed.
enum { WARREN_WALK_FOLLOW_NONE = 0, WARREN_WALK_FOLLOW_ROOTS = 1, WARREN_WALK_FOLLOW_ALL = 2 };

/// Zeros are the defaults.
typedef struct {
    uint32_t threads;
    uint32_t follow;
    uint32_t one_file_system;  // the following three: 0 or 1
    uint32_t inode_order;
    uint32_t keep_directories_whole;  // one thread at a time in a directory
    uint32_t depth_limit;             // 0: none; N: at most N - 1 levels below a root
    uint32_t result_bytes;
    uint32_t open_limit;
    uint64_t operations_per_second;
} warren_walk_options;

/// All but `visit` may be null.
typedef struct {
    int (*visit)(const warren_walk_entry* entry, void* context);
    void (*finish)(const warren_walk_finished* directory, void* context);
    void (*merge)(void* into, const void* from, void* context);
    void (*fail)(const char* path, const char* action, int error, void* context);
    void (*work)(int directory, const void* payload, size_t size, void* result, void* context);
} warren_walk_callbacks;

typedef struct {
    uint64_t entries;
    uint64_t directories;
    uint64_t failures;
    int stopped;
} warren_walk_totals;

/// Walks the trees at `roots`; `options` and `result` may be null. Returns 0, or EINVAL for wrong
/// arguments, ENOMEM or EAGAIN if the system gives no memory or threads. What could not be done
/// with single files is told to `fail` and counted.
int warren_walk(const char* const* roots, size_t root_count, const warren_walk_options* options,
                const warren_walk_callbacks* callbacks, void* context, void* result,
                warren_walk_totals* totals);

/// The open directory for *at calls with the name.
int warren_walk_directory(const warren_walk_entry* entry);
const char* warren_walk_name(const warren_walk_entry* entry);
const char* warren_walk_path(const warren_walk_entry* entry);
/// DT_REG, DT_DIR, ... of <dirent.h>.
unsigned char warren_walk_type(const warren_walk_entry* entry);
uint32_t warren_walk_depth(const warren_walk_entry* entry);
uint32_t warren_walk_worker(const warren_walk_entry* entry);
/// At least the fields of `mask`; null if they cannot be had, which `fail` is told.
const struct statx* warren_walk_status(const warren_walk_entry* entry, unsigned mask);
/// The part of the directory's result that is this thread's.
void* warren_walk_result(const warren_walk_entry* entry);
/// For a directory: what its own result begins with. Joins the one above if it is not entered.
void* warren_walk_own_result(const warren_walk_entry* entry);
/// Queues work that belongs to the entry's directory.
void warren_walk_add(const warren_walk_entry* entry, const void* payload, size_t size);

/// The open directory that holds the finished one; -1 if it cannot be reached any more.
int warren_walk_finished_directory(const warren_walk_finished* directory);
const char* warren_walk_finished_name(const warren_walk_finished* directory);
uint32_t warren_walk_finished_depth(const warren_walk_finished* directory);
void* warren_walk_finished_result(const warren_walk_finished* directory);

#ifdef __cplusplus
}
#endif

#endif
