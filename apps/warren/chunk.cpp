// SPDX-License-Identifier: Apache-2.0
// warren chunk: prints the content-defined chunks of files, and the digest of each chunk.
#include <unistd.h>

#include "apps/warren/arguments.hpp"
#include "apps/warren/checksum_line.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/json.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/progress.hpp"
#include "apps/warren/splitting.hpp"
#include "apps/warren/units.hpp"

namespace warren::cli {

namespace {

constexpr Option chunk_options[] = {
    WARREN_SPLITTING_OPTIONS,
    {'s', "summarize", nullptr, "print only the number and the sizes of chunks"},
    {json_option, "json", nullptr, "print an array with an object for each file"},
};

constexpr Page chunk_page = {
    .usage = "[OPTION]... FILE...",
    .summary =
        "Split files into content-defined chunks, and print the offset, length and digest of "
        "each. FILE - is standard input. The default preset is lbfs.",
    .options = chunk_options,
    .notes =
        "The boundaries depend only on the rule and the data, not on the number of threads. "
        "Each preset sets the same boundaries as the program of that name.",
    .examples =
        "  warren chunk disk.img\n"
        "  warren chunk --preset fastcdc --average 64K --json backup.tar\n"
        "  warren chunk --preset restic --polynomial 3da3358b4dc173 -s /dev/sdb",
    .chooses_processor = true,
};

struct Totals {
    u64 chunks = 0;
    u64 bytes = 0;
    u64 shortest = ~u64{0};
    u64 longest = 0;
    u64 zero_bytes = 0;
};

class Chunking {
 public:
    Chunking(const dedup::Splitter& splitter, const Arguments& parsed)
        : splitter_(splitter),
          parsed_(parsed),
          is_json_(parsed.has(json_option)),
          is_short_(parsed.has('s')),
          has_names_(parsed.operands.size() > 1) {
        if (is_json_) json_.open_array();
    }

    bool open() {
        const Errc code = reader_.open(splitter_);
        if (code != Errc::ok) complain({reason(code)});
        return code == Errc::ok;
    }

    bool print(const std::string& path) {
        const int file = open_input(path);
        if (file < 0) return false;
        const ChangeWatch watch(file);
        Totals totals;
        if (is_json_) json_.open_object().member("file", path).key("chunks").open_array();
        if (!is_json_ && has_names_ && !is_short_) print_bytes(output_name(path) + ":\n");
        Errc code = Errc::ok;
        {
            Progress progress("cutting " + quote(path));
            code = reader_.read(file, [&](std::span<const dedup::FileChunk> some) {
                const u64 before = totals.bytes;
                print_chunks(some, totals);
                progress.add(some.size(), totals.bytes - before);
                return true;
            });
        }
        bool good = code == Errc::ok;
        if (!good) complain({quote(path), ": ", reason(code)});
        if (good && watch.complains(path)) good = false;
        ::close(file);
        if (is_json_) json_.close_array();
        finish_file(path, totals);
        return good;
    }

    void finish() {
        if (is_json_) print_bytes(json_.close_array().result() + "\n");
        tell_work(parsed_, splitter_, reader_.work());
    }

 private:
    void print_chunks(std::span<const dedup::FileChunk> some, Totals& totals) {
        std::string lines;
        for (const dedup::FileChunk& chunk : some) {
            const u64 length = chunk.bytes.size();
            ++totals.chunks;
            totals.bytes += length;
            totals.shortest = std::min(totals.shortest, length);
            totals.longest = std::max(totals.longest, length);
            if (chunk.is_zero) totals.zero_bytes += length;
            if (is_short_) continue;
            const std::string digest = hex_of(chunk.digest);
            if (is_json_) {
                json_.open_object().member("offset", chunk.offset).member("length", length);
                json_.member("digest", digest).close_object();
            } else {
                lines += std::to_string(chunk.offset) + " " + std::to_string(length) + " " +
                         digest + "\n";
            }
        }
        if (!lines.empty()) print_bytes(lines);
    }

    void finish_file(const std::string& path, const Totals& totals) {
        const u64 shortest = totals.chunks == 0 ? 0 : totals.shortest;
        const u64 average = totals.chunks == 0 ? 0 : totals.bytes / totals.chunks;
        if (is_json_) {
            json_.member("count", totals.chunks).member("bytes", totals.bytes);
            json_.member("shortest", shortest).member("longest", totals.longest);
            json_.member("zero_bytes", totals.zero_bytes);
            json_.member("algorithm", hash::name(splitter_.algorithm)).close_object();
        } else if (is_short_) {
            print_line({output_name(path), ": ", counted(totals.chunks, "chunk", "chunks"), ", ",
                        grouped(totals.bytes), " bytes; shortest ", grouped(shortest), ", average ",
                        grouped(average), ", longest ", grouped(totals.longest)});
        }
    }

    const dedup::Splitter& splitter_;
    const Arguments& parsed_;
    dedup::ChunkReader reader_;
    bool is_json_;
    bool is_short_;
    bool has_names_;
    Json json_;
};

int command_chunk(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(chunk_page, arguments);
    if (parsed.done) return parsed.exit_code;
    if (!need_operand(parsed)) return 1;
    const std::optional<chunk::Rule> rule = parse_rule(chunk_page, parsed, "lbfs");
    dedup::Splitter splitter;
    if (!rule || !parse_work(chunk_page, parsed, splitter)) return chunk_page.usage_exit;
    splitter.block_bytes = 0;
    splitter.rule = *rule;
    Chunking chunking(splitter, parsed);
    if (!chunking.open()) return 1;
    bool good = true;
    for (const std::string& path : parsed.operands)
        good = chunking.print(path) && good;
    chunking.finish();
    return good ? 0 : 1;
}

}  // namespace

const Command chunk_command = {"chunk", "print the content-defined chunks of files", chunk_page,
                               command_chunk};

}  // namespace warren::cli
