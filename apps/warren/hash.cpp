// SPDX-License-Identifier: Apache-2.0
// warren hash: prints digests of files and trees in the format of sha256sum and b3sum, checks lists
// of them, and computes direct hashes and sliding windows.
#include <algorithm>
#include <charconv>
#include <optional>

#include "apps/warren/arguments.hpp"
#include "apps/warren/checksum_line.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/hash_check.hpp"
#include "apps/warren/hash_ranks.hpp"
#include "apps/warren/host_checkpoint.hpp"
#include "apps/warren/json.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/ranks.hpp"
#include "apps/warren/units.hpp"

namespace warren::cli {

namespace {

constexpr int direct_option = 256;
constexpr int windows_option = 257;
constexpr int kept_option = 258;
constexpr int zero_bits_option = 259;
constexpr int tag_option = 260;
constexpr int quiet_option = 261;
constexpr int status_option = 262;
constexpr int strict_option = 263;
constexpr int missing_option = 264;
constexpr int verbose_option = 265;

constexpr Option hash_options[] = {
    {'a', "algorithm", "NAME", "digest: {} (default: blake3)", algorithm_choices},
    {'c', "check", nullptr, "read checksum lists and check the files listed"},
    {direct_option, "direct", "BYTES", "compute the direct hash over pieces of BYTES (0: 4096)"},
    {windows_option, "windows", "WIDTH/STRIDE",
     "print the digest of every sliding window, with its offset"},
    {kept_option, "keep", "BYTES", "with --windows: print only BYTES bytes of each digest"},
    {zero_bits_option, "zero-bits", "BITS",
     "with --windows: print only offsets at which BITS low bits are zero"},
    {'t', "threads", "N", "number of CPU threads (default: one for each core)"},
    {json_option, "json", nullptr,
     "print one object per line: path, algorithm, digest; with --check: path, ok"},
    {tag_option, "tag", nullptr, "print lines in the format of the BSD tools"},
    {'z', "zero", nullptr, "end lines with a zero byte, escape no names"},
    {missing_option, "ignore-missing", nullptr, "with --check: skip missing files"},
    {quiet_option, "quiet", nullptr, "with --check: print nothing for files that match"},
    {status_option, "status", nullptr, "with --check: print nothing; only set the exit status"},
    {strict_option, "strict", nullptr, "with --check: exit non-zero on malformed lines"},
    {'w', "warn", nullptr, "with --check: warn of malformed lines"},
    {verbose_option, "verbose", nullptr, "report whether the CPU or a GPU computes, and why"},
    WARREN_MEMORY_OPTION,
    {rate_option, "max-ops", "N", "at most N opens, reads and stats per second"},
    {errors_option, "errors", "FILE", "write failures to FILE, one JSON object per line"},
    {progress_option, "progress", nullptr, "show progress even if stderr is not a terminal"},
    WARREN_CHECKPOINT_OPTIONS,
    {'b', "binary", nullptr, nullptr},
};

constexpr Page hash_page = {
    .usage = "[OPTION]... [FILE|DIRECTORY]...",
    .summary =
        "Print the digests of files, and of all files in directories in sorted order: "
        "IMAGE:/path inside a volume that is not mounted, or a path of the host. Without "
        "FILE, or if it is -, read standard input.",
    .options = hash_options,
    .notes =
        "Under mpirun each process hashes a share of the files; the order of the lines is the "
        "same. With --checkpoint (files of the host only), digests are saved as they are "
        "computed, and printed when all are complete; a file that has changed since is hashed "
        "again.\n\n"
        "With --engine=cuda a GPU computes. With auto it does so from 2 GiB on if it is "
        "predicted to finish first; a long file is never hashed there except with blake3.\n\n"
        "A direct hash (md5, sha1 or sha256) is the parallel construction of StoreGPU, not "
        "the standard digest. MD5 and SHA-1 can be forged, and XXH3 gives no protection at "
        "all: use BLAKE3 or SHA-256 against deliberate changes.",
    .examples =
        "  warren hash -a sha256 *.iso > SHA256SUMS\n"
        "  warren hash -c SHA256SUMS -a sha256\n"
        "  warren hash v.img:/backup\n"
        "  warren hash -a sha1 --windows 48/1 --zero-bits 13 disk.img",
    .see_also = "b3sum(1), sha256sum(1)",
    .opens_images = true,
    .chooses_processor = true,
};

/// Parses the value of a numeric option; false, after an error message, if it is invalid.
bool read_number(const Arguments& parsed, int id, const char* what, u64& value) {
    const std::string* text = parsed.value(id);
    if (text == nullptr) return true;
    const char* const end = text->data() + text->size();
    const auto [stop, failure] = std::from_chars(text->data(), end, value);
    if (failure == std::errc() && stop == end && !text->empty()) return true;
    usage_error(hash_page, {"invalid ", what, ": ", quote(*text)});
    return false;
}

struct Settings {
    hash::Algorithm algorithm = hash::Algorithm::blake3;
    HashOptions files;
    hash::Windows windows;
    bool has_windows = false;
    u64 kept_bytes = 0;
    u64 zero_bits = 0;
    bool is_verbose = false;
};

bool read_windows(const Arguments& parsed, Settings& settings) {
    const std::string* text = parsed.value(windows_option);
    if (text == nullptr) return true;
    settings.has_windows = true;
    settings.windows.algorithm = settings.algorithm;
    const char* const end = text->data() + text->size();
    auto [stop, failure] = std::from_chars(text->data(), end, settings.windows.window_bytes);
    if (failure == std::errc() && stop != end && *stop == '/') {
        const auto second = std::from_chars(stop + 1, end, settings.windows.stride_bytes);
        stop = second.ptr;
        failure = second.ec;
    }
    if (failure == std::errc() && stop == end && settings.windows.window_bytes > 0 &&
        settings.windows.stride_bytes > 0) {
        return true;
    }
    usage_error(hash_page,
                {"invalid windows: ", quote(*text), "; write WIDTH/STRIDE, such as 48/1"});
    return false;
}

bool read_settings(const Arguments& parsed, Settings& settings) {
    if (const std::string* text = parsed.value('a')) {
        const auto algorithm = hash::algorithm_by_name(*text);
        if (!algorithm) {
            usage_error(hash_page, {"unknown algorithm ", quote(*text), ": there are ",
                                    listed(algorithm_choices())});
            return false;
        }
        settings.algorithm = *algorithm;
    }
    u64 threads = 0;
    u64 piece_bytes = 0;
    settings.kept_bytes = hash::digest_bytes(settings.algorithm);
    if (!read_number(parsed, 't', "number of threads", threads)) return false;
    if (!read_number(parsed, direct_option, "piece size", piece_bytes)) return false;
    if (!read_number(parsed, kept_option, "number of bytes", settings.kept_bytes)) return false;
    if (!read_number(parsed, zero_bits_option, "number of bits", settings.zero_bits)) return false;
    if (!choose_processor(settings.files.processor)) return false;
    settings.is_verbose = parsed.has(verbose_option);
    settings.files.threads = static_cast<u32>(std::min<u64>(threads, 1024));
    if (parsed.has(direct_option)) {
        if (settings.algorithm > hash::Algorithm::sha256) {
            usage_error(hash_page, {"a direct hash is made of md5, sha1 or sha256; ",
                                    hash::name(settings.algorithm), " is parallel as it is"});
            return false;
        }
        settings.files.direct_piece_bytes =
            piece_bytes == 0 ? hash::direct_piece_bytes : piece_bytes;
    }
    if (settings.kept_bytes == 0 || settings.kept_bytes > hash::digest_bytes(settings.algorithm)) {
        usage_error(hash_page,
                    {"a digest of ", hash::name(settings.algorithm), " has 1 to ",
                     std::to_string(hash::digest_bytes(settings.algorithm)), " bytes to keep"});
        return false;
    }
    if (parsed.has(zero_bits_option) && (settings.zero_bits == 0 || settings.zero_bits > 32)) {
        usage_error(hash_page, {"the number of zero bits must be from 1 to 32"});
        return false;
    }
    return read_windows(parsed, settings);
}

Errc print_matches(const Settings& settings, hash::Bytes contents) {
    const u64 count = hash::window_count(settings.windows, contents.size());
    std::vector<u64> bitmap((count + 63) / 64);
    const Errc code =
        hash::match_windows(settings.windows, contents, static_cast<u32>(settings.zero_bits),
                            bitmap, {settings.files.threads, settings.files.processor});
    if (code != Errc::ok) return code;
    for (u64 i = 0; i < count; ++i) {
        if ((bitmap[i / 64] >> i % 64 & 1) != 0) {
            print_line({std::to_string(i * settings.windows.stride_bytes)});
        }
    }
    return Errc::ok;
}

Errc print_digests(const Settings& settings, hash::Bytes contents) {
    // In parts, so that digests that are longer than the data need little memory.
    constexpr u64 part_windows = 1 << 20;
    const u64 count = hash::window_count(settings.windows, contents.size());
    const u64 stride = settings.windows.stride_bytes;
    for (u64 first = 0; first < count; first += part_windows) {
        const u64 windows = std::min(count - first, part_windows);
        const hash::Bytes part = contents.subspan(
            first * stride, (windows - 1) * stride + settings.windows.window_bytes);
        std::vector<u8> digests(windows * settings.kept_bytes);
        const Errc code =
            hash::hash_windows(settings.windows, part, static_cast<u32>(settings.kept_bytes),
                               digests, {settings.files.threads, settings.files.processor});
        if (code != Errc::ok) return code;
        for (u64 i = 0; i < windows; ++i) {
            const auto digest =
                std::span(digests).subspan(i * settings.kept_bytes, settings.kept_bytes);
            print_line({hex_of(digest), "  ", std::to_string((first + i) * stride)});
        }
    }
    return Errc::ok;
}

void complain_of_change(const HashJob& job) {
    complain({quote_if_needed(job.location.text), ": changed while it was read; run again"});
}

/// Returns the exit code of the command.
int print_windows(Session& session, const std::vector<std::string>& operands, Settings settings) {
    constexpr u64 least_bytes_for_gpu = 64 * mib;  // for which initialising a GPU pays
    const hash::Processor asked = settings.files.processor;
    bool good = true;
    HashJobs jobs(settings.files.list_bytes);
    for (const std::string& operand : operands) {
        if (!add_hash_jobs(session, operand, settings.files, settings.algorithm, jobs))
            good = false;
    }
    for (HashJob job; jobs.next(job);) {
        std::vector<std::byte> contents;
        bool changed = false;
        Errc code = read_whole(job, contents, changed);
        const bool is_small = contents.size() < least_bytes_for_gpu;
        if (asked == hash::Processor::automatic)
            settings.files.processor = is_small ? hash::Processor::cpu : asked;
        if (code == Errc::ok) {
            code = settings.zero_bits != 0 ? print_matches(settings, contents)
                                           : print_digests(settings, contents);
        }
        if (code == Errc::ok && changed) {
            complain_of_change(job);
            good = false;
        }
        if (code == Errc::ok) continue;
        complain(
            {quote_if_needed(job.location.text), ": ", reason(code), missing_hint(job.location)});
        settings.files.failures->add({job.location.text, "hash", static_cast<i32>(code)});
        good = false;
    }
    if (jobs.error() == Errc::ok) return good ? 0 : 1;
    complain_of_list(jobs.error());
    return 1;
}

enum class DigestForm : u8 { plain, tagged, json };

/// Lists the files that the operands name, and prints their digests.
class DigestList {
 public:
    DigestList(const Settings& settings, const WalkSetup& setup, DigestForm form, LineEnd end)
        : settings_(settings),
          setup_(setup),
          form_(form),
          end_(end),
          jobs_(settings.files.list_bytes) {}

    /// Returns the exit code of the command.
    int run(Session& session, const std::vector<std::string>& operands);

 private:
    bool begin_keeping();
    bool list(Session& session, const std::vector<std::string>& operands);
    void print(const HashJob& job, const HashResult& result);

    Settings settings_;
    WalkSetup setup_;
    DigestForm form_;
    LineEnd end_;
    bool is_good_ = true;
    HashJobs jobs_;
    std::optional<DigestKeeper> keeper_;
};

bool DigestList::begin_keeping() {
    const walk::Options& how = setup_.options;
    if (how.checkpoint.empty()) return true;
    if (!begin_checkpoints(setup_)) return false;
    keeper_.emplace(how.checkpoint, how.checkpoint_milliseconds);
    settings_.files.keeper = &*keeper_;
    return keeper_->begin(how.resume);
}

bool DigestList::list(Session& session, const std::vector<std::string>& operands) {
    bool is_good = true;
    for (const std::string& operand : operands) {
        if (!add_hash_jobs_over_ranks(session, operand, settings_.files, settings_.algorithm,
                                      jobs_)) {
            is_good = false;
        }
    }
    if (!keeper_ || rank_number() != 0) return is_good;
    const u64 kept = keeper_->recall(jobs_, settings_.files.list_bytes);
    if (settings_.is_verbose && setup_.options.resume) {
        remark({program(), ": of ", counted(jobs_.size(), "file", "files"), " ",
                std::to_string(kept), " have been hashed before"});
    }
    return is_good;
}

void DigestList::print(const HashJob& job, const HashResult& result) {
    const std::string& name = job.location.text;
    if (result.code != Errc::ok) {
        complain({quote_if_needed(name), ": ", reason(result.code), missing_hint(job.location)});
        settings_.files.failures->add({name, "hash", static_cast<i32>(result.code)});
        is_good_ = false;
        return;
    }
    if (form_ == DigestForm::json) {
        Json json;
        json.open_object().member("path", std::string_view(name));
        json.member("algorithm", std::string_view(hash::name(job.algorithm)));
        json.member("digest", std::string_view(hex_of(result.digest)));
        print_line({json.close_object().result()});
    } else {
        const bool is_tagged = form_ == DigestForm::tagged;
        print_bytes(checksum_line(job.algorithm, result.digest, name, is_tagged, end_));
    }
    if (!result.has_changed) return;
    complain_of_change(job);
    is_good_ = false;
}

int DigestList::run(Session& session, const std::vector<std::string>& operands) {
    if (!begin_keeping()) return 1;
    if (!list(session, operands)) is_good_ = false;
    const HashEnd end =
        hash_over_ranks(jobs_, session, settings_.files, settings_.is_verbose,
                        [&](const HashJob& job, const HashResult& result) { print(job, result); });
    if (keeper_ && !keeper_->finish()) is_good_ = false;
    if (end == HashEnd::cut) return exit_interrupted(setup_);
    if (end == HashEnd::failed) return 1;
    if (!finish_output()) return 1;
    if (keeper_ && rank_number() == 0) keeper_->remove();
    end_checkpoints(setup_, true);
    return is_good_ ? 0 : 1;
}

/// Returns whether everything succeeded. Must be called by all ranks, since finish() is collective.
bool end_all(Session& session, FailureList& failures) {
    const bool is_closed = session.close();
    const bool is_complete = failures.finish();
    return is_closed && is_complete;
}

int command_hash(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(hash_page, arguments);
    if (parsed.done) return parsed.exit_code;
    Settings settings;
    WalkSetup setup;
    if (!read_settings(parsed, settings)) return hash_page.usage_exit;
    if (!setup.take_all(parsed) || !take_checkpoint(hash_page, parsed, 1, setup)) {
        return hash_page.usage_exit;
    }
    if (parsed.has(checkpoint_option) && (parsed.has('c') || settings.has_windows)) {
        return usage_error(hash_page,
                           {"--checkpoint cannot be combined with --check or --windows"});
    }
    if (parsed.has(json_option) && (parsed.has(tag_option) || settings.has_windows)) {
        return usage_error(hash_page, {"--json cannot be combined with --tag or --windows"});
    }
    if (settings.has_windows && leave_to_rank_0()) return 0;
    FailureList failures;
    failures.be_silent();  // the digests report them, in the words of sha256sum
    if (!failures.open(setup.errors_file)) return 1;
    settings.files.failures = &failures;
    settings.files.list_bytes = setup.list_bytes;
    settings.files.operations_per_second = setup.options.operations_per_second;
    std::vector<std::string> operands = parsed.operands;
    if (operands.empty()) operands.push_back("-");
    Session session;
    if (parsed.has('c')) {
        if (settings.has_windows || parsed.has(tag_option)) {
            return usage_error(hash_page, {"--check cannot be combined with --windows or --tag"});
        }
        const CheckRules rules = {
            .is_quiet = parsed.has(quiet_option),
            .is_silent = parsed.has(status_option),
            .is_strict = parsed.has(strict_option),
            .ignores_missing = parsed.has(missing_option),
            .warns = parsed.has('w'),
            .is_verbose = settings.is_verbose,
            .is_json = parsed.has(json_option),
        };
        const bool good = check_lists(session, operands, settings.algorithm, settings.files, rules);
        return end_all(session, failures) && good ? 0 : 1;
    }
    const LineEnd end = parsed.has('z') ? LineEnd::zero : LineEnd::newline;
    const DigestForm form = parsed.has(json_option)  ? DigestForm::json
                            : parsed.has(tag_option) ? DigestForm::tagged
                                                     : DigestForm::plain;
    DigestList list(settings, setup, form, end);
    const int code = settings.has_windows ? print_windows(session, operands, settings)
                                          : list.run(session, operands);
    return end_all(session, failures) ? code : std::max(code, 1);
}

}  // namespace

const Command hash_command = {"hash", "compute and check digests of files and trees", hash_page,
                              command_hash, true};

}  // namespace warren::cli
