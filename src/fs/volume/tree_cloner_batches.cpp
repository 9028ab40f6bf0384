// SPDX-License-Identifier: Apache-2.0
// The clone of a tree by batches of the engine.
#include <algorithm>
#include <numeric>
#include <utility>

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
    fail(code, entry.into, entry.name());
    return true;
}

/// Clones directories whose parents have been cloned, none of which is in another.
void TreeCloner::clone_directories(std::vector<FoundDirectory*> found) {
    std::unordered_set<Handle, HandleHash> known;
    std::erase_if(found, [&](FoundDirectory* one) {
        CloneEntry& entry = one->entry;
        entry.into = directories_.find(entry.directory);
        // The scan can find a directory twice if the directory is moved meanwhile.
        const bool is_new =
            directories_.find(entry.source) == nullptr && known.insert(entry.source).second;
        return entry.into == nullptr || !is_new;
    });
    std::vector<const CloneEntry*> entries;
    for (const FoundDirectory* one : found)
        entries.push_back(&one->entry);
    std::vector<Result<Handle>> answers(entries.size(), Errc::retry);
    clone_in_batches(volume_, caller_, now_, entries, answers);
    std::vector<const CloneEntry*> left;
    for (std::size_t i = 0; i < answers.size() && !has_failed(); ++i) {
        const CloneEntry& entry = *entries[i];
        if (is_skipped(answers[i].code(), entry)) continue;
        if (!answers[i]) {
            left.push_back(&entry);
            continue;
        }
        const Attributes& source = found[i]->attributes;
        directories_.add({source.handle, *answers[i], entry.into, std::string(entry.name()),
                          source.accessed, source.modified});
        directory_count_.fetch_add(1, std::memory_order_relaxed);
    }
    clone_left(left);
}

/// Clones all entries that are no directories. The directories have been cloned.
void TreeCloner::clone_others(CloneList& entries) {
    const std::vector<std::vector<CloneEntry>*> chunks = entries.chunks();
    std::vector<u64> counts(chunks.size() + 1);  // of entries for batches; then where they begin
    ThreadPool& thread_pool = volume_.thread_pool();
    thread_pool.for_each(chunks.size(), [&](const ThreadTeam&, u64 i) {
        std::vector<CloneEntry>& chunk = *chunks[i];
        Handle last;  // entries of a directory mostly follow each other
        const ClonedDirectory* into = nullptr;
        for (CloneEntry& entry : chunk) {
            if (entry.directory != last) into = directories_.find(entry.directory);
            last = entry.directory;
            entry.into = into;
        }
        std::erase_if(chunk, [](const CloneEntry& entry) { return entry.into == nullptr; });
        const auto linked = std::partition(
            chunk.begin(), chunk.end(), [](const CloneEntry& one) { return !one.has_more_names; });
        counts[i + 1] = static_cast<u64>(linked - chunk.begin());
    });
    std::inclusive_scan(counts.begin(), counts.end(), counts.begin());
    std::vector<const CloneEntry*> all(counts.back());
    std::vector<const CloneEntry*> left;
    thread_pool.for_each(chunks.size(), [&](const ThreadTeam&, u64 i) {
        for (u64 at = counts[i]; at < counts[i + 1]; ++at)
            all[at] = chunks[i]->data() + (at - counts[i]);
    });
    for (std::size_t i = 0; i < chunks.size(); ++i) {
        for (u64 at = counts[i + 1] - counts[i]; at < chunks[i]->size(); ++at)
            left.push_back(chunks[i]->data() + at);
    }
    std::vector<Errc> answers(all.size());
    clone_in_batches(volume_, caller_, now_, all, answers);
    u64 cloned = 0;
    for (std::size_t i = 0; i < answers.size() && !has_failed(); ++i) {
        if (answers[i] == Errc::ok) {
            ++cloned;
        } else if (!is_skipped(answers[i], *all[i])) {
            left.push_back(all[i]);
        }
    }
    files_.fetch_add(cloned, std::memory_order_relaxed);
    clone_left(left);
}

/// Clones what batches have left, by operations.
void TreeCloner::clone_left(std::span<const CloneEntry* const> left) {
    for (const CloneEntry* entry : left)
        touched_.insert(entry->into);
    volume_.thread_pool().for_each(left.size(), [&](const ThreadTeam&, u64 i) {
        const CloneEntry& entry = *left[i];
        if (has_failed()) return;
        const Result<Attributes> source = api_.attributes(entry.source);
        static_cast<void>(is_skipped(
            source ? clone_entry(*source, *entry.into, entry.name()) : source.code(), entry));
    });
}

}  // namespace warren
