// SPDX-License-Identifier: Apache-2.0
// The host's memory for an examination: metadata and tables are one anonymous mapping, which costs
// memory only where it is written.
#pragma once

#include "fs/engine/examination.hpp"

namespace warren {

class ExamMemory {
 public:
    ExamMemory() = default;
    ~ExamMemory();
    ExamMemory(const ExamMemory&) = delete;
    ExamMemory& operator=(const ExamMemory&) = delete;

    /// Fills the tables in; the frames are to be loaded. Errc::no_memory.
    Errc open(const ExamTables& tables);
    /// Loads frame `index` of those to load.
    Errc load(u64 index, const ReadDisk& read) const;

    const ops::examine::Exam& exam() const { return exam_; }

 private:
    Errc map(u64 bytes);

    ops::examine::Exam exam_{};
    std::byte* data_ = nullptr;
    u64 bytes_ = 0;
};

}  // namespace warren
