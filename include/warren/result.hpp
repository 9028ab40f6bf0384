// SPDX-License-Identifier: Apache-2.0
// Errors are values. `Errc` holds Linux errno numbers, so that FUSE, Python and a command's
// completion can pass them on unchanged. `Result<T>` is trivially copyable if T is, so that a GPU
// can return it. Numbers from 4096 on are retry reasons and never reach a caller of the public
// interface: the driver of an operation serves the reason and then starts the operation again.
#pragma once

#include "warren/types.hpp"

namespace warren {

enum class [[nodiscard]] Errc : i32{
    ok = 0,
    not_permitted = 1,    // EPERM
    no_entry = 2,         // ENOENT
    io = 5,               // EIO
    no_such_address = 6,  // ENXIO: no data or no hole at or after this offset
    no_memory = 12,       // ENOMEM
    bad_handle = 9,       // EBADF
    access = 13,          // EACCES
    busy = 16,            // EBUSY
    exists = 17,          // EEXIST
    cross_device = 18,    // EXDEV
    no_device = 19,       // ENODEV
    not_directory = 20,   // ENOTDIR
    is_directory = 21,    // EISDIR
    invalid = 22,         // EINVAL
    too_many_files = 24,  // EMFILE
    text_busy = 26,       // ETXTBSY
    file_too_big = 27,    // EFBIG
    no_space = 28,        // ENOSPC
    read_only = 30,       // EROFS
    too_many_links = 31,  // EMLINK
    out_of_range = 34,    // ERANGE
    name_too_long = 36,   // ENAMETOOLONG
    not_empty = 39,       // ENOTEMPTY
    loop = 40,            // ELOOP
    no_data = 61,         // ENODATA: the extended attribute does not exist
    overflow = 75,        // EOVERFLOW
    not_supported = 95,   // EOPNOTSUPP
    stale = 116,          // ESTALE
    corrupt = 117,        // EUCLEAN: bytes on disk that cannot be valid
    canceled = 125,       // ECANCELED

    retry = 4096,         // a version that plan read has changed: start again
    need_block = 4097,    // a metadata block is not resident: load it, then start again
    need_commit = 4098,   // the journal has no room for this operation: commit, then start again
    need_space = 4099,    // no block is free: commit, so that freed blocks can be reused
    need_split = 4100,    // a tree node is full: split it, then start again
    need_prune = 4101,    // a tree leaf is empty: remove it, then start again
    need_inodes = 4102,   // no inode is free: make a block group of inodes, then start again
    need_reclaim = 4103,  // a removed inode has too many blocks for one step: free them in several
    need_frame = 4104,    // no metadata block group with memory is free: the engine adds memory
};

/// Whether `code` is a result for the caller rather than a retry reason.
WARREN_HD constexpr bool is_final(Errc code) {
    return static_cast<i32>(code) < 4096;
}

/// A value, or the error because of which there is none.
template <class T>
class [[nodiscard]] Result {
 public:
    Result() = default;
    WARREN_HD constexpr Result(T value) : value_(value), code_(Errc::ok) {}
    WARREN_HD constexpr Result(Errc code) : value_{}, code_(code) {}

    WARREN_HD constexpr explicit operator bool() const { return code_ == Errc::ok; }
    WARREN_HD constexpr Errc code() const { return code_; }
    /// The value. Requires: code() is Errc::ok.
    WARREN_HD constexpr const T& operator*() const { return value_; }
    WARREN_HD constexpr T& operator*() { return value_; }
    WARREN_HD constexpr const T* operator->() const { return &value_; }

 private:
    T value_{};
    Errc code_ = Errc::io;
};

WARREN_HD constexpr Errc code_of(Errc code) {
    return code;
}
template <class T>
WARREN_HD constexpr Errc code_of(const Result<T>& result) {
    return result.code();
}

/// Evaluates an Errc or a Failure, and returns it from the enclosing function unless its code is
/// Errc::ok. The function may return any type that can be constructed from it.
#define WARREN_TRY(expression)                                                                 \
    do {                                                                                       \
        if (auto try_code_ = (expression); ::warren::code_of(try_code_) != ::warren::Errc::ok) \
            return try_code_;                                                                  \
    } while (false)

/// Declares `name` as the Result that an expression has, and returns its error, if it is one, from
/// the enclosing function.
#define WARREN_LET(name, ...)        \
    const auto name = (__VA_ARGS__); \
    if (!name) return name.code()

}  // namespace warren
