// SPDX-License-Identifier: Apache-2.0
// The mapping starts as zeros, which is the initial state of most tables.
#include "fs/engine/cpu/exam_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace warren {
namespace {

/// For less memory, huge pages cost more time than they save.
constexpr u64 huge_bytes_min = 64 * mib;

template <class T>
u64 bytes_of(const T* /*table*/, u64 count) {
    return (count * sizeof(T) + 63) / 64 * 64;
}

template <class T>
void copy_table(T* to, const std::vector<T>& from) {
    std::copy(from.begin(), from.end(), to);
}

}  // namespace

Errc ExamMemory::open(const ExamTables& tables) {
    exam_.facts = tables.facts;
    exam_.inode_frames = tables.inode_frames;
    exam_.frames = static_cast<u32>(tables.frame_numbers.size());
    const u64 loaded = exam_.frames * format::frame_size;
    u64 bytes = loaded;
    lay_out(exam_, [&](auto*& table, u64 count) { bytes += bytes_of(table, count); });
    memory_ = ReservedRange(bytes);
    exam_.base = memory_.data();
    if (exam_.base == nullptr) return Errc::no_memory;
    if (bytes >= huge_bytes_min) static_cast<void>(::madvise(exam_.base, bytes, MADV_HUGEPAGE));
    u64 at = loaded;
    lay_out(exam_, [&](auto*& table, u64 count) {
        table = reinterpret_cast<std::remove_reference_t<decltype(table)>>(exam_.base + at);
        at += bytes_of(table, count);
    });
    copy_table(exam_.frame_numbers, tables.frame_numbers);
    copy_table(exam_.slots, tables.slots);
    copy_table(exam_.kinds, tables.kinds);
    copy_table(exam_.used, tables.used);
    copy_table(exam_.owned, tables.owned);
    copy_table(exam_.counted, tables.counted);
    std::memset(exam_.parents, 0xff, exam_.inode_slots() * sizeof *exam_.parents);
    for (const u64 number : {exam_.facts.root_inode, exam_.facts.orphan_directory}) {
        const u32 ordinal = exam_.ordinal_of(number);
        if (ordinal == ops::examine::nobody) return Errc::corrupt;
        exam_.parents[ordinal] = ordinal;
    }
    return Errc::ok;
}

Errc ExamMemory::load(u64 index, const ReadDisk& read) const {
    const std::span target(exam_.base + index * format::frame_size, format::frame_size);
    return read(exam_.frame_numbers[index] * format::frame_size, target);
}

}  // namespace warren
