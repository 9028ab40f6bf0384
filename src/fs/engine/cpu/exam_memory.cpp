// SPDX-License-Identifier: Apache-2.0
// The mapping starts as zeros, which is the initial state of most tables.
#include "fs/engine/cpu/exam_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/array_layout.hpp"

namespace warren {
namespace {

/// For less memory, huge pages cost more time than they save.
constexpr u64 huge_bytes_min = 64 * mib;

}  // namespace

Errc ExamMemory::open(const ExamTables& tables) {
    exam_.facts = tables.facts;
    exam_.inode_frames = tables.inode_frames;
    exam_.frames = static_cast<u32>(tables.frame_numbers.size());
    ArrayLayout count;
    lay_out(exam_, count);
    const u64 bytes = count.bytes();
    memory_ = ReservedRange(bytes);
    if (memory_.data() == nullptr) return Errc::no_memory;
    if (bytes >= huge_bytes_min) {
        static_cast<void>(::madvise(memory_.data(), bytes, MADV_HUGEPAGE));
    }
    lay_out(exam_, ArrayLayout(memory_.data()));
    std::ranges::copy(tables.frame_numbers, exam_.frame_numbers);
    std::ranges::copy(tables.slots, exam_.slots);
    std::ranges::copy(tables.kinds, exam_.kinds);
    std::ranges::copy(tables.used, exam_.used);
    std::ranges::copy(tables.owned, exam_.owned);
    std::ranges::copy(tables.counted, exam_.counted);
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
