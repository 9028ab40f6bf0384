// SPDX-License-Identifier: Apache-2.0
// The seven programs of the seed's table 5.2, run for real: find, sqlite, sort, tar, untar, sha,
// leveldb. Each works on files of its own below one folder, so that one can be cold while another
// is warm.
#pragma once

#include <string>
#include <vector>

#include "warren/types.hpp"

namespace warren::bench {

struct Trace {
    std::string name;
    std::vector<std::string> words;  // the program, to be run again and again
    std::vector<std::string> wake;   // brings it into memory and does nothing with the files
    std::string writes;              // what it makes and what must go before it runs again
};

/// The traces that can run here; `absent` names the others and what they need.
std::vector<Trace> traces_in(const std::string& folder, std::string& absent);

/// Creates in `folder` the files that the traces read: about 150 MiB.
void make_trace_inputs(const std::string& folder);

/// Removes the files that a trace has created.
void remove_output(const Trace& trace);

/// The main function of the leveldb trace, which is a program of its own: fills a database in
/// `folder` and reads it. The exit code.
int run_leveldb(const std::string& folder);

}  // namespace warren::bench
