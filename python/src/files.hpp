// SPDX-License-Identifier: Apache-2.0
// The files whose contents a bulk call reads or writes.
#pragma once

#include <algorithm>
#include <atomic>
#include <optional>

#include "python/src/operands.hpp"

namespace warren::python {

inline constexpr u64 files_at_once = 64;       // taken by a thread at once
inline constexpr u64 bytes_at_once = 4 * mib;  // transferred between two checks for signals

/// Calls work(first, last, is_caller) for ranges of all items on all cores, until `call` is to
/// stop. The thread of the Python call is one of them.
template <class Work>
void ranges_on_all_cores(LongCall& call, u64 count, const Work& work) {
    if (count <= files_at_once) {
        work(u64{0}, count, true);
        return;
    }
    Counter counter(count, files_at_once);
    std::atomic<u64> done{0};
    run_on_kept_threads(0, [&](u32 worker) {
        for (u64 first = 0, last = 0; counter.take(first, last);) {
            if (worker == 0 ? !call.goes_on(done.load(std::memory_order_relaxed))
                            : call.is_stopped())
                return;
            work(first, last, worker == 0);
            done.fetch_add(last - first, std::memory_order_relaxed);
        }
    });
}

inline bool is_regular(const Attributes& attributes) {
    return (attributes.mode & 0170000) == 0100000;
}

/// Checks that `found` is a regular file that `caller` may access; `mask` is as for check_access().
inline Errc check_file(Volume& volume, const Caller& caller, const Result<Attributes>& found,
                       u32 mask) {
    if (!found) return found.code();
    if ((found->mode & 0170000) == 0040000) return Errc::is_directory;
    if (!is_regular(*found)) return Errc::not_supported;
    return volume.check_access(caller, found->handle, mask);
}

/// The files of a call, given by names or by handles.
class Files {
 public:
    explicit Files(nb::handle names_or_handles) {
        const nb::object given = listed(names_or_handles);
        constexpr const char* needed = "a sequence of names, or an array of names or handles";
        const bool by_handle =
            nb::ndarray_check(given) &&
            array_in<nb::ndarray<nb::ro>>(given, "files", needed).dtype() != nb::dtype<u8>();
        if (by_handle) {
            handles_ = handles_of(given, "files");
        } else {
            names_.emplace(given, "files");
        }
    }

    std::size_t size() const { return names_ ? names_->size() : handles_.size(); }
    /// Calls take(i, found) with the attributes of each file, or with why there are none, on all
    /// cores. Names begin at `from`. False if `call` is to stop; then some files may be left out.
    template <class Take>
    bool find_each(LongCall& call, Volume& volume, const Caller& caller, Handle from,
                   const Take& take) const {
        if (names_) {
            python::find_each(volume, caller, from, names_->all(), Follow::yes, take);
            return !call.is_stopped();
        }
        constexpr u64 part = 1 << 16;  // looked up between two checks for signals
        for (u64 begin = 0; begin < size() && call.goes_on(0); begin += part) {
            const u64 count = std::min(part, size() - begin);
            briefly_on_all_cores(count, 64, [&](u64 first, u64 last) {
                for (u64 i = begin + first; i < begin + last; ++i)
                    take(i, volume.attributes(handles_[i]));
            });
        }
        return !call.is_stopped();
    }
    [[noreturn]] void raise(Errc code, std::size_t i) const {
        raise_error(code, names_ ? std::string((*names_)[i])
                                 : "inode " + std::to_string(handles_[i].inode));
    }
    void raise_first(std::span<const Errc> codes) const {
        const auto bad = std::ranges::find_if(codes, [](Errc code) { return code != Errc::ok; });
        if (bad != codes.end()) raise(*bad, static_cast<std::size_t>(bad - codes.begin()));
    }

 private:
    std::optional<Names> names_;
    std::vector<Handle> handles_;
};

}  // namespace warren::python
