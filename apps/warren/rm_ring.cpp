// SPDX-License-Identifier: Apache-2.0
// Each directory is examined once. A directory in which a name is a mount point is left to the
// kernel, which refuses to remove such a name.
#include "apps/warren/rm_ring.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstdlib>

#include "apps/fuse/mount_table.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/mounts.hpp"
#include "base/descriptor.hpp"

namespace warren::cli {

namespace {

/// The last component, if it can name a file; the rest of the path goes to `parent`.
std::string_view split(std::string_view path, std::string& parent) {
    const std::size_t slash = path.rfind('/');
    const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
    parent = slash == std::string_view::npos ? "." : path.substr(0, slash + 1);
    return name == "." || name == ".." ? std::string_view() : name;
}

bool has_mounts_below(const std::string& path, int directory) {
    const std::unique_ptr<char, decltype(&std::free)> full(::realpath(path.c_str(), nullptr),
                                                           &std::free);
    return full == nullptr ||
           fuse::is_mounted_below(std::string(full.get()) + "/", fuse::mount_of(directory));
}

}  // namespace

std::optional<Handle> RingRemover::attach(const std::string& path) {
    const Descriptor opened(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    struct stat facts {};
    if (!opened || ::fstat(opened.get(), &facts) != 0) return std::nullopt;
    if (ring_ == nullptr) {
        if (has_failed_ || !is_on_warren_mount(path)) return std::nullopt;
        Failure failure;
        ring_ = MountRing::open(path, failure);
        has_failed_ = ring_ == nullptr;
        device_ = facts.st_dev;
    }
    if (has_failed_ || device_ != facts.st_dev) return std::nullopt;
    if (has_mounts_below(path, opened.get())) return std::nullopt;
    const Result<Handle> handle = ring_->attach(opened.get());
    return handle ? std::optional<Handle>(*handle) : std::nullopt;
}

std::optional<Handle> RingRemover::directory(const std::string& path) {
    const auto known = directories_.find(path);
    if (known != directories_.end()) return known->second;
    return directories_[path] = attach(path);
}

bool RingRemover::take(const std::string& text) {
    const Location location = parse_location(text);
    if (location.in_image()) return false;
    std::string parent;
    const std::string_view name = split(location.path, parent);
    if (name.empty()) return false;
    const std::optional<Handle> handle = directory(parent);
    if (!handle) return false;
    texts_.push_back(text);
    in_.push_back(*handle);
    return true;
}

void RingRemover::remove(const std::function<void(const std::string&, Errc)>& tell) {
    if (texts_.empty()) return;
    std::vector<std::string> texts;
    texts.swap(texts_);
    std::vector<Lookup> names;
    for (std::size_t i = 0; i < texts.size(); ++i)
        names.push_back({in_[i], std::string_view(texts[i]).substr(texts[i].rfind('/') + 1)});
    in_.clear();
    std::vector<Errc> results(names.size(), Errc::io);
    ring_->unlink_many(names, results);
    for (std::size_t i = 0; i < texts.size(); ++i)
        tell(texts[i], results[i]);
}

}  // namespace warren::cli
