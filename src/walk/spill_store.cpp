// SPDX-License-Identifier: Apache-2.0
// What a call has left over, or a signal has cut short, is done by the next.
#include "walk/spill_store.hpp"

#include <unistd.h>

#include <cerrno>

#include "base/temporary_file.hpp"

namespace warren::walk {

namespace {

class TemporaryStore : public SpillStore {
 public:
    Errc write(u64 offset, std::string_view bytes) override {
        if (file_.descriptor() < 0) {
            WARREN_TRY(file_.make(temporary_folder()));
            file_.forget_name();
        }
        while (!bytes.empty()) {
            const ssize_t written = ::pwrite(file_.descriptor(), bytes.data(), bytes.size(),
                                             static_cast<off_t>(offset));
            if (written < 0 && errno == EINTR) continue;
            if (written <= 0) return written < 0 ? static_cast<Errc>(errno) : Errc::io;
            offset += static_cast<u64>(written);
            bytes.remove_prefix(static_cast<size_t>(written));
        }
        return Errc::ok;
    }
    Errc read(u64 offset, std::span<char> target) override {
        while (!target.empty()) {
            const ssize_t got = ::pread(file_.descriptor(), target.data(), target.size(),
                                        static_cast<off_t>(offset));
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) return got < 0 ? static_cast<Errc>(errno) : Errc::io;
            offset += static_cast<u64>(got);
            target = target.subspan(static_cast<size_t>(got));
        }
        return Errc::ok;
    }
    void cut(u64 bytes) override {
        // What stays behind is written over later.
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
