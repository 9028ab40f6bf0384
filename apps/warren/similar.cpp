// SPDX-License-Identifier: Apache-2.0
// warren similar: reports how many bytes of a file are in the file before it, and in any file
// before it. Zero blocks are counted separately: they occur in most files and do not show
// similarity.
//
// Invariant: the zero, found and new bytes of a line add up to the size of the file as it was read.
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <deque>

#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/json.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/progress.hpp"
#include "apps/warren/splitting.hpp"
#include "apps/warren/units.hpp"

namespace warren::cli {

namespace {

enum : int { fixed_option = 400 };

constexpr Option similar_options[] = {
    {fixed_option, "fixed", "SIZE", "compare blocks of this size only"},
    WARREN_SPLITTING_OPTIONS,
    {json_option, "json", nullptr, "print an array with an object for each comparison"},
};

constexpr Page similar_page = {
    .usage = "[OPTION]... A B...",
    .summary =
        "For each file after the first, print how many of its bytes are in the previous file, "
        "and in all previous files. Without --fixed or --preset, both blocks of 4 KiB and "
        "lbfs chunks are compared.",
    .options = similar_options,
    .notes =
        "Zero blocks are counted separately: found and new are shares of the rest. Equal md5, "
        "sha1 and xxh3-128 digests are confirmed byte by byte.",
    .examples =
        "  warren similar core.1 core.2 core.3\n"
        "  warren similar --fixed 4K --algorithm sha1 old.img new.img\n"
        "  warren similar --preset fastcdc --average 8K --json linux-6.1.tar linux-6.2.tar",
    .chooses_processor = true,
};

struct SimilarFile {
    u64 bytes = 0;
    u64 zero_bytes = 0;
    u64 found_bytes = 0;         // in the previous file
    u64 series_found_bytes = 0;  // in any previous file
    double seconds = 0;
    bool has_changed = false;  // written to while it was read
};

/// Compares the files by one chunking rule.
class Comparison {
 public:
    Comparison(const dedup::Splitter& splitter, std::string name)
        : splitter_(splitter), name_(std::move(name)) {}

    Errc open() {
        WARREN_TRY(reader_.open(splitter_));
        return series_.open(index_options());
    }

    /// Reads the next file; `line` receives how much of it the previous files contain.
    Errc add(const std::string& path, SimilarFile& line) {
        const int file = open_input(path);
        if (file < 0) return Errc::canceled;
        const auto begin = std::chrono::steady_clock::now();
        dedup::Index own;
        WARREN_TRY(own.open(index_options()));
        const u64 base = series_.next_place();
        const u64 own_base = own.next_place();
        const ChangeWatch watch(file);
        Errc code = Errc::ok;
        {
            Progress progress("comparing " + quote(path));
            code = reader_.read(file, [&](std::span<const dedup::FileChunk> some) {
                for (const dedup::FileChunk& chunk : some)
                    look(chunk, line);
                failure_ = note(own, some, own_base, base);
                progress.add(some.size(), 0);
                return failure_ == Errc::ok;
            });
        }
        if (failure_ != Errc::ok) code = failure_;
        line.has_changed = code == Errc::ok && watch.complains(path);
        ::close(file);
        series_.add_source(path, line.bytes);
        own.add_source(path, line.bytes);
        previous_ = std::move(own);
        has_previous_ = true;
        line.seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        return code;
    }

    const std::string& name() const { return name_; }
    const dedup::Splitter& splitter() const { return splitter_; }
    const dedup::ReadWork& work() const { return reader_.work(); }

 private:
    dedup::Index::Options index_options() const {
        dedup::Index::Options made;
        made.algorithm = splitter_.algorithm;
        return made;
    }

    bool is_in(const dedup::Index& index, const dedup::FileChunk& chunk) {
        const auto entry = index.find(index.key_of(chunk.digest));
        if (!entry || entry->length != chunk.bytes.size()) return false;
        const dedup::Source* source = index.source_of(entry->place);
        // Duplicates within the file do not count.
        if (source == nullptr) return false;
        if (!dedup::needs_comparison(splitter_.algorithm)) return true;
        return originals_.equal(*source, entry->place - source->base, chunk.bytes);
    }

    void look(const dedup::FileChunk& chunk, SimilarFile& line) {
        const u64 length = chunk.bytes.size();
        line.bytes += length;
        if (chunk.is_zero) {
            line.zero_bytes += length;
            return;
        }
        if (has_previous_ && is_in(previous_, chunk)) line.found_bytes += length;
        if (is_in(series_, chunk)) line.series_found_bytes += length;
    }

    Errc note(dedup::Index& own, std::span<const dedup::FileChunk> some, u64 own_base, u64 base) {
        std::vector<dedup::Chunk> chunks;
        for (const dedup::FileChunk& chunk : some) {
            if (chunk.is_zero) continue;
            chunks.push_back({own.key_of(chunk.digest), own_base + chunk.offset,
                              static_cast<u32>(chunk.bytes.size())});
        }
        std::vector<dedup::Entry> found(chunks.size());
        WARREN_TRY(own.add(chunks, found));
        for (dedup::Chunk& chunk : chunks)
            chunk.place += base - own_base;
        return series_.add(chunks, found);
    }

    dedup::Splitter splitter_;
    std::string name_;
    dedup::ChunkReader reader_;
    dedup::Index previous_;
    bool has_previous_ = false;
    dedup::Index series_;
    dedup::Originals originals_;
    Errc failure_ = Errc::ok;
};

std::string percent(u64 part, u64 whole) {
    char text[16];
    std::snprintf(
        text, sizeof text, "%6.2f%%",
        whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole));
    return text;
}

void print_text(const std::string& path, const SimilarFile& line) {
    const u64 rest = line.bytes - line.zero_bytes;
    std::string zeros = short_size(line.zero_bytes);
    std::string size = short_size(line.bytes);
    size.insert(0, size.size() < 8 ? 8 - size.size() : 0, ' ');
    zeros.insert(0, zeros.size() < 8 ? 8 - zeros.size() : 0, ' ');
    print_line({size, " ", zeros, "  ", percent(line.found_bytes, rest), "  ",
                percent(line.series_found_bytes, rest), "  ", output_name(path)});
}

void print_json(Json& json, const std::string& method, const std::string& before,
                const std::string& path, const SimilarFile& line) {
    const u64 rest = line.bytes - line.zero_bytes;
    auto share = [&](u64 part) {
        return rest == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(rest);
    };
    json.open_object().member("method", method).member("file", path).member("before", before);
    json.member("bytes", line.bytes).member("zero_bytes", line.zero_bytes);
    json.member("found_bytes", line.found_bytes).key("found").number(share(line.found_bytes));
    json.member("series_found_bytes", line.series_found_bytes);
    json.key("series_found").number(share(line.series_found_bytes));
    json.key("seconds").number(line.seconds).close_object();
}

bool compare(Comparison& comparison, const Arguments& parsed, Json& json) {
    const bool is_json = parsed.has(json_option);
    if (!is_json) {
        print_line({comparison.name()});
        print_line({"    size    zeros   in last   in all  file"});
    }
    if (comparison.open() != Errc::ok) return false;
    bool good = true;
    for (size_t index = 0; index < parsed.operands.size(); ++index) {
        const std::string& path = parsed.operands[index];
        SimilarFile line;
        const Errc code = comparison.add(path, line);
        if (code != Errc::ok) {
            if (code != Errc::canceled) complain({quote(path), ": ", reason(code)});
            return false;
        }
        good = good && !line.has_changed;
        if (index == 0) continue;
        if (is_json) {
            print_json(json, comparison.name(), parsed.operands[index - 1], path, line);
        } else {
            print_text(path, line);
        }
    }
    tell_work(parsed, comparison.splitter(), comparison.work());
    return good;
}

int command_similar(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(similar_page, arguments);
    if (parsed.done) return parsed.exit_code;
    if (parsed.operands.size() < 2)
        return usage_error(similar_page, {"two or more files are required"});
    std::deque<Comparison> comparisons;
    dedup::Splitter splitter;
    if (!parse_work(similar_page, parsed, splitter)) return similar_page.usage_exit;
    const std::string* fixed = parsed.value(fixed_option);
    const bool has_both = fixed == nullptr && !parsed.has(preset_option);
    if (fixed != nullptr || has_both) {
        const std::optional<u64> size = parse_size(fixed != nullptr ? *fixed : "4K");
        if (!size || *size == 0 || *size > gib)
            return usage_error(similar_page,
                               {"invalid block size ", quote(*fixed), ": 1 byte to 1 GiB"});
        splitter.block_bytes = *size;
        comparisons.emplace_back(splitter, "fixed " + std::to_string(*size));
    }
    if (parsed.has(preset_option) || has_both) {
        const std::optional<chunk::Rule> rule = parse_rule(similar_page, parsed, "lbfs");
        if (!rule) return similar_page.usage_exit;
        splitter.block_bytes = 0;
        splitter.rule = *rule;
        const std::string* name = parsed.value(preset_option);
        comparisons.emplace_back(splitter, name != nullptr ? *name : "lbfs");
    }
    Json json;
    json.open_array();
    bool good = true;
    for (Comparison& comparison : comparisons)
        good = compare(comparison, parsed, json) && good;
    json.close_array();
    if (parsed.has(json_option)) print_bytes(json.result() + "\n");
    return good ? 0 : 1;
}

}  // namespace

const Command similar_command = {"similar", "show how much of a file is in another", similar_page,
                                 command_similar};

}  // namespace warren::cli
