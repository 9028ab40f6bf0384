// SPDX-License-Identifier: Apache-2.0
// Starts from a preset and applies the options. The library then validates the whole rule; its
// error text names the invalid value.
#include "apps/warren/splitting.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <charconv>
#include <cstdio>
#include <limits>

#include "apps/warren/hash_choice.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/units.hpp"
#include "base/last_error.hpp"

namespace warren::cli {

namespace {

/// Reports an invalid value and sets `good` to false.
struct Complaint {
    const Page& page;
    bool good = true;

    void operator()(std::initializer_list<std::string_view> parts) {
        if (good) static_cast<void>(usage_error(page, parts));
        good = false;
    }
};

std::optional<u64> size_value(const Arguments& parsed, int id, Complaint& complaint) {
    const std::string* text = parsed.value(id);
    if (text == nullptr) return std::nullopt;
    const std::optional<u64> size = parse_size(*text);
    if (!size) complaint({"invalid size ", quote(*text)});
    return size;
}

/// Sets the mask of a rule so that windows match once in `average_bytes`.
void set_average(chunk::Rule& rule, u64 average_bytes, Complaint& complaint) {
    if (!std::has_single_bit(average_bytes) || average_bytes < 2 || average_bytes > gib) {
        complaint({"the average ", std::to_string(average_bytes),
                   " is not a power of two between 2 and 1 GiB"});
        return;
    }
    if (rule.method == chunk::Method::fastcdc) {
        const Result<chunk::Rule> made = chunk::fastcdc_rule(average_bytes);
        if (!made) complaint({"fastcdc averages 256 bytes to 4 MiB"});
        if (made) rule = *made;
    } else if (rule.method == chunk::Method::gear) {
        rule.mask = ~u64{0} << (64 - std::countr_zero(average_bytes));
    } else {
        rule.mask = average_bytes - 1;
        rule.value &= rule.mask;
    }
}

void set_numbers(chunk::Rule& rule, const Arguments& parsed, Complaint& complaint) {
    if (const std::string* text = parsed.value(polynomial_option)) {
        const std::string_view digits =
            std::string_view(*text).substr(text->starts_with("0x") ? 2 : 0);
        const auto [end, error] =
            std::from_chars(digits.data(), digits.data() + digits.size(), rule.polynomial, 16);
        if (error != std::errc() || end != digits.data() + digits.size() || digits.empty())
            complaint({"invalid polynomial ", quote(*text), ": write it in hexadecimal"});
        if (rule.method != chunk::Method::rabin) complaint({"--polynomial is for lbfs and restic"});
    }
    if (const std::string* text = parsed.value(seed_option)) {
        const std::optional<u64> seed = parse_number(*text);
        if (!seed || *seed > std::numeric_limits<u32>::max())
            complaint({"invalid seed ", quote(*text), ": a number below 2^32"});
        if (seed) rule.seed = static_cast<u32>(*seed);
        if (rule.method != chunk::Method::buzhash) complaint({"--seed is for borg"});
    }
}

}  // namespace

std::vector<std::string_view> preset_choices() {
    const auto names = chunk::preset_names();
    return {names.begin(), names.end()};
}

std::optional<chunk::Rule> parse_rule(const Page& page, const Arguments& parsed,
                                      const char* otherwise) {
    Complaint complaint{page};
    const std::string* given = parsed.value(preset_option);
    const std::string name = given != nullptr ? *given : otherwise;
    const Result<chunk::Rule> preset = chunk::preset(name);
    if (!preset) {
        complaint({"unknown preset ", quote(name), ": there are ", listed(preset_choices())});
        return std::nullopt;
    }
    chunk::Rule rule = *preset;
    if (const auto size = size_value(parsed, average_option, complaint))
        set_average(rule, *size, complaint);
    if (const auto size = size_value(parsed, minimum_option, complaint)) rule.minimum_bytes = *size;
    if (const auto size = size_value(parsed, maximum_option, complaint)) rule.maximum_bytes = *size;
    if (const auto size = size_value(parsed, window_option, complaint))
        rule.window_bytes = static_cast<u32>(std::min<u64>(*size, std::numeric_limits<u32>::max()));
    set_numbers(rule, parsed, complaint);
    // A chunk is held in memory as a whole.
    if (rule.maximum_bytes > gib) complaint({"the maximum is larger than 1 GiB"});
    if (!complaint.good) return std::nullopt;
    if (const std::string problem = chunk::describe_problem(rule); !problem.empty()) {
        complaint({problem, rule.polynomial == 0 && rule.method == chunk::Method::rabin
                                ? ": give --polynomial ('restic cat config' shows it)"
                                : ""});
        return std::nullopt;
    }
    return rule;
}

bool parse_work(const Page& page, const Arguments& parsed, dedup::Splitter& splitter) {
    Complaint complaint{page};
    if (const std::string* text = parsed.value(algorithm_option)) {
        const std::optional<hash::Algorithm> algorithm = hash::algorithm_by_name(*text);
        if (!algorithm) {
            complaint(
                {"unknown algorithm ", quote(*text), ": there are ", listed(algorithm_choices())});
        } else {
            splitter.algorithm = *algorithm;
        }
    }
    if (const std::string* text = parsed.value(work_threads_option)) {
        const std::optional<u64> threads = parse_number(*text);
        if (!threads || *threads == 0 || *threads > 1024) {
            complaint({"invalid number of threads ", quote(*text), ": 1 to 1024"});
        } else {
            splitter.threads = static_cast<u32>(*threads);
        }
    }
    return complaint.good && choose_processor(splitter.processor);
}

void tell_work(const Arguments& parsed, const dedup::Splitter& splitter,
               const dedup::ReadWork& work) {
    const bool was_asked = splitter.processor == hash::Processor::gpu;
    if (!work.note.empty() && (was_asked || parsed.has(verbose_work_option)))
        remark({program(), ": ", work.note});
    if (!parsed.has(verbose_work_option)) return;
    char text[128];
    if (work.asked_bytes != 0) {
        std::snprintf(text, sizeof text,
                      "predicted %.3f s on the CPU, %.3f s on the GPU, which took %.3f s to start",
                      work.predicted_cpu_seconds, work.predicted_gpu_seconds, work.startup_seconds);
        remark({program(), ": ", long_size(work.asked_bytes), ": ", text});
    }
    if (work.gpu_bytes == 0) return remark({program(), ": the CPU did all of it"});
    std::snprintf(text, sizeof text, "%.3f s", work.gpu_seconds);
    remark({program(), ": the GPU took ", text, " for ", long_size(work.gpu_bytes)});
}

int open_input(const std::string& path) {
    if (path == "-") return ::dup(STDIN_FILENO);
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status;
    Errc code = file < 0 ? last_error() : Errc::ok;
    if (file >= 0 && ::fstat(file, &status) == 0 && S_ISDIR(status.st_mode))
        code = Errc::is_directory;
    if (code == Errc::ok) return file;
    complain({quote(path), ": ", reason(code)});
    if (file >= 0) ::close(file);
    return -1;
}

ChangeWatch::ChangeWatch(int descriptor) : descriptor_(descriptor) {
    is_file_ = ::fstat(descriptor, &before_) == 0 && S_ISREG(before_.st_mode);
}

bool ChangeWatch::complains(const std::string& path) const {
    struct stat after;
    if (!is_file_ || ::fstat(descriptor_, &after) != 0) return false;
    if (before_.st_size == after.st_size && before_.st_mtim.tv_sec == after.st_mtim.tv_sec &&
        before_.st_mtim.tv_nsec == after.st_mtim.tv_nsec) {
        return false;
    }
    complain({quote(path), ": changed while it was read; run again"});
    return true;
}

}  // namespace warren::cli
