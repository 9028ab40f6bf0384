// SPDX-License-Identifier: Apache-2.0
// Keys are truncated digests, hence uniformly distributed: their bits select the slot.
#include "dedup/entry_table.hpp"

#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "base/last_error.hpp"
#include "base/temporary_file.hpp"

namespace warren::dedup {

namespace {

constexpr u64 first_slots = 1024;
constexpr size_t most_runs = 8;

bool is_before(const Entry& left, const Entry& right) {
    return left.key < right.key;
}

void count_up(Entry& entry) {
    if (entry.count != std::numeric_limits<u32>::max()) ++entry.count;
}

}  // namespace

Errc SortedRun::create(const std::string& folder, u64 count) {
    TemporaryFile file;
    WARREN_TRY(file.make(folder));
    file.forget_name();
    const u64 bytes = count * sizeof(Entry);
    // Allocate the blocks at once, so that a full disk is an error here and not SIGBUS at a later
    // access.
    const int failure = ::posix_fallocate(file.descriptor(), 0, static_cast<off_t>(bytes));
    if (failure != 0) return static_cast<Errc>(failure);
    memory_ = map_file(file.descriptor(), bytes, PROT_READ | PROT_WRITE);
    return memory_ == nullptr ? last_error() : Errc::ok;
}

Entry* SortedRun::find(const Key& key) const {
    const std::span<Entry> all = entries();
    const auto at = std::ranges::lower_bound(all, key, {}, &Entry::key);
    return at != all.end() && at->key == key ? &*at : nullptr;
}

void EntryTable::open(u64 memory_bytes, std::string folder) {
    *this = EntryTable();
    folder_ = std::move(folder);
    // While the table grows, the smaller one exists too; visit_sorted() needs less than that.
    most_slots_ = memory_bytes == 0 ? std::numeric_limits<u64>::max()
                                    : std::bit_floor(memory_bytes / 3 * 2 / sizeof(Entry));
    slots_.resize(std::min(first_slots, most_slots_));
}

Errc EntryTable::load(u64 count, u64 group, const std::function<Errc(std::span<Entry>)>& read) {
    const bool has_room = count <= most_slots_ / 4 * 3;
    SortedRun run;
    std::vector<Entry> memory;
    if (has_room) {
        slots_.resize(std::max<u64>(slots_.size(), std::bit_ceil((count * 4 + 2) / 3)));
        memory.resize(std::min(count, group));
    } else {
        WARREN_TRY(run.create(folder_, count));
    }
    for (u64 done = 0; done < count; done += std::min(group, count - done)) {
        const u64 size = std::min(group, count - done);
        const std::span<Entry> into =
            has_room ? std::span(memory).first(size) : run.entries().subspan(done, size);
        WARREN_TRY(read(into));
        if (!has_room) continue;
        for (const Entry& entry : into)
            *find_slot(entry.key) = entry;
    }
    if (has_room) {
        used_ = count;
    } else {
        spilled_ = count;
        runs_.push_back(std::move(run));
    }
    return Errc::ok;
}

Entry* EntryTable::find_slot(const Key& key) const {
    const u64 mask = slots_.size() - 1;
    u64 at = key.low & mask;
    while (slots_[at].count != 0 && slots_[at].key != key)
        at = (at + 1) & mask;
    return &slots_[at];
}

const Entry* EntryTable::find(const Key& key) const {
    const Entry* slot = find_slot(key);
    if (slot->count != 0) return slot;
    for (const SortedRun& run : runs_) {
        if (const Entry* entry = run.find(key)) return entry;
    }
    return nullptr;
}

Errc EntryTable::add(const Chunk& chunk, Entry& found) {
    if (const Entry* known = find(chunk.key)) {
        Entry& entry = const_cast<Entry&>(*known);
        count_up(entry);
        found = entry;
        return Errc::ok;
    }
    found = {chunk.key, chunk.place, chunk.length, 1};
    return insert(found);
}

Errc EntryTable::insert(const Entry& entry) {
    WARREN_TRY(make_room());
    *find_slot(entry.key) = entry;
    ++used_;
    return Errc::ok;
}

Errc EntryTable::make_room() {
    if ((used_ + 1) * 4 <= slots_.size() * 3) return Errc::ok;
    if (slots_.size() * 2 > most_slots_) return spill();
    grow();
    return Errc::ok;
}

void EntryTable::grow() {
    std::vector<Entry> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Entry& entry : old) {
        if (entry.count != 0) *find_slot(entry.key) = entry;
    }
}

Errc EntryTable::spill() {
    SortedRun run;
    WARREN_TRY(run.create(folder_, used_));
    std::copy_if(slots_.begin(), slots_.end(), run.entries().begin(),
                 [](const Entry& entry) { return entry.count != 0; });
    std::sort(run.entries().begin(), run.entries().end(), is_before);
    std::fill(slots_.begin(), slots_.end(), Entry{});
    spilled_ += used_;
    used_ = 0;
    runs_.push_back(std::move(run));
    return runs_.size() == most_runs ? merge_runs() : Errc::ok;
}

Errc EntryTable::merge_runs() {
    while (runs_.size() > 1) {
        SortedRun merged;
        const std::span<Entry> left = runs_[runs_.size() - 2].entries();
        const std::span<Entry> right = runs_.back().entries();
        WARREN_TRY(merged.create(folder_, left.size() + right.size()));
        std::merge(left.begin(), left.end(), right.begin(), right.end(), merged.entries().begin(),
                   is_before);
        runs_.pop_back();
        runs_.back() = std::move(merged);
    }
    return Errc::ok;
}

Errc EntryTable::visit_sorted(const std::function<Errc(const Entry&)>& visit) const {
    struct Place {
        u64 low;  // low half of the key
        u64 slot;
    };
    std::vector<Place> order;
    order.reserve(used_);
    for (u64 slot = 0; slot < slots_.size(); ++slot) {
        if (slots_[slot].count != 0) order.push_back({slots_[slot].key.low, slot});
    }
    std::sort(order.begin(), order.end(), [&](const Place& left, const Place& right) {
        if (left.low != right.low) return left.low < right.low;
        return is_before(slots_[left.slot], slots_[right.slot]);
    });
    std::vector<std::span<const Entry>> left;
    for (const SortedRun& run : runs_)
        left.emplace_back(run.entries());
    for (auto next = order.begin();;) {
        const Entry* first = next == order.end() ? nullptr : &slots_[next->slot];
        std::span<const Entry>* of_run = nullptr;
        for (std::span<const Entry>& run : left) {
            if (run.empty() || (first != nullptr && is_before(*first, run.front()))) continue;
            first = &run.front();
            of_run = &run;
        }
        if (first == nullptr) return Errc::ok;
        if (of_run != nullptr) {
            *of_run = of_run->subspan(1);
        } else {
            ++next;
        }
        WARREN_TRY(visit(*first));
    }
}

u64 EntryTable::count_if(const std::function<bool(const Entry&)>& is_so) const {
    u64 count = 0;
    for (const Entry& entry : slots_)
        count += entry.count != 0 && is_so(entry) ? 1 : 0;
    for (const SortedRun& run : runs_) {
        for (const Entry& entry : run.entries())
            count += is_so(entry) ? 1 : 0;
    }
    return count;
}

}  // namespace warren::dedup
