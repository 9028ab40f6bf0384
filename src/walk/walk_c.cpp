// SPDX-License-Identifier: Apache-2.0
// The C interface: each function makes one call of the C++ library and turns exceptions into error
// numbers.
#include <dirent.h>

#include <cerrno>
#include <cstdio>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "warren/walk.h"
#include "warren/walk.hpp"
#include "warren/walk_group.hpp"

namespace warren::walk {

namespace {

const Entry& entry_of(const warren_walk_entry* entry) {
    return *reinterpret_cast<const Entry*>(entry);
}

const Finished& finished_of(const warren_walk_finished* directory) {
    return *reinterpret_cast<const Finished*>(directory);
}

Group* group_of(warren_walk_group* group) {
    return reinterpret_cast<Group*>(group);
}

const Group& group_of(const warren_walk_group* group) {
    return *reinterpret_cast<const Group*>(group);
}

Options options_of(const warren_walk_options& given) {
    Options options;
    options.threads = given.threads;
    options.follow = static_cast<Follow>(given.follow);
    options.one_file_system = given.one_file_system != 0;
    options.inode_order = given.inode_order != 0;
    options.share_directories = given.keep_directories_whole == 0;
    options.max_depth = given.depth_limit - 1;
    options.result_bytes = given.result_bytes;
    options.open_limit = given.open_limit;
    options.operations_per_second = given.operations_per_second;
    options.split = static_cast<Split>(given.split);
    if (given.scheduler != WARREN_WALK_DEFAULT) {
        options.scheduler = static_cast<Scheduler>(given.scheduler - 1);
    }
    options.group = group_of(given.group);
    if (given.checkpoint != nullptr) options.checkpoint = given.checkpoint;
    if (given.checkpoint_milliseconds != 0) {
        options.checkpoint_milliseconds = given.checkpoint_milliseconds;
    }
    options.resume = given.resume != 0;
    if (given.queue_bytes != 0) options.queue_bytes = given.queue_bytes;
    return options;
}

static_assert(static_cast<int>(Scheduler::batches) + 1 == WARREN_WALK_BATCHES);

Callbacks callbacks_of(const warren_walk_callbacks& given, void* context) {
    Callbacks callbacks;
    callbacks.visit = [&given, context](const Entry& entry) {
        return static_cast<Next>(
            given.visit(reinterpret_cast<const warren_walk_entry*>(&entry), context));
    };
    if (given.finish != nullptr) {
        callbacks.finish = [&given, context](const Finished& directory) {
            given.finish(reinterpret_cast<const warren_walk_finished*>(&directory), context);
        };
    }
    if (given.merge != nullptr) {
        callbacks.merge = [&given, context](void* into, const void* from) {
            given.merge(into, from, context);
        };
    }
    if (given.fail != nullptr) {
        callbacks.fail = [&given, context](const Failure& failure) {
            given.fail(failure.path.c_str(), failure.action, failure.error, context);
        };
    }
    if (given.work != nullptr) {
        callbacks.work = [&given, context](const Task& task) {
            given.work(task.directory, task.payload.data(), task.payload.size(), task.result,
                       context);
        };
    }
    if (given.save != nullptr) {
        callbacks.save = [&given, context] {
            size_t size = 0;
            const void* bytes = given.save(&size, context);
            return std::string(static_cast<const char*>(bytes), size);
        };
    }
    if (given.load != nullptr) {
        callbacks.load = [&given, context](std::string_view saved) {
            return given.load(saved.data(), saved.size(), context) == 0;
        };
    }
    return callbacks;
}

int run(std::span<const char* const> given, const warren_walk_options& options,
        const warren_walk_callbacks& callbacks, void* context, void* result,
        warren_walk_totals* totals) {
    const std::vector<std::string> roots(given.begin(), given.end());
    Options how = options_of(options);
    if (callbacks.interrupt != nullptr) {
        how.interrupt = [&] { return callbacks.interrupt(context) != 0; };
    }
    const Totals all = walk(roots, how, callbacks_of(callbacks, context), result);
    if (totals != nullptr) {
        *totals = {all.entries,     all.directories, all.failures,      all.stopped,
                   all.interrupted, all.messages,    all.message_bytes, all.own_entries};
    }
    return 0;
}

/// Returns 0, or ENOMEM. No exception may pass through a callback.
template <class Call>
int or_no_memory(const Call& call) {
    try {
        call();
        return 0;
    } catch (const std::bad_alloc&) {
        return ENOMEM;
    }
}

}  // namespace

}  // namespace warren::walk

using warren::walk::entry_of;
using warren::walk::finished_of;
using warren::walk::group_of;
using warren::walk::or_no_memory;

extern "C" {

int warren_walk(const char* const* roots, size_t root_count, const warren_walk_options* options,
                const warren_walk_callbacks* callbacks, void* context, void* result,
                warren_walk_totals* totals) {
    static constexpr warren_walk_options defaults{};
    if (options == nullptr) options = &defaults;
    const bool has_roots = roots != nullptr || root_count == 0;
    const bool has_callbacks = callbacks != nullptr && callbacks->visit != nullptr;
    const bool is_known = options->follow <= WARREN_WALK_FOLLOW_ALL &&
                          options->split <= WARREN_WALK_SPLIT_RANDOM &&
                          options->scheduler <= WARREN_WALK_BATCHES;
    if (!has_roots || !has_callbacks || !is_known) return EINVAL;
    const bool is_central =
        warren::walk::has_central_queue(static_cast<warren::walk::Scheduler>(options->scheduler));
    if (options->resume != 0 && (options->checkpoint == nullptr || is_central)) return EINVAL;
    try {
        return warren::walk::run({roots, root_count}, *options, *callbacks, context, result,
                                 totals);
    } catch (const std::bad_alloc&) {
        return ENOMEM;
    } catch (const std::system_error& error) {
        return error.code().value();
    }
}

warren_walk_group* warren_walk_mpi_group(char* problem, size_t problem_size) {
    warren::walk::Group* group = nullptr;
    std::string reason;
    const char* text = "out of memory";
    if (or_no_memory([&] { group = warren::walk::mpi_group(reason); }) == 0) text = reason.c_str();
    if (problem != nullptr) std::snprintf(problem, problem_size, "%s", text);
    return reinterpret_cast<warren_walk_group*>(group);
}

uint32_t warren_walk_rank(const warren_walk_group* group) {
    return group_of(group).rank();
}

uint32_t warren_walk_ranks(const warren_walk_group* group) {
    return group_of(group).ranks();
}

int warren_walk_directory(const warren_walk_entry* entry) {
    return entry_of(entry).directory();
}

const char* warren_walk_name(const warren_walk_entry* entry) {
    return entry_of(entry).name();
}

const char* warren_walk_path(const warren_walk_entry* entry) {
    const char* path = nullptr;
    or_no_memory([&] { path = entry_of(entry).path().data(); });
    return path;
}

unsigned char warren_walk_type(const warren_walk_entry* entry) {
    static constexpr unsigned char types[] = {DT_UNKNOWN, DT_FIFO, DT_CHR, DT_DIR,
                                              DT_BLK,     DT_REG,  DT_LNK, DT_SOCK};
    return types[static_cast<size_t>(entry_of(entry).type())];
}

uint32_t warren_walk_depth(const warren_walk_entry* entry) {
    return entry_of(entry).depth();
}

uint32_t warren_walk_worker(const warren_walk_entry* entry) {
    return entry_of(entry).worker();
}

const struct statx* warren_walk_status(const warren_walk_entry* entry, unsigned mask) {
    const struct statx* status = nullptr;
    or_no_memory([&] { status = entry_of(entry).status(mask); });
    return status;
}

void* warren_walk_result(const warren_walk_entry* entry) {
    return entry_of(entry).result_memory();
}

void* warren_walk_own_result(const warren_walk_entry* entry) {
    return entry_of(entry).own_result_memory();
}

int warren_walk_add_once(const warren_walk_entry* entry, const struct statx* status,
                         const void* amount) {
    return or_no_memory([&] {
        entry_of(entry).add_once(warren::walk::device_of(*status), status->stx_ino,
                                 status->stx_nlink, amount);
    });
}

int warren_walk_add(const warren_walk_entry* entry, const void* payload, size_t size) {
    return or_no_memory([&] {
        entry_of(entry).add({static_cast<const std::byte*>(payload), size});
    });
}

int warren_walk_finished_directory(const warren_walk_finished* directory) {
    return finished_of(directory).directory();
}

const char* warren_walk_finished_name(const warren_walk_finished* directory) {
    return finished_of(directory).name();
}

uint32_t warren_walk_finished_depth(const warren_walk_finished* directory) {
    return finished_of(directory).depth();
}

void* warren_walk_finished_result(const warren_walk_finished* directory) {
    return finished_of(directory).result_memory();
}

}  // extern "C"
