// SPDX-License-Identifier: Apache-2.0
// An unnamed file, created at the first write.
#include "walk/spill_store.hpp"

#include <unistd.h>

#include "base/temporary_file.hpp"
#include "base/whole_io.hpp"

namespace warren::walk {

namespace {

class TemporaryStore : public SpillStore {
 public:
    Errc write(u64 offset, std::string_view bytes) override {
        if (file_.descriptor() < 0) {
            WARREN_TRY(file_.make(temporary_folder()));
            file_.forget_name();
        }
        return write_fully(file_.descriptor(), offset, std::as_bytes(std::span(bytes)));
    }
    Errc read(u64 offset, std::span<char> target) override {
        const Result<u64> got =
            read_fully(file_.descriptor(), offset, std::as_writable_bytes(target));
        return got && *got != target.size() ? Errc::io : got.code();
    }
    void truncate(u64 bytes) override {
        // If this fails, the bytes beyond are overwritten later.
        [[maybe_unused]] const int cut = ::ftruncate(file_.descriptor(), static_cast<off_t>(bytes));
    }

 private:
    TemporaryFile file_;
};

}  // namespace

std::unique_ptr<SpillStore> temporary_store() {
    return std::make_unique<TemporaryStore>();
}

}  // namespace warren::walk
