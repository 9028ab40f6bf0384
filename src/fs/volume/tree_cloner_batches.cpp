// SPDX-License-Identifier: Apache-2.0
// The clone of a tree by batches of the engine.
#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "fs/volume/tree_cloner.hpp"
#include "fs/volume/volume_batches.hpp"

namespace warren {

/// Clones what is below the source.
Errc TreeCloner::clone_by_batches(Handle source) {
    CloneList entries;
    if (list(source, entries) != Errc::ok) {
        keeps_times_ = false;
        return clone_by_operations(source);  // which tells where the error is
    }
    for (std::vector<FoundDirectory*>& depth : entries.directories()) {
        if (has_failed()) return error_;
        clone_directories(std::move(depth));
    }
    if (!has_failed()) clone_others(entries);
    // Most of the list's memory, by all cores, which would wait for each other to unmap it.
    volume_.thread_pool().for_each(CloneList::shard_count, [&](const ThreadTeam&, u64 i) {
        entries.shards()[i].free_entries();
    });
    return error_;
}

Errc TreeCloner::list(Handle source, CloneList& entries) {
    return api_.scan(caller_, source, [&](const Scanned& found) {
        if (found.name.empty()) return true;  // the source itself
        if (!is_there(found)) return false;
        entries.add(found);
        return true;
    });
}

/// Whether there is nothing more to do for an entry. The entry was removed meanwhile, or its name
/// was given to another file after the scan had found it; or the clone has failed.
bool TreeCloner::is_skipped(Errc code, const CloneEntry& entry) {
    if (code == Errc::stale || code == Errc::exists) return true;
    if (code == Errc::ok || code == Errc::retry) return false;
    fail(code, entry.into(), entry.name());
    return true;
}

/// Clones directories whose parents have been cloned, none of which is in another.
void TreeCloner::clone_directories(std::vector<FoundDirectory*> found) {
    std::unordered_set<Handle, HandleHash> known;
    std::erase_if(found, [&](FoundDirectory* one) {
        const CloneEntry& entry = *one->entry;
        entry.parent->into = directories_.find(entry.parent->directory);
        // The scan can find a directory twice if the directory is moved meanwhile.
        const bool is_new =
            directories_.find(entry.source()) == nullptr && known.insert(entry.source()).second;
        return entry.into() == nullptr || !is_new;
    });
    std::vector<const CloneEntry*> entries;
    for (const FoundDirectory* one : found)
        entries.push_back(one->entry);
    std::vector<Result<Handle>> answers(entries.size(), Errc::retry);
    clone_in_batches(volume_, caller_, now_, entries, std::span(answers));
    std::vector<const CloneEntry*> left;
    for (std::size_t i = 0; i < answers.size() && !has_failed(); ++i) {
        const CloneEntry& entry = *entries[i];
        if (is_skipped(answers[i].code(), entry)) continue;
        if (!answers[i]) {
            left.push_back(&entry);
            continue;
        }
        const Attributes& source = found[i]->attributes;
        directories_.add({source.handle, *answers[i], entry.into(), std::string(entry.name()),
                          source.accessed, source.modified});
        directory_count_.fetch_add(1, std::memory_order_relaxed);
    }
    clone_left(left);
}

/// Clones all entries that are no directories. The directories have been cloned.
void TreeCloner::clone_others(CloneList& entries) {
    std::array<u64, CloneList::shard_count + 1> begins{};  // of the entries for batches
    std::array<std::vector<const CloneEntry*>, CloneList::shard_count> linked;
    ThreadPool& thread_pool = volume_.thread_pool();
    const auto is_for_batches = [](const CloneEntry& entry) {
        return entry.into() != nullptr && !entry.has_more_names;
    };
    thread_pool.for_each(linked.size(), [&](const ThreadTeam&, u64 i) {
        CloneShard& shard = entries.shards()[i];
        for (CloneParent& parent : shard.parents())
            parent.into = directories_.find(parent.directory);
        u64 count = 0;
        shard.for_each([&](const CloneEntry& entry) {
            if (is_for_batches(entry)) {
                ++count;
            } else if (entry.into() != nullptr) {
                linked[i].push_back(&entry);
            }
        });
        begins[i + 1] = count;
    });
    for (std::size_t i = 0; i < linked.size(); ++i)
        begins[i + 1] += begins[i];
    const u64 count = begins.back();
    // Not cleared by one thread: for large trees all of this is new memory.
    const auto all = std::make_unique_for_overwrite<const CloneEntry*[]>(count);
    const auto answers = std::make_unique_for_overwrite<Errc[]>(count);
    thread_pool.for_each(linked.size(), [&](const ThreadTeam&, u64 i) {
        u64 at = begins[i];
        entries.shards()[i].for_each([&](const CloneEntry& entry) {
            if (is_for_batches(entry)) all[at++] = &entry;
        });
        std::fill(answers.get() + begins[i], answers.get() + at, Errc::retry);
    });
    std::vector<const CloneEntry*> left;
    for (const std::vector<const CloneEntry*>& some : linked)
        left.insert(left.end(), some.begin(), some.end());
    const std::span given(answers.get(), count);
    clone_in_batches(volume_, caller_, now_, {all.get(), count}, given);
    const auto cloned = static_cast<u64>(std::ranges::count(given, Errc::ok));
    files_.fetch_add(cloned, std::memory_order_relaxed);
    for (u64 i = 0; cloned < count && i < count; ++i) {
        if (answers[i] != Errc::ok && !is_skipped(answers[i], *all[i])) left.push_back(all[i]);
    }
    clone_left(left);
}

/// Clones what batches have left, by operations.
void TreeCloner::clone_left(std::span<const CloneEntry* const> left) {
    for (const CloneEntry* entry : left)
        touched_.insert(entry->into());
    volume_.thread_pool().for_each(left.size(), [&](const ThreadTeam&, u64 i) {
        const CloneEntry& entry = *left[i];
        if (has_failed()) return;
        const Result<Attributes> source = api_.attributes(entry.source());
        static_cast<void>(is_skipped(
            source ? clone_entry(*source, *entry.into(), entry.name()) : source.code(), entry));
    });
}

}  // namespace warren
