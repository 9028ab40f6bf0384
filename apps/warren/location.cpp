// SPDX-License-Identifier: Apache-2.0
// Images are identified by device and inode, so an image with two names is opened once.
#include "apps/warren/location.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "apps/warren/engine_choice.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/mounts.hpp"
#include "base/last_error.hpp"
#include "fs/format/superblock.hpp"

namespace warren::cli {

namespace {

/// Whether the file can contain a volume: a regular file or a block device.
bool is_image_file(const std::string& path) {
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0) return false;
    return S_ISREG(found.st_mode) || S_ISBLK(found.st_mode);
}

bool exists(const std::string& path) {
    struct stat found {};
    return ::lstat(path.c_str(), &found) == 0;
}

}  // namespace

Location parse_location(std::string_view text) {
    const std::string whole(text);
    for (size_t colon = whole.find(":/"); colon != std::string::npos;
         colon = whole.find(":/", colon + 1)) {
        const std::string image = whole.substr(0, colon);
        if (is_image_file(image)) return {whole, image, whole.substr(colon + 1)};
    }
    return {whole, "", whole};
}

std::string missing_hint(const Location& location) {
    const std::string& text = location.text;
    const size_t colon = text.find(':');
    if (location.in_image() || colon == std::string::npos || exists(text)) return "";
    const std::string image = text.substr(0, colon);
    if (is_image_file(image)) {
        const std::string behind = text.substr(colon + 1);
        return " (paths in an image begin with '/': write " + quote(image + ":/" + behind) + ")";
    }
    if (text.compare(colon, 2, ":/") == 0) return " (there is no image " + quote(image) + ")";
    return "";
}

void warn_of_exposure(const std::string& image) {
    if (!looks_like_volume(image)) return;
    const std::unique_ptr<char, decltype(&std::free)> full(::realpath(image.c_str(), nullptr),
                                                           &std::free);
    struct stat found {};
    if (!full || ::stat(full.get(), &found) != 0) return;
    const mode_t exposed = found.st_mode & (S_IROTH | S_IWOTH);
    std::string folder = full.get();
    while (exposed != 0 && folder.size() > 1) {
        folder.resize(std::max<size_t>(folder.rfind('/'), 1));
        struct stat above {};
        if (::stat(folder.c_str(), &above) != 0 || (above.st_mode & S_IXOTH) == 0) return;
    }
    if (exposed == 0) return;
    complain({"warning: any user may ", (exposed & S_IWOTH) != 0 ? "write" : "read", " ",
              quote(image), ", and lock it, which keeps others out: chmod o-rw ", quote(image)});
}

bool looks_like_volume(const std::string& path) {
    if (!is_image_file(path)) return false;
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return false;
    u64 magic = 0;
    const ssize_t got = ::pread(
        descriptor, &magic, sizeof magic,
        static_cast<off_t>(format::superblock_offset + offsetof(format::Superblock, magic)));
    ::close(descriptor);
    return got == static_cast<ssize_t>(sizeof magic) && magic == format::magic;
}

u32 process_umask() {
    static const mode_t mask = [] {
        const mode_t found = ::umask(0);
        ::umask(found);
        return found;
    }();
    return mask;
}

Caller command_caller() {
    Caller caller;
    caller.user = ::geteuid();
    caller.group = ::getegid();
    caller.umask = process_umask();
    caller.check = false;
    return caller;
}

Volume* Session::open(const std::string& image, Access access) {
    struct stat found {};
    if (::stat(image.c_str(), &found) != 0) {
        complain({"cannot open ", quote(image), ": ", reason(last_error())});
        return nullptr;
    }
    Opened& opened = volumes_[{found.st_dev, found.st_ino}];
    if (opened.volume) return opened.volume.get();
    OpenOptions options;
    options.read_only = access == Access::read;
    options.engine = engine_for_command();
    options.dedup_fill_bytes = 0;  // the command ends before the index could be filled
    options.refused = [image](const DiskRefusal& refusal) {
        complain({quote(image), ": ", refusal.text(),
                  "; nothing more is written to it: ", refusal.remedy()});
    };
    Failure failure;
    opened.image = image;
    opened.volume = Volume::open(image, options, failure);
    if (opened.volume) return opened.volume.get();
    std::string hint;
    if (failure.code == Errc::busy) {
        if (const std::string point = mount_point_of_image(image); !point.empty()) {
            hint = " (it is mounted: use " + quote(point) + ")";
        }
    }
    complain({failure.message, hint});
    return nullptr;
}

std::shared_ptr<Directory> Session::directory(const Location& location, Access access) {
    if (!location.in_image() && location.path.empty()) {
        complain({"cannot access ", quote(location.text), ": ", reason(Errc::no_entry)});
        return nullptr;
    }
    if (!location.in_image()) return host_directory();
    Volume* volume = open(location.image, access);
    return volume == nullptr ? nullptr : volume_directory(*volume, command_caller());
}

bool Session::close() {
    bool good = true;
    for (auto& [key, opened] : volumes_) {
        if (!opened.volume) continue;
        if (const Errc code = opened.volume->close(); code != Errc::ok) {
            complain({"closing ", quote(opened.image), ": ", reason(code)});
            good = false;
        }
        opened.volume.reset();
    }
    volumes_.clear();
    return good;
}

}  // namespace warren::cli
