// SPDX-License-Identifier: Apache-2.0
// Host memory for a quick check: one anonymous mapping for metadata and tables, of which only
// written pages take memory.
#pragma once

#include "base/reserved_range.hpp"
#include "fs/engine/examination.hpp"

namespace warren {

class ExamMemory {
 public:
    /// Allocates the memory and fills in the tables. Errc::no_memory; Errc::corrupt if the root or
    /// the orphan directory does not lie in an inode frame.
    Errc open(const ExamTables& tables);
    /// Loads the frame ExamTables::frame_numbers[index].
    Errc load(u64 index, const ReadDisk& read) const;

    const ops::examine::Exam& exam() const { return exam_; }

 private:
    ReservedRange memory_;
    ops::examine::Exam exam_{};
};

}  // namespace warren
