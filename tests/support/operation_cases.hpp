// SPDX-License-Identifier: Apache-2.0
// One of each operation of a volume, on a volume made for them: tests run each as often as it
// takes to let everything that it needs fail once.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/memory_disk.hpp"
#include "warren/volume.hpp"

namespace warren {

/// What an operation works on.
struct OperationPlace {
    Volume& volume;
    Handle root;
    Handle directory;
    Handle file;   // open, in blocks
    Handle small;  // open, in the inode
};

struct OperationCase {
    const char* name;
    std::function<Errc(OperationPlace&)> run;
    /// Whether it is one transaction: done or not.
    bool is_whole = true;
    bool is_many = false;  // does its work thousands of times
};

/// Makes what the operations work on.
void make_operation_base(Volume& volume);
/// Finds that again, and opens the files.
OperationPlace open_operation_place(Volume& volume);
void release_operation_place(OperationPlace& place);

std::vector<OperationCase> operation_cases();

/// All that a volume shows, as a text.
std::string shown_by(Volume& volume);

/// How the volume of a test is opened.
struct OperationWay {
    const char* name;
    std::string engine;
    OpenOptions options;
};

/// A disk with what the operations work on, for copies on which each is done.
class OperationBase {
 public:
    /// `way` outlives this.
    explicit OperationBase(const OperationWay& way);

    std::unique_ptr<MemoryDisk> copy() const { return disk_->copy(); }
    /// What the disk asks of memory is not counted.
    std::unique_ptr<Volume> open(Disk& disk) const;
    /// What the volume on `disk` shows.
    std::string shown(Disk& disk) const;
    /// What the base shows.
    const std::string& before() const { return before_; }

 private:
    const OperationWay& way_;
    std::unique_ptr<MemoryDisk> disk_;
    std::string before_;
};

}  // namespace warren
