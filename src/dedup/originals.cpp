// SPDX-License-Identifier: Apache-2.0
// Compares chunks that have weak digests with the bytes of their originals. Files are opened again
// by path; the last one stays open, since successive chunks tend to have originals in one file.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/whole_io.hpp"
#include "warren/dedup.hpp"

namespace warren::dedup {

bool needs_comparison(hash::Algorithm algorithm) {
    return algorithm != hash::Algorithm::blake3 && algorithm != hash::Algorithm::sha256;
}

Originals::~Originals() {
    close();
}

void Originals::close() {
    if (file_ >= 0) ::close(file_);
    file_ = -1;
    path_.clear();
}

bool Originals::equal(const Source& source, u64 offset, std::span<const std::byte> bytes) {
    if (file_ < 0 || path_ != source.path) {
        close();
        file_ = ::open(source.path.c_str(), O_RDONLY | O_CLOEXEC);
        if (file_ < 0) return false;
        path_ = source.path;
    }
    buffer_.resize(bytes.size());
    const Result<u64> got = read_fully(file_, offset, buffer_);
    return got && *got == bytes.size() && std::ranges::equal(bytes, buffer_);
}

}  // namespace warren::dedup
