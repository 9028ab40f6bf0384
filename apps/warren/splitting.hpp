// SPDX-License-Identifier: Apache-2.0
// The options by which chunk, similar and dedup are told how files are cut and digested.
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
    threads_option,
    verbose_work_option,
};

std::vector<std::string_view> preset_choices();

#define WARREN_SPLITTING_OPTIONS                                                                   \
    {preset_option, "preset", "NAME", "content-defined chunks by this rule: {}", preset_choices},  \
        {minimum_option, "minimum", "SIZE", "shortest chunk, in place of the preset's"},           \
        {average_option, "average", "SIZE",                                                        \
         "chunks of this size on average, a power of two (lbfs, restic, fastcdc, gear, xet, "      \
         "borg)"},                                                                                 \
        {maximum_option, "maximum", "SIZE", "longest chunk"},                                      \
        {window_option, "window", "SIZE",                                                          \
         "bytes that a cut depends on (lbfs, restic, borg, storegpu)"},                            \
        {polynomial_option, "polynomial", "HEX",                                                   \
         "polynomial of rabin (restic: that of the repository)"},                                  \
        {seed_option, "seed", "NUMBER", "seed of borg's table"},                                   \
        {algorithm_option, "algorithm", "NAME", "digest: {} (default: blake3)",                    \
         algorithm_choices},                                                                       \
        {threads_option, "threads", "N", "threads that work (default: one for each processor)"}, { \
        verbose_work_option, "verbose", nullptr, "say whether the CPU or a GPU computes, and why"  \
    }

/// The rule that the options give, beginning with a preset; nothing, with a complaint, if they
/// contradict themselves.
std::optional<chunk::Rule> parse_rule(const Page& page, const Arguments& parsed,
                                      const char* otherwise);

/// Sets threads, algorithm and processor; false, with a complaint, if they make no sense.
bool parse_work(const Page& page, const Arguments& parsed, dedup::Splitter& splitter);

/// Says on stderr who computed: with --verbose all of it, else only what was asked of a GPU and
/// could not be had.
void tell_work(const Arguments& parsed, const dedup::Splitter& splitter,
               const dedup::ReadWork& work);

/// Opens a file to read, "-" for standard input; -1 with a complaint.
int open_input(const std::string& path);

/// Notices that a file is written to from the watch's beginning on, as far as its size and time
/// tell. The descriptor must stay open.
class ChangeWatch {
 public:
    explicit ChangeWatch(int descriptor);
    /// Whether it was, with a complaint; never for a pipe or a device.
    bool complains(const std::string& path) const;

 private:
    int descriptor_;
    bool is_file_;
    struct stat before_ = {};
};

}  // namespace warren::cli
