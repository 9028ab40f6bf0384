// SPDX-License-Identifier: Apache-2.0
// The public interface of the index: keys from digests, entries, and the inputs to which places
// refer.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "dedup/entry_table.hpp"
#include "dedup/index_file.hpp"
#include "warren/dedup.hpp"

namespace warren::dedup {

namespace {

constexpr u64 least_memory_bytes = 1 * mib;

Key first_bytes(std::span<const u8> digest) {
    Key key;
    std::memcpy(&key.low, digest.data(), 8);
    std::memcpy(&key.high, digest.data() + 8, 8);
    return key;
}

/// A hash of the secret: to be stored in the file, or to be the prefix of each digest in a keyed
/// hash.
std::vector<u8> hash_of_secret(const std::string& purpose, const std::string& secret) {
    std::vector<u8> digest(32);
    const std::string text = purpose + secret;
    const Errc code =
        hash::hash_one(hash::Algorithm::blake3, std::as_bytes(std::span(text.data(), text.size())),
                       digest, {.threads = 1});
    WARREN_CHECK(code == Errc::ok);
    return digest;
}

}  // namespace

class Index::State {
 public:
    /// The input that contains a place, forgotten or not.
    const Source* source_at(u64 place) const;
    bool is_forgotten(u64 place) const {
        if (!has_forgotten) return false;
        const Source* source = source_at(place);
        return source != nullptr && source->is_forgotten;
    }

    /// Implement Index::load() and Index::save(), one group of entries at a time.
    Errc load(const std::string& path);
    Errc save(const std::string& path) const;
    /// Visits the entries that are not forgotten, in ascending order of keys.
    Errc visit_sorted(const std::function<Errc(const Entry&)>& visit) const {
        return table.visit_sorted([&](const Entry& entry) {
            return is_forgotten(entry.place) ? Errc::ok : visit(entry);
        });
    }

    Options options;
    std::vector<u8> key_prefix;  // empty: keys are truncated digests
    SecretMark mark{};
    EntryTable table;
    std::vector<Source> sources;
    u64 next_place = 0;
    bool has_forgotten = false;
};

const Source* Index::State::source_at(u64 place) const {
    auto behind = std::upper_bound(sources.begin(), sources.end(), place,
                                   [](u64 at, const Source& source) { return at < source.base; });
    // Empty inputs share their base with the next one.
    while (behind != sources.begin()) {
        --behind;
        if (place - behind->base < behind->size) return &*behind;
        if (behind->size != 0) return nullptr;
    }
    return nullptr;
}

Errc Index::State::load(const std::string& path) {
    IndexReader reader;
    WARREN_TRY(reader.open(path));
    if (reader.head().algorithm != options.algorithm) return Errc::invalid;
    if (reader.head().mark != mark) return Errc::access;
    WARREN_TRY(table.load(reader.head().entries, entries_in_group,
                          [&](std::span<Entry> group) { return reader.read(group); }));
    sources = std::move(reader.head().sources);
    next_place = reader.head().next_place;
    return Errc::ok;
}

Errc Index::State::save(const std::string& path) const {
    IndexHead head{options.algorithm, mark, next_place, table.entries(), sources};
    std::erase_if(head.sources, [](const Source& source) { return source.is_forgotten; });
    if (has_forgotten) {
        head.entries =
            table.count_if([&](const Entry& entry) { return !is_forgotten(entry.place); });
    }
    IndexWriter writer;
    WARREN_TRY(writer.open(path, head));
    WARREN_TRY(visit_sorted([&](const Entry& entry) { return writer.add(entry); }));
    return writer.finish();
}

Index::Index() = default;
Index::~Index() = default;
Index::Index(Index&&) noexcept = default;
Index& Index::operator=(Index&&) noexcept = default;

Errc Index::open(const Options& options) {
    if (options.memory_bytes != 0 && options.memory_bytes < least_memory_bytes) {
        return Errc::invalid;
    }
    state_ = std::make_unique<State>();
    state_->options = options;
    state_->table.open(options.memory_bytes, options.spill_folder);
    if (!options.secret.empty()) {
        state_->key_prefix = hash_of_secret("warren index key\n", options.secret);
        const std::vector<u8> mark = hash_of_secret("warren index mark\n", options.secret);
        std::copy_n(mark.begin(), state_->mark.size(), state_->mark.begin());
    }
    return Errc::ok;
}

Errc Index::load(const std::string& path, const Options& options) {
    WARREN_TRY(open(options));
    const Errc code = state_->load(path);
    if (code != Errc::ok) WARREN_TRY(open(options));  // discard what was read of an invalid file
    return code;
}

Errc Index::save(const std::string& path) const {
    return state_->save(path);
}

Key Index::key_of(std::span<const u8> digest) const {
    if (state_->key_prefix.empty()) return first_bytes(digest);
    std::vector<u8> text = state_->key_prefix;
    text.insert(text.end(), digest.begin(), digest.end());
    std::array<u8, 32> keyed{};
    const Errc code = hash::hash_one(hash::Algorithm::blake3, std::as_bytes(std::span(text)), keyed,
                                     {.threads = 1});
    WARREN_CHECK(code == Errc::ok);
    return first_bytes(keyed);
}

Errc Index::add(std::span<const Chunk> chunks, std::span<Entry> found) {
    for (size_t index = 0; index < chunks.size(); ++index) {
        const Chunk& chunk = chunks[index];
        const Entry* known = state_->has_forgotten ? state_->table.find(chunk.key) : nullptr;
        if (known != nullptr && state_->is_forgotten(known->place)) {
            found[index] = {chunk.key, chunk.place, chunk.length, 1};
            state_->table.replace(found[index]);
        } else {
            WARREN_TRY(state_->table.add(chunk, found[index]));
        }
    }
    return Errc::ok;
}

std::optional<Entry> Index::find(const Key& key) const {
    const Entry* entry = state_->table.find(key);
    if (entry == nullptr || state_->is_forgotten(entry->place)) return std::nullopt;
    return *entry;
}

u64 Index::entries() const {
    return state_->table.entries();
}

u64 Index::memory_bytes() const {
    return state_->table.memory_bytes();
}

u64 Index::spilled_entries() const {
    return state_->table.spilled_entries();
}

std::vector<Entry> Index::sorted() const {
    std::vector<Entry> all;
    static_cast<void>(state_->visit_sorted([&](const Entry& entry) {
        all.push_back(entry);
        return Errc::ok;
    }));
    return all;
}

const std::vector<Source>& Index::sources() const {
    return state_->sources;
}

u64 Index::next_place() const {
    return state_->next_place;
}

u64 Index::add_source(std::string path, u64 size) {
    const u64 base = state_->next_place;
    state_->sources.push_back({base, size, std::move(path)});
    state_->next_place += size;
    return base;
}

void Index::forget_source(size_t number) {
    state_->sources[number].is_forgotten = true;
    state_->has_forgotten = true;
}

const Source* Index::source_of(u64 place) const {
    const Source* source = state_->source_at(place);
    return source == nullptr || source->is_forgotten ? nullptr : source;
}

}  // namespace warren::dedup
