// SPDX-License-Identifier: Apache-2.0
// xxHash for every processor, and the choice among the compiled variants: the widest vectors that
// this processor has, determined once.
#if defined(WARREN_HASH_XXHASH)

#include "base/check.hpp"
#include "hash/xxh3_library_body.hpp"

namespace warren::hash {

extern const Xxh3Functions xxh3_functions_4;
const Xxh3Functions xxh3_functions_4 = {hash_here, open_here, update_here, finish_here, close_here};

#if defined(__x86_64__)
extern const Xxh3Functions xxh3_functions_8;
extern const Xxh3Functions xxh3_functions_16;
#endif

namespace {

const Xxh3Functions& functions() {
#if defined(__x86_64__)
    const u32 lanes = widest_lanes().lanes;
    if (lanes == 16) return xxh3_functions_16;
    if (lanes == 8) return xxh3_functions_8;
#endif
    return xxh3_functions_4;
}

class LibraryXxh3 final : public Sequential {
 public:
    LibraryXxh3() : stream_(functions().open()) { WARREN_CHECK(stream_ != nullptr); }
    ~LibraryXxh3() override { functions().close(stream_); }
    LibraryXxh3(const LibraryXxh3&) = delete;
    LibraryXxh3& operator=(const LibraryXxh3&) = delete;

    void update(Bytes part) override { functions().update(stream_, part.data(), part.size()); }
    void finish(u8* digest) override { functions().finish(stream_, digest); }

 private:
    void* stream_;
};

}  // namespace

void hash_xxh3(Bytes data, u8* digest) {
    functions().hash(data.data(), data.size(), digest);
}

std::unique_ptr<Sequential> open_xxh3() {
    return std::make_unique<LibraryXxh3>();
}

}  // namespace warren::hash

#endif
