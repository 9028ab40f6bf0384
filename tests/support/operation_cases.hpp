// SPDX-License-Identifier: Apache-2.0
// One case for each operation of a volume, on a volume prepared for them: tests repeat each until
// everything that it needs has failed once.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/memory_disk.hpp"
#include "warren/volume.hpp"

namespace warren {

/// The objects that the operations work on.
struct OperationPlace {
    Volume& volume;
    Handle root;
    Handle directory;
    Handle file;    // open, in blocks
    Handle small;   // open, in the inode
    Handle shared;  // open, in blocks that other files have too, and twice in this one
};

struct OperationCase {
    const char* name;
    std::function<Errc(OperationPlace&)> run;
    /// Whether it is one transaction: done completely or not at all.
    bool is_whole = true;
    bool is_many = false;  // repeats its work thousands of times
};

/// Creates the objects that the operations work on.
void make_operation_base(Volume& volume);
/// Finds these objects again, and opens the files. With deduplication, waits until the index knows
/// the volume's contents.
OperationPlace open_operation_place(Volume& volume);
void release_operation_place(OperationPlace& place);

/// The operations to run on a volume opened with `dedup`: all, or those that write contents.
std::vector<OperationCase> operation_cases(Dedup dedup = Dedup::off);

/// Everything that a volume shows, as text.
std::string shown_by(Volume& volume);

/// How a test opens its volumes.
struct OperationWay {
    const char* name;
    std::string engine;
    OpenOptions options;
};

/// All metadata in memory or not, contents in the journal, an engine with memory of its own, and
/// deduplication of writes.
std::vector<OperationWay> operation_ways();

/// A disk with the objects that the operations work on; each operation runs on a copy.
class OperationBase {
 public:
    /// `way` must outlive this object.
    explicit OperationBase(const OperationWay& way);

    std::unique_ptr<MemoryDisk> copy() const { return disk_->copy(); }
    /// Memory that the disk allocates is not counted.
    std::unique_ptr<Volume> open(Disk& disk) const;
    /// The text for the volume on `disk`.
    std::string shown(Disk& disk) const;
    /// The text for the base.
    const std::string& before() const { return before_; }

 private:
    const OperationWay& way_;
    std::unique_ptr<MemoryDisk> disk_;
    std::string before_;
};

}  // namespace warren
