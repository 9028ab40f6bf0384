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
typedef struct warren_walk_group warren_walk_group;

/// What a visit answers.
enum { WARREN_WALK_GO_ON = 0, WARREN_WALK_PRUNE = 1, WARREN_WALK_STOP = 2 };
/// Which symbolic links are followed.
enum { WARREN_WALK_FOLLOW_NONE = 0, WARREN_WALK_FOLLOW_ROOTS = 1, WARREN_WALK_FOLLOW_ALL = 2 };
/// How much an idle thread or rank takes of another's queue.
enum { WARREN_WALK_SPLIT_HALF = 0, WARREN_WALK_SPLIT_RANDOM = 1 };
/// Which rank asks which for work: warren::walk::Scheduler, with pa-drqs as the default.
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
    uint32_t split;
    uint32_t scheduler;
    warren_walk_group* group;          // the processes that walk together; null: this one alone
    const char* checkpoint;            // a folder for the state of the walk; null: none
    uint32_t checkpoint_milliseconds;  // 0: 30,000
    uint32_t resume;                   // 1: goes on from the state in that folder; not with cp
    uint64_t queue_bytes;  // of memory for rank 0's queue, where it keeps one; 0: 48 MiB
} warren_walk_options;

/// All but `visit` may be null. The last three are for checkpoints: whether to write one and stop;
/// what this rank has counted outside of results (valid until it is asked again), while no other
/// callback runs, rank 0's when it has received all messages of the others; and the same before a
/// walk that goes on, once for each rank there was: not 0 if `save` does not write such bytes,
/// which may be forged. Then nothing is walked.
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

/// With a group: of all ranks, but for the last three, which are of this one.
typedef struct {
    uint64_t entries;
    uint64_t directories;
    uint64_t failures;
    int stopped;
    int interrupted;  // stopped by `interrupt`: a checkpoint has been written
    uint64_t messages;
    uint64_t message_bytes;
    uint64_t own_entries;
} warren_walk_totals;

/// The ranks of the MPI job that this process belongs to. Null with an empty `problem` if there is
/// no such job or it has one rank only, else with the reason; `problem` may be null.
warren_walk_group* warren_walk_mpi_group(char* problem, size_t problem_size);
uint32_t warren_walk_rank(const warren_walk_group* group);
uint32_t warren_walk_ranks(const warren_walk_group* group);

/// Walks the trees at `roots`; `options` and `result` may be null. Returns 0, or EINVAL for wrong
/// arguments, ENOMEM or EAGAIN if the system gives no memory or threads: then all threads have
/// ended, and what `result` holds is nothing whole. What could not be done with single files is
/// passed to `fail` and counted. With a group all ranks call it; the roots are those of rank 0,
/// which alone has the result; if a thread that walks finds no memory on any rank, all return
/// ENOMEM. If the thread that called finds none while it talks to the others, the process ends.
int warren_walk(const char* const* roots, size_t root_count, const warren_walk_options* options,
                const warren_walk_callbacks* callbacks, void* context, void* result,
                warren_walk_totals* totals);

/// The open directory for *at calls with the name.
int warren_walk_directory(const warren_walk_entry* entry);
const char* warren_walk_name(const warren_walk_entry* entry);
/// Null if memory is short.
const char* warren_walk_path(const warren_walk_entry* entry);
/// DT_REG, DT_DIR, ... of <dirent.h>.
unsigned char warren_walk_type(const warren_walk_entry* entry);
uint32_t warren_walk_depth(const warren_walk_entry* entry);
uint32_t warren_walk_worker(const warren_walk_entry* entry);
/// At least the fields of `mask`; null if they cannot be had (`fail` is called) or if memory is
/// short.
const struct statx* warren_walk_status(const warren_walk_entry* entry, unsigned mask);
/// The part of the directory's result that is this thread's.
void* warren_walk_result(const warren_walk_entry* entry);
/// For a directory: what its own result begins with. Joins the one above if it is not entered.
void* warren_walk_own_result(const warren_walk_entry* entry);
/// Adds `amount`, a result, to that of the directory if this is the first of the file's `links`
/// names to come, on any rank. 0, or ENOMEM: then it may not have been added.
int warren_walk_add_once(const warren_walk_entry* entry, const struct statx* status,
                         const void* amount);
/// Queues work that belongs to the entry's directory. 0, or ENOMEM: nothing was queued.
int warren_walk_add(const warren_walk_entry* entry, const void* payload, size_t size);

/// The open directory that holds the finished one; -1 if it cannot be reached any more.
int warren_walk_finished_directory(const warren_walk_finished* directory);
const char* warren_walk_finished_name(const warren_walk_finished* directory);
uint32_t warren_walk_finished_depth(const warren_walk_finished* directory);
void* warren_walk_finished_result(const warren_walk_finished* directory);

#ifdef __cplusplus
}
#endif

#endif
