// SPDX-License-Identifier: Apache-2.0
// One list after the other: its lines become files to hash, and their digests are compared in the
// order of the lines.
#include "apps/warren/hash_check.hpp"

#include "apps/warren/checksum_line.hpp"
#include "apps/warren/hash_ranks.hpp"
#include "apps/warren/host_walk.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/ranks.hpp"

namespace warren::cli {

namespace {

/// What became of one list.
struct Counts {
    u64 lines = 0;
    u64 bad_lines = 0;
    u64 mismatches = 0;
    u64 unreadable = 0;
    u64 checked = 0;
};

std::string number_of(u64 count, std::string_view one, std::string_view many) {
    return std::to_string(count) + " " + std::string(count == 1 ? one : many);
}

class ListCheck {
 public:
    ListCheck(Session& session, std::string list, hash::Algorithm algorithm,
              const HashOptions& options, const CheckRules& rules)
        : session_(session),
          list_(std::move(list)),
          algorithm_(algorithm),
          options_(options),
          rules_(rules) {}

    bool run() {
        // Further ranks only hash what rank 0 has read.
        const bool is_readable = rank_number() != 0 || read();
        u64 next = 0;
        const auto done = [&](const HashJob& job, const HashResult& result) {
            compare(job, result, expected_[next++]);
        };
        hash_over_ranks(jobs_, options_, rules_.is_verbose, done);
        return is_readable && (rank_number() != 0 || conclude());
    }

 private:
    std::string name() const { return list_ == "-" ? "standard input" : list_; }

    bool read() {
        std::vector<std::byte> text;
        if (!read_list(text)) return false;
        parse(std::string_view(reinterpret_cast<const char*>(text.data()), text.size()));
        if (counts_.lines == 0) {
            complain({name(), ": no properly formatted checksum lines found"});
        }
        return counts_.lines != 0;
    }

    bool read_list(std::vector<std::byte>& text) {
        std::vector<HashJob> jobs;
        Location location = parse_location(list_ == "-" ? "/dev/stdin" : list_);
        location.text = list_;
        const std::shared_ptr<Directory> start = session_.directory(location, Access::read);
        if (!start) return false;
        const Errc code = read_whole({location, start, algorithm_}, text);
        if (code == Errc::ok) return true;
        complain({location.text, ": ", reason(code), missing_hint(location)});
        return false;
    }

    void parse(std::string_view text) {
        const char end = text.find('\0') != std::string_view::npos ? '\0' : '\n';
        for (u64 number = 1; !text.empty(); ++number) {
            const size_t stop = std::min(text.find(end), text.size());
            std::string_view line = text.substr(0, stop);
            text.remove_prefix(std::min(stop + 1, text.size()));
            if (line.ends_with('\r') && end == '\n') line.remove_suffix(1);
            if (line.empty() || line.starts_with('#')) continue;
            add_line(line, number);
        }
    }

    void add_line(std::string_view line, u64 number) {
        const std::optional<ChecksumLine> read = parse_checksum_line(line, algorithm_);
        if (!read) {
            ++counts_.bad_lines;
            if (rules_.warns) {
                complain({name(), ": ", std::to_string(number), ": improperly formatted ",
                          hash::name(algorithm_), " checksum line"});
            }
            return;
        }
        ++counts_.lines;
        Location location = parse_location(read->file == "-" ? "/dev/stdin" : read->file);
        location.text = read->file;
        const std::shared_ptr<Directory> start = session_.directory(location, Access::read);
        if (!start) {
            ++counts_.unreadable;
            return;
        }
        const Result<Facts> facts = start->stat(location.path, Follow::yes);
        jobs_.push_back({location, start, read->algorithm, facts ? facts->attributes.size : 0});
        expected_.push_back(read->digest);
    }

    void compare(const HashJob& job, const HashResult& result, const std::vector<u8>& expected) {
        if (result.code == Errc::no_entry && rules_.ignores_missing) return;
        ++counts_.checked;
        const std::string& file = job.location.text;
        if (result.code != Errc::ok) {
            ++counts_.unreadable;
            complain({file, ": ", reason(result.code)});
            if (options_.failures != nullptr)
                options_.failures->add({file, "hash", static_cast<i32>(result.code)});
            if (!rules_.is_silent) print_line({file, ": FAILED open or read"});
        } else if (result.digest != expected) {
            ++counts_.mismatches;
            if (!rules_.is_silent) print_line({file, ": FAILED"});
        } else if (!rules_.is_silent && !rules_.is_quiet) {
            print_line({file, ": OK"});
        }
    }

    bool conclude() const {
        if (!rules_.is_silent) warn();
        if (rules_.ignores_missing && counts_.checked == 0) {
            complain({name(), ": no file was verified"});
            return false;
        }
        return counts_.mismatches == 0 && counts_.unreadable == 0 &&
               (counts_.bad_lines == 0 || !rules_.is_strict);
    }

    void warn() const {
        if (counts_.bad_lines != 0) {
            complain({"WARNING: ", number_of(counts_.bad_lines, "line is", "lines are"),
                      " improperly formatted"});
        }
        if (counts_.unreadable != 0) {
            complain({"WARNING: ", number_of(counts_.unreadable, "listed file", "listed files"),
                      " could not be read"});
        }
        if (counts_.mismatches != 0) {
            complain({"WARNING: ",
                      number_of(counts_.mismatches, "computed checksum", "computed checksums"),
                      " did NOT match"});
        }
    }

    Session& session_;
    std::string list_;
    hash::Algorithm algorithm_;
    const HashOptions& options_;
    const CheckRules& rules_;
    Counts counts_;
    std::vector<HashJob> jobs_;
    std::vector<std::vector<u8>> expected_;
};

}  // namespace

bool check_lists(Session& session, const std::vector<std::string>& lists, hash::Algorithm algorithm,
                 const HashOptions& options, const CheckRules& rules) {
    bool good = true;
    for (const std::string& list : lists) {
        if (!ListCheck(session, list, algorithm, options, rules).run()) good = false;
    }
    return good;
}

}  // namespace warren::cli
