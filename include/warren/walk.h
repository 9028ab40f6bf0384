// SPDX-License-Identifier: Apache-2.0
// C interface of warren/walk.hpp. No exception leaves these functions.
//
// Invariant: callbacks are called from several threads at once. An entry, a finished directory and
// the strings obtained from them are valid until the callback returns.
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
typedef struct warren_walk_group warren_walk_group;

/// Return values of `visit`: continue, do not descend into this directory, end the walk.
enum { WARREN_WALK_GO_ON = 0, WARREN_WALK_PRUNE = 1, WARREN_WALK_STOP = 2 };
/// Which symbolic links are followed.
enum { WARREN_WALK_FOLLOW_NONE = 0, WARREN_WALK_FOLLOW_ROOTS = 1, WARREN_WALK_FOLLOW_ALL = 2 };
/// How much an idle thread or rank takes of another's queue: half of it, or a random part.
enum { WARREN_WALK_SPLIT_HALF = 0, WARREN_WALK_SPLIT_RANDOM = 1 };
/// Which rank requests work from which; see warren::walk::Scheduler. The default is pa-drqs.
enum {
    WARREN_WALK_DEFAULT = 0,
    WARREN_WALK_CP = 1,
    WARREN_WALK_CP_KEEP_ONE = 2,
    WARREN_WALK_CP_DIRECTORIES = 3,
    WARREN_WALK_DRQS = 4,
    WARREN_WALK_PA_DRQS = 5,
    WARREN_WALK_PA_DRQS_LIST = 6,
    WARREN_WALK_BATCHES = 7
};

/// A member that is 0 or null selects the default.
typedef struct {
    uint32_t threads;
    uint32_t follow;
    uint32_t one_file_system;  // this and the next two: 0 or 1
    uint32_t inode_order;
    uint32_t keep_directories_whole;  // only one thread at a time in a directory
    uint32_t depth_limit;             // 0: unlimited; N: at most N - 1 levels below a root
    uint32_t result_bytes;
    uint32_t open_limit;
    uint64_t operations_per_second;
    uint32_t split;
    uint32_t scheduler;
    warren_walk_group* group;          // the processes that walk together; null: only this one
    const char* checkpoint;            // folder in which the state of the walk is saved; null: none
    uint32_t checkpoint_milliseconds;  // 0: 30,000
    uint32_t resume;                   // 1: resume from that folder; not with a cp scheduler
    uint64_t queue_bytes;              // memory for the queue of rank 0, if it keeps one; 0: 48 MiB
} warren_walk_options;

/// All callbacks but `visit` may be null. The last three are for checkpoints. `interrupt` returns
/// nonzero to write a checkpoint and stop. `save` returns what this rank's caller has counted
/// outside of results, valid until the next call; no other callback runs meanwhile, and on rank 0
/// all messages of the other ranks have been received. `load` receives these bytes before a walk
/// resumes, once for each rank that saved some. They may be forged: `load` returns nonzero if
/// `save` does not write such bytes, and then nothing is walked.
typedef struct {
    int (*visit)(const warren_walk_entry* entry, void* context);
    void (*finish)(const warren_walk_finished* directory, void* context);
    void (*merge)(void* into, const void* from, void* context);
    void (*fail)(const char* path, const char* action, int error, void* context);
    void (*work)(int directory, const void* payload, size_t size, void* result, void* context);
    int (*interrupt)(void* context);
    const void* (*save)(size_t* size, void* context);
    int (*load)(const void* bytes, size_t size, void* context);
} warren_walk_callbacks;

/// With a group, sums over all ranks, except for the last three members, which are those of this
/// rank.
typedef struct {
    uint64_t entries;
    uint64_t directories;
    uint64_t failures;
    int stopped;
    int interrupted;  // stopped by `interrupt`, after a checkpoint was written
    uint64_t messages;
    uint64_t message_bytes;
    uint64_t own_entries;
} warren_walk_totals;

/// The ranks of the MPI job to which this process belongs. Returns null with an empty `problem` if
/// there is no such job or it has only one rank, and null with the reason in `problem` after an
/// error. `problem` may be null.
warren_walk_group* warren_walk_mpi_group(char* problem, size_t problem_size);
uint32_t warren_walk_rank(const warren_walk_group* group);
uint32_t warren_walk_ranks(const warren_walk_group* group);

/// Walks the trees at `roots`; `options`, `result` and `totals` may be null. Returns 0, EINVAL if
/// an argument is invalid, or ENOMEM or EAGAIN if memory or threads run out: then all threads have
/// ended, and `result` is incomplete. Errors with single files are passed to `fail` and counted.
///
/// With a group all ranks call it. The roots are those that rank 0 passes, and only rank 0 receives
/// the result. If a thread that walks runs out of memory on any rank, all ranks return ENOMEM. If
/// the calling thread runs out of memory while it exchanges messages with other ranks, the process
/// ends.
int warren_walk(const char* const* roots, size_t root_count, const warren_walk_options* options,
                const warren_walk_callbacks* callbacks, void* context, void* result,
                warren_walk_totals* totals);

/// The descriptor of the open directory, for *at() calls with warren_walk_name().
int warren_walk_directory(const warren_walk_entry* entry);
const char* warren_walk_name(const warren_walk_entry* entry);
/// The path of the entry, or null if memory runs out.
const char* warren_walk_path(const warren_walk_entry* entry);
/// The type as in <dirent.h>: DT_REG, DT_DIR, ...
unsigned char warren_walk_type(const warren_walk_entry* entry);
uint32_t warren_walk_depth(const warren_walk_entry* entry);
uint32_t warren_walk_worker(const warren_walk_entry* entry);
/// The status with at least the fields of `mask`. Returns null if they cannot be read (`fail` is
/// called) or if memory runs out.
const struct statx* warren_walk_status(const warren_walk_entry* entry, unsigned mask);
/// This thread's part of the directory's result.
void* warren_walk_result(const warren_walk_entry* entry);
/// For a directory: the initial value of its own result. It is merged into the parent's result if
/// the directory is not entered.
void* warren_walk_own_result(const warren_walk_entry* entry);
/// Merges `amount`, a result, into that of the directory if this is the first name of a file with
/// several names to be reported, on any rank. Returns 0, or ENOMEM; then it may not have been
/// merged.
int warren_walk_add_once(const warren_walk_entry* entry, const struct statx* status,
                         const void* amount);
/// Queues a task that belongs to the entry's directory. Returns 0, or ENOMEM; then nothing was
/// queued.
int warren_walk_add(const warren_walk_entry* entry, const void* payload, size_t size);

/// The descriptor of the open directory that contains the finished one, AT_FDCWD for a root; -1 if
/// it cannot be reached any more.
int warren_walk_finished_directory(const warren_walk_finished* directory);
const char* warren_walk_finished_name(const warren_walk_finished* directory);
uint32_t warren_walk_finished_depth(const warren_walk_finished* directory);
void* warren_walk_finished_result(const warren_walk_finished* directory);

#ifdef __cplusplus
}
#endif

#endif
