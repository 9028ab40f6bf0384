// SPDX-License-Identifier: Apache-2.0
// Counts are sent and saved as plain numbers, in the order of their names.
#include "apps/warren/tally.hpp"

#include "apps/warren/json.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/ranks.hpp"
#include "walk/bytes.hpp"

namespace warren::cli {

Tally::Tally(std::initializer_list<const char*> names) : names_(names), counts_(names.size()) {}

std::string Tally::save() const {
    walk::ByteWriter writer;
    for (const std::atomic<u64>& count : counts_)
        writer.put(count.load(std::memory_order_relaxed));
    return writer.take();
}

bool Tally::load(walk::ByteReader& saved) {
    std::vector<u64> counts(counts_.size());
    for (u64& count : counts)
        count = saved.get<u64>();
    if (!saved.good()) return false;
    for (size_t which = 0; which < counts.size(); ++which)
        add(which, counts[which]);
    return true;
}

void Tally::print(u64 failures) const {
    std::vector<u64> sums(counts_.size());
    for (const std::string& of_rank : gather_over_ranks(save())) {
        walk::ByteReader reader(of_rank);
        for (u64& sum : sums)
            sum += reader.get<u64>();
    }
    if (rank_number() != 0) return;
    Json json;
    json.open_object();
    for (size_t which = 0; which < sums.size(); ++which)
        json.member(names_[which], sums[which]);
    print_line({json.member("failures", failures).close_object().result()});
}

}  // namespace warren::cli
