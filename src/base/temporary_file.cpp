// SPDX-License-Identifier: Apache-2.0
// Uses mkostemp(3) rather than O_TMPFILE, which network file systems do not support.
#include "base/temporary_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "base/last_error.hpp"

namespace warren {

std::string temporary_folder() {
    const char* folder = std::getenv("TMPDIR");
    return folder != nullptr && folder[0] != '\0' ? folder : "/tmp";
}

TemporaryFile::~TemporaryFile() {
    forget_name();
    if (descriptor_ >= 0) ::close(descriptor_);
}

TemporaryFile::TemporaryFile(TemporaryFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::exchange(other.path_, {})) {}

TemporaryFile& TemporaryFile::operator=(TemporaryFile&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(path_, other.path_);
    return *this;
}

Errc TemporaryFile::make(const std::string& folder) {
    *this = TemporaryFile();
    std::string path = folder + "/warren-XXXXXX";
    descriptor_ = ::mkostemp(path.data(), O_CLOEXEC);
    if (descriptor_ < 0) return last_error();
    path_ = std::move(path);
    return Errc::ok;
}

void TemporaryFile::forget_name() {
    if (!path_.empty()) ::unlink(path_.c_str());
    path_.clear();
}

}  // namespace warren
