// SPDX-License-Identifier: Apache-2.0
// What a benchmark hands to people: a table on the terminal and the same rows as CSV with what is
// needed to run it again (machine, date, commit, command).
//
// Invariant: every row names the median, the extremes and the number of runs; a ratio is always
// the row's time for each item divided by that of its scenario's reference, so below 1 is faster.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "warren/types.hpp"

namespace warren::bench {

/// Seconds of each run of one measurement.
class Sample {
 public:
    void add(double seconds) { seconds_.push_back(seconds); }
    bool empty() const { return seconds_.empty(); }
    std::size_t runs() const { return seconds_.size(); }
    double median() const;
    double fastest() const;
    double slowest() const;

 private:
    std::vector<double> seconds_;
};

/// Where results go: the folder that WARREN_RESULTS names, bench/results if it is unset.
std::filesystem::path results_folder();

/// Exits the program with a message that names what could not be done.
[[noreturn]] void die(const std::string& what);
/// Exits the program unless `condition` holds.
void require(bool condition, const std::string& what);

/// Seconds since some point in the past.
double now_seconds();

/// The seconds that `work()` takes.
template <class Work>
double time_of(const Work& work) {
    const double start = now_seconds();
    work();
    return now_seconds() - start;
}

class Report {
 public:
    /// `question` names the CSV file unless name_file() does; `arguments` are the program's.
    Report(std::string question, int argument_count, char** arguments);

    /// One run of `subject` (a program or a method) in `scenario` over `items` things or bytes.
    void add(const std::string& scenario, const std::string& subject, double seconds, double items);
    /// Ratios of the scenario are given to this subject's median.
    void set_reference(const std::string& scenario, const std::string& subject);
    /// Rows of the CSV file that this run does not measure stay in it, with their origin.
    void keep_others() { keeps_others_ = true; }
    /// The CSV file is <file>.csv: another machine's figures have one of their own.
    void name_file(std::string file) { file_ = std::move(file); }
    /// A number that is not a time, printed under the table.
    void note(const std::string& text);
    /// A bound of the goals: `value` must be at least `bound`.
    void must(const std::string& what, double value, double bound);

    double median(const std::string& scenario, const std::string& subject) const;
    /// Prints all and writes the CSV file into the folder WARREN_RESULTS names, bench/results if it
    /// is unset. The exit code of the program: 0, or 1 if a must was missed.
    int finish() const;

 private:
    struct Row {
        std::string scenario;
        std::string subject;
        double items = 0;
        Sample sample;
    };
    struct Must {
        std::string what;
        double value = 0;
        double bound = 0;
    };

    const Row* find(const std::string& scenario, const std::string& subject) const;
    double ratio_of(const Row& row) const;
    void print() const;
    void write_csv(const std::string& path) const;
    std::vector<std::string> others_of(const std::string& path) const;

    bool keeps_others_ = false;
    std::string question_;
    std::string file_;
    std::string command_;
    std::vector<Row> rows_;
    std::vector<Must> musts_;
    std::vector<std::string> notes_;
    std::map<std::string, std::string> references_;
};

}  // namespace warren::bench
