// SPDX-License-Identifier: Apache-2.0
// The rules of chunking, of which restic's polynomial and borg's seed come from a stranger's
// repository: as options of a command, as a structure, and as the numbers of the C interface. A
// rule that passes must be followed to the end, and to the same cuts by the fast way as by the
// plain one.
#include <cstdio>
#include <memory>
#include <optional>

#include "apps/warren/splitting.hpp"
#include "tests/fuzz/target.hpp"
#include "warren/chunk.h"

namespace warren::fuzz {

namespace {

using namespace cli;  // the macro's names

enum Kind : u8 { options, structure, c_interface, kinds };

constexpr cli::Option known[] = {WARREN_SPLITTING_OPTIONS};
constexpr cli::Page page = {.usage = "", .summary = "", .options = known};

/// Bytes with no pattern, then many that are equal.
const std::vector<std::byte>& stream() {
    static const std::vector<std::byte> bytes = [] {
        std::vector<std::byte> made(24 * kib, std::byte{7});
        u32 state = 1;
        for (size_t i = 0; i < 16 * kib; ++i) {
            state = state * 1664525 + 1013904223;
            made[i] = static_cast<std::byte>(state >> 24);
        }
        return made;
    }();
    return bytes;
}

void follow(const chunk::Rule& rule) {
    chunk::Chunker chunker;
    const bool is_good = chunk::describe_problem(rule).empty();
    WARREN_CHECK((chunker.open(rule, 1) == Errc::ok) == is_good);
    if (!is_good) return;
    std::span<const std::byte> bytes = stream();
    // A digest is computed anew for each window.
    const bool is_digest = rule.method == chunk::Method::md5 || rule.method == chunk::Method::sha1;
    if (is_digest) bytes = bytes.first(std::min<size_t>(bytes.size(), mib / rule.window_bytes));
    const std::vector<u64> expected = chunk::cut_serial(rule, bytes);
    WARREN_CHECK(!expected.empty() && expected.back() == bytes.size());
    std::vector<u64> ends;
    chunker.feed(bytes.first(bytes.size() / 3), ends);
    chunker.feed(bytes.subspan(bytes.size() / 3), ends);
    chunker.finish(ends);
    WARREN_CHECK(ends == expected);
}

void follow_options(Input& input) {
    std::vector<std::string> words{"chunk"};
    for (const char at : input.rest()) {
        if (at == '\n') {
            words.emplace_back();
        } else {
            words.back() += at;
        }
    }
    std::vector<char*> arguments;
    for (std::string& word : words)
        arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const cli::Arguments parsed =
        cli::parse_arguments(page, std::span(arguments).first(words.size()));
    if (parsed.done) return;
    const std::optional<chunk::Rule> rule = cli::parse_rule(page, parsed, "lbfs");
    dedup::Splitter splitter;
    if (!rule || !cli::parse_work(page, parsed, splitter)) return;
    follow(*rule);
}

void follow_structure(Input& input) {
    chunk::Rule rule;
    rule.method = static_cast<chunk::Method>(input.get<u8>());
    rule.window_bytes = input.get<u32>();
    rule.stride_bytes = input.get<u32>();
    rule.seed = input.get<u32>();
    rule.minimum_bytes = input.get<u64>();
    rule.average_bytes = input.get<u64>();
    rule.maximum_bytes = input.get<u64>();
    rule.mask = input.get<u64>();
    rule.value = input.get<u64>();
    rule.early_mask = input.get<u64>();
    rule.polynomial = input.get<u64>();
    follow(rule);
}

void follow_c_interface(Input& input) {
    const auto window = input.get<u32>(), average = input.get<u32>(), minimum = input.get<u32>(),
               maximum = input.get<u32>();
    const std::unique_ptr<rabinpoly_t, void (*)(rabinpoly_t*)> rabin(
        rabin_init(window, average, minimum, maximum), rabin_free);
    if (rabin == nullptr) return;
    const std::vector<std::byte>& bytes = stream();
    std::vector<size_t> markers(rabin_marker_limit(rabin.get(), bytes.size()));
    const size_t count =
        compute_rabin_segments_serial(rabin.get(), bytes.data(), bytes.size(), markers.data());
    WARREN_CHECK(count <= markers.size());
    int is_end = 0;
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    WARREN_CHECK(rabin_segment_next(rabin.get(), text, 1000, &is_end) <= 1000);
}

std::string structure_seed(const chunk::Rule& rule) {
    return Output()
        .put(Kind::structure)
        .put(static_cast<u8>(rule.method))
        .put(rule.window_bytes)
        .put(rule.stride_bytes)
        .put(rule.seed)
        .put(rule.minimum_bytes)
        .put(rule.average_bytes)
        .put(rule.maximum_bytes)
        .put(rule.mask)
        .put(rule.value)
        .put(rule.early_mask)
        .put(rule.polynomial)
        .take();
}

}  // namespace

std::vector<std::string> seeds() {
    std::vector<std::string> all;
    for (const std::string_view name : chunk::preset_names()) {
        chunk::Rule rule = *chunk::preset(name);
        if (rule.polynomial == 0) rule.polynomial = 0x3da3358b4dc173;
        rule.minimum_bytes = std::min<u64>(rule.minimum_bytes, 256);
        if (rule.method == chunk::Method::fastcdc) rule.average_bytes = 1024;
        rule.maximum_bytes = 4096;
        all.push_back(structure_seed(rule));
    }
    for (const char* const words :
         {"\n--preset=restic\n--polynomial=0x3da3358b4dc173\n--minimum=1K\n--maximum=8K",
          "\n--preset=borg\n--seed\n12345\n--average=1K\n--window=4095",
          "\n--preset=fastcdc\n--average=64K\n--algorithm=sha256\n--threads=2",
          "\n--preset=storegpu-md5\n--window\n20B\n--minimum=1.5kB\nfile", "\n--verbose\n--help"}) {
        all.push_back(Output().put(Kind::options).bytes(words).take());
    }
    all.push_back(
        Output().put(Kind::c_interface).put(u32{32}).put(u32{1}).put(u32{1}).put(u32{4}).take());
    return all;
}

}  // namespace warren::fuzz

extern "C" int LLVMFuzzerTestOneInput(const warren::u8* bytes, size_t size_bytes) {
    using namespace warren::fuzz;
    Input input(bytes, size_bytes);
    switch (input.get<warren::u8>() % kinds) {
        case options:
            follow_options(input);
            break;
        case structure:
            follow_structure(input);
            break;
        default:
            follow_c_interface(input);
    }
    return 0;
}
