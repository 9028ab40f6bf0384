// SPDX-License-Identifier: Apache-2.0
// Each round measures all access methods in turn, and each method is judged by its best round,
// because other load on the machine may slow down single rounds.
#include "fs/disk/choose_access.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/stopwatch.hpp"
#include "fs/format/layout.hpp"

namespace warren {
namespace {

using format::Block;
using format::block_size;

constexpr u64 sample_blocks = 32;
constexpr u32 rounds = 3;
// No further round begins after this time, so a slow disk is judged by fewer rounds.
constexpr u64 patience_ns = 150'000'000;

/// Blocks spread over a range. Writes put back the bytes that the first round read.
class Sample {
 public:
    Sample(FileDisk& disk, u64 offset, u64 length_bytes)
        : disk_(disk),
          offset_(offset),
          length_bytes_(length_bytes),
          blocks_(std::make_unique<Block[]>(sample_blocks)) {
        const u64 stride = length_bytes / block_size / sample_blocks * block_size;
        for (u64 i = 0; i < sample_blocks; ++i) {
            const std::span<Block> one(&blocks_[i], 1);
            reads_.push_back({offset + i * stride, std::as_writable_bytes(one)});
            writes_.push_back({offset + i * stride, std::as_bytes(one)});
        }
    }

    /// One round with the current access of `disk`; `measure` keeps the lowest times so far.
    Errc run(WriteHabit habit, AccessMeasure& measure) {
        disk_.drop_cached(offset_, length_bytes_);
        WARREN_TRY(time(measure.read_ns, [&] { return disk_.read_many(reads_); }));
        if (habit == WriteHabit::none) return Errc::ok;
        WARREN_TRY(time(measure.durable_ns, [&] {
            const Errc written = disk_.write_many(writes_);
            return written == Errc::ok ? disk_.flush() : written;
        }));
        if (habit == WriteHabit::many) return Errc::ok;
        WARREN_TRY(time(measure.write_ns, [&] { return disk_.Disk::write_many(writes_); }));
        return disk_.flush();
    }

 private:
    template <class Work>
    static Errc time(u64& best_ns, const Work& work) {
        const Stopwatch watch;
        WARREN_TRY(work());
        const u64 spent = watch.nanoseconds();
        best_ns = best_ns == 0 ? spent : std::min(best_ns, spent);
        return Errc::ok;
    }

    FileDisk& disk_;
    const u64 offset_;
    const u64 length_bytes_;
    std::unique_ptr<Block[]> blocks_;
    std::vector<DiskRead> reads_;
    std::vector<DiskWrite> writes_;
};

std::string microseconds(u64 nanoseconds) {
    return std::to_string((nanoseconds + 500) / 1000) + " us";
}

bool is_faster(const AccessMeasure& one, const AccessMeasure& than) {
    // Plain access needs no extra memory: another must be faster by a tenth to replace it.
    const u64 credit = than.access == DiskAccess::plain ? 9 : 10;
    return one.refusal.empty() && one.total_ns() * 10 < than.total_ns() * credit;
}

}  // namespace

std::string AccessChoice::text() const {
    std::string text(name_of(access));
    if (!is_measured) return text + " (the file lies in memory)";
    text += " (";
    for (const AccessMeasure& measure : measures) {
        if (&measure != &measures.front()) text += "; ";
        text += std::string(name_of(measure.access)) + ": ";
        if (!measure.refusal.empty()) {
            text += measure.refusal;
            continue;
        }
        text += "32 blocks read in " + microseconds(measure.read_ns);
        if (measure.durable_ns == 0) continue;
        text += ", written and flushed in " + microseconds(measure.durable_ns);
        if (measure.write_ns == 0) continue;
        text += ", written one by one in " + microseconds(measure.write_ns);
    }
    return text + ")";
}

DiskAccess fastest_of(const std::array<AccessMeasure, 3>& measures) {
    const AccessMeasure* best = &measures[0];
    for (const AccessMeasure& measure : measures) {
        if (is_faster(measure, *best)) best = &measure;
    }
    return best->access;
}

AccessChoice choose_access(FileDisk& disk, WriteHabit habit, u64 offset, u64 length_bytes) {
    AccessChoice choice;
    // A file in memory has no access time to measure; a short range has too few blocks.
    if (disk.is_in_memory() || length_bytes < 2 * sample_blocks * block_size) return choice;
    Sample sample(disk, offset, length_bytes);
    // The first round is not counted: it includes one-time costs.
    AccessMeasure first;
    if (sample.run(habit, first) != Errc::ok) return choice;
    const Stopwatch watch;
    for (u32 round = 0; round < rounds && watch.nanoseconds() < patience_ns; ++round) {
        for (AccessMeasure& measure : choice.measures) {
            if (!measure.refusal.empty()) continue;
            if (disk.use(measure.access, measure.refusal) != Errc::ok) continue;
            if (sample.run(habit, measure) != Errc::ok) measure.refusal = "its requests fail";
        }
    }
    choice.is_measured = true;
    const DiskAccess best = fastest_of(choice.measures);
    std::string why;
    choice.access = disk.use(best, why) == Errc::ok ? best : disk.access();
    return choice;
}

}  // namespace warren
