// SPDX-License-Identifier: Apache-2.0
// Handles one list after the other: its lines become jobs with the expected digests, and the
// results are compared in the order of the lines.
#include "apps/warren/hash_check.hpp"

#include "apps/warren/checksum_line.hpp"
#include "apps/warren/hash_ranks.hpp"
#include "apps/warren/host_walk.hpp"
#include "apps/warren/json.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/ranks.hpp"

namespace warren::cli {

namespace {

constexpr u64 read_at_once = 1 * mib;

/// The counts for one list.
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
          rules_(rules),
          jobs_(options.list_bytes) {}

    bool run() {
        // Ranks other than 0 only hash what rank 0 has read.
        const bool is_readable = rank_number() != 0 || read();
        const HashEnd end = hash_over_ranks(
            jobs_, session_, options_, rules_.is_verbose,
            [&](const HashJob& job, const HashResult& result) { compare(job, result); });
        if (end != HashEnd::whole) return false;
        return is_readable && (rank_number() != 0 || conclude());
    }

 private:
    std::string name() const { return list_ == "-" ? "standard input" : quote_if_needed(list_); }

    bool read() {
        Location location = parse_location(list_ == "-" ? "/dev/stdin" : list_);
        location.text = list_;
        HashJob list{location, session_.directory(location, Access::read), algorithm_};
        if (!list.start) return false;
        std::unique_ptr<OpenFile> file;
        Facts facts;
        Errc code = open_job(list, file, facts);
        if (code == Errc::ok) code = read_lines(*file);
        if (code != Errc::ok) {
            complain({quote_if_needed(location.text), ": ", reason(code), missing_hint(location)});
            return false;
        }
        if (counts_.lines == 0) {
            complain({name(), ": no properly formatted checksum lines found"});
        }
        return counts_.lines != 0;
    }

    Errc read_lines(OpenFile& file) {
        std::vector<std::byte> part(read_at_once);
        std::string text;
        char end = '\0';
        u64 number = 0;
        for (u64 offset = 0;;) {
            WARREN_LET(got, read_fully(file, offset, part));
            size_t from = text.size();  // no line ends before it
            text.append(reinterpret_cast<const char*>(part.data()), *got);
            if (offset == 0 && text.find('\0') == text.npos) end = '\n';
            offset += *got;
            size_t begin = 0;
            for (size_t stop = 0; (stop = text.find(end, from)) != text.npos; from = begin) {
                take_line(std::string_view(text).substr(begin, stop - begin), end, ++number);
                begin = stop + 1;
            }
            text.erase(0, begin);
            if (*got == part.size()) continue;
            if (!text.empty()) take_line(text, end, ++number);
            return Errc::ok;
        }
    }

    void take_line(std::string_view line, char end, u64 number) {
        if (line.ends_with('\r') && end == '\n') line.remove_suffix(1);
        if (!line.empty() && !line.starts_with('#')) add_line(line, number);
    }

    void add_line(std::string_view line, u64 number) {
        const std::optional<ChecksumLine> read = parse_checksum_line(line, algorithm_);
        if (!read || line.find('\0') != line.npos) {
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
        HashJob job{location, start, read->algorithm, facts ? facts->attributes.size : 0};
        job.expected = read->digest;
        jobs_.begin_group();
        static_cast<void>(jobs_.add(job));  // an error is reported when the list is read
    }

    void compare(const HashJob& job, const HashResult& result) {
        if (result.code == Errc::no_entry && rules_.ignores_missing) return;
        ++counts_.checked;
        const std::string& file = job.location.text;
        if (result.code != Errc::ok) {
            ++counts_.unreadable;
            complain({quote_if_needed(file), ": ", reason(result.code)});
            if (options_.failures != nullptr)
                options_.failures->add({file, "hash", static_cast<i32>(result.code)});
            tell(file, false, ": FAILED open or read");
        } else if (result.digest != job.expected) {
            ++counts_.mismatches;
            tell(file, false, ": FAILED");
        } else if (!rules_.is_quiet) {
            tell(file, true, ": OK");
        }
    }

    void tell(const std::string& file, bool is_good, std::string_view words) const {
        if (rules_.is_silent) return;
        if (!rules_.is_json) return print_line({masked_name(file), words});
        Json json;
        json.open_object().member("path", std::string_view(file)).key("ok").boolean(is_good);
        print_line({json.close_object().result()});
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
    HashJobs jobs_;
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
