// SPDX-License-Identifier: Apache-2.0
// A spill file in memory, one of whose calls fails, counted over all that share a counter.
#pragma once

#include <algorithm>
#include <string>

#include "walk/spill_store.hpp"

namespace warren::walk {

class FailingStore : public SpillStore {
 public:
    FailingStore(u64& calls, u64 failing) : calls_(calls), failing_(failing) {}
    Errc write(u64 offset, std::string_view bytes) override {
        if (++calls_ == failing_) return Errc::no_space;
        bytes_.resize(std::max(bytes_.size(), offset + bytes.size()));
        bytes_.replace(offset, bytes.size(), bytes);
        return Errc::ok;
    }
    Errc read(u64 offset, std::span<char> target) override {
        if (++calls_ == failing_) return Errc::io;
        if (offset + target.size() > bytes_.size()) return Errc::io;
        bytes_.copy(target.data(), target.size(), offset);
        return Errc::ok;
    }
    void truncate(u64 bytes) override { bytes_.resize(std::min<size_t>(bytes_.size(), bytes)); }

    std::string& bytes() { return bytes_; }

 private:
    u64& calls_;
    u64 failing_;
    std::string bytes_;
};

}  // namespace warren::walk
