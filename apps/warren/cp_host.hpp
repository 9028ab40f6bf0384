// SPDX-License-Identifier: Apache-2.0
// Where the operands of cp are copied to on the host: the rules of cp(1) on existing targets,
// trailing slashes and links on the command line. copy_tree.hpp does the copying.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "apps/warren/copy_tree.hpp"

namespace warren::cli {

/// The number of `--verify` in the option tables.
inline constexpr int verify_option = 257;

class HostCopy {
 public:
    /// `must_be_directory`: the target must be a directory, into which the sources go. `is_name`:
    /// the target is never taken as such a directory.
    HostCopy(CopyRun& run, std::string target, bool must_be_directory, bool is_name);

    /// Copies all sources, together with all ranks; false if anything could not be copied, which
    /// has been reported.
    bool all(const std::vector<std::string>& sources);
    bool was_interrupted() const { return was_interrupted_; }

 private:
    bool find_target();
    bool decide(const std::vector<std::string>& sources, std::string& pairs);
    std::string plan(const std::vector<std::string>& sources);
    void plan_one(const std::string& source, std::string& pairs);
    bool copies_stream(const std::string& source, const struct stat& from, std::string& target);
    void copy_through(const std::string& source, const std::string& target, u32 mode);

    CopyRun& run_;
    std::string target_;
    bool must_be_directory_;
    bool is_name_;
    bool into_ = false;
    u64 refused_ = 0;  // operands that were refused
    bool was_interrupted_ = false;
    std::string links_folder_;
    std::set<std::string> made_;
};

/// The directory part of the path.
std::string folder_of(std::string_view path);

}  // namespace warren::cli
