// SPDX-License-Identifier: Apache-2.0
// The options of chunk, similar and dedup for how files are split into chunks and digested.
#pragma once

#include <sys/stat.h>

#include <optional>

#include "apps/warren/arguments.hpp"
#include "apps/warren/hash_choice.hpp"
#include "warren/dedup.hpp"

namespace warren::cli {

enum SplittingOption : int {
    preset_option = 300,
    minimum_option,
    average_option,
    maximum_option,
    window_option,
    polynomial_option,
    seed_option,
    algorithm_option,
    work_threads_option,
    verbose_work_option,
};

std::vector<std::string_view> preset_choices();

#define WARREN_SPLITTING_OPTIONS                                                            \
    {preset_option, "preset", "NAME", "use content-defined chunks by this rule: {}",        \
     preset_choices},                                                                       \
        {minimum_option, "minimum", "SIZE", "minimum chunk size, instead of the preset's"}, \
        {average_option, "average", "SIZE",                                                 \
         "average chunk size, a power of two (lbfs, restic, fastcdc, gear, xet, "           \
         "borg)"},                                                                          \
        {maximum_option, "maximum", "SIZE", "maximum chunk size"},                          \
        {window_option, "window", "SIZE",                                                   \
         "size of the rolling window (lbfs, restic, borg, storegpu)"},                      \
        {polynomial_option, "polynomial", "HEX",                                            \
         "Rabin polynomial (restic: that of the repository)"},                              \
        {seed_option, "seed", "NUMBER", "seed of borg's table"},                            \
        {algorithm_option, "algorithm", "NAME", "digest: {} (default: blake3)",             \
         algorithm_choices},                                                                \
        {work_threads_option, "threads", "N",                                               \
         "number of threads (default: one for each processor)"},                            \
    {                                                                                       \
        verbose_work_option, "verbose", nullptr,                                            \
            "report whether the CPU or a GPU computes, and why"                             \
    }

/// The chunking rule of the options, which starts from a preset; nullopt, after an error message,
/// if they contradict each other.
std::optional<chunk::Rule> parse_rule(const Page& page, const Arguments& parsed,
                                      const char* otherwise);

/// Sets threads, algorithm and processor; false, after an error message, if the options are
/// invalid.
bool parse_work(const Page& page, const Arguments& parsed, dedup::Splitter& splitter);

/// Reports on stderr which processor computed: with --verbose in full, else only if a GPU was
/// requested and could not be used.
void tell_work(const Arguments& parsed, const dedup::Splitter& splitter,
               const dedup::ReadWork& work);

/// Opens a file for reading, "-" for standard input; returns -1 after an error message.
int open_input(const std::string& path);

/// Detects writes to a file since the construction of the watch, as far as its size and time show
/// them. The descriptor must stay open.
class ChangeWatch {
 public:
    explicit ChangeWatch(int descriptor);
    /// Whether the file was written to, reported in an error message; never for a pipe or a device.
    bool complains(const std::string& path) const;

 private:
    int descriptor_;
    bool is_file_;
    struct stat before_ = {};
};

}  // namespace warren::cli
