// SPDX-License-Identifier: Apache-2.0
// Lets two files share the blocks of equal bytes, by whatever their file system offers: the library
// for an image, the daemon's verb for a mounted Warren volume, FIDEDUPERANGE elsewhere. Each of
// these compares the bytes before it shares them.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "apps/fuse/control.hpp"
#include "apps/warren/location.hpp"
#include "base/rate_limit.hpp"

namespace warren::cli {

/// A range of a file.
struct FileRange {
    Location file;
    u64 offset = 0;
};

/// ENOTCONN: the files are on a Warren mount whose daemon does not answer.
inline constexpr Errc daemon_out_of_reach = static_cast<Errc>(107);

class RangeSharer {
 public:
    /// `limit` bounds the rate at which bytes are compared.
    RangeSharer(Session& session, RateLimit& limit) : session_(session), limit_(limit) {}

    /// Lets `range` use the blocks of `original`, and adds what is shared to `shared_bytes`.
    /// Errors: Errc::not_supported if the file system cannot share, Errc::cross_device if the files
    /// are on different ones, Errc::stale if the bytes differ, daemon_out_of_reach.
    Errc share(const FileRange& original, const FileRange& range, u64 length, u64& shared_bytes);

 private:
    Errc share_in_image(const FileRange& original, const FileRange& range, u64 length,
                        u64& shared_bytes);
    Errc share_on_host(const FileRange& original, const FileRange& range, u64 length,
                       u64& shared_bytes);

    /// A file system of the host.
    struct HostSystem {
        std::optional<fuse::ControlConnection> daemon;  // of a mounted Warren volume
        bool is_out_of_reach = false;                   // as a daemon that does not answer
    };
    HostSystem& system_of(u64 device, const std::string& path);

    Session& session_;
    RateLimit& limit_;
    std::map<u64, HostSystem> systems_;  // by device number
};

}  // namespace warren::cli
